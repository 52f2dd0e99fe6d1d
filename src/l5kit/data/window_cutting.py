"""Cutting of windows: which frames lie before and after current ones in their scenes, and which rows are theirs."""

import operator
from dataclasses import dataclass

import numpy as np
from numba import njit

from l5kit._types import Int64Array, NumericArray, RecordArray, Records
from l5kit.configs.parameters import SamplingParams, VectorSamplingParams
from l5kit.data.array_shapes import refuse_shapes
from l5kit.data.log_facts import EGO_EXTENT_M
from l5kit.data.record_bytes import join_records
from l5kit.data.record_sequence import rows_of, whole_array, whole_array_with
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL
from l5kit.data.window_rows import WindowRows
from l5kit.data.windows import Windows
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, L5KitError

_NO_INTERVALS: Int64Array = np.zeros((2, 4), np.int64)[:, :2]
"""Stands for the intervals of frames that have none; strided, so that kernels see the type of those of real frames."""

_NO_INTERVALS.setflags(write=False)


class StepSizeError(L5KitError, IndexError, ValueError):
    """A step size is not positive (an ``IndexError`` in L5Kit 1.x)."""


@dataclass(frozen=True)
class WindowSteps:
    """Which frames around the current one belong to a window.

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
    def from_params(cls, params: SamplingParams | VectorSamplingParams) -> "WindowSteps":
        """Return the frames that samples with the given parameters need."""
        return cls(
            params.history_num_frames, params.future_num_frames, params.history_step_size, params.future_step_size
        )

    @property
    def skips_frames(self) -> bool:
        """Whether frames of a window may lie apart."""
        return self.history_step_size > 1 or self.future_step_size > 1


@dataclass(frozen=True)
class CurrentFrames:
    """The current frames of B windows, and the scenes that they lie in.

    Attributes:
        frames: Frames of all scenes, with intervals that are rows of the agents and faces, FRAME_DTYPE, (N,).
        rows: The current frame of each window, a row of ``frames``, (B,).
        scene_starts: First frame of its scene, (B,).
        scene_stops: End frame of its scene, not included, (B,).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    frames: RecordArray
    rows: Int64Array
    scene_starts: Int64Array
    scene_stops: Int64Array

    def __post_init__(self) -> None:
        shape = self.rows.shape
        if self.scene_starts.shape != shape or self.scene_stops.shape != shape:
            refuse_shapes(self, scene_starts=shape, scene_stops=shape)

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of_scene(cls, frames: Records, state_index: int) -> "CurrentFrames":
        """Return one frame of one scene.

        Raises:
            IndexOutOfRangeError: ``state_index`` is not a frame of the scene.
        """
        state_index, num_frames = operator.index(state_index), len(frames)
        if not 0 <= state_index < num_frames:
            raise IndexOutOfRangeError(f"state_index {state_index} is out of range for a scene of {num_frames} frames")
        bounds = np.array([[state_index], [0], [num_frames]], dtype=np.int64)
        return cls(np.asarray(frames), *bounds)


def cut_windows(
    current: CurrentFrames,
    agents: Records,
    tl_faces: Records,
    steps: WindowSteps,
    *,
    ego_extent_m: tuple[float, float, float] = EGO_EXTENT_M,
) -> Windows:
    """Return the frames around the current ones and their rows, without copying the rows where possible.

    Args:
        current: The current frames.
        agents: All agents, a NumPy array or an array of a dataset.
        tl_faces: All traffic light faces likewise; may be empty, whatever the intervals say.
        steps: Which frames around them.
        ego_extent_m: Length, width and height of the AV, as ``facts`` of the log tell.

    Raises:
        CorruptedDataError: An interval reaches beyond its array.
    """
    frames, num_windows = current.frames, len(current.rows)
    num_columns = steps.history_num_frames + 1 + steps.future_num_frames
    names = frames.dtype.names or ()
    lengths = (len(agents) if AGENT_INTERVAL in names else 0, len(tl_faces) if FACE_INTERVAL in names else 0)
    frames_cut, counts = np.empty((num_windows, num_columns), frames.dtype), np.empty((2, num_windows), np.int64)
    intervals, ranges = np.empty((2, 2, num_windows, num_columns), np.int64), np.empty((2, 2, num_windows), np.int64)
    wrong = _cut_windows(
        _read_only(frames),
        (_intervals_of(frames, AGENT_INTERVAL), _intervals_of(frames, FACE_INTERVAL)),
        (current.rows, current.scene_starts, current.scene_stops),
        (steps.history_num_frames + 1, steps.future_num_frames),
        (steps.history_step_size, steps.future_step_size),
        lengths,
        (frames_cut, counts, intervals, ranges),
    )
    if wrong[0] >= 0:
        which, window, frame = wrong
        raise CorruptedDataError(
            f"{(AGENT_INTERVAL, FACE_INTERVAL)[which]} {intervals[which, :, window, frame].tolist()} of a frame "
            f"does not lie within the {lengths[which]} rows of its array; run l5kit validate on the dataset and "
            "restore it from its source"
        )
    agent_rows = _place_rows(agents, intervals[0], ranges[0], is_apart=steps.skips_frames, strict=True)
    face_rows = _place_rows(tl_faces, intervals[1], ranges[1], is_apart=steps.skips_frames, strict=False)
    return Windows(frames_cut, counts, agent_rows, face_rows, steps.history_num_frames + 1, ego_extent_m)


