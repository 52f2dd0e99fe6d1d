"""Dataset with a map for each of many scenes, as large as Waymo Open Motion: opening, samples, memory.

PYTHONPATH=src:benchmarks python benchmarks/many_maps.py --scenes 10000 --folder /tmp/many-maps

The dataset is generated once: a map of 180 lanes and a scene of 9.1 s with 30 agents, copied for each scene to a
location of its own. A separate process measures it and prints JSON.
"""

import argparse
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

from l5kit._types import Float64Array, JsonObject
from l5kit.configs import load_training_config
from l5kit.data import (
    AGENT_DTYPE,
    FRAME_DTYPE,
    PERCEPTION_LABEL_TO_INDEX,
    TL_FACE_DTYPE,
    ChunkedDataset,
    LocalDataManager,
    SceneRecords,
    find_dataset_files,
    open_maps,
    write_log,
)
from l5kit.data.map.builder import MapBuilder
from l5kit.data.map.map_folder import MAPS_FOLDER, MapIndexWriter
from l5kit.data.proto.road_network_pb2 import MapFragment
from l5kit.dataset import EgoDatasetVectorized
from l5kit.readers.import_files import offsets_of
from l5kit.readers.map_writing import WORLD_TO_ECEF
from l5kit.simulation import IntelligentDriver, SceneBatch
from l5kit.simulation.engine.scene_batch import SceneRoads
from l5kit.simulation.engine.scene_simulation import EgoSeat, SceneSimulation
from l5kit.vectorization import build_vectorizer
from l5kit_bench.machine import read_process_memory

NUM_FRAMES, NUM_AGENTS, NUM_LANES, NUM_POINTS = 91, 30, 180, 60
SIDE_M = 300.0
PLACEHOLDER = b"########"
"""Placeholder of the map index in ids."""

BLOCK = 16
"""Number of scenes that are simulated together."""


def main() -> None:
    """Generate the dataset if it is missing, and measure it."""
    parser = argparse.ArgumentParser(description="Many scenes with a map each.")
    parser.add_argument("--scenes", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=2_000, help="drawn at random from all scenes")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/l5kit-many-maps"))
    parser.add_argument("--measure", action="store_true", help="measure the folder here, in this process")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.folder, options.samples), indent=1))
        return
    if not (options.folder / "scenes").exists():
        make(options.folder, options.scenes)
    command = [sys.executable, __file__, "--measure", "--folder", options.folder, "--samples", options.samples]
    subprocess.run([str(part) for part in command], check=True)


def make(folder: Path, num_scenes: int) -> None:
    """Write the dataset."""
    template, records = make_map(), make_scene()
    bounds_m = np.array([[-20.0, -20.0], [SIDE_M + 20.0, SIDE_M + 20.0]])
    offsets = offsets_of({f"scenario-{number:06d}": bounds_m for number in range(num_scenes)})
    (folder / MAPS_FOLDER).mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps({"world_to_ecef": WORLD_TO_ECEF.tolist()}))
    maps, before_m = MapIndexWriter(folder / MAPS_FOLDER), np.zeros(2)
    with write_log(folder / "scenes" / "train.zarr") as log:
        for name, offset_m in offsets.items():
            shift(template, offset_m - before_m)
            content = template.SerializeToString().replace(PLACEHOLDER, f"{len(maps):08d}".encode())
            maps.add(name, bounds_m + offset_m, partial(save, content))
            frames, agents = records.frames.copy(), records.agents.copy()
            frames["ego_translation"][:, :2] += offset_m
            agents["centroid"] += offset_m
            log.append(SceneRecords(frames, agents, records.tl_faces, host=records.host))
            before_m = offset_m
    maps.finish()


def save(content: bytes, path: Path) -> None:
    """Write the file of one map."""
    path.write_bytes(content)


def make_map() -> MapFragment:
    """Return a map of lanes along x, three in succession in each of 60 rows."""
    builder = MapBuilder(WORLD_TO_ECEF)
    for lane in range(NUM_LANES):
        row, part = divmod(lane, 3)
        x_m = np.linspace(part, part + 1, NUM_POINTS) * SIDE_M / 3
        y_m = 5.0 * row + 0.5 * np.sin(x_m / 20)
        left, right = (np.stack([x_m, y_m + side, 0 * x_m], axis=1) for side in (1.75, -1.75))
        name, road, ahead = (f"{PLACEHOLDER.decode()}/{text}" for text in (lane, f"road-{lane}", lane + 1))
        builder.add_lane(name, left, right, lanes_ahead=[ahead] if part < 2 else [], parent=road)
        builder.add_segment(road, np.stack([x_m, y_m, 0 * x_m], axis=1)[[0, -1]], speed_limit_mps=13.0)
    return builder.to_fragment()


