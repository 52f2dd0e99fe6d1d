"""Infos of steps: terms that add up, sums of episodes, what went wrong, and wrappers of Gymnasium that read them."""

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import wrappers  # noqa: E402
from gymnasium.wrappers import vector as vector_wrappers  # noqa: E402

from l5kit.environment.envs.l5_env import L5Env, SimulationConfigGym  # noqa: E402
from l5kit.environment.envs.vector_env import L5VectorEnv  # noqa: E402
from l5kit.environment.rewards.driving_reward import DrivingReward  # noqa: E402
from l5kit.environment.rewards.step_judge import FAILURES  # noqa: E402
from l5kit.environment.rewards.step_reward import StepOutcome  # noqa: E402
from l5kit.environment.step_infos import StepInfos, of_one, spread  # noqa: E402
from support.environments import data_of, write_config  # noqa: E402

SHORT = 6
COMPACT = {"observation": "compact", "actions": "bicycle", "reward": "driving", "others": "idm"}
WILD = {"observation": "compact", "reward": "driving", "rescale_action": False, "ends_at": ["off_road"]}


class Two:
    """Reward with two terms."""

    terms = ("distance", "bonus")


def worth_of(rows, failed=()):
    terms = np.array(rows, np.float64)
    is_bad = np.array([place in failed for place in range(len(terms))])
    return StepOutcome(terms.sum(axis=1), terms, is_bad, {"bad": is_bad})


def test_sums_are_those_of_the_steps_since_the_episode_began():
    infos, slots = StepInfos(Two(), 3, has_sums=True), np.arange(3)
    infos.begin(slots)
    over = np.zeros(3, np.bool_)
    first = infos.of_step(slots, worth_of([[1, 2], [3, 4], [5, 6]]), over)
    assert set(first) == {"reward_tot", "reward_dist", "reward_bonus", "is_bad"}
    assert first["reward_tot"].tolist() == [3, 7, 11]
    over[2] = True
    second = infos.of_step(slots[1:], worth_of([[1, 1], [2, 2]], failed=[1]), over[1:])
    assert second["is_bad"].tolist() == [False, True]
    assert {name: sums.tolist() for name, sums in second["reward_sums"].items()} == {
        "tot": [9, 15],
        "dist": [4, 7],
        "bonus": [5, 8],
    }
    infos.begin(slots[2:])
    third = infos.of_step(slots, worth_of([[1, 0], [1, 0], [1, 0]]), np.ones(3, np.bool_))
    assert third["reward_sums"]["tot"].tolist() == [4, 10, 1]


def test_rewards_of_1_5_tell_no_sums():
    infos = StepInfos(Two(), 1, has_sums=False)
    told = infos.of_step(np.arange(1), worth_of([[1, 2]]), np.ones(1, np.bool_))
    assert "reward_sums" not in told


def test_infos_of_one_are_numbers():
    told = of_one({"a": np.array([1.5]), "is_b": np.array([True]), "sums": {"c": np.array([2.0])}})
    assert told == {"a": 1.5, "is_b": True, "sums": {"c": 2.0}}
    assert [type(told[name]) for name in ("a", "is_b")] == [float, bool]


def test_infos_of_some_are_spread_over_all():
    mask, last = np.array([True, False, True, True]), np.array([False, False, True, False])
    told = {"a": np.array([1.0, 2.0, 3.0]), "sums": {"b": np.array([4.0, 5.0, 6.0])}}
    found = spread(told, np.array([0, 2, 3]), mask, only={"sums": last})
    assert found["a"].tolist() == [1, 0, 2, 3]
    assert found["_a"].tolist() == mask.tolist()
    assert found["sums"]["b"].tolist() == [0, 0, 5, 0]
    assert found["sums"]["_b"].tolist() == found["_sums"].tolist() == last.tolist()
    assert spread(told, np.array([0, 2, 3]), np.zeros(4, np.bool_)) == {}


def make_one(folder, config, *, num_frames=SHORT, **args):
    return L5Env(config, data_of(folder), SimulationConfigGym(num_simulation_steps=num_frames), **args)


def make_many(folder, config, num_envs=4, *, num_frames=SHORT, **args):
    sim_cfg = SimulationConfigGym(num_simulation_steps=num_frames)
    return L5VectorEnv(num_envs, config, data_of(folder), sim_cfg, **args)


