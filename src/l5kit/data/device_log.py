"""Device log: frames, agents and faces of a log on a device, and windows that are cut there."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float32Array, Float64Array, Int32Array, Int64Array, NumericArray, RecordArray, Records
from l5kit.data.index.track_ids import NUM_TRACK_IDS
from l5kit.data.index.windows import WindowArrays, Windows, WindowSteps
from l5kit.data.map.lane_lights import LaneLights
from l5kit.data.record_sequence import ROWS_PER_BLOCK, rows_of
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL
from l5kit.device.backend import Backend, DeviceArray, KernelArguments
from l5kit.geometry.transform import yaw_of_x_axis

_ROWS_AT_ONCE: Final = 1 << 20
"""Agents read and sent per block: 120 MB."""

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
"""Agent on a device: ``AGENT_DTYPE`` without the velocity, with cosine and sine of the yaw.

Cosine and sine come from NumPy, so that boxes have the same corners as on the CPU. Fields are aligned to their size, as
GPUs require.
"""


@dataclass(frozen=True, eq=False)
class DeviceLog:
    """Frames (F), agents (N) and traffic light faces (T) of a log on a device.

    Attributes:
        backend: The device.
        agent_bounds: First agent and end agent of each frame, int64 (F, 2).
        face_bounds: First face and end face of each frame, int64 (F, 2).
        av_positions_m: World x and y of the AV, float64 (F, 2).
        av_headings: Yaw of the AV, its cosine and sine, float32 (F, 3).
        agents: :data:`DEVICE_AGENT_DTYPE`, (N,).
        faces: Row of each face among the faces of a map, int32 (T,); -1 if it is inactive or not on the map.
        most_agents: Maximum number of agents per frame.
        has_large_ids: Whether a track id is too large for samples; code that writes ids has to check.
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
class MovedAvs:
    """AVs moved by a perturbation, in all C frames of B windows.

    Attributes:
        positions_m: World x and y, float64 (B, C, 2).
        headings: Yaw, cosine and sine, float32 (B, C, 3).
    """

    positions_m: Float64Array
    headings: Float32Array

    @classmethod
    def of_frames(cls, frames: RecordArray) -> "MovedAvs":
        """Return the AVs of frames, FRAME_DTYPE (B, C)."""
        headings = av_headings(frames["ego_rotation"].reshape(-1, 3, 3)).reshape(*frames.shape, 3)
        return cls(np.ascontiguousarray(frames["ego_translation"][..., :2]), headings)


def upload_log(
    backend: Backend, frames: RecordArray, agents: Records, tl_faces: Records, lights: LaneLights | None
) -> DeviceLog | None:
    """Return a log whose records are on a device; None if the frames do not match its agents and faces.

    Args:
        backend: The device.
        frames: All frames, FRAME_DTYPE.
        agents: All agents; read and sent in blocks.
        tl_faces: All faces; may be empty whatever the intervals are.
        lights: Numbering of the faces; None for no lights.
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


def send_windows(backend: Backend, windows: Windows, lights: LaneLights | None) -> tuple[DeviceLog, WindowArrays]:
    """Return windows of a log that is not on the device, with only the records that they need.

    Args:
        backend: The device.
        windows: B windows.
        lights: Numbering of the traffic light faces; None for no lights.
    """
    agents, starts, stops = windows.agents.joined()
    newest = windows.tl_faces.frames(0, 1)
    faces, face_starts, face_stops = newest.joined()
    if lights is None or newest.num_frames == 0:
        face_indices, face_bounds = no_faces(), np.zeros((len(windows), 2), np.int64)
    else:
        face_indices, face_bounds = lights.number_faces(faces), np.concatenate([face_starts, face_stops], axis=1)
    columns = np.arange(windows.frames.shape[1])
    # columns of the past, newest first, then of the future; a window fills the first columns of each
    is_there = np.where(
        columns < windows.num_history,
        columns < windows.counts[0][:, None],
        columns - windows.num_history < windows.counts[1][:, None],
    )
    avs = MovedAvs.of_frames(windows.frames)
    positions_m = np.where(is_there[..., None], avs.positions_m, 0.0)
    there, faces_there, *cut = backend.upload(
        [as_device_agents(agents), face_indices, is_there, starts, stops, face_bounds, positions_m, avs.headings]
    )
    none = backend.zeros((0, 2), np.int64)
    most_agents = int(windows.agents.counts.max(initial=0))
    log = DeviceLog(backend, none, none, cut[4], cut[5], there, faces_there, most_agents, _has_large_ids(agents))
    size_m = _as_float32(windows.ego_extent_m)
    return log, WindowArrays(cut[0], cut[1], cut[2], cut[3], cut[4], cut[5], size_m, windows.num_history)


def cut_on_device(
    log: DeviceLog,
    frame_rows: NumericArray,
    steps: WindowSteps,
    moved: MovedAvs | None = None,
    *,
    ego_extent_m: tuple[float, float, float],
) -> WindowArrays:
    """Return the windows around frames of a log.

    Args:
        log: The log.
        frame_rows: Current frame of each window, first frame and end frame of its scene, int64 (3, B).
        steps: Frames of each window.
        moved: Poses of the AVs; None for the logged poses.
        ego_extent_m: Length, width and height of the AV.
    """
    backend, num_history = log.backend, steps.history_num_frames + 1
    shape = (frame_rows.shape[1], num_history + steps.future_num_frames)
    if moved is None:
        sent = backend.upload_one(frame_rows)
        positions_m, headings = backend.empty((*shape, 2), np.float64), backend.empty((*shape, 3), np.float32)
    else:
        sent, positions_m, headings = backend.upload([frame_rows, moved.positions_m, moved.headings])
    cut = WindowArrays(
        backend.empty(shape, np.bool_),
        backend.empty(shape, np.int64),
        backend.empty(shape, np.int64),
        backend.empty((shape[0], 2), np.int64),
        positions_m,
        headings,
        av_size_m=_as_float32(ego_extent_m),
        num_history=num_history,
    )
    backend.run(
        _cut,
        shape[0] * shape[1],
        (log.agent_bounds, log.face_bounds, log.av_positions_m, log.av_headings),
        sent,
        (steps.history_step_size, steps.future_step_size, moved is None),
        cut,
    )
    return cut


def most_agents_of(frames: Records, num_agents: int) -> int:
    """Return the maximum number of agents per frame, among frames with a valid interval."""
    most = 0
    for first in range(0, len(frames), ROWS_PER_BLOCK):
        starts, stops = _bounds(rows_of(frames, slice(first, first + ROWS_PER_BLOCK)), AGENT_INTERVAL).T
        is_sound = (starts >= 0) & (stops <= num_agents)
        most = max(most, int((stops - starts)[is_sound].max(initial=0)))
    return most


def no_faces() -> Int32Array:
    """Return an empty array of face numbers."""
    return np.zeros(0, np.int32)


def _bounds(frames: RecordArray, field: str) -> Int64Array:
    """Return an interval of all frames (F, 2), zeros if frames lack the field."""
    if field not in (frames.dtype.names or ()):
        return np.zeros((len(frames), 2), np.int64)
    return np.ascontiguousarray(frames[field], np.int64)


def _lie_within(bounds: Int64Array, length: int) -> bool:
    """Return whether intervals (F, 2) ascend and lie within an array."""
    starts, stops = bounds.T
    return bool(((starts >= 0) & (starts <= stops) & (stops <= length)).all())


def _as_float32(extent_m: tuple[float, float, float]) -> tuple[float, float]:
    """Return length and width of the AV in the precision of the agents' extents."""
    return float(np.float32(extent_m[0])), float(np.float32(extent_m[1]))


