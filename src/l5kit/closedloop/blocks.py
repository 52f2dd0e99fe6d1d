"""Blocks of scenes: read, driven, scored and written as a part, with what fails kept beside what does not."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from l5kit._types import FloatArray, Int64Array, JsonObject
from l5kit.closedloop.columns import scene_columns_of
from l5kit.closedloop.failed_scene import FailedScene
from l5kit.closedloop.parts import FinishedScene, write_part
from l5kit.closedloop.scene_checks import read_scene
from l5kit.closedloop.scored_scenes import find_overflow, score_driven
from l5kit.closedloop.setup import ClosedLoopSetup
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import L5KitError, is_termination
from l5kit.simulation.engine.driven_scenes import DrivenScenes
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
        finished = self._simulate(scenes.tolist())
        write_part(self.folder, finished, facts=self.setup.log.facts, run=self.run)
        return [scene.row for scene in finished]

    def _simulate(self, scenes: list[int]) -> list[FinishedScene]:
        """Return scenes, those that failed included, in their order."""
        recorded: dict[int, SceneRecords] = {}
        truth: dict[int, SceneArrays] = {}
        failed: list[FailedScene] = []
        for scene in scenes:
            records = read_scene(self.setup.log, scene, start=self.setup.options.start_frame)
            if isinstance(records, FailedScene):
                failed.append(self._as_failed(records))
                continue
            true = self._read_truth(scene, records)
            if isinstance(true, FailedScene):
                failed.append(self._as_failed(true))
                continue
            recorded[scene] = records
            if true is not None:
                truth[scene] = true
        finished = self._drive(recorded, truth) if recorded else []
        finished += [self._row_of(each) for each in failed]
        return sorted(finished, key=lambda each: each.scene)

    def _read_truth(self, scene: int, seen: SceneRecords) -> SceneArrays | FailedScene | None:
        """Return the true boxes of a scene; None where it is scored against what is seen."""
        if self.setup.truth is None:
            return None
        options = self.setup.options
        return self.setup.truth.read(scene, seen, start=options.start_frame, num_frames=options.num_frames)

    def _drive(self, recorded: dict[int, SceneRecords], truth: dict[int, SceneArrays]) -> list[FinishedScene]:
        """Return scenes that were driven together; where that is not possible, each was driven alone."""
        try:
            return self._finish(self._run(recorded), truth)
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

    def _run(self, recorded: dict[int, SceneRecords]) -> DrivenScenes:
        setup, options = self.setup, self.setup.options
        batch = SceneBatch.of_scenes(
            list(recorded.values()),
            scene_indices=list(recorded),
            start=options.start_frame,
            num_frames=options.num_frames,
            facts=setup.log.facts,
            road=None if setup.roads is None else setup.roads.of_scenes(setup.log, list(recorded)),
        )
        simulation = SceneSimulation(
            batch,
            ego=setup.planner.seat,
            agents=setup.agents.seat,
            keeps_plans=options.keeps_plans or setup.measured.needs_windows,
            strict=options.strict,
        )
        return simulation.run()

    def _finish(self, driven: DrivenScenes, truth: dict[int, SceneArrays]) -> list[FinishedScene]:
        """Return the scenes of a batch."""
        finished = [self._row_of(self._as_failed(FailedScene.of_fault(fault))) for fault in driven.faults.values()]
        with np.errstate(over="ignore"):  # found by find_overflow
            scored = score_driven(
                driven,
                self.setup.measured,
                self._truth_by_index(driven, truth),
                is_by_rules=self.setup.planner.is_rule_planner,
            )
        for index, (row, frames) in scored.items():
            overflow = find_overflow(row, frames)
            if overflow is not None:
                finished.append(self._row_of(self._as_failed(overflow)))
                continue
            plans, times_s = _plans_of(driven, index, len(frames)) if self.setup.options.keeps_plans else (None, ())
            finished.append(FinishedScene(self._whole_row(row), frames, driven.records(index), plans, times_s))
        return finished

    def _truth_by_index(self, driven: DrivenScenes, truth: dict[int, SceneArrays]) -> dict[int, SceneArrays] | None:
        if self.setup.truth is None:
            return None
        return {index: truth[scene] for index, scene in enumerate(driven.batch.scene_indices.tolist())}

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


def _plans_of(driven: DrivenScenes, scene: int, num_frames: int) -> tuple[FloatArray | None, tuple[float, ...]]:
    """Return the plans of a scene of the batch, and their times, without those that only others have."""
    if driven.plans is None or driven.plan_times_s is None:
        return None, ()
    plans = driven.plans[scene, :num_frames]
    is_known = ~np.isnan(plans).all(axis=(0, 2))
    return (plans[:, is_known] if is_known.any() else None), tuple(driven.plan_times_s[is_known].tolist())
