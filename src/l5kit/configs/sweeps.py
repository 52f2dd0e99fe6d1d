"""Sweeps: configurations of several trainings that differ in a few keys."""

import itertools
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from l5kit._types import JsonObject
from l5kit.configs.overrides import with_overrides
from l5kit.configs.texts import parse_yaml, with_integers
from l5kit.errors import ConfigError

SEED: Final = "train_params.seed"
"""Path of the key with the random seed."""

_MAX_NAME = 80

_MAX_RUNS: Final = 10_000
"""Largest number of trainings of a sweep; at a minute each they take a week."""


@dataclass(frozen=True)
class SweepRun:
    """A training of a sweep.

    Attributes:
        name: Name of its folder: its number, counted from 1, and its values.
        values: Values that distinguish it from the others, by key path.
        cfg: Its configuration.
    """

    name: str
    values: Mapping[str, object]
    cfg: JsonObject = field(repr=False)


def parse_sweep(texts: Sequence[str]) -> dict[str, list[object]]:
    """Return the values of the swept keys, by key path.

    Args:
        texts: Texts such as ``train_params.learning_rate=[1e-3, 1e-4]``: a YAML list with one value per training, so
            that keys whose values are lists need a list of lists.

    Raises:
        ConfigError: A text has another form, or two texts have the same key.
    """
    values: dict[str, list[object]] = {}
    for text in texts:
        path, sign, given = text.partition("=")
        path = path.strip()
        given_values = parse_yaml(given, called=f"{path}: {given!r}", reads_exponents=True) if sign and path else None
        if not isinstance(given_values, list) or not given_values:
            raise ConfigError(
                f"{text!r}: expected KEY=[VALUE, ...] with a value for each training, such as "
                "train_params.learning_rate=[1e-3, 1e-4]; if the values are lists, give a list of lists"
            )
        if path in values:
            raise ConfigError(f"{path}: given twice; put all its values into one list")
        values[path] = given_values
    return values


def seeds_from(cfg: JsonObject, number: int) -> list[object]:
    """Return consecutive seeds, starting with that of a configuration.

    Raises:
        ConfigError: There are more than the largest number of trainings.
    """
    _require_few(number)
    section = cfg.get("train_params")
    first = section.get("seed", 0) if isinstance(section, dict) else 0
    return [first + offset if isinstance(first, int) else first for offset in range(number)]


def plan_sweep(cfg: JsonObject, values: Mapping[str, Sequence[object]]) -> tuple[SweepRun, ...]:
    """Return the trainings of all combinations of values; the values of the last key change fastest.

    Args:
        cfg: Common configuration.
        values: Values of the swept keys, by key path.

    Raises:
        ConfigError: A key has no values or a value twice, a value is not a JSON value, the path of a key lies inside a
            value or a swept section, or there are more than 10,000 trainings.
    """
    # refuse malformed keys, and keys inside another swept key
    for path in values:
        if not isinstance(path, str) or "=" in path or path != path.strip():
            raise ConfigError(f"{path!r} is not the path of a key; give one such as train_params.learning_rate")
    for path, other in itertools.permutations(values, 2):
        if path.startswith(f"{other}."):
            raise ConfigError(f"{path}: it lies inside {other}, which is swept too; sweep one of them")

    # check the number of combinations before creating them
    texts = {}
    for path, of_key in values.items():
        if not isinstance(of_key, Collection) or isinstance(of_key, (str, bytes, Mapping)):
            raise ConfigError(f"{path}: expected a list with a value for each training, got {of_key!r}")
        _require_few(len(of_key))
        texts[path] = [_as_json(path, value) for value in of_key]
        if not texts[path]:
            raise ConfigError(f"{path}: there are no values")
        # 1 and 1.0 are the same value of a key
        seen: set[str] = set()
        for text in texts[path]:
            plain_text = _as_json(path, with_integers(json.loads(text)))
            if plain_text in seen:
                raise ConfigError(f"{path}: the value {text} is given twice")
            seen.add(plain_text)
    _require_few(math.prod(len(of_key) for of_key in texts.values()))
    runs = []
    for number, combination in enumerate(itertools.product(*texts.values()), start=1):
        given = dict(zip(texts, combination, strict=True))
        # names for any file system; the number keeps shortened names distinct
        parts = [f"{path.rpartition('.')[2]}_{text}" for path, text in given.items()]
        plain = [re.sub(r"[^A-Za-z0-9.+-]+", "_", part).strip("_.") for part in parts]
        name = "-".join([f"{number:04d}", *plain])[:_MAX_NAME].rstrip("_.-")
        changes = [f"{path}={text}" for path, text in given.items()]
        chosen = {path: json.loads(text) for path, text in given.items()}
        runs.append(SweepRun(name, chosen, with_overrides(cfg, changes)))
    return tuple(runs)


def _require_few(number: int) -> None:
    """Refuse an unreasonable number of trainings before they are listed."""
    if number > _MAX_RUNS:
        raise ConfigError(
            f"the sweep has {number} trainings; give at most {_MAX_RUNS} combinations of values and seeds"
        )


def _as_json(path: str, value: object) -> str:
    try:
        json.dumps(value, ensure_ascii=False).encode()  # lone surrogates cannot be written to the table
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {value!r} is not a configuration value: {error}") from error
