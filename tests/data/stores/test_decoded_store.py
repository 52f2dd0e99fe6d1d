"""The fast store: equal to the chunks, built once and whole, anew when its source changes, given up with a warning."""

import errno
import json
import multiprocessing
import os
import shutil
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from zarr.storage import MemoryStore

from l5kit.data import ChunkedDataset
from l5kit.data.stores import decoded_store, remote_files
from l5kit.data.stores.decoded_store import DecodedSource, store_folder, stores_folder
from l5kit.data.stores.decoded_store_list import build_decoded_store, list_stores, prune_stores, remove_store
from l5kit.data.stores.npy_files import MappedArray
from l5kit.data.user_cache import cache_folder, hold_lock
from l5kit.errors import CorruptedDataError, DatasetNotFoundError, InvalidArgumentError
from support.cities import small_city
from support.logs import CHUNK_LENGTHS, write_with_chunks
from support.processes.decoded_store import build_and_read, digest_of, stop_in_the_middle
from support.random_logs import ARRAYS, assert_same_records, random_dataset, write_three_arrays

PATIENCE_S = 120
"""Far more than anything takes; whoever hangs fails the test."""


@pytest.fixture(scope="module")
def made():
    return random_dataset(np.random.default_rng(17), 6)


@pytest.fixture
def path(made, tmp_path):
    return write_with_chunks(made, tmp_path / "log.zarr")


@pytest.fixture
def num_builds(monkeypatch):
    """Counts how often the arrays of a dataset are decoded."""
    calls = []
    write_arrays = decoded_store._write_arrays

    def count(*args):
        calls.append(args)
        return write_arrays(*args)

    monkeypatch.setattr(decoded_store, "_write_arrays", count)
    return lambda: len(calls)


