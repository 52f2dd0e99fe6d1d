import numpy as np
import pytest

from l5kit.data import find_dataset_files
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError
from support.random_logs import random_dataset


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
    sample = published / "scenes" / "sample.zarr"
    random_dataset(np.random.default_rng(0), 1).save(published / "scenes" / "other.zarr.zip")
    assert find_dataset_files(published / "scenes" / "other.zarr.zip").meta == published / "meta.json"
    with pytest.raises(InvalidArgumentError, match=rf"other\.zarr\.zip, {sample}"):
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


def test_several_datasets_are_listed(published):
    random_dataset(np.random.default_rng(0), 1).save(published / "scenes" / "train.zarr")
    with pytest.raises(InvalidArgumentError, match=r"sample\.zarr.*train\.zarr"):
        find_dataset_files(published)
    assert find_dataset_files(published / "scenes" / "train.zarr").meta == published / "meta.json"


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


@pytest.mark.parametrize("url", ["s3://bucket/train.zarr", "http://127.0.0.1:8899/city", "file:///tmp/a.zarr"])
def test_a_url_is_told_to_be_one(url):
    """As a path it has lost a slash."""
    with pytest.raises(DatasetNotFoundError, match=r"is a URL.*ChunkedDataset\(url\)"):
        find_dataset_files(url)
