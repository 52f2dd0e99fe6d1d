"""Compilation of kernels: whether one is going on in this process, and who is to be told of the first one.

numba compiles a kernel when it is first called with arguments of new types and keeps it on disk. On a fresh
installation that takes a while, which a person who waits should be told.
"""

import logging
import threading
from collections.abc import Callable

__all__ = ["ADVICE", "COMPILING", "CompilationWatch", "log_compilation"]

COMPILING = "compiling kernels for this machine, once"
"""What a person who waits is told."""

ADVICE = "about 15 seconds at the first samples; l5kit warmup does it ahead of time"
"""What follows where it is not done ahead of time already."""


class CompilationWatch:
    """A watch on the compilation of kernels by this process.

    It sees compilations from :meth:`start` on. Kernels that are loaded from disk are none.

    Args:
        on_first: Called once, when the first compilation starts, by the thread that compiles.
    """

    def __init__(self, on_first: Callable[[], None] | None = None) -> None:
        self._on_first = on_first
        self._lock = threading.Lock()
        self._running = 0
        self._listener: object | None = None

    @property
    def is_compiling(self) -> bool:
        """Whether some thread is compiling a kernel now."""
        return self._running > 0

    def start(self) -> None:
        """Begin to watch; the second call does nothing."""
        from numba.core import event

        watch = self

        class Listener(event.Listener):
            def on_start(self, _: object) -> None:
                watch._started()

            def on_end(self, _: object) -> None:
                watch._ended()

        with self._lock:
            if self._listener is not None:
                return
            self._listener = Listener()
        event.register("numba:compile", self._listener)  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """End the watch; without one, nothing happens."""
        from numba.core import event

        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]

    def _started(self) -> None:
        with self._lock:
            self._running += 1
            tell, self._on_first = self._on_first, None
        if tell is not None:
            tell()

    def _ended(self) -> None:
        with self._lock:
            self._running = max(0, self._running - 1)  # it may have started before the watch


def log_compilation() -> None:
    """Log the first compilation of this process at level INFO, as ``l5kit``; later calls do nothing.

    Nothing is printed unless the program that uses l5kit shows such records.
    """
    _LOGGED.start()


def _log() -> None:
    logging.getLogger("l5kit").info("%s, %s", COMPILING, ADVICE)


_LOGGED = CompilationWatch(_log)
