"""Planned trajectories that vehicles with lags follow."""

import math
from dataclasses import replace

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import rotations33_as_yaws
from l5kit.simulation.trajectory_tracker import TrackerParams, TrajectoryTracker
from l5kit.simulation.vehicle_models import KinematicBicycle, VehicleGeometry
from support.tolerances import FLOAT64, FLOAT64_LONG
from support.vehicles import AV_LENGTH_M, bytes_of, log_states, random_states, states_of

STEP_S = 0.1
REAR_M = 0.2823 * AV_LENGTH_M
BASE_M = 0.6 * AV_LENGTH_M
TIMES_S = STEP_S * np.arange(121)
TRACKER = TrajectoryTracker()


def line(ahead_m):
    """A plan along the x axis, (1, T, 3)."""
    ahead_m = np.asarray(ahead_m, dtype=np.float64)
    return np.stack([ahead_m, np.zeros_like(ahead_m), np.zeros_like(ahead_m)], axis=-1)[None]


def way_of(speeds_mps):
    """Ways at the times of a step, from speeds between which acceleration is constant."""
    return np.concatenate([[0.0], np.cumsum((speeds_mps[:-1] + speeds_mps[1:]) / 2 * STEP_S)])


def driven(state, plan, num_steps, *, times_s=TIMES_S, tracker=TRACKER):
    """States after each step, the first included, with the plan fixed in the world."""
    states = [state]
    for k in range(num_steps):
        actions = tracker.actions(states[-1], plan, times_s - k * STEP_S)
        states.append(tracker.bicycle.step(states[-1], actions, STEP_S))
    return states


def offsets_of(states, plan):
    """Distances from the planned positions, of the first vehicle."""
    return [float(np.hypot(*(state.positions_m[0] - pose[:2]))) for state, pose in zip(states, plan[0], strict=False)]


def test_a_straight_line_at_constant_speed_is_tracked():
    plan = line(10 * TIMES_S)
    states = driven(states_of(speed=10.0), plan, 100)
    assert max(offsets_of(states, plan)) < 0.01
    assert max(abs(state.steering_rad[0]) for state in states) < FLOAT64_LONG


@pytest.mark.parametrize("yaw", [0.7, -2.0, math.pi, 3 * math.pi])
def test_the_direction_of_a_line_does_not_matter(yaw):
    """Headings may be any number of turns apart."""
    heading = np.array([math.cos(yaw), math.sin(yaw)])
    way_m = 10 * TIMES_S[:, None]
    plan = np.column_stack([way_m * heading + [-700, 900], np.full(121, yaw)])[None]
    states = driven(states_of(-700.0, 900.0, yaw=yaw - 2 * math.pi, speed=10.0), plan, 50)
    assert max(offsets_of(states, plan)) < 0.01


def circle(radius_m, speed_mps):
    """A plan whose rear axle drives in a circle to the left, from the origin ahead."""
    turns_rad = speed_mps / radius_m * TIMES_S
    x = radius_m * np.sin(turns_rad) + REAR_M * np.cos(turns_rad)
    y = radius_m * (1 - np.cos(turns_rad)) + REAR_M * np.sin(turns_rad)
    return np.stack([x, y, turns_rad], axis=-1)[None]


@pytest.mark.parametrize(("radius_m", "speed_mps"), [(20.0, 8.0), (50.0, 12.0), (8.0, 3.0)])
def test_a_circle_is_tracked(radius_m, speed_mps):
    """The bicycle goes straight in a step: 0.02 rad off on the tightest, which shows as an offset that stays."""
    plan = circle(radius_m, speed_mps)
    start = states_of(REAR_M, speed=speed_mps, steering=math.atan(BASE_M / radius_m))
    states = driven(start, plan, 110)
    assert max(offsets_of(states, plan)) < 0.4
    assert states[-1].yaws_rad[0] == pytest.approx(plan[0, 110, 2], abs=0.02)
    mirrored = driven(replace(start, steering_rad=-start.steering_rad), plan * [1, -1, -1], 110)
    for left, right in zip(states, mirrored, strict=True):
        np.testing.assert_allclose(left.positions_m, right.positions_m * [1, -1], atol=FLOAT64_LONG)


