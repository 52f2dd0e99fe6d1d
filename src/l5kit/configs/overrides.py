"""Configurations that ship with l5kit, and overrides of single values."""

import os
import reprlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from l5kit._types import JsonObject
from l5kit.configs.config import load_config_data
from l5kit.configs.texts import did_you_mean, parse_yaml, unshared
from l5kit.errors import ConfigError

_FOLDER = "small"
_DRIVER = "reinforcement.yaml"


def shipped_config_names() -> tuple[str, ...]:
    """Return the names of the small configurations that ship with l5kit, one for each workflow."""
    folder = resources.files("l5kit.configs") / _FOLDER
    return tuple(sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def shipped_config_text(name: str) -> str:
    """Return the YAML text of a configuration that ships with l5kit, with its comments.

    Args:
        name: A name of :func:`shipped_config_names`, or ``reinforcement`` for the configuration of ``l5kit train-rl``.

    Raises:
        FileNotFoundError: There is no such name.
    """
    known = (*shipped_config_names(), Path(_DRIVER).stem)
    if name not in known:
        raise FileNotFoundError(
            f"no configuration {name!r} ships with l5kit{did_you_mean(name, known)}; available: {', '.join(known)}"
        )
    folder = resources.files("l5kit.configs")
    file = folder / _DRIVER if name == Path(_DRIVER).stem else folder / _FOLDER / f"{name}.yaml"
    return file.read_text("utf-8")


def load_training_config(name_or_path: str) -> JsonObject:
    """Load a configuration that ships with l5kit, or one from a file.

    Args:
        name_or_path: A name of :func:`shipped_config_names`, or the path of a YAML file.

    Raises:
        FileNotFoundError: There is neither such a name nor such a file.
        ConfigError: The file is a folder or not YAML.
    """
    if name_or_path in shipped_config_names():
        file = resources.files("l5kit.configs") / _FOLDER / f"{name_or_path}.yaml"
        with resources.as_file(file) as path:
            return load_config_data(str(path))
    if not Path(name_or_path).exists():
        raise FileNotFoundError(
            f"there is no configuration file {name_or_path!r}{did_you_mean(name_or_path, shipped_config_names())}; "
            f"give the path of a file, or the name of a shipped configuration: {', '.join(shipped_config_names())}"
        )
    return load_config_data(name_or_path)


def load_driver_config(path: str | os.PathLike[str] | None) -> JsonObject:
    """Load the configuration of a reinforcement learning run from a file, or the one that ships with l5kit.

    Raises:
        FileNotFoundError: There is no such file.
        ConfigError: The file is a folder or not YAML.
    """
    if path is not None:
        return load_config_data(os.fspath(path))
    with resources.as_file(resources.files("l5kit.configs") / _DRIVER) as file:
        return load_config_data(str(file))


def with_overrides(cfg: JsonObject, overrides: Sequence[str]) -> JsonObject:
    """Return a copy of a configuration with other values; sections that were the same object become independent.

    Args:
        cfg: The configuration.
        overrides: Texts such as ``train_params.max_num_steps=100``. The value is read as YAML, except that ``1e-3``
            without quotes is a number, as in YAML 1.2.

    Raises:
        ConfigError: A text has no equals sign or an empty name in its path, its value is not YAML, or its key lies
            inside a value; or the configuration contains itself.
    """
    changed: JsonObject = unshared(cfg, called="the configuration")
    for override in overrides:
        path, sign, text = override.partition("=")
        *sections, key = names = path.strip().split(".")
        if not sign or not all(name.strip() for name in names):
            raise ConfigError(
                f"{override!r}: expected KEY=VALUE, such as train_params.max_num_steps=100, with a name on both sides "
                "of each dot"
            )
        section = changed
        for name in sections:
            section = section.setdefault(name, {})
            if not isinstance(section, dict):
                raise ConfigError(f"{path}: {name} is a value, not a section with keys")
        section[key] = parse_yaml(text, called=f"{path}: {reprlib.repr(text)}", reads_exponents=True)
    return changed
