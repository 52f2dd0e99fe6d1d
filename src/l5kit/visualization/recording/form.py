"""How much of a scene is recorded."""

import math
from dataclasses import dataclass

from l5kit.errors import InvalidArgumentError

WORLD_FRAME, SCENE_FRAME, EGO_FRAME = "world", "scene", "ego"
"""Names of the coordinate frames.

The world is that of the dataset. The axes of the scene are those of the world, and its origin is where the AV is in the
first frame, so that what is drawn has small coordinates. The AV looks along the x of its own frame.
"""


@dataclass(frozen=True)
class RecordingForm:
    """How much of a scene is recorded.

    Attributes:
        map_radius_m: Lanes and crosswalks whose bounds are within this distance of a position of the AV, along x and y,
            are recorded; infinity takes the whole map.
        ego_trajectory_s: How far back and ahead the trajectory of the AV reaches in each frame.
        agent_trajectory_s: The same for agents.

    Raises:
        InvalidArgumentError: A value is negative or not a number, or a duration is infinite.
    """

    map_radius_m: float = 150.0
    ego_trajectory_s: float = 10.0
    agent_trajectory_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.map_radius_m >= 0:
            raise InvalidArgumentError(f"map_radius_m is {self.map_radius_m}; allowed are 0 metres or more")
        for name in ("ego_trajectory_s", "agent_trajectory_s"):
            seconds = getattr(self, name)
            if not 0 <= seconds < math.inf:
                raise InvalidArgumentError(f"{name} is {seconds}; allowed is a finite number of seconds from 0 on")


USUAL_FORM = RecordingForm()
