"""Data manager: paths of files in a data folder, by keys relative to it."""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from l5kit.data.remote_dataset_files import exists_remotely, is_remote_group, local_file
from l5kit.data.stores.store import is_url, path_of
from l5kit.errors import InvalidArgumentError

L5KIT_DATA_FOLDER_ENV_KEY = "L5KIT_DATA_FOLDER"
"""Environment variable that names the data folder."""

_NAMES_TOLD: Final = 4


class DataManager(ABC):
    """Base of data managers, which map the key of a file to its path."""

    @abstractmethod
    def require(self, key: str) -> str:
        """Return the path of the file or folder of ``key``."""


class LocalDataManager(DataManager):
    """Data folder, local or at a URL; remote datasets are read in place, other remote files are copied.

    Args:
        local_data_folder: Folder or URL, the current folder if empty; None takes it from the environment variable
            ``L5KIT_DATA_FOLDER``. It is not checked before the first :meth:`require`.

    Attributes:
        root_folder: The folder.

    Raises:
        InvalidArgumentError: No folder is given, and the environment variable is not set.
    """

    def __init__(self, local_data_folder: str | os.PathLike[str] | None = None) -> None:
        if local_data_folder is None:
            local_data_folder = os.environ.get(L5KIT_DATA_FOLDER_ENV_KEY)
        if local_data_folder is None:
            raise InvalidArgumentError(
                "local_data_folder is None, and no data folder is set; pass the folder of the dataset, "
                f"or set the environment variable {L5KIT_DATA_FOLDER_ENV_KEY} to it"
            )
        self.root_folder = Path(local_data_folder)

    def __repr__(self) -> str:
        """Return the folder."""
        return f"{type(self).__name__}({str(self.root_folder)!r})"

    def require(self, key: str) -> str:
        """Return the path of a file or folder inside the data folder.

        Args:
            key: Path relative to the data folder, such as ``scenes/sample.zarr``.

        Raises:
            FileNotFoundError: The path does not exist.
        """
        path = self.root_folder / key
        url = path_of(path)
        if not is_url(url):
            if path.exists():
                return str(path)
            # similar files help to tell a wrong key from a wrong folder
            names = sorted(other.name for other in path.parent.glob(f"*{path.suffix}")) if path.suffix else []
            there_is = f", but there is {', '.join(names[:_NAMES_TOLD])}" if names else ""
            raise FileNotFoundError(
                f"{key!r} is not in the data folder {self.root_folder}: {path} does not exist{there_is}; "
                "check the key, and that the folder is the one that holds it"
            )

        # read datasets in place, and all other files from a copy
        if not url.endswith((".zarr", ".zip")):
            return url if is_remote_group(url) else str(local_file(url))
        if not exists_remotely(url):
            raise FileNotFoundError(f"there is no dataset at {url!r}; check the key, and the folder that it is in")
        return url


def require_data_manager(data_manager: object) -> None:
    """Refuse an object that is not a data manager, such as the path of the data folder.

    Raises:
        TypeError: ``data_manager`` has no method ``require``.
    """
    if not callable(getattr(data_manager, "require", None)):
        raise TypeError(
            f"data_manager must have a method require(key), got {type(data_manager).__name__} {data_manager!r:.80}; "
            "pass LocalDataManager(folder) with the folder of the dataset"
        )
