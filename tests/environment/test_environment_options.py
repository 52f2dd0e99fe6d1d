"""Options of environments: each observation with each kind of actions, rewards and objects of one's own, and errors."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import spaces  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402

from l5kit.data import ChunkedDataset  # noqa: E402
from l5kit.data.record_sequence import rows_of  # noqa: E402
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL, FRAME_INTERVAL  # noqa: E402
from l5kit.environment.envs.l5_env import L5Env, SimulationConfigGym  # noqa: E402
from l5kit.environment.envs.vector_env import L5VectorEnv  # noqa: E402
from l5kit.environment.model_actions import ModelActions  # noqa: E402
from l5kit.environment.reward import Reward  # noqa: E402
from l5kit.environment.rewards.driving_reward import DrivingReward  # noqa: E402
from l5kit.environment.rewards.step_reward import DrivenStep, StepOutcome  # noqa: E402
from l5kit.environment.setup import ACTIONS, OBSERVATIONS  # noqa: E402
from l5kit.errors import ConfigError, InvalidArgumentError, UnsupportedValueError  # noqa: E402
from l5kit.simulation.vehicle_models import PoseChange  # noqa: E402
from support.environments import NUM_FRAMES, assert_same, data_of, write_config  # noqa: E402
from support.logs import log_of, scenes_of, write_with_chunks  # noqa: E402

MODES = list(AutoresetMode)
SHORT = 7


def make_one(folder, config, **args):
    args.setdefault("sim_cfg", SimulationConfigGym(num_simulation_steps=args.pop("num_frames", NUM_FRAMES)))
    return L5Env(config, data_of(folder), **args)


def make_many(folder, config, num_envs=3, **args):
    args.setdefault("sim_cfg", SimulationConfigGym(num_simulation_steps=args.pop("num_frames", NUM_FRAMES)))
    return L5VectorEnv(num_envs, config, data_of(folder), **args)


@pytest.fixture(params=[make_one, make_many], ids=["single", "vector"])
def make(request, city, tmp_path):
    """Function that makes an environment, single or vector."""
    return lambda **args: request.param(city, write_config(tmp_path), **args)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"observation": 5}, "observation is 5; it must be one of raster, vectors, compact"),
        ({"observation": "Raster"}, r"observation is 'Raster' \(did you mean 'raster'\?\); it must be one of"),
        ({"others": True}, "others is True; it must be one of log, idm"),
        ({"others": ["idm"]}, r"others is \['idm'\]; it must be one of log, idm, cautious"),
        ({"actions": 5}, "actions is 5; it must be .* or an object with space, checked, begin, move"),
        ({"actions": "fly"}, "actions is 'fly'; it must be one of poses, kinematic"),
        ({"reward": 5}, "reward is 5; it must be .* or an object with terms, begin, of_step"),
        ({"reward": "most"}, "reward is 'most'; it must be one of displacement, driving"),
        ({"ends_at": 5}, "ends_at is 5; pass a list of some of collision, off_road"),
        ({"ends_at": "collision"}, "ends_at is 'collision'; pass a list"),
        ({"ends_at": ["contact"], "reward": "driving"}, r"ends_at is \['contact'\]; pass a list"),
        ({"ends_at": [["collision"]], "reward": "driving"}, "pass a list of some of"),
        ({"ends_at": ["collision"]}, "only the reward 'driving' ends episodes early, and reward is 'displacement'"),
        ({"use_kinematic": True, "actions": "bicycle"}, "use_kinematic is True, but actions is 'bicycle'"),
    ],
)
def test_options_that_are_none_are_refused(make, args, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make(**args)


@pytest.mark.parametrize("maker", [make_one, make_many], ids=["single", "vector"])
@pytest.mark.parametrize("actions", ["poses", "curvature"])
@pytest.mark.parametrize("observation", ["vectors", "compact"])
def test_without_pictures_the_configuration_need_not_say_how_they_are(maker, actions, observation, city, tmp_path):
    path = Path(write_config(tmp_path))
    cfg = json.loads(path.read_text())
    for key in ("raster_size", "pixel_size", "ego_center", "map_type", "set_origin_to_bottom"):
        del cfg["raster_params"][key]
    path.write_text(json.dumps(cfg))
    env = maker(city, str(path), observation=observation, actions=actions)
    env.reset(seed=1)
    env.step(env.action_space.sample())


@pytest.mark.parametrize("args", [{"observation": "compact"}, {"reward": "driving"}])
def test_hidden_agents_are_for_rasters_and_their_reward(city, tmp_path, args):
    sim_cfg = SimulationConfigGym(disable_new_agents=True, num_simulation_steps=NUM_FRAMES)
    with pytest.raises(UnsupportedValueError, match="disable_new_agents=True need"):
        make_one(city, write_config(tmp_path), sim_cfg=sim_cfg, actions="bicycle", **args)


@pytest.mark.parametrize("kind", [L5Env, partial(L5VectorEnv, 2)], ids=["single", "vector"])
def test_a_folder_is_no_data_manager(kind, city, tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"pass LocalDataManager\('.*'\)"):
        kind(write_config(tmp_path), str(city))


def test_who_goes_backwards_by_poses_has_a_speed_below_0(city, tmp_path):
    env = make_many(city, write_config(tmp_path), 1, observation="compact", actions="poses", rescale_action=False)
    env.reset(seed=2)
    env.step(np.array([[-1.0, 0.0, 0.0]], np.float32))
    motions = env.episodes.avs.arrays.motions
    assert motions[0, 0] == pytest.approx(-10.0)
    env.step(np.array([[-1.0, 0.0, 0.0]], np.float32))
    assert motions[0, 1] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("maker", [make_one, make_many], ids=["single", "vector"])
def test_another_step_time_than_that_of_the_log_is_refused_where_others_are_driven(maker, city, tmp_path):
    path = Path(write_config(tmp_path))
    cfg = json.loads(path.read_text())
    cfg["model_params"]["step_time"] = 0.2
    path.write_text(json.dumps(cfg))
    with pytest.raises(
        InvalidArgumentError, match=r"step_time is 0\.2, but .* says that 0\.1 s lie between its frames"
    ):
        maker(city, str(path), observation="compact", actions="curvature")


@pytest.mark.parametrize("num_envs", [2.0, "2", True, -1, None])
def test_numbers_of_environments_are_whole_and_above_0(city, tmp_path, num_envs):
    with pytest.raises(InvalidArgumentError, match=r"num_envs is .*; it must be 1 or more"):
        make_many(city, write_config(tmp_path), num_envs)


def test_the_configuration_says_what_arguments_do_not(city, tmp_path):
    said = {"observation": "compact", "actions": "grid", "reward": "driving", "ends_at": ["off_road"]}
    config = write_config(tmp_path, others="idm", num_simulation_steps=5, **said)
    env = L5Env(config, data_of(city))
    assert env.observation_space.shape == (390,)
    assert env.action_space == spaces.Discrete(63)
    assert (env.options.others, env.sim_cfg.num_simulation_steps, tuple(env.options.ends_at)) == (
        "idm",
        5,
        ("off_road",),
    )
    other = L5Env(config, data_of(city), actions="bicycle", ends_at=(), others="log")
    assert other.action_space.shape == (2,)
    assert other.options.ends_at == ()
    with pytest.raises(InvalidArgumentError, match=r"reward is 'displacement'; pass reward='driving' or ends_at=\(\)"):
        L5Env(config, data_of(city), reward="displacement")


@pytest.mark.filterwarnings("ignore:.*Official support for the `seed` function")
@pytest.mark.filterwarnings("ignore:.*A Box observation space m..imum value is")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_the_rules_of_gymnasium_are_kept_by_all_kinds(city, tmp_path, observation, actions):
    reward = "driving" if actions in ("bicycle", "poses") else "displacement"
    env = make_one(city, write_config(tmp_path), observation=observation, actions=actions, reward=reward, num_frames=5)
    check_env(env, skip_render_check=True)


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_pictures_are_of_the_raster_whatever_is_seen(city, tmp_path, observation):
    config = write_config(tmp_path)
    args = {"observation": observation, "actions": "bicycle", "render_mode": "rgb_array", "randomize_start": False}
    env = make_one(city, config, **args)
    raster = make_one(city, config, **(args | {"observation": "raster"}))
    for each in (env, raster):
        each.reset(seed=2, options={"scene_id": 1})
        each.step(np.array([1.0, 0.5], np.float32))
    picture = env.render()
    assert picture.std() > 10, "something is drawn"
    np.testing.assert_array_equal(picture, raster.render())


KINDS = [
    (observation, actions, ("driving", "displacement")[number % 2], ("log", "idm")[is_idm], mode)
    for observation in OBSERVATIONS
    for number, actions in enumerate(ACTIONS)
    for is_idm in (observation == "compact" or number > 2,)
    for mode in (MODES if observation == "compact" else MODES[number % 3 : number % 3 + 1])
]


def run_both(many, single, *, seed, num_steps, factor=1):
    """Step vector and single environments alike, and compare all that they return."""
    assert_same(many.reset(seed=seed), single.reset(seed=seed))
    many.action_space.seed(seed)
    num_ends = np.zeros(2, np.int64)
    for _ in range(num_steps):
        actions = factor * many.action_space.sample()
        found = many.step(actions)
        assert_same(found, single.step(actions))
        assert many.observation_space.contains(found[0])
        is_over = found[2] | found[3]
        num_ends += found[2].sum(), found[3].sum()
        if many.autoreset_mode is AutoresetMode.DISABLED and is_over.any():
            mask = {"reset_mask": is_over}
            assert_same(many.reset(options=dict(mask)), single.reset(options=dict(mask)))
    return num_ends


def make_both(folder, config, *, mode, num_envs=3, **args):
    """A vector environment, and the same of single ones."""
    many = make_many(folder, config, num_envs, autoreset_mode=mode, **args)
    return many, SyncVectorEnv([lambda: make_one(folder, config, **args)] * num_envs, autoreset_mode=mode)


@pytest.mark.parametrize(
    ("observation", "actions", "reward", "others", "mode"),
    KINDS,
    ids=["-".join((*kind[:4], kind[4].value)) for kind in KINDS],
)
def test_many_give_what_single_ones_give(city, tmp_path, observation, actions, reward, others, mode):
    args = {"observation": observation, "actions": actions, "reward": reward, "others": others, "num_frames": SHORT}
    many, single = make_both(city, write_config(tmp_path), mode=mode, **args)
    assert many.single_observation_space == single.single_observation_space
    assert many.single_action_space == single.single_action_space
    num_ends = run_both(many, single, seed=5, num_steps=2 * SHORT)
    assert num_ends[0] == 0
    assert num_ends[1] >= 3


@pytest.mark.parametrize("mode", MODES, ids=[mode.value for mode in MODES])
@pytest.mark.parametrize(("observation", "others"), [("raster", "log"), ("compact", "idm")])
def test_episodes_that_end_early_are_those_of_single_ones(city, tmp_path, observation, others, mode):
    args = {"observation": observation, "reward": "driving", "ends_at": ["collision", "off_road"], "others": others}
    many, single = make_both(city, write_config(tmp_path), mode=mode, rescale_action=False, num_frames=SHORT, **args)
    num_ends = run_both(many, single, seed=5, num_steps=3 * SHORT, factor=4)
    assert num_ends.min() > 0, "some leave the road, others reach the last frame"


@pytest.mark.parametrize("others", ["log", "idm"])
def test_the_order_of_slots_does_not_matter(city, tmp_path, others):
    args = {"observation": "compact", "actions": "bicycle", "reward": "driving", "others": others, "num_frames": SHORT}
    config = write_config(tmp_path)
    order, seeds = np.array([3, 0, 4, 1, 2]), np.array([9, 8, 7, 6, 5])
    first, other = (make_many(city, config, 5, autoreset_mode="SameStep", **args) for _ in range(2))
    one, two = first.reset(seed=seeds)[0], other.reset(seed=seeds[order])[0]
    np.testing.assert_array_equal(one[order], two)
    generator = np.random.default_rng(0)
    for _ in range(3 * SHORT):
        actions = generator.uniform(-1, 1, (5, 2)).astype(np.float32)
        one, two = first.step(actions), other.step(actions[order])
        for found, expected in zip(two[:4], one[:4], strict=True):
            np.testing.assert_array_equal(found, expected[order])


def test_one_environment_may_be_many(city, tmp_path):
    args = {"observation": "compact", "actions": "curvature", "reward": "driving", "num_frames": SHORT}
    config = write_config(tmp_path)
    many = make_many(city, config, 1, **args)
    assert_same(many.reset(seed=3)[0].shape, (1, 390))
    run_both(many, SyncVectorEnv([lambda: make_one(city, config, **args)]), seed=3, num_steps=2 * SHORT)


@pytest.fixture(scope="module")
def uneven_city(city, tmp_path_factory):
    """A city whose scenes have 100, 9 and 5 frames."""
    import shutil

    folder = tmp_path_factory.mktemp("uneven") / "city"
    shutil.copytree(city, folder, ignore=shutil.ignore_patterns("*.zarr"))
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    parts, lengths = {"frames": [], "agents": [], "tl_faces": []}, [100, 9, 5]
    num_rows = {AGENT_INTERVAL: 0, FACE_INTERVAL: 0}
    for scene, length in enumerate(lengths):
        start = int(log.scenes[scene][FRAME_INTERVAL][0])
        frames = np.array(rows_of(log.frames, slice(start, start + length)))
        for name, key in ((AGENT_INTERVAL, "agents"), (FACE_INTERVAL, "tl_faces")):
            first, stop = int(frames[name][0, 0]), int(frames[name][-1, 1])
            parts[key].append(rows_of(getattr(log, key), slice(first, stop)))
            frames[name] += num_rows[name] - first
            num_rows[name] += stop - first
        parts["frames"].append(frames)
    joined = {key: np.concatenate(rows) for key, rows in parts.items()}
    write_with_chunks(
        log_of(scenes_of(lengths), **joined),
        folder / "scenes" / "sample.zarr",
        chunk_lengths={"scenes": 3, "frames": 200, "agents": 5000, "traffic_light_faces": 500},
    )
    return folder


@pytest.mark.parametrize(("observation", "others"), [("raster", "log"), ("vectors", "log"), ("compact", "idm")])
def test_whole_scenes_of_several_lengths(uneven_city, tmp_path, observation, others):
    args = {"observation": observation, "others": others, "actions": "bicycle", "reward": "driving", "num_frames": None}
    config = write_config(tmp_path)
    many = make_many(uneven_city, config, 4, **args)
    single = SyncVectorEnv([lambda: make_one(uneven_city, config, **args)] * 4)
    num_ends = run_both(many, single, seed=1, num_steps=14)
    assert num_ends[1] >= 3
    assert len(set(many.episodes.lengths.tolist())) > 1


FAR = [
    ("raster", "poses"),
    ("vectors", "poses"),
    ("compact", "poses"),
    ("compact", "pose_change"),
    ("raster", "kinematic"),
]


@pytest.mark.parametrize(("observation", "actions"), FAR)
def test_what_is_seen_is_of_the_space_a_million_metres_away(city, tmp_path, observation, actions):
    args = {"observation": observation, "actions": actions, "reward": "driving", "rescale_action": False}
    many = make_many(city, write_config(tmp_path), autoreset_mode="SameStep", **args)
    many.reset(seed=2)
    wild = np.array([[1e6, -1e6, 3.0], [-5e4, 0.0, -1e3], [0.0, 1e3, 0.5]])
    for step in range(2 * NUM_FRAMES):
        observations, rewards, *_ = many.step(wild if step % 2 else -wild)
        assert many.observation_space.contains(observations)
        assert np.isfinite(rewards).all()


def test_actions_of_models_are_clipped_to_their_space(city, tmp_path):
    config, args = write_config(tmp_path), {"observation": "compact", "randomize_start": False}
    for actions in ("bicycle", "curvature", "pose_change"):
        ends = []
        for factor in (1.0, 7.0):
            env = make_one(city, config, actions=actions, **args)
            env.reset(seed=0)
            action = np.ones(env.action_space.shape, np.float32)
            action[-1] = -1.0
            ends.append(env.step(factor * action))
        assert_same(tuple(ends[0]), tuple(ends[1]))


class Sideways:
    """Actions of a user: how far to the left, one number in metres."""

    def __init__(self):
        self.space = spaces.Box(-2, 2, (1,), np.float32)
        self.begun = []

    def checked(self, actions, of):
        return np.asarray(actions, np.float64).reshape(1 if of is None else len(of), 1)

    def begin(self, slots, speeds_mps):
        self.begun.append((slots.tolist(), len(speeds_mps)))

    def move(self, slots, egos, actions, step_time_s):
        changes = np.zeros((len(slots), 3))
        changes[:, 1] = actions[:, 0]
        return PoseChange().step(egos.states, changes, step_time_s)


class Halves:
    """Reward of a user: 0.5 for each step, and a failure once the AV is 5 m off the logged path."""

    terms = ("half",)

    def __init__(self):
        self.begun = []

    def begin(self, slots, step):
        self.begun.append(slots.tolist())

    def of_step(self, slots, step):
        distances_m = np.hypot(*(step.boxes[:, :2] - step.log_poses[:, :2]).T)
        values, is_far = np.full((len(slots), 1), 0.5), distances_m > 5.0
        return StepOutcome(values[:, 0], values, is_far, {"far": is_far})


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_actions_and_rewards_may_be_ones_own(city, tmp_path, observation):
    config = write_config(tmp_path)
    kinds = [(Sideways(), Halves()) for _ in range(3)]
    many = make_many(city, config, 2, observation=observation, actions=kinds[0][0], reward=kinds[0][1])
    own = iter(kinds[1:])

    def one():
        actions, reward = next(own)
        return make_one(city, config, observation=observation, actions=actions, reward=reward)

    single = SyncVectorEnv([one] * 2)
    assert many.single_action_space.shape == (1,)
    assert_same(many.reset(seed=4), single.reset(seed=4))
    actions = np.array([[0.0], [2.0]], np.float32)
    failed = []
    for _ in range(NUM_FRAMES):
        found = many.step(actions)
        assert_same(found, single.step(actions))
        failed.append(found[2].tolist())
        if found[2].any():
            assert found[4]["is_far"].tolist() == found[2].tolist()
            break
    assert failed[-1][1]
    assert failed[0] == [False, False]
    assert kinds[0][0].begun[0] == ([0, 1], 2)
    assert kinds[0][1].begun[0] == [0, 1]


class MeddlingReward(Halves):
    """Reward of a user that writes into what it is shown."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def of_step(self, slots, step):
        array = slots if self.name == "slots" else getattr(step, self.name)
        (array[0] if isinstance(array, tuple) else array)[...] = 0
        return super().of_step(slots, step)


