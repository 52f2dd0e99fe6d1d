"""Sent tasks: running a function in another process, and returning its result or error.

Answers are bytes, whatever transports the task: nothing is shared with the other process, arrays in a result are
writable, and an error is raised here with its type, its notes and its original traceback.
Executors of such tasks kill running tasks when their block is left by an error.
"""

import pickle
import traceback
from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from types import TracebackType
from typing import Any


class _WorkerError(Exception):
    """Traceback of an error in another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def answer(
    function: Callable[..., object], args: tuple[object, ...] = (), kwargs: Mapping[str, object] | None = None
) -> bytes:
    """Return result, error and traceback of a call, pickled; an error that cannot be pickled comes as text."""
    try:
        return pickle.dumps((function(*args, **(kwargs or {})), None, ""), protocol=pickle.HIGHEST_PROTOCOL)
    except (Exception, SystemExit) as error:  # user code may call sys.exit()
        trace = traceback.format_exc()
        try:
            failure = pickle.dumps((None, error, trace))
            pickle.loads(failure)
        except Exception:  # any error of its class while it is pickled
            return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}"), trace))
        return failure


def result_of(answered: bytes) -> Any:
    """Return the result of a task, or raise its error.

    Args:
        answered: From :func:`answer`.
    """
    result, error, trace = pickle.loads(answered)
    if error is not None:
        raise error from _WorkerError(trace)
    return result


class KillableExecutor(Executor):
    """Base class of executors whose running tasks can be killed.

    A ``with`` block that ends normally waits for the tasks, as with any executor; one that is left by an error, or by
    Ctrl-C, kills them.
    """

    @abstractmethod
    def kill(self) -> None:
        """Kill the tasks immediately and release the workers; may be called twice."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if kind is None:
            return super().__exit__(kind, error, trace)
        self.kill()
        return None
