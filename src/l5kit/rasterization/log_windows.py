"""The parts of a log that a batch of rasters shows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from l5kit._types import FloatArray, Int64Array, RecordArray
from l5kit.data.records import AGENT_DTYPE, TL_FACE_DTYPE
from l5kit.data.window_rows import WindowRows
from l5kit.rasterization.log_window import LogWindow


@dataclass(frozen=True)
class LogWindows:
    """B windows of a log: frames, newest first, with their rows, and the agent of interest of each.

    Attributes:
        frames: FRAME_DTYPE, (B, F); what stands behind the frames of a window means nothing.
        num_frames: Frames of each window, at least one, (B,).
        agents: AGENT_DTYPE, the agents of each frame.
        tl_faces: TL_FACE_DTYPE, the traffic light faces of each frame; (B, 0) for none at all.
        track_ids: The agent of interest of each window, (B,); None when it is the AV in all of them.
        positions_m: World x and y of the agent of interest in the newest frame, (B, 2).
        yaws_rad: Its world heading, (B,): float64 for the AV, float32 for agents.
    """

    frames: RecordArray
    num_frames: Int64Array
    agents: WindowRows
    tl_faces: WindowRows
    track_ids: NDArray[np.uint64] | None
    positions_m: FloatArray
    yaws_rad: FloatArray

    def __len__(self) -> int:
        return len(self.frames)

    @classmethod
    def from_window(cls, window: LogWindow) -> "LogWindows":
        """Return a batch of one window."""
        agent = window.agent
        return cls(
            frames=window.frames[None],
            num_frames=np.array([len(window.frames)], dtype=np.int64),
            agents=WindowRows.from_frames(window.agents, np.dtype(AGENT_DTYPE)),
            tl_faces=WindowRows.from_frames(window.tl_faces, np.dtype(TL_FACE_DTYPE)),
            track_ids=None if agent is None else np.array([agent["track_id"]]),
            positions_m=np.array([window.position_m]),
            yaws_rad=np.array([window.yaw_rad]),
        )
