import shutil
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, LocalDataManager, find_dataset_files, remote_dataset_files
from l5kit.data.artifact import describe_dataset
from l5kit.data.dataset_files import find_all_logs, find_dataset
from l5kit.data.interop import export_columns
from l5kit.data.remote_dataset_files import local_file
from l5kit.data.stores.store import path_of
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError
from support.random_logs import random_dataset
from support.web_server import serve


@pytest.fixture
def published(tmp_path):
    """A folder in the published layout."""
    folder = tmp_path / "data" / "prediction-dataset"
    random_dataset(np.random.default_rng(0), 1).save(folder / "scenes" / "sample.zarr")
    for name in ("semantic_map/semantic_map.pb", "aerial_map/aerial_map.png", "meta.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")
    return folder


def relative(files, folder):
    parts = (files.dataset, files.semantic_map, files.meta, files.aerial)
    return [None if part is None else str(part.relative_to(folder)) for part in parts]


EVERYTHING = ["scenes/sample.zarr", "semantic_map/semantic_map.pb", "meta.json", "aerial_map/aerial_map.png"]


@pytest.mark.parametrize("inside", ["", "scenes/sample.zarr"], ids=["folder", "zarr"])
def test_finds_the_published_layout(published, inside):
    files = find_dataset_files(str(published / inside))
    assert relative(files, published) == EVERYTHING
    assert files.notes == ()


def test_paths_may_be_relative(published, monkeypatch):
    monkeypatch.chdir(published / "scenes")
    files = find_dataset_files("sample.zarr")
    assert files.dataset.resolve() == published / "scenes" / "sample.zarr"
    assert files.semantic_map == published / "semantic_map" / "semantic_map.pb"
    monkeypatch.chdir(published)
    assert find_dataset_files(".").meta == published / "meta.json"


def test_finds_flat_folders(shared_data):
    for path in (shared_data, shared_data / "single_scene.zarr"):
        files = find_dataset_files(path)
        names = ["single_scene.zarr", "semantic_map.pb", "meta.json", "aerial_map.png"]
        assert relative(files, shared_data) == names


def test_a_zip_file_is_a_dataset(published):
    random_dataset(np.random.default_rng(0), 1).save(published / "scenes" / "other.zarr.zip")
    assert find_dataset_files(published / "scenes" / "other.zarr.zip").meta == published / "meta.json"


def test_of_several_logs_it_is_the_one_that_is_named_else_sample_and_a_warning_says_so(published):
    scenes = published / "scenes"
    assert find_all_logs(published) == [scenes / "sample.zarr"] == find_all_logs(scenes / "sample.zarr")
    random_dataset(np.random.default_rng(0), 1).save(scenes / "train.zarr.zip")
    assert find_all_logs(published) == [scenes / "sample.zarr", scenes / "train.zarr.zip"]
    with pytest.warns(UserWarning, match=r"sample\.zarr is read; for another one \(train\.zarr\.zip\)"):
        assert find_dataset(published) == scenes / "sample.zarr"
    assert find_dataset(published, name="train") == scenes / "train.zarr.zip"
    with pytest.raises(InvalidArgumentError, match=r"has the logs sample, train, not one named 'trian'"):
        find_dataset(published, name="trian")


def test_several_logs_without_a_sample_are_refused(published):
    scenes = published / "scenes"
    (scenes / "sample.zarr").rename(scenes / "validate.zarr")
    random_dataset(np.random.default_rng(0), 1).save(scenes / "train.zarr.zip")
    with pytest.raises(InvalidArgumentError, match=rf"{scenes / 'train.zarr.zip'}, {scenes / 'validate.zarr'}"):
        find_dataset_files(published)


def test_what_is_missing_is_none_and_noted(published):
    (published / "semantic_map" / "semantic_map.pb").unlink()
    (published / "meta.json").unlink()
    files = find_dataset_files(published)
    assert relative(files, published) == [EVERYTHING[0], None, None, EVERYTHING[3]]
    assert ["--map" in note or "--meta" in note for note in files.notes] == [True, True]


