"""Windows of a log: frames around current frames with their rows, how they are cut, and their targets."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import InitVar, dataclass, fields, replace
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import DTypeLike

from l5kit._kernels import kernel_jit
from l5kit._types import (
    BoolArray,
    Float32Array,
    Float64Array,
    FloatArray,
    Int64Array,
    NumericArray,
    RecordArray,
    Records,
)
from l5kit.configs.kinds import MAX_NUM_FRAMES
from l5kit.configs.parameters import SamplingParams, VectorSamplingParams
from l5kit.data.array_shapes import refuse_shapes
from l5kit.data.log_facts import EGO_EXTENT_M
from l5kit.data.record_bytes import join_records
from l5kit.data.record_sequence import rows_of, whole_array
from l5kit.data.records import AGENT_DTYPE, AGENT_INTERVAL, FACE_INTERVAL, TL_FACE_DTYPE
from l5kit.data.stores.chunked_array import RowRanges, read_ahead
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, InvalidArgumentError, L5KitError
from l5kit.geometry.transform import compute_agent_poses, write_poses


@dataclass(frozen=True)
class WindowRows:
    """Agents or traffic light faces of the frames of B windows, without a copy if a single array holds them all.

    Attributes:
        arrays: One array with the rows of all windows, or one array for each window.
        starts: First row of each frame in the array of its window, (B, F).
        stops: End row of each frame, exclusive, (B, F); equal to the start where a window has no such frame.
        is_known_to_fit: Set by callers that guarantee valid arrays; skips the checks.

    Raises:
        InvalidArgumentError: The shapes do not match, the number of arrays is wrong, or rows of a frame lie outside
            the array of its window.
    """

    arrays: Sequence[RecordArray]
    starts: Int64Array
    stops: Int64Array
    is_known_to_fit: InitVar[bool] = False

    def __post_init__(self, is_known_to_fit: bool) -> None:
        if is_known_to_fit:
            return
        shape = self.starts.shape
        if self.stops.shape != shape or len(shape) != 2 or len(self.arrays) not in (1, shape[0]):
            raise InvalidArgumentError(
                f"WindowRows: starts {shape} and stops {self.stops.shape} must be (B, F) alike, and arrays one or B; "
                f"there are {len(self.arrays)}"
            )
        if self.starts.dtype.kind != "i" or self.stops.dtype.kind != "i":
            raise InvalidArgumentError(
                f"WindowRows: starts and stops must be signed integers, got {self.starts.dtype} and {self.stops.dtype}"
            )

        # find rows outside of the arrays; empty intervals may lie anywhere
        lengths = np.array([len(array) for array in self.arrays], np.int64)[:, None]
        starts, stops = self.starts, self.stops
        is_wrong = (starts < 0) | (stops < starts) | ((stops > lengths) & (stops > starts))
        if is_wrong.any():
            window, frame = np.argwhere(is_wrong)[0].tolist()
            raise InvalidArgumentError(
                f"WindowRows: frame {frame} of window {window} has rows {starts[window, frame]} to "
                f"{stops[window, frame]}, which must ascend from 0 on and lie within the {len(self.array_of(window))} "
                "rows of its array"
            )

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def num_frames(self) -> int:
        """Number of frames per window, F."""
        return int(self.starts.shape[1])

    @property
    def counts(self) -> Int64Array:
        """Number of rows of each frame, (B, F)."""
        return self.stops - self.starts

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Record type of the rows."""
        return self.arrays[0].dtype

    def frames(self, first: int, end: int) -> "WindowRows":
        """Return the rows of some of the frames of each window."""
        starts, stops = self.starts[:, first:end], self.stops[:, first:end]
        # contiguous for any number of windows, to avoid compiling kernels for one window and again for several
        return WindowRows(self.arrays, np.ascontiguousarray(starts), np.ascontiguousarray(stops), is_known_to_fit=True)

    def taken(self, windows: Int64Array | BoolArray) -> "WindowRows":
        """Return the rows of selected windows, in the same arrays."""
        arrays = self.arrays
        if len(arrays) > 1:
            arrays = [arrays[window] for window in np.arange(len(arrays))[windows].tolist()] or arrays[:1]
        return WindowRows(arrays, self.starts[windows], self.stops[windows], is_known_to_fit=True)

    def parts(self) -> Iterator[tuple[RecordArray, slice]]:
        """Yield each array with the windows whose rows it holds."""
        if len(self.arrays) == 1:
            yield self.arrays[0], slice(0, len(self.starts))
            return
        for window, rows in enumerate(self.arrays):
            yield rows, slice(window, window + 1)

    def array_of(self, window: int) -> RecordArray:
        """Return the array that holds the rows of a window."""
        return self.arrays[0] if len(self.arrays) == 1 else self.arrays[window]

    def counted_from_first(self) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Return starts and stops (B, F) relative to the first row of their window, and its first and end row."""
        starts, stops = self.starts.copy(), self.stops.copy()
        lows, highs = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
        _write_filled_ranges(starts, stops, lows, highs)
        _count_from(lows, highs, starts, stops)
        return starts, stops, lows, highs

    def joined(self) -> tuple[RecordArray, Int64Array, Int64Array]:
        """Return the rows of all windows as one array, and start and end of each frame in it, (B, F)."""
        starts, stops, lows, highs = self.counted_from_first()
        ranges = zip(lows.tolist(), highs.tolist(), strict=True)
        parts = [self.array_of(window)[low:high] for window, (low, high) in enumerate(ranges)]
        before = (np.cumsum(highs - lows) - highs + lows)[:, None]
        return join_records(parts) if parts else self.arrays[0][:0], starts + before, stops + before

    def rows_of_frame(self, window: int, frame: int) -> RecordArray:
        """Return the rows of one frame, a view."""
        rows = self.array_of(window)
        return rows[self.starts[window, frame] : self.stops[window, frame]]

    def frames_of(self, window: int, num_frames: int) -> list[RecordArray]:
        """Return the rows of each of the first frames of a window, views."""
        return [self.rows_of_frame(window, frame) for frame in range(num_frames)]

    def take(self, rows: Int64Array) -> RecordArray:
        """Return copies of one row per window, indexed within its array, (B,)."""
        if len(self.arrays) == 1:
            return self.arrays[0][rows]
        return np.array([array[row] for array, row in zip(self.arrays, rows.tolist(), strict=True)])

    @classmethod
    def from_frames(cls, frames: Sequence[RecordArray], dtype: np.dtype[np.void]) -> "WindowRows":
        """Return one window with read-only copies of the given rows of each frame.

        Args:
            frames: Rows of each frame; may be empty.
            dtype: Record type, used if there are no rows.
        """
        stops = np.cumsum([len(rows) for rows in frames], dtype=np.int64)[None]
        starts = np.zeros_like(stops)
        starts[:, 1:] = stops[:, :-1]
        rows = join_records(frames) if len(frames) else np.empty(0, dtype)
        rows.setflags(write=False)  # kernels are compiled for read-only arrays
        return cls([rows], starts, stops, is_known_to_fit=True)


def read_only_field(rows: RecordArray, name: str) -> NumericArray:
    """Return a field of records as a read-only view, so that kernels are compiled for a single kind of array."""
    field: NumericArray = rows[name]
    field.setflags(write=False)
    return field


@dataclass(frozen=True)
class Windows:
    """B windows of a log with their rows: up to H history frames, newest first, up to F future frames, nearest first.

    Windows come from a dataset (:func:`l5kit.data.index.windows.cut_windows`), from the buffer of a simulation, or from
    given arrays (:meth:`of_frames`); code that draws or samples them need not know which.

    Attributes:
        frames: FRAME_DTYPE, (B, H + F); undefined where a window has no frame.
        counts: Number of history frames, at least one, and of future frames of each window, (2, B).
        agents: AGENT_DTYPE, the agents of each frame, (B, H + F).
        tl_faces: TL_FACE_DTYPE, the traffic light faces of the first frames, (B, any); (B, 0) for no lights.
        num_history: H, the current frame included.
        ego_extent_m: Length, width and height of the AV in all windows, from the facts of the log.

    Raises:
        InvalidArgumentError: The shapes do not match.
    """

    frames: RecordArray
    counts: Int64Array
    agents: WindowRows
    tl_faces: WindowRows
    num_history: int
    ego_extent_m: tuple[float, float, float] = EGO_EXTENT_M

    def __post_init__(self) -> None:
        shape = self.frames.shape
        if self.agents.starts.shape != shape or self.counts.shape != (2, shape[0]):
            refuse_shapes(self, frames=self.agents.starts.shape, counts=(2, shape[0]))
        if len(self.tl_faces.starts) != shape[0] or not self.num_history <= shape[1]:
            raise InvalidArgumentError(
                f"Windows: frames {shape} do not fit tl_faces of {len(self.tl_faces)} windows and {self.num_history} "
                "history frames"
            )

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def num_future(self) -> int:
        """Number of future frames, F."""
        return int(self.frames.shape[1]) - self.num_history

    @property
    def current_frames(self) -> RecordArray:
        """The newest frame of each window, a view, (B,)."""
        return self.frames[:, 0]

    def history(self, window: int) -> RecordArray:
        """Return the existing history frames of a window, newest first, a view."""
        return self.frames[window, : self.counts[0, window]]

    def future(self, window: int) -> RecordArray:
        """Return the existing future frames of a window, nearest first, a view."""
        return self.frames[window, self.num_history : self.num_history + self.counts[1, window]]

    def taken(self, windows: Int64Array | BoolArray) -> "Windows":
        """Return selected windows; copies, except for the rows."""
        return Windows(
            self.frames[windows],
            np.ascontiguousarray(self.counts[:, windows]),
            self.agents.taken(windows),
            self.tl_faces.taken(windows),
            self.num_history,
            self.ego_extent_m,
        )

    @classmethod
    def of_frames(
        cls, frames: RecordArray, agents: Sequence[RecordArray], tl_faces: Sequence[RecordArray]
    ) -> "Windows":
        """Return one window of history frames, as a batch of one.

        Args:
            frames: FRAME_DTYPE, newest first, (H,).
            agents: The agents of each frame, AGENT_DTYPE.
            tl_faces: The traffic light faces of the first frames, TL_FACE_DTYPE; may be empty.

        Raises:
            InvalidArgumentError: The number of arrays of agents differs from the number of frames.
        """
        return cls(
            frames=frames[None],
            counts=np.array([[len(frames)], [0]], dtype=np.int64),
            agents=WindowRows.from_frames(agents, np.dtype(AGENT_DTYPE)),
            tl_faces=WindowRows.from_frames(tl_faces, np.dtype(TL_FACE_DTYPE)),
            num_history=len(frames),
        )


class WindowArrays(NamedTuple):
    """B windows of C frames as kernel arguments, on host or device; past frames first, newest first.

    Attributes:
        is_there: Mask of existing frames, bool (B, C).
        starts: First agent of each frame, int64 (B, C); equal to the end if the frame does not exist.
        stops: End agent of each frame, int64 (B, C).
        face_bounds: First and end face of the newest frame, int64 (B, 2).
        av_positions_m: World x and y of the AV, float64 (B, C, 2).
        av_headings: Yaw of the AV, its cosine and sine, float32 (B, C, 3).
        av_size_m: Length and width of the AV, in the precision of the agents' extents.
        num_history: Number of columns of past frames, including the current one.
    """

    is_there: BoolArray
    starts: Int64Array
    stops: Int64Array
    face_bounds: Int64Array
    av_positions_m: Float64Array
    av_headings: Float32Array
    av_size_m: tuple[float, float]
    num_history: int


class TargetArrays(NamedTuple):
    """Targets of B windows as kernel arguments, on host or device.

    Attributes:
        has_tracks: Whether the targets are agents; otherwise the AV in all windows.
        track_ids: Track ids, uint64 (B,); 0 for the AV.
        centroids_m: World x and y, float64 (B, 2).
        yaws_rad: World headings, float32 (B,).
        agent_from_world: Transforms into the target frames, float64 (B, 3, 3).
    """

    has_tracks: bool
    track_ids: NumericArray
    centroids_m: Float64Array
    yaws_rad: Float32Array
    agent_from_world: Float64Array


@dataclass(frozen=True)
class Targets:
    """Targets of B windows in their current frames: the AV in all windows, or an agent in each.

    Attributes:
        track_ids: Track id of each window, (B,), in the type of the agents' field; None for the AV.
        rows: Row of each target in the array of agents of its window, (B,), negative if it has none; None for the AV
            and if not needed.
        centroids_m: World positions, (B, 2) float64.
        yaws_rad: World headings, (B,): float64 for the AV, the type of the agents' field for agents.
        extents_m: Length, width and height, (B, 3): float64 for the AV, the type of the agents' field for agents.

    Raises:
        InvalidArgumentError: The shapes do not match.
    """

    track_ids: NumericArray | None
    rows: Int64Array | None
    centroids_m: Float64Array
    yaws_rad: FloatArray
    extents_m: FloatArray

    def __post_init__(self) -> None:
        shape = (size,) = self.yaws_rad.shape
        if self.centroids_m.shape != (size, 2) or self.extents_m.shape != (size, 3):
            refuse_shapes(self, centroids_m=(size, 2), extents_m=(size, 3))
        if self.track_ids is not None and self.track_ids.shape != shape:
            refuse_shapes(self, track_ids=shape)
        if self.rows is not None and self.rows.shape != shape:
            refuse_shapes(self, rows=shape)

    def __len__(self) -> int:
        return len(self.yaws_rad)

    def taken(self, windows: Int64Array | BoolArray) -> Self:
        """Return the targets of selected windows."""
        columns = ((each.name, getattr(self, each.name)) for each in fields(self))
        some: dict[str, Any] = {name: None if column is None else column[windows] for name, column in columns}
        return replace(self, **some)

    @property
    def arrays(self) -> TargetArrays:
        """The targets as kernel arguments."""
        has_tracks = self.track_ids is not None
        track_ids = np.zeros(len(self), np.uint64) if self.track_ids is None else self.track_ids.astype(np.uint64)
        return TargetArrays(
            has_tracks, track_ids, self.centroids_m, self.yaws_rad.astype(np.float32), self.agent_from_world
        )

    @property
    def is_present(self) -> BoolArray:
        """Mask of targets that have a row, (B,); the values of the others are undefined."""
        return np.ones(len(self), np.bool_) if self.rows is None else self.rows >= 0

    @property
    def world_from_agent(self) -> Float64Array:
        """Target poses, (B, 3, 3)."""
        return self._transforms()[0]

    @property
    def agent_from_world(self) -> Float64Array:
        """Transforms into the target frames, to which all values of a sample are relative, (B, 3, 3)."""
        return self._transforms()[1]

    @property
    def drawn_frames(self) -> Float64Array:
        """Transforms into the target frames for rasters, (B, 3, 3); sine and cosine in the headings' precision."""
        poses = self.world_from_agent
        if self.yaws_rad.dtype != np.float64:
            poses = compute_agent_poses(self.centroids_m, np.ascontiguousarray(self.yaws_rad))
        return np.linalg.inv(poses).astype(np.float64, copy=False)

    def _transforms(self) -> tuple[Float64Array, Float64Array]:
        """Return poses and their inverses, computed on first use (without the lock of a cached property)."""
        known: dict[str, tuple[Float64Array, Float64Array]] = vars(self)
        if "transforms" not in known:
            # cosine and sine from NumPy, as in geometry.compute_agent_poses
            yaws_rad = self.yaws_rad.astype(np.float64, copy=False)
            poses, frames = np.empty((len(yaws_rad), 3, 3)), np.empty((len(yaws_rad), 3, 3))
            _write_transforms(np.cos(yaws_rad), np.sin(yaws_rad), self.centroids_m, poses, frames)
            known["transforms"] = poses, frames
        return known["transforms"]


