"""``l5kit record``: files for Foxglove and Rerun, and what it says when it cannot write them."""

import shutil
import sys

import pytest

from l5kit.errors import install_command

pytest.importorskip("torch", reason="scenes are read with the rules of the datasets, which need torch")

from l5kit.data import ChunkedDataset
from support.recordings import read_mcap, read_rerun


@pytest.fixture
def needs_foxglove():
    pytest.importorskip("foxglove")
    pytest.importorskip("mcap")


@pytest.fixture
def needs_rerun():
    pytest.importorskip("rerun")
    pytest.importorskip("rerun.chunk", reason="reading recordings needs a newer rerun-sdk than writing them")


def scene_of(city, index):
    return ChunkedDataset(str(city / "scenes" / "sample.zarr")).open().get_scene_dataset(index)


def test_a_scene_becomes_an_mcap_file(needs_foxglove, l5kit, city, tmp_path):
    done = l5kit("record", city, "--scene", 1, "--out", tmp_path / "scene.mcap")
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{tmp_path / 'scene.mcap'}\n", "")
    messages = read_mcap(tmp_path / "scene.mcap")
    agents = [message for message in messages if message.topic == "/agents"]
    scene = scene_of(city, 1)
    assert [message.time_ns for message in agents] == scene.frames["timestamp"].tolist()
    assert sum(len(message.content.entities) for message in agents) == len(scene.agents)
    (lanes,) = (message.content.entities[0].triangles for message in messages if message.topic == "/map")
    assert len(lanes) > 20
    assert any(message.content.entities for message in messages if message.topic == "/lights")


def test_a_scene_becomes_a_rerun_recording(needs_rerun, l5kit, city, tmp_path):
    done = l5kit("record", city, "--scene", -1, "--out", tmp_path / "scene.rrd")
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{tmp_path / 'scene.rrd'}\n", "")
    content = read_rerun(tmp_path / "scene.rrd")
    scene = scene_of(city, 2)
    rows = content.rows["/scene/agents"]
    assert [time_ns for _, time_ns, _ in rows] == scene.frames["timestamp"].tolist()
    assert [track for _, _, values in rows for track in values["track_id"]] == scene.agents["track_id"].tolist()
    assert content.static["/__properties/scene"]["scene_index"] == [2]


def test_a_smaller_radius_records_fewer_lanes(needs_foxglove, l5kit, city, tmp_path):
    counts = []
    for radius in (20, "inf"):
        assert l5kit("record", city, "--map-radius", radius, "--out", tmp_path / "scene.mcap").exit_code == 0
        messages = read_mcap(tmp_path / "scene.mcap")
        counts += [len(m.content.entities[0].triangles) for m in messages if m.topic == "/map"]
    assert 0 < counts[0] < counts[1]


def test_a_dataset_without_a_map_is_recorded_without_lanes(needs_foxglove, l5kit, city, tmp_path):
    path = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "far" / "away" / "alone.zarr")
    done = l5kit("record", path, "--out", tmp_path / "scene.mcap")
    assert done.exit_code == 0
    assert done.stderr.startswith("note: recorded without lanes and lights")
    assert not {"/map", "/lights"} & {message.topic for message in read_mcap(tmp_path / "scene.mcap")}

    semantic_map, meta = city / "semantic_map" / "semantic_map.pb", city / "meta.json"
    done = l5kit("record", path, "--out", tmp_path / "scene.mcap", "--map", semantic_map, "--meta", meta)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "/map" in {message.topic for message in read_mcap(tmp_path / "scene.mcap")}


@pytest.mark.parametrize("name", ["scene.mcap", "scene.rrd"])
def test_a_damaged_scene_is_an_error_in_one_line(l5kit, city_copy, tmp_path, name):
    for chunk in (city_copy / "scenes" / "sample.zarr" / "agents").iterdir():
        if chunk.name[0].isdigit():
            chunk.write_bytes(b"damaged")
    done = l5kit("record", city_copy, "--out", tmp_path / name)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "agents" in done.stderr
    assert "unexpected" not in done.stderr
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--scene", 3], "scene_index 3 is out of range for a dataset of 3 scenes", id="scene"),
        pytest.param(["--map-radius", -5], "--map-radius is -5.0", id="radius"),
        pytest.param(["--map", "none.pb"], "none.pb", id="map"),
    ],
)
def test_what_is_not_there_is_an_error_in_one_line(l5kit, city, tmp_path, arguments, said):
    done = l5kit("record", city, "--out", tmp_path / "scene.mcap", *arguments)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert said in done.stderr
    assert not (tmp_path / "scene.mcap").exists()


@pytest.mark.parametrize(
    ("name", "library", "modules", "extra"),
    [
        pytest.param("scene.mcap", "foxglove", ("mcap_messages", "mcap_shapes"), "mcap", id="foxglove"),
        pytest.param("scene.rrd", "rerun", ("rerun_columns",), "rerun", id="rerun"),
    ],
)
def test_a_missing_library_names_its_extra(l5kit, city, tmp_path, monkeypatch, name, library, modules, extra):
    for module in modules:
        monkeypatch.delitem(sys.modules, f"l5kit.visualization.recording.{module}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    done = l5kit("record", city, "--out", tmp_path / name)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert install_command(extra) in done.stderr


def test_another_ending_is_a_wrong_call(l5kit, city, tmp_path):
    done = l5kit("record", city, "--out", tmp_path / "scene.bag")
    assert done.exit_code == 2
    assert ".mcap" in done.stderr
    assert not (tmp_path / "scene.bag").exists()


def test_a_driven_scene_becomes_a_recording_with_the_map_of_its_log(needs_foxglove, l5kit, drives, tmp_path):
    done = l5kit("record", drives, "--scene", 1, "--out", tmp_path / "drive.mcap")
    assert (done.exit_code, done.stderr) == (0, "")
    messages = read_mcap(tmp_path / "drive.mcap")
    driven = ChunkedDataset(str(drives / "simulated.zarr")).open().get_scene_dataset(1)
    times_ns = [message.time_ns for message in messages if message.topic == "/agents"]
    assert times_ns == driven.frames["timestamp"].tolist()
    assert any(message.topic == "/map" for message in messages)
