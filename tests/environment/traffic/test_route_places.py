"""Positions on routes: on, off and at an angle to a path, bends, loops, and the case without a path."""

import math

import numpy as np
import pytest

from l5kit.errors import InvalidArgumentError
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.path_positions import follow_routes
from support.driving import find_places


def paths_along(*lines):
    """Paths through points 2 m apart, as kernels take them; the last point of each is behind its end."""
    starts = np.cumsum([0, *map(len, lines)])
    size = len(lines)
    lengths_m = np.array([max(2.0 * (len(line) - 2), 0.0) for line in lines])
    pieces = np.arange(size + 1)
    none = np.full((size, 2), -1)
    points_m = np.concatenate([np.reshape(line, (-1, 2)) for line in lines]).astype(float)
    lanes, limits_mps = np.zeros(size, np.int64), np.full(size, 10.0)
    return PathArrays(starts, points_m, lengths_m, pieces, np.zeros(size), lanes, none, limits_mps)


STRAIGHT = np.column_stack([2.0 * np.arange(102), np.zeros(102)])
NORTH = STRAIGHT[:, ::-1]
RADIUS_M = 30.0
TURNS = 2.0 / RADIUS_M * np.arange(200)
CIRCLES = RADIUS_M * np.column_stack([np.sin(TURNS), 1 - np.cos(TURNS)])
"""A circle to the left that is driven round about twice."""


def follow(paths, poses, *, routes=None, places=None):
    """Places of vehicles, which are looked for around their last ones, without these on the whole route."""
    poses = np.array(poses, float).reshape(-1, np.shape(poses)[-1])
    size = len(poses)
    routes = np.zeros(size, np.int64) if routes is None else np.array(routes)
    if places is None:
        return find_places(paths, routes, poses)
    places = np.array(places, float)
    follow_routes(paths, routes, poses, places)
    return places


@pytest.mark.parametrize(
    ("line", "pose", "place"),
    [
        pytest.param(STRAIGHT, (51.3, 0, 0), (51.3, 0, 0), id="on it"),
        pytest.param(STRAIGHT, (20, 1.5, 0.2), (20, 1.5, 0.2), id="to the left"),
        pytest.param(STRAIGHT, (20, -1.5, -0.2), (20, -1.5, -0.2), id="to the right"),
        pytest.param(NORTH, (-3, 20, math.pi / 2 + 0.1), (20, 3, 0.1), id="north"),
        pytest.param(STRAIGHT, (20, 0, math.pi), (20, 0, -math.pi), id="against it"),
        pytest.param(STRAIGHT, (20, 0, 7.0), (20, 0, 7.0 - 2 * math.pi), id="a heading beyond a turn"),
        pytest.param(STRAIGHT, (-8, 1, 0), (-8, 1, 0), id="behind its begin"),
        pytest.param(STRAIGHT, (500, 2, 0), (202, 2, 0), id="beyond its end"),
        pytest.param(CIRCLES[:80], (24, 30, math.pi / 2), (15 * math.pi, 6, 0), id="in a bend"),
    ],
)
def test_places(line, pose, place):
    np.testing.assert_allclose(follow(paths_along(line), [pose])[0], place, atol=0.02)


def test_a_tiny_turn_to_the_right_of_backwards_stays_below_pi():
    turns = follow(paths_along(STRAIGHT), [(20, 0, -math.pi - step * 2.0**-54) for step in range(40)])[:, 2]
    assert (turns >= -math.pi).all()
    assert (turns < math.pi).all()


def test_a_vehicle_keeps_its_round():
    once_m = 2 * math.pi * RADIUS_M
    pose = (RADIUS_M * math.sin(1.0), RADIUS_M * (1 - math.cos(1.0)), 1.0)
    around = follow(paths_along(CIRCLES), [pose], places=[(once_m + 25.0, 0, 0)])
    assert around[0, 0] == pytest.approx(once_m + RADIUS_M, abs=0.05)
    first = follow(paths_along(CIRCLES), [pose], places=[(25.0, 0, 0)])
    assert first[0, 0] == pytest.approx(RADIUS_M, abs=0.05)


def test_new_vehicles_are_looked_for_everywhere_and_others_near_their_last_place():
    out, back = STRAIGHT[:51], np.column_stack([100 - 2.0 * np.arange(52), np.full(52, 10.0)])
    across = [(100, 2), (100, 4), (100, 6), (100, 8)]
    paths = paths_along(np.concatenate([out, across, back]))
    pose, last = (50, 9, math.pi - 0.1), (48.0, 0, 0)
    np.testing.assert_allclose(follow(paths, [pose])[0], (160, 1, -0.1), atol=1e-6)
    np.testing.assert_allclose(follow(paths, [pose], places=[last])[0], (50, 9, math.pi - 0.1), atol=1e-6)


def test_vehicles_without_a_path_have_zeros():
    paths = paths_along(STRAIGHT, np.zeros((0, 2)))
    places = follow(paths, [(20, 1, 0)] * 3, routes=[0, 1, -1], places=np.ones((3, 3)))
    assert places[0].tolist() == pytest.approx([20, 1, 0])
    assert not places[1:].any()


def test_boxes_will_do_as_poses_and_rows_do_not_depend_on_each_other():
    rng = np.random.default_rng(3)
    paths = paths_along(STRAIGHT, NORTH, CIRCLES)
    boxes = np.column_stack([rng.uniform(-20, 120, (50, 2)), rng.uniform(-4, 4, 50), np.full((50, 2), 4.0)])
    routes = rng.integers(-1, 3, 50)
    last = np.column_stack([rng.uniform(0, 150, 50), np.zeros((50, 2))])
    together = follow(paths, boxes, routes=routes, places=last)
    for row in range(50):
        one = slice(row, row + 1)
        alone = follow(paths, boxes[one, :3], routes=routes[one], places=last[one])
        assert alone.tobytes() == together[one].tobytes()


def test_no_vehicles():
    assert follow(paths_along(STRAIGHT), np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("poses", "places", "message"),
    [
        pytest.param(np.zeros((2, 2)), np.zeros((2, 3)), r"poses \(2, 3 or more\)", id="no headings"),
        pytest.param(np.zeros((2, 3)), np.zeros((1, 3)), r"positions \(2, 3\)", id="too few places"),
        pytest.param(np.zeros((2, 3)), np.zeros((2, 3), np.float32), "positions must be float64", id="float32"),
        pytest.param(np.zeros((2, 3)), np.zeros((2, 6))[:, ::2], "contiguous", id="a strided view"),
    ],
)
def test_arrays_that_do_not_fit(poses, places, message):
    with pytest.raises(InvalidArgumentError, match=message):
        follow_routes(paths_along(STRAIGHT), np.zeros(2, np.int64), poses, places)
