"""Scores of a run, scene by scene, from the folder of a simulation, an evaluation or a training."""

import csv
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from l5kit._types import Float64Array, JsonObject, NumericArray
from l5kit.data.jobs.receipts import find_loss
from l5kit.errors import CorruptedDataError, InvalidArgumentError, L5KitError
from l5kit.evaluation.driving.metric import NUPLAN, MetricFacts
from l5kit.evaluation.result_files import MISS_THRESHOLD_M, SAMPLES_TABLE, SCORES_FILE
from l5kit.simulation.folder.simulation_folder import RUN_FILE, SimulationFolder, read_object

SIMULATION: Final = "a simulation"
EVALUATION: Final = "an evaluation"
TRAINING: Final = "a training"

SCORE: Final = "score"
"""Name of the score of a simulation."""

SceneKey: TypeAlias = tuple[str, int]
"""Name of the log, and index of the scene in it."""

_RESULT_FILE: Final = "result.json"

_OPEN_LOOP: Final = (
    MetricFacts(
        name="ade_m",
        label="ADE",
        sentence="mean distance of the likeliest trajectory from what happened, over its steps",
        unit="m",
        range=(0.0, None),
        better="low",
    ),
    MetricFacts(
        name="fde_m",
        label="FDE",
        sentence="distance at the end of the trajectory",
        unit="m",
        range=(0.0, None),
        better="low",
    ),
    MetricFacts(
        name="miss",
        label="Misses",
        sentence=f"share of the trajectories that end more than {MISS_THRESHOLD_M:g} m off",
        better="low",
    ),
)

_OF_NETWORK: Final = ("val/", "driving/")
"""Prefixes of the scores of a network."""

_LOW_IS_BETTER: Final = ("ade_m", "fde_m", "miss_rate", "failed")
"""Parts of the names of training scores for which lower is better."""


@dataclass(frozen=True, eq=False)
class ScoredRun:
    """The scores of a run in each scene.

    Attributes:
        path: Its folder, absolute.
        kind: :data:`SIMULATION`, :data:`EVALUATION` or :data:`TRAINING`.
        planner: The planner, or the network that was evaluated or trained.
        metrics: The M metrics, the score first.
        scenes: The S scenes that have a score.
        values: Values by scene and metric, NaN where a metric does not apply, float64 (S, M).
        counts: Number of samples that each value averages, float64 (S, M).
        same: Properties that must agree between compared runs, in words, by name.
        facts: Properties that may differ; differences are reported.
        failed: Reasons why scenes have no score.
        failures: Failures of each scene, in a few words; without scenes that have none.
        log: The log; None if unknown.
        map_files: Semantic map and ``meta.json`` of the log, if any.
    """

    path: Path
    kind: str
    planner: str
    metrics: tuple[MetricFacts, ...]
    scenes: tuple[SceneKey, ...]
    values: Float64Array = field(repr=False)
    counts: Float64Array = field(repr=False)
    same: Mapping[str, str]
    facts: Mapping[str, str]
    failed: Mapping[SceneKey, str] = field(default_factory=dict, repr=False)
    failures: Mapping[SceneKey, str] = field(default_factory=dict, repr=False)
    log: Path | None = None
    map_files: tuple[Path | None, Path | None] = (None, None)

    @cached_property
    def _row_of(self) -> dict[SceneKey, int]:
        return {scene: row for row, scene in enumerate(self.scenes)}

    def cells(self, scenes: Sequence[SceneKey], metrics: Sequence[str]) -> tuple[NumericArray, ...]:
        """Return an index into ``values`` and ``counts`` for some scenes and metrics of the run."""
        names = [metric.name for metric in self.metrics]
        return np.ix_([self._row_of[scene] for scene in scenes], [names.index(name) for name in metrics])


