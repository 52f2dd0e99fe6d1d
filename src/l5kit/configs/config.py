"""Reading and writing of configuration files and of the metadata of a dataset folder."""

import os
import reprlib
from collections.abc import Mapping
from datetime import date, datetime
from types import NoneType

import numpy as np
import yaml

from l5kit._files import replaced_when_complete
from l5kit._types import Config, Float64Array, JsonObject
from l5kit.configs.texts import MAX_DEPTH, parse_json, parse_yaml, read_text
from l5kit.errors import ConfigError

_RIGID_TOLERANCE = 0.01
"""Largest accepted error of the dot products of the columns of a rotation matrix, which may have been rounded."""

_LAST_ROW_TOLERANCE = 1e-6
"""Largest accepted error of the last row of a matrix, which may have been computed."""

_SCALARS = (str, bytes, bool, int, float, NoneType, date, datetime)
"""Types that YAML reads back unchanged."""


def load_config_data(path: str) -> JsonObject:
    """Return the content of a YAML configuration file, without defaults or checks.

    Raises:
        FileNotFoundError: There is no such file.
        ConfigError: The file is a folder, not UTF-8, not YAML, nested too deep, too large with its aliases expanded,
            or not a mapping at its top level.
    """
    # other commands take a data folder as the argument that is a configuration for trainings
    if os.path.isdir(os.path.join(path, "scenes")):
        raise ConfigError(f"configuration file {path} is a data folder; give a YAML file, and the folder with --data")
    cfg = parse_yaml(read_text(path, called="configuration file"), called=f"configuration file {path}")
    return _require_mapping(cfg, path)


def save_config_data(data: JsonObject, path: str) -> None:
    """Write a configuration as YAML with sorted keys, replacing the file.

    NumPy arrays and scalars, tuples and paths are written as plain lists, numbers and text, so that
    :func:`load_config_data` reads them back.

    Raises:
        ConfigError: A value cannot be written as YAML; the message names its path, such as ``model_params.x``.
        FileNotFoundError: The folder of ``path`` does not exist.
    """
    text = yaml.safe_dump(_as_plain(data, ()), sort_keys=True)
    with replaced_when_complete(path, argument="path") as temporary:
        temporary.write_text(text, encoding="utf-8")


def load_metadata(metadata_path: str) -> JsonObject:
    """Return the content of a dataset's ``meta.json``.

    Raises:
        FileNotFoundError: There is no such file.
        ConfigError: The file is a folder, not UTF-8, not JSON, nested too deep, or not an object at its top level.
    """
    metadata = parse_json(read_text(metadata_path, called="metadata file"), called=f"metadata file {metadata_path}")
    return _require_mapping(metadata, metadata_path)


def load_matrix(metadata: Config, key: str, *, path: str) -> Float64Array:
    """Return one of the 4x4 matrices of a ``meta.json`` as float64.

    Args:
        metadata: Content of the file, from :func:`load_metadata`.
        key: ``world_to_ecef`` or ``ecef_to_aerial``.
        path: Where the metadata came from, for the error text.

    Raises:
        ConfigError: The matrix is missing, not 4x4 or not finite, its last row is not 0, 0, 0, 1, or ``world_to_ecef``
            is not a rotation and translation.
    """
    if key not in metadata:
        raise ConfigError(f"{path} has no key {key!r}; found {sorted(metadata)}. Take the meta.json of this dataset.")
    try:
        matrix = np.asarray(metadata[key], dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{path}: {key} must be a 4x4 list of numbers, got {reprlib.repr(metadata[key])}") from error
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        raise ConfigError(f"{path}: {key} must be a 4x4 list of finite numbers, got shape {matrix.shape}")
    if not np.abs(matrix[3] - (0, 0, 0, 1)).max() <= _LAST_ROW_TOLERANCE:
        raise ConfigError(
            f"{path}: the last row of {key} must be [0, 0, 0, 1], as in any affine transform, "
            f"got {matrix[3].tolist()}; take the meta.json of this dataset"
        )
    if key == "world_to_ecef":
        # world and ECEF are both in metres, so the matrix between them must be a rotation and translation
        with np.errstate(over="ignore", invalid="ignore"):
            largest = np.abs(matrix[:3, :3].T @ matrix[:3, :3] - np.eye(3)).max()
        if not largest <= _RIGID_TOLERANCE:
            raise ConfigError(
                f"{path}: world_to_ecef must be a rotation and translation, as world and ECEF are both in metres, got "
                f"the 3x3 part {matrix[:3, :3].tolist()}; take the meta.json of this dataset"
            )
    return matrix


def _require_mapping(content: object, path: str) -> JsonObject:
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must be a mapping of sections, got {type(content).__name__}")
    return content


def _as_plain(value: object, yaml_path: tuple[str, ...]) -> object:
    """Return ``value`` as dicts, lists and the types in :data:`_SCALARS`."""
    if len(yaml_path) > MAX_DEPTH:
        raise ConfigError(f"{'.'.join(yaml_path[:4])}...: nested too deep to be written, or contains itself")
    if isinstance(value, Mapping):
        return {
            _as_scalar(key, (*yaml_path, str(key))): _as_plain(item, (*yaml_path, str(key)))
            for key, item in value.items()
        }
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_as_plain(item, (*yaml_path, str(index))) for index, item in enumerate(value)]
    return _as_scalar(value, yaml_path)


def _as_scalar(value: object, yaml_path: tuple[str, ...]) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if type(value) not in _SCALARS:
        raise ConfigError(
            f"{'.'.join(yaml_path) or 'data'}: cannot write {value!r} of type {type(value).__name__} here; "
            "a configuration holds text, numbers, true and false, in lists and in dicts with such keys"
        )
    return value