class MeddlingActions(Sideways):
    """Actions of a user that write into the AVs that they are shown."""

    def move(self, slots, egos, actions, step_time_s):
        egos.states.positions_m[:] = 0.0
        return super().move(slots, egos, actions, step_time_s)


def test_rewards_and_actions_of_ones_own_cannot_write_into_what_they_are_shown(city, tmp_path):
    config = write_config(tmp_path)
    arrays = [name for name in DrivenStep._fields if name not in ("step_time_s", "driving_map")]
    given = [(Sideways(), MeddlingReward(name)) for name in ("slots", *arrays)] + [(MeddlingActions(), Halves())]
    for actions, reward in given:
        env = make_many(city, config, 2, observation="compact", actions=actions, reward=reward)
        env.reset(seed=4)
        with pytest.raises(ValueError, match="read-only"):
            env.step(np.zeros((2, 1), np.float32))


class OfOneFive(Reward):
    """Reward of a user, as 1.5 has them."""

    reward_prefix = "own"

    def __init__(self):
        self.num_resets = 0

    def reset(self):
        self.num_resets += 1

    def get_reward(self, frame_index, simulated_outputs):
        (output,) = simulated_outputs
        x_m = float(output.simulated_ego_states[frame_index + 1, 0])
        return {"total": x_m, "distance": x_m - 1.0, "yaw": 1.0}


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("actions", ["poses", "bicycle"])
def test_rewards_of_1_5_go_with_all_that_is_seen(city, tmp_path, observation, actions):
    reward = OfOneFive()
    env = make_one(city, write_config(tmp_path), observation=observation, actions=actions, reward=reward)
    env.reset(seed=1)
    action = np.zeros(env.action_space.shape, np.float32)
    action[0] = 0.5
    step = env.step(action)
    x_m = env._episodes.avs.arrays.boxes[0, 0]
    assert step.reward == pytest.approx(x_m, rel=1e-6)
    assert set(step.info) == {"reward_tot", "reward_dist", "reward_yaw"}
    assert (reward.num_resets, env.reward) == (1, reward)


