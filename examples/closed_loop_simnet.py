"""Train SimNet, which drives other agents; measure how realistic they are and how they affect a planner.

Run ``python examples/closed_loop_simnet.py`` with a synthetic city, or with ``--data FOLDER`` for your own data. Use
``--network out/training-1`` for a SimNet that you trained before, and ``--planner out/training-2`` for a network that
drives the AV in place of the intelligent driver model.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import closed_loop
import common
import numpy as np

from l5kit.data import ChunkedDataset, LocalDataManager, MapAPI
from l5kit.data.scene_records import SceneRecords
from l5kit.dataset import EgoDataset
from l5kit.evaluation.realism import RealismReport, compare_traffic, find_road_edges
from l5kit.rasterization import build_rasterizer
from l5kit.simulation.dataset import SimulationConfig
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.drivers.simple import ConstantVelocity
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, SceneSimulation
from l5kit.simulation.unroll import SimulationOutput
from l5kit.workflows.trained_network import configuration_of

NUM_STEPS = 150


def main() -> None:
    """Train SimNet, let it drive, and compare it with other traffic."""
    parser = closed_loop.make_parser("Train SimNet and let it drive the agents.")
    parser.add_argument("--planner", type=Path, help="trained network that drives the AV; default: IDM")
    options = parser.parse_args()
    cfg, weights, data_folder = closed_loop.get_network("simnet", options, num_steps=NUM_STEPS)
    log = closed_loop.open_log(cfg, data_folder)
    scenes = closed_loop.chosen_scenes(log, options)

    # The interface of 1.5: SimNet drives the cars near a replayed AV. Measure how far each of them is from its log.
    network, _ = common.load_trained(cfg, weights, data_folder)
    samples = EgoDataset(cfg, log, build_rasterizer(cfg, LocalDataManager(data_folder)))
    sim_cfg = SimulationConfig(
        use_ego_gt=True,
        use_agents_gt=False,
        disable_new_agents=True,
        distance_th_far=500.0,
        distance_th_close=50.0,
        num_simulation_steps=options.frames,
        show_info=True,
    )
    outputs = closed_loop.unroll(samples, sim_cfg, scenes, model_agents=network)
    print_errors(outputs)
    closed_loop.write_page(options.out / "closed-loop-simnet.html", outputs[0], cfg, data_folder)

    # The engine of l5kit: SimNet drives all vehicles, from their logged poses and speeds. Another path than the logged
    # one can be just as realistic, so compare distributions of how agents drive, not their positions.
    road = RoadMap(MapAPI.from_cfg(LocalDataManager(data_folder), cfg))
    rules = IntelligentDriver()
    traffic = {
        "SimNet": AgentSeat(
            closed_loop.get_driver(weights, cfg, data_folder, whom="agents"), control=AgentControl.of_traffic()
        ),
        "constant-velocity": AgentSeat(ConstantVelocity(), control=AgentControl.of_traffic()),
        "idm": AgentSeat(rules, control=AgentControl.of_traffic(tracks=rules.tracks)),
    }
    batch = make_batch(log, scenes, road, num_frames=options.frames)
    print_realism(measure_realism(batch, traffic))

    # The effect on a planner: the same scenes with replayed agents and with agents driven by SimNet.
    planner = IntelligentDriver()
    if options.planner is not None:
        planner = closed_loop.get_driver(options.planner, configuration_of(options.planner), data_folder, whom="ego")
    path = data_folder / cfg["val_data_loader"]["key"]
    results = {}
    for name, agents in {"replayed": "replay", "SimNet": traffic["SimNet"]}.items():
        folder = options.out / "simnet" / name.lower()
        results |= closed_loop.drive_scenes({f"among {name}": planner}, path, folder, options, agents=agents)
    print("\nscores of the planner by traffic")
    closed_loop.print_scores(results)


def print_errors(outputs: Sequence[SimulationOutput]) -> None:
    """Print the mean distance of agents from their logged next position, for every tenth of the steps."""
    num_frames = len(outputs[0].simulated_ego)
    errors_m: list[list[float]] = [[] for _ in range(num_frames)]
    for output in outputs:
        for errors_of_frame, agents in zip(errors_m, output.agents_ins_outs, strict=True):
            for agent in agents:
                if agent.inputs["target_availabilities"][0] > 0:
                    offset_m = agent.outputs["positions"][0] - agent.inputs["target_positions"][0]
                    errors_of_frame.append(float(np.linalg.norm(offset_m)))
    print("with the interface of L5Kit 1.5\nstep    agents  off the log")
    for step in range(0, num_frames, max(1, num_frames // 10)):
        if errors_m[step]:
            print(f"{step:>4}{len(errors_m[step]):>10}{np.mean(errors_m[step]):>11.2f} m")


def make_batch(log: ChunkedDataset, scenes: Sequence[int], road: RoadMap, *, num_frames: int) -> SceneBatch:
    """Return scenes of a log as a batch for the engine."""
    records = [SceneRecords.of_scene_dataset(log.get_scene_dataset(scene)) for scene in scenes]
    start = closed_loop.START_FRAME
    return SceneBatch.of_scenes(
        records, scene_indices=scenes, start=start, num_frames=num_frames, facts=log.facts, road=road
    )


def measure_realism(batch: SceneBatch, traffic: Mapping[str, AgentSeat]) -> dict[str, RealismReport]:
    """Return the realism of each kind of traffic, compared by the agents that the first kind has driven."""
    reports: dict[str, RealismReport] = {}
    edges, driven_tracks = find_road_edges(batch.road.driving), None
    for name, seat in traffic.items():
        driven = SceneSimulation(batch, agents=seat, strict=True).run()
        if driven_tracks is None:
            bounds = zip(batch.tracks.starts, batch.tracks.starts[1:], strict=False)
            driven_tracks = [batch.tracks.track_ids[a:b][driven.was_driven[a:b]] for a, b in bounds]
        simulated = [driven.arrays(scene) for scene in range(len(batch))]
        reports[name] = compare_traffic(simulated, batch.arrays, driven_tracks=driven_tracks, driving_map=edges)
    return reports


def print_realism(reports: Mapping[str, RealismReport]) -> None:
    """Print Wasserstein distances to the distributions of the log, with confidence intervals, and rates of events."""
    distances, rates = {}, {}
    for name, report in reports.items():
        by_row = {f"{each.name} ({each.unit})": each.wasserstein for each in report.features}
        distances[name] = {row: f"{each.value:.2f} [{each.low:.2f},{each.high:.2f}]" for row, each in by_row.items()}
        rates[name] = {rate.name: f"{rate.simulated.value:.1%}" for rate in report.rates}
    logged = {rate.name: f"{rate.logged.value:.1%}" for rate in next(iter(reports.values())).rates}
    closed_loop.print_columns("distance from the log", distances)
    closed_loop.print_columns("how often", {"log": logged, **rates})


if __name__ == "__main__":
    main()
