"""Interval runs: the intervals of successive records, and which of them can be trusted.

Scenes refer to rows of the frames, frames to rows of the agents and of the traffic light faces. The format requires
that these intervals are a run: each starts where the previous one ends, the first one at 0, so that every row belongs
to one record. A lookup in a broken run would return rows of another record, so runs are checked first.

A border between two records is stored twice, as the end of the one and as the start of the other. If the two disagree,
one of the records is wrong, and often it can be determined which: it disagrees on both sides, or exceeds the array, or
is empty where nothing ends. If it cannot be determined, neither is trusted.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np

from l5kit._types import BoolArray, Int64Array, UInt8Array
from l5kit.data.index.interval_index import IntervalIndex

IsBreak = Callable[[Int64Array], BoolArray]
"""Function of rows (N,) that returns which of them do not continue the previous row, bool (N,)."""


GoesOn = Callable[[Int64Array, Int64Array], BoolArray]
"""Function of the records before and after gaps, (N,) each: returns where none can have been left out between."""


class IntervalFault(IntEnum):
    """Fault of the interval of a record."""

    NONE = 0
    UNREADABLE = 1
    """The record could not be read."""
    REVERSED = 2
    """It ends before it starts."""
    OUTSIDE = 3
    """It is not within the rows."""
    FLOATING = 4
    """It is empty, but neither at the end of the previous one nor at the start of the next one."""
    EMPTY = 5
    """It is empty, and rows that belong to no record follow."""
    START = 6
    """It does not start where the previous one ends, and its start may be wrong."""
    STOP = 7
    """It does not end where the next one starts, and its end may be wrong."""
    BOTH = 8
    """It fits neither the previous one nor the next one."""
    SHIFTED = 9
    """It is part of a consistent stretch that is shifted as a whole."""
    MISPLACED = 10
    """It is before an earlier one, or after a later one."""


_MOST_DAMAGED_GAPS = 1000
"""Size of gaps, in whole records, above which they are considered intentional."""

_MOST_STRETCHES = 2000
"""Number of unordered stretches above which none of them is trusted."""


@dataclass(frozen=True)
class RunTitles:
    """Names of the parts of a run in messages.

    Attributes:
        record: One record, such as ``scene``.
        field: Its field that holds the interval.
        row: One row, such as ``frame``.
    """

    record: str
    field: str
    row: str


@dataclass(frozen=True)
class IntervalRun:
    """The intervals of P successive records, checked.

    Attributes:
        titles: Names of the parts in messages.
        length: End of the rows of the intervals.
        bounds: First row and end row of each interval, int64 (P, 2); (-1, -1) for an unreadable record.
        faults: Fault of each, values of :class:`IntervalFault`, uint8 (P,); None without any.
        is_plain: Whether there is no fault and each row belongs to a record, so that the ends determine it.
        origin: Index of the first record, and the row at which it must start; not 0 for a part of a run.
        read_errors: Errors of unreadable records, by the first record of each block.
    """

    titles: RunTitles
    length: int
    bounds: Int64Array
    faults: UInt8Array | None
    is_plain: bool
    origin: tuple[int, int] = (0, 0)
    read_errors: dict[int, str] = field(default_factory=dict)

    @classmethod
    def check(
        cls,
        titles: RunTitles,
        bounds: Int64Array,
        length: int,
        *,
        is_break: IsBreak | None = None,
        goes_on: GoesOn | None = None,
        num_used: int | None = None,
        origin: tuple[int, int] = (0, 0),
        read_errors: dict[int, str] | None = None,
    ) -> "IntervalRun":
        """Return a run with its faults.

        Args:
            titles: Names of the parts in messages.
            bounds: Intervals (P, 2); (-1, -1) for an unreadable record.
            length: End of the rows.
            is_break: Returns at which rows a record may plausibly start, which decides conflicts about a border.
            goes_on: Returns between which records, by their rows in ``bounds``, none can have been left out, so that
                any gap is damage.
            num_used: Number of the first records that are in use; None if all are.
            origin: See the class.
            read_errors: See the class.
        """
        # usually the intervals follow each other from the first row to the last, without any fault
        is_plain = origin[1] == length
        if len(bounds):
            starts, stops = bounds[:, 0], bounds[:, 1]
            is_whole = starts[0] == origin[1] and stops[-1] == length
            is_plain = bool(is_whole and (starts[1:] == stops[:-1]).all() and (starts <= stops).all())
        faults = np.zeros(len(bounds), np.uint8)
        if not is_plain:
            # rows of the used records end where the first unused one starts, if the last used one ends there
            num_records, end = len(bounds) if num_used is None else num_used, length
            if 0 < num_records < len(bounds) and bounds[num_records, 0] == bounds[num_records - 1, 1]:
                end = min(int(bounds[num_records, 0]), length)
            used = bounds[:num_records]
            faults[:num_records] = _find_faults(used, (origin[1], end), is_break, goes_on)
        return cls(titles, length, bounds, faults if faults.any() else None, is_plain, origin, read_errors or {})

    def __len__(self) -> int:
        return len(self.bounds)

    @cached_property
    def is_sound(self) -> BoolArray:
        """Whether each record can be trusted, (P,)."""
        return np.ones(len(self.bounds), np.bool_) if self.faults is None else self.faults == IntervalFault.NONE

    @cached_property
    def _num_wrong(self) -> Int64Array:
        """Number of untrusted records before each one, and in total, (P + 1,)."""
        return np.concatenate([[0], np.cumsum(~self.is_sound)])

    @cached_property
    def _owners(self) -> tuple[IntervalIndex, ...]:
        """Index of trusted records and index of the others, each with their rows."""
        groups = np.flatnonzero(self.is_sound), np.flatnonzero(~self.is_sound)
        return tuple(IntervalIndex(records, self.bounds[records]) for records in groups)

    def has_wrong(self, starts: Int64Array, stops: Int64Array) -> BoolArray:
        """Return which ranges of records (N,) contain an untrusted one."""
        return self._num_wrong[stops] > self._num_wrong[starts]

    def owners(self, rows: Int64Array) -> Int64Array:
        """Return the record of each row (N,), including untrusted records; -1 for none."""
        owners = np.full(len(rows), -1, np.int64)
        for index in self._owners:
            is_free = owners < 0
            owners[is_free] = index.owners(rows[is_free])
        return owners

    def fault(self, record: int) -> IntervalFault:
        """Return the fault of a record."""
        return IntervalFault.NONE if self.faults is None else IntervalFault(int(self.faults[record]))

    def explain(self, record: int) -> str:
        """Return in words the fault of an untrusted record."""
        fault = self.fault(record)
        if fault == IntervalFault.UNREADABLE:
            first = max((start for start in self.read_errors if start <= record), default=None)
            reason = "" if first is None else f": {self.read_errors[first]}"
            return f"{self.titles.record} {record + self.origin[0]} cannot be read{reason}"
        titles, (start, stop) = self.titles, self.bounds[record].tolist()
        interval = f"{titles.field} [{start}, {stop}] of {titles.record} {record + self.origin[0]}"

        # the end of the previous filled interval and the start of the next one; the end of the rows after all of them
        starts, stops = self.bounds[:, 0], self.bounds[:, 1]
        is_filled = (starts >= 0) & (stops > starts) & (stops <= self.length)
        before, after = np.flatnonzero(is_filled[:record]), np.flatnonzero(is_filled[record + 1 :])
        end_before = int(stops[before[-1]]) if len(before) else self.origin[1]
        next_start = int(starts[after[0] + record + 1]) if len(after) else self.length
        texts = {
            IntervalFault.NONE: "is as it should be",
            IntervalFault.REVERSED: "ends before it starts",
            IntervalFault.OUTSIDE: f"does not lie within the {self.length} {titles.row}s",
            IntervalFault.FLOATING: f"is empty, but not at {end_before}, where the previous one ends",
            IntervalFault.EMPTY: f"is empty, but the {titles.row}s from {end_before} to {next_start} belong to no "
            f"{titles.record}",
            IntervalFault.START: f"does not start at {end_before}, where the previous one ends",
            IntervalFault.STOP: f"does not end at {next_start}, where the next one starts",
            IntervalFault.BOTH: f"neither starts at {end_before}, where the previous one ends, nor ends at "
            f"{next_start}, where the next one starts",
            IntervalFault.SHIFTED: f"is one of several that all lie too far ahead or behind, by as many {titles.row}s",
            IntervalFault.MISPLACED: f"does not lie between those of the {titles.record}s before and after it",
        }
        return f"{interval} {texts[fault]}"

    def explain_row(self, row: int) -> str:
        """Return in words why a row belongs to no record."""
        around = f"{self.titles.row} {row} belongs to no {self.titles.record}"
        suspect = self.suspect(row)
        if suspect is not None:
            return f"{around}: {self.explain(suspect)}"
        before, after = self._sound_around(row)
        ends = "" if before is None else f"{self.titles.record} {before} ends at {self.bounds[before, 1]}"
        starts = "" if after is None else f"{self.titles.record} {after} starts at {self.bounds[after, 0]}"
        return f"{around}: {', '.join(text for text in (ends, starts or 'there are no more') if text)}"

    def suspect(self, row: int) -> int | None:
        """Return the record that may have lost an unowned row, if there is a faulty one."""
        wrong = np.flatnonzero(~self.is_sound)
        if len(wrong) == 0:
            return None
        before, after = self._sound_around(row)
        first = 0 if before is None else before + 1
        end = len(self.bounds) if after is None else after
        between = wrong[(wrong >= first) & (wrong < end)]
        return int((between if len(between) else wrong)[0])

    def _sound_around(self, row: int) -> tuple[int | None, int | None]:
        """Return the trusted records that end last before a row, and start first after it."""
        sound = np.flatnonzero(self.is_sound & (self.bounds[:, 1] > self.bounds[:, 0]))
        before, after = sound[self.bounds[sound, 1] <= row], sound[self.bounds[sound, 0] > row]
        return (
            int(before[np.argmax(self.bounds[before, 1])]) if len(before) else None,
            int(after[np.argmin(self.bounds[after, 0])]) if len(after) else None,
        )


def _find_faults(
    bounds: Int64Array, rows: tuple[int, int], is_break: IsBreak | None, goes_on: GoesOn | None
) -> UInt8Array:
    """Return the fault of each interval (P,) of a range of rows, values of :class:`IntervalFault`."""
    starts, stops = bounds[:, 0], bounds[:, 1]
    faults = np.zeros(len(bounds), np.uint8)
    faults[stops < starts] = IntervalFault.REVERSED
    faults[(starts < 0) | (stops > rows[1])] = IntervalFault.OUTSIDE
    faults[(bounds == -1).all(axis=1)] = IntervalFault.UNREADABLE
    filled = np.flatnonzero((faults == 0) & (stops > starts))
    misplaced = _mark_floating(faults, bounds, filled, rows)
    if len(filled):
        # a faulty interval explains a border: its rows may be missing there
        num_wrong = np.concatenate([[0], np.cumsum(faults > 0)])
        is_explained = np.diff(num_wrong[np.append(filled, len(faults))], prepend=0) > 0

        # gaps that cannot be left-out records; other intervals in between may explain a gap
        are_damage = np.zeros(len(filled) + 1, np.bool_)
        is_gap = (bounds[filled[1:], 0] > bounds[filled[:-1], 1]) & (np.diff(filled) == 1)
        behind = np.flatnonzero(is_gap) + 1
        if goes_on is not None and 0 < len(behind) <= min(_MOST_DAMAGED_GAPS, len(filled) // 2):
            are_damage[behind] = goes_on(filled[behind - 1], filled[behind])

        # borders with empty intervals: at the end of the previous interval, and at the start of the next one
        empty, border = _empty_at_borders(faults, bounds, filled)
        has_empty = np.zeros((2, len(filled) + 1), np.bool_)
        for has_some, sides in zip(has_empty, _sides(bounds[filled], rows), strict=True):
            has_some[border[bounds[empty, 0] == sides[border]]] = True

        filled_faults, has_gap = _compare_sides(
            bounds[filled],
            rows,
            is_explained=is_explained,
            is_break=is_break,
            are_damage=are_damage,
            has_empty=has_empty,
        )
        is_shifted = _are_shifted(bounds, filled, rows)
        filled_faults[is_shifted] = IntervalFault.SHIFTED
        _mark_empty(faults, bounds, filled, has_gap, filled_faults)
        faults[filled] = _blame_others(filled_faults, is_shifted)
        faults[misplaced] = IntervalFault.MISPLACED
        _mark_misplaced(faults, bounds, filled, rows[0])
        faults[filled] = _blame_others(faults[filled], faults[filled] == IntervalFault.MISPLACED)
        _clear_empty(faults, bounds, filled, rows)
    return faults


def _sides(bounds: Int64Array, rows: tuple[int, int]) -> tuple[Int64Array, Int64Array]:
    """Return the end of the interval before each border of M filled ones, and the start of the next one, (M + 1,)."""
    return np.append(rows[0], bounds[:, 1]), np.append(bounds[:, 0], rows[1])


def _empty_at_borders(faults: UInt8Array, bounds: Int64Array, filled: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the empty intervals without a fault, and the border of the filled ones at which each is."""
    empty = np.flatnonzero((faults == 0) & (bounds[:, 0] == bounds[:, 1]))
    return empty, np.searchsorted(filled, empty)


