"""Sample index in cache files: agent rows and frame ends, as ascending numbers that are looked up in files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, Self

import numpy as np

from l5kit._files import clear_leftovers, placed_when_complete, replaced_when_complete
from l5kit._types import BoolArray, Int64Array, NumericArray
from l5kit.data.index.log_index import check_scenes
from l5kit.data.record_sequence import ROWS_PER_BLOCK, rows_of, signature_of
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL
from l5kit.data.stores.chunk_files import is_remote
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.data.stores.npy_files import NpyPieces, kept_npy, map_npy, npy_header, release_pages
from l5kit.data.user_cache import cache_folder, hold_lock
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError

LARGE_NUM_FRAMES = 1 << 20
"""Minimum number of frames of a log whose frame ends are cached in a file."""

LARGE_NUM_ROWS = 1 << 22
"""Minimum number of agent rows of a log whose selected rows are cached in files."""

ROWS_AT_ONCE: Final = 1 << 20
"""Rows processed together while files are written."""

_VERSION: Final = 2

_NUM_PROBES: Final = 64
"""Positions checked when cached numbers are opened."""

_SHORTEST_PIECE: Final = 512
_MOST_PIECES: Final = 1 << 17
"""The first number of each piece of a file is kept in memory: 1 MiB for this many."""

_READ_AT_ONCE: Final = 1 << 19
"""Numbers in memory at a time during a lookup: 4 MiB."""

_PLACES_AT_ONCE: Final = 1 << 13

Side = Literal["left", "right"]
"""Side of a search: whether numbers equal to a value come before it."""


class AscendingNumbers:
    """Ascending numbers, with possible repetitions.

    In a file, single numbers and short pieces are read. A search in the mapped file would load a whole page into this
    process for each number.

    Args:
        array: All of them, int64 (N,).
        pieces: Reads the file that ``array`` is mapped from; None to use ``array`` itself.

    Attributes:
        array: All of them, int64 (N,).
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
        """Whether lookups read the file instead of the array."""
        return self._pieces is not None

    def at(self, positions: Int64Array) -> Int64Array:
        """Return the numbers at positions (B,), counted from 0."""
        pieces = self._pieces
        if pieces is None:
            return self.array[positions]
        result = np.empty(len(positions), np.int64)
        for start in range(0, len(positions), _PLACES_AT_ONCE):
            part = slice(start, start + _PLACES_AT_ONCE)
            result[part] = pieces.read(positions[part], 1)[:, 0]
        return result

    def search(self, values: Int64Array, side: Side = "left") -> Int64Array:
        """Return how many numbers are below each value (B,), or with ``right``, not above it."""
        if self._pieces is None:
            return np.searchsorted(self.array, values, side)
        result = np.empty(len(values), np.int64)
        at_once = max(1, _READ_AT_ONCE // self._piece_length)
        length = min(self._piece_length, len(self))
        for start in range(0, len(values), at_once):
            part = slice(start, start + at_once)
            # the last piece that begins before each value, shifted back if it would reach beyond the end
            number = np.maximum(np.searchsorted(self._first_of_pieces, values[part], side) - 1, 0)
            starts = np.minimum(number * self._piece_length, len(self) - length)
            read, wanted = self._pieces.read(starts, length), values[part, None]
            is_before = read < wanted if side == "left" else read <= wanted
            result[part] = starts + np.count_nonzero(is_before, axis=1)
        return result

    @property
    def _piece_length(self) -> int:
        return max(_SHORTEST_PIECE, -(-len(self) // _MOST_PIECES))

    @cached_property
    def _first_of_pieces(self) -> Int64Array:
        """The first number of each piece."""
        return self.at(np.arange(0, len(self), self._piece_length))


@dataclass(frozen=True, eq=False)
class TakenRows:
    """The agent rows that a dataset selects, read-only.

    Attributes:
        mask: Mask of all rows, bool (N,).
        indices: Numbers of the selected rows.
    """

    mask: BoolArray
    indices: AscendingNumbers


def kept_end_rows(dataset: ChunkedDataset) -> AscendingNumbers | None:
    """Return the end agent row of each frame of a large sound log, mapped from a cache file, (F,).

    The file is created if it is missing. Its existence proves that scenes, frames, agents and faces are consistent,
    which need not be checked again.

    Returns:
        The ends; None if the log is small, in memory or damaged, or if nothing can be cached.
    """
    if len(dataset.frames) < LARGE_NUM_FRAMES:
        return None
    fingerprint, signature = dataset.fingerprint(), signature_of(dataset.tl_faces)
    if fingerprint is None or (signature is None and len(dataset.tl_faces)):
        return None
    file = _folder() / f"{_digest('ends', fingerprint, signature)}.npy"
    ends = _read_ends(file, dataset)
    if ends is not None:
        return ends
    with hold_lock(file.with_suffix(".lock")) as problem:
        ends = None if problem else _read_ends(file, dataset)
        if problem or ends is not None:
            return ends

        # discard the file if the log is damaged, which gives fewer ends than frames
        try:
            with replaced_when_complete(file) as temporary, temporary.open("wb") as opened:
                opened.write(npy_header("<i8", (len(dataset.frames),)))
                num_rows = sum(len(block) for block in _ends_of_frames(dataset) if opened.write(block.data))
                if num_rows != len(dataset.frames):
                    raise _IncompleteError
        except (OSError, _IncompleteError):
            return None
        return _read_ends(file, dataset)


def keep_taken_rows(
    dataset: ChunkedDataset, key: object, blocks_of: Callable[[], Iterator[BoolArray] | None]
) -> TakenRows | None:
    """Return the selected rows of a large log, mapped from files, which are created if they are missing.

    Args:
        dataset: The log.
        key: Everything that determines the selection besides the log; its ``repr`` is used.
        blocks_of: Returns the mask of all rows, block by block; None if it cannot be shared with other processes.

    Returns:
        The rows; None if the log is small or in memory, or if nothing can be cached.
    """
    num_rows = len(dataset.agents)
    fingerprint = dataset.fingerprint() if num_rows >= LARGE_NUM_ROWS else None
    if fingerprint is None:
        return None
    folder = _folder() / _digest("rows", fingerprint, key)
    kept = _read_taken(folder, num_rows)
    if kept is not None:
        return kept
    with hold_lock(folder.with_suffix(".lock")) as problem:
        if problem:
            return None
        kept = _read_taken(folder, num_rows)
        if kept is not None:
            return kept
        blocks = blocks_of()
        try:
            if blocks is None:
                return None
            clear_leftovers(folder)
            with placed_when_complete(folder) as complete:
                _write_taken(complete, blocks, num_rows, name=folder.name)
        except OSError:
            return None
        return _read_taken(folder, num_rows)


def count_taken_before(mask: BoolArray, rows: Int64Array) -> Int64Array:
    """Return how many rows of a mask are selected before each of ascending rows (B,), in one pass over the mask.

    Args:
        mask: Mask of all rows, mapped or in memory, bool (N,).
        rows: From 0 to N.
    """
    result = np.empty(len(rows), np.int64)
    done = num_taken = 0
    for start in range(0, len(mask), ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, len(mask))
        # the rows in this block split it into parts, each of which is counted once
        end = done + int(np.searchsorted(rows[done:], stop))
        edges = [start, *rows[done:end].tolist(), stop]
        counts = [np.count_nonzero(mask[low:high]) for low, high in pairwise(edges)]
        ends = num_taken + np.cumsum(counts)
        result[done:end] = ends[:-1]
        done, num_taken = end, int(ends[-1])
        release_pages(mask)
    result[done:] = num_taken
    return result


def _write_taken(folder: Path, blocks: Iterator[BoolArray], num_rows: int, *, name: str) -> None:
    """Write the mask, the numbers of the rows that it selects, and their count with the identity of the log."""
    folder.mkdir()
    num_taken = 0
    with (folder / "mask.npy").open("wb") as opened:
        opened.write(npy_header("|b1", (num_rows,)))
        for block in blocks:
            num_taken += int(np.count_nonzero(block))
            opened.write(np.ascontiguousarray(block).data)

    # read the mask back from its file, as mask and row numbers do not fit in memory together
    mask = map_npy(folder / "mask.npy", dtype="|b1", shape=(num_rows,))
    if mask is None:
        raise OSError(f"{folder / 'mask.npy'} is incomplete")
    with (folder / "indices.npy").open("wb") as opened:
        opened.write(npy_header("<i8", (num_taken,)))
        for start in range(0, num_rows, ROWS_AT_ONCE):
            rows = np.flatnonzero(mask[start : start + ROWS_AT_ONCE]).astype("<i8")
            rows += start
            opened.write(rows.data)
            release_pages(mask)
    (folder / "num_taken").write_text(f"{num_taken} {name}", "ascii")


def _read_taken(folder: Path, num_rows: int) -> TakenRows | None:
    """Return the cached rows of a folder; None if they are missing, unreadable or do not fit."""
    try:
        number, name = (folder / "num_taken").read_text("ascii").split(" ")
        num_taken = int(number)
    except (OSError, ValueError):
        return None
    if name != folder.name or not 0 <= num_taken <= num_rows:
        return None
    mask = kept_npy(folder / "mask.npy", dtype="|b1", shape=(num_rows,))
    indices = _integers_in(folder / "indices.npy", num_taken)
    if mask is None or indices is None:
        return None
    rows = _probed(indices)
    is_right = (np.diff(rows) > 0).all() and (rows >= 0).all() and (rows < num_rows).all() and mask[rows].all()
    release_pages(mask)
    return TakenRows(mask, indices) if is_right else None


def _read_ends(file: Path, dataset: ChunkedDataset) -> AscendingNumbers | None:
    """Return the cached ends of frames; None if they are missing, unreadable or do not fit."""
    ends = _integers_in(file, len(dataset.frames))
    if ends is None:
        return None
    rows = _probed(ends)
    is_right = (np.diff(rows) >= 0).all() and rows[0] >= 0 and rows[-1] == len(dataset.agents)
    return ends if is_right else None


def _probed(integers: AscendingNumbers) -> Int64Array:
    """Return a sample of the numbers, evenly spaced, including the first and the last.

    It detects files of other logs and badly damaged files; reading all numbers would take as long as computing them.
    """
    num_probes = min(len(integers), _NUM_PROBES)
    positions = np.linspace(0, max(len(integers) - 1, 0), num_probes).astype(np.int64)
    return integers.at(positions)


def _ends_of_frames(dataset: ChunkedDataset) -> Iterator[NumericArray]:
    """Yield the end rows of all frames, block by block; a damaged log ends them early."""
    if not check_scenes(dataset).is_plain:
        return
    lengths = {AGENT_INTERVAL: len(dataset.agents)}
    if FACE_INTERVAL in (dataset.frames.dtype.names or ()):
        lengths[FACE_INTERVAL] = len(dataset.tl_faces)
    ends = dict.fromkeys(lengths, 0)
    row = 0
    # decode files one by one, as parallel threads would never release their memory
    source = dataset.frames
    if isinstance(source, ChunkedArray) and not is_remote(source.zarr_array.store):
        source = source.uncached()
    for start in range(0, len(source), ROWS_PER_BLOCK):
        try:
            frames = rows_of(source, slice(start, min(start + ROWS_PER_BLOCK, len(source))), strict=True)
        except CorruptedDataError:
            return
        # intervals (B, 2) must follow each other, starting at the end of the previous block
        for field, end in ends.items():
            starts, stops = frames[field][:, 0], frames[field][:, 1]
            if not (starts[0] == end and (starts[1:] == stops[:-1]).all() and (starts <= stops).all()):
                return
        row += len(frames)
        ends = {field: int(frames[field][-1, 1]) for field in ends}
        if row == len(dataset.frames) and ends != lengths:
            return
        yield frames[AGENT_INTERVAL][:, 1].astype("<i8")


class _IncompleteError(Exception):
    """There are fewer rows than required."""


def _integers_in(file: Path, length: int) -> AscendingNumbers | None:
    """Return cached numbers; None if the file is missing or does not fit."""
    array = kept_npy(file, dtype="<i8", shape=(length,))
    return None if array is None else AscendingNumbers.of_file(file, array)


def _folder() -> Path:
    return cache_folder() / "sample_index"


def _digest(*parts: object) -> str:
    return sha256(repr((_VERSION, *parts)).encode()).hexdigest()
