"""Commands on a dataset in which scenes have a map each."""

import json
import shutil

import pytest

from support.many_maps import NUM_SCENES, import_both


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same scenes with one map and with many."""
    return import_both(tmp_path_factory.mktemp("maps"))


def test_commands_take_scenes_of_many_maps(folders, tmp_path, l5kit):
    info = l5kit("info", folders["apart"], "--json")
    assert json.loads(info.stdout)["map"] == {"maps": NUM_SCENES}
    assert l5kit("validate", folders["apart"]).exit_code == l5kit("validate", folders["one"]).exit_code == 0
    recorded = l5kit("record", folders["apart"], "--scene", 3, "--out", tmp_path / "scene.mcap")
    assert recorded.exit_code == 0, recorded.stderr
    resampled = l5kit("resample", folders["apart"], tmp_path / "resampled", "--step", 0.2, "--workers", 1)
    assert resampled.exit_code == 0, resampled.stderr
    assert l5kit("validate", tmp_path / "resampled").exit_code == 0
    refused = l5kit("export", folders["apart"], tmp_path / "py123d", "--layout", "py123d")
    assert refused.exit_code == 1
    assert "needs one map for all scenes" in refused.stderr


def test_validate_names_the_map_that_is_wrong(folders, tmp_path, l5kit):
    copied = tmp_path / "copied"
    shutil.copytree(folders["apart"], copied)
    (copied / "maps" / "000" / "000001.pb").unlink()
    done = l5kit("validate", copied, "--json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert done.exit_code == 1
    assert (finding["severity"], finding["check"]) == ("error", "map")
    assert "map 'm1' is missing" in finding["message"]


def test_validate_looks_at_the_maps_behind_a_wrong_one(folders, tmp_path, l5kit):
    copied = tmp_path / "copied"
    shutil.copytree(folders["apart"], copied)
    for number in (0, 2):
        (copied / "maps" / "000" / f"{number:06d}.pb").unlink()
    messages = [finding["message"] for finding in json.loads(l5kit("validate", copied, "--json").stdout)["findings"]]
    assert [message.partition(":")[0] for message in messages] == ["map 'm0' is missing", "map 'm2' is missing"]
