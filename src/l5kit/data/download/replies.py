"""Replies of whoever has a file, and the ways in which one can fail."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from l5kit.errors import DownloadError


class InterruptedReplyError(DownloadError):
    """A reply did not come or ended early; asking again may help.

    Attributes:
        wait_s: Seconds that the other side asked to wait; None if it did not say.
    """

    wait_s: float | None = None


class WrongReplyError(DownloadError):
    """A reply contradicts itself or earlier ones, so that nothing of the file is to be trusted."""


@dataclass(frozen=True)
class Reply:
    """The bytes of a file from some place on.

    Attributes:
        start: Place of the first byte in the file.
        size: Bytes of the whole file; None if the other side does not say.
        validator: Text that changes when the file does; None if there is none to rely on.
        blocks: The bytes, in order. Iterating raises :class:`InterruptedReplyError` or :class:`WrongReplyError`.
    """

    start: int
    size: int | None
    validator: str | None
    blocks: Iterator[bytes]


class FileSource(Protocol):
    """One file somewhere else."""

    @property
    def name(self) -> str:
        """Where it is, without secrets, for messages."""

    def open_from(self, start: int, validator: str | None) -> AbstractContextManager[Reply]:
        """Ask for the bytes from ``start`` on, if the file is still that of the validator; else from 0 on.

        Raises:
            InterruptedReplyError: Nothing came; asking again may help.
            WrongReplyError: The reply is not what was asked for.
            DownloadError: Asking again does not help.
        """
