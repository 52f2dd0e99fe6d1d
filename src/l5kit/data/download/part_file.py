"""Partially downloaded file, with a journal next to it from which the next call resumes."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from l5kit._files import sync_folder

_CHECKPOINT_BYTES = 1 << 25


class PartFile:
    """The received bytes of a file: ``NAME.part``, and ``NAME.part.json`` with facts about the complete file.

    The journal counts the bytes that are synced to disk. Bytes after them, as after a power failure, are cut off when
    the file is opened again.

    Args:
        target: Path of the complete file; its folder exists.
        identity: Identifies the download; a part of something else is discarded.

    Attributes:
        num_bytes: Bytes received.
        size: Size of the complete file in bytes; None if unknown.
        validator: Text that changes when the file does; None if there is none.
        num_replies: Number of replies in this call that the bytes come from; those of earlier calls count as two.
    """

    def __init__(self, target: Path, identity: str) -> None:
        self._target, self._identity = target, identity
        self._path = target.with_name(f"{target.name}.part")
        self._journal = target.with_name(f"{target.name}.part.json")
        self.num_bytes = 0
        self.size: int | None = None
        self.validator: str | None = None

        # resume an earlier call, unless the journal is damaged or of something else, or bytes are missing
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            journal = json.loads(self._journal.read_text("utf-8"))
            num_bytes, size, validator = journal["num_bytes"], journal["size"], journal["validator"]
            is_sound = (
                type(num_bytes) is int and type(size) in (int, type(None)) and type(validator) in (str, type(None))
            )
            if is_sound and journal["identity"] == identity and 0 < num_bytes <= self._path.stat().st_size:
                self.num_bytes, self.size, self.validator = num_bytes, size, validator
        self.num_replies = 2 * int(self.num_bytes > 0)
        self._file: BinaryIO = open(self._path, "r+b" if self.num_bytes else "w+b")  # noqa: SIM115 - closed by close()
        self._file.truncate(self.num_bytes)
        self._file.seek(self.num_bytes)
        self._num_safe = self.num_bytes

    def start(self, size: int | None, validator: str | None) -> None:
        """Discard the received bytes, and start a file with these facts."""
        self.num_bytes, self.size, self.validator, self.num_replies = 0, size, validator, 0
        self._file.seek(0)
        self._file.truncate(0)
        self.checkpoint()

    def append(self, block: bytes) -> None:
        """Add bytes at the end."""
        self._file.write(block)
        self.num_bytes += len(block)
        if self.num_bytes - self._num_safe >= _CHECKPOINT_BYTES:
            self.checkpoint()

    def tail(self, num_bytes: int) -> bytes:
        """Return the last bytes."""
        self._file.seek(self.num_bytes - num_bytes)
        content = self._file.read(num_bytes)
        self._file.seek(self.num_bytes)
        return content

    def checkpoint(self) -> None:
        """Sync all bytes to disk, and record their number in the journal."""
        self._file.flush()
        os.fsync(self._file.fileno())
        facts = {
            "identity": self._identity,
            "num_bytes": self.num_bytes,
            "size": self.size,
            "validator": self.validator,
        }
        written = self._journal.with_suffix(".new")
        written.write_text(json.dumps(facts), "utf-8")
        os.replace(written, self._journal)
        self._num_safe = self.num_bytes

    def close(self) -> None:
        """Keep the received bytes for the next call."""
        if self._file.closed:
            return
        with suppress(OSError):  # disk full: the last checkpoint stays
            self.checkpoint()
        with suppress(OSError):
            self._file.close()

    def finish(self) -> None:
        """Rename the complete file to its final name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._path, self._target)
        self._journal.unlink(missing_ok=True)
        sync_folder(self._target.parent)

    @property
    def path(self) -> Path:
        """Path of the bytes; call :meth:`flush` before reading."""
        return self._path

    def flush(self) -> None:
        """Make the bytes visible to other readers."""
        self._file.flush()
