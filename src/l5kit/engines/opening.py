"""Opening of engines by name: threads, processes, Ray or Dask."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from l5kit.configs.texts import did_you_mean
from l5kit.data.jobs.scene_jobs import Workers, count_workers
from l5kit.data.jobs.worker_processes import WorkerProcesses
from l5kit.errors import InvalidArgumentError

ENGINES: Final = ("threads", "processes", "ray", "dask")
"""Names of engines; ``threads`` share decoded data, the others have separate memory."""


@contextmanager
def open_workers(
    engine: str = "threads", *, address: str | None = None, num_workers: int | None = None
) -> Iterator[Workers]:
    """Provide workers for jobs over scenes; they are released at the end of the block.

    Args:
        engine: One of :data:`ENGINES`.
        address: Address of the Ray or Dask cluster; None for one on this machine.
        num_workers: Tasks at the same time; 0 for one per core of this machine or of the cluster, None for 1 on this
            machine and all of a cluster.

    Raises:
        InvalidArgumentError: There is no such engine, an address is given for an engine without one, or a number is
            negative.
        MissingDependencyError: The engine is not installed.
        EngineError: No cluster answers at the address.
    """
    if engine not in ENGINES:
        raise InvalidArgumentError(
            f"engine is {engine!r}{did_you_mean(engine, ENGINES)}; allowed are {', '.join(ENGINES)}"
        )
    if engine in ("threads", "processes") and address is not None:
        raise InvalidArgumentError(
            f"address is {address!r}, but engine {str(engine)!r} has no address; use ray or dask"
        )
    if num_workers is not None and num_workers < 0:
        raise InvalidArgumentError(f"num_workers must be at least 0, got {num_workers}")
    if engine == "threads":
        yield 1 if num_workers is None else num_workers
    elif engine == "processes":
        with WorkerProcesses(count_workers(num_workers)) as processes:
            yield processes
    elif engine == "ray":
        from l5kit.engines.ray_tasks import RayTasks

        with RayTasks(address, num_workers or 0) as tasks:
            yield tasks
    else:
        from l5kit.engines.dask_tasks import DaskTasks

        with DaskTasks(address, num_workers or 0) as tasks_of_dask:
            yield tasks_of_dask
