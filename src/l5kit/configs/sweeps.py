"""Sweeps: the configurations of several trainings that differ in a few keys."""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from l5kit._types import JsonObject
from l5kit.configs.overrides import with_overrides
from l5kit.configs.texts import parse_yaml
from l5kit.errors import ConfigError

__all__ = ["SEED", "SweepRun", "parse_sweep", "plan_sweep", "seeds_from"]

SEED: Final = "train_params.seed"
"""Path of the key that decides what is random."""

_MAX_NAME = 80


@dataclass(frozen=True)
class SweepRun:
    """A training of a sweep.

    Attributes:
        name: Of its folder: its number, counted from 1, and its values.
        values: What sets it apart from the others, by the paths of the keys.
        cfg: Its configuration.
    """

    name: str
    values: Mapping[str, object]
    cfg: JsonObject = field(repr=False)


def parse_sweep(texts: Sequence[str]) -> dict[str, list[object]]:
    """Return the values that keys are to have, one after the other, by their paths.

    Args:
        texts: Each such as ``train_params.learning_rate=[1e-3, 1e-4]``: what follows the sign is a list in YAML with a
            value for each training, so that keys whose values are lists get a list of lists.

    Raises:
        ConfigError: A text is no such thing, or two are of one key.
    """
    values: dict[str, list[object]] = {}
    for text in texts:
        path, sign, given = text.partition("=")
        path = path.strip()
        found = parse_yaml(given, called=f"{path}: {given!r}", reads_exponents=True) if sign and path else None
        if not isinstance(found, list) or not found:
            raise ConfigError(
                f"{text!r}: expected KEY=[VALUE, ...] with a value for each training, such as "
                "train_params.learning_rate=[1e-3, 1e-4]; where values are lists, give a list of lists"
            )
        if path in values:
            raise ConfigError(f"{path}: it is given twice; put all its values into one list")
        values[path] = found
    return values


def seeds_from(cfg: JsonObject, number: int) -> list[object]:
    """Return so many seeds, from that of a configuration on."""
    section = cfg.get("train_params")
    first = section.get("seed", 0) if isinstance(section, dict) else 0
    return [first + place if isinstance(first, int) else first for place in range(number)]


def plan_sweep(cfg: JsonObject, values: Mapping[str, Sequence[object]]) -> tuple[SweepRun, ...]:
    """Return the trainings of all combinations of values; those of the last key change fastest.

    Args:
        cfg: What they have in common.
        values: What keys are to have, by their paths.

    Raises:
        ConfigError: A key has no values or one of them twice, a value is none of JSON, or the path of a key lies within
            a value.
    """
    texts = {path: [_as_json(path, value) for value in of_key] for path, of_key in values.items()}
    for path, of_key in texts.items():
        twice = next((text for text in of_key if of_key.count(text) > 1), None)
        if twice is not None or not of_key:
            raise ConfigError(f"{path}: {f'the value {twice} is given twice' if of_key else 'there are no values'}")
    runs = []
    for number, combination in enumerate(itertools.product(*texts.values()), start=1):
        given = dict(zip(texts, combination, strict=True))
        changes = [f"{path}={text}" for path, text in given.items()]
        chosen = {path: json.loads(text) for path, text in given.items()}
        runs.append(SweepRun(_name_of(number, given), chosen, with_overrides(cfg, changes)))
    return tuple(runs)


def _name_of(number: int, given: Mapping[str, str]) -> str:
    """Return a name that any file system takes."""
    parts = [f"{path.rpartition('.')[2]}_{text}" for path, text in given.items()]
    plain = [re.sub(r"[^A-Za-z0-9.+-]+", "_", part).strip("_.") for part in parts]
    return "-".join([f"{number:04d}", *plain])[:_MAX_NAME].rstrip("_.-")


def _as_json(path: str, value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {value!r} is no value of a configuration: {error}") from error
