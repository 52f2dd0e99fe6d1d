"""Whether a cluster answers at an address: tried before Ray or Dask, which wait for minutes, or forever."""

import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

PATIENCE_S = 30.0
"""How long a cluster that is just being started is waited for."""

_PAUSE_S: Final = 0.2
_CONNECTING_S: Final = 5.0

Result = TypeVar("Result")


def await_port(host: str, port: int, *, patience_s: float | None = None) -> None:
    """Wait until something listens at a port; a warning tells so if it does not at once.

    Args:
        host: Name or number of the machine.
        port: The port.
        patience_s: Seconds to wait; None for :data:`PATIENCE_S`.

    Raises:
        OSError: Nothing has within ``patience_s`` seconds.
    """

    def connect() -> None:
        socket.create_connection((host, port), _CONNECTING_S).close()

    _await(connect, f"{host}:{port}", patience_s)


def await_file(path: Path, *, patience_s: float | None = None) -> str:
    """Return the text of a file that a scheduler writes when it starts.

    Raises:
        OSError: It is not there, and has not come within ``patience_s`` seconds, or cannot be read.
        UnicodeDecodeError: It holds no text.
    """
    return _await(lambda: path.read_text("utf-8"), str(path), patience_s)


def _await(find: Callable[[], Result], name: str, requested_s: float | None) -> Result:
    """Return what ``find`` returns; until then, try again for so long."""
    patience_s = PATIENCE_S if requested_s is None else requested_s
    end_s = time.monotonic() + patience_s
    has_warned = False
    while True:
        try:
            return find()
        except OSError:
            if time.monotonic() >= end_s:
                raise
        if not has_warned:
            warnings.warn(f"nothing answers at {name} yet; waiting up to {patience_s:g} s for it", stacklevel=4)
            has_warned = True
        time.sleep(_PAUSE_S)
