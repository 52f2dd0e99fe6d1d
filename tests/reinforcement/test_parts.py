"""Parts of a training of a driver: figures of evaluations, networks, progress."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from l5kit.configs.environment import EnvironmentParams
from l5kit.configs.reinforcement import ReinforcementParams
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.environment.feature_extractor import CustomFeatureExtractor
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.reinforcement import policy
from l5kit.reinforcement.course import DriverProgress, Pace, drive_scenes
from l5kit.reinforcement.environments import make_environments, scenes_to_evaluate, share_scales
from l5kit.reinforcement.policy import make_algorithm
from support.driver_trainings import driver_config


class Scenes:
    """Stands for environments: scene i takes i + 1 steps of a reward of 2, and has i collisions."""

    num_envs = 3

    def __init__(self):
        self.env, self.scenes, self.counts = self, {}, np.zeros(3, int)

    def reset(self, options=None):
        if options is not None:
            (place,) = np.flatnonzero(options["reset_mask"])
            self.scenes[place] = options["scene_id"]
            return self.counts, {}
        return self.counts

    def step(self, actions):
        assert actions.tolist() == [7, 7, 7]
        self.counts += 1
        infos = [
            {
                "episode": {"r": 2.0 * count, "l": count, "t": 0.0},
                "TimeLimit.truncated": place > 0,
                "terminal_observation": np.zeros(1),
                "reward_sums": {"collision": np.float64(-place), "tot": np.float64(1)},
                "reward_collision": np.float64(5),
                "others": None,
            }
            for place, count in enumerate(self.counts)
        ]
        return self.counts, np.full(3, 2.0), self.counts % (np.arange(3) + 1) == 0, infos


class Sevens:
    def predict(self, observations, deterministic=False):
        assert deterministic
        return np.full(3, 7), None


def test_figures_are_means_over_the_first_episode_of_each_scene():
    scenes = Scenes()
    assert drive_scenes(scenes, Sevens(), range(4, 7)) == {
        "reward": 4.0,
        "steps": 2.0,
        "share_to_the_end": pytest.approx(2 / 3),
        "collision": -1.0,
        "share_without_collision": pytest.approx(1 / 3),
    }
    assert scenes.scenes == {0: 4, 1: 5, 2: 6}


@pytest.mark.parametrize(
    ("wanted", "limit", "found"), [(2, None, 2), (9, None, 3), (9, 1, 1)], ids=["fewer", "all", "as configured"]
)
def test_scenes_of_an_evaluation(wanted, limit, found, city, tmp_path):
    cfg = driver_config(tmp_path)
    cfg["gym_params"]["max_val_scene_id"] = limit
    assert scenes_to_evaluate(cfg, LocalDataManager(city), wanted=wanted) == range(found)


def test_the_one_scene_that_is_trained_in_is_evaluated(city, tmp_path):
    cfg = driver_config(tmp_path)
    cfg["gym_params"] |= {"overfit": True, "overfit_id": 2}
    assert scenes_to_evaluate(cfg, LocalDataManager(city), wanted=9) == range(2, 3)


def test_environments_are_those_of_the_configuration(city, tmp_path):
    cfg = driver_config(tmp_path)
    cfg["gym_params"] |= {"observation": "compact", "actions": "grid", "reward": "driving", "num_simulation_steps": 9}
    (tmp_path / "gym.yaml").write_text(json.dumps(cfg))
    made = make_environments(cfg, tmp_path / "gym.yaml", LocalDataManager(city), num_envs=2, train=True)
    assert made.observation_space == made.env.episodes.parts.view.space
    assert made.action_space.n == 63
    made.reset()
    for _ in range(7):
        _, _, is_over, infos = made.step(np.zeros(2, np.int64))
    assert is_over.all()
    assert set(infos[0]["reward_sums"]) > {"tot", "progress"}


def test_actions_mean_the_same_in_evaluations(city, tmp_path):
    cfg = driver_config(tmp_path)
    cfg["gym_params"]["actions"] = "poses"
    (tmp_path / "gym.yaml").write_text(json.dumps(cfg))
    trained, evaluated = (
        make_environments(cfg, tmp_path / "gym.yaml", LocalDataManager(city), num_envs=1, train=train)
        for train in (True, False)
    )
    evaluated.env.non_kin_rescale = None
    share_scales(trained, evaluated)
    assert evaluated.env.non_kin_rescale is trained.env.non_kin_rescale


def test_wrong_choices_are_told_with_those_that_there_are(tmp_path):
    cfg = driver_config(tmp_path)
    cfg["gym_params"] |= {"ends_at": ["night"], "num_simulation_steps": 2}
    with pytest.raises(ConfigError, match="a list of 'collision' or 'off_road'") as told:
        EnvironmentParams.from_cfg(cfg)
    assert "gym_params.num_simulation_steps: expected a whole number from 3 to 100000, got 2" in str(told.value)
    cfg["gym_params"] |= {"ends_at": ["collision"], "num_simulation_steps": None}
    params = EnvironmentParams.from_cfg(cfg)
    assert (params.ends_at, params.num_simulation_steps) == (("collision",), None)


def observing(space):
    """Environments of which only the spaces matter."""
    import gymnasium

    class Idle(gymnasium.Env):
        observation_space, action_space = space, spaces.Box(-1, 1, (2,), np.float32)

    return DummyVecEnv([Idle])


@pytest.mark.parametrize(
    ("space", "extractor"),
    [
        (spaces.Box(-1, 1, (5,), np.float32), "FlattenExtractor"),
        (spaces.Dict({"image": spaces.Box(0, 1, (3, 16, 20), np.float32)}), "CombinedExtractor"),
        (spaces.Dict({"image": spaces.Box(0, 1, (3, 40, 36), np.float32)}), "CombinedExtractor"),
        (spaces.Dict({"image": spaces.Box(0, 1, (3, 112, 112), np.float32)}), CustomFeatureExtractor.__name__),
    ],
    ids=["numbers", "tiny pictures", "small pictures", "pictures of 1.5"],
)
def test_networks_fit_what_is_seen(space, extractor):
    params = ReinforcementParams.from_cfg(
        {"rl_params": {"total_steps": 1, "num_envs": 1, "net_arch": [8, 4], "batch_size": 32}}
    )
    model = make_algorithm(params, observing(space))
    assert type(model.policy.features_extractor).__name__ == extractor
    assert [layer.out_features for layer in model.policy.mlp_extractor.policy_net[::2]] == [8, 4]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("own.weight", torch.tensor([torch.nan]), id="no number"),
        pytest.param("own.weight", torch.ones(1, device="meta"), id="no values"),
        pytest.param("own.weight", torch.ones(1).to_sparse(), id="not strided"),
        pytest.param("own.weight", 1.0, id="no tensor"),
        pytest.param("own.deviations", torch.zeros(1), id="divides by 0"),
    ],
)
def test_weights_that_cannot_be_used_are_told_before_a_network_that_does_not_fit(monkeypatch, name, value):
    options = object()
    monkeypatch.setattr(policy, "find_beginning", Path)
    monkeypatch.setattr(policy, "read_weights", lambda _: ({"others": torch.zeros(1), name: value}, options))
    with pytest.raises(InvalidArgumentError, match=rf"a\.zip is broken \({name} is not a finite tensor"):
        policy.take_weights(SimpleNamespace(policy=torch.nn.Linear(1, 1)), "a.zip", options)


def test_lines_are_told_where_there_is_no_terminal(monkeypatch):
    told = []
    progress = DriverProgress(tell=told.append)
    progress.start()
    pace = Pace(step=1200, share_done=0.5, steps_per_s=345.6, environment_share=0.25, reward=None)
    progress.show(pace)
    assert told == []
    monkeypatch.setattr("l5kit.reinforcement.course._LINE_EVERY_S", 0.0)
    progress.show(pace)
    assert told == ["1,200 steps, episode reward -, 346 steps/s, environment 25%"]
    progress.stop()


def test_a_bar_is_shown_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = DriverProgress(tell=lambda line: None)
    progress.start()
    progress.show(Pace(step=10, share_done=0.5, steps_per_s=2.0, environment_share=0.5, reward=1.0))
    progress.stop()
    assert "episode reward 1.00" in capsys.readouterr().err
