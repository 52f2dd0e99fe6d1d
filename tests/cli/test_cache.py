"""``l5kit cache``."""

import json
import os
import shutil
from pathlib import Path

import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.stores.decoded_store import stores_folder


def zarr_of(city):
    return city / "scenes" / "sample.zarr"


def stores_of(done):
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)["stores"]


def test_it_decodes_a_dataset_once(l5kit, city):
    first, second = (json.loads(l5kit("cache", city, "--json").stdout) for _ in range(2))
    assert (first["is_new"], second["is_new"]) == (True, False)
    folder = Path(first["folder"])
    assert folder.is_relative_to(os.environ["L5KIT_CACHE_DIR"])
    assert first["num_bytes"] == sum(file.stat().st_size for file in folder.glob("*.npy"))
    assert first["bytes_per_second"] == pytest.approx(first["num_bytes"] / first["build_seconds"])
    assert ChunkedDataset(zarr_of(city)).open(cached="mmap").agents.file == folder / "agents.npy"


def test_people_are_told_where_it_lies_and_how_to_read_it(l5kit, city):
    done = l5kit("cache", city)
    assert (done.exit_code, done.stderr) == (0, "")
    assert str(stores_folder()) in done.stdout
    assert "MB/s" in done.stdout
    assert "Built now in" in done.stdout
    assert 'open(cached="mmap")' in done.stdout
    assert "Built before in" in l5kit("cache", city).stdout


def test_another_folder(l5kit, city, tmp_path):
    folder = Path(json.loads(l5kit("cache", city, "--folder", tmp_path, "--json").stdout)["folder"])
    assert folder.is_relative_to(tmp_path)
    assert stores_of(l5kit("cache", "--list", "--json")) == []
    assert [store["folder"] for store in stores_of(l5kit("cache", "--list", "--folder", tmp_path, "--json"))] == [
        str(folder)
    ]
    assert "cache_folder=" in l5kit("cache", city, "--folder", tmp_path).stdout


def test_the_list_tells_what_became_of_the_datasets(l5kit, city, city_copy):
    for folder in (city, city_copy):
        assert l5kit("cache", folder).exit_code == 0
    shutil.rmtree(city_copy)
    states = {store["dataset"]: store["state"] for store in stores_of(l5kit("cache", "--list", "--json"))}
    assert states == {os.path.realpath(zarr_of(city)): "current", os.path.realpath(zarr_of(city_copy)): "gone"}
    shown = l5kit("cache", "--list").stdout
    assert "as decoded" in shown
    assert "gone" in shown


def test_prune_removes_what_is_of_no_use(l5kit, city, city_copy):
    for folder in (city, city_copy):
        assert l5kit("cache", folder).exit_code == 0
    os.utime(zarr_of(city_copy) / "agents" / "0", ns=(1, 1))
    removed = json.loads(l5kit("cache", "--prune", "--json").stdout)
    assert [store["dataset"] for store in removed["removed"]] == [os.path.realpath(zarr_of(city_copy))]
    assert removed["num_bytes"] > 0
    assert len(stores_of(l5kit("cache", "--list", "--json"))) == 1
    assert "nothing to remove in" in l5kit("cache", "--prune").stdout


@pytest.mark.parametrize("is_gone", [False, True], ids=["there", "gone"])
def test_remove_also_where_the_dataset_is_gone(l5kit, city_copy, is_gone):
    l5kit("cache", city_copy)
    if is_gone:
        shutil.rmtree(city_copy)
    path = zarr_of(city_copy) if is_gone else city_copy
    done = l5kit("cache", path, "--remove")
    assert done.exit_code == 0, done.stderr
    assert "removed" in done.stdout
    assert "no decoded files in" in l5kit("cache", "--list").stdout
    again = l5kit("cache", path, "--remove")
    assert (again.exit_code, again.stdout) == (1, "")
    assert "l5kit cache --list" in again.stderr


def test_remove_as_json(l5kit, city_copy):
    built = json.loads(l5kit("cache", city_copy, "--json").stdout)
    removed = json.loads(l5kit("cache", city_copy, "--remove", "--json").stdout)
    assert removed["removed"] == [built["folder"]]
    assert removed["num_bytes"] == built["num_bytes"]


@pytest.mark.parametrize(
    "arguments",
    [(), ("city", "--list"), ("city", "--prune"), ("--list", "--prune"), ("city", "--remove", "--list"), ("--remove",)],
    ids=" ".join,
)
def test_wrong_calls(l5kit, arguments):
    done = l5kit("cache", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")


def assert_one_error(done, text):
    assert (done.exit_code, done.stdout) == (1, "")
    assert text in done.stderr
    assert done.stderr.count("error: ") == done.stderr.count("\n") == 1


def test_what_cannot_be_decoded_is_an_error_in_one_line(l5kit, city_copy, tmp_path):
    assert_one_error(l5kit("cache", tmp_path / "nothing"), "check the spelling")
    (tmp_path / "file").touch()
    assert_one_error(l5kit("cache", city_copy, "--folder", tmp_path / "file"), "--folder of l5kit cache")
    (zarr_of(city_copy) / "agents" / "0").write_bytes(b"damaged")
    assert_one_error(l5kit("cache", city_copy), "agents/0")
    assert "no decoded files in" in l5kit("cache", "--list").stdout