@kernel_jit
def _write_transforms(
    cosines: Float64Array, sines: Float64Array, centroids_m: Float64Array, poses: Float64Array, frames: Float64Array
) -> None:
    """Write poses (N, 3, 3) from cosines and sines of headings (N,) and positions (N, 2), and their inverses.

    The inverse of a rotation is its transpose, which is free and more exact than a general matrix inverse.
    """
    write_poses(cosines, sines, centroids_m, poses)
    for i in range(len(poses)):
        cos, sin, x, y = poses[i, 0, 0], poses[i, 1, 0], poses[i, 0, 2], poses[i, 1, 2]
        frames[i, 0, 0], frames[i, 0, 1], frames[i, 0, 2] = cos, sin, -(cos * x + sin * y)
        frames[i, 1, 0], frames[i, 1, 1], frames[i, 1, 2] = -sin, cos, sin * x - cos * y
        frames[i, 2, 0], frames[i, 2, 1], frames[i, 2, 2] = 0.0, 0.0, 1.0


@dataclass(frozen=True)
class SeenTargets(Targets):
    """Targets with given frames, which need not match their positions and headings.

    Attributes:
        seen_from: Transforms from world coordinates into these frames, (B, 3, 3) float64.
    """

    seen_from: Float64Array

    @property
    def agent_from_world(self) -> Float64Array:
        """The given frames."""
        return self.seen_from


