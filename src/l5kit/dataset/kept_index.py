"""Index of a large log in files: which rows are taken and where frames end, mapped into memory and shared by processes.

The files lie in the user's cache folder under a digest of the log's files, as kept agents masks do. They are written
block by block, so that no process ever holds the whole, and take their names when they are complete. Of small logs, and
of logs in memory, nothing is kept: their arrays are made anew in less time than a file takes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np

from l5kit._files import clear_leftovers, placed_when_complete, replaced_when_complete
from l5kit._types import BoolArray, Int64Array, NumericArray
from l5kit.data.log_index import check_scenes, readable_blocks
from l5kit.data.record_sequence import RecordSequence
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL
from l5kit.data.stores.npy_files import map_npy, npy_header
from l5kit.data.user_cache import cache_folder, hold_lock
from l5kit.data.zarr_dataset import ChunkedDataset

__all__ = ["LARGE_NUM_FRAMES", "LARGE_NUM_ROWS", "TakenRows", "keep_taken_rows", "kept_end_rows"]

LARGE_NUM_FRAMES = 1 << 20
"""Frames from which on the ends of their agents are kept in a file."""

LARGE_NUM_ROWS = 1 << 22
"""Agent rows from which on those that are taken are kept in files."""

ROWS_AT_ONCE: Final = 1 << 20
"""Rows that are looked at together while files are made."""

_VERSION: Final = 1


@dataclass(frozen=True, eq=False)
class TakenRows:
    """The agent rows that a dataset takes, read-only.

    Attributes:
        mask: Which rows, bool (N,).
        indices: Their numbers, ascending, int64.
    """

    mask: BoolArray
    indices: Int64Array


def kept_end_rows(dataset: ChunkedDataset) -> Int64Array | None:
    """Return the end agent row of each frame of a large log that is as it should be, mapped from a file, int64 (F,).

    The file is made if there is none. It proves that scenes, frames, agents and faces fit together, so that this need
    not be looked at again.

    Returns:
        The ends; None for a small log, one in memory, one that is damaged, and where nothing can be kept.
    """
    if len(dataset.frames) < LARGE_NUM_FRAMES:
        return None
    fingerprint, faces = dataset.fingerprint(), dataset.tl_faces
    signature = faces.signature() if isinstance(faces, RecordSequence) else None
    if fingerprint is None or (signature is None and len(faces)):
        return None
    file = _folder() / f"{_digest('ends', fingerprint, signature)}.npy"
    shape = (len(dataset.frames),)
    ends = _mapped(file, "<i8", shape)
    if ends is not None:
        return ends
    with hold_lock(file.with_suffix(".lock")) as problem:
        if not problem:
            ends = _mapped(file, "<i8", shape)
            if ends is None and _write_npy(file, "<i8", shape, lambda: _ends_of_frames(dataset)):
                ends = _mapped(file, "<i8", shape)
    return ends


def keep_taken_rows(
    dataset: ChunkedDataset, key: object, blocks_of: Callable[[], Iterator[BoolArray] | None]
) -> TakenRows | None:
    """Return which rows of a large log are taken, mapped from files, which are made if there are none.

    Args:
        dataset: The log.
        key: What decides, beside the log, which rows are taken; its ``repr`` counts.
        blocks_of: Makes the mask of all rows, block after block; None if it cannot be made for others to find.

    Returns:
        The rows; None for a small log, one in memory, and where nothing can be kept.
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
                _write_taken(complete, blocks, num_rows)
        except OSError:
            return None
        return _read_taken(folder, num_rows)


def _write_taken(folder: Path, blocks: Iterator[BoolArray], num_rows: int) -> None:
    """Write the mask, and of the mask the numbers of the rows that it takes."""
    folder.mkdir()
    num_taken = 0
    with (folder / "mask.npy").open("wb") as opened:
        opened.write(npy_header("|b1", (num_rows,)))
        for block in blocks:
            num_taken += int(np.count_nonzero(block))
            opened.write(np.ascontiguousarray(block).data)
    mask = map_npy(folder / "mask.npy", dtype="|b1", shape=(num_rows,))
    if mask is None:
        raise OSError(f"{folder / 'mask.npy'} has not become whole")
    with (folder / "indices.npy").open("wb") as opened:
        opened.write(npy_header("<i8", (num_taken,)))
        for start in range(0, num_rows, ROWS_AT_ONCE):
            rows = np.flatnonzero(mask[start : start + ROWS_AT_ONCE]).astype("<i8")
            rows += start
            opened.write(rows.data)
    (folder / "num_taken").write_text(str(num_taken), "ascii")


def _read_taken(folder: Path, num_rows: int) -> TakenRows | None:
    """Return the rows that are kept in a folder; None if there are none that can be read and fit."""
    try:
        num_taken = int((folder / "num_taken").read_text("ascii"))
    except (OSError, ValueError):
        return None
    mask = _mapped(folder / "mask.npy", "|b1", (num_rows,))
    indices = _mapped(folder / "indices.npy", "<i8", (num_taken,))
    return None if mask is None or indices is None else TakenRows(mask, indices)


def _ends_of_frames(dataset: ChunkedDataset) -> Iterator[NumericArray]:
    """Yield the end rows of all frames, block by block; a log that is not as it should be ends them early."""
    if not check_scenes(dataset).is_plain:
        return
    lengths = {AGENT_INTERVAL: len(dataset.agents)}
    if FACE_INTERVAL in (dataset.frames.dtype.names or ()):
        lengths[FACE_INTERVAL] = len(dataset.tl_faces)
    ends = dict.fromkeys(lengths, 0)
    row = 0
    errors: dict[int, str] = {}
    for start, frames in readable_blocks(dataset.frames, errors):
        if start != row or not all(_goes_on(frames[field], ends[field]) for field in ends):
            return
        row = start + len(frames)
        ends = {field: int(frames[field][-1, 1]) for field in ends}
        if row == len(dataset.frames) and ends != lengths:
            return
        yield frames[AGENT_INTERVAL][:, 1].astype("<i8")


def _goes_on(intervals: NumericArray, start: int) -> bool:
    """Return whether intervals (B, 2) follow each other from a row on."""
    starts, stops = intervals[:, 0], intervals[:, 1]
    return bool(starts[0] == start and (starts[1:] == stops[:-1]).all() and (starts <= stops).all())


def _write_npy(file: Path, dtype: str, shape: tuple[int, ...], blocks_of: Callable[[], Iterator[NumericArray]]) -> bool:
    """Write a file of blocks, and return whether it is whole; else it is not there."""
    try:
        with replaced_when_complete(file) as temporary, temporary.open("wb") as opened:
            opened.write(npy_header(dtype, shape))
            num_rows = sum(len(block) for block in blocks_of() if opened.write(block.data))
            if num_rows != shape[0]:
                raise _IncompleteError
    except (OSError, _IncompleteError):
        return False
    return True


class _IncompleteError(Exception):
    """There are fewer rows than there must be."""


def _mapped(file: Path, dtype: str, shape: tuple[int, ...]) -> NumericArray | None:
    """Return a kept array; None if there is none that fits."""
    try:
        return map_npy(file, dtype=dtype, shape=shape)
    except OSError:
        return None


def _folder() -> Path:
    return cache_folder() / "sample_index"


def _digest(*parts: object) -> str:
    return sha256(repr((_VERSION, *parts)).encode()).hexdigest()
