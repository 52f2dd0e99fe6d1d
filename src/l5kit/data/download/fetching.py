"""Download of one file that can be resumed, and that is retried when a connection breaks.

A file is provided by a :class:`FileSource`, which answers with a :class:`Reply`.
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
"""Bytes that are requested again when a download is resumed, to check that the file is still the same."""

_SPARE_BYTES = 1 << 24
"""Bytes of a disk that are kept free."""


class NoRoomError(DownloadError):
    """A disk is full; received bytes are kept."""


class InterruptedReplyError(DownloadError):
    """A reply did not come or ended early; a retry may help.

    Attributes:
        wait_s: Seconds that the server asked to wait; None if it did not say.
    """

    wait_s: float | None = None


class WrongReplyError(DownloadError):
    """A reply contradicts itself or earlier ones, so that received bytes cannot be trusted."""


@dataclass(frozen=True)
class Reply:
    """The bytes of a file from an offset on.

    Attributes:
        start: Offset of the first byte in the file.
        size: Size of the complete file in bytes; None if the source does not say.
        validator: Text that changes when the file does; None if there is no reliable one.
        blocks: The bytes, in order. Iterating raises :class:`InterruptedReplyError` or :class:`WrongReplyError`.
    """

    start: int
    size: int | None
    validator: str | None
    blocks: Iterator[bytes]


class FileSource(Protocol):
    """A remote file."""

    @property
    def name(self) -> str:
        """Its location without secrets, for messages."""

    def open_from(self, start: int, validator: str | None) -> AbstractContextManager[Reply]:
        """Request the bytes from ``start`` on if the file still matches the validator; otherwise from 0 on.

        Raises:
            InterruptedReplyError: Nothing came; a retry may help.
            WrongReplyError: The reply does not match the request.
            DownloadError: A retry does not help.
        """


@dataclass(frozen=True)
class Expected:
    """Known facts about a file before its download; None for unknown ones.

    Attributes:
        size: Size in bytes.
        sha256: Digest in lower-case hexadecimal.
    """

    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Retries:
    """Number and delays of retries of a broken download: after 1, 2, 4, ... seconds, without jitter.

    Attributes:
        max_tries: Consecutive tries without new bytes after which a download is given up.
        first_wait_s: Seconds before the second try; the delay doubles each time.
        longest_wait_s: Most seconds between two tries; a download is given up if the server asks for more.
        sleep: Function that waits.
    """

    max_tries: int = 6
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    sleep: Callable[[float], object] = time.sleep

    def __post_init__(self) -> None:
        """Refuse invalid numbers.

        Raises:
            InvalidArgumentError: There are no tries, or a time is negative.
        """
        if self.max_tries < 1 or not 0 <= self.first_wait_s <= self.longest_wait_s:
            raise InvalidArgumentError(
                "max_tries must be at least 1, and 0 <= first_wait_s <= longest_wait_s, got "
                f"{self.max_tries}, {self.first_wait_s}, {self.longest_wait_s}"
            )

    def wait(self, num_failed: int, error: DownloadError) -> None:
        """Wait after a number of consecutive failed tries, longer if the server asked for it.

        Raises:
            DownloadError: It was the last try, or the server asks for more than the longest wait.
        """
        requested_s = getattr(error, "wait_s", None) or 0.0
        if num_failed >= self.max_tries:
            raise DownloadError(f"{error}; given up after {num_failed} tries") from error
        if requested_s > self.longest_wait_s:
            raise DownloadError(f"{error}, and asks to wait {requested_s:.0f} s; try again then") from error
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
    """Download a file to a path that does not exist yet; after an error the received part stays next to it.

    Bytes of several replies are combined only if the file was the same each time, according to the validator or,
    without one, to the final digest. The last received bytes are requested again and compared.

    Args:
        source: The remote file.
        target: Path of the complete file, in a folder that exists.
        identity: Identifies the download: a part of something else left by an earlier call is not used.
        expected: Known facts about the file.
        retries: Number and delays of retries.
        advance: Called with the received bytes and the total if known; an error raised by it ends the download.

    Raises:
        DownloadError: The file is not available, is not as expected, or does not fit on the disk.
    """
    part = PartFile(target, identity)
    try:
        _FileFetch(source, part, expected, advance, target.parent).run(retries)
        part.finish()
    finally:
        part.close()


@dataclass
class _FileFetch:
    """One download: the received part, and the source of the rest."""

    source: FileSource
    part: PartFile
    expected: Expected
    advance: Callable[[int, int | None], None] | None
    folder: Path

    def run(self, retries: Retries) -> None:
        """Send requests until the file is complete and correct."""
        most_bytes, num_failed = self.part.num_bytes, 0
        while True:
            try:
                # an earlier call may have left a complete file, of which only the digest is checked
                if self.part.size is None or self.part.num_bytes != self.part.size or not self._can_resume():
                    self._take_reply()
                self.part.flush()
                try:
                    require_digest(self.part.path, self.expected, called=self.source.name)
                except DownloadError as error:
                    # a file combined from several replies gets another try
                    was_put_together = self.part.num_replies > 1
                    self.part.start(None, None)
                    if was_put_together:
                        raise WrongReplyError(str(error)) from error
                    raise
                return
            except (InterruptedReplyError, WrongReplyError) as error:
                # a try with new bytes restarts the count
                num_failed = 1 if self.part.num_bytes > most_bytes else num_failed + 1
                most_bytes = max(most_bytes, self.part.num_bytes)
                if isinstance(error, WrongReplyError):
                    self.part.start(None, None)
                retries.wait(num_failed, error)

    def _can_resume(self) -> bool:
        """Return whether bytes of another reply may be appended."""
        return self.part.num_bytes > 0 and (self.part.validator is not None or self.expected.sha256 is not None)

    def _take_reply(self) -> None:
        """Send one request, and store its reply."""
        overlap = min(self.part.num_bytes, _OVERLAP_BYTES) if self._can_resume() else 0
        start, name = self.part.num_bytes - overlap if overlap else 0, self.source.name
        with self.source.open_from(start, self.part.validator) as reply:
            self._begin(reply, start)
            seen = self.part.tail(overlap) if reply.start else b""  # a reply from 0 has discarded everything
            for block in reply.blocks:
                # the overlap comes first, possibly in several blocks; it is compared and dropped
                again, new = block[: len(seen)], block[len(seen) :]
                if not seen.startswith(again):
                    raise WrongReplyError(f"{name}: the bytes of a part differ from those received before")
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
            raise InterruptedReplyError(
                f"{name}: {self.part.num_bytes} of {self.part.size} bytes came before the reply ended"
            )

    def _begin(self, reply: Reply, wanted: int) -> None:
        """Check the facts in a reply against known ones, and the free space on the disk."""
        size = self.expected.size
        if size is not None and reply.size is not None and reply.size != size:
            raise DownloadError(
                f"{self.source.name} has {reply.size:,} bytes, but must have {size:,}: it is another file, or the "
                "given size is wrong"
            )

        # a reply from byte 0 restarts the file; otherwise its facts must match those of earlier replies
        if reply.start not in (0, wanted):
            raise WrongReplyError(f"{self.source.name}: asked for bytes from {wanted}, got those from {reply.start}")
        if reply.start == 0:
            self.part.start(size if reply.size is None else reply.size, reply.validator)
        elif self.part.size is None:
            self.part.size = reply.size
        elif reply.size not in (None, self.part.size):
            raise WrongReplyError(
                f"{self.source.name}: the declared size was {self.part.size} bytes, but is now {reply.size}"
            )
        elif self.part.validator is not None and reply.validator not in (None, self.part.validator):
            raise WrongReplyError(f"{self.source.name} has changed while it was downloaded")
        self.part.num_replies += 1
        if self.part.size is not None:
            require_space(self.folder, self.part.size - self.part.num_bytes, called=self.source.name)


def require_digest(file: Path, expected: Expected, *, called: str) -> None:
    """Compare a file with the expected facts.

    Raises:
        DownloadError: It differs.
    """
    if not has_digest(file, expected):
        wanted = f"{expected.size} bytes" if expected.sha256 is None else f"the SHA-256 digest {expected.sha256}"
        raise DownloadError(
            f"{called} must have {wanted}, but has {file.stat().st_size} bytes with the digest {file_digest(file)}: it "
            "is another file, or damaged at its source"
        )


def has_digest(file: Path, expected: Expected) -> bool:
    """Return whether a file is as expected; unknown facts match any file."""
    if expected.size not in (None, file.stat().st_size):
        return False
    return expected.sha256 is None or file_digest(file) == expected.sha256


def file_digest(path: Path) -> str:
    """Return the SHA-256 digest of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_space(folder: Path, num_bytes: int, *, called: str) -> None:
    """Check that a disk has enough free space before anything is written.

    Raises:
        NoRoomError: It has not.
    """
    free = None
    with suppress(OSError):  # unknown on some file systems
        free = shutil.disk_usage(folder).free
    if free is not None and num_bytes + _SPARE_BYTES > free:
        raise NoRoomError(
            f"{called} needs {num_bytes / 1e9:,.3f} GB, but the disk of {str(folder)!r} has {free / 1e9:,.3f} GB free; "
            "make room, or choose another folder"
        )
