"""Blocks of records, checked each by itself: what fails in one, and what its neighbours have to be compared with.

What concerns two blocks, a step from the last frame of one to the first of the next or a frame whose agents lie in
both, is put together afterwards, in the order of the blocks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from l5kit._types import Int64Array, RecordArray, UInt64Array
from l5kit.data.checks.finding import MAX_PER_CHECK, Severity
from l5kit.data.checks.record_checks import (
    RowCheck,
    check_agent_records,
    check_face_records,
    check_frame_records,
    check_frame_steps,
    check_scene_records,
)
from l5kit.data.interval_index import IntervalIndex
from l5kit.data.stores.block_source import BlockSource, ReadBlock

_NO_FRAME = np.uint64(2**64 - 1)


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
class CheckedBlock:
    """What was found in a block.

    Attributes:
        block: Which one, without its rows.
        num_rows: How many rows it has.
        faults: Of each check of single records.
        steps: Of each check of steps between the frames of the block, likewise.
        ends: First and last frame of the block, for the steps from and to its neighbours.
        tracks: Of a block of agents.
        intervals: For each field of intervals, those of the records, (N, 2).
    """

    block: ReadBlock
    num_rows: int
    faults: tuple[RowFaults, ...] = ()
    steps: tuple[RowFaults, ...] = ()
    ends: RecordArray | None = None
    tracks: TrackRuns | None = None
    intervals: tuple[Int64Array, ...] = ()


@dataclass(frozen=True)
class Found:
    """What checks of one kind of records find; see :class:`CheckedBlock`."""

    faults: tuple[RowFaults, ...]
    steps: tuple[RowFaults, ...] = ()
    ends: RecordArray | None = None
    tracks: TrackRuns | None = None


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
        checked = []
        for index in indices.tolist():
            block = self.source.read(index)
            # rows stay with the worker: what goes back is small, also from another process
            rows, without_rows = block.rows, ReadBlock(block.start, block.rows[:0], block.problem)
            present = [field for field in self.interval_fields if field in (rows.dtype.names or ())]
            intervals = tuple(rows[field].astype(np.int64) for field in present)
            if len(rows) == 0:
                checked.append(CheckedBlock(without_rows, 0, intervals=intervals))
                continue
            # damaged values overflow and divide by zero, which the checks find by themselves
            with np.errstate(all="ignore"):
                result = self.check(np.arange(block.start, block.start + len(rows), dtype=np.int64), rows, owners)
            checked.append(
                CheckedBlock(
                    without_rows, len(rows), result.faults, result.steps, result.ends, result.tracks, intervals
                )
            )
        return checked


def check_scenes(rows: Int64Array, scenes: RecordArray, owners: IntervalIndex) -> Found:  # noqa: ARG001 - none own them
    """Return what is wrong with scenes."""
    return Found(_faults(rows, check_scene_records(scenes)))


def check_frames(rows: Int64Array, frames: RecordArray, owners: IntervalIndex) -> Found:
    """Return what is wrong with frames, which scenes own."""
    steps = find_step_faults(rows, frames, owners)
    return Found(_faults(rows, check_frame_records(frames)), steps, frames[[0, -1]])


def check_agents(rows: Int64Array, agents: RecordArray, owners: IntervalIndex) -> Found:
    """Return what is wrong with agents, which frames own."""
    frames = owners.owners(rows).astype(np.uint64)
    tracks = np.stack([frames, agents["track_id"].astype(np.uint64), rows.astype(np.uint64)], axis=1)
    return Found(_faults(rows, check_agent_records(agents)), tracks=TrackRuns.of(tracks[frames != _NO_FRAME]))


def check_faces(rows: Int64Array, faces: RecordArray, owners: IntervalIndex) -> Found:  # noqa: ARG001 - as they are
    """Return what is wrong with traffic light faces."""
    return Found(_faults(rows, check_face_records(faces)))


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
