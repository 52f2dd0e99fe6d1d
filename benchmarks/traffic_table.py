"""Scores of all shipped planners in every population of traffic, for docs/results/traffic.md.

Run ``python benchmarks/traffic_table.py``. Scenes are those of docs/results/closed_loop.md: a synthetic city that was
not used for training or tuning. Scores are stored in ``benchmarks/traffic_results.json``, run by run, so a stopped run
resumes and a planner or population can be added later.
"""

import argparse
import json
from pathlib import Path

from closed_loop_table import START_FRAME, UNSEEN
from l5kit._types import JsonObject
from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.synthetic import make_city
from training_table import replace_table

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT, RESULTS = ROOT / "docs" / "results" / "traffic.md", Path(__file__).with_name("traffic_results.json")
START = "<!-- table: made by benchmarks/traffic_table.py -->"

PLANNERS = {
    "log": ("replay", None, None),
    "idm": ("idm", None, None),
    "constant-velocity": ("constant-velocity", None, None),
    "route_policy": ("route_policy", None, None),
    "rules": ("rules", None, None),
    "route_planner": ("route_planner", None, None),
    "route_policy, fallback": ("route_policy", None, "rules"),
    "route_planner, fallback": ("route_planner", None, "rules"),
}
"""Drivers of the AV: planner, moves and fallback."""

MIX = "yielding=0.5,cautious=0.25,assertive=0.25"
POPULATIONS = ("replay", "idm", "yielding", "cautious", "assertive", "changing", MIX, "route_policy")
NUM_SCENES = 12


def main() -> None:
    """Simulate what is missing, and write results and table."""
    parser = argparse.ArgumentParser(description="The table of docs/results/traffic.md.")
    parser.add_argument("--work", type=Path, default=Path("traffic-table"), help="folder of the city and simulations")
    parser.add_argument("--scenes", type=int, default=NUM_SCENES, help="scenes of the city that are driven, the first")
    parser.add_argument("--workers", type=int, default=1, help="threads that simulate")
    parser.add_argument("--only", action="append", choices=PLANNERS, help="may be given several times; all planners")
    parser.add_argument("--agents", action="append", choices=POPULATIONS, help="may be given several times; all")
    parser.add_argument("--no-drives", action="store_true", help="write the table of the results that there are")
    options = parser.parse_args()
    results = read_results()
    if not options.no_drives:
        city = options.work / "city"
        if not city.exists():
            make_city(city, **UNSEEN)
        for planner in options.only or PLANNERS:
            for agents in options.agents or POPULATIONS:
                key = f"{planner} among {agents}"
                if results.get(key, {}).get("scenes") != options.scenes:
                    row = drive(planner, agents, city, options)
                    results = read_results() | {key: row}  # other processes may have added results meanwhile
                    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", "utf-8")
    lines = make_table(results)
    print("\n".join(lines))
    replace_table(DOCUMENT, [*lines, ""], start=START)


def read_results() -> dict[str, JsonObject]:
    """Return the stored results, by planner and population."""
    results: dict[str, JsonObject] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    return results


def drive(planner: str, agents: str, city: Path, options: argparse.Namespace) -> JsonObject:
    """Simulate the scenes, and return the scores for the table."""
    name, moves, fallback = PLANNERS[planner]
    folder = options.work / f"{planner}-{agents}".replace(", ", "-").replace("=", "-").replace(",", "-")
    result = simulate(
        city,
        folder,
        planner=name,
        agents=agents,
        fallback=fallback,
        options=ClosedLoopOptions(
            scenes=slice(options.scenes),
            start_frame=START_FRAME,
            moves=moves,
            keeps_plans=False,
            workers=options.workers,
            overwrite=True,
            show_bar=False,
        ),
    )
    print(f"{planner} among {agents}: {result.score}", flush=True)
    return {
        "scenes": result.num_scenes,
        "failed": len(result.failed),
        "score": result.score,
        "metrics": result.metrics,
        "scenes_failing": result.scores["scenes_failing"],
    }


def make_table(results: dict[str, JsonObject]) -> list[str]:
    """Return the lines of the table: a score for each planner and population, and scenes with a collision at fault."""
    populations = [name for name in POPULATIONS if any(f"{planner} among {name}" in results for planner in PLANNERS)]
    titles = ["a mix" if name == MIX else f"`{name}`" for name in populations]
    lines = ["| planner | " + " | ".join(titles) + " |", "|---" * (1 + len(populations)) + "|"]
    for planner in PLANNERS:
        rows = [results.get(f"{planner} among {agents}") for agents in populations]
        if any(row is not None for row in rows):
            lines.append("| " + " | ".join([f"`{planner}`", *map(_cell, rows)]) + " |")
    return lines


def _cell(row: JsonObject | None) -> str:
    """Return a score and, in brackets, the number of scenes with a collision at fault."""
    if row is None:
        return ""
    failed = f", {row['failed']} failed" if row["failed"] else ""
    return f"{row['score']:.2f} ({row['scenes_failing']['no_at_fault_collisions']}{failed})"


if __name__ == "__main__":
    main()
