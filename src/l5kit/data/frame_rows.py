"""Frame rows: agents or traffic light faces of many frames in one array with spare room, for record buffers."""

from copy import copy

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Int64Array, NumericArray, RecordArray
from l5kit.data.array_shapes import as_read_only, as_sealed
from l5kit.data.record_bytes import as_bytes

_LEAST_ROOM = 1024
"""Minimum number of rows by which an array grows."""


class FrameRows:
    """Rows of frames in one array, in which each frame has a slot and fills the front of it.

    Intervals locate the rows of a frame; the array of intervals (F, 2) is passed to each method, which updates it. A
    frame that outgrows its slot moves to the end of the array, into a slot with half as many rows again. At the end of
    the array, all rows move to a larger one, frame by frame; older references to ``array`` keep the old content.

    Args:
        rows: The rows; owned by the object from now on.
        slot_ends: End of the slot of each frame, (F,); owned likewise.
        num_spare: Number of rows at the end that belong to no frame yet.

    Attributes:
        array: Rows of all frames, including unused rows, (N,).
    """

    def __init__(self, rows: RecordArray, slot_ends: Int64Array, num_spare: int = 0) -> None:
        self.array = rows
        self._slot_ends = slot_ends
        self._end = len(rows) - num_spare

    def as_read_only(self) -> "FrameRows":
        """Return a read-only view."""
        view = copy(self)
        view.array, view._slot_ends = as_sealed(self.array), as_sealed(self._slot_ends)
        return view

    def take_frames(self, source: Int64Array, target: Int64Array, num_frames: int) -> None:
        """Renumber frames: those with the numbers ``source`` get the numbers ``target``; the others get no slot."""
        slot_ends = np.zeros(num_frames, np.int64)
        slot_ends[target] = self._slot_ends[source]
        self._slot_ends = slot_ends

    def open_slots(self, intervals: Int64Array, frames: Int64Array) -> None:
        """Give unused frames (K,) empty slots."""
        intervals[frames] = self._slot_ends[frames, None] = 0

    def put(self, intervals: Int64Array, frames: Int64Array, rows: Int64Array, values: RecordArray) -> None:
        """Write records (N,) into given rows (N,), or append them to their frames (N,), which may repeat.

        Args:
            intervals: Intervals of all frames.
            frames: Frame of each record.
            rows: Row of each record, or -1 to append it to its frame.
            values: The records; rows of the array itself are written with their previous content.

        Raises:
            ValueError: The array is read-only.
        """
        if not self.array.flags.writeable:  # NumPy's own error, as a kernel for read-only arrays cannot be compiled
            raise ValueError("assignment destination is read-only")
        content = as_read_only(_bytes_of(values.copy() if np.may_share_memory(values, self.array) else values))
        _write_rows(_bytes_of(self.array), intervals, frames, rows, content, False)
        is_new = rows < 0
        if is_new.any():
            changed, counts = np.unique(frames[is_new], return_counts=True)
            self._make_room(intervals, changed, intervals[changed, 1] - intervals[changed, 0] + counts)
            _write_rows(_bytes_of(self.array), intervals, frames, rows, content, True)

    def replace(self, intervals: Int64Array, frames: Int64Array, counts: Int64Array, rows: RecordArray) -> None:
        """Replace the rows of unique frames (K,) by ``counts`` (K,) new rows, given frame by frame."""
        intervals[frames, 1] = intervals[frames, 0]
        self._make_room(intervals, frames, counts)
        starts = intervals[frames, 0]
        as_bytes(self.array)[expand_ranges(starts, counts)] = as_bytes(rows)
        intervals[frames, 1] = starts + counts

    def remove(self, intervals: Int64Array, frames: Int64Array, rows: Int64Array) -> None:
        """Remove rows (N,) from their frames (N,); later rows of a frame move up."""
        changed = np.unique(frames)
        starts, counts = intervals[changed, 0], intervals[changed, 1] - intervals[changed, 0]
        source_rows = expand_ranges(starts, counts)
        of_row = np.searchsorted(changed, frames)
        is_kept = np.ones(len(source_rows), np.bool_)
        # rows are indices into the array, kept flags are indexed by the rows of the changed frames, frame by frame
        is_kept[(np.cumsum(counts) - counts - starts)[of_row] + rows] = False
        counts -= np.bincount(of_row, minlength=len(changed))
        content = as_bytes(self.array)
        content[expand_ranges(starts, counts)] = content[source_rows[is_kept]]
        intervals[changed, 1] = starts + counts

    def find(self, intervals: Int64Array, frames: Int64Array, field: str, values: NumericArray) -> Int64Array:
        """Return the row of each frame (N,) whose field has a value (N,): -1 if there is none, -2 if there are several.

        It is -3 if the interval of the frame lies outside the rows.
        """
        column = as_read_only(self.array[field])  # kernels are compiled for read-only arrays
        rows = np.empty(len(frames), np.int64)
        starts, stops = intervals[frames, 0], intervals[frames, 1]
        _find_rows(column, starts, stops, np.ascontiguousarray(values), rows)
        return rows

    def packed(self, intervals: Int64Array) -> RecordArray:
        """Return a copy of the rows at intervals (F, 2), frame by frame."""
        counts = intervals[:, 1] - intervals[:, 0]
        packed = np.empty(int(counts.sum()), self.array.dtype)
        move_rows(self.array, intervals[:, 0], counts, packed)
        return packed

    def _make_room(self, intervals: Int64Array, frames: Int64Array, counts: Int64Array) -> None:
        """Ensure room for ``counts`` (K,) rows in the slots of unique frames (K,)."""
        is_short = counts > self._slot_ends[frames] - intervals[frames, 0]
        if not is_short.any():
            return
        # half as many again, so that frames that grow row by row rarely move
        frames, rooms = frames[is_short], counts[is_short] + (counts[is_short] >> 1)
        num_more = int(rooms.sum())
        if self._end + num_more > len(self.array):
            # move all slots to a larger array
            old_rooms, old_counts = self._slot_ends - intervals[:, 0], intervals[:, 1] - intervals[:, 0]
            ends = np.cumsum(old_rooms)
            num_rows = int(old_rooms.sum())
            array = np.zeros(num_rows + num_more + max(num_rows >> 1, _LEAST_ROOM), self.array.dtype)
            move_rows(self.array, intervals[:, 0], old_rooms, array)
            intervals[:] = np.stack([ends - old_rooms, ends - old_rooms + old_counts], axis=1)
            self.array, self._slot_ends, self._end = array, ends, num_rows
        starts = self._end + np.cumsum(rooms) - rooms
        _move_slots(_bytes_of(self.array), intervals, frames, starts)
        self._slot_ends[frames] = starts + rooms
        self._end += num_more


