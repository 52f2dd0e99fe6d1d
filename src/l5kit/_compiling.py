"""Compilation of kernels: detection of running compilations, notices about them, and deferral of Ctrl-C.

numba compiles a kernel at its first call with new argument types, and caches it on disk. On a fresh installation this
takes a while, so users should be notified.
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

COMPILING = "compiling kernels for this machine, once"
"""Notice for a waiting user."""

ADVICE = (
    "which takes up to a minute of processor time; other commands may need more, and l5kit warmup compiles all ahead"
)
"""Continuation of the notice for compilations during use; the bound covers all kernels, as the missing ones are
unknown."""


class CompilationWatch:
    """Watch on the compilation of kernels by this process.

    It sees compilations from :meth:`start` on, but not kernels that are loaded from disk.

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
        """Whether a thread is compiling a kernel now."""
        return self._running > 0

    def start(self) -> None:
        """Start the watch; no effect if it is running."""
        from numba.core import event

        with self._lock:
            if self._listener is not None:
                return
            self._listener = _make_listener(self._started, self._ended)
        event.register("numba:compile", self._listener)  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Stop the watch; no effect if it is not running."""
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
            self._running = max(0, self._running - 1)  # the compilation may have started before the watch


@contextmanager
def interrupted_after_compiling() -> Iterator[None]:
    """Defer Ctrl-C in the block while its thread compiles a kernel or loads one from disk, a few seconds at most.

    LLVM calls back into Python meanwhile. An exception raised there is lost together with the kernel: the call fails
    with a different error, or the process crashes. There is no effect in other threads than the main one, or if the
    program has installed its own handler.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    from numba.core import event

    held = _HeldInterruption()
    listener = _make_listener(held.begin, held.end)
    event.register("numba:compiler_lock", listener)  # type: ignore[no-untyped-call]
    signal.signal(signal.SIGINT, held.handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        event.unregister("numba:compiler_lock", listener)  # type: ignore[no-untyped-call]


class _HeldInterruption:
    """Handler that defers Ctrl-C while the main thread holds numba's lock or waits for it."""

    def __init__(self) -> None:
        self._depth = 0
        self._has_come = False

    def begin(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._depth += 1

    def end(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if self._depth == 0 and self._has_come:
            self._has_come = False
            raise KeyboardInterrupt

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self._depth > 0:
            self._has_come = True
        else:
            signal.default_int_handler(number, frame)


def _make_listener(on_start: Callable[[], None], on_end: Callable[[], None]) -> object:
    """Return a listener for events of numba."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, _: object) -> None:
            on_start()

        def on_end(self, _: object) -> None:
            on_end()

    return Listener()


def log_compilation() -> None:
    """Log the first compilation of this process at level INFO, as ``l5kit``; later calls do nothing.

    Nothing is printed unless the program that uses l5kit shows such log records.
    """
    _LOGGED.start()


def _log() -> None:
    logging.getLogger("l5kit").info("%s, %s", COMPILING, ADVICE)


_LOGGED = CompilationWatch(_log)
