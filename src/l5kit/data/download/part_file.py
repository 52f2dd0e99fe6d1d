"""Part of a file that is being downloaded, and the journal beside it by which the next call goes on."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from l5kit._files import sync_folder

_CHECKPOINT_BYTES = 1 << 25


class PartFile:
    """What has come of a file so far: ``NAME.part``, and ``NAME.part.json`` with what is known of the whole.

    The journal counts the bytes that are safe on the disk. What lies behind them, as after a power failure, is cut
    off when the file is opened again.

    Args:
        target: Where the whole file will be; its folder exists.
        identity: What is downloaded; a part of something else is thrown away.

    Attributes:
        num_bytes: Bytes that are there.
        size: Bytes of the whole; None if nobody has said.
        validator: Text that changes when the file does; None if there is none.
        num_replies: From how many replies the bytes come, in this call; those of earlier calls count as two.
    """

    def __init__(self, target: Path, identity: str) -> None:
        self._target, self._identity = target, identity
        self._path = target.with_name(f"{target.name}.part")
        self._journal = target.with_name(f"{target.name}.part.json")
        self.num_bytes = 0
        self.size: int | None = None
        self.validator: str | None = None

        # what an earlier call has left, unless the journal is damaged or of something else, or bytes have gone
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
        """Throw away what is there, and begin a file of which this is known."""
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
        """Bring all bytes to the disk, and write down that they are there."""
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
        """Keep what is there for the next call."""
        if self._file.closed:
            return
        with suppress(OSError):  # a full disk: what the last checkpoint has stays
            self.checkpoint()
        with suppress(OSError):
            self._file.close()

    def finish(self) -> None:
        """Give the whole file its name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._path, self._target)
        self._journal.unlink(missing_ok=True)
        sync_folder(self._target.parent)

    @property
    def path(self) -> Path:
        """Where the bytes are; :meth:`flush` first."""
        return self._path

    def flush(self) -> None:
        """Let others read the bytes."""
        self._file.flush()
