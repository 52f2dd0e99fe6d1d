"""Executor on Dask: tasks are sent to a scheduler of ``distributed``, an existing one or one on this machine."""

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
_DASK_DEFAULT: Final = 65536


class DaskTasks(ClusterTasks):
    """Tasks run by Dask, each on one thread of a worker.

    Functions and results are sent through Dask, scenes are not: workers open a log themselves, so its files must be
    accessible on all machines. A task whose worker dies is moved to another one, as often as the scheduler allows
    (``distributed.scheduler.allowed-failures``, 3).

    Args:
        address: Address of the scheduler, such as ``tcp://head:8786``, or a file written by it; None for workers on
            this machine, which end with the executor.
        num_workers: Tasks at the same time; 0 for the number of threads of all workers.

    Raises:
        MissingDependencyError: ``distributed`` is not installed.
        InvalidArgumentError: ``num_workers`` is negative.
        EngineError: No scheduler answers at the address, or it has no workers.
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
            # Let workers on this machine keep freed memory, as other processes do: by default Dask makes them return it
            # at once, so that each large array costs as much system time again as the work on it. Dask also leaves
            # variables for its workers in the environment of this process. Settings of the user are kept.
            cluster: Any = address
            if address is None:
                is_own = dask.config.get(_TRIMMING, None) == _DASK_DEFAULT
                with _same_environment(), dask.config.set({_TRIMMING: None} if is_own else {}):
                    cluster = self._distributed.LocalCluster(
                        n_workers=num_workers or None, threads_per_worker=1, processes=True, dashboard_address=None
                    )
                opened.callback(cluster.close)

            # Check that the address of a remote scheduler accepts connections before starting a client, which would
            # wait forever for a file with the address, and for a minute on exit with a wrong address.
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
            self._opened = opened.pop_all()  # closed by any error before this point

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
    """Return the address in a file written by a scheduler.

    Raises:
        ValueError: There is no address.
    """
    content = json.loads(text)
    if not isinstance(content, dict) or not isinstance(content.get("address"), str):
        raise ValueError("the file has no address of a scheduler")
    return str(content["address"])
