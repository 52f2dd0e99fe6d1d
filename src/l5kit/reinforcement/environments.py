"""Environments of a training: those that a configuration names, as the algorithm and the evaluation step them."""

import os

from l5kit._types import Config
from l5kit.configs.environment import EnvironmentParams
from l5kit.configs.reinforcement import LogKeys
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.environment.sb3 import StableBaselinesVecEnv

__all__ = ["make_environments", "scenes_to_evaluate", "share_scales"]


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


def share_scales(of: StableBaselinesVecEnv, to: StableBaselinesVecEnv) -> None:
    """Let actions mean in some environments what they mean in others, whose scales were measured in another log."""
    if of.has_attr("non_kin_rescale"):
        to.set_attr("non_kin_rescale", of.env.unwrapped.non_kin_rescale)  # type: ignore[attr-defined]


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
