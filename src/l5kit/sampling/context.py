"""The part of a scene that a sample is made of: frames before and after the current one, with their rows."""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from l5kit._types import Int64Array, NumericArray, RecordArray
from l5kit.data.record_sequence import rows_of
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError
from l5kit.sampling.slicing import get_future_slice, get_history_slice

_AGENT_INTERVAL = "agent_index_interval"
_FACE_INTERVAL = "traffic_light_faces_index_interval"


@dataclass(frozen=True)
class FrameRows:
    """Rows of several frames in one array.

    Attributes:
        rows: Rows of all frames, read-only.
        starts: First row of each frame, (F,).
        stops: End row of each frame, not included, (F,).
    """

    rows: RecordArray
    starts: Int64Array
    stops: Int64Array

    def per_frame(self) -> list[RecordArray]:
        """Return one view per frame."""
        return [self.rows[start:stop] for start, stop in zip(self.starts.tolist(), self.stops.tolist(), strict=True)]

    def head(self, num_frames: int) -> "FrameRows":
        """Return the rows of the first frames."""
        return FrameRows(self.rows, self.starts[:num_frames], self.stops[:num_frames])

    def tail(self, num_frames: int) -> "FrameRows":
        """Return the rows of all but the first frames."""
        return FrameRows(self.rows, self.starts[num_frames:], self.stops[num_frames:])


@dataclass(frozen=True)
class AgentContext:
    """Past and future of a frame; attributes named history hold the newest first, the current frame included.

    Attributes:
        history_frames: Current and past frames, at least one.
        future_frames: Future frames.
        history_agents: Agents of the history frames.
        future_agents: Agents of the future frames.
        history_tl_faces: Traffic light faces of the history frames.
        future_tl_faces: Traffic light faces of the future frames.
    """

    history_frames: RecordArray
    future_frames: RecordArray
    history_agents: FrameRows
    future_agents: FrameRows
    history_tl_faces: FrameRows
    future_tl_faces: FrameRows


def cut_agent_context(
    state_index: int,
    frames: Any,
    agents: Any,
    tl_faces: Any,
    *,
    history_num_frames: int,
    future_num_frames: int,
    history_step_size: int = 1,
    future_step_size: int = 1,
) -> AgentContext:
    """Return the frames around ``state_index`` and their rows, without copying the rows where possible.

    Args:
        state_index: The current frame, counted in ``frames``.
        frames: Frames of one scene, with intervals that are rows of ``agents`` and ``tl_faces``.
        agents: All agents, a NumPy array or an array of a dataset.
        tl_faces: All traffic light faces; may be empty, whatever the intervals say.
        history_num_frames: Past steps, the current frame not counted; fewer near the start of the scene.
        future_num_frames: Future steps; fewer near the end.
        history_step_size: Frames per past step.
        future_step_size: Frames per future step.

    Raises:
        IndexOutOfRangeError: ``state_index`` is not a frame of the scene.
        CorruptedDataError: An interval reaches beyond the agents.
    """
    state_index = operator.index(state_index)
    if not 0 <= state_index < len(frames):
        raise IndexOutOfRangeError(f"state_index {state_index} is out of range for a scene of {len(frames)} frames")
    scene_frames = np.asarray(frames)
    history = scene_frames[get_history_slice(state_index, history_num_frames, history_step_size, True)].copy()
    future = scene_frames[get_future_slice(state_index, future_num_frames, future_step_size)].copy()
    is_strided = history_step_size > 1 or future_step_size > 1
    agent_rows = _rows_of_frames(agents, history, future, _AGENT_INTERVAL, is_strided=is_strided)
    face_rows = _rows_of_frames(tl_faces, history, future, _FACE_INTERVAL, is_strided=is_strided)
    return AgentContext(history, future, *agent_rows, *face_rows)


def rebase_intervals(frames: RecordArray, *, agents: FrameRows, tl_faces: FrameRows) -> None:
    """Make the intervals of ``frames`` point into the rows of :meth:`FrameRows.rows` of these same frames."""
    for field, rows in ((_AGENT_INTERVAL, agents), (_FACE_INTERVAL, tl_faces)):
        if field in (frames.dtype.names or ()):
            intervals = np.stack([rows.starts, rows.stops], axis=1)
            frames[field] = np.stack(_count_from(intervals, *_filled_range(intervals)), axis=1)