def shift(fragment: MapFragment, by_m: Float64Array) -> None:
    """Translate the lanes of a map; the first step of each line is relative to the origin."""
    x_cm, y_cm = np.rint(by_m * 100).astype(int).tolist()
    for element in fragment.elements:
        if element.element.HasField("lane"):
            for line in (element.element.lane.left_boundary, element.element.lane.right_boundary):
                line.vertex_deltas_x_cm[0] += x_cm
                line.vertex_deltas_y_cm[0] += y_cm


def make_scene() -> SceneRecords:
    """Return a scene of the AV and cars, each on its own row of lanes."""
    frames, agents = np.zeros(NUM_FRAMES, FRAME_DTYPE), np.zeros((NUM_FRAMES, NUM_AGENTS), AGENT_DTYPE)
    steps = np.arange(NUM_FRAMES)
    frames["timestamp"] = 1_000_000_000 + steps * 100_000_000
    frames["agent_index_interval"] = np.stack([steps, steps + 1], axis=1) * NUM_AGENTS
    frames["ego_translation"][:, 0], frames["ego_translation"][:, 1] = 20.0 + steps, 150.0
    frames["ego_rotation"] = np.eye(3)
    agents["centroid"][..., 0] = 10.0 + steps[:, None] + 3.0 * np.arange(NUM_AGENTS)
    agents["centroid"][..., 1] = 10.0 * np.arange(NUM_AGENTS)
    agents["extent"] = [4.5, 1.9, 1.5]
    agents["track_id"] = 1 + np.arange(NUM_AGENTS)
    agents["label_probabilities"][..., PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]] = 1.0
    return SceneRecords(frames, agents.reshape(-1), np.zeros(0, TL_FACE_DTYPE), host="made")


def measure(folder: Path, num_samples: int) -> JsonObject:
    """Return times and the growing memory of this process."""
    measured: JsonObject = {"memory_mb": {"start": read_process_memory().resident_mb}}

    def note(name: str) -> None:
        measured["memory_mb"][name] = round(read_process_memory().resident_mb)

    # the log and the map index
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    files = find_dataset_files(folder)
    log, maps = ChunkedDataset(files.dataset).open(cache_size_bytes=2**26), open_maps(files)
    assert maps is not None
    measured |= {"maps": len(maps), "open_s": round(time.perf_counter() - start_s, 3)}
    measured["open_cpu_s"] = round(time.process_time() - start_cpu_s, 3)
    note("opened")

    # vectors around the AV, random scenes
    cfg = load_training_config("vector_planner")
    files_of_cfg = {"semantic_map_key": f"{MAPS_FOLDER}/index.json", "dataset_meta_key": "meta.json"}
    cfg["raster_params"] = cfg["raster_params"] | files_of_cfg
    samples = EgoDatasetVectorized(cfg, log, build_vectorizer(cfg, LocalDataManager(folder)))
    order = np.random.default_rng(0).integers(0, len(samples), num_samples)
    samples.make_columns(order[:8].tolist())
    note("first samples")
    start_s = time.process_time()
    for first in range(0, num_samples, 64):
        samples.make_columns(order[first : first + 64].tolist())
        if first in (512, 1024):
            note(f"{first} samples")
    measured["sample_at_random_cpu_ms"] = round((time.process_time() - start_s) / num_samples * 1e3, 2)
    note(f"{num_samples} samples")
    in_order = np.arange(0, min(20 * NUM_FRAMES, len(samples)))
    start_s = time.process_time()
    for first in range(0, len(in_order), 64):
        samples.make_columns(in_order[first : first + 64].tolist())
    measured["sample_in_order_cpu_ms"] = round((time.process_time() - start_s) / len(in_order) * 1e3, 2)

    # simulations, in blocks with several maps each
    roads, scenes = SceneRoads(maps), np.linspace(0, len(maps) - 1, 8 * BLOCK).astype(int)
    start_s = time.process_time()
    for first in range(0, len(scenes), BLOCK):
        part = scenes[first : first + BLOCK].tolist()
        recorded = [SceneRecords.read(log, scene) for scene in part]
        batch = SceneBatch.of_scenes(recorded, scene_indices=part, start=10, road=roads.of_scenes(log, part))
        SceneSimulation(batch, ego=EgoSeat(IntelligentDriver()), strict=True).run()
        if first in (BLOCK, 4 * BLOCK):
            note(f"{first + BLOCK} scenes")
    measured["scene_cpu_ms"] = round((time.process_time() - start_s) / len(scenes) * 1e3, 1)
    note(f"{len(scenes)} scenes")
    return measured


if __name__ == "__main__":
    main()
