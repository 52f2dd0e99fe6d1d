"""Memory of a bank of many scenes of ragged lengths, and of the slots that drive in them.

Run ``python benchmarks/bank_memory.py``. It cuts 10,000 scenes of 10 to 60 frames out of a synthetic city, prepares
them with the paths of their vehicles, and steps 1,024 slots through some of them with IDM. It prints the resident
memory of the process, the bytes of the arrays of the bank by kind, and those of the slots.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import cast

import numpy as np

from l5kit.data import ChunkedDataset, find_dataset_files, open_map
from l5kit.environment import SceneBank, TrafficSlots
from l5kit.simulation import IntelligentDriver, RoadMap
from l5kit.simulation.utils import get_frames_subset
from l5kit.synthetic import make_city
from l5kit_bench.machine import read_process_memory


def main() -> None:
    """Prepare the scenes, step the slots, and print the memory."""
    parser = argparse.ArgumentParser(description="Memory of many scenes of ragged lengths.")
    parser.add_argument("--scenes", type=int, default=10_000, help="scenes of the bank")
    parser.add_argument("--frames", type=int, nargs=2, default=(10, 60), help="fewest and most frames of a scene")
    parser.add_argument("--slots", type=int, default=1024, help="scenes that are driven at once")
    parser.add_argument("--city", type=Path, help="folder of a made city; one of twelve scenes is made without it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="l5kit-bank-") as scratch:
        city = options.city or Path(scratch) / "city"
        if options.city is None:
            make_city(city, num_scenes=12)
        log = RaggedLog(city, options.scenes, tuple(options.frames))
        bank = SceneBank(
            cast("ChunkedDataset", log), road=RoadMap(open_map(find_dataset_files(city))), drives_agents=True
        )
        before_mb, start_s = read_process_memory().resident_mb, time.process_time()
        for first in range(0, options.scenes, 500):
            bank.prepare(np.arange(first, min(first + 500, options.scenes)))
        tell_bank(bank, time.process_time() - start_s, read_process_memory().resident_mb - before_mb)
        tell_slots(bank, options.slots)


class RaggedLog:
    """Scenes of random lengths, each a run of successive frames of a scene of a city.

    Args:
        city: Folder of the city.
        num_scenes: Number of scenes.
        bounds: Least and largest number of frames of a scene.
    """

    def __init__(self, city: Path, num_scenes: int, bounds: tuple[int, int]) -> None:
        self._log, rng = ChunkedDataset(str(find_dataset_files(city).dataset)).open(), np.random.default_rng(0)
        self.facts, self.path = self._log.facts, self._log.path
        self.scenes = np.asarray(self._log.scenes)[rng.integers(len(self._log.scenes), size=num_scenes)]
        starts = self.scenes["frame_index_interval"][:, 0]
        self._chosen = np.searchsorted(self._log.scenes["frame_index_interval"][:, 0], starts)
        lengths = rng.integers(bounds[0], bounds[1] + 1, size=num_scenes)
        self._firsts = rng.integers(np.diff(self.scenes["frame_index_interval"], axis=1)[:, 0] - lengths + 1)
        self._stops = self._firsts + lengths

    def get_scene_dataset(self, scene: int) -> ChunkedDataset:
        """Return one of the scenes."""
        whole = self._log.get_scene_dataset(int(self._chosen[scene]))
        return get_frames_subset(whole, int(self._firsts[scene]), int(self._stops[scene]))


def num_bytes(arrays: object) -> int:
    """Return the bytes of arrays in nested tuples."""
    return sum(map(num_bytes, arrays)) if isinstance(arrays, tuple) else int(np.asarray(arrays).nbytes)


def tell_bank(bank: SceneBank, seconds: float, resident_mb: float) -> None:
    """Print the memory of the scenes."""
    frames, rows, paths = int(bank.frame_starts[-1]), len(bank.rows.groups), len(bank.paths.lengths_m)
    counts = np.diff(bank.frame_starts)
    print(f"{len(bank):,} scenes of {counts.min()} to {counts.max()} frames")
    print(f"{frames:,} frames, {rows:,} rows of agents, {paths:,} paths of {len(bank.paths.points_m):,} points")
    print(f"prepared in {seconds:,.0f} s of the processor, {1e3 * seconds / len(bank):.1f} ms a scene")
    sizes = {name: num_bytes(getattr(bank.arrays, name)) for name in bank.arrays._fields}
    print("MB by kind:", {name: round(size / 1e6, 1) for name, size in sizes.items()})
    print(f"{sizes['rows'] / rows:.0f} bytes of a row, {sum(sizes.values()) / 1e6:,.0f} MB in all")
    print(f"resident {resident_mb:,.0f} MB more")


def tell_slots(bank: SceneBank, num_slots: int) -> None:
    """Step some of the scenes to their ends, and print memory and speed of the slots."""
    slots, scenes = np.arange(num_slots), np.arange(num_slots) % len(bank)
    traffic = TrafficSlots(bank, num_slots, drives=IntelligentDriver())
    traffic.start(slots, scenes, np.zeros(num_slots, np.int64))
    taken = num_bytes((traffic.vehicles, traffic.room, traffic.current))
    print(
        f"{num_slots:,} slots of {traffic.vehicles.states.shape[1]} vehicles: {taken / num_slots / 1e3:.1f} kB a slot"
    )
    ends, num_steps, start_s = np.diff(bank.frame_starts)[scenes], 0, 0.0
    while (going := slots[traffic.frames[slots] + 1 < ends]).size:
        rows = bank.frame_starts[scenes[going]] + traffic.frames[going]
        boxes = np.column_stack([bank.ego_poses[rows], np.tile(bank.log.facts.ego_extent_m[:2], (len(going), 1))])
        headings = np.stack([np.cos(boxes[:, 2]), np.sin(boxes[:, 2])], axis=-1)
        traffic.step(going, boxes, bank.ego_motion[rows, :1] * headings)
        boxes[:, :3] = bank.ego_poses[rows + 1]
        traffic.enter(going, boxes)
        num_steps += len(going) if start_s else 0
        start_s = start_s or time.process_time()  # kernels are compiled in the first step
    seconds = time.process_time() - start_s
    print(f"stepped to the ends of all: {num_steps / seconds:,.0f} scene-steps/s of the processor")


if __name__ == "__main__":
    main()
