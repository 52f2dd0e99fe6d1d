"""The parts of scenes that samples are made of: frames before and after the current ones, with their rows."""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from l5kit._types import Int64Array, NumericArray, RecordArray
from l5kit.data.record_sequence import rows_of, whole_array, whole_array_with
from l5kit.data.window_rows import WindowRows, join_rows
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError
from l5kit.sampling.slicing import as_step_size

_AGENT_INTERVAL = "agent_index_interval"
_FACE_INTERVAL = "traffic_light_faces_index_interval"


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
    num_contexts, frame_dtype = len(current.rows), current.frames.dtype
    history = np.empty((num_contexts, steps.history_num_frames + 1), frame_dtype)
    future = np.empty((num_contexts, steps.future_num_frames), frame_dtype)
    num_history, num_future = _copy_frames(
        _read_only(current.frames),
        current.rows,
        current.scene_starts,
        current.scene_stops,
        steps.history_step_size,
        steps.future_step_size,
        history,
        future,
    )
    counts = num_history, num_future
    agent_rows = _rows_of_frames(agents, _AGENT_INTERVAL, (history, future), counts, is_apart=steps.skips_frames)
    face_rows = _rows_of_frames(tl_faces, _FACE_INTERVAL, (history, future), counts, is_apart=steps.skips_frames)
    return Contexts(history, future, num_history, num_future, agent_rows, face_rows)


def rebase_intervals(frames: RecordArray, *, agents: WindowRows, tl_faces: WindowRows) -> None:
    """Make the intervals of frames (F,) point into their rows, strung together in the order of time."""
    for field, rows in ((_AGENT_INTERVAL, agents), (_FACE_INTERVAL, tl_faces)):
        if field in (frames.dtype.names or ()):
            starts, stops = rows.starts.copy(), rows.stops.copy()
            lows, highs = np.zeros(1, np.int64), np.zeros(1, np.int64)
            _write_filled_ranges(starts, stops, lows, highs)
            _count_from(lows, highs, starts, stops)
            frames[field] = np.stack([starts[0], stops[0]], axis=1)


def _rows_of_frames(
    array: Any,
    field: str,
    frames: tuple[RecordArray, RecordArray],
    counts: tuple[Int64Array, Int64Array],
    *,
    is_apart: bool,
) -> WindowRows:
    """Return the rows that the interval ``field`` of history and future frames names."""
    history, future = frames
    shape = (len(history), history.shape[1] + future.shape[1])
    starts, stops = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    if len(array) == 0 or field not in (history.dtype.names or ()):
        return WindowRows([_read_only(np.asarray(array)[:0])], starts, stops)
    lows, highs = np.zeros(shape[0], np.int64), np.zeros(shape[0], np.int64)
    wrong = _collect_intervals(history[field], future[field], *counts, len(array), starts, stops, lows, highs)
    if wrong[0] >= 0:
        raise CorruptedDataError(
            f"{field} {[starts[wrong].item(), stops[wrong].item()]} of a frame does not lie within the {len(array)} "
            "rows of its array; run l5kit validate on the dataset and restore it from its source"
        )
    strict = field == _AGENT_INTERVAL
    whole = whole_array(array) if is_apart else whole_array_with(array, lows, highs, strict=strict)
    if whole is not None:
        return WindowRows([_read_only(whole)], starts, stops)
    if is_apart:
        arrays = [_gather(array, *window, strict=strict) for window in zip(starts, stops, strict=True)]
    else:
        arrays = [
            rows_of(array, slice(*bounds), strict=strict) for bounds in zip(lows.tolist(), highs.tolist(), strict=True)
        ]
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


@njit(nogil=True, cache=True)
def _copy_frames(
    frames: RecordArray,
    rows: Int64Array,
    scene_starts: Int64Array,
    scene_stops: Int64Array,
    history_step_size: int,
    future_step_size: int,
    history: RecordArray,
    future: RecordArray,
) -> tuple[Int64Array, Int64Array]:
    """Copy the frames of B contexts to (B, H) and (B, F), as many as their scenes have; return their numbers (B,)."""
    num_history, num_future = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for context in range(len(rows)):
        row = rows[context]
        while num_history[context] < history.shape[1] and row >= scene_starts[context]:
            history[context, num_history[context]] = frames[row]
            num_history[context] += 1
            row -= history_step_size
        row = rows[context] + future_step_size
        while num_future[context] < future.shape[1] and row < scene_stops[context]:
            future[context, num_future[context]] = frames[row]
            num_future[context] += 1
            row += future_step_size
    return num_history, num_future


@njit(nogil=True, cache=True)
def _write_filled_ranges(starts: Int64Array, stops: Int64Array, lows: Int64Array, highs: Int64Array) -> None:
    """Write the first row and the end row of all intervals (B, F) of each context that are not empty, or twice 0."""
    for context in range(starts.shape[0]):
        low, high = np.iinfo(np.int64).max, 0
        for frame in range(starts.shape[1]):
            if stops[context, frame] > starts[context, frame]:
                low, high = min(low, starts[context, frame]), max(high, stops[context, frame])
        lows[context], highs[context] = (low, high) if high > 0 else (0, 0)


@njit(nogil=True, cache=True)
def _collect_intervals(
    history: Int64Array,
    future: Int64Array,
    num_history: Int64Array,
    num_future: Int64Array,
    length: int,
    starts: Int64Array,
    stops: Int64Array,
    lows: Int64Array,
    highs: Int64Array,
) -> tuple[int, int]:
    """Copy the intervals (B, H, 2) and (B, F, 2) to starts and stops (B, H + F), their ranges to lows and highs (B,).

    Returns the context and the frame of the first that does not lie within ``length`` rows, or -1 twice; an empty one
    may lie behind them.
    """
    for context in range(len(starts)):
        for frame in range(starts.shape[1]):
            future_frame = frame - history.shape[1]
            if future_frame < 0:
                if frame >= num_history[context]:
                    continue
                start, stop = history[context, frame, 0], history[context, frame, 1]
            else:
                if future_frame >= num_future[context]:
                    break
                start, stop = future[context, future_frame, 0], future[context, future_frame, 1]
            starts[context, frame], stops[context, frame] = start, stop
            if start < 0 or stop < start or (stop > length and stop > start):
                return context, frame
    _write_filled_ranges(starts, stops, lows, highs)
    return -1, -1


@njit(nogil=True, cache=True)
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