def test_options_override(published, tmp_path):
    (tmp_path / "my.pb").write_bytes(b"x")
    files = find_dataset_files(
        published, map_path=str(tmp_path / "my.pb"), meta_path=tmp_path / "my.pb", aerial_path=None
    )
    assert (files.semantic_map, files.meta) == (tmp_path / "my.pb", tmp_path / "my.pb")
    with pytest.raises(FileNotFoundError, match="--aerial"):
        find_dataset_files(published, aerial_path=tmp_path / "none.png")


def test_several_candidates_are_listed_with_the_option_to_pass(published):
    (published / "semantic_map.pb").write_bytes(b"y")
    with pytest.raises(InvalidArgumentError, match=r"semantic_map/semantic_map\.pb.*semantic_map\.pb; pass --map"):
        find_dataset_files(published)
    chosen = find_dataset_files(published, map_path=published / "semantic_map.pb")
    assert chosen.semantic_map == published / "semantic_map.pb"


def test_one_file_that_is_found_twice_is_one_candidate(published):
    (published / "semantic_map.pb").symlink_to(published / "semantic_map" / "semantic_map.pb")
    assert find_dataset_files(published).semantic_map == published / "semantic_map" / "semantic_map.pb"


def test_a_link_to_a_dataset_finds_what_lies_beside_the_link(published, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "linked.zarr").symlink_to(published / "scenes" / "sample.zarr")
    (tmp_path / "mine" / "meta.json").write_text("{}")
    assert find_dataset_files(tmp_path / "mine").meta == tmp_path / "mine" / "meta.json"


def test_no_dataset(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "none"):
        with pytest.raises(DatasetNotFoundError, match=path.name):
            find_dataset_files(path)


def test_a_damaged_zarr_folder_is_still_found_so_that_it_can_be_checked(tmp_path):
    (tmp_path / "broken.zarr").mkdir()
    assert find_dataset_files(tmp_path / "broken.zarr").dataset == tmp_path / "broken.zarr"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("s3://bucket/train.zarr", "s3://bucket/train.zarr"),
        (Path("s3://bucket/train.zarr"), "s3://bucket/train.zarr"),  # as a path it has lost a slash
        (Path("zip::https://host/a.zarr.zip"), "zip::https://host/a.zarr.zip"),
        (Path("file:///tmp/a.zarr"), "/tmp/a.zarr"),
        ("relative/a.zarr", "relative/a.zarr"),
        (Path("a:/b.zarr"), "a:/b.zarr"),  # a drive
    ],
)
def test_a_url_stays_one_as_a_path(given, url):
    assert path_of(given) == url


