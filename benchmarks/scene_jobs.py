#!/usr/bin/env python3
"""Speed-up of jobs over scenes with several workers.

Usage: python benchmarks/scene_jobs.py [--scenes N] [--passes N] [--workers N] [--job NAME ...]

The log is a synthetic city. Each pass runs a job with one worker and with several, alternating (1, n, n, 1, ...), on a
newly opened log whose files are in the page cache. Rows show medians of wall-clock and processor times, and the median
ratio of the pairs. Threads that wait for each other raise the processor time. A load above 0 before the start means
that other programs were running, so ratios are too low.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from l5kit.data.checks.path_validation import validate_path
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from l5kit.synthetic.city import make_city

Job = Callable[[int], object]


def make_jobs(scratch: Path, num_scenes: int) -> dict[str, Job]:
    """Return the jobs by name as functions of the number of workers, after a call that compiles kernels."""
    log = make_city(scratch / "city", num_scenes=num_scenes).scenes["sample"]
    jobs: dict[str, Job] = {
        "mask": lambda workers: compute_agents_mask(
            ChunkedDataset(str(log)).open(), MaskThresholds(0.5), workers=workers
        ),
        "validation": lambda workers: validate_path(log, workers=workers),
        "cities": lambda workers: make_city(scratch / "made", num_scenes=num_scenes, overwrite=True, workers=workers),
    }
    for name in ("mask", "validation"):
        jobs[name](2)
    return jobs


def timed(job: Job, workers: int) -> tuple[float, float]:
    """Return wall-clock and processor seconds of a job."""
    start_s, processor_s = time.perf_counter(), time.process_time()
    job(workers)
    return time.perf_counter() - start_s, time.process_time() - processor_s


def measure(job: Job, *, workers: int, num_passes: int) -> tuple[float, ...]:
    """Return medians: seconds with one and with several workers, processor seconds of both, and ratio of the pairs."""
    pairs = []
    for number in range(num_passes):
        turns = (1, workers) if number % 2 == 0 else (workers, 1)
        pairs.append(dict(sorted((count, timed(job, count)) for count in turns)))
    columns = [[pair[count][kind] for pair in pairs] for kind in (0, 1) for count in (1, workers)]
    ratios = [pair[1][0] / pair[workers][0] for pair in pairs]
    return tuple(statistics.median(column) for column in (*columns, ratios))


def main() -> None:
    """Measure the jobs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=40)
    parser.add_argument("--passes", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--job", action="append", choices=("mask", "validation", "cities"))
    options = parser.parse_args()
    print(f"{options.scenes} scenes, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} before the start\n")
    scratch = Path(tempfile.mkdtemp())
    try:
        jobs = make_jobs(scratch, options.scenes)
        several = f"{options.workers} workers"
        print(f"| job | 1 worker, s | {several}, s | ratio | processor, 1 worker, s | processor, {several}, s |")
        print("|---|---|---|---|---|---|")
        for name in options.job or jobs:
            one_s, several_s, one_cpu_s, several_cpu_s, ratio = measure(
                jobs[name], workers=options.workers, num_passes=options.passes
            )
            cells = (f"{one_s:.2f}", f"{several_s:.2f}", f"{ratio:.2f}", f"{one_cpu_s:.2f}", f"{several_cpu_s:.2f}")
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
        print(f"\nload {os.getloadavg()[0]:.2f} at the end")
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
