"""Loader folders: the folders of several towns that a loader lists or matches by patterns."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.stores.store import is_url, path_of
from l5kit.errors import ConfigError

_NAMES_TOLD: Final = 10
"""Maximum number of existing folders listed in an error."""


class HasFolders(Protocol):
    """Protocol of a configuration that names folders of the data folder, each with a log."""

    @property
    def key(self) -> str:
        """Path of the log, relative to each folder."""

    @property
    def folders(self) -> str | Sequence[str] | None:
        """Folder names, or patterns of them."""


def folders_of(loader: HasFolders, data_manager: LocalDataManager) -> list[str] | None:
    """Return the folders of a loader, with patterns expanded, sorted; None for the data folder itself.

    Raises:
        ConfigError: A pattern matches no folder, or the data folder is a URL, which cannot be listed.
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
