"""Growing array: append-only rows in memory that doubles when full."""

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import NumericArray

_LEAST_ROOM = 64


class GrowingArray:
    """Append-only array of rows of one type.

    Args:
        dtype: Type of the values.
        shape: Shape of a row; a number by default.
        first: Value of all elements of an initial row; None for no initial row.
    """

    def __init__(self, dtype: DTypeLike, shape: tuple[int, ...] = (), *, first: int | None = None) -> None:
        self._memory: NumericArray = np.empty((_LEAST_ROOM, *shape), dtype)
        self._size = 0
        if first is not None:
            self.extend(np.full((1, *shape), first))

    def __len__(self) -> int:
        return self._size

    def extend(self, rows: NumericArray) -> None:
        """Append rows (K, ...); views returned earlier keep their content."""
        end = self._size + len(rows)
        if end > len(self._memory):
            memory = np.empty((max(end, 2 * len(self._memory)), *self._memory.shape[1:]), self._memory.dtype)
            memory[: self._size] = self._memory[: self._size]
            self._memory = memory
        self._memory[self._size : end] = rows
        self._size = end

    def read(self) -> NumericArray:
        """Return all rows as a read-only view."""
        rows = self._memory[: self._size]
        rows.setflags(write=False)
        return rows
