"""The real trajdata 1.4.0 reads a synthetic city through l5kit with the same rows and lanes.

Its extra ``lyft`` requires l5kit 1.5.0, and it requires a protobuf that is too old for the rest, so it is installed
into a separate folder without its dependencies, next to the libraries of l5kit.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import l5kit
from l5kit.configs.config import load_metadata
from l5kit.data import ChunkedDataset, LocalDataManager, MapAPI
from l5kit.geometry import rotation33_as_yaw
from l5kit.synthetic.city import make_city

pytestmark = pytest.mark.long

PACKAGES = ("trajdata==1.4.0", "kornia", "kornia_rs", "seaborn", "geopandas", "pyproj", "pyogrio")
RUN = Path(__file__).resolve().parents[1] / "support" / "processes" / "trajdata_run.py"
NUM_SCENES, NUM_FRAMES = 100, 30
"""trajdata takes lyft_sample to have 100 scenes."""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Folder with trajdata and its further dependencies."""
    folder = tmp_path_factory.mktemp("libraries")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"trajdata cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    return folder


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hundred") / "city"
    make_city(folder, num_scenes=NUM_SCENES, num_frames=NUM_FRAMES, traffic_density=0.15)
    return LocalDataManager(folder)


@pytest.fixture(scope="module")
def seen(libraries, city, tmp_path_factory):
    """Data read by trajdata."""
    out = tmp_path_factory.mktemp("out")
    path = os.pathsep.join([str(Path(l5kit.__file__).parents[1]), str(libraries)])
    done = subprocess.run(
        [sys.executable, str(RUN), city.require("scenes/sample.zarr"), str(out / "cache"), str(out / "seen.npz")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(out / "seen.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def log(city):
    return ChunkedDataset(city.require("scenes/sample.zarr")).open()


def test_it_reads_through_this_l5kit(seen):
    assert str(seen["l5kit"]) == l5kit.__file__
    assert seen["num_scenes"] == NUM_SCENES // 5  # the rest is mini_train
    assert seen["num_samples"] > NUM_SCENES
    assert tuple(seen["future_shape"])[:2] == (4, 5)


def test_rows_of_agents_are_those_of_the_log(seen, log):
    scene = log.get_scene_dataset(int(seen["scene_index"]))
    wanted = {}
    for number, frame in enumerate(scene.frames):
        for agent in scene.agents[slice(*frame["agent_index_interval"])]:
            state = [*agent["centroid"], *agent["velocity"], agent["yaw"], *agent["extent"]]
            wanted[str(agent["track_id"]), number] = state
    ids = [name for name, _ in wanted]
    wanted = {key: state for key, state in wanted.items() if ids.count(key[0]) > 1}  # it leaves out single rows
    keys = list(zip(seen["agent_ids"].tolist(), seen["frame_numbers"].tolist(), strict=True))
    found = {key: state for key, state in zip(keys, seen["states"], strict=True) if key[0] != "ego"}
    assert found.keys() == wanted.keys()
    for key, state in wanted.items():
        np.testing.assert_allclose(found[key], state, rtol=1e-6)


def test_the_av_is_that_of_the_log(seen, log):
    frames = log.get_scene_dataset(int(seen["scene_index"])).frames
    states = seen["states"][seen["agent_ids"] == "ego"]
    assert len(states) == NUM_FRAMES
    np.testing.assert_allclose(states[:, :2], frames["ego_translation"][:, :2], rtol=1e-6)
    np.testing.assert_allclose(states[:, 4], [rotation33_as_yaw(pose) for pose in frames["ego_rotation"]], rtol=1e-5)


def test_lanes_and_crosswalks_are_those_of_the_map(seen, city):
    metadata = load_metadata(city.require("meta.json"))
    map_api = MapAPI(city.require("semantic_map/semantic_map.pb"), np.array(metadata["world_to_ecef"]))
    lanes = map_api.bounds_info["lanes"]["ids"]
    assert sorted(seen["lane_ids"].tolist()) == sorted(lanes)
    assert seen["num_crosswalks"] == len(map_api.bounds_info["crosswalks"]["ids"])
    messages = [map_api[lane].element.lane for lane in lanes]
    assert seen["num_next"] == sum(len(set(map(map_api.id_as_str, lane.lanes_ahead))) for lane in messages)
    left = map_api.get_lane_coords(str(seen["lane_ids"][0]))["xyz_left"]
    np.testing.assert_allclose(seen["left_0"][[0, -1]], left[[0, -1]], atol=0.01)
