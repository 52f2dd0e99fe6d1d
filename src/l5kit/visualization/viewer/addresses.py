"""Network addresses that only this machine reaches, and requests that name it."""

import re
from collections.abc import Sequence
from typing import Final

LOOPBACK: Final = "127.0.0.1"
LOOPBACK_NAMES: Final = frozenset({LOOPBACK, "localhost", "::1"})

_LAST_PORT: Final = 65_535
_HOST: Final = re.compile(
    r"(?P<name>localhost|127\.0\.0\.1|\[::1\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII | re.IGNORECASE
)
"""A name of this machine as a browser writes it; brackets stand around IPv6 and around nothing else."""


def is_loopback_host(values: Sequence[str]) -> bool:
    """Return whether the ``Host`` lines of a request name this machine.

    There must be one line with the name as browsers write it, and perhaps a port: any, since tunnels change it. All
    else is refused, other spellings of this machine's address as well, so that nothing has to be guessed: a foreign
    site that has its own name lead to this machine could read the data.

    Args:
        values: The value of each ``Host`` line.
    """
    match = _HOST.fullmatch(values[0]) if len(values) == 1 else None
    return match is not None and 0 < int(match["port"] or 80) <= _LAST_PORT
