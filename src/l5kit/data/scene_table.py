"""Scene table: duration of each scene, distance and speed of the AV, and its turning direction."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray, RecordArray, Records
from l5kit.data.checks.record_checks import MAX_COORDINATE_M
from l5kit.data.index.interval_run import IntervalFault
from l5kit.data.index.log_index import check_scenes, readable_blocks
from l5kit.data.jobs.scene_jobs import Workers, map_scenes
from l5kit.data.progress import Progress
from l5kit.data.record_sequence import ROWS_PER_BLOCK, passing_rows, rows_of
from l5kit.data.records import AGENT_INTERVAL, FRAME_INTERVAL
from l5kit.data.texts import shown_texts
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError

TURN_DEG: Final = 30.0
"""Minimum heading change of a turn."""

STANDING_M: Final = 2.0
"""The AV is standing if it drives less than this distance."""

_FAULTS: Final = (
    ("", ""),
    ("ego_translation", f"is not finite, or more than {MAX_COORDINATE_M:,.0f} m from the origin of the world"),
    ("ego_rotation", "is not finite"),
)
_WITHOUT_FRAMES: Final = (IntervalFault.UNREADABLE, IntervalFault.REVERSED, IntervalFault.OUTSIDE)
"""Faults of scenes whose frames cannot be identified."""

_TURNS: Final = ("straight", "left", "right", "standing")


@dataclass(frozen=True)
class SceneTable:
    """Properties of the N scenes of a dataset; numbers are finite, or NaN if a scene is damaged or empty.

    Attributes:
        hosts: Name of the recording car of each scene.
        num_frames: int64, shape (N,); 0 where the interval of the scene is wrong.
        lengths_s: Time from the first to the last frame, float64, shape (N,).
        agents_per_frame: Mean number of agent rows per frame, float64, shape (N,).
        distances_m: Distance driven by the AV, float64, shape (N,).
        turns_deg: Heading change of the AV from start to end, including full turns, positive to the left, float64,
            shape (N,).
        errors: Reasons why scenes cannot be read, by scene index.
        doubts: Faults in the poses of readable scenes, by scene index; frame numbers are relative to the scene.
    """

    hosts: tuple[str, ...]
    num_frames: Int64Array
    lengths_s: Float64Array
    agents_per_frame: Float64Array
    distances_m: Float64Array
    turns_deg: Float64Array
    errors: dict[int, str]
    doubts: dict[int, str]

    def __len__(self) -> int:
        return len(self.num_frames)

    @property
    def speeds_mps(self) -> Float64Array:
        """Mean speed of the AV, shape (N,); 0 for scenes without duration."""
        speeds_mps: Float64Array = np.divide(
            self.distances_m, self.lengths_s, out=np.zeros(len(self)), where=self.lengths_s != 0
        )
        return speeds_mps

    @property
    def turns(self) -> list[str | None]:
        """``left``, ``right``, ``straight`` or ``standing``; None if heading or distance is unknown."""
        codes = np.where(self.turns_deg >= TURN_DEG, 1, np.where(self.turns_deg <= -TURN_DEG, 2, 0))
        codes[self.distances_m < STANDING_M] = 3
        is_known = np.isfinite(self.turns_deg) & np.isfinite(self.distances_m)
        return [_TURNS[code] if known else None for code, known in zip(codes.tolist(), is_known.tolist(), strict=True)]


def read_scene_table(dataset: ChunkedDataset, *, progress: Progress | None = None, workers: Workers = 1) -> SceneTable:
    """Return the table of all scenes of a dataset; reads scenes and frames, not agents.

    An unreadable scene has an entry in ``errors``, a scene with impossible AV poses an entry in ``doubts``; other
    scenes are not affected.

    Args:
        dataset: An opened dataset.
        progress: Called with the number of frames read and the total; an exception it raises ends the reading.
        workers: Number of threads, or an executor; see :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Raises:
        CorruptedDataError: No scene can be read.
    """
    # intervals and hosts of readable scenes
    bounds, hosts = np.full((len(dataset.scenes), 2), -1, np.int64), [""] * len(dataset.scenes)
    read_errors: dict[int, str] = {}
    for start, scenes in readable_blocks(dataset.scenes, read_errors):
        rows = slice(start, start + len(scenes))
        bounds[rows], hosts[rows] = scenes[FRAME_INTERVAL], shown_texts(scenes["host"])
    run = check_scenes(dataset, bounds, read_errors)
    intervals = run.bounds.copy()

    # the table reports each scene as stored, so gaps between scenes do not matter
    errors = {}
    without_frames = np.isin(run.faults, _WITHOUT_FRAMES) if run.faults is not None else np.zeros(len(bounds), np.bool_)
    for index in np.flatnonzero(without_frames).tolist():
        is_unreadable = run.fault(index) == IntervalFault.UNREADABLE
        advice = "" if is_unreadable else "; l5kit validate lists what is wrong in the dataset"
        errors[index] = f"{run.explain(index)}{advice}"
    intervals[list(errors)] = 0

    # an unreadable block may overlap scenes whose own frames are readable
    frames, unread = _read_blocks(dataset.frames, progress, workers)
    meets = (intervals[:, None, 0] < unread[None, :, 1]) & (intervals[:, None, 1] > unread[None, :, 0])
    for scene_index in np.flatnonzero(meets.any(axis=1)).tolist():
        start, end = intervals[scene_index].tolist()
        try:
            frames.put(start, _FrameValues.of(rows_of(dataset.frames, slice(start, end), strict=True)))
        except CorruptedDataError as error:
            errors[scene_index] = str(error)

    # the first error of a scene counts
    without_rows = np.flatnonzero(intervals[:, 1] == intervals[:, 0]).tolist()
    empty = {index: f"scene {index} has no frame" for index in without_rows}
    errors = empty | _frame_errors(intervals, frames.agent_intervals) | errors
    return _as_table(tuple(hosts), intervals, frames, errors)


def driving_statistics(table: SceneTable) -> dict[str, float | int]:
    """Return total time and distance driven by the AV in the scenes of a table, and the number of scenes of each kind.

    Hours, kilometres and agents per frame cover the readable scenes; agents are averaged over frames.
    """
    known = np.isfinite(table.lengths_s) & np.isfinite(table.agents_per_frame)
    num_frames = table.num_frames[known]
    agents = float((table.agents_per_frame[known] * num_frames).sum())
    turns = table.turns
    return {
        "scenes": len(table.num_frames),
        "damaged scenes": len(table.errors),
        "hours": float(table.lengths_s[known].sum()) / 3600.0,
        "kilometres": float(np.nansum(table.distances_m)) / 1000.0,
        "agents in a frame": agents / max(int(num_frames.sum()), 1),
        **{f"scenes {kind}": turns.count(kind) for kind in _TURNS},
    }


def _frame_errors(intervals: Int64Array, agent_intervals: Int64Array) -> dict[int, str]:
    """Return faults in the agent intervals (F, 2) of the frames of scenes (S, 2), by scene."""
    starts, stops = agent_intervals.T
    is_wrong = np.zeros(len(starts), np.bool_)
    is_wrong[1:] = starts[1:] != stops[:-1]
    is_wrong[intervals[intervals[:, 0] < intervals[:, 1], 0]] = False  # may disagree with the previous scene
    # bisect the ascending faulty frames for those of each scene; report the first
    wrong = np.flatnonzero(is_wrong | (stops < starts))
    first, end = np.searchsorted(wrong, intervals.T)
    return {
        scene: f"agent_index_interval {agent_intervals[frame].tolist()} of frame {frame - intervals[scene, 0]} "
        "does not start where that of the frame before ends; l5kit validate lists what is wrong in the dataset"
        for scene in np.flatnonzero(first < end).tolist()
        for frame in wrong[first[scene] : first[scene] + 1]
    }


@dataclass(frozen=True)
class _FrameValues:
    """Values of N frames that the table needs.

    Attributes:
        times_ns: int64, (N,).
        agent_intervals: int64, (N, 2).
        xs_m: World x of the AV, float64, (N,); NaN for impossible values, as in the next two.
        ys_m: World y of the AV.
        yaws_rad: Heading of the AV.
    """

    times_ns: Int64Array
    agent_intervals: Int64Array
    xs_m: Float64Array
    ys_m: Float64Array
    yaws_rad: Float64Array

    @classmethod
    def of(cls, frames: RecordArray) -> "_FrameValues":
        positions_m, rotations = frames["ego_translation"], frames["ego_rotation"]
        xs_m, ys_m = (np.where(np.abs(column) <= MAX_COORDINATE_M, column, np.nan) for column in positions_m[:, :2].T)
        sines, cosines = (np.where(np.isfinite(column), column, np.nan) for column in rotations[:, 1::-1, 0].T)
        return cls(frames["timestamp"].copy(), frames[AGENT_INTERVAL].copy(), xs_m, ys_m, np.arctan2(sines, cosines))

    @classmethod
    def of_none_read(cls, length: int) -> "_FrameValues":
        """Return empty values, to be filled by :meth:`put`."""
        poses = (np.full(length, np.nan) for _ in range(3))
        return cls(np.zeros(length, np.int64), np.zeros((length, 2), np.int64), *poses)

    def put(self, start: int, frames: "_FrameValues") -> None:
        """Write the values of frames starting at row ``start``."""
        for name, column in vars(self).items():
            values = getattr(frames, name)
            column[start : start + len(values)] = values


def _read_blocks(frames: Records, progress: Progress | None, workers: Workers) -> tuple[_FrameValues, Int64Array]:
    """Return the values of all frames, and the row ranges (B, 2) of unreadable blocks."""
    values, failed = _FrameValues.of_none_read(len(frames)), []
    job, indices = _FrameBlocks(frames, ROWS_PER_BLOCK), range(-(-len(frames) // ROWS_PER_BLOCK))
    with map_scenes(job, indices, workers, block_size=1, unit="block") as parts:
        for start, stop, rows in parts:
            if rows is None:
                failed.append((start, stop))
            else:
                values.put(start, rows)
            if progress is not None:
                progress(stop, len(frames))
    return values, np.array(failed, dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class _FrameBlocks:
    """Function that returns a block of frames by number: first row, end row, and values, or None if unreadable."""

    frames: Records
    length: int

    def __call__(self, number: Int64Array) -> tuple[int, int, _FrameValues | None]:
        start = int(number[0]) * self.length
        stop = min(start + self.length, len(self.frames))
        try:
            return start, stop, _FrameValues.of(passing_rows(self.frames, start, stop))
        except CorruptedDataError:
            return start, stop, None


def _as_table(
    hosts: tuple[str, ...], intervals: Int64Array, frames: _FrameValues, errors: dict[int, str]
) -> SceneTable:
    is_known = np.ones(len(intervals), np.bool_)
    is_known[list(errors)] = False

    # the first faulty frame of each scene, which is found among all of them, ascending, by bisection
    has_way = np.isfinite(frames.xs_m) & np.isfinite(frames.ys_m)
    faults = np.where(has_way, np.where(np.isfinite(frames.yaws_rad), 0, 2), 1)
    faulty_frames = np.flatnonzero(faults)
    first_faulty, end_faulty = (np.searchsorted(faulty_frames, bounds) for bounds in intervals.T)
    doubts = {}
    for scene_index in np.flatnonzero(is_known & (first_faulty < end_faulty)).tolist():
        frame = faulty_frames[first_faulty[scene_index]]
        field, fault = _FAULTS[faults[frame]]
        doubts[scene_index] = (
            f"{field} of frame {frame - intervals[scene_index, 0]} {fault}; l5kit validate lists what is wrong in the "
            "dataset"
        )

    # from each frame to the next one; the turn of a step is the shorter one, so that a heading may go over pi
    steps_m = np.hypot(np.diff(frames.xs_m, append=np.nan), np.diff(frames.ys_m, append=np.nan))
    turns_rad = np.diff(frames.yaws_rad, append=np.nan)
    turns_rad -= 2 * np.pi * np.rint(turns_rad / (2 * np.pi))

    # lengths, rows and ways go from the first frame of a scene to its last
    first, last = intervals[is_known, 0], intervals[is_known, 1] - 1
    num_frames = intervals[:, 1] - intervals[:, 0]
    num_rows = frames.agent_intervals[last, 1] - frames.agent_intervals[first, 0]
    return SceneTable(
        hosts=hosts,
        num_frames=num_frames,
        lengths_s=_spread((frames.times_ns[last] - frames.times_ns[first]) * 1e-9, is_known),
        agents_per_frame=_spread(num_rows / num_frames[is_known], is_known),
        distances_m=_spread(_sums(steps_m, first, last), is_known),
        turns_deg=_spread(np.degrees(_sums(turns_rad, first, last)), is_known),
        errors=errors,
        doubts=doubts,
    )


def _sums(steps: Float64Array, first: Int64Array, last: Int64Array) -> Float64Array:
    """Return the sum of the steps from each first frame to each last one, NaN where one is not known.

    Each sum takes its own steps only, so that the numbers of a damaged scene spoil no other.
    """
    bounds = np.column_stack([first, last]).reshape(-1)
    sums: Float64Array = np.add.reduceat(steps, bounds)[::2]
    sums[first == last] = 0.0  # where reduceat gives the step after the frame
    return sums


def _spread(values: NumericArray, is_known: BoolArray) -> Float64Array:
    spread = np.full(len(is_known), np.nan)
    spread[is_known] = values
    return spread