def test_a_circle_is_reached_with_straight_wheels():
    plan = circle(20.0, 8.0)
    offsets_m = offsets_of(driven(states_of(REAR_M, speed=8.0), plan, 110), plan)
    assert max(offsets_m) < 1.5
    assert max(offsets_m[60:]) < 0.65
    assert offsets_m[110] < 0.45


def test_a_stop_is_tracked():
    """10 m/s, braked by 2 m/s2 from now on: it comes to rest 2 m behind the plan's end, and never goes back.

    Its speed follows that of the plan; the last 2 m/s go with a time constant of 1.1 s, and nothing makes up for it.
    """
    plan = line(way_of(np.maximum(0, 10 - 2 * TIMES_S)))
    states = driven(states_of(speed=10.0), plan, 110)
    assert min(state.speeds_mps[0] for state in states) >= 0
    assert states[-1].speeds_mps[0] < 0.01
    assert max(offsets_of(states, plan)) < 2.2


def test_a_start_from_standing_is_tracked():
    plan = line(way_of(np.minimum(8, 1.5 * TIMES_S)))
    states = driven(states_of(), plan, 110)
    assert states[10].speeds_mps[0] > 1.0
    assert states[-1].speeds_mps[0] == pytest.approx(8.0, abs=0.01)
    assert max(offsets_of(states, plan)) < 2.0
    assert max(abs(state.positions_m[0, 1]) for state in states) < FLOAT64


@pytest.mark.parametrize("speed_mps", [3.0, 10.0, 20.0])
def test_a_lateral_offset_decays(speed_mps):
    plan = line(speed_mps * TIMES_S)
    offsets_m = [abs(state.positions_m[0, 1]) for state in driven(states_of(y=1.0, speed=speed_mps), plan, 110)]
    assert max(offsets_m) <= 1.0
    assert max(offsets_m[50:]) < 0.35
    assert max(offsets_m[100:]) < 0.12


def test_a_standing_vehicle_with_a_standing_plan_does_nothing():
    actions = TRACKER.actions(states_of(3.0, 4.0, yaw=1.0), np.array([[(3.0, 4.0, 1.0)] * 10]), TIMES_S[:10])
    np.testing.assert_array_equal(actions, [(0.0, 0.0)])


# Single decisions.


@pytest.mark.parametrize(
    ("speed", "planned", "expected"),
    [
        pytest.param(10.0, 10.0, 0.0, id="as fast as planned"),
        pytest.param(9.0, 10.0, 10 / 11, id="too slow"),
        pytest.param(10.0, 5.0, -50 / 11, id="too fast"),
        pytest.param(0.0, 5.0, 50 / 11, id="from standing"),
        pytest.param(0.2, 0.0, -0.1, id="stopping"),
        pytest.param(0.2, 0.1, -0.05, id="crawling"),
        pytest.param(0.21, 0.0, -2.1 / 11, id="not yet stopping"),
        pytest.param(0.1, 0.3, 2 / 11, id="slow, but to go on"),
    ],
)
def test_known_accelerations(speed, planned, expected):
    ((acceleration, rate),) = TRACKER.actions(states_of(speed=speed), line(planned * TIMES_S), TIMES_S)
    assert acceleration == pytest.approx(expected, abs=FLOAT64_LONG)
    assert rate == pytest.approx(0.0, abs=FLOAT64_LONG)


