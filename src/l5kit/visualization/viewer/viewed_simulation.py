"""Simulation behind the viewer page: driven and failed scenes, their log, and the bytes of drives."""

import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from l5kit._types import JsonObject, NumericArray
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.scene_arrays import SceneArrays
from l5kit.errors import CorruptedDataError, L5KitError
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.driving.scene_score import METRICS
from l5kit.evaluation.epdms.terms import EPDMS
from l5kit.simulation.folder.simulation_folder import SimulationFolder
from l5kit.visualization.scene_content import SceneContent
from l5kit.visualization.simulated.scene_drive import DriveReader, SceneDrive
from l5kit.visualization.viewer.content_bytes import positions_from, scene_origin_m
from l5kit.visualization.viewer.packed_arrays import pack_arrays
from l5kit.visualization.viewer.viewed_log import Columns, ViewedLog

_SOMEBODY: Final = ("collision_at_fault", "collision", "appeared_close")


@dataclasses.dataclass(frozen=True)
class _Curve:
    """A curve below the player.

    Attributes:
        key: Name of the array with its values.
        column: Column of the table of frames.
        name: Display name.
        chip: Short name on the button that hides it.
        unit: Unit of the values.
        digits: Decimal places.
        axis: Name of the axis on the page: ``speed``, ``close``, ``off_road`` or ``values``.
        kinds: Kinds of failures that are marked on it.
    """

    key: str
    column: str
    name: str
    chip: str
    unit: str
    digits: int
    axis: str
    kinds: tuple[str, ...]


_CURVES: Final = (
    _Curve("speed", "speed_mps", "Speed", "Speed", "m/s", 1, "speed", (*_SOMEBODY, "comfort")),
    _Curve("log_distance", "distance_to_log_m", "Distance to log", "To log", "m", 1, "speed", ("wrong_direction",)),
    _Curve(
        key="time_to_collision",
        column="time_to_collision_s",
        name="Time to collision",
        chip="Collision",
        unit="s",
        digits=1,
        axis="close",
        kinds=("time_to_collision", *_SOMEBODY),
    ),
    _Curve("off_road", "distance_off_road_m", "Off road", "Off road", "m", 2, "off_road", ("off_road",)),
    _Curve("speed_excess", "speed_excess_mps", "Over the limit", "Over limit", "m/s", 1, "speed", ("speeding",)),
)


def _curves_of(metrics: Sequence[MetricFacts]) -> list[_Curve]:
    """Return the curves of a drive: the usual ones, those of the user's metrics, and that of EPDMS."""
    curves, usual = list(_CURVES), {metric.name for metric in METRICS}
    for metric in metrics:
        is_term = metric.of_score == EPDMS and metric.name != EPDMS
        if metric.column is not None and metric.name not in usual and not is_term:
            kinds = () if metric.fault is None else (metric.fault.kind,)
            key, name, digits = metric.name, metric.label, min(metric.digits, 2)
            curves.append(_Curve(key, metric.column, name, name, metric.unit, digits, "values", kinds))
    return curves


def drive_bytes(drive: SceneDrive, scene: SceneArrays) -> bytes:
    """Return a drive as bytes; see :mod:`l5kit.visualization.viewer.packed_arrays` for the format.

    Args:
        drive: The drive.
        scene: The scene as driven; positions are relative to the same origin as in the bytes of the scene.
    """
    result, ghosts = drive.result, drive.ghosts
    origin_m = scene_origin_m(scene)
    plans, curves = drive.plans, _curves_of(drive.metrics)
    facts = {
        "log": result.log,
        "log_scene": result.scene,
        "score": result.score,
        "metrics": [
            {"name": metric.name, "label": metric.label, "sentence": metric.sentence, "unit": metric.unit}
            | {"digits": min(metric.digits, 2), "value": result.metrics[metric.name], "failed": metric in result.failed}
            for metric in drive.metrics
        ],
        "curves": [
            {name: value for name, value in dataclasses.asdict(curve).items() if name != "column"} for curve in curves
        ],
        # track ids have 64 bits, JavaScript numbers only 53
        "failures": [
            dataclasses.asdict(failure) | {"track_id": None if failure.track_id is None else str(failure.track_id)}
            for failure in drive.failures
        ],
        "plan_times_s": [] if plans is None else np.asarray(plans.times_s, np.float64).tolist(),
        "has_log": ghosts.has_log,
    }
    plan_m = np.zeros((scene.num_frames, 0, 2)) if plans is None else plans.poses[..., :2].astype(np.float64)
    arrays: dict[str, NumericArray] = {
        "log_xy": positions_from(ghosts.ego_positions_m, origin_m),
        "log_yaw": ghosts.ego_yaws_rad.astype(np.float32),
        "log_speed": ghosts.ego_speeds_mps.astype(np.float32),
        "ghost_starts": ghosts.starts.astype(np.uint32),
        "ghost_xy": positions_from(ghosts.centroids_m, origin_m),
        "ghost_yaw": ghosts.yaws_rad,
        "ghost_extent": ghosts.extents_m,
        "plan_xy": positions_from(plan_m, origin_m),
    }
    for curve in curves:
        values = drive.columns.get(curve.column, np.full(scene.num_frames, np.nan))
        known = np.flatnonzero(np.isfinite(values))
        # values of windows are given at their starts, and hold until the next start
        if curve.column == EPDMS and len(known):
            frames, values = np.arange(known[0], known[-1] + 1), values.copy()
            values[frames] = values[known[np.searchsorted(known, frames, side="right") - 1]]
        arrays[curve.key] = np.where(np.isfinite(values), values, np.nan).astype(np.float32)
    return pack_arrays(facts, arrays)


