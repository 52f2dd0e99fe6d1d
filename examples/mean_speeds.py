"""Mean speeds by class over a whole dataset, worked out by several processes with Dask.

Run ``python examples/mean_speeds.py`` for a made city, and with ``--data FOLDER`` for data of your own. Each worker
reads chunks of the files by itself, a part at a time, so neither the size of the dataset nor that of the memory
matters. ``--scheduler ADDRESS`` takes the workers of a cluster that runs already; all of them must see the files.
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

STANDING_MPS = 0.5
LABELS = [f"label_probabilities_{label}" for label in PERCEPTION_LABELS]


def main() -> None:
    """Print the table of a dataset."""
    parser = argparse.ArgumentParser(description="Mean speeds by class.")
    parser.add_argument("--data", type=Path, help="dataset folder or .zarr; by default a city is made")
    parser.add_argument("--workers", type=int, default=2, help="how many work at the same time")
    parser.add_argument("--threads", action="store_true", help="let them be threads instead of processes")
    parser.add_argument("--chunks", type=int, default=4, help="chunks of the files that are read together")
    parser.add_argument("--scheduler", help="address of a cluster that runs already, instead of one of this machine")
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        data = options.data or make_city(Path(scratch) / "city", num_scenes=2).path
        dataset = ChunkedDataset(find_dataset_files(data).dataset).open()
        with connect(options) as client:
            print(f"{len(dataset.agents):,} agent rows, {len(client.scheduler_info()['workers'])} workers")
            print(mean_speeds(dataset, options.chunks).to_string(float_format="{:.2f}".format, na_rep="-"))


def connect(options: argparse.Namespace) -> Client:
    """Return a client of the cluster that is asked for; without one, of workers on this machine."""
    if options.scheduler:
        return Client(options.scheduler)
    cluster = LocalCluster(
        n_workers=options.workers, threads_per_worker=1, processes=not options.threads, dashboard_address=None
    )
    return Client(cluster)


def mean_speeds(dataset: ChunkedDataset, chunks_at_once: int) -> pd.DataFrame:
    """Return for each class that there is the number of rows, their mean speed, and that of those that move, m/s."""
    agents = to_dask_dataframe(dataset.agents, ["velocity", "label_probabilities"], chunks_at_once=chunks_at_once)
    parts = agents.map_partitions(sums_by_label, meta=sums_by_label(agents._meta))
    sums = parts.groupby("label").sum().compute().sort_values("rows", ascending=False)
    return pd.DataFrame(
        {
            "rows": sums["rows"],
            "mean speed": sums["speed"] / sums["rows"],
            "of those that move": sums["speed moving"] / sums["rows moving"],
        }
    )


def sums_by_label(agents: pd.DataFrame) -> pd.DataFrame:
    """Return what can be added up over parts: numbers of rows and sums of speeds, for the likeliest class of each."""
    speeds = np.hypot(agents["velocity_x"].to_numpy(np.float64), agents["velocity_y"].to_numpy(np.float64))
    classes = agents[LABELS].to_numpy().argmax(axis=1) if len(agents) else np.empty(0, dtype=np.int64)
    is_moving = speeds > STANDING_MPS
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
