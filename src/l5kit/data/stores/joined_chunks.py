"""The decoded chunks of an array that fits into memory as a whole, side by side."""

from collections.abc import Callable

import numpy as np

from l5kit._types import DType, NumericArray


class JoinedChunks:
    """The decoded chunks of an array, side by side; the memory of a chunk is taken when it is decoded.

    Args:
        length: Rows of the array.
        dtype: Type of its records.
        chunk_length: Rows of a chunk.

    Attributes:
        rows: All rows, read-only; those of chunks that were never asked for mean nothing.
    """

    def __init__(self, length: int, dtype: DType, chunk_length: int) -> None:
        self._chunk_length = chunk_length
        self._writable_rows = np.empty(length, dtype=dtype)
        self._is_decoded = np.zeros(-(-length // chunk_length), np.bool_)
        self.is_complete = False
        self.rows = self._writable_rows.view()
        self.rows.setflags(write=False)

    def has(self, index: int) -> bool:
        """Return whether a chunk is decoded."""
        return bool(self._is_decoded[index])

    def chunk(self, index: int, read: Callable[[int], NumericArray]) -> NumericArray:
        """Return the rows of a chunk, read if they are not there yet; two threads may both read it, to the same end."""
        start = index * self._chunk_length
        if not self._is_decoded[index]:
            decoded = read(index)
            target = self._writable_rows[start : start + len(decoded)]
            # as bytes, since NumPy copies records field by field, several times as slowly
            target.view(np.uint8)[:] = np.ascontiguousarray(decoded).view(np.uint8)
            self._is_decoded[index] = True
            if self._is_decoded.all():  # of two threads that decode the last chunks, one sees all of them
                self.is_complete = True
        return self.rows[start : start + self._chunk_length]
