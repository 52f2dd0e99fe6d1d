"""Faults around environments: wrong actions and calls, damaged scenes, processes, threads, copies."""

import copy
import pickle
import threading

import numba
import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.vector import AsyncVectorEnv  # noqa: E402

from l5kit.environment.envs.l5_env import L5Env, SimulationConfigGym  # noqa: E402
from l5kit.environment.envs.vector_env import L5VectorEnv  # noqa: E402
from l5kit.environment.kinematic_model import UnicycleModel  # noqa: E402
from l5kit.environment.rewards.step_reward import StepOutcome  # noqa: E402
from l5kit.environment.setup import ACTIONS, OBSERVATIONS  # noqa: E402
from l5kit.errors import EpisodeEndedError, InvalidArgumentError  # noqa: E402
from support.environments import NUM_FRAMES, assert_same, data_of, write_config  # noqa: E402

COMPACT = {"observation": "compact", "actions": "bicycle", "reward": "driving", "others": "idm"}
SHORT = 6


def make_one(folder, config, *, num_frames=NUM_FRAMES, **args):
    return L5Env(config, data_of(folder), SimulationConfigGym(num_simulation_steps=num_frames), **args)


def make_many(folder, config, *, num_frames=NUM_FRAMES, num_envs=3, **args):
    sim_cfg = SimulationConfigGym(num_simulation_steps=num_frames)
    return L5VectorEnv(num_envs, config, data_of(folder), sim_cfg, **args)


@pytest.fixture(params=[make_one, make_many], ids=["single", "vector"])
def make(request, city, tmp_path):
    """Function that makes an environment, single or vector."""
    return lambda **args: request.param(city, write_config(tmp_path), **args)


def wrong_actions(env):
    """Actions that are none, of a space of arrays."""
    good = np.zeros(env.action_space.shape)
    bad = {name: good.copy() for name in ("nan", "inf", "minus inf", "absurd")}
    for action, value in zip(bad.values(), (np.nan, np.inf, -np.inf, 1e308), strict=True):
        action.flat[max(action.size - 2, 0)] = value
    bad |= {"short": good[..., :-1], "deep": good[None], "texts": np.full(good.shape, "a"), "none": None}
    return bad | {"complex": good.astype(complex), "objects": good.astype(object)}


@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("observation", ["raster", "compact"])
def test_wrong_actions_change_nothing(make, observation, actions):
    args = {"observation": observation, "actions": actions, "rescale_action": False, "randomize_start": False}
    if observation == "compact":
        args |= {"reward": "driving", "others": "idm"}
    env, other = make(**args), make(**args)
    for each in (env, other):
        each.reset(seed=3)
    env.action_space.seed(1)
    num = getattr(env, "num_envs", None)
    if actions == "grid":
        numbers = {"below": -1, "above": 63, "half": 1.5, "nan": np.nan, "text": "1", "none": None, "flag": True}
        bad = {name: value if num is None else [0, value, 1] for name, value in numbers.items()}
        if num is not None:
            del bad["flag"]  # NumPy converts it to a number when mixed with numbers
        bad["deep"] = [[0]] if num is None else [[0, 1, 2]]
    else:
        bad = wrong_actions(env)
        if actions != "poses":
            del bad["absurd"]  # models have limits
    for action in bad.values():
        with pytest.raises(InvalidArgumentError):
            env.step(action)
        good = env.action_space.sample()
        assert_same(tuple(env.step(good)), tuple(other.step(good)))


class Unlimited(UnicycleModel):
    """Unicycle of a user, without limits."""

    def __init__(self):
        super().__init__(max_acc=np.inf, min_acc=-np.inf, max_steer=np.inf, min_steer=-np.inf)


