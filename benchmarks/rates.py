#!/usr/bin/env python3
"""Measure how fast l5kit opens, selects, samples and makes data, and print a table.

Usage: python benchmarks/rates.py [--shared FOLDER] [--passes N]

FOLDER holds ``bench/calibrate.py`` (the speed unit), ``bench/workloads.json``, ``bench/reference.json`` (rates of
L5Kit 1.5 per 1,000 points of the unit) and ``data``; it is ``../shared`` by default. One process, one thread. The
passes of all rows alternate and the median is printed, since machines are noisy.
"""

import argparse
import importlib.util
import json
import platform
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from l5kit.data import ChunkedDataset
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from l5kit.errors import SampleError
from l5kit.rasterization import build_rasterizer
from l5kit.synthetic import make_city

NUM_SAMPLES = 200
NUM_FRAMES = 500
NUM_SCENES = 12
REPOSITORY = Path(__file__).resolve().parents[1]

Work = Callable[[], int]


def calibration(shared: Path) -> float:
    """Return the score of this machine right now."""
    spec = importlib.util.spec_from_file_location("calibrate", shared / "bench" / "calibrate.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"no calibrate.py in {shared / 'bench'}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return float(module.score())


def sample_rows(shared: Path, dataset: ChunkedDataset) -> dict[str, Work]:
    """Return the rows that draw samples item by item, in the order of the recorded rates."""
    manager = LocalDataManager(shared / "data")
    workloads = json.loads((shared / "bench" / "workloads.json").read_text())
    return {
        name: sampling(make_dataset(workload["cfg"], dataset, manager, workload["dataset"]))
        for name, workload in workloads.items()
        if workload["dataset"] in ("EgoDataset", "AgentDataset")
    }


def make_dataset(cfg: dict[str, Any], dataset: ChunkedDataset, manager: LocalDataManager, kind: str) -> EgoDataset:
    """Return a dataset of the class named ``kind``."""
    dataset_class = AgentDataset if kind == "AgentDataset" else EgoDataset
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return dataset_class(cfg, dataset, build_rasterizer(cfg, manager))


def sampling(dataset: EgoDataset) -> Work:
    """Return work that makes samples in shuffled order; those that cannot be made are left out."""
    shuffled = np.random.RandomState(0).permutation(len(dataset))[:NUM_SAMPLES].tolist()
    indices = [index for index in shuffled if can_be_made(dataset, index)]

    def work() -> int:
        for index in indices:
            dataset[index]
        return len(indices)

    return work


def can_be_made(dataset: EgoDataset, index: int) -> bool:
    """Return whether a sample can be made: some crops leave the aerial picture."""
    try:
        dataset[index]
    except SampleError:
        return False
    return True


def other_rows(shared: Path, dataset: ChunkedDataset, scratch: Path) -> dict[str, Work]:
    """Return the rows that are no samples."""
    manager = LocalDataManager(shared / "data")
    cfg = json.loads((shared / "bench" / "workloads.json").read_text())["AgentDataset py_semantic"]["cfg"]
    positions = np.random.RandomState(0).randint(0, len(dataset.frames), NUM_FRAMES).tolist()

    def mask() -> int:
        return len(compute_agents_mask(dataset, MaskThresholds(0.5))[0])

    def frames() -> int:
        for position in positions:
            frame = dataset.frames[position]
            dataset.agents[slice(*frame["agent_index_interval"])]
            dataset.tl_faces[slice(*frame["traffic_light_faces_index_interval"])]
        return len(positions)

    def build() -> int:
        build_rasterizer(cfg, manager)
        return 1

    def synthesize() -> int:
        make_city(scratch / "city", seed=0, num_scenes=NUM_SCENES, overwrite=True)
        return NUM_SCENES

    return {
        "agents mask of a scene": mask,
        "random frame with its agents and faces": frames,
        "build_rasterizer py_semantic, 9,680 lanes": build,
        f"make_city, {NUM_SCENES} scenes, town and files included": synthesize,
    }


def measure(rows: dict[str, Work], passes: int) -> dict[str, float]:
    """Return the median rate of each row over alternating passes, after one that is not counted."""
    rates: dict[str, list[float]] = {name: [] for name in rows}
    for counted in range(passes + 1):
        for name, work in rows.items():
            start = time.perf_counter()
            done = work()
            if counted:
                rates[name].append(done / (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in rates.items()}


def table(rates: dict[str, float], score: float, reference: dict[str, Any]) -> str:
    """Return the rates as a Markdown table."""
    lines = ["| workload | rate /s | per 1,000 score | ratio to 1.5 |", "|---|---|---|---|"]
    for name, rate in rates.items():
        unit_rate = rate / score * 1000
        known = reference.get(name)
        ratio = f"{unit_rate / known['per_1000_score']:.1f}" if known else "-"
        lines.append(f"| {name} | {rate:,.4g} | {unit_rate:,.4g} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=REPOSITORY.parent / "shared")
    parser.add_argument("--passes", type=int, default=5)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    dataset = ChunkedDataset(str(options.shared / "data" / "single_scene.zarr")).open()
    reference = json.loads((options.shared / "bench" / "reference.json").read_text())["workloads"]
    scratch = Path(tempfile.mkdtemp())
    try:
        rows = sample_rows(options.shared, dataset) | other_rows(options.shared, dataset, scratch)
        before = calibration(options.shared)
        rates = measure(rows, options.passes)
        score = (before + calibration(options.shared)) / 2
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, OpenCV {cv2.__version__}; score {score:.0f}\n")
    print(table(rates, score, reference))


if __name__ == "__main__":
    main()