_NO_INTERVALS: Int64Array = np.zeros((2, 4), np.int64)[:, :2]
"""Placeholder for missing intervals of frames; strided, so that kernels see the same type as for real frames."""

_NO_INTERVALS.setflags(write=False)

_CURRENT_FRAMES = 2
"""Kernel result for an invalid current frame, instead of an interval of agents (0) or faces (1)."""


class StepSizeError(L5KitError, IndexError, ValueError):
    """A step size is not a positive whole number (an ``IndexError`` in L5Kit 1.x)."""


@dataclass(frozen=True)
class WindowSteps:
    """Selection of the frames around the current one that belong to a window.

    Attributes:
        history_num_frames: Past steps, without the current frame, 0 to 100,000.
        future_num_frames: Future steps, 0 to 100,000.
        history_step_size: Frames per past step, 1 to 100,000.
        future_step_size: Frames per future step, 1 to 100,000.

    Raises:
        InvalidArgumentError: A number of steps is out of range.
        StepSizeError: A step size is out of range.
    """

    history_num_frames: int
    future_num_frames: int
    history_step_size: int = 1
    future_step_size: int = 1

    def __post_init__(self) -> None:
        # Python integers, to avoid overflow of small NumPy types in later additions
        for name in ("history_num_frames", "future_num_frames"):
            given = getattr(self, name)
            try:
                num_frames = operator.index(given)
            except TypeError:
                num_frames = -1
            if not 0 <= num_frames <= MAX_NUM_FRAMES:
                raise InvalidArgumentError(f"{name} must be a whole number from 0 to {MAX_NUM_FRAMES}, got {given!r}")
            object.__setattr__(self, name, num_frames)
        for name in ("history_step_size", "future_step_size"):
            step_size = as_step_size(name, getattr(self, name))
            if step_size > MAX_NUM_FRAMES:
                raise StepSizeError(f"{name} must be at most {MAX_NUM_FRAMES}, got {step_size}")
            object.__setattr__(self, name, step_size)

    @classmethod
    def from_params(cls, params: SamplingParams | VectorSamplingParams) -> "WindowSteps":
        """Return the window required by samples with the given parameters."""
        return cls(
            params.history_num_frames, params.future_num_frames, params.history_step_size, params.future_step_size
        )

    @property
    def skips_frames(self) -> bool:
        """Whether a window may skip frames."""
        return self.history_step_size > 1 or self.future_step_size > 1


