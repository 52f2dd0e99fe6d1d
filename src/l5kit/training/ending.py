"""The end of a training by Ctrl-C or SIGTERM, as those who asked for it expect to see it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["TERMINATED", "told_endings"]

TERMINATED = 128 + signal.SIGTERM
"""Exit status of a process that SIGTERM has ended."""


@contextmanager
def told_endings() -> Iterator[None]:
    """Let Ctrl-C be a ``KeyboardInterrupt`` and SIGTERM an end with status 143 in the block.

    Lightning ends the process with status 1 on Ctrl-C, which it then ignores, and with 0 on SIGTERM. A handler that
    somebody else has set for SIGTERM stays.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGTERM] is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in before.items():
            if handler is not None:  # one that was not set from Python cannot be set again
                signal.signal(number, handler)


def _terminate(*_: Any) -> None:
    raise SystemExit(TERMINATED)