def _rows_of_frames(
    array: Any, history: RecordArray, future: RecordArray, field: str, *, is_strided: bool
) -> tuple[FrameRows, FrameRows]:
    """Return the rows that the interval ``field`` of history and future frames names."""
    num_history = len(history)
    if len(array) == 0 or field not in (history.dtype.names or ()):
        nothing = np.zeros(num_history + len(future), dtype=np.int64)
        all_rows = FrameRows(_read_only(np.asarray(array)[:0]), nothing, nothing)
        return all_rows.head(num_history), all_rows.tail(num_history)
    intervals = np.concatenate([history[field], future[field]])
    _check_bounds(intervals, len(array), field)
    take = _gather if is_strided else _slice
    all_rows = take(array, intervals, strict=field == _AGENT_INTERVAL)
    return all_rows.head(num_history), all_rows.tail(num_history)


def _slice(array: Any, intervals: Int64Array, *, strict: bool) -> FrameRows:
    """Return the rows of adjacent frames: one slice of the array; ``strict`` as in ``rows_of``."""
    low, high = _filled_range(intervals)
    rows = _read_only(rows_of(array, slice(low, high), strict=strict))
    return FrameRows(rows, *_count_from(intervals, low, high))


def _gather(array: Any, intervals: Int64Array, *, strict: bool) -> FrameRows:
    """Return the rows of frames that may lie apart: a copy of each frame's own rows, in the order of time."""
    order = np.argsort(intervals[:, 0], kind="stable")
    parts = [rows_of(array, slice(*intervals[i].tolist()), strict=strict) for i in order]
    counts = np.array([len(part) for part in parts], dtype=np.int64)
    starts = np.empty(len(order), dtype=np.int64)
    starts[order] = np.cumsum(counts) - counts
    return FrameRows(_read_only(np.concatenate(parts)), starts, starts + (intervals[:, 1] - intervals[:, 0]))


def _check_bounds(intervals: Int64Array, length: int, field: str) -> None:
    wrong = _first_outside(intervals, length)
    if wrong >= 0:
        raise CorruptedDataError(
            f"{field} {intervals[wrong].tolist()} of a frame does not lie within the {length} rows of its array; "
            "run l5kit validate on the dataset and restore it from its source"
        )


@njit(nogil=True, cache=True)
def _first_outside(intervals: Int64Array, length: int) -> Any:
    """Return the first of the intervals (F, 2) that does not lie within ``length`` rows, or -1; empty ones may."""
    for i in range(len(intervals)):
        start, stop = intervals[i, 0], intervals[i, 1]
        if start < 0 or stop < start or (stop > length and stop > start):
            return i
    return -1


@njit(nogil=True, cache=True)
def _filled_range(intervals: Int64Array) -> tuple[Any, Any]:
    """Return the first row and the end row of all intervals that are not empty; twice 0 if all are."""
    low, high = np.iinfo(np.int64).max, 0
    for i in range(len(intervals)):
        if intervals[i, 1] > intervals[i, 0]:
            low, high = min(low, intervals[i, 0]), max(high, intervals[i, 1])
    return (low, high) if high > 0 else (0, 0)


@njit(nogil=True, cache=True)
def _count_from(intervals: Int64Array, low: int, high: int) -> tuple[Int64Array, Int64Array]:
    """Return starts and ends counted from ``low``; those of empty intervals, which may lie anywhere, stay within."""
    starts, stops = np.empty(len(intervals), np.int64), np.empty(len(intervals), np.int64)
    for i in range(len(intervals)):
        starts[i] = min(max(intervals[i, 0], low), high) - low
        stops[i] = min(max(intervals[i, 1], low), high) - low
    return starts, stops


def _read_only(rows: NumericArray) -> NumericArray:
    view = rows.view()
    view.setflags(write=False)
    return view
