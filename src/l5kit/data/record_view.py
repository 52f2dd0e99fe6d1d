"""Record view: ranges of rows of several arrays, which read like one array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from l5kit._types import DType, Int64Array, NumericArray, Records
from l5kit.data import layout
from l5kit.data.record_bytes import as_record_type
from l5kit.data.record_sequence import (
    ROWS_PER_BLOCK,
    RecordSequence,
    require_within,
    rows_of,
    signature_of,
    whole_array,
)
from l5kit.errors import InvalidArgumentError


@dataclass(frozen=True)
class Segments:
    """Row ranges of source arrays, in the order in which a view strings them together.

    Attributes:
        source: Index of the source array of each range, (S,).
        start: First row of each range in its source, (S,).
        stop: End row, not included, (S,).
        shifts: For each interval field, what is added to its values in each range, (S,).
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
    """Read-only view that strings row ranges of arrays together without copying them.

    Args:
        sources: Arrays of one record type: NumPy arrays or arrays of opened datasets.
        segments: The row ranges.
        dtype: Record type of the view; rows of sources of another type are converted field by field.
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
        """The arrays whose rows are strung together."""
        return list(self._sources)

    @property
    def segments(self) -> Segments:
        """The row ranges."""
        return self._segments

    @property
    def whole(self) -> NumericArray | None:
        """All rows, if they are one range of a source that lies in memory and no interval is shifted; else None."""
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
        """Return rows [start, stop): a view where one range without shifts holds them; see the base class."""
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
        """Return rows [start, stop) of the view, all in one range."""
        ranges = self._segments
        # rows of the view and of its source differ by as much in all of a range
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
        """Return the signatures of the sources and the row ranges; None if a source has none."""
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
    """Return a view over arrays that are all the same attribute of their datasets."""
    key = next(key for key, (name, _, _) in layout.ARRAYS.items() if name == attribute)
    dtypes = {layout.with_face_interval(source.dtype) if attribute == "frames" else source.dtype for source in sources}
    if len(dtypes) > 1:  # narrow fields of old sets are widened; other fields stay if all have them
        dtypes = {layout.standard_with_others(dtype, key) for dtype in dtypes}
    standard: DType = np.dtype(layout.ARRAYS[key][1])
    return RecordView(sources, segments, dtype=dtypes.pop() if len(dtypes) == 1 else standard)
