"""Parallel environment: the checks of PettingZoo, acting vehicles, equality with single episodes, and errors."""

import math
import warnings

import numpy as np
import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("pettingzoo")

from pettingzoo.test import parallel_api_test, parallel_seed_test

from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.environment.envs.l5_env import L5Env, SimulationConfigGym
from l5kit.environment.envs.parallel_env import L5ParallelEnv, parallel_env
from l5kit.environment.model_actions import model_actions
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.reward import L2DisplacementYawReward
from l5kit.environment.rewards.step_reward import DisplacementReward
from l5kit.errors import UnsupportedValueError
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.geometry.box_overlap import boxes_overlap
from support.environments import assert_same, data_of, write_config

ONE_SCENE = np.zeros(1, np.int64)
START = {"scene_id": 2, "start_frame_index": 20}
FIRST = START["start_frame_index"] + 1
NOT_ALL_NAMES = "No agents present but not all possible_agents"
ENDS = {"reward": "driving", "ends_at": ["collision", "off_road"]}
FASTER = np.array([1.0, 0.0], np.float32)
TO_THE_SIDE = np.array([1.0, 1.0], np.float32)


@pytest.fixture
def make(city, tmp_path):
    """Function that makes parallel environments of 40 frames."""

    def make_env(num_frames=40, env=L5ParallelEnv, **args):
        sim_cfg = SimulationConfigGym(num_simulation_steps=num_frames)
        return env(env_config_path=write_config(tmp_path), dmg=data_of(city), sim_cfg=sim_cfg, **args)

    return make_env


@pytest.fixture
def log(city):
    """The log of the city."""
    return ChunkedDataset(data_of(city).require("scenes/sample.zarr")).open()


def drive(env, action=FASTER):
    """Give all actors the same action."""
    return env.step(dict.fromkeys(env.agents, action))


def logged(log, frame, scene=START["scene_id"]):
    """Return the agents of a frame of the log, and where the AV is."""
    row = log.frames[int(log.scenes[scene]["frame_index_interval"][0]) + frame]
    return log.agents[slice(*row["agent_index_interval"].tolist())], row["ego_translation"][:2]


def now(env, track_id):
    """Return where a track is in the current frame of an episode; None if it is not there."""
    traffic = env.episode.roads.traffic
    rows = traffic.rows(ONE_SCENE)
    found = np.flatnonzero(traffic.bank.track_ids[rows.track_rows] == track_id)
    if not len(found):
        return None
    return {"centroid": rows.boxes[found[0], :2].copy(), "velocity": rows.velocities_mps[found[0]].copy()}


def ego_box(env):
    """Return the box of the AV."""
    return env.episode.avs.arrays.boxes[0]


@pytest.mark.parametrize("resets_all", [False, True])
@pytest.mark.parametrize("controls", ["ego", "vehicles", 3])
def test_checks_of_pettingzoo_find_nothing(make, controls, resets_all):
    args = {
        "controls": controls,
        "resets_all": resets_all,
        "reward": "driving",
        "ends_at": ["collision"],
        "others": "idm",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "options has options")
        if controls != "ego":  # fewer vehicles come than there are names
            warnings.filterwarnings("ignore", NOT_ALL_NAMES)
        parallel_api_test(make(env=parallel_env, **args), num_cycles=200)
        parallel_seed_test(lambda: make(**args))


KINDS = [
    (reward, actions, others)
    for reward in ("displacement", "driving")
    for actions, others in zip(
        ("curvature", "bicycle", "pose_change", "grid", "route"), ("log", "idm", "log", "idm", "log"), strict=True
    )
]


@pytest.mark.parametrize(("reward", "actions", "others"), KINDS)
@pytest.mark.parametrize("resets_all", [False, True])
def test_infos_have_the_same_keys_and_kinds_from_the_reset_on(make, reward, actions, others, resets_all):
    ends_at = ["collision", "off_road"] if reward == "driving" else []
    args = {"actions": actions, "others": others, "ends_at": ends_at, "resets_all": resets_all}
    env = make(num_frames=60, reward=reward, **args)
    _, infos = env.reset(seed=1, options={"scene_id": 2})
    kinds = {key: type(value) for key, value in infos["ego"].items()}
    assert set(kinds.values()) <= {int, float, bool}
    assert {key for key, kind in kinds.items() if kind is int} == {"track_id"}
    found = list(infos.values())
    while env.agents:
        infos = drive(env, env.action_space("ego").sample())[4]
        found += infos.values()
    assert len({frozenset(each) for each in found}) == 1
    assert all({key: type(value) for key, value in each.items()} == kinds for each in found)


