"""The part of a log that one raster shows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import FloatArray, RecordArray
from l5kit.errors import IndexOutOfRangeError
from l5kit.geometry.transform import rotation33_as_yaw


@dataclass(frozen=True)
class LogWindow:
    """Frames, newest first, with their agents and traffic light faces, and the agent of interest.

    Attributes:
        frames: FRAME_DTYPE, shape (F,), at least one.
        agents: The agents of each frame, AGENT_DTYPE.
        tl_faces: The traffic light faces of each frame, TL_FACE_DTYPE; may be empty.
        agent: The agent of interest, a row of AGENT_DTYPE; None for the AV.

    Raises:
        IndexOutOfRangeError: There is no frame, or one has no agents array.
    """

    frames: RecordArray
    agents: Sequence[RecordArray]
    tl_faces: Sequence[RecordArray]
    agent: np.void | None

    def __post_init__(self) -> None:
        if len(self.frames) == 0 or len(self.agents) != len(self.frames):
            raise IndexOutOfRangeError(
                f"history_frames holds {len(self.frames)} frames and history_agents {len(self.agents)} arrays;"
                " pass at least the current frame and one array of agents for each frame"
            )

    @property
    def position_m(self) -> FloatArray:
        """World x and y of the agent of interest in the newest frame, shape (2,)."""
        position_m: FloatArray = self.frames[0]["ego_translation"] if self.agent is None else self.agent["centroid"]
        return position_m[:2]

    @property
    def yaw_rad(self) -> float:
        """World heading of the agent of interest: a float for the AV, ``np.float32`` for another agent."""
        return rotation33_as_yaw(self.frames[0]["ego_rotation"]) if self.agent is None else self.agent["yaw"]
