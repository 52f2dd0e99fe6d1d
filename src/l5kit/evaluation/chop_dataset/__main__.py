"""``python -m l5kit.evaluation.chop_dataset``: makes test sets."""

import argparse
import sys
from collections.abc import Sequence

from l5kit.data.progress import tell
from l5kit.errors import L5KitError
from l5kit.evaluation.chop_dataset.chopping import MIN_FUTURE_STEPS, create_chopped_dataset


def main(arguments: Sequence[str] | None = None) -> int:
    """Chop every dataset named on the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m l5kit.evaluation.chop_dataset",
        description="Cut scenes short and keep the rest as ground truth: a test set as in the competition.",
    )
    parser.add_argument("--zarr_paths", nargs="+", required=True, metavar="ZARR", help="datasets")
    parser.add_argument("--th_agent_prob", type=float, required=True, help="minimum probability of being a road user")
    parser.add_argument("--num_frames_to_copy", type=int, required=True, help="frames to keep of each scene")
    parser.add_argument("--future_steps", type=int, required=True, help="future steps with true positions")
    parser.add_argument(
        "--min_future_steps", type=int, default=MIN_FUTURE_STEPS, help="future frames that an agent must have"
    )
    options = parser.parse_args(arguments)
    try:
        for path in options.zarr_paths:
            create_chopped_dataset(
                path,
                options.th_agent_prob,
                options.num_frames_to_copy,
                options.future_steps,
                options.min_future_steps,
            )
    except (L5KitError, OSError) as error:
        tell(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
