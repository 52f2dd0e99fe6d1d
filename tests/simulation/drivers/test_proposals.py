"""Proposals: their marks are those of the scores of whole drives, forecasts, roll-outs, and which one is the best."""

import numpy as np
import pytest

from l5kit.evaluation.driving.collisions import find_collisions
from l5kit.evaluation.driving.comfort import ComfortBounds, comfort, comfort_filters, is_drive_comfortable
from l5kit.evaluation.driving.ego_states import EgoBody, EgoStates
from l5kit.evaluation.driving.lane_positions import find_lane_positions
from l5kit.evaluation.driving.map_scores import find_distances_off_road
from l5kit.evaluation.driving.road_users import RoadUserGroup, RoadUsers
from l5kit.evaluation.driving.time_to_collision import counts_ahead
from l5kit.lanes.road_surface import write_corners
from l5kit.simulation.drivers import proposal_scores as scores
from l5kit.simulation.drivers.proposal_choice import choose
from l5kit.simulation.drivers.proposal_scores import (
    Tracking,
    first_step_off_road,
    is_across,
    mark_collisions,
    road_arrays,
    roll_out,
)
from l5kit.simulation.engine.actions import Actions, TrackedPlans
from l5kit.simulation.lanes.lane_forecasts import forecast_lanes, forecast_others
from l5kit.simulation.trajectory_tracker import speed_fit_matrix
from l5kit.simulation.vehicle_models import VehicleStates
from support.driving import make_road_map

STEPS = 40
LENGTH_M, WIDTH_M = 4.87, 1.85
BODY = EgoBody.of_extent(LENGTH_M, WIDTH_M)
SIZES = (LENGTH_M, WIDTH_M, BODY.rear_axle_to_centre_m)
AHEAD_FREE = scores.IS_AHEAD_FREE


@pytest.fixture(scope="module")
def driving_map(tmp_path_factory):
    return make_road_map(tmp_path_factory.mktemp("road"))


def straight_states(start_m, yaw_rad, speed_mps):
    """Return states (T + 1, 7) of a drive straight on."""
    states = np.zeros((STEPS + 1, scores.NUM_STATE_COLUMNS))
    ways_m = 0.1 * speed_mps * np.arange(STEPS + 1)
    states[:, 0], states[:, 1] = start_m[0] + ways_m * np.cos(yaw_rad), start_m[1] + ways_m * np.sin(yaw_rad)
    states[:, 2], states[:, 3] = yaw_rad, speed_mps
    return states


def as_scene(states):
    """Return states (T + 1, 7) as one scene."""
    return EgoStates(
        timestamps_s=0.1 * np.arange(len(states))[None],
        is_there=np.ones((1, len(states)), np.bool_),
        positions_m=states[None, :, :2].copy(),
        yaws_rad=states[None, :, scores.YAW].copy(),
        speeds_mps=np.abs(states[None, :, scores.SPEED]),
        accelerations_mps2=states[None][..., [scores.ACCELERATION, scores.ACROSS]],
        body=BODY,
    )


