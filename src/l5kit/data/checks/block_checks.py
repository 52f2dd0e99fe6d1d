"""Blocks of records, read straight from their files: what cannot be read, and what fails in each by itself.

What concerns two blocks, a step from the last frame of one to the first of the next or a frame whose agents lie in
both, is put together afterwards, in the order of the blocks.
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
    """Blocks of one array of a dataset, which may be read by several threads or, pickled, by other processes.

    Chunks are read anew, past the dataset's cache, so the memory needed is that of the blocks in use.

    Args:
        array: Array of a dataset: of an opened one, a view or a NumPy array.
        key: Its name on disk.
        findings: Where files that are missing or cannot be listed are reported.

    Attributes:
        key: As given.
        length: Rows of the array.
        block_length: Rows of a block; the last one may have fewer.
        present: Numbers of the blocks that there are to read, ascending.
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
            # chunks without a file read as zeros, so that nothing is to be checked in them
            try:
                self.present = self._chunked.present_chunks()
            except UnreachableDataError:
                raise
            except Exception as error:  # as in read
                self.present = []
                self.report(findings, "error", "decode", f"the files of array {key!r} cannot be listed: {error}")

    def file_of(self, row: int) -> str | None:
        """Return the path of the file that holds a row; None for arrays in memory."""
        return None if self._chunked is None else self._chunked.chunk_file(row // self.block_length)

    def read(self, start: int) -> tuple[RecordArray, str]:
        """Return the rows of a block, by its first row, and an empty text; or no rows, and why they cannot be read."""
        stop = min(start + self.block_length, self.length)
        try:
            return rows_of(self._array, slice(start, stop), strict=True), ""
        except UnreachableDataError:
            raise
        except Exception as error:  # whatever a damaged file makes a codec raise is a finding
            return np.empty(0, dtype=self._array.dtype), str(error)

    def report(
        self, findings: FindingList, severity: Severity, check: str, message: str, *, row: int | None = None
    ) -> None:
        """Add what one check finds wrong with the array, or with the file that holds a row."""
        file = None if row is None else self.file_of(row)
        findings.add(Finding(severity=severity, check=f"{self.key}: {check}", message=message, file=file, row=row))

    def report_missing(self, used_end: int, findings: FindingList) -> None:
        """Report missing chunk files without walking through all chunks, as a damaged length may be huge.

        Args:
            used_end: Rows from here on belong to nothing, so that a missing file there is only worth a warning.
            findings: Where they are reported.
        """
        if self._chunked is None:
            return
        num_used = min(-(-used_end // self.block_length), self._chunked.num_chunks)
        self._report_missing_in(findings, "error", 0, num_used)
        self._report_missing_in(findings, "warning", num_used, self._chunked.num_chunks)

    def _report_missing_in(self, findings: FindingList, severity: Severity, low: int, high: int) -> None:
        """Report the first of the missing chunks in [low, high), and how many there are."""
        present = {index for index in self.present if low <= index < high}
        count = high - low - len(present)
        if count == 0:
            return
        index = next(index for index in range(low, high) if index not in present)
        more = f" (and {count - 1:,} more of {self.key})" if count > 1 else ""
        used = "rows of it are used" if severity == "error" else "its rows belong to nothing"
        message = (
            f"chunk file {self.file_of(index * self.block_length)} is missing{more}; {used}, and they read as zeros"
        )
        self.report(findings, severity, "missing chunk", message, row=index * self.block_length)


@dataclass(frozen=True)
class RowFaults:
    """Rows that fail one check.

    Attributes:
        severity: As in a finding.
        check: Name of the check.
        message: What is wrong.
        rows: The first of the rows, as many as findings are kept of, int64, (n,).
        count: How many there are.
    """

    severity: Severity
    check: str
    message: str
    rows: Int64Array
    count: int

    @classmethod
    def of(cls, rows: Int64Array, check: RowCheck) -> "RowFaults":
        """Return those of some rows (N,) that fail a check of them."""
        severity, name, message, bad = check
        failing = np.flatnonzero(bad)
        return cls(severity, name, message, rows[failing[:MAX_PER_CHECK]], len(failing))

    def after(self, other: "RowFaults") -> "RowFaults":
        """Return the rows of another and of this one, of the same check."""
        rows = np.concatenate([other.rows, self.rows])[:MAX_PER_CHECK]
        return RowFaults(self.severity, self.check, self.message, rows, other.count + self.count)


@dataclass(frozen=True)
class TrackRuns:
    """Tracks of the agents of a block, as rows of frame, track id and agent row, uint64, (n, 3).

    Attributes:
        first: Those of the first frame that has agents here.
        last: Those of the last one, which may be the same.
        repeated: Those whose track is in their frame before, in ascending order.
    """

    first: UInt64Array
    last: UInt64Array
    repeated: UInt64Array

    @classmethod
    def of(cls, tracks: UInt64Array) -> "TrackRuns":
        """Return the runs of tracks (N, 3) in the order of the rows, of which frames own one after the other."""
        if len(tracks) == 0:
            return cls(tracks, tracks, tracks)
        first, last = (tracks[tracks[:, 0] == frame] for frame in tracks[[0, -1], 0])
        return cls(first, last, find_repeated(tracks))


def find_repeated(tracks: UInt64Array) -> UInt64Array:
    """Return the tracks (n, 3) that are in their frame once before, in ascending order."""
    ordered = in_order(tracks)
    before, after = ordered[:-1], ordered[1:]
    repeated: UInt64Array = after[(after[:, :2] == before[:, :2]).all(axis=1)]
    return repeated


def in_order(tracks: UInt64Array) -> UInt64Array:
    """Return tracks (n, 3) by frame, track id and row."""
    return tracks[np.lexsort((tracks[:, 2], tracks[:, 1], tracks[:, 0]))]


@dataclass(frozen=True)
class Found:
    """What checks of one kind of records find in a block.

    Attributes:
        faults: Of each check of single records.
        steps: Of each check of steps between the frames of the block, likewise.
        ends: First and last frame of the block, for the steps from and to its neighbours.
        tracks: Of a block of agents.
    """

    faults: tuple[RowFaults, ...] = ()
    steps: tuple[RowFaults, ...] = ()
    ends: RecordArray | None = None
    tracks: TrackRuns | None = None


@dataclass(frozen=True)
class CheckedBlock:
    """A block, without its rows, and what was found in it.

    Attributes:
        start: Its first row.
        num_rows: How many rows it has.
        problem: Why it cannot be read; an empty text if it can.
        result: What its checks find.
        intervals: For each field of intervals, those of the records, (N, 2).
    """

    start: int
    num_rows: int
    problem: str
    result: Found
    intervals: tuple[Int64Array, ...]


BlockCheck = Callable[[Int64Array, RecordArray, IntervalIndex], Found]
"""Takes row numbers (N,), records (N,) and the index of what owns them."""


@dataclass(frozen=True)
class CheckBlocks:
    """The check of some blocks of an array, by their numbers.

    Attributes:
        source: The array.
        interval_fields: Fields of intervals whose values are wanted.
        check: The check of one block.
    """

    source: BlockSource
    interval_fields: tuple[str, ...]
    check: BlockCheck

    def __call__(self, indices: Int64Array, owners: IntervalIndex) -> list[CheckedBlock]:
        """Return what was found in the blocks of these numbers, whose rows ``owners`` own."""
        # rows stay with the worker: what goes back is small, also from another process
        checked = []
        for start in (indices * self.source.block_length).tolist():
            rows, problem = self.source.read(start)
            present = [field for field in self.interval_fields if field in (rows.dtype.names or ())]
            intervals = tuple(rows[field].astype(np.int64) for field in present)
            result = Found()
            if len(rows):
                # damaged values overflow and divide by zero, which the checks find by themselves
                with np.errstate(all="ignore"):
                    result = self.check(np.arange(start, start + len(rows), dtype=np.int64), rows, owners)
            checked.append(CheckedBlock(start, len(rows), problem, result, intervals))
        return checked


def check_single_records(
    check: Callable[[RecordArray], Iterable[RowCheck]], rows: Int64Array, records: RecordArray, _owners: IntervalIndex
) -> Found:
    """Return what a check finds of records, such as scenes and traffic light faces, that are checked one by one."""
    return Found(_faults(rows, check(records)))


def check_frames(rows: Int64Array, frames: RecordArray, owners: IntervalIndex) -> Found:
    """Return what is wrong with frames, which scenes own."""
    steps = find_step_faults(rows, frames, owners)
    return Found(_faults(rows, check_frame_records(frames)), steps, frames[[0, -1]])


def check_agents(rows: Int64Array, agents: RecordArray, owners: IntervalIndex) -> Found:
    """Return what is wrong with agents, which frames own."""
    frames = owners.owners(rows).astype(np.uint64)
    tracks = np.stack([frames, agents["track_id"].astype(np.uint64), rows.astype(np.uint64)], axis=1)
    return Found(_faults(rows, check_agent_records(agents)), tracks=TrackRuns.of(tracks[frames != _NO_FRAME]))


def find_step_faults(rows: Int64Array, frames: RecordArray, owners: IntervalIndex) -> tuple[RowFaults, ...]:
    """Return the second frames of steps that are wrong, of those that stay in a scene, for each check of steps."""
    scenes = owners.owners(rows)
    # a pair is a step where nothing is missing between its frames and one scene has both; -1 owns what no scene has
    follows = (rows[1:] == rows[:-1] + 1) & (scenes[1:] == scenes[:-1]) & (scenes[1:] >= 0)
    steps = (
        (severity, check, message, bad & follows)
        for severity, check, message, bad in check_frame_steps(frames[:-1], frames[1:])
    )
    return _faults(rows[1:], steps)


def _faults(rows: Int64Array, checks: Iterable[RowCheck]) -> tuple[RowFaults, ...]:
    return tuple(RowFaults.of(rows, check) for check in checks)
