"""Check for keys that configurations may not have: those that neither l5kit nor L5Kit 1.x knows."""

import difflib
import functools
from collections.abc import Iterator, Mapping
from typing import Final

from l5kit._types import Config
from l5kit._warning import warn_caller
from l5kit.configs.reading import keys_of
from l5kit.configs.schema import IdleKeys, sections
from l5kit.configs.texts import did_you_mean
from l5kit.errors import ConfigError

LEGACY_KEYS: Final = tuple(key.path for key in keys_of(IdleKeys))
"""Keys of configurations of L5Kit 1.x that its own trainings did not read either, and that have no effect."""


def check_known_keys(cfg: Config) -> None:
    """Refuse a configuration with a key that neither l5kit nor L5Kit 1.x has.

    Args:
        cfg: The configuration, as it was read.

    Raises:
        ConfigError: There is such a key; the message lists all of them, each with the nearest that is known. Or a
            section is no mapping.
    """
    unknown = list(_unknown_keys(cfg, ""))
    if unknown:
        raise ConfigError("; ".join(_describe(section, key) for section, key in unknown))


def warn_of_misspelt_keys(cfg: Config, section: str) -> None:
    """Warn of keys of a section that are nearly known ones, where keys of others are allowed to stand.

    Args:
        cfg: The configuration.
        section: A section of it, such as ``raster_params``; nothing is said where there is none.
    """
    for key in cfg.get(section) or ():
        hint = "" if key in _names()[section] else did_you_mean(key, _names()[section])
        if hint:
            warn_caller(f"{_joined(section, str(key))} is no known key{hint} and has no effect", UserWarning)


def _unknown_keys(values: object, section: str) -> Iterator[tuple[str, str]]:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{section or 'the configuration'}: expected a mapping of keys, got {values!r}")
    for key, value in values.items():
        path = _joined(section, str(key))
        if key not in _names()[section]:
            yield section, str(key)
        elif path in _names():
            yield from _unknown_keys(value, path)


@functools.cache
def _names() -> Mapping[str, tuple[str, ...]]:
    """Return the names of keys and of inner sections by the path of their section."""
    homes = [path.rpartition(".") for path in sections() if path]
    return {
        section: (*keys, *(name for home, _, name in homes if home == section)) for section, keys in sections().items()
    }


def _describe(section: str, key: str) -> str:
    path = _joined(section, key)
    # a key of another section is most likely in the wrong one
    homes = [home for home, keys in _names().items() if key in keys]
    if homes:
        belongs = " or ".join(home or "the top of the file" for home in homes)
        return f"{path}: there is no such key here; it belongs into {belongs}"

    # the most similar key, one of the same section if any of them is close
    here = difflib.get_close_matches(key, _names()[section], n=1)
    if here:
        nearest = _joined(section, here[0])
    else:
        everywhere = [(home, known) for home, keys in _names().items() for known in keys]
        nearest = _joined(*max(everywhere, key=lambda each: difflib.SequenceMatcher(None, key, each[1]).ratio()))
    return f"{path}: there is no such key; did you mean {nearest}?"


def _joined(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key
