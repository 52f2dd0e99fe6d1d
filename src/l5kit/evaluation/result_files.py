"""Names of the files that an open-loop evaluation writes."""

from typing import Final

SCORES_FILE: Final = "scores.json"
SCORES_TABLE: Final = "scores.csv"
SAMPLES_TABLE: Final = "samples.csv"
