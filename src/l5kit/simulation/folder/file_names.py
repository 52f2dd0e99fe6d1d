"""Names of the files that a simulation writes."""

from typing import Final

__all__ = ["DRIVEN_LOG", "FRAMES_TABLE", "PLANS_FILE", "RUN_FILE", "SCENES_TABLE", "SCORES_FILE"]

SCORES_FILE: Final = "scores.json"
SCENES_TABLE: Final = "scenes.csv"
FRAMES_TABLE: Final = "frames.csv"
DRIVEN_LOG: Final = "simulated.zarr"
PLANS_FILE: Final = "plans.npz"
RUN_FILE: Final = "run.json"
