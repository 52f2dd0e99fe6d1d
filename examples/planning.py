"""Train a raster planner, and test it in open loop against kinematic baselines.

Run ``python examples/planning.py`` with a synthetic city, which takes a few minutes, or with ``--data FOLDER`` for your
own data and a full-size network. Each run trains a new network in a new folder (``training-1``, ...) and replaces
``planning.png``.
"""

import common
from open_loop import test_open_loop

from l5kit.training import train
from l5kit.visualization import write_png

NUM_STEPS = 500


def main() -> None:
    """Train a planner and test it."""
    options = common.make_parser("Train a planner and test it open loop.", out="planning-out").parse_args()
    cfg, data_folder = common.set_up("raster_planner", options, num_steps=NUM_STEPS)
    result = train(cfg, common.new_folder(options.out), data_folder=data_folder)

    planner, samples = common.load_trained(cfg, result.weights, data_folder)
    picture = options.out / "planning.png"
    write_png(picture, test_open_loop(planner, samples, cfg, data_folder))
    print(f"weights in {result.weights}, pictures in {picture}")


if __name__ == "__main__":
    main()
