"""Tracking of routes: straight on, around bends, back onto the route, within the bounds of comfort."""

import math

import numpy as np
import pytest

from l5kit.evaluation.driving.comfort import COMFORT_BOUNDS, comfort_filters
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.path_positions import follow_routes
from l5kit.simulation.lanes.route_tracking import begin_gently, track_routes
from l5kit.simulation.vehicle_models import InvertibleBicycle, VehicleStates

STEP_S, LENGTH_M = 0.1, 4.5
MODEL = InvertibleBicycle()
AXLES_M = LENGTH_M * np.array([[MODEL.geometry.rear_axle_share, MODEL.geometry.wheel_base_share]])


def route_of(points_m, *, limits_mps=(30.0,), from_m=(0.0,)):
    """One route through points 2 m apart, with limits from some lengths on."""
    size = len(limits_mps)
    lanes = np.arange(size)
    return PathArrays(
        starts=np.array([0, len(points_m)]),
        points_m=np.array(points_m, float),
        lengths_m=np.array([2.0 * (len(points_m) - 1)]),
        piece_starts=np.array([0, size]),
        piece_arcs_m=np.array(from_m),
        piece_lanes=lanes,
        line_lanes=np.full((size, 2), -1),
        piece_limits_mps=np.array(limits_mps),
    )


def straight_then_bend(radius_m, straight_m=40.0, bend_rad=math.pi / 2):
    """A straight line along x, a bend to the left, and a straight line on."""
    arcs_m = np.arange(0, straight_m + radius_m * bend_rad + 40.0, 2.0)
    turned = np.clip((arcs_m - straight_m) / radius_m, 0, bend_rad)
    beyond_m = np.clip(arcs_m - straight_m - radius_m * bend_rad, 0, None)
    x = np.minimum(arcs_m, straight_m) + radius_m * np.sin(turned) + beyond_m * math.cos(bend_rad)
    y = radius_m * (1 - np.cos(turned)) + beyond_m * math.sin(bend_rad)
    return route_of(np.column_stack([x, y]))


def drive(line, *, at=(0.0, 0.0, 0.0), speed_mps=5.0, wanted_mps2=0.0, num_steps=120, routes=(0,)):
    """Places (T, 3), motions (T, 3) and controls (T, 2) of a vehicle that follows a route."""
    state = VehicleStates(
        np.array([at[:2]]), np.array([at[2]]), np.array([speed_mps]), np.zeros(1), np.zeros(1), np.array([LENGTH_M])
    )
    place, found = np.zeros((1, 3)), []
    for _ in range(num_steps):
        follow_routes(line, np.array(routes), np.column_stack([state.positions_m, state.yaws_rad]), place)
        motion = np.column_stack([state.speeds_mps, state.accelerations_mps2, state.steering_rad])
        controls = track_routes(
            line,
            np.array(routes),
            place,
            motions=motion,
            axles_m=AXLES_M,
            wanted_mps2=np.full(1, wanted_mps2),
            step_s=STEP_S,
        )
        found.append((place[0].copy(), motion[0], controls[0], state.yaws_rad[0]))
        state = MODEL.step(state, controls, STEP_S)
    return [np.array(column) for column in zip(*found, strict=True)]


@pytest.mark.parametrize(("radius_m", "speed_mps"), [(8.0, 3.5), (12.0, 4.5), (20.0, 6.0), (60.0, 12.0)])
def test_the_centre_stays_on_a_bend_within_the_bounds_of_comfort(radius_m, speed_mps):
    places, *_, yaws = drive(straight_then_bend(radius_m), speed_mps=speed_mps, num_steps=140)
    before_end = places[:, 0] < 40 + radius_m * math.pi / 2 + 35
    assert before_end.any()
    assert np.abs(places[before_end, 1]).max() < 0.25  # where a bend begins at once, which lanes do not
    yaw_rates = np.diff(yaws) / STEP_S
    least, most = COMFORT_BOUNDS["yaw_accelerations_radps2"]
    changes = np.diff(yaw_rates) / STEP_S
    assert changes.min() > least
    assert changes.max() < most