def test_a_known_steering_rate():
    """1 m to the left at a constant 10 m/s, two steps of 0.1 s looked ahead.

    After them the offset is 1 m; a rate u has turned the wheels by 0.2 u and the heading by 1 x 0.1 u / wheel base, and
    has not moved the offset yet. So with the weights 1 for the heading error p, which was 0.05, and 2 for u:
    u = -p s / (s^2 + 2) with s = 0.1 / wheel base.
    """
    params = TrackerParams(num_steps=2, offset_weight=0.0, heading_weight=1.0, steering_rate_weight=2.0)
    tracker = TrajectoryTracker(KinematicBicycle(geometry=VehicleGeometry(rear_axle_share=0.0)), params)
    ((_, rate),) = tracker.actions(states_of(y=1.0, yaw=0.05, speed=10.0), line(10 * TIMES_S), TIMES_S)
    slope = 0.1 / BASE_M
    assert rate == pytest.approx(-0.05 * slope / (slope**2 + 2), rel=1e-9)


@pytest.mark.parametrize("planned_mps", [10.0, 5.0, 0.0])
def test_the_weight_of_the_offset_counts_from_the_third_step_on(planned_mps):
    """After three steps, at speeds that follow the acceleration, a rate u has moved the offset by w2 w1 h u / base.

    w1 and w2 are the ways of the second and third step; the acceleration is q T / (1 + q T^2) (v_ref - v), T = 0.3 s.
    """
    params = TrackerParams(num_steps=3, offset_weight=3.0, heading_weight=0.0, steering_rate_weight=2.0)
    tracker = TrajectoryTracker(KinematicBicycle(geometry=VehicleGeometry(rear_axle_share=0.0)), params)
    plan = line(planned_mps * TIMES_S)
    ((acceleration, rate),) = tracker.actions(states_of(y=0.5, speed=10.0), plan, TIMES_S)
    assert acceleration == pytest.approx(3 / 1.9 * (planned_mps - 10.0), abs=1e-9)
    slope = STEP_S * (10 + 0.2 * acceleration) * STEP_S * (10 + 0.1 * acceleration) * STEP_S / BASE_M
    assert rate == pytest.approx(-3 * 0.5 * slope / (3 * slope**2 + 2), rel=1e-9)


def test_the_curvature_of_the_plan_is_steered():
    """On a circle with the wheels turned as it asks for, there is hardly anything to do."""
    radius_m = 40.0
    state = states_of(REAR_M, speed=8.0, steering=BASE_M / radius_m)
    ((_, rate),) = TRACKER.actions(state, circle(radius_m, 8.0), TIMES_S)
    ((_, rate_of_straight_wheels),) = TRACKER.actions(states_of(REAR_M, speed=8.0), circle(radius_m, 8.0), TIMES_S)
    assert abs(rate) < 0.002
    assert rate_of_straight_wheels > 0.05


def test_reference_speeds_are_those_of_the_dense_least_squares():
    """Against numpy's solver, over the unknowns themselves; seen in the acceleration."""
    ahead_m = np.cumsum(np.random.default_rng(0).uniform(0.3, 1.2, 31))
    jerks = np.diff(np.eye(30), n=2, axis=0) / STEP_S**2
    rows = np.concatenate([STEP_S * np.eye(30), math.sqrt(1e-4) * jerks])
    speeds_mps = np.linalg.lstsq(rows, np.concatenate([np.diff(ahead_m), np.zeros(28)]), rcond=None)[0]
    ((acceleration, _),) = TRACKER.actions(states_of(ahead_m[0], speed=7.0), line(ahead_m), TIMES_S[:31])
    assert acceleration == pytest.approx(10 / 11 * (speeds_mps[10] - 7.0), abs=1e-9)


def test_a_rough_plan_is_smoothed():
    """Positions 1 cm off to and fro are speeds 0.2 m/s off; what is done about them is far less."""
    rough_m = 10 * TIMES_S + 0.01 * (-1.0) ** np.arange(121)
    ((acceleration, _),) = TRACKER.actions(states_of(0.01, speed=10.0), line(rough_m), TIMES_S)
    assert abs(acceleration) < 0.01


# Times of plans.


