"""Row filters: agents by label, track and distance, and the rows of frames and scenes."""

from collections.abc import Iterable

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float32Array, FloatArray, Int64Array, RecordArray, Records
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX, PERCEPTION_LABELS, TL_FACE_LABEL_TO_INDEX
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL, FRAME_INTERVAL

PERCEPTION_LABELS_TO_KEEP = PERCEPTION_LABELS[3:16]
"""Labels of road users: all classes from car to animal."""

PERCEPTION_LABEL_INDICES_TO_KEEP = [PERCEPTION_LABEL_TO_INDEX[label] for label in PERCEPTION_LABELS_TO_KEEP]
"""Columns of the classes in :data:`PERCEPTION_LABELS_TO_KEEP`."""

AGENT_MIN_FRAME_HISTORY = 10
"""Default number of past frames in which an agent must be valid to be used for training."""

AGENT_MIN_FRAME_FUTURE = 1
"""Default number of future frames in which an agent must be valid to be used for training."""

_FIRST_KEPT, _END_KEPT = PERCEPTION_LABEL_INDICES_TO_KEEP[0], PERCEPTION_LABEL_INDICES_TO_KEEP[-1] + 1


def _get_label_filter(label_probabilities: Float32Array, threshold: float) -> BoolArray:
    """Return a mask (N,) of the rows of (N, 17) whose summed probability of the kept classes is above the threshold.

    Sum and comparison are in float32.
    """
    mask: BoolArray = np.sum(label_probabilities[:, _FIRST_KEPT:_END_KEPT], axis=1) > np.float32(threshold)
    return mask


@kernel_jit
def kept_probability(label_probabilities: Float32Array) -> np.float32:
    """Return the summed probability of the kept classes of one row (17,), float32, bit-identical to NumPy's sum."""
    p = label_probabilities[_FIRST_KEPT:_END_KEPT]
    total: np.float32 = ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]))
    for i in range(8, len(p)):
        total += p[i]
    return total


def filter_agents_by_labels(agents: RecordArray, threshold: float = 0.5) -> RecordArray:
    """Return the agents whose summed probability of the kept classes is strictly above the threshold."""
    kept: RecordArray = agents[_get_label_filter(agents["label_probabilities"], threshold)]
    return kept


def filter_agents_by_distance(agents: RecordArray, centroid: FloatArray, max_distance: float) -> RecordArray:
    """Return the agents strictly closer than ``max_distance`` (m) to ``centroid`` (2,), closest first.

    Agents at the same distance keep their order.
    """
    distances_m = np.linalg.norm(agents["centroid"] - centroid, axis=-1)
    order = np.argsort(distances_m, kind="stable")
    closest: RecordArray = agents[order[distances_m[order] < max_distance]]
    return closest


def filter_agents_by_track_id(agents: RecordArray, track_id: int) -> RecordArray:
    """Return the agents of one track."""
    rows: RecordArray = agents[agents["track_id"] == track_id]
    return rows


def filter_agents_by_frames(frames: RecordArray, agents: Records) -> list[RecordArray]:
    """Return the agents of each frame.

    Args:
        frames: Frames (F,) or a single frame, with intervals of rows of ``agents``.
        agents: Agents as a NumPy array or an array of a dataset.

    Returns:
        One array per frame.
    """
    return [agents[slice(*interval)] for interval in _intervals(frames, AGENT_INTERVAL)]


def filter_tl_faces_by_frames(frames: RecordArray, tl_faces: Records) -> list[RecordArray]:
    """Return the traffic light faces of each frame; arguments as in :func:`filter_agents_by_frames`."""
    return [tl_faces[slice(*interval)] for interval in _intervals(frames, FACE_INTERVAL)]


def filter_tl_faces_by_status(tl_faces: RecordArray, status: str) -> RecordArray:
    """Return the faces with a positive value for a status, one of ``TL_FACE_LABELS``.

    Raises:
        KeyError: The status does not exist.
    """
    column = TL_FACE_LABEL_TO_INDEX[status]
    rows: RecordArray = tl_faces[tl_faces["traffic_light_face_status"][:, column] > 0]
    return rows


def get_frames_slice_from_scenes(scene_a: RecordArray, scene_b: RecordArray | None = None) -> slice:
    """Return the rows of ``frames`` from the first of ``scene_a`` to the last of ``scene_b`` (of the same if None)."""
    return _slice_between(scene_a, scene_b, FRAME_INTERVAL)


def get_agents_slice_from_frames(frame_a: RecordArray, frame_b: RecordArray | None = None) -> slice:
    """Return the rows of ``agents`` from the first of ``frame_a`` to the last of ``frame_b`` (of the same if None)."""
    return _slice_between(frame_a, frame_b, AGENT_INTERVAL)


def get_tl_faces_slice_from_frames(frame_a: RecordArray, frame_b: RecordArray | None = None) -> slice:
    """Return the rows of the faces from the first of ``frame_a`` to the last of ``frame_b`` (of the same if None)."""
    return _slice_between(frame_a, frame_b, FACE_INTERVAL)


def get_other_agents_ids(
    all_agents_ids: Iterable[np.uint64],
    priority_ids: Iterable[np.uint64],
    selected_track_id: int | None,
    max_agents: int,
) -> list[np.uint64]:
    """Return at most ``max_agents`` distinct track ids other than the selected one, priority ids first.

    The order is that of a Python set filled in order of selection, as in L5Kit 1.5: deterministic, but neither sorted
    nor by distance.
    """
    chosen: set[np.uint64] = set()
    for ids in (priority_ids, all_agents_ids):
        for track_id in ids:
            if len(chosen) >= max_agents:
                break
            if selected_track_id is None or track_id != selected_track_id:
                chosen.add(track_id)
    return list(chosen)


def _intervals(frames: RecordArray, field: str) -> Int64Array:
    """Return the interval field of one or several frames as (F, 2) int64."""
    return np.reshape(frames[field], (-1, 2))


def _slice_between(first: RecordArray, last: RecordArray | None, field: str) -> slice:
    return slice(first[field][0], (first if last is None else last)[field][1])
