"""Self-play: each actor is a row, rows of finished actors are reused for others, and refusals."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from l5kit.configs.environment import EnvironmentParams
from l5kit.environment.envs.l5_env import L5Env
from l5kit.environment.envs.self_play_env import SelfPlayEnv
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.environment.registration import make_vector_env
from l5kit.environment.traffic.traffic_kernels import ACTING, DRIVEN, GONE
from l5kit.errors import ConfigError, EpisodeEndedError, InvalidArgumentError
from l5kit.lanes.path_positions import follow_routes
from l5kit.simulation.lanes.lane_following import ARC
from support.environments import assert_same, data_of, write_config

DRIVING = {"observation": "compact", "actions": "curvature", "reward": "driving", "others": "policy"}
ENDS = ["collision", "off_road"]
START = {"scene_id": 2, "start_frame_index": 20}
AHEAD = np.array([0.3, 0.0], np.float32)
TO_THE_SIDE = np.array([1.0, 1.0], np.float32)


@pytest.fixture
def make(city, tmp_path):
    """Function that makes environments of self-play of 40 frames, from a number of rows and keys of ``gym_params``."""

    def make_env(num_envs, **gym_params):
        gym_params = {**DRIVING, "num_simulation_steps": 40, **gym_params}
        return SelfPlayEnv(num_envs, write_config(tmp_path, **gym_params), data_of(city))

    return make_env


def acts_of(env, action=AHEAD):
    """Return one action for all rows."""
    return np.tile(action, (env.num_envs, 1))


def states_of(env, scene):
    """Return the states of the vehicles of a running scene that may act, and their tracks."""
    traffic, actors = env._traffic, scene.episode.roads.actors
    return traffic.vehicles.states[scene.episode.roads._slot, actors.vehicles], actors.track_ids.astype(np.int64)


@pytest.mark.parametrize("frames", [1, 3])
def test_avs_alone_drive_as_in_a_vector_environment(make, city, tmp_path, frames):
    said = {"max_vehicles": 0, "frames_per_action": frames, "ends_at": ENDS, "num_simulation_steps": 13}
    env = make(4, **said)
    config = write_config(tmp_path, **{**DRIVING, **said, "others": "idm"})
    usual = L5VectorEnv(4, config, data_of(city), autoreset_mode="SameStep")
    assert_same(env.reset(seed=5), usual.reset(seed=5))
    usual.action_space.seed(0)
    num_ends = 0
    for _ in range(30):
        actions = usual.action_space.sample()
        (seen, *told, infos), (expected, *expected_told, expected_infos) = env.step(actions), usual.step(actions)
        np.testing.assert_array_equal(seen, expected)
        assert_same(tuple(told), tuple(expected_told))
        assert_same(infos, expected_infos)
        num_ends += int((told[1] | told[2]).sum())
    assert num_ends > 8
    np.testing.assert_array_equal(env.track_ids, -1)


def test_all_vehicles_act_as_those_of_a_parallel_environment(make, city, tmp_path):
    pytest.importorskip("pettingzoo")
    from l5kit.environment.envs.parallel_env import L5ParallelEnv
    from l5kit.environment.setup import SimulationConfigGym

    config = write_config(tmp_path, **{**DRIVING, "others": "idm", "ends_at": ENDS})
    sim_cfg = SimulationConfigGym(num_simulation_steps=40)
    actors = L5ParallelEnv(config, data_of(city), sim_cfg, reward="driving", ends_at=ENDS, others="idm")
    seen, infos = actors.reset(options=START)
    tracks = {infos[name]["track_id"]: name for name in actors.agents}
    assert len(tracks) > 4
    env = make(len(tracks), ends_at=ENDS)
    found, _ = env.reset(options=START)
    assert set(env.track_ids.tolist()) == set(tracks)
    (states, _) = states_of(env, env._scenes[0])
    assert np.count_nonzero(states == ACTING) == len(tracks) - 1
    assert not (states == DRIVEN).any()
    names = [tracks[track] for track in env.track_ids.tolist()]
    rng = np.random.default_rng(0)
    for _ in range(6):
        np.testing.assert_array_equal(found, np.stack([seen[name] for name in names]))
        # each has its own action, and others enter later, as all rows are taken
        values = np.column_stack([rng.uniform(-1, 1, len(names)), np.zeros(len(names))]).astype(np.float32)
        seen, rewards, terminated, truncated, infos = actors.step(
            {**dict.fromkeys(actors.agents, AHEAD), **dict(zip(names, values, strict=True))}
        )
        found, *told, of_rows = env.step(values)
        if any(terminated.values()) or any(truncated.values()) or set(actors.agents) != set(names):
            break
        np.testing.assert_array_equal(told[0], [rewards[name] for name in names])
        assert not (told[1] | told[2]).any()
        np.testing.assert_array_equal(of_rows["reward_progress"], [infos[name]["reward_progress"] for name in names])
    assert len(set(np.round(env._scenes[0].episode.avs.arrays.motions[: len(names), 0], 3))) > 3


def test_rows_of_ended_vehicles_go_on_with_others_in_the_same_step(make):
    env = make(8, ends_at=ENDS)
    seen, _ = env.reset(seed=1)
    rng = np.random.default_rng(0)
    num_ends = {"terminated": 0, "truncated": 0, "waiting": 0, "new": 0}
    for _ in range(60):
        actions = np.where(rng.random((8, 1)) < 0.3, TO_THE_SIDE, AHEAD).astype(np.float32)
        before, scenes = list(zip(env.scene_indices, env.track_ids, strict=True)), list(env._scenes)
        waiting = {
            track for scene in scenes for state, track in zip(*states_of(env, scene), strict=True) if state == DRIVEN
        }
        seen, _, terminated, truncated, infos = env.step(actions)
        is_over = terminated | truncated
        assert not (terminated & truncated).any()
        now = list(zip(env.scene_indices, env.track_ids, strict=True))
        for row in range(8):
            if not is_over[row]:
                assert now[row] == before[row]
                continue
            assert not np.array_equal(infos["final_obs"][row], seen[row])
            assert infos["final_info"]["_reward_sums"][row]
            num_ends["waiting"] += now[row][1] in waiting
            num_ends["new"] += now[row][1] == -1
        num_ends["terminated"] += int(terminated.sum())
        num_ends["truncated"] += int(truncated.sum())
        # each row is one vehicle that acts, and each that acts has a row
        acting = [(scene, actor) for scene in env._scenes for actor in scene.episode.acting.tolist()]
        assert sorted(scene.rows[actor] for scene, actor in acting) == list(range(8))
        assert all(scene.episode.is_acting[0] for scene in env._scenes)
        for scene, actor in acting:
            np.testing.assert_array_equal(seen[scene.rows[actor]], scene.episode.parts.view.memory[actor])
            assert (env.track_ids[scene.rows[actor]] == -1) == (actor == 0)
        for scene in env._scenes:
            states, _ = states_of(env, scene)
            assert np.count_nonzero(states == ACTING) == np.count_nonzero(scene.episode.is_acting[1:])
    assert min(num_ends.values()) > 0


def test_a_vehicle_that_fails_leaves_and_its_scene_goes_on(make):
    env = make(4, ends_at=["off_road"], actions="bicycle")
    env.reset(options=START)
    (scene,) = env._scenes
    actions, row = acts_of(env), int(scene.rows[1])
    actions[row] = TO_THE_SIDE
    track = env.track_ids[row]
    for _ in range(38):
        _, _, terminated, truncated, _ = env.step(actions)
        if terminated[row]:
            break
    assert terminated[row]
    states, tracks = states_of(env, scene)
    assert states[tracks == track].tolist() == [GONE]
    assert scene in env._scenes
    assert not truncated.any()
    rows = env._traffic.rows_of(scene.episode.roads._slots)
    assert track not in env._parts.bank.track_ids[rows.track_rows]


def test_a_scene_ends_with_its_av(make):
    env, noted = make(4, ends_at=["off_road"]), []
    env._draws.note = lambda scenes, is_failed: noted.append((scenes.tolist(), is_failed.tolist()))
    env.reset(options=START)
    (scene,) = env._scenes
    actions, row = acts_of(env, np.zeros(2, np.float32)), int(scene.rows[0])
    actions[row] = TO_THE_SIDE
    for _ in range(38):
        _, _, terminated, truncated, infos = env.step(actions)
        if terminated[row]:
            break
    assert terminated.tolist() == [number == row for number in range(4)]
    assert truncated.tolist() == [number != row for number in range(4)]
    assert infos["_final_obs"].all()
    assert noted == [([START["scene_id"]], [True])], "scenes in which AVs fail are drawn again"
    assert env.track_ids.tolist().count(-1) == len(env._scenes) >= 1


def test_who_waits_is_driven_and_goes_on_from_there(make, monkeypatch):
    env = make(2, ends_at=["off_road"], actions="bicycle")
    env.reset(options=START)
    (scene,) = env._scenes
    (states, tracks), slot = states_of(env, scene), scene.episode.roads._slot
    (waiting,) = np.flatnonzero(states == DRIVEN)[:1]
    vehicle = scene.episode.roads.actors.vehicles[waiting]
    row, track, vehicles = int(scene.rows[1]), tracks[waiting], env._traffic.vehicles
    actions, start_m = acts_of(env), vehicles.boxes[slot, vehicle, :2].copy()
    actions[row] = TO_THE_SIDE
    looked_from_m = {}

    def noted(paths, routes, poses, positions):
        looked_from_m.update(zip(routes.tolist(), positions[:, 0].tolist(), strict=True))
        follow_routes(paths, routes, poses, positions)

    monkeypatch.setattr("l5kit.environment.actors.follow_routes", noted)
    for _ in range(38):
        _, _, terminated, _, _ = env.step(actions)
        if terminated[row]:
            break
    assert np.hypot(*(vehicles.boxes[slot, vehicle, :2] - start_m)) > 1, "its driver has moved it"
    assert (env.scene_indices[row], env.track_ids[row]) == (START["scene_id"], track)
    # where its driver has brought it, with its speed, and not where the log has it
    avs, actor = scene.episode.avs.arrays, 1 + waiting
    np.testing.assert_array_equal(avs.boxes[actor, :2], vehicles.boxes[slot, vehicle, :2])
    assert avs.motions[actor, 0] == pytest.approx(np.hypot(*vehicles.velocities_mps[slot, vehicle]))
    frame = scene.episode.roads.episode_frame - 1
    assert np.hypot(*(scene.episode.roads.actors.log_poses[frame, actor, :2] - avs.boxes[actor, :2])) > 0.05
    arc_m, offset_m, _ = scene.episode.roads.now.positions[actor]
    assert abs(offset_m) < 1
    assert arc_m == pytest.approx(vehicles.motions[slot, vehicle, ARC], abs=0.5)
    assert looked_from_m[scene.episode.roads.actors.routes[actor]] == vehicles.motions[slot, vehicle, ARC]


def test_the_same_seed_gives_the_same_vehicles_whatever_went_before(make):
    def drive(env, seed):
        seen, _ = env.reset(seed=seed)
        steps = [seen]
        for _ in range(25):
            seen, rewards, *ends, _ = env.step(acts_of(env, TO_THE_SIDE / 3))
            steps += [seen, rewards, *ends, env.scene_indices.copy(), env.track_ids.copy()]
        return steps

    env, other = make(6, ends_at=ENDS), make(6, ends_at=ENDS)
    drive(other, 9)
    first = drive(env, 3)
    for one, same in zip(first, drive(other, 3), strict=True):
        np.testing.assert_array_equal(one, same)
    assert any(not np.array_equal(one, another) for one, another in zip(first, drive(env, 4), strict=True))


def test_an_action_that_holds_is_that_of_each_frame(make):
    held, single = make(3, frames_per_action=2), make(3)
    held.reset(options=START)
    single.reset(options=START)
    for _ in range(5):
        seen, rewards, *ends, _ = held.step(acts_of(held))
        _, first, *_ = single.step(acts_of(single))
        expected, second, *expected_ends, _ = single.step(acts_of(single))
        np.testing.assert_array_equal(seen, expected)
        np.testing.assert_allclose(rewards, first + second)
        assert_same(tuple(ends), tuple(expected_ends))


def test_who_fails_while_an_action_holds_is_not_there_in_the_next_frame(make):
    env = make(4, ends_at=["off_road"], actions="bicycle", frames_per_action=45, num_simulation_steps=60)
    env.reset(options=START)
    (scene,) = env._scenes
    actions, row = acts_of(env, np.zeros(2, np.float32)), int(scene.rows[1])
    actions[row] = TO_THE_SIDE
    seen = []
    leave = scene.episode.roads.leave

    def noted(slots, avs):
        seen.append((1 in slots, states_of(env, scene)[0][0]))
        leave(slots, avs)

    scene.episode.roads.leave = noted
    assert env.step(actions)[2][row]
    assert (True, ACTING) in seen
    assert (False, GONE) in seen
    assert (False, ACTING) not in seen


def test_the_configuration_bounds_the_vehicles_of_a_scene(make, city, tmp_path):
    env = make(6, max_vehicles=2)
    env.reset(options=START)
    assert [int(scene.episode.is_acting.sum()) for scene in env._scenes] == [3, 3]
    pytest.importorskip("pettingzoo")
    from l5kit.environment.envs.parallel_env import L5ParallelEnv

    config = write_config(tmp_path, max_vehicles=2)
    assert len(L5ParallelEnv(config, data_of(city)).possible_agents) == 3
    assert len(L5ParallelEnv(config, data_of(city), max_vehicles=4).possible_agents) == 5


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"observation": "raster"},
            r"gym_params\.observation: 'raster' supports AVs only,",
        ),
        ({"observation": "vectors"}, r"gym_params\.observation: 'vectors' supports AVs only"),
        ({"actions": "poses"}, r"gym_params\.actions: 'poses' supports AVs only"),
        (
            {"actions": "kinematic"},
            r"gym_params\.actions: 'kinematic' supports AVs only, .* or others idm",
        ),
    ],
)
def test_configurations_for_avs_alone_are_refused(make, tmp_path, said, message):
    with pytest.raises(ConfigError, match=message):
        make(2, **said)
    write_config(tmp_path, **{**DRIVING, **said})
    with pytest.raises(ConfigError, match=message):
        EnvironmentParams.from_cfg(json.loads((tmp_path / "gym.yaml").read_text()))


def parallel(*args, **kwargs):
    """Return a parallel environment, where these can be made."""
    pytest.importorskip("pettingzoo")
    from l5kit.environment.envs.parallel_env import L5ParallelEnv

    return L5ParallelEnv(*args, **kwargs)


KINDS = [L5Env, partial(L5VectorEnv, 2), partial(make_vector_env, 2, device="cpu"), parallel]


@pytest.mark.parametrize("is_argument", [False, True], ids=["configuration", "argument"])
@pytest.mark.parametrize("kind", KINDS, ids=["single", "vector", "device", "parallel"])
def test_environments_without_a_policy_refuse_it_and_say_what_to_do(city, tmp_path, kind, is_argument):
    config = write_config(tmp_path, **{**DRIVING, "others": "log" if is_argument else "policy"})
    with pytest.raises(InvalidArgumentError, match=r"others='policy' is only for `l5kit train-rl`; .* use 'idm' or"):
        kind(config, data_of(city), **({"others": "policy"} if is_argument else {}))
    args = {"others": "idm"} if kind is not parallel else {"others": "idm", "controls": 1}
    kind(write_config(tmp_path, **DRIVING), data_of(city), **args).reset(seed=1)


def test_calls_that_cannot_be_are_refused(make, city, tmp_path):
    env = make(2)
    with pytest.raises(EpisodeEndedError, match=r"there is no episode yet; call reset\(\)"):
        env.step(acts_of(env))
    with pytest.raises(InvalidArgumentError, match="options has reset_mask"):
        env.reset(options={"reset_mask": np.ones(2, np.bool_)})
    env.reset(seed=1)
    with pytest.raises(InvalidArgumentError, match=r"numbers of shape \(2, 2\)"):
        env.step(acts_of(env)[:1])
    with pytest.raises(InvalidArgumentError, match="action of environment 1 is"):
        env.step(np.array([[0.0, 0.0], [np.nan, 0.0]]))
    with pytest.raises(InvalidArgumentError, match="num_envs is 0"):
        SelfPlayEnv(0, str(Path(tmp_path / "gym.yaml")), data_of(city))
