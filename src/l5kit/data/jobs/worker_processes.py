"""Worker processes: an executor of ``concurrent.futures`` that cleans up its processes and reports which one died.

Unlike with ``ProcessPoolExecutor``, the death of a worker fails only its own task, an interrupted task does not go on
in the background, and Ctrl-C reaches only the parent. Processes are started by ``spawn`` on all platforms: a fork would
copy locks (of zarr, numba and torch) without the threads that hold them, and occasionally produce a worker that hangs.
A worker imports only what its tasks need.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from typing import Any, ParamSpec, TypeVar

from l5kit.data.jobs.sent_tasks import KillableExecutor, answer, result_of
from l5kit.errors import InvalidArgumentError, WorkerDiedError

Params = ParamSpec("Params")
Result = TypeVar("Result")

_BEGUN = b"begun"
"""First message of a process; a script without a main guard never gets there."""

_MAIN_GUARD = "it ended before its first task: a script must start processes under if __name__ == '__main__':"


class WorkerProcesses(KillableExecutor):
    """Processes that run tasks; one is started when there is a task and no process is free.

    A ``with`` block that is left by an error or by Ctrl-C kills them; otherwise they end when all submitted tasks are
    done. They also end when this process does, for whatever reason::

        with WorkerProcesses(8) as workers:
            findings = validate_dataset(dataset, workers=workers)

    Args:
        num_workers: Number of processes.

    Raises:
        InvalidArgumentError: ``num_workers`` is less than 1.
    """

    def __init__(self, num_workers: int) -> None:
        if num_workers < 1:
            raise InvalidArgumentError(f"num_workers must be at least 1, got {num_workers}")
        self._max_workers = num_workers
        self._threads = ThreadPoolExecutor(num_workers, thread_name_prefix="l5kit worker")
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: list[_Worker] = []
        self._is_closing = False
        self._is_killed = False

    def submit(self, fn: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs) -> "Future[Result]":
        """Submit a task and return its future; see ``concurrent.futures.Executor``.

        The future raises a ``WorkerDiedError`` if the process that ran the task died.
        """
        return self._threads.submit(self._carry_out, pickle.dumps((fn, args, kwargs)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes when all submitted tasks are done; without ``wait``, return before that."""
        with self._lock:
            self._is_closing = True
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def kill(self) -> None:
        """Kill the processes immediately, even in the middle of a task."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_closing = self._is_killed = True
            workers, self._all, self._idle = self._all, [], []
        for worker in workers:
            worker.kill()
        self._threads.shutdown(wait=True)

    def _carry_out(self, task: bytes) -> Any:
        # take an idle worker that is still alive, or start a new one
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None or worker.is_alive:
                break
            self._give_back(worker)  # it was killed while idle
        if worker is None:
            worker = _Worker(threading.current_thread().name.replace("_", " "))
            with self._lock:
                self._all.append(worker)
                if self._is_killed:  # killed while this one was starting
                    worker.kill()
        try:
            return worker.carry_out(task)
        finally:
            self._give_back(worker)

    def _give_back(self, worker: "_Worker") -> None:
        with self._lock:
            is_needed = worker.is_alive and not self._is_closing
            if is_needed:
                self._idle.append(worker)
            elif worker in self._all:
                self._all.remove(worker)
        if not is_needed:
            worker.close()


class _Worker:
    """A process that runs one task after the other.

    Args:
        name: Name of the process.
    """

    def __init__(self, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), name=name, daemon=True)
        self._has_begun = False
        with _without_interrupts():
            self._process.start()
        theirs.close()

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def carry_out(self, task: bytes) -> Any:
        """Return the result of a task, or raise its error."""
        try:
            self._connection.send_bytes(task)
            self._has_begun = self._has_begun or self._next_message() == _BEGUN
            answered = self._next_message() if self._has_begun else b""
        except (EOFError, OSError):
            answered = b""
        if answered:
            return result_of(answered)

        # no answer: explain how the process ended
        self._process.join()
        code = self._process.exitcode or 0
        how = f"ended with exit code {code}"
        if code < 0:
            how = f"was killed by signal {-code}"
            how += "".join(f" ({member.name})" for member in signal.Signals if member == -code)
        early = "" if self._has_begun or code < 0 else f" ({_MAIN_GUARD})"
        raise WorkerDiedError(f"worker process {self._process.name!r} (pid {self._process.pid}) {how}{early}")

    def _next_message(self) -> bytes:
        """Return the next message of the process; empty if it has ended."""
        wait([self._connection, self._process.sentinel])
        return self._connection.recv_bytes() if self._connection.poll() else b""

    def close(self) -> None:
        """Let the process end, which it does when the connection is closed."""
        self._connection.close()
        self._process.join()

    def kill(self) -> None:
        self._process.kill()


def _serve(connection: "Connection[bytes, bytes]") -> None:
    """Run tasks until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the parent handles it
    threading.Thread(target=_end_with_parent, name="l5kit parent watch", daemon=True).start()
    with contextlib.suppress(OSError):  # the parent may be gone, which is detected below
        connection.send_bytes(_BEGUN)
    while True:
        try:
            task = connection.recv_bytes()
            try:
                function, args, kwargs = pickle.loads(task)
            except Exception as error:
                connection.send_bytes(answer(_fail, (error,)))
            else:
                connection.send_bytes(answer(function, args, kwargs))
        except (EOFError, OSError):
            return


def _end_with_parent() -> None:
    """End this process when its parent ends, even in the middle of a task."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _fail(error: Exception) -> None:
    raise error


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C in this thread and in processes that it starts, which would print tracebacks during imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    # Start the resource tracker now, with its warnings off: numcodecs creates a lock in each worker, which a killed
    # worker cannot release; the tracker cleans it up, but with a warning.
    option = "ignore:resource_tracker:UserWarning"
    sys.warnoptions.append(option)
    try:
        resource_tracker.ensure_running()  # starting it unblocks Ctrl-C
    finally:
        sys.warnoptions.remove(option)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