def test_a_plan_that_begins_later_is_joined_from_the_pose_now():
    state, plan = states_of(5.0, 2.0, yaw=0.1, speed=8.0), circle(30.0, 8.0)
    now = np.concatenate([state.positions_m, state.yaws_rad[:, None]], axis=1)[:, None]
    joined = np.concatenate([now, plan[:, 1:]], axis=1)
    np.testing.assert_array_equal(
        TRACKER.actions(state, plan[:, 1:], TIMES_S[1:]), TRACKER.actions(state, joined, TIMES_S)
    )


def test_what_a_plan_says_of_the_past_does_not_count():
    state, plan = states_of(11.0, 0.3, speed=9.0), line(10 * TIMES_S)
    wild = plan.copy()
    wild[:, :10] = 99.0
    expected = TRACKER.actions(state, plan[:, 10:], TIMES_S[:-10])
    np.testing.assert_allclose(TRACKER.actions(state, wild, TIMES_S - 1.0), expected, atol=1e-9)


def test_a_coarse_plan_is_read_between_its_poses():
    fine, coarse = line(10 * TIMES_S), line(10 * TIMES_S[::5])
    state = states_of(0.5, 0.4, yaw=0.02, speed=9.0)
    np.testing.assert_allclose(
        TRACKER.actions(state, coarse, TIMES_S[::5]), TRACKER.actions(state, fine, TIMES_S), atol=1e-9
    )


@pytest.mark.parametrize("num_poses", [1, 2, 5])
def test_short_plans_go_on_as_they_end(num_poses):
    times_s = TIMES_S[1 : num_poses + 1]
    ((acceleration, rate),) = TRACKER.actions(states_of(speed=9.0), line(10 * times_s), times_s)
    assert acceleration == pytest.approx(10 / 11, abs=1e-9)
    assert rate == pytest.approx(0.0, abs=FLOAT64)


def test_of_a_long_plan_only_ten_looks_ahead_are_read():
    long_s = STEP_S * np.arange(3001)
    plan, state = line(10 * long_s + np.sin(long_s)), states_of(y=0.3, speed=9.0)
    expected = TRACKER.actions(state, plan[:, :101], long_s[:101])
    np.testing.assert_array_equal(TRACKER.actions(state, plan, long_s), expected)
    np.testing.assert_allclose(TRACKER.actions(state, plan[:, :61], long_s[:61]), expected, atol=1e-5)


@pytest.mark.parametrize("turn", [0.0, 0.5])
def test_a_plan_that_stands_and_turns_gives_finite_actions(turn):
    plan = np.zeros((1, 20, 3))
    plan[0, :, 2] = np.linspace(0, turn, 20)
    actions = TRACKER.actions(states_of(speed=[5.0]), plan, TIMES_S[:20])
    assert np.isfinite(actions).all()
    assert abs(actions[0, 1]) < 5


# Batches.


def random_plans(states):
    """Plans (N, 30, 3) that go on about as the vehicles do."""
    rng = np.random.default_rng(5)
    yaws_rad = states.yaws_rad[:, None] + np.cumsum(rng.normal(0, 0.03, (len(states), 30)), axis=1)
    steps_m = STEP_S * states.speeds_mps[:, None] * rng.uniform(0.8, 1.2, (len(states), 30))
    headings = np.stack([np.cos(yaws_rad), np.sin(yaws_rad)], axis=-1)
    positions_m = states.positions_m[:, None] + np.cumsum(steps_m[..., None] * headings, axis=1)
    return np.concatenate([positions_m, yaws_rad[..., None]], axis=-1)


@pytest.mark.parametrize("size", [1, 4, 36])
def test_a_batch_gives_the_bits_of_its_vehicles(size):
    states, times_s = random_states(37), TIMES_S[1:31]
    plans = random_plans(states)
    together = TRACKER.actions(states, plans, times_s)
    for part in (slice(start, start + size) for start in range(0, 37, size)):
        assert TRACKER.actions(states.taken(part), plans[part], times_s).tobytes() == together[part].tobytes()


