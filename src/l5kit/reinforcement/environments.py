"""Environments of a training: those that a configuration names, as the algorithm and the evaluation step them."""

import os
from collections.abc import Sequence

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from l5kit._types import Config
from l5kit.configs.environment import EnvironmentParams
from l5kit.configs.reinforcement import LogKeys
from l5kit.data.loader_folders import folders_of
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.environment.sb3 import StableBaselinesVecEnv
from l5kit.errors import ConfigError
from l5kit.reinforcement.joined_environments import JoinedEnvironments


def make_environments(
    cfg: Config, config_path: str | os.PathLike[str], data: LocalDataManager, *, num_envs: int, train: bool
) -> StableBaselinesVecEnv:
    """Return the environments of a configuration.

    Args:
        cfg: The configuration.
        config_path: The file that it stands in.
        data: Finds logs and map.
        num_envs: How many environments step at once.
        train: Whether episodes are of the training data.

    Raises:
        ConfigError: A key is missing or wrong.
        FileNotFoundError: Data is missing.
    """
    EnvironmentParams.from_cfg(cfg)  # what is wrong is told before anything is read
    env = L5VectorEnv(num_envs, os.fspath(config_path), data, train=train, autoreset_mode="SameStep")
    return StableBaselinesVecEnv(env)


def towns_of(keys: LogKeys, data: LocalDataManager) -> list[LocalDataManager]:
    """Return the data folders of the towns that a training is in: those that a configuration lists, or the only one.

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
    """Return the environments of a training in several towns, which get about as many each.

    Args:
        cfg: The configuration.
        config_path: The file that it stands in.
        towns: Find logs and maps.
        num_envs: How many environments step at once.
        num_threads: Towns that step at the same time.

    Raises:
        ConfigError: A key is missing or wrong, or there are more towns than environments.
        FileNotFoundError: Data is missing.
    """
    if num_envs < len(towns):
        raise ConfigError(f"rl_params.num_envs: {num_envs} for {len(towns)} towns; each needs one at least")
    sizes = [len(part) for part in np.array_split(np.arange(num_envs), len(towns))]
    made = [
        make_environments(cfg, config_path, town, num_envs=size, train=True)
        for town, size in zip(towns, sizes, strict=True)
    ]
    return JoinedEnvironments(made, num_threads=num_threads)


def share_scales(of: VecEnv, to: StableBaselinesVecEnv) -> None:
    """Let actions mean in some environments what they mean in others, whose scales were measured in another log."""
    if of.has_attr("non_kin_rescale"):
        to.set_attr("non_kin_rescale", of.get_attr("non_kin_rescale")[0])


def scenes_to_evaluate(cfg: Config, data: LocalDataManager, *, wanted: int) -> range:
    """Return the scenes that an evaluation drives: as many as are wanted, if the log and the configuration have them.

    With ``overfit`` it is the one that is trained in.

    Raises:
        FileNotFoundError: The log is missing.
    """
    params = EnvironmentParams.from_cfg(cfg)
    if params.overfit:
        return range(params.overfit_id, params.overfit_id + 1)
    log = ChunkedDataset(data.require(LogKeys.from_cfg(cfg).evaluated)).open()
    return range(min(wanted, len(log.scenes), params.max_val_scene_id or wanted))