@dataclass(frozen=True)
class CurrentFrames:
    """Current frames of B windows, and their scenes.

    Attributes:
        frames: Frames of all scenes, with intervals in rows of the agents and faces, FRAME_DTYPE, (N,).
        rows: Current frame of each window, as a row of ``frames``, (B,).
        scene_starts: First frame of the scene, (B,).
        scene_stops: End frame of the scene, exclusive, (B,).

    Raises:
        InvalidArgumentError: The shapes do not match, or an array of rows is not of integers.
    """

    frames: RecordArray
    rows: Int64Array
    scene_starts: Int64Array
    scene_stops: Int64Array

    def __post_init__(self) -> None:
        shape = self.rows.shape
        if self.scene_starts.shape != shape or self.scene_stops.shape != shape:
            refuse_shapes(self, scene_starts=shape, scene_stops=shape)
        # usual case, checked with a single comparison: all three are signed
        if self.rows.dtype.kind + self.scene_starts.dtype.kind + self.scene_stops.dtype.kind != "iii":
            for name in ("rows", "scene_starts", "scene_stops"):
                numbers: NumericArray = getattr(self, name)
                if numbers.dtype.kind not in "iu":
                    raise InvalidArgumentError(f"{name} of CurrentFrames must be integers, got {numbers.dtype}")

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
    """Return the frames around the current frames and their rows, without copying rows where possible.

    Args:
        current: The current frames.
        agents: All agents, a NumPy array or an array of a dataset.
        tl_faces: All traffic light faces, likewise; may be empty whatever the intervals are.
        steps: Frames of each window.
        ego_extent_m: Length, width and height of the AV, from the facts of the log.

    Raises:
        CorruptedDataError: An interval reaches beyond its array.
        InvalidArgumentError: A current frame lies outside its scene, or a scene outside the frames; or an array of
            ``current`` has a foreign byte order or more than one axis.
    """
    frames, num_windows, skips_frames = current.frames.view(), len(current.rows), steps.skips_frames
    frames.setflags(write=False)  # the kernel is compiled for read-only arrays
    num_columns = steps.history_num_frames + 1 + steps.future_num_frames
    names = frames.dtype.names or ()
    lengths = (len(agents) if AGENT_INTERVAL in names else 0, len(tl_faces) if FACE_INTERVAL in names else 0)
    frames_cut, counts = np.empty((num_windows, num_columns), frames.dtype), np.empty((2, num_windows), np.int64)
    intervals, ranges = np.empty((2, 2, num_windows, num_columns), np.int64), np.empty((2, 2, num_windows), np.int64)
    try:
        wrong = _cut_windows(
            frames,
            (_intervals_of(frames, AGENT_INTERVAL), _intervals_of(frames, FACE_INTERVAL)),
            (current.rows, current.scene_starts, current.scene_stops),
            (steps.history_num_frames + 1, steps.future_num_frames),
            (steps.history_step_size, steps.future_step_size),
            lengths,
            (frames_cut, counts, intervals, ranges),
        )
    except NumbaError:
        _require_types(current)
        raise
    if wrong[0] >= 0:
        which, window, frame = wrong
        if which == _CURRENT_FRAMES:
            _refuse_current(current, window)
        raise CorruptedDataError(
            f"{(AGENT_INTERVAL, FACE_INTERVAL)[which]} {intervals[which, :, window, frame].tolist()} of a frame "
            f"does not lie within the {lengths[which]} rows of its array; run l5kit validate on the dataset and "
            "restore it from its source"
        )
    # do not read rows of skipped frames; without skipped frames a window is one range
    needed = intervals if skips_frames else ranges
    read_ahead([RowRanges(agents, *needed[0]), RowRanges(tl_faces, *needed[1])])
    agent_rows = _place_rows(agents, intervals[0], ranges[0], is_apart=skips_frames, strict=True)
    face_rows = _place_rows(tl_faces, intervals[1], ranges[1], is_apart=skips_frames, strict=False)
    return Windows(frames_cut, counts, agent_rows, face_rows, steps.history_num_frames + 1, ego_extent_m)


