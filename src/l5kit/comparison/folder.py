"""Folder of a comparison: tables, a figure, a self-contained page, and the overview of the viewer."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from l5kit import __version__
from l5kit._files import clear_leftovers_in, replaced_when_complete
from l5kit._types import JsonObject
from l5kit.comparison.comparison import Comparison
from l5kit.comparison.figure import draw_comparison
from l5kit.comparison.scored_run import SIMULATION
from l5kit.comparison.tables import as_csv, as_latex, as_markdown, overview_tables, scene_table
from l5kit.configs.texts import reported_values
from l5kit.data.jobs.owned_outputs import OutputKind, holds_keys, require_own_folder
from l5kit.data.jobs.receipts import RECEIPT_FILE, finish_output
from l5kit.errors import CorruptedDataError, InvalidArgumentError, L5KitError
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.simulation.folder.simulation_folder import find_simulation_folder, read_object
from l5kit.visualization.report_page import PageFigure, PageTable, write_page
from l5kit.visualization.viewer.overview import Overview, OverviewScene
from l5kit.visualization.viewer.viewed_simulation import ViewedSimulation

COMPARISON_FILE: Final = "comparison.json"
"""The inputs of the comparison, with all rows and scenes."""

_PAGE: Final = "comparison.html"
_FIGURES: Final = ("comparison.png", "comparison.svg")
_TABLE: Final = "comparison.csv"
_SCENES: Final = "scenes.csv"
_MARKDOWN: Final = "comparison.md"
_LATEX: Final = "comparison.tex"
_FILES: Final = (COMPARISON_FILE, _PAGE, *_FIGURES, _TABLE, _SCENES, _MARKDOWN, _LATEX)
_MOST_SCENES: Final = 10
"""Most scenes won, and most lost, in the lists of the files; the table of scenes has all of them."""

_COMPARISON: Final = OutputKind(
    "a comparison",
    lambda folder: holds_keys(folder / COMPARISON_FILE, {"l5kit", "planners", "reference", "rows"}),
    "|".join(re.escape(name) for name in (RECEIPT_FILE, *_FILES)),
)


def require_folder(folder: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Refuse a folder that a comparison must not be written to.

    Raises:
        InvalidArgumentError: It is a file, holds other files, or holds a comparison and ``overwrite`` is not set.
    """
    path = Path(os.path.abspath(folder))
    require_own_folder(path, _COMPARISON, argument="folder")
    if not overwrite and (path / COMPARISON_FILE).is_file():
        raise InvalidArgumentError(
            f"folder is {str(folder)!r}, which holds a comparison; name another, or replace it (--overwrite)"
        )


