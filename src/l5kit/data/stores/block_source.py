"""Blocks of an array, read straight from its files; what cannot be read is told."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import DType, RecordArray, Records
from l5kit.data.checks.finding import Finding, FindingList, Severity
from l5kit.data.record_sequence import ROWS_PER_BLOCK, rows_of
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.errors import UnreachableDataError


@dataclass(frozen=True)
class ReadBlock:
    """A block of rows, or why it cannot be read.

    Attributes:
        start: First row.
        rows: The rows; none of them if the block cannot be read.
        problem: Why it cannot; an empty text if it can.
    """

    start: int
    rows: RecordArray
    problem: str


class BlockSource:
    """Blocks of one array of a dataset, which may be read by several threads or, pickled, by other processes.

    Chunks are read anew, past the dataset's cache, so the memory needed is that of the blocks in use.

    Args:
        array: Array of a dataset: of an opened one, a view or a NumPy array.
        key: Its name on disk.
        findings: Where files that are missing or cannot be listed are reported.
    """

    def __init__(self, array: Records, key: str, findings: FindingList) -> None:
        self.key = key
        self.length = len(array)
        self._array = array
        self._chunked: ChunkedArray | None = None
        if isinstance(array, ChunkedArray):
            self._chunked = array.uncached()
            self._step = self._chunked.chunks[0]
            # chunks without a file read as zeros, so that nothing is to be checked in them
            try:
                self._present = self._chunked.present_chunks()
            except UnreachableDataError:
                raise
            except Exception as error:  # as in read
                self._present = []
                self._add(findings, "error", "decode", f"the files of array {key!r} cannot be listed: {error}")
        else:
            self._step = ROWS_PER_BLOCK
            self._present = list(range(-(-self.length // ROWS_PER_BLOCK)))

    @property
    def present(self) -> list[int]:
        """Numbers of the blocks that there are to read, ascending."""
        return self._present

    @property
    def dtype(self) -> DType:
        """Record type of the blocks."""
        return self._array.dtype

    @property
    def block_length(self) -> int:
        """Rows of a block; the last one may have fewer."""
        return self._step

    def file_of(self, row: int) -> str | None:
        """Return the path of the file that holds a row; None for arrays in memory."""
        return None if self._chunked is None else self._chunked.chunk_file(row // self._step)

    def read(self, block: int) -> ReadBlock:
        """Return a block, by its number."""
        source = self._array if self._chunked is None else self._chunked
        start = block * self._step
        try:
            rows = rows_of(source, slice(start, min(start + self._step, self.length)), strict=True)
        except UnreachableDataError:
            raise
        except Exception as error:  # whatever a damaged file makes a codec raise is a finding
            return ReadBlock(start, np.empty(0, dtype=self.dtype), str(error))
        return ReadBlock(start, rows, "")

    def report_unread(self, block: ReadBlock, findings: FindingList) -> None:
        """Add the finding that a block cannot be read."""
        self._add(findings, "error", "decode", block.problem, row=block.start)

    def report_missing(self, used_end: int, findings: FindingList) -> None:
        """Report missing chunk files without walking through all chunks, as a damaged length may be huge.

        Args:
            used_end: Rows from here on belong to nothing, so that a missing file there is only worth a warning.
            findings: Where they are reported.
        """
        if self._chunked is None:
            return
        num_used = min(-(-used_end // self._step), self._chunked.num_chunks)
        self._report_missing_in(findings, "error", 0, num_used)
        self._report_missing_in(findings, "warning", num_used, self._chunked.num_chunks)

    def _report_missing_in(self, findings: FindingList, severity: Severity, low: int, high: int) -> None:
        """Report the first of the missing chunks in [low, high), and how many there are."""
        present = {index for index in self._present if low <= index < high}
        count = high - low - len(present)
        if count == 0:
            return
        index = next(index for index in range(low, high) if index not in present)
        more = f" (and {count - 1:,} more of {self.key})" if count > 1 else ""
        used = "rows of it are used" if severity == "error" else "its rows belong to nothing"
        message = f"chunk file {self.file_of(index * self._step)} is missing{more}; {used}, and they read as zeros"
        self._add(findings, severity, "missing chunk", message, row=index * self._step)

    def _add(
        self, findings: FindingList, severity: Severity, check: str, message: str, *, row: int | None = None
    ) -> None:
        file = None if row is None else self.file_of(row)
        findings.add(Finding(severity=severity, check=f"{self.key}: {check}", message=message, file=file, row=row))
