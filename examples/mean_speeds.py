"""Mean speeds by class over a whole dataset, computed by several processes with Dask.

Run ``python examples/mean_speeds.py`` with a synthetic city, or with ``--data FOLDER`` for your own data. Each worker
reads a few chunks of the files at a time, so the dataset may be larger than memory. ``--scheduler ADDRESS`` uses the
workers of a running cluster, which must all see the files.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster

from l5kit.data import PERCEPTION_LABELS, ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.interop import to_dask_dataframe
from l5kit.synthetic import make_city

STATIONARY_MPS = 0.5
LABELS = [f"label_probabilities_{label}" for label in PERCEPTION_LABELS]


def main() -> None:
    """Print the mean speeds in a dataset."""
    parser = argparse.ArgumentParser(description="Mean speeds by class.")
    parser.add_argument("--data", type=Path, help="dataset folder or .zarr; default: generate a city")
    parser.add_argument("--workers", type=int, default=2, help="number of workers")
    parser.add_argument("--threads", action="store_true", help="use threads instead of processes")
    parser.add_argument("--chunks", type=int, default=4, help="number of chunks to read at once")
    parser.add_argument("--scheduler", help="address of a running cluster; default: start one on this machine")
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        data = options.data or make_city(Path(scratch) / "city", num_scenes=2).path
        dataset = ChunkedDataset(find_dataset_files(data).dataset).open()
        with connect(options) as client:
            print(f"{len(dataset.agents):,} agent rows, {len(client.scheduler_info()['workers'])} workers")
            print(mean_speeds(dataset, options.chunks).to_string(float_format="{:.2f}".format, na_rep="-"))


def connect(options: argparse.Namespace) -> Client:
    """Return a client of the requested cluster, or of a new one on this machine."""
    if options.scheduler:
        return Client(options.scheduler)
    cluster = LocalCluster(
        n_workers=options.workers, threads_per_worker=1, processes=not options.threads, dashboard_address=None
    )
    return Client(cluster)


def mean_speeds(dataset: ChunkedDataset, chunks_at_once: int) -> pd.DataFrame:
    """Return the number of rows, mean speed, and mean speed of moving agents (m/s) of each class that occurs."""
    agents = to_dask_dataframe(dataset.agents, ["velocity", "label_probabilities"], chunks_at_once=chunks_at_once)
    parts = agents.map_partitions(sums_by_label, meta=sums_by_label(agents._meta))
    sums = parts.groupby("label").sum().compute().sort_values("rows", ascending=False)
    return pd.DataFrame(
        {
            "rows": sums["rows"],
            "mean speed": sums["speed"] / sums["rows"],
            "mean of moving": sums["speed moving"] / sums["rows moving"],
        }
    )


def sums_by_label(agents: pd.DataFrame) -> pd.DataFrame:
    """Return counts of rows and sums of speeds by likeliest class, which can be added up over partitions."""
    speeds = np.hypot(agents["velocity_x"].to_numpy(np.float64), agents["velocity_y"].to_numpy(np.float64))
    classes = agents[LABELS].to_numpy().argmax(axis=1) if len(agents) else np.empty(0, dtype=np.int64)
    is_moving = speeds > STATIONARY_MPS
    counts = {
        "rows": np.bincount(classes, minlength=len(PERCEPTION_LABELS)),
        "speed": np.bincount(classes, speeds, minlength=len(PERCEPTION_LABELS)),
        "rows moving": np.bincount(classes, is_moving, minlength=len(PERCEPTION_LABELS)),
        "speed moving": np.bincount(classes, speeds * is_moving, minlength=len(PERCEPTION_LABELS)),
    }
    table = pd.DataFrame(counts)
    table.insert(0, "label", pd.Series(PERCEPTION_LABELS, dtype="str"))
    return table[table["rows"] > 0]


if __name__ == "__main__":
    main()