def expand_ranges(starts: Int64Array, counts: Int64Array) -> Int64Array:
    """Return the concatenated integers of ranges (K,) with given starts and lengths."""
    ends = np.cumsum(counts)
    expanded: Int64Array = np.repeat(starts - ends + counts, counts)
    expanded += np.arange(len(expanded))
    return expanded


def parts_of_rows(starts: NumericArray) -> Int64Array:
    """Return the part of each row, from the first row of each part and the end of the last, (parts + 1,)."""
    parts: Int64Array = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return parts


def find_pairs(
    frames: Int64Array, ids: NumericArray, frames_of_rows: Int64Array, ids_of_rows: NumericArray
) -> Int64Array:
    """Return the row for each pair of frame and id, or -1 if there is none.

    Args:
        frames: Frames of the pairs, (N,).
        ids: Ids of the pairs, integers, (N,).
        frames_of_rows: Frames of the rows, (M,).
        ids_of_rows: Ids of the rows, unique within a frame, (M,).
    """
    if len(ids_of_rows) == 0:
        return np.full(len(ids), -1, np.int64)
    # Encode a pair as one integer, frame times the number of ids plus the code of the id, and look it up in the sorted
    # codes of all rows. Ids without rows get -1, which matches nothing.
    known, codes_of_rows = np.unique(ids_of_rows, return_inverse=True)
    codes = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    keys_of_rows = frames_of_rows * len(known) + codes_of_rows.reshape(-1)
    keys = np.where(known[codes] == ids, frames * len(known) + codes, -1)
    order = np.argsort(keys_of_rows, kind="stable")
    at = np.minimum(np.searchsorted(keys_of_rows[order], keys), len(order) - 1)
    rows: Int64Array = np.where(keys_of_rows[order][at] == keys, order[at], -1)
    return rows


def move_rows(source: RecordArray, starts: Int64Array, counts: Int64Array, target: RecordArray) -> None:
    """Copy row ranges (K,) of one array to the front of another, one after the other."""
    gaps = np.flatnonzero(starts[1:] != starts[:-1] + counts[:-1]) + 1  # copy contiguous ranges at once
    firsts = np.concatenate([[0], gaps]) if len(starts) else gaps
    totals = np.add.reduceat(counts, firsts) if len(firsts) else counts
    end = 0
    # copy few long runs one by one, faster than an index for each row
    if len(firsts) * 64 < int(counts.sum()):
        for start, total in zip(starts[firsts].tolist(), totals.tolist(), strict=True):
            target[end : end + total].view(np.uint8)[:] = source[start : start + total].view(np.uint8)
            end += total
        return
    as_bytes(target)[: int(counts.sum())] = as_bytes(source)[expand_ranges(starts, counts)]


def _bytes_of(rows: RecordArray) -> NumericArray:
    """Return records (N,) as bytes, a view (N, itemsize) for kernels."""
    return rows.view(np.uint8).reshape(len(rows), rows.dtype.itemsize)


@kernel_jit
def _write_rows(
    content: NumericArray,
    intervals: Int64Array,
    frames: Int64Array,
    rows: Int64Array,
    values: NumericArray,
    is_adding: bool,
) -> None:
    """Write the values (N, B) that have a row, or append those without one (-1) to their frames.

    The caller ensures room after the rows of the frames.
    """
    for index in range(len(rows)):
        row = rows[index]
        if (row < 0) != is_adding:
            continue
        if is_adding:
            row = intervals[frames[index], 1]
            intervals[frames[index], 1] = row + 1
        for byte in range(content.shape[1]):
            content[row, byte] = values[index, byte]


@kernel_jit
def _move_slots(content: NumericArray, intervals: Int64Array, frames: Int64Array, starts: Int64Array) -> None:
    """Copy the rows of frames (K,) to new slots that start at (K,) and overlap no slot in use."""
    for index in range(len(frames)):
        first, stop = intervals[frames[index], 0], intervals[frames[index], 1]
        for row in range(first, stop):
            for byte in range(content.shape[1]):
                content[starts[index] + row - first, byte] = content[row, byte]
        intervals[frames[index], 0], intervals[frames[index], 1] = starts[index], starts[index] + stop - first


@kernel_jit
def _find_rows(
    column: NumericArray, starts: Int64Array, stops: Int64Array, values: NumericArray, rows: Int64Array
) -> None:
    """Write the row in each range (N,) that holds a value (N,): -1 if none does, -2 if several do, -3 for no range."""
    for index in range(len(values)):
        rows[index] = -1
        if not 0 <= starts[index] <= stops[index] <= len(column):
            rows[index] = -3
            continue
        for row in range(starts[index], stops[index]):
            if column[row] == values[index]:
                rows[index] = row if rows[index] == -1 else -2
