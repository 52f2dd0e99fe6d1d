"""Record sequences: base of arrays of records that read like one-dimensional NumPy arrays but need not be in memory."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import DType, Int64Array, NumericArray, RecordPart, Records
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, InvalidArgumentError

ROWS_PER_BLOCK = 65_536
"""Rows per block in passes over all rows of an array."""


class RecordSequence(ABC):
    """Base of the arrays of a dataset that are not in memory: NumPy-like reading along one axis.

    Subclasses define ``dtype``, ``__len__``, :meth:`rows` and the blocks in which rows are stored.
    """

    dtype: DType
    ndim = 1

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def rows(self, start: int, stop: int, *, strict: bool = False) -> NumericArray:
        """Return rows [start, stop), 0 <= start <= stop <= len, as a read-only array, without a copy where possible.

        The array owns its memory only if it was created for this call.

        Args:
            start: First row.
            stop: End row, exclusive.
            strict: Raise a ``CorruptedDataError`` if the bounds are outside the range above or the file of a row is
                missing (instead of returning zarr's fill value).
        """

    def passing_rows(self, start: int, stop: int) -> NumericArray:
        """Return rows [start, stop) for a pass over all rows; nothing is cached.

        Args:
            start: First row.
            stop: End row, at most the length.

        Raises:
            CorruptedDataError: Rows cannot be read, or their file is missing.
        """
        return self.rows(start, stop, strict=True)

    @abstractmethod
    def signature(self) -> object:
        """Return a value that changes when the stored rows change; None if unknown (rows in process memory)."""

    @property
    def whole(self) -> NumericArray | None:
        """All rows as one read-only array if they are contiguous in memory, otherwise None."""
        return None

    def whole_with(self, starts: Int64Array, stops: Int64Array, *, strict: bool = False) -> NumericArray | None:  # noqa: ARG002
        """Return :attr:`whole`, or a read-only array of all rows in which only the given ranges are defined.

        Args:
            starts: First row of each range, within the array.
            stops: End row of each range, exclusive.
            strict: As in :meth:`rows`.
        """
        return self.whole

    @property
    def shape(self) -> tuple[int]:
        """Number of rows, as a tuple."""
        return (len(self),)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self)

    @property
    def nbytes(self) -> int:
        """Size of all rows in bytes, decoded."""
        return len(self) * self.dtype.itemsize

    def __getitem__(self, index: object) -> RecordPart:
        """Return the same as NumPy: a record, a copy of a slice, the column of a field, or selected rows."""
        if isinstance(index, slice):
            return self._slice(index)
        if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
            number, length = int(index), len(self)
            if not -length <= number < length:
                raise IndexOutOfRangeError(f"row {number} is out of range for an array of {length} rows")
            record: np.void = np.array(self.rows(number % length, number % length + 1))[0]
            return record
        if isinstance(index, str) or (isinstance(index, list) and index and isinstance(index[0], str)):
            return self._column(index)
        if index is Ellipsis or (isinstance(index, tuple) and index == ()):
            return self._slice(slice(None))
        if isinstance(index, tuple):
            # array[field, rows], array[rows, field] and array[rows,]
            fields = [part for part in index if isinstance(part, str)]
            others = [part for part in index if not isinstance(part, str) and part is not Ellipsis]
            if len(fields) > 1 or len(others) > 1:
                raise IndexOutOfRangeError(f"too many indices for an array of one axis: {index!r}")
            rows = self[others[0]] if others else self[:]
            return rows[fields[0]] if fields else rows

        # everything else selects rows, by a mask or by indices
        numbers, length = np.asarray(index), len(self)
        if numbers.dtype == bool:
            if numbers.shape != (length,):
                raise IndexOutOfRangeError(f"a boolean index must have shape ({length},), got {numbers.shape}")
            numbers = np.flatnonzero(numbers)
        if numbers.size == 0:
            return np.empty(numbers.shape, dtype=self.dtype)
        if numbers.dtype.kind not in "iu":
            raise IndexOutOfRangeError(f"an index must be integers, a slice, a field or a bool array, got {numbers!r}")
        positions = numbers.astype(np.int64).ravel()
        if positions.min() < -length or positions.max() >= length:
            raise IndexOutOfRangeError(f"an index in {numbers!r} is out of range for an array of {length} rows")
        return self._gather(positions % length).reshape(numbers.shape)

    def _slice(self, index: slice) -> NumericArray:
        start, stop, step = index.indices(len(self))
        # do not return a writable view of cached rows
        if step == 1:
            rows = self.rows(start, max(start, stop))
            if not rows.flags.owndata:
                return np.array(rows)
            rows.setflags(write=True)  # created for this call, so nothing else refers to it
            return rows
        chosen = range(start, stop, step)
        if not chosen:
            return np.empty(0, dtype=self.dtype)
        lowest, highest = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1])
        return np.array(self.rows(lowest, highest + 1)[np.asarray(chosen) - lowest])

    def _column(self, index: str | list[str]) -> NumericArray:
        field = np.empty(0, dtype=self.dtype)[index].dtype
        if isinstance(index, str):
            column = np.empty((len(self), *self.dtype[index].shape), dtype=field)
        else:
            column = np.empty(len(self), dtype=field)
        for start, rows in self._blocks():
            column[start : start + len(rows)] = rows[index]
        return column

    def _gather(self, positions: NumericArray) -> NumericArray:
        """Return rows at non-negative positions, reading each storage block once."""
        selected = np.empty(len(positions), dtype=self.dtype)
        order = np.argsort(positions, kind="stable")
        ordered = positions[order]
        done = 0
        while done < len(ordered):
            start, rows = self._block_of(int(ordered[done]))
            end = int(np.searchsorted(ordered, start + len(rows)))
            selected[order[done:end]] = rows[ordered[done:end] - start]
            done = end
        return selected

    @abstractmethod
    def _block_of(self, row: int) -> tuple[int, NumericArray]:
        """Return the first row and all rows of the storage block that holds ``row``."""

    def _blocks(self) -> Iterator[tuple[int, NumericArray]]:
        """Yield first row and rows of every storage block."""
        row = 0
        while row < len(self):
            start, rows = self._block_of(row)
            yield start, rows
            row = start + len(rows)

    def __iter__(self) -> Iterator[np.void]:
        for _, rows in self._blocks():
            yield from rows

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NumericArray:
        """Return all rows as a NumPy array.

        Raises:
            InvalidArgumentError: The caller is pandas, which would silently make a single column of records.
        """
        if sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "pandas":
            raise InvalidArgumentError(
                "pandas would make one column of the records of this array; call l5kit.data.interop.to_pandas(array), "
                "which gives a column for each field, and several for a field of several values"
            )
        return self._as_numpy(dtype, copy)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow stream, read batch by batch; requires pyarrow."""
        from l5kit.data.interop.arrow_columns import stream_of  # lazy: rarely used

        return stream_of(self.dtype, passing_blocks(self)).__arrow_c_stream__(requested_schema)

    def _as_numpy(self, dtype: DTypeLike | None, copy: bool | None) -> NumericArray:
        """Return all rows as a NumPy array, with the arguments of ``__array__``."""
        if copy is False:
            raise ValueError("these rows cannot become a NumPy array without a copy; pass copy=None or True")
        return np.asarray(self[:], dtype=dtype)


def whole_array(
    array: Records, ranges: tuple[Int64Array, Int64Array] | None = None, *, strict: bool = False
) -> NumericArray | None:
    """Return all rows of any array of a dataset as a plain array without a copy; None if that is impossible.

    It is possible for NumPy arrays, for arrays mapped into memory (``open(cached="mmap")``), for views of one range of
    these without shifted intervals and, if only ranges of rows are needed, for arrays with room in a cache. The result
    must not be written to or pickled.

    Args:
        array: NumPy array, or array of an opened dataset.
        ranges: First rows and end rows, (B,) each, within the array; None for all rows.
        strict: Raise a ``CorruptedDataError`` if files of the ranges are missing.
    """
    if type(array) is np.ndarray:  # fast path
        return array
    if isinstance(array, RecordSequence):
        return array.whole if ranges is None else array.whole_with(*ranges, strict=strict)
    return np.asarray(array) if isinstance(array, np.ndarray) else None


def signature_of(array: Records) -> object:
    """Return a value that changes when the stored rows of any array of a dataset change; None if unknown."""
    return array.signature() if isinstance(array, RecordSequence) else None


def rows_of(array: Records, rows: slice, *, strict: bool = False) -> NumericArray:
    """Return consecutive rows of any array of a dataset, without a copy where possible.

    Args:
        array: NumPy array, or array of an opened dataset.
        rows: Rows with bounds within the array.
        strict: Raise a ``CorruptedDataError`` if bounds are outside the array, or files are missing.
    """
    if isinstance(array, RecordSequence):
        if strict:
            return array.rows(int(rows.start), int(rows.stop), strict=True)
        start, stop, _ = rows.indices(len(array))
        return array.rows(start, stop)
    if strict:
        require_within(array, rows)
    return np.asarray(array[rows])


def column_of(array: Records, field: str, *, strict: bool = False) -> NumericArray:
    """Return one field of all rows of any array of a dataset, read block by block.

    Args:
        array: NumPy array, or array of an opened dataset.
        field: Name of the field.
        strict: Raise a ``CorruptedDataError`` if files are missing.
    """
    column = np.empty((len(array), *array.dtype[field].shape), dtype=array.dtype[field].base)
    for start, rows in blocks_of(array, strict=strict):
        column[start : start + len(rows)] = rows[field]
    return column


def blocks_of(array: Records, *, strict: bool = False) -> Iterator[tuple[int, NumericArray]]:
    """Yield first row and rows of successive blocks of any array of a dataset; ``strict`` as in :func:`rows_of`."""
    for start in range(0, len(array), ROWS_PER_BLOCK):
        stop = min(start + ROWS_PER_BLOCK, len(array))
        yield start, rows_of(array, slice(start, stop), strict=strict)


def passing_rows(array: Records, start: int, stop: int) -> NumericArray:
    """Return rows of any array of a dataset like :meth:`RecordSequence.passing_rows`."""
    if isinstance(array, RecordSequence):
        return array.passing_rows(start, stop)
    return rows_of(array, slice(start, stop), strict=True)


def passing_blocks(array: Records, rows_per_block: int = ROWS_PER_BLOCK) -> Iterator[NumericArray]:
    """Yield all rows of any array of a dataset, decoding each chunk once without caching it.

    Args:
        array: NumPy array, or array of an opened dataset.
        rows_per_block: Approximate rows per block, adjusted to full chunks.

    Raises:
        CorruptedDataError: Rows cannot be read, or a file is missing (except of faces).
    """
    (chunk_length,) = getattr(array, "chunks", (1,))
    step = max(1, rows_per_block // chunk_length) * chunk_length
    has_faces = "face_id" in (array.dtype.names or ())
    for start in range(0, len(array), step):
        stop = min(start + step, len(array))
        yield rows_of(array, slice(start, stop)) if has_faces else passing_rows(array, start, stop)


def require_within(array: Records, rows: slice) -> None:
    """Refuse rows outside an array.

    Raises:
        CorruptedDataError: Not 0 <= start <= stop <= length; the message names the array and the interval.
    """
    if 0 <= rows.start <= rows.stop <= len(array):
        return
    name = getattr(array, "name", None)
    raise CorruptedDataError(
        f"an interval asks for rows [{rows.start}, {rows.stop}) of {repr(name) if name else 'an array'} "
        f"of {len(array)} rows; the dataset is damaged or cut short (l5kit validate shows where), "
        "restore it from its source"
    )
