"""Train the small configuration of each workflow with several seeds, score it in other towns, and write the table.

Networks are trained in four synthetic towns. Two others (selection) choose the learning rate, among the factors
``--rate-factors`` of the configured one with seed 0, and the best weights of each training, and nothing else. Scores
are those in four more towns (test), which are never used for a choice. The digest of each town is pinned here: if a
town differs, the table is refused unless ``--other-towns`` is given.

Run ``python benchmarks/training_table.py`` for all of docs/results/training.md, or ``--workflow safepathnet --seeds 1
--steps-factor 0.05`` for a part. Results of finished runs are stored in ``WORK/results``, and killed trainings resume,
so the same command continues a table. Minutes of a training add up over its processes.

The runs behind the table of the docs are in ``benchmarks/training_results``: ``--results benchmarks/training_results``
adds to them, and ``--only-table`` recomputes the table without training.
"""

import argparse
import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from l5kit._files import replaced_when_complete
from l5kit._types import JsonObject
from l5kit.configs.overrides import load_training_config
from l5kit.configs.runs import WORKFLOWS
from l5kit.data.digests.digest import dataset_digest
from l5kit.synthetic import make_city
from l5kit.training import train
from l5kit.workflows import TrainingConfig
from l5kit_bench.machine import describe_machine
from training_scores import make_tables, score_town

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "results" / "training.md"
START, END = "<!-- towns: made by benchmarks/training_table.py -->", "<!-- end of table -->"
KEY = "scenes/sample.zarr"


@dataclass(frozen=True)
class Town:
    """A synthetic town: its role, seed, number of scenes, and the digest of log and map."""

    part: str
    seed: int
    num_scenes: int
    digest: str

    @property
    def name(self) -> str:
        """Its folder."""
        return f"{self.part}-{self.seed}"


TOWNS = (
    Town("train", 101, 30, "d5c14b10564e5e2de7b9e00cc99164795e07ad983e35353307401acef6bf8d96"),
    Town("train", 102, 30, "0365a942f2a075c05b244e46fb7f96eecc6f50f702083006c87b9edba5cd4c92"),
    Town("train", 103, 30, "4ce0aef915af3bc9523d34ac778b22bddaf6119a1c9fe7e311e617b44e146f16"),
    Town("train", 104, 30, "072e6a3bf0bf92079a514faeb7304058f19cd9f4cef67662dbe6ec6f32828697"),
    Town("selection", 201, 12, "7836ccd2ee15b888919ac0a47465645ee39f6b68e1495f8d6d0bf773b9712ca6"),
    Town("selection", 202, 12, "da1e2280c968733cb837add4e926beaaae6ed83554721123c55460527cc3d007"),
    Town("test", 301, 15, "30a5d49480a375ced1d6a7329fc16c3d3e3c5a1d7657491ef755bd8397cac6e7"),
    Town("test", 302, 15, "bebb32976c80d38e0099e2da9291f773b3d2868b046980f87643884fee90d185"),
    Town("test", 303, 15, "36a17ed5c5061f0b5ed06f77c74370c0e635de4d3aed6e7b69d56b3877757d69"),
    Town("test", 304, 15, "a03f48d9a4564e0e45faeea436f35d8115c078cac178e931a0a0b63acb2691da"),
)
SIZE: dict[str, float] = {}
"""Further arguments of ``make_city``."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Generate the towns, train and score what is missing, and write the table."""
    parser = argparse.ArgumentParser(description="The table of docs/results/training.md.")
    parser.add_argument("--workflow", action="append", choices=WORKFLOWS, help="may be given several times; all")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each workflow")
    parser.add_argument("--rate-factors", type=float, nargs="+", default=[1.0, 2.0], help="learning rates to choose of")
    parser.add_argument("--steps-factor", type=float, default=1.0, help="part of the configured steps that is trained")
    parser.add_argument("--samples", type=int, default=640, help="samples of each test town")
    parser.add_argument("--work", type=Path, default=Path("training-table"), help="folder of towns and trainings")
    parser.add_argument("--results", type=Path, help="folder of what runs have measured; WORK/results")
    parser.add_argument("--only-table", action="store_true", help="train nothing: the table of what is there")
    parser.add_argument("--other-towns", action="store_true", help="take towns whose digest is not the pinned one")
    parser.add_argument("--document", type=Path, help="file whose table is replaced; that of the docs for all")
    options = parser.parse_args(arguments)
    options.results = options.results or options.work / "results"
    if not options.only_table:
        train_all(options)
    lines = table_of(options.results)
    print("\n".join(lines))
    is_whole = options.workflow is None and options.steps_factor == 1.0 and not options.other_towns
    document = options.document or (DOCUMENT if is_whole else None)
    if document is not None:
        replace_table(document, ["", *lines, ""])


