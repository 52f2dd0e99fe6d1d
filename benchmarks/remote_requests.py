"""Requests and times of opening a log and of random samples: disk, web server, and S3 bucket.

    PYTHONPATH=src:tests python benchmarks/remote_requests.py [CITY]

Servers run on this machine and delay each answer like a network; see docs/remote.md.
"""

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from l5kit.data import ChunkedDataset
from l5kit.dataset import EgoDataset
from l5kit.synthetic import make_city
from local_bucket import serve_bucket
from support.samples import make_cfg
from support.web_server import serve

_DELAY_S = 0.02
_NUM_SAMPLES = 100


def measure(title: str, dataset: ChunkedDataset, count: Callable[[], int], **how: object) -> None:
    """Print the cost of opening a log, making a dataset of it, and random samples."""
    start, started = count(), time.perf_counter()
    dataset.open(progress=False, **how)
    opened, opened_s = count() - start, time.perf_counter() - started
    start, started = count(), time.perf_counter()
    samples = EgoDataset(make_cfg(), dataset, None)
    made, made_s = count() - start, time.perf_counter() - started
    start, started = count(), time.perf_counter()
    for index in np.random.default_rng(0).integers(len(samples), size=_NUM_SAMPLES).tolist():
        samples[index]
    num, seconds = (count() - start) / _NUM_SAMPLES, (time.perf_counter() - started) / _NUM_SAMPLES
    print(f"| {title} | {opened} ({opened_s:.2f} s) | {made} ({made_s:.2f} s) | {num:.2f} ({1e3 * seconds:.1f} ms) |")


def measure_kinds(title: str, make: Callable[[], ChunkedDataset], count: Callable[[], int]) -> None:
    """Print a line for each way to open a log."""
    measure(title, make(), count)
    measure(f"{title}, cached=False", make(), count, cached=False)
    measure(f'{title}, cached="mmap", first time', make(), count, cached="mmap")
    measure(f'{title}, cached="mmap", again', make(), count, cached="mmap")


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1]) if sys.argv[1:] else make_city(Path(scratch) / "city", num_scenes=20).path
        log = ChunkedDataset(str(folder / "scenes" / "sample.zarr")).open()
        web_folder = Path(scratch) / "web"
        log.save(web_folder / "log.zarr")
        log.save(web_folder / "log.zarr.zip")
        chunks = {name: getattr(log, name).num_chunks for name in ("scenes", "frames", "agents", "tl_faces")}
        print(f"{log!r}, chunks: {chunks}\n")
        print("| where | opening | EgoDataset | a random sample |\n| --- | --- | --- | --- |")
        EgoDataset(make_cfg(), log, None)[0]
        measure("disk", ChunkedDataset(str(web_folder / "log.zarr")), lambda: 0)
        with serve(web_folder) as web:
            web.delay_s = _DELAY_S
            for name in ("log.zarr", "log.zarr.zip"):
                url = f"{web.url}/{name}"
                measure_kinds(f"HTTP, {name}", lambda url=url: ChunkedDataset(url), lambda: len(web.requests))
        measure_s3(web_folder)


def measure_s3(folder: Path) -> None:
    """Print the lines of a bucket."""
    names = ("log.zarr", "log.zarr.zip")
    with serve_bucket(folder, names) as (options, count):
        for name in names:
            place = f"s3://bucket/{name}"
            measure_kinds(f"S3, {name}", lambda place=place: ChunkedDataset(place, storage_options=options), count)


if __name__ == "__main__":
    main()