def _mark_floating(faults: UInt8Array, bounds: Int64Array, filled: Int64Array, rows: tuple[int, int]) -> Int64Array:
    """Mark empty intervals that are neither at the end of the previous filled one nor at the start of the next one.

    Returns:
        The filled intervals such that a misplaced empty one fits on their other side, no rows are missing there, and no
        empty one in between is correct: the two were swapped.
    """
    empty, border = _empty_at_borders(faults, bounds, filled)
    ends, starts = _sides(bounds[filled], rows)
    empty_rows = bounds[empty, 0]
    is_floating = (empty_rows != ends[border]) & (empty_rows != starts[border])
    faults[empty[is_floating]] = IntervalFault.FLOATING
    is_swapped = is_floating & (ends == starts)[border]
    num_fitting = np.zeros(len(faults) + 1, np.int64)  # number of correctly placed empty ones before each interval
    num_fitting[empty[~is_floating] + 1] = 1
    num_fitting = np.cumsum(num_fitting)
    is_next = num_fitting[np.append(-1, filled)[border] + 1] == num_fitting[empty]
    is_last = num_fitting[np.append(filled, len(faults))[border]] == num_fitting[empty]
    fits_before = is_swapped & is_next & (empty_rows == np.append(-1, bounds[filled, 0])[border])
    fits_behind = is_swapped & is_last & (empty_rows == np.append(bounds[filled, 1], -1)[border])
    return np.concatenate([filled[border[fits_before] - 1], filled[border[fits_behind]]])


