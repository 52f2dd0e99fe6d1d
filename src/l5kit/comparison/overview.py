"""The folder of a comparison as the viewer shows it: an overview of planners and scenes that can be played."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from l5kit._types import JsonObject
from l5kit.comparison.folder import COMPARISON_FILE
from l5kit.comparison.scored_run import SIMULATION
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.simulation.folder.simulation_folder import find_simulation_folder, read_object
from l5kit.visualization.viewer.overview import Overview, OverviewScene
from l5kit.visualization.viewer.viewed_simulation import ViewedSimulation


def open_overview(path: str | os.PathLike[str]) -> Overview:
    """Return the overview of the comparison in a folder.

    Of several seeds of a planner the first one is played; values are the means of all.

    Raises:
        InvalidArgumentError: The comparison is one of evaluations or trainings, or a simulation is not where it was.
        CorruptedDataError: A file cannot be read.
    """
    file = Path(path) / COMPARISON_FILE
    facts = read_object(file)
    try:
        if facts["kind"] != SIMULATION:
            raise InvalidArgumentError(
                f"path is {str(path)!r}, a comparison of {facts['kind'].partition(' ')[2]}s, in which nothing can be "
                "played; open its comparison.html in a browser"
            )
        names = [planner["name"] for planner in facts["planners"]]
        logs, indices = [], []
        for planner in facts["planners"]:
            folder = find_simulation_folder(planner["runs"][0])
            if folder is None:
                raise InvalidArgumentError(
                    f"path is {str(path)!r}, but the simulation {planner['runs'][0]!r} of {planner['name']!r} is not "
                    "there any more; put it back, or compare again"
                )
            logs.append(ViewedSimulation(folder, name=planner["name"]))
            indices.append({(each.log, each.scene): index for index, each in enumerate(folder.scenes)})
        return _overview_of(facts, names, logs, indices)
    except (KeyError, TypeError, AttributeError, LookupError) as error:
        raise CorruptedDataError(f"{file} is no file of l5kit compare ({error!r}); compare again") from error


def _overview_of(
    facts: JsonObject,
    names: list[str],
    logs: list[ViewedSimulation],
    indices: Sequence[Mapping[tuple[str, int], int]],
) -> Overview:
    """Return the overview of what a comparison tells."""
    score = MetricFacts.of_json(facts["about_metrics"][0])
    rows = [row for row in facts["rows"] if row["metric"] == score.name and row["tag"] == facts["rows"][0]["tag"]]
    means = [f"{row['mean']:.{score.digits}f}" for row in rows]
    if rows[0]["mean_low"] is not None:
        ends = [[f"{row[end]:.{score.digits}f}" for end in ("mean_low", "mean_high")] for row in rows]
        means = [f"{mean} ({low} to {high})" for mean, (low, high) in zip(means, ends, strict=True)]
    return Overview(
        label=score.label,
        digits=score.digits,
        low_is_better=score.better == "low",
        reference=names.index(facts["reference"]),
        names=names,
        means=means,
        verdicts=[row["verdict"] for row in rows],
        logs=logs,
        scenes=[
            OverviewScene(
                scene=each["scene"],
                places=[of_planner[each["log"], each["scene"]] for of_planner in indices],
                values=each[score.name],
                failures=each["failures"],
                tags=each["tags"],
            )
            for each in facts["scenes"]
        ],
    )
