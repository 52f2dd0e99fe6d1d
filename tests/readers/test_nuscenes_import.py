"""Imports of nuScenes: log and map agree with the tables.

The same tests run on real files if L5KIT_REAL_NUSCENES names a folder of a version, such as nuscenes/v1.0-mini.
"""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.readers.importing import import_dataset
from l5kit.readers.nuscenes import LABEL_MAPPING, NuscenesReader
from support.nuscenes_folders import NUM_SAMPLES, pick, tables, token, write_folder

MOST_REAL = 3


def written(folder):
    return write_folder(folder)


def real_folder(_):
    named = os.environ.get("L5KIT_REAL_NUSCENES")
    if not named:
        pytest.skip("L5KIT_REAL_NUSCENES names no folder")
    return Path(named)


@pytest.fixture(scope="module", params=[written, real_folder], ids=lambda source: source.__name__)
def imported(request, tmp_path_factory):
    """A folder of tables and its import."""
    folder = tmp_path_factory.mktemp("nuscenes")
    source = request.param(folder / "source")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("L5KIT_CACHE_DIR", str(folder / "cache"))
        return source, import_dataset(NuscenesReader(source), folder / "out", max_scenes=MOST_REAL)


@pytest.fixture(scope="module")
def truth(imported):
    """The tables as dictionaries by token."""
    source, _ = imported
    names = ("scene", "sample", "sample_annotation", "instance", "category", "log")
    return {name: {row["token"]: row for row in json.loads((source / f"{name}.json").read_text())} for name in names}


def scenes_of(result):
    """Yield the row in ``sources``, and the scene of the log, of each scene."""
    for split, path in result.scenes.items():
        log = ChunkedDataset(str(path)).open()
        for number, line in enumerate((result.folder / "sources" / f"{split}.jsonl").read_text().splitlines()):
            yield json.loads(line), log.get_scene_dataset(number)


def samples_of(truth, name):
    (scene,) = [scene for scene in truth["scene"].values() if scene["name"] == name]
    found, at = [], scene["first_sample_token"]
    while at:
        found.append(truth["sample"][at])
        at = found[-1]["next"]
    return found


def test_every_box_of_the_tables_is_in_the_log_and_nothing_else(imported, truth):
    _, result = imported
    assert not result.failed
    of_sample = {}
    for box in truth["sample_annotation"].values():
        of_sample.setdefault(box["sample_token"], []).append(box)
    for row, scene in scenes_of(result):
        samples = samples_of(truth, row["name"])
        assert len(scene.frames) == len(samples)
        offset_m = np.array(row["offset_m"])
        instance_of = row["track_ids"]
        for frame, sample in enumerate(samples):
            agents = scene.agents[slice(*scene.frames["agent_index_interval"][frame])]
            found = {instance_of[str(agent["track_id"])]: agent for agent in agents}
            expected = {box["instance_token"]: box for box in of_sample.get(sample["token"], ())}
            assert found.keys() == expected.keys()
            assert len(agents) == len(found)
            for name, box in expected.items():
                agent = found[name]
                assert np.abs(agent["centroid"] - (np.array(box["translation"][:2]) + offset_m)).max() < 1e-3
                np.testing.assert_allclose(agent["extent"], [box["size"][at] for at in (1, 0, 2)], rtol=1e-6)
                w, x, y, z = box["rotation"]
                yaw_rad = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
                assert abs(np.angle(np.exp(1j * (agent["yaw"] - yaw_rad)))) < 1e-3
                category = truth["category"][truth["instance"][name]["category_token"]]["name"]
                label = PERCEPTION_LABELS[int(agent["label_probabilities"].argmax())]
                assert label in (LABEL_MAPPING[category], LABEL_MAPPING.get(f"{category} with rider"))


def test_frames_are_at_the_times_of_the_key_frames(imported, truth):
    _, result = imported
    for row, scene in scenes_of(result):
        times_us = [sample["timestamp"] for sample in samples_of(truth, row["name"])]
        np.testing.assert_array_equal(scene.frames["timestamp"], np.array(times_us) * 1000)
        assert scene.facts.step_time_s == 0.5


def test_the_log_of_an_import_is_clean_and_tells_its_source(imported):
    _, result = imported
    for path in result.scenes.values():
        assert not validate_path(str(path))
        (told,) = ChunkedDataset(str(path)).open().facts.sources
        assert told["dataset"] == "nuScenes"
        assert "CC BY-NC-SA 4.0" in told["licence"]


def test_lanes_lie_on_the_map_where_their_paths_start(imported):
    source, result = imported
    meta = json.loads((result.folder / "meta.json").read_text())
    map_api = MapAPI(str(result.folder / "semantic_map" / "semantic_map.pb"), np.array(meta["world_to_ecef"]))
    cities = {row["map"]: np.array(row["offset_m"]) for row, _ in scenes_of(result)}
    content = {city: json.loads((source.parent / "maps" / "expansion" / f"{city}.json").read_text()) for city in cities}
    ids = map_api.arrays.lane_ids.to_list()
    assert ids
    for row, lane in enumerate(ids):
        city, _, name = lane.partition("/")
        path = content[city]["arcline_path_3"][name][0]
        start_m = 0.5 * (map_api.arrays.left_line(row)[0, :2] + map_api.arrays.right_line(row)[0, :2])
        gap_m = np.linalg.norm(start_m - cities[city] - path["start_pose"][:2])
        assert gap_m < 2.5  # the middle of the polygon's end is not exactly on the centre line
    network = map_api.network
    lanes = set(ids)
    for row, lane in enumerate(ids):
        city, _, name = lane.partition("/")
        ahead = [f"{city}/{other}" for other in content[city]["connectivity"][name]["outgoing"]]
        assert {other for other in ahead if other in lanes} == {
            network.ids[other] for other in network.ahead_of(row).tolist() if network.ids[other] in lanes
        }


def test_a_scene_with_a_fault_is_left_out_of_the_import_and_named(tmp_path, monkeypatch):
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "cache"))
    records = tables()
    pick(records["sample"], token=token("sample", "scene-0103", 3))["timestamp"] = 5
    result = import_dataset(NuscenesReader(write_folder(tmp_path / "source", records=records)), tmp_path / "out")
    (failed,) = result.failed
    assert failed.ref.name == "scene-0103"
    assert "v1.0-mini/sample.json (scene-0103, sample" in failed.message
    assert list(result.scenes) == ["train"]
    assert len(ChunkedDataset(str(result.scenes["train"])).open().frames) == NUM_SAMPLES


def test_threads_make_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "cache"))
    source = write_folder(tmp_path / "source")
    import_dataset(NuscenesReader(source), tmp_path / "one")
    import_dataset(NuscenesReader(source), tmp_path / "two", workers=2)
    files = [file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert (tmp_path / "two" / file).read_bytes() == (tmp_path / "one" / file).read_bytes()