def _has_large_ids(agents: RecordArray) -> bool:
    """Return whether a track id is too large for samples."""
    return bool(agents["track_id"].max(initial=0) >= NUM_TRACK_IDS)


def as_device_agents(agents: RecordArray) -> RecordArray:
    """Return agents (N,) in the device format."""
    rows: RecordArray = np.empty(len(agents), DEVICE_AGENT_DTYPE)
    for name in ("centroid", "track_id", "label_probabilities", "extent", "yaw"):
        rows[name] = agents[name]
    rows["cos"], rows["sin"] = np.cos(rows["yaw"]), np.sin(rows["yaw"])
    return rows


def av_headings(rotations: Float64Array) -> Float32Array:
    """Return yaw, cosine and sine of rotations (N, 3, 3), as used to draw and trace the AV, float32 (N, 3)."""
    yaws_rad = np.empty(len(rotations), np.float32)
    _write_yaws(np.ascontiguousarray(rotations), yaws_rad)
    return np.stack([yaws_rad, np.cos(yaws_rad), np.sin(yaws_rad)], axis=1)


@kernel_jit
def _write_yaws(rotations: Float64Array, yaws_rad: Float32Array) -> None:
    for i in range(len(rotations)):
        yaws_rad[i] = yaw_of_x_axis(rotations[i, 0, 0], rotations[i, 1, 0])


@kernel_jit
def _cut(item: int, arguments: KernelArguments) -> None:
    """Write one frame of a window; frames outside the scene are empty."""
    log, frame_rows, (past_step, future_step, is_logged), of_windows = arguments
    agent_bounds, face_bounds, log_positions_m, log_headings = log
    cut = WindowArrays(*of_windows)
    num_history, num_columns = cut.num_history, cut.starts.shape[1]
    window, column = item // num_columns, item % num_columns
    current, first, end = frame_rows[0, window], frame_rows[1, window], frame_rows[2, window]
    # past columns go back from the current frame, which is the first; future columns start one step ahead
    row = current - column * past_step if column < num_history else current + (column - num_history + 1) * future_step
    cut.is_there[window, column] = first <= row < end
    cut.starts[window, column] = cut.stops[window, column] = 0
    if first <= row < end:
        cut.starts[window, column], cut.stops[window, column] = agent_bounds[row, 0], agent_bounds[row, 1]
    if is_logged and first <= row < end:
        for axis in range(2):
            cut.av_positions_m[window, column, axis] = log_positions_m[row, axis]
        for axis in range(3):
            cut.av_headings[window, column, axis] = log_headings[row, axis]
    if column == 0:
        cut.face_bounds[window, 0], cut.face_bounds[window, 1] = face_bounds[row, 0], face_bounds[row, 1]
