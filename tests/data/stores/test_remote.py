"""Datasets on a web server and on file systems of fsspec: requests are counted, and things go wrong."""

import pickle
import zipfile
from typing import ClassVar
from urllib.parse import unquote

import fsspec
import numpy as np
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem
from zarr.core.sync import sync

from l5kit.data import ChunkedDataset
from l5kit.data.stores.decoded_store import DecodedSource, build_store
from l5kit.data.stores.npy_files import MappedArray
from l5kit.data.stores.remote_files import RemoteFiles, is_passing, unreachable
from l5kit.data.stores.remote_reading import RemoteReading
from l5kit.dataset import EgoDataset
from l5kit.errors import (
    CorruptedDataError,
    DatasetNotFoundError,
    InvalidArgumentError,
    ReadOnlyDatasetError,
    SampleError,
    UnreachableDataError,
)
from support.logs import write_with_chunks
from support.nameless_zip import with_nameless_file
from support.random_logs import assert_same_records, random_dataset
from support.samples import make_cfg
from support.touched_chunks import touched_chunks
from support.web_server import serve

HASTY = RemoteReading(attempts=3, timeout_s=0.3, first_delay_s=0.01)
PATIENT = RemoteReading(timeout_s=20.0, first_delay_s=0.01)
CHUNK_LENGTHS = {"scenes": 4, "frames": 20, "agents": 30, "traffic_light_faces": 30}


@pytest.fixture(scope="module")
def log():
    return random_dataset(np.random.default_rng(3), 12, min_frames=6, max_frames=16, max_tracks=20, max_faces=8)


@pytest.fixture(scope="module")
def folder(log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("web")
    write_with_chunks(log, folder / "log.zarr", chunk_lengths=CHUNK_LENGTHS)
    zip_folder(folder / "log.zarr", folder / "log.zarr.zip")
    return folder


@pytest.fixture
def web(folder):
    with serve(folder) as web:
        yield web


def zip_folder(folder, path, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder))


def opened(url, *, reading=PATIENT, **how):
    return ChunkedDataset(url, remote_reading=reading).open(**how)


def chunks_of(paths):
    """Return the paths of chunks among those of requests."""
    return sorted(path for path in paths if path.rsplit("/", 1)[-1].isdigit())


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", ["log.zarr", "log.zarr.zip"])
def test_a_web_server_gives_the_same_records(web, log, name, cached):
    dataset = opened(f"{web.url}/{name}", cached=cached)
    assert_same_records(dataset, log)
    assert_same_records(dataset.get_scene_dataset(-1), log.get_scene_dataset(11))
    assert dataset.validate() == []


def test_metadata_is_read_once_when_a_dataset_is_opened(web):
    with web.counting() as seen:
        dataset = opened(f"{web.url}/log.zarr")
    paths = [path for _, path, _ in seen]
    assert len(paths) == len(set(paths)) <= 16
    assert not chunks_of(paths)
    with web.counting() as seen:
        np.asarray(dataset.agents)
    paths = [path for _, path, _ in seen]
    assert paths
    assert chunks_of(paths) == sorted(paths)


def test_consolidated_metadata_saves_requests(folder, log, tmp_path):
    write_with_chunks(log, tmp_path / "log.zarr", chunk_lengths=CHUNK_LENGTHS)
    zarr.consolidate_metadata(str(tmp_path / "log.zarr"), zarr_format=2)
    with serve(tmp_path) as web:
        dataset = opened(f"{web.url}/log.zarr")
        assert len(web.requests) == 3  # .zgroup, .zattrs, .zmetadata
        assert_same_records(dataset, log)


@pytest.mark.filterwarnings("ignore:.*is damaged")
@pytest.mark.parametrize("name", ["log.zarr", "log.zarr.zip"])
def test_a_random_sample_costs_a_request_for_each_chunk_that_it_touches(web, log, name):
    local = EgoDataset(make_cfg(), log, None)
    samples = EgoDataset(make_cfg(), opened(f"{web.url}/{name}", cached=False), None)
    rng, num_requests = np.random.default_rng(0), 0
    for index in rng.integers(len(samples), size=12).tolist():
        with web.counting() as seen:
            sample = samples[index]
        touched = touched_chunks(log, index, CHUNK_LENGTHS, past=3, future=5)
        assert len(set(seen)) == len(seen) <= len(touched)
        if name == "log.zarr":
            assert {path for _, path, _ in seen} <= {f"/{name}/{key}/{number}" for key, number in touched}
        num_requests += len(seen)
        for key, value in local[index].items():
            np.testing.assert_array_equal(sample[key], value)
    assert num_requests > 24


