"""Learned drivers: train them with several seeds, score them in unseen towns, and write the table of the docs.

Towns have roles. Networks are trained in ``train``. In ``choose`` they drive during training, which selects their best
weights; everything that was tuned by hand was tuned there as well. ``test`` is driven only for the table. The results
of a run, which is one seed of a row, are a file in ``benchmarks/learned_drivers`` with the digests of towns and
weights, the configuration, the code, the minutes and the machine. Nothing is trained twice: the same command continues
with missing runs and with a training that was killed.

Run ``python benchmarks/learned_drivers.py`` for everything (days on two cores), ``--only route_planner --seeds 1`` for
a part, and ``--only-table --write`` to write the table of existing runs into docs/results/learned_drivers.md and
benchmarks/RESULTS.md. Runs whose facts have changed are marked as stale; ``--again`` repeats them. ``l5kit reproduce
ROW`` repeats a run and prints the difference to the stored one.
"""

import argparse
import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np

from closed_loop_table import RULES, START_FRAME, Contestant, drive, folder_of
from driver_scores import AGENTS, RowRuns, difference_of, leaves_out_zero, make_tables, mean_of, scene_scores, signed
from l5kit import __version__
from l5kit._types import JsonObject
from l5kit.closedloop import read_result
from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.configs.texts import did_you_mean
from l5kit.data.jobs.receipts import digest_of_json
from l5kit.environment.policy_file import find_policy_file
from l5kit.errors import InvalidArgumentError, L5KitError
from l5kit.planning.weights_file import weights_of
from l5kit.synthetic import make_towns
from l5kit.synthetic.params import CityParams
from l5kit.training import train
from l5kit_bench.machine import describe_machine
from map_routes import MapRoutedPlanner
from training_table import KEY, replace_table, town_digest, write_row

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "learned_drivers"
DOCUMENTS = (ROOT / "docs" / "results" / "learned_drivers.md", ROOT / "benchmarks" / "RESULTS.md")
START = "<!-- learned drivers: made by benchmarks/learned_drivers.py -->"
PINS = "towns.json"
"""File with the digests of the towns, next to the runs."""

DRIVERS = {"log": RULES["log"], "log-followed": RULES["log, followed"], "idm": RULES["idm"], "rules": RULES["rules"]}
"""Planners without a network. Tracking the log is the upper bound of imitation."""

POLICIES = dict.fromkeys(("route_policy", "route_policy-fallback-rules"), ("route_policy", None))
"""Row of the policy that ships, trained by reinforcement in the towns of ``train``; see its card."""

NUM_SEEDS = 3
NUM_EVALUATIONS = 6
"""Number of evaluations in ``choose`` during a training."""

SIZE: dict[str, float] = {}
"""Further parameters of the towns."""


@dataclass(frozen=True)
class Towns:
    """Synthetic towns of one role: base seed, number of towns, and scenes of each."""

    seed: int
    count: int
    num_scenes: int


@dataclass(frozen=True)
class Scale:
    """Size of the towns and trainings.

    Attributes:
        towns: Towns by role; a smaller scale uses the first towns and scenes of a larger one.
        most_steps: Limit of training steps; None for none.
        is_pinned: Whether the towns must be those of the stored runs.
    """

    towns: Mapping[str, Towns]
    most_steps: int | None = None
    is_pinned: bool = True


FULL = Scale(MappingProxyType({"train": Towns(3201, 16, 60), "choose": Towns(3202, 1, 60), "test": Towns(3203, 4, 50)}))
QUICK = Scale(
    MappingProxyType({"train": Towns(3201, 2, 2), "choose": Towns(3202, 1, 2), "test": Towns(3203, 1, 4)}),
    most_steps=20,
    is_pinned=False,
)


@dataclass(frozen=True)
class Training:
    """A training recipe.

    Attributes:
        workflow: Workflow whose small configuration is changed.
        steps: Optimizer steps, chosen to take ``max_minutes``.
        max_minutes: Time limit of a seed on two cores.
        changes: Changed keys of the configuration.
        num_towns: Limit of towns of ``train``.
    """

    workflow: str
    steps: int
    max_minutes: float
    changes: tuple[str, ...] = ()
    num_towns: int = FULL.towns["train"].count


