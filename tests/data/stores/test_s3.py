"""Datasets in an S3 bucket, served by a separate process with the same interface."""

import json
import multiprocessing
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import s3fs
import zarr

pytest.importorskip("moto")

from l5kit.data import ChunkedDataset
from l5kit.data.stores.npy_files import MappedArray
from l5kit.data.stores.remote_reading import RemoteReading
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.errors import CorruptedDataError, DatasetNotFoundError, UnreachableDataError
from support.logs import write_with_chunks
from support.processes import s3_server
from support.processes.read_rows import digest_of, send_digest
from support.random_logs import ARRAYS, assert_same_records, random_dataset
from support.samples import make_cfg
from support.touched_chunks import touched_chunks

pytestmark = pytest.mark.process

CHUNK_LENGTHS = {"scenes": 2, "frames": 50, "agents": 400, "traffic_light_faces": 4000}
READING = RemoteReading(attempts=3, timeout_s=20.0, first_delay_s=0.01)


class Server:
    """The server, and the requests it has received."""

    def __init__(self, url):
        self.url = url
        self.options = {"key": "test", "secret": "test", "endpoint_url": url}

    def requests(self):
        with urllib.request.urlopen(f"{self.url}/__requests") as answer:
            return [tuple(request) for request in json.load(answer)]

    def fail(self, end, *statuses):
        urllib.request.urlopen(f"{self.url}/__fail?end={end}&statuses={','.join(map(str, statuses))}").close()

    def open(self, name, **how):
        url = f"s3://bucket/{name}"
        return ChunkedDataset(url, storage_options=self.options, remote_reading=READING).open(**how)


@pytest.fixture(scope="module")
def log(city):
    dataset = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    arrays = {name: np.asarray(getattr(dataset, name)) for name in ARRAYS}
    return ChunkedDataset.in_memory(**arrays)


