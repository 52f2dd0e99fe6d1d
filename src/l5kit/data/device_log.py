"""Logs on a device: frames, agents and faces as kernels read them, and the windows of a batch."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit

from l5kit._types import Float32Array, Float64Array, Int32Array, Int64Array, RecordArray, Records
from l5kit.data.map.lane_lights import LaneLights
from l5kit.data.record_bytes import join_records
from l5kit.data.record_sequence import ROWS_PER_BLOCK, rows_of
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL
from l5kit.data.track_ids import NUM_TRACK_IDS
from l5kit.data.window_rows import WindowRows
from l5kit.data.windows import Windows
from l5kit.device.backend import Backend, DeviceArray
from l5kit.geometry.transform import yaw_of_x_axis

__all__ = [
    "DEVICE_AGENT_DTYPE",
    "DeviceLog",
    "DeviceTargets",
    "DeviceWindows",
    "as_device_agents",
    "av_headings",
    "most_agents_of",
    "send_windows",
    "upload_log",
]

_ROWS_AT_ONCE: Final = 1 << 20
"""Agents that are read and sent at once: 120 MB."""

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
        most_agents: The most agents of any frame.
        has_large_ids: Whether a track has an id that samples cannot hold, which is for what writes ids to find out.
    """

    backend: Backend
    agent_bounds: DeviceArray
    face_bounds: DeviceArray
    av_positions_m: DeviceArray
    av_headings: DeviceArray
    agents: DeviceArray
    faces: DeviceArray
    most_agents: int
    has_large_ids: bool = False


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


def upload_log(
    backend: Backend, frames: RecordArray, agents: Records, tl_faces: Records, lights: LaneLights | None
) -> DeviceLog | None:
    """Return a log whose records lie on a device; None for one whose frames do not fit its agents and faces.

    Args:
        backend: The device.
        frames: All frames, FRAME_DTYPE.
        agents: All agents, which are read and sent in blocks.
        tl_faces: All faces; may be empty, whatever the frames say.
        lights: Numbers the faces; None for no lights.
    """
    num_agents = len(agents)
    faces = no_faces() if lights is None else lights.number_faces(rows_of(tl_faces, slice(0, len(tl_faces))))
    agent_bounds, face_bounds = _bounds(frames, AGENT_INTERVAL), _bounds(frames, FACE_INTERVAL)
    if len(faces) == 0:
        face_bounds = np.zeros_like(face_bounds)
    if not (_lie_within(agent_bounds, num_agents) and _lie_within(face_bounds, len(faces))):
        return None
    records, has_large_ids = backend.empty(num_agents, DEVICE_AGENT_DTYPE), False
    for first in range(0, num_agents, _ROWS_AT_ONCE):
        rows = rows_of(agents, slice(first, min(first + _ROWS_AT_ONCE, num_agents)), strict=True)
        backend.put(records, first, as_device_agents(rows))
        has_large_ids = has_large_ids or _has_large_ids(rows)
    positions_m = np.ascontiguousarray(frames["ego_translation"][:, :2])
    sent = backend.upload([agent_bounds, face_bounds, positions_m, av_headings(frames["ego_rotation"]), faces])
    most_agents = int((agent_bounds[:, 1] - agent_bounds[:, 0]).max(initial=0))
    return DeviceLog(backend, sent[0], sent[1], sent[2], sent[3], records, sent[4], most_agents, has_large_ids)


def send_windows(backend: Backend, windows: Windows, lights: LaneLights | None) -> tuple[DeviceLog, DeviceWindows]:
    """Return windows of a log that does not lie on a device, with only the records that they need.

    Args:
        backend: The device.
        windows: B windows.
        lights: Numbers the faces of their traffic lights; None for no lights.
    """
    agents, starts, stops = _joined(windows.agents)
    newest = windows.tl_faces.head(1)
    faces, face_starts, face_stops = _joined(newest)
    if lights is None or newest.num_frames == 0:
        numbers, face_bounds = no_faces(), np.zeros((len(windows), 2), np.int64)
    else:
        numbers, face_bounds = lights.number_faces(faces), np.concatenate([face_starts, face_stops], axis=1)
    columns = np.arange(windows.frames.shape[1])
    is_there = np.where(
        columns < windows.num_history,
        columns < windows.counts[0][:, None],
        columns - windows.num_history < windows.counts[1][:, None],
    )
    frames = windows.frames
    positions_m = np.where(is_there[..., None], frames["ego_translation"][..., :2], 0.0)
    headings = av_headings(frames["ego_rotation"].reshape(-1, 3, 3)).reshape(*frames.shape, 3)
    sent = backend.upload(
        [as_device_agents(agents), numbers, is_there, starts, stops, face_bounds, positions_m, headings]
    )
    none = backend.zeros((0, 2), np.int64)
    most_agents = int(windows.agents.counts.max(initial=0))
    log = DeviceLog(backend, none, none, sent[6], sent[7], sent[0], sent[1], most_agents, _has_large_ids(agents))
    return log, DeviceWindows(windows.num_history, *sent[2:])


def most_agents_of(frames: Records, num_agents: int) -> int:
    """Return the most agents of any frame whose interval lies within the agents of its log."""
    most = 0
    for first in range(0, len(frames), ROWS_PER_BLOCK):
        starts, stops = _bounds(rows_of(frames, slice(first, first + ROWS_PER_BLOCK)), AGENT_INTERVAL).T
        is_sound = (starts >= 0) & (stops <= num_agents)
        most = max(most, int((stops - starts)[is_sound].max(initial=0)))
    return most


def no_faces() -> Int32Array:
    """Return the numbers of no face."""
    return np.zeros(0, np.int32)


def _bounds(frames: RecordArray, field: str) -> Int64Array:
    """Return an interval of all frames (F, 2), zeros for frames that have none."""
    if field not in (frames.dtype.names or ()):
        return np.zeros((len(frames), 2), np.int64)
    return np.ascontiguousarray(frames[field], np.int64)


def _lie_within(bounds: Int64Array, length: int) -> bool:
    """Return whether intervals (F, 2) ascend and lie within an array."""
    starts, stops = bounds.T
    return bool(((starts >= 0) & (starts <= stops) & (stops <= length)).all())


def _joined(rows: WindowRows) -> tuple[RecordArray, Int64Array, Int64Array]:
    """Return the rows of all windows as one array, and where those of each frame start and end in it, (B, F)."""
    starts, stops = rows.starts.copy(), rows.stops.copy()
    parts, end = [], 0
    for window, (window_starts, window_stops) in enumerate(zip(starts, stops, strict=True)):
        is_filled = window_stops > window_starts
        low = int(window_starts[is_filled].min()) if is_filled.any() else 0
        high = int(window_stops[is_filled].max(initial=0))
        array = rows.arrays[0] if len(rows.arrays) == 1 else rows.arrays[window]
        parts.append(array[low:high])
        window_starts += end - low
        window_stops += end - low
        window_starts[~is_filled] = window_stops[~is_filled] = 0
        end += high - low
    return join_records(parts) if parts else rows.arrays[0][:0], starts, stops


def _has_large_ids(agents: RecordArray) -> bool:
    """Return whether a track has an id that samples cannot hold."""
    return bool(agents["track_id"].max(initial=0) >= NUM_TRACK_IDS)


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
