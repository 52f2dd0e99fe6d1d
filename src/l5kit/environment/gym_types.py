"""Types that Gymnasium and PettingZoo leave open, by what they are in environments of l5kit."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from gymnasium import spaces

Observation: TypeAlias = Any
"""What is observed: an array, or a dictionary of arrays by key, as the space of the environment says."""

AnySpace: TypeAlias = spaces.Space[Any]
"""A space of observations or actions, of whatever kind."""

Infos: TypeAlias = dict[str, Any]
"""What is told of a step: numbers, arrays and dictionaries of such by name."""

ResetOptions: TypeAlias = Mapping[str, Any]
"""What a reset is asked for, by name; :func:`~l5kit.environment.episode_choice.read_options` checks it."""
