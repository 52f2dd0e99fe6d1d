"""Growing array: rows are appended, in memory that doubles when it is full."""

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import NumericArray

_LEAST_ROOM = 64


class GrowingArray:
    """Array of rows of one dtype that grows by appending.

    Args:
        dtype: Dtype of the values.
        shape: Shape of a row; a scalar by default.
        first: Value of an initial row; None for no row.
    """

    def __init__(self, dtype: DTypeLike, shape: tuple[int, ...] = (), *, first: int | None = None) -> None:
        self._memory: NumericArray = np.empty((_LEAST_ROOM, *shape), dtype)
        self._size = 0
        if first is not None:
            self.extend(np.full((1, *shape), first))

    def __len__(self) -> int:
        return self._size

    def extend(self, rows: NumericArray) -> None:
        """Append rows (K, ...); earlier views stay valid."""
        end = self._size + len(rows)
        if end > len(self._memory):
            memory = np.empty((max(end, 2 * len(self._memory)), *self._memory.shape[1:]), self._memory.dtype)
            memory[: self._size] = self._memory[: self._size]
            self._memory = memory
        self._memory[self._size : end] = rows
        self._size = end

    def read(self) -> NumericArray:
        """Return all rows, a read-only view."""
        rows = self._memory[: self._size]
        rows.setflags(write=False)
        return rows