@dataclass(frozen=True)
class Row:
    """A driver of the table.

    Attributes:
        name: Its name in the table.
        training: Its training, shared by rows with the same network; None without training.
        fallback: Its fallback planner.
        has_map_route: Whether its route is the shortest one of the map to the end of the log, instead of the logged
            one.
    """

    name: str
    training: Training | None = None
    fallback: str | None = None
    has_map_route: bool = False

    def seeds(self, count: int) -> range:
        """Return the seeds to run."""
        return range(count if self.training else 1)


_ROUTE = ("model_params.route=true",)
_RECOVERY = ("train_data_loader.perturb_kind=recovery", "train_data_loader.perturb_probability=0.75")
_NO_ROUTE = ("model_params.route=false", "model_params.agents_along_route=false")
_NO_RECOVERY = ("train_data_loader.perturb_probability=0",)
_PAST = ("model_params.past_dropout=0", "model_params.history_num_frames_ego=5")
_POSES = ("model_params.decoder=poses",)

_NO_PAST = ("model_params.past_dropout=1",)
_THREE_MODES = ("model_params.num_modes=3",)

# Steps follow from measured processor seconds per step: 0.1 for route_planner, 0.09 for raster_planner, 0.05 for
# vector_planner, 0.39 for urban_driver, 0.15 for safepathnet. route_planner does not improve after 2,000 steps.
PLANNER = Training("route_planner", 7000, 20.0, _ROUTE + _RECOVERY)
_SHORT = partial(Training, "route_planner", 1500, 4.0)

ROWS = (
    *(Row(name) for name in ("log", "log-followed", "idm", "rules")),
    Row("route_planner", PLANNER),
    Row("route_planner-fallback-rules", PLANNER, fallback="rules"),
    Row("route_planner-route-of-map", PLANNER, has_map_route=True),
    # other workflows: default configurations with route, recovery and hidden past
    Row("raster_planner", Training("raster_planner", 5000, 40.0, _ROUTE + _RECOVERY)),
    Row("vector_planner", Training("vector_planner", 8000, 40.0, _ROUTE + _RECOVERY + _NO_PAST)),
    Row("urban_driver", Training("urban_driver", 1500, 40.0, _ROUTE + _RECOVERY + _NO_PAST)),
    Row("safepathnet", Training("safepathnet", 3500, 40.0, _ROUTE + _RECOVERY + _NO_PAST)),
    Row("route_policy"),
    Row("route_policy-fallback-rules", fallback="rules"),
    # ablations of the route planner, trained for 4 minutes on one core
    Row("short", _SHORT(_ROUTE + _RECOVERY)),
    Row("short-no-route", _SHORT(_NO_ROUTE + _RECOVERY)),
    Row("short-no-recovery", _SHORT(_ROUTE + _NO_RECOVERY)),
    Row("short-no-places-along-route", _SHORT((*_ROUTE, *_RECOVERY, "model_params.agents_along_route=false"))),
    Row("short-no-agents", _SHORT((*_ROUTE, *_RECOVERY, "model_params.disable_other_agents=true"))),
    Row("short-one-town", _SHORT(_ROUTE + _RECOVERY, num_towns=1)),
    Row("short-past-shown", _SHORT(_ROUTE + _RECOVERY + _PAST)),
    Row("short-three-modes", _SHORT(_ROUTE + _RECOVERY + _THREE_MODES)),
    Row("short-poses", _SHORT(_ROUTE + _RECOVERY + _POSES)),
    Row("short-all-off", _SHORT(_NO_ROUTE + _NO_RECOVERY + _PAST + _POSES)),
)
"""Rows of the table, in order."""

NAMES = tuple(row.name for row in ROWS)


