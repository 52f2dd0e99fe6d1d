"""Vector environment: the same episodes to the bit as single ones, the three ways to go on, and errors."""

import copy

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402

from l5kit.cle.metrics import YawErrorMetric  # noqa: E402
from l5kit.environment import ENVIRONMENT_ID  # noqa: E402
from l5kit.environment.envs.l5_env import L5Env, SimulationConfigGym  # noqa: E402
from l5kit.environment.envs.vector_env import L5VectorEnv  # noqa: E402
from l5kit.environment.gym_metric_set import L2DisplacementYawMetricSet  # noqa: E402
from l5kit.environment.kinematic_model import UnicycleModel  # noqa: E402
from l5kit.environment.reward import L2DisplacementYawReward, Reward  # noqa: E402
from support.environments import NUM_FRAMES, assert_same, data_of, write_config  # noqa: E402

NUM_ENVS = 5
NUM_STEPS = 2 * NUM_FRAMES
MODES = list(AutoresetMode)
MODE_NAMES = [mode.value for mode in MODES]


@pytest.fixture
def make_both(city, tmp_path):
    """Function that makes a vector environment, and the same of single ones."""

    def make(num_envs=NUM_ENVS, gym_params=(), *, mode=AutoresetMode.NEXT_STEP, copies=True, **args):
        sim_cfg = SimulationConfigGym(num_simulation_steps=args.pop("num_frames", NUM_FRAMES))
        config = write_config(tmp_path, **dict(gym_params))
        args = {"env_config_path": config, "dmg": data_of(city), "sim_cfg": sim_cfg} | args
        many = L5VectorEnv(num_envs, autoreset_mode=mode, copy=copies, **args)
        return many, SyncVectorEnv([lambda: L5Env(**copy_of_parts(args))] * num_envs, autoreset_mode=mode, copy=copies)

    return make


def copy_of_parts(args):
    """Return arguments with user-defined rewards and models, which have a state."""
    return {name: copy.deepcopy(value) if name in ("reward", "kin_model") else value for name, value in args.items()}


@pytest.mark.parametrize("use_kinematic", [False, True], ids=["poses", "unicycle"])
@pytest.mark.parametrize("mode", MODES, ids=MODE_NAMES)
def test_episodes_are_those_of_single_environments(make_both, mode, use_kinematic):
    many, single = make_both(mode=mode, use_kinematic=use_kinematic, randomize_start=True)
    assert_same(many.reset(seed=17), single.reset(seed=17))
    many.action_space.seed(3)
    for _ in range(NUM_STEPS):
        actions = many.action_space.sample()
        found, expected = many.step(actions), single.step(actions)
        assert_same(found, expected)
        if mode is AutoresetMode.DISABLED and found[3].any():
            mask = {"reset_mask": found[3]}
            assert_same(many.reset(options=dict(mask)), single.reset(options=dict(mask)))
    assert len(set(many.scene_indices.tolist())) > 1


def test_whole_scenes_of_their_own_length_end_at_their_own_time(make_both, city, tmp_path):
    many, single = make_both(3, num_frames=None, randomize_start=False, train=False, rescale_action=False)
    options = {"start_frame_index": 90}
    assert_same(many.reset(seed=1, options=dict(options)), single.reset(seed=1, options=dict(options)))
    ahead = np.tile(np.array([1.0, 0.0, 0.0], np.float32), (3, 1))
    for _ in range(12):
        assert_same(many.step(ahead), single.step(ahead))


@pytest.mark.parametrize(
    "args",
    [
        {"rescale_action": False},
        {"gym_params": {"overfit": True, "overfit_id": 2}},
        {"reward": L2DisplacementYawReward(enable_clip=False, yaw_weight=0.3)},
        {"reward": L2DisplacementYawReward(rew_clip_thresh=0.5, use_yaw=False)},
        {"use_kinematic": True, "kin_model": UnicycleModel(max_acc=0.05, min_speed=0.0), "acceleration_per_step": True},
    ],
    ids=["not rescaled", "one scene", "reward not clipped", "reward clipped", "own limits"],
)
def test_arguments_mean_what_they_mean_for_single_environments(make_both, args):
    many, single = make_both(3, **args)
    assert_same(many.reset(seed=8), single.reset(seed=8))
    many.action_space.seed(1)
    for _ in range(NUM_FRAMES):
        actions = many.action_space.sample()
        assert_same(many.step(actions), single.step(actions))


