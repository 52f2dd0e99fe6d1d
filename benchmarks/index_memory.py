"""Memory of the index of a large log in several processes, and the randomness of its shuffle by scenes.

Run ``python benchmarks/index_memory.py``. It generates and opens a log of 170,000 scenes and 600 million agent rows,
with scenes, frames and agents mask on disk, but only the last agent rows: an index does not read agents. The first
process writes the cache files; then several processes open an ``AgentDataset`` at once and look up the samples of
batches of a shuffle. Private memory is memory that no other process shares, in addition to that after the imports:
``Private_Dirty``, and ``Private_Clean`` of the files of the log. The peak of each, sampled twenty times a second, is
printed. Needs Linux and about 14 GB of disk in ``--scratch``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numcodecs
import numpy as np
import zarr
from zarr.storage import LocalStore

from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDataset
from l5kit.dataset.rank_sampler import SceneChoice
from l5kit.dataset.scene_order import SceneOrder, SceneRanges
from l5kit.dataset.select_agents.thresholds import MaskThresholds

FRAMES_PER_SCENE = 248
BATCH = 64
CFG = {
    "model_params": {"history_num_frames": 10, "future_num_frames": 50, "step_time": 0.1, "render_ego_history": True},
    "raster_params": {
        "raster_size": [224, 224],
        "pixel_size": [0.5, 0.5],
        "ego_center": [0.25, 0.5],
        "set_origin_to_bottom": True,
        "filter_agents_threshold": 0.5,
        "disable_traffic_light_faces": True,
    },
}


def main() -> None:
    """Generate the log, let processes open it, and print the table."""
    parser = argparse.ArgumentParser(description="Memory of the index of a large log.")
    parser.add_argument("--scenes", type=int, default=170_000)
    parser.add_argument("--agents", type=int, default=600_000_000, help="agent rows")
    parser.add_argument("--processes", type=int, default=4, help="that share the files")
    parser.add_argument("--indices", type=int, default=100_000, help="that each process looks up")
    parser.add_argument("--scratch", type=Path, help="folder for the log and the kept files, removed afterwards")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open is not None:
        use_index(options.open, options.rank, options.processes, options.indices)
        return
    with tempfile.TemporaryDirectory(prefix="l5kit-index-", dir=options.scratch) as scratch:
        os.environ["L5KIT_CACHE_DIR"] = f"{scratch}/cache"
        start_s = time.perf_counter()
        make_log(Path(scratch) / "made.zarr", num_scenes=options.scenes, num_agents=options.agents)
        print(f"made {options.scenes:,} scenes, {options.agents:,} rows in {time.perf_counter() - start_s:.0f} s")
        run_processes(Path(scratch) / "made.zarr", 1, 0, "the first, which makes the files")
        run_processes(Path(scratch) / "made.zarr", 1, options.indices, "alone")
        run_processes(Path(scratch) / "made.zarr", options.processes, options.indices, "at once")
    compare_shuffles(min(options.scenes, 20_000))


def make_log(path: Path, *, num_scenes: int, num_agents: int) -> None:
    """Write scenes, frames and an agents mask, but only the last agent rows."""
    num_frames = num_scenes * FRAMES_PER_SCENE
    log = ChunkedDataset(str(path))
    log.initialize(num_scenes=num_scenes, num_frames=num_frames, num_agents=num_agents, num_tl_faces=0)
    scenes = np.zeros(num_scenes, log.scenes.dtype)
    starts = np.arange(num_scenes) * FRAMES_PER_SCENE
    scenes["frame_index_interval"] = np.stack([starts, starts + FRAMES_PER_SCENE], axis=-1)
    log.scenes[:] = scenes
    for start in range(0, num_frames, 1_000_000):
        stop = min(start + 1_000_000, num_frames)
        frames = np.zeros(stop - start, log.frames.dtype)
        bounds = np.arange(start, stop + 1) * num_agents // num_frames
        frames["agent_index_interval"] = np.stack([bounds[:-1], bounds[1:]], axis=-1)
        log.frames[start:stop] = frames
    last = np.ones(min(num_agents, 20_000), log.agents.dtype)  # a log without its last chunk is refused
    log.agents[num_agents - len(last) : num_agents] = last
    group = zarr.open_group(store=LocalStore(path / "agents_mask"), mode="a", zarr_format=2)
    rows = 1 << 20
    mask = group.create_array(
        "0.5", shape=(num_agents, 2), chunks=(rows, 2), dtype="<u4", compressors=numcodecs.Blosc("lz4", 1, 1)
    )
    counts = np.stack([np.arange(rows) % 128, 127 - np.arange(rows) % 128], axis=-1).astype("<u4") + 10
    counts[::16] = 0  # one row in sixteen is masked
    for start in range(0, num_agents, rows):
        mask[start : start + rows] = counts[: num_agents - start]
    mask.attrs.update(MaskThresholds(0.5).as_attributes())


def run_processes(path: Path, num_processes: int, num_indices: int, title: str) -> None:
    """Start processes at once and print their reports."""
    base = [sys.executable, __file__, "--open", str(path), "--processes", str(num_processes)]
    started = [
        subprocess.Popen([*base, "--indices", str(num_indices), "--rank", str(rank)], stdout=subprocess.PIPE)
        for rank in range(num_processes)
    ]
    told = [json.loads(process.communicate()[0]) for process in started]
    print(f"{num_processes} process(es), {title}:")
    for row in told:
        print("  " + ", ".join(f"{name} {value:,.1f}" for name, value in row.items()), flush=True)


def use_index(path: Path, rank: int, world_size: int, num_indices: int) -> None:
    """Open the samples, look up the batches of this process, and print memory and times."""
    warnings.simplefilter("ignore", RuntimeWarning)
    memory = PrivateMemory(path.parent)
    start_s = time.perf_counter()
    samples = AgentDataset(CFG, ChunkedDataset(str(path)).open(), None)
    opened_s, to_open = time.perf_counter() - start_s, memory.most()
    sampler = SceneChoice().sampler_of(samples, shuffle=True, seed=0, drop_last=True, rank=rank, world_size=world_size)
    indices = iter(sampler)
    samples.locate(np.array([next(indices)]))
    first_s = time.perf_counter() - start_s
    looked_s = 0.0
    for _ in range(num_indices // BATCH):
        batch = np.array([next(indices) for _ in range(BATCH)])
        start_s = time.process_time()
        samples.locate(batch)
        looked_s += time.process_time() - start_s
    told = {
        "samples": len(samples),
        **{f"{name} to open": value for name, value in to_open.items()},
        **{f"{name} in use": value for name, value in memory.most().items()},
        "s to open": opened_s,
        "s to first index": first_s,
        "us of a core for an index": looked_s / max(num_indices // BATCH * BATCH, 1) * 1e6,
    }
    print(json.dumps(told))


class PrivateMemory:
    """Samples the private memory of this process, relative to its memory at the start.

    ``Private_Dirty`` are pages that the process has written, and pages of files that are not on disk yet.
    ``Private_Clean`` are pages of files that no other process has mapped, here those of the log and its cache files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._most = {"dirty MB": 0.0, "clean MB": 0.0}
        self._before = self._now()
        threading.Thread(target=self._watch, daemon=True).start()

    def most(self) -> dict[str, float]:
        """Return the peak since the last call."""
        self._look()
        most, self._most = self._most, {"dirty MB": 0.0, "clean MB": 0.0}
        return most

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(0.05)

    def _look(self) -> None:
        for name, value in self._now().items():
            self._most[name] = max(self._most[name], value - self._before[name])

    def _now(self) -> dict[str, float]:
        found, file = {"dirty MB": 0.0, "clean MB": 0.0}, ""
        for line in Path("/proc/self/smaps").read_text("utf-8").splitlines():
            words = line.split(maxsplit=5)
            if not words[0].endswith(":"):
                file = words[5] if len(words) > 5 else ""
            elif words[0] == "Private_Dirty:":
                found["dirty MB"] += int(words[1]) * 1024 / 1e6
            elif words[0] == "Private_Clean:" and file.startswith(self._folder):
                found["clean MB"] += int(words[1]) * 1024 / 1e6
        return found


