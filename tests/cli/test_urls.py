"""Commands on datasets that lie on a web server."""

import json
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.artifact import describe_dataset
from l5kit.errors import InvalidArgumentError
from support.random_logs import assert_same_records
from support.web_server import serve


@pytest.fixture(scope="module")
def folder(city, tmp_path_factory):
    """The city, with its log as a zip file."""
    folder = tmp_path_factory.mktemp("web")
    for name in ("semantic_map", "aerial_map", "meta.json"):
        (folder / name).symlink_to(city / name)
    ChunkedDataset(str(city / "scenes" / "sample.zarr")).open().save(folder / "sample.zarr.zip")
    (folder / "sample.zarr").symlink_to(city / "scenes" / "sample.zarr")
    return folder


@pytest.fixture(scope="module")
def web(folder):
    with serve(folder) as web:
        yield web


@pytest.fixture(params=["sample.zarr", "sample.zarr.zip"])
def url(request, web):
    return f"{web.url}/{request.param}"


def test_info_tells_the_same(l5kit, city, url):
    there, here = (json.loads(l5kit("info", path, "--json").stdout) for path in (url, city))
    for key in ("summary", "facts", "map"):
        assert there[key] == here[key]
    assert there["files"]["dataset"] == url
    assert there["files"]["aerial"] == url.rsplit("/", 1)[0] + "/aerial_map/aerial_map.png"


def test_validate_finds_nothing(l5kit, url):
    done = l5kit("validate", url)
    assert (done.exit_code, done.stdout) == (0, f"{url}: nothing wrong found\n")


def test_mask_counts_the_same(l5kit, city, url):
    there, here = (json.loads(l5kit("mask", path, "--json").stdout) for path in (url, city))
    assert there.pop("dataset") == url
    here.pop("dataset")
    assert there == here


def test_a_mask_is_not_stored_there(l5kit, url):
    done = l5kit("mask", url, "--store")
    assert done.exit_code == 1
    assert "stored inside a dataset folder" in done.stderr


def test_cache_decodes_once(l5kit, url):
    first, second = (json.loads(l5kit("cache", url, "--json").stdout) for _ in range(2))
    assert (first["is_new"], second["is_new"], first["dataset"]) == (True, False, url)
    assert json.loads(l5kit("cache", "--list", "--json").stdout)["stores"][0]["state"] == "current"
    assert json.loads(l5kit("cache", "--remove", url, "--json").stdout)["num_bytes"] == first["num_bytes"]


@pytest.mark.parametrize("map_type", ["semantic", "satellite"])
def test_pictures_are_the_same(l5kit, city, url, tmp_path, map_type):
    pictures = []
    for name, path in (("there", url), ("here", city)):
        out = tmp_path / f"{name}.png"
        done = l5kit("render", path, "--frame", 50, "--size", "120x100", "--map-type", map_type, "--out", out)
        assert done.exit_code == 0, done.stderr
        pictures.append(out.read_bytes())
    assert pictures[0] == pictures[1]


def test_a_test_set_is_made_where_one_says(l5kit, url, tmp_path):
    done = l5kit("chop", url, "--frames", 40, "--future", 20)
    assert done.exit_code == 1
    assert "is a URL, so there is no default output folder" in done.stderr
    assert l5kit("chop", url, "--frames", 40, "--future", 20, "--out", tmp_path / "chopped").exit_code == 0
    assert np.load(tmp_path / "chopped" / "mask.npz")["arr_0"].any()