def test_plans_of_any_layout_are_not_changed():
    states = random_states(5)
    plans = random_plans(states)
    expected = TRACKER.actions(states, plans, TIMES_S[1:31])
    before = [bytes_of(states), plans.tobytes()]
    plans.setflags(write=False)
    for given in (plans, np.asfortranarray(plans)):
        assert TRACKER.actions(states, given, TIMES_S[1:31]).tobytes() == expected.tobytes()
    assert [bytes_of(states), plans.tobytes()] == before


def test_no_vehicles():
    assert TRACKER.actions(random_states(0), np.zeros((0, 5, 3)), TIMES_S[1:6]).shape == (0, 2)


def test_the_drive_of_the_real_scene_is_tracked(shared_data):
    """25 s, 378 m, with the log as the plan of all of it; nothing corrects where along the path the vehicle is."""
    frames = ChunkedDataset(str(shared_data / "single_scene.zarr")).open().frames[:]
    yaws_rad = rotations33_as_yaws(frames["ego_rotation"])
    plan = np.column_stack([frames["ego_translation"][:, :2], yaws_rad])[None]
    times_s = (frames["timestamp"] - frames["timestamp"][0]) * 1e-9
    start = log_states(plan, times_s, np.array([AV_LENGTH_M]))[0]
    states = driven(start, plan, 240, times_s=times_s)
    across_m, errors_mps = [], []
    for k, state in enumerate(states):
        offset = state.positions_m[0] - plan[0, k, :2]
        across_m.append(offset[1] * math.cos(plan[0, k, 2]) - offset[0] * math.sin(plan[0, k, 2]))
        errors_mps.append(state.speeds_mps[0] - np.hypot(*(plan[0, k + 1] - plan[0, k])[:2]) / STEP_S)
    assert np.abs(across_m).max() < 0.2
    assert np.abs(errors_mps).max() < 1.5
    assert max(offsets_of(states, plan)) < 0.8


# Errors.

FINE = line(10 * TIMES_S[:5]).repeat(3, axis=0)


def with_nan(vehicle, step):
    plan = FINE.copy()
    plan[vehicle, step, 1] = math.nan
    return plan


@pytest.mark.parametrize(
    ("plan", "times_s", "words"),
    [
        pytest.param(FINE[:, :0], TIMES_S[:0], "vehicle 0 has no planned poses", id="no poses"),
        pytest.param(with_nan(2, 3), TIMES_S[:5], r"pose 3 of vehicle 2 is \[3.0\d*, nan, 0.0\]", id="not a number"),
        pytest.param(FINE[:2], TIMES_S[:5], r"shape \(2, 5, 3\); for 3 vehicles and 5 times_s", id="too few vehicles"),
        pytest.param(FINE, TIMES_S[:4], "for 3 vehicles and 4 times_s", id="too few times"),
        pytest.param(FINE[..., :2], TIMES_S[:5], "pass float64", id="no headings"),
        pytest.param(FINE.astype(np.float32), TIMES_S[:5], "are float32", id="type"),
        pytest.param(FINE, TIMES_S[:5] - 0.35, "and end 0.1 s from now or later", id="over"),
        pytest.param(FINE, np.zeros(5), "they must be finite, rise", id="times stand still"),
        pytest.param(FINE, np.array([-math.inf, 1, 2, 3, 4]), "they must be finite, rise", id="times without a start"),
        pytest.param(FINE, np.array([0, 1, 2, 3, math.nan]), "they must be finite, rise", id="times are no numbers"),
    ],
)
def test_wrong_plans(plan, times_s, words):
    with pytest.raises(InvalidArgumentError, match=words):
        TRACKER.actions(states_of(x=[0.0, 1.0, 2.0]), plan, times_s)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"jerk_weight": 0.0}, "jerk_weight is 0.0; it must be finite and above 0"),
        ({"offset_weight": -1.0}, "offset_weight is -1.0; it must be finite and at least 0"),
        ({"num_steps": 2.5}, "num_steps is 2.5; pass a whole number"),
        ({"step_time_s": math.nan}, "step_time_s is nan"),
    ],
)
def test_wrong_parameters(change, words):
    with pytest.raises(InvalidArgumentError, match=words):
        TrackerParams(**change)
