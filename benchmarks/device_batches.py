#!/usr/bin/env python3
"""Samples per second on a GPU by batch size and number of threads, and the time of each kernel of a batch.

Usage: python benchmarks/device_batches.py --data FOLDER [--device cuda] [--sizes 64 256 1024] [--threads 1 2 4]

The first batches, which compile kernels, are not measured. If the calling thread is slower than the GPU, the two times
``asked`` (batch launched) and ``done`` (batch finished) are almost equal.
"""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
import torch

from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.batch_loader import BatchPlan, BatchSource
from l5kit.dataset.device_samples import BackendLoader, DeviceSamples
from l5kit.dataset.sample_batch import collate
from l5kit.device.backend import Backend
from l5kit.device.opening import open_backend
from l5kit.warmup.workloads import AGENT_SEMANTIC, URBAN_DRIVER
from l5kit_bench.workplace import Amounts, Workplace, find_bench_files

ROWS = (
    ("py_semantic as bytes", AGENT_SEMANTIC, {"image_dtype": "uint8"}),
    ("py_semantic as float32", AGENT_SEMANTIC, {"image_dtype": "float32"}),
    ("vectors of the AV", URBAN_DRIVER, {}),
)


def measure_loader(samples: BaseEgoDataset, backend: Backend, batch_size: int, threads: int, num_batches: int) -> float:
    """Return the samples per second of a loader."""
    indices = np.random.default_rng(0).integers(0, len(samples), batch_size * num_batches).tolist()
    plan = BatchPlan(indices, batch_size, drop_last=True, seed=0, rank=0)
    source = BatchSource(samples, collate, pin_memory=False, prefetch=2)
    loader = BackendLoader(plan, source, backend=backend, num_threads=threads)
    list(itertools.islice(loader, 2))
    backend.wait()
    start = time.perf_counter()
    count = sum(len(batch["track_id"]) for batch in loader)
    backend.wait()
    return count / (time.perf_counter() - start)


def measure_batch(samples: BaseEgoDataset, backend: Backend, batch_size: int) -> tuple[float, float, dict[str, float]]:
    """Return the milliseconds until a batch is launched and finished, and those of each kernel, slowest first."""
    maker = DeviceSamples(samples, backend)
    indices = np.random.default_rng(1).integers(0, len(samples), batch_size).tolist()
    for _ in range(3):
        maker.make(indices)
    backend.wait()
    start = time.perf_counter()
    for _ in range(10):
        maker.make(indices)
    asked = time.perf_counter() - start
    backend.wait()
    done = time.perf_counter() - start
    kernels: dict[str, float] = {}
    if backend.device != "cpu":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
            maker.make(indices)
            backend.wait()
        for event in profiled.events():
            name = event.name.split("l5kit_")[-1].split("[")[0][:40]
            kernels[name] = kernels.get(name, 0.0) + (event.time_range.end - event.time_range.start) / 1000
    return 100 * asked, 100 * done, dict(sorted(kernels.items(), key=lambda item: -item[1]))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="dataset folder, or a .zarr with its maps beside it")
    parser.add_argument("--device", default="cuda", help="cpu, cuda, or cuda: and a number")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 1024], help="samples of a batch")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4], help="threads that ask for batches")
    parser.add_argument("--batches", type=int, default=24, help="batches of a pass")
    args = parser.parse_args(argv)
    backend = open_backend(args.device)
    with Workplace(find_bench_files(args.data), Amounts()) as place:
        print("| samples | batch | asked, ms | done, ms | " + " | ".join(f"{n} threads" for n in args.threads) + " |")
        print("|" + " --- |" * (4 + len(args.threads)))
        for title, workload, raster_params in ROWS:
            samples = place.samples_of(workload, **raster_params)
            for size in args.sizes:
                asked, done, kernels = measure_batch(samples, backend, size)
                rates = [measure_loader(samples, backend, size, n, args.batches) for n in args.threads]
                told = " | ".join(f"{rate:,.0f}/s" for rate in rates)
                print(f"| {title} | {size} | {asked:.2f} | {done:.2f} | {told} |", flush=True)
            for name, took in itertools.islice(kernels.items(), 8):
                print(f"    {name}: {took:.3f} ms of {size} samples")


if __name__ == "__main__":
    main()
