"""Train Urban Driver, a planner on vectors, and let it drive among replayed and among reactive agents.

Run ``python examples/closed_loop_urban_driver.py`` with a synthetic city, or with ``--data FOLDER`` for your own data.
Use ``--network out/training-1`` for a planner that you trained with ``urban_driver.py`` or ``l5kit train``.
"""

import closed_loop
import common

from l5kit.simulation.dataset import SimulationConfig
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_simulation import AgentSeat

NUM_STEPS = 100


def main() -> None:
    """Train a planner and let it drive."""
    options = closed_loop.make_parser("Train Urban Driver and let it drive.").parse_args()
    cfg, weights, data_folder = closed_loop.get_network("urban_driver", options, num_steps=NUM_STEPS)

    # The simulator of 1.5 takes the first step of a plan in 0.1 s whatever its time step. This suits the full-size
    # configuration, but not the small one, whose steps are 0.2 s long.
    if cfg["model_params"].get("future_step_size", 1) == 1:
        network, samples = common.load_trained(cfg, weights, data_folder)
        sim_cfg = SimulationConfig(
            use_agents_gt=True,
            disable_new_agents=True,
            distance_th_far=500.0,
            distance_th_close=50.0,
            num_simulation_steps=options.frames,
            show_info=True,
        )
        outputs = closed_loop.unroll(
            samples, sim_cfg, closed_loop.chosen_scenes(samples.dataset, options), model_ego=network
        )
        closed_loop.print_failures({"Urban Driver": outputs})
        closed_loop.write_page(options.out / "closed-loop-urban-driver.html", outputs[0], cfg, data_folder)

    # The engine of l5kit respects the times of plans. Replayed agents do not react to an AV that has left its logged
    # position; agents driven by IDM do, along the lanes of the map.
    planners = {
        "Urban Driver": closed_loop.get_driver(weights, cfg, data_folder),
        "constant-velocity": "constant-velocity",
    }
    rules = IntelligentDriver()
    traffic = {
        "replayed": "replay",
        "that react": AgentSeat(rules, control=AgentControl.of_traffic(tracks=rules.tracks)),
    }
    log = data_folder / cfg["val_data_loader"]["key"]
    for name, agents in traffic.items():
        folder = options.out / "urban-driver" / name.replace(" ", "-")
        print(f"\namong agents {name}, in {folder}")
        closed_loop.print_scores(closed_loop.drive_scenes(planners, log, folder, options, agents=agents))


if __name__ == "__main__":
    main()
