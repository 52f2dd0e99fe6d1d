"""Driving reward from the closed-loop score: terms of synthetic steps, and whole drives compared with the score.

The AV is 4 x 2 m, and its route goes along x from the origin; a step takes 0.1 s.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.data.scene_arrays import read_scene_arrays
from l5kit.environment.reward import L2DisplacementYawReward
from l5kit.environment.rewards.driving_reward import DrivingReward, DrivingWeights
from l5kit.environment.rewards.step_reward import DisplacementReward, DrivenStep
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving import build_driving_map, ego_states_of_poses, read_ego_states, read_road_users
from l5kit.evaluation.driving.collisions import count_at_fault, find_collisions
from l5kit.evaluation.driving.lane_positions import find_lane_positions
from l5kit.evaluation.driving.map_scores import find_distances_off_road
from l5kit.evaluation.driving.road_users import RoadUserGroup, RoadUsers
from l5kit.evaluation.driving.route_progress import find_progress, find_routes
from l5kit.evaluation.driving.time_to_collision import find_times_to_collision
from l5kit.lanes.lane_paths import TrackPoses, make_lane_paths
from l5kit.lanes.path_positions import find_on_path, line_at
from l5kit.lanes.red_lights import RED, YELLOW, LightRows, SceneLights
from l5kit.simulation.lanes.lane_following import SceneRows
from support.driving import make_road_map, road_users_at

STEP_S = 0.1
SLOT = np.zeros(1, np.int64)
LINE_M = 20.0
LIMIT_MPS = 10.0
MOVES = (3.0, 0.0)
CALM = (10.0, 0.0, 0.0, 0.0)
_NONE = np.zeros(0, np.int64)
NO_LIGHTS = SceneLights(np.zeros(2, np.int64), _NONE.astype(np.int8), np.zeros(2, np.int64), _NONE)


@pytest.fixture(scope="module")
def road_map(tmp_path_factory):
    return make_road_map(tmp_path_factory.mktemp("road"))


def straight_path():
    """One path along x, 60 m, of lanes 0 and 1; lane 0 has the light of the line at 20 m."""
    points_m = np.stack([np.arange(0.0, 62.0, 2.0), np.zeros(31)], axis=1)
    ends, pieces = np.array([0, 31]), np.array([0, 2])
    lanes, line_lanes = np.array([0, 1]), np.array([[-1, -1], [0, -1]])
    limits = np.array([LIMIT_MPS, 2 * LIMIT_MPS])
    return ends, points_m, np.array([60.0]), pieces, np.array([0.0, LINE_M]), lanes, line_lanes, limits


def rows_of(others):
    """Rows of one slot, whose ``group`` may be none, and their tracks."""
    users = road_users_at([[{**other, "group": RoadUserGroup.VEHICLE} for other in others]])
    groups = np.array([other.get("group", RoadUserGroup.VEHICLE) for other in others], np.int64)
    return (users.starts, groups, users.boxes, users.velocities_mps), users.tracks


def make_step(
    *,
    pose=(0.0, 0.0, 0.0),
    motion=CALM,
    motion_before=CALM,
    place=(0.0, 0.0, 0.0),
    place_before=None,
    experts_m=(0.0, 0.0),
    others=(),
    lights=(),
    driving_map=None,
):
    """A step of one slot; ``lights`` are lanes and colours."""
    rows, tracks = rows_of(list(others))
    box = np.array([[*pose, 4.0, 2.0]])
    ranks = np.zeros(8, np.int8)
    for lane, rank in lights:
        ranks[lane] = max(ranks[lane], rank)
    return DrivenStep(
        boxes=box,
        boxes_before=box,
        motions=np.array([motion]),
        motions_before=np.array([motion_before]),
        route_positions=np.array([place]),
        route_positions_before=np.array([place if place_before is None else place_before]),
        expert_arcs_m=np.array([experts_m[1]]),
        expert_arcs_before_m=np.array([experts_m[0]]),
        log_poses=np.array([pose]),
        rows=SceneRows(*rows),
        track_rows=tracks,
        paths=straight_path(),
        routes=np.zeros(1, np.int64),
        lights=LightRows(SLOT, SLOT, SceneLights(np.array([0, 8]), ranks, np.array([0, 8]), np.arange(8))),
        step_time_s=STEP_S,
        driving_map=driving_map,
    )


def worth_of(step, reward=None):
    """The non-zero terms of a step, its reward and its failures, in an episode that begins far away."""
    reward = DrivingReward() if reward is None else reward
    reward.begin(SLOT, make_step())
    worth = reward.of_step(SLOT, step)
    terms = {name: value for name, value in zip(reward.terms, worth.terms[0].tolist(), strict=True) if value}
    return terms, worth.total[0], {name for name, failed in worth.failures.items() if failed[0]}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param({}, {}, id="stands still"),
        pytest.param({"place": (1.0, 0, 0), "place_before": (0, 0, 0)}, {"progress": 0.1}, id="at the limit"),
        pytest.param({"place": (0.5, 0, 0), "place_before": (0, 0, 0)}, {"progress": 0.05}, id="half as fast"),
        pytest.param({"place": (3.0, 0, 0), "place_before": (0, 0, 0)}, {"progress": 0.1}, id="no more for more"),
        pytest.param({"place": (5.0, 0, 0), "place_before": (5.4, 0, 0)}, {"progress": -0.04}, id="backwards"),
        pytest.param({"place": (9.0, 0, 0), "place_before": (14.0, 0, 0)}, {"progress": -0.1}, id="far backwards"),
        pytest.param({"place": (31.0, 0, 0), "place_before": (30.0, 0, 0)}, {"progress": 0.05}, id="limit of there"),
        pytest.param({"place": (1.0, 4.1, 0), "place_before": (0, 3.9, 0)}, {"off_route": -0.1}, id="beside the route"),
        pytest.param({"place": (1.0, 3.9, 0), "place_before": (0, 4.1, 0)}, {}, id="comes back to it"),
        pytest.param({"place": (1.0, 0, 2.0), "place_before": (0, 0, 1.5)}, {"off_route": -0.1}, id="turned away"),
        pytest.param({"place": (np.nan, np.nan, np.nan)}, {"off_route": -0.1}, id="nowhere"),
        pytest.param({"motion": (10 + 2.23, 0, 0, 0)}, {"speed": -0.05}, id="too fast"),
        pytest.param({"motion": (-10 - 2.23, 0, 0, 0)}, {"speed": -0.05}, id="too fast backwards"),
        pytest.param({"motion": (99.0, 0, 0, 0)}, {"speed": -0.15}, id="much too fast"),
        pytest.param({"motion": (12.0, 0, 0, 0), "place": (30.0, 0, 0)}, {}, id="faster limit"),
    ],
)
def test_progress_and_speed(step, expected):
    terms, total, failed = worth_of(make_step(**step))
    assert terms == pytest.approx(expected)
    assert total == pytest.approx(sum(expected.values()))
    assert not failed


@pytest.mark.parametrize(
    ("weights", "step", "expected"),
    [
        pytest.param({}, {}, 0.1, id="nothing wrong"),
        pytest.param({"speed": 0.5}, {"motion": (10 + 2.23 / 2, 0, 0, 0)}, 0.1 * 0.75, id="a bit too fast"),
        pytest.param({"speed": 0.5}, {"motion": (99.0, 0, 0, 0)}, 0.0, id="never below 0"),
        pytest.param(
            {"speed": 0.5, "comfort": 3.0},
            {"motion": (10 + 2.23 / 2, 3.6, 0, 0), "motion_before": (10, 3.6, 0, 0)},
            0.1 * 0.75 * (1 - 3.0 * 0.5 / 6),
            id="two things",
        ),
        pytest.param({}, {"lights": [(0, RED)], "place": (18.5, 0, 0), "place_before": (17.5, 0, 0)}, -4.9, id="red"),
    ],
)
def test_what_lasts_scales_progress_where_terms_are_a_product(weights, step, expected):
    """Failures are still taken off."""
    reward = DrivingReward(DrivingWeights(combines="product", **weights))
    driven = make_step(**{"place": (1.0, 0, 0), "place_before": (0, 0, 0), **step})
    terms, total, _ = worth_of(driven, reward)
    assert total == pytest.approx(expected)
    assert set(terms) <= {"progress", "red_light"}
    assert sum(terms.values()) == pytest.approx(expected)


def test_backwards_is_not_made_better_by_what_is_wrong():
    reward = DrivingReward(DrivingWeights(combines="product"))
    step = make_step(place=(5.0, 0, 0), place_before=(5.5, 0, 0), motion=(-99.0, 0, 0, 0))
    assert worth_of(step, reward)[1] == pytest.approx(-0.05)


@pytest.mark.parametrize(
    ("experts_m", "expected"), [((3.0, 4.0), 0.05), ((3.0, 3.25), 0.1), ((3.0, 3.0), 0.1), ((3.0, 5.0), 0.025)]
)
def test_progress_beside_the_expert(experts_m, expected):
    """Half a metre in a step; an expert below 4 m/s counts as one with 4 m/s."""
    reward = DrivingReward(DrivingWeights(progress_reference="expert", least_reference_mps=4.0))
    step = make_step(place=(0.5, 0, 0), place_before=(0, 0, 0), experts_m=experts_m)
    assert worth_of(step, reward)[0] == pytest.approx({"progress": expected})


@pytest.mark.parametrize(
    ("before", "after", "mean"),
    [
        pytest.param((5.0, 2.4, 0, 0), (5.0, 2.4, 0, 0), 0.0, id="at the bound"),
        pytest.param((5.0, 3.6, 0, 0), (5.0, 3.6, 0, 0), 0.5 / 6, id="accelerates"),
        pytest.param((5.0, -8.1, 0, 0), (5.0, -8.1, 0, 0), 1.0 / 6, id="brakes"),
        pytest.param((5.0, -99.0, 0, 0), (5.0, -99.0, 0, 0), 1.0 / 6, id="counts as one at most"),
        pytest.param((9.78, 0, 0.75, 0), (9.78, 0, 0.75, 0), 0.5 / 6, id="bend"),
        pytest.param((9.78, 0, -0.75, 0), (9.78, 0, -0.75, 0), 0.5 / 6, id="bend to the right"),
        pytest.param((0.0, 0, 1.425, 0), (0.0, 0, 1.425, 0), 0.5 / 6, id="turns"),
        pytest.param((0.0, 0, 0, 0), (0.0, 0, 0.2895, 0), 0.5 / 6, id="begins to turn"),
        pytest.param((5.0, 0, 0, 0), (5.0, 0.6195, 0, 0), 0.5 / 6, id="jerk along"),
        pytest.param((5.0, 0.0, 0, 0), (5.0, 1.2555, 0, 0), (1.0 + 0.5) / 6, id="jerk along and of the size"),
    ],
)
def test_comfort(before, after, mean):
    terms, _, _ = worth_of(make_step(motion=after, motion_before=before))
    assert terms.get("comfort", 0.0) == pytest.approx(-0.5 * STEP_S * mean)


@pytest.mark.parametrize(
    ("arcs_m", "lights", "expected"),
    [
        pytest.param((17.5, 18.5), [(0, RED)], -5.0, id="front passes the line"),
        pytest.param((18.0, 19.0), [(0, RED)], -5.0, id="front was at the line"),
        pytest.param((17.0, 18.0), [(0, RED)], 0.0, id="front comes to the line"),
        pytest.param((18.5, 19.5), [(0, RED)], 0.0, id="front was beyond it"),
        pytest.param((17.5, 18.5), [(0, YELLOW)], 0.0, id="yellow"),
        pytest.param((17.5, 18.5), [(1, RED)], 0.0, id="light of another lane"),
        pytest.param((17.5, 18.5), [(0, YELLOW), (0, RED)], -5.0, id="red of two"),
        pytest.param((17.5, 18.5), [], 0.0, id="no light"),
    ],
)
def test_red_lines(arcs_m, lights, expected):
    step = make_step(place=(arcs_m[1], 0, 0), place_before=(arcs_m[0], 0, 0), lights=lights)
    terms, _, failed = worth_of(step)
    assert terms.get("red_light", 0.0) == expected
    assert ("red_light" in failed) == (expected < 0)


@pytest.mark.parametrize(
    ("other", "speed_mps", "term"),
    [
        pytest.param({"at": (4.0, 0), "v": MOVES}, 10.0, None, id="boxes touch"),
        pytest.param({"at": (3.5, 0), "v": MOVES}, 10.0, "collision", id="runs into a car"),
        pytest.param({"at": (-3.5, 0), "v": MOVES}, 10.0, "contact", id="is run into"),
        pytest.param({"at": (-3.5, 0)}, 10.0, "collision", id="parked car"),
        pytest.param({"at": (3.5, 0), "v": MOVES}, 0.04, "contact", id="AV stands"),
        pytest.param({"at": (-3.5, 0)}, -5.0, "collision", id="backwards into a parked car"),
        pytest.param({"at": (-1, 1.9), "v": MOVES}, 10.0, "contact", id="lateral without a map"),
        pytest.param({"at": (2, 0), "v": MOVES, "group": RoadUserGroup.OTHER}, 10.0, "collision", id="animal"),
        pytest.param({"at": (2, 0), "v": MOVES, "group": RoadUserGroup.NONE}, 10.0, None, id="no road user"),
    ],
)  # fmt: skip
def test_collisions(other, speed_mps, term):
    reward = DrivingReward(DrivingWeights(contact=3.0, time_to_collision=0.0))
    step = make_step(others=[other], motion=(speed_mps, 0, 0, 0), motion_before=(speed_mps, 0, 0, 0))
    expected = {} if term is None else {term: {"collision": -10.0, "contact": -3.0}[term]}
    terms, total, failed = worth_of(step, reward)
    assert (terms, total, failed - {"time_to_collision"}) == (expected, sum(expected.values()), set(expected))


@pytest.mark.parametrize(
    ("other", "speed_mps", "expected"),
    [
        pytest.param({"at": (12.9, 0)}, 10.0, -0.1, id="0.89 s behind a parked car"),
        pytest.param({"at": (13.1, 0)}, 10.0, 0.0, id="0.91 s behind it"),
        pytest.param({"at": (12.9, 0), "v": MOVES}, 10.0, 0.0, id="it drives away"),
        pytest.param({"at": (12.9, 0)}, 0.0, 0.0, id="AV stands"),
        pytest.param({"at": (3.0, 4.0), "yaw": -np.pi / 2, "v": (0.0, -3.0)}, 2.0, 0.0, id="crosses from the side"),
        pytest.param({"at": (-6.0, 0), "v": (9.0, 0)}, 2.0, 0.0, id="from behind"),
    ],
)
def test_time_to_collision(other, speed_mps, expected):
    step = make_step(others=[other], motion=(speed_mps, 0, 0, 0), motion_before=(speed_mps, 0, 0, 0))
    terms, _, failed = worth_of(step)
    assert terms.get("time_to_collision", 0.0) == pytest.approx(expected)
    assert failed == ({"time_to_collision"} if expected else set())


@pytest.mark.parametrize(
    ("pose", "expected"),
    [
        pytest.param((30.0, 0.0, 0.0), 0.0, id="in its lane"),
        pytest.param((30.0, 1.5, 0.0), -0.1, id="across two lanes"),
        pytest.param((110.0, 0.0, 0.0), -0.1, id="in a junction"),
    ],
)
def test_who_comes_from_the_side_counts_where_lanes_meet(pose, expected, road_map):
    other = {"at": (pose[0] + 3, pose[1] + 4), "yaw": -np.pi / 2, "v": (0.0, -3.0)}
    step = make_step(pose=pose, others=[other], motion=(2.0, 0, 0, 0), driving_map=road_map)
    assert worth_of(step)[0].get("time_to_collision", 0.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("y_m", "term"), [pytest.param(0.0, "contact", id="in its lane"), pytest.param(1.5, "collision", id="across two")]
)
def test_lateral_collisions_are_at_fault_out_of_the_lane(y_m, term, road_map):
    step = make_step(pose=(30, y_m, 0), others=[{"at": (29, y_m + 1.9), "v": MOVES}], driving_map=road_map)
    assert worth_of(step, DrivingReward(DrivingWeights(contact=1.0)))[2] - {"time_to_collision"} == {term}


@pytest.mark.parametrize(
    ("pose", "expected"),
    [
        pytest.param((30.0, 0.0, 0.0), 0.0, id="on the road"),
        pytest.param((30.0, -1.25, 0.0), 0.0, id="corners 0.25 m off"),
        pytest.param((30.0, -1.35, 0.0), -0.5, id="corners 0.35 m off"),
        pytest.param((30.0, 5.35, 0.0), -0.5, id="on the left side"),
        pytest.param((-900.0, 7.0, 0.0), -0.5, id="far off the map"),
        pytest.param((np.nan, 7.0, 0.0), -0.5, id="nowhere"),
    ],
)
def test_off_the_road(pose, expected, road_map):
    step = make_step(pose=pose, driving_map=road_map)
    terms, total, failed = worth_of(step)
    assert terms == ({"off_road": expected} if expected else {})
    assert total == expected
    assert ("off_road" in failed) == (expected < 0)
    assert worth_of(step._replace(driving_map=None))[2] == set()


def test_a_road_user_counts_once_until_the_episode_begins_anew():
    reward = DrivingReward(DrivingWeights(time_to_collision=0.0), ends_at=["collision"])
    parked = {"at": (3.5, 0), "track": 7}
    reward.begin(SLOT, make_step())
    worths = [
        reward.of_step(SLOT, make_step(others=others))
        for others in ([parked], [parked], [], [parked], [{"at": (-3.5, 0), "track": 8}, parked])
    ]
    assert [worth.total[0] for worth in worths] == [-15.0, 0.0, 0.0, 0.0, -15.0]
    assert [bool(worth.is_failed[0]) for worth in worths] == [True, False, False, False, True]
    reward.begin(SLOT, make_step())
    assert reward.of_step(SLOT, make_step(others=[parked])).total[0] == -15.0
    reward.begin(SLOT, make_step(others=[parked]))
    assert reward.of_step(SLOT, make_step(others=[parked])).total[0] == 0.0


def test_many_collisions_at_once_are_all_remembered():
    reward = DrivingReward(DrivingWeights(time_to_collision=0.0))
    reward.begin(SLOT, make_step())
    crowd = [{"at": (3.5, 0), "track": track} for track in range(100)]
    assert reward.of_step(SLOT, make_step(others=crowd[:70])).total[0] == -700.0
    assert reward.of_step(SLOT, make_step(others=crowd)).total[0] == -300.0
    assert reward.of_step(SLOT, make_step(others=crowd)).total[0] == 0.0


@pytest.mark.parametrize(
    "ends_at", [(), ("off_road",), ("collision", "off_road"), ("contact",), ("time_to_collision",)]
)
def test_what_ends_the_task(ends_at, road_map):
    reward = DrivingReward(ends_at=ends_at)
    reward.begin(SLOT, make_step())
    hit = reward.of_step(SLOT, make_step(pose=(30, 0, 0), others=[{"at": (33.5, 0)}], driving_map=road_map))
    off = reward.of_step(SLOT, make_step(pose=(30, -9, 0), driving_map=road_map))
    ends_by_hit = not {"collision", "time_to_collision"}.isdisjoint(ends_at)
    assert [hit.is_failed[0], off.is_failed[0]] == [ends_by_hit, "off_road" in ends_at]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DrivingReward(ends_at=["crash"]), "ends_at has 'crash'; names are collision"),
        (lambda: DrivingWeights(speed=-1.0), "speed is -1.0; pass a number of at least 0"),
        (lambda: DrivingWeights(comfort=np.nan), "comfort is nan"),
        (lambda: DrivingWeights(least_reference_mps=0.0), "least_reference_mps is 0"),
        (lambda: DrivingWeights(progress_reference="log"), "progress_reference is 'log'; pass 'limit' or 'expert'"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make()


@pytest.fixture(scope="module")
def wild_drives(city):
    """Scenes of a synthetic city, their map, and AVs that increasingly leave the log: to both sides and too fast."""
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    scenes = [read_scene_arrays(log, index) for index in range(len(log.scenes))] * 3
    logged = read_ego_states(scenes)
    frames = np.arange(logged.is_there.shape[1])
    turns = np.repeat([0.3, -0.3, 0.0], len(scenes) // 3)[:, None] * np.sin(frames / 15)
    yaws = logged.yaws_rad[:, :1] + turns
    speeds = (
        np.maximum(logged.speeds_mps.max(axis=1), 8.0)[:, None, None]
        * np.repeat([1.0, 1.0, 1.5], len(scenes) // 3)[:, None, None]
    )
    ways = STEP_S * speeds * np.stack([np.cos(yaws), np.sin(yaws)], axis=-1)
    positions = logged.positions_m[:, :1] + np.cumsum(ways, axis=1) - ways[:, :1]
    states = ego_states_of_poses(positions, yaws, timestamps_s=logged.timestamps_s)
    return states, read_road_users(scenes), build_driving_map(open_map(find_dataset_files(city))), logged


def steps_of(states, road_users: RoadUsers, driving_map, expert):
    """The steps of all frames of drives, a slot for each scene; the first is that of the beginning."""
    size, num_frames = states.is_there.shape
    paths = make_lane_paths(
        TrackPoses(
            num_frames * np.arange(size + 1),
            expert.positions_m.reshape(-1, 2),
            expert.yaws_rad.reshape(-1),
            np.full(size, STEP_S * num_frames),
        ),
        driving_map,
    )
    assert paths.has_path.all()
    places, experts = (places_along(paths, drive) for drive in (states, expert))
    motions = np.zeros((size, num_frames, 4))
    motions[..., 0], motions[..., 1] = states.speeds_mps, states.accelerations_mps2[..., 0]
    for frame in range(num_frames):
        before = max(frame - 1, 0)
        numbers = num_frames * np.arange(size) + frame
        rows = [np.arange(road_users.starts[n], road_users.starts[n + 1]) for n in numbers]
        chosen = np.concatenate(rows)
        yield DrivenStep(
            boxes=states.boxes[:, frame].copy(),
            boxes_before=states.boxes[:, before].copy(),
            motions=motions[:, frame].copy(),
            motions_before=motions[:, before].copy(),
            route_positions=places[:, frame].copy(),
            route_positions_before=places[:, before].copy(),
            expert_arcs_m=experts[:, frame, 0].copy(),
            expert_arcs_before_m=experts[:, before, 0].copy(),
            log_poses=np.concatenate([expert.positions_m[:, frame], expert.yaws_rad[:, frame, None]], axis=1),
            rows=SceneRows(
                np.cumsum([0, *map(len, rows)]),
                road_users.groups[chosen],
                road_users.boxes[chosen],
                road_users.velocities_mps[chosen],
            ),
            track_rows=road_users.tracks[chosen],
            paths=paths.arrays._replace(line_lanes=np.full_like(paths.line_lanes, -1)),
            routes=np.arange(size),
            lights=LightRows(*np.zeros((2, size), np.int64), NO_LIGHTS),
            step_time_s=STEP_S,
            driving_map=driving_map,
        )


def places_along(paths, states):
    """Positions of AVs on their paths: arc length, offset, and heading relative to the path, (S, F, 3)."""
    places = np.zeros((*states.is_there.shape, 3))
    for scene, frame in np.ndindex(states.is_there.shape):
        points_m = paths.points_of(scene)
        first, stop = 0, len(points_m)
        if frame:
            first = max(int(places[scene, frame - 1, 0] / 2) - 5, 0)
            stop = min(first + 25, len(points_m))
        pose = (*states.positions_m[scene, frame].tolist(), float(states.yaws_rad[scene, frame]))
        arc_m, offset_m, _ = find_on_path(points_m, min(first, stop - 2), stop, pose)
        _, _, along_x, along_y = line_at(points_m, arc_m)
        turn = pose[2] - np.arctan2(along_y, along_x)
        places[scene, frame] = arc_m, offset_m, (turn + np.pi) % (2 * np.pi) - np.pi
    return places


def drive_through(reward, steps, slots):
    """The worths of all steps after the first."""
    reward.begin(slots, steps[0])
    return [reward.of_step(slots, step) for step in steps[1:]]


def test_whole_drives_as_the_score_sees_them(wild_drives):
    states, road_users, driving_map, expert = wild_drives
    steps = list(steps_of(states, road_users, driving_map, expert))
    worths = drive_through(
        DrivingReward(DrivingWeights(collision=1.0, contact=1.0)), steps, np.arange(states.num_scenes)
    )
    places = find_lane_positions(states, driving_map)
    collisions = find_collisions(states, road_users, places)
    at_fault = count_at_fault(states, road_users, collisions).sum(axis=-1)[:, 1:]
    everyone = np.zeros(states.is_there.size)
    np.add.at(everyone, road_users.frames_of_rows[collisions.kinds > 0], 1)
    others = everyone.reshape(states.is_there.shape)[:, 1:] - at_fault
    is_off = find_distances_off_road(states, driving_map)[:, 1:] >= 0.3
    is_close = find_times_to_collision(states, road_users, places, collisions)[:, 1:] <= 0.95
    assert at_fault.sum() > 2, "drives that hit nobody show nothing"
    assert is_close.sum() > 2 * at_fault.sum()
    assert 0 < is_off.mean() < 1
    assert_array_equal(np.stack([-worth.terms[:, 1] for worth in worths], axis=1), at_fault)
    assert_array_equal(np.stack([-worth.terms[:, 2] for worth in worths], axis=1), others)
    assert_array_equal(np.stack([worth.terms[:, 4] < 0 for worth in worths], axis=1), is_close)
    assert_array_equal(np.stack([worth.failures["off_road"] for worth in worths], axis=1), is_off)
    assert np.isfinite([worth.terms for worth in worths]).all()


def test_progress_of_the_log_is_that_of_the_score(wild_drives):
    _, road_users, driving_map, expert = wild_drives
    far = DrivingWeights(progress=100.0, progress_reference="expert", least_reference_mps=100.0)
    steps = list(steps_of(expert, road_users, driving_map, expert))
    worths = drive_through(DrivingReward(far), steps, np.arange(expert.num_scenes))
    places = find_lane_positions(expert, driving_map)
    routes = find_routes(places, driving_map, expert=expert)
    progress_m = find_progress(expert, places, routes=routes, driving_map=driving_map).sum(axis=1)
    assert progress_m.min() > 5
    assert_allclose(np.sum([worth.terms[:, 0] for worth in worths], axis=0), progress_m, rtol=0.03)


def test_the_same_bits_in_any_batch_and_order(wild_drives):
    steps = list(steps_of(*wild_drives))
    size = len(steps[0].routes)
    together, alone, turned = DrivingReward(), DrivingReward(), DrivingReward()
    order = np.arange(size)[::-1].copy()
    worths = drive_through(together, steps, np.arange(size))
    backwards = drive_through(turned, [taken(step, order) for step in steps], order)
    for worth, other in zip(worths, backwards, strict=True):
        assert_array_equal(worth.terms[order], other.terms)
        assert_array_equal(worth.total[order], other.total)
    for slot in range(size):
        rows = np.array([slot])
        for worth, other in zip(worths, drive_through(alone, [taken(s, rows) for s in steps], rows), strict=True):
            assert_array_equal(worth.terms[rows], other.terms)
            assert_array_equal(worth.total[rows], other.total)


def taken(step, slots):
    """A step of some of the slots."""
    starts = step.rows.starts
    rows = np.concatenate([np.arange(starts[slot], starts[slot + 1]) for slot in slots])
    counts = np.diff(starts)[slots]
    per_slot = step._asdict()
    chosen = {
        name: value[slots] for name, value in per_slot.items() if isinstance(value, np.ndarray) and name != "track_rows"
    }
    return step._replace(
        **chosen,
        rows=SceneRows(np.cumsum([0, *counts]), *(column[rows] for column in step.rows[1:])),
        track_rows=step.track_rows[rows],
        lights=LightRows(step.lights.frames[slots], step.lights.scenes[slots], step.lights.lights),
    )


@pytest.mark.parametrize("use_yaw", [True, False])
@pytest.mark.parametrize("origin_m", [(0.0, 0.0), (5e5, 4e6)])
def test_the_reward_of_1_5(origin_m, use_yaw):
    """3 and 4 m from the log, which looks a quarter of a turn to the left."""
    x_m, y_m = origin_m
    step = make_step(pose=(x_m + 3.01, y_m + 4.01, 0.0))
    step = step._replace(log_poses=np.array([[x_m + 0.01, y_m + 0.01, np.pi / 2]]))
    reward = DisplacementReward(L2DisplacementYawReward(use_yaw=use_yaw))
    reward.begin(SLOT, step)
    worth = reward.of_step(SLOT, step)
    assert reward.terms == ("distance", "yaw")
    assert_allclose(worth.terms, [[-5.0, -np.pi / 2 if use_yaw else 0.0]], rtol=1e-6)
    assert worth.total == pytest.approx(worth.terms.sum())
    assert not worth.is_failed.any()


def test_the_reward_of_1_5_with_metrics_of_its_own_is_refused():
    from l5kit.environment.gym_metric_set import CLEMetricSet

    reward = L2DisplacementYawReward()
    reward.metric_set = CLEMetricSet()
    with pytest.raises(InvalidArgumentError, match="CLEMetricSet"):
        DisplacementReward(reward)