@pytest.mark.parametrize("name", ["log.zarr", "log.zarr.zip"])
def test_no_chunk_is_asked_for_twice_while_it_is_kept(web, log, name):
    samples = EgoDataset(make_cfg(), opened(f"{web.url}/{name}"), None)
    web.requests.clear()
    batch = samples.__getitems__(list(range(len(samples))))
    assert len(batch) == len(log.frames)
    asked = [(path, part) for _, path, part in web.requests]
    assert len(asked) == len(set(asked))
    web.requests.clear()
    samples.__getitems__([5, 17, 3])
    assert web.requests == []


def test_chunks_are_asked_for_at_the_same_time_within_bounds(web):
    dataset = opened(f"{web.url}/log.zarr", reading=RemoteReading(concurrency=3))
    web.delay_s, web.most_at_once = 0.2, 0
    np.asarray(dataset.agents)
    assert web.most_at_once == 3


def test_agents_and_lights_of_a_sample_are_asked_for_at_the_same_time(web, log):
    samples = EgoDataset(make_cfg(), opened(f"{web.url}/log.zarr"), None)
    touched = [touched_chunks(log, index, CHUNK_LENGTHS, past=3, future=5) for index in range(len(samples))]
    keys = [[key for key, _ in chunks if key not in ("scenes", "frames")] for chunks in touched]
    index = [sorted(names) for names in keys].index(["agents", "traffic_light_faces"])
    web.delay_s, web.most_at_once = 0.3, 0
    samples[index]
    assert web.most_at_once == 2


def test_little_memory_is_kept_to(web, log):
    row_bytes = log.agents.dtype.itemsize
    dataset = opened(f"{web.url}/log.zarr", cache_size_bytes=3 * CHUNK_LENGTHS["agents"] * row_bytes)
    samples = EgoDataset(make_cfg(), dataset, None)
    local = EgoDataset(make_cfg(), log, None)
    for index, sample in enumerate(samples.__getitems__(list(range(40)))):
        np.testing.assert_array_equal(sample["target_positions"], local[index]["target_positions"])
    assert dataset.agents._cache.num_bytes <= dataset.agents._cache.max_bytes


@pytest.mark.parametrize("failures", [[503], ["reset"], ["hang"], [429, "reset", 500]], ids=str)
def test_failures_that_pass_are_not_noticed(web, log, failures):
    web.failures["/agents/1"] = list(failures)
    reading = RemoteReading(attempts=4, timeout_s=0.5, first_delay_s=0.01)
    assert_same_records(opened(f"{web.url}/log.zarr", reading=reading), log)
    assert web.paths().count("/log.zarr/agents/1") == 1 + len(failures)


@pytest.mark.parametrize(
    ("failure", "attempts", "words"),
    [
        ("hang", 3, "TimeoutError: no answer in time, after 3 attempts in"),
        ("reset", 3, "after 3 attempts"),
        (503, 3, "503, .* after 3 attempts"),
        (403, 1, r"the service refuses it .*403"),
        (501, 1, "501"),
    ],
)
def test_failures_that_stay_are_errors_that_name_the_chunk(web, failure, attempts, words):
    dataset = opened(f"{web.url}/log.zarr", reading=HASTY)
    web.failures["/agents/2"], web.forever = [failure], True
    with pytest.raises(UnreachableDataError, match=words) as caught:
        dataset.agents[60:90]
    assert f"{web.url}/log.zarr/agents/2 (chunk 2 of array 'agents')" in str(caught.value)
    assert "\n" not in str(caught.value)
    asked = web.paths().count("/log.zarr/agents/2")
    assert attempts <= asked <= attempts * (2 if failure == "reset" else 1)  # aiohttp tries a closed connection twice
    web.failures.clear()
    assert len(dataset.agents[60:90]) == 30  # the network is back


def test_a_network_that_goes_away_is_told_by_samples_and_by_validate(web):
    dataset = opened(f"{web.url}/log.zarr", reading=HASTY)
    samples = EgoDataset(make_cfg(), dataset, None)
    web.failures["agents/0"], web.forever = ["reset"], True
    with pytest.raises(SampleError, match=r"agents/0 \(chunk 0 of array 'agents'\) cannot be read.*cached='mmap'"):
        samples[0]
    with pytest.raises(UnreachableDataError, match="agents/0"):
        dataset.validate()


