"""Names of logs: how their files end, and the file that marks a folder as the group of a dataset or an export."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from l5kit.data.layout import ARRAYS

GROUP_FILES: Final = (".zgroup", "zarr.json")
"""Of zarr 2, in which datasets are, and of zarr 3, in which exports in columns are."""

LOG_SUFFIXES: Final = (".zarr", ".zarr.zip")
"""Of folders and of zip files."""


def is_group(folder: Path) -> bool:
    """Return whether a folder on this machine is a group of zarr."""
    return any((folder / name).is_file() for name in GROUP_FILES)


def logs_in(folders: Sequence[Path]) -> list[Path]:
    """Return the logs that lie in folders of this machine, sorted.

    Names tell what a log is; where none does, the files of groups, as of exports in columns with another name.
    """
    entries = sorted(entry for folder in folders if folder.is_dir() for entry in folder.iterdir())
    named = [
        entry for entry in entries if entry.name.endswith(LOG_SUFFIXES) and (entry.is_dir() or entry.suffix == ".zip")
    ]
    return named or [
        entry for entry in entries if entry.name not in ARRAYS and is_group(entry) and not is_group(entry.parent)
    ]


def name_of_log(file_name: str) -> str:
    """Return the name of a log without what it ends with: ``sample`` of ``sample.zarr`` and of ``sample.zarr.zip``."""
    endings = [ending for ending in LOG_SUFFIXES if file_name.endswith(ending)]
    return file_name.removesuffix(endings[-1]) if endings else file_name
