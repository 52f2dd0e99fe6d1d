"""Logs of a folder: JSON of one or several, and checks that a command has the logs it needs."""

from collections.abc import Sequence
from pathlib import Path

from l5kit._types import JsonObject
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.stores.store import path_of
from l5kit.errors import InvalidArgumentError


def for_each_log(contents: Sequence[JsonObject]) -> JsonObject:
    """Return the JSON of a command: the content of the only log, or all contents under ``logs``."""
    return contents[0] if len(contents) == 1 else {"logs": list(contents)}


def require_one_log(logs: Sequence[Path], *, option: str) -> None:
    """Refuse several logs for an option that needs a single one.

    Raises:
        InvalidArgumentError: There are several logs.
    """
    if len(logs) > 1:
        raise InvalidArgumentError(
            f"{option} is for one log, but there are several: {', '.join(map(path_of, logs))}; pass the path of one"
        )


def require_log_of(name: str, key: str, data_manager: LocalDataManager) -> None:
    """Require a log of a training in the data folder; the error says how to choose or generate one.

    Args:
        name: Name of the key in the configuration, such as ``train_data_loader.key``.
        key: The key.
        data_manager: The data folder.

    Raises:
        FileNotFoundError: The data folder has no such log.
    """
    try:
        data_manager.require(key)
    except FileNotFoundError as error:
        error.add_note(
            f"--set {name}=scenes/NAME.zarr chooses another log; l5kit synth FOLDER --train-scenes 100 --scenes 12 "
            "generates a city with logs for training and evaluation"
        )
        raise
