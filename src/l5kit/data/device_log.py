"""Logs on a device: frames, agents and faces as kernels read them, and the windows of a batch."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit

from l5kit._types import Float32Array, Float64Array, RecordArray
from l5kit.device.backend import Backend, DeviceArray
from l5kit.geometry.transform import yaw_of_x_axis

__all__ = ["DEVICE_AGENT_DTYPE", "DeviceLog", "DeviceTargets", "DeviceWindows"]

DEVICE_AGENT_DTYPE: Final[np.dtype[np.void]] = np.dtype(
    [
        ("centroid", np.float64, (2,)),
        ("track_id", np.uint64),
        ("label_probabilities", np.float32, (17,)),
        ("extent", np.float32, (3,)),
        ("yaw", np.float32),
        ("cos", np.float32),
        ("sin", np.float32),
    ],
    align=True,
)
"""An agent in a frame, as in ``AGENT_DTYPE`` without its velocity, and cosine and sine of its yaw.

These two are those of NumPy, so that boxes have the corners that the processor gives them. Numbers lie at multiples of
their size, as a GPU needs it.
"""


@dataclass(frozen=True, eq=False)
class DeviceLog:
    """The F frames and N agents of a log on a device, and the T faces of its traffic lights.

    Attributes:
        backend: The device.
        agent_bounds: First agent and end agent of each frame, int64 (F, 2).
        face_bounds: First face and end face of each frame, int64 (F, 2).
        av_positions_m: World x and y of the AV, float64 (F, 2).
        av_headings: Its yaw, cosine and sine of it, float32 (F, 3).
        agents: :data:`DEVICE_AGENT_DTYPE`, (N,).
        faces: Row of each face among those of a map, -1 for one that is not active or that the map does not have,
            int32 (T,).
    """

    backend: Backend
    agent_bounds: DeviceArray
    face_bounds: DeviceArray
    av_positions_m: DeviceArray
    av_headings: DeviceArray
    agents: DeviceArray
    faces: DeviceArray


@dataclass(frozen=True, eq=False)
class DeviceWindows:
    """The windows of a batch on a device: B windows of C columns, the H of the history first, newest frame first.

    Attributes:
        num_history: H.
        is_there: Which frames a window has, bool (B, C).
        starts: First agent of each frame, int64 (B, C); equal to the end where there is no frame.
        stops: End agent of each frame, int64 (B, C).
        face_bounds: First and end face of the newest frame, int64 (B, 2).
        av_positions_m: World x and y of the AV, float64 (B, C, 2).
        av_headings: Its yaw, cosine and sine of it, float32 (B, C, 3).
    """

    num_history: int
    is_there: DeviceArray
    starts: DeviceArray
    stops: DeviceArray
    face_bounds: DeviceArray
    av_positions_m: DeviceArray
    av_headings: DeviceArray


@dataclass(frozen=True, eq=False)
class DeviceTargets:
    """Whom the windows of a batch are about, on a device.

    Attributes:
        has_tracks: Whether they are agents; else the AV in all windows.
        track_ids: Their tracks, uint64 (B,); 0 for the AV.
        centroids_m: World x and y, float64 (B, 2).
        yaws_rad: World headings, float32 (B,).
        agent_from_world: Their frames, float64 (B, 3, 3).
        extent_m: Length and width of the AV in all of them.
    """

    has_tracks: bool
    track_ids: DeviceArray
    centroids_m: DeviceArray
    yaws_rad: DeviceArray
    agent_from_world: DeviceArray
    extent_m: tuple[float, float]


def as_device_agents(agents: RecordArray) -> RecordArray:
    """Return agents (N,) as a device keeps them."""
    rows: RecordArray = np.empty(len(agents), DEVICE_AGENT_DTYPE)
    for name in ("centroid", "track_id", "label_probabilities", "extent", "yaw"):
        rows[name] = agents[name]
    rows["cos"], rows["sin"] = np.cos(rows["yaw"]), np.sin(rows["yaw"])
    return rows


def av_headings(rotations: Float64Array) -> Float32Array:
    """Return yaw, cosine and sine of rotations (N, 3, 3), as the AV is drawn and traced with, float32 (N, 3)."""
    yaws_rad = np.empty(len(rotations), np.float32)
    _write_yaws(np.ascontiguousarray(rotations), yaws_rad)
    return np.stack([yaws_rad, np.cos(yaws_rad), np.sin(yaws_rad)], axis=1)


@njit(nogil=True, cache=True, error_model="numpy")
def _write_yaws(rotations: Float64Array, yaws_rad: Float32Array) -> None:
    for i in range(len(rotations)):
        yaws_rad[i] = yaw_of_x_axis(rotations[i, 0, 0], rotations[i, 1, 0])