def compare_shuffles(num_scenes: int, samples_per_scene: int = 100) -> None:
    """Print the randomness of the shuffle by scenes, and of one over all samples."""
    ranges = SceneRanges.of_runs(num_scenes * samples_per_scene, samples_per_scene)
    order = SceneOrder.of_epoch(ranges, seed=0, epoch=0)
    by_scenes = order.samples_at(np.arange(ranges.num_samples))
    whole = np.random.default_rng(0).permutation(ranges.num_samples)
    values = np.random.default_rng(1).standard_normal(num_scenes)
    of_blocks = np.repeat(np.random.default_rng(2).standard_normal(-(-num_scenes // 8)), 8)[:num_scenes]
    print(f"{num_scenes:,} scenes of {samples_per_scene} samples, batches of {BATCH}: by scenes, as a whole")
    found = [measure(each // samples_per_scene, values, of_blocks) for each in (by_scenes, whole)]
    for name in found[0]:
        print(f"  {name}: {found[0][name]:.4f}, {found[1][name]:.4f}")


def measure(scenes: np.ndarray, values: np.ndarray, of_blocks: np.ndarray) -> dict[str, float]:
    """Return measures of an order, given as the scene at each position."""
    batches = scenes[: len(scenes) // BATCH * BATCH].reshape(-1, BATCH)
    ordered = np.sort(batches[:5000], axis=1)
    largest = [np.unique(batch, return_counts=True)[1].max() for batch in ordered]
    places = np.histogram2d(np.arange(len(scenes)), scenes, bins=(10, 10))[0] / (len(scenes) / 100)
    return {
        "scenes in a batch": 1 + float((np.diff(ordered, axis=1) > 0).sum(axis=1).mean()),
        "largest share of a scene in a batch": float(np.mean(largest)) / BATCH,
        "correlation of neighbours' scene numbers": float(np.corrcoef(scenes[:-1], scenes[1:])[0, 1]),
        "correlation of place and scene number": float(np.corrcoef(np.arange(len(scenes)), scenes)[0, 1]),
        "most samples of a tenth of the scenes in a tenth of the epoch, to the mean": float(places.max()),
        "spread of means of batches, of what each scene has, to an independent draw": _spread(batches, values),
        "the same, of what eight successive scenes share": _spread(batches, of_blocks),
    }


def _spread(batches: np.ndarray, values: np.ndarray) -> float:
    return float(values[batches].mean(axis=1).std() / values.std() * np.sqrt(BATCH))


if __name__ == "__main__":
    main()
