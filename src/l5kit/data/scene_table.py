"""A row for each scene of a dataset: how long it is, how far and how fast the AV drives, which way it turns."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray, RecordArray
from l5kit.data.chunked_array import ChunkedArray
from l5kit.data.record_sequence import ROWS_PER_BLOCK, rows_of
from l5kit.data.save import Progress
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError

__all__ = ["STANDING_M", "TURN_DEG", "SceneTable", "read_scene_table"]

TURN_DEG: Final = 30.0
"""Change of heading from which a scene is a turn."""

STANDING_M: Final = 2.0
"""Driven distance below which the AV is said to stand."""

_TURNS: Final = ("straight", "left", "right", "standing")


@dataclass(frozen=True)
class SceneTable:
    """The N scenes of a dataset; numbers are NaN for scenes that are damaged or have no frame.

    Attributes:
        hosts: The car that recorded each scene.
        num_frames: int64, shape (N,); 0 where the interval of the scene is wrong.
        lengths_s: From the first frame to the last, float64, shape (N,).
        agents_per_frame: Mean number of agent rows in a frame, float64, shape (N,).
        distances_m: Way of the AV, float64, shape (N,).
        turns_deg: Heading of the AV at the end less that at the start, whole turns counted, positive to the left,
            float64, shape (N,).
        errors: What is wrong with a scene that cannot be read, by its number.
    """

    hosts: tuple[str, ...]
    num_frames: Int64Array
    lengths_s: Float64Array
    agents_per_frame: Float64Array
    distances_m: Float64Array
    turns_deg: Float64Array
    errors: dict[int, str]

    def __len__(self) -> int:
        return len(self.num_frames)

    @property
    def speeds_mps(self) -> Float64Array:
        """Mean speed of the AV, shape (N,); 0 where no time passes."""
        speeds_mps: Float64Array = np.divide(
            self.distances_m, self.lengths_s, out=np.zeros(len(self)), where=self.lengths_s != 0
        )
        return speeds_mps

    @property
    def turns(self) -> list[str | None]:
        """``left``, ``right``, ``straight`` or ``standing``; None where a scene cannot be read."""
        codes = np.where(self.turns_deg >= TURN_DEG, 1, np.where(self.turns_deg <= -TURN_DEG, 2, 0))
        codes[self.distances_m < STANDING_M] = 3
        is_known = np.isfinite(self.turns_deg)
        return [_TURNS[code] if known else None for code, known in zip(codes.tolist(), is_known.tolist(), strict=True)]


def read_scene_table(dataset: ChunkedDataset, *, progress: Progress | None = None) -> SceneTable:
    """Return the table of all scenes of a dataset; reads the scenes and the frames, not the agents.

    A scene that cannot be read has an entry in ``errors`` and leaves the others as they are.

    Args:
        dataset: An opened dataset.
        progress: Called with the number of frames read and of all; what it raises ends the reading.

    Raises:
        CorruptedDataError: The scenes themselves cannot be read.
    """
    scenes = rows_of(dataset.scenes, slice(0, len(dataset.scenes)), strict=True)
    intervals = scenes["frame_index_interval"].astype(np.int64)
    errors = _interval_errors(intervals, len(dataset.frames))
    intervals[list(errors)] = 0
    frames, unread = _read_blocks(dataset.frames, progress)
    for scene_index in _touched(intervals, unread):
        start, end = intervals[scene_index].tolist()
        try:
            frames.take(start, rows_of(dataset.frames, slice(start, end), strict=True))
        except CorruptedDataError as error:
            errors[scene_index] = str(error)
    errors |= {index: f"scene {index} has no frame" for index in _empty(intervals).tolist() if index not in errors}
    return _as_table(tuple(map(str, scenes["host"].tolist())), intervals, frames, errors)


class _FrameColumns:
    """The fields of all frames that the table needs.

    Args:
        length: Number of frames.
    """

    def __init__(self, length: int) -> None:
        self.times_ns = np.zeros(length, np.int64)
        self.agent_intervals = np.zeros((length, 2), np.int64)
        self.steps_m = np.zeros(length)
        """Way of the AV from each frame to the next one; that of the last frame says nothing."""
        self.turns_rad = np.zeros(length)
        """Change of its heading, likewise."""
        self._end, self._last = 0, _Poses(np.empty(0), np.empty(0), np.empty(0))

    def take(self, start: int, frames: RecordArray) -> None:
        """Take the fields of frames that begin at row ``start``."""
        rows = slice(start, start + len(frames))
        self.times_ns[rows], self.agent_intervals[rows] = frames["timestamp"], frames["agent_index_interval"]
        poses = _Poses.of(frames)
        if self._end == start:
            poses = self._last.followed_by(poses)
        steps = slice(rows.stop - len(poses.xs_m), rows.stop - 1)
        with np.errstate(over="ignore", invalid="ignore"):  # what is damaged becomes infinite or NaN
            self.steps_m[steps] = np.hypot(np.diff(poses.xs_m), np.diff(poses.ys_m))
            turns_rad = np.diff(poses.yaws_rad)
            self.turns_rad[steps] = turns_rad - 2 * np.pi * np.rint(turns_rad / (2 * np.pi))
        self._end, self._last = rows.stop, poses.last()


@dataclass(frozen=True)
class _Poses:
    """World positions and headings of the AV in N frames, shape (N,) each."""

    xs_m: Float64Array
    ys_m: Float64Array
    yaws_rad: Float64Array

    @classmethod
    def of(cls, frames: RecordArray) -> "_Poses":
        positions_m, rotations = frames["ego_translation"], frames["ego_rotation"]
        return cls(positions_m[:, 0], positions_m[:, 1], np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0]))

    def followed_by(self, other: "_Poses") -> "_Poses":
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return _Poses(*(np.concatenate(pair) for pair in pairs))

    def last(self) -> "_Poses":
        return _Poses(*(np.array(column[-1:]) for column in vars(self).values()))


def _read_blocks(frames: Any, progress: Progress | None) -> tuple[_FrameColumns, Int64Array]:
    """Return the columns of all frames, and the blocks (B, 2) of rows that could not be read."""
    columns, failed = _FrameColumns(len(frames)), []
    for start in range(0, len(frames), ROWS_PER_BLOCK):
        stop = min(start + ROWS_PER_BLOCK, len(frames))
        try:
            columns.take(start, _block(frames, start, stop))
        except CorruptedDataError:
            failed.append((start, stop))
        if progress is not None:
            progress(stop, len(frames))
    return columns, np.array(failed, dtype=np.int64).reshape(-1, 2)


def _block(frames: Any, start: int, stop: int) -> RecordArray:
    if isinstance(frames, ChunkedArray):
        return frames.passing_rows(start, stop)
    return rows_of(frames, slice(start, stop), strict=True)


def _interval_errors(intervals: Int64Array, num_frames: int) -> dict[int, str]:
    """Return what is wrong with intervals (N, 2) that do not lie within the frames, by scene."""
    is_wrong = (intervals[:, 0] < 0) | (intervals[:, 1] < intervals[:, 0]) | (intervals[:, 1] > num_frames)
    return {
        index: f"frame_index_interval {intervals[index].tolist()} of scene {index} does not lie within the "
        f"{num_frames} frames; l5kit validate lists what is wrong in the dataset"
        for index in np.flatnonzero(is_wrong).tolist()
    }


def _touched(intervals: Int64Array, blocks: Int64Array) -> list[int]:
    """Return the scenes of intervals (N, 2) that have rows in any of the blocks (B, 2)."""
    if len(blocks) == 0:
        return []
    meets = (intervals[:, None, 0] < blocks[None, :, 1]) & (intervals[:, None, 1] > blocks[None, :, 0])
    scene_indices: list[int] = np.flatnonzero(meets.any(axis=1)).tolist()
    return scene_indices


def _empty(intervals: Int64Array) -> Int64Array:
    return np.flatnonzero(intervals[:, 1] == intervals[:, 0])


def _as_table(
    hosts: tuple[str, ...], intervals: Int64Array, frames: _FrameColumns, errors: dict[int, str]
) -> SceneTable:
    is_known = np.ones(len(intervals), np.bool_)
    is_known[list(errors)] = False
    first, last = intervals[is_known, 0], intervals[is_known, 1] - 1
    num_frames = intervals[:, 1] - intervals[:, 0]
    num_rows = frames.agent_intervals[last, 1] - frames.agent_intervals[first, 0]
    return SceneTable(
        hosts=hosts,
        num_frames=num_frames,
        lengths_s=_spread((frames.times_ns[last] - frames.times_ns[first]) * 1e-9, is_known),
        agents_per_frame=_spread(num_rows / num_frames[is_known], is_known),
        distances_m=_spread(_sums(frames.steps_m, first, last), is_known),
        turns_deg=_spread(np.degrees(_sums(frames.turns_rad, first, last)), is_known),
        errors=errors,
    )


def _sums(steps: Float64Array, first: Int64Array, last: Int64Array) -> Float64Array:
    """Return the sum of the steps from each first frame to each last one, NaN where it is not finite.

    Each sum takes its own steps only, so that the numbers of a damaged scene spoil no other.
    """
    bounds = np.column_stack([first, last]).reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.add.reduceat(steps, bounds)[::2]
    sums[first == last] = 0.0  # where reduceat gives the step after the frame
    return np.where(np.isfinite(sums), sums, np.nan)


def _spread(values: NumericArray, is_known: BoolArray) -> Float64Array:
    spread = np.full(len(is_known), np.nan)
    spread[is_known] = values
    return spread
