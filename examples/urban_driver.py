"""Train Urban Driver, a planner that looks at vectors and is unrolled in closed loop while it learns, and test it.

Run ``python examples/urban_driver.py`` for a made city, which takes some minutes, and with ``--data FOLDER`` for data
of your own and a network of full size. With ``--open-loop`` the planner is trained that predicts all steps at once.
Each run trains anew, in a folder of its own (``training-1``, ...); ``urban-driver.png`` is that of the last one.
"""

import common
from open_loop import test_open_loop

from l5kit.training import train
from l5kit.visualization import write_png

NUM_STEPS = {"urban_driver": 250, "vector_planner": 1000}


def main() -> None:
    """Train and test."""
    parser = common.make_parser("Train Urban Driver and test it open loop.", out="urban-driver-out")
    parser.add_argument("--open-loop", action="store_true", help="train the planner that is not unrolled")
    options = parser.parse_args()
    workflow = "vector_planner" if options.open_loop else "urban_driver"
    cfg, data_folder = common.set_up(workflow, options, num_steps=NUM_STEPS[workflow])
    result = train(cfg, common.new_folder(options.out), data_folder=data_folder)

    planner, samples = common.load_trained(cfg, result.weights, data_folder)
    picture = options.out / f"{workflow.replace('_', '-')}.png"
    write_png(picture, test_open_loop(planner, samples, cfg, data_folder))
    print(f"weights in {result.weights}, pictures in {picture}")


if __name__ == "__main__":
    main()
