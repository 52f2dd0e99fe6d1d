"""Records of artifacts, and what a dataset says of itself."""

import shutil

import pytest

from l5kit.data.artifact import (
    ArtifactName,
    ArtifactStoreError,
    DatasetArtifact,
    describe_dataset,
)
from l5kit.data.dataset_files import find_all_logs
from l5kit.data.digests.digest import dataset_digest
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError


def test_a_dataset_says_what_it_holds(city):
    content = describe_dataset(city)
    num_agents = len(ChunkedDataset(str(city / "scenes" / "sample.zarr")).open().agents)
    sizes = [path.stat().st_size for path in city.rglob("*") if path.is_file()]
    assert content.metadata == {
        "digest": dataset_digest(city),
        "num_files": len(sizes),
        "num_bytes": sum(sizes),
        "scenes": 3,
        "frames": 300,
        "agents": num_agents,
        "hours": pytest.approx(30 / 3600),
        "dataset": "city",
    }
    assert content.description.startswith(f"city: 3 scenes, 300 frames, {num_agents:,} agents, 30.0 s, in ")


def test_all_logs_of_a_folder_count(city, tmp_path):
    folder = shutil.copytree(city, tmp_path / "two")
    shutil.copytree(folder / "scenes" / "sample.zarr", folder / "scenes" / "train.zarr")
    content = describe_dataset(folder)
    assert (content.num_scenes, content.num_frames) == (6, 600)
    assert [log.name for log in find_all_logs(folder)] == ["sample.zarr", "train.zarr"]


def test_a_log_alone_is_a_dataset(city):
    content = describe_dataset(city / "scenes" / "sample.zarr")
    assert content.num_scenes == 3
    assert content.manifest.digest != dataset_digest(city)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        pytest.param(lambda path: None, DatasetNotFoundError, id="nothing"),
        pytest.param(lambda path: path.mkdir(), DatasetNotFoundError, id="no log"),
        pytest.param(lambda path: path.write_bytes(b""), InvalidArgumentError, id="a file"),
    ],
)
def test_what_is_no_dataset_is_refused(tmp_path, make, error):
    make(tmp_path / "set")
    with pytest.raises(error, match="set"):
        describe_dataset(tmp_path / "set")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("l5-data", ArtifactName("l5-data", "latest")),
        ("l5-data:v3", ArtifactName("l5-data", "v3")),
        ("L5_data.2:train-1", ArtifactName("L5_data.2", "train-1")),
        ("a" * 96, ArtifactName("a" * 96, "latest")),
    ],
)
def test_names_are_read(text, name):
    assert ArtifactName.parse(text) == name
    assert ArtifactName.parse(str(name)) == name


@pytest.mark.parametrize("text", ["", ":v1", "a:", "a:b:c", "a/b", "../a", ".a", "-a", "a b", "a" * 97, "a\n"])
def test_what_is_no_name_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="must be 1 to 96 letters"):
        ArtifactName.parse(text)


def test_metadata_of_others_is_refused():
    with pytest.raises(ArtifactStoreError, match=r"weights at there was not logged by l5kit.*'digest'"):
        DatasetArtifact.from_metadata("weights", {"epochs": 3}, version="v0", location="there")


@pytest.mark.parametrize("digest", ["../../home", "/home", "", "A" * 64, "0" * 63, None])
def test_a_digest_that_is_none_names_no_folder_of_the_cache(digest):
    counts = dict.fromkeys(("num_files", "num_bytes", "scenes", "frames", "agents", "hours"), 1)
    with pytest.raises(ArtifactStoreError, match="lacks a digest"):
        DatasetArtifact.from_metadata("city", counts | {"digest": digest}, version="v0", location="there")
