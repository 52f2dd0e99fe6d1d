"""Download of one file, which goes on where it was stopped and asks again when a connection breaks.

Whoever has the file is a :class:`FileSource`, which answers with a :class:`Reply`.
"""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from l5kit.data.download.part_file import PartFile
from l5kit.errors import DownloadError, InvalidArgumentError

_OVERLAP_BYTES = 1 << 16
"""Bytes that are asked for again when a download goes on: they show whether the file is still the same."""

_SPARE_BYTES = 1 << 24
"""Bytes of a disk that are left free."""


class NoRoomError(DownloadError):
    """A disk has no room; what has come is kept."""


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


@dataclass(frozen=True)
class Expected:
    """What is known of a file before it comes; None for what is not.

    Attributes:
        size: Bytes.
        sha256: Digest, hexadecimal in small letters.
    """

    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Retries:
    """How often and when a broken download is tried again: after 1, 2, 4, ... seconds, the same for everybody.

    Attributes:
        max_tries: Tries in a row that bring nothing new, after which a download is given up.
        first_wait_s: Seconds before the second try; before each further one it is twice as long.
        longest_wait_s: Most seconds between two tries; a server that asks for more is left alone.
        sleep: What waits.
    """

    max_tries: int = 6
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    sleep: Callable[[float], object] = time.sleep

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense.

        Raises:
            InvalidArgumentError: There is no try, or a time is negative.
        """
        if self.max_tries < 1 or not 0 <= self.first_wait_s <= self.longest_wait_s:
            raise InvalidArgumentError(
                "max_tries must be at least 1, and 0 <= first_wait_s <= longest_wait_s, got "
                f"{self.max_tries}, {self.first_wait_s}, {self.longest_wait_s}"
            )

    def wait(self, num_failed: int, error: DownloadError) -> None:
        """Wait after so many failed tries in a row, and longer if the other side asked for it.

        Raises:
            DownloadError: It was the last try, or the other side asks for more than the longest wait.
        """
        requested_s = getattr(error, "wait_s", None) or 0.0
        if num_failed >= self.max_tries:
            raise DownloadError(f"{error}; given up after {num_failed} tries") from error
        if requested_s > self.longest_wait_s:
            raise DownloadError(f"{error}, and asks to wait {requested_s:.0f} s; go on then") from error
        self.sleep(max(requested_s, min(self.first_wait_s * 2 ** (num_failed - 1), self.longest_wait_s)))


def fetch_file(
    source: FileSource,
    target: Path,
    *,
    identity: str,
    expected: Expected = Expected(),
    retries: Retries = Retries(),
    advance: Callable[[int, int | None], None] | None = None,
) -> None:
    """Download a file to a place where there is none yet; what has come before an error stays beside it.

    Bytes of several replies are put together only if the file was the same each time: as the validator says or, where
    there is none, as the digest says at the end. The last bytes that are there are asked for again and compared.

    Args:
        source: Who has the file.
        target: Place of the whole file, in a folder that exists.
        identity: What is downloaded: a part of something else that an earlier call has left is not used.
        expected: What is known of it.
        retries: How often is tried again.
        advance: Called with the bytes that are here, and of the whole where known; what it raises ends the download.

    Raises:
        DownloadError: It cannot be had, is not what is expected, or finds no room on the disk.
    """
    part = PartFile(target, identity)
    try:
        _FileFetch(source, part, expected, advance, target.parent).run(retries)
        part.finish()
    finally:
        part.close()


@dataclass
class _FileFetch:
    """One download: the part that is here, and who has the rest."""

    source: FileSource
    part: PartFile
    expected: Expected
    advance: Callable[[int, int | None], None] | None
    folder: Path

    def run(self, retries: Retries) -> None:
        """Ask until the file is whole and right."""
        most_bytes, num_failed = self.part.num_bytes, 0
        while True:
            try:
                # an earlier call may have left all bytes, which are only compared with their digest then
                if self.part.size is None or self.part.num_bytes != self.part.size or not self._may_go_on():
                    self._take_reply()
                self.part.flush()
                try:
                    require_digest(self.part.path, self.expected, called=self.source.name)
                except DownloadError as error:
                    # what was put together from several replies gets another chance
                    was_put_together = self.part.num_replies > 1
                    self.part.start(None, None)
                    if was_put_together:
                        raise WrongReplyError(str(error)) from error
                    raise
                return
            except (InterruptedReplyError, WrongReplyError) as error:
                # a try that brought something new is the first of a new row of tries
                num_failed = 1 if self.part.num_bytes > most_bytes else num_failed + 1
                most_bytes = max(most_bytes, self.part.num_bytes)
                if isinstance(error, WrongReplyError):
                    self.part.start(None, None)
                retries.wait(num_failed, error)

    def _may_go_on(self) -> bool:
        """Return whether bytes of another reply may follow those that are here."""
        return self.part.num_bytes > 0 and (self.part.validator is not None or self.expected.sha256 is not None)

    def _take_reply(self) -> None:
        """Ask once, and take what comes."""
        overlap = min(self.part.num_bytes, _OVERLAP_BYTES) if self._may_go_on() else 0
        start, name = self.part.num_bytes - overlap if overlap else 0, self.source.name
        with self.source.open_from(start, self.part.validator) as reply:
            self._begin(reply, start)
            seen = self.part.tail(overlap) if reply.start else b""  # from 0 on, everything was thrown away
            for block in reply.blocks:
                # the overlap comes first, maybe over several blocks, and is compared and left out
                again, new = block[: len(seen)], block[len(seen) :]
                if not seen.startswith(again):
                    raise WrongReplyError(f"{name}: the bytes of a part are not those that came before")
                seen = seen[len(again) :]
                if self.part.size is not None and self.part.num_bytes + len(new) > self.part.size:
                    raise WrongReplyError(f"{name}: got more than the expected {self.part.size} bytes")
                if self.part.size is None:
                    require_space(self.folder, len(new), called=name)
                try:
                    self.part.append(new)
                except OSError as error:
                    raise DownloadError(f"{name} cannot be written to {self.folder}: {error}") from error
                if self.advance is not None:
                    self.advance(self.part.num_bytes, self.part.size)
        if self.part.size is not None and self.part.num_bytes < self.part.size:
            raise InterruptedReplyError(f"{name}: {self.part.num_bytes} of {self.part.size} bytes came, then no more")

    def _begin(self, reply: Reply, wanted: int) -> None:
        """Compare what a reply says of the file with what is known, and make room for it."""
        size = self.expected.size
        if size is not None and reply.size is not None and reply.size != size:
            raise DownloadError(
                f"{self.source.name} has {reply.size:,} bytes, and must have {size:,}: it is another file, or the size "
                "that was given is wrong"
            )

        # from its first byte on a reply starts the file anew; behind it, all that it says must be as before
        if reply.start not in (0, wanted):
            raise WrongReplyError(f"{self.source.name}: asked for bytes from {wanted}, got those from {reply.start}")
        if reply.start == 0:
            self.part.start(size if reply.size is None else reply.size, reply.validator)
        elif self.part.size is None:
            self.part.size = reply.size
        elif reply.size not in (None, self.part.size):
            raise WrongReplyError(
                f"{self.source.name}: the declared size was {self.part.size} bytes, and is now {reply.size}"
            )
        elif self.part.validator is not None and reply.validator not in (None, self.part.validator):
            raise WrongReplyError(f"{self.source.name} has changed while it was downloaded")
        self.part.num_replies += 1
        if self.part.size is not None:
            require_space(self.folder, self.part.size - self.part.num_bytes, called=self.source.name)


def require_digest(file: Path, expected: Expected, *, called: str) -> None:
    """Compare a file with what is known of it.

    Raises:
        DownloadError: It is another one.
    """
    if not has_digest(file, expected):
        wanted = f"{expected.size} bytes" if expected.sha256 is None else f"the SHA-256 digest {expected.sha256}"
        raise DownloadError(
            f"{called} must have {wanted}, and has not (it has {file.stat().st_size} bytes with the digest "
            f"{file_digest(file)}): it is another file, or damaged at its source"
        )


def has_digest(file: Path, expected: Expected) -> bool:
    """Return whether a file is as expected; any is where nothing is known."""
    if expected.size not in (None, file.stat().st_size):
        return False
    return expected.sha256 is None or file_digest(file) == expected.sha256


def file_digest(path: Path) -> str:
    """Return the SHA-256 digest of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_space(folder: Path, num_bytes: int, *, called: str) -> None:
    """Find out before anything is written whether a disk has room for it.

    Raises:
        NoRoomError: It has not.
    """
    free = None
    with suppress(OSError):  # some file systems do not tell
        free = shutil.disk_usage(folder).free
    if free is not None and num_bytes + _SPARE_BYTES > free:
        raise NoRoomError(
            f"{called} needs {num_bytes / 1e9:,.3f} GB, and the disk of {str(folder)!r} has {free / 1e9:,.3f} GB free; "
            "make room, or choose another folder"
        )
