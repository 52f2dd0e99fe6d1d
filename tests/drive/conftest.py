"""A synthetic city to drive in, lists of keys, and their drives by the simulation."""

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from l5kit.closedloop.page_policies import page_policy
from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.data.scene_records import SceneRecords
from l5kit.environment.observations.compact_view import CompactSight
from l5kit.environment.policy_driver import PolicyDriver
from l5kit.simulation.drivers.intelligent import IntelligentDriver, intelligent_traffic
from l5kit.simulation.drivers.key_driver import KeyDriver
from l5kit.simulation.engine.driven_scenes import score_drives
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import SceneSimulation
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
    seen: list
    actions: list
    policy_plans: list


@pytest.fixture(scope="session")
def city(tmp_path_factory):
    """Folder of a small synthetic city, never written to."""
    return small_city(tmp_path_factory.mktemp("drive") / "city").path


@pytest.fixture(scope="session")
def batches_of():
    """Return each scene of a dataset alone, with the map."""

    def read(folder):
        files = find_dataset_files(folder)
        log = ChunkedDataset(files.dataset).open()
        road = RoadMap(open_map(files))
        return [
            SceneBatch.of_scenes([SceneRecords.read(log, scene)], scene_indices=[scene], facts=log.facts, road=road)
            for scene in range(len(log.scenes))
        ]

    return read


@pytest.fixture(scope="session")
def batches(city, batches_of):
    """Each scene of the city alone, with the map."""
    return batches_of(city)


@pytest.fixture(scope="session")
def policy():
    """The policy that ships."""
    return PolicyDriver.load("route_policy")


@pytest.fixture(scope="session")
def drive_by_keys(policy):
    """Drive a scene with keys by the simulation, and plan with ``idm`` and with the policy where the page does."""

    def drive(batch, keys):
        simulation = SceneSimulation(batch, ego=KeyDriver(tuple(keys)).seat, agents=intelligent_traffic(), strict=True)
        planner, memory, plans = IntelligentDriver(), {}, []
        sight = CompactSight(batch, policy.options.layout, threshold=policy.options.threshold)
        policy_memory, seen, actions, policy_plans = {}, [], [], []
        while len(simulation.running):
            frame = int(simulation.frame_indices[0])
            if frame < 30 or frame % 10 == 0:
                state = simulation.state()
                plans.append(planner.drive(replace(state, memory=memory)).values[0])
                seen.append(sight.look(state)[0][0])
                actions.append(policy.network.act(seen[-1][None])[0])
                policy_plans.append(policy.as_planner.drive(replace(state, memory=policy_memory)).values[0])
            simulation.step()
        driven = simulation.result()
        (scored,) = score_drives(driven)
        return PythonDrive(simulation, driven, scored, plans, seen, actions, policy_plans)

    return drive


@pytest.fixture(scope="session")
def replay(policy, tmp_path_factory):
    """Drive a scene with lists of keys by the scripts of the page, which node runs, with the plan of a policy."""
    folder = tmp_path_factory.mktemp("replay")

    def run(batch, lists, *, planned_by=policy):
        program = node()
        (folder / "scene.bin").write_bytes(drive_scene_bytes(batch))
        (folder / "road.bin").write_bytes(road_bytes(batch.driving_map))
        (folder / "policy.bin").write_bytes(page_policy(planned_by, name="route_policy").content)
        (folder / "keys.json").write_text(json.dumps(lists))
        files = [str(folder / name) for name in ("scene.bin", "road.bin", "keys.json", "policy.bin")]
        done = subprocess.run(
            [program, str(REPLAY), *files], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=600
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