def test_what_no_float_holds_is_refused_by_models_without_limits(city, tmp_path):
    args = {"actions": "kinematic", "kin_model": Unlimited(), "rescale_action": False, "randomize_start": False}
    env = make_one(city, write_config(tmp_path), **args)
    other = make_one(city, write_config(tmp_path), **(args | {"kin_model": Unlimited()}))
    for each in (env, other):
        each.reset(seed=3)
    with pytest.raises(InvalidArgumentError, match="finite"):
        env.step([0.0, 1e308, 0.0])
    with pytest.raises(InvalidArgumentError, match="finite"):
        env.step([0.0, 1e308, 0.0])
    good = np.array([0.01, 0.1, 0.0], np.float32)
    assert_same(tuple(env.step(good)), tuple(other.step(good)))


@pytest.mark.parametrize(
    "args", [{}, COMPACT, {"observation": "vectors", "actions": "grid"}], ids=["raster", "compact", "vectors"]
)
def test_steps_are_of_episodes(make, args):
    env = make(**args, num_frames=SHORT)
    action = env.action_space.sample()
    with pytest.raises(EpisodeEndedError, match=r"call reset\(\) before step"):
        env.step(action)
    env.reset(seed=1)
    for _ in range(SHORT - 2):
        step = env.step(action)
    assert np.all(step[3])
    if isinstance(env, L5Env):
        for _ in range(2):
            with pytest.raises(EpisodeEndedError, match="has ended; call reset"):
                env.step(action)
        env.reset()
    assert not np.any(env.step(action)[3])


def test_other_modes_of_autoreset_are_refused(city, tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"did you mean .SameStep.\?\); it must be one of NextStep"):
        make_many(city, write_config(tmp_path), autoreset_mode="samestep", **COMPACT)


def test_without_autoreset_a_reset_is_called(city, tmp_path):
    env = make_many(city, write_config(tmp_path), num_frames=SHORT, autoreset_mode="Disabled", **COMPACT)
    env.reset(seed=1)
    action = env.action_space.sample()
    for _ in range(SHORT - 2):
        env.step(action)
    with pytest.raises(EpisodeEndedError, match=r"environments \[0, 1, 2\] have ended"):
        env.step(action)
    before = env.scene_indices.copy(), env.frame_indices.copy()
    with pytest.raises(InvalidArgumentError, match=r"options\['scene_id'\] is 3; there are scenes 0 to 2"):
        env.reset(options={"reset_mask": np.array([True, False, False]), "scene_id": 3})
    np.testing.assert_array_equal(before, (env.scene_indices, env.frame_indices))
    with pytest.raises(EpisodeEndedError, match="have ended"):
        env.step(action)
    env.reset()
    env.step(action)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (5, "options is 5; pass a dictionary, or None"),
        (["scene_id"], r"options is \['scene_id'\]; pass a dictionary"),
        ("scene_id", "options is 'scene_id'; pass a dictionary"),
        ({"scene_id": 3}, r"options\['scene_id'\] is 3; there are scenes 0 to 2"),
        ({"scene_id": -1}, r"options\['scene_id'\] is -1; there are scenes"),
        ({"scene_id": 10**30}, "there are scenes 0 to 2"),
        ({"scene_id": 1.0}, "it must be a whole number"),
        ({"scene_id": True}, "it must be a whole number"),
        ({"scene_id": None}, "it must be a whole number"),
        ({"start_frame_index": -1}, "it must be 0 or more"),
        ({"start_frame_index": 89}, "start_frame_index 89 and num_simulation_steps 12 need 101 frames, but scene"),
        ({"start_frame_index": 10**30}, "need 10+12 frames, but scene"),
        ({"start": 4}, "options has start; it may have scene_id and start_frame_index"),
        ({1: 4}, "options has 1; it may have"),
    ],
)
def test_wrong_options_of_resets_are_refused(make, options, message):
    env = make(**COMPACT)
    with pytest.raises(InvalidArgumentError, match=message):
        env.reset(options=options)
    env.reset(seed=2, options={"start_frame_index": 88})
    env.step(env.action_space.sample())


