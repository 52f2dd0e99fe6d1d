"""Commands on a folder with several logs, as ``l5kit synth --train-scenes`` makes one."""

import json

import pytest

from l5kit.synthetic import make_city


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A city with the logs sample, train and validate; nothing in it changes."""
    size = {"num_scenes": 1, "num_train_scenes": 2, "num_validate_scenes": 1, "num_frames": 12, "town_size": 250.0}
    return make_city(tmp_path_factory.mktemp("logs") / "city", seed=5, **size).path


def test_info_and_validate_go_over_all_logs(l5kit, folder):
    content = json.loads(l5kit("info", folder, "--json").stdout)
    assert [log["summary"]["num_scenes"] for log in content["logs"]] == [1, 2, 1]
    shown = l5kit("info", folder, "--statistics").stdout
    found = l5kit("validate", folder)
    checked = json.loads(l5kit("validate", folder, "--json").stdout)["logs"]
    assert found.exit_code == 0
    for name, log in zip(("sample", "train", "validate"), checked, strict=True):
        path = str(folder / "scenes" / f"{name}.zarr")
        assert path in shown
        assert f"{path}: nothing wrong found" in found.stdout
        assert log == {"dataset": path, "findings": []}


@pytest.mark.parametrize("command", ["info", "validate"])
def test_digests_are_of_one_log(l5kit, folder, tmp_path, command):
    (tmp_path / "digests.json").write_text("{}")
    done = l5kit(command, folder, "--checksums", tmp_path / "digests.json")
    assert done.exit_code == 1
    assert "--checksums is for one log, but there are several" in done.stderr


def test_a_manifest_has_all_logs(l5kit, folder, tmp_path):
    assert l5kit("manifest", folder, "--out", tmp_path / "manifest.json").exit_code == 0
    names = {file["path"] for file in json.loads((tmp_path / "manifest.json").read_text())["files"]}
    assert {f"scenes/{name}.zarr/.zattrs" for name in ("sample", "train", "validate")} <= names
    assert l5kit("verify", folder, "--manifest", tmp_path / "manifest.json").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["mask"],
        ["simulate", "--planner", "replay", "--out", "out"],
        ["record", "--scene", "0", "--out", "scene.mcap"],
        ["view", "--export", "scene.html"],
        ["render", "--scene", "0", "--frame", "3", "--out", "frame.png"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_others_take_sample_and_say_so(l5kit, folder, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    done = l5kit(arguments[0], folder, *arguments[1:])
    assert done.exit_code == 0, done.stderr
    notices = [line for line in done.stderr.splitlines() if "several logs" in line]
    assert notices == [
        f"warning: {folder} has several logs; sample.zarr is read; for another one (train.zarr, validate.zarr), "
        "pass its path"
    ]


def test_view_lets_one_choose(l5kit, folder, tmp_path):
    done = l5kit("view", folder, "--log", "train", "--scene", "1", "--export", tmp_path / "scene.html")
    assert (done.exit_code, done.stderr) == (0, "")
    wrong = l5kit("view", folder, "--log", "trian", "--export", tmp_path / "scene.html")
    assert wrong.exit_code == 1
    assert "has the logs sample, train, validate, not one named 'trian'" in wrong.stderr


@pytest.mark.parametrize("of_folder", ["", "simulated.zarr"])
def test_a_simulation_has_the_map_of_its_log(l5kit, city, drives, of_folder):
    done = l5kit("info", drives / of_folder, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    content = json.loads(done.stdout)
    assert content["files"]["semantic_map"] == str(city / "semantic_map" / "semantic_map.pb")
    assert content["map"]["lanes"] > 0
    done = l5kit("validate", drives / of_folder, "--json")
    # only the drive on this map is reported
    told = {each["check"] for each in json.loads(done.stdout)["findings"]}
    assert told <= {"map: route off lanes", "map: drivable area"}
