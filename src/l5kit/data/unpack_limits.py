"""Unpacking limits: a packed file of a few megabytes may claim to hold terabytes."""

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class UnpackLimits:
    """Limits on the content of an archive or another packed file.

    Attributes:
        max_ratio: Maximum ratio of unpacked to packed bytes.
        free_bytes: Unpacked bytes allowed for any archive, however small.
        max_entries: Maximum number of files and folders.
    """

    max_ratio: float = 50.0
    free_bytes: int = 1 << 26
    max_entries: int = 5_000_000

    def most_bytes(self, archive: Path) -> int:
        """Return the maximum number of unpacked bytes of an archive."""
        return self._most_of(archive.stat().st_size)

    def require_readable(self, archive: zipfile.ZipFile) -> None:
        """Refuse a zip file before reading it if its declared unpacked size is too large.

        Entries never yield more than declared. The packed size is that of the file, as entries may share their bytes.

        Raises:
            zipfile.BadZipFile: The content exceeds the limits.
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
"""Limits far above those of usual datasets, checkpoints, policies and simulations."""