def test_grids_may_be_ones_own(city, tmp_path):
    grid = ModelActions(PoseChange(), (-1.0, -0.5, -0.1), (1.0, 0.5, 0.1), grid=(3, 3, 3))
    env = make_one(city, write_config(tmp_path), observation="compact", actions=grid, randomize_start=False)
    assert env.action_space == spaces.Discrete(27)
    env.reset(seed=1)
    before = env._episodes.avs.arrays.boxes[:, :2].copy()
    env.step(13)
    np.testing.assert_array_equal(env._episodes.avs.arrays.boxes[:, :2], before)
    env.step(22)
    way_m = np.hypot(*(env._episodes.avs.arrays.boxes[:, :2] - before)[0])
    assert way_m == pytest.approx(1.0)


@pytest.mark.parametrize("others", ["log", "idm"])
def test_a_compact_state_needs_no_map(city, tmp_path, others):
    import json
    from pathlib import Path

    path = Path(write_config(tmp_path))
    config = json.loads(path.read_text())
    del config["raster_params"]["semantic_map_key"]
    path.write_text(json.dumps(config))
    args = {"observation": "compact", "actions": "bicycle", "reward": "driving", "others": others}
    many = make_many(city, str(path), **args)
    observation, _ = many.reset(seed=1)
    parts = many.episodes.parts.view.layout.split(observation)
    assert not parts["lanes"].any()
    assert parts["agents"].any()
    _, rewards, _, _, infos = many.step(many.action_space.sample())
    assert np.isfinite(rewards).all()
    assert not infos["is_off_road"].any()


