"""Imports of many ScenarioNet scenarios, each with its own map: time and memory with processes, Ray and Dask.

PYTHONPATH=src:tests python benchmarks/import_scale.py --scenes 1000 10000 --folder /tmp/l5kit-import-scale

The scenarios are generated once, one file each. Each import is a call of `l5kit import`; memory is that of all its
processes together, sampled twice a second. All imports of the same scenes must write the same dataset.
"""

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil

from l5kit.data.digests.digest import dataset_digest
from support import scenarionet_files

NUM_TRACKS, NUM_LANES, LANE_M = 40, 60, 60.0
ENGINES = {
    "1 process": (),
    "2 processes": ("--workers", "2"),
    "Ray": ("--engine", "ray", "--workers", "2"),
    "Dask": ("--engine", "dask", "--workers", "2"),
}


def main() -> None:
    """Generate missing scenarios, import them in each way, and print the table."""
    parser = argparse.ArgumentParser(description="Importing many scenarios of ScenarioNet.")
    parser.add_argument("--scenes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/l5kit-import-scale"))
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| scenes | workers | clock, s | ms a scene | processor, s | largest memory, MB | written, MB |")
    print("|---|---|---|---|---|---|---|")
    for num_scenes in options.scenes:
        source, out = options.folder / f"source-{num_scenes}", options.folder / "imported"
        if not source.exists():
            write_scenarios(source, num_scenes)
        digests = set()
        for engine in options.engines:
            taken_s, processor_s, memory_mb = import_scenarios(source, out, ENGINES[engine])
            written_mb = sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) / 1e6
            digests.add(dataset_digest(str(next((out / "scenes").iterdir()))))
            shutil.rmtree(out)
            taken = f"{taken_s:.0f} | {1e3 * taken_s / num_scenes:.1f} | {processor_s:.0f}"
            print(f"| {num_scenes:,} | {engine} | {taken} | {memory_mb:,.0f} | {written_mb:,.0f} |", flush=True)
        assert len(digests) == 1, digests


def import_scenarios(source: Path, out: Path, arguments: tuple[str, ...]) -> tuple[float, float, float]:
    """Run the command; return wall-clock seconds, processor seconds, and peak memory in MB."""
    command = [
        sys.executable,
        "-m",
        "l5kit",
        "import",
        "scenarionet",
        source,
        out,
        "--maps",
        "apart",
        "--strict",
        *arguments,
    ]
    start_s = time.perf_counter()
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL) as running:
        watch = Watch(running.pid)
        watch.start()
        if running.wait():
            raise SystemExit(f"the import ended with status {running.returncode}")
        taken_s = time.perf_counter() - start_s
    watch.join()
    return taken_s, sum(watch.processor_s.values()), watch.largest_mb


class Watch(threading.Thread):
    """Samples memory and processor time of a process and its descendants until it ends.

    Attributes:
        largest_mb: Peak memory of all of them together; shared pages count once for each process.
        processor_s: Processor seconds of each process when it was last seen.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.largest_mb = 0.0
        self.processor_s: dict[int, float] = {}
        self._root = psutil.Process(pid)

    def run(self) -> None:
        while processes := self._processes():
            resident = 0
            for process in processes:
                try:
                    resident += process.memory_info().rss
                    self.processor_s[process.pid] = sum(process.cpu_times()[:2])
                except psutil.NoSuchProcess:
                    continue
            self.largest_mb = max(self.largest_mb, resident / 1e6)
            time.sleep(0.5)

    def _processes(self) -> list[psutil.Process]:
        """Return the process and its descendants; empty after it has ended."""
        try:
            has_ended = self._root.status() == psutil.STATUS_ZOMBIE
            return [] if has_ended else [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def write_scenarios(folder: Path, num_scenes: int) -> None:
    """Write scenarios of 91 steps under different names, a third as large as those of Waymo."""
    rng = np.random.default_rng(0)
    scenario = scenarionet_files.make_scenario("made")
    for number in range(NUM_TRACKS):
        scenario["tracks"][str(100 + number)] = scenarionet_files.make_track(
            rng.uniform(-90, 90, 2), rng.normal(0, 5, 2)
        )
    for number in range(NUM_LANES):
        y_m = 4.0 * number
        scenario["map_features"][str(1000 + number)] = {
            "type": "LANE_SURFACE_STREET",
            "polyline": scenarionet_files.line((-LANE_M / 2, y_m), (LANE_M / 2, y_m), step_m=1.0),
            "entry_lanes": [],
            "exit_lanes": [],
            "speed_limit_kmh": 40.0,
        }
    being_written = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(being_written, ignore_errors=True)
    for number in range(num_scenes):
        scenario["id"] = f"{number:06d}"
        scenario["metadata"]["scenario_id"] = scenario["id"]
        scenarionet_files.write_set(being_written, [scenario], has_summary=False, has_mapping=False)
    being_written.rename(folder)


if __name__ == "__main__":
    main()
