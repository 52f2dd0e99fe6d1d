"""Speed of access for other tools: reading from servers, exports, digests, and xarray, against simple alternatives.

    PYTHONPATH=src:tests python benchmarks/ecosystem.py [CITY] [--samples N] [--passes N]

Prints tables in Markdown. Rates are those of the best pass, with files in the page cache; with
../shared/bench/calibrate.py they are also given per 1,000 points of the score of the machine, measured before and
after, so that machines and times can be compared. Servers are local processes or threads, which answer at once.
"""

import argparse
import importlib.util
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from l5kit.data import ChunkedDataset
from l5kit.data.digests.manifest import Manifest
from l5kit.data.digests.verification import verify
from l5kit.data.interop import export_columns, export_parquet, to_pandas, to_xarray
from l5kit.data.layout import ARRAYS
from l5kit.dataset import EgoDataset
from l5kit.synthetic import make_city
from local_bucket import serve_bucket
from support.samples import make_cfg
from support.touched_chunks import touched_chunks
from support.web_server import serve

_CALIBRATION = Path(__file__).resolve().parents[2] / "shared" / "bench" / "calibrate.py"
_PAST, _FUTURE = 3, 5


def score() -> float | None:
    """Return the current score of this machine; None without calibration."""
    if not _CALIBRATION.is_file():
        return None
    spec = importlib.util.spec_from_file_location("calibrate", _CALIBRATION)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return float(module.score())


def best_s(job: Callable[[], object], passes: int) -> float:
    """Return the seconds of the fastest pass."""
    seconds = []
    for _ in range(passes):
        started = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


# --- reading ---


def reading_row(where: str, dataset: ChunkedDataset, log: ChunkedDataset, num_samples: int, count: Any) -> str:
    """Return a table row: times of opening and of samples, and the requests that they need."""
    started, first_request = time.perf_counter(), count()
    dataset.open(progress=False)
    opened_s, opened = time.perf_counter() - started, count() - first_request
    started = time.perf_counter()
    samples = EgoDataset(make_cfg(), dataset, None)
    samples[0]
    first_s, before = time.perf_counter() - started, count()
    indices = np.random.default_rng(0).integers(len(samples), size=num_samples).tolist()
    started = time.perf_counter()
    for index in indices:
        samples[index]
    sample_s, asked = (time.perf_counter() - started) / num_samples, count() - before
    lengths = {key: ARRAYS[key].chunks[0] for key in ARRAYS}
    touched = set[tuple[str, int]]().union(
        *(touched_chunks(log, index, lengths, past=_PAST, future=_FUTURE) for index in set(indices))
    )
    requests = f"{opened} | {asked} | {len(touched)} | {asked / len(touched):.2f}"
    requests = "- | - | - | -" if where == "disk" else requests
    return f"| {where} | {1e3 * opened_s:.0f} | {1e3 * first_s:.0f} | {1e3 * sample_s:.2f} | {requests} |"


