"""One drive of a simulation: the scene next to its log, what was planned, the values of metrics, and failures."""

import threading
from dataclasses import dataclass
from functools import cached_property

from l5kit.data.scene_arrays import SceneArrays, read_scene_arrays
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, L5KitError
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.simulation.folder.frame_table import FrameColumns
from l5kit.simulation.folder.simulation_folder import ScenePlans, SceneResult, SimulationFolder
from l5kit.visualization.simulated.failures import Failure, find_failures
from l5kit.visualization.simulated.ghosts import Ghosts, find_ghosts


@dataclass(frozen=True)
class SceneDrive:
    """A driven scene of F frames.

    Attributes:
        result: Its scores.
        ghosts: Where the log has what was moved.
        plans: What was planned; None where it was not kept.
        columns: Values of the table of frames; none where it has another number of frames than the scene.
        metrics: What was measured.
        failures: What costs score, by frame.
    """

    result: SceneResult
    ghosts: Ghosts
    plans: ScenePlans | None
    columns: FrameColumns
    metrics: tuple[MetricFacts, ...]
    failures: list[Failure]


class DriveReader:
    """Reads the drives of a simulation. May be used from several threads.

    Args:
        folder: The folder of the simulation.

    Attributes:
        notes: Why the log is not shown; none where it can be read.
    """

    def __init__(self, folder: SimulationFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self.notes = self._find_notes()

    def read(self, scene_index: int, simulated: SceneArrays) -> SceneDrive:
        """Return a drive.

        Args:
            scene_index: The scene, counted among the driven ones.
            simulated: The scene as it was driven.

        Raises:
            IndexOutOfRangeError: There is no such scene.
            CorruptedDataError: The tables, the plans or the log cannot be read.
        """
        result = self._folder.result(scene_index)
        columns = self._folder.frames.columns_of(result.scene)
        if len(next(iter(columns.values()), ())) != simulated.num_frames:
            columns = {}
        ghosts = find_ghosts(simulated, self._logged(result.scene))
        plans = self._folder.plans(result.scene)
        if plans is not None:
            wanted = (simulated.num_frames, len(plans.times_s), 3)
            if plans.poses.shape != wanted:
                raise CorruptedDataError(
                    f"the plans of the scene have the shape {plans.poses.shape}, it needs {wanted}"
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

    def _logged(self, scene: int) -> SceneArrays | None:
        if self.notes:
            return None
        with self._lock:
            log = self._log
        if log is None or not 0 <= scene < len(log.scenes):
            return None
        return read_scene_arrays(log, scene)

    def _find_notes(self) -> list[str]:
        path = self._folder.log_path
        if path is None:
            return ["run.json names no log: simulated scenes are shown without what was logged"]
        if not path.exists():
            return [f"the log {str(path)!r} is no longer there: simulated scenes are shown without what was logged"]
        try:
            self._log  # noqa: B018 - opens it
        except (L5KitError, OSError) as error:
            return [f"the log cannot be read, so simulated scenes are shown without it: {error}"]
        return []
