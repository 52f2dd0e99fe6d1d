"""Checks of blocks of records, read straight from their files: unreadable blocks, and faults within a block.

Checks that span two blocks, such as the step from the last frame of one to the first of the next, or a frame whose
agents lie in both, are completed afterwards, in block order.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from l5kit._types import Int64Array, RecordArray, Records, UInt64Array
from l5kit.data.checks.finding import MAX_PER_CHECK, Finding, FindingList, Severity
from l5kit.data.checks.record_checks import (
    RowCheck,
    check_agent_records,
    check_frame_records,
    check_frame_steps,
)
from l5kit.data.index.interval_index import IntervalIndex
from l5kit.data.record_sequence import ROWS_PER_BLOCK, rows_of
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.errors import UnreachableDataError

_NO_FRAME = np.uint64(2**64 - 1)


class BlockSource:
    """Blocks of one array of a dataset, readable by several threads or, pickled, by other processes.

    Chunks are read without the dataset's cache, so the memory needed is that of the blocks in use.

    Args:
        array: Array of an opened dataset, a view or a NumPy array.
        key: Its name on disk.
        findings: Receives files that are missing or cannot be listed.

    Attributes:
        key: As given.
        length: Rows of the array.
        block_length: Rows of a block; the last one may have fewer.
        present: Indices of the blocks that exist, ascending.
    """

    def __init__(self, array: Records, key: str, findings: FindingList) -> None:
        self.key = key
        self.length = len(array)
        self.block_length = ROWS_PER_BLOCK
        self.present = list(range(-(-self.length // ROWS_PER_BLOCK)))
        self._array = array
        self._chunked: ChunkedArray | None = None
        if isinstance(array, ChunkedArray):
            self._array = self._chunked = array.uncached()
            self.block_length = self._chunked.chunks[0]
            # chunks without a file read as zeros, so there is nothing to check in them
            try:
                self.present = self._chunked.present_chunks()
            except UnreachableDataError:
                raise
            except Exception as error:  # as in read()
                self.present = []
                self.report(findings, "error", "decode", f"the files of array {key!r} cannot be listed: {error}")

    def file_of(self, row: int) -> str | None:
        """Return the path of the file that holds a row; None for arrays in memory."""
        return None if self._chunked is None else self._chunked.chunk_file(row // self.block_length)

    def read(self, start: int) -> tuple[RecordArray, str]:
        """Return the rows of a block, by its first row, and an empty text; or no rows and the reason."""
        stop = min(start + self.block_length, self.length)
        try:
            return rows_of(self._array, slice(start, stop), strict=True), ""
        except UnreachableDataError:
            raise
        except Exception as error:  # any error of a codec for a damaged file is a finding
            return np.empty(0, dtype=self._array.dtype), str(error)

    def report(
        self, findings: FindingList, severity: Severity, check: str, message: str, *, row: int | None = None
    ) -> None:
        """Add a problem found by a check in the array, or in the file that holds a row."""
        file = None if row is None else self.file_of(row)
        findings.add(Finding(severity=severity, check=f"{self.key}: {check}", message=message, file=file, row=row))

    def report_missing(self, used_end: int, findings: FindingList) -> None:
        """Report missing chunk files without iterating over all chunks, as a damaged length may be huge.

        Args:
            used_end: Rows from here on are unused, so a missing file there is only worth a warning.
            findings: Receives the problems.
        """
        if self._chunked is None:
            return
        num_used = min(-(-used_end // self.block_length), self._chunked.num_chunks)
        self._report_missing_in(findings, "error", 0, num_used)
        self._report_missing_in(findings, "warning", num_used, self._chunked.num_chunks)

    def _report_missing_in(self, findings: FindingList, severity: Severity, low: int, high: int) -> None:
        """Report the first of the missing chunks in [low, high), and their number."""
        present = {index for index in self.present if low <= index < high}
        count = high - low - len(present)
        if count == 0:
            return
        index = next(index for index in range(low, high) if index not in present)
        more = f" (and {count - 1:,} more of {self.key})" if count > 1 else ""
        used = "rows of it are used" if severity == "error" else "its rows are unused"
        message = (
            f"chunk file {self.file_of(index * self.block_length)} is missing{more}; {used}, and they read as zeros"
        )
        self.report(findings, severity, "missing chunk", message, row=index * self.block_length)


@dataclass(frozen=True)
class RowFaults:
    """Rows that fail one check.

    Attributes:
        severity: Severity of the finding.
        check: Name of the check.
        message: Description of the problem.
        rows: The first of the rows, up to the number of findings kept, int64, (n,).
        count: Number of all such rows.
    """

    severity: Severity
    check: str
    message: str
    rows: Int64Array
    count: int

    @classmethod
    def of(cls, rows: Int64Array, check: RowCheck) -> "RowFaults":
        """Return those of some rows (N,) that fail a check."""
        severity, name, message, bad = check
        failing = np.flatnonzero(bad)
        return cls(severity, name, message, rows[failing[:MAX_PER_CHECK]], len(failing))

    def after(self, other: "RowFaults") -> "RowFaults":
        """Return the rows of another object followed by those of this one, for the same check."""
        rows = np.concatenate([other.rows, self.rows])[:MAX_PER_CHECK]
        return RowFaults(self.severity, self.check, self.message, rows, other.count + self.count)


@dataclass(frozen=True)
class TrackRuns:
    """Tracks of the agents of a block, as rows of frame, track id and agent row, uint64, (n, 3).

    Attributes:
        first: Tracks of the first frame that has agents here.
        last: Tracks of the last such frame, which may be the same.
        repeated: Tracks that occur earlier in the same frame, in ascending order.
    """

    first: UInt64Array
    last: UInt64Array
    repeated: UInt64Array

    @classmethod
    def of(cls, tracks: UInt64Array) -> "TrackRuns":
        """Return the runs of tracks (N, 3), in row order and thus grouped by frame."""
        if len(tracks) == 0:
            return cls(tracks, tracks, tracks)
        first, last = (tracks[tracks[:, 0] == frame] for frame in tracks[[0, -1], 0])
        return cls(first, last, find_repeated(tracks))


def find_repeated(tracks: UInt64Array) -> UInt64Array:
    """Return the tracks (n, 3) that occur earlier in the same frame, in ascending order."""
    ordered = in_order(tracks)
    before, after = ordered[:-1], ordered[1:]
    repeated: UInt64Array = after[(after[:, :2] == before[:, :2]).all(axis=1)]
    return repeated


def in_order(tracks: UInt64Array) -> UInt64Array:
    """Return tracks (n, 3) sorted by frame, track id and row."""
    return tracks[np.lexsort((tracks[:, 2], tracks[:, 1], tracks[:, 0]))]


@dataclass(frozen=True)
class Found:
    """Results of the checks of a block.

    Attributes:
        faults: Result of each check of single records.
        steps: Result of each check of steps between the frames of the block.
        ends: First and last frame of the block, for the steps to its neighbours.
        tracks: Tracks, for a block of agents.
    """

    faults: tuple[RowFaults, ...] = ()
    steps: tuple[RowFaults, ...] = ()
    ends: RecordArray | None = None
    tracks: TrackRuns | None = None


@dataclass(frozen=True)
class CheckedBlock:
    """Results for a block, without its rows.

    Attributes:
        start: Its first row.
        num_rows: Number of its rows.
        problem: Reason why it cannot be read; empty if it can.
        result: Results of its checks.
        intervals: The intervals of its records for each interval field, (N, 2).
    """

    start: int
    num_rows: int
    problem: str
    result: Found
    intervals: tuple[Int64Array, ...]


BlockCheck = Callable[[Int64Array, RecordArray, IntervalIndex], Found]
"""Takes row numbers (N,), records (N,) and the index of their owners."""


@dataclass(frozen=True)
class CheckBlocks:
    """Checks some blocks of an array, given by their indices.

    Attributes:
        source: The array.
        interval_fields: Interval fields whose values are returned.
        check: The check of one block.
    """

    source: BlockSource
    interval_fields: tuple[str, ...]
    check: BlockCheck

    def __call__(self, indices: Int64Array, owners: IntervalIndex) -> list[CheckedBlock]:
        """Return the results for some blocks; ``owners`` is the index of the owners of their rows."""
        # rows stay in the worker, so that little is sent back
        checked = []
        for start in (indices * self.source.block_length).tolist():
            rows, problem = self.source.read(start)
            present = [field for field in self.interval_fields if field in (rows.dtype.names or ())]
            intervals = tuple(rows[field].astype(np.int64) for field in present)
            result = Found()
            if len(rows):
                # damaged values overflow and divide by zero; the checks report them
                with np.errstate(all="ignore"):
                    result = self.check(np.arange(start, start + len(rows), dtype=np.int64), rows, owners)
            checked.append(CheckedBlock(start, len(rows), problem, result, intervals))
        return checked


def check_single_records(
    check: Callable[[RecordArray], Iterable[RowCheck]], rows: Int64Array, records: RecordArray, _owners: IntervalIndex
) -> Found:
    """Return the results for records that are checked one by one, such as scenes and traffic light faces."""
    return Found(_faults(rows, check(records)))


def check_frames(rows: Int64Array, frames: RecordArray, owners: IntervalIndex) -> Found:
    """Return the results for frames; their owners are scenes."""
    steps = find_step_faults(rows, frames, owners)
    return Found(_faults(rows, check_frame_records(frames)), steps, frames[[0, -1]])


def check_agents(rows: Int64Array, agents: RecordArray, owners: IntervalIndex) -> Found:
    """Return the results for agents; their owners are frames."""
    frames = owners.owners(rows).astype(np.uint64)
    tracks = np.stack([frames, agents["track_id"].astype(np.uint64), rows.astype(np.uint64)], axis=1)
    return Found(_faults(rows, check_agent_records(agents)), tracks=TrackRuns.of(tracks[frames != _NO_FRAME]))


def find_step_faults(rows: Int64Array, frames: RecordArray, owners: IntervalIndex) -> tuple[RowFaults, ...]:
    """Return the second frames of bad steps within a scene, for each check of steps."""
    scenes = owners.owners(rows)
    # two frames form a step if they are adjacent and in one scene; the owner -1 stands for no scene
    follows = (rows[1:] == rows[:-1] + 1) & (scenes[1:] == scenes[:-1]) & (scenes[1:] >= 0)
    steps = (
        (severity, check, message, bad & follows)
        for severity, check, message, bad in check_frame_steps(frames[:-1], frames[1:])
    )
    return _faults(rows[1:], steps)


def _faults(rows: Int64Array, checks: Iterable[RowCheck]) -> tuple[RowFaults, ...]:
    return tuple(RowFaults.of(rows, check) for check in checks)