def open_quietly(path, **kwargs):
    """Open a dataset from its decoded files; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ChunkedDataset(path).open(cached="mmap", **kwargs)


def open_with_one_warning(path, **kwargs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        opened = ChunkedDataset(path).open(cached="mmap", **kwargs)
    (warning,) = caught
    assert warning.category is RuntimeWarning
    assert warning.filename == __file__
    return opened, str(warning.message)


def is_mapped(dataset):
    return all(isinstance(getattr(dataset, name), MappedArray) for name in ARRAYS)


def all_files(folder=None):
    """Files below the folder of the decoded stores, without the locks."""
    root = stores_folder(folder)
    return sorted(file.relative_to(root) for file in root.rglob("*") if file.is_file() and file.suffix != ".lock")


def place_of(path):
    """The only folder with decoded files of a dataset."""
    (folder,) = store_folder(os.path.realpath(path)).iterdir()
    return folder


# --- equal to the chunks ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return small_city(tmp_path_factory.mktemp("decoded") / "city").path / "scenes" / "sample.zarr"


def assert_same_dataset(path):
    mapped, chunked = open_quietly(path), ChunkedDataset(path).open()
    assert is_mapped(mapped)
    assert_same_records(mapped, chunked)
    assert (repr(mapped), str(mapped)) == (repr(chunked), str(chunked))
    assert mapped.fingerprint() == chunked.fingerprint() is not None
    for index in range(-len(chunked.scenes), len(chunked.scenes)):
        assert_same_records(mapped.get_scene_dataset(index), chunked.get_scene_dataset(index))
    return mapped


def test_a_made_city_is_the_same(city):
    assert assert_same_dataset(city).validate() == []


def test_random_scenes_in_many_chunks_are_the_same(path):
    assert_same_dataset(path)


def test_the_real_scene_is_the_same(shared_data):
    mapped = assert_same_dataset(shared_data / "single_scene.zarr")
    assert mapped.validate() == ChunkedDataset(shared_data / "single_scene.zarr").open().validate()


def test_it_can_be_joined_and_saved(path, made, tmp_path):
    mapped = open_quietly(path)
    joined = ChunkedDataset.concatenate([mapped, mapped])
    assert_same_records(joined, ChunkedDataset.concatenate([made, made]))
    joined.save(tmp_path / "joined.zarr")
    assert_same_records(open_quietly(tmp_path / "joined.zarr"), joined)
    assert len(all_files()) == 2 * 5


def test_b4_a_dataset_of_three_arrays_gets_its_empty_face_intervals(tmp_path):
    made = random_dataset(np.random.default_rng(3), 4, max_faces=0)
    path = write_three_arrays(made, tmp_path / "old.zarr")
    with pytest.warns(RuntimeWarning, match="without traffic lights") as caught:
        mapped = ChunkedDataset(path).open(cached="mmap")
    assert len(caught) == 1
    assert_same_records(mapped, made)
    assert isinstance(mapped.frames, MappedArray)
    assert len(all_files()) == 4


def test_an_empty_dataset_has_a_store(tmp_path):
    ChunkedDataset.in_memory().save(tmp_path / "empty.zarr")
    mapped = open_quietly(tmp_path / "empty.zarr")
    assert is_mapped(mapped)
    assert [len(getattr(mapped, name)) for name in ARRAYS] == [0, 0, 0, 0]


def test_validate_looks_at_the_files_of_the_dataset(path):
    mapped = open_quietly(path)
    chunk = Path(path) / "agents" / "1"
    chunk.write_bytes(b"damaged")
    assert any(finding.file == str(chunk) for finding in mapped.validate())
    assert isinstance(mapped.agents, MappedArray)
    assert not any(finding.file == str(chunk) for finding in open_memory(mapped).validate())


def open_memory(dataset):
    return ChunkedDataset.in_memory(**{name: np.array(getattr(dataset, name)) for name in ARRAYS})


def test_an_array_that_was_replaced_is_validated(path):
    mapped = open_quietly(path)
    mapped.agents = np.array(mapped.agents)
    mapped.agents["centroid"][0] = np.nan
    assert any("centroid" in finding.message for finding in mapped.validate())


@pytest.mark.parametrize("kind", ["zip", "file://", "local://"])
def test_other_sources_have_stores(made, tmp_path, kind):
    path = tmp_path / ("log.zarr.zip" if kind == "zip" else "log.zarr")
    made.save(path)
    location = str(path) if kind == "zip" else path.as_uri().replace("file://", kind)
    mapped = open_quietly(location)
    assert is_mapped(mapped)
    assert_same_records(mapped, made)
    os.utime(path if kind == "zip" else path / "agents" / "0", ns=(1, 1))
    assert open_quietly(location).agents.file != mapped.agents.file


@pytest.mark.parametrize("kind", ["memory store", "memory://"])
def test_a_dataset_in_process_memory_is_read_from_its_chunks_after_a_warning(made, tmp_path, kind):
    location = MemoryStore() if kind == "memory store" else f"memory://{tmp_path.name}-decoded.zarr"
    lengths = {f"num_{name}": len(getattr(made, name)) for name in ARRAYS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = ChunkedDataset(location).initialize(**lengths)
    for name in ARRAYS:
        getattr(dataset, name)[:] = getattr(made, name)
    opened, message = open_with_one_warning(location)
    assert "memory of this process" in message
    assert_same_records(opened, made)
    with pytest.raises(InvalidArgumentError, match="save\\(\\) it to a folder"):
        build_decoded_store(location)


def test_a_service_that_tells_no_versions_has_no_signature(made, tmp_path, monkeypatch):
    made.save(tmp_path / "log.zarr")
    location = (tmp_path / "log.zarr").as_uri().replace("file://", "local://")
    assert ChunkedDataset(location).open().fingerprint() is not None
    monkeypatch.setattr(remote_files, "_VERSION_FIELDS", ("ETag",))
    assert ChunkedDataset(location).open().fingerprint() is None
    assert "neither times nor checksums" in open_with_one_warning(location)[1]


# --- where it lies, and when it is built --------------------------------------------------------------------------


def test_it_is_built_once_in_the_cache_folder(path, num_builds):
    for _ in range(3):
        opened = open_quietly(path)
    assert num_builds() == 1
    assert opened.agents.file.is_relative_to(cache_folder())
    names = {"scenes.npy", "frames.npy", "agents.npy", "traffic_light_faces.npy", "store.json"}
    assert {file.name for file in all_files()} == names
    assert np.load(opened.agents.file).tobytes() == opened.agents[:].tobytes()


def test_a_folder_that_is_named_is_used(path, tmp_path, num_builds):
    for folder in (tmp_path / "fast", str(tmp_path / "fast")):
        opened = open_quietly(path, cache_folder=folder)
    assert num_builds() == 1
    assert opened.agents.file.is_relative_to(tmp_path / "fast")
    assert not stores_folder().exists()
    store, is_new = build_decoded_store(path, cache_folder=tmp_path / "fast")
    assert (is_new, store.source) == (False, os.path.realpath(path))


@pytest.mark.skipif("os.name == 'nt'", reason="links need rights there")
def test_one_store_serves_all_names_of_a_dataset(path, tmp_path, monkeypatch, num_builds):
    (tmp_path / "link.zarr").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    names = (path, "log.zarr", "link.zarr", Path(path).as_uri())
    fingerprints = {open_quietly(name).fingerprint() for name in names}
    fingerprints |= {ChunkedDataset(name).open().fingerprint() for name in names}
    assert (num_builds(), len(fingerprints)) == (1, 1)


def test_progress_is_told_chunk_by_chunk_and_memory_is_that_of_a_chunk(path, made, monkeypatch):
    told, asked = [], []
    read = decoded_store.ChunkedArray.rows

    def rows(self, start, stop, **kwargs):
        asked.append((self.name, stop - start))
        return read(self, start, stop, **kwargs)

    monkeypatch.setattr(decoded_store.ChunkedArray, "rows", rows)
    build_decoded_store(path, progress=lambda *counts: told.append(counts))
    total = sum(len(getattr(made, name)) for name in ARRAYS)
    assert told[-1] == (total, total)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert all(count <= CHUNK_LENGTHS[name] for name, count in asked)


@pytest.mark.parametrize("cache_size_bytes", [500, int(1e9)])
def test_decoding_does_not_fill_the_cache_of_the_dataset(path, cache_size_bytes, monkeypatch):
    chunked = ChunkedDataset(path).open(cache_size_bytes=cache_size_bytes)
    arrays = {key: getattr(chunked, name) for key, (name, _, _) in decoded_store.ARRAYS.items()}
    kept_before, readers = chunked.agents._cache.num_bytes, []
    read = decoded_store.ChunkedArray._read_chunk

    def read_chunk(self, index):
        readers.append(self)
        return read(self, index)

    monkeypatch.setattr(decoded_store.ChunkedArray, "_read_chunk", read_chunk)
    decoded_store.build_store(DecodedSource.of(chunked.root, arrays))
    assert readers
    assert not any(reader is array for reader in readers for array in arrays.values())
    assert chunked.agents._cache.num_bytes == kept_before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "r+", "cached": "mmap"}, "mode is 'r\\+', but decoded files are never changed"),
        ({"mode": "a", "cached": "mmap"}, "pass mode='r'"),
        ({"cached": "memory"}, "cached must be True, False or 'mmap', got 'memory'"),
        ({"cache_folder": "x"}, "cached is True; pass cached='mmap'"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(path, arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        ChunkedDataset(path).open(**arguments)
    assert not stores_folder().exists()


# --- a source that changes ----------------------------------------------------------------------------------------


def change_by_appending(path, made):
    ChunkedDataset(path).open("r+").agents.append(made.agents[:3])


def change_by_rewriting_a_chunk(path, made):
    chunk = Path(path) / "traffic_light_faces" / "0"
    before = chunk.stat()
    faces = ChunkedDataset(path).open("r+").tl_faces
    faces[0] = faces[1]
    os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000))


def change_by_attributes(path, made):
    file = Path(path) / ".zattrs"
    file.write_text(json.dumps({**json.loads(file.read_text()), "note": "changed"}))


def change_by_a_length_with_the_old_time(path, made):
    file = Path(path) / "agents" / ".zarray"
    before = file.stat()
    content = json.loads(file.read_text())
    length = content["shape"][0]
    file.write_text(file.read_text().replace(str(length), str(length - 1), 1))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert json.loads(file.read_text())["shape"] == [length - 1]


CHANGES = [
    change_by_appending,
    change_by_rewriting_a_chunk,
    change_by_attributes,
    change_by_a_length_with_the_old_time,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_changed_is_decoded_anew_and_the_old_files_go(path, made, tmp_path, num_builds, change):
    other = write_with_chunks(made, tmp_path / "other.zarr")
    open_quietly(other)
    before = open_quietly(path)
    change(path, made)
    after = open_quietly(path)
    assert num_builds() == 3
    assert_same_records(after, ChunkedDataset(path).open())
    assert_same_records(before, made)
    assert place_of(path) == after.agents.file.parent
    assert len(all_files()) == 2 * 5
    open_quietly(other)
    assert num_builds() == 3


def test_a_source_that_changes_while_it_is_decoded_leaves_nothing(path):
    def touch(done, total):
        os.utime(Path(path) / "scenes" / "0", ns=(done, done))

    with pytest.raises(CorruptedDataError, match="changed while it was decoded"):
        build_decoded_store(path, progress=touch)
    assert all_files() == []
    assert is_mapped(open_quietly(path))


# --- a store that is damaged --------------------------------------------------------------------------------------


def rewrite(file, content):
    """Replace a file, which may be mapped by this process."""
    file.unlink()
    file.write_bytes(content)


def tell_another_digest(manifest):
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"digest": "0" * 64}))


@pytest.mark.skipif("os.name == 'nt'", reason="a mapped file cannot be replaced there")
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda folder: (folder / "agents.npy").unlink(), id="an array is gone"),
        pytest.param(lambda f: rewrite(f / "agents.npy", (f / "agents.npy").read_bytes()[:-1]), id="an array is cut"),
        pytest.param(lambda f: rewrite(f / "scenes.npy", (f / "frames.npy").read_bytes()), id="another array"),
        pytest.param(lambda f: (f / "store.json").unlink(), id="no manifest"),
        pytest.param(lambda f: (f / "store.json").write_text("{"), id="half a manifest"),
        pytest.param(lambda f: (f / "store.json").write_text("[1]"), id="another manifest"),
        pytest.param(lambda f: (f / "store.json").write_text('{"version": 0}'), id="an older version"),
        pytest.param(lambda f: tell_another_digest(f / "store.json"), id="the manifest of another state"),
    ],
)
def test_a_damaged_store_is_built_anew(path, made, num_builds, damage):
    open_quietly(path)
    damage(place_of(path))
    assert_same_records(open_quietly(path), made)
    assert num_builds() == 2
    assert len(all_files()) == 5


def test_a_store_that_cannot_be_written_to_is_read(path, made, monkeypatch, num_builds):
    open_quietly(path)

    def refuse(*args, **kwargs):
        raise PermissionError(errno.EROFS, "read-only file system")

    for name in ("utime", "replace", "mkdir"):
        monkeypatch.setattr(os, name, refuse)
    assert_same_records(open_quietly(path), made)
    assert num_builds() == 1


# --- a store that cannot be built ---------------------------------------------------------------------------------


def damage_chunk(path, content):
    chunk = Path(path) / "agents" / "1"
    if content is None:
        chunk.unlink()
    else:
        chunk.write_bytes(content)
    return str(chunk)


@pytest.mark.parametrize("content", [None, b"damaged"], ids=["missing", "damaged"])
def test_a_damaged_source_is_never_decoded_as_if_it_were_whole(path, made, content):
    chunk = damage_chunk(path, content)
    opened, message = open_with_one_warning(path)
    assert "is read from its chunks, not from decoded files" in message
    assert chunk in message
    assert opened.agents[:7].tobytes() == made.agents[:7].tobytes()
    with pytest.raises(CorruptedDataError, match="restore it") as error:
        build_decoded_store(path)
    assert chunk in str(error.value)
    assert all_files() == []


def test_missing_faces_are_never_decoded_as_zeros(path):
    (Path(path) / "traffic_light_faces" / "0").unlink()
    assert "traffic_light_faces/0 is missing" in open_with_one_warning(path)[1]


def be_a_file(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "file"))


def be_full_before(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10**9, 10**9, 1_000))


def be_full_in_the_middle(monkeypatch, tmp_path):
    def fail(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)


def know_no_locks(monkeypatch, tmp_path):
    def fail(*args, **kwargs):
        raise NotImplementedError("no flock here")

    monkeypatch.setattr("l5kit.data.user_cache.FileLock.acquire", fail)


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (be_a_file, "the folder cannot be written to"),
        (be_full_before, "MB are free there"),
        (be_full_in_the_middle, "the disk is full"),
        (know_no_locks, "no flock here"),
    ],
)
def test_a_cache_folder_that_takes_nothing_costs_one_warning_or_an_error(
    path, made, tmp_path, monkeypatch, trouble, reason
):
    trouble(monkeypatch, tmp_path)
    opened, message = open_with_one_warning(path)
    assert not is_mapped(opened)
    assert_same_records(opened, made)
    with pytest.raises(OSError, match=reason) as error:
        build_decoded_store(path)
    for text in (message, str(error.value)):
        assert reason in text
        assert "set L5KIT_CACHE_DIR" in text
        assert str(stores_folder()) in text
    assert not stores_folder().is_dir() or all_files() == []


def test_an_interruption_leaves_nothing(path):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_decoded_store(path, progress=interrupt)
    assert all_files() == []
    assert is_mapped(open_quietly(path))


# --- several processes --------------------------------------------------------------------------------------------


def start_builders(path, results):
    context = multiprocessing.get_context("spawn")
    are_ready = [context.Event() for _ in results]
    processes = [
        context.Process(target=build_and_read, args=(path, is_ready, str(result)), daemon=True)
        for is_ready, result in zip(are_ready, results, strict=True)
    ]
    for process in processes:
        process.start()
    assert all(is_ready.wait(PATIENCE_S) for is_ready in are_ready)
    return processes


@pytest.mark.process
def test_of_processes_that_build_at_once_one_does_also_when_a_builder_is_killed(path, made, tmp_path):
    context = multiprocessing.get_context("spawn")
    is_building = context.Event()
    killed = context.Process(target=stop_in_the_middle, args=(path, is_building), daemon=True)
    killed.start()
    assert is_building.wait(PATIENCE_S)
    assert any(file.name == "scenes.npy" for file in all_files()), "it is in the middle"

    results = [tmp_path / f"{number}.json" for number in range(2)]
    others = start_builders(path, results)
    time.sleep(0.3)
    assert not any(result.exists() for result in results), "they wait while the first one builds"
    killed.kill()
    for process in [killed, *others]:
        process.join(PATIENCE_S)
    assert killed.exitcode != 0
    assert [process.exitcode for process in others] == [0, 0]

    found = [json.loads(result.read_text()) for result in results]
    assert {item["digest"] for item in found} == {digest_of(made)}
    assert sorted(item["is_new"] for item in found) == [False, True]
    assert sorted(item["chunks_decoded"] > 0 for item in found) == [False, True]
    assert len(all_files()) == 5, "what the killed one left is gone"


@pytest.mark.process
def test_what_a_killed_builder_left_is_neither_read_nor_kept(path, made, num_builds):
    context = multiprocessing.get_context("spawn")
    is_building = context.Event()
    killed = context.Process(target=stop_in_the_middle, args=(path, is_building), daemon=True)
    killed.start()
    assert is_building.wait(PATIENCE_S)
    killed.kill()
    killed.join(PATIENCE_S)
    assert all_files() != []
    assert list_stores() == []
    assert_same_records(open_quietly(path), made)
    assert num_builds() == 1
    assert len(all_files()) == 5


# --- lists --------------------------------------------------------------------------------------------------------


@pytest.fixture
def three_stores(path, made, tmp_path):
    """Stores of a source that stays, one that changes and one that goes, used in this order."""
    changed, gone = (write_with_chunks(made, tmp_path / f"{name}.zarr") for name in ("changed", "gone"))
    for number, source in enumerate((path, changed, gone)):
        open_quietly(source)
        os.utime(place_of(source) / "store.json", (1e9 + number, 1e9 + number))
    change_by_appending(changed, made)
    shutil.rmtree(gone)
    return [os.path.realpath(source) for source in (path, changed, gone)]


def test_stores_are_listed_with_what_became_of_their_source(three_stores):
    listed = list_stores()
    assert [item.store.source for item in listed] == three_stores[::-1], "the one used last comes first"
    assert [item.state for item in listed] == ["gone", "changed", "current"]
    assert [item.store.last_used for item in listed] == [1e9 + 2, 1e9 + 1, 1e9]
    for item in listed:
        assert item.store.num_bytes == sum(file.stat().st_size for file in item.store.folder.glob("*.npy"))


def test_opening_is_use(path, three_stores):
    open_quietly(path)
    assert list_stores()[0].store.source == os.path.realpath(path)


def test_a_source_that_is_no_dataset_any_more_has_changed(path):
    open_quietly(path)
    (Path(path) / "agents" / ".zarray").write_text("{")
    assert [item.state for item in list_stores()] == ["changed"]


def test_a_source_out_of_reach_is_kept(path, monkeypatch):
    open_quietly(path)

    def fail(*args, **kwargs):
        raise ConnectionError("no network")

    monkeypatch.setattr("l5kit.data.zarr_dataset.stores.open_store", fail)
    assert [item.state for item in list_stores()] == ["unknown"]
    assert prune_stores() == []
    assert len(all_files()) == 5


def test_prune_removes_what_is_of_no_use(path, three_stores, num_builds):
    left = place_of(path).parent / f".{place_of(path).name}.0123abcd.part"
    left.mkdir()
    removed = prune_stores()
    assert {(item.store.source, item.state) for item in removed} == {
        (three_stores[1], "changed"),
        (three_stores[2], "gone"),
    }
    assert [item.store.source for item in list_stores()] == three_stores[:1]
    assert not left.exists()
    assert prune_stores() == []
    assert is_mapped(open_quietly(path))
    assert num_builds() == 0


def test_remove_takes_one_store_also_of_a_source_that_is_gone(path, three_stores, made):
    opened = open_quietly(path)
    for source in (path, three_stores[2]):
        (removed,) = remove_store(source)
        assert removed.source == os.path.realpath(source)
        with pytest.raises(DatasetNotFoundError, match="l5kit cache --list"):
            remove_store(source)
    assert [item.store.source for item in list_stores()] == three_stores[1:2]
    assert_same_records(opened, made)


def test_a_store_that_is_being_built_is_left_alone(path, three_stores):
    with hold_lock(decoded_store.lock_of(store_folder(three_stores[1]))) as problem:
        assert problem == ""
        assert [item.state for item in prune_stores()] == ["gone"]
        with pytest.raises(OSError, match="cannot be removed now"):
            remove_store(three_stores[1])
    assert [item.state for item in prune_stores()] == ["changed"]


def test_there_may_be_no_stores(tmp_path):
    assert list_stores() == prune_stores() == list_stores(tmp_path / "nowhere") == []
    assert not (tmp_path / "nowhere").exists()
