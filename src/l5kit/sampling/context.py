"""The parts of scenes that samples are made of: frames before and after the current ones, with their rows."""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from l5kit._types import Int64Array, NumericArray, RecordArray
from l5kit.configs.parameters import SamplingParams, VectorSamplingParams
from l5kit.data.record_sequence import rows_of, whole_array, whole_array_with
from l5kit.data.window_rows import WindowRows, join_rows
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError
from l5kit.sampling.slicing import as_step_size

_AGENT_INTERVAL = "agent_index_interval"
_FACE_INTERVAL = "traffic_light_faces_index_interval"

_NO_INTERVALS: Int64Array = np.zeros((2, 4), np.int64)[:, :2]
"""Stands for the intervals of frames that have none; strided, so that kernels see the type that they see else."""

_NO_INTERVALS.setflags(write=False)


@dataclass(frozen=True)
class ContextSteps:
    """Which frames around the current one belong to a context.

    Attributes:
        history_num_frames: Past steps, the current frame not counted.
        future_num_frames: Future steps.
        history_step_size: Frames per past step.
        future_step_size: Frames per future step.

    Raises:
        StepSizeError: A step size is not positive.
    """

    history_num_frames: int
    future_num_frames: int
    history_step_size: int = 1
    future_step_size: int = 1

    def __post_init__(self) -> None:
        as_step_size("history_step_size", self.history_step_size)
        as_step_size("future_step_size", self.future_step_size)

    @classmethod
    def from_params(cls, params: SamplingParams | VectorSamplingParams) -> "ContextSteps":
        """Return the frames that samples with the given parameters need."""
        return cls(
            params.history_num_frames, params.future_num_frames, params.history_step_size, params.future_step_size
        )

    @property
    def skips_frames(self) -> bool:
        """Whether frames of a context may lie apart."""
        return self.history_step_size > 1 or self.future_step_size > 1


@dataclass(frozen=True)
class CurrentFrames:
    """The current frames of B contexts, and the scenes that they lie in.

    Attributes:
        frames: Frames of all scenes, with intervals that are rows of the agents and faces, FRAME_DTYPE, (N,).
        rows: The current frame of each context, a row of ``frames``, (B,).
        scene_starts: First frame of its scene, (B,).
        scene_stops: End frame of its scene, not included, (B,).
    """

    frames: RecordArray
    rows: Int64Array
    scene_starts: Int64Array
    scene_stops: Int64Array

    @classmethod
    def of_scene(cls, frames: Any, state_index: int) -> "CurrentFrames":
        """Return one frame of one scene.

        Raises:
            IndexOutOfRangeError: ``state_index`` is not a frame of the scene.
        """
        state_index, num_frames = operator.index(state_index), len(frames)
        if not 0 <= state_index < num_frames:
            raise IndexOutOfRangeError(f"state_index {state_index} is out of range for a scene of {num_frames} frames")
        bounds = np.array([[state_index], [0], [num_frames]], dtype=np.int64)
        return cls(np.asarray(frames), *bounds)


@dataclass(frozen=True)
class Contexts:
    """Past and future of B current frames; history holds the newest frame first, the current one included.

    Attributes:
        history_frames: Current and past frames, copies, (B, H); what stands behind those of a context means nothing.
        future_frames: Future frames, copies, (B, F); likewise.
        num_history: History frames of each context, at least one, (B,).
        num_future: Future frames of each context, (B,).
        agents: Agents of the history frames and, behind them, of the future frames, (B, H + F).
        tl_faces: Traffic light faces likewise.
    """

    history_frames: RecordArray
    future_frames: RecordArray
    num_history: Int64Array
    num_future: Int64Array
    agents: WindowRows
    tl_faces: WindowRows

    def __len__(self) -> int:
        return len(self.history_frames)