def _are_shifted(bounds: Int64Array, filled: Int64Array, rows: tuple[int, int]) -> BoolArray:
    """Return which of M filled intervals belong to a stretch of several that is shifted, (M,).

    Such a stretch leaves a gap on one side and overlaps by the same number of rows on the other. At the first and the
    last row it may exceed the rows, with intervals that are no longer among the filled ones.
    """
    ends, starts = _sides(bounds[filled], rows)
    begin_of_all = -_end_of_chain(-starts[0], -bounds[: filled[0], ::-1][::-1])
    end_of_all = _end_of_chain(ends[-1], bounds[filled[-1] + 1 :])
    comes_before, goes_on = begin_of_all < rows[0], end_of_all > rows[1]
    if comes_before:
        starts[0] = begin_of_all
    if goes_on:
        ends[-1] = end_of_all
    gaps = starts - ends
    wrong = np.flatnonzero(gaps)
    is_shifted = np.zeros(len(filled), np.bool_)
    opposite = np.flatnonzero(gaps[wrong[1:]] == -gaps[wrong[:-1]])
    for begin, end in zip(wrong[opposite].tolist(), wrong[opposite + 1].tolist(), strict=True):
        reaches_beyond = (comes_before and begin == 0) or (goes_on and end == len(filled))
        is_shifted[begin:end] = end - begin > 1 or reaches_beyond
    return is_shifted


