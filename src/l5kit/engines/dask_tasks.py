"""Dask as an executor: tasks go to the scheduler of ``distributed``, one that is there or one on this machine."""

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from l5kit import __version__
from l5kit.engines import cluster_tasks
from l5kit.engines.cluster_tasks import ClusterTasks, answer_of_version
from l5kit.errors import EngineError, InvalidArgumentError, MissingDependencyError, WorkerDiedError, install_command

_TRIMMING: Final = "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_"
_DASKS_OWN: Final = 65536


class DaskTasks(ClusterTasks):
    """Tasks that Dask carries out, each on one thread of a worker.

    Functions and results go through Dask, scenes do not: workers open a log themselves, so that its files must lie
    where all machines find them. A task whose worker dies goes to another, as often as the scheduler allows
    (``distributed.scheduler.allowed-failures``, 3).

    Args:
        address: Of the scheduler, such as ``tcp://head:8786``, or a file that it has written; None for workers on this
            machine that end with the executor.
        num_workers: Tasks at the same time; 0 for as many as the workers have threads.

    Raises:
        MissingDependencyError: ``distributed`` is not installed.
        InvalidArgumentError: ``num_workers`` is negative.
        EngineError: No scheduler answers at the address, or it has no worker.
    """

    def __init__(self, address: str | None = None, num_workers: int = 0) -> None:
        try:
            import dask
            import distributed
            import distributed.comm
        except ModuleNotFoundError as error:
            text = f"the engine dask needs Dask's distributed: {install_command('dask')}"
            raise MissingDependencyError(text) from error
        self._distributed: Any = distributed
        if num_workers < 0:
            raise InvalidArgumentError(f"num_workers must be at least 0, got {num_workers}")

        with ExitStack() as opened:
            # Workers on this machine keep memory that they freed, as other processes do: Dask has them hand it back at
            # once, so that each large array costs the system as much again as the work on it. And it leaves the
            # variables for its workers in the environment of this process. What a user has set stays.
            cluster: Any = address
            if address is None:
                is_own = dask.config.get(_TRIMMING, None) == _DASKS_OWN
                with _same_environment(), dask.config.set({_TRIMMING: None} if is_own else {}):
                    cluster = self._distributed.LocalCluster(
                        n_workers=num_workers or None, threads_per_worker=1, processes=True, dashboard_address=None
                    )
                opened.callback(cluster.close)

            # Of a scheduler elsewhere something must answer before Dask is told of it: a client of its own waits
            # forever for a file with the address, and for a minute at the end for an address that is none.
            try:
                if address is not None:
                    if address.endswith(".json"):
                        cluster = _address_in(cluster_tasks.await_file(Path(address)))
                    host, port = self._distributed.comm.get_address_host_port(cluster, strict=True)
                    if cluster.startswith(("tcp://", "tls://")) or "://" not in cluster:
                        cluster_tasks.await_port(host, port)
                patience_s = cluster_tasks.PATIENCE_S
                self._client = self._distributed.Client(cluster, timeout=patience_s, set_as_default=False)
                opened.callback(self._client.close)
                self._client.wait_for_workers(1, timeout=patience_s)
            except (OSError, TimeoutError, ValueError) as error:
                raise EngineError(
                    f"address (--address) is {address!r}, where no Dask scheduler with workers answers "
                    f"({' '.join(str(error).split())}); start them with `dask scheduler` and `dask worker`, or leave "
                    "the address out for workers on this machine"
                ) from error
            num_available = sum(self._client.nthreads().values())
            super().__init__(num_workers or num_available, has_all=num_workers in (0, num_available))
            self._opened = opened.pop_all()  # which an error before this point has closed

    def _hand_over(self, fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        key = f"l5kit-{uuid.uuid4().hex}"
        return self._client.submit(answer_of_version, __version__, fn, args, kwargs, key=key, pure=False)

    def _wait_for(self, task: Any) -> bytes:
        try:
            answered: bytes = task.result()
        except self._distributed.KilledWorker as error:
            raise WorkerDiedError(
                f"workers of Dask died with a task, the last one {error.last_worker.address}"
            ) from error
        except self._distributed.CancelledError as error:
            raise WorkerDiedError("the scheduler of Dask has lost or cancelled a task") from error
        return answered

    def _call_back(self, task: Any) -> None:
        task.cancel()

    def _disconnect(self) -> None:
        self._opened.close()


@contextmanager
def _same_environment() -> Iterator[None]:
    """Restore the environment at the end."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


def _address_in(text: str) -> str:
    """Return the address in what a scheduler has written.

    Raises:
        ValueError: There is none.
    """
    content = json.loads(text)
    if not isinstance(content, dict) or not isinstance(content.get("address"), str):
        raise ValueError("the file has no address of a scheduler")
    return str(content["address"])