def test_a_vehicle_beside_its_route_comes_back_without_swinging():
    line = straight_then_bend(1e6)
    places, *_ = drive(line, at=(0.0, 1.5, 0.1), speed_mps=8.0, num_steps=45)
    assert abs(places[-1, 1]) < 0.05
    assert places[:, 1].min() > -0.35
    mirrored, *_ = drive(line, at=(0.0, -1.5, -0.1), speed_mps=8.0, num_steps=45)
    np.testing.assert_allclose(mirrored[:, 1], -places[:, 1], atol=1e-6)


def test_the_acceleration_goes_to_the_wanted_one_with_as_much_jerk_as_is_comfortable():
    *_, controls, _ = drive(straight_then_bend(1e6), speed_mps=10.0, wanted_mps2=-2.0, num_steps=15)
    expected = [0.0]
    for _ in range(4):
        expected.append(expected[-1] - 0.1 * (1.0 + 1.5 * abs(expected[-1])))
    np.testing.assert_allclose(controls[:4, 0], expected[1:])
    assert (controls[-2:, 0] == -2.0).all()


@pytest.mark.parametrize("num_braked", [3, 6, 9, 12, 15, 40])
def test_a_score_of_comfort_takes_no_start_for_a_jolt(num_braked):
    """Braking that begins at once, for some steps, and is released."""
    filters = comfort_filters(60)
    accelerations_mps2 = [0.0]
    for step in range(59):
        wanted = np.array([-3.7 if step < num_braked else 0.0])
        motions = np.array([[14.0, accelerations_mps2[-1], 0.0]])
        ((acceleration, _),) = track_routes(
            straight_then_bend(1e6),
            np.zeros(1, np.int64),
            np.zeros((1, 3)),
            motions=motions,
            axles_m=AXLES_M,
            wanted_mps2=wanted,
            step_s=STEP_S,
        )
        accelerations_mps2.append(float(acceleration))
    jerks_mps3 = filters.slope.matrix @ (filters.smooth.matrix @ np.array(accelerations_mps2)) / STEP_S
    least, most = COMFORT_BOUNDS["jerks_along_mps3"]
    assert least < jerks_mps3.min()
    assert jerks_mps3.max() < most
    assert min(accelerations_mps2) >= -3.7 - 1e-12


def test_in_an_emergency_braking_is_hard_at_once_and_ends_when_the_vehicle_stands():
    line = straight_then_bend(1e6)
    _, motions, controls, _ = drive(line, speed_mps=12.0, wanted_mps2=-5.0, num_steps=40)
    np.testing.assert_allclose(controls[:6, 0], [-1.2, -2.4, -3.6, -4.8, -5.0, -5.0])
    assert motions[:, 0].min() > -1e-9
    assert motions[-1, 0] == pytest.approx(0.0, abs=0.01)
    _, _, hardest, _ = drive(line, speed_mps=30.0, wanted_mps2=-20.0, num_steps=20)
    assert hardest[:, 0].min() == -6.0
    comfortable = drive(line, speed_mps=12.0, wanted_mps2=-3.7, num_steps=60)[1]
    braked_m = [0.1 * each[:, 0].sum() for each in (motions, comfortable)]
    assert braked_m == pytest.approx([17.0, 30.0], abs=1.5)


def test_a_limit_that_is_passed_is_no_emergency():
    line = straight_then_bend(1e6)
    slower = route_of(line.points_m, limits_mps=(30.0, 5.0), from_m=(0.0, 20.0))
    *_, controls, _ = drive(slower, speed_mps=20.0, wanted_mps2=2.0, num_steps=30)
    assert controls[:, 0].min() == -3.7


def test_bends_ahead_are_met_by_braking_in_comfort():
    _, motions, controls, yaws = drive(straight_then_bend(15.0), speed_mps=12.0, wanted_mps2=2.2, num_steps=110)
    across_mps2 = motions[:-1, 0] * np.diff(yaws) / STEP_S
    assert across_mps2.max() == pytest.approx(2.5, abs=0.35)
    assert controls[:, 0].min() > -3.0
    assert motions[-1, 0] > 8.0  # fast again behind the bend


