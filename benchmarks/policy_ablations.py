"""Ablations of policies: trainings that differ from the default of ``l5kit train-rl`` in one aspect each.

A row changes a few keys of the configuration. All rows train for the same number of decisions in the towns ``train`` of
``learned_drivers.py``, about a minute of CPU time, and drive two held-out towns ``choose``. One seed of a row is a file
in ``benchmarks/policy_results``, so nothing is trained twice: the same command continues with missing rows.

Run ``python benchmarks/policy_ablations.py`` for all, ``--only network --seed 0`` for a part, and ``--only-table
--write`` to write the table of existing files into docs/results/policies.md.
"""

import argparse
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from closed_loop_table import START_FRAME
from driver_scores import AGENTS, difference_of, mean_of, scene_scores, signed
from l5kit._types import Float64Array, JsonObject
from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.configs.overrides import load_driver_config, with_overrides
from l5kit.reinforcement import train_driver
from l5kit.synthetic import make_towns
from l5kit.synthetic.params import CityParams
from l5kit_bench.machine import describe_machine
from learned_drivers import FULL, code_version, scores_of
from training_scores import shown
from training_table import KEY, replace_table, town_digest, write_row

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "policy_results"
DOCUMENT = ROOT / "docs" / "results" / "policies.md"
START = "<!-- ablations: made by benchmarks/policy_ablations.py -->"
NUM_SEEDS = 2
NUM_TOWNS = {"train": 8, "choose": 2}
NUM_SCENES = 30
"""Number of scenes driven in each town, from the first on."""

SHORT = (
    "rl_params.minutes=null",
    "rl_params.total_steps=131072",
    # smaller updates: 32 instead of 8 from so few decisions
    "rl_params.num_envs=128",
    "rl_params.batch_size=1024",
    # the default when the first rows were measured; later changes follow from this table
    "gym_params.ends_at=[collision,off_road,red_light]",
    "gym_params.compact.forecast=velocity",
    "rl_params.init=null",
    "rl_params.near_start=0",
    "rl_params.learning_rate=5e-4",
    "rl_params.num_threads=1",
    # only the score of each row is needed
    "rl_params.eval_scenes=2",
    "rl_params.eval_every_steps=1000000000",
    "train_data_loader.folders=[" + ",".join(f"town_{number:02d}" for number in range(NUM_TOWNS["train"])) + "]",
)
"""Settings of all rows."""


@dataclass(frozen=True)
class Row:
    """One training of the table.

    Attributes:
        group: The changed aspect.
        name: Its unique name in the table.
        changes: Changed keys of the configuration.
    """

    group: str
    name: str
    changes: tuple[str, ...] = ()


DEFAULT = Row("reference", "default of before")
_ENDS = "gym_params.ends_at=[collision,off_road,red_light,time_to_collision]"
_NO_PENALTIES = "collision: 0, time_to_collision: 0, comfort: 0, red_light: 0, off_road: 0, speed: 0, off_route: 0"
_SCALED = "combines: product, collision: 12, time_to_collision: 1, comfort: 1"

