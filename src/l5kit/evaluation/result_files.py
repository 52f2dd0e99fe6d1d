"""Names of the files that an open-loop evaluation writes."""

from typing import Final

__all__ = ["SAMPLES_TABLE", "SCORES_FILE", "SCORES_TABLE"]

SCORES_FILE: Final = "scores.json"
SCORES_TABLE: Final = "scores.csv"
SAMPLES_TABLE: Final = "samples.csv"