def test_limits_are_kept_where_they_begin():
    line = straight_then_bend(1e6)
    slower = route_of(line.points_m, limits_mps=(14.0, 8.0), from_m=(0.0, 60.0))
    places, motions, *_ = drive(slower, speed_mps=12.0, wanted_mps2=2.2, num_steps=130)
    assert motions[:, 0].max() == pytest.approx(13.5, abs=0.5)
    assert motions[places[:, 0] > 60.0, 0].max() < 8.15
    assert motions[-1, 0] == pytest.approx(8.0, abs=0.02)


def test_braking_ends_where_the_vehicle_stands_without_a_jolt():
    _, motions, controls, _ = drive(straight_then_bend(1e6), speed_mps=6.0, wanted_mps2=-3.7, num_steps=60)
    assert controls[:, 0].min() == pytest.approx(-3.7)
    assert np.abs(np.diff(controls[:, 0])).max() < 0.75
    _, motions, controls, _ = drive(straight_then_bend(1e6), speed_mps=1.0, wanted_mps2=-3.7, num_steps=60)
    assert motions[:, 0].min() == pytest.approx(0.0, abs=1e-12)
    assert motions[-1, 0] == pytest.approx(0.0, abs=1e-12)
    assert controls[-1, 0] == pytest.approx(0.0, abs=1e-12)


def test_a_vehicle_without_a_route_goes_straight_on():
    places, _, controls, yaws = drive(straight_then_bend(8.0), routes=(-1,), num_steps=100)
    assert not places.any()
    assert not controls.any()
    assert not yaws.any()


def test_each_vehicle_gets_what_it_gets_alone():
    rng = np.random.default_rng(3)
    line = straight_then_bend(15.0)
    size = 20
    places = np.column_stack([rng.uniform(0, 80, size), rng.normal(0, 1, size), rng.normal(0, 0.3, size)])
    motions = np.column_stack([rng.uniform(0, 12, size), rng.normal(0, 1, size), rng.normal(0, 0.1, size)])
    wanted, routes = rng.normal(0, 3, size), rng.integers(-1, 1, size)

    def track(chosen):
        return track_routes(
            line,
            routes[chosen],
            places[chosen],
            motions=motions[chosen],
            axles_m=np.repeat(AXLES_M, len(routes[chosen]), axis=0),
            wanted_mps2=wanted[chosen],
            step_s=STEP_S,
        )

    alone = np.concatenate([track(slice(row, row + 1)) for row in range(size)])
    np.testing.assert_array_equal(track(slice(None)), alone)


def test_a_drive_that_goes_on_from_braking_begins_gently():
    before, since = np.array([-1.5, 0.5, -1.5, -3.0, 1.0, -1.5]), np.array([0.0, 0.9, 1.0, 0.0, 0.0, 0.0])
    wanted = np.array([-1.9, 0.9, -1.9, -2.7, -0.2, 0.4])
    gentle = begin_gently(wanted, before, since, step_s=STEP_S)
    # more braking and more acceleration come slowly in the first second; both are let go at once
    np.testing.assert_allclose(gentle, [-1.72, 0.72, -1.9, -2.7, -0.2, 0.22])


@pytest.mark.parametrize("before_mps2", [-3.0, -1.5, -0.7])
def test_a_score_of_comfort_takes_no_gentle_beginning_for_a_jolt(before_mps2):
    accelerations = [before_mps2]
    for step in range(60):
        hard = np.array([max(-3.7, accelerations[-1] - 0.37)])
        since_s, before = np.array([step * STEP_S]), np.array(accelerations[-1:])
        accelerations.append(float(begin_gently(hard, before, since_s, step_s=STEP_S)[0]))
    filters = comfort_filters(len(accelerations))
    jerks = filters.slope.matrix @ filters.smooth.matrix @ np.array(accelerations) / STEP_S
    assert np.abs(jerks).max() < COMFORT_BOUNDS["jerks_along_mps3"][1]
    assert min(accelerations) == -3.7