@dataclass(frozen=True)
class Place:
    """Folders and options of the runs.

    Attributes:
        work: Folder of trainings and simulations.
        towns: Folder of the towns, with a subfolder for each role.
        results: Folder of the results of runs.
        scale: Size of the towns and trainings.
        workers: Threads that generate towns and simulate.
        other_towns: Whether towns with other digests than those of the stored runs are allowed.
    """

    work: Path
    towns: Path
    results: Path
    scale: Scale
    workers: int = 1
    other_towns: bool = False

    def file_of(self, row: Row, seed: int) -> Path:
        """Return the file of the results of a run."""
        return self.results / f"{row.name}-{seed}.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing and write the table, or reproduce a run; return the exit status."""
    parser = argparse.ArgumentParser(description="The table of learned drivers of docs/results/learned_drivers.md.")
    parser.add_argument("--work", type=Path, default=Path("learned-drivers"), help="folder of towns and trainings")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of what runs have measured")
    parser.add_argument("--only", action="append", choices=NAMES, help="a row; may be given several times; all")
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS, help="trainings of each row")
    parser.add_argument("--workers", type=int, default=1, help="threads that make towns and simulate")
    parser.add_argument("--again", action="store_true", help="measure stale runs anew")
    parser.add_argument("--only-table", action="store_true", help="run nothing: the table of what is there")
    parser.add_argument("--write", action="store_true", help="write the table into the documents")
    parser.add_argument("--other-towns", action="store_true", help="take towns whose digest is not the pinned one")
    parser.add_argument("--list", action="store_true", help="list the rows and their runs, and end")
    parser.add_argument("--reproduce", metavar="ROW", help="measure a run of a row anew and compare")
    parser.add_argument("--seed", type=int, default=0, help="seed of the run that is reproduced")
    parser.add_argument("--quick", action="store_true", help="reproduce with few steps and scenes, to see that it runs")
    options = parser.parse_args(arguments)
    place = Place(
        work=options.work,
        towns=options.work / "towns",
        results=options.results,
        scale=FULL,
        workers=options.workers,
        other_towns=options.other_towns,
    )
    if options.list:
        print("\n".join(list_lines(place)))
        return 0
    if options.reproduce:
        return reproduce(row_of(options.reproduce), options.seed, place, is_quick=options.quick)
    for row in ROWS:
        if not options.only_table and (options.only is None or row.name in options.only):
            for seed in row.seeds(options.seeds):
                run_missing(row, seed, place, again=options.again)
    lines = table_of(place)
    print("\n".join(lines))
    if options.write:
        for document in DOCUMENTS:
            replace_table(document, ["", *lines, ""], start=START)
    return 0


def row_of(name: str) -> Row:
    """Return the row of a name.

    Raises:
        InvalidArgumentError: There is no such row.
    """
    if name not in NAMES:
        raise InvalidArgumentError(f"there is no row {name!r}{did_you_mean(name, NAMES)}; rows are {', '.join(NAMES)}")
    return ROWS[NAMES.index(name)]


def run_missing(row: Row, seed: int, place: Place, *, again: bool) -> None:
    """Measure a run and store it, if it is missing or, on request, if it is stale."""
    file = place.file_of(row, seed)
    if file.is_file():
        stale = stale_of(row, json.loads(file.read_text("utf-8")), place.results)
        if not stale or not again:
            if stale:
                print(f"{file.name} is stale, other {', '.join(stale)}: --again measures it anew", flush=True)
            return
    run = measure(row, seed, place, name=f"{row.name}-{seed}")
    write_row(file, run)
    scores = {agents: f"{mean_of(scene_scores(run, agents)[None]).value:.3f}" for agents in AGENTS}
    print(f"{row.name}, seed {seed}: {scores}", flush=True)
    training = run["training"]
    if training is not None and training["minutes"] > training["max_minutes"]:
        fitting = int(training["steps"] * training["max_minutes"] / training["minutes"])
        print(f"  took {training['minutes']} minutes of {training['max_minutes']}: {fitting} steps fit", flush=True)