@pytest.mark.parametrize(
    "words",
    [("render", "--out", "s3://bucket/a.png"), ("simulate", "--out", "s3://bucket/s"), ("chop", "--out", "gs://b/c")],
    ids=lambda words: words[0],
)
def test_nothing_is_written_to_a_url(l5kit, url, words):
    done = l5kit(words[0], url, *words[1:])
    assert done.exit_code == 2
    assert f"{words[-1]!r} is a URL, but only inputs may be URLs" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_goes_wrong_is_told_in_one_line(l5kit, web, monkeypatch):
    monkeypatch.setenv("L5KIT_REMOTE_ATTEMPTS", "1")
    for path, words in (
        (f"{web.url}/none.zarr", "no dataset at"),
        (f"{web.url}/none.zarr.zip", "there is no such file"),
        (f"{web.url}/", "the service lists no folders"),
        ("http://127.0.0.1:9/a.zarr", "cannot be read"),
        ("nonsense://host/a.zarr", "nonsense"),
    ):
        done = l5kit("mask", path)
        assert done.exit_code == 1
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_pages_recordings_and_exports_are_made_of_a_url(l5kit, city, url, tmp_path):
    assert l5kit("view", url, "--export", tmp_path / "scene.html").exit_code == 0
    assert "sample.zarr" in (tmp_path / "scene.html").read_text()
    pytest.importorskip("mcap")
    recorded = []
    for name, path in (("there", url), ("here", city)):
        assert l5kit("record", path, "--out", tmp_path / f"{name}.mcap").exit_code == 0
        recorded.append((tmp_path / f"{name}.mcap").stat().st_size)
    assert recorded[0] == recorded[1]
    done = l5kit("export", url, tmp_path / "columns.zarr", "--json")
    assert (done.exit_code, json.loads(done.stdout)["digest"]) == (0, None)
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    assert_same_records(ChunkedDataset(str(tmp_path / "columns.zarr")).open(), log)


@pytest.mark.process  # libraries ask uname
def test_planners_drive_the_scenes_of_a_url(l5kit, city, url, tmp_path):
    tables = []
    for name, path in (("there", url), ("here", city)):
        done = l5kit("simulate", path, "--out", tmp_path / name, "--scenes", "0:1", "--frames", 10)
        assert done.exit_code == 0, done.stderr
        tables.append((tmp_path / name / "frames.csv").read_bytes())
    assert tables[0] == tables[1]


def test_a_zip_file_has_a_manifest_and_folders_of_web_servers_none(l5kit, web, city, tmp_path):
    url = f"{web.url}/sample.zarr.zip"
    done = l5kit("manifest", url, "--out", tmp_path / "manifest.json", "--json")
    assert (done.exit_code, json.loads(done.stdout)["path"]) == (0, url)
    assert l5kit("verify", url, "--manifest", tmp_path / "manifest.json").exit_code == 0
    done = l5kit("manifest", f"{web.url}/sample.zarr", "--out", tmp_path / "other.json")
    assert done.exit_code == 1
    assert "on a web server without listings, only zip files can be read" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    for path in (f"{web.url}/none.zarr.zip", "http://127.0.0.1:9/none.zip"):
        done = l5kit("manifest", path, "--out", tmp_path / "other.json")
        assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)
        assert path in done.stderr
    assert not (tmp_path / "other.json").exists()


@pytest.mark.process  # libraries ask uname
def test_artifacts_and_benchmarks_want_files_of_this_machine(l5kit, url):
    with pytest.raises(InvalidArgumentError, match=f"path is the URL {url!r}.*--reference"):
        describe_dataset(Path(url))
    done = l5kit("bench", "--data", url)
    assert done.exit_code == 2
    assert "is a URL; what is measured lies on this machine" in done.stderr


@pytest.mark.long
def test_networks_are_trained_and_evaluated_on_a_data_folder_by_url(l5kit, city, tmp_path):
    keys = ("--set", "train_data_loader.key=scenes/sample.zarr", "--set", "val_data_loader.key=scenes/sample.zarr")
    few = (*keys, "--set", "train_params.max_num_steps=1", "--set", "train_data_loader.batch_size=2")
    with serve(city) as web:
        done = l5kit("train", "raster_planner", "--data", web.url, "--out", tmp_path / "net", *few)
        assert done.exit_code == 0, done.stderr
        done = l5kit("evaluate", tmp_path / "net", "--data", web.url, "--out", tmp_path / "scores", "--max-samples", 4)
        assert done.exit_code == 0, done.stderr


@pytest.mark.long
def test_the_demo_shows_a_url(l5kit, url, tmp_path):
    done = l5kit("demo", "--data", url, "--out", tmp_path / "demo", "--samples", 2)
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "demo" / "index.html").is_file()


@pytest.mark.parametrize("name", ["info", "validate", "mask", "view", "render", "record", "simulate", "export", "chop"])
def test_help_says_that_a_url_will_do(l5kit, name):
    assert "URL" in l5kit(name, "--help").stdout
