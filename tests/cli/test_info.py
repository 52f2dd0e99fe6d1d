"""``l5kit info``."""

import hashlib
import json
import shutil

import pytest


def test_counts_are_shown(l5kit, city):
    done = l5kit("info", city)
    assert done.exit_code == 0
    lines = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in done.stdout.splitlines() if "│" in line}
    assert lines["Scenes"] == "3"
    assert lines["Frames"] == "300"
    assert lines["Frame rate"] == "10.00 Hz"
    assert lines["Size of the AV"] == "4.87 x 1.85 x 1.80 m"
    assert int(lines["Lanes on the map"]) > 10
    assert lines["meta.json"] == str(city / "meta.json")


def test_json_is_all_there_is_on_stdout(l5kit, city):
    done = l5kit("info", city / "scenes" / "sample.zarr", "--json")
    assert done.exit_code == 0
    content = json.loads(done.stdout)
    assert content["summary"]["num_scenes"] == 3
    assert content["summary"]["num_frames"] == 300
    assert content["facts"] == {"ego_extent_m": [4.87, 1.85, 1.8], "step_time_s": 0.1, "label_mapping": {}}
    assert content["files"]["semantic_map"] == str(city / "semantic_map" / "semantic_map.pb")
    assert content["map"]["lanes"] > 10


@pytest.mark.parametrize("command", [["info"], ["validate"], ["mask"], ["chop", "--frames", "30", "--out", "test-set"]])
def test_paths_in_json_are_absolute_whatever_was_given(l5kit, city, tmp_path, monkeypatch, command):
    shutil.copytree(city, tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    content = json.loads(l5kit(command[0], "copy", *command[1:], "--json").stdout)
    paths = [content, *content.values()] if isinstance(content, dict) else content
    texts = [text for part in paths if isinstance(part, dict) for text in part.values() if isinstance(text, str)]
    found = [text for text in texts if text.endswith((".zarr", ".pb", ".json", ".png", "test-set"))]
    assert found
    assert [text for text in found if not text.startswith(str(tmp_path))] == []


def test_a_dataset_alone_is_described_and_what_is_missing_is_said(l5kit, city, tmp_path):
    path = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "far" / "away" / "alone.zarr")
    done = l5kit("info", path)
    assert done.exit_code == 0
    assert "not found" in done.stdout
    assert "Lanes" not in done.stdout
    assert done.stderr.count("note: no ") == 3


def test_files_can_be_named(l5kit, city, tmp_path):
    path = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "far" / "away" / "alone.zarr")
    semantic_map = city / "semantic_map" / "semantic_map.pb"
    done = l5kit("info", path, "--map", semantic_map, "--meta", city / "meta.json", "--json")
    content = json.loads(done.stdout)
    assert content["files"]["semantic_map"] == str(semantic_map)
    assert content["map"]["lanes"] > 10


@pytest.mark.parametrize("option", ["--map", "--meta", "--aerial"])
def test_a_named_file_must_be_there(l5kit, city, option):
    done = l5kit("info", city, option, "nothing")
    assert done.exit_code == 1
    assert option in done.stderr


def test_digests_are_those_of_the_files(l5kit, city, tmp_path):
    done = l5kit("info", city, "--checksums", tmp_path / "digests.json", "--json")
    assert done.exit_code == 0
    json.loads(done.stdout)
    digests = json.loads((tmp_path / "digests.json").read_text())
    folder = city / "scenes" / "sample.zarr"
    assert {"agents/0", "frames/.zarray", ".zgroup"} <= set(digests)
    assert all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == digests[name] for name in digests)


def test_a_missing_array_is_an_error_in_one_line(l5kit, city_copy):
    shutil.rmtree(city_copy / "scenes" / "sample.zarr" / "agents")
    done = l5kit("info", city_copy)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: array 'agents' is missing")
    assert done.stderr.count("\n") == 1


def test_damaged_metadata_is_an_error_in_one_line(l5kit, city_copy):
    (city_copy / "scenes" / "sample.zarr" / "frames" / ".zarray").write_text("{")
    done = l5kit("info", city_copy, "--json")
    assert (done.exit_code, done.stdout) == (1, "")
    assert ".zarray" in done.stderr
    assert done.stderr.count("\n") == 1
