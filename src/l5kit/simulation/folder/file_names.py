"""Names of the files that a simulation writes."""

from typing import Final

SCORES_FILE: Final = "scores.json"
SCENES_TABLE: Final = "scenes.csv"
FRAMES_TABLE: Final = "frames.csv"
DRIVEN_LOG: Final = "simulated.zarr"
PLANS_FILE: Final = "plans.npz"
RUN_FILE: Final = "run.json"