def as_step_size(argument: str, step_size: int) -> int:
    """Return a step size as a Python int: small NumPy integers would overflow in what follows."""
    if step_size <= 0:
        raise StepSizeError(f"{argument} must be 1 or more, got {step_size}")
    return operator.index(step_size)


def rebase_intervals(frames: RecordArray, *, agents: WindowRows, tl_faces: WindowRows) -> None:
    """Make the intervals of frames (F,) point into their rows, strung together in the order of time."""
    for field, rows in ((AGENT_INTERVAL, agents), (FACE_INTERVAL, tl_faces)):
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
    present = [name for name in (field, AGENT_INTERVAL, FACE_INTERVAL) if name in (frames.dtype.names or ())]
    return _read_only(frames[present[0]]) if present else _NO_INTERVALS


def _place_rows(
    array: Records, intervals: Int64Array, ranges: Int64Array, *, is_apart: bool, strict: bool
) -> WindowRows:
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


def _gather(array: Records, starts: Int64Array, stops: Int64Array, *, strict: bool) -> RecordArray:
    """Return copies of the rows of frames (F,) that may lie apart, in the order of time, and count in these."""
    order = np.argsort(starts, kind="stable").tolist()
    parts = [rows_of(array, slice(int(starts[i]), int(stops[i])), strict=strict) for i in order]
    end = 0
    for i, part in zip(order, parts, strict=True):
        starts[i], stops[i] = end, end + len(part)
        end += len(part)
    return join_records(parts)


@njit(nogil=True, cache=True, error_model="numpy")
def _cut_windows(
    frames: RecordArray,
    intervals_of_frames: tuple[Int64Array, Int64Array],
    current: tuple[Int64Array, Int64Array, Int64Array],
    capacities: tuple[int, int],
    step_sizes: tuple[int, int],
    lengths: tuple[int, int],
    cut: tuple[RecordArray, Int64Array, Int64Array, Int64Array],
) -> tuple[int, int, int]:
    """Write the windows around current frames (rows, first and end frames of their scenes).

    Capacities and step sizes are those of history and future. What is written are frames (B, H + F), how many of
    history and future are there (2, B), the rows of agents and faces (2, start and stop, B, H + F), 0 where there is
    no frame, and what those of a window span (2, 2, B). Returns array, window and frame of the first interval
    that does not lie within the length of its array, or -1 three times; an empty one may lie behind it.
    """
    rows, scene_starts, scene_stops = current
    frames_cut, counts, intervals, ranges = cut
    intervals[:], ranges[:] = 0, 0
    for window in range(len(rows)):
        for part in range(2):
            num_before = rows[window] - scene_starts[window]
            num_after = scene_stops[window] - rows[window] - 1
            to_edge = num_before if part == 0 else num_after
            num_there = min((to_edge // step_sizes[part] + 1 - part) if to_edge >= 0 else 0, capacities[part])
            for place in range(num_there):
                if part == 0:
                    row, column = rows[window] - place * step_sizes[0], place
                else:
                    row, column = rows[window] + (place + 1) * step_sizes[1], capacities[0] + place
                frames_cut[window, column] = frames[row]
                for which in range(2):
                    if lengths[which] == 0:
                        continue  # all intervals are 0 to 0
                    start, stop = intervals_of_frames[which][row, 0], intervals_of_frames[which][row, 1]
                    intervals[which, 0, window, column], intervals[which, 1, window, column] = start, stop
                    if stop > start and start >= 0 and stop <= lengths[which]:
                        if ranges[which, 1, window] == 0 or start < ranges[which, 0, window]:
                            ranges[which, 0, window] = start
                        if stop > ranges[which, 1, window]:
                            ranges[which, 1, window] = stop
                    elif start < 0 or stop != start:
                        return which, window, column
            counts[part, window] = num_there
    return -1, -1, -1


@njit(nogil=True, cache=True, error_model="numpy")
def _write_filled_ranges(starts: Int64Array, stops: Int64Array, lows: Int64Array, highs: Int64Array) -> None:
    """Write the first row and the end row of all intervals (B, F) of each window that are not empty, or twice 0."""
    for window in range(starts.shape[0]):
        low, high = np.iinfo(np.int64).max, 0
        for frame in range(starts.shape[1]):
            if stops[window, frame] > starts[window, frame]:
                low, high = min(low, starts[window, frame]), max(high, stops[window, frame])
        lows[window], highs[window] = (low, high) if high > 0 else (0, 0)


@njit(nogil=True, cache=True, error_model="numpy")
def _count_from(lows: Int64Array, highs: Int64Array, starts: Int64Array, stops: Int64Array) -> None:
    """Count the intervals (B, F) of each window from its low; empty ones, which may lie anywhere, come within."""
    for window in range(starts.shape[0]):
        low, high = lows[window], highs[window]
        for frame in range(starts.shape[1]):
            starts[window, frame] = min(max(starts[window, frame], low), high) - low
            stops[window, frame] = min(max(stops[window, frame], low), high) - low


def _read_only(rows: NumericArray) -> NumericArray:
    if not rows.flags.writeable:
        return rows
    view = rows.view()
    view.setflags(write=False)
    return view
