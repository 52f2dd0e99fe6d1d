"""Vector environments in several threads: the bits of one, copies, and arguments that are wrong."""

import pickle

import numpy as np
import pytest

pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import data_equivalence

from l5kit.device import processor
from l5kit.environment.envs.l5_env import SimulationConfigGym
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.errors import InvalidArgumentError
from support.environments import data_of, write_config

PARAMS = {"observation": "compact", "reward": "driving", "actions": "bicycle", "others": "idm"}
NUM_ENVS = 7


@pytest.fixture
def make(city, tmp_path, monkeypatch):
    """Function that makes environments whose kernels run in a given number of threads, however few items there are."""
    monkeypatch.setattr(processor, "_LEAST_ITEMS", 1)

    def make_env(num_threads, **params):
        sim_cfg, config = SimulationConfigGym(num_simulation_steps=20), write_config(tmp_path, **PARAMS | params)
        return L5VectorEnv(NUM_ENVS, config, data_of(city), sim_cfg, num_threads=num_threads)

    return make_env


def assert_same_steps(one, other, *, num_steps=45):
    """Compare all that two environments return, and return how many episodes have ended."""
    generator, num_ended = np.random.default_rng(2), 0
    for _ in range(num_steps):
        actions = generator.uniform(-1, 1, one.action_space.shape).astype(np.float32)
        if one.action_space.dtype == np.int64:
            actions = generator.integers(0, one.single_action_space.n, NUM_ENVS)
        stepped, of_other = one.step(actions), other.step(actions)
        for mine, theirs in zip(stepped[:4], of_other[:4], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert data_equivalence(stepped[4], of_other[4], exact=True)
        np.testing.assert_array_equal(one.scene_indices, other.scene_indices)
        num_ended += np.count_nonzero(stepped[2] | stepped[3])
    return num_ended


@pytest.mark.parametrize(
    "params",
    [{}, {"others": "log", "actions": "curvature"}, {"actions": "grid", "frames_per_action": 3}],
    ids=["idm", "log", "grid"],
)
def test_the_bits_do_not_depend_on_threads(make, params):
    one, three = make(1, **params), make(3, **params)
    np.testing.assert_array_equal(one.reset(seed=4)[0], three.reset(seed=4)[0])
    assert assert_same_steps(one, three) > NUM_ENVS
    backend = three.episodes.parts.reward.backend
    assert backend is three.episodes.avs.roads.backend
    assert backend._threads is not None, "all was done in one thread"


def test_a_copy_goes_on_in_as_many_threads(make):
    env = make(3)
    env.reset(seed=1)
    env.step(np.zeros(env.action_space.shape, np.float32))
    copy = pickle.loads(pickle.dumps(env))
    assert copy.episodes.avs.roads.backend.num_threads == 3
    assert_same_steps(env, copy, num_steps=5)


def test_none_is_one_for_each_core(make, monkeypatch):
    monkeypatch.setattr("l5kit.data.jobs.scene_jobs._num_cores", lambda: 5)
    assert make(0).episodes.avs.roads.backend.num_threads == 5


@pytest.mark.parametrize("num_threads", [-1, 1.5, True, "2", None])
def test_a_wrong_number_is_named(make, num_threads):
    with pytest.raises(InvalidArgumentError, match=f"num_threads is {num_threads!r}; it must be a whole number"):
        make(num_threads)