@pytest.mark.parametrize("observation", ["raster", "compact"])
def test_terms_add_up_in_steps_and_episodes(city, tmp_path, observation):
    env = make_one(city, write_config(tmp_path), **(COMPACT | {"observation": observation, "others": "log"}))
    env.reset(seed=1)
    env.action_space.seed(1)
    steps = [env.step(env.action_space.sample()) for _ in range(SHORT - 2)]
    names = [f"reward_{name}" for name in DrivingReward.terms]
    for step in steps:
        assert step.info["reward_tot"] == step.reward == pytest.approx(sum(step.info[name] for name in names))
        assert [type(step.info[f"is_{name}"]) for name in FAILURES] == [bool] * len(FAILURES)
        assert ("reward_sums" in step.info) is step.done
    sums = steps[-1].info["reward_sums"]
    assert sums["tot"] == pytest.approx(sum(step.reward for step in steps))
    for name in DrivingReward.terms:
        assert sums[name] == pytest.approx(sum(step.info[f"reward_{name}"] for step in steps), abs=1e-12)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_many_tell_of_ends_what_happened_there(city, tmp_path, mode):
    env = make_many(city, write_config(tmp_path), autoreset_mode=mode, **WILD)
    env.reset(seed=3)
    env.action_space.seed(3)
    totals, num_ends, num_failed, has_begun = np.zeros(4), 0, 0, np.zeros(4, np.bool_)
    for _ in range(4 * SHORT):
        seen, rewards, terminated, truncated, infos = env.step(4 * env.action_space.sample())
        totals = np.where(has_begun, 0.0, totals) + rewards
        assert not rewards[has_begun].any()
        is_over = terminated | truncated
        has_begun = is_over & (mode == "NextStep")
        if is_over.any():
            told = infos["final_info"] if mode == "SameStep" else infos
            np.testing.assert_array_equal(told["_reward_sums"], is_over)
            np.testing.assert_allclose(told["reward_sums"]["tot"][is_over], totals[is_over])
            np.testing.assert_array_equal(told["is_off_road"][is_over], terminated[is_over])
            assert told["is_off_road"].dtype == np.bool_
            num_ends, num_failed = num_ends + is_over.sum(), num_failed + terminated.sum()
        if mode == "SameStep" and is_over.any():
            np.testing.assert_array_equal(infos["_final_obs"], is_over)
            for slot in np.flatnonzero(is_over):
                assert infos["final_obs"][slot] in env.single_observation_space
                assert not np.array_equal(infos["final_obs"][slot], seen[slot])
            assert all(infos["final_obs"][slot] is None for slot in np.flatnonzero(~is_over))
        if mode == "SameStep":
            totals[is_over] = 0.0
    assert num_failed > 0
    assert num_ends > num_failed


def test_the_wrapper_of_episodes_records_them(city, tmp_path):
    env = wrappers.RecordEpisodeStatistics(make_one(city, write_config(tmp_path), **COMPACT))
    env.reset(seed=1)
    total = 0.0
    for _ in range(SHORT - 2):
        _, reward, _, is_over, info = env.step(np.array([0.5, 0.0], np.float32))
        total += reward
    assert is_over
    assert info["episode"]["l"] == SHORT - 2
    assert info["episode"]["r"] == pytest.approx(total, abs=1e-6) == pytest.approx(info["reward_sums"]["tot"], abs=1e-6)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_the_wrapper_of_many_episodes_records_them(city, tmp_path, mode):
    made = make_many(city, write_config(tmp_path), autoreset_mode=mode, **COMPACT)
    env = vector_wrappers.RecordEpisodeStatistics(made)
    env.reset(seed=1)
    actions = np.tile(np.array([0.5, 0.0], np.float32), (4, 1))
    for _ in range(SHORT - 2):
        *_, truncated, infos = env.step(actions)
    assert truncated.all()
    told = infos["final_info"] if mode == "SameStep" else infos
    assert infos["episode"]["l"].tolist() == [SHORT - 2] * 4
    np.testing.assert_allclose(infos["episode"]["r"], told["reward_sums"]["tot"], atol=1e-6)


def test_observations_may_be_normalized_or_flattened(city, tmp_path):
    config = write_config(tmp_path)
    many = vector_wrappers.NormalizeObservation(make_many(city, config, **COMPACT))
    observations, _ = many.reset(seed=1)
    for _ in range(20):
        observations, *_ = many.step(many.action_space.sample())
    assert observations.shape == (4, 390)
    assert np.isfinite(observations).all()
    assert np.abs(observations.mean()) < 1.0
    for observation in ("raster", "vectors"):
        one = make_one(city, config, observation=observation, actions="bicycle")
        flat = wrappers.FlattenObservation(one)
        seen, _ = flat.reset(seed=1)
        assert seen.shape == flat.observation_space.shape
        assert seen in flat.observation_space
        assert len(seen) == sum(np.prod(space.shape, dtype=int) for space in one.observation_space.values())
