"""Commands on datasets that lie on a web server."""

import json

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
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
    assert "is a URL, beside which nothing is written" in done.stderr
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
    assert f"{words[-1]!r} is a URL; only what is read may be one" in done.stderr
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