def train_all(options: argparse.Namespace) -> None:
    """Generate the towns, and run what is missing of each workflow."""
    digests = make_towns(options.work / "towns", other_towns=options.other_towns)
    for workflow in options.workflow or WORKFLOWS:
        chosen = min(options.rate_factors, key=lambda factor: run(workflow, 0, factor, digests, options)["selection_m"])
        for seed in range(options.seeds):
            run(workflow, seed, chosen, digests, options)
        mark_chosen(workflow, chosen, options)


def table_of(results: Path) -> list[str]:
    """Return the lines of the table.

    Raises:
        SystemExit: There are no runs, or they are of different towns.
    """
    rows = [row for row in read_rows(results) if row["is_chosen"]]
    towns = {json.dumps(row["facts"]["towns"]) for row in rows}
    if len(towns) != 1:
        raise SystemExit(f"{results} must hold runs over the same towns, and has some of {len(towns)} sets of towns")
    digests: dict[str, str] = json.loads(towns.pop())
    lines = [f"Towns: {', '.join(f'`{name}` {digest[:12]}' for name, digest in digests.items())}."]
    factors = {row["steps_factor"] for row in rows}
    if factors != {1.0}:
        lines.append(f"A quick table: {', '.join(f'{factor:g}' for factor in factors)} of the configured steps.")
    lines.append(f"Trained on {' and '.join(sorted({row['hardware'] for row in rows}))}.")
    return [*lines, *make_tables(rows)]