def test_actions_of_double_precision_stay_so(make_both):
    many, single = make_both(2)
    for each in (many, single):
        each.reset(seed=4)
    actions = np.random.default_rng(0).uniform(-1, 1, (2, 3))
    assert_same(many.step(actions)[1:], single.step(actions)[1:])


def test_seeds_may_be_given_one_by_one(make_both):
    many, single = make_both(3)
    seeds = [5, 5, 900]
    assert_same(many.reset(seed=seeds), single.reset(seed=seeds))
    image = many.reset(seed=seeds)[0]["image"]
    np.testing.assert_array_equal(image[0], image[1])
    with pytest.raises(ValueError, match="one for each of 3 environments, got 2"):
        many.reset(seed=[1, 2])


def test_pictures_of_bytes_are_seen_as_bytes(make_both):
    many, single = make_both(2, {"image_dtype": "uint8"})
    assert many.single_observation_space == single.single_observation_space
    found = many.reset(seed=3)[0]
    assert found["image"].dtype == np.uint8
    assert found in many.observation_space
    assert_same(found, single.reset(seed=3)[0])
    actions = np.zeros((2, 3), np.float32)
    assert_same(many.step(actions), single.step(actions))


def test_gymnasium_makes_it_by_its_id(city, tmp_path):
    args = {"env_config_path": write_config(tmp_path), "dmg": data_of(city)}
    many = gymnasium.make_vec(ENVIRONMENT_ID, num_envs=3, vectorization_mode="vector_entry_point", **args)
    assert isinstance(many, L5VectorEnv)
    observation, infos = many.reset(seed=1)
    assert observation in many.observation_space
    assert infos == {}
    actions = many.action_space.sample()
    assert actions.shape == (3, 3)
    assert many.step(actions)[0] in many.observation_space
    many.close()
    many.close()


def test_observations_are_copies_or_one_array(make_both):
    for copies in (True, False):
        many, _ = make_both(2, copies=copies)
        first = many.reset(seed=1)[0]["image"]
        kept = first.copy()
        second = many.step(np.zeros((2, 3), np.float32))[0]["image"]
        assert (first is second) is not copies
        assert np.array_equal(first, kept) is copies


def test_steps_outside_of_episodes_are_refused(make_both):
    many, _ = make_both(2, mode=AutoresetMode.DISABLED)
    actions = np.zeros((2, 3), np.float32)
    with pytest.raises(RuntimeError, match=r"call reset\(\) before step\(\)"):
        many.step(actions)
    with pytest.raises(ValueError, match="leaves out environments that have no episode yet"):
        many.reset(options={"reset_mask": np.array([True, False])})
    many.reset(seed=0)
    while not many.step(actions)[3].any():
        pass
    with pytest.raises(RuntimeError, match=r"environments \[0, 1\] have ended; call reset\(options="):
        many.step(actions)
    many.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(RuntimeError, match=r"environments \[1\] have ended"):
        many.step(actions)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.array([True]), r"must be a bool array of shape \(2,\)"),
        ([True, False], r"must be a bool array of shape \(2,\)"),
        (np.array([1, 0]), r"must be a bool array of shape \(2,\)"),
        (np.array([False, False]), "marks no environment"),
    ],
)
def test_wrong_masks_are_refused(make_both, mask, message):
    many, _ = make_both(2)
    many.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        many.reset(options={"reset_mask": mask})


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((2, 2)), r"action must be numbers of shape \(2, 3\), got shape \(2, 2\)"),
        (np.zeros(3), r"numbers of shape \(2, 3\)"),
        (np.array([[0, 0, 0], [0, np.nan, 0]]), r"action of environment 1 is \[0.0, nan, 0.0\]; all of it must be"),
    ],
)
def test_wrong_actions_are_refused_and_nothing_is_lost(make_both, actions, message):
    many, single = make_both(2)
    for each in (many, single):
        each.reset(seed=6)
    with pytest.raises(ValueError, match=message):
        many.step(actions)
    good = np.zeros((2, 3), np.float32)
    assert_same(many.step(good), single.step(good))


