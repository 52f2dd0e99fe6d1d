"""Train Urban Driver, a planner on vectors that is unrolled in closed loop during training, and test it.

Run ``python examples/urban_driver.py`` with a synthetic city, which takes a few minutes, or with ``--data FOLDER`` for
your own data and a full-size network. ``--open-loop`` trains the planner that predicts all steps at once instead. Each
run trains a new network in a new folder (``training-1``, ...) and replaces ``urban-driver.png``.
"""

import common
from open_loop import test_open_loop

from l5kit.training import train
from l5kit.visualization import write_png

NUM_STEPS = {"urban_driver": 250, "vector_planner": 1000}


def main() -> None:
    """Train a planner and test it."""
    parser = common.make_parser("Train Urban Driver and test it open loop.", out="urban-driver-out")
    parser.add_argument("--open-loop", action="store_true", help="train the planner without unrolling")
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