def test_environments_that_were_given_the_same_driving_reward_remember_their_own_collisions(city, tmp_path):
    reward, args = DrivingReward(), {"observation": "compact", "actions": "bicycle", "num_frames": 90}
    envs = [make_one(city, write_config(tmp_path), reward=reward, **args) for _ in range(2)]
    for env in envs:
        env.reset(options={"scene_id": 0, "start_frame_index": 0})
    ends = [[env.step(np.array([1, 0], np.float32)) for env in envs] for _ in range(88)]
    assert any(one.info["is_collision"] for one, _ in ends)
    assert [one.info for one, _ in ends] == [other.info for _, other in ends]


def test_an_action_may_hold_for_several_frames(city, tmp_path):
    """Steps are as many steps of one frame with the same action, whose rewards and terms are added up."""
    said = {"observation": "compact", "actions": "route", "reward": "driving", "others": "idm"}
    held = make_many(city, write_config(tmp_path, frames_per_action=3, **said), 4, num_frames=SHORT, copy=True)
    (tmp_path / "one").mkdir()
    plain = make_many(city, write_config(tmp_path / "one", **said), 4, num_frames=SHORT, copy=True)
    np.testing.assert_array_equal(held.reset(seed=4)[0], plain.reset(seed=4)[0])
    rng = np.random.default_rng(2)
    left = SHORT - 2
    while left:
        actions = rng.uniform(-1, 1, (4, 1)).astype(np.float32)
        found = held.step(actions)
        num_frames = min(3, left)
        steps = [plain.step(actions) for _ in range(num_frames)]
        left -= num_frames
        np.testing.assert_array_equal(found[0], steps[-1][0])
        np.testing.assert_allclose(found[1], sum(step[1] for step in steps), atol=1e-12)
        progress = sum(step[4]["reward_progress"] for step in steps)
        np.testing.assert_allclose(found[4]["reward_progress"], progress, atol=1e-12)
        np.testing.assert_array_equal(found[3], steps[-1][3])
    assert found[3].all()
    np.testing.assert_allclose(found[4]["reward_sums"]["tot"], steps[-1][4]["reward_sums"]["tot"], atol=1e-12)


