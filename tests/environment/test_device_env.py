"""Environments on a device: the episodes, observations and rewards of those on the processor, ends, and errors."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gymnasium = pytest.importorskip("gymnasium")
from l5kit.environment.device import device_env  # noqa: E402
from l5kit.environment.device.device_env import DeviceVectorEnv  # noqa: E402
from l5kit.environment.envs.l5_env import SimulationConfigGym  # noqa: E402
from l5kit.environment.envs.vector_env import L5VectorEnv  # noqa: E402
from l5kit.environment.episode_roads import EpisodeRoads  # noqa: E402
from l5kit.environment.model_actions import ModelActions  # noqa: E402
from l5kit.environment.observations.compact_view import CompactView  # noqa: E402
from l5kit.environment.rewards.driving_reward import DrivingReward, DrivingWeights  # noqa: E402
from l5kit.environment.rewards.episode_judge import EpisodeJudge  # noqa: E402
from l5kit.environment.slots.av_slots import AvSlots  # noqa: E402
from l5kit.environment.traffic.traffic_slots import TrafficSlots  # noqa: E402
from l5kit.errors import EpisodeEndedError, InvalidArgumentError, UnsupportedValueError  # noqa: E402
from l5kit.simulation.vehicle_models import PoseChange, Unicycle  # noqa: E402
from support.environments import data_of, write_config  # noqa: E402
from support.womd import import_red_light  # noqa: E402

NUM_ENVS = 6
NUM_STEPS = 60
PARAMS = {"observation": "compact", "reward": "driving", "actions": "bicycle", "others": "idm"}
EXPERT = DrivingWeights(progress_reference="expert", contact=2.0, comfort=1.5, most_offset_m=1.0)


def arguments_of(city, folder, args, num_frames=25):
    params = PARAMS | args.pop("gym_params", {})
    sim_cfg = SimulationConfigGym(num_simulation_steps=num_frames)
    return {"env_config_path": write_config(folder, **params), "dmg": data_of(city), "sim_cfg": sim_cfg} | args


@pytest.fixture
def make_both(city, tmp_path, backend, monkeypatch):
    """Function that makes an environment on a device, and the same on the processor."""
    monkeypatch.setattr(device_env, "open_backend", lambda _: backend)

    def make(num_frames=25, **args):
        args = arguments_of(city, tmp_path, args, num_frames)
        return DeviceVectorEnv(NUM_ENVS, device=backend.device, **args), L5VectorEnv(NUM_ENVS, **args)

    return make


def tolerances_of(env):
    """How far observations and rewards may be from those of the processor."""
    return (1e-6, 1e-9) if env.device == "cpu" else (1e-4, 1e-4)


def close(found, expected, tolerance):
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=0, atol=tolerance)


def drive(env, twin, *, seed=3, most=(1.0, 1.0)):
    """Take the same steps in both, compare all that they return, and return how often things were not 0."""
    of_obs, of_rewards = tolerances_of(env)
    generator, seen = np.random.default_rng(seed), {"ends": 0, "terminated": 0}
    close(env.reset(seed=seed)[0], twin.reset(seed=seed)[0], of_obs)
    for _ in range(NUM_STEPS):
        np.testing.assert_array_equal(env.scene_indices, twin.scene_indices)
        actions = draw_actions(env, generator, most)
        found, expected = env.step(torch.from_numpy(actions).to(env.device)), twin.step(actions)
        close(found[0], expected[0], of_obs)
        close(found[1], expected[1], of_rewards)
        for is_end, of_twin in zip(found[2:4], expected[2:4], strict=True):
            np.testing.assert_array_equal(is_end.cpu().numpy(), of_twin)
        check_infos(found[4], expected[4], expected[2] | expected[3], of_rewards)
        for name, value in expected[4].items():
            if name.startswith(("reward_", "is_")) and name != "reward_sums":
                seen[name] = seen.get(name, 0) + np.count_nonzero(value)
        seen["terminated"] += expected[2].sum()
        seen["ends"] += (expected[2] | expected[3]).sum()
    return seen


def draw_actions(env, generator, most):
    if env.action_space.dtype == np.int64:
        return generator.integers(0, env.single_action_space.n, NUM_ENVS)
    (size,) = env.single_action_space.shape
    return (generator.uniform(-1, 1, (NUM_ENVS, size)) * most[:size] + [0.4, 0][:size]).astype(np.float32)


def check_infos(found, expected, is_end, tolerance):
    for name, value in expected.items():
        if name == "reward_sums":
            for term in (key for key in value if not key.startswith("_")):
                close(found[name][term].cpu()[is_end], value[term][is_end], 60 * tolerance)
        elif not name.startswith("_"):
            close(found[name], value, tolerance)


@pytest.mark.parametrize(
    "args",
    [
        {"ends_at": ["collision", "off_road"]},
        {"ends_at": [], "actions": "curvature", "others": "log", "randomize_start": False},
        {"reward": DrivingReward(EXPERT, ends_at=["off_road", "red_light"]), "train": False},
        {"actions": ModelActions(Unicycle(), (-6.0, -0.4), (3.0, 0.5)), "gym_params": {"overfit": True}},
        {"actions": "grid", "ends_at": []},
        {"actions": ModelActions(Unicycle(), (-6.0, -0.4), (3.0, 0.5), (4, 3)), "ends_at": ["off_road"]},
        {"actions": "curvature", "gym_params": {"frames_per_action": 3}, "ends_at": ["collision", "off_road"]},
        {"ends_at": ["off_road"], "gym_params": {"failed_share": 0.8}},
    ],
    ids=["ends", "replayed", "expert", "unicycle", "grid", "grid of a unicycle", "held actions", "failed scenes"],
)
def test_episodes_are_those_of_the_processor(make_both, args):
    seen = drive(*make_both(**args))
    assert seen["ends"] >= NUM_ENVS
    assert (seen["terminated"] > 0) == bool(args.get("ends_at") or "reward" in args)
    for name in ("progress", "off_road", "comfort"):
        assert seen[f"reward_{name}"] > 0


@pytest.mark.parametrize("num_frames", [1, 3])
def test_routes_are_followed_as_on_the_processor(make_both, num_frames):
    args = {"actions": "route", "gym_params": {"frames_per_action": num_frames}, "ends_at": ["collision"]}
    seen = drive(*make_both(**args))
    assert seen["ends"] >= NUM_ENVS
    assert seen["reward_off_road"] == 0
    assert seen["reward_progress"] > 100


def test_the_red_light_of_a_lane_outside_junctions_counts(tmp_path, backend):
    args = arguments_of(import_red_light(tmp_path), tmp_path, {"ends_at": [], "randomize_start": False}, 100)
    env, twin = DeviceVectorEnv(NUM_ENVS, device=backend.device, **args), L5VectorEnv(NUM_ENVS, **args)
    for each in (env, twin):
        each.reset(seed=1)
    ahead = np.zeros((NUM_ENVS, 2), np.float32)
    charged = np.zeros(NUM_ENVS)
    for _ in range(60):
        found, expected = env.step(torch.from_numpy(ahead).to(env.device)), twin.step(ahead)
        close(found[0], expected[0], tolerances_of(env)[0])
        charged += found[4]["reward_red_light"].cpu().numpy()
    assert charged.tolist() == [-5.0] * NUM_ENVS


def test_each_term_is_met(make_both):
    """In whole scenes in which nothing ends an episode, much happens that a reward looks at."""
    seen = drive(*make_both(num_frames=None, randomize_start=False, ends_at=[]), seed=11, most=(0.3, 0.05))
    for name in ("collision", "time_to_collision", "off_route", "speed", "red_light"):
        assert seen[f"reward_{name}"] > 0


@pytest.fixture
def make(city, tmp_path, backend):
    """Function that makes an environment on a device."""
    return lambda num_envs=2, **args: DeviceVectorEnv(
        num_envs, device=backend.device, **arguments_of(city, tmp_path, args, args.pop("num_frames", 5))
    )


def zeros(env, value=0.0, dtype=torch.float32):
    return torch.full((env.num_envs, 2), value, dtype=dtype, device=env.device)


def test_an_episode_that_has_ended_begins_again_in_the_next_step(make):
    env = make()
    env.reset(seed=1)
    first = env.scene_indices.tolist(), env.first_frames.tolist()
    for _ in range(3):
        _, rewards, terminated, truncated, infos = env.step(zeros(env))
    assert truncated.tolist() == [True, True]
    assert not terminated.any()
    assert (rewards != 0).all()
    assert (env.scene_indices.tolist(), env.first_frames.tolist()) == first
    torch.testing.assert_close(
        sum(infos["reward_sums"][name] for name in DrivingReward.terms), infos["reward_sums"]["tot"]
    )
    obs, rewards, _, truncated, infos = env.step(zeros(env, np.nan))  # unused
    assert (env.scene_indices.tolist(), env.first_frames.tolist()) != first
    assert (rewards.tolist(), truncated.tolist(), infos["reward_sums"]["tot"].tolist()) == ([0, 0], [False] * 2, [0, 0])
    assert obs.cpu().numpy()[0] in env.single_observation_space
    env.step(zeros(env, dtype=torch.float64))
    again = make()
    again.reset(seed=1)
    assert (again.scene_indices.tolist(), again.first_frames.tolist()) == first


@pytest.mark.parametrize("device", [None, "cpu"])
def test_gymnasium_makes_them(city, tmp_path, device):
    args = arguments_of(city, tmp_path, {} if device is None else {"device": device})
    env = gymnasium.make_vec("L5-CLE-v0", num_envs=2, vectorization_mode="vector_entry_point", **args)
    assert type(env.unwrapped) is (L5VectorEnv if device is None else DeviceVectorEnv)
    assert (env.num_envs, env.spec.id) == (2, "L5-CLE-v0")
    env.reset(seed=1)
    actions = np.zeros((2, 2), np.float32)
    seen = env.step(actions if device is None else torch.from_numpy(actions))[0]
    assert seen.shape == env.observation_space.shape


def test_options_that_a_device_does_not_have_are_refused_by_name(city, tmp_path):
    def make_env(**options):
        args = arguments_of(city, tmp_path, {"device": "cpu", "num_envs": 1} | options)
        return gymnasium.make_vec("L5-CLE-v0", vectorization_mode="vector_entry_point", **args)

    for option in ({"autoreset_mode": "NextStep"}, {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}):
        make_env(**option, render_mode=None, use_kinematic=False)
    for option in ({"autoreset_mode": "SameStep"}, {"render_mode": "rgb_array"}, {"simnet_model_path": "a.pt"}):
        with pytest.raises(UnsupportedValueError, match=f"{next(iter(option))} is .*leave device out"):
            make_env(**option)
    with pytest.raises(InvalidArgumentError, match=r"sim_cfg is \{\}; pass a SimulationConfigGym"):
        make_env(sim_cfg={})


def test_memory_is_used_again_where_that_is_wanted(make):
    env, copied = make(copy=False), make()
    for each in (env, copied):
        each.reset(seed=2)
    found, own = ([each.step(zeros(each, 0.5)) for _ in range(2)] for each in (env, copied))
    assert found[0][0].data_ptr() == found[1][0].data_ptr()
    assert not torch.equal(own[0][0], own[1][0])
    assert torch.equal(found[1][0], own[1][0])


def test_actions_are_checked(make):
    env = make()
    with pytest.raises(EpisodeEndedError, match=r"call reset\(\) before step"):
        env.step(zeros(env))
    env.reset(seed=1)
    with pytest.raises(InvalidArgumentError, match=r"actions is a ndarray; pass a tensor of torch on"):
        env.step(np.zeros((2, 2)))
    with pytest.raises(InvalidArgumentError, match=r"actions is torch.float32 of shape \(2, 3\)"):
        env.step(torch.zeros((2, 3), device=env.device))
    with pytest.raises(InvalidArgumentError, match=r"actions is torch.int64 of shape"):
        env.step(zeros(env).long())
    obs = env.step(torch.tensor([[0.0, 0.0], [0.0, np.nan]], device=env.device))[0]
    assert torch.isfinite(obs).all()
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match=r"action of environment 1 in the step before .* not finite"):
            env.step(zeros(env))
    env.reset()
    env.step(zeros(env))


def test_numbers_of_a_grid_are_checked(make):
    env = make(actions="grid")
    env.reset(seed=1)
    with pytest.raises(InvalidArgumentError, match=r"actions is torch.float32 of shape \(2,\)"):
        env.step(torch.zeros(2, device=env.device))
    with pytest.raises(InvalidArgumentError, match=r"actions is a list; pass a tensor of torch on .*, \(2,\)"):
        env.step([1, 2])
    for wrong in (-1, 63):
        env.step(torch.tensor([62, wrong], device=env.device))
        with pytest.raises(InvalidArgumentError, match=r"action of environment 1 .* was not in Discrete\(63\)"):
            env.step(torch.tensor([0, 0], device=env.device))
        env.reset()


def test_a_number_in_the_step_that_begins_an_episode_is_not_looked_at(make):
    env = make(actions="grid")
    env.reset(seed=1)
    for number in (31, 31, 31, -1, 31):
        truncated = env.step(torch.full((2,), number, device=env.device))[3]
        assert truncated.all() or number == 31 or not truncated.any()
    env.step(torch.full((2,), 31, device=env.device))


@pytest.mark.parametrize("part", [TrafficSlots, EpisodeRoads, AvSlots, CompactView, EpisodeJudge])
def test_what_is_made_on_a_device_is_there_before_others_read_it(make, monkeypatch, part):
    """Whatever a constructor requests last has a waiter."""
    asked, backend = [], type(make().avs.backend)
    for name in ("upload", "full", "empty", "run", "wait"):
        function = getattr(backend, name)
        monkeypatch.setattr(
            backend, name, lambda *args, function=function, name=name: asked.append(name) or function(*args)
        )
    made, make_part = [], part.__init__
    monkeypatch.setattr(
        part, "__init__", lambda self, *args, **kwargs: made.append((make_part(self, *args, **kwargs), asked[-1]))
    )
    make()
    assert made == [(None, "wait")]
    assert asked[-1] == "wait"


def test_episodes_may_be_asked_for(make):
    env = make(gym_params={"max_scene_id": 2})
    env.reset(options={"scene_id": 1, "start_frame_index": 7})
    assert (env.scene_indices.tolist(), env.first_frames.tolist()) == ([1, 1], [7, 7])
    with pytest.raises(InvalidArgumentError, match=r"'scene_id'\] is 2; on .* are scenes \[0, 1\]"):
        env.reset(options={"scene_id": 2})
    with pytest.raises(UnsupportedValueError, match=r"'reset_mask', but .* start by themselves"):
        env.reset(options={"reset_mask": np.ones(2, np.bool_)})
    with pytest.raises(InvalidArgumentError, match=r"one for each of 2 environments, got 3"):
        env.reset(seed=[1, 2, 3])


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ({"num_envs": 0}, InvalidArgumentError, "num_envs is 0; it must be 1 or more"),
        ({"observation": "raster"}, UnsupportedValueError, "observation is 'raster', .* observation='compact'"),
        ({"reward": "displacement"}, UnsupportedValueError, "reward is 'displacement', .* reward='driving'"),
        ({"actions": "kinematic"}, UnsupportedValueError, "actions is 'kinematic', .* actions='bicycle'"),
        ({"actions": ModelActions(PoseChange(), (-1.0,) * 3, (1.0,) * 3)}, UnsupportedValueError, "actions is Model"),
        (
            {"actions": ModelActions(Unicycle(), (-1.0,), (1.0,))},
            InvalidArgumentError,
            "limits of 1 controls; Unicycle takes 2",
        ),
        (
            {"sim_cfg": SimulationConfigGym(use_agents_gt=False)},
            UnsupportedValueError,
            "disable_new_agents=True are not supported on a device",
        ),
        ({"sim_cfg": SimulationConfigGym(use_ego_gt=True)}, InvalidArgumentError, "use_ego_gt is True"),
        ({"device": "tpu"}, InvalidArgumentError, "device is 'tpu'; use 'cpu', 'cuda' or"),
    ],
)
def test_what_there_is_not_is_refused(city, tmp_path, args, error, message):
    with pytest.raises(error, match=message):
        DeviceVectorEnv(**({"num_envs": 1, "device": "cpu"} | arguments_of(city, tmp_path, dict(args))))


def test_layouts_in_the_frame_of_the_route_are_seen_on_a_device_as_on_the_processor(city, tmp_path):
    said = {"observation": "compact", "reward": "driving", "actions": "curvature", "others": "idm"}
    compact = {"frame": "route", "num_agents": 5, "num_lane_points": 3}
    config = write_config(tmp_path, **said, compact=compact, num_simulation_steps=9)
    device, host = DeviceVectorEnv(3, config, data_of(city), device="cpu"), L5VectorEnv(3, config, data_of(city))
    seen, expected = device.reset(seed=2)[0], host.reset(seed=2)[0]
    np.testing.assert_array_equal(seen.numpy(), expected)
    actions = np.full((3, 2), 0.3, np.float32)
    for _ in range(6):
        seen, *_ = device.step(torch.from_numpy(actions))
        expected, *_ = host.step(actions)
        np.testing.assert_array_equal(seen.numpy(), expected)
    assert expected.shape == (3, 14 + 4 * 10 + 12 * 5 + 8 * 3)