def make_towns(folder: Path, *, other_towns: bool) -> dict[str, str]:
    """Generate missing towns, and return all digests.

    Raises:
        SystemExit: A digest differs from the pinned one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    digests = {}
    for town in TOWNS:
        place = folder / town.name
        if not place.exists():
            make_city(place, seed=town.seed, num_scenes=town.num_scenes, **SIZE)
        digests[town.name] = digest = town_digest(place)
        if digest != town.digest:
            told = f"{place} has the digest {digest}, not {town.digest}, which the scores of the docs are of"
            if not other_towns:
                raise SystemExit(
                    f"{told}: l5kit.synthetic has changed, or processor and libraries round otherwise (the last bits "
                    "differ without AVX-512). Remove it if it is old; --other-towns takes it as it is"
                )
            print(f"warning: {told}", flush=True)
    return digests


def town_digest(town: Path) -> str:
    """Return one SHA-256 of the log and the map of a town."""
    parts = (dataset_digest(town / KEY), dataset_digest(town / "semantic_map"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def run(workflow: str, seed: int, factor: float, digests: dict[str, str], options: argparse.Namespace) -> JsonObject:
    """Train and score once, or return the stored result.

    Raises:
        SystemExit: The stored result is of another configuration, or of other towns.
    """
    name = f"{workflow}-{seed}" + (f"-rate-{factor:g}" if factor != 1.0 else "")
    file = options.results / f"{name}.json"
    cfg = configuration_of(workflow, seed, factor, options.steps_factor)
    facts = {"configuration": cfg, "towns": digests, "samples": options.samples}
    if file.is_file():
        kept: JsonObject = json.loads(file.read_text("utf-8"))
        if kept["facts"] != json.loads(json.dumps(facts)):
            raise SystemExit(f"{file} is of another configuration or of other towns; name another --work, or remove it")
        return kept
    folder = options.work / "trainings" / name
    towns = options.work / "towns"
    trained = train(cfg, folder, data_folder=towns, resume=(folder / "config.yaml").is_file())
    weights = trained.best_weights or trained.weights
    parts = [
        score_town(weights, cfg, towns / town.name, key=KEY, max_samples=options.samples)
        for town in TOWNS
        if town.part == "test"
    ]
    scenes = parts[0]
    for part in parts[1:]:
        scenes = scenes.followed_by(part)
    params = TrainingConfig.from_cfg(cfg).params
    horizon_s = params.future_num_frames * params.step_time_s
    row = {
        "workflow": workflow,
        "seed": seed,
        "rate_factor": factor,
        "steps_factor": options.steps_factor,
        "hardware": describe_machine().hardware,
        "is_chosen": False,
        "horizon_s": horizon_s,
        "num_modes": num_modes_of(cfg),
        "selection_m": trained.best_score or trained.scores[f"val/ade_m/{horizon_s:g}s"],
        "steps": trained.num_steps,
        "best_step": trained.best_step,
        "minutes": trained.minutes,
        "scenes": scenes.as_dict(),
        "facts": facts,
    }
    write_row(file, row)
    return row


def configuration_of(workflow: str, seed: int, factor: float, steps_factor: float) -> JsonObject:
    """Return the small configuration of a workflow for the towns."""
    cfg: JsonObject = copy.deepcopy(dict(load_training_config(workflow)))
    for loader, part in (("train_data_loader", "train"), ("val_data_loader", "selection")):
        cfg[loader] |= {"key": KEY, "folders": [town.name for town in TOWNS if town.part == part]}
    params = cfg["train_params"]
    params |= {"seed": seed, "accelerator": "cpu", "learning_rate": params["learning_rate"] * factor}
    if steps_factor != 1.0:
        for name in ("max_num_steps", "eval_every_n_steps", "checkpoint_every_n_steps", "warmup_num_steps"):
            if params.get(name):
                params[name] = max(1, round(params[name] * steps_factor))
    return cfg


def num_modes_of(cfg: JsonObject) -> int | None:
    """Return the number of predicted trajectories of a network, from its configuration."""
    model = cfg["model_params"]
    names = ("num_modes", "agent_num_trajectories", "num_rollouts")
    return next((model[name] for name in names if name in model), None)


def mark_chosen(workflow: str, factor: float, options: argparse.Namespace) -> None:
    """Mark which results of a workflow are in the table."""
    for file in sorted(options.results.glob(f"{workflow}-[0-9]*.json")):
        row = json.loads(file.read_text("utf-8"))
        write_row(file, {**row, "is_chosen": row["rate_factor"] == factor and row["seed"] < options.seeds})


def write_row(file: Path, row: JsonObject) -> None:
    """Write the results of a run atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replaced_when_complete(file, argument="work") as temporary:
        temporary.write_text(json.dumps(row) + "\n", encoding="utf-8")


def read_rows(folder: Path) -> list[JsonObject]:
    """Return the stored results, ordered by workflow and seed."""
    rows = [json.loads(file.read_text("utf-8")) for file in folder.glob("*.json")]
    return sorted(rows, key=lambda row: (WORKFLOWS.index(row["workflow"]), row["seed"]))


def replace_table(document: Path, table: list[str], *, start: str = START) -> None:
    """Write the table between its markers in a document."""
    text = document.read_text("utf-8")
    before, _, rest = text.partition(start)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{document} has no lines {start!r} and {END!r} to put the table between")
    document.write_text(f"{before}{start}\n" + "\n".join(table) + f"\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
