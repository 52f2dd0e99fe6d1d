"""Result of a closed-loop simulation: its scores, and the files it has written."""

import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from l5kit._types import JsonObject
from l5kit.closedloop.columns import scene_columns_of
from l5kit.closedloop.failed_scene import FailedScene
from l5kit.closedloop.folder import holds_scores
from l5kit.data.receipts import find_loss
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.driving.scene_score import read_facts
from l5kit.simulation.folder.simulation_folder import (
    DRIVEN_LOG,
    FRAMES_TABLE,
    PLANS_FILE,
    SCENES_TABLE,
    SCORES_FILE,
    read_object,
)

_TYPES = {"int": int, "id": int, "float": float, "bool": int, "text": str}


@dataclass(frozen=True)
class ClosedLoopResult:
    """The outcome of a simulation.

    Attributes:
        folder: Where its files are.
        scores: What ``scores.json`` holds.
        scenes_per_s: Scenes that were simulated and scored in a second; None if all were there already.
    """

    folder: Path
    scores: JsonObject = field(repr=False)
    scenes_per_s: float | None = None

    def __repr__(self) -> str:
        score = "no score" if self.score is None else f"score {self.score:.3f}"
        return f"<ClosedLoopResult {str(self.folder)!r}: {score}, {self.num_scenes} scenes, {len(self.failed)} failed>"

    @property
    def score(self) -> float | None:
        """Mean of the scores of the scenes, 0 to 1; None if none could be scored."""
        score: float | None = self.scores["score"]
        return score

    @property
    def num_scenes(self) -> int:
        """Scenes that were scored."""
        return int(self.scores["scenes"])

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Means of the metrics by name, None where a metric applies to no scene."""
        metrics: Mapping[str, float | None] = self.scores["metrics"]
        return metrics

    @property
    def about_metrics(self) -> tuple[MetricFacts, ...]:
        """What was measured, in the order of the tables."""
        return read_facts(self.scores)

    @property
    def failed(self) -> tuple[FailedScene, ...]:
        """Scenes that could not be simulated or scored, and why."""
        return tuple(FailedScene(**each) for each in self.scores["failed"])

    @property
    def unscored(self) -> Mapping[int, str]:
        """Scenes that were driven and have no score, and why: in them nobody moves."""
        return {each["scene"]: each["message"] for each in self.scores.get("unscored", [])}

    @property
    def fallback_share(self) -> float | None:
        """Part of all steps that the fallback of the planner drove, 0 to 1; None without one."""
        steps = self.scores.get("driven_by")
        return None if steps is None else float(steps["fallback"] / (steps["planner"] + steps["fallback"]))

    @property
    def is_without_map(self) -> bool:
        """Whether the scores lack the metrics that need a map."""
        return bool(self.scores.get("without_map", False))

    @property
    def driven_log(self) -> Path:
        """The driven scenes, a dataset."""
        return self.folder / DRIVEN_LOG

    @property
    def frames_table(self) -> Path:
        """The table of frames, CSV."""
        return self.folder / FRAMES_TABLE

    @property
    def plans(self) -> Path:
        """What the planner planned: ``times_s`` (T,) and, for each scene, ``scene_N`` (F, T, 3)."""
        return self.folder / PLANS_FILE

    def scenes(self) -> Iterator[JsonObject]:
        """Yield the rows of the table of scenes, with numbers as such and None where nothing is known."""
        columns = scene_columns_of(self.about_metrics)
        with (self.folder / SCENES_TABLE).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                yield {name: _TYPES[columns[name].kind](text) if text else None for name, text in row.items()}


def read_result(folder: str | os.PathLike[str], *, reads_all: bool = False) -> ClosedLoopResult:
    """Return the result of a simulation that was made before.

    Args:
        folder: Its folder.
        reads_all: Compare the content of all files with the receipt; else sizes, and what is small.

    Raises:
        InvalidArgumentError: There is none, or it has not come to its end.
        CorruptedDataError: A file is missing, or not as it was written; the message says which.
    """
    path = Path(folder)
    if not (path / SCORES_FILE).is_file():
        raise InvalidArgumentError(
            f"folder is {str(folder)!r}, which holds no simulation that has come to its end: there is no {SCORES_FILE}"
        )
    # simulations from before there were receipts open by their scores alone
    loss = find_loss(path, reads_all=reads_all, needs_receipt=False)
    if loss is not None:
        raise CorruptedDataError(
            f"the simulation in {str(folder)!r} is damaged: {loss}; run it again, which makes what is missing, or take "
            "another copy of it"
        )
    scores = read_object(path / SCORES_FILE)
    if not holds_scores(scores):
        raise InvalidArgumentError(f"folder is {str(folder)!r}, whose {SCORES_FILE} has no scores of a simulation")
    return ClosedLoopResult(path, scores)