def _end_of_chain(start: int, bounds: Int64Array) -> int:
    """Return the end of the last of successive intervals (N, 2) from a row on; ``start`` for none."""
    breaks = bounds[:, 0] != np.append(start, bounds[:-1, 1])[: len(bounds)]
    length = int(np.argmax(breaks)) if breaks.any() else len(bounds)
    return int(bounds[length - 1, 1]) if length else int(start)


def _blame_others(faults: UInt8Array, is_elsewhere: BoolArray) -> UInt8Array:
    """Return the faults of filled intervals (M,), without those at a border that a misplaced one explains."""
    cleared = faults.copy()
    cleared[(faults == IntervalFault.STOP) & np.append(is_elsewhere[1:], False)] = IntervalFault.NONE
    cleared[(faults == IntervalFault.START) & np.append(False, is_elsewhere[:-1])] = IntervalFault.NONE
    return cleared


def _compare_sides(
    bounds: Int64Array,
    rows: tuple[int, int],
    *,
    is_explained: BoolArray,
    is_break: IsBreak | None,
    are_damage: BoolArray,
    has_empty: BoolArray,
) -> tuple[UInt8Array, BoolArray]:
    """Compare both sides of the borders of M filled intervals (M, 2).

    Border ``i`` is before interval ``i``; the last one is after all of them, at the end of the rows.

    Args:
        bounds: The intervals.
        rows: Required start of the first one, and the end of the rows.
        is_explained: Whether there is a faulty interval at a border, which may be the missing one.
        is_break: Where an interval may plausibly start or end; None if unknown.
        are_damage: Whether a gap at a border is damage, whatever its size.
        has_empty: Whether faultless empty intervals are at a border, (2, M + 1): at the end of the previous interval,
            and at the start of the next one.

    Returns:
        The fault of each interval, (M,), and the borders with unowned rows without an explanation, (M + 1,).
    """
    ends, starts = _sides(bounds, rows)
    gaps = starts - ends
    is_overlap = gaps < 0
    is_wrong = is_overlap | ((gaps > 0) & ~is_explained)
    breaks_at_start, breaks_at_end = np.zeros((2, len(gaps)), np.bool_)
    if is_break is not None:
        breaks_at_start[is_wrong], breaks_at_end[is_wrong] = is_break(starts[is_wrong]), is_break(ends[is_wrong])
    # of two overlapping ones, one is refuted if the other starts or ends at a break inside it
    starts_inside = starts > np.append(-1, bounds[:, 0])
    ends_inside = ends < np.append(bounds[:, 1], rows[1])
    proves_start = breaks_at_start & (~is_overlap | starts_inside)
    proves_end = breaks_at_end & (~is_overlap | (ends_inside & ~proves_start))
    # intentionally left-out records leave gaps of whole records, damage rarely does
    is_short = gaps < max(1, int(np.median(bounds[:, 1] - bounds[:, 0])))
    may_be_damage = is_wrong & (is_short | are_damage)
    # With empty intervals in a gap, only the two that enclose it may be wrong: the last one at its start, empty or
    # filled, and the first one at its end.
    is_gap = is_wrong & ~is_overlap
    opens_at_filled = may_be_damage | (is_gap & has_empty.any(axis=0))
    may_stop_be_wrong, may_start_be_wrong = opens_at_filled & ~(is_gap & has_empty)

    # for each interval the border before it and the one after it
    start_wrong, stop_wrong = (may_start_be_wrong & ~proves_start)[:-1], (may_stop_be_wrong & ~proves_end)[1:]
    fits_nowhere = is_wrong[:-1] & is_wrong[1:] & (is_overlap[:-1] | is_overlap[1:])
    is_both = fits_nowhere | (start_wrong & stop_wrong)
    faults = np.zeros(len(is_both), np.uint8)
    faults[start_wrong & ~np.append(False, is_both[:-1])] = IntervalFault.START
    faults[stop_wrong & ~np.append(is_both[1:], False)] = IntervalFault.STOP
    faults[is_both] = IntervalFault.BOTH
    return faults, is_gap


