"""Names of logs: how their files end, and the file that marks a folder as the group of a dataset or an export."""

from pathlib import Path
from typing import Final

__all__ = ["GROUP_FILES", "LOG_SUFFIXES", "is_group"]

GROUP_FILES: Final = (".zgroup", "zarr.json")
"""Of zarr 2, in which datasets are, and of zarr 3, in which exports in columns are."""

LOG_SUFFIXES: Final = (".zarr", ".zarr.zip")
"""Of folders and of zip files."""


def is_group(folder: Path) -> bool:
    """Return whether a folder on this machine is a group of zarr."""
    return any((folder / name).is_file() for name in GROUP_FILES)