def test_a_start_before_the_scene_is_refused(city, tmp_path):
    sim_cfg = SimulationConfigGym(num_simulation_steps=NUM_FRAMES, start_frame_index=-3)
    for made in (L5Env, lambda *args, **more: L5VectorEnv(2, *args, **more)):
        env = made(write_config(tmp_path), data_of(city), sim_cfg, randomize_start=False, **COMPACT)
        with pytest.raises(InvalidArgumentError, match="start_frame_index of sim_cfg is -3; it must be 0 or more"):
            env.reset()


@pytest.mark.parametrize("seed", ["abc", 1.5, [1, 2], [1, 2, "x"], {1, 2, 3}, -1, [1, 2, -3]])
def test_wrong_seeds_are_refused_and_change_nothing(city, tmp_path, seed):
    env, other = (make_many(city, write_config(tmp_path), **COMPACT) for _ in range(2))
    for each in (env, other):
        each.reset(seed=4)
    with pytest.raises((InvalidArgumentError, gymnasium.error.Error)):
        env.reset(seed=seed)
    assert_same(env.reset(), other.reset())


def test_seeds_may_be_of_numpy(city, tmp_path):
    env = make_many(city, write_config(tmp_path), **COMPACT)
    expected = env.reset(seed=[4, 5, 6])
    assert_same(env.reset(seed=np.arange(4, 7)), expected)
    assert_same(env.reset(seed=np.int64(4)), expected)


@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_seeds_repeat_episodes_and_others_do_not(make, observation, actions):
    args = {"observation": observation, "actions": actions, "reward": "driving", "num_frames": SHORT}
    env, again = make(**args), make(**args)

    def drive(env, seed):
        seen = [env.reset(seed=seed)]
        env.action_space.seed(seed)
        for _ in range(SHORT - 2):
            seen.append(tuple(env.step(env.action_space.sample())))
        return seen

    first = drive(env, 3)
    for found, expected in zip(drive(again, 3), first, strict=True):
        assert_same(found, expected)
    for found, expected in zip(drive(env, 3), first, strict=True):
        assert_same(found, expected)
    other = drive(again, 40)
    assert not all(np.array_equal(one[1], two[1]) for one, two in zip(other[1:], first[1:], strict=True))


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
@pytest.mark.parametrize(
    "args", [{}, {"observation": "vectors", "actions": "kinematic"}, COMPACT], ids=["raster", "vectors", "compact"]
)
def test_copies_go_on_as_the_original_does_and_leave_it_alone(make, args, copied):
    env, other = make(**args, num_frames=SHORT), make(**args, num_frames=SHORT)
    env.action_space.seed(2)
    for each in (env, other):
        each.reset(seed=2)
    actions = [env.action_space.sample() for _ in range(SHORT - 2)]
    for each in (env, other):
        each.step(actions[0])
    twin = copied(env)
    expected = [tuple(other.step(action)) for action in actions[1:]] + [other.reset()]
    for each in (twin, env):
        for action, wanted in zip(actions[1:], expected, strict=False):
            assert_same(tuple(each.step(action)), wanted)
        assert_same(each.reset(), expected[-1])


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
def test_copies_need_no_kernels_of_their_own(city, tmp_path, copied):
    """Kernels are compiled for each type of array, and one that may be written to is of another type."""
    env = make_many(city, write_config(tmp_path), **COMPACT)
    env.reset(seed=1)
    first, twin = env.episodes.parts, copied(env).episodes.parts
    assert numba.typeof(twin.view._seen_map) == numba.typeof(first.view._seen_map)
    assert numba.typeof(twin.reward.rules(0.1)) == numba.typeof(first.reward.rules(0.1))


@pytest.mark.parametrize("args", [{}, COMPACT], ids=["raster", "compact"])
def test_closing_twice_closes_nothing_that_is_needed(make, args):
    env = make(**args)
    env.reset(seed=1)
    env.close()
    env.close()
    env.step(env.action_space.sample())


