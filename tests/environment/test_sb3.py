"""Vector environments as stable-baselines3 takes them."""

from typing import get_args, get_type_hints

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

import gymnasium
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from l5kit.configs.environment import EnvironmentParams
from l5kit.environment.envs.l5_env import SimulationConfigGym
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.environment.sb3 import StableBaselinesVecEnv
from support.environments import NUM_FRAMES, data_of, write_config


class Counting(VectorEnv):
    """Environment i counts from 0 to i + 2, and sees (environment, count); even ones terminate, odd ones truncate."""

    def __init__(self, num_envs=3, *, mode=AutoresetMode.SAME_STEP, is_dict=False, action_space=None, copy=True):
        self.num_envs, self.is_dict, self.copy = num_envs, is_dict, copy
        self.metadata = {"autoreset_mode": mode, "render_modes": []}
        space = spaces.Box(0, 1000, (2,), np.float32)
        self.single_observation_space = spaces.Dict({"state": space}) if is_dict else space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space = action_space or spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.counts = np.zeros(num_envs, np.int64)
        self.factor, self.num_closed, self.resets = 1.0, 0, []
        self._shared = np.zeros((num_envs, 2), np.float32)

    def reset(self, *, seed=None, options=None):
        self.resets.append((seed, options))
        self.counts[:] = 0
        return self._seen(), {}

    def step(self, actions):
        assert self.action_space.contains(actions)
        self.actions = actions
        self.counts += 1
        is_over = self.counts == np.arange(self.num_envs) + 2
        rewards = self.factor * self.counts.astype(np.float64)
        infos = {"count": self.counts.copy(), "_count": np.ones(self.num_envs, bool)}
        if is_over.any():
            last = np.full(self.num_envs, None, object)
            for place in np.flatnonzero(is_over):
                row = np.array([place, self.counts[place]], np.float32)
                last[place] = {"state": row} if self.is_dict else row
            final = {"count": self.counts.copy(), "_count": is_over, "parts": {"half": self.counts / 2}}
            infos |= {"final_obs": last, "_final_obs": is_over, "final_info": final, "_final_info": is_over}
        self.counts[is_over] = 0
        is_even = np.arange(self.num_envs) % 2 == 0
        return self._seen(), rewards, is_over & is_even, is_over & ~is_even, infos

    def close(self, **_):
        self.num_closed += 1

    def double(self, value):
        return 2 * value

    def _seen(self):
        self._shared[:] = np.stack([np.arange(self.num_envs), self.counts], axis=1)
        seen = self._shared.copy() if self.copy else self._shared
        return {"state": seen} if self.is_dict else seen


ACTIONS = np.zeros((3, 2), np.float32)


def test_ends_of_episodes_are_told():
    env = StableBaselinesVecEnv(Counting())
    np.testing.assert_array_equal(env.reset(), [[0, 0], [1, 0], [2, 0]])
    _, rewards, dones, infos = env.step(ACTIONS)
    assert (rewards.dtype, rewards.tolist(), dones.tolist(), infos) == (np.float32, [1, 1, 1], [False] * 3, [{}] * 3)
    seen, rewards, dones, infos = env.step(ACTIONS)
    np.testing.assert_array_equal(seen, [[0, 0], [1, 2], [2, 2]])
    assert (rewards.tolist(), dones.tolist(), infos[1:]) == ([2, 2, 2], [True, False, False], [{}, {}])
    assert infos[0].pop("episode").items() >= {"r": 3.0, "l": 2}.items()
    np.testing.assert_array_equal(infos[0].pop("terminal_observation"), [0, 2])
    assert infos[0] == {"TimeLimit.truncated": False, "count": 2, "parts": {"half": 1.0}}
    seen, _, dones, infos = env.step(ACTIONS)
    assert dones.tolist() == [False, True, False]
    assert infos[1]["TimeLimit.truncated"] is True
    assert infos[1]["episode"].items() >= {"r": 6.0, "l": 3}.items()
    assert env.step_infos["count"].tolist() == [1, 3, 3]
    _, _, dones, infos = env.step(ACTIONS)
    assert dones.tolist() == [True, False, True]
    assert [infos[place]["episode"]["r"] for place in (0, 2)] == [3.0, 10.0]


def test_a_reset_forgets_the_episodes_that_were_driven():
    env = StableBaselinesVecEnv(Counting())
    env.reset()
    env.step(ACTIONS)
    env.reset()
    env.step(ACTIONS)
    assert env.step(ACTIONS)[3][0]["episode"]["r"] == 3.0


@pytest.mark.parametrize("is_dict", [False, True], ids=["box", "dict"])
def test_observations_stay_as_they_are_in_the_next_step(is_dict):
    env = StableBaselinesVecEnv(Counting(is_dict=is_dict, copy=False))
    seen = env.reset()
    env.step(ACTIONS)
    np.testing.assert_array_equal(seen["state"] if is_dict else seen, [[0, 0], [1, 0], [2, 0]])


def test_discrete_actions_go_through():
    inner = Counting(action_space=spaces.Discrete(4))
    env = StableBaselinesVecEnv(inner)
    env.reset()
    env.step(np.array([3, 0, 1]))
    assert (env.action_space, inner.actions.tolist()) == (spaces.Discrete(4), [3, 0, 1])


def test_seeds_and_options_are_for_the_next_reset_only():
    inner = Counting()
    env = StableBaselinesVecEnv(inner)
    env.seed(5)
    env.set_options({"scene_id": 1})
    env.reset()
    env.reset()
    assert inner.resets == [([5, 6, 7], {"scene_id": 1}), (None, None)]
    env.set_options([{"scene_id": 1}, {}, {}])
    with pytest.raises(ValueError, match="options of environments differ"):
        env.reset()


