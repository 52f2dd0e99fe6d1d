import multiprocessing
import os
import pickle
import warnings
import zipfile

import fsspec
import numpy as np
import pytest
from zarr.storage import MemoryStore

from l5kit.data import ChunkedDataset
from l5kit.errors import (
    DatasetNotFoundError,
    InvalidArgumentError,
    MissingDependencyError,
    ReadOnlyDatasetError,
    UnpicklableStoreError,
)
from support.logs import write_with_chunks
from support.random_logs import ARRAYS, assert_same_records, random_dataset

STORES = ["folder", "zip", "memory store", "memory://", "file://"]


@pytest.fixture(scope="module")
def dataset():
    return random_dataset(np.random.default_rng(7), 6)


def fill(target, dataset):
    """Write a dataset into an initialized one."""
    for name in ARRAYS:
        getattr(target, name)[:] = getattr(dataset, name)
    return target


def initialize(location, dataset):
    lengths = {f"num_{name}": len(getattr(dataset, name)) for name in ARRAYS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the path does not exist yet
        return fill(ChunkedDataset(location).initialize("w", **lengths), dataset)


@pytest.fixture(params=STORES)
def location(request, dataset, tmp_path):
    path = tmp_path / "stored.zarr"
    if request.param == "zip":
        dataset.save(tmp_path / "stored.zarr.zip")
        return str(tmp_path / "stored.zarr.zip")
    place = {
        "folder": str(path),
        "memory store": MemoryStore(),
        "memory://": f"memory://{tmp_path.name}.zarr",
        "file://": path.as_uri(),
    }[request.param]
    initialize(place, dataset)
    return place


def test_every_store_gives_the_same_records(location, dataset):
    opened = ChunkedDataset(location).open()
    assert_same_records(opened, dataset)
    assert str(opened) == str(dataset)
    assert_same_records(opened.get_scene_dataset(-1), dataset.get_scene_dataset(5))
    assert opened.validate() == []


def test_every_store_but_a_zip_file_can_be_changed(location, dataset):
    if str(location).endswith(".zip"):
        with pytest.raises(InvalidArgumentError, match="save"):
            ChunkedDataset(location).open("r+")
        with pytest.raises(InvalidArgumentError, match="save"):
            ChunkedDataset(location).initialize()
        with pytest.raises(ReadOnlyDatasetError):
            ChunkedDataset(location).open().scenes.append(dataset.scenes[:1])
        return
    opened = ChunkedDataset(location).open("r+")
    opened.agents.append(dataset.agents[:2])
    again = ChunkedDataset(location).open()
    assert again.agents[-2:].tobytes() == dataset.agents[:2].tobytes()
    assert len(again.agents) == len(dataset.agents) + 2


def test_a_zip_file_holds_the_files_of_the_folder(dataset, tmp_path):
    dataset.save(tmp_path / "a.zarr")
    dataset.save(tmp_path / "a.zarr.zip")
    with zipfile.ZipFile(tmp_path / "a.zarr.zip") as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        assert len(names) == len(set(names))
        for name in names:
            assert archive.read(name) == (tmp_path / "a.zarr" / name).read_bytes()


def test_a_zip_file_with_the_folder_around_the_dataset_says_how_it_is_made(dataset, tmp_path):
    dataset.save(tmp_path / "a.zarr")
    with zipfile.ZipFile(tmp_path / "a.zarr.zip", "w") as archive:
        for path in sorted((tmp_path / "a.zarr").rglob("*")):
            archive.write(path, path.relative_to(tmp_path))
    with pytest.raises(
        DatasetNotFoundError, match=r"in the folder 'a\.zarr'; make a zip file of what is in that folder"
    ):
        ChunkedDataset(str(tmp_path / "a.zarr.zip")).open()


def test_fingerprint_changes_with_the_files(dataset, tmp_path):
    path = write_with_chunks(dataset, tmp_path / "f.zarr")
    first = ChunkedDataset(path).open().fingerprint()
    assert first == ChunkedDataset(path).open().fingerprint()
    writable = ChunkedDataset(path).open("r+")
    writable.agents.append(dataset.agents[:9])
    assert ChunkedDataset(path).open().fingerprint() != first
    assert dataset.fingerprint() is None


@pytest.mark.parametrize("place", ["memory store", "memory://"])
def test_memory_has_no_fingerprint(dataset, place):
    location = MemoryStore() if place == "memory store" else "memory://no-fingerprint.zarr"
    assert initialize(location, dataset).fingerprint() is None


@pytest.mark.filterwarnings("ignore:dataset path .* does not exist:RuntimeWarning")
def test_a_url_that_nothing_is_at(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="initialize"):
        ChunkedDataset("memory://there-is-nothing.zarr").open()
    with pytest.raises(DatasetNotFoundError):
        ChunkedDataset((tmp_path / "nothing.zarr").as_uri()).open()


def test_an_unknown_kind_of_url_is_named():
    with pytest.raises(InvalidArgumentError, match="nonsense://"):
        ChunkedDataset("nonsense://somewhere.zarr").open()


def test_a_missing_library_is_named(monkeypatch):
    def fail(*args, **kwargs):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
    monkeypatch.setattr("zarr.storage.FsspecStore.from_url", fail)
    with pytest.raises(MissingDependencyError, match="extra 'remote'"):
        ChunkedDataset("s3://bucket/some.zarr").open()


def test_saving_to_a_url_says_what_to_do(dataset):
    with pytest.raises(InvalidArgumentError, match="initialize"):
        dataset.save("memory://saved.zarr")


@pytest.mark.parametrize("kind", ["folder", "zip", "file://"])
def test_datasets_pickle_small_whatever_was_read(tmp_path, kind):
    large = random_dataset(np.random.default_rng(0), 200, max_frames=40, max_tracks=40)
    assert large.agents.nbytes > 2_000_000
    path = tmp_path / ("large.zarr.zip" if kind == "zip" else "large.zarr")
    large.save(path)
    opened = ChunkedDataset(path.as_uri() if kind == "file://" else str(path)).open()
    assert opened.agents[:].tobytes() == large.agents.tobytes()
    sent = pickle.dumps(opened)
    assert len(sent) < 20_000
    received = pickle.loads(sent)
    assert len(received.agents._cache) == 0
    assert_same_records(received, large)
    assert received.agents._cache is received.frames._cache


@pytest.mark.parametrize("place", ["memory store", "memory://"])
def test_memory_cannot_be_sent_to_another_process(dataset, place):
    location = MemoryStore() if place == "memory store" else "memory://not-sent.zarr"
    with pytest.raises(UnpicklableStoreError, match="fork"):
        pickle.dumps(initialize(location, dataset))


def send_digest(dataset, queue):
    queue.put([np.asarray(getattr(dataset, name)).tobytes() for name in ARRAYS])


def run_in_process(method, dataset):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=send_digest, args=(dataset, queue))
    process.start()
    received = queue.get(timeout=60)
    process.join(timeout=60)
    assert process.exitcode == 0
    return received


