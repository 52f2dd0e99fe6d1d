"""Read an array block by block, straight from its files, and report what cannot be read."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from l5kit._types import RecordArray
from l5kit.data.chunk_cache import ChunkCache
from l5kit.data.chunked_array import ChunkedArray
from l5kit.data.finding import Finding, FindingList, Severity
from l5kit.data.record_sequence import ROWS_PER_BLOCK, rows_of
from l5kit.data.stores import chunk_numbers


class BlockSource:
    """Blocks of one array of a dataset.

    Chunks are read anew, past the dataset's cache, and one at a time, so the memory needed is that of one chunk.

    Args:
        array: Array of a dataset: of an opened one, a view or a NumPy array.
        key: Its name on disk.
        findings: Where files that are missing or cannot be decoded are reported.
    """

    def __init__(self, array: Any, key: str, findings: FindingList) -> None:
        self.key = key
        self.length = len(array)
        self._findings = findings
        self._array = array
        self._chunked: ChunkedArray | None = None
        if isinstance(array, ChunkedArray):
            self._chunked = ChunkedArray(array.zarr_array, ChunkCache(0), dtype=array.dtype)
            self._step = self._chunked.chunks[0]
            self._present = self._list_chunks(self._chunked)
        else:
            self._step = ROWS_PER_BLOCK
            self._present = list(range(-(-self.length // ROWS_PER_BLOCK)))

    @property
    def num_blocks(self) -> int:
        """Number of blocks that there are to read."""
        return len(self._present)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Record type of the blocks."""
        dtype: np.dtype[Any] = self._array.dtype
        return dtype

    def file_of(self, row: int) -> str | None:
        """Return the path of the file that holds a row; None for arrays in memory."""
        return None if self._chunked is None else self._chunked.chunk_file(row // self._step)

    def blocks(self, *, used_end: int) -> Iterator[tuple[int, RecordArray]]:
        """Yield first row and rows of each block that can be read, in order; (row, no rows) of each that cannot.

        Args:
            used_end: Rows from here on belong to nothing, so that a missing file there is only worth a warning.
        """
        self._report_missing(used_end)
        for index in self._present:
            start = index * self._step
            stop = min(start + self._step, self.length)
            yield start, self._read(start, stop)

    def _read(self, start: int, stop: int) -> RecordArray:
        source = self._array if self._chunked is None else self._chunked
        try:
            return rows_of(source, slice(start, stop), strict=True)
        except Exception as error:  # whatever a damaged file makes a codec raise is a finding
            self._add("error", "decode", str(error), row=start)
            return np.empty(0, dtype=self.dtype)

    def _list_chunks(self, array: ChunkedArray) -> list[int]:
        """Return the chunks of which there are files, sorted."""
        try:
            numbers = chunk_numbers(array.zarr_array.store, array.zarr_array.store_path.path)
        except Exception as error:  # as in _read
            self._add("error", "decode", f"the files of array {self.key!r} cannot be listed: {error}")
            return []
        return [number for number in numbers if number < array.num_chunks]

    def _report_missing(self, used_end: int) -> None:
        """Report missing chunk files without walking through all chunks, as a damaged length may be huge."""
        if self._chunked is None:
            return
        num_used = min(-(-used_end // self._step), self._chunked.num_chunks)
        self._report_missing_in("error", 0, num_used)
        self._report_missing_in("warning", num_used, self._chunked.num_chunks)

    def _report_missing_in(self, severity: Severity, low: int, high: int) -> None:
        """Report the first of the missing chunks in [low, high), and how many there are."""
        present = {index for index in self._present if low <= index < high}
        count = high - low - len(present)
        if count == 0:
            return
        index = next(index for index in range(low, high) if index not in present)
        more = f" (and {count - 1:,} more of {self.key})" if count > 1 else ""
        used = "rows of it are used" if severity == "error" else "its rows belong to nothing"
        message = f"chunk file {self.file_of(index * self._step)} is missing{more}; {used}, and they read as zeros"
        self._add(severity, "missing chunk", message, row=index * self._step)

    def _add(self, severity: Severity, check: str, message: str, *, row: int | None = None) -> None:
        file = None if row is None else self.file_of(row)
        self._findings.add(
            Finding(severity=severity, check=f"{self.key}: {check}", message=message, file=file, row=row)
        )
