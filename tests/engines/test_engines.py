"""Engines: what Ray and Dask carry out comes back in order, to the bit, and with errors that name the scene."""

import json
import os
import sys

import numpy as np
import pytest

from l5kit.cli.options import Engine
from l5kit.data import ChunkedDataset
from l5kit.data.checks.validation import validate_dataset
from l5kit.data.jobs.scene_jobs import map_scenes
from l5kit.data.jobs.worker_processes import WorkerProcesses
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from l5kit.engines import ENGINES, cluster_tasks, open_workers
from l5kit.errors import CorruptedDataError, EngineError, InvalidArgumentError, WorkerDiedError
from support.processes.scene_jobs import DiesAt, FailsAt, fails_oddly, process_id, squares

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module", params=["ray", "dask"])
def workers(request):
    """Two workers of an engine on this machine."""
    pytest.importorskip({"ray": "ray", "dask": "distributed"}[request.param])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # with that of the tests
        with open_workers(request.param, num_workers=2) as opened:
            yield opened


def test_results_come_in_the_order_of_the_scenes_from_other_processes(workers):
    parts = list(map_scenes(squares, range(23), workers, block_size=2))
    assert [square for part in parts for square in part] == [scene * scene for scene in range(23)]
    assert os.getpid() not in set(map_scenes(process_id, range(4), workers, block_size=1))


def test_the_first_scene_that_fails_is_named_by_its_number(workers):
    with pytest.raises(CorruptedDataError, match="there is no picture number 7") as caught:
        list(map_scenes(FailsAt((13, 7, 9)), range(20), workers, block_size=5))
    assert caught.value.__notes__ == ["in scene 7"]
    assert "in __call__" in str(caught.value.__cause__)


def test_an_error_that_cannot_be_sent_comes_as_text(workers):
    with pytest.raises(RuntimeError, match="OddError: very odd"):
        list(map_scenes(fails_oddly, range(3), workers, block_size=1))


def trimming():
    return os.environ.get("MALLOC_TRIM_THRESHOLD_")


@pytest.mark.long
def test_workers_keep_memory_that_they_freed_and_leave_the_environment_of_this_process_alone(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    of_dask = distributed.nanny._get_env_variables("distributed.nanny.pre-spawn-environ")
    assert of_dask["MALLOC_TRIM_THRESHOLD_"] == "65536"  # else there is nothing to undo any more
    before = dict(os.environ)
    with open_workers("dask", num_workers=1) as opened:
        assert os.environ == before
        assert opened.submit(trimming).result() is None


@pytest.mark.long  # each worker compiles
def test_the_mask_has_the_same_bits(workers, city):
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    here, report = compute_agents_mask(log, MaskThresholds(0.5))
    there, report_there = compute_agents_mask(log, MaskThresholds(0.5), workers=workers)
    np.testing.assert_array_equal(here, there)
    assert report == report_there


def test_findings_are_the_same_in_the_same_order(workers, city):
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    arrays = {name: np.array(getattr(log, name)) for name in ("scenes", "frames", "agents")}
    arrays["agents"]["centroid"][[5, 900, 3000]] = np.nan
    arrays["agents"]["track_id"][40:42] = 7
    arrays["frames"]["timestamp"][[20, 130]] = 0
    broken = ChunkedDataset.in_memory(**arrays, tl_faces=np.array(log.tl_faces))
    found = validate_dataset(broken)
    assert len(found) >= 5
    assert validate_dataset(broken, workers=workers) == found


@pytest.mark.long
def test_a_worker_that_dies_is_told_of_with_its_scenes_and_the_others_go_on(workers):
    with pytest.raises(WorkerDiedError, match=r"died.*and had scene 3;"):
        list(map_scenes(DiesAt(3), range(6), workers, block_size=1))
    assert sum(map(sum, map_scenes(squares, range(5), workers, block_size=1))) == 30


def test_workers_with_another_version_are_refused(workers, monkeypatch):
    for name in ("ray_tasks", "dask_tasks"):
        module = pytest.importorskip(f"l5kit.engines.{name}")
        monkeypatch.setattr(module, "__version__", "1.0.0")
    with pytest.raises(EngineError, match=r"has l5kit .*, but the caller has 1\.0\.0"):
        list(map_scenes(squares, range(3), workers))


@pytest.mark.parametrize("engine", ["threads", "processes", Engine.PROCESSES])
def test_a_machine_has_no_address(engine):
    with (
        pytest.raises(InvalidArgumentError, match=f"address is 'tcp://head:1', but engine '{engine}' has no address"),
        open_workers(engine, address="tcp://head:1"),
    ):
        pass


def test_engines_have_names():
    assert tuple(engine.value for engine in Engine) == ENGINES
    with (
        pytest.raises(InvalidArgumentError, match="engine is 'spark'; allowed are threads, processes, ray, dask"),
        open_workers("spark"),
    ):
        pass
    with open_workers() as one, open_workers("threads", num_workers=3) as three:
        assert (one, three) == (1, 3)
    with open_workers("processes", num_workers=2) as processes:
        assert isinstance(processes, WorkerProcesses)


def test_a_version_is_asked_for_in_each_task():
    answered = cluster_tasks.answer_of_version("0.1", squares, (np.arange(3),), {})
    with pytest.raises(EngineError, match=r"the caller has 0\.1"):
        cluster_tasks.result_of(answered)


@pytest.mark.parametrize("engine", ["processes"])
def test_the_command_prints_the_same_bytes(engine, city):
    from typer.testing import CliRunner

    from l5kit.cli.main import make_app

    command = ["mask", str(city), "--json", "--yaw", "29"]
    printed = []
    for how in ([], ["--engine", engine, "--workers", "2"]):
        done = CliRunner().invoke(make_app(), [*command, *how])
        assert done.exit_code == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert json.loads(printed[0])["table"]