def test_actions_of_environments_that_begin_an_episode_are_not_looked_at(make_both):
    many, _ = make_both(2)
    many.reset(seed=6)
    while not many.step(np.zeros((2, 3), np.float32))[3].any():
        pass
    _, rewards, *_, infos = many.step(np.full((2, 3), np.nan))
    assert rewards.tolist() == [0.0, 0.0]
    assert infos == {}


class OwnReward(Reward):
    """Reward of a user."""

    reward_prefix = "own"

    def reset(self):
        pass

    def get_reward(self, frame_index, simulated_outputs):
        return {"total": 0.0, "distance": 0.0, "yaw": 0.0}


class OwnMetrics(L2DisplacementYawMetricSet):
    """Metric set of a user."""

    def build_metrics(self):
        return [*super().build_metrics(), YawErrorMetric()]


class OwnModel(UnicycleModel):
    """Kinematic model of a user."""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"num_envs": 0}, "num_envs is 0; it must be 1 or more"),
        ({"sim_cfg": SimulationConfigGym(use_agents_gt=False)}, "simnet_model_path is None"),
        ({"sim_cfg": SimulationConfigGym(use_ego_gt=True)}, "use_ego_gt is True"),
        ({"reward": OwnReward()}, "works on single scenes; use single"),
        ({"reward": L2DisplacementYawReward(metric_set=OwnMetrics())}, "works on single scenes"),
        ({"kin_model": OwnModel()}, "moves a single AV; use single"),
        ({"render_mode": "rgb_array"}, "vector environments are not drawn"),
        ({"env_config_path": None}, "env_config_path is None"),
        ({"autoreset_mode": "Never"}, "Never"),
    ],
)
def test_what_only_single_environments_do_is_refused(city, tmp_path, args, message):
    config = {"env_config_path": write_config(tmp_path), "dmg": data_of(city)}
    with pytest.raises(ValueError, match=message):
        L5VectorEnv(**(config | args))


@pytest.mark.parametrize("hides", [False, True], ids=["all", "new ones hidden"])
@pytest.mark.parametrize("drives", [False, True], ids=["replayed", "driven by a network"])
def test_agents_are_those_of_single_environments(city, tmp_path, drives, hides):
    torch = pytest.importorskip("torch")
    from support.rule_models import ScriptedSteps

    path = str(tmp_path / "simnet.pt")
    torch.jit.script(ScriptedSteps(0.5)).save(path)
    reach = {"distance_th_close": 60.0, "distance_th_far": 80.0}
    sim_cfg = SimulationConfigGym(
        use_agents_gt=not drives, disable_new_agents=hides, num_simulation_steps=NUM_FRAMES, **reach
    )
    args = {"env_config_path": write_config(tmp_path), "dmg": data_of(city), "simnet_model_path": path}
    many = L5VectorEnv(3, sim_cfg=sim_cfg, **args)
    ones = SyncVectorEnv([lambda: L5Env(sim_cfg=sim_cfg, **args)] * 3)
    replayed = L5VectorEnv(3, **args, sim_cfg=SimulationConfigGym(num_simulation_steps=NUM_FRAMES))
    seen, logged = many.reset(seed=3), replayed.reset(seed=3)
    assert_same(seen, ones.reset(seed=3))
    differs = False
    for _ in range(NUM_FRAMES + 3):
        differs = differs or not np.array_equal(seen[0]["image"], logged[0]["image"])
        action = np.zeros((3, 3), np.float32)
        seen, logged = many.step(action), replayed.step(action)
        assert_same(seen, ones.step(action))
    assert differs is (drives or hides)


def test_an_episode_that_a_scene_has_no_frames_for_is_named(make_both):
    many, _ = make_both(2, randomize_start=False)
    with pytest.raises(ValueError, match="start_frame_index 95 and num_simulation_steps 12 need 107 frames, but scene"):
        many.reset(options={"start_frame_index": 95})
