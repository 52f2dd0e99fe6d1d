"""Names of the files that an open-loop evaluation writes, and from where on a prediction in them counts as wrong."""

from typing import Final

SCORES_FILE: Final = "scores.json"
SCORES_TABLE: Final = "scores.csv"
SAMPLES_TABLE: Final = "samples.csv"

MISS_THRESHOLD_M = 2.0
"""Distance of the last position beyond which a prediction is a miss."""
