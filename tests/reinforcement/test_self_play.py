"""Trainings with self-play: resuming, imitation, evaluation, and driving with IDM traffic."""

import json

import numpy as np
import pytest

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.environment.envs.self_play_env import SelfPlayEnv
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.errors import ConfigError
from l5kit.reinforcement import train_driver
from l5kit.reinforcement.environments import make_environments
from support.driver_trainings import compact_config

SELF_PLAY = {"others": "policy", "ends_at": ["collision", "off_road"]}


@pytest.mark.parametrize(
    ("gym_params", "rl_params"),
    [
        ({}, {}),
        ({"actions": "route", "frames_per_action": 2}, {"init": "rules", "near_start": 0.1, "network": "agents"}),
    ],
    ids=["new", "imitating"],
)
def test_a_driver_is_trained_goes_on_and_drives(city, tmp_path, gym_params, rl_params):
    cfg = compact_config(tmp_path, **SELF_PLAY, **gym_params)
    cfg["rl_params"] |= {"num_envs": 6, "n_steps": 8, "total_steps": 48, **rl_params}
    told = []
    done = train_driver(cfg, tmp_path / "out", data_folder=city, tell=told.append)
    assert done.num_steps == 48
    assert 0 <= done.after["share_to_the_end"] <= 1
    cfg["rl_params"]["total_steps"] = 96
    done = train_driver(cfg, tmp_path / "out", data_folder=city, resume=True, tell=told.append)
    assert done.num_steps == 96
    assert "resuming at step 48" in told
    options = ClosedLoopOptions(scenes=[0], num_frames=5)
    assert simulate(city, tmp_path / "drives", planner=str(done.folder), agents="idm", options=options).num_scenes == 1


def test_the_same_seed_trains_the_same_driver(city, tmp_path):
    cfg = compact_config(tmp_path, **SELF_PLAY)
    cfg["rl_params"] |= {"num_envs": 6, "n_steps": 8, "total_steps": 48}
    first, second = (train_driver(cfg, tmp_path / name, data_folder=city, tell=lambda _: None) for name in "ab")
    assert first.after == second.after


def test_evaluations_drive_avs_alone_among_idm(city, tmp_path):
    cfg = compact_config(tmp_path, **SELF_PLAY)
    data = LocalDataManager(str(city))
    (tmp_path / "gym.yaml").write_text(json.dumps(cfg))
    make = [make_environments(cfg, tmp_path / "gym.yaml", data, num_envs=3, train=train).env for train in (True, False)]
    assert [type(env) for env in make] == [SelfPlayEnv, L5VectorEnv]
    (tmp_path / "gym.yaml").write_text(json.dumps({**cfg, "gym_params": {**cfg["gym_params"], "others": "idm"}}))
    expected = L5VectorEnv(3, str(tmp_path / "gym.yaml"), data, train=False, autoreset_mode="SameStep")
    np.testing.assert_array_equal(make[1].reset(seed=1)[0], expected.reset(seed=1)[0])
    for _ in range(4):
        actions = np.zeros((3, 2), np.float32)
        np.testing.assert_array_equal(make[1].step(actions)[0], expected.step(actions)[0])


def test_a_training_for_avs_alone_is_refused_before_its_folder_is_made(city, tmp_path):
    cfg = compact_config(tmp_path, **SELF_PLAY)
    cfg["gym_params"]["observation"] = "raster"
    with pytest.raises(ConfigError, match=r"gym_params\.observation: 'raster' supports AVs only"):
        train_driver(cfg, tmp_path / "out", data_folder=city)
    assert not (tmp_path / "out").exists()