def _mark_empty(
    faults: UInt8Array, bounds: Int64Array, filled: Int64Array, has_gap: BoolArray, filled_faults: UInt8Array
) -> None:
    """Mark empty intervals next to unowned rows, as they may be the remains of filled ones.

    Before and after a shifted stretch, the shift explains unowned rows, and so does an isolated filled interval on the
    other side of them.

    Args:
        faults: Faults of all intervals, in which they are marked.
        bounds: All intervals.
        filled: The M filled ones.
        has_gap: Borders of these with unowned rows, (M + 1,).
        filled_faults: Their faults, (M,).
    """
    empty, border = _empty_at_borders(faults, bounds, filled)
    before, behind = np.append(0, filled_faults)[border], np.append(filled_faults, 0)[border]
    lies_at_end = bounds[empty, 0] == np.append(bounds[filled, 0], -1)[border]
    is_explained = (before == IntervalFault.SHIFTED) | (behind == IntervalFault.SHIFTED)
    is_explained |= np.where(lies_at_end, before, behind) == IntervalFault.BOTH
    faults[empty[has_gap[border] & ~is_explained]] = IntervalFault.EMPTY


def _clear_empty(faults: UInt8Array, bounds: Int64Array, filled: Int64Array, rows: tuple[int, int]) -> None:
    """Trust empty intervals if the trusted ones around them meet: the apparent gap was a misplaced interval."""
    sound, empty = filled[faults[filled] == 0], np.flatnonzero(faults == IntervalFault.EMPTY)
    ends, starts = _sides(bounds[sound], rows)
    border = np.searchsorted(sound, empty)
    is_between = (ends == starts)[border] & (bounds[empty, 0] == ends[border])
    faults[empty[is_between]] = IntervalFault.NONE