def expected_bytes(dataset):
    return [getattr(dataset, name).tobytes() for name in ARRAYS]


@pytest.mark.process
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_forked_processes_read_every_store(location, dataset):
    opened = ChunkedDataset(location).open(cached=False)
    opened.agents[:3]
    assert run_in_process("fork", opened) == expected_bytes(dataset)
    assert run_in_process("fork", opened) == expected_bytes(dataset)
    assert_same_records(opened, dataset)


@pytest.mark.process
@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_spawned_processes_read_files(dataset, tmp_path, kind):
    path = tmp_path / ("sent.zarr.zip" if kind == "zip" else "sent.zarr")
    dataset.save(path)
    assert run_in_process("spawn", ChunkedDataset(str(path)).open()) == expected_bytes(dataset)


@pytest.mark.process
def test_a_spawned_process_refuses_memory(dataset):
    opened = initialize(MemoryStore(), dataset)
    process = multiprocessing.get_context("spawn").Process(target=send_digest, args=(opened, None))
    with pytest.raises(UnpicklableStoreError, match=r"save\(\)"):
        process.start()


def test_a_zip_file_that_is_written_again_has_another_fingerprint(dataset, tmp_path):
    path = tmp_path / "log.zarr.zip"
    dataset.save(path)
    before = ChunkedDataset(str(path)).open().fingerprint()
    assert ChunkedDataset(str(path)).open().fingerprint() == before
    os.utime(path, ns=(1, 1))
    assert ChunkedDataset(str(path)).open().fingerprint() != before
