"""Train a raster planner and test it in closed loop, both as L5Kit 1.5 did and with the nuPlan score.

Run ``python examples/closed_loop_planning.py`` with a synthetic city, or with ``--data FOLDER`` for your own data. Use
``--network out/training-1`` for a planner that you trained with ``planning.py`` or ``l5kit train``.
"""

import closed_loop
import common

from l5kit.simulation.dataset import SimulationConfig
from l5kit.simulation.drivers.intelligent import IntelligentDriver

NUM_STEPS = 150


def main() -> None:
    """Train a planner and let it drive."""
    options = closed_loop.make_parser("Train a planner and let it drive.").parse_args()
    cfg, weights, data_folder = closed_loop.get_network("raster_planner", options, num_steps=NUM_STEPS)

    # The interface of 1.5, for existing scripts: the AV moves exactly as the network predicts, and agents that are far
    # from the AV in the first frame are hidden. That frame has no past, so networks that infer the speed of the AV from
    # its past, such as this small one, believe it stands still. They hardly start and fail by distance from the log.
    network, samples = common.load_trained(cfg, weights, data_folder)
    sim_cfg = SimulationConfig(
        use_ego_gt=False,
        use_agents_gt=True,
        disable_new_agents=True,
        distance_th_far=500.0,
        distance_th_close=50.0,
        start_frame_index=0,
        num_simulation_steps=options.frames,
        show_info=True,
    )
    scenes = closed_loop.chosen_scenes(samples.dataset, options)
    outputs = closed_loop.unroll(samples, sim_cfg, scenes, model_ego=network)
    print("with the interface of L5Kit 1.5")
    closed_loop.print_failures({"planner": outputs})
    closed_loop.write_page(options.out / "closed-loop-planning.html", outputs[0], cfg, data_folder)

    # The engine of l5kit is preferable unless you need the numbers of 1.5: all agents are present, the AV has a past, a
    # vehicle model follows the plans, and a score ranks the planners.
    planners = {
        "planner": closed_loop.get_driver(weights, cfg, data_folder),
        "replay": "replay",
        "constant-velocity": "constant-velocity",
        "idm": IntelligentDriver(),
    }
    log = data_folder / cfg["val_data_loader"]["key"]
    results = closed_loop.drive_scenes(planners, log, options.out / "planning", options)
    print("\nnuPlan scores")
    closed_loop.print_scores(results)
    print(f"watch it with: l5kit view {options.out / 'planning' / 'planner'}")


if __name__ == "__main__":
    main()
