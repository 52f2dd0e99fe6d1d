#!/usr/bin/env python3
"""Jobs over whole datasets on one machine, up to 16,265 scenes.

Usage: python benchmarks/scale.py [--sizes 100 1000 16265] [--job NAME ...] [--engine NAME ...] [--scratch FOLDER]

A set repeats a few synthetic scenes. It is an ordinary dataset folder whose agent chunks are links to those of the few
scenes, so it takes little disk; scenes and frames, which index these rows, are written block by block. Each job runs in
a separate process, which reports the processor time of itself and its workers, its peak memory, and the bytes that it
has read. Unlike wall-clock time, processor time does not depend on other load.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import Executor
from pathlib import Path

import numcodecs
import numpy as np
import zarr

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.configs.overrides import load_training_config
from l5kit.data.checks.validation import validate_dataset
from l5kit.data.jobs.scene_jobs import Workers, map_scenes
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.record_dtype import RecordDType
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, SCENE_DTYPE, TL_FACE_DTYPE
from l5kit.data.scene_table import driving_statistics, read_scene_table
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from l5kit.engines import open_workers
from l5kit.openloop import OpenLoopOptions, evaluate
from l5kit.planning.checkpoint import save_checkpoint
from l5kit.synthetic import make_city
from l5kit.workflows import TrainingConfig, make_model, open_samples

JOBS = ("mask", "statistics", "validation", "evaluation", "simulation")
BLOCK = 64
"""Scenes of a block of a large job."""


def make_base(scratch: Path, num_scenes: int) -> Path:
    """Generate a city whose agents fill whole chunks of about 20,000 rows; the last frame loses a few."""
    city = make_city(scratch / "city", num_scenes=num_scenes, town_size=400.0)
    log = ChunkedDataset(str(city.scenes["sample"])).open()
    num_chunks = max(1, round(len(log.agents) / 20_000))
    length = len(log.agents) // num_chunks
    frames, agents = np.array(log.frames), np.array(log.agents[: length * num_chunks])
    assert frames["agent_index_interval"][-1, 0] < len(agents)
    frames["agent_index_interval"][-1, 1] = len(agents)
    arrays = {"scenes": np.array(log.scenes), "frames": frames, "agents": agents}
    np.savez(scratch / "base.npz", **{name: array.view(np.uint8) for name, array in arrays.items()})
    (scratch / "length").write_text(f"{length}")
    write_array(scratch / "base.zarr", "agents", AGENT_DTYPE, len(agents), length)[:] = agents
    return city.path


def write_array(path: Path, key: str, dtype: np.dtype, length: int, chunk: int) -> zarr.Array:
    """Return an array of a dataset, stored like those of L5Kit 1.5."""
    group = zarr.open_group(str(path), mode="a", zarr_format=2)
    return group.create_array(
        key,
        shape=(length,),
        chunks=(chunk,),
        dtype=RecordDType.from_native_dtype(np.dtype(dtype)),
        compressors=numcodecs.Blosc("lz4", 5, 1),
        overwrite=True,
    )


def make_set(scratch: Path, num_scenes: int) -> Path:
    """Write a dataset folder with many scenes of the city, whose agent chunks are links."""
    folder = scratch / f"set-{num_scenes}"
    if folder.exists():
        return folder
    for name in ("semantic_map", "aerial_map", "meta.json"):
        folder.mkdir(exist_ok=True)
        (folder / name).symlink_to(scratch / "city" / name)
    base = np.load(scratch / "base.npz")
    scenes, frames = base["scenes"].view(SCENE_DTYPE), base["frames"].view(FRAME_DTYPE)
    num_agents = base["agents"].size // np.dtype(AGENT_DTYPE).itemsize
    length, path = int((scratch / "length").read_text()), folder / "scenes" / "sample.zarr"
    repeats = -(-num_scenes // len(scenes))
    write_array(path, "agents", AGENT_DTYPE, repeats * num_agents, length)
    for number in range(repeats * (num_agents // length)):
        os.link(scratch / "base.zarr" / "agents" / f"{number % (num_agents // length)}", path / "agents" / f"{number}")
    write_array(path, "traffic_light_faces", TL_FACE_DTYPE, 0, 10_000)
    all_scenes = repeated(scenes, "frame_index_interval", range(repeats), len(frames))[:num_scenes]
    write_array(path, "scenes", SCENE_DTYPE, num_scenes, 10_000)[:] = all_scenes
    num_used = int(all_scenes["frame_index_interval"][-1, 1])
    stored = write_array(path, "frames", FRAME_DTYPE, num_used, 10_000)
    kept = np.zeros(0, FRAME_DTYPE)
    start = 0
    for repeat in range(repeats):
        block = repeated(frames, "agent_index_interval", [repeat], num_agents)
        block["traffic_light_faces_index_interval"] = 0
        kept = np.concatenate([kept, block])
        whole = len(kept) // 10_000 * 10_000 if repeat < repeats - 1 else min(len(kept), num_used - start)
        stored[start : start + whole] = kept[:whole]
        start, kept = start + whole, kept[whole:]
    return folder


def repeated(records: np.ndarray, field: str, repeats: "range | list[int]", step: int) -> np.ndarray:
    """Return records several times, with their intervals shifted each time."""
    parts = []
    for repeat in repeats:
        part = records.copy()
        part[field] += repeat * step
        parts.append(part)
    return np.concatenate(parts)


def run_job(job: str, folder: Path, num_scenes: int, workers: Workers, out: Path) -> None:
    """Run a job once."""
    path = folder / "scenes" / "sample.zarr"
    if job == "mask":
        log = ChunkedDataset(str(path)).open(cache_size_bytes=2**27)  # as in l5kit mask
        compute_agents_mask(log, MaskThresholds(0.5), workers=workers)
    elif job == "statistics":
        driving_statistics(read_scene_table(ChunkedDataset(str(path)).open(), workers=workers))
    elif job == "validation":
        validate_dataset(ChunkedDataset(str(path)).open(), workers=workers)
    elif job == "simulation":
        options = ClosedLoopOptions(
            scenes=range(num_scenes), num_frames=50, keeps_plans=False, workers=workers, show_bar=False
        )
        simulate(folder, out, planner="idm", options=options)
    else:
        evaluate_network(folder, num_scenes, workers, out)


def evaluate_network(folder: Path, num_scenes: int, workers: Workers, out: Path) -> None:
    """Evaluate a small untrained network on as many samples as there are scenes."""
    cfg = load_training_config("vector_planner")
    cfg["val_data_loader"] = {"key": "scenes/sample.zarr", "batch_size": 32}
    weights = folder / "network.safetensors"
    if not weights.exists():
        config = TrainingConfig.from_cfg(cfg)
        samples = open_samples(config, config.params.val_loader, LocalDataManager(folder), perturbed=False)
        save_checkpoint(weights, make_model(config, samples), config=cfg)
    carriers = workers if isinstance(workers, Executor) else 1
    options = OpenLoopOptions(max_samples=num_scenes, num_worst=0, workers=carriers, threads=0, show_bar=False)
    evaluate(weights, out, cfg=cfg, data_folder=folder, options=options)


def measured(job: str, folder: Path, num_scenes: int, out: Path) -> None:
    """Print the cost of a job in this process as JSON, after a run on few scenes that compiles kernels."""
    warnings.simplefilter("ignore")
    small = folder.parent / "set-32"
    run_job(job, small, 8, 1, out / "first")
    read_mb, start_s, spent_s = read_megabytes(), time.perf_counter(), time.process_time()
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    run_job(job, folder, num_scenes, 1, out / "second")
    told = {
        "seconds": time.perf_counter() - start_s,
        "processor_s": time.process_time() - spent_s,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "before_mb": before_mb,
        "read_mb": read_megabytes() - read_mb,
    }
    print(json.dumps(told))


def read_megabytes() -> float:
    """Return the bytes that this process has read so far, from disk or page cache."""
    return int(Path("/proc/self/io").read_text("ascii").split()[1]) / 1e6


def print_jobs(scratch: Path, sizes: list[int], jobs: list[str]) -> None:
    """Measure each job at each size, and print the table."""
    print(
        "| job | scenes | processor, s | ms a scene | on the clock, s | memory, MB | of it for the set, MB | read, MB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for job in jobs:
        for size in sizes:
            out = Path(tempfile.mkdtemp(dir=scratch))
            command = [sys.executable, __file__, "--measure", job, "--sizes", str(size), "--scratch", str(scratch)]
            environment = {**os.environ, "L5KIT_CACHE_DIR": str(out / "cache"), "OMP_NUM_THREADS": "1"}
            done = subprocess.run([*command, "--out", str(out)], env=environment, stdout=subprocess.PIPE, check=True)
            row = json.loads(done.stdout)
            shutil.rmtree(out)
            cells = (
                f"{row['processor_s']:.1f}",
                f"{1000 * row['processor_s'] / size:.2f}",
                f"{row['seconds']:.1f}",
                f"{row['memory_mb']:,.0f}",
                f"{row['memory_mb'] - row['before_mb']:,.0f}",
                f"{row['read_mb']:,.1f}",
            )
            print(f"| {job} | {size:,} | {' | '.join(cells)} |", flush=True)


def print_overhead(scratch: Path, job: str, options: argparse.Namespace) -> None:
    """Measure the overhead of blocks and a job with each engine, alternating, and print the table."""
    engines, num_scenes = options.engine, options.scenes
    folder, scenes = make_set(scratch, num_scenes), range(num_scenes)
    taken: dict[str, list[tuple[float, float]]] = {engine: [] for engine in engines}
    for _ in range(options.passes):
        for engine in engines:
            with open_workers(engine, num_workers=options.workers) as workers:
                out = Path(tempfile.mkdtemp(dir=scratch))
                run_job(
                    job, folder, min(num_scenes, 256), workers, out / "first"
                )  # warm-up: starts workers and compiles
                start_s = time.perf_counter()
                list(map_scenes(len, scenes, workers, block_size=BLOCK))
                middle_s = time.perf_counter()
                run_job(job, folder, num_scenes, workers, out / "second")
                taken[engine].append((middle_s - start_s, time.perf_counter() - middle_s))
                shutil.rmtree(out)
    titles = f"{options.workers} workers | nothing, us a scene | {job} of {num_scenes:,} scenes, s | ratio to processes"
    print(f"\n| engine, {titles} |")
    print("|---|---|---|---|")
    for engine, rows in taken.items():
        idle_us = 1e6 * statistics.median(row[0] for row in rows) / len(scenes)
        job_s = statistics.median(row[1] for row in rows)
        ratio = statistics.median(row[1] / first[1] for row, first in zip(rows, taken[engines[0]], strict=True))
        print(f"| {engine} | {idle_us:,.0f} | {job_s:.2f} | {ratio:.2f} |", flush=True)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 1000, 16_265])
    parser.add_argument("--job", action="append", choices=JOBS)
    parser.add_argument("--engine", action="append", choices=("processes", "ray", "dask"))
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="workers of each engine")
    parser.add_argument("--scenes", type=int, default=2048, help="scenes of the job that engines are compared by")
    parser.add_argument("--scratch", type=Path, help="folder for the sets, on a file system with hard links")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    scratch = options.scratch or Path(tempfile.mkdtemp(prefix="l5kit-scale-"))
    if options.measure:
        measured(options.measure, scratch / f"set-{options.sizes[0]}", options.sizes[0], options.out)
        return
    warnings.simplefilter("ignore")
    scratch.mkdir(exist_ok=True)
    if not (scratch / "base.npz").exists():
        make_base(scratch, 32)
    for size in (32, *options.sizes):
        make_set(scratch, size)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    if options.sizes:
        print_jobs(scratch, options.sizes, options.job or list(JOBS))
    if options.engine:
        print_overhead(scratch, (options.job or ["mask"])[0], options)
    if options.scratch is None:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