def as_step_size(argument: str, step_size: int) -> int:
    """Return a step size as a Python int, since small NumPy integers would overflow later."""
    try:
        number = operator.index(step_size)
    except TypeError as error:
        raise StepSizeError(f"{argument} must be a whole number, 1 or more, got {step_size!r}") from error
    if number <= 0:
        raise StepSizeError(f"{argument} must be 1 or more, got {number}")
    return number


def _refuse_current(current: CurrentFrames, window: int) -> NoReturn:
    _require_types(current)
    row, start, stop = (int(array[window]) for array in (current.rows, current.scene_starts, current.scene_stops))
    raise InvalidArgumentError(
        f"CurrentFrames: window {window} has row {row} in the scene from {start} to {stop}, but rows must lie within "
        f"their scenes, scene_starts <= rows < scene_stops, and scenes within the {len(current.frames)} frames"
    )


def _require_types(current: CurrentFrames) -> None:
    """Refuse arrays for which no kernel can be compiled, or whose byte order numba ignores."""
    for name, array in vars(current).items():
        if array.ndim != 1 or not array.dtype.isnative:
            raise InvalidArgumentError(
                f"{name} of CurrentFrames must have one axis and the byte order of this machine, got {array.dtype} of "
                f"shape {array.shape}; array.astype(array.dtype.newbyteorder('=')) has it"
            )


