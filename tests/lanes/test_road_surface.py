"""Distances to the drivable surface of a square lane, and what holds without a map and on one without areas."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.data.map.bounds_grid import BoundsGrid
from l5kit.evaluation.driving.lane_positions import is_across_lanes
from l5kit.lanes.lane_paths import PathArrays, piece_at
from l5kit.lanes.road_surface import (
    REACH_M,
    RoadSurface,
    distance_to_surface,
    farthest_corner,
    is_in_junction,
    no_surface,
    write_corners,
    write_lanes_at,
)

CORNERS_M = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]])


def surface_of(*areas_m, is_in_junction=True):
    """A surface of lanes that do not follow each other."""
    bounds_m = np.array([[area.min(axis=0), area.max(axis=0)] for area in areas_m]).reshape(-1, 2, 2)
    size = len(areas_m)
    return RoadSurface(
        BoundsGrid.build(bounds_m, REACH_M).arrays,
        np.concatenate([np.zeros((0, 2)), *areas_m]),
        np.cumsum([0, *map(len, areas_m)]),
        np.full(size, is_in_junction),
        (np.zeros(size + 1, np.int64), np.zeros(0, np.int64)),
    )


@pytest.mark.parametrize("hint", [-1, 0, 7])
@pytest.mark.parametrize(
    ("point_m", "distance_m", "area"),
    [
        pytest.param((5.0, 5.0), 0.0, 0, id="inside"),
        pytest.param((10.3, 5.0), 0.3, -1, id="beside an edge"),
        pytest.param((10.2, 10.1), math.hypot(0.2, 0.1), -1, id="near a corner"),
        pytest.param((10.5, 5.0), math.inf, -1, id="from half a metre on"),
        pytest.param((500.0, 5.0), math.inf, -1, id="off the grid"),
    ],
)
def test_distance_of_a_point(point_m, distance_m, area, hint):
    found_m, found = distance_to_surface(surface_of(CORNERS_M), np.array(point_m), hint)
    assert_allclose(found_m, distance_m, rtol=1e-12)
    assert found == area


def test_the_farthest_corner_counts_and_areas_are_remembered():
    corners_m, areas = np.empty((4, 2)), np.full(4, -1)
    write_corners(np.array([8.0, 5.0, 0.0, 4.4, 2.0]), corners_m)
    assert_allclose(corners_m, [[10.2, 6.0], [10.2, 4.0], [5.8, 4.0], [5.8, 6.0]])
    assert_allclose(farthest_corner(surface_of(CORNERS_M), corners_m, areas), 0.2)
    assert_array_equal(areas, [-1, -1, 0, 0])
    write_corners(np.array([0.0, 0.0, math.pi / 2, 4.0, 2.0]), corners_m)
    assert_allclose(corners_m, [[-1.0, 2.0], [1.0, 2.0], [1.0, -2.0], [-1.0, -2.0]], atol=1e-12)


def test_without_a_map_nothing_is_off_the_road_and_on_one_without_areas_everything():
    corners_m, room = CORNERS_M.copy(), np.empty((5, 5), np.int64)
    none, empty = no_surface(), surface_of()
    assert farthest_corner(none, corners_m, np.full(4, -1)) == 0.0
    assert not is_across_lanes(none, corners_m, room)
    assert farthest_corner(empty, corners_m, np.full(4, -1)) == math.inf
    assert is_across_lanes(empty, corners_m, room)
    assert not is_in_junction(none, corners_m[0])
    assert not is_in_junction(empty, corners_m[0])


def test_lanes_at_points():
    surface = surface_of(CORNERS_M, CORNERS_M + (5.0, 0.0))
    lanes, room = np.full(3, -1), np.empty((5, 20), np.int64)
    points_m = ((2.0, 2.0), (20.0, 2.0), (7.0, 2.0))
    assert [write_lanes_at(surface, np.array(point_m), lanes) for point_m in points_m] == [1, 0, 2]
    assert_array_equal(lanes[:2], [0, 1])
    assert is_in_junction(surface, np.array([7.0, 2.0]))
    assert not is_in_junction(surface_of(CORNERS_M, is_in_junction=False), np.array([7.0, 2.0]))
    inside_m = np.array([[6.0, 1.0], [9.0, 1.0], [9.0, 4.0], [6.0, 4.0]])
    assert not is_across_lanes(surface, inside_m, room)
    assert is_across_lanes(surface, np.array([[1.0, 1.0], [14.0, 1.0], [14.0, 4.0], [1.0, 4.0]]), room)


def test_a_piece_is_found_from_an_earlier_one_on():
    none, rows = np.zeros(0), np.zeros(4, np.int64)
    paths = PathArrays(
        np.zeros(3, np.int64),
        np.zeros((0, 2)),
        none,
        np.array([0, 3, 4]),
        np.array([0.0, 10.0, 20.0, 0.0]),
        rows,
        np.stack([rows, rows], axis=-1),
        np.zeros(4),
    )
    assert [piece_at(paths, 0, 0, arc_m) for arc_m in (-1.0, 0.0, 9.9, 10.0, 25.0)] == [0, 0, 0, 1, 2]
    assert piece_at(paths, 0, 1, 25.0) == 2
    assert piece_at(paths, 1, 3, 25.0) == 3
