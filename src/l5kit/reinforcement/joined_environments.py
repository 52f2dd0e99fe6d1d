"""Joined environments: those of several towns, which step as one vector environment of stable-baselines3."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from l5kit._types import NumericArray
from l5kit.environment.sb3 import StableBaselinesVecEnv


class JoinedEnvironments(VecEnv):
    """Environments of several towns, one after the other, all of which step in one call.

    Args:
        towns: The environments of each town; all see and do the same.
        num_threads: Towns that step at the same time.

    Attributes:
        towns: As above.
        stepped_s: Seconds that steps of the environments have taken in all.
    """

    def __init__(self, towns: Sequence[StableBaselinesVecEnv], *, num_threads: int = 1) -> None:
        self.towns = list(towns)
        self._ends = np.cumsum([town.num_envs for town in towns]).tolist()
        self._threads = ThreadPoolExecutor(num_threads, "towns") if num_threads > 1 else None
        self.stepped_s = 0.0
        super().__init__(self._ends[-1], towns[0].observation_space, towns[0].action_space)

    def reset(self) -> VecEnvObs:
        """Start all episodes, with the seeds that were set since the last time."""
        starts = [0, *self._ends]
        for town, start, end in zip(self.towns, starts, self._ends, strict=False):
            town._seeds = self._seeds[start:end]
        self._reset_seeds()
        return _joined([town.reset() for town in self.towns])

    def step_async(self, actions: NumericArray) -> None:
        """Take the actions of the next step, one for each environment."""
        for town, of_town in zip(self.towns, np.split(actions, self._ends[:-1]), strict=True):
            town.step_async(of_town)

    def step_wait(self) -> VecEnvStepReturn:
        """Step all environments; see :meth:`StableBaselinesVecEnv.step_wait`."""
        start_s = time.perf_counter()
        if self._threads is None:
            stepped = [town.step_wait() for town in self.towns]
        else:
            stepped = list(self._threads.map(StableBaselinesVecEnv.step_wait, self.towns))
        observations, rewards, is_over, infos = zip(*stepped, strict=True)
        self.stepped_s += time.perf_counter() - start_s
        all_infos = [each for of_town in infos for each in of_town]
        return _joined(observations), np.concatenate(rewards), np.concatenate(is_over), all_infos

    def close(self) -> None:
        """Close the environments."""
        if self._threads is not None:
            self._threads.shutdown()
        for town in self.towns:
            town.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute once for each environment."""
        values = [value for town in self.towns for value in town.get_attr(attr_name)]
        return [values[index] for index in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute that all environments share."""
        for town in self.towns:
            town.set_attr(attr_name, value, indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the environments of each town, and return what it returns once for each environment."""
        return [
            value
            for town in self.towns
            for value in town.env_method(method_name, *method_args, indices=indices, **method_kwargs)
        ]

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Return True for ``Monitor``, whose work is done in each town, and False for other wrappers."""
        wrapped = [value for town in self.towns for value in town.env_is_wrapped(wrapper_class)]
        return [wrapped[index] for index in self._get_indices(indices)]


def _joined(seen: Sequence[Any]) -> VecEnvObs:
    """Return the observations of all towns as one, array by array."""
    if isinstance(seen[0], dict):
        return {key: np.concatenate([of_town[key] for of_town in seen]) for key in seen[0]}
    return np.concatenate(seen)
