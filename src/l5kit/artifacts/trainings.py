"""Trainings as recorded by stores: a run folder of ``l5kit train`` or ``l5kit train-rl``, with config and weights."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from l5kit._types import Config
from l5kit.configs.config import load_config_data
from l5kit.configs.texts import parse_json, read_text
from l5kit.errors import InvalidArgumentError

_CONFIG_FILE: Final = "config.yaml"
_RESULT_FILE: Final = "result.json"
_WEIGHTS: Final = ("*.safetensors", "driver.zip", "best.zip")


@dataclass(frozen=True)
class Training:
    """A training that has finished or written a checkpoint.

    Attributes:
        folder: The run folder.
        name: Name of the folder, used for the model.
        config: Its configuration.
        result: Numbers of ``result.json``, such as steps and scores, by name; empty before the end.
        files: Weights, configuration and result, by their names.
    """

    folder: Path
    name: str
    config: Config
    result: Mapping[str, object]
    files: Mapping[str, Path]

    @property
    def data_digest(self) -> str | None:
        """Digest of the log that was trained on, if ``result.json`` records it."""
        data = self.result.get("data")
        digest = data.get("digest") if isinstance(data, dict) else None
        return digest if isinstance(digest, str) else None


def read_training(folder: str | os.PathLike[str]) -> Training:
    """Return the training in a folder.

    Raises:
        FileNotFoundError: There is no ``config.yaml``.
        InvalidArgumentError: There are no weights yet.
        ConfigError: One of its files is malformed.
    """
    path = Path(os.path.abspath(folder))
    if not (path / _CONFIG_FILE).is_file():
        raise FileNotFoundError(
            f"{str(folder)!r} is not a folder of l5kit train or l5kit train-rl: there is no {_CONFIG_FILE}; name one "
            "that a training has written"
        )
    config = load_config_data(str(path / _CONFIG_FILE))
    weights = [file for pattern in _WEIGHTS for file in sorted(path.glob(pattern))]
    if not weights:
        raise InvalidArgumentError(
            f"run_folder is {str(folder)!r}, which has no weights ({', '.join(_WEIGHTS)}); train first"
        )
    result_file = path / _RESULT_FILE
    result: object = {}
    if result_file.is_file():
        result = parse_json(read_text(result_file, called=_RESULT_FILE), called=str(result_file))
    kept = [*weights, *(path / name for name in (_CONFIG_FILE, _RESULT_FILE) if (path / name).is_file())]
    files = {file.name: file for file in kept}
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.name).strip("-.") or "training"
    return Training(path, name, config, result if isinstance(result, dict) else {}, files)
