#!/usr/bin/env python3
"""Speed of `l5kit import` of Argoverse 2 with several workers, on copies of one real scenario.

Usage: python benchmarks/import_speed.py [--source FOLDER] [--scenes N] [--workers 1 2] [--passes 3]

The imported log is the same for any number of workers. Times are wall-clock times of the command without its start-up.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from l5kit.data.digests.digest import dataset_digest
from l5kit.data.jobs.scene_jobs import Workers
from l5kit.data.jobs.worker_processes import WorkerProcesses
from l5kit.readers.formats import open_reader
from l5kit.readers.importing import import_dataset

SOURCE = Path(__file__).resolve().parents[2] / "shared" / "data" / "argoverse2"


def copy_scenario(source: Path, folder: Path, num_scenes: int) -> None:
    """Write copies of a scenario, each in its own folder, as in the dataset."""
    (scenario,) = source.glob("scenario_*.parquet")
    (road,) = source.glob("log_map_archive_*.json")
    for number in range(num_scenes):
        name = f"{number:08x}-0000-4000-8000-000000000000"
        (folder / "val" / name).mkdir(parents=True)
        shutil.copyfile(scenario, folder / "val" / name / f"scenario_{name}.parquet")
        shutil.copyfile(road, folder / "val" / name / f"log_map_archive_{name}.json")


def main() -> None:
    """Measure in alternating passes, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=SOURCE, help="folder with a scenario of Argoverse 2")
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--passes", type=int, default=3)
    options = parser.parse_args()
    taken_s: dict[int, list[float]] = {number: [] for number in options.workers}
    digests = set()
    with tempfile.TemporaryDirectory(prefix="l5kit-import-") as made, ExitStack() as stack:
        scratch = Path(made)
        copy_scenario(options.source, scratch / "source", options.scenes)
        carriers: dict[int, Workers] = {
            number: 1 if number == 1 else stack.enter_context(WorkerProcesses(number)) for number in options.workers
        }
        for number_of_pass in range(-1, options.passes):  # warm-up pass, which starts the workers
            for number, workers in carriers.items():
                out = scratch / f"out-{number}-{number_of_pass}"
                start_s = time.perf_counter()
                import_dataset(open_reader("argoverse2", scratch / "source"), out, workers=workers)
                if number_of_pass >= 0:
                    taken_s[number].append(time.perf_counter() - start_s)
                digests.add(dataset_digest(str(out / "scenes" / "val.zarr")))
                shutil.rmtree(out)
    assert len(digests) == 1, digests
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.scenes} scenarios\n")
    print("| processes | s | ms a scenario | gain |\n|---|---|---|---|")
    first_s = statistics.median(taken_s[options.workers[0]])
    for number, times_s in taken_s.items():
        median_s = statistics.median(times_s)
        cells = f"{median_s:.1f} | {1000 * median_s / options.scenes:.0f} | {first_s / median_s:.2f}"
        print(f"| {number} | {cells} |")


if __name__ == "__main__":
    main()
