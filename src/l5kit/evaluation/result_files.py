"""Names of the files of an open-loop evaluation, and the threshold of a miss."""

from typing import Final

SCORES_FILE: Final = "scores.json"
SCORES_TABLE: Final = "scores.csv"
SAMPLES_TABLE: Final = "samples.csv"

MISS_THRESHOLD_M = 2.0
"""Error of the last position above which a prediction is a miss."""
