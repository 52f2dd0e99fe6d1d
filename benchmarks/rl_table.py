"""Closed-loop scores of trained policies and of rules in a city, as Markdown.

Run ``python benchmarks/rl_table.py RUN [RUN ...] --city CITY --work WORK`` with runs of ``l5kit train-rl`` that differ
in their seed. Each is scored before its first step (``first.zip``), at the end, and at its best evaluation, in the
scenes of ``closed_loop_table.py``. The interval of the mean is a bootstrap over scenes, with the mean over seeds of
each scene. A stopped run resumes.
"""

import argparse
import csv
from pathlib import Path
from types import MappingProxyType

import numpy as np

from closed_loop_table import AGENTS, METRICS, RULES, Contestant, drive, folder_of, metric_cell
from driver_scores import mean_of
from l5kit._types import Float64Array, JsonObject
from training_scores import shown

POLICIES = MappingProxyType({"before training": "first.zip", "after training": "driver.zip", "best": "best.zip"})
"""Rows of a training, and their files."""

BESIDE = ("constant-velocity", "idm", "standing", "log")


def main() -> None:
    """Simulate what is missing, and print the table."""
    parser = argparse.ArgumentParser(description="The table of docs/results/policies.md.")
    parser.add_argument("runs", nargs="+", type=Path, help="folders of trainings, one for each seed")
    parser.add_argument("--city", type=Path, required=True, help="folder of a city that nothing was trained on")
    parser.add_argument("--work", type=Path, default=Path("rl-table"), help="folder of the simulations")
    parser.add_argument("--agents", action="append", choices=AGENTS, help="may be given twice; both")
    parser.add_argument("--workers", type=int, default=1, help="threads that simulate")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    contestants = find_contestants(options.runs)
    lines = []
    for agents in options.agents or AGENTS:
        results = {
            row: [drive(each, agents, options.city, options) for each in of_row] for row, of_row in contestants.items()
        }
        scores = {
            row: scene_scores([folder_of(each, agents, options) for each in of_row])
            for row, of_row in contestants.items()
        }
        lines += ["", f"Others: `{agents}`.", "", *make_table(results, scores)]
    print("\n".join(lines))


def find_contestants(runs: list[Path]) -> dict[str, list[Contestant]]:
    """Return the planners by row; files that a run lacks are left out with a notice."""
    found: dict[str, list[Contestant]] = {}
    for row, name in POLICIES.items():
        for place, run in enumerate(runs):
            file = run / name
            if file.is_file():
                found.setdefault(row, []).append(Contestant(row, f"{run.name}-{place}-{file.stem}", str(file)))
            else:
                print(f"{file} is missing and left out")
    for row in BESIDE:
        planner, moves = RULES[row]
        found[row] = [Contestant(row, row, planner, moves)]
    return found


def scene_scores(folders: list[Path]) -> Float64Array:
    """Return the mean over simulations of the score of each scene that all of them have, (S,)."""
    by_folder = []
    for folder in folders:
        with (folder / "scenes.csv").open(newline="", encoding="utf-8") as file:
            by_folder.append({row["scene"]: float(row["score"]) for row in csv.DictReader(file) if row["score"]})
    common = [scene for scene in by_folder[0] if all(scene in scores for scores in by_folder)]
    return np.array([np.mean([scores[scene] for scores in by_folder]) for scene in common])


def make_table(results: dict[str, list[JsonObject]], scores: dict[str, Float64Array]) -> list[str]:
    """Return the lines of a table: scores with intervals, and means of metrics over the seeds."""
    lines = [
        "| driver | seeds | score (95 %) | " + " | ".join(METRICS.values()) + " |",
        "|---" * (3 + len(METRICS)) + "|",
    ]
    for row, of_seeds in results.items():
        cells = [
            row,
            str(len(of_seeds)) if row in POLICIES else "",
            shown(mean_of(scores[row][None]), ""),
        ]
        lines.append(f"| {' | '.join(cells + [metric_cell(name, of_seeds) for name in METRICS])} |")
    return lines


if __name__ == "__main__":
    main()
