"""Jobs over scenes: order, errors, memory, executors, and how they end."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from l5kit.data.jobs import scene_jobs
from l5kit.data.jobs.scene_jobs import count_workers, map_scenes
from l5kit.data.jobs.worker_processes import WorkerProcesses
from l5kit.errors import CorruptedDataError, InvalidArgumentError, WorkerDiedError
from support.processes.scene_jobs import (
    DiesAt,
    FailsAt,
    HoldsALock,
    StopsAt,
    a_lock,
    exits,
    fails_oddly,
    late_first,
    process_id,
    squares,
)

TESTS = Path(__file__).resolve().parents[2]
SQUARES = [scene * scene for scene in range(23)]


@pytest.fixture(scope="module")
def processes():
    with WorkerProcesses(2) as workers:
        yield workers


@pytest.fixture(
    params=["serial", "threads", "executor of threads", pytest.param("processes", marks=pytest.mark.process)]
)
def executor(request):
    if request.param == "processes":
        yield request.getfixturevalue("processes")
    elif request.param == "executor of threads":
        with ThreadPoolExecutor(3) as threads:
            yield threads
    else:
        yield 2 if request.param == "threads" else None


@pytest.mark.parametrize("block_size", [None, 1, 4, 100])
def test_results_come_in_the_order_of_the_scenes(executor, block_size):
    parts = list(map_scenes(squares, range(23), executor, block_size=block_size))
    assert [square for part in parts for square in part] == SQUARES
    if block_size is not None:
        assert [len(part) for part in parts] == [min(block_size, 23 - k) for k in range(0, 23, block_size)]


def test_a_slow_first_scene_stays_the_first(executor):
    assert list(map_scenes(late_first, range(8), executor, block_size=1)) == list(range(8))


def test_no_scenes_give_no_results(executor):
    told = []
    assert list(map_scenes(squares, [], executor, progress=lambda *counts: told.append(counts))) == []
    assert told == []


def test_scenes_may_be_any_numbers():
    assert list(map_scenes(squares, [7, 3], block_size=2)) == [[49, 9]]


@pytest.mark.parametrize("block_size", [1, 5, 100])
def test_the_first_scene_that_fails_is_named_by_its_number(executor, block_size):
    with pytest.raises(CorruptedDataError, match="there is no picture number 7") as caught:
        list(map_scenes(FailsAt((13, 7, 9)), range(20), executor, block_size=block_size))
    assert caught.value.__notes__ == ["in scene 7"]


@pytest.mark.parametrize("block_size", [1, 5])
def test_a_job_that_raises_stop_iteration_does_not_end_the_results(executor, block_size):
    with pytest.raises(RuntimeError, match="StopsAt raised StopIteration") as caught:
        list(map_scenes(StopsAt(7), range(20), executor, block_size=block_size))
    assert caught.value.__notes__ == ["in scene 7"]


def test_results_before_the_one_that_fails_have_been_handed_out(executor):
    taken = []
    with pytest.raises(CorruptedDataError):
        taken.extend(map_scenes(FailsAt((3,)), range(20), executor, block_size=1))
    assert taken == [1, 1, 1]


def test_a_block_that_fails_only_as_a_whole_is_named_as_one():
    def refuse_pairs(scenes):
        if len(scenes) > 1:
            raise ValueError("one at a time")

    with pytest.raises(ValueError, match="one at a time") as caught:
        list(map_scenes(refuse_pairs, range(4, 9), block_size=3, unit="file"))
    assert caught.value.__notes__ == ["in files 4 to 6"]


@pytest.mark.process
def test_an_error_that_cannot_be_sent_comes_as_text(processes):
    with pytest.raises(RuntimeError, match="OddError: very odd") as caught:
        list(map_scenes(fails_oddly, range(3), processes, block_size=1))
    assert caught.value.__notes__ == ["in scene 0"]


@pytest.mark.process
def test_an_error_of_another_process_shows_where_it_came_up(processes):
    with pytest.raises(CorruptedDataError) as caught:
        list(map_scenes(FailsAt((1,)), range(3), processes))
    assert "in __call__" in str(caught.value.__cause__)


@pytest.mark.parametrize("num_ahead", [1, 3, 6])
def test_no_more_results_wait_than_are_asked_for(num_ahead):
    lock, begun, most = threading.Lock(), 0, 0

    def count(scenes):
        nonlocal begun
        with lock:
            begun += 1
        return len(scenes)

    for taken, _ in enumerate(map_scenes(count, range(40), 3, block_size=1, num_ahead=num_ahead)):
        time.sleep(0.005)
        most = max(most, begun - taken)
    assert begun == 40
    assert most == num_ahead


def test_work_begins_before_the_first_result_is_asked_for():
    begun = threading.Event()
    with map_scenes(lambda _: begun.set(), range(4), 2, block_size=1):
        assert begun.wait(10)


def test_what_is_left_when_results_are_closed_is_given_up():
    done = []
    with map_scenes(lambda scenes: done.append(int(scenes[0])), range(100), 2, block_size=1) as results:
        next(results)
    num_done = len(done)
    assert num_done <= 6
    time.sleep(0.05)
    assert len(done) == num_done
    assert list(results) == []


@pytest.mark.parametrize("workers", [None, 1, 2])
def test_progress_counts_scenes_whose_results_were_taken(workers):
    told = []
    results = map_scenes(squares, range(10), workers, block_size=4, progress=lambda *counts: told.append(counts))
    next(results)
    assert told == []
    list(results)
    assert told == [(4, 10), (8, 10), (10, 10)]


def test_what_progress_raises_ends_the_work():
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(map_scenes(squares, range(10), 2, block_size=1, progress=stop))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("l5kit scene")]


def test_an_executor_that_was_passed_stays_open(executor):
    if hasattr(executor, "submit"):
        with pytest.raises(CorruptedDataError):
            list(map_scenes(FailsAt((0,)), range(20), executor, block_size=1))
        assert executor.submit(abs, -3).result() == 3


@pytest.mark.process
def test_several_processes_work_and_none_of_them_is_this_one(processes):
    workers = {processes.submit(time.sleep, 0.3): None for _ in range(2)}  # so that both are started
    assert [worker.result() for worker in workers] == [None, None]
    asked = set(map_scenes(process_id, range(50), processes, block_size=1))
    assert len(asked) <= 2
    assert os.getpid() not in asked


@pytest.mark.process
def test_a_worker_that_is_killed_says_which_scenes_it_had_and_what_to_do(processes):
    with pytest.raises(WorkerDiedError) as caught:
        list(map_scenes(DiesAt(5), range(12), processes, block_size=2))
    message = str(caught.value)
    assert "worker process 'l5kit worker" in message
    assert "was killed by signal 9 (SIGKILL), and had scenes 4 to 5;" in message
    assert "use fewer workers" in message
    assert list(map_scenes(squares, range(3), processes, block_size=3)) == [[0, 1, 4]]  # with a new worker


@pytest.mark.process
def test_code_that_ends_its_process_is_named_as_what_may_be_at_fault():
    with WorkerProcesses(1) as workers:
        with pytest.raises(WorkerDiedError) as caught:
            list(map_scenes(exits, [2], workers))
        with pytest.raises(SystemExit) as ended:
            list(map_scenes(exits, [3, 1], workers, block_size=2))
        assert workers.submit(abs, -3).result() == 3
    message = str(caught.value)
    assert "ended with exit code 0, and had scene 2; the code that it ran may have ended it" in message
    assert "(--workers 1)" in message
    assert "__main__" not in message
    assert (ended.value.code, ended.value.__notes__) == (0, ["in scene 1"])


@pytest.mark.process
def test_a_pool_of_another_kind_that_breaks_says_which_scenes_may_be_at_fault():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        # The pool may break before the block after the deadly one was handed over, which is then not at risk.
        with pytest.raises(WorkerDiedError, match=r"had some of scenes 2 to [35] ") as caught:
            list(map_scenes(DiesAt(2), range(12), pool, block_size=2))
        assert "use fewer workers" in str(caught.value)


@pytest.mark.process
def test_a_script_without_a_main_guard_is_told_of_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from l5kit.data.jobs.worker_processes import WorkerProcesses\n"
        "print(WorkerProcesses(1).submit(abs, -1).result())\n"
    )
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 1
    assert "must start processes under if __name__ == '__main__':" in run.stderr


@pytest.mark.process
def test_the_death_of_a_worker_without_a_task_fails_no_task():
    with WorkerProcesses(1) as workers:
        process = workers.submit(os.getpid).result()
        os.kill(process, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
        while workers._idle[0].is_alive:
            time.sleep(0.01)
        assert workers.submit(os.getpid).result() != process


@pytest.mark.process
def test_what_cannot_be_sent_is_carried_out_here_and_that_is_said(processes):
    with pytest.warns(
        RuntimeWarning, match="one after the other in this process.*HoldsALock and its data cannot be sent"
    ):
        parts = list(map_scenes(HoldsALock(a_lock()), range(23), processes))
    assert [square for part in parts for square in part] == SQUARES


@pytest.mark.process
def test_what_is_too_large_to_be_sent_along_is_carried_out_here(processes, monkeypatch):
    monkeypatch.setattr(scene_jobs, "_MOST_BYTES_SENT", 10)
    with pytest.warns(RuntimeWarning, match="FailsAt and its data cannot be sent to its workers .it takes 0 MB"):
        assert sum(map_scenes(FailsAt(()), range(23), processes)) == 23


@pytest.mark.parametrize("workers", [-1, 1.5, "two", True])
def test_workers_are_a_number_or_an_executor(workers):
    with pytest.raises(InvalidArgumentError, match="workers must be a number of threads"):
        map_scenes(squares, range(3), workers)


def test_no_number_of_workers_means_one_for_each_core():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert [count_workers(workers) for workers in (None, 0, 1, 5)] == [1, cores, 1, 5]


@pytest.mark.parametrize("options", [{"block_size": 0}, {"num_ahead": 0}])
def test_blocks_have_at_least_one_scene(options):
    with pytest.raises(InvalidArgumentError, match=f"{next(iter(options))} must be at least 1, got 0"):
        map_scenes(squares, range(3), **options)


def test_scenes_are_numbers_in_a_row():
    with pytest.raises(InvalidArgumentError, match=r"shape \(N,\), got shape \(1, 2\)"):
        map_scenes(squares, [[1, 2]])


def test_processes_are_at_least_one():
    with pytest.raises(InvalidArgumentError, match="num_workers must be at least 1, got 0"):
        WorkerProcesses(0)


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="signals of process groups")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_no_worker_outlives_its_parent(tmp_path, end):
    """Ctrl-C goes to all processes of a terminal, a kill to the parent alone."""
    parent = subprocess.Popen(
        [sys.executable, "-m", "support.processes.scene_jobs", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
    )
    wait_until(lambda: len(list(tmp_path.glob("*.pid"))) == 2 and all(f.read_text() for f in tmp_path.glob("*.pid")))
    workers = [int(file.read_text()) for file in tmp_path.glob("*.pid")]
    begin = time.monotonic()
    try:
        os.killpg(parent.pid, end) if end == signal.SIGINT else parent.kill()
        _, told = parent.communicate(timeout=60)
        assert (parent.returncode, told) == ((130, "") if end == signal.SIGINT else (-signal.SIGKILL, ""))
        assert time.monotonic() - begin < 30
        wait_until(lambda: not any(map(is_running, workers)))
    finally:
        for worker in filter(is_running, workers):
            os.kill(worker, signal.SIGKILL)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(is_so):
    end = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.process
def test_workers_that_are_killed_leave_no_warning_on_the_terminal(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        """
from l5kit.data.jobs.worker_processes import WorkerProcesses
from support.processes.scene_jobs import with_lock

if __name__ == "__main__":
    workers = WorkerProcesses(1)
    assert workers.submit(with_lock, [0]).result()
    workers.kill()
"""
    )
    path = os.pathsep.join([str(TESTS), *sys.path])
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
