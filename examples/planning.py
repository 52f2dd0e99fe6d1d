"""Train a planner that looks at rasters, and test it open loop, beside an AV that keeps its velocity.

Run ``python examples/planning.py`` for a made city, which takes some minutes, and with ``--data FOLDER`` for data of
your own and a network of full size. Each run trains anew, in a folder of its own (``training-1``, ...);
``planning.png`` is that of the last one.
"""

import common
from open_loop import test_open_loop

from l5kit.training import train
from l5kit.visualization import write_png

NUM_STEPS = 500


def main() -> None:
    """Train and test."""
    options = common.make_parser("Train a planner and test it open loop.", out="planning-out").parse_args()
    cfg, data_folder = common.set_up("raster_planner", options, num_steps=NUM_STEPS)
    result = train(cfg, common.new_folder(options.out), data_folder=data_folder)

    planner, samples = common.load_trained(cfg, result.weights, data_folder)
    picture = options.out / "planning.png"
    write_png(picture, test_open_loop(planner, samples, cfg, data_folder))
    print(f"weights in {result.weights}, pictures in {picture}")


if __name__ == "__main__":
    main()