def measure(row: Row, seed: int, place: Place, *, name: str) -> JsonObject:
    """Generate missing towns, train, and drive the test towns; return the results.

    Args:
        row: The driver.
        seed: Seed of the training.
        place: Folders and options.
        name: Name of the simulations, whose folders resume.

    Raises:
        InvalidArgumentError: A town differs from that of the stored runs.
    """
    digests = make_all_towns(row, place)
    facts = facts_of(row, seed, place.scale, digests)
    trained = None if row.training is None else train_once(row.training, facts, place)
    planner, moves = (DRIVERS | POLICIES)[row.name] if trained is None else (str(trained["weights"]), None)
    # a simulation is only resumed by the same run, so each run has its own folder
    digest = digest_of_json({"facts": facts, "weights": trained and trained["weights_sha256"]})[:8]
    scores: dict[str, dict[str, list[float | None]]] = {}
    steps: dict[str, dict[str, int]] = {}
    for agents in AGENTS:
        for town in town_names(row, place.scale, "test"):
            log = place.towns / town
            driver = MapRoutedPlanner(Path(planner), log) if row.has_map_route else planner
            contestant = Contestant(row.name, f"{name}-{digest}", driver, moves=moves, fallback=row.fallback)
            folder = argparse.Namespace(work=place.work / "simulations" / town, workers=place.workers)
            folder.work.mkdir(parents=True, exist_ok=True)
            told = drive(contestant, agents, log, folder)
            scores.setdefault(agents, {})[town] = scores_of(folder_of(contestant, agents, folder))
            for who, count in (told.get("driven_by") or {}).items():
                of_agents = steps.setdefault(agents, {})
                of_agents[who] = of_agents.get(who, 0) + count
    machine = describe_machine()
    return {
        "row": row.name,
        "seed": seed,
        "facts": facts,
        "digest": digest_of_json(facts),
        "code": code_version(),
        "machine": machine.hardware,
        "software": machine.software,
        "training": trained and {key: value for key, value in trained.items() if key != "weights"},
        "scores": scores,
        "network_share": {who: count["planner"] / sum(count.values()) for who, count in steps.items()} or None,
    }


def scores_of(folder: Path) -> list[float | None]:
    """Return the score of each scene of a simulation: 0 if it failed, None if nothing moves."""
    result = read_result(folder)
    scores = {row["scene"]: row["score"] for row in result.scenes()} | {each.scene: 0.0 for each in result.failed}
    return [scores[scene] for scene in sorted(scores)]


def make_all_towns(row: Row, place: Place) -> dict[str, str]:
    """Generate missing towns of a row, and return all digests; those of the full scale are pinned.

    Raises:
        InvalidArgumentError: A town differs from that of the stored runs.
    """
    digests = {}
    for role, towns in place.scale.towns.items():
        names = town_names(row, place.scale, role)
        if names:
            params = CityParams(seed=towns.seed, num_scenes=towns.num_scenes, **SIZE)
            make_towns(place.towns / role, len(names), params=params, workers=place.workers)
        digests |= {name: town_digest(place.towns / name) for name in names}
    if place.scale.is_pinned:
        pins = pinned(place.results)
        for name, digest in digests.items():
            if pins.get(name, digest) != digest and not place.other_towns:
                raise InvalidArgumentError(
                    f"{place.towns / name} has the digest {digest}, and the runs in {place.results} are of "
                    f"{pins[name]}: l5kit.synthetic has changed, or processor and libraries round otherwise. Remove it "
                    "if it is old; --other-towns takes it as it is"
                )
        write_row(place.results / PINS, digests | pins)
    return digests


def pinned(results: Path) -> dict[str, str]:
    """Return the digests of the towns of the stored runs, by role and name."""
    file = results / PINS
    pins: dict[str, str] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return pins


def town_names(row: Row, scale: Scale, role: str) -> list[str]:
    """Return the towns of a role that a row needs, relative to the folder of towns."""
    count = scale.towns[role].count
    if role != "test":
        count = 0 if row.training is None else min(count, row.training.num_towns if role == "train" else count)
    return [f"{role}/town_{number:02d}" for number in range(count)]


def facts_of(row: Row, seed: int, scale: Scale, digests: Mapping[str, str]) -> JsonObject:
    """Return the facts that determine the result of a run, except for the code, as JSON.

    Args:
        row: The driver.
        seed: Seed of the training.
        scale: Size of the towns and trainings.
        digests: Digests of the towns, by role and name.
    """
    towns = [name for role in scale.towns for name in town_names(row, scale, role)]
    facts = {
        "configuration": row.training and configuration_of(row, seed, scale),
        "driving": {
            "planner": _planner_of(row),
            "fallback": row.fallback,
            "route": "map" if row.has_map_route else "log",
            "start_frame": START_FRAME,
        },
        "towns": {name: digests.get(name) for name in towns},
    }
    told: JsonObject = json.loads(json.dumps(facts))
    return told