def test_threads_with_environments_of_their_own_do_not_disturb_each_other(city, tmp_path):
    config = write_config(tmp_path)
    kinds = [COMPACT, {"actions": "bicycle"}, COMPACT | {"others": "log"}]

    def drive(args):
        env = make_many(city, config, autoreset_mode="SameStep", num_frames=SHORT, **args)
        env.action_space.seed(0)
        seen = [env.reset(seed=1)]
        return seen + [env.step(env.action_space.sample()) for _ in range(4 * SHORT)]

    alone, found = [drive(args) for args in kinds], {}

    def note(place):
        found[place] = drive(kinds[place])

    threads = [threading.Thread(target=note, args=(place,)) for place in range(len(kinds))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place, expected in enumerate(alone):
        for one, other in zip(found[place], expected, strict=True):
            assert_same(one, other)


def drive_in_processes(env, expected, seed):
    """Step an environment of processes and compare it with one of none."""
    try:
        assert_same(env.reset(seed=seed)[0], expected.reset(seed=seed)[0])
        expected.action_space.seed(0)
        for _ in range(SHORT + 1):
            actions = expected.action_space.sample()
            for one, other in zip(env.step(actions)[:4], expected.step(actions)[:4], strict=True):
                np.testing.assert_array_equal(one, other)
    finally:
        env.close()


class MakeOne:
    """Makes a single environment in a process."""

    def __init__(self, folder, config):
        self.folder, self.config = str(folder), config

    def __call__(self):
        return make_one(self.folder, self.config, num_frames=SHORT, **COMPACT)


@pytest.mark.process
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_processes_of_gymnasium_step_environments(city, tmp_path, context):
    config = write_config(tmp_path)
    expected = make_many(city, config, num_envs=2, num_frames=SHORT, **COMPACT)
    drive_in_processes(AsyncVectorEnv([MakeOne(city, config)] * 2, context=context), expected, 6)


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_processes_of_stable_baselines_step_environments(city, tmp_path, context):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import SubprocVecEnv

    config = write_config(tmp_path)
    env = SubprocVecEnv([MakeOne(city, config)] * 2, start_method=context)
    expected = make_many(city, config, num_envs=2, num_frames=SHORT, autoreset_mode="SameStep", **COMPACT)
    try:
        env.seed(3)
        np.testing.assert_array_equal(env.reset(), expected.reset(seed=3)[0])
        expected.action_space.seed(0)
        for _ in range(SHORT + 1):
            actions = expected.action_space.sample()
            seen, rewards, is_over, _ = env.step(actions)
            wanted = expected.step(actions)
            np.testing.assert_array_equal(seen, wanted[0])
            np.testing.assert_array_equal(rewards, wanted[1])
            np.testing.assert_array_equal(is_over, wanted[3])
    finally:
        env.close()


class Failing:
    """Reward of a user that fails on request."""

    terms = ("none",)
    fails = False

    def begin(self, slots, step):
        pass

    def of_step(self, slots, step):
        if self.fails:
            raise RuntimeError("no reward")
        zeros = np.zeros(len(slots))
        return StepOutcome(zeros, zeros[:, None], zeros > 0, {})


@pytest.mark.parametrize("num_steps", [0, 1, SHORT - 3])
def test_a_reward_that_fails_leaves_episodes_that_go_on_or_have_ended(make, num_steps):
    reward = Failing()
    env = make(reward=reward, actions="bicycle", observation="compact", num_frames=SHORT)
    env.reset(seed=0)
    action = env.action_space.sample()
    for _ in range(num_steps):
        env.step(action)
    reward.fails = True
    with pytest.raises(RuntimeError, match="no reward"):
        env.step(action)
    reward.fails = False
    if num_steps < SHORT - 3:
        step = env.step(action)
        assert np.all(step[3]) == (num_steps == SHORT - 4)
    elif isinstance(env, L5Env):
        with pytest.raises(EpisodeEndedError, match="has ended"):
            env.step(action)
    else:
        env.step(action)
        assert (env.frame_indices == 1).all(), "the next episodes"
    env.reset()
    for _ in range(SHORT - 2):
        step = env.step(action)
    assert np.all(step[3])


def test_an_episode_of_two_frames_is_refused(make):
    with pytest.raises(InvalidArgumentError, match=r"2 frames.*num_simulation_steps"):
        make(num_frames=2)
