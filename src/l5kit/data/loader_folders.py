"""Folders of a loader of samples: those of several towns, which a configuration lists or names by a pattern."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.stores.store import is_url, path_of
from l5kit.errors import ConfigError

_NAMES_TOLD: Final = 10
"""Folders that are listed where none is found."""


class HasFolders(Protocol):
    """What names folders of the data folder, each with a log."""

    @property
    def key(self) -> str:
        """The log, relative to each of the folders."""

    @property
    def folders(self) -> str | Sequence[str] | None:
        """Their names, or patterns of them."""


def folders_of(loader: HasFolders, data_manager: LocalDataManager) -> list[str] | None:
    """Return the folders of a loader, those that its patterns find included, sorted; None for the data folder itself.

    Raises:
        ConfigError: A pattern finds no folder, or the data folder is a URL, which lists none.
    """
    if loader.folders is None:
        return None
    given = [loader.folders] if isinstance(loader.folders, str) else list(loader.folders)
    root = path_of(data_manager.root_folder)
    folders: list[str] = []
    for name in given:
        if not glob.has_magic(name) or os.path.isdir(os.path.join(root, name)):
            folders.append(name)
            continue
        if is_url(root):
            raise ConfigError(f"folders: {name!r} is a pattern, and {root} cannot be looked through; list the folders")
        matches = [each for each in glob.glob(name, root_dir=root) if os.path.isdir(os.path.join(root, each))]
        if not matches:
            there = sorted(entry.name for entry in Path(root).glob("*/")) if os.path.isdir(root) else []
            listed = f"there are {', '.join(there[:_NAMES_TOLD])}" if there else "there are none"
            raise ConfigError(f"folders: no folder in {root} is called {name!r}; {listed}")
        folders += sorted({Path(each).as_posix() for each in matches}.difference(folders))
    return folders


def log_keys_of(loader: HasFolders, data_manager: LocalDataManager) -> list[str]:
    """Return the keys of the logs of a loader, relative to the data folder; see :func:`folders_of`."""
    folders = folders_of(loader, data_manager)
    return [loader.key] if folders is None else [f"{folder}/{loader.key}" for folder in folders]