def cut_contexts(current: CurrentFrames, agents: Any, tl_faces: Any, steps: ContextSteps) -> Contexts:
    """Return the frames around the current ones and their rows, without copying the rows where possible.

    Args:
        current: The current frames.
        agents: All agents, a NumPy array or an array of a dataset.
        tl_faces: All traffic light faces likewise; may be empty, whatever the intervals say.
        steps: Which frames around them.

    Raises:
        CorruptedDataError: An interval reaches beyond its array.
    """
    frames, num_contexts = current.frames, len(current.rows)
    history = np.empty((num_contexts, steps.history_num_frames + 1), frames.dtype)
    future = np.empty((num_contexts, steps.future_num_frames), frames.dtype)
    num_frames = np.empty((2, num_contexts), np.int64)
    intervals = np.zeros((2, 2, num_contexts, history.shape[1] + future.shape[1]), np.int64)
    ranges = np.zeros((2, 2, num_contexts), np.int64)
    names = frames.dtype.names or ()
    lengths = (len(agents) if _AGENT_INTERVAL in names else 0, len(tl_faces) if _FACE_INTERVAL in names else 0)
    wrong = _cut_contexts(
        _read_only(frames),
        (_intervals_of(frames, _AGENT_INTERVAL), _intervals_of(frames, _FACE_INTERVAL)),
        current.rows,
        (current.scene_starts, current.scene_stops),
        (steps.history_step_size, steps.future_step_size),
        lengths,
        history,
        future,
        num_frames,
        intervals,
        ranges,
    )
    if wrong[0] >= 0:
        which, context, frame = wrong
        raise CorruptedDataError(
            f"{(_AGENT_INTERVAL, _FACE_INTERVAL)[which]} {intervals[which, :, context, frame].tolist()} of a frame "
            f"does not lie within the {lengths[which]} rows of its array; run l5kit validate on the dataset and "
            "restore it from its source"
        )
    agent_rows = _place_rows(agents, intervals[0], ranges[0], is_apart=steps.skips_frames, strict=True)
    face_rows = _place_rows(tl_faces, intervals[1], ranges[1], is_apart=steps.skips_frames, strict=False)
    return Contexts(history, future, num_frames[0], num_frames[1], agent_rows, face_rows)


def rebase_intervals(frames: RecordArray, *, agents: WindowRows, tl_faces: WindowRows) -> None:
    """Make the intervals of frames (F,) point into their rows, strung together in the order of time."""
    for field, rows in ((_AGENT_INTERVAL, agents), (_FACE_INTERVAL, tl_faces)):
        if field in (frames.dtype.names or ()):
            starts, stops = rows.starts.copy(), rows.stops.copy()
            lows, highs = np.zeros(1, np.int64), np.zeros(1, np.int64)
            _write_filled_ranges(starts, stops, lows, highs)
            _count_from(lows, highs, starts, stops)
            frames[field] = np.stack([starts[0], stops[0]], axis=1)


def _intervals_of(frames: RecordArray, field: str) -> Int64Array:
    """Return an interval of all frames (N, 2), read-only; something of the same layout where they do not have it.

    Of a single frame the layout is another one, and the kernel takes two arrays of one kind.
    """
    present = [name for name in (field, _AGENT_INTERVAL, _FACE_INTERVAL) if name in (frames.dtype.names or ())]
    return _read_only(frames[present[0]]) if present else _NO_INTERVALS


def _place_rows(array: Any, intervals: Int64Array, ranges: Int64Array, *, is_apart: bool, strict: bool) -> WindowRows:
    """Return the rows that intervals (2, B, F) name, which span ranges (2, B); ``strict`` as in ``rows_of``."""
    (starts, stops), (lows, highs) = intervals, ranges
    if len(array) == 0:
        return WindowRows([_read_only(np.asarray(array)[:0])], starts, stops)
    whole = whole_array(array) if is_apart else whole_array_with(array, lows, highs, strict=strict)
    if whole is not None:
        return WindowRows([_read_only(whole)], starts, stops)
    if is_apart:
        arrays = [_gather(array, *window, strict=strict) for window in zip(starts, stops, strict=True)]
    else:
        bounds = zip(lows.tolist(), highs.tolist(), strict=True)
        arrays = [rows_of(array, slice(low, high), strict=strict) for low, high in bounds]
        _count_from(lows, highs, starts, stops)
    return WindowRows([_read_only(rows) for rows in arrays], starts, stops)


