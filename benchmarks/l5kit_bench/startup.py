"""Start-up time in new processes: import, opening, first sample and first batch."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from l5kit.data.user_cache import CACHE_DIR_ENV_KEY
from l5kit.warmup.workloads import AGENT_SEMANTIC, RowLeftOutError, config_with_files
from l5kit_bench.workplace import Workplace

NUMBA_CACHE_ENV_KEY = "NUMBA_CACHE_DIR"

STARTUP_COLUMNS = ("Step", "Cold", "Warm")
"""Titles of :meth:`StartupTimes.lines`."""

_STEPS = {
    "import": "import l5kit.dataset",
    "open": "open the dataset",
    "rasterizer": "build the rasterizer",
    "dataset": "build AgentDataset, its mask included",
    "sample": "first sample",
    "sample again": "second sample",
    "batch": "first batch",
    "batch again": "second batch",
}

_SCRIPT = """
import json, sys, time

times = {}

def lap(step):
    global last
    now = time.perf_counter()
    times[step], last = now - last, now

task = json.loads(sys.argv[1])
last = time.perf_counter()
import l5kit.dataset
lap("import")
import warnings
warnings.filterwarnings("ignore", message="the agents mask of")
from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.rasterization import build_rasterizer
dataset = ChunkedDataset(task["dataset"]).open()
lap("open")
rasterizer = build_rasterizer(task["cfg"], LocalDataManager(""))
lap("rasterizer")
samples = l5kit.dataset.AgentDataset(task["cfg"], dataset, rasterizer)
lap("dataset")
samples[0]
lap("sample")
samples[0]
lap("sample again")
indices = list(range(min(len(samples), task["batch_size"])))
samples.__getitems__(indices)
lap("batch")
samples.__getitems__(indices)
lap("batch again")
print(json.dumps(times))
"""


@dataclass(frozen=True)
class StartupTimes:
    """Seconds of each step of starting.

    Attributes:
        cold: Without compiled kernels on disk.
        warm: In a second process, with the kernels that the first one has compiled.
    """

    cold: dict[str, float]
    warm: dict[str, float]

    def lines(self) -> list[tuple[str, str, str]]:
        """Return a line for each step, and one for the time until the first sample."""
        times = {title: (self.cold[step], self.warm[step]) for step, title in _STEPS.items()}
        times["all up to the first sample"] = (until_first_sample(self.cold), until_first_sample(self.warm))
        return [(title, _milliseconds(cold), _milliseconds(warm)) for title, (cold, warm) in times.items()]


def until_first_sample(times: dict[str, float]) -> float:
    """Return the seconds from the start of the import until the first sample is complete."""
    steps = list(_STEPS)
    return sum(times[step] for step in steps[: steps.index("sample") + 1])


def measure_startup(place: Workplace) -> StartupTimes:
    """Return what starting costs in a process that has to compile all kernels, and in one after it.

    Both read files that are in the page cache. The first also computes the agents mask, which it keeps for the second.

    Raises:
        RowLeftOutError: A map is missing, or a process failed.
    """
    cache = place.scratch / "startup"
    task = {
        "dataset": str(place.files.dataset),
        "cfg": config_with_files(AGENT_SEMANTIC, place.files),
        "batch_size": place.amounts.batch_size,
    }
    cold, warm = (_start(json.dumps(task), cache) for _ in range(2))
    return StartupTimes(cold, warm)


def _start(task: str, cache: Path) -> dict[str, float]:
    folders = {NUMBA_CACHE_ENV_KEY: str(cache / "numba"), CACHE_DIR_ENV_KEY: str(cache / "l5kit")}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, task], env=os.environ | folders, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RowLeftOutError(f"starting failed in a process of its own: {done.stderr.strip().splitlines()[-1]}")
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return times


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"
