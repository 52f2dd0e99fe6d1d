"""Drives of a simulation: a scene with the ghosts of its log, its plans, metric values, and failures."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float32Array, Float64Array, Int64Array, NumericArray
from l5kit.data.array_shapes import require_shapes
from l5kit.data.frame_rows import expand_ranges, find_pairs, parts_of_rows
from l5kit.data.scene_arrays import AgentRows, SceneArrays, read_scene_arrays
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, L5KitError
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.geometry.angle import angular_distance
from l5kit.simulation.folder.frame_table import FrameColumns
from l5kit.simulation.folder.simulation_folder import ScenePlans, SceneResult, SimulationFolder

_AT_FAULT: Final = "collision_at_fault"
_MEETINGS: Final = {
    _AT_FAULT: "Collision, at fault",
    "collision": "Collision, not at fault",
    "appeared_close": "Appears close ahead in the log",
}
"""Kinds of failures that involve another road user, worst first; a close appearance is a fault of the log."""

_OF_MEETINGS: Final = "no_at_fault_collisions"
"""Metric of these failures."""

_SAME_FAILURE_S: Final = 1.0 + 1e-3  # failures at most a second apart are one; times jitter
_MOVED_M = 0.05
_TURNED_RAD = 0.02


@dataclass(frozen=True)
class Failure:
    """Frames of a scene with one kind of failure of the AV.

    Attributes:
        kind: Name in data.
        name: Name for display.
        first_frame: First frame, counted in the scene.
        last_frame: Last frame.
        track_id: Track of the other road user in a collision or close appearance; None for other kinds.
    """

    kind: str
    name: str
    first_frame: int
    last_frame: int
    track_id: int | None = None


def find_failures(
    columns: FrameColumns,
    values: Mapping[str, float | None],
    metrics: Sequence[MetricFacts],
    *,
    tracks: Sequence[int | None],
    times_s: Float64Array,
    appeared: Sequence[int | None] = (),
) -> list[Failure]:
    """Return the failures of a scene, ordered by frame, worst kinds first.

    Args:
        columns: Columns of the table of frames; missing ones give no failures.
        values: Metric values of the scene; metrics that do not apply give no failures.
        metrics: The metrics.
        tracks: Track that the AV collides with in each frame, if the table has its columns.
        times_s: Times of the frames, seconds, (F,).
        appeared: Track that appears close ahead in each frame; empty if unknown.
    """
    failures = []
    if values.get(_OF_MEETINGS) is not None:
        # without the column, no collision is at fault, as NaN is not above 0
        counts = columns.get("collisions", np.zeros(0))
        at_fault = columns.get("collision_at_fault", np.full(len(counts), np.nan))
        for frame in np.flatnonzero(counts > 0).tolist():
            kind = _AT_FAULT if at_fault[frame] > 0 else "collision"
            failures.append(_meeting(kind, frame, tracks[frame]))
        failures += [_meeting("appeared_close", at, track) for at, track in enumerate(appeared) if track is not None]
    kinds = list(_MEETINGS)
    for metric in metrics:
        fault, column = metric.fault, columns.get(metric.column or "")
        if fault is None or column is None or fault.kind == _AT_FAULT or values.get(metric.name) is None:
            continue
        kinds.append(fault.kind)
        # merge frames at most a second apart into one failure, from the first to the last of them
        frames = np.flatnonzero(fault.find(column))
        if len(frames):
            breaks = np.flatnonzero(np.diff(times_s[frames]) > _SAME_FAILURE_S)
            firsts, lasts = frames[np.append(0, breaks + 1)], frames[np.append(breaks, len(frames) - 1)]
            spans = zip(firsts.tolist(), lasts.tolist(), strict=True)
            failures += [Failure(fault.kind, fault.name, first, last) for first, last in spans]
    return sorted(failures, key=lambda failure: (failure.first_frame, kinds.index(failure.kind)))


def _meeting(kind: str, frame: int, track: int | None) -> Failure:
    return Failure(kind, _MEETINGS[kind], frame, frame, track)


@dataclass(frozen=True)
class Ghosts:
    """Logged poses in the F frames of a simulated scene, with G rows of agents, frame by frame.

    Attributes:
        ego_positions_m: World x and y of the AV, NaN in frames that the log lacks, float64, shape (F, 2).
        ego_yaws_rad: Its headings, likewise, float64, shape (F,).
        ego_speeds_mps: Its speeds, likewise, float64, shape (F,).
        starts: First row of each frame and the end of the last one, int64, shape (F + 1,).
        track_ids: uint64, shape (G,).
        centroids_m: World x and y, float64, shape (G, 2).
        yaws_rad: float32, shape (G,).
        extents_m: Length, width and height, float32, shape (G, 3).
    """

    ego_positions_m: Float64Array
    ego_yaws_rad: Float64Array
    ego_speeds_mps: Float64Array
    starts: Int64Array
    track_ids: NumericArray
    centroids_m: Float64Array
    yaws_rad: Float32Array
    extents_m: Float32Array

    def __post_init__(self) -> None:
        frames, rows = len(self.ego_yaws_rad), len(self.track_ids)
        require_shapes(self, ego_positions_m=(frames, 2), ego_speeds_mps=(frames,), starts=(frames + 1,))
        require_shapes(self, centroids_m=(rows, 2), yaws_rad=(rows,), extents_m=(rows, 3))

    @property
    def has_log(self) -> bool:
        """Whether the log has any of the frames."""
        return bool(np.isfinite(self.ego_yaws_rad).any())

    def rows_of(self, frame_index: int) -> slice:
        """Return the rows of agents of a frame of the scene."""
        return slice(int(self.starts[frame_index]), int(self.starts[frame_index + 1]))


def find_ghosts(simulated: SceneArrays, logged: SceneArrays | None) -> Ghosts:
    """Return the logged poses of road users that a simulation has moved, with frames matched by time.

    An agent has a ghost in frames in which its simulated pose differs by more than 5 cm or 0.02 rad, or in which the
    simulation no longer has it; only tracks that were moved in some frame have ghosts.

    Args:
        simulated: A scene as driven.
        logged: The same scene as recorded, possibly with more frames before and after; None gives no ghosts.
    """
    if logged is None or logged.num_frames == 0:
        nothing = np.zeros((0, 3), np.float32)
        return Ghosts(
            ego_positions_m=np.full((simulated.num_frames, 2), np.nan),
            ego_yaws_rad=np.full(simulated.num_frames, np.nan),
            ego_speeds_mps=np.full(simulated.num_frames, np.nan),
            starts=np.zeros(simulated.num_frames + 1, np.int64),
            track_ids=np.zeros(0, np.uint64),
            centroids_m=np.zeros((0, 2)),
            yaws_rad=nothing[:, 0],
            extents_m=nothing,
        )
    # logged frame at each time, -1 for none
    times_ns = logged.timestamps_ns
    order = np.argsort(times_ns, kind="stable")
    nearest = order[np.searchsorted(times_ns[order], simulated.timestamps_ns).clip(max=len(times_ns) - 1)]
    frames = np.where(times_ns[nearest] == simulated.timestamps_ns, nearest, -1).astype(np.int64)
    there = frames >= 0  # index -1 of missing frames reads the last frame, which is masked
    # rows of agents in these frames, frame by frame, and the simulated frame of each
    starts = logged.agents.starts.astype(np.int64)
    counts = np.where(there, np.diff(starts)[frames], 0)
    frame_of_row, rows = np.repeat(np.arange(len(frames)), counts), expand_ranges(starts[frames], counts)
    is_ghost = _is_elsewhere(simulated.agents, logged.agents, rows, frame_of_row)
    kept = rows[is_ghost]
    counts = np.bincount(frame_of_row[is_ghost], minlength=simulated.num_frames)
    return Ghosts(
        ego_positions_m=np.where(there[:, None], logged.ego_positions_m[frames, :2], np.nan),
        ego_yaws_rad=np.where(there, logged.ego_yaws_rad[frames], np.nan),
        ego_speeds_mps=np.where(there, logged.ego_speeds_mps[frames], np.nan),
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        track_ids=logged.agents.track_ids[kept],
        centroids_m=logged.agents.centroids_m[kept],
        yaws_rad=logged.agents.yaws_rad[kept],
        extents_m=logged.agents.extents_m[kept],
    )


def _is_elsewhere(simulated: AgentRows, logged: AgentRows, rows: Int64Array, frame_of_row: Int64Array) -> BoolArray:
    """Return which logged rows, of tracks that the simulation has moved, are elsewhere or missing in the simulation."""
    if len(simulated.track_ids) == 0:
        return np.zeros(len(rows), np.bool_)
    # simulated row of each track in the same frame, -1 for none
    track_ids = logged.track_ids[rows]
    match = find_pairs(frame_of_row, track_ids, parts_of_rows(simulated.starts), simulated.track_ids)
    is_matched = match >= 0
    offsets_m = np.linalg.norm(simulated.centroids_m[match] - logged.centroids_m[rows], axis=1)
    turns_rad = np.abs(angular_distance(simulated.yaws_rad[match].astype(np.float64), logged.yaws_rad[rows]))
    has_moved = is_matched & ((offsets_m > _MOVED_M) | (turns_rad > _TURNED_RAD))
    moved_tracks = np.unique(track_ids[has_moved])
    is_elsewhere: BoolArray = has_moved | (~is_matched & np.isin(track_ids, moved_tracks))
    return is_elsewhere


@dataclass(frozen=True)
class SceneDrive:
    """A driven scene of F frames.

    Attributes:
        result: Its scores.
        ghosts: Logged poses of moved road users.
        plans: Plans; None if they were not kept.
        columns: Values of the table of frames; empty if its number of frames differs from the scene.
        metrics: The metrics.
        failures: Failures that lower the score, by frame.
    """

    result: SceneResult
    ghosts: Ghosts
    plans: ScenePlans | None
    columns: FrameColumns
    metrics: tuple[MetricFacts, ...]
    failures: list[Failure]


class DriveReader:
    """Reads the drives of a simulation; thread-safe.

    Args:
        folder: The folder of the simulation.

    Attributes:
        notes: Why the log is not shown; empty if it can be read.
    """

    def __init__(self, folder: SimulationFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self.notes: list[str] = []
        path, without = folder.log_path, "simulated scenes are shown without the log"
        if path is None:
            self.notes.append(f"run.json names no log: {without}")
        elif not path.exists():
            self.notes.append(f"the log {str(path)!r} no longer exists: {without}")
        else:
            try:
                self._log  # noqa: B018 - opens it
            except (L5KitError, OSError) as error:
                self.notes.append(f"the log cannot be read, so simulated scenes are shown without it: {error}")

    def read(self, scene_index: int, simulated: SceneArrays) -> SceneDrive:
        """Return a drive.

        Args:
            scene_index: The scene, counted among the driven ones.
            simulated: The scene as driven.

        Raises:
            IndexOutOfRangeError: There is no such scene.
            CorruptedDataError: The tables, the plans or the log cannot be read.
        """
        result = self._folder.result(scene_index)
        columns = self._folder.frames.columns_of(result.scene)
        if len(next(iter(columns.values()), ())) != simulated.num_frames:
            columns = {}
        # the same scene of the log, if it can be read and has the scene
        logged = None
        if not self.notes:
            with self._lock:
                log = self._log
            if log is not None and 0 <= result.scene < len(log.scenes):
                logged = read_scene_arrays(log, result.scene)
        ghosts = find_ghosts(simulated, logged)
        plans = self._folder.plans(result.scene)
        if plans is not None:
            wanted = (simulated.num_frames, len(plans.times_s), 3)
            if plans.poses.shape != wanted:
                raise CorruptedDataError(
                    f"the plans of the scene have the shape {plans.poses.shape}, but must have {wanted}"
                )
        return SceneDrive(
            result=result,
            ghosts=ghosts,
            plans=plans,
            columns=columns,
            metrics=self._folder.metrics,
            failures=find_failures(
                columns,
                result.metrics,
                self._folder.metrics,
                tracks=self._folder.frames.tracks_of(result.scene),
                times_s=simulated.times_s,
                appeared=self._folder.frames.tracks_of(result.scene, "appeared_track"),
            ),
        )

    @cached_property
    def _log(self) -> ChunkedDataset | None:
        path = self._folder.log_path
        return None if path is None or not path.exists() else ChunkedDataset(path).open()