def print_reading(log: ChunkedDataset, scratch: Path, num_samples: int) -> None:
    """Print the table of reading from disk, from a zip file on a web server, and from a bucket."""
    folder = scratch / "served"
    log.save(folder / "log.zarr")
    log.save(folder / "log.zarr.zip")
    print(
        f"| where | opening, ms | dataset and first sample, ms | one of {num_samples} random samples, ms "
        "| requests of opening | of the random samples | chunks they touch | requests per chunk |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    EgoDataset(make_cfg(), log, None)[0]  # compiles the kernels
    print(reading_row("disk", ChunkedDataset(str(folder / "log.zarr")), log, num_samples, lambda: 0))
    with serve(folder) as web:
        web.tells_versions = False  # the server would compute the digest of the whole file for each answer
        remote = ChunkedDataset(f"{web.url}/log.zarr.zip")
        print(reading_row("HTTP, zip file", remote, log, num_samples, lambda: len(web.requests)))
    with serve_bucket(folder, ["log.zarr"]) as (options, count):
        remote = ChunkedDataset("s3://bucket/log.zarr", storage_options=options)
        print(reading_row("S3, folder", remote, log, num_samples, count))


# --- exports, digests, xarray ---


class Rates:
    """Table of rates, each next to that of a simple alternative."""

    def __init__(self, passes: int) -> None:
        self.passes = passes
        self.lines: list[tuple[str, float, str, str, float]] = []

    def add(self, title: str, job: Callable[[], object], amounts: dict[str, float], plain: str, plain_s: float) -> None:
        """Measure a job whose amounts of work are given by unit, and compare it with the seconds of an alternative."""
        seconds = best_s(job, self.passes)
        self.lines += [(title, amount / seconds, unit, plain, amount / plain_s) for unit, amount in amounts.items()]

    def print(self, points: float | None) -> None:
        """Print the table, with the rates per 1,000 points."""
        print(
            "| what | rate | per 1,000 points | the plain way | rate | times |\n| --- | --- | --- | --- | --- | --- |"
        )
        for title, rate, unit, plain, plain_rate in self.lines:
            per_points = "-" if points is None else f"{1e3 * rate / points:,.1f}"
            times = f"{rate / plain_rate:.2f}"
            print(f"| {title} | {rate:,.1f} {unit} | {per_points} | {plain} | {plain_rate:,.1f} {unit} | {times} |")


def copy_columns(path: str, out: Path) -> None:
    """Write each field as a separate array, in a loop over the chunks of zarr."""
    shutil.rmtree(out, ignore_errors=True)
    source, target = zarr.open_group(path, mode="r", zarr_format=2), zarr.open_group(out, mode="w", zarr_format=3)
    for key in ARRAYS:
        records: Any = source[key]
        fields = {}
        for name in records.dtype.names:
            field = records.dtype[name]
            stored, shape = (np.dtype("u4"), (16,)) if field.base.kind == "U" else (field.base, field.shape)
            fields[name] = target.create_array(
                f"{key}/{name}", shape=(records.shape[0], *shape), dtype=stored, chunks=(records.chunks[0], *shape)
            )
        for start in range(0, records.shape[0], records.chunks[0]):
            rows = records[start : start + records.chunks[0]]
            for name, column in fields.items():
                values = np.ascontiguousarray(rows[name])
                if values.dtype.kind == "U":
                    values = values.view("u4").reshape(len(rows), 16)
                column[start : start + len(rows)] = values


def write_frames(path: str, out: Path) -> None:
    """Write each array as one Parquet file with pandas, from memory."""
    out.mkdir(exist_ok=True)
    log = ChunkedDataset(path).open(cached=False)
    for key, (attribute, _, _) in ARRAYS.items():
        to_pandas(getattr(log, attribute)[:]).to_parquet(out / f"{key}.parquet", compression="zstd")


def sum_files(folder: str) -> None:
    """Digest all files with sha256sum, in one process."""
    subprocess.run(f"find '{folder}' -type f -print0 | xargs -0 sha256sum > /dev/null", shell=True, check=True)


def rates_of(path: str, scratch: Path, passes: int) -> Rates:
    """Measure exports, digests and a mean with xarray."""
    log = ChunkedDataset(path).open(cached=False)
    num_scenes = len(log.scenes)
    arrays = [getattr(log, attribute) for attribute, _, _ in ARRAYS.values()]
    megabytes = sum(len(records) * records.dtype.itemsize for records in arrays) / 1e6
    amounts = {"MB/s": megabytes, "scenes/s": num_scenes}
    rates = Rates(passes)
    copied_s = best_s(lambda: copy_columns(path, scratch / "copied.zarr"), passes)
    frames_s = best_s(lambda: write_frames(path, scratch / "frames"), passes)
    for workers in (1, 2):
        how = {"overwrite": True, "digest": "", "workers": workers}
        rates.add(
            f"export, columns, workers={workers}",
            lambda how=how: export_columns(log, scratch / "columns.zarr", **how),
            amounts,
            "zarr in a loop, no shards",
            copied_s,
        )
        rates.add(
            f"export, parquet, workers={workers}",
            lambda how=how: export_parquet(log, scratch / "tables", scenes_per_file=5, **how),
            amounts,
            "pandas of the whole",
            frames_s,
        )
    manifest = Manifest.of(path)
    stored = {"MB/s": manifest.num_bytes / 1e6}
    sums_s = best_s(lambda: sum_files(path), passes)
    rates.add("manifest", lambda: Manifest.of(path), stored, "sha256sum", sums_s)
    rates.add("verify", lambda: verify(path, manifest, fresh=True), stored, "sha256sum", sums_s)
    num_agents = len(log.agents) / 1e6

    def mean_by_xarray() -> float:
        velocity = to_xarray(log).agents_velocity
        return float(np.sqrt((velocity.astype(np.float64) ** 2).sum("xy")).mean().compute())

    def mean_by_numpy() -> float:
        velocity = log.agents[:]["velocity"].astype(np.float64)
        return float(np.sqrt((velocity**2).sum(axis=1)).mean())

    np.testing.assert_allclose(mean_by_xarray(), mean_by_numpy(), rtol=1e-9)
    numpy_s = best_s(mean_by_numpy, passes)
    rates.add("mean speed, to_xarray", mean_by_xarray, {"M agents/s": num_agents}, "NumPy of the whole", numpy_s)
    return rates


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("city", nargs="?", type=Path, help="dataset folder; by default a city is made")
    parser.add_argument("--scenes", type=int, default=20, help="scenes of the city that is made")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        folder = options.city or make_city(scratch / "city", num_scenes=options.scenes).path
        log = ChunkedDataset(str(folder / "scenes" / "sample.zarr")).open()
        before = score()
        print(f"{log!r}\n")
        print_reading(log, scratch, options.samples)
        print()
        rates = rates_of(str(scratch / "served" / "log.zarr"), scratch, options.passes)
        after = score()
    points = None if before is None or after is None else (before + after) / 2
    rates.print(points)
    told = "no calibration was found" if points is None else f"score {before:.0f} before, {after:.0f} after"
    print(f"\n{told}; {time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
