"""The logs of a folder that a command goes over, or needs."""

from collections.abc import Sequence
from pathlib import Path

from l5kit._types import JsonObject
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.stores.store import path_of
from l5kit.errors import InvalidArgumentError


def for_each_log(contents: Sequence[JsonObject]) -> JsonObject:
    """Return what ``--json`` prints: that of the only log, or a list of those of all logs by the name ``logs``."""
    return contents[0] if len(contents) == 1 else {"logs": list(contents)}


def require_one_log(logs: Sequence[Path], *, option: str) -> None:
    """Refuse several logs where an option is about one.

    Raises:
        InvalidArgumentError: There are several logs.
    """
    if len(logs) > 1:
        raise InvalidArgumentError(
            f"{option} is about one log, and there are several: {', '.join(map(path_of, logs))}; pass the path of one"
        )


def require_log_of(name: str, key: str, data_manager: LocalDataManager) -> None:
    """Refuse a data folder without a log that a training needs, and say how to take or make one.

    Args:
        name: Where the configuration has the key, such as ``train_data_loader.key``.
        key: The key.
        data_manager: The data folder.

    Raises:
        FileNotFoundError: The data folder has no such log.
    """
    try:
        data_manager.require(key)
    except FileNotFoundError as error:
        error.add_note(
            f"--set {name}=scenes/NAME.zarr takes another log; l5kit synth FOLDER --train-scenes 100 --scenes 12 makes "
            "a city with logs to train on and to hold out"
        )
        raise