def _planner_of(row: Row) -> object:
    """Return what distinguishes the planner of a row from others of the same name."""
    if row.name in POLICIES:
        file = find_policy_file(POLICIES[row.name][0])
        return [*POLICIES[row.name], hashlib.sha256(file.read_bytes()).hexdigest()]
    return DRIVERS[row.name] if row.training is None else "network"


def configuration_of(row: Row, seed: int, scale: Scale) -> JsonObject:
    """Return the training configuration of a row."""
    training = row.training
    cfg = with_overrides(load_training_config(training.workflow), training.changes)
    held_out = town_names(row, scale, "choose")
    cfg["train_data_loader"] |= {"key": KEY, "folders": town_names(row, scale, "train")}
    cfg["val_data_loader"] |= {"key": KEY, "folders": held_out}
    # Evaluate in many whole scenes with reactive agents, where weights differ most. With 24 scenes of 10 s the first
    # evaluation often won, and with replayed agents weights won that collide with reactive ones.
    num_scenes = scale.towns["choose"].num_scenes
    cfg["val_driving"] = {"key": KEY, "folder": held_out[0], "num_scenes": num_scenes, "num_frames": None}
    cfg["val_driving"]["agents"] = "idm"
    params = cfg["train_params"]
    params.pop("num_epochs", None)
    steps = min(training.steps, scale.most_steps or training.steps)
    every = max(1, steps // NUM_EVALUATIONS)
    params |= {"max_num_steps": steps, "eval_every_n_steps": every, "checkpoint_every_n_steps": every}
    params |= {"seed": seed, "accelerator": "cpu", "best_by": "closed_loop"}
    if params.get("warmup_num_steps"):
        params["warmup_num_steps"] = min(params["warmup_num_steps"], every)
    return cfg


def train_once(training: Training, facts: JsonObject, place: Place) -> JsonObject:
    """Train, or resume a killed training; a completed one, such as that of another row, is reused."""
    cfg = facts["configuration"]
    digest = digest_of_json({"configuration": cfg, "towns": facts["towns"]})[:8]
    folder = place.work / "trainings" / f"{training.workflow}-{cfg['train_params']['seed']}-{digest}"
    if not (folder / "result.json").is_file():
        train(cfg, folder, data_folder=place.towns, resume=(folder / "config.yaml").is_file())
    result = json.loads((folder / "result.json").read_text("utf-8"))
    last = weights_of(folder)
    best = last.with_name(f"{last.stem}_best{last.suffix}")
    weights = last if result["best_step"] is None else best
    return {
        "weights": weights,
        "weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        "minutes": result["minutes"],
        "max_minutes": training.max_minutes,
        "steps": result["num_steps"],
        "best_step": result["best_step"],
        "best_score": result["best_score"],
    }


def code_version() -> str:
    """Return the commit of the clone with a digest of local changes; without git, the version of l5kit."""
    told = []
    for command in (("rev-parse", "--short=12", "HEAD"), ("diff", "HEAD", "--", "src", "benchmarks/*.py")):
        done = subprocess.run(["git", "-C", str(ROOT), *command], capture_output=True, check=False)
        if done.returncode:
            return __version__
        told.append(done.stdout)
    changed = f"+{hashlib.sha256(told[1]).hexdigest()[:8]}" if told[1] else ""
    return f"{__version__} {told[0].decode().strip()}{changed}"


def stale_of(row: Row, run: JsonObject, results: Path) -> tuple[str, ...]:
    """Return the facts of a run that differ from the current ones."""
    today = facts_of(row, run["seed"], FULL, pinned(results))
    return tuple(name for name, value in today.items() if run["facts"].get(name) != value)


def read_runs(row: Row, place: Place) -> RowRuns:
    """Return the stored results of a row."""
    files = sorted(place.results.glob(f"{row.name}-[0-9]*.json"), key=lambda file: int(file.stem.rpartition("-")[2]))
    runs = [json.loads(file.read_text("utf-8")) for file in files]
    stale = dict.fromkeys(name for run in runs for name in stale_of(row, run, place.results))
    return RowRuns(row.name, runs, tuple(stale))


def table_of(place: Place) -> list[str]:
    """Return the lines of the table."""
    rows = [read_runs(row, place) for row in ROWS]
    if not any(row.runs for row in rows):
        return ["No run has been measured yet: `python benchmarks/learned_drivers.py` does it, row by row."]
    digests = pinned(place.results)
    test = ", ".join(f"`{name}` {digest[:12]}" for name, digest in sorted(digests.items()) if name.startswith("test/"))
    lines = [f"Towns of the test, which nothing was chosen on: {test}."]
    missing = [row.name for row in rows if not row.runs]
    if missing:
        lines += ["", f"Not measured yet: {', '.join(f'`{name}`' for name in missing)}."]
    return [*lines, *make_tables(rows)]


def list_lines(place: Place) -> list[str]:
    """Return a line for each row: scores, trained seeds, and whether it is stale."""
    lines = []
    for row in ROWS:
        runs = read_runs(row, place)
        if not runs.runs:
            lines.append(f"{runs.name}: not measured yet")
            continue
        seeds = "; seeds " + ", ".join(str(run["seed"]) for run in runs.runs) if row.training else ""
        scores = ", ".join(f"others {agents} {mean_of(runs.scores(agents)).value:.3f}" for agents in AGENTS)
        stale = f"; stale: {', '.join(runs.stale)}" if runs.stale else ""
        lines.append(f"{runs.name}: {scores}{seeds}{stale}")
    return lines


def reproduce(row: Row, seed: int, place: Place, *, is_quick: bool) -> int:
    """Repeat a run, print the difference to the stored one, and return the exit status.

    It is 1 if the interval of the difference, paired by scene, excludes 0; quick runs always return 0.

    Raises:
        InvalidArgumentError: There is no such run.
    """
    file = place.file_of(row, seed)
    if not file.is_file():
        there = [str(run["seed"]) for run in read_runs(row, place).runs]
        raise InvalidArgumentError(
            f"seed {seed} of {row.name} has not been measured: there is no {file}. "
            + (f"Seeds that have: {', '.join(there)}" if there else "l5kit reproduce --list shows which rows have")
        )
    old = json.loads(file.read_text("utf-8"))
    stale = stale_of(row, old, place.results)
    if stale:
        print(f"note: the run of the table is stale: {', '.join(stale)} have changed since")
    # changed code trains again; towns stay
    code = hashlib.sha256(code_version().encode()).hexdigest()[:8]
    anew = replace(place, work=place.work / "reproduced" / code)
    if is_quick:
        anew = replace(anew, work=anew.work / "quick", towns=place.work / "quick-towns", scale=QUICK)
    new = measure(row, seed, anew, name=f"{row.name}-{seed}")
    print(f"{row.name}, seed {seed}; {old['code']} on {old['machine']}, and {new['code']} on {new['machine']}")
    is_beyond = False
    for agents in AGENTS:
        pairs = [
            np.array([scores[:count], of_town[:count]], np.float64)
            for town, of_town in new["scores"][agents].items()
            for scores in [old["scores"][agents].get(town, [])]
            for count in [min(len(scores), len(of_town))]
        ]
        before, now = np.concatenate(pairs, axis=1)[:, None]
        difference = difference_of(now, before)
        is_beyond |= leaves_out_zero(difference)
        print(
            f"others {agents}: {mean_of(before).value:.3f} in the table, {mean_of(now).value:.3f} anew, difference "
            f"{signed(difference)}"
        )
    if is_quick:
        print(f"quick: {QUICK.most_steps} steps at most and few scenes, which says nothing about the table")
        return 0
    print("beyond the interval" if is_beyond else "within the interval")
    return int(is_beyond)


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except L5KitError as error:
        raise SystemExit(f"error: {error}") from None
