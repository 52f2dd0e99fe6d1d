"""Sent tasks: how a function is carried out in another process, and how what came of it gets back.

An answer is bytes, whatever carried the task: nothing of it is shared with the other process, arrays in it can be
written to, and an error comes up here with its type, its notes and where it came from.
Executors of such tasks give up what is running when their block is left by an error.
"""

import pickle
import traceback
from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from types import TracebackType
from typing import Any


class _WorkerError(Exception):
    """Where an error came up in another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def answer(
    function: Callable[..., object], args: tuple[object, ...] = (), kwargs: Mapping[str, object] | None = None
) -> bytes:
    """Return result, error and traceback of a call, pickled; an error that cannot be pickled comes as text."""
    try:
        return pickle.dumps((function(*args, **(kwargs or {})), None, ""), protocol=pickle.HIGHEST_PROTOCOL)
    except (Exception, SystemExit) as error:  # code of users may end the process that it is in
        trace = traceback.format_exc()
        try:
            failure = pickle.dumps((None, error, trace))
            pickle.loads(failure)
        except Exception:  # whatever its class makes of being pickled
            return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}"), trace))
        return failure


def result_of(answered: bytes) -> Any:
    """Return what a task gave, or raise its error.

    Args:
        answered: From :func:`answer`.
    """
    result, error, trace = pickle.loads(answered)
    if error is not None:
        raise error from _WorkerError(trace)
    return result


class KillableExecutor(Executor):
    """Base class of executors whose tasks run where they can be killed.

    A ``with`` block that ends by itself waits for the tasks, as with any executor; one that is left by an error, or by
    Ctrl-C, kills them.
    """

    @abstractmethod
    def kill(self) -> None:
        """End the tasks at once, whatever they are at, and let go of what carries them out; may be called twice."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if kind is None:
            return super().__exit__(kind, error, trace)
        self.kill()
        return None
