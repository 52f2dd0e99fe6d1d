"""Stable-baselines3 adapter: a vector environment of Gymnasium as a ``VecEnv`` for its algorithms."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from l5kit._types import Float64Array, Int64Array, JsonObject, NumericArray
from l5kit.errors import EpisodeEndedError, InvalidArgumentError

_Observation: TypeAlias = NumericArray | dict[str, NumericArray]
_VectorEnv: TypeAlias = VectorEnv[Any, NumericArray, NumericArray]

_DIGITS = 6
"""Digits of returns and times of episodes, as in the monitor of stable-baselines3."""


class StableBaselinesVecEnv(VecEnv):
    """Vector environment of Gymnasium as a ``VecEnv`` of stable-baselines3.

    Work for single environments is only done at the ends of episodes. There, ``infos[i]`` has ``terminal_observation``;
    ``TimeLimit.truncated``; ``episode``, with the return ``r``, the steps ``l`` and the seconds since the creation of
    the adapter ``t``, so that no ``Monitor`` is needed; and the infos of the last step. All other infos are empty.

    Args:
        env: Environments with ``autoreset_mode="SameStep"``. Observations are arrays or dictionaries of arrays.

    Attributes:
        env: Environments with ``autoreset_mode="SameStep"``.
        step_infos: Infos of the last step, arrays (N,) and masks by name.
        stepped_s: Total seconds spent in steps of the environments.

    Raises:
        InvalidArgumentError: The environments have another ``autoreset_mode``.
    """

    def __init__(self, env: _VectorEnv) -> None:
        mode = env.metadata.get("autoreset_mode")
        if mode is not AutoresetMode.SAME_STEP:
            raise InvalidArgumentError(
                f"env has autoreset_mode {getattr(mode, 'value', mode)!r}, but stable-baselines3 needs the next "
                "episode to begin in the step that ends one; make it with autoreset_mode='SameStep'"
            )
        self.env = env
        self.step_infos: JsonObject = {}
        self.stepped_s = 0.0
        self._is_shared = not getattr(env.unwrapped, "copy", True)
        self._returns: Float64Array = np.zeros(env.num_envs)
        self._lengths: Int64Array = np.zeros(env.num_envs, np.int64)
        self._start_s = time.perf_counter()
        self._actions: NumericArray | None = None
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> VecEnvObs:
        """Start all episodes, with the seeds and options set since the last reset.

        Raises:
            InvalidArgumentError: The options of environments differ.
        """
        if any(each != self._options[0] for each in self._options):
            raise InvalidArgumentError("the options of environments differ; pass the same for all")
        seeds = None if all(each is None for each in self._seeds) else self._seeds
        observations, _ = self.env.reset(seed=seeds, options=self._options[0] or None)  # type: ignore[arg-type]
        self._returns[:], self._lengths[:], self._actions = 0.0, 0, None
        self._reset_seeds()
        self._reset_options()
        return self._owned(observations)

    def step_async(self, actions: NumericArray) -> None:
        """Store the actions of the next step, one for each environment: (N, A), or (N,) for discrete actions."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Step all environments.

        Returns:
            Observations, of the next episode after an end; rewards float32 (N,); ends (N,); infos.

        Raises:
            EpisodeEndedError: There are no actions.
        """
        if self._actions is None:
            raise EpisodeEndedError("there are no actions yet; call step(), or step_async() before step_wait()")
        actions, self._actions = self._actions, None
        start_s = time.perf_counter()
        observations, rewards, terminated, truncated, step_infos = self.env.step(actions)
        self.stepped_s += time.perf_counter() - start_s
        self.step_infos = step_infos
        # infos are built only for the few environments whose episodes have ended
        self._returns += rewards
        self._lengths += 1
        is_over = terminated | truncated
        infos: list[JsonObject] = [{} for _ in range(self.num_envs)]
        over = np.flatnonzero(is_over)
        for index in over.tolist():
            infos[index] = self._end_of(index, step_infos, is_cut=bool(truncated[index] and not terminated[index]))
        self._returns[over], self._lengths[over] = 0.0, 0
        return self._owned(observations), rewards.astype(np.float32), is_over, infos

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    def render(self, mode: str | None = None) -> NumericArray | None:  # noqa: ARG002
        """Return None: vector environments are not drawn."""
        return None

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute once for each environment; for an array (N, ...), the row of each.

        Raises:
            AttributeError: The attribute does not exist.
        """
        value = _getattr_of(self.env, attr_name)
        has_rows = isinstance(value, np.ndarray) and value.ndim > 0 and len(value) == self.env.num_envs
        return [value[index] if has_rows else value for index in self._indices_of(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute that all environments share.

        Raises:
            InvalidArgumentError: ``indices`` selects only some environments.
        """
        require_all(self, indices, f"set_attr({attr_name!r})")
        setattr(self.env.unwrapped, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the vector environment once, and return the result once for each environment.

        Raises:
            AttributeError: The method does not exist.
            InvalidArgumentError: ``indices`` selects only some environments.
        """
        require_all(self, indices, f"env_method({method_name!r})")
        return [_getattr_of(self.env, method_name)(*method_args, **method_kwargs)] * self.num_envs

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: Any = None
    ) -> list[bool]:
        """Return True for ``Monitor``, which this adapter replaces, and False for other wrappers."""
        return [issubclass(wrapper_class, Monitor) for _ in self._indices_of(indices)]

    def _end_of(self, index: int, step_infos: Mapping[str, Any], *, is_cut: bool) -> JsonObject:
        """Return the infos of an environment whose episode has ended."""
        episode = {
            "r": round(float(self._returns[index]), _DIGITS),
            "l": int(self._lengths[index]),
            "t": round(time.perf_counter() - self._start_s, _DIGITS),
        }
        seen = step_infos["final_obs"]
        last: _Observation = (
            {key: value[index] for key, value in seen.items()} if isinstance(seen, Mapping) else seen[index]
        )
        return {
            **_info_of(step_infos.get("final_info", {}), index),
            "terminal_observation": last,
            "TimeLimit.truncated": is_cut,
            "episode": episode,
        }

    def _owned(self, observations: _Observation) -> VecEnvObs:
        """Return observations that later steps do not overwrite, as algorithms keep them."""
        if not self._is_shared:
            return observations
        if isinstance(observations, dict):
            return {key: value.copy() for key, value in observations.items()}
        return observations.copy()

    def _indices_of(self, indices: VecEnvIndices) -> Sequence[int]:
        return [range(self.env.num_envs)[index] for index in self._get_indices(indices)]


def require_all(environments: VecEnv, indices: VecEnvIndices, call: str) -> None:
    """Raise if a call is for some environments only, as all of them are one object.

    Raises:
        InvalidArgumentError: ``indices`` selects only some environments.
    """
    if set(environments._get_indices(indices)) != set(range(environments.num_envs)):
        raise InvalidArgumentError(
            f"{call} is for environments {indices}, but all {environments.num_envs} are one object; leave out indices"
        )


def _getattr_of(env: _VectorEnv, name: str) -> Any:
    """Return an attribute of an environment, or else of its unwrapped environment."""
    return getattr(env if hasattr(env, name) else env.unwrapped, name)


def _info_of(infos: Mapping[str, Any], index: int) -> JsonObject:
    """Return the infos of one environment from infos of Gymnasium, arrays (N,) and masks."""
    info: JsonObject = {}
    for name, value in infos.items():
        mask = infos.get(f"_{name}")
        if name.startswith("_") or not (mask is None or mask[index]):
            continue
        info[name] = _info_of(value, index) if isinstance(value, Mapping) else value[index]
    return info
