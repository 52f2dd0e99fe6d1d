"""Executor on Ray: tasks are remote functions on an existing cluster, or on one on this machine."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from l5kit import __version__
from l5kit.engines.cluster_tasks import ClusterTasks, answer_of_version, await_port
from l5kit.errors import EngineError, InvalidArgumentError, MissingDependencyError, WorkerDiedError, install_command

_ATTEMPTS: Final = 3
"""Number of submissions of a task whose worker dies."""

_HOST_AND_PORT: Final = re.compile(r"(ray://)?\[?(?P<host>[^/\[\]]+)\]?:(?P<port>\d{1,5})")
_TOKEN_FILE: Final = Path("~/.ray/auth_token")


class RayTasks(ClusterTasks):
    """Tasks run by Ray, each on one CPU of the cluster.

    Functions and results are sent through Ray, scenes are not: workers open a log themselves, so its files must be
    accessible on all machines. A task whose worker dies is moved to another one, three times in all.

    Args:
        address: Address of the cluster, such as ``auto`` or ``ray://head:10001``; None for that in ``RAY_ADDRESS``, or
            else for a cluster on this machine that ends with the executor. An existing connection of Ray is used, and
            kept.
        num_workers: Tasks at the same time; 0 for the number of CPUs of the cluster.

    Raises:
        MissingDependencyError: Ray is not installed.
        InvalidArgumentError: ``num_workers`` is negative, or the cluster has no CPUs.
        EngineError: No cluster answers at the address.
    """

    def __init__(self, address: str | None = None, num_workers: int = 0) -> None:
        # A cluster started on a machine with a token requires it, and any cluster started by a program leaves one
        # there; but clients send it only if told to. Ray reads the variable on import; if the program has already
        # imported Ray, it is not changed.
        has_token = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
        if "ray" not in sys.modules and (has_token or _TOKEN_FILE.expanduser().is_file()):
            os.environ.setdefault("RAY_AUTH_MODE", "token")
        try:
            import ray
            import ray.exceptions
        except ModuleNotFoundError as error:
            raise MissingDependencyError(f"the engine ray needs Ray: {install_command('ray')}") from error
        self._ray: Any = ray
        if num_workers < 0:
            raise InvalidArgumentError(f"num_workers must be at least 0, got {num_workers}")
        self._is_own = not self._ray.is_initialized()
        if self._is_own:
            target = address or os.environ.get("RAY_ADDRESS") or "local"
            options: dict[str, object] = {}
            if target == "local":
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry unless requested
                options = {"num_cpus": num_workers or None, "include_dashboard": False}
            try:
                # check the port first, as Ray itself retries for minutes
                if match := _HOST_AND_PORT.fullmatch(target):
                    await_port(match["host"], int(match["port"]))
                self._ray.init(target, log_to_driver=False, logging_level="ERROR", **options)
            except (OSError, RuntimeError, ValueError) as error:
                named = "address (--address)" if address is not None else "RAY_ADDRESS in the environment"
                raise EngineError(
                    f"{named} is {target!r}, where no Ray cluster answers ({' '.join(str(error).split())}); start one "
                    "with `ray start --head`, or leave the address out for one on this machine; a cluster with tokens "
                    "(RAY_AUTH_MODE=token) needs the same one here, in ~/.ray/auth_token or RAY_AUTH_TOKEN"
                ) from error
        elif address is not None and address not in ("auto", "local", self._ray.get_runtime_context().gcs_address):
            raise InvalidArgumentError(
                f"address is {address!r}, but this process is already connected to Ray at "
                f"{self._ray.get_runtime_context().gcs_address!r}; leave address out, or call ray.shutdown() first"
            )
        num_available = int(self._ray.cluster_resources().get("CPU", 0))
        if num_available == 0 and num_workers == 0:
            raise InvalidArgumentError("num_workers is 0, but the Ray cluster has no CPUs; add nodes, or give a number")
        super().__init__(num_workers or num_available, attempts=_ATTEMPTS, has_all=num_workers in (0, num_available))
        self._remote = self._ray.remote(max_retries=0, num_cpus=1)(answer_of_version)
        self._sent: tuple[Any, Any] = (None, None)

    def _hand_over(self, fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        if self._sent[0] is not fn:  # send a job once, not with each block
            self._sent = (fn, self._ray.put(fn))
        return self._remote.remote(__version__, self._sent[1], args, kwargs)

    def _wait_for(self, task: object) -> bytes:
        errors = self._ray.exceptions
        try:
            answered: bytes = self._ray.get(task)
        except errors.RayTaskError:
            raise  # the worker could not start the task
        except errors.RayError as error:
            raise WorkerDiedError(f"a worker of Ray died each of {_ATTEMPTS} times ({type(error).__name__})") from error
        return answered

    def _call_back(self, task: object) -> None:
        self._ray.cancel(task, force=True)

    def _disconnect(self) -> None:
        if self._is_own and self._ray.is_initialized():
            self._ray.shutdown()
