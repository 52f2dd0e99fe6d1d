"""What must hold for records of each kind; each function returns the rows where it does not."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from l5kit._types import BoolArray, RecordArray
from l5kit.data.finding import Severity

_MAX_CODE_POINT = 0x10FFFF
_MAX_COORDINATE_M = 1e8
_MAX_SPEED_MPS = 150.0
_MAX_EXTENT_M = 200.0
_ROTATION_TOLERANCE = 1e-4
_SUM_TOLERANCE = 1e-3

RowCheck = tuple[Severity, str, str, Any]
"""Severity, name and message of a check, and the rows (N,) that fail it."""


def check_scene_records(scenes: RecordArray) -> Iterator[RowCheck]:
    """Yield the checks of scenes."""
    start_ns, end_ns = scenes["start_time"], scenes["end_time"]
    yield "error", "times", "the scene ends before it starts", end_ns < start_ns
    yield "error", "times", "start_time is not positive", start_ns <= 0
    yield "error", "text", "host is not text", ~_is_text(scenes["host"])


def check_frame_records(frames: RecordArray) -> Iterator[RowCheck]:
    """Yield the checks of frames."""
    yield "error", "timestamp", "timestamp is not positive", frames["timestamp"] <= 0
    yield from _check_finite(frames, ("ego_translation", "ego_rotation"))
    yield "error", "position", "ego_translation is not on Earth", _is_far(frames["ego_translation"])
    yield "error", "rotation", "ego_rotation is no rotation matrix", ~_is_rotation(frames["ego_rotation"])


def check_agent_records(agents: RecordArray) -> Iterator[RowCheck]:
    """Yield the checks of agents."""
    yield from _check_finite(agents, ("centroid", "extent", "yaw", "velocity", "label_probabilities"))
    yield "error", "position", "centroid is not on Earth", _is_far(agents["centroid"])
    yield "error", "extent", "extent is not positive", (agents["extent"] <= 0).any(axis=1)
    yield "warning", "extent", f"extent is above {_MAX_EXTENT_M:g} m", (agents["extent"] > _MAX_EXTENT_M).any(axis=1)
    yield "warning", "yaw", "yaw is not between -2 pi and 2 pi", np.abs(agents["yaw"]) > 2 * np.pi
    speeding = (np.abs(agents["velocity"]) > _MAX_SPEED_MPS).any(axis=1)
    yield "warning", "velocity", f"velocity is above {_MAX_SPEED_MPS:g} m/s", speeding
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
        yield "error", "text", f"{field} is not text", ~_is_text(faces[field])
        yield "warning", "text", f"{field} is empty", _code_points(faces[field])[:, 0] == 0


def _check_finite(records: RecordArray, fields: tuple[str, ...]) -> Iterator[RowCheck]:
    for field in fields:
        values = records[field].reshape(len(records), -1)
        yield "error", "finite", f"{field} is not finite", ~np.isfinite(values).all(axis=1)


def _is_far(positions_m: Any) -> BoolArray:
    far: BoolArray = (np.abs(positions_m) > _MAX_COORDINATE_M).any(axis=1)
    return far


def _is_rotation(matrices: Any) -> BoolArray:
    """Return which matrices (N, 3, 3) have orthonormal rows and determinant +1."""
    rotations = matrices.astype(np.float64)
    error = np.abs(rotations @ rotations.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
    handedness = np.einsum("ni,ni->n", np.cross(rotations[:, 0], rotations[:, 1]), rotations[:, 2])
    right_handed: BoolArray = (error <= _ROTATION_TOLERANCE) & (handedness > 0)
    return right_handed


def _is_outside_unit(values: Any) -> BoolArray:
    outside: BoolArray = ((values < 0) | (values > 1 + _SUM_TOLERANCE)).any(axis=1)
    return outside


def _code_points(texts: Any) -> Any:
    """Return the code points (N, length) of fixed-width texts, which need not be valid ones."""
    contiguous = np.ascontiguousarray(texts)
    return contiguous.view(np.dtype(np.uint32).newbyteorder(contiguous.dtype.byteorder)).reshape(len(texts), -1)


def _is_text(texts: Any) -> BoolArray:
    valid: BoolArray = (_code_points(texts) <= _MAX_CODE_POINT).all(axis=1)
    return valid
