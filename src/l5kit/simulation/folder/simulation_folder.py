"""Simulation folder as written by ``l5kit simulate``: scores, driven scenes, plans, and the options of the run."""

import csv
import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final
from zipfile import BadZipFile

import numpy as np

from l5kit._types import Float64Array, FloatArray, JsonObject
from l5kit.data.dataset_files import DatasetFiles, find_dataset_files
from l5kit.data.unpack_limits import USUAL_LIMITS
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.driving.scene_score import read_facts
from l5kit.simulation.folder.frame_table import FrameTable

SCORES_FILE: Final = "scores.json"
SCENES_TABLE: Final = "scenes.csv"
FRAMES_TABLE: Final = "frames.csv"
DRIVEN_LOG: Final = "simulated.zarr"
PLANS_FILE: Final = "plans.npz"
RUN_FILE: Final = "run.json"


@dataclass(frozen=True)
class SceneResult:
    """Result of a scene.

    Attributes:
        log: Name of the log.
        scene: Index of the scene in the log.
        position: Index of the scene among the driven scenes; None if it could not be driven to its end.
        score: 0 to 1; None without a score.
        metrics: Values by name, None if a metric does not apply.
        failed: Metrics that failed.
        error: Reason why the scene could not be driven; empty if it was.
    """

    log: str
    scene: int
    position: int | None
    score: float | None
    metrics: dict[str, float | None]
    failed: tuple[MetricFacts, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class ScenePlans:
    """Plans of a planner in each of the F frames of a scene.

    Attributes:
        times_s: Times of the poses, seconds from the frame of the plan, float64, shape (T,).
        poses: World x, y and heading, NaN without a plan, float32 or float64, shape (F, T, 3).
    """

    times_s: Float64Array
    poses: FloatArray


def find_simulation_folder(path: str | os.PathLike[str]) -> "SimulationFolder | None":
    """Return the simulation folder at a path, or around its ``simulated.zarr``; None if there is none.

    Raises:
        CorruptedDataError: One of its files cannot be read.
    """
    location = Path(path)
    for folder in (location, Path(os.path.abspath(location)).parent) if location.name == DRIVEN_LOG else (location,):
        if (folder / SCORES_FILE).is_file() and (folder / RUN_FILE).is_file():
            return SimulationFolder(folder)
    return None


def find_scene_files(
    path: str | os.PathLike[str],
    *,
    map_path: str | os.PathLike[str] | None = None,
    meta_path: str | os.PathLike[str] | None = None,
    aerial_path: str | os.PathLike[str] | None = None,
) -> "tuple[DatasetFiles, SimulationFolder | None]":
    """Return the files of the scenes at a path, of a dataset or of a simulation.

    Args:
        path: Dataset folder, or its ``.zarr`` folder or zip file; or the folder of a simulation, or the driven scenes
            in it.
        map_path: Semantic map, instead of searching for it.
        meta_path: ``meta.json``, likewise.
        aerial_path: Aerial image, likewise.

    Returns:
        The files; and the simulation, or None for a dataset.

    Raises:
        CorruptedDataError: A file of the simulation cannot be read.
        DatasetNotFoundError: There is nothing at ``path``; or another error of :func:`find_dataset_files`.
    """
    folder = find_simulation_folder(path)
    if folder is None:
        return find_dataset_files(path, map_path=map_path, meta_path=meta_path, aerial_path=aerial_path), None
    return folder.files(map_path=map_path, meta_path=meta_path, aerial_path=aerial_path), folder


class SimulationFolder:
    """Reader of a simulation folder; each part is read on first use.

    Args:
        path: The folder.

    Attributes:
        path: The folder.
        scores: Content of ``scores.json``.
        run: Content of ``run.json``.
        metrics: The metrics, in the order of the tables.
        frames: The frame table.

    Raises:
        CorruptedDataError: ``scores.json`` or ``run.json`` is not a JSON object, or its metrics cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.scores = read_object(path / SCORES_FILE)
        self.run = read_object(path / RUN_FILE)
        self.metrics = read_facts(self.scores)
        self.frames = FrameTable(path / FRAMES_TABLE)

    @property
    def driven(self) -> Path:
        """The dataset of driven scenes."""
        return self.path / DRIVEN_LOG

    @cached_property
    def scenes(self) -> list[SceneResult]:
        """All scenes: driven ones by their position in the dataset, then failed ones.

        Raises:
            CorruptedDataError: ``scenes.csv`` cannot be read, or its positions are not 0, 1, 2 and so on.
        """
        path = self.path / SCENES_TABLE
        try:
            with path.open(encoding="utf-8", newline="") as file:
                results = [_result_of(row, self.metrics) for row in csv.DictReader(file)]
        except (OSError, ValueError, KeyError) as error:
            raise CorruptedDataError(f"{path} cannot be read: {error}") from error
        driven = sorted((each for each in results if each.position is not None), key=lambda each: each.position or 0)
        if [each.position for each in driven] != list(range(len(driven))):
            raise CorruptedDataError(
                f"{path}: the column position must count the {len(driven)} driven scenes from 0 on"
            )
        return driven + [each for each in results if each.position is None]

    def result(self, scene_index: int) -> SceneResult:
        """Return the result of a scene, indexed as in :attr:`scenes`.

        Raises:
            IndexOutOfRangeError: There is no such scene.
        """
        if not 0 <= scene_index < len(self.scenes):
            raise IndexOutOfRangeError(
                f"scene {scene_index} is out of range; the simulation has the scenes 0 to {len(self.scenes) - 1}"
            )
        return self.scenes[scene_index]

    def plans(self, scene: int) -> ScenePlans | None:
        """Return the plans of a scene, given its index in the log; None if no plans were kept.

        Raises:
            CorruptedDataError: The plans cannot be read.
        """
        path = self.path / PLANS_FILE
        if not path.is_file():
            return None
        try:
            with np.load(path) as plans:
                USUAL_LIMITS.require_readable(plans.zip)
                name = f"scene_{scene}"
                if name not in plans:
                    return None
                # the times are the union over all scenes; plans of this one may end earlier
                times_s, poses = plans["times_s"], plans[name]
                if poses.ndim != 3 or poses.shape[1] > len(times_s) or poses.shape[2] != 3:
                    raise ValueError(
                        f"plans have the shape {poses.shape}, allowed are (F, T, 3) with T up to {len(times_s)}"
                    )
                return ScenePlans(times_s[: poses.shape[1]], poses)
        except (ValueError, OSError, EOFError, KeyError, BadZipFile) as error:
            raise CorruptedDataError(f"{path} cannot be read: {error}") from error

    def files(
        self,
        *,
        map_path: str | os.PathLike[str] | None = None,
        meta_path: str | os.PathLike[str] | None = None,
        aerial_path: str | os.PathLike[str] | None = None,
    ) -> DatasetFiles:
        """Return the driven scenes as a dataset, with map, meta.json and aerial image of the log.

        Args:
            map_path: Semantic map, instead of that of the log.
            meta_path: ``meta.json``, likewise.
            aerial_path: Aerial image, likewise.

        Raises:
            DatasetNotFoundError: The folder has no driven scenes.
            FileNotFoundError: A given file does not exist.
        """
        # files of the log, with the map used in the simulation, unless the log is gone
        log, log_files = self._named("log"), None
        if log is not None and log.exists():
            named = {f"{name}_path": _if_there(self._named(name)) for name in ("map", "meta")}
            log_files = find_dataset_files(log, **named)
        map_path = map_path or (log_files.semantic_map if log_files else _if_there(self._named("map")))
        meta_path = meta_path or (log_files.meta if log_files else _if_there(self._named("meta")))
        aerial_path = aerial_path or (log_files.aerial if log_files else None)
        return find_dataset_files(self.driven, map_path=map_path, meta_path=meta_path, aerial_path=aerial_path)

    @property
    def log_path(self) -> Path | None:
        """The simulated log according to ``run.json``; None if it names none."""
        return self._named("log")

    def _named(self, name: str) -> Path | None:
        """Return a file named in ``run.json``."""
        files = self.run.get("files")
        path = files.get(name) if isinstance(files, dict) else None
        return Path(path) if isinstance(path, str) else None


def _result_of(row: dict[str, str], metrics: tuple[MetricFacts, ...]) -> SceneResult:
    position = _number(row.get("position"))
    values = {metric.name: _number(row.get(metric.name)) for metric in metrics}
    error = ""
    if position is None:
        frame, track = row.get("failed_frame"), row.get("failed_track")
        agent = f", track {track}" if track else ""
        location = f"frame {frame}{agent}: " if frame else ""
        error = f"not driven to its end: {location}{row.get('message') or 'no reason is given'}"
    return SceneResult(
        log=row.get("log") or "",
        scene=int(row["scene"]),
        position=None if position is None else int(position),
        score=_number(row.get("score")),
        metrics=values,
        failed=tuple(metric for metric in metrics if metric.fails(values[metric.name])),
        error=error,
    )


def _number(text: str | None) -> float | None:
    """Return a cell as a number; None if it is empty, not a number or not finite."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _if_there(path: Path | None) -> Path | None:
    return path if path is not None and path.is_file() else None


def read_object(path: Path) -> JsonObject:
    """Return the JSON object in a result file.

    Raises:
        CorruptedDataError: The file cannot be read, or does not hold an object.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CorruptedDataError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise CorruptedDataError(f"{path} must hold a JSON object, got {type(content).__name__}")
    return content
