"""Steps along paths: red and yellow lights, ends of paths, braking leaders, and vehicles off their path."""

import math

import numpy as np
import pytest

from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.path_positions import FADE_M
from l5kit.lanes.red_lights import RED, YELLOW
from l5kit.simulation.intelligent_driver import AGENT_DRIVER
from l5kit.simulation.lanes.lane_following import ARC, NUM_COLUMNS, SPEED, drive_on, locate_vehicles
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS, write_object

STEP_S = 0.1
DRIVE = (AGENT_DRIVER.kernel_parameters, 1.0, STEP_S, np.zeros(0))
LINE_M = 100.0
"""End of the first lane of the path, the stop line of its lights."""


def path_of(length_m=400.0, limit_mps=10.0):
    """A straight path along x of two lanes, as kernels take it."""
    points_m = np.column_stack([2.0 * np.arange(length_m / 2 + 2), np.zeros(int(length_m / 2) + 2)])
    starts, pieces = np.array([0, len(points_m)]), np.array([0, 2])
    lanes, line_lanes = np.array([0, 1]), np.array([[-1, -1], [0, -1]])
    limits = np.full(2, limit_mps)
    arcs_m = np.array([0.0, LINE_M])
    return PathArrays(starts, points_m, np.array([length_m]), pieces, arcs_m, lanes, line_lanes, limits)


def vehicle_at(x_m, speed_mps, *, y_m=0.0, yaw_rad=0.0, paths=None):
    motions = np.zeros((1, NUM_COLUMNS))
    box = np.array([[x_m, y_m, yaw_rad, 4.0, 2.0]])
    only = np.array([0])
    locate_vehicles(paths or path_of(), only, only, box, np.array([speed_mps]), np.array([True]), motions)
    return motions[0]


def step(motion, *, paths=None, objects=None, rank=0, num_steps=1):
    poses = np.empty((num_steps, 3))
    seen = np.zeros((0, OBJECT_FIELDS)) if objects is None else objects
    drive_on(paths or path_of(), 0, motion, (2.0, 1.0), seen, -1, np.array([rank, 0]), DRIVE, np.inf, poses)
    return poses


def standing_at(x_m, speed_mps=0.0):
    objects = np.zeros((1, OBJECT_FIELDS))
    write_object(objects, 0, np.array([x_m, 0.0, 0.0, 4.0, 2.0]), np.array([speed_mps, 0.0]))
    return objects


def front_after(motion, seconds, **world):
    for _ in range(int(seconds / STEP_S)):
        step(motion, **world)
    return motion[ARC] + 2.0


@pytest.mark.parametrize("gap_m", [25.0, 25.5, 30.0, 60.0, 90.0])
def test_red_stops_whoever_can_stop(gap_m):
    """From 10 m/s a driver needs 25 m at 2 m/s2."""
    motion = vehicle_at(LINE_M - gap_m - 2.0, 10.0)
    assert LINE_M - 2.0 < front_after(motion, 60, rank=RED) <= LINE_M + 1e-6
    assert motion[SPEED] < 0.05


@pytest.mark.parametrize(
    ("line_lanes", "stops"),
    [
        pytest.param((0, -1), False, id="lights control who leaves their lane, not who comes onto it"),
        pytest.param((0, 1), True, id="lights on a lane of a junction"),
    ],
)
def test_lights_of_the_lane_behind_a_line(line_lanes, stops):
    paths = path_of()
    paths.line_lanes[1] = line_lanes
    motion = vehicle_at(LINE_M - 32.0, 10.0, paths=paths)
    for _ in range(600):
        drive_on(
            paths, 0, motion, (2.0, 1.0), standing_at(390.0), -1, np.array([0, RED]), DRIVE, np.inf, np.empty((1, 3))
        )
    assert (motion[ARC] + 2.0 <= LINE_M + 1e-6) == stops


def test_red_does_not_hold_who_cannot_stop():
    motion = vehicle_at(LINE_M - 20.0 - 2.0, 10.0)
    assert front_after(motion, 10, rank=RED) > LINE_M + 30


def test_a_driver_waits_at_a_red_line_and_goes_at_green():
    motion = vehicle_at(LINE_M - 32.0, 10.0)
    front_m = front_after(motion, 60, rank=RED)
    assert front_after(motion, 10, rank=RED) - front_m < 0.3
    assert front_after(motion, 10, rank=0) > LINE_M + 20