def read_run(folder: str | os.PathLike[str]) -> ScoredRun:
    """Return the scores of the run in a folder.

    Raises:
        InvalidArgumentError: There is no run in it, or the run is unfinished or has no scores.
        CorruptedDataError: A file of it is missing or was modified.
    """
    path = Path(os.path.abspath(folder))
    what = f"run {str(folder)!r}"
    if not path.is_dir():
        raise InvalidArgumentError(
            f"{what} is not a folder; name folders that l5kit simulate, evaluate or train have written, or "
            "NAME=FOLDER,FOLDER"
        )
    is_simulation, has_scores = (path / RUN_FILE).is_file(), (path / SCORES_FILE).is_file()
    if is_simulation and not has_scores:
        raise InvalidArgumentError(
            f"{what} is a simulation that has not finished; start it again with the same options to continue"
        )
    loss = find_loss(path, needs_receipt=False)
    if loss is not None:
        raise CorruptedDataError(f"{what} is damaged: {loss}; run it again, or take another copy of it")
    try:
        if is_simulation:
            return _read_simulation(path)
        if has_scores and (path / SAMPLES_TABLE).is_file():
            return _read_evaluation(path)
        if (path / _RESULT_FILE).is_file():
            return _read_training(path)
    except L5KitError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise CorruptedDataError(
            f"{what} has files in an unexpected format ({type(error).__name__}: {error}); run it again, or take "
            "another copy of it"
        ) from error
    inside = sorted(each.parent.name for each in path.glob(f"*/{SCORES_FILE}"))
    hint = f"; it has runs in it, such as {inside[0]!r}: name those" if inside else ""
    raise InvalidArgumentError(
        f"{what} holds no scores; name folders that l5kit simulate, evaluate or train have written{hint}"
    )


def _read_simulation(path: Path) -> ScoredRun:
    """Return scores and metrics of the scenes that have a score."""
    folder = SimulationFolder(path)
    scores, run = folder.scores, folder.run
    scored_by = run.get("scored_by") or [NUPLAN]
    score = MetricFacts(name=SCORE, label="Score", sentence=f"score of the scene ({', '.join(scored_by)})")
    metrics = (score, *folder.metrics)
    scored = [result for result in folder.scenes if result.score is not None]
    values = [[result.score, *(result.metrics[metric.name] for metric in metrics[1:])] for result in scored]
    unscored = {each["scene"]: each["message"] for each in scores.get("unscored", [])}
    options, files, fallback = run["options"], run.get("files", {}), run.get("fallback")
    last = "all" if options["num_frames"] is None else f"{options['num_frames']} of them"
    digests = run.get("digests", {})
    map_path, meta_path = (Path(file) if isinstance(file := files.get(name), str) else None for name in ("map", "meta"))
    return ScoredRun(
        path=path,
        kind=SIMULATION,
        planner=f"{run['planner']}" + (f" with {fallback}" if fallback else ""),
        metrics=metrics,
        scenes=tuple((result.log, result.scene) for result in scored),
        values=np.array(values, np.float64).reshape(-1, len(metrics)),  # None becomes NaN
        counts=np.ones((len(scored), len(metrics))),
        same={
            "data": _named(digests.get("data"), run.get("data", {}).get("path")),
            "map": _named(digests.get("map"), files.get("map")),
            "true boxes": _named(digests.get("truth"), files.get("truth")),
            "frames": f"from {options['start_frame']} on, {last}",
            "score": ", ".join(scored_by),
        },
        facts={"others": run["agents"], "l5kit": run["l5kit"]},
        failed={
            (result.log, result.scene): result.error or unscored.get(result.scene, "no score")
            for result in folder.scenes
            if result.score is None
        },
        failures={
            (result.log, result.scene): ", ".join(metric.failure or metric.label for metric in result.failed)
            for result in scored
            if result.failed
        },
        log=folder.log_path,
        map_files=(map_path, meta_path),
    )