def _mark_misplaced(faults: UInt8Array, bounds: Int64Array, filled: Int64Array, first_row: int) -> None:
    """Mark filled intervals without a fault that are out of order.

    Stretches of successive intervals are treated as a whole. The ordered selection with the most intervals, including
    empty ones, is trusted; if two selections have equally many, only their intersection. A stretch without room for the
    ones between it and the previous one has moved.
    """
    sound = filled[faults[filled] == 0]
    if len(sound) < 2 or (bounds[sound[1:], 0] >= bounds[sound[:-1], 1]).all():
        return
    first = np.append(0, np.flatnonzero(bounds[sound[1:], 0] != bounds[sound[:-1], 1]) + 1)
    num_sound = np.diff(first, append=len(sound))
    last = sound[first + num_sound - 1]
    starts, stops = bounds[sound[first], 0], bounds[last, 1]
    sizes = np.append(filled, len(bounds))[np.searchsorted(filled, last) + 1] - sound[first]
    is_trusted = np.zeros(len(first), np.bool_)
    if len(first) <= _MOST_STRETCHES:
        is_trusted = _in_all_best_chains(starts, stops, sizes)
        trusted = np.flatnonzero(is_trusted)
        has_others_before = np.diff(trusted, prepend=-1) > 1
        doubtful = sound[first[trusted]] - 1  # the first one of a stretch may be doubtful on its own
        belongs = (faults[doubtful] == IntervalFault.START) & (bounds[doubtful, 1] == starts[trusted])
        begins = np.where(belongs, bounds[doubtful, 0], starts[trusted])
        is_trusted[trusted[has_others_before & (begins == np.append(first_row, stops[trusted[:-1]]))]] = False
    faults[sound[~np.repeat(is_trusted, num_sound)]] = IntervalFault.MISPLACED


def _in_all_best_chains(starts: Int64Array, stops: Int64Array, sizes: Int64Array) -> BoolArray:
    """Return which of S stretches are in every ascending chain of the largest total size, (S,)."""
    best_until, best_from = np.zeros_like(sizes), np.zeros_like(sizes)
    for i in range(len(sizes)):
        best_until[i] = sizes[i] + best_until[:i][stops[:i] <= starts[i]].max(initial=0)
    for i in reversed(range(len(sizes))):
        best_from[i] = sizes[i] + best_from[i + 1 :][starts[i + 1 :] >= stops[i]].max(initial=0)
    begins, total = best_until - sizes, best_until.max()
    in_best = begins + best_from == total
    # every best chain covers the sizes from 0 to the total once: a stretch in all of them shares its part with no other
    overlaps = in_best & (begins < best_until[:, None]) & (best_until > begins[:, None])
    is_trusted: BoolArray = in_best & (np.count_nonzero(overlaps, axis=1) == 1)
    return is_trusted