def _gather(array: Any, starts: Int64Array, stops: Int64Array, *, strict: bool) -> RecordArray:
    """Return copies of the rows of frames (F,) that may lie apart, in the order of time, and count in these."""
    order = np.argsort(starts, kind="stable").tolist()
    parts = [rows_of(array, slice(int(starts[i]), int(stops[i])), strict=strict) for i in order]
    end = 0
    for i, part in zip(order, parts, strict=True):
        starts[i], stops[i] = end, end + len(part)
        end += len(part)
    return join_rows(parts)


@njit(nogil=True, cache=True, error_model="numpy")
def _cut_contexts(
    frames: RecordArray,
    intervals_of_frames: tuple[Int64Array, Int64Array],
    rows: Int64Array,
    scene_bounds: tuple[Int64Array, Int64Array],
    step_sizes: tuple[int, int],
    lengths: tuple[int, int],
    history: RecordArray,
    future: RecordArray,
    num_frames: Int64Array,
    intervals: Int64Array,
    ranges: Int64Array,
) -> tuple[int, int, int]:
    """Write the frames of B contexts (B, H), (B, F), their numbers (2, B), and the rows of agents and faces.

    The rows are intervals (2 arrays, start and stop, B, H + F), and the ranges (2, 2, B) that they span. Returns array,
    context and frame of the first interval that does not lie within the length of its array, or -1 three times; an
    empty one may lie behind it.
    """
    for context in range(len(rows)):
        for part in range(2):
            capacity = history.shape[1] if part == 0 else future.shape[1]
            num_before = rows[context] - scene_bounds[0][context]
            num_after = scene_bounds[1][context] - rows[context] - 1
            to_edge = num_before if part == 0 else num_after
            num_there = min((to_edge // step_sizes[part] + 1 - part) if to_edge >= 0 else 0, capacity)
            for place in range(num_there):
                if part == 0:
                    row, column = rows[context] - place * step_sizes[0], place
                    history[context, place] = frames[row]
                else:
                    row, column = rows[context] + (place + 1) * step_sizes[1], history.shape[1] + place
                    future[context, place] = frames[row]
                for which in range(2):
                    if lengths[which] == 0:
                        continue  # all intervals are 0 to 0
                    start, stop = intervals_of_frames[which][row, 0], intervals_of_frames[which][row, 1]
                    intervals[which, 0, context, column], intervals[which, 1, context, column] = start, stop
                    if stop > start and start >= 0 and stop <= lengths[which]:
                        if ranges[which, 1, context] == 0 or start < ranges[which, 0, context]:
                            ranges[which, 0, context] = start
                        if stop > ranges[which, 1, context]:
                            ranges[which, 1, context] = stop
                    elif start < 0 or stop != start:
                        return which, context, column
            num_frames[part, context] = num_there
    return -1, -1, -1


@njit(nogil=True, cache=True, error_model="numpy")
def _write_filled_ranges(starts: Int64Array, stops: Int64Array, lows: Int64Array, highs: Int64Array) -> None:
    """Write the first row and the end row of all intervals (B, F) of each context that are not empty, or twice 0."""
    for context in range(starts.shape[0]):
        low, high = np.iinfo(np.int64).max, 0
        for frame in range(starts.shape[1]):
            if stops[context, frame] > starts[context, frame]:
                low, high = min(low, starts[context, frame]), max(high, stops[context, frame])
        lows[context], highs[context] = (low, high) if high > 0 else (0, 0)


@njit(nogil=True, cache=True, error_model="numpy")
def _count_from(lows: Int64Array, highs: Int64Array, starts: Int64Array, stops: Int64Array) -> None:
    """Count the intervals (B, F) of each context from its low; empty ones, which may lie anywhere, come within."""
    for context in range(starts.shape[0]):
        low, high = lows[context], highs[context]
        for frame in range(starts.shape[1]):
            starts[context, frame] = min(max(starts[context, frame], low), high) - low
            stops[context, frame] = min(max(stops[context, frame], low), high) - low


def _read_only(rows: NumericArray) -> NumericArray:
    if not rows.flags.writeable:
        return rows
    view = rows.view()
    view.setflags(write=False)
    return view
