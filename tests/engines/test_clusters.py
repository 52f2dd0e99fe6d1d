"""Clusters of several nodes in processes of this machine: nodes and workers that are killed, buckets that fail."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.checks.validation import validate_dataset
from l5kit.data.jobs.job_folder import open_job
from l5kit.data.jobs.scene_jobs import KeptWorkers, map_scenes
from l5kit.data.stores.remote_reading import RemoteReading
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from l5kit.engines import open_workers
from l5kit.errors import WorkerDiedError
from support.logs import write_with_chunks
from support.processes import s3_server
from support.processes.cluster_jobs import TakesAllMemory, Tells
from support.processes.scene_jobs import DiesAt, squares

pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.filterwarnings("ignore::ResourceWarning")]

SQUARES = [scene * scene for scene in range(12)]


class RayNodes:
    """A head and two more nodes of Ray, each with a worker."""

    name = "ray"

    def __enter__(self):
        ray = pytest.importorskip("ray")
        from ray.cluster_utils import Cluster

        self.ray = ray
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        self.nodes = [self.cluster.add_node(num_cpus=1) for _ in range(2)]
        self.address = self.cluster.address
        return self

    def __exit__(self, *_):
        self.ray.shutdown()
        self.cluster.shutdown()

    def kill_node(self):
        self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)


class DaskNodes:
    """A scheduler of Dask and three workers with 900 MB each."""

    name = "dask"

    def __enter__(self):
        distributed = pytest.importorskip("distributed")
        self.cluster = distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="900MB"
        )
        self.address = self.cluster.scheduler_address
        return self

    def __exit__(self, *_):
        self.cluster.close()

    def kill_node(self):
        worker = next(iter(self.cluster.workers.values()))
        os.kill(worker.process.pid, signal.SIGKILL)


@pytest.fixture(scope="module", params=[RayNodes, DaskNodes])
def nodes(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        with request.param() as started:
            yield started


@pytest.fixture
def workers(nodes):
    with open_workers(nodes.name, address=nodes.address) as opened:
        yield opened


def begun(folder):
    """How often each scene was started, and by which worker."""
    rows = [path.name.split("-") for path in Path(folder).iterdir()]
    return sorted(int(row[0]) for row in rows), {int(row[1]) for row in rows}


def after_some_are_begun(folder, number, act):
    """Call a function in a thread once some number of scenes were started."""

    def wait():
        while len(list(Path(folder).iterdir())) < number:
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_all_nodes_work(workers, tmp_path):
    parts = map_scenes(Tells(str(tmp_path)), range(12), workers, block_size=1)
    assert [square for part in parts for square in part] == SQUARES
    scenes, processes = begun(tmp_path)
    assert scenes == list(range(12))
    assert len(processes) >= 3


def test_workers_that_are_killed_in_the_middle_change_nothing(workers, tmp_path):
    def kill_some():
        for process in list(begun(tmp_path)[1])[:2]:
            os.kill(process, signal.SIGKILL)

    killer = after_some_are_begun(tmp_path, 4, kill_some)
    parts = list(map_scenes(Tells(str(tmp_path)), range(12), workers, block_size=1))
    killer.join()
    assert [square for part in parts for square in part] == SQUARES


def test_a_job_that_lost_its_engine_goes_on_with_another_and_does_nothing_twice(nodes, tmp_path):
    told, job = tmp_path / "told", tmp_path / "job"
    told.mkdir()

    class StoppedError(Exception):
        pass

    def stop(num_done, _):
        if num_done >= 3:
            raise StoppedError

    with (
        pytest.raises(StoppedError),
        open_workers(nodes.name, address=nodes.address) as workers,
        open_job(job, {}) as folder,
    ):
        list(map_scenes(Tells(str(told)), range(12), KeptWorkers(workers, folder), block_size=1, progress=stop))
    time.sleep(1.0)  # what is under way ends
    done = sorted(int(path.parent.name) for path in job.glob("*/*/receipt.json"))
    assert len(done) >= 3
    for path in told.iterdir():
        path.unlink()
    with open_job(job, {}) as folder:
        parts = map_scenes(Tells(str(told), 0.0), range(12), KeptWorkers(1, folder))
        assert [square for part in parts for square in part] == SQUARES
    assert begun(told)[0] == sorted(set(range(12)) - set(done))


def test_a_poisoned_scene_is_named_and_the_cluster_goes_on(workers):
    with pytest.raises(WorkerDiedError, match=r"died.*and had scene 5;"):
        list(map_scenes(DiesAt(5), range(12), workers, block_size=1))
    assert [square for part in map_scenes(squares, range(12), workers) for square in part] == SQUARES


def test_a_scene_that_takes_all_memory_is_named(nodes, workers):
    if nodes.name == "ray":
        pytest.skip("Ray watches the memory of the machine, which others use as well")
    with pytest.raises(WorkerDiedError, match=r"workers of Dask died.*and had scene 2;"):
        list(map_scenes(TakesAllMemory(2), range(4), workers, block_size=1))


def test_a_bucket_that_fails_now_and_then_changes_nothing(workers, city, tmp_path):
    s3fs = pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    here = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    lengths = {"scenes": 2, "frames": 50, "agents": 400, "traffic_light_faces": 4000}
    write_with_chunks(here, tmp_path / "log.zarr", chunk_lengths=lengths)
    command = [sys.executable, str(Path(s3_server.__file__))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            options = {"key": "test", "secret": "test", "endpoint_url": url}
            bucket = s3fs.S3FileSystem(**options)
            bucket.mkdir("bucket")
            bucket.put(str(tmp_path / "log.zarr"), "bucket/log.zarr", recursive=True)
            for end in ("agents/3", "agents/7", "agents/11", "frames/1"):
                urllib.request.urlopen(f"{url}/__fail?end={end}&statuses=503,503").close()
            there = ChunkedDataset(
                "s3://bucket/log.zarr",
                storage_options=options,
                remote_reading=RemoteReading(attempts=5, timeout_s=20.0, first_delay_s=0.01),
            ).open()
            mask, report = compute_agents_mask(there, MaskThresholds(0.5), workers=workers)
            assert validate_dataset(there, workers=workers) == []
        finally:
            process.stdin.close()
            process.wait(timeout=30)
    expected, expected_report = compute_agents_mask(here, MaskThresholds(0.5))
    np.testing.assert_array_equal(mask, expected)
    assert report == expected_report


def test_a_node_that_is_killed_in_the_middle_changes_nothing(nodes, workers, tmp_path):
    killer = after_some_are_begun(tmp_path, 4, nodes.kill_node)
    parts = list(map_scenes(Tells(str(tmp_path)), range(12), workers, block_size=1))
    killer.join()
    assert [square for part in parts for square in part] == SQUARES
