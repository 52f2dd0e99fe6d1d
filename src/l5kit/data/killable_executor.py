"""Killable executor: one of ``concurrent.futures`` that gives up what is running when its block is left by an error."""

from abc import abstractmethod
from concurrent.futures import Executor
from types import TracebackType


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