class ViewedSimulation(ViewedLog):
    """The folder of a simulation with its map and log; thread-safe.

    Scenes are numbered as in the dataset of driven scenes, followed by scenes that could not be driven.

    Args:
        folder: The folder.
        files: Its dataset and related files, by default those of :meth:`SimulationFolder.files`.
        name: Name on the page; the name of the folder by default.

    Raises:
        CorruptedDataError: Its tables cannot be read, or do not match the dataset.
        DatasetFormatError: The dataset cannot be opened; or another error of :meth:`ChunkedDataset.open`.
    """

    def __init__(self, folder: SimulationFolder, files: DatasetFiles | None = None, *, name: str | None = None) -> None:
        super().__init__(files or folder.files())
        self._name = folder.path.resolve().name if name is None else name
        self._folder = folder
        self._drives = DriveReader(folder)
        self._num_driven = sum(result.position is not None for result in folder.scenes)
        if self._num_driven != super().num_scenes:
            raise CorruptedDataError(
                f"{folder.path}: scenes.csv has {self._num_driven} driven scenes, but simulated.zarr has "
                f"{super().num_scenes}; simulate them again"
            )
        self.notes += self._drives.notes

    @property
    def num_scenes(self) -> int:
        """Number of scenes, including those that were not driven."""
        return len(self._folder.scenes)

    def facts(self) -> JsonObject:
        """Return the facts of the simulation for the page."""
        scores = self._folder.scores
        run = {name: scores.get(name, self._folder.run.get(name)) for name in ("planner", "agents", "score", "metrics")}
        # pages get shared, so files appear by name, without the folders of this machine
        named = {name: text for name, text in run.items() if name in ("planner", "agents") and isinstance(text, str)}
        run |= {name: re.split(r"[/\\]", text.rstrip("/\\"))[-1] for name, text in named.items()}
        run["num_scored"] = scores.get("scenes")
        run["num_failed"] = self.num_scenes - self._num_driven
        return super().facts() | {"name": self._name, "run": run}

    def scene_row(self, scene_index: int) -> Columns:
        """Return the table of a single scene; see :meth:`scene`."""
        self._require_driven(scene_index)
        row = super().scene_row(scene_index)
        return row | {name: [values[scene_index]] for name, values in self._result_columns().items()}

    def require_scene(self, scene_index: int) -> None:
        """Refuse a scene that the simulation does not have.

        Raises:
            IndexOutOfRangeError: There is no such scene.
        """
        self._folder.result(scene_index)

    def scene(self, scene_index: int) -> SceneContent:
        """Return one driven scene.

        Raises:
            IndexOutOfRangeError: There is no such scene.
            CorruptedDataError: The scene was not driven to its end, or cannot be read.
        """
        self._require_driven(scene_index)
        return super().scene(scene_index)

    def drive_bytes(self, scene_index: int) -> bytes:
        """Return the bytes of the drive of a scene for the page; see :meth:`scene`."""
        scene = self.scene(scene_index)
        return drive_bytes(self._drives.read(scene_index, scene), scene)

    def read_ahead(self) -> None:
        """Read the first requests of the page in advance; errors are left to the requests."""
        super().read_ahead()
        with contextlib.suppress(L5KitError, OSError):
            if self._num_driven:
                self.drive_bytes(0)

    def _make_columns(self) -> Columns:
        columns = super()._make_columns()
        results = self._folder.scenes
        missing: list[None] = [None] * (len(results) - self._num_driven)
        whole = {name: values + missing for name, values in columns.items() if isinstance(values, list)}
        errors = {str(index): result.error for index, result in enumerate(results) if result.error}
        return columns | whole | {"error": columns["error"] | errors} | self._result_columns()

    def _result_columns(self) -> Columns:
        """Return the additional columns of the scene table of a simulation."""
        results = self._folder.scenes
        several = len(Counter(result.log for result in results)) > 1
        return {
            "score": [result.score for result in results],
            "failed": [[metric.failure for metric in result.failed] for result in results],
            "log_scene": [f"{result.log} {result.scene}" if several else result.scene for result in results],
        }

    def _require_driven(self, scene_index: int) -> None:
        result = self._folder.result(scene_index)
        if result.position is None:
            raise CorruptedDataError(f"scene {result.scene} of {result.log or 'the log'} was {result.error}")
