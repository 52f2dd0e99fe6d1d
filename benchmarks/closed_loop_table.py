"""Closed-loop scores of every planner in a held-out synthetic city, as a table.

Run ``python benchmarks/closed_loop_table.py`` for all of docs/results/closed_loop.md (several hours on two cores), or
``--only idm --only vector_planner --agents replay`` for a part. Networks that are missing in the folder ``--planners``
are trained into it first: the small configuration of each workflow with several seeds, and the raster and vector
planners also in other ways. ``--trained`` drives only those that exist. A stopped run resumes.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from l5kit._types import JsonObject
from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.simulation.engine.traffic_state import Driver
from l5kit.synthetic import make_city
from l5kit.training import train
from training_table import replace_table

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "results" / "closed_loop.md"
START = "<!-- table: made by benchmarks/closed_loop_table.py -->"
CITY = {"seed": 11, "num_train_scenes": 100, "num_scenes": 12}
"""Folder of the trained networks."""
UNSEEN = {"seed": 9107, "num_scenes": 24}
START_FRAME = 10
"""First frame that is simulated: networks need a second of past."""

RULES = {
    "log": ("replay", None),
    "log, followed": ("replay", "tracked"),
    "standing": ("standing", None),
    "constant-velocity": ("constant-velocity", None),
    "idm": ("idm", None),
    "idm, followed": ("idm", "tracked"),
    "rules": ("rules", None),
}
"""Planners without a network, each with its moves."""

WORKFLOWS = ("raster_planner", "vector_planner", "urban_driver", "safepathnet")
_DIRECT = (
    "model_params.velocity_residual=false",
    "model_params.kinematic_residual=null",
    "model_params.residual_unit_m=null",
)
"""Networks without a residual to a baseline."""

WAYS = {
    "": (),
    "-perturbed": ("train_data_loader.perturb_probability=0.5",),
    "-direct": _DIRECT,
    "-direct-perturbed": (*_DIRECT, "train_data_loader.perturb_probability=0.5"),
}
"""Ways of training, and their changes to the small configuration."""

TRAINED = dict.fromkeys(WORKFLOWS, ("",)) | dict.fromkeys(("raster_planner", "vector_planner"), tuple(WAYS))
AGENTS = ("replay", "idm")
METRICS = {
    "no_at_fault_collisions": "no collision",
    "drivable_area_compliance": "on the road",
    "making_progress": "moves on",
    "driving_direction_compliance": "direction",
    "progress": "progress",
    "time_to_collision": "time to collision",
    "speed_limit_compliance": "speed limit",
    "comfort": "comfort",
}
COUNTED = ("no_at_fault_collisions", "drivable_area_compliance")
"""Metrics for which the table also counts the scenes below 1."""


@dataclass(frozen=True)
class Contestant:
    """A planner that drives the whole city once.

    Attributes:
        row: Its row in the table, shared by the seeds of a training.
        name: Its unique name.
        planner: The planner, as for ``l5kit simulate``.
        moves: How its plans move the AV; None for the default.
        fallback: The fallback of the planner; None for none.
    """

    row: str
    name: str
    planner: str | Driver
    moves: str | None = None
    fallback: str | None = None


def main() -> None:
    """Train what is missing, simulate what is missing, and write the table."""
    parser = argparse.ArgumentParser(description="The table of docs/results/closed_loop.md.")
    parser.add_argument("--work", type=Path, default=Path("closed-loop-table"), help="folder of cities and simulations")
    parser.add_argument("--planners", type=Path, help="folder of the trainings; WORK/planners")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind")
    parser.add_argument("--trained", action="store_true", help="train nothing: drive the networks that are there")
    parser.add_argument("--only", action="append", help="a row or a workflow; may be given several times; all")
    parser.add_argument("--agents", action="append", choices=AGENTS, help="may be given twice; both")
    parser.add_argument("--workers", type=int, default=1, help="threads that simulate")
    parser.add_argument("--document", type=Path, help="file whose table is replaced; that of the docs for all")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    unseen = options.work / "unseen"
    if not unseen.exists():
        make_city(unseen, **UNSEEN)
    planners = options.planners or options.work / "planners"
    lines = []
    contestants = list(find_contestants(options, planners))
    for agents in options.agents or AGENTS:
        results: dict[str, list[JsonObject]] = {}
        for each in contestants:
            results.setdefault(each.row, []).append(drive(each, agents, unseen, options))
        lines += ["", f"Others: `{agents}`.", "", *make_table(results)]
    print("\n".join(lines))
    is_whole = options.only is None and options.agents is None
    document = options.document or (DOCUMENT if is_whole else None)
    if document is not None:
        replace_table(document, [*lines, ""], start=START)


def find_contestants(options: argparse.Namespace, planners: Path) -> Iterator[Contestant]:
    """Yield all planners of the table, and train missing networks."""
    for row, (planner, moves) in RULES.items():
        if options.only is None or row in options.only:
            yield Contestant(row, row.replace(", ", "-"), planner, moves)
    for workflow, ways in TRAINED.items():
        for way in ways:
            if options.only is None or {workflow, workflow + way} & set(options.only):
                yield from find_networks(workflow, way, options, planners)


def find_networks(workflow: str, way: str, options: argparse.Namespace, planners: Path) -> Iterator[Contestant]:
    """Yield the seeds of a training, trained if missing."""
    for seed in range(options.seeds):
        name = f"{workflow}-{seed}{way}"
        if not (planners / name / "result.json").is_file():
            if options.trained:
                continue
            city = planners / "city"
            if not city.exists():
                make_city(city, **CITY)
            always = (f"train_params.seed={seed}", "train_params.accelerator=cpu")
            cfg = with_overrides(load_training_config(workflow), [*always, *WAYS[way]])
            train(cfg, planners / name, data_folder=city, resume=(planners / name / "config.yaml").is_file())
        yield Contestant(workflow + way, name, str(planners / name))


def drive(contestant: Contestant, agents: str, city: Path, options: argparse.Namespace) -> JsonObject:
    """Simulate the scenes of a city that are missing, and return the scores of all."""
    result = simulate(
        city,
        folder_of(contestant, agents, options),
        planner=contestant.planner,
        agents=agents,
        fallback=contestant.fallback,
        options=ClosedLoopOptions(
            start_frame=START_FRAME, moves=contestant.moves, keeps_plans=False, workers=options.workers
        ),
    )
    print(f"{contestant.name}, others {agents}: {result.score}", flush=True)
    return dict(result.scores)


def folder_of(contestant: Contestant, agents: str, options: argparse.Namespace) -> Path:
    """Return the folder of the simulation of a planner."""
    folder: Path = options.work / f"{contestant.name}-{agents}"
    return folder


def make_table(results: dict[str, list[JsonObject]]) -> list[str]:
    """Return the lines of the table: means over seeds, and for the score also the least and largest."""
    lines = ["| planner | seeds | score | " + " | ".join(METRICS.values()) + " |", "|---" * (3 + len(METRICS)) + "|"]
    lines += [table_line(row, scores) for row, scores in results.items()]
    return lines


def table_line(row: str, scores: list[JsonObject]) -> str:
    """Return the line of one planner."""
    of_seeds = [each["score"] for each in scores]
    score = f"{mean(of_seeds):.2f}"
    if len(of_seeds) > 1:
        score += f" ({min(of_seeds):.2f} to {max(of_seeds):.2f})"
    failed = sum(len(each["failed"]) for each in scores)
    if failed:
        score += f", {failed} failed"
    cells = [f"`{row}`", "" if row in RULES else str(len(scores)), score]
    return f"| {' | '.join(cells + [metric_cell(name, scores) for name in METRICS])} |"


def metric_cell(name: str, scores: list[JsonObject]) -> str:
    """Return the mean of a metric and, for some metrics, the number of scenes below 1."""
    values = [each["metrics"][name] for each in scores if each["metrics"][name] is not None]
    if not values:
        return ""
    cell = f"{mean(values):.2f}"
    if name in COUNTED:
        count = mean(each["scenes_failing"][name] for each in scores)
        cell += f" ({count:.0f})" if len(scores) == 1 else f" ({count:.1f})"
    return cell


if __name__ == "__main__":
    main()