def test_a_server_that_is_gone_is_no_dataset_that_is_not_there(folder):
    with serve(folder) as web:
        url = web.url
    for name in ("log.zarr", "log.zarr.zip"):
        with pytest.raises(UnreachableDataError, match="after 3 attempts"):
            opened(f"{url}/{name}", reading=HASTY)
    with serve(folder) as web:
        for name in ("other.zarr", "other.zarr.zip"):
            with pytest.raises(
                DatasetNotFoundError, match=f"other.zarr.*check the {'URL' if 'zip' in name else 'path'}"
            ):
                opened(f"{web.url}/{name}", reading=HASTY)


@pytest.mark.parametrize("lists", [True, False])
def test_a_chunk_that_is_missing_means_what_it_means_in_a_folder(folder, log, tmp_path, lists):
    path = tmp_path / "log.zarr"
    write_with_chunks(log, path, chunk_lengths=CHUNK_LENGTHS)
    (path / "agents" / "1").unlink()
    (path / "traffic_light_faces" / "0").unlink()
    local = [(finding.check, finding.row) for finding in ChunkedDataset(path).open().validate()]
    with serve(tmp_path) as web:
        web.lists = lists
        dataset = opened(f"{web.url}/log.zarr")
        assert [(finding.check, finding.row) for finding in dataset.validate()] == local
        assert not dataset.agents[30:60].view(np.uint8).any()
        with pytest.raises(CorruptedDataError, match="agents/1 is missing"):
            dataset.agents.rows(25, 65, strict=True)


def test_a_zip_file_is_read_by_ranges_and_its_directory_once(web, folder):
    with zipfile.ZipFile(folder / "log.zarr.zip") as archive:
        directory = archive.start_dir
    dataset = opened(f"{web.url}/log.zarr.zip")
    np.asarray(dataset.agents), np.asarray(dataset.frames), dataset.validate()
    assert {path for _, path, _ in web.requests} == {"/log.zarr.zip"}
    parts = [part.removeprefix("bytes=") for _, _, part in web.requests]
    assert parts[0] == "-262144"
    assert not [part for part in parts[1:] if int(part.split("-")[1]) >= directory]


def test_a_large_directory_takes_a_second_request(log, tmp_path, monkeypatch):
    monkeypatch.setattr("l5kit.data.stores.remote_zip.TAIL_NUM_BYTES", 200)
    write_with_chunks(log, tmp_path / "log.zarr", chunk_lengths=CHUNK_LENGTHS)
    zip_folder(tmp_path / "log.zarr", tmp_path / "log.zarr.zip", zipfile.ZIP_DEFLATED)
    with serve(tmp_path) as web:
        assert_same_records(opened(f"zip::{web.url}/log.zarr.zip"), log)
        first, second = web.requests[0][2], web.requests[1][2]
        assert first == "bytes=-200"
        assert int(second.split("-")[1]) == (tmp_path / "log.zarr.zip").stat().st_size - 200 - 1


@pytest.mark.parametrize("is_large", [False, True])
def test_zip64_and_comments_are_read(log, tmp_path, is_large, monkeypatch):
    write_with_chunks(log, tmp_path / "log.zarr", chunk_lengths=CHUNK_LENGTHS)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10 if is_large else zipfile.ZIP64_LIMIT)
    zip_folder(tmp_path / "log.zarr", tmp_path / "log.zarr.zip")
    with zipfile.ZipFile(tmp_path / "log.zarr.zip", "a") as archive:
        archive.comment = b"made by a test"
    assert (b"PK\6\6" in (tmp_path / "log.zarr.zip").read_bytes()) == is_large
    monkeypatch.undo()
    with serve(tmp_path) as web:
        assert_same_records(opened(f"{web.url}/log.zarr.zip"), log)


def test_a_file_without_a_name_in_a_zip_file_is_left_aside(folder, log, tmp_path):
    (tmp_path / "log.zarr.zip").write_bytes(with_nameless_file((folder / "log.zarr.zip").read_bytes()))
    with serve(tmp_path) as web:
        assert_same_records(opened(f"{web.url}/log.zarr.zip"), log)


def test_what_is_no_zip_file_and_a_server_without_ranges(folder, tmp_path, monkeypatch):
    (tmp_path / "log.zarr.zip").write_bytes(b"<html>not found</html>")
    with serve(tmp_path) as web, pytest.raises(CorruptedDataError, match="not a readable zip file"):
        opened(f"{web.url}/log.zarr.zip")
    monkeypatch.setattr("l5kit.data.stores.remote_zip.TAIL_NUM_BYTES", 200)
    with serve(folder) as web:
        web.knows_ranges = False
        with pytest.raises(InvalidArgumentError, match="does not support range requests; copy the zip file"):
            opened(f"{web.url}/log.zarr.zip")