@pytest.mark.parametrize("lists", [True, False])
def test_a_dataset_folder_on_a_web_server(city, lists):
    with serve(city) as web:
        web.lists = lists
        if not lists:
            with pytest.raises(DatasetNotFoundError, match="the service lists no folders; pass the URL"):
                find_dataset_files(web.url)
        files = find_dataset_files(web.url if lists else f"{web.url}/scenes/sample.zarr")
        assert path_of(files.dataset) == f"{web.url}/scenes/sample.zarr"
        assert files.semantic_map.read_bytes() == (city / "semantic_map" / "semantic_map.pb").read_bytes()
        assert files.meta.read_bytes() == (city / "meta.json").read_bytes()
        assert path_of(files.aerial) == f"{web.url}/aerial_map/aerial_map.png"
        assert files.notes == ()
        web.requests.clear()
        again = find_dataset_files(f"{web.url}/scenes/sample.zarr")
        assert again.semantic_map == files.semantic_map
        whole = [path for kind, path, part in web.requests if kind == "GET" and part is None]
        assert not [path for path in whole if path.endswith((".pb", "meta.json"))]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with an export in columns under an uninformative name, never written to."""
    folder = tmp_path_factory.mktemp("exported")
    export_columns(random_dataset(np.random.default_rng(0), 2), folder / "scenes" / "columns")
    (folder / "semantic_map").mkdir()
    (folder / "meta.json").write_text("{}")
    return folder


@pytest.mark.filterwarnings("ignore:.*does not contain '.zarr':RuntimeWarning")
def test_a_group_is_found_under_any_name(exported):
    place = exported / "scenes" / "columns"
    assert find_dataset_files(exported).dataset == find_dataset_files(place).dataset == place
    assert find_all_logs(exported) == find_all_logs(place) == [place]
    assert describe_dataset(exported).num_scenes == 2
    with serve(exported) as web:
        url = f"{web.url}/scenes/columns"
        assert path_of(find_dataset_files(url).dataset) == url
        assert LocalDataManager(web.url).require("scenes/columns") == url
        with pytest.raises(DatasetNotFoundError, match="the service lists no folders"):
            find_dataset_files(web.url)
        web.lists = True
        files = find_dataset_files(web.url)
        assert (path_of(files.dataset), files.meta.read_text()) == (url, "{}")
        assert len(ChunkedDataset(files.dataset).open().scenes) == 2


def test_a_name_goes_before_what_is_a_group_too(exported, tmp_path):
    folder = Path(shutil.copytree(exported, tmp_path / "both"))
    shutil.copytree(folder / "scenes" / "columns", folder / "scenes" / "sample.zarr")
    assert find_dataset_files(folder).dataset == folder / "scenes" / "sample.zarr"
    assert find_all_logs(folder) == [folder / "scenes" / "sample.zarr"]


def test_groups_of_fields_are_no_datasets(exported, tmp_path):
    shutil.copytree(exported / "scenes" / "columns", tmp_path / "damaged")
    (tmp_path / "damaged" / "zarr.json").unlink()
    for find in (find_dataset_files, find_all_logs, describe_dataset):
        with pytest.raises(DatasetNotFoundError, match="damaged"):
            find(tmp_path / "damaged")


def test_copies_follow_the_file(tmp_path):
    (tmp_path / "meta.json").write_text("{}")
    with serve(tmp_path) as web:
        first = local_file(f"{web.url}/meta.json")
        assert local_file(Path(f"{web.url}/meta.json")) == first
        (tmp_path / "meta.json").write_text('{"a": 1}')
        second = local_file(f"{web.url}/meta.json")
        assert second.read_text() == '{"a": 1}'
        assert not first.exists()
        with pytest.raises(FileNotFoundError, match="no file at"):
            local_file(f"{web.url}/other.json")
    assert local_file(tmp_path / "meta.json") == tmp_path / "meta.json"


@pytest.mark.parametrize("signature", [f"?signature={'a' * 400}", "?path=a/../..", "?a=b/c.json", "?a=/"])
def test_addresses_with_a_signature_are_copied_under_the_name_of_the_file(tmp_path, signature):
    (tmp_path / "meta.json").write_text("{}")
    with serve(tmp_path) as web:
        copy = local_file(f"{web.url}/meta.json{signature}")
    assert (copy.name, copy.read_text()) == ("meta.json", "{}")


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_large_files_are_copied_in_pieces(tmp_path, monkeypatch, knows_ranges):
    monkeypatch.setattr(remote_dataset_files, "_PIECE_NUM_BYTES", 1000)
    content = bytes(range(256)) * 10
    (tmp_path / "aerial.png").write_bytes(content)
    with serve(tmp_path) as web:
        web.knows_ranges = knows_ranges
        assert local_file(f"{web.url}/aerial.png").read_bytes() == content
        assert web.paths().count("/aerial.png") == (3 if knows_ranges else 1)


def test_a_data_folder_may_be_remote(city):
    with serve(city) as web:
        manager = LocalDataManager(web.url)
        url = manager.require("scenes/sample.zarr")
        assert url == f"{web.url}/scenes/sample.zarr"
        assert len(ChunkedDataset(url).open().scenes) == 3
        assert Path(manager.require("meta.json")).read_bytes() == (city / "meta.json").read_bytes()
        for key in ("scenes/other.zarr", "other.json"):
            with pytest.raises(FileNotFoundError, match=key):
                manager.require(key)


def test_a_folder_of_towns_in_place_of_one_of_them_names_them(tmp_path):
    logs = [tmp_path / f"town_0{number}" / "scenes" / "sample.zarr" for number in range(2)]
    for log in logs:
        log.mkdir(parents=True)
    assert find_all_logs(tmp_path, takes_towns=True) == logs
    with pytest.raises(DatasetNotFoundError, match="pass one of the dataset folders in it: town_00, town_01"):
        find_all_logs(tmp_path)