@pytest.fixture(scope="module")
def server(log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bucket")
    write_with_chunks(log, folder / "log.zarr", chunk_lengths=CHUNK_LENGTHS)
    log.save(folder / "log.zarr.zip")
    command = [sys.executable, str(Path(s3_server.__file__))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            server = Server(process.stdout.readline().strip())
            bucket = s3fs.S3FileSystem(**server.options)
            bucket.mkdir("bucket")
            bucket.put(str(folder / "log.zarr"), "bucket/log.zarr", recursive=True)
            bucket.put(str(folder / "log.zarr.zip"), "bucket/log.zarr.zip")
            server.bucket = bucket
            yield server
        finally:
            process.stdin.close()
            process.wait(timeout=30)


@pytest.mark.parametrize("name", ["log.zarr", "log.zarr.zip"])
def test_a_bucket_gives_the_same_records_to_everything(server, log, name):
    dataset = server.open(name)
    assert_same_records(dataset, log)
    assert dataset.validate() == []
    cfg = make_cfg()
    there, here = AgentDataset(cfg, dataset, None), AgentDataset(cfg, log, None)
    assert len(there) == len(here) > 0
    for index in (0, len(here) // 2, -1):
        for key, value in here[index].items():
            np.testing.assert_array_equal(there[index][key], value)


def test_a_random_sample_costs_a_request_for_each_chunk_at_most(server, log):
    samples = EgoDataset(make_cfg(), server.open("log.zarr"), None)
    rng = np.random.default_rng(0)
    asked_before = set()
    for index in rng.integers(len(samples), size=10).tolist():
        before = len(server.requests())
        samples[index]
        seen = server.requests()[before:]
        touched = touched_chunks(log, index, CHUNK_LENGTHS, past=3, future=5)
        assert len(seen) == len(set(seen))
        assert set(seen) <= {("GET", f"/bucket/log.zarr/{key}/{number}") for key, number in touched}
        assert not asked_before & set(seen)
        asked_before |= set(seen)
    assert {path.split("/")[-2] for _, path in asked_before} == {"agents", "traffic_light_faces"}


def test_opening_reads_metadata_once_and_lists_nothing(server):
    before = len(server.requests())
    server.open("log.zarr")
    seen = server.requests()[before:]
    assert len(seen) == len(set(seen)) <= 19
    assert not [path for _, path in seen if "list-type" in path]


def test_consolidated_metadata_is_used(server, log, tmp_path):
    write_with_chunks(log, tmp_path / "log.zarr", chunk_lengths={**CHUNK_LENGTHS, "agents": 20000})
    zarr.consolidate_metadata(str(tmp_path / "log.zarr"), zarr_format=2)
    server.bucket.put(str(tmp_path / "log.zarr"), "bucket/consolidated.zarr", recursive=True)
    before = len(server.requests())
    dataset = server.open("consolidated.zarr")
    assert not [path for _, path in server.requests()[before:] if path.endswith(".zarray")]
    assert_same_records(dataset, log)


def test_busy_services_are_asked_again_and_refusals_are_not(server, log):
    server.fail("log.zarr/agents/2", 503, 503)
    assert_same_records(server.open("log.zarr"), log)
    for statuses, attempts, words in (((503,) * 9, 3, "after 3 attempts"), ((403,) * 9, 1, "the service refuses it")):
        server.fail("log.zarr/agents/2", *statuses)
        before = len(server.requests())
        with pytest.raises(UnreachableDataError, match=rf"s3://bucket/log.zarr/agents/2 \(chunk 2 of .*{words}"):
            server.open("log.zarr").agents[800:1200]
        asked = [path for _, path in server.requests()[before:] if path.endswith("log.zarr/agents/2")]
        assert len(asked) == attempts
    server.fail("log.zarr/agents/2")


def test_what_is_not_there(server, log, tmp_path):
    for name in ("none.zarr", "none.zarr.zip"):
        with pytest.raises(DatasetNotFoundError, match=f"s3://bucket/{name}"):
            server.open(name)
    write_with_chunks(log, tmp_path / "log.zarr", chunk_lengths=CHUNK_LENGTHS)
    (tmp_path / "log.zarr" / "agents" / "1").unlink()
    server.bucket.put(str(tmp_path / "log.zarr"), "bucket/lost.zarr", recursive=True)
    dataset = server.open("lost.zarr")
    assert not dataset.agents[400:800].view(np.uint8).any()
    with pytest.raises(CorruptedDataError, match=r"s3://bucket/lost.zarr/agents/1 is missing"):
        dataset.agents.rows(390, 810, strict=True)
    findings = dataset.validate()
    assert [(finding.check, finding.row) for finding in findings] == [("agents: missing chunk", 400)]


@pytest.mark.parametrize("name", ["log.zarr", "log.zarr.zip"])
def test_decoded_files_follow_the_bucket(server, log, name, tmp_path):
    server.bucket.copy(f"bucket/{name}", f"bucket/mapped-{name}", recursive=True)
    for _ in range(2):
        dataset = server.open(f"mapped-{name}", cached="mmap", progress=False)
        assert isinstance(dataset.agents, MappedArray)
        assert_same_records(dataset, log)
    other = random_dataset(np.random.default_rng(6), 20, min_frames=20, max_frames=30, max_tracks=8)
    if name.endswith(".zip"):
        other.save(tmp_path / name)
    else:
        write_with_chunks(other, tmp_path / name, chunk_lengths=CHUNK_LENGTHS)
    is_zip = name.endswith(".zip")
    source = str(tmp_path / name) + ("" if is_zip else "/")
    server.bucket.put(source, f"bucket/mapped-{name}", recursive=not is_zip)
    assert_same_records(server.open(f"mapped-{name}", cached="mmap", progress=False), other)


@pytest.mark.parametrize("name", ["log.zarr", "log.zarr.zip"])
def test_spawned_processes_open_connections_of_their_own(server, log, name):
    context = multiprocessing.get_context("spawn")
    dataset, queue = server.open(name, cached=False), context.Queue()
    dataset.agents[:3]
    process = context.Process(target=send_digest, args=(dataset, queue))
    process.start()
    assert queue.get(timeout=120) == digest_of(log)
    process.join(timeout=60)
    assert process.exitcode == 0


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_workers_of_a_loader_read_the_bucket(server, log, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"processes cannot be started by {method} here")
    cfg = make_cfg()
    both = ChunkedDataset.concatenate([server.open("log.zarr"), server.open("log.zarr.zip")])
    samples = EgoDataset(cfg, both, None)
    samples[3], samples[-3]  # connections are open when the worker is started
    indices = [3, 100, 200, len(samples) - 4]
    torch = pytest.importorskip("torch")
    subset = torch.utils.data.Subset(samples, indices)
    loader = torch.utils.data.DataLoader(subset, batch_size=2, num_workers=1, multiprocessing_context=method)
    found = torch.cat([batch["target_positions"] for batch in loader])
    here = EgoDataset(cfg, log, None)
    expected = np.stack([here[index % len(here)]["target_positions"] for index in indices])
    np.testing.assert_array_equal(found.numpy(), expected)


def test_a_public_bucket_is_read_without_an_account(server, log, tmp_path):
    write_with_chunks(log, tmp_path / "log.zarr", chunk_lengths={**CHUNK_LENGTHS, "agents": 20000, "frames": 2000})
    server.bucket.put(str(tmp_path / "log.zarr"), "bucket/public.zarr", recursive=True, ACL="public-read")
    anonymous = {"anon": True, "endpoint_url": server.url}
    assert_same_records(ChunkedDataset("s3://bucket/public.zarr", storage_options=anonymous).open(), log)
    with pytest.raises(UnreachableDataError, match="the service refuses it "):
        ChunkedDataset("s3://bucket/log.zarr", storage_options=anonymous).open()


def test_a_bucket_can_be_written_to(server, log):
    target = ChunkedDataset("s3://bucket/new.zarr", storage_options=server.options)
    target.initialize("w", num_scenes=len(log.scenes), num_frames=len(log.frames), num_agents=len(log.agents))
    target.scenes[:], target.frames[:], target.agents[:] = log.scenes, log.frames, log.agents
    assert_same_records(server.open("new.zarr"), log, arrays=("scenes", "frames", "agents"))