def test_a_zip_file_that_is_replaced_is_told(folder, log, tmp_path):
    path = tmp_path / "log.zarr.zip"
    path.write_bytes((folder / "log.zarr.zip").read_bytes())
    with serve(tmp_path) as web:
        dataset = opened(f"{web.url}/log.zarr.zip")
        sent = pickle.dumps(dataset)
        assert_same_records(pickle.loads(sent), log)
        random_dataset(np.random.default_rng(4), 12, max_frames=16).save(path, overwrite=True)
        with pytest.raises(CorruptedDataError, match="replaced after it was opened"):
            np.asarray(dataset.agents)
        with pytest.raises(CorruptedDataError, match="replaced after it was opened"):
            np.asarray(pickle.loads(sent).agents)


def test_zip_files_are_for_reading(web):
    url = f"{web.url}/log.zarr.zip"
    with pytest.raises(InvalidArgumentError, match="read and written whole"):
        ChunkedDataset(url).open("r+")
    with pytest.raises(InvalidArgumentError, match="written whole"):
        ChunkedDataset(url).initialize()
    with pytest.raises(ReadOnlyDatasetError):
        opened(url).scenes.append(np.zeros(1, opened(url).scenes.dtype))


@pytest.mark.parametrize("name", ["log.zarr", pytest.param("log.zarr.zip", marks=pytest.mark.long)])
def test_decoded_files_are_made_anew_when_the_remote_set_changes(log, tmp_path, name):
    write_with_chunks(log, tmp_path / "log.zarr", chunk_lengths=CHUNK_LENGTHS)
    zip_folder(tmp_path / "log.zarr", tmp_path / "log.zarr.zip")
    with serve(tmp_path) as web:
        url = f"{web.url}/{name}"
        for _ in range(2):
            dataset = opened(url, cached="mmap", progress=False)
            assert isinstance(dataset.agents, MappedArray)
            assert_same_records(dataset, log)
        with web.counting() as seen:
            np.asarray(dataset.agents), EgoDataset(make_cfg(), dataset, None)[7]
        assert seen == []
        assert dataset.validate() == []
        changed = ChunkedDataset(tmp_path / "log.zarr").open("r+")
        agents = changed.agents[:]
        agents["yaw"] += 1
        changed.agents[:] = agents
        zip_folder(tmp_path / "log.zarr", tmp_path / "log.zarr.zip")
        assert opened(url, cached="mmap", progress=False).agents[:].tobytes() == agents.tobytes()


@pytest.mark.parametrize("name", ["log.zarr", "log.zarr.zip"])
def test_without_versions_only_a_zip_file_has_a_state(web, name):
    web.tells_versions = False
    dataset = opened(f"{web.url}/{name}")
    assert (dataset.fingerprint() is None) == (name == "log.zarr")
    if name == "log.zarr":
        with pytest.warns(RuntimeWarning, match="read from its chunks.*neither times nor checksums"):
            assert not isinstance(opened(f"{web.url}/{name}", cached="mmap").agents, MappedArray)


def test_a_set_that_changes_while_it_is_decoded_is_refused(web, tmp_path, monkeypatch):
    dataset = opened(f"{web.url}/log.zarr", cached=False)
    source = DecodedSource.of(dataset.root, {"scenes": dataset.scenes})
    assert build_store(source, tmp_path / "same")[1]
    monkeypatch.setattr("l5kit.data.stores.store_signature.version_of", lambda info: ("other",))
    with pytest.raises(CorruptedDataError, match="changed while it was decoded"):
        build_store(source, tmp_path / "changed")
    assert not list((tmp_path / "changed").rglob("*.npy"))


class CountingStorage(MemoryFileSystem):
    """Fake of a service such as GCS: requires options, counts files, and fails for some."""

    protocol = "counted"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]
    asked: ClassVar[list] = []
    failures: ClassVar[dict] = {}

    def __init__(self, *, token, **options):
        super().__init__(token=token, **options)
        self.token = token

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("counted://"))

    def cat_file(self, path, start=None, end=None, **options):
        if self.token != "secret":
            raise PermissionError("Forbidden: anonymous caller")
        CountingStorage.asked.append(path)
        errors = CountingStorage.failures.get(path)
        if errors:
            raise errors.pop()
        return super().cat_file(path, start, end, **options)


