"""Loopback addresses, and the check that requests are addressed to one."""

import re
from collections.abc import Sequence
from typing import Final

LOOPBACK: Final = "127.0.0.1"
LOOPBACK_NAMES: Final = frozenset({LOOPBACK, "localhost", "::1"})

_LAST_PORT: Final = 65_535
_HOST: Final = re.compile(
    r"(?P<name>localhost|127\.0\.0\.1|\[::1\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII | re.IGNORECASE
)
"""A name of this machine as browsers write it; only IPv6 addresses are in brackets."""


def is_loopback_host(values: Sequence[str]) -> bool:
    """Return whether the ``Host`` header of a request names this machine.

    There must be exactly one, with the name as browsers write it and optionally a port (any, since tunnels change it).
    Everything else is refused, including other spellings of the loopback address: a foreign site whose own name
    resolves to this machine (DNS rebinding) could otherwise read the data.

    Args:
        values: The values of all ``Host`` headers.
    """
    match = _HOST.fullmatch(values[0]) if len(values) == 1 else None
    return match is not None and 0 < int(match["port"] or 80) <= _LAST_PORT
