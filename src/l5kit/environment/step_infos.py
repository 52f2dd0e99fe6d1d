"""Step infos: rewards, failures and sums of episodes in the ``info`` of Gymnasium."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.environment.gym_types import Infos
from l5kit.environment.rewards.step_reward import StepOutcome, StepReward

_Column = TypeVar("_Column")

_SHORT_NAMES = {"distance": "dist"}


class StepInfos:
    """Infos of N environments.

    Each step has the reward and its terms, as ``reward_tot`` and ``reward_<term>``. Rewards other than that of L5Kit
    1.5 also have failures, as ``is_<failure>``, and sums of the terms at the end of an episode, as ``reward_sums``.

    Args:
        reward: Reward of the infos. Its attribute ``failures``, if any, names its failures.
        num_envs: N.
        has_sums: Whether the reward is not that of L5Kit 1.5.
    """

    def __init__(self, reward: StepReward, num_envs: int, *, has_sums: bool) -> None:
        self._names = [_SHORT_NAMES.get(name, name) for name in reward.terms]
        self._failures: tuple[str, ...] = tuple(getattr(reward, "failures", ()))
        self._sums: Float64Array = np.zeros((num_envs, 1 + len(self._names)))
        self._has_sums = has_sums

    def begin(self, slots: Int64Array) -> None:
        """Begin episodes in slots (B,)."""
        self._sums[slots] = 0.0

    def of_step(self, slots: Int64Array, outcome: StepOutcome, is_over: BoolArray) -> Infos:
        """Return the infos of a step of slots (B,), an array (B,) for each; ``is_over`` marks ended episodes, (B,)."""
        self._sums[slots, 0] += outcome.total
        self._sums[slots, 1:] += outcome.terms
        infos = reward_infos(self._names, outcome.total, outcome.terms.T, outcome.failures)
        if self._has_sums and is_over.any():
            infos["reward_sums"] = dict(zip(("tot", *self._names), self._sums[slots].T, strict=True))
        return infos

    def of_start(self, slots: Int64Array) -> dict[str, NumericArray]:
        """Return the infos of slots (B,) before their first step: the same keys as those of a step, 0 or False."""
        nothing, size = np.zeros((1 + len(self._names), len(slots))), len(slots)
        failures = {name: np.zeros(size, np.bool_) for name in self._failures}
        return reward_infos(self._names, nothing[0], nothing[1:], failures) | self.sums_of(slots)

    def sums_of(self, slots: Int64Array) -> dict[str, NumericArray]:
        """Return the sums over the episodes of slots (B,) so far, ``reward_sum_<term>``; empty without sums."""
        if not self._has_sums:
            return {}
        return {f"reward_sum_{name}": self._sums[slots, index] for index, name in enumerate(("tot", *self._names))}


def reward_infos(
    names: Sequence[str], totals: _Column, terms: Iterable[_Column], failures: Mapping[str, _Column]
) -> Infos:
    """Return the rewards and failures of a step of B environments, under the names of infos.

    Args:
        names: Names of the T terms.
        totals: The reward, (B,); this and the others may be arrays or tensors.
        terms: The T terms, (B,) each.
        failures: Failures by name, (B,) each.
    """
    named = {"reward_tot": totals} | {f"reward_{name}": term for name, term in zip(names, terms, strict=True)}
    return named | {f"is_{name}": failed for name, failed in failures.items()}


def of_one(infos: Mapping[str, Any]) -> Infos:
    """Return the infos of one environment as numbers."""
    return {name: of_one(value) if isinstance(value, dict) else value[0].item() for name, value in infos.items()}


def spread(
    infos: Mapping[str, Any], slots: Int64Array, mask: BoolArray, *, only: Mapping[str, BoolArray] | None = None
) -> Infos:
    """Return infos (B,) of slots as arrays (N,) with masks, in the format of Gymnasium's vector environments.

    Args:
        infos: An array (B,) for each key, or a nested dictionary.
        slots: The environments, (B,).
        mask: Mask of these environments, (N,).
        only: Other masks, by key.

    Returns:
        The arrays, 0 outside of their masks, and the masks; keys with an empty mask are omitted.
    """
    columns: Infos = {}
    for name, value in infos.items():
        means = mask if only is None else only.get(name, mask)
        if not means.any():
            continue
        if isinstance(value, dict):
            columns[name] = spread(value, slots, means)
        else:
            array: NumericArray = np.zeros(len(mask), value.dtype)
            array[slots] = value
            array[~means] = 0
            columns[name] = array
        columns[f"_{name}"] = means.copy()
    return columns


def with_ends(infos: Mapping[str, Any], is_over: BoolArray, seen_by: Callable[[int], object]) -> Infos:
    """Return infos (N,) of a step that also begins new episodes, with those of ended episodes in ``final_info``.

    Args:
        infos: Arrays and masks, as returned by :func:`spread`.
        is_over: Mask of ended episodes, (N,).
        seen_by: Function that returns a copy of the last observation of an environment by its number.
    """
    seen = np.full(len(is_over), None, object)
    for number in np.flatnonzero(is_over).tolist():
        seen[number] = seen_by(number)
    ends = {"final_obs": seen, "_final_obs": is_over.copy()}
    return _split(infos, ~is_over) | ends | {"final_info": _split(infos, is_over), "_final_info": is_over.copy()}


def _split(infos: Mapping[str, Any], mask: BoolArray) -> Infos:
    """Return infos (N,) restricted to a mask; keys without values there are omitted."""
    chosen: Infos = {}
    for name, value in infos.items():
        means = infos.get(f"_{name}")
        if means is None or not (means & mask).any():
            continue
        if isinstance(value, dict):
            chosen[name] = _split(value, mask)
        else:
            chosen[name] = np.where(means & mask, value, value.dtype.type(0))
        chosen[f"_{name}"] = means & mask
    return chosen
