"""Evaluation of a driver in training: the same scenes each time, driven without noise."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm

from l5kit._types import JsonObject
from l5kit.environment.sb3 import StableBaselinesVecEnv

_FAULTS = ("collision", "off_road")
_SUMS = "reward_sums"
"""What environments call the terms of their reward, summed over an episode."""


def drive_scenes(env: StableBaselinesVecEnv, policy: BaseAlgorithm, scenes: Sequence[int]) -> dict[str, float]:
    """Drive a scene in each environment from its first frame on to the end of the episode, and return mean figures.

    Returns:
        ``reward`` and ``steps`` of an episode; ``share_to_the_end``, of those that nothing ended before their last
        frame; the terms of the reward by name, each summed over the episode; and, where ``collision`` or ``off_road``
        are among them, the shares without any, such as ``share_without_collision``.
    """
    observations: Any = env.reset()
    for index, scene in enumerate(scenes):
        mask = np.arange(env.num_envs) == index
        observations, _ = env.env.reset(options={"scene_id": scene, "reset_mask": mask})
    # environments whose scene is over go on with others, which do not count
    ends: dict[int, JsonObject] = {}
    while len(ends) < env.num_envs:
        actions, _ = policy.predict(observations, deterministic=True)
        observations, _, is_over, infos = env.step(actions)
        for index in np.flatnonzero(is_over).tolist():
            ends.setdefault(index, infos[index])

    # the figures of each episode, and the mean of each over those that have it
    rows = []
    for end in ends.values():
        sums = {name: float(value) for name, value in end.get(_SUMS, {}).items() if name != "tot"}
        of_episode = {
            "reward": float(end["episode"]["r"]),
            "steps": float(end["episode"]["l"]),
            "share_to_the_end": float(end["TimeLimit.truncated"]),
        }
        without = {f"share_without_{fault}": float(sums[fault] == 0) for fault in _FAULTS if fault in sums}
        rows.append({**of_episode, **without, **sums})
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(np.mean([row[name] for row in rows if name in row])) for name in names}