def _read_evaluation(path: Path) -> ScoredRun:
    """Return the mean errors of the trajectories of each scene.

    Raises:
        CorruptedDataError: The table of trajectories lacks a column, or a cell is not a number.
    """
    scores = read_object(path / SCORES_FILE)

    # Sum and number of ADE, FDE and misses of the trajectories of each scene, without unknown values. The table has a
    # line for each trajectory, so it is read line by line.
    sums: dict[int, list[float]] = {}
    table = path / SAMPLES_TABLE
    with table.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        names = next(lines, [])
        try:
            scene_column, *columns = (
                names.index(name) for name in ("scene_index", *(each.name for each in _OPEN_LOOP))
            )
            for line in lines:
                errors = [float(line[column] or "nan") for column in columns]
                of_scene = sums.setdefault(int(line[scene_column]), [0.0] * (2 * len(_OPEN_LOOP)))
                for number, value in enumerate(errors):
                    if not math.isnan(value):
                        of_scene[2 * number] += value
                        of_scene[2 * number + 1] += 1
        except (ValueError, IndexError, csv.Error) as error:
            raise CorruptedDataError(
                f"{table}, line {lines.line_num}: {error}; evaluate again, or take another copy"
            ) from error
    pairs = np.array([sums[scene] for scene in sorted(sums)]).reshape(-1, len(_OPEN_LOOP), 2)
    counts = pairs[..., 1]
    values = np.divide(pairs[..., 0], counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    data, log = scores.get("data") or {}, Path(scores["log"])
    horizon_s = max(row["horizon_s"] for row in scores["scores"])
    return ScoredRun(
        path=path,
        kind=EVALUATION,
        planner=f"{scores['workflow']}, {Path(scores['checkpoint']).name}",
        metrics=_OPEN_LOOP,
        scenes=tuple((log.name, scene) for scene in sorted(sums)),
        values=values,
        counts=counts,
        same={
            "data": _named(data.get("digest"), scores["log"]),
            "horizon": f"{horizon_s:g} s",
            "samples": f"{scores['num_samples']:,} of {scores['num_samples_of_log']:,}, "
            f"{scores['num_trajectories']:,} trajectories",
        },
        facts={"workflow": scores["workflow"], "l5kit": scores["l5kit"]},
        log=log if log.exists() else None,
    )


def _read_training(path: Path) -> ScoredRun:
    """Return the final means of a training as those of a single scene, because it keeps no scores of scenes."""
    result = read_object(path / _RESULT_FILE)
    means: JsonObject = result.get("scores") or result.get("after") or {}
    data = result.get("eval_data") or []
    records = data if isinstance(data, list) else [data]
    names = [name for name in means if "/" not in name or name.startswith(_OF_NETWORK)]  # without those of baselines
    best = result.get("best_by")
    names.sort(key=lambda name: name != best)  # the metric that selected the best weights comes first
    if not names:
        raise InvalidArgumentError(
            f"run {str(path)!r} is a training without an evaluation, so there is nothing to compare"
        )
    metrics = tuple(
        MetricFacts(
            name=re.sub(r"\W", "_", name),
            label=name,
            sentence="at the end of the training, on the data for validation",
            range=(None, None),
            better="low" if any(word in name for word in _LOW_IS_BETTER) else "high",
        )
        for name in names
    )
    return ScoredRun(
        path=path,
        kind=TRAINING,
        planner=path.name,
        metrics=metrics,
        scenes=(("validation", 0),),
        values=np.array([[means[name] for name in names]], np.float64),
        counts=np.ones((1, len(names))),
        same={"data": ", ".join(_named(record.get("digest"), record.get("path")) for record in records)},
        facts={"l5kit": result.get("l5kit", "")},
    )


def _named(digest: str | None, path: str | None) -> str:
    """Return a text that identifies data: the digest, or the path if the digest is unknown."""
    if digest is None:
        return "none" if path is None else f"{path} (no digest)"
    return f"digest {digest[:12]}"
