"""Network addresses that only this machine reaches."""

from typing import Final

__all__ = ["LOOPBACK", "LOOPBACK_NAMES"]

LOOPBACK: Final = "127.0.0.1"
LOOPBACK_NAMES: Final = frozenset({LOOPBACK, "localhost", "::1"})
