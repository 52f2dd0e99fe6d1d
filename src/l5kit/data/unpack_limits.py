"""Limits of unpacked sizes: a packed file of a few megabytes may claim terabytes."""

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class UnpackLimits:
    """Limits of an archive, or another packed file.

    Attributes:
        max_ratio: Unpacked bytes for each byte of the archive.
        free_bytes: Unpacked bytes that any archive may have, however small it is.
        max_entries: Files and folders.
    """

    max_ratio: float = 50.0
    free_bytes: int = 1 << 26
    max_entries: int = 5_000_000

    def most_bytes(self, archive: Path) -> int:
        """Return the allowed number of unpacked bytes of an archive."""
        return self._most_of(archive.stat().st_size)

    def require_readable(self, archive: zipfile.ZipFile) -> None:
        """Refuse a zip file before reading any of it, if its stated content is many times its size.

        Entries never yield more than stated. The size is that of the file, as entries may share their bytes.

        Raises:
            zipfile.BadZipFile: It holds too much.
        """
        file = archive.fp
        if file is None:
            raise ValueError("archive is closed; open it")
        position = file.tell()
        size = file.seek(0, os.SEEK_END)
        file.seek(position)
        unpacked = sum(info.file_size for info in archive.infolist())
        if unpacked > self._most_of(size):
            raise zipfile.BadZipFile(
                f"its {size:,} bytes would be {unpacked:,} unpacked; at most {self._most_of(size):,} are read"
            )

    def _most_of(self, num_bytes: int) -> int:
        return max(self.free_bytes, int(self.max_ratio * num_bytes))


USUAL_LIMITS = UnpackLimits()
"""Limits that datasets, checkpoints, policies and simulations never approach."""
