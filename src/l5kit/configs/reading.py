"""Typed reads of one section of a configuration, with errors that name the YAML path."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from l5kit.errors import ConfigError, UnsupportedConfigError

_MISSING = object()


@dataclass(frozen=True)
class Section:
    """One section of a configuration dict and the name it has there."""

    name: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, cfg: Mapping[str, Any], name: str) -> "Section":
        """Return the section ``name`` of ``cfg``.

        Raises:
            ConfigError: ``cfg`` is not a mapping, or has no such section, or it is not a mapping.
        """
        if not isinstance(cfg, Mapping):
            raise ConfigError(f"the configuration must be a mapping of sections, got {type(cfg).__name__}")
        if name not in cfg:
            raise ConfigError(f"{name}: this section is missing from the configuration; found {sorted(map(str, cfg))}")
        if not isinstance(cfg[name], Mapping):
            raise ConfigError(f"{name}: expected a mapping of keys, got {cfg[name]!r}")
        return cls(name, cfg[name])

    def section(self, key: str) -> "Section":
        """Return a section within this one.

        Raises:
            ConfigError: There is no such section, or it is not a mapping.
        """
        values = self._get(key, "a mapping of keys", None)
        if not isinstance(values, Mapping):
            raise self._error(key, values, "a mapping of keys")
        return Section(f"{self.name}.{key}", values)

    def integer(self, key: str, *, minimum: int, maximum: int | None = None, default: int | None = None) -> int:
        """Return a whole number of at least ``minimum`` and, where that is given, at most ``maximum``."""
        value = self._get(key, "a whole number", default)
        number = _as_integer(value)
        if number is None or not _is_within(number, minimum, maximum):
            raise self._error(key, value, f"a whole number {_range_text(minimum, maximum)}")
        return number

    def number(self, key: str, *, above: float | None = None, default: float | None = None) -> float:
        """Return a finite number, greater than ``above`` where that is given.

        The Python type is kept (an int stays an int): it is part of the name of a stored agents mask.
        """
        value = self._get(key, "a number", default)
        number = _as_number(value)
        if number is None or (above is not None and number <= above):
            raise self._error(key, value, "a finite number" + ("" if above is None else f" greater than {above:g}"))
        return number

    def boolean(self, key: str, *, default: bool | None = None) -> bool:
        """Return true or false (0 and 1 are accepted too)."""
        value = self._get(key, "true or false", default)
        if isinstance(value, (bool, np.bool_)) or (_as_integer(value) in (0, 1)):
            return bool(value)
        raise self._error(key, value, "true or false")

    def text(self, key: str, *, allowed: tuple[str, ...] = (), default: str | None = None) -> str:
        """Return a text, one of ``allowed`` where that is given."""
        expected = " or ".join(map(repr, allowed)) if allowed else "a text"
        value = self._get(key, expected, default)
        if not isinstance(value, str) or (allowed and value not in allowed):
            raise self._error(key, value, expected)
        return value

    def variant(self, key: str, *, allowed: tuple[str, ...]) -> str:
        """Return a text that names one of several variants.

        Raises:
            UnsupportedConfigError: There is no such variant; also for what is no text, such as an empty value in YAML.
        """
        expected = " or ".join(map(repr, allowed))
        value = self._get(key, expected, None)
        if not isinstance(value, str) or value not in allowed:
            raise UnsupportedConfigError(f"{self.name}.{key}: expected {expected}, got {value!r}")
        return value

    def path(self, key: str) -> str:
        """Return a path, which may be a path object and must not be empty, as text."""
        expected = "a path"
        value = self._get(key, expected, None)
        path = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(path, str) or not path.strip():
            raise self._error(key, value, f"{expected} that is not empty")
        return path

    def integer_pair(self, key: str, *, minimum: int, maximum: int) -> tuple[int, int]:
        """Return two whole numbers from ``minimum`` to ``maximum``."""
        expected = f"two whole numbers {_range_text(minimum, maximum)}"
        first, second = (_as_integer(part) for part in self._pair(key, expected))
        if first is None or second is None or not (minimum <= min(first, second) <= max(first, second) <= maximum):
            raise self._error(key, self.values[key], expected)
        return (first, second)

    def number_pair(self, key: str, *, above: float | None = None) -> tuple[float, float]:
        """Return two finite numbers, greater than ``above`` where that is given."""
        expected = "two finite numbers" + ("" if above is None else f" greater than {above:g}")
        first, second = self._pair(key, expected)
        pair = (_as_number(first), _as_number(second))
        if pair[0] is None or pair[1] is None or (above is not None and min(pair[0], pair[1]) <= above):
            raise self._error(key, self.values[key], expected)
        return (float(pair[0]), float(pair[1]))

    def _pair(self, key: str, expected: str) -> tuple[Any, Any]:
        value = self._get(key, expected, None)
        if not isinstance(value, (list, tuple, np.ndarray)) or np.shape(value)[:1] != (2,):
            raise self._error(key, value, expected)
        return value[0], value[1]

    def _get(self, key: str, expected: str, default: object) -> Any:
        value = self.values.get(key, _MISSING)
        if value is not _MISSING:
            return value
        if default is None:
            raise ConfigError(f"{self.name}.{key}: this key is missing; expected {expected}")
        return default

    def _error(self, key: str, value: object, expected: str) -> ConfigError:
        return ConfigError(f"{self.name}.{key}: expected {expected}, got {value!r}")


def _is_within(number: int, minimum: int, maximum: int | None) -> bool:
    return number >= minimum and (maximum is None or number <= maximum)


def _range_text(minimum: int, maximum: int | None) -> str:
    return f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"


def _as_integer(value: object) -> int | None:
    """Return ``value`` as an int if it is a whole number (a float without fraction is one, a bool is not)."""
    if isinstance(value, (bool, np.bool_)):
        return None
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    return None


def _as_number(value: object) -> float | None:
    """Return ``value`` as a Python int or float if it is a finite number (a bool is not)."""
    if isinstance(value, (bool, np.bool_)):
        return None
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)) and np.isfinite(value):
        return float(value)
    return None
