"""Threads of the viewer: in order, what is cancelled left out, and no hindrance to the end of the process."""

import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, Future, wait

import pytest

from l5kit.visualization.viewer.worker_threads import WorkerThreads


@pytest.fixture
def one_thread():
    threads = WorkerThreads(1, name="test")
    yield threads
    threads.shutdown()


@pytest.fixture
def busy():
    """One thread that is at a call until the event is set."""
    threads, begun, released = WorkerThreads(1, name="test"), threading.Event(), threading.Event()
    threads.submit(lambda: (begun.set(), released.wait(60)))
    assert begun.wait(30)
    yield threads, released
    released.set()
    threads.shutdown(cancel_futures=True)


def test_calls_give_their_results_in_order(one_thread):
    done = []
    futures = [
        one_thread.submit(lambda number, scale: done.append(scale * number) or number, n, scale=2) for n in range(9)
    ]
    assert [future.result(30) for future in futures] == list(range(9))
    assert done == [2 * number for number in range(9)]


def test_an_error_is_handed_over_and_ends_nothing(one_thread):
    with pytest.raises(ZeroDivisionError):
        one_thread.submit(lambda: 1 // 0).result(30)
    assert one_thread.submit(lambda: 7).result(30) == 7


def test_several_threads_work_at_the_same_time():
    meeting = threading.Barrier(3)
    threads = WorkerThreads(3, name="test")
    futures = [threads.submit(meeting.wait, 30) for _ in range(3)]
    assert sorted(future.result(60) for future in futures) == [0, 1, 2]
    threads.shutdown()


def test_what_is_cancelled_before_its_turn_is_left_out(busy):
    threads, released = busy
    done = []
    futures = [threads.submit(done.append, number) for number in range(6)]
    assert all(future.cancel() for future in futures[:-1])
    released.set()
    wait(futures[-1:], 30)
    assert done == [5]


def test_nothing_begins_before_what_is_waited_for():
    first = Future()
    threads = WorkerThreads(1, name="test", after=first)
    future = threads.submit(lambda: 3)
    with pytest.raises(TimeoutError):
        future.result(0.1)
    first.set_exception(ValueError("whatever becomes of it"))
    assert future.result(30) == 3
    threads.shutdown()


def test_a_shutdown_ends_the_threads_and_takes_nothing_more():
    threads = WorkerThreads(2, name="test to be shut down")
    future = threads.submit(lambda: 3)
    threads.shutdown()
    assert future.result(0) == 3
    assert "test to be shut down" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(RuntimeError, match="after the shutdown"):
        threads.submit(lambda: 3)
    threads.shutdown()


def test_who_waits_for_the_threads_may_set_a_limit(busy):
    threads, released = busy
    threads.shutdown(wait=False)
    begin = time.monotonic()
    threads.join(0.2)
    assert 0.2 <= time.monotonic() - begin < 20
    released.set()
    begin = time.monotonic()
    threads.join(600)
    assert time.monotonic() - begin < 20


def test_a_shutdown_may_leave_out_what_has_not_begun(busy):
    threads, released = busy
    waiting = threads.submit(lambda: 3)
    follower = WorkerThreads(1, name="test", after=waiting)
    threads.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(CancelledError):
        waiting.result(0)
    assert follower.submit(lambda: 4).result(30) == 4, "what waits for it is told"
    follower.shutdown()
    released.set()
    threads.shutdown()


@pytest.mark.process
def test_the_process_ends_while_a_thread_is_at_work():
    script = (
        "import threading\n"
        "from l5kit.visualization.viewer.worker_threads import WorkerThreads\n"
        "begun = threading.Event()\n"
        "WorkerThreads(1, name='test').submit(lambda: (begun.set(), threading.Event().wait()))\n"
        "begun.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
