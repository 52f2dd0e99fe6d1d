"""Checks of records of each kind; each function yields the rows that fail."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from l5kit._types import BoolArray, RecordArray
from l5kit.data.checks.finding import Severity
from l5kit.data.index.track_ids import NUM_TRACK_IDS
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.texts import code_points, is_text

MAX_COORDINATE_M = 1e8
"""World coordinates beyond this are not on Earth: it exceeds twice the circumference."""

_MAX_SPEED_MPS = 150.0
_MAX_EXTENT_M = 200.0
_MIN_STEP_NS = 1_000_000
_MAX_STEP_NS = 1_000_000_000
_NOMINAL_STEP_NS = 100_000_000
_MAX_TILT_DEG = 45.0
_NUM_EXACT_TRACK_IDS = 2**53
_ROTATION_TOLERANCE = 1e-4
_SUM_TOLERANCE = 1e-3

RowCheck = tuple[Severity, str, str, Any]
"""Severity, name and message of a check, and the rows (N,) that fail it."""


def check_scene_records(scenes: RecordArray) -> Iterator[RowCheck]:
    """Yield the checks of scenes."""
    start_ns, end_ns = scenes["start_time"], scenes["end_time"]
    yield "error", "times", "the scene ends before it starts", end_ns < start_ns
    intervals = scenes[FRAME_INTERVAL]
    has_no_times = (start_ns == 0) & (end_ns == 0) & (intervals[:, 0] == intervals[:, 1])
    yield "error", "times", "start_time is not positive", (start_ns <= 0) & ~has_no_times  # and no frames
    yield "error", "text", "host is not text", ~is_text(scenes["host"])


def check_frame_records(frames: RecordArray) -> Iterator[RowCheck]:
    """Yield the checks of frames."""
    yield "error", "timestamp", "timestamp is not positive", frames["timestamp"] <= 0
    yield from _check_finite(frames, ("ego_translation", "ego_rotation"))
    yield "error", "position", "ego_translation is not on Earth", _is_far(frames["ego_translation"])
    # a rotation matrix has orthonormal rows, R R^T = I, and is right-handed: row 3 is the cross product of rows 1 and 2
    rotations = frames["ego_rotation"].astype(np.float64)
    error = np.abs(rotations @ rotations.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
    handedness = np.einsum("ni,ni->n", np.cross(rotations[:, 0], rotations[:, 1]), rotations[:, 2])
    is_rotation = (error <= _ROTATION_TOLERANCE) & (handedness > 0)
    yield "error", "rotation", "ego_rotation is not a rotation matrix", ~is_rotation

    # the last entry is the cosine of the angle between the upward axes of vehicle and world
    is_tilted = is_rotation & (frames["ego_rotation"][:, 2, 2] < np.cos(np.radians(_MAX_TILT_DEG)))
    yield "error", "rotation", f"ego_rotation tilts the AV by more than {_MAX_TILT_DEG:g} degrees", is_tilted


def check_frame_steps(before: RecordArray, after: RecordArray) -> Iterator[RowCheck]:
    """Yield the checks of steps from one frame of a scene to the next; rows refer to ``after``."""
    steps_ns = after["timestamp"].astype(np.int64) - before["timestamp"].astype(np.int64)
    yield "error", "timestamp", "the timestamp is not later than that of the previous frame", steps_ns <= 0
    is_short = (steps_ns > 0) & (steps_ns < _MIN_STEP_NS)
    yield "error", "timestamp", "less than a millisecond has passed since the previous frame", is_short
    yield "warning", "timestamp", "more than a second has passed since the previous frame", steps_ns > _MAX_STEP_NS
    # bad times are reported already, so use a nominal step for the speed
    steps_s = np.where(steps_ns < _MIN_STEP_NS, _NOMINAL_STEP_NS, steps_ns) * 1e-9
    steps_m = np.linalg.norm(after["ego_translation"].astype(np.float64) - before["ego_translation"], axis=1)
    message = f"the AV has moved by more than {_MAX_SPEED_MPS:g} m/s since the previous frame"
    yield "error", "position", message, steps_m > _MAX_SPEED_MPS * steps_s


def check_agent_records(agents: RecordArray) -> Iterator[RowCheck]:
    """Yield the checks of agents."""
    yield from _check_finite(agents, ("centroid", "extent", "yaw", "velocity", "label_probabilities"))
    yield "error", "position", "centroid is not on Earth", _is_far(agents["centroid"])
    yield "error", "extent", "extent is not positive", (agents["extent"] <= 0).any(axis=1)
    yield "warning", "extent", f"extent is above {_MAX_EXTENT_M:g} m", (agents["extent"] > _MAX_EXTENT_M).any(axis=1)
    yield "warning", "yaw", "yaw is not between -2 pi and 2 pi", np.abs(agents["yaw"]) > 2 * np.pi
    speeding = (np.abs(agents["velocity"]) > _MAX_SPEED_MPS).any(axis=1)
    yield "warning", "velocity", f"velocity is above {_MAX_SPEED_MPS:g} m/s", speeding
    # negative ids are reported separately, and must not become huge when converted to unsigned
    track_ids = agents["track_id"]
    if track_ids.dtype.kind == "i":
        yield "error", "track id", "track_id is negative", track_ids < 0
        track_ids = np.maximum(track_ids, 0)
    track_ids = track_ids.astype(np.uint64)
    yield "error", "track id", "track_id is 2**63 or more, which samples cannot hold", track_ids >= NUM_TRACK_IDS
    is_inexact = (track_ids > _NUM_EXACT_TRACK_IDS) & (track_ids < NUM_TRACK_IDS)
    yield "warning", "track id", "track_id is above 2**53, which vector samples round", is_inexact
    probabilities = agents["label_probabilities"]
    yield "error", "labels", "a label probability is not between 0 and 1", _is_outside_unit(probabilities)
    off = np.abs(probabilities.sum(axis=1, dtype=np.float64) - 1) > _SUM_TOLERANCE
    yield "warning", "labels", "the label probabilities do not add up to 1", off


def check_face_records(faces: RecordArray) -> Iterator[RowCheck]:
    """Yield the checks of traffic light faces."""
    yield from _check_finite(faces, ("traffic_light_face_status",))
    status = faces["traffic_light_face_status"]
    yield "error", "status", "a status value is not between 0 and 1", _is_outside_unit(status)
    yield "warning", "status", "no status is above 0", ~(status > 0).any(axis=1)
    for field in ("face_id", "traffic_light_id"):
        yield "error", "text", f"{field} is not text", ~is_text(faces[field])
        yield "warning", "text", f"{field} is empty", code_points(faces[field])[:, 0] == 0


def _check_finite(records: RecordArray, fields: tuple[str, ...]) -> Iterator[RowCheck]:
    for field in fields:
        values = records[field].reshape(len(records), -1)
        yield "error", "finite", f"{field} is not finite", ~np.isfinite(values).all(axis=1)


def _is_far(positions_m: Any) -> BoolArray:
    far: BoolArray = (np.abs(positions_m) > MAX_COORDINATE_M).any(axis=1)
    return far


def _is_outside_unit(values: Any) -> BoolArray:
    outside: BoolArray = ((values < 0) | (values > 1 + _SUM_TOLERANCE)).any(axis=1)
    return outside
