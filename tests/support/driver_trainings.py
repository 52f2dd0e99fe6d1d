"""Small trainings of drivers, for tests."""

from pathlib import Path
from typing import Any

from l5kit._types import JsonObject
from l5kit.configs.config import load_config_data
from support.environments import write_config


def driver_config(tmp_path: Path, **rl_params: Any) -> JsonObject:
    """Return the configuration of a training of 64 steps with tiny pictures, as changed."""
    cfg = load_config_data(write_config(tmp_path, side_px=(16, 16), num_simulation_steps=7, actions="kinematic"))
    small = {
        "total_steps": 64,
        "num_envs": 2,
        "n_steps": 16,
        "batch_size": 16,
        "n_epochs": 1,
        "net_arch": [8],
        "eval_every_steps": 32,
        "checkpoint_every_steps": 32,
        "eval_scenes": 2,
    }
    return {**cfg, "rl_params": small | rl_params}


def compact_config(tmp_path: Path, **gym_params: Any) -> JsonObject:
    """Return the configuration of a training with compact observations and curvatures as actions, as changed."""
    compact = {"observation": "compact", "actions": "curvature", "reward": "driving", "num_simulation_steps": 7}
    return {**driver_config(tmp_path), "gym_params": compact | gym_params}
