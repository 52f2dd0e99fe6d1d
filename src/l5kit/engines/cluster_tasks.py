"""Cluster tasks: an executor of ``concurrent.futures`` whose tasks a cluster carries out, so many at a time.

What schedules, moves and repeats work is the cluster. Here stand only the limit of how many tasks are there at once,
what becomes of their answers, and whether a cluster answers at an address at all: that is tried before Ray or Dask,
which wait for minutes, or forever.
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
"""How long a cluster that is just being started is waited for."""

_PAUSE_S: Final = 0.2
_CONNECTING_S: Final = 5.0

Params = ParamSpec("Params")
Result = TypeVar("Result")


def await_port(host: str, port: int, *, patience_s: float | None = None) -> None:
    """Wait until something listens at a port; a warning is given if nothing does at once.

    Args:
        host: Name or number of the machine.
        port: The port.
        patience_s: Seconds to wait; None for :data:`PATIENCE_S`.

    Raises:
        OSError: Nothing has within ``patience_s`` seconds.
    """
    _await(lambda: socket.create_connection((host, port), _CONNECTING_S).close(), f"{host}:{port}", patience_s)


def await_file(path: Path, *, patience_s: float | None = None) -> str:
    """Return the text of a file that a scheduler writes when it starts.

    Raises:
        OSError: It is not there, and has not come within ``patience_s`` seconds, or cannot be read.
        UnicodeDecodeError: It holds no text.
    """
    return _await(lambda: path.read_text("utf-8"), str(path), patience_s)


def _await(find: Callable[[], Result], name: str, requested_s: float | None) -> Result:
    """Return what ``find`` returns; until then, try again for so long."""
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
    """Tasks on a cluster; a ``with`` block that is left by an error, or by Ctrl-C, calls back those that are running.

    Args:
        num_workers: Tasks that are on the cluster at the same time, at least 1.
        attempts: How often a task is handed over whose worker dies, where the cluster does not do so itself.
        has_all: Whether these are all workers of the cluster, so that each may have a next task waiting for it.
    """

    scenes_of_block = 64
    """Scenes of a block at most: handing one over takes some milliseconds, more than between processes."""

    def __init__(self, num_workers: int, *, attempts: int = 1, has_all: bool = False) -> None:
        self._max_workers = num_workers
        self._attempts = attempts
        # where these are all workers, a next task waits at each, so that none is idle in between
        num_there = num_workers * (2 if has_all else 1)
        self._threads = ThreadPoolExecutor(num_there, thread_name_prefix="l5kit cluster")
        self._lock = threading.Lock()
        self._running: set[object] = set()
        self._is_killed = False

    def submit(self, fn: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs) -> "Future[Result]":
        """Hand a task over and return its future; see ``concurrent.futures.Executor``.

        The future raises a ``WorkerDiedError`` if the worker that had the task died.
        """
        return self._threads.submit(self._carry_out, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the tasks, and let go of the cluster; without ``wait``, return before that."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            self._disconnect()

    def kill(self) -> None:
        """Call back what is on the cluster, and let go of it."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_killed = True
            running = list(self._running)
        for task in running:
            self._call_back(task)
        self._disconnect()
        self._threads.shutdown(wait=True)

    def _carry_out(self, fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Return what comes of a task, or raise what it raised; it is handed over again if its worker died."""
        for number in itertools.count(1):
            try:
                # Under the lock, so that a task is either among those that are called back, or not handed over any
                # more.
                with self._lock:
                    if self._is_killed:
                        raise WorkerDiedError("the cluster was let go of")
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
        """Return the task on the cluster, an object that can be hashed."""

    @abstractmethod
    def _wait_for(self, task: object) -> bytes:
        """Return the answer of a task.

        Raises:
            WorkerDiedError: The worker that had it died.
        """

    @abstractmethod
    def _call_back(self, task: object) -> None:
        """Give a task up; it may be done already."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Let go of the cluster; end it if it was started here. May be called twice."""


def answer_of_version(
    version: str, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> bytes:
    """Return what comes of a call, in a worker with the same l5kit as the one that asks; an error in another one."""
    if version != __version__:
        return answer(_refuse, (version,))
    return answer(function, args, kwargs)


def _refuse(version: str) -> None:
    raise EngineError(
        f"a worker of the cluster has l5kit {__version__}, and the one that asks has {version}; install the same "
        "version everywhere, as results could differ"
    )
