"""The folder of a simulation: what is found in it, and what is refused."""

import json
import shutil

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError
from l5kit.simulation.folder.simulation_folder import SimulationFolder, find_scene_files, find_simulation_folder


@pytest.fixture
def copy(driven_city, tmp_path):
    """A simulation that a test may break."""
    return shutil.copytree(driven_city[1], tmp_path / "drives")


def test_a_simulation_is_known_by_its_folder_and_by_its_driven_scenes(driven_city):
    city, drives = driven_city
    for path in (drives, drives / "simulated.zarr"):
        folder = find_simulation_folder(path)
        assert folder is not None
        assert folder.path == drives
    assert find_simulation_folder(city) is None
    assert find_simulation_folder(city / "scenes" / "sample.zarr") is None


def test_driven_scenes_come_first_then_those_that_could_not_be(driven_city):
    folder = SimulationFolder(driven_city[1])
    assert [(result.scene, result.position) for result in folder.scenes] == [(0, 0), (2, 1), (1, None)]
    assert [bool(result.error) for result in folder.scenes] == [False, False, True]
    assert folder.scenes[2].error.startswith("not driven to its end: frame 30: actions")
    assert folder.scenes[2].score is None
    assert folder.scenes[0].failed[0].name == "no_at_fault_collisions"


def test_map_and_meta_are_those_of_the_log(driven_city):
    city, drives = driven_city
    files, folder = find_scene_files(drives)
    assert folder is not None
    assert (files.dataset, files.meta) == (drives / "simulated.zarr", city / "meta.json")
    assert files.semantic_map == city / "semantic_map" / "semantic_map.pb"
    files, folder = find_scene_files(city)
    assert folder is None
    assert files.dataset == city / "scenes" / "sample.zarr"


def test_without_the_log_the_driven_scenes_are_found_with_notes(copy):
    run = json.loads((copy / "run.json").read_text())
    run["files"] = {name: f"/nowhere/{name}" for name in run["files"]}
    (copy / "run.json").write_text(json.dumps(run))
    files, _ = find_scene_files(copy)
    assert files.semantic_map is None
    assert len(files.notes) == 3


def test_plans_are_those_of_the_scene_in_its_log(driven_city):
    folder = SimulationFolder(driven_city[1])
    log = ChunkedDataset(folder.driven).open()
    for result in folder.scenes[:2]:
        plans = folder.plans(result.scene)
        start = log.scenes[result.position]["frame_index_interval"][0]
        ego_m, speed_mps = log.frames[start]["ego_translation"][:2], 12.0
        assert plans.poses.shape == (95, 30, 3)
        np.testing.assert_allclose(plans.times_s, 0.1 * np.arange(1, 31))
        assert 0.1 < np.linalg.norm(plans.poses[0, 0, :2] - ego_m) < 0.2 * speed_mps
    assert folder.plans(1) is None


def test_plans_that_are_shorter_than_those_of_others_have_the_first_times(copy):
    poses = np.zeros((95, 4, 3), np.float32)
    np.savez(copy / "plans.npz", times_s=0.5 * np.arange(1, 7), scene_0=poses)
    plans = SimulationFolder(copy).plans(0)
    assert plans.times_s.tolist() == [0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize("content", [b"", b"PK nonsense"])
def test_plans_that_cannot_be_read_are_an_error(copy, content):
    (copy / "plans.npz").write_bytes(content)
    with pytest.raises(CorruptedDataError, match=r"plans\.npz cannot be read"):
        SimulationFolder(copy).plans(0)


def test_plans_that_would_be_many_times_their_size_are_refused(copy):
    np.savez_compressed(
        copy / "plans.npz", times_s=0.1 * np.arange(1, 5), scene_0=np.zeros((95, 74_000, 3), np.float32)
    )
    with pytest.raises(CorruptedDataError, match=r"unpacked; at most 67,108,864 are read"):
        SimulationFolder(copy).plans(0)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("scores.json", "[1]", "must hold a JSON object"),
        ("run.json", "{", "cannot be read"),
        ("scenes.csv", "scene,position\nx,0\n", "cannot be read"),
        ("scenes.csv", "position,score\n0,1\n", "cannot be read"),
        ("scenes.csv", "scene,position\n0,1\n", "must count the 1 driven scenes"),
    ],
)
def test_files_that_are_broken_are_named(copy, name, text, message):
    (copy / name).write_text(text)
    with pytest.raises(CorruptedDataError, match=message) as caught:
        SimulationFolder(copy).scenes  # noqa: B018
    assert name in str(caught.value)


@pytest.mark.parametrize("scene", [-1, 3])
def test_a_scene_that_is_not_there_is_refused(driven_city, scene):
    with pytest.raises(IndexOutOfRangeError, match="has the scenes 0 to 2"):
        SimulationFolder(driven_city[1]).result(scene)
