"""Blocks of scenes: read, driven, scored and written as a part; a failed scene does not affect the others."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from l5kit._types import BoolArray, Float64Array, FloatArray, Int64Array, JsonObject, RecordArray
from l5kit.closedloop.measured import Measured
from l5kit.closedloop.parts import FinishedScene, write_part
from l5kit.closedloop.scenes import FailedScene, read_scene
from l5kit.closedloop.setup import ClosedLoopSetup
from l5kit.closedloop.tables import frame_columns_of, frame_dtype_of, scene_columns_of
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import L5KitError, error_text, is_termination
from l5kit.evaluation.driving.collisions import CollisionKind
from l5kit.evaluation.driving.metric import NUPLAN, Metric, combine
from l5kit.evaluation.driving.scene_score import METRICS
from l5kit.simulation.engine.appearances import find_gaps_at_appearance
from l5kit.simulation.engine.driven_scenes import DrivenScenes, ScoredDrives, score_drives
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import SceneSimulation
from l5kit.simulation.lanes.track_poses import paths_of_avs

ScoredScene = tuple[JsonObject, RecordArray]
"""Row of a scene without log and position, and the rows of its frames."""


def score_driven(
    driven: DrivenScenes,
    measured: Measured,
    truth: Mapping[int, SceneArrays] | None = None,
    *,
    is_by_rules: bool = False,
) -> dict[int, ScoredScene]:
    """Return the rows of all scenes driven to their end, by scene of the batch.

    Args:
        driven: The scenes.
        measured: The metrics.
        truth: True boxes of the driven frames, by scene of the batch; None to score against the simulated boxes.
        is_by_rules: Whether the rule planner drove, so that windows need no comparison with it.
    """
    scored: dict[int, ScoredScene] = {}
    for drives in score_drives(driven, truth):
        if measured.needs_windows:
            # imported here, as only windows need the rule planner
            from l5kit.simulation.drivers.rule_planner import RulePlanner
            from l5kit.simulation.windows.scored_windows import score_windows_of

            windows = score_windows_of(driven, drives, rules=None if is_by_rules else RulePlanner())
            drives = replace(drives, details=replace(drives.details, windows=windows))
        judged = {metric.name: metric.judge(drives.details) for metric in measured.metrics}
        # the frames table always has the columns of the nuPlan metrics
        in_columns = {
            metric.column: (judged.get(metric.name) or metric.judge(drives.details))[0]
            for metric in dict.fromkeys((*METRICS, *measured.metrics))
            if metric.column is not None
        }
        frames = _frame_rows(driven, drives, measured.metrics, in_columns)
        failing = {metric: judged[metric.name][2] for metric in measured.metrics if metric.fault is not None}
        values = {name: scenes for name, (_, scenes, _) in judged.items()}
        # the nuPlan score combines its metrics; any other score is itself a metric
        if measured.scores[0] == NUPLAN:
            score = combine(values, [metric for metric in measured.metrics if metric.of_score == NUPLAN])
        else:
            score = values[measured.scores[0]]
        rows = _scene_rows(driven, drives, frames, {"score": score} | values, failing)
        scored |= {scene: (rows[index], frames[index]) for index, scene in enumerate(drives.scenes.tolist())}
    return scored


def find_overflow(row: JsonObject, frames: RecordArray) -> FailedScene | None:
    """Return a failure that names the infinite values of a scene with finite states; None if there are none.

    Args:
        row: Row of the scene in the scenes table.
        frames: Rows of its frames in the frames table, (F,).
    """
    infinite = [name for name, value in row.items() if isinstance(value, float) and math.isinf(value)]
    is_infinite = np.zeros(len(frames), np.bool_)
    for name in frames.dtype.names or ():
        if frames.dtype[name].kind == "f" and np.isinf(frames[name]).any():
            infinite.append(name)
            is_infinite |= np.isinf(frames[name])
    if not infinite:
        return None
    frame = int(frames["frame"][np.argmax(is_infinite)]) if is_infinite.any() else None
    names = ", ".join(dict.fromkeys(infinite))
    return FailedScene(row["scene"], frame, None, f"the drive gives infinite values: {names}")


def _frame_rows(
    driven: DrivenScenes, drives: ScoredDrives, metrics: Sequence[Metric], in_columns: Mapping[str, Float64Array]
) -> RecordArray:
    """Return the rows of the frames, (S, F), with the columns of the metrics, (S, F) each."""
    scenes, details = drives.scenes, drives.details
    states, users = details.states, details.road_users
    num_frames = states.is_there.shape[1]
    from_log_m = states.positions_m - details.expert.positions_m
    rows = np.zeros(states.is_there.shape, frame_dtype_of(frame_columns_of(metrics)))
    rows["scene"] = driven.batch.scene_indices[scenes, None]
    rows["frame"] = driven.batch.starts[scenes, None] + np.arange(num_frames)
    columns = {
        "time_s": states.timestamps_s,
        "x_m": states.positions_m[..., 0],
        "y_m": states.positions_m[..., 1],
        "yaw_rad": states.yaws_rad,
        "speed_mps": states.speeds_mps,
        "acceleration_mps2": states.accelerations_mps2[..., 0],
        "lateral_acceleration_mps2": states.accelerations_mps2[..., 1],
        "distance_to_log_m": np.sqrt((from_log_m**2).sum(axis=-1)),
        "speed_limit_mps": details.speed_limits_mps,
        "progress_m": details.progress_m,
        "by_fallback": driven.by_fallback[scenes, :num_frames],
    }
    for name, values in (*columns.items(), *in_columns.items()):
        rows[name] = values

    # tracks are numbered within their scenes, by ascending id
    track_ids = [np.unique(each.agents.track_ids) for each in drives.arrays]
    by_frame = rows.reshape(-1)

    # The collision named in a frame is the first at fault, else the first. The column collision_at_fault describes
    # that collision only, whereas the metric counts all collisions at fault.
    rows["collision_at_fault"] = -1
    collided = np.flatnonzero(details.collisions.kinds != CollisionKind.NONE)
    frame_indices = users.frames_of_rows[collided]
    np.add.at(by_frame["collisions"], frame_indices, 1)
    for row, frame_index in zip(collided.tolist(), frame_indices.tolist(), strict=True):
        is_at_fault = int(details.collisions.is_at_fault[row])
        if is_at_fault > by_frame["collision_at_fault"][frame_index]:
            by_frame["collision_at_fault"][frame_index] = is_at_fault
            by_frame["collision_kind"][frame_index] = details.collisions.kinds[row]
            by_frame["collision_track"][frame_index] = track_ids[frame_index // num_frames][users.tracks[row]]

    # count road users that appear close ahead and name the nearest, which is written last
    paths = driven.batch.once(paths_of_avs)
    gaps_m = find_gaps_at_appearance(states, users, paths, path_of_scene=scenes)
    appeared = np.flatnonzero(gaps_m < np.inf)
    np.add.at(by_frame["appeared_close"], users.frames_of_rows[appeared], 1)
    for row in appeared[np.argsort(-gaps_m[appeared], kind="stable")].tolist():
        frame_index = int(np.searchsorted(users.starts, row, side="right")) - 1
        by_frame["appeared_track"][frame_index] = track_ids[frame_index // num_frames][users.tracks[row]]
    return rows


def _scene_rows(
    driven: DrivenScenes,
    drives: ScoredDrives,
    frames: RecordArray,
    scores: Mapping[str, Float64Array],
    failing: Mapping[Metric, BoolArray],
) -> list[JsonObject]:
    """Return the rows of scenes, given scores by name, (S,), and the failing frames of each metric, (S, F)."""
    scenes, details = drives.scenes, drives.details
    # argmax gives the first marked frame; it is 0 if none is marked, which _where_known hides
    appeared = frames["appeared_close"] > 0
    has_appeared = np.any(appeared, axis=1)
    first_appeared = np.take_along_axis(frames, appeared.argmax(axis=1)[:, None], axis=1)[:, 0]
    has_fallback = np.any(frames["by_fallback"] >= 0, axis=1)
    of_tracks = driven.batch.tracks.scenes_of_tracks[driven.was_driven]
    columns: dict[str, Float64Array | Int64Array | NDArray[np.object_]] = {
        "scene": driven.batch.scene_indices[scenes],
        "frames": details.states.num_frames,
        **{name: np.where(drives.has_score, values, np.nan) for name, values in scores.items()},
        "collisions": frames["collisions"].sum(axis=1),
        "collisions_at_fault": details.counts_at_fault.sum(axis=(1, 2)),
        **{metric.counted_as: where.sum(axis=1) for metric, where in failing.items() if metric.counted_as is not None},
        "way_m": drives.distances_m,
        "expert_way_m": drives.expert_distances_m,
        "route_m": details.progress_m.sum(axis=1),
        "expert_route_m": details.expert_progress_m.sum(axis=1),
        "most_from_log_m": frames["distance_to_log_m"].max(axis=1),
        "driven_agents": np.bincount(of_tracks, minlength=len(driven.batch))[scenes],
        "fallback_steps": _where_known(has_fallback, (frames["by_fallback"] == 1).sum(axis=1)),
        "appeared_close": frames["appeared_close"].sum(axis=1),
        **{
            f"first_{metric.name}_frame": _where_known(
                np.any(where, axis=1), frames["frame"][:, 0] + where.argmax(axis=1)
            )
            for metric, where in failing.items()
        },
        "first_appeared_frame": _where_known(has_appeared, first_appeared["frame"]),
        "first_appeared_track": _where_known(has_appeared, first_appeared["appeared_track"]),
    }
    values = {
        name: [None if math.isnan(value) else value for value in column.tolist()] for name, column in columns.items()
    }
    return [{name: column[row] for name, column in values.items()} for row in range(len(scenes))]


def _where_known(is_known: BoolArray, counts: Int64Array) -> NDArray[np.object_]:
    """Return whole numbers where they are known, else NaN."""
    return np.where(is_known, counts.astype(object), math.nan)


class FailedSceneError(L5KitError, RuntimeError):
    """A scene of a strict simulation failed.

    Args:
        failed: The scene and the reason.

    Attributes:
        failed: The scene and the reason.
    """

    def __init__(self, failed: FailedScene) -> None:
        super().__init__(str(failed))
        self.failed = failed

    def __reduce__(self) -> tuple[type["FailedSceneError"], tuple[FailedScene]]:
        """Return class and arguments for pickle."""
        return type(self), (self.failed,)


@dataclass(frozen=True)
class SimulateBlock:
    """Job of a simulation: simulate a block of scenes of the log and write them as a part.

    Attributes:
        setup: Setup of the simulation.
        folder: Folder of the parts.
        run: Digest of the run, stored in the parts.
    """

    setup: ClosedLoopSetup = field(repr=False)
    folder: Path
    run: str

    def __call__(self, scenes: Int64Array) -> list[JsonObject]:
        """Simulate scenes, ascending, and return their rows.

        Raises:
            FailedSceneError: A scene fails, and the simulation is strict.
        """
        options, true_log = self.setup.options, self.setup.truth
        recorded: dict[int, SceneRecords] = {}
        truth: dict[int, SceneArrays] = {}
        finished: list[FinishedScene] = []
        for scene in scenes.tolist():
            records = read_scene(self.setup.log, scene, start=options.start_frame)
            if isinstance(records, FailedScene):
                finished.append(self._finish_failed(records))
                continue
            # without a true log, scenes are scored against the boxes that planners see
            if true_log is not None:
                true = true_log.read(scene, records, start=options.start_frame, num_frames=options.num_frames)
                if isinstance(true, FailedScene):
                    finished.append(self._finish_failed(true))
                    continue
                truth[scene] = true
            recorded[scene] = records
        finished += self._drive(recorded, truth) if recorded else []
        finished.sort(key=lambda each: each.scene)
        write_part(self.folder, finished, facts=self.setup.log.facts, run=self.run)
        return [scene.row for scene in finished]

    def _drive(self, recorded: dict[int, SceneRecords], truth: dict[int, SceneArrays]) -> list[FinishedScene]:
        """Drive scenes together, or one by one if that fails."""
        try:
            return self._drive_together(recorded, truth)
        except (MemoryError, FailedSceneError):
            raise
        except (Exception, SystemExit) as error:  # no fault of one scene may end the others
            if self.setup.options.strict or is_termination(error):
                raise
            if len(recorded) == 1:
                (scene,) = recorded
                return [self._finish_failed(FailedScene(scene, None, None, error_text(error)))]
        return [done for scene, records in recorded.items() for done in self._drive({scene: records}, truth)]

    def _drive_together(self, recorded: dict[int, SceneRecords], truth: dict[int, SceneArrays]) -> list[FinishedScene]:
        """Drive and score scenes as one batch; scenes with a fault of a driver are returned as failed."""
        setup, options = self.setup, self.setup.options
        batch = SceneBatch.of_scenes(
            list(recorded.values()),
            scene_indices=list(recorded),
            start=options.start_frame,
            num_frames=options.num_frames,
            facts=setup.log.facts,
            road=None if setup.roads is None else setup.roads.of_scenes(setup.log, list(recorded)),
        )
        driven = SceneSimulation(
            batch,
            ego=setup.planner.seat,
            agents=setup.agents.seat,
            keeps_plans=options.keeps_plans or setup.measured.needs_windows,
            strict=options.strict,
        ).run()
        finished = [self._finish_failed(FailedScene.of_fault(fault)) for fault in driven.faults.values()]
        true_of_index = None if setup.truth is None else dict(enumerate(truth[scene] for scene in recorded))
        with np.errstate(over="ignore"):  # reported by find_overflow
            is_by_rules = setup.planner.is_rule_planner
            scored = score_driven(driven, setup.measured, true_of_index, is_by_rules=is_by_rules)
        for index, (row, frames) in scored.items():
            overflow = find_overflow(row, frames)
            if overflow is not None:
                finished.append(self._finish_failed(overflow))
                continue
            plans: FloatArray | None = None
            times_s: tuple[float, ...] = ()
            if options.keeps_plans and driven.plans is not None and driven.plan_times_s is not None:
                # Plan times are shared by the batch. Drop the times that only other scenes use (NaN here), so that a
                # scene gives the same result in any batch.
                of_scene = driven.plans[index, : len(frames)]
                is_known = ~np.isnan(of_scene).all(axis=(0, 2))
                plans = of_scene[:, is_known] if is_known.any() else None
                times_s = tuple(driven.plan_times_s[is_known].tolist())
            finished.append(FinishedScene(self._whole_row(row), frames, driven.records(index), plans, times_s))
        return finished

    def _finish_failed(self, failed: FailedScene) -> FinishedScene:
        """Return a failed scene as a finished one.

        Raises:
            FailedSceneError: The simulation is strict.
        """
        if self.setup.options.strict:
            raise FailedSceneError(failed)
        # the columns that FailedScene.of_row reads
        columns = {"failed_frame": failed.frame, "failed_track": failed.track, "message": failed.message}
        return FinishedScene(self._whole_row({"scene": failed.scene, **columns}))

    def _whole_row(self, row: JsonObject) -> JsonObject:
        """Return a row with all columns, None for unknown values."""
        return dict.fromkeys(scene_columns_of(self.setup.measured.metrics)) | {"log": self.setup.log_name} | row