def _intervals_of(frames: RecordArray, field: str) -> Int64Array:
    """Return an interval of all frames (N, 2), read-only; a placeholder of the same layout if frames lack the field.

    A single frame has another layout, but the kernel needs two arrays of the same kind.
    """
    names = frames.dtype.names or ()
    for name in (field, AGENT_INTERVAL, FACE_INTERVAL):
        if name in names:
            return read_only_field(frames, name)
    return _NO_INTERVALS


def _place_rows(
    array: Records, intervals: Int64Array, ranges: Int64Array, *, is_apart: bool, strict: bool
) -> WindowRows:
    """Return the rows that intervals (2, B, F) name, which span ranges (2, B); ``strict`` as in ``rows_of``."""
    (starts, stops), (lows, highs) = intervals, ranges
    # no copy if one array holds all rows, as for a log in memory or a cache with enough room
    whole = whole_array(array, None if is_apart else (lows, highs), strict=strict) if len(array) else np.asarray(array)
    if whole is not None:
        arrays = [whole.view()]
    elif is_apart:
        # otherwise copy the rows of each window together, in order of time, and make its intervals relative to them
        arrays = []
        for starts_of_window, stops_of_window in zip(starts, stops, strict=True):
            order = np.argsort(starts_of_window, kind="stable").tolist()
            bounds_of_frames = zip(starts_of_window.tolist(), stops_of_window.tolist(), strict=True)
            slices = [slice(start, stop) for start, stop in bounds_of_frames]
            parts = [rows_of(array, slices[i], strict=strict) for i in order]
            end = 0
            for i, part in zip(order, parts, strict=True):
                starts_of_window[i], stops_of_window[i] = end, end + len(part)
                end += len(part)
            arrays.append(join_records(parts))
    else:
        bounds = zip(lows.tolist(), highs.tolist(), strict=True)
        arrays = [rows_of(array, slice(low, high), strict=strict) for low, high in bounds]
        _count_from(lows, highs, starts, stops)
    for rows in arrays:
        rows.setflags(write=False)  # kernels are compiled for read-only arrays
    return WindowRows(arrays, starts, stops, is_known_to_fit=True)


