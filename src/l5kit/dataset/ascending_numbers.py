"""Ascending numbers that are looked up by place and by value, in memory or in a file of which only pieces are read."""

from functools import cached_property
from pathlib import Path
from typing import Final, Literal, Self

import numpy as np

from l5kit._types import Int64Array
from l5kit.data.stores.npy_files import NpyPieces

__all__ = ["AscendingNumbers"]

_SHORTEST_PIECE: Final = 512
_MOST_PIECES: Final = 1 << 17
"""Of each piece of a file the first number is held: 1 MiB for this many."""

_READ_AT_ONCE: Final = 1 << 19
"""Numbers that are in memory at a time while some are looked up: 4 MiB."""

_PLACES_AT_ONCE: Final = 1 << 13

Side = Literal["left", "right"]
"""Whether numbers that equal a value are not before it, or are."""


class AscendingNumbers:
    """Numbers that ascend, or stay equal.

    Those of a file are looked up by reads of single numbers and of short pieces. A search in the mapped file would take
    pages into this process that it needs for one number each.

    Args:
        array: All of them, int64 (N,).
        pieces: Reads the file that ``array`` is mapped from; None to use ``array`` itself.

    Attributes:
        array: As above.
    """

    def __init__(self, array: Int64Array, pieces: NpyPieces | None = None) -> None:
        self.array = array
        self._pieces = pieces if len(array) else None

    @classmethod
    def of_file(cls, file: Path, array: Int64Array) -> Self:
        """Return the numbers of an ``.npy`` file.

        Args:
            file: The file.
            array: Mapped from it.
        """
        try:
            return cls(array, NpyPieces(file, array) if NpyPieces.can_be_made else None)
        except OSError:
            return cls(array)

    def __len__(self) -> int:
        return len(self.array)

    @property
    def is_read_in_pieces(self) -> bool:
        """Whether a file is read, and the array is not touched."""
        return self._pieces is not None

    def at(self, places: Int64Array) -> Int64Array:
        """Return the numbers at places (B,), from 0."""
        pieces = self._pieces
        if pieces is None:
            return self.array[places]
        found = np.empty(len(places), np.int64)
        for start in range(0, len(places), _PLACES_AT_ONCE):
            part = slice(start, start + _PLACES_AT_ONCE)
            found[part] = pieces.read(places[part], 1)[:, 0]
        return found

    def one_at(self, place: int) -> int:
        """Return the number at a place, from 0."""
        pieces = self._pieces
        return int(self.array[place] if pieces is None else pieces.read_one(place, 1)[0])

    def search_one(self, value: int, side: Side = "left") -> int:
        """Return how many numbers are below a value, or with ``right`` at most as large."""
        if self._pieces is None:
            return int(self.array.searchsorted(value, side))
        piece = max(int(self._first_of_pieces.searchsorted(value, side)) - 1, 0)
        start = piece * self._piece_length
        read = self._pieces.read_one(start, min(self._piece_length, len(self) - start))
        return start + int(read.searchsorted(value, side))

    def search(self, values: Int64Array, side: Side = "left") -> Int64Array:
        """Return how many numbers are below each value (B,), or with ``right`` at most as large."""
        if self._pieces is None:
            return np.searchsorted(self.array, values, side)
        found = np.empty(len(values), np.int64)
        at_once = max(1, _READ_AT_ONCE // self._piece_length)
        for start in range(0, len(values), at_once):
            part = slice(start, start + at_once)
            found[part] = self._search_file(self._pieces, values[part], side)
        return found

    def _search_file(self, pieces: NpyPieces, values: Int64Array, side: Side) -> Int64Array:
        """Return what :meth:`search` does, of one piece for each value."""
        length = min(self._piece_length, len(self))
        number = np.maximum(np.searchsorted(self._first_of_pieces, values, side) - 1, 0)
        starts = np.minimum(number * self._piece_length, len(self) - length)
        read, wanted = pieces.read(starts, length), values[:, None]
        is_before = read < wanted if side == "left" else read <= wanted
        found: Int64Array = starts + np.count_nonzero(is_before, axis=1)
        return found

    @property
    def _piece_length(self) -> int:
        return max(_SHORTEST_PIECE, -(-len(self) // _MOST_PIECES))

    @cached_property
    def _first_of_pieces(self) -> Int64Array:
        """The first number of each piece."""
        return self.at(np.arange(0, len(self), self._piece_length))
