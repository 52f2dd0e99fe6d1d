"""CPU time of a scene of each source from files to checked arrays, on one core.

PYTHONPATH=src:tests python benchmarks/reader_scenes.py
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.interop import export_py123d
from l5kit.readers.formats import open_reader
from l5kit.synthetic import make_city
from support import argoverse2_files, scenarionet_files

NUM_TRACKS, NUM_LANES = 100, 180


def write_scenarionet(folder: Path) -> None:
    """A scenario as large as those of Waymo: 91 steps, 100 tracks, 180 lanes of 60 points with boundaries."""
    rng = np.random.default_rng(0)
    scenario = scenarionet_files.make_scenario("made")
    for number in range(NUM_TRACKS):
        track = scenarionet_files.make_track(rng.uniform(-90, 90, 2), rng.normal(0, 5, 2))
        scenario["tracks"][str(100 + number)] = track
    for number in range(NUM_LANES):
        y_m = 4.0 * number
        along = scenarionet_files.line((-30, y_m), (30, y_m), step_m=1.0)
        told = {"boundary_type": "UNKNOWN", "boundary_feature_id": str(2000 + number)}
        scenario["map_features"][str(1000 + number)] = {
            "type": "LANE_SURFACE_STREET",
            "polyline": along,
            "entry_lanes": [str(999 + number)],
            "exit_lanes": [str(1001 + number)],
            "left_neighbor": [{"feature_id": str(1001 + number), "self_start_index": 0, "self_end_index": 60}],
            "left_boundaries": [told | {"lane_start_index": first, "lane_end_index": first + 19} for first in (0, 20)],
            "right_boundaries": [],
            "speed_limit_kmh": 40.0,
        }
        beside = scenarionet_files.line((-35, y_m + 2), (35, y_m + 2), step_m=1.0)
        scenario["map_features"][str(2000 + number)] = {"type": "ROAD_LINE_SOLID_SINGLE_WHITE", "polyline": beside}
    for number in range(16):
        light = scenario["dynamic_map_states"]["3"]
        scenario["dynamic_map_states"][str(1000 + number)] = light | {"lane": str(1000 + number)}
    scenarionet_files.write_set(folder, [scenario])


def write_py123d(folder: Path) -> None:
    """A log of 25 s with 86 boxes in each frame and a map of 935 lanes, exported from a synthetic city."""
    with tempfile.TemporaryDirectory() as city:
        made = make_city(Path(city) / "city", num_scenes=1)
        log = ChunkedDataset(str(made.scenes["sample"])).open()
        export_py123d(log, folder / "root", files=find_dataset_files(Path(city) / "city"))


def write_argoverse2_sensor(folder: Path) -> None:
    """A log of 15.6 s with 80 boxes in each step, and the small map of the tests."""
    rng = np.random.default_rng(0)
    steps = np.repeat(np.arange(156), 80)
    columns = {name: np.zeros(len(steps)) for name in ("qx", "qy", "qz", "tz_m")}
    columns |= {name: np.tile(rng.uniform(-80, 80, 80), 156) for name in ("tx_m", "ty_m")}
    columns |= {"qw": np.ones(len(steps)), "length_m": 4.5 * np.ones(len(steps)), "width_m": 1.9 * np.ones(len(steps))}
    columns |= {"height_m": 1.6 * np.ones(len(steps)), "category": np.full(len(steps), "REGULAR_VEHICLE")}
    columns |= {"timestamp_ns": argoverse2_files.START_NS + steps * argoverse2_files.STEP_NS}
    columns |= {"track_uuid": np.tile([f"track-{number}" for number in range(80)], 156)}
    argoverse2_files.write_sensor_log(folder, "log", num_steps=156, boxes=columns)


SOURCES: dict[str, Callable[[Path], None]] = {
    "scenarionet": write_scenarionet,
    "py123d": write_py123d,
    "argoverse2-sensor": write_argoverse2_sensor,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    options = parser.parse_args()
    for name, write in SOURCES.items():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            reader = open_reader(name, Path(folder) / ("root" if name == "py123d" else ""))
            ref = reader.list_scenes()[0]
            num_bytes = sum((reader.source / file).stat().st_size for file in (ref.file, *ref.others))
            reader.read(ref)
            times_ms = []
            for _ in range(options.count):
                start_s = time.process_time()
                scene = reader.read(ref)
                times_ms.append(1e3 * (time.process_time() - start_s))
        print(
            f"{name}: {statistics.median(times_ms):.1f} ms, at best {min(times_ms):.1f}, for {num_bytes / 1e6:.2f} MB, "
            f"{len(scene.tracks.ids)} tracks, {len(scene.timestamps_ns)} steps, {len(scene.map.lanes)} lanes"
        )


if __name__ == "__main__":
    main()
