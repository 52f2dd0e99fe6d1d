"""Outlines of a map: the order of their points, their choice by distance, and maps that lack something."""

import numpy as np
import pytest

from l5kit.data import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.visualization.map_shapes import Outlines, read_map_shapes
from support.maps import WORLD_TO_ECEF, lane_lines_m

CM = 0.02  # files hold centimetres


@pytest.fixture(scope="module")
def shapes(lit_map):
    return read_map_shapes(lit_map.arrays)


def outline(outlines, index):
    return outlines.points_m[outlines.starts[index] : outlines.starts[index + 1]]


def test_lanes_are_the_left_boundary_forward_and_the_right_one_backward(shapes):
    assert (len(shapes.lanes), len(shapes.crosswalks)) == (5, 2)
    assert shapes.lane_left_counts.tolist() == [2] * 5
    assert shapes.lanes.starts.tolist() == [0, 5, 10, 15, 20, 25]
    np.testing.assert_allclose(
        outline(shapes.lanes, 1), [[-20, 6], [20, 6], [20, 2], [0, 2], [-20, 2]], atol=CM, err_msg="lane 'green'"
    )


def test_crosswalks_are_their_polygons(shapes):
    np.testing.assert_allclose(outline(shapes.crosswalks, 0), [[0, -5], [3, -5], [3, 5]], atol=CM)
    np.testing.assert_allclose(outline(shapes.crosswalks, 1), [[0, -500], [3, -500], [3, -490]], atol=CM)


def test_bounds_enclose_the_points(shapes):
    for outlines in (shapes.lanes, shapes.crosswalks):
        for index in range(len(outlines)):
            points_m = outline(outlines, index)
            np.testing.assert_allclose(outlines.bounds_m[index], [points_m.min(axis=0), points_m.max(axis=0)], atol=CM)


def test_outlines_of_a_city_are_those_of_the_map(city_map):
    shapes, bounds = read_map_shapes(city_map.arrays), city_map.bounds_info
    for index, lane_id in enumerate(bounds["lanes"]["ids"]):
        lane, left = city_map.get_lane_coords(lane_id), int(shapes.lane_left_counts[index])
        points_m = outline(shapes.lanes, index)
        np.testing.assert_array_equal(points_m[:left], lane["xyz_left"][:, :2])
        np.testing.assert_array_equal(points_m[left:][::-1], lane["xyz_right"][:, :2])
    for index, crosswalk_id in enumerate(bounds["crosswalks"]["ids"]):
        polygon = city_map.get_crosswalk_coords(crosswalk_id)["xyz"]
        np.testing.assert_array_equal(outline(shapes.crosswalks, index), polygon[:, :2])
    assert len(shapes.lanes) > 100
    assert len(shapes.crosswalks) > 10


NEAR = {
    "all lanes are farther": ([[0.0, 300.0]], 100.0, []),
    "three of them": ([[0.0, 0.0]], 10.0, [0, 1, 2]),
    "one more": ([[0.0, 0.0]], 50.0, [0, 1, 2, 3]),
    "any of several positions": ([[-60.0, 0.0], [70.0, 0.0]], 15.0, [3, 4]),
    "no position": (np.empty((0, 2)), 1000.0, []),
    "a position that is not known": ([[np.nan, 0.0]], 1000.0, []),
    "one that is not known among others": ([[np.nan, np.nan], [0.0, 0.0]], 10.0, [0, 1, 2]),
}


@pytest.mark.parametrize(("positions_m", "radius_m", "lanes"), NEAR.values(), ids=NEAR.keys())
def test_what_is_near_keeps_its_points_and_tells_its_numbers(shapes, positions_m, radius_m, lanes):
    near, numbers = shapes.near(np.array(positions_m), radius_m)
    assert numbers.tolist() == lanes
    assert near.lane_left_counts.tolist() == shapes.lane_left_counts[lanes].tolist()
    assert len(near.lanes) == len(lanes)
    assert near.lanes.starts[0] == 0
    for index, number in enumerate(lanes):
        np.testing.assert_array_equal(outline(near.lanes, index), outline(shapes.lanes, number))
    np.testing.assert_array_equal(near.lanes.bounds_m, shapes.lanes.bounds_m[lanes])


def test_crosswalks_are_chosen_by_themselves(shapes):
    near, numbers = shapes.near(np.array([[0.0, -600.0]]), 150.0)
    assert len(numbers) == 0
    np.testing.assert_allclose(outline(near.crosswalks, 0), [[0, -500], [3, -500], [3, -490]], atol=CM)
    assert len(near.crosswalks) == 1


def test_distances_are_along_both_axes():
    square = Outlines(np.array([0, 2]), np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[[0.0, 0.0], [1.0, 1.0]]]))
    assert square.near(np.array([[3.0, 3.0]]), 2.0).tolist() == [0]
    assert square.near(np.array([[3.1, 0.5]]), 2.0).tolist() == []
    assert square.near(np.array([[-1.9, -2.0]]), 2.0).tolist() == [0]


def test_outlines_are_taken_in_any_order(shapes):
    taken = shapes.crosswalks.take(np.array([1, 0, 1]))
    assert taken.starts.tolist() == [0, 3, 6, 9]
    for index, number in enumerate((1, 0, 1)):
        np.testing.assert_array_equal(outline(taken, index), outline(shapes.crosswalks, number))


def only_lane(builder):
    builder.add_lane("a", *lane_lines_m(0.0))


def only_crosswalk(builder):
    builder.add_crosswalk("a", np.array([[0.0, 0, 0], [3, 0, 0], [3, 4, 0]]))


@pytest.mark.parametrize(
    ("add", "counts"),
    [(only_lane, (1, 0)), (only_crosswalk, (0, 1)), (lambda builder: None, (0, 0))],
    ids=["lane", "crosswalk", "none"],
)
def test_maps_may_lack_lanes_or_crosswalks(tmp_path, add, counts):
    builder = MapBuilder(WORLD_TO_ECEF)
    add(builder)
    builder.save(tmp_path / "map.pb")
    shapes = read_map_shapes(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF).arrays)
    assert (len(shapes.lanes), len(shapes.crosswalks)) == counts
    assert shapes.lanes.points_m.shape == (5 * counts[0], 2)
    near, numbers = shapes.near(np.zeros((1, 2)), 10.0)
    assert (len(near.lanes), len(near.crosswalks)) == counts
    assert numbers.tolist() == list(range(counts[0]))
