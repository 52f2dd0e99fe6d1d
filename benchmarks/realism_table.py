"""Realism of agents: how models drive compared with logged agents, in a held-out synthetic city.

Run ``python benchmarks/realism_table.py --planners FOLDER`` with the training folder of ``closed_loop_table.py``. Each
``simnet-SEED`` and ``motion_tokens-SEED`` in it, then IDM and constant velocity, drive all vehicles that follow lanes,
while the AV is replayed. Writes the table of docs/results/realism.md.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean

from closed_loop_table import START_FRAME, UNSEEN
from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.realism import RealismReport, compare_traffic, find_road_edges
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.drivers.simple import ConstantVelocity
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, SceneSimulation
from l5kit.simulation.engine.traffic_state import Driver
from l5kit.synthetic import make_city
from l5kit.workflows.drivers import load_driver
from training_table import replace_table

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "results" / "realism.md"
START = "<!-- table: made by benchmarks/realism_table.py -->"


def main() -> None:
    """Drive, compare and write the table."""
    parser = argparse.ArgumentParser(description="The table of docs/results/realism.md.")
    parser.add_argument("--work", type=Path, default=Path("closed-loop-table"), help="folder of the made city")
    parser.add_argument("--planners", type=Path, required=True, help="folder of trainings of SimNet")
    parser.add_argument("--scenes", type=int, default=12, help="scenes that are driven")
    parser.add_argument("--frames", type=int, default=150, help="frames of each")
    parser.add_argument("--document", type=Path, default=DOCUMENT, help="file whose table is replaced")
    options = parser.parse_args()
    city = options.work / "unseen"
    if not city.exists():
        make_city(city, **UNSEEN)
    batch = read_batch(city, num_scenes=options.scenes, num_frames=options.frames)
    rules = IntelligentDriver()
    networks, tokens = (
        sorted(path.parent for path in options.planners.glob(f"{workflow}-*/result.json"))
        for workflow in ("simnet", "motion_tokens")
    )
    kinds: dict[str, list[Driver]] = {
        "SimNet": [load_driver(path, data_folder=city, whom="agents") for path in networks],
        "motion tokens": [load_driver(path, data_folder=city, whom="agents") for path in tokens],
        "idm": [rules],
        "constant-velocity": [ConstantVelocity()],
    }
    reports = {
        kind: [measure(batch, driver, rules) for driver in drivers] for kind, drivers in kinds.items() if drivers
    }
    lines = [
        f"{options.scenes} scenes of {options.frames} frames; `SimNet` is the mean of {len(networks)} trainings, "
        f"`motion tokens` that of {len(tokens)}.",
        "",
    ]
    lines += make_table(reports)
    print("\n".join(lines))
    replace_table(options.document, [*lines, ""], start=START)


def read_batch(city: Path, *, num_scenes: int, num_frames: int) -> SceneBatch:
    """Return the first scenes of a city as a batch of the engine."""
    files = find_dataset_files(city)
    log = ChunkedDataset(str(files.dataset)).open()
    scenes = [SceneRecords.read(log, scene) for scene in range(num_scenes)]
    road = RoadMap(open_map(files))
    return SceneBatch.of_scenes(scenes, start=START_FRAME, num_frames=num_frames, facts=log.facts, road=road)


def measure(batch: SceneBatch, driver: Driver, rules: IntelligentDriver) -> RealismReport:
    """Return the realism of vehicles that follow lanes under some driver."""
    control = AgentControl.of_traffic(tracks=rules.tracks)
    control = replace(control, near_m=min(control.near_m, getattr(driver, "reach_m", control.near_m)))
    driven = SceneSimulation(batch, agents=AgentSeat(driver, control=control), strict=True).run()
    bounds = zip(batch.tracks.starts, batch.tracks.starts[1:], strict=False)
    tracks = [batch.tracks.track_ids[a:b][driven.was_driven[a:b]] for a, b in bounds]
    simulated = [driven.arrays(scene) for scene in range(len(batch))]
    edges = find_road_edges(batch.road.driving)
    return compare_traffic(simulated, batch.arrays, driven_tracks=tracks, driving_map=edges)


def make_table(reports: Mapping[str, list[RealismReport]]) -> list[str]:
    """Return the lines of two tables: distances of features, and rates."""
    first = next(iter(reports.values()))[0]
    lines = [
        f"| from the log, `replay` is 0 | {' | '.join(f'`{kind}`' for kind in reports)} |",
        "|---" * (len(reports) + 1) + "|",
    ]
    for place, feature in enumerate(first.features):
        cells = [feature_cell([report.features[place] for report in each]) for each in reports.values()]
        lines.append(f"| `{feature.name}` | {' | '.join(cells)} |")
    lines += [
        "",
        f"| how often | log | {' | '.join(f'`{kind}`' for kind in reports)} |",
        "|---" * (len(reports) + 2) + "|",
    ]
    for place, rate in enumerate(first.rates):
        shares = [mean(report.rates[place].simulated.value for report in each) for each in reports.values()]
        lines.append(f"| `{rate.name}` | {rate.logged.value:.1%} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    return lines


def feature_cell(features: list) -> str:
    """Return both distances, the second with its interval if it is of a single run."""
    divergence = mean(each.jensen_shannon.value for each in features)
    distance = mean(each.wasserstein.value for each in features)
    cell = f"{divergence:.2f}, {distance:.2f} {features[0].unit}".strip()
    if len(features) == 1:
        cell += f" ({features[0].wasserstein.low:.2f} to {features[0].wasserstein.high:.2f})"
    return cell


if __name__ == "__main__":
    main()
