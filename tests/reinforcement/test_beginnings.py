"""Initial policies: imitation of rules, and the penalty for leaving the initial policy."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from l5kit.configs.reinforcement import ReinforcementParams
from l5kit.environment.policy_driver import PolicyDriver
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.reinforcement import train_driver
from l5kit.reinforcement.near_start import keep_near_start
from l5kit.reinforcement.policy import make_algorithm
from support.driver_trainings import compact_config, driver_config


def model_of(space, **rl_params):
    """An algorithm for observations of three numbers."""
    import gymnasium

    class Idle(gymnasium.Env):
        observation_space, action_space = spaces.Box(-1, 1, (3,), np.float32), space

    small = {"total_steps": 1, "num_envs": 1, "net_arch": [4], "batch_size": 32, "near_start": 0.5}
    return make_algorithm(ReinforcementParams.from_cfg({"rl_params": small | rl_params}), DummyVecEnv([Idle, Idle]))


def test_the_term_is_the_divergence_of_normal_distributions():
    """KL(first || now) of means m and m + d and one deviation s is d^2 / 2 s^2 in each value of an action."""
    model = model_of(spaces.Box(-1, 1, (2,), np.float32), log_std_init=-1.0)
    policy, seen = model.policy, torch.rand((5, 3))
    keep_near_start(model, policy.state_dict(), entropy_weight=0.0)
    policy.near_weight = 0.5
    apart = [policy.evaluate_actions(seen, torch.zeros(5, 2))[2]]
    with torch.no_grad():
        policy.action_net.bias += torch.tensor([0.3, -0.1])
    apart.append(policy.evaluate_actions(seen, torch.zeros(5, 2))[2])
    expected = -0.5 * (0.3**2 + 0.1**2) / (2 * np.exp(-2.0))
    np.testing.assert_allclose(apart[0].detach(), np.zeros(5), atol=1e-6)
    np.testing.assert_allclose(apart[1].detach(), np.full(5, expected), rtol=1e-5)
    assert model.ent_coef == 1.0
    assert not any("first" in name for name in policy.state_dict())


def test_the_divergence_is_that_of_the_first_policy_from_the_one_of_now():
    """KL(first || now) of deviations s and t, means alike, is log(t / s) + s^2 / 2 t^2 - 1 / 2: not the same back."""
    model = model_of(spaces.Box(-1, 1, (1,), np.float32), log_std_init=0.0)
    keep_near_start(model, model.policy.state_dict(), entropy_weight=0.0)
    model.policy.near_weight = 1.0
    with torch.no_grad():
        model.policy.log_std += np.log(2.0)
    found = model.policy.evaluate_actions(torch.rand((3, 3)), torch.zeros(3, 1))[2]
    np.testing.assert_allclose(found.detach(), np.full(3, -(np.log(2.0) + 1 / 8 - 1 / 2)), rtol=1e-5)


def test_the_entropy_keeps_its_weight():
    model = model_of(spaces.Discrete(4))
    keep_near_start(model, model.policy.state_dict(), entropy_weight=0.1)
    seen, actions = torch.rand((5, 3)), torch.zeros(5, dtype=torch.long)
    found = model.policy.evaluate_actions(seen, actions)[2]
    np.testing.assert_allclose(found.detach(), 0.1 * model.policy.get_distribution(seen).entropy().detach(), rtol=1e-5)
    model.policy.near_weight = 1.0
    assert model.policy.evaluate_actions(seen, actions)[2].shape == (5,)


def route_config(tmp_path, **rl_params):
    """The configuration of a small training along routes."""
    compact = {"frame": "route", "num_lane_points": 0, "num_agents": 4}
    cfg = compact_config(tmp_path, actions="route", compact=compact, frames_per_action=3, num_simulation_steps=12)
    cfg["rl_params"] |= {"network": "agents", "features": 16, "agent_width": 8, **rl_params}
    return cfg


@pytest.mark.parametrize("network", ["agents", "attention"])
def test_rules_are_imitated_and_kept_near(city, tmp_path, network):
    told = []
    cfg = route_config(tmp_path, init="rules", near_start=100.0, network=network)
    done = train_driver(cfg, tmp_path / "out", data_folder=city, tell=told.append)
    rounds = [line for line in told if line.startswith("imitation of rules")]
    assert [line.partition(":")[0][-6:] for line in rounds] == ["1 of 3", "2 of 3", "3 of 3"]
    counts = [int(line.split(": ")[1].split(" ")[0].replace(",", "")) for line in rounds]
    assert counts == sorted(set(counts))
    first, last = (PolicyDriver.load(done.folder / name).network for name in ("first.zip", "driver.zip"))
    seen = np.random.default_rng(0).uniform(-1, 1, (200, first.num_inputs)).astype(np.float32)
    moved = np.abs(first.act(seen) - last.act(seen)).mean()
    assert 0 < moved < 0.1
    cfg["rl_params"]["total_steps"] = 96
    assert train_driver(cfg, tmp_path / "out", data_folder=city, resume=True, tell=told.append).num_steps == 96


@pytest.mark.parametrize("network", ["agents", "attention"])
def test_a_training_begins_with_a_policy_of_its_own_network_only(city, tmp_path, network):
    cfg = route_config(tmp_path, network=network, total_steps=32)
    before = train_driver(cfg, tmp_path / "out", data_folder=city, tell=lambda _: None)
    cfg["rl_params"] |= {"init": str(before.folder), "near_start": 0.5}
    more = train_driver(cfg, tmp_path / "more", data_folder=city, tell=lambda _: None)
    first, last = (PolicyDriver.load(file).network for file in (more.folder / "first.zip", before.driver))
    seen = np.random.default_rng(0).uniform(-1, 1, (20, first.num_inputs)).astype(np.float32)
    np.testing.assert_array_equal(first.act(seen), last.act(seen))
    cfg["rl_params"]["network"] = {"agents": "attention", "attention": "agents"}[network]
    with pytest.raises(InvalidArgumentError, match=r"has another network .* set rl_params\.network"):
        train_driver(cfg, tmp_path / "other", data_folder=city)


def test_who_does_not_drive_along_routes_cannot_imitate_rules(city, tmp_path):
    for cfg in (driver_config(tmp_path, init="rules"), compact_config(tmp_path)):
        cfg["rl_params"]["init"] = "rules"
        with pytest.raises(ConfigError, match=r"rl_params\.init: imitating 'rules' needs gym_params\.observation"):
            train_driver(cfg, tmp_path / "out", data_folder=city)
    assert not (tmp_path / "out").exists()