def test_an_action_ends_with_its_episode(city, tmp_path):
    said = {"observation": "compact", "actions": "curvature", "reward": "driving", "ends_at": ["off_road"]}
    held = make_many(city, write_config(tmp_path, frames_per_action=5, **said), 3, num_frames=None)
    held.reset(seed=1)
    aside = np.tile(np.array([[1.0, 1.0]], np.float32), (3, 1))
    frames = held.frame_indices.copy()
    for _ in range(40):
        _, _, terminated, _, infos = held.step(aside)
        driven = held.frame_indices - frames
        if terminated.any():
            break
        assert (driven == 5).all()
        assert not infos["is_off_road"].any()
        frames = held.frame_indices.copy()
    assert infos["is_off_road"][terminated].all()
    assert infos["reward_off_road"][terminated] == pytest.approx(-0.5)  # one frame off the road, whatever follows
    assert (driven <= 5).all()


def test_an_action_that_holds_longer_than_all_episodes_ends_with_them(city, tmp_path):
    said = {"observation": "compact", "actions": "curvature", "frames_per_action": 100_000}
    held = make_many(city, write_config(tmp_path, **said), 2, num_frames=SHORT)
    held.reset(seed=1)
    *_, truncated, _ = held.step(np.zeros((2, 2), np.float32))
    assert truncated.all()
    with pytest.raises(ConfigError, match="frames_per_action: expected a whole number from 1 to 100000"):
        make_many(city, write_config(tmp_path, **{**said, "frames_per_action": 10**30}), 2)


def test_poses_hold_for_one_frame(city, tmp_path):
    config = write_config(tmp_path, frames_per_action=2, actions="poses")
    with pytest.raises(
        UnsupportedValueError, match="frames_per_action is 2, but poses and kinematic actions are those"
    ):
        make_many(city, config, 2)


def test_layout_and_weights_may_be_said_by_the_configuration(city, tmp_path):
    said = {
        "observation": "compact",
        "reward": "driving",
        "compact": {"num_agents": 3, "frame": "route", "num_lane_points": 0},
        "driving": {"collision": 7.0, "combines": "product"},
    }
    env = make_many(city, write_config(tmp_path, **said), 2)
    assert env.single_observation_space.shape == (14 + 4 * 10 + 12 * 3,)
    weights = env.episodes.parts.reward.weights
    assert (weights.collision, weights.combines, weights.progress) == (7.0, "product", 1.0)
    with pytest.raises(ConfigError, match=r"driving\.combines: expected 'sum' or 'product', got 'both'"):
        make_many(city, write_config(tmp_path, **{**said, "driving": {"combines": "both"}}), 2)
