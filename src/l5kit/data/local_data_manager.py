"""Find the files of a data folder by keys relative to it."""

import os
from abc import ABC, abstractmethod
from pathlib import Path

from l5kit.errors import InvalidArgumentError

L5KIT_DATA_FOLDER_ENV_KEY = "L5KIT_DATA_FOLDER"
"""Environment variable that names the data folder."""


class DataManager(ABC):
    """Gives the local path of a file that a configuration names."""

    @abstractmethod
    def require(self, key: str) -> str:
        """Return the path of the file or folder that ``key`` names."""


class LocalDataManager(DataManager):
    """Finds files below a local folder.

    Args:
        local_data_folder: The folder; the empty text is the current one. None takes the environment variable
            ``L5KIT_DATA_FOLDER``.

    Attributes:
        root_folder: The folder.

    Raises:
        ValueError: No folder is given and the environment variable is not set.
    """

    def __init__(self, local_data_folder: str | Path | None = None) -> None:
        folder = os.environ.get(L5KIT_DATA_FOLDER_ENV_KEY) if local_data_folder is None else local_data_folder
        if folder is None:
            raise InvalidArgumentError(
                f"no data folder: pass local_data_folder or set the environment variable {L5KIT_DATA_FOLDER_ENV_KEY}"
            )
        self.root_folder = Path(folder)

    def require(self, key: str) -> str:
        """Return the path of a file or folder below the root folder.

        Raises:
            FileNotFoundError: There is none.
        """
        path = self.root_folder / key
        if not path.exists():
            raise FileNotFoundError(f"{key!r} is not in the data folder: {path} does not exist")
        return str(path)