def write_comparison(comparison: Comparison, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a comparison into a folder.

    The folder gets ``comparison.csv`` (a row for each tag, metric and planner) and ``scenes.csv`` (a row for each scene
    and planner), the tables as ``comparison.md`` and ``comparison.tex``, the figure as ``comparison.png`` and ``.svg``,
    the self-contained page ``comparison.html``, and ``comparison.json``, which ``l5kit view`` opens.

    Raises:
        InvalidArgumentError: The folder holds other files, or a comparison and ``overwrite`` is not set.
    """
    require_folder(folder, overwrite=overwrite)
    path = Path(os.path.abspath(folder))
    path.mkdir(parents=True, exist_ok=True)
    clear_leftovers_in(path)
    for name in (RECEIPT_FILE, *_FILES):
        (path / name).unlink(missing_ok=True)
    overview = list(overview_tables(comparison))
    scenes = scene_table(comparison, most=_MOST_SCENES)
    texts = {
        _TABLE: as_csv(row.as_dict() for row in comparison.rows),
        _SCENES: as_csv(comparison.scene_rows()),
        _MARKDOWN: as_markdown([*overview, scenes], comparison.notes),
        _LATEX: as_latex(overview, comparison.notes),
        COMPARISON_FILE: json.dumps(reported_values(facts_of(comparison)), indent=1, allow_nan=False) + "\n",
    }
    for name, text in texts.items():
        with replaced_when_complete(path / name, argument="folder") as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")
    drawing = draw_comparison(comparison)
    for name in _FIGURES:
        drawing.save(path / name)
    _write_page(comparison, path, overview, scenes)
    finish_output(path, "compare", _FILES)


def facts_of(comparison: Comparison) -> JsonObject:
    """Return inputs and results of a comparison as JSON values."""
    score, values = comparison.metrics[0], comparison.values.values
    return {
        "l5kit": __version__,
        "kind": comparison.planners[0].runs[0].kind,
        "reference": comparison.reference,
        "planners": [
            {"name": planner.name, "runs": [str(run.path) for run in planner.runs]} for planner in comparison.planners
        ],
        "draws": comparison.resampling.num_draws,
        "level": comparison.resampling.level,
        "seed": comparison.resampling.seed,
        "scenes_left_out": comparison.common.num_left_out,
        "notes": list(comparison.notes),
        "about_metrics": [metric.as_json() for metric in comparison.metrics],
        "rows": [row.as_dict() for row in comparison.rows],
        "scenes": [
            {
                "log": log,
                "scene": scene,
                score.name: values[:, index, 0].tolist(),
                "failures": [planner.failures((log, scene)) for planner in comparison.planners],
                "tags": list(comparison.tags_of(index)),
            }
            for index, (log, scene) in enumerate(comparison.common.scenes)
        ],
    }


def _write_page(comparison: Comparison, folder: Path, overview: Sequence[PageTable], scenes: PageTable) -> None:
    """Write the page, which contains everything else."""
    run = comparison.planners[0].runs[0]
    num_runs = sum(len(planner.runs) for planner in comparison.planners)
    left_out = comparison.common.num_left_out
    share = f"{100 * comparison.resampling.level:g} %"
    log = run.log.name if run.log else "the data for validation"
    write_page(
        folder / _PAGE,
        title=" and ".join(comparison.names) if len(comparison.names) == 2 else f"{len(comparison.names)} planners",
        subtitle=f"compared by l5kit {__version__} over the same scenes of {log}",
        facts={
            "planners": str(len(comparison.names)),
            "runs": str(num_runs),
            "scenes": f"{len(comparison.common.scenes):,}",
            "left out": f"{left_out:,}",
            "reference": comparison.reference,
        },
        figures=[
            PageFigure(
                folder / "comparison.svg",
                "At a glance",
                f"Points are means, lines intervals of {share}: scenes are resampled "
                f"{comparison.resampling.num_draws:,} times, the same for all planners (paired bootstrap).",
            )
        ],
        tables=[
            *overview,
            *([scenes] if scenes.rows else []),
            *([] if comparison.is_of_trainings else [_scene_grid(comparison)]),
            PageTable(
                "What was compared",
                ("planner", "runs"),
                [(planner.name, ", ".join(run.path.name for run in planner.runs)) for planner in comparison.planners],
                num_texts=1,
                note=" ".join(f"{note[:1].upper()}{note[1:]}." for note in comparison.notes),
            ),
        ],
        footer=f"A difference is more than chance where p, corrected by Holm for all that is asked at once, is below "
        f"{1 - comparison.resampling.level:.2g}. Written by l5kit compare; l5kit view plays the scenes side by side.",
    )


def _scene_grid(comparison: Comparison) -> PageTable:
    """Return the table of all scenes: the score of each planner, coloured where it differs from the reference."""
    score, names = comparison.metrics[0], comparison.names
    values, gains = comparison.values.values[..., 0], np.stack([comparison.gains(name) for name in names])
    rows, tones = [], []
    for index, (_, scene) in enumerate(comparison.common.scenes):
        tags = ", ".join(comparison.tags_of(index))
        cells = ["-" if np.isnan(value) else f"{value:.{score.digits}f}" for value in values[:, index].tolist()]
        signs = ["better" if gain > 0 else "worse" if gain < 0 else "" for gain in gains[:, index].tolist()]
        rows.append([str(scene), *cells, *([tags] if comparison.tags else [])])
        tones.append(["", *signs, *([""] if comparison.tags else [])])
    return PageTable(
        f"{score.label} of all scenes",
        ("scene", *names, *(("tags",) if comparison.tags else ())),
        rows,
        note=f"Blue: better than {comparison.reference} in this scene, orange: worse. A click on a head sorts.",
        tones=tones,
        num_texts=1 if comparison.tags else 0,
        is_long=True,
    )


def open_overview(path: str | os.PathLike[str]) -> Overview:
    """Return the overview of the comparison in a folder.

    If a planner has several seeds, the first one is played; values are the means over all seeds.

    Raises:
        InvalidArgumentError: The comparison is one of evaluations or trainings, or a simulation has been moved.
        CorruptedDataError: A file cannot be read.
    """
    file = Path(path) / COMPARISON_FILE
    facts = read_object(file)
    try:
        if facts["kind"] != SIMULATION:
            raise InvalidArgumentError(
                f"path is {str(path)!r}, a comparison of {facts['kind'].partition(' ')[2]}s, which cannot be "
                "played; open its comparison.html in a browser"
            )
        names = [planner["name"] for planner in facts["planners"]]
        logs, indices = [], []
        for planner in facts["planners"]:
            folder = find_simulation_folder(planner["runs"][0])
            if folder is None:
                raise InvalidArgumentError(
                    f"path is {str(path)!r}, but the simulation {planner['runs'][0]!r} of {planner['name']!r} was "
                    "moved or deleted; put it back, or compare again"
                )
            logs.append(ViewedSimulation(folder, name=planner["name"]))
            indices.append({(each.log, each.scene): index for index, each in enumerate(folder.scenes)})
        return _overview_of(facts, names, logs, indices)
    except L5KitError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise CorruptedDataError(f"{file} is no file of l5kit compare ({error!r}); compare again") from error


def _overview_of(
    facts: JsonObject,
    names: list[str],
    logs: list[ViewedSimulation],
    indices: Sequence[Mapping[tuple[str, int], int]],
) -> Overview:
    """Return the overview of the facts of a comparison."""
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
