"""Views without copies: row ranges of arrays read as one array, selected scenes, and first frames of scenes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from l5kit._types import Int64Array, NumericArray, RecordArray, Records
from l5kit.data import layout
from l5kit.data.index.log_index import check_scenes
from l5kit.data.record_bytes import as_record_type
from l5kit.data.record_sequence import (
    ROWS_PER_BLOCK,
    RecordSequence,
    require_within,
    rows_of,
    signature_of,
    whole_array,
)
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL, FRAME_INTERVAL
from l5kit.errors import CorruptedDataError, InvalidArgumentError

_SUM_TOLERANCE = 1e-9

_CHILD_INTERVALS = {"agents": AGENT_INTERVAL, "tl_faces": FACE_INTERVAL}


@dataclass(frozen=True)
class Segments:
    """Row ranges of source arrays, in the order in which a view concatenates them.

    Attributes:
        source: Index of the source array of each range, (S,).
        start: First row of each range in its source, (S,).
        stop: End row of each range, exclusive, (S,).
        shifts: Offset added to the values of each interval field, per range, (S,).
    """

    source: Int64Array
    start: Int64Array
    stop: Int64Array
    shifts: Mapping[str, Int64Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shapes = {"start": self.start.shape, "stop": self.stop.shape}
        shapes |= {name: shift.shape for name, shift in self.shifts.items()}
        wrong = {name: shape for name, shape in shapes.items() if shape != self.source.shape}
        if self.source.ndim != 1 or wrong:
            raise InvalidArgumentError(
                f"segments need arrays of one shape (S,), got source {self.source.shape}, {wrong}"
            )
        if (self.stop < self.start).any():
            raise InvalidArgumentError("segments need start <= stop in every range")

    @property
    def ends(self) -> Int64Array:
        """End row of each range in the view, (S,)."""
        return np.cumsum(self.stop - self.start)


class RecordView(RecordSequence):
    """Read-only view that concatenates row ranges of arrays without copying them.

    Args:
        sources: Arrays of one record type: NumPy arrays or arrays of opened datasets.
        segments: The row ranges.
        dtype: Record type of the view; rows of other types are converted field by field.
    """

    def __init__(self, sources: Sequence[Records], segments: Segments, *, dtype: np.dtype[np.void]) -> None:
        self.dtype = np.dtype(dtype)
        self._sources = list(sources)
        self._segments = segments
        self._ends = segments.ends
        self._length = int(self._ends[-1]) if len(self._ends) else 0

    def __len__(self) -> int:
        return self._length

    @property
    def sources(self) -> list[Records]:
        """The concatenated arrays."""
        return list(self._sources)

    @property
    def segments(self) -> Segments:
        """The row ranges."""
        return self._segments

    @property
    def whole(self) -> NumericArray | None:
        """All rows, if they are one range of an in-memory source and no interval is shifted; otherwise None."""
        ranges = self._segments
        if len(ranges.source) == 0 or any(shift.any() for shift in ranges.shifts.values()):
            return None
        if (ranges.source != ranges.source[0]).any() or (ranges.start[1:] != ranges.stop[:-1]).any():
            return None
        rows = whole_array(self._sources[ranges.source[0]])
        if rows is None or rows.dtype != self.dtype or ranges.stop[-1] > len(rows):
            return None
        rows = rows[ranges.start[0] : ranges.stop[-1]]
        rows.setflags(write=False)
        return rows

    def rows(self, start: int, stop: int, *, strict: bool = False) -> NumericArray:
        """Return rows [start, stop), without a copy if they lie in one range without shifts; see the base class."""
        if strict:
            require_within(self, slice(start, stop))
        if stop <= start:
            return np.empty(0, dtype=self.dtype)
        first = int(np.searchsorted(self._ends, start, side="right"))
        if stop <= self._ends[first]:
            return self._part(first, start, stop, strict)
        rows = np.empty(stop - start, dtype=self.dtype)
        low = start
        while low < stop:
            high = min(stop, int(self._ends[first]))
            rows[low - start : high - start] = self._part(first, low, high, strict)
            low, first = high, first + 1
        rows.setflags(write=False)
        return rows

    def _part(self, segment: int, start: int, stop: int, strict: bool) -> NumericArray:
        """Return rows [start, stop) of the view, which lie in one range."""
        ranges = self._segments
        # row offset between view and source, constant within a range
        offset = int(ranges.stop[segment]) - int(self._ends[segment])
        rows = rows_of(self._sources[ranges.source[segment]], slice(start + offset, stop + offset), strict=strict)
        if rows.dtype != self.dtype:
            rows = as_record_type(rows, self.dtype)
        else:
            rows = rows.copy() if ranges.shifts else rows.view()
        for name, shift in ranges.shifts.items():
            rows[name] += shift[segment]
        rows.setflags(write=False)
        return rows

    def _block_of(self, row: int) -> tuple[int, NumericArray]:
        segment = int(np.searchsorted(self._ends, row, side="right"))
        end = int(self._ends[segment])
        first = end - int(self._segments.stop[segment] - self._segments.start[segment])
        start = max(first, row // ROWS_PER_BLOCK * ROWS_PER_BLOCK)
        return start, self.rows(start, min(end, (row // ROWS_PER_BLOCK + 1) * ROWS_PER_BLOCK))

    def signature(self) -> object:
        """Return the signatures of the sources and the row ranges; None if a source has no signature."""
        signatures = [signature_of(source) for source in self._sources]
        if any(signature is None for signature in signatures):
            return None
        ranges = self._segments
        return signatures, ranges.source.tobytes(), ranges.start.tobytes(), ranges.stop.tobytes()

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self._length} rows in {len(self._ends)} ranges of {len(self._sources)} arrays>"
        )


def view_of(sources: Sequence[Records], segments: Segments, attribute: str) -> RecordView:
    """Return a view over arrays that are the same attribute of several datasets."""
    key = next(key for key, (name, _, _) in layout.ARRAYS.items() if name == attribute)
    dtypes = {layout.with_face_interval(source.dtype) if attribute == "frames" else source.dtype for source in sources}
    if len(dtypes) > 1:  # widen narrow fields of old datasets; keep extra fields only if all have them
        dtypes = {layout.standard_with_others(dtype, key) for dtype in dtypes}
    return RecordView(sources, segments, dtype=dtypes.pop() if len(dtypes) == 1 else layout.ARRAYS[key].dtype)


if TYPE_CHECKING:
    from l5kit.data.zarr_dataset import ChunkedDataset


def view_of_scenes(dataset: "ChunkedDataset", scene_indices: Int64Array) -> "ChunkedDataset":
    """Return a view of selected scenes of a dataset, in the given order, with all interval fields shifted.

    Args:
        dataset: Opened dataset.
        scene_indices: Scene indices, (N,), not negative. Consecutive scenes stay in one range.

    Raises:
        CorruptedDataError: Intervals of these scenes are wrong, or a file with them is damaged.
    """
    indices = np.asarray(scene_indices, dtype=np.int64)
    intervals = _scene_intervals(dataset, indices)
    # merge consecutive scenes with contiguous frames, as lookups are faster with few ranges
    breaks = (np.diff(indices) != 1) | (intervals[1:, 0] != intervals[:-1, 1])
    first = np.concatenate(([0], np.flatnonzero(breaks) + 1)) if len(indices) else np.empty(0, dtype=np.int64)
    last = np.concatenate((first[1:], [len(indices)])) - 1 if len(indices) else first
    frames = np.stack([intervals[first, 0], intervals[last, 1]], axis=1)
    scenes = np.stack([indices[first], indices[last] + 1], axis=1)
    shifts = {FRAME_INTERVAL: _new_starts(frames) - frames[:, 0]}
    return dataset.in_memory(
        scenes=view_of([dataset.scenes], _segments(scenes, shifts), "scenes"),
        **_frame_views(dataset, frames),
        facts=dataset.own_facts,
    )


def view_of_first_frames(dataset: "ChunkedDataset", num_frames: int) -> "ChunkedDataset":
    """Return a view of the first frames of every scene of a dataset; host and times of the scenes are kept.

    Args:
        dataset: Opened dataset.
        num_frames: Frames per scene; shorter scenes keep all frames.

    Raises:
        CorruptedDataError: Intervals of scenes are wrong, or a file with them is damaged.
    """
    frames = _scene_intervals(dataset, np.arange(len(dataset.scenes)))
    frames[:, 1] = np.minimum(frames[:, 1], frames[:, 0] + num_frames)
    scenes = np.array(rows_of(dataset.scenes, slice(0, len(dataset.scenes)), strict=True))
    starts = _new_starts(frames)
    scenes[FRAME_INTERVAL] = np.stack([starts, starts + frames[:, 1] - frames[:, 0]], axis=1)
    return dataset.in_memory(scenes=scenes, **_frame_views(dataset, frames), facts=dataset.own_facts)


def split_scenes(dataset: "ChunkedDataset", fractions: Sequence[float], *, seed: int = 0) -> "list[ChunkedDataset]":
    """Return views of disjoint, randomly chosen scenes of a dataset, without copying it.

    Args:
        dataset: Opened dataset.
        fractions: Share of the scenes in each view, such as ``(0.9, 0.1)``; each above 0, together at most 1.
        seed: Seed of the choice; equal seed, fractions and number of scenes give equal views.

    Returns:
        One view per fraction, with scenes in the order of the dataset. If the fractions add up to 1, the views contain
        every scene.

    Raises:
        InvalidArgumentError: A fraction is not above 0, the sum exceeds 1, or a view would have no scene.
    """
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.ndim != 1 or len(shares) == 0 or not (shares > 0).all() or shares.sum() > 1 + _SUM_TOLERANCE:
        raise InvalidArgumentError(f"fractions must be above 0 and add up to at most 1, got {fractions!r}")
    num_scenes = len(dataset.scenes)
    # round cumulative shares instead of single shares, so that no scene is lost
    bounds = np.concatenate(([0], np.floor(np.cumsum(shares) * num_scenes + 0.5))).astype(np.int64)
    if not (np.diff(bounds) > 0).all():
        raise InvalidArgumentError(
            f"fractions {fractions!r} of {num_scenes} scenes give {np.diff(bounds).tolist()} scenes; "
            "each must be at least one: use larger fractions or more scenes"
        )
    order = np.random.default_rng(seed).permutation(num_scenes)
    return [view_of_scenes(dataset, np.sort(order[start:stop])) for start, stop in pairwise(bounds)]


def _scene_intervals(dataset: "ChunkedDataset", scene_indices: Int64Array) -> Int64Array:
    """Return a copy of the frame intervals of selected scenes, (N, 2), checked."""
    run = check_scenes(dataset)
    wrong = scene_indices[~run.is_sound[scene_indices]]
    if len(wrong):
        raise CorruptedDataError(
            f"{run.explain(int(wrong[0]))}; leave this scene out, or restore the dataset from its source "
            "(l5kit validate lists all that is wrong)"
        )
    return run.bounds[scene_indices]


def _frame_views(dataset: "ChunkedDataset", frames: Int64Array) -> dict[str, Records]:
    """Return views of the frames in ranges (S, 2), and of their agents and faces."""
    views, shifts = {}, {}
    filled = frames[:, 1] > frames[:, 0]
    opening = _records_at(dataset.frames, frames[filled, 0])
    closing = _records_at(dataset.frames, frames[filled, 1] - 1)
    for attribute, interval in _CHILD_INTERVALS.items():
        ranges = np.zeros_like(frames)
        if interval in (opening.dtype.names or ()):
            ranges[filled] = np.stack([opening[interval][:, 0], closing[interval][:, 1]], axis=1)
        array = getattr(dataset, attribute)
        is_wrong = (ranges[:, 0] < 0) | (ranges[:, 1] < ranges[:, 0]) | (ranges[:, 1] > len(array))
        if is_wrong.any():
            require_within(array, slice(*ranges[int(np.argmax(is_wrong))].tolist()))

        # make the intervals relative to the view: new start of each range minus its old start
        shifts[interval] = _new_starts(ranges) - ranges[:, 0]
        views[attribute] = view_of([array], _segments(ranges, {}), attribute)
    return {"frames": view_of([dataset.frames], _segments(frames, shifts), "frames"), **views}


def _records_at(frames: Records, rows: Int64Array) -> RecordArray:
    """Return single frames; raise if a file is missing."""
    records = np.zeros(len(rows), dtype=frames.dtype)
    for position in np.argsort(rows, kind="stable"):
        row = int(rows[position])
        records[position] = rows_of(frames, slice(row, row + 1), strict=True)[0]
    return records


def _new_starts(ranges: Int64Array) -> Int64Array:
    """Return the start of each of the concatenated ranges (S, 2)."""
    lengths = ranges[:, 1] - ranges[:, 0]
    starts: Int64Array = np.cumsum(lengths) - lengths
    return starts


def _segments(ranges: Int64Array, shifts: dict[str, Int64Array]) -> Segments:
    return Segments(np.zeros(len(ranges), dtype=np.int64), ranges[:, 0].copy(), ranges[:, 1].copy(), shifts)