def test_sums_of_rewards_begin_when_an_actor_comes(make):
    env = make(num_frames=60, reward="driving")
    _, infos = env.reset(options=START)
    totals = dict.fromkeys(infos, 0.0)
    while env.agents:
        _, rewards, _, _, infos = drive(env)
        for name, reward in rewards.items():
            totals[name] = totals.get(name, 0.0) + reward
            assert infos[name]["reward_sum_tot"] == pytest.approx(totals[name], abs=1e-9)


def test_a_reset_tells_of_all_names_where_it_is_asked_to(make):
    env, usual = make(max_vehicles=60, resets_all=True), make(max_vehicles=60)
    (seen, infos), (expected, told) = env.reset(options=START), usual.reset(options=START)
    assert list(seen) == list(infos) == env.possible_agents
    assert env.agents == usual.agents == list(expected)
    assert len(env.agents) < 61
    for name in env.possible_agents:
        np.testing.assert_array_equal(seen[name], expected.get(name, np.zeros_like(expected["ego"])))
        assert seen[name] in env.observation_space(name)
    assert {name: infos[name] for name in told} == told
    assert infos[env.possible_agents[-1]]["track_id"] == -1


def test_actions_of_those_who_do_not_act_are_not_looked_at(make):
    env, usual = make(max_vehicles=60), make(max_vehicles=60)
    for each in (env, usual):
        each.reset(options=START)
    everybody = dict.fromkeys(env.possible_agents, FASTER) | {env.possible_agents[-1]: [np.nan]}
    assert env.possible_agents[-1] not in env.agents
    for one, other in zip(env.step(everybody), drive(usual), strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("reward", ["displacement", "driving"])
@pytest.mark.parametrize(
    ("actions", "others"), [("curvature", "log"), ("bicycle", "idm"), ("grid", "log"), ("route", "idm")]
)
def test_the_av_alone_drives_as_in_a_single_environment(make, reward, actions, others):
    single = make(env=L5Env, observation="compact", others=others, actions=actions, reward=reward)
    env = make(controls="ego", others=others, actions=actions, reward=reward)
    expected, _ = single.reset(seed=3)
    seen, _ = env.reset(seed=3)
    assert env.scene_index == single.scene_index
    np.testing.assert_allclose(seen["ego"], expected, atol=1e-6)
    single.action_space.seed(0)
    while env.agents:
        action = single.action_space.sample()
        expected, *told, info = single.step(action)
        seen, rewards, terminated, truncated, infos = env.step({"ego": action})
        np.testing.assert_allclose(seen["ego"], expected, atol=1e-6)
        assert rewards["ego"] == pytest.approx(told[0], abs=1e-9)
        assert [terminated["ego"], truncated["ego"]] == told[1:]
        assert infos["ego"].pop("track_id") == -1
        sums = {key: infos["ego"].pop(key) for key in list(infos["ego"]) if key.startswith("reward_sum_")}
        if truncated["ego"]:
            assert sums == pytest.approx(
                {f"reward_sum_{key}": each for key, each in info.pop("reward_sums", {}).items()}
            )
        assert infos["ego"] == pytest.approx(info)
        np.testing.assert_allclose(ego_box(env)[:2], single.unwrapped._episodes.avs.arrays.boxes[0, :2], atol=1e-9)
    assert truncated["ego"]


def test_the_nearest_vehicles_act_under_names_that_stay(make, log):
    env, few = make(), make(controls=2)
    _, infos = env.reset(options=START)
    few.reset(options=START)
    agents, ego_m = logged(log, FIRST)
    distances_m = {int(each["track_id"]): math.dist(each["centroid"], ego_m) for each in agents}
    tracks = [infos[name]["track_id"] for name in env.agents]
    assert tracks[0] == -1
    assert len(tracks) > 3
    own_m = [distances_m[track] for track in tracks[1:]]
    assert own_m == sorted(own_m)
    assert own_m[-1] < 100
    assert env.possible_agents == ["ego", *(f"vehicle_{place}" for place in range(32))]
    assert few.possible_agents == ["ego", "vehicle_0", "vehicle_1"] == few.agents
    assert [few.episode.roads.actors.track_ids.tolist()] == [tracks[1:3]]
    assert make(max_vehicles=1).reset(options=START)[0].keys() == {"ego", "vehicle_0"}


def test_names_follow_the_frames_in_which_the_log_has_vehicles_near(make, log):
    env, begin = make(num_frames=90, max_vehicles=200), 1
    firsts = []
    for scene in range(len(log.scenes)):
        env.reset(options={"scene_id": scene, "start_frame_index": begin - 1})
        near = []
        for frame in range(begin, begin + 89):
            agents, ego_m = logged(log, frame, scene)
            is_near = np.hypot(*(agents["centroid"] - ego_m).T) < 100
            near.append(set(agents["track_id"][is_near].tolist()))
        of_tracks = [
            next((frame for frame, tracks in enumerate(near) if track in tracks), len(near))
            for track in env.episode.roads.actors.track_ids.tolist()
        ]
        assert of_tracks == sorted(of_tracks)
        firsts += of_tracks
    assert len(set(firsts)) > 2


def test_actors_see_each_other_but_not_themselves(make):
    layout = CompactLayout(num_agents=2, num_lane_points=3)
    env = make(layout=layout)
    seen, _ = env.reset(options=START)
    for name, row in seen.items():
        assert row.dtype == np.float32
        assert row in env.observation_space(name)
        parts = layout.split(row)
        assert parts["ego"][5] == 1  # has a route
        near = parts["agents"][parts["agents"][:, -1] == 1]
        assert (np.hypot(near[:, 0], near[:, 1]) * 50 > 1).all()
    avs = env.episode.avs.arrays
    assert layout.split(seen["vehicle_0"])["ego"][0] * 20 == pytest.approx(avs.motions[1, 0], abs=1e-4)
    way_m, yaw_rad = avs.boxes[1, :2] - avs.boxes[0, :2], avs.boxes[0, 2]
    assert math.hypot(*way_m) < 50
    places = layout.split(seen["ego"])["agents"][:, :2] * 50
    assert np.abs(places[:, 0] - way_m @ [math.cos(yaw_rad), math.sin(yaw_rad)]).min() < 1e-3


def test_vehicles_are_paid_for_staying_near_their_own_log(make, log):
    env = make(actions="pose_change", reward=DisplacementReward(L2DisplacementYawReward(enable_clip=False)))
    _, infos = env.reset(options=START)
    starts = {name: now(env, infos[name]["track_id"])["centroid"].copy() for name in env.agents[1:]}
    _, rewards, *_, infos = drive(env, np.zeros(3, np.float32))  # stand
    after, ego_m = logged(log, FIRST + 1)
    before_m = logged(log, FIRST)[1]
    assert infos["ego"]["reward_dist"] == pytest.approx(-math.dist(before_m, ego_m), abs=1e-3)
    for name, start_m in starts.items():
        record = after[after["track_id"] == infos[name]["track_id"]][0]
        assert infos[name]["reward_dist"] == pytest.approx(-math.dist(start_m, record["centroid"]), abs=1e-3)
        assert rewards[name] == pytest.approx(infos[name]["reward_dist"] + infos[name]["reward_yaw"])


def test_actions_move_their_own_vehicle_only(make, log):
    env = make(controls=2, others="log")
    _, infos = env.reset(options=START)
    ids = [infos[name]["track_id"] for name in ("vehicle_0", "vehicle_1")]
    for _ in range(5):
        env.step({"ego": FASTER, "vehicle_0": FASTER, "vehicle_1": -FASTER})
    speeds = [float(np.hypot(*now(env, track)["velocity"])) for track in ids]
    others = logged(log, FIRST + 5)[0]
    first = {int(each["track_id"]): float(np.hypot(*each["velocity"])) for each in logged(log, FIRST)[0]}
    assert speeds[0] == pytest.approx(first[ids[0]] + 0.5 * 4, abs=1e-3)  # half a second of 4 m/s2
    assert speeds[1] < first[ids[1]]
    users = [each for each in others if each["track_id"] not in ids and now(env, each["track_id"]) is not None]
    assert len(users) > 10
    for each in users:
        np.testing.assert_array_equal(now(env, each["track_id"])["centroid"], each["centroid"])


def test_others_follow_lanes_where_they_are_asked_to(make):
    both = [make(controls="ego", others=others) for others in ("log", "idm")]
    rows = []
    for env in both:
        env.reset(options=START)
        for _ in range(20):
            drive(env, np.zeros(2, np.float32))
        rows.append(env.episode.roads.traffic.rows(ONE_SCENE).boxes[:, :2].copy())
    assert rows[0].shape != rows[1].shape or np.abs(rows[0] - rows[1]).max() > 0.01


def test_a_vehicle_is_truncated_in_the_last_frame_of_its_log(make):
    env = make(num_frames=60)
    _, infos = env.reset(options=START)
    actors = env.episode.roads.actors
    last_frames = dict(zip(actors.track_ids.tolist(), actors.last_frames[1:].tolist(), strict=True))
    ended = 0
    while env.agents:
        seen, _, terminated, truncated, infos = drive(env, np.zeros(2, np.float32))
        assert not any(terminated.values())
        for name, is_end in truncated.items():
            track, frame = infos[name]["track_id"], env.episode.roads.traffic.frames[0]
            is_last = frame == FIRST - 1 + 59
            assert is_end == (is_last or frame == last_frames.get(track))
            assert np.isfinite(seen[name]).all()
            ended += is_end and not is_last
            assert (name in env.agents) is not is_end
    assert ended > 0


def test_who_has_failed_leaves_and_the_av_stands(make):
    env = make(**ENDS)
    _, infos = env.reset(options=START)
    gone, stood_m = {}, None
    while env.agents:
        before = set(env.agents)
        _, rewards, terminated, truncated, infos = drive(env, TO_THE_SIDE)
        assert not any(terminated[name] and truncated[name] for name in before)
        for name, track in gone.items():
            assert now(env, track) is None
            assert name not in infos
        for name in before:
            if terminated[name]:
                assert infos[name]["is_collision"] or infos[name]["is_off_road"]
                assert infos[name]["reward_sum_tot"] <= rewards[name] + 10
                if name != "ego":
                    gone[name] = infos[name]["track_id"]
        position_m = ego_box(env)[:2]
        if stood_m is not None:
            np.testing.assert_array_equal(position_m, stood_m)
        if "ego" not in env.agents:
            stood_m = position_m.copy()
    assert gone
    assert stood_m is not None


def overlaps(env):
    """Return the tracks that overlap each actor, by name; -1 is the AV."""
    traffic = env.episode.roads.traffic
    rows = traffic.rows(ONE_SCENE)
    is_user = rows.groups != RoadUserGroup.NONE
    tracks = traffic.bank.track_ids[rows.track_rows].astype(np.int64)
    boxes = {-1: ego_box(env).copy()} | {
        int(track): box for track, box in zip(tracks[is_user], rows.boxes[is_user], strict=True)
    }
    names = {
        name: -1 if name == "ego" else int(env.episode.roads.actors.track_ids[int(name[8:])]) for name in env.agents
    }
    return {
        name: {other for other, box in boxes.items() if other != own and boxes_overlap(boxes[own], box)}
        for name, own in names.items()
    }


def test_collisions_are_those_of_each_actor_with_all_others(make):
    env = make(reward="driving")
    env.reset(options=START)
    known, events = overlaps(env), []
    while env.agents:
        acting = set(env.agents)
        *_, infos = drive(env, TO_THE_SIDE)
        now_overlapping = overlaps(env)
        for name in acting & set(env.agents):
            new = now_overlapping[name] - known[name]
            assert (infos[name]["is_collision"] or infos[name]["is_contact"]) == bool(new)
            events += [(name, other) for other in new]
        known = {name: known.get(name, set()) | others for name, others in now_overlapping.items()}
    assert any(name != "ego" for name, _ in events)
    assert any(name == "ego" or other == -1 for name, other in events)


def test_progress_is_along_the_route_of_each_actor(make):
    env, layout = make(reward="driving"), CompactLayout()
    seen, _ = env.reset(options=START)
    parts = {name: layout.split(row)["ego"] for name, row in seen.items()}
    *_, infos = drive(env, np.zeros(2, np.float32))
    fast = [name for name, ego in parts.items() if ego[0] * 20 > 3 and abs(ego[8]) < 0.05]
    assert len(fast) > 1
    for name in fast:
        speed_mps, limit_mps = parts[name][0] * 20, parts[name][9] * 20
        expected = 0.1 * min(speed_mps / limit_mps, 1)  # for a tenth of a second
        assert infos[name]["reward_progress"] == pytest.approx(expected, rel=0.03)


def test_vehicles_come_when_they_are_near(make, log):
    num_arrived = 0
    for scene in range(len(log.scenes)):
        arrived = []
        env = make(num_frames=70, max_vehicles=200)
        _, infos = env.reset(options={"scene_id": scene, "start_frame_index": 0})
        while env.agents:
            before = set(env.agents)
            seen, rewards, _, _, infos = drive(env, np.zeros(2, np.float32))
            for name in set(env.agents) - before:
                arrived.append(name)
                assert rewards[name] == 0
                assert seen[name] in env.observation_space(name)
                assert infos[name]["reward_tot"] == 0
                record = now(env, infos[name]["track_id"])
                ego_m = ego_box(env)[:2]
                assert math.dist(record["centroid"], ego_m) < 100
        assert len(arrived) == len(set(arrived))
        num_arrived += len(arrived)
    assert num_arrived > 0


def test_seeds_repeat_and_options_choose(make):
    env = make(controls=1)
    found = [env.reset(seed=seed)[0]["ego"] for seed in (5, 5, 6)]
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    env.reset(options={"scene_id": 1, "start_frame_index": 7})
    assert (env.scene_index, env.episode.roads.traffic.frames[0]) == (1, 8)
    with pytest.warns(RuntimeWarning, match="options has scene, which has no effect here"):
        env.reset(options={"scene": 1})


def test_spaces_are_those_of_the_arguments(make):
    layout = CompactLayout(num_agents=1)
    env = make(actions="grid", layout=layout, controls=1)
    assert env.action_space("vehicle_0").n == 63
    assert env.action_space("ego") is not env.action_space("vehicle_0")
    assert env.observation_space("ego").shape == (layout.size,)
    env.reset(options=START)
    env.step({"ego": 31, "vehicle_0": 62})
    own = make(actions=model_actions("bicycle"), controls=0)
    assert own.action_space("ego").shape == (2,)
    with pytest.raises(ValueError, match="agent is 'vehicle_9'; it must be one of ego, vehicle_0"):
        env.action_space("vehicle_9")


def test_pictures_are_of_what_is_around_the_av(make):
    env = make(controls=1, render_mode="rgb_array")
    with pytest.raises(RuntimeError, match="no episode yet"):
        env.render()
    env.reset(options=START)
    first = env.render()
    for _ in range(10):
        drive(env)
    assert first.shape == env.render().shape == (40, 48, 3)
    assert not np.array_equal(first, env.render())
    env.close()
    env.close()
    assert env.agents == []
    assert make(controls=0).render() is None


def test_an_episode_must_be_there(make):
    env = make(num_frames=3, controls=0)
    with pytest.raises(RuntimeError, match="there is no episode yet; call reset"):
        env.step({"ego": FASTER})
    env.reset(seed=0)
    assert drive(env)[3] == {"ego": True}
    assert env.step({}) == ({}, {}, {}, {}, {})
    with pytest.raises(RuntimeError, match="has ended; call reset"):
        env.step({"ego": FASTER})


@pytest.mark.parametrize(
    ("actions", "text"),
    [
        ({"ego": FASTER}, "actions has none for vehicle_0"),
        ({"ego": FASTER, "vehicle_0": FASTER, "bus": FASTER}, "agent is 'bus'; it must be one of ego, vehicle_0"),
        ({"ego": FASTER, "vehicle_0": [np.nan, 0.0]}, "vehicle_0: action is .*nan.*must be finite"),
        ({"ego": [1.0], "vehicle_0": FASTER}, "ego: action must be 2 numbers"),
    ],
    ids=["missing", "stranger", "not finite", "shape"],
)
def test_wrong_actions_are_refused_and_nothing_moves(make, actions, text):
    env = make(controls=1)
    env.reset(options=START)
    with pytest.raises(ValueError, match=text):
        env.step(actions)
    assert env.episode.roads.traffic.frames[0] == FIRST
    drive(env)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"controls": "all"}, "controls is 'all'; it must be 'vehicles', 'ego' or a number, at most 10,000"),
        ({"controls": -1}, "controls is -1"),
        ({"controls": True}, "controls is True"),
        ({"max_vehicles": -1}, "max_vehicles is -1"),
        ({"max_vehicles": 10**9}, "max_vehicles is 1000000000; it must be a whole number from 0 to 10,000"),
        ({"actions": "poses"}, "actions is 'poses'; it must be one of bicycle"),
        ({"others": "nobody"}, "others is 'nobody'"),
        ({"render_mode": "human"}, "render_mode is 'human'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_arguments_are_refused(make, args, text):
    with pytest.raises(ValueError, match=text):
        make(**args)


@pytest.mark.parametrize("said", [{"use_agents_gt": False}, {"disable_new_agents": True}])
def test_agents_that_networks_drive_are_refused(city, tmp_path, said):
    with pytest.raises(UnsupportedValueError, match="disable_new_agents=True need"):
        L5ParallelEnv(write_config(tmp_path), data_of(city), sim_cfg=SimulationConfigGym(**said))


def test_what_is_for_the_av_alone_is_refused(city, tmp_path):
    config = write_config(tmp_path, frames_per_action=2)
    with pytest.raises(UnsupportedValueError, match="with several actors each frame needs actions"):
        L5ParallelEnv(config, data_of(city))
