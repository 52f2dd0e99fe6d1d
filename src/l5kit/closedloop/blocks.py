"""Blocks of scenes: read, driven, scored and written as a part, with what fails kept beside what does not."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from l5kit._types import FloatArray, Int64Array, JsonObject
from l5kit.closedloop.columns import scene_columns_of
from l5kit.closedloop.failed_scene import FailedScene, read_scene
from l5kit.closedloop.parts import FinishedScene, write_part
from l5kit.closedloop.scored_scenes import find_overflow, score_driven
from l5kit.closedloop.setup import ClosedLoopSetup
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import L5KitError, is_termination
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import SceneSimulation


class FailedSceneError(L5KitError, RuntimeError):
    """A scene cannot be simulated, and the simulation is strict.

    Args:
        failed: Which scene, and why.

    Attributes:
        failed: As above.
    """

    def __init__(self, failed: FailedScene) -> None:
        super().__init__(str(failed))
        self.failed = failed

    def __reduce__(self) -> tuple[type["FailedSceneError"], tuple[FailedScene]]:
        """Return class and argument."""
        return type(self), (self.failed,)


@dataclass(frozen=True)
class SimulateBlock:
    """The job of a simulation: some scenes, from the log to a part on disk.

    Attributes:
        setup: What is simulated.
        folder: Folder of the parts.
        run: Digest of what is run, which parts tell.
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
        failed: list[FailedScene] = []
        for scene in scenes.tolist():
            records = read_scene(self.setup.log, scene, start=options.start_frame)
            if isinstance(records, FailedScene):
                failed.append(self._as_failed(records))
                continue
            # without a true log, scenes are scored against what planners see
            if true_log is not None:
                true = true_log.read(scene, records, start=options.start_frame, num_frames=options.num_frames)
                if isinstance(true, FailedScene):
                    failed.append(self._as_failed(true))
                    continue
                truth[scene] = true
            recorded[scene] = records
        finished = self._drive(recorded, truth) if recorded else []
        finished += [self._row_of(each) for each in failed]
        finished.sort(key=lambda each: each.scene)
        write_part(self.folder, finished, facts=self.setup.log.facts, run=self.run)
        return [scene.row for scene in finished]

    def _drive(self, recorded: dict[int, SceneRecords], truth: dict[int, SceneArrays]) -> list[FinishedScene]:
        """Return scenes that were driven together; where that is not possible, each was driven alone."""
        try:
            return self._drive_together(recorded, truth)
        except (MemoryError, FailedSceneError):
            raise
        except (Exception, SystemExit) as error:  # whatever is wrong with a scene must not end the others
            if self.setup.options.strict or is_termination(error):
                raise
            if len(recorded) == 1:
                (scene,) = recorded
                text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                return [self._row_of(FailedScene(scene, None, None, text))]
        return [done for scene, records in recorded.items() for done in self._drive({scene: records}, truth)]

    def _drive_together(self, recorded: dict[int, SceneRecords], truth: dict[int, SceneArrays]) -> list[FinishedScene]:
        """Return scenes that were driven and scored as one batch, those in which a driver has a fault among them."""
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
        finished = [self._row_of(self._as_failed(FailedScene.of_fault(fault))) for fault in driven.faults.values()]
        true_of_index = None if setup.truth is None else dict(enumerate(truth[scene] for scene in recorded))
        with np.errstate(over="ignore"):  # found by find_overflow
            is_by_rules = setup.planner.is_rule_planner
            scored = score_driven(driven, setup.measured, true_of_index, is_by_rules=is_by_rules)
        for index, (row, frames) in scored.items():
            overflow = find_overflow(row, frames)
            if overflow is not None:
                finished.append(self._row_of(self._as_failed(overflow)))
                continue
            plans: FloatArray | None = None
            times_s: tuple[float, ...] = ()
            if options.keeps_plans and driven.plans is not None and driven.plan_times_s is not None:
                # a batch has the times of all its plans; those that only others have are NaN here, and left out, so
                # that a scene is the same in any batch
                of_scene = driven.plans[index, : len(frames)]
                is_known = ~np.isnan(of_scene).all(axis=(0, 2))
                plans = of_scene[:, is_known] if is_known.any() else None
                times_s = tuple(driven.plan_times_s[is_known].tolist())
            finished.append(FinishedScene(self._whole_row(row), frames, driven.records(index), plans, times_s))
        return finished

    def _as_failed(self, failed: FailedScene) -> FailedScene:
        """Return a scene that failed.

        Raises:
            FailedSceneError: The simulation is strict.
        """
        if self.setup.options.strict:
            raise FailedSceneError(failed)
        return failed

    def _row_of(self, failed: FailedScene) -> FinishedScene:
        row = {"scene": failed.scene, "failed_frame": failed.frame, "failed_track": failed.track}
        return FinishedScene(self._whole_row({**row, "message": failed.message}))

    def _whole_row(self, row: JsonObject) -> JsonObject:
        """Return a row with all columns, None where nothing is known."""
        return dict.fromkeys(scene_columns_of(self.setup.measured.metrics)) | {"log": self.setup.log_name} | row
