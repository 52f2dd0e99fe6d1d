"""Environments of a training: those of a configuration, and several towns joined into one vector environment."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from l5kit._types import Config, NumericArray
from l5kit.configs.environment import EnvironmentParams
from l5kit.configs.reinforcement import LogKeys
from l5kit.data.jobs.scene_jobs import count_workers
from l5kit.data.loader_folders import folders_of
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.environment.envs.self_play_env import SelfPlayEnv
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.environment.sb3 import StableBaselinesVecEnv, require_all
from l5kit.environment.setup import BESIDE_POLICY, SELF_PLAY
from l5kit.errors import ConfigError


class JoinedEnvironments(VecEnv):
    """Environments of several towns, concatenated, stepped in one call.

    Args:
        towns: Environments of each town; all have the same spaces.
        num_threads: Number of towns that are stepped at the same time.

    Attributes:
        towns: The environments of each town.
        stepped_s: Total seconds spent in steps of the environments.
    """

    def __init__(self, towns: Sequence[StableBaselinesVecEnv], *, num_threads: int = 1) -> None:
        self.towns = list(towns)
        self._ends = np.cumsum([town.num_envs for town in towns]).tolist()
        self._threads = ThreadPoolExecutor(num_threads, "towns") if num_threads > 1 else None
        self.stepped_s = 0.0
        super().__init__(self._ends[-1], towns[0].observation_space, towns[0].action_space)

    def reset(self) -> VecEnvObs:
        """Start all episodes, with the seeds and options set since the last reset."""
        starts = [0, *self._ends]
        for town, start, end in zip(self.towns, starts, self._ends, strict=False):
            town._seeds, town._options = self._seeds[start:end], self._options[start:end]
        self._reset_seeds()
        self._reset_options()
        return _joined([town.reset() for town in self.towns])

    def step_async(self, actions: NumericArray) -> None:
        """Store the actions of the next step, one for each environment."""
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
        """Set an attribute that all environments share; see :meth:`StableBaselinesVecEnv.set_attr`."""
        require_all(self, indices, f"set_attr({attr_name!r})")
        for town in self.towns:
            town.set_attr(attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the environments of each town, and return the result once for each environment.

        Raises:
            AttributeError: The method does not exist.
            InvalidArgumentError: ``indices`` selects only some environments.
        """
        require_all(self, indices, f"env_method({method_name!r})")
        return [value for town in self.towns for value in town.env_method(method_name, *method_args, **method_kwargs)]

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Return True for ``Monitor``, which each town replaces, and False for other wrappers."""
        wrapped = [value for town in self.towns for value in town.env_is_wrapped(wrapper_class)]
        return [wrapped[index] for index in self._get_indices(indices)]


def _joined(seen: Sequence[Any]) -> VecEnvObs:
    """Return the observations of all towns, concatenated array by array."""
    if isinstance(seen[0], dict):
        return {key: np.concatenate([of_town[key] for of_town in seen]) for key in seen[0]}
    return np.concatenate(seen)


def make_environments(
    cfg: Config,
    config_path: str | os.PathLike[str],
    data: LocalDataManager,
    *,
    num_envs: int,
    train: bool,
    num_threads: int = 1,
) -> StableBaselinesVecEnv:
    """Return the environments of a configuration.

    Args:
        cfg: The configuration.
        config_path: File of the configuration.
        data: Data manager for logs and map.
        num_envs: Number of environments stepped at once; with self-play in trainings the number of vehicles.
        train: Whether episodes are of the training data. Else they are of the evaluation data, and the policy only
            drives AVs.
        num_threads: Number of threads for steps; ignored with self-play.

    Raises:
        ConfigError: A key is missing or wrong.
        FileNotFoundError: Data is missing.
    """
    others = others_beside(cfg)  # first, so that a wrong key is reported before data is read
    path = os.fspath(config_path)
    if train and others is not None:
        return StableBaselinesVecEnv(SelfPlayEnv(num_envs, path, data))
    env = L5VectorEnv(
        num_envs, path, data, train=train, others=others, autoreset_mode="SameStep", num_threads=num_threads
    )
    return StableBaselinesVecEnv(env)


def others_beside(cfg: Config) -> str | None:
    """Return the driver of other vehicles if the policy only drives AVs; None for that of the configuration.

    Raises:
        ConfigError: A key is missing or wrong.
    """
    return BESIDE_POLICY if EnvironmentParams.from_cfg(cfg).others == SELF_PLAY else None


def towns_of(keys: LogKeys, data: LocalDataManager) -> list[LocalDataManager]:
    """Return the data folders of the towns of a training: those that a configuration lists, or the only one.

    Raises:
        ConfigError: A pattern finds no folder.
    """
    folders = folders_of(keys, data)
    return [data] if folders is None else [LocalDataManager(f"{data.root_folder}/{folder}") for folder in folders]


def join_towns(
    cfg: Config,
    config_path: str | os.PathLike[str],
    towns: Sequence[LocalDataManager],
    *,
    num_envs: int,
    num_threads: int = 1,
) -> JoinedEnvironments:
    """Return the environments of a training in several towns, divided evenly among them.

    Args:
        cfg: The configuration.
        config_path: File of the configuration.
        towns: Data managers for logs and maps of the towns.
        num_envs: Number of environments stepped at once.
        num_threads: Number of threads; towns are stepped at the same time, and use several threads each if there are
            more threads than towns. 0 for one per core.

    Raises:
        ConfigError: A key is missing or wrong, or there are more towns than environments.
        FileNotFoundError: Data is missing.
    """
    if num_envs < len(towns):
        raise ConfigError(f"rl_params.num_envs: {num_envs} for {len(towns)} towns; each needs at least one")
    sizes = [len(part) for part in np.array_split(np.arange(num_envs), len(towns))]
    num_threads = count_workers(num_threads)
    of_town = max(num_threads // len(towns), 1)
    made = [
        make_environments(cfg, config_path, town, num_envs=size, train=True, num_threads=of_town)
        for town, size in zip(towns, sizes, strict=True)
    ]
    return JoinedEnvironments(made, num_threads=min(num_threads, len(towns)))


def share_scales(of: VecEnv, to: StableBaselinesVecEnv) -> None:
    """Copy the scales of actions, measured in the log of some environments, to other environments."""
    if of.has_attr("non_kin_rescale"):
        to.set_attr("non_kin_rescale", of.get_attr("non_kin_rescale")[0])


def scenes_to_evaluate(cfg: Config, data: LocalDataManager, *, wanted: int) -> range:
    """Return the scenes of an evaluation: as many as wanted, limited by the log and the configuration.

    With ``overfit`` it is the training scene.

    Raises:
        FileNotFoundError: The log is missing.
    """
    params = EnvironmentParams.from_cfg(cfg)
    if params.overfit:
        return range(params.overfit_id, params.overfit_id + 1)
    log = ChunkedDataset(data.require(LogKeys.from_cfg(cfg).evaluated)).open()
    return range(min(wanted, len(log.scenes), params.max_val_scene_id or wanted))
