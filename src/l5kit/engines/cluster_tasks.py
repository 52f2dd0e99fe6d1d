"""Cluster tasks: an executor of ``concurrent.futures`` whose tasks run on a cluster, a limited number at a time.

Scheduling, transfer and retries are up to the cluster. This module only limits the number of tasks, handles their
answers, and checks whether a cluster answers at an address before Ray or Dask are started, which would wait for minutes
or forever.
"""

import itertools
import socket
import threading
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from l5kit import __version__
from l5kit.data.jobs.sent_tasks import KillableExecutor, answer, result_of
from l5kit.errors import EngineError, WorkerDiedError

PATIENCE_S = 30.0
"""Time to wait for a cluster that is just being started."""

_PAUSE_S: Final = 0.2
_CONNECTING_S: Final = 5.0

Params = ParamSpec("Params")
Result = TypeVar("Result")


def await_port(host: str, port: int, *, patience_s: float | None = None) -> None:
    """Wait until a port accepts connections; issue a warning if it does not immediately.

    Args:
        host: Name or address of the machine.
        port: The port.
        patience_s: Seconds to wait; None for :data:`PATIENCE_S`.

    Raises:
        OSError: Nothing accepts connections within ``patience_s`` seconds.
    """
    _await(lambda: socket.create_connection((host, port), _CONNECTING_S).close(), f"{host}:{port}", patience_s)


def await_file(path: Path, *, patience_s: float | None = None) -> str:
    """Return the text of a file that a scheduler writes when it starts, waiting for it if needed.

    Raises:
        OSError: The file does not appear within ``patience_s`` seconds, or cannot be read.
        UnicodeDecodeError: It is not text.
    """
    return _await(lambda: path.read_text("utf-8"), str(path), patience_s)


def _await(find: Callable[[], Result], name: str, requested_s: float | None) -> Result:
    """Return the result of ``find``, retrying for a limited time."""
    patience_s = PATIENCE_S if requested_s is None else requested_s
    end_s = time.monotonic() + patience_s
    has_warned = False
    while True:
        try:
            return find()
        except OSError:
            if time.monotonic() >= end_s:
                raise
        if not has_warned:
            warnings.warn(f"nothing answers at {name} yet; waiting up to {patience_s:g} s for it", stacklevel=4)
            has_warned = True
        time.sleep(_PAUSE_S)


class ClusterTasks(KillableExecutor):
    """Tasks on a cluster; a ``with`` block that is left by an error, or by Ctrl-C, cancels the running ones.

    Args:
        num_workers: Tasks on the cluster at the same time, at least 1.
        attempts: Number of submissions of a task whose worker dies, if the cluster does not retry itself.
        has_all: Whether these are all workers of the cluster, so that each may have a queued task.
    """

    scenes_of_block = 64
    """Largest number of scenes in a block: submitting one takes some milliseconds, more than between processes."""

    def __init__(self, num_workers: int, *, attempts: int = 1, has_all: bool = False) -> None:
        self._max_workers = num_workers
        self._attempts = attempts
        # with all workers of the cluster, queue a second task for each, so that none is idle in between
        num_there = num_workers * (2 if has_all else 1)
        self._threads = ThreadPoolExecutor(num_there, thread_name_prefix="l5kit cluster")
        self._lock = threading.Lock()
        self._running: set[object] = set()
        self._is_killed = False

    def submit(self, fn: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs) -> "Future[Result]":
        """Submit a task and return its future; see ``concurrent.futures.Executor``.

        The future raises a ``WorkerDiedError`` if the worker that ran the task died.
        """
        return self._threads.submit(self._carry_out, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the tasks and disconnect from the cluster; without ``wait``, return before that."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            self._disconnect()

    def kill(self) -> None:
        """Cancel the tasks on the cluster, and disconnect from it."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_killed = True
            running = list(self._running)
        for task in running:
            self._call_back(task)
        self._disconnect()
        self._threads.shutdown(wait=True)

    def _carry_out(self, fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Return the result of a task, or raise its error; it is submitted again if its worker died."""
        for number in itertools.count(1):
            try:
                # submit under the lock, so that kill() either cancels a task or prevents its submission
                with self._lock:
                    if self._is_killed:
                        raise WorkerDiedError("the cluster was disconnected")
                    task = self._hand_over(fn, args, kwargs)
                    self._running.add(task)
                try:
                    answered = self._wait_for(task)
                    break
                finally:
                    with self._lock:
                        self._running.discard(task)
            except WorkerDiedError:
                if number >= self._attempts or self._is_killed:
                    raise
        return result_of(answered)

    @abstractmethod
    def _hand_over(self, fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Submit a task to the cluster and return a hashable handle."""

    @abstractmethod
    def _wait_for(self, task: object) -> bytes:
        """Return the answer of a task.

        Raises:
            WorkerDiedError: The worker that ran it died.
        """

    @abstractmethod
    def _call_back(self, task: object) -> None:
        """Cancel a task, which may be done already."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Disconnect from the cluster; shut it down if it was started here. May be called twice."""


def answer_of_version(
    version: str, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> bytes:
    """Return the answer of a call if the worker has the same version of l5kit as the caller; otherwise an error."""
    if version != __version__:
        return answer(_refuse, (version,))
    return answer(function, args, kwargs)


def _refuse(version: str) -> None:
    raise EngineError(
        f"a worker of the cluster has l5kit {__version__}, but the caller has {version}; install the same "
        "version everywhere, as results could differ"
    )
