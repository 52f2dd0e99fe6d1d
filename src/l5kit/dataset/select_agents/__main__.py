"""``python -m l5kit.dataset.select_agents``: store agents masks in datasets."""

import argparse
import sys
from collections.abc import Sequence

from l5kit.data.progress import tell
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.select_agents.selection import select_agents
from l5kit.dataset.select_agents.thresholds import TH_DISTANCE_AV, TH_EXTENT_RATIO, TH_YAW_DEGREE
from l5kit.errors import L5KitError


def main(arguments: Sequence[str] | None = None) -> int:
    """Store the mask of every dataset named on the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m l5kit.dataset.select_agents",
        description="Compute which agents of a dataset can be trained on, and store the mask inside its folder.",
    )
    parser.add_argument("--input_folders", nargs="+", required=True, metavar="ZARR", help="dataset folders")
    parser.add_argument("--th_agent_prob", type=float, required=True, help="least probability of being a road user")
    parser.add_argument("--th_yaw_degree", type=float, default=TH_YAW_DEGREE, help="largest jump of heading, degrees")
    parser.add_argument("--th_extent_ratio", type=float, default=TH_EXTENT_RATIO, help="largest jump of size, ratio")
    parser.add_argument("--th_distance_av", type=float, default=TH_DISTANCE_AV, help="largest distance to the AV, m")
    options = parser.parse_args(arguments)
    try:
        for folder in options.input_folders:
            select_agents(
                ChunkedDataset(folder).open(),
                options.th_agent_prob,
                options.th_yaw_degree,
                options.th_extent_ratio,
                options.th_distance_av,
            )
    except (L5KitError, OSError) as error:
        tell(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
