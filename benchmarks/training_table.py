"""Train the small configuration of each workflow on a made city, over several seeds, and write the table of scores.

Run ``python benchmarks/training_table.py`` for all of docs/training.md (about two hours), or part of it:
``--workflow safepathnet --seeds 1``. Every training is added to ``--results`` when it ends, one JSON object a line, and
the table is made anew of all lines of that file, so that a run may be stopped and gone on with.
"""

import argparse
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.configs.training import WORKFLOWS
from l5kit.synthetic import make_city
from l5kit.training import train

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "training.md"
START, END = "<!-- table: made by benchmarks/training_table.py -->", "<!-- end of table -->"
CITY = {"seed": 11, "num_train_scenes": 100, "num_scenes": 12}
HEADER = (
    "| workflow | horizon | ADE | constant velocity | CTRA | FDE | constant velocity | CTRA | seeds | least minutes |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def main() -> None:
    """Train what is asked for and write the table."""
    parser = argparse.ArgumentParser(description="The table of docs/training.md.")
    parser.add_argument("--workflow", action="append", choices=WORKFLOWS, help="may be given several times; all")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each workflow")
    parser.add_argument("--work", type=Path, default=Path("training-table"), help="folder for city and trainings")
    parser.add_argument("--results", type=Path, help="file of the scores; WORK/results.jsonl")
    parser.add_argument("--document", type=Path, default=DOCUMENT, help="file whose table is replaced")
    options = parser.parse_args()
    results = options.results or options.work / "results.jsonl"
    options.work.mkdir(parents=True, exist_ok=True)
    city = options.work / "city"
    if not city.exists():
        make_city(city, **CITY)
    done = {(row["workflow"], row["seed"]) for row in read_rows(results)}
    for workflow in options.workflow or WORKFLOWS:
        for seed in range(options.seeds):
            if (workflow, seed) not in done:
                row = train_once(workflow, seed, city, options.work / f"{workflow}-{seed}")
                with open(results, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    table = make_table(read_rows(results))
    print("\n".join(table))
    replace_table(options.document, table)


def train_once(workflow: str, seed: int, city: Path, folder: Path, *, changes: Sequence[str] = ()) -> dict:
    """Train one seed of a workflow, or go on with it, and return its scores at the longest horizon."""
    always = (f"train_params.seed={seed}", "train_params.accelerator=cpu")
    cfg = with_overrides(load_training_config(workflow), [*always, *changes])
    result = train(cfg, folder, data_folder=city, resume=(folder / "last.ckpt").is_file())
    (horizon,) = {name.rpartition("/")[2] for name in result.scores}
    return {
        "workflow": workflow,
        "seed": seed,
        "horizon": horizon,
        "minutes": result.minutes,
        "steps": result.num_steps,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        **{name.rpartition("/")[0]: value for name, value in result.scores.items()},
    }


def read_rows(results: Path) -> list[dict]:
    """Return what was measured so far."""
    return [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.is_file() else []


def make_table(rows: list[dict]) -> list[str]:
    """Return the lines of the table: means over seeds, the worst ADE, the least minutes."""
    lines = list(HEADER)
    for workflow in WORKFLOWS:
        of_workflow = [row for row in rows if row["workflow"] == workflow]
        if of_workflow:
            lines.append(table_line(workflow, of_workflow))
    return lines


def table_line(workflow: str, rows: list[dict]) -> str:
    """Return the line of a workflow."""
    who = ("val", "constant_velocity", "ctra")
    ade_m, fde_m = ([mean(row[f"{name}/{error}"] for row in rows) for name in who] for error in ("ade_m", "fde_m"))
    worst = max(row["val/ade_m"] for row in rows)
    cells = (
        f"`{workflow}`",
        rows[0]["horizon"].replace("s", " s"),
        f"{ade_m[0]:.2f} m" + (f" (worst {worst:.2f})" if len(rows) > 1 else ""),
        *(f"{error_m:.2f} m" for error_m in (*ade_m[1:], *fde_m)),
        str(len(rows)),
        f"{min(row['minutes'] for row in rows):.1f}",
    )
    return f"| {' | '.join(cells)} |"


def replace_table(document: Path, table: list[str], *, start: str = START) -> None:
    """Write the table between its marks in a document."""
    text = document.read_text("utf-8")
    before, _, rest = text.partition(start)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{document} has no lines {start!r} and {END!r} to put the table between")
    document.write_text(f"{before}{start}\n" + "\n".join(table) + f"\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
