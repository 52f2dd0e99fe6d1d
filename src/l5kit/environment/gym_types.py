"""Types, spaces and reset options of environments that Gymnasium and PettingZoo leave open."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from l5kit.errors import InvalidArgumentError

Observation: TypeAlias = Any
"""Observation: an array, or a dictionary of arrays by key, as given by the space of the environment."""

AnySpace: TypeAlias = spaces.Space[Any]
"""Space of observations or actions, of any kind."""

Infos: TypeAlias = dict[str, Any]
"""Infos of a step: numbers, arrays and nested dictionaries of them, by name."""

ResetOptions: TypeAlias = Mapping[str, Any]
"""Options of a reset, by name, checked by :func:`read_options`."""

EPISODE_OPTIONS = ("scene_id", "start_frame_index")
"""Options of the next episode."""


def set_spaces(env: VectorEnv[Any, Any, Any], seen: AnySpace, done: AnySpace) -> None:
    """Set the spaces of observations and actions of a vector environment, for a single environment and for all."""
    env.single_observation_space, env.single_action_space = seen, done
    env.observation_space, env.action_space = (batch_space(each, env.num_envs) for each in (seen, done))


def read_masked_options(options: ResetOptions | None) -> tuple[Any, dict[str, int]]:
    """Return ``reset_mask`` of options, None if missing, and the result of :func:`read_options` for the rest."""
    if not isinstance(options, Mapping):
        return None, read_options(options)
    return options.get("reset_mask"), read_options({key: options[key] for key in options if key != "reset_mask"})


def read_options(options: ResetOptions | None) -> dict[str, int]:
    """Return the checked options of the next episode.

    Raises:
        InvalidArgumentError: Options are not a dictionary, a key is unknown, or a value is not a whole number.
    """
    if options is not None and not isinstance(options, Mapping):
        raise InvalidArgumentError(f"options is {options!r}; pass a dictionary, or None")
    requested = dict(options or {})
    unknown = requested.keys() - set(EPISODE_OPTIONS)
    if unknown:
        raise InvalidArgumentError(
            f"options has {', '.join(sorted(map(str, unknown)))}; it may have {' and '.join(EPISODE_OPTIONS)}"
        )
    for name, value in requested.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise InvalidArgumentError(f"options[{name!r}] is {value!r}; it must be a whole number")
    return {name: int(value) for name, value in requested.items()}