@pytest.fixture
def storage(folder, monkeypatch):
    fsspec.register_implementation("counted", CountingStorage, clobber=True)
    for name in ("store", "asked", "failures"):
        monkeypatch.setattr(CountingStorage, name, {} if name != "asked" else [])
    there = CountingStorage(token="secret")
    there.put(str(folder / "log.zarr"), "/bucket/log.zarr", recursive=True)
    there.put(str(folder / "log.zarr.zip"), "/bucket/log.zarr.zip")
    there.asked.clear()
    yield there
    CountingStorage.clear_instance_cache()


@pytest.mark.parametrize("name", ["log.zarr", "log.zarr.zip"])
def test_any_file_system_of_fsspec_will_do(storage, log, name):
    url, options = f"counted://bucket/{name}", {"token": "secret"}
    dataset = ChunkedDataset(url, storage_options=options, remote_reading=HASTY).open()
    assert_same_records(dataset, log)
    assert dataset.validate() == []
    storage.failures["/bucket/log.zarr/agents/1"] = [TimeoutError(), ConnectionResetError()]
    again = ChunkedDataset(url, storage_options=options, remote_reading=HASTY).open()
    assert_same_records(again, log)
    refused = "the service refuses it .*storage_options"
    with pytest.raises(UnreachableDataError, match=refused):
        ChunkedDataset(url, storage_options={"token": "wrong"}, remote_reading=HASTY).open()
    with pytest.raises(InvalidArgumentError, match="token"):
        ChunkedDataset(url).open()


def test_options_are_for_urls(tmp_path):
    with pytest.raises(InvalidArgumentError, match="storage_options are for URLs"):
        ChunkedDataset(str(tmp_path / "a.zarr"), storage_options={"anon": True})


def test_patience_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("L5KIT_REMOTE_TIMEOUT_S", "1.5")
    monkeypatch.setenv("L5KIT_REMOTE_ATTEMPTS", "4")
    reading = RemoteReading.from_environment()
    assert (reading.timeout_s, reading.attempts) == (1.5, 4)
    assert list(RemoteReading(attempts=6, first_delay_s=1, max_delay_s=5).delays_s()) == [1, 2, 4, 5, 5]
    monkeypatch.setenv("L5KIT_REMOTE_ATTEMPTS", "many")
    with pytest.raises(InvalidArgumentError, match="L5KIT_REMOTE_ATTEMPTS must be a number, got 'many'"):
        RemoteReading.from_environment()


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"timeout_s": 0}, {"concurrency": 1.5}, {"first_delay_s": -1}])
def test_patience_that_is_none(wrong):
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        RemoteReading(**wrong)


class BotoError(Exception):
    def __init__(self, status):
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (BotoError(503), True),
        (BotoError(400), False),
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (PermissionError(), False),
        (FileNotFoundError(), False),
        (OSError(16, "busy"), True),
        (OSError(22, "invalid"), False),
        (KeyError("a bug"), False),
    ],
)
def test_which_failures_pass(error, passes):
    assert is_passing(error) == passes


@pytest.mark.parametrize("user", ["key:secret@", "key:se%2Fcret@"])
def test_what_a_service_quotes_of_a_url_has_no_secrets(user):
    quoted = ValueError("Invalid bucket name 'key:secret@bucket', 'key:se/cret@bucket' in /a.zarr?X-Amz-Signature=abc")
    text = str(unreachable(f"s3://{user}bucket/a.zarr?X-Amz-Signature=abc", quoted, attempts=1, seconds=0.0))
    assert user not in text
    assert unquote(user) not in text
    assert "abc" not in text
    assert "s3://bucket/a.zarr" in text


def test_lists_and_facts_of_files_are_asked_for_past_the_caches(monkeypatch):
    forgotten = []
    monkeypatch.setattr(MemoryFileSystem, "invalidate_cache", lambda fs, path=None: forgotten.append(path))
    MemoryFileSystem().pipe("memory://asked/folder/file", b"12345")
    files, path = RemoteFiles.at("memory://asked", PATIENT)

    assert sync(files.info(f"{path}/folder/file"))["size"] == 5
    assert [info["size"] for info in sync(files.find(path)).values()] == [5]
    assert sync(files.names(path)) == {"folder": True}
    assert len(forgotten) == 3
    assert (sync(files.info(f"{path}/none")), sync(files.find("/none")), sync(files.names("/none"))) == (None, {}, {})


def test_a_file_of_which_nothing_is_told_is_there_where_it_can_be_read(monkeypatch):
    MemoryFileSystem().pipe("memory://told/file", b"12345")

    def fail(fs, path, **options):
        raise FileNotFoundError(path)

    monkeypatch.setattr(MemoryFileSystem, "info", fail)
    files, path = RemoteFiles.at("memory://told", PATIENT)
    assert sync(files.info(f"{path}/file")) == {}
