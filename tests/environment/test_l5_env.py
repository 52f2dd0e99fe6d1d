"""Environment of one scene: rules of Gymnasium, ends, options, what 1.5 did wrong, and errors."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from l5kit.environment import ENVIRONMENT_ID  # noqa: E402
from l5kit.environment.envs.l5_env import (  # noqa: E402
    MAX_ACC,
    MAX_STEER,
    EpisodeOutputGym,
    GymStepOutput,
    L5Env,
    SimulationConfigGym,
)
from l5kit.environment.reward import L2DisplacementYawReward, Reward  # noqa: E402
from l5kit.errors import InvalidArgumentError  # noqa: E402
from support.environments import NUM_FRAMES, SIDE_PX, data_of, write_config  # noqa: E402

AHEAD = np.array([1.0, 0.0, 0.0], np.float32)


def drive(env, action=AHEAD):
    """Step to the end of the episode and return all that steps gave."""
    steps = [env.step(action)]
    while not steps[-1].done:
        steps.append(env.step(action))
    return steps


def test_the_rules_of_gymnasium_are_kept(city, tmp_path):
    config = write_config(tmp_path)
    env = gymnasium.make(ENVIRONMENT_ID, env_config_path=config, dmg=data_of(city), render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*Official support for the `seed` function")  # kept for 1.5
        check_env(env.unwrapped)
    env.reset(seed=1)
    picture = env.render()
    assert picture.shape == (SIDE_PX[1], SIDE_PX[0], 3)
    assert picture.dtype == np.uint8
    assert picture.max() > 0


def test_what_a_constructor_without_arguments_gives(make_env):
    env = make_env(sim_cfg=None)
    assert isinstance(env.sim_cfg, SimulationConfigGym)
    assert (env.sim_cfg.num_simulation_steps, env.sim_cfg.use_agents_gt) == (33, True)
    assert isinstance(env.reward, L2DisplacementYawReward)
    assert (6, pytest.approx(0.7853981)) == (MAX_ACC, MAX_STEER)
    assert env.max_scene_id == len(env.dataset.dataset.scenes)
    assert env.randomize_start_frame is True


def test_pictures_need_not_be_square(make_env):
    """Row G11 of the defects: 1.5 took the width for both sides."""
    env = make_env()
    obs, info = env.reset(seed=1)
    assert list(obs) == ["image"]
    assert obs["image"].shape == (env.rasterizer.num_channels(), SIDE_PX[1], SIDE_PX[0])
    assert obs["image"] in env.observation_space["image"]
    assert info == {}


def test_steps_straight_on_are_a_metre_each(make_env):
    env = make_env(rescale_action=False, randomize_start=False, return_info=True)
    env.reset(seed=3)
    steps = drive(env)
    assert len(steps) == NUM_FRAMES - 2
    (output,) = steps[-1].info["sim_outs"]
    assert isinstance(output, EpisodeOutputGym)
    positions_m = output.simulated_ego["ego_translation"][1:, :2]
    assert np.linalg.norm(np.diff(positions_m, axis=0), axis=1) == pytest.approx(1.0, abs=1e-5)
    yaws_rad = output.simulated_ego_states[1:, 2].numpy()
    assert yaws_rad == pytest.approx(yaws_rad[0], abs=1e-5)
    assert all("sim_outs" not in step.info for step in steps[:-1])


def test_the_end_of_the_log_truncates(make_env):
    env = make_env()
    env.reset(seed=3)
    *others, last = drive(env)
    assert (last.terminated, last.truncated, last.done) == (False, True, True)
    assert not any(step.done for step in others)
    obs, reward, *_, info = last
    assert isinstance(last, GymStepOutput)
    assert reward == info["reward_tot"] == info["reward_dist"] + info["reward_yaw"]
    np.testing.assert_array_equal(obs["image"], env.sim_dataset.rasterise_frame_batch(NUM_FRAMES - 1)[0]["image"])


def test_states_so_far_are_those_of_the_whole_output(make_env):
    """Row G10 of the defects: rewards get states that are kept up to date, not ones built anew."""
    seen = []

    class Watching(Reward):
        reward_prefix = "watching"

        def reset(self):
            pass

        def get_reward(self, frame_index, simulated_outputs):
            (output,) = simulated_outputs
            seen.append((output.simulated_ego_states.clone(), len(output.tls_frames), output.agents_th))
            whole = env.get_episode_outputs()[0]
            np.testing.assert_array_equal(output.simulated_ego_states, whole.simulated_ego_states)
            np.testing.assert_array_equal(output.recorded_ego_states, whole.recorded_ego_states)
            return {"total": 1.0, "distance": 0.0, "yaw": 0.0}

    env = make_env(reward=Watching(), use_kinematic=True)
    env.reset(seed=4)
    steps = drive(env, np.array([0.3, 0.5, 0.0], np.float32))
    assert len(seen) == len(steps)
    assert [step.reward for step in steps] == [1.0] * len(steps)
    assert not np.array_equal(seen[0][0], seen[-1][0])


def test_a_reward_that_writes_into_the_episode_changes_nothing(make_env):
    class Meddling(L2DisplacementYawReward):
        def get_reward(self, frame_index, simulated_outputs):
            worth = super().get_reward(frame_index, simulated_outputs)
            (output,) = simulated_outputs
            output.simulated_ego_states[:] = 1000.0
            output.recorded_ego_states[:] = 0.0
            for array in (output.simulated_agents, output.recorded_ego, output.simulated_ego, output.tls_frames):
                assert not array.flags.writeable
            return worth

    driven = {}
    for reward in (L2DisplacementYawReward(), Meddling()):
        env = make_env(reward=reward)
        env.reset(seed=4)
        driven[type(reward)] = [(step.reward, step.obs["image"].sum()) for step in drive(env, AHEAD)]
    assert driven[Meddling] == driven[L2DisplacementYawReward]


def test_an_action_is_not_changed(make_env):
    """Row G3 of the defects."""
    env = make_env()
    env.reset(seed=0)
    action = AHEAD.copy()
    env.step(action)
    np.testing.assert_array_equal(action, AHEAD)


def test_without_a_closed_loop_the_reward_is_that_of_what_was_said(make_env):
    """Row G2 of the defects: 1.5 compared the log with itself."""
    closed, opened = (make_env(rescale_action=False, cle=cle, randomize_start=False) for cle in (True, False))
    for env in (closed, opened):
        env.reset(seed=5)
    far = np.array([8.0, 0.0, 0.0], np.float32)
    first, same = closed.step(far), opened.step(far)
    assert first.reward == same.reward < -1
    assert opened.step(far).reward != closed.step(far).reward
    (output,) = opened.get_episode_outputs()
    np.testing.assert_array_equal(output.simulated_ego, output.recorded_ego)


def test_overfitting_stays_on_its_scene(make_env):
    """Row G4 of the defects: 1.5 left the scene after the first episode."""
    env = make_env({"overfit": True, "overfit_id": 1})
    scenes = []
    for _ in range(3):
        env.reset()
        scenes.append(env.scene_index)
    assert scenes == [1, 1, 1]


@pytest.mark.parametrize(
    ("in_file", "argument", "train", "expected"),
    [
        (None, None, True, True),
        (False, "config", True, False),
        (False, False, True, False),
        (False, True, True, True),
        (True, None, False, False),
        (False, None, False, False),
    ],
)
def test_who_says_where_episodes_start(make_env, in_file, argument, train, expected):
    env = make_env({} if in_file is None else {"randomize_start_frame": in_file}, randomize_start=argument, train=train)
    assert env.randomize_start_frame is expected
    starts = set()
    for seed in range(6):
        env.reset(seed=seed)
        starts.add(env.sim_cfg.start_frame_index)
    assert (len(starts) > 1) is expected


@pytest.mark.parametrize(("step_time_s", "fps"), [(0.1, 10), (0.5, 2), (3.0, 1)])
def test_pictures_play_at_the_rate_of_the_steps(city, tmp_path, step_time_s, fps):
    cfg = json.loads(Path(write_config(tmp_path)).read_text())
    cfg["model_params"]["step_time"] = step_time_s
    (tmp_path / "gym.yaml").write_text(json.dumps(cfg))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the log has ten frames a second
        env = L5Env(str(tmp_path / "gym.yaml"), data_of(city))
    assert env.metadata["render_fps"] == fps
    assert type(env).metadata["render_fps"] == 10


def test_the_key_of_1_5_has_no_effect_as_there_and_a_warning_names_it(make_env):
    """Row G5 of the defects: scripts of 1.5 train anywhere in the scenes though their gym_config.yaml says false."""
    with pytest.warns(RuntimeWarning, match=r"gym_params\.randomize_start_frame is false") as told:
        env = make_env({"randomize_start_frame": False})
    assert len(told) == 1
    assert env.randomize_start_frame is True


def test_environments_that_1_5_did_not_have_obey_the_key(make_env):
    assert make_env({"randomize_start_frame": False, "others": "idm"}).randomize_start_frame is False


def test_another_start_than_there_is_is_refused(make_env):
    with pytest.raises(InvalidArgumentError, match="randomize_start is 'first'"):
        make_env(randomize_start="first")


def test_a_configuration_of_a_simulation_is_not_changed(make_env):
    """Row G6 of the defects."""
    sim_cfg = SimulationConfigGym(num_simulation_steps=NUM_FRAMES)
    env = make_env(sim_cfg=sim_cfg)
    for seed in range(4):
        env.reset(seed=seed)
    assert sim_cfg.start_frame_index == 0
    assert env.sim_cfg.start_frame_index > 0


def test_scene_and_start_of_an_episode_can_be_given(make_env):
    env = make_env()
    env.reset(seed=9)
    drawn = env.np_random.integers(0, 1000)
    obs, _ = env.reset(seed=9, options={"scene_id": 2, "start_frame_index": 7})
    assert (env.scene_index, env.sim_cfg.start_frame_index) == (2, 7)
    assert env.np_random.integers(0, 1000) == drawn, "what is drawn later does not hang on options"
    again, _ = env.reset(options={"scene_id": 2, "start_frame_index": 7})
    np.testing.assert_array_equal(obs["image"], again["image"])


def test_a_start_that_is_asked_for_is_that_of_one_episode(make_env):
    env = make_env(randomize_start=False)
    starts = []
    for options in ({"start_frame_index": 9}, None, {"start_frame_index": 9}, {"start_frame_index": 4}, None):
        env.reset(options=options)
        starts.append(env.sim_cfg.start_frame_index)
    assert starts == [9, 0, 9, 4, 0]
    env.sim_cfg.start_frame_index = 20
    env.reset()
    assert env.sim_cfg.start_frame_index == 20, "who sets it, as scripts of 1.5 do, sets it for good"


def test_scenes_come_in_order_from_a_reset_id_on(make_env):
    env = make_env()
    env.set_reset_id(1)
    scenes = []
    for _ in range(3):
        env.reset()
        scenes.append(env.scene_index)
    assert scenes == [1, 2, 2], "the last one stays"
    env.set_reset_id()
    assert env.reset_scene_id is None


def test_acceleration_may_be_that_of_a_second(make_env):
    """Row G1 of the defects: in 1.5 the action 1 means 60 m/s2."""
    old, new = make_env(use_kinematic=True), make_env(use_kinematic=True, acceleration_per_step=True)
    assert old.kin_rescale.acc_scale == pytest.approx(0.6)
    assert new.kin_rescale.acc_scale == pytest.approx(0.06)
    assert old.kin_rescale.steer_scale == new.kin_rescale.steer_scale == pytest.approx(MAX_STEER * 0.1)


def test_agents_may_be_driven(make_env, tmp_path):
    torch = pytest.importorskip("torch")
    from support.rule_models import ScriptedSteps

    path = str(tmp_path / "simnet.pt")
    torch.jit.script(ScriptedSteps(0.5)).save(path)
    sim_cfg = SimulationConfigGym(
        use_agents_gt=False, num_simulation_steps=6, distance_th_close=60.0, distance_th_far=80.0
    )
    env = make_env(sim_cfg=sim_cfg, simnet_model_path=path, randomize_start=False)
    env.reset(options={"scene_id": 0})
    with pytest.raises(ValueError, match="finite"):
        env.step([np.nan, 0, 0])  # moves nothing
    drive(env)
    (output,) = env.get_episode_outputs()
    assert len(output.agents_ins_outs) == 4
    assert sum(map(len, output.agents_ins_outs)) > 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"render_mode": "human"}, "render_mode is 'human'; it must be 'rgb_array' or None"),
        ({"gym_params": {"max_scene_id": 99}}, "asks for 99 scenes, but .* has 3"),
        ({"gym_params": {"overfit": True, "overfit_id": 5}}, "overfit_id is 5; there are scenes 0 to 2"),
        ({"gym_params": {"max_scene_id": 0}}, "max_scene_id"),
        ({"sim_cfg": SimulationConfigGym(use_agents_gt=False)}, "simnet_model_path is None"),
        ({"sim_cfg": SimulationConfigGym(use_ego_gt=True)}, "use_ego_gt is True"),
        ({"sim_cfg": SimulationConfigGym(num_simulation_steps=5000)}, "5000"),
    ],
)
def test_wrong_arguments_are_refused(make_env, args, message):
    with pytest.raises(ValueError, match=message):
        make_env(**args)


def test_an_environment_needs_a_configuration():
    """Row G7 of the defects: 1.5 made an object without spaces."""
    with pytest.raises(ValueError, match="env_config_path is None; pass the YAML file"):
        L5Env()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scene_id": 3}, r"options\['scene_id'\] is 3; there are scenes 0 to 2"),
        ({"scene_id": -1}, "there are scenes 0 to 2"),
        ({"scene_id": 1.5}, "is 1.5; it must be a whole number"),
        ({"start_frame_index": -1}, "it must be 0 or more"),
        ({"start_frame_index": 10_000}, "10000"),
        ({"scene": 1}, "options has scene; it may have scene_id and start_frame_index"),
    ],
)
def test_wrong_options_are_refused(make_env, options, message):
    with pytest.raises(ValueError, match=message):
        make_env().reset(options=options)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([np.nan, 0, 0], "all of it must be finite"),
        ([0, np.inf, 0], "all of it must be finite"),
        ([0, 0], r"action must be 3 numbers, got shape \(2,\)"),
        ([[0, 0, 0]], "action must be 3 numbers"),
        (["a", "b", "c"], "action must be 3 numbers"),
        (None, "action must be 3 numbers"),
    ],
)
def test_wrong_actions_are_refused_and_the_episode_goes_on(make_env, action, message):
    env, other = make_env(), make_env()
    for each in (env, other):
        each.reset(seed=2)
    with pytest.raises(ValueError, match=message):
        env.step(action)
    assert env.step(AHEAD).reward == other.step(AHEAD).reward


def test_a_reset_that_is_refused_leaves_no_episode(make_env):
    env = make_env(randomize_start=False)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="10000"):
        env.reset(options={"start_frame_index": 10_000})
    with pytest.raises(RuntimeError, match=r"call reset\(\) before step"):
        env.step(AHEAD)
    env.reset()
    assert env.sim_cfg.start_frame_index == 0


def test_actions_beyond_the_space_are_scaled_like_others(make_env):
    env = make_env(randomize_start=False)
    env.reset(seed=2)
    env.step(np.array([3.0, 0.0, 0.0], np.float32))
    scales = env.non_kin_rescale
    assert env.ego_output_dict["positions"][0, 0, 0] == pytest.approx(scales.x_mu + 3 * scales.x_scale, rel=1e-6)


def test_steps_outside_of_an_episode_are_refused(make_env):
    """Row G17 of the defects: 1.5 raised an index error."""
    env = make_env(render_mode="rgb_array")
    for ask in (lambda: env.step(AHEAD), env.get_episode_outputs, env.render):
        with pytest.raises(RuntimeError, match=r"call reset\(\) before"):
            ask()
    env.reset(seed=1)
    drive(env)
    with pytest.raises(RuntimeError, match=r"has ended; call reset\(\) before step\(\)"):
        env.step(AHEAD)
    env.reset()
    assert not env.step(AHEAD).done


def test_an_episode_needs_three_frames(make_env):
    with pytest.raises(ValueError, match="needs 3 frames or more, got 2 of scene"):
        make_env(num_frames=2, rescale_action=False, use_kinematic=True).reset()


def test_a_scene_that_is_too_short_for_a_random_start_is_named(make_env):
    env = make_env(use_kinematic=True, num_frames=5000)
    with pytest.raises(ValueError, match=r"num_simulation_steps is 5000, but scene \d has \d+ frames; take fewer"):
        env.reset()


def test_closing_twice_is_fine(make_env):
    env = make_env()
    env.close()
    env.close()


@pytest.mark.parametrize("use_kinematic", [False, True])
def test_the_same_seed_gives_the_same_episode(make_env, use_kinematic):
    rewards = []
    for _ in range(2):
        env = make_env(use_kinematic=use_kinematic)
        env.reset(seed=21)
        env.action_space.seed(5)
        steps = [env.step(env.action_space.sample()) for _ in range(NUM_FRAMES - 2)]
        rewards.append([step.reward for step in steps])
    assert rewards[0] == rewards[1]