ROWS = (
    DEFAULT,
    Row("network", "layers", ("rl_params.network=layers",)),
    Row("network", "attention", ("rl_params.network=attention",)),
    Row("reward", "time to collision ends", (_ENDS,)),
    Row("start", "imitation of rules", ("rl_params.init=rules", "rl_params.near_start=0.2")),
    Row("observation", "forecasts along lanes", ("gym_params.compact.forecast=lanes",)),
    Row("observation", "frame of the vehicle", ("gym_params.compact.frame=vehicle",)),
    Row("reward", "completion, ended", (_ENDS, f"gym_params.driving={{progress: 1.2, {_NO_PENALTIES}}}")),
    Row("reward", "completion, scaled", (f"gym_params.driving={{progress: 1.2, {_SCALED}}}",)),
    Row("action", "curvature", ("gym_params.actions=curvature",)),
    Row("others", "replayed", ("gym_params.others=log",)),
    Row("others", "self-play", ("gym_params.others=policy",)),
    Row("scenes", "failures first, half", ("gym_params.failed_share=0.5",)),
    Row("observation", "4 road users", ("gym_params.compact.num_agents=4",)),
    Row("observation", "24 points of lanes", ("gym_params.compact.num_lane_points=24",)),
    Row("action", "route, emergencies", ("gym_params.actions=route_emergency",)),
    Row("action", "bicycle", ("gym_params.actions=bicycle",)),
    Row("scenes", "failures first, all", ("gym_params.failed_share=1.0",)),
    Row("observation", "24 road users", ("gym_params.compact.num_agents=24",)),
    Row("action", "pose_change", ("gym_params.actions=pose_change",)),
)
"""Rows in the order of the table and of training, the most informative first."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Train and drive missing rows, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description="The ablations of docs/results/policies.md.")
    parser.add_argument("--work", type=Path, default=Path("policy-ablations"), help="folder of trainings and drives")
    parser.add_argument("--towns", type=Path, help="folder of the towns; WORK/towns")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of what rows have measured")
    parser.add_argument("--only", action="append", help="a row or a group; may be given several times; all")
    parser.add_argument("--seed", action="append", type=int, help="may be given several times; 0 and 1")
    parser.add_argument("--only-table", action="store_true", help="train nothing: the table of what is there")
    parser.add_argument("--write", action="store_true", help="write the table into the document")
    options = parser.parse_args(arguments)
    towns = options.towns or options.work / "towns"
    if not options.only_table:
        digests = make_missing_towns(towns)
        for seed in options.seed or range(NUM_SEEDS):
            for row in ROWS:
                file = file_of(row, seed, options.results)
                is_wanted = options.only is None or {row.name, row.group} & set(options.only)
                if is_wanted and not file.is_file():
                    write_row(file, {**measure(row, seed, options.work, towns), "towns": digests})
    lines = table_of(options.results)
    print("\n".join(lines))
    if options.write:
        replace_table(DOCUMENT, ["", *lines, ""], start=START)
    return 0


def make_missing_towns(folder: Path) -> dict[str, str]:
    """Generate missing towns, and return the digest of each."""
    digests = {}
    for role, count in NUM_TOWNS.items():
        towns = FULL.towns[role]
        make_towns(folder / role, count, params=CityParams(seed=towns.seed, num_scenes=towns.num_scenes))
        names = [f"{role}/town_{number:02d}" for number in range(count)]
        digests |= {name: town_digest(folder / name) for name in names}
    return digests


def file_of(row: Row, seed: int, results: Path) -> Path:
    """Return the results file of a seed of a row."""
    return results / f"{row.group}-{row.name.replace(',', '').replace(' ', '-')}-{seed}.json"


def measure(row: Row, seed: int, work: Path, towns: Path) -> JsonObject:
    """Train a seed of a row, drive the held-out towns, and return the results."""
    cfg = with_overrides(load_driver_config(None), [*SHORT, *row.changes, f"rl_params.seed={seed}"])
    held_out = [f"choose/town_{number:02d}" for number in range(NUM_TOWNS["choose"])]
    folder = work / file_of(row, seed, work).stem
    shutil.rmtree(folder, ignore_errors=True)  # left over from a killed training
    start_s = time.process_time()
    trained = train_driver(
        cfg, folder, data_folder=towns / "train", eval_data_folder=towns / held_out[0], tell=lambda _: None
    )
    trained_s = time.process_time() - start_s
    scores: dict[str, dict[str, list[float | None]]] = {}
    metrics: dict[str, dict[str, JsonObject]] = {}
    for agents in AGENTS:
        for town in held_out:
            drives = folder / f"{agents}-{town.replace('/', '-')}"
            result = simulate(
                towns / town,
                drives,
                planner=str(trained.driver),
                agents=agents,
                options=ClosedLoopOptions(start_frame=START_FRAME, keeps_plans=False, scenes=range(NUM_SCENES)),
            )
            scores.setdefault(agents, {})[town] = scores_of(drives)
            metrics.setdefault(agents, {})[town] = dict(result.scores["metrics"])
    machine = describe_machine()
    print(f"{row.group}, {row.name}, seed {seed}: {trained_s / 60:.1f} CPU minutes, {mean_scores(scores)}", flush=True)
    return {
        "group": row.group,
        "row": row.name,
        "seed": seed,
        "changes": [*SHORT, *row.changes],
        "key": KEY,
        "steps": trained.num_steps,
        "cpu_minutes": round(trained_s / 60, 2),
        "scores": scores,
        "metrics": metrics,
        "code": code_version(),
        "machine": machine.hardware,
        "software": machine.software,
    }


def mean_scores(scores: Mapping[str, Mapping[str, Sequence[float | None]]]) -> dict[str, float]:
    """Return the mean score by driver of other agents."""
    return {agents: round(mean_of(scene_scores({"scores": scores}, agents)[None]).value, 3) for agents in scores}


def table_of(results: Path) -> list[str]:
    """Return the lines of the table."""
    runs = {row: [json.loads(file.read_text("utf-8")) for file in files_of(row, results)] for row in ROWS}
    beside = runs[DEFAULT]
    if not beside:
        return ["No row has been measured yet: `python benchmarks/policy_ablations.py` does it."]
    lines = ["| | | seeds | replayed | `idm` | minus the first row, both (95 %) | CPU minutes |", "|---" * 7 + "|"]
    for row, of_row in runs.items():
        if not of_row:
            continue
        scores = [shown(mean_of(scores_by_seed(of_row, [agents])), "") for agents in AGENTS]
        both = list(AGENTS)
        difference = difference_of(scores_by_seed(of_row, both), scores_by_seed(beside, both))
        cells = [
            row.group if row is not DEFAULT else "",
            row.name,
            str(len(of_row)),
            *scores,
            "" if row is DEFAULT else signed(difference),
            ", ".join(f"{run['cpu_minutes']:.1f}" for run in of_row),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def files_of(row: Row, results: Path) -> list[Path]:
    """Return the results files of the measured seeds of a row."""
    return [file for seed in range(10) if (file := file_of(row, seed, results)).is_file()]


def scores_by_seed(runs: Sequence[JsonObject], agents: Sequence[str]) -> Float64Array:
    """Return the scores of all scenes for one kind of other agents, (seeds, scenes)."""
    return np.stack([np.concatenate([scene_scores(run, each) for each in agents]) for run in runs])


if __name__ == "__main__":
    raise SystemExit(main())
