"""A made city to drive in, lists of keys, and drives of these by the simulation."""

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.data.scene_records import SceneRecords
from l5kit.simulation.drivers.intelligent import IntelligentDriver, intelligent_traffic
from l5kit.simulation.drivers.key_driver import KeyDriver
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import SceneSimulation
from l5kit.simulation.engine.scored_drives import score_drives
from l5kit.visualization.drive.drive_content import drive_scene_bytes, road_bytes
from support.cities import small_city
from support.node import node

ROOT = Path(__file__).resolve().parents[2]
REPLAY = Path(__file__).with_name("replay.js")


@dataclass
class PythonDrive:
    """A drive by the simulation."""

    simulation: SceneSimulation
    driven: object
    scored: object
    plans: list


@pytest.fixture(scope="session")
def city(tmp_path_factory):
    """Folder of a small made city, never written to."""
    return small_city(tmp_path_factory.mktemp("drive") / "city").path


@pytest.fixture(scope="session")
def batches(city):
    """Each scene of the city alone, with the map."""
    files = find_dataset_files(city)
    log = ChunkedDataset(files.dataset).open()
    road = RoadMap(open_map(files))
    return [
        SceneBatch.of_scenes([SceneRecords.read(log, scene)], scene_indices=[scene], facts=log.facts, road=road)
        for scene in range(len(log.scenes))
    ]


@pytest.fixture(scope="session")
def drive_by_keys():
    """Drive a scene with keys by the simulation, and plan with ``idm`` where the page does."""

    def drive(batch, keys):
        simulation = SceneSimulation(batch, ego=KeyDriver(tuple(keys)).seat, agents=intelligent_traffic(), strict=True)
        planner, memory, plans = IntelligentDriver(), {}, []
        while len(simulation.running):
            frame = int(simulation.frame_indices[0])
            if frame < 30 or frame % 10 == 0:
                plans.append(planner.drive(replace(simulation.state(), memory=memory)).values[0])
            simulation.step()
        driven = simulation.result()
        (scored,) = score_drives(driven)
        return PythonDrive(simulation, driven, scored, plans)

    return drive


@pytest.fixture(scope="session")
def replay(tmp_path_factory):
    """Drive a scene with lists of keys by the scripts of the page, which node runs."""
    folder = tmp_path_factory.mktemp("replay")

    def run(batch, lists):
        program = node()
        (folder / "scene.bin").write_bytes(drive_scene_bytes(batch))
        (folder / "road.bin").write_bytes(road_bytes(batch.driving_map))
        (folder / "keys.json").write_text(json.dumps(lists))
        files = [str(folder / name) for name in ("scene.bin", "road.bin", "keys.json")]
        done = subprocess.run(
            [program, str(REPLAY), *files], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=600
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
