"""Log window: the part of a log that one raster shows, as rasterizers of 1.x take it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import RecordArray
from l5kit.data.log_facts import EGO_EXTENT_M
from l5kit.data.windows import Targets, Windows
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

    def as_batch(self) -> tuple[Windows, Targets]:
        """Return the window, and whom it is about, as a batch of one."""
        return Windows.of_frames(self.frames, self.agents, self.tl_faces), self._target()

    def _target(self) -> Targets:
        agent = self.agent
        if agent is None:
            av = self.frames[0]
            return Targets(
                track_ids=None,
                rows=None,
                centroids_m=np.array([av["ego_translation"][:2]]),
                yaws_rad=np.array([rotation33_as_yaw(av["ego_rotation"])]),
                extents_m=np.array([EGO_EXTENT_M]),
            )
        return Targets(
            track_ids=np.array([agent["track_id"]]),
            rows=None,
            centroids_m=np.array([agent["centroid"]]),
            yaws_rad=np.array([agent["yaw"]]),
            extents_m=np.array([agent["extent"]]),
        )
