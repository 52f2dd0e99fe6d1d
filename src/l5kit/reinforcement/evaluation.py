"""Evaluation of a driver in training: the same scenes each time, driven without noise."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm

from l5kit._types import JsonObject
from l5kit.environment.sb3 import StableBaselinesVecEnv

__all__ = ["drive_scenes"]

_FAULTS = ("collision", "off_road")


def drive_scenes(env: StableBaselinesVecEnv, policy: BaseAlgorithm, scenes: Sequence[int]) -> dict[str, float]:
    """Drive a scene in each environment from its first frame on to the end of the episode, and return mean figures.

    Returns:
        ``reward`` and ``steps`` of an episode; ``share_to_the_end``, of those that nothing ended before their last
        frame; the mean of each number that the environments tell of an episode at its end; and, where they tell of
        ``collision`` or ``off_road``, the share without any, ``share_without_collision``.
    """
    observations: Any = env.reset()
    for place, scene in enumerate(scenes):
        mask = np.arange(env.num_envs) == place
        observations, _ = env.env.reset(options={"scene_id": scene, "reset_mask": mask})
    ends: dict[int, JsonObject] = {}
    while len(ends) < env.num_envs:
        actions, _ = policy.predict(observations, deterministic=True)
        observations, _, is_over, infos = env.step(actions)
        for place in np.flatnonzero(is_over).tolist():
            ends.setdefault(place, infos[place])
    return _means([_figures_of(end) for end in ends.values()])


def _figures_of(end: JsonObject) -> dict[str, float]:
    """Return the figures of one episode."""
    figures = {
        "reward": float(end["episode"]["r"]),
        "steps": float(end["episode"]["l"]),
        "share_to_the_end": float(end["TimeLimit.truncated"]),
    }
    for name, value in _numbers_in(end).items():
        figures[name] = value
        for fault in _FAULTS:
            if name == fault or name.endswith((f"_{fault}", f".{fault}")):
                figures[f"share_without_{fault}"] = float(value == 0)
    return figures


def _numbers_in(told: Mapping[str, object], prefix: str = "") -> dict[str, float]:
    """Return the numbers of infos, those of inner ones by path."""
    found: dict[str, float] = {}
    for name, value in told.items():
        if name in ("episode", "terminal_observation", "TimeLimit.truncated"):
            continue
        if isinstance(value, Mapping):
            found |= _numbers_in(value, f"{prefix}{name}.")
        elif isinstance(value, int | float | np.number | np.bool_):
            found[f"{prefix}{name}"] = float(value)
    return found


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each figure over the episodes that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(np.mean([row[name] for row in rows if name in row])) for name in names}
