"""Interval index: lookup of the record that owns a row, from the intervals of one field."""

from typing import Self

import numpy as np

from l5kit._types import Int64Array


class IntervalIndex:
    """Intervals of records, possibly damaged.

    Args:
        parents: Index of the record of each interval, ascending, (P,).
        bounds: First row and end row of each interval, (P, 2).

    Attributes:
        parents: As given.
        bounds: As given.
    """

    def __init__(self, parents: Int64Array, bounds: Int64Array) -> None:
        self.parents = parents
        self.bounds = bounds
        filled = np.flatnonzero(bounds[:, 0] < bounds[:, 1])
        self._order = filled[np.argsort(bounds[filled, 0], kind="stable")]
        self._starts = bounds[self._order, 0]

    @classmethod
    def from_blocks(cls, blocks: list[tuple[int, Int64Array]]) -> Self:
        """Return the index of intervals given as blocks of (first record, intervals (B, 2))."""
        parents = [np.arange(start, start + len(bounds), dtype=np.int64) for start, bounds in blocks]
        all_bounds = [bounds for _, bounds in blocks]
        if not blocks:
            return cls(np.empty(0, dtype=np.int64), np.empty((0, 2), dtype=np.int64))
        return cls(np.concatenate(parents), np.concatenate(all_bounds))

    def bounds_of_all(self, num_records: int) -> Int64Array:
        """Return the interval of each record, (num_records, 2), or (-1, -1) for records without one here."""
        bounds = np.full((num_records, 2), -1, np.int64)
        bounds[self.parents] = self.bounds
        return bounds

    def used_end(self, length: int) -> int:
        """Return the end of the last interval that lies within ``length`` rows."""
        starts, stops = self.bounds[:, 0], self.bounds[:, 1]
        inside = stops[(starts >= 0) & (starts <= stops) & (stops <= length)]
        return int(inside.max(initial=0))

    def part(self, first_row: int, end_row: int) -> "IntervalIndex":
        """Return the intervals that may own rows in [first_row, end_row); lookups of these rows do not change."""
        first = max(int(np.searchsorted(self._starts, first_row, side="right")) - 1, 0)
        end = int(np.searchsorted(self._starts, end_row, side="left"))
        chosen = np.sort(self._order[first:end])
        return IntervalIndex(self.parents[chosen], self.bounds[chosen])

    def owners(self, rows: Int64Array) -> Int64Array:
        """Return the record that owns each row (N,), or -1; among overlapping records the one that starts last."""
        if len(self._order) == 0:
            return np.full(len(rows), -1, dtype=np.int64)
        position = np.searchsorted(self._starts, rows, side="right") - 1
        interval = self._order[np.maximum(position, 0)]
        owned = (position >= 0) & (rows < self.bounds[interval, 1])
        return np.where(owned, self.parents[interval], -1)
