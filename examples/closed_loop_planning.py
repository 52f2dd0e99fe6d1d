"""Train a planner that looks at rasters, and let it drive: as L5Kit 1.5 tested it, and with the scores of nuPlan.

Run ``python examples/closed_loop_planning.py`` for a made city, with ``--data FOLDER`` for data of your own, and with
``--network out/training-1`` for a planner that ``planning.py`` or ``l5kit train`` has trained.
"""

import closed_loop
import common

from l5kit.simulation.dataset import SimulationConfig
from l5kit.simulation.drivers.intelligent import IntelligentDriver

NUM_STEPS = 150


def main() -> None:
    """Train and drive."""
    options = closed_loop.make_parser("Train a planner and let it drive.").parse_args()
    cfg, weights, data_folder = closed_loop.get_network("raster_planner", options, num_steps=NUM_STEPS)

    # The interface of 1.5, for scripts that have it: each step of the network is met exactly, and agents that are not
    # near the AV in the first frame are hidden. There is no past in that frame: networks that read from it how fast
    # the AV is, as the small one does, take it to stand, and hardly start. They fail by their distance from the log.
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
    print("as L5Kit 1.5 tests it")
    closed_loop.print_failures({"planner": outputs})
    closed_loop.write_page(options.out / "closed-loop-planning.html", outputs[0], cfg, data_folder)

    # The engine of l5kit is the better way where the numbers need not be those of 1.5: everybody is there, the AV has
    # a past, a vehicle follows the plans, and planners are told apart by a score.
    planners = {
        "planner": closed_loop.get_driver(weights, cfg, data_folder),
        "replay": "replay",
        "constant-velocity": "constant-velocity",
        "idm": IntelligentDriver(),
    }
    log = data_folder / cfg["val_data_loader"]["key"]
    results = closed_loop.drive_scenes(planners, log, options.out / "planning", options)
    print("\nthe scores of nuPlan")
    closed_loop.print_scores(results)
    print(f"watch it with: l5kit view {options.out / 'planning' / 'planner'}")


if __name__ == "__main__":
    main()