def test_attributes_and_methods():
    inner = Counting()
    env = StableBaselinesVecEnv(inner)
    assert env.get_attr("counts") == [0, 0, 0]
    assert env.get_attr("factor", indices=[0, 2]) == [1.0, 1.0]
    env.set_attr("factor", 3.0)
    assert inner.factor == 3.0
    assert env.env_method("double", 4) == [8, 8, 8]
    assert env.env_is_wrapped(Monitor) == [True] * 3
    assert env.env_is_wrapped(gymnasium.wrappers.ClipAction, indices=1) == [False]
    assert not env.has_attr("nothing")
    assert env.render() is None
    env.close()
    assert inner.num_closed == 1


@pytest.mark.parametrize("call", ["set_attr", "env_method"])
def test_what_is_for_some_environments_only_is_refused(call):
    env = StableBaselinesVecEnv(Counting())
    with pytest.raises(ValueError, match=r"is for environments \[1\], but all 3 are one object"):
        getattr(env, call)("double", 1, indices=[1])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_environments_that_start_episodes_otherwise_are_refused(mode):
    with pytest.raises(ValueError, match="make it with autoreset_mode='SameStep'"):
        StableBaselinesVecEnv(Counting(mode=mode))


def test_a_step_without_actions_is_refused():
    env = StableBaselinesVecEnv(Counting())
    env.reset()
    with pytest.raises(RuntimeError, match="there are no actions yet"):
        env.step_wait()


@pytest.mark.parametrize("algorithm", [PPO, A2C])
@pytest.mark.parametrize("wrap", [lambda env: env, VecMonitor, VecNormalize], ids=["bare", "monitor", "normalize"])
@pytest.mark.filterwarnings("ignore:The environment is already wrapped with a `Monitor`")
def test_algorithms_learn_in_it(algorithm, wrap):
    env = wrap(StableBaselinesVecEnv(Counting(4)))
    small = {"batch_size": 32, "n_epochs": 1} if algorithm is PPO else {}
    model = algorithm("MlpPolicy", env, n_steps=16, device="cpu", policy_kwargs={"net_arch": [8]}, **small)
    model.learn(256)
    assert model.num_timesteps == 256
    assert {round(each["r"]) for each in model.ep_info_buffer} == {3, 6, 10, 15}
    assert evaluate_policy(model, StableBaselinesVecEnv(Counting(1)), n_eval_episodes=2) == (3.0, 0.0)


@pytest.fixture
def make_vector_env(city, tmp_path):
    """Function that makes two or more environments of the small city."""

    def make(num_envs, **args):
        sim_cfg = SimulationConfigGym(num_simulation_steps=NUM_FRAMES)
        path = write_config(tmp_path)
        return L5VectorEnv(num_envs, path, data_of(city), sim_cfg, autoreset_mode="SameStep", **args)

    return make


@pytest.mark.parametrize("copy", [True, False])
def test_it_drives_like_single_environments(make_env, make_vector_env, copy):
    many = StableBaselinesVecEnv(make_vector_env(2, copy=copy))
    single = DummyVecEnv([lambda: Monitor(make_env())] * 2)
    for env in (many, single):
        env.seed(3)
    np.testing.assert_array_equal(many.reset()["image"], single.reset()["image"])
    generator = np.random.default_rng(0)
    num_ends = 0
    for _ in range(25):
        actions = generator.uniform(-1, 1, (2, 3)).astype(np.float32)
        (seen, rewards, dones, infos), wanted = many.step(actions), single.step(actions)
        np.testing.assert_array_equal(seen["image"], wanted[0]["image"])
        np.testing.assert_array_equal(rewards, wanted[1])
        np.testing.assert_array_equal(dones, wanted[2])
        for place in np.flatnonzero(dones):
            num_ends += 1
            told, expected = infos[place], wanted[3][place]
            np.testing.assert_array_equal(
                told["terminal_observation"]["image"], expected["terminal_observation"]["image"]
            )
            assert told["TimeLimit.truncated"] is expected["TimeLimit.truncated"] is True
            assert told["episode"]["l"] == expected["episode"]["l"]
            assert told["episode"]["r"] == pytest.approx(expected["episode"]["r"], abs=2e-6)
            assert told["reward_tot"] == pytest.approx(expected["reward_tot"])
    assert num_ends == 4


def offered(name):
    """All values of an option of environments."""
    kind = get_type_hints(EnvironmentParams, include_extras=True)[name]
    return get_args(get_args(kind)[0])


@pytest.mark.filterwarnings("ignore:.*(observation|image)")  # advice on pictures that are learned from without care
@pytest.mark.parametrize("actions", offered("actions"))
@pytest.mark.parametrize("observation", offered("observation"))
def test_all_that_is_seen_and_done_is_learned_from(make_env, make_vector_env, observation, actions):
    check_env(make_env(observation=observation, actions=actions))
    env = StableBaselinesVecEnv(make_vector_env(4, observation=observation, actions=actions))
    policy = "MlpPolicy" if observation == "compact" else "MultiInputPolicy"
    small = {"net_arch": [8], **({"normalize_images": False} if observation == "raster" else {})}
    model = PPO(policy, env, n_steps=16, batch_size=32, n_epochs=1, device="cpu", policy_kwargs=small)
    before = {name: value.clone() for name, value in model.policy.named_parameters()}
    model.learn(64)
    assert model.num_timesteps == 64
    assert {each["l"] for each in model.ep_info_buffer} == {NUM_FRAMES - 2}
    assert all(value.isfinite().all() for value in model.policy.parameters())
    assert any((value != before[name]).any() for name, value in model.policy.named_parameters())
