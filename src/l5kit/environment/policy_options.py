"""Options of a policy: observations and actions of its training, stored in the policy file."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from l5kit._types import Config, JsonObject
from l5kit.configs.environment import EnvironmentParams
from l5kit.configs.parameters import SamplingParams
from l5kit.environment.model_actions import MODEL_ACTIONS
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.errors import InvalidArgumentError, UnsupportedValueError

POLICY_OPTIONS: Final = "l5kit_options"
"""Attribute of an algorithm of stable-baselines3 that is saved in its file."""


@dataclass(frozen=True)
class PolicyOptions:
    """Observations and actions that a policy was trained with.

    Attributes:
        observation: Kind of observations, as in ``gym_params``.
        actions: Kind of actions, as in ``gym_params``.
        step_time_s: Seconds of a step.
        threshold: Least label probability, exclusive, for an agent to be of its class.
        layout: Sizes of compact observations.
    """

    observation: str
    actions: str
    step_time_s: float
    threshold: float
    layout: CompactLayout = field(default_factory=CompactLayout)

    @classmethod
    def of_cfg(cls, cfg: Config) -> "PolicyOptions":
        """Return the options of the environments in a configuration.

        Raises:
            ConfigError: A key is missing or wrong.
        """
        params, sampling = EnvironmentParams.from_cfg(cfg), SamplingParams.from_cfg(cfg)
        return cls(
            observation=params.observation,
            actions=params.actions,
            step_time_s=float(sampling.step_time_s),
            threshold=float(sampling.filter_agents_threshold),
            layout=CompactLayout(**vars(params.compact)),
        )

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> "PolicyOptions":
        """Return options from the output of :meth:`as_json`.

        Raises:
            InvalidArgumentError: They are of another version of l5kit, or a value is invalid.
        """
        try:
            read = cls(**{**content, "layout": CompactLayout(**content["layout"])})
            checked = replace(read, step_time_s=float(read.step_time_s), threshold=float(read.threshold))
            if not (0 < checked.step_time_s < math.inf and math.isfinite(checked.threshold)):
                raise ValueError("step_time_s must be finite and above 0, threshold finite")
            return checked
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"{POLICY_OPTIONS} of the policy are {content!r}, which this version of l5kit does not know ({error})"
            ) from error

    def require_simulated(self) -> None:
        """Raise if a policy with these options cannot drive in a simulation.

        Raises:
            UnsupportedValueError: The options are not supported; the message lists those that are.
        """
        if self.observation != "compact" or self.actions not in MODEL_ACTIONS:
            raise UnsupportedValueError(
                f"the policy was trained with observation {self.observation!r} and actions {self.actions!r}; a "
                "simulation needs gym_params.observation compact and gym_params.actions "
                f"{', '.join(MODEL_ACTIONS)}"
            )

    def as_json(self) -> JsonObject:
        """Return the options as a JSON object."""
        return asdict(self)

    def keep_in(self, model: object) -> None:
        """Store the options in an algorithm, so that they are saved in its file."""
        setattr(model, POLICY_OPTIONS, self.as_json())
