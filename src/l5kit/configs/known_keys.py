"""Check for unknown configuration keys, which neither l5kit nor L5Kit 1.x defines."""

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
"""Keys of L5Kit 1.x configurations without effect, which the trainings of 1.x did not read either."""


def check_known_keys(cfg: Config) -> None:
    """Refuse a configuration with a key that neither l5kit nor L5Kit 1.x defines.

    Args:
        cfg: The configuration, as read from its file.

    Raises:
        ConfigError: Keys are unknown; the message lists all of them, each with the most similar known key. Or a section
            is not a mapping.
    """
    unknown = list(_unknown_keys(cfg, ""))
    if unknown:
        raise ConfigError("; ".join(_describe(section, key) for section, key in unknown))


def warn_of_misspelt_keys(cfg: Config, section: str) -> None:
    """Warn about keys of a section that look like misspelt known keys; other unknown keys are allowed here.

    Args:
        cfg: The configuration.
        section: Name of a section, such as ``raster_params``; it may be missing.
    """
    for key in cfg.get(section) or ():
        hint = "" if key in _names()[section] else did_you_mean(key, _names()[section])
        if hint:
            warn_caller(f"{_joined(section, str(key))} is not a known key{hint} and has no effect", UserWarning)


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
    """Return the names of keys and subsections by the path of their section."""
    homes = [path.rpartition(".") for path in sections() if path]
    return {
        section: (*keys, *(name for home, _, name in homes if home == section)) for section, keys in sections().items()
    }


def _describe(section: str, key: str) -> str:
    path = _joined(section, key)
    # a key of another section is most likely misplaced
    homes = [home for home, keys in _names().items() if key in keys]
    if homes:
        belongs = " or ".join(home or "the top of the file" for home in homes)
        return f"{path}: this key does not belong here; move it to {belongs}"

    # the most similar key, preferably of the same section
    here = difflib.get_close_matches(key, _names()[section], n=1)
    if here:
        nearest = _joined(section, here[0])
    else:
        everywhere = [(home, known) for home, keys in _names().items() for known in keys]
        nearest = _joined(*max(everywhere, key=lambda each: difflib.SequenceMatcher(None, key, each[1]).ratio()))
    return f"{path}: unknown key; did you mean {nearest}?"


def _joined(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key