class _Current(NamedTuple):
    """Current frames of B windows; fields as in :class:`CurrentFrames`."""

    rows: Int64Array
    scene_starts: Int64Array
    scene_stops: Int64Array


class _Cut(NamedTuple):
    """Output arrays for B windows of H history and F future frames.

    Attributes:
        frames: (B, H + F).
        counts: Number of existing history and future frames, (2, B).
        intervals: Intervals of agents and of faces, 0 where there is no frame, (2, start and stop, B, H + F).
        ranges: Row range spanned by each window, (2, start and stop, B).
    """

    frames: RecordArray
    counts: Int64Array
    intervals: Int64Array
    ranges: Int64Array


@kernel_jit
def _cut_windows(
    frames: RecordArray,
    intervals_of_frames: tuple[Int64Array, Int64Array],
    current_arrays: tuple[Int64Array, ...],
    capacities: tuple[int, int],
    step_sizes: tuple[int, int],
    lengths: tuple[int, int],
    cut_arrays: tuple[NumericArray, ...],
) -> tuple[int, int, int]:
    """Write the windows around current frames; the arrays are those of :class:`_Current` and :class:`_Cut`.

    Capacities and step sizes are for history and future. Returns array, window and frame of the first interval outside
    its array, or -1 three times; empty intervals may lie beyond the end. The returned array is 2 if a current frame
    lies outside its scene, or a scene outside the frames.
    """
    current, cut = _Current(*current_arrays), _Cut(*cut_arrays)
    intervals, ranges = cut.intervals, cut.ranges
    intervals[:], ranges[:] = 0, 0
    for window in range(len(current.rows)):
        current_row = np.int64(current.rows[window])
        scene_start, scene_stop = np.int64(current.scene_starts[window]), np.int64(current.scene_stops[window])
        if not 0 <= scene_start <= current_row < scene_stop <= len(frames):
            return _CURRENT_FRAMES, window, 0
        for part in range(2):
            # steps to the edge of the scene; the past also counts the current frame, which always exists
            to_edge = current_row - scene_start if part == 0 else scene_stop - current_row - 1
            num_there = min(int(to_edge // step_sizes[part]) + 1 - part, capacities[part])
            for place in range(num_there):
                if part == 0:
                    row, column = current_row - place * step_sizes[0], place
                else:
                    row, column = current_row + (place + 1) * step_sizes[1], capacities[0] + place
                cut.frames[window, column] = frames[row]
                for which in range(2):
                    if lengths[which] == 0:
                        continue  # intervals stay (0, 0)
                    start, stop = intervals_of_frames[which][row, 0], intervals_of_frames[which][row, 1]
                    intervals[which, 0, window, column], intervals[which, 1, window, column] = start, stop
                    # The range of a window covers its filled intervals. Empty ones may lie anywhere but before
                    # the array.
                    if stop > start and start >= 0 and stop <= lengths[which]:
                        if ranges[which, 1, window] == 0 or start < ranges[which, 0, window]:
                            ranges[which, 0, window] = start
                        if stop > ranges[which, 1, window]:
                            ranges[which, 1, window] = stop
                    elif start < 0 or stop != start:
                        return which, window, column
            cut.counts[part, window] = num_there
    return -1, -1, -1


@kernel_jit
def _write_filled_ranges(starts: Int64Array, stops: Int64Array, lows: Int64Array, highs: Int64Array) -> None:
    """Write first and end row spanned by the non-empty intervals (B, F) of each window, or (0, 0)."""
    for window in range(starts.shape[0]):
        low, high = np.iinfo(np.int64).max, 0
        for frame in range(starts.shape[1]):
            if stops[window, frame] > starts[window, frame]:
                low, high = min(low, starts[window, frame]), max(high, stops[window, frame])
        lows[window], highs[window] = (low, high) if high > 0 else (0, 0)


@kernel_jit
def _count_from(lows: Int64Array, highs: Int64Array, starts: Int64Array, stops: Int64Array) -> None:
    """Make the intervals (B, F) of each window relative to its low; empty ones, which may lie anywhere, are clamped."""
    for window in range(starts.shape[0]):
        low, high = lows[window], highs[window]
        for frame in range(starts.shape[1]):
            starts[window, frame] = min(max(starts[window, frame], low), high) - low
            stops[window, frame] = min(max(stops[window, frame], low), high) - low


NewArray = Callable[[tuple[int, ...], DTypeLike], Any]
"""Makes an array of a shape and type: ``np.zeros``, or ``empty`` of a backend."""


class PoseArrays(NamedTuple):
    """The arrays of :class:`RelativePoses` inside kernels, which take a plain tuple: it is cheapest to hand over."""

    positions_m: Float32Array
    yaws_rad: Float32Array
    extents_m: Float32Array
    availabilities: NumericArray


@dataclass(frozen=True)
class RelativePoses:
    """Where tracks are in each of N frames, as seen from a pose; frames without the track hold zeros.

    The arrays are those of NumPy, or all of one device.

    Attributes:
        positions_m: (..., N, 2) float32, x forward, y left.
        yaws_rad: (..., N, 1) float32, in [-pi, pi).
        extents_m: Length and width, (..., N, 2) float32.
        availabilities: Whether the track is in the frame, (..., N): bool, or 1 and 0 in float32.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    positions_m: Float32Array
    yaws_rad: Float32Array
    extents_m: Float32Array
    availabilities: NumericArray

    def __post_init__(self) -> None:
        shape = self.availabilities.shape
        twos, ones = (*shape, 2), (*shape, 1)
        if self.positions_m.shape != twos or self.yaws_rad.shape != ones or self.extents_m.shape != twos:
            refuse_shapes(self, positions_m=twos, yaws_rad=ones, extents_m=twos)

    @classmethod
    def new(cls, make: NewArray, *shape: int, availabilities: DTypeLike) -> "RelativePoses":
        """Return poses (..., N) to be written.

        Args:
            make: Makes the arrays.
            *shape: The shape.
            availabilities: The type of these, bool or float32.
        """
        return cls(
            make((*shape, 2), np.float32),
            make((*shape, 1), np.float32),
            make((*shape, 2), np.float32),
            make(shape, availabilities),
        )

    @property
    def flags(self) -> Any:
        """The availabilities as new bools: an array for arrays, a tensor for tensors."""
        known = self.availabilities
        return known.astype(np.bool_) if isinstance(known, np.ndarray) else known != 0

    def mapped(self, view: Callable[[Any], Any]) -> "RelativePoses":
        """Return the same with what a function makes of each array, such as the tensor of an array of a device."""
        return RelativePoses(*map(view, self.as_arrays()))

    def as_arrays(self) -> tuple[NumericArray, ...]:
        """Return the four arrays, in the order of :class:`PoseArrays`."""
        return self.positions_m, self.yaws_rad, self.extents_m, self.availabilities