def random_drives(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        start_m = rng.uniform([20, -3], [110, 7])
        yield straight_states(start_m, rng.normal(0, 0.3), rng.uniform(0, 12)), rng


def test_steps_off_the_road_are_those_of_the_score(driving_map):
    road, found = road_arrays(driving_map), []
    for states, _ in random_drives(60, seed=1):
        distances_m = find_distances_off_road(as_scene(states), driving_map)[0, 2::2]
        off = np.flatnonzero(distances_m >= 0.25)
        assert first_step_off_road(states, SIZES, road) == (2 * off[0] + 2 if len(off) else np.inf)
        found.append(len(off) > 0)
    assert 10 < sum(found) < 50


def test_lanes_under_boxes_are_those_of_the_score(driving_map):
    road, found = road_arrays(driving_map), []
    for states, _ in random_drives(60, seed=2):
        scene = as_scene(states)
        places = find_lane_positions(scene, driving_map)
        for step in range(0, STEPS, 8):
            box, rear_m = scene.boxes[0, step].copy(), scene.rear_axles_m[0, step].copy()
            across, inside = places.is_across[0, step], places.is_in_junction[0, step]
            assert is_across(road, box) == across
            corners_m, room = np.empty((4, 2)), np.empty((5, road.most_lanes), np.int64)
            write_corners(box, corners_m)
            for angle_rad, counts in ((0.5, True), (1.5, across or inside), (2.7, False)):
                assert counts_ahead(angle_rad, road.surface, corners_m, rear_m, room) == counts
            found.append((across, inside))
    assert len(set(found)) == 4


def test_comfort_is_that_of_the_score():
    filters, found = comfort_filters(STEPS + 1), []
    rng = np.random.default_rng(3)
    for _ in range(60):
        states = straight_states((0.0, 0.0), 0.0, 8.0)
        roughness = rng.uniform(0, 1.2)
        states[:, scores.ACCELERATION] = np.cumsum(rng.normal(0, 0.4 * roughness, STEPS + 1))
        states[:, scores.ACROSS] = np.cumsum(rng.normal(0, 0.4 * roughness, STEPS + 1))
        states[:, scores.YAW] = np.cumsum(np.cumsum(rng.normal(0, 0.004 * roughness, STEPS + 1)))
        along, across, yaws = (states[:, column] for column in (scores.ACCELERATION, scores.ACROSS, scores.YAW))
        found.append(is_drive_comfortable(along, across, yaws, 0.1, filters, ComfortBounds()))
        assert found[-1] == (comfort(as_scene(states))[0] == 1.0)
    assert 10 < sum(found) < 55


def random_others(rng, count=4):
    """Return boxes, velocities and groups of agents."""
    boxes = np.column_stack(
        [rng.uniform(20, 130, count), rng.uniform(-6, 9, count), rng.uniform(-3, 3, count), np.full((count, 2), 2.0)]
    )
    return boxes, rng.normal(0, 4, (count, 2)) * (rng.random((count, 1)) < 0.7), rng.integers(0, 3, count)


def test_collisions_are_those_of_the_score(driving_map):
    road, lanes, found = road_arrays(driving_map), forecast_lanes(None), []
    for states, rng in random_drives(150, seed=4):
        agents = random_others(rng)
        ego = np.concatenate([states[0, :6], [LENGTH_M, WIDTH_M]])
        others = forecast_others(ego, agents, (1000.0, 0.0), lanes, STEPS, 0.1)
        marks, is_met = np.empty(scores.NUM_MARKS), np.zeros(4, np.bool_)
        scene, (boxes, velocities_mps, groups) = as_scene(states), agents
        moved = np.repeat(boxes[None], STEPS + 1, axis=0)
        moved[..., :2] += 0.1 * np.arange(STEPS + 1)[:, None, None] * velocities_mps
        users = RoadUsers(
            starts=4 * np.arange(STEPS + 2),
            tracks=np.tile(np.arange(4), STEPS + 1),
            groups=np.tile(groups, STEPS + 1),
            labels=np.full(4 * (STEPS + 1), -1),
            boxes=moved.reshape(-1, 5),
            velocities_mps=np.tile(velocities_mps, (STEPS + 1, 1)),
        )
        collisions = find_collisions(scene, users, find_lane_positions(scene, driving_map))
        is_met[collisions.kinds[:4] > 0] = True
        mark_collisions(states, SIZES, others, is_met, road, marks)
        rows = np.flatnonzero(collisions.is_at_fault)
        rows = rows[rows >= 4]
        assert marks[scores.FAULT_STEP] == (rows[0] // 4 if len(rows) else np.inf)
        is_object = users.groups[rows] == RoadUserGroup.OTHER
        assert marks[scores.NO_FAULT] == (0.0 if (~is_object).any() else max(1 - is_object.sum() / 2, 0.0))
        found.append(marks[scores.NO_FAULT])
    assert {0.0, 0.5, 1.0} <= set(found)


@pytest.mark.parametrize(
    ("gap_m", "speed_mps", "is_free"),
    [(10.1, 10.0, True), (9.9, 10.0, False), (9.9, 9.0, True), (0.1, 0.0, True)],
    ids=["far", "near", "slow", "standing"],
)
def test_time_to_collision_counts_up_to_1_s(gap_m, speed_mps, is_free):
    states = straight_states((0.0, 0.0), 0.0, speed_mps)
    front_m = states[1, 0] + LENGTH_M / 2
    agents = (np.array([[front_m + gap_m + 1.0, 0, 0, 2.0, 2.0]]), np.zeros((1, 2)), np.zeros(1, np.int64))
    ego = np.concatenate([states[0, :6], [LENGTH_M, WIDTH_M]])
    others = forecast_others(ego, agents, (1000.0, 0.0), forecast_lanes(None), 2, 0.1)
    marks = np.empty(scores.NUM_MARKS)
    mark_collisions(states[:2], SIZES, others, np.zeros(1, np.bool_), road_arrays(None), marks)
    assert (marks[AHEAD_FREE] == 1.0) == is_free


def test_forecasts_follow_lanes_or_velocities(driving_map):
    boxes = np.array(
        [[99.0, 0.5, 0.0, 4.0, 2.0], [100.0, 0.0, 0.0, 4.0, 2.0], [50.0, 40.0, 1.0, 4.0, 2.0], [0, 0, 0, 1, 1]]
    )
    velocities_mps = np.array([[10.0, 0.0], [10.0, 0.0], [1.0, 2.0], [5.0, 0.0]])
    groups = np.array([RoadUserGroup.VEHICLE, RoadUserGroup.VULNERABLE, RoadUserGroup.VEHICLE, RoadUserGroup.NONE])
    ego = np.array([100.0, 0, 0, 0, 0, 0, LENGTH_M, WIDTH_M])
    lanes = forecast_lanes(driving_map)
    _, poses, kept, _ = forecast_others(ego, (boxes, velocities_mps, groups), (1000.0, 0.0), lanes, STEPS, 0.1)
    assert kept.tolist() == [0, 1, 0]
    np.testing.assert_allclose(poses[0, 10], [109.0, 0.5, 0.0], atol=0.02)
    np.testing.assert_allclose(poses[0, 40], [139.0, 0.5, 0.0], atol=0.02)
    np.testing.assert_allclose(poses[1, 40], [140.0, 0.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(poses[2, 40], [54.0, 48.0, 1.0], atol=1e-9)
    _, near, _, _ = forecast_others(ego, (boxes, velocities_mps, groups), (20.0, 0.0), lanes, STEPS, 0.1)
    assert len(near) == 2


def test_a_vehicle_in_a_bend_stays_on_it(driving_map):
    middle, turn = np.array([100.0, 20.0]), np.pi / 8
    at = middle + 20 * np.array([np.sin(turn), -np.cos(turn)])
    boxes = np.array([[*at, turn, 4.0, 2.0]])
    velocities_mps = 5 * np.array([[np.cos(turn), np.sin(turn)]])
    ego = np.array([100.0, 0, 0, 0, 0, 0, LENGTH_M, WIDTH_M])
    agents = (boxes, velocities_mps, np.zeros(1, np.int64))
    _, poses, _, _ = forecast_others(ego, agents, (1000.0, 0.0), forecast_lanes(driving_map), STEPS, 0.1)
    from_middle = np.hypot(*(poses[0, :40, :2] - middle).T)
    np.testing.assert_allclose(from_middle, 20.0, atol=0.1)
    np.testing.assert_allclose(poses[0, 20, 2], turn + 10 / 20, atol=0.05)


def test_the_first_step_of_a_roll_out_is_that_of_the_simulation():
    model, ahead_s = TrackedPlans(), 0.1 * np.arange(51)
    plan = np.column_stack([6 * ahead_s, 0.02 * (6 * ahead_s) ** 2, 0.04 * 6 * ahead_s])[None]
    state = VehicleStates(*(np.array(v, float) for v in ([[0.0, 0.1]], [0.02], [5.5], [0.3], [0.01], [LENGTH_M])))
    moved = model.move(state, Actions(plan, ahead_s), 0.1)
    tracker = model.tracker
    fit = speed_fit_matrix(50, 0.1, tracker.params.jerk_weight)
    states = np.zeros((1, 2, scores.NUM_STATE_COLUMNS))
    states[0, 0, :6] = 0.0, 0.1, 0.02, 5.5, 0.3, 0.01
    roll_out(plan, LENGTH_M, Tracking(fit, 10, *tracker.parameters, tracker.bicycle.parameters(0.1)), states)
    wanted = (*moved.positions_m[0], moved.yaws_rad[0], moved.speeds_mps[0], moved.accelerations_mps2[0])
    np.testing.assert_allclose(states[0, 1, :6], [*wanted, moved.steering_rad[0]], atol=1e-12)
    assert states[0, 1, scores.ACROSS] == pytest.approx(moved.speeds_mps[0] * (moved.yaws_rad[0] - 0.02) / 0.1)


FINE = {"NO_FAULT": 1.0, "FAULT_STEP": np.inf, "IS_AHEAD_FREE": 1.0, "OFF_STEP": np.inf, "IS_COMFORTABLE": 1.0}


@pytest.mark.parametrize(
    ("changes", "last_shift_m", "best"),
    [
        ({}, 0.0, 0),
        ({0: {"WAY_M": 10.0}, 1: {"WAY_M": 40.0}}, 0.0, 1),
        ({0: {"IS_AHEAD_FREE": 0.0, "WAY_M": 60.0}, 1: {"WAY_M": 50.0}}, 0.0, 1),
        ({0: {"IS_AHEAD_FREE": 0.0}, **{n: {"WAY_M": 1.0 / n, "IS_COMFORTABLE": 0.0} for n in (1, 2, 3)}}, 0.0, 0),
        ({0: {"IS_COMFORTABLE": 0.0}, 1: {"WAY_M": 36.0}}, 0.0, 2),
        ({0: {"NO_FAULT": 0.0, "FAULT_STEP": 9}, 1: {"NO_FAULT": 0.0, "FAULT_STEP": 9}}, 0.0, 2),
        ({n: {"OFF_STEP": 4} for n in range(3)}, 0.0, 3),
        ({n: {"OFF_STEP": 4} for n in range(4)}, 0.0, 0),
        ({n: {"NO_FAULT": 0.0, "FAULT_STEP": 9 + (n == 2), "WAY_M": 1.0} for n in range(4)}, 0.0, 2),
        ({n: {"NO_FAULT": 0.0, "FAULT_STEP": 9, "WAY_M": 5.0 - n} for n in range(4)}, 0.0, 3),
        ({}, 1.0, 0),
    ],
    ids=[
        "equal: the first",
        "farther",
        "time to collision",
        "progress over time to collision",
        "comfort",
        "collisions",
        "one on the road",
        "none on the road",
        "all collide: the last to do so",
        "all collide at once: the slowest",
        "middle over the offset of before",
    ],
)
def test_the_best_proposal(changes, last_shift_m, best):
    """Four proposals: two parts of the speed in the middle, two 1 m to the left."""
    marks = np.zeros((4, scores.NUM_MARKS))
    for number in range(4):
        for name, value in {**FINE, "WAY_M": 40.0, **changes.get(number, {})}.items():
            marks[number, getattr(scores, name)] = value
    assert choose(marks, np.array([0.0, 1.0]), last_shift_m) == best