@pytest.mark.parametrize(("gap_m", "stops"), [(25.1, True), (40.0, True), (24.9, False), (5.0, False)])
def test_yellow_stops_whoever_can_stop_and_nobody_else(gap_m, stops):
    motion = vehicle_at(LINE_M - gap_m - 2.0, 10.0)
    front_after(motion, 3, rank=YELLOW)
    assert (motion[SPEED] == pytest.approx(10.0)) != stops
    assert (front_after(motion, 20, rank=YELLOW) <= LINE_M + 1e-6) == stops


def test_the_end_of_a_path_stands_as_a_leader():
    paths = path_of(length_m=200.0)
    assert 198 < front_after(vehicle_at(50.0, 10.0, paths=paths), 60, paths=paths) <= 200


def test_a_leader_that_runs_a_red_light_does_not_hide_the_line():
    motion, leader_m = vehicle_at(LINE_M - 60.0, 10.0), LINE_M - 40.0
    for _ in range(400):
        step(motion, objects=standing_at(leader_m, 10.0), rank=RED)
        leader_m += 10.0 * STEP_S
    assert motion[ARC] + 2.0 <= LINE_M + 1e-6


def test_a_step_is_the_model():
    """With s* = 1 + 7.5 + 25 / (2 sqrt 2) and a gap of 20 m."""
    motion = vehicle_at(20.0, 5.0)
    poses = step(motion, objects=standing_at(44.0))
    acceleration = 1 - 0.5**4 - ((8.5 + 25 / (2 * math.sqrt(2))) / 20) ** 2
    assert motion[SPEED] == pytest.approx(5 + 0.1 * acceleration)
    np.testing.assert_allclose(poses[0], [20 + 0.5 + 0.005 * acceleration, 0, 0], atol=1e-12)


def test_no_leader_is_hit_from_behind_where_braking_could_avoid_it():
    """Leaders appear, drive and brake, no harder than b; braking at b from then on would have been enough."""
    rng, num_possible = np.random.default_rng(7), 0
    for _ in range(300):
        speed, leader_speed, gap_m = rng.uniform(0, 20), rng.uniform(0, 20), rng.uniform(0.5, 80)
        braking = rng.uniform(0.5, 2.0)
        at_b_s = np.arange(0, 40, STEP_S)
        own_m = np.where(at_b_s < speed / 2, speed * at_b_s - at_b_s**2, speed**2 / 4)
        stop_s = leader_speed / braking
        braked_s = np.minimum(at_b_s, stop_s)
        leader_m = leader_speed * braked_s - braking * braked_s**2 / 2
        if (gap_m + leader_m - own_m).min() < 0.05 + 0.005 * braking:
            continue
        num_possible += 1
        paths = path_of(length_m=800.0, limit_mps=20.0)
        motion = vehicle_at(20.0, speed, paths=paths)
        for now_m, now_s in zip(leader_m, at_b_s, strict=True):
            rear_m = 22.0 + gap_m + now_m
            assert motion[ARC] + 2.0 <= rear_m + 1e-6
            objects = standing_at(rear_m + 2.0, max(leader_speed - braking * now_s, 0.0))
            step(motion, paths=paths, objects=objects)
    assert num_possible > 100


@pytest.mark.parametrize(("y_m", "yaw_rad"), [(1.5, 0.0), (-0.8, 0.2), (0.0, -0.1)])
def test_a_vehicle_beside_its_path_comes_onto_it_without_a_jump(y_m, yaw_rad):
    motion = vehicle_at(20.0, 0.0, y_m=y_m, yaw_rad=yaw_rad)
    poses = np.concatenate([[[20.0, y_m, yaw_rad]], step(motion, num_steps=150)])
    ways_m = np.linalg.norm(np.diff(poses[:, :2], axis=0), axis=1)
    np.testing.assert_allclose(poses[1], poses[0], atol=0.02)
    assert np.abs(np.diff(poses[:, 2])).max() < 0.05
    headings = np.arctan2(*np.diff(poses[:, :2], axis=0).T[::-1])[ways_m > 0.1]
    np.testing.assert_allclose(headings, poses[1:, 2][ways_m > 0.1], atol=0.06)
    np.testing.assert_allclose(poses[poses[:, 0] > 20 + FADE_M, 1:], 0, atol=1e-9)


def test_a_vehicle_that_was_moved_is_found_again():
    motions = vehicle_at(20.0, 5.0)[None]
    step(motions[0])
    box = np.array([[23.0, 0.5, 0.0, 4.0, 2.0]])
    locate_vehicles(path_of(), np.array([0]), np.array([0]), box, np.array([4.0]), np.array([False]), motions)
    np.testing.assert_allclose(motions[0, :5], [23.0, 23.0, 0.5, 0.0, 4.0])
