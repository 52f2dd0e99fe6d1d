"""Lanes of the AV on a synthetic road (see ``make_road_map``): its own lane, and those it reaches into."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.data import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.lane_positions import (
    _write_across,
    are_in_several_lanes,
    find_lane_positions,
    room_for_lanes,
)
from l5kit.lanes.driving_map import build_driving_map
from support.driving import ROAD_LANES, drive_along, stacked, straight_drive
from support.maps import WORLD_TO_ECEF

ROUNDED_M = 0.02
"""Maps are stored in whole centimetres."""

RIGHT, LEFT, STRAIGHT, TURN, EAST, NORTH = range(len(ROAD_LANES))


def lanes_along(road_map, positions_m, yaws_rad):
    return find_lane_positions(drive_along(positions_m, yaws_rad), road_map).lanes[0].tolist()


def test_the_map_knows_lanes_and_their_order(road_map):
    assert road_map.num_lanes == len(ROAD_LANES)
    assert [road_map.ahead_of(lane).tolist() for lane in range(6)] == [[2, 3], [], [4], [5], [], []]
    assert road_map.is_in_junction.tolist() == [False, False, True, True, False, False]
    assert_array_equal(road_map.parents[[RIGHT, STRAIGHT]], road_map.parents[[LEFT, TURN]])
    assert len(set(road_map.parents.tolist())) == 4
    lengths_m = [100, 100, 20, 10 * np.pi, 100, 80]
    assert_allclose(road_map.arc_lengths_m[:, -1], lengths_m, atol=ROUNDED_M)


def test_a_lane_of_a_junction_has_the_larger_limit_of_before_and_after(road_map):
    assert_array_equal(road_map.speed_limits_mps, [10, 10, 20, 10, 20, np.nan])


@pytest.mark.parametrize(
    ("point_m", "expected_m"),
    [
        pytest.param((10, 0), 0.0, id="on a lane"),
        pytest.param((10, -2.25), 0.25, id="beside the road"),
        pytest.param((10, -2.75), np.inf, id="far off the road"),
        pytest.param((52, -9), 0.0, id="on the crosswalk"),
        pytest.param((49.6, -9), 0.4, id="beside the crosswalk"),
        pytest.param((112, 2.5), 0.0, id="in the junction, between its lanes"),
        pytest.param((150, 2.1), 0.1, id="beside the road to the east"),
    ],
)
def test_distance_to_the_drivable_surface(road_map, point_m, expected_m):
    found_m = road_map.distances_to_surface_m(np.array([point_m], float))
    assert_allclose(found_m, [expected_m], atol=ROUNDED_M)


def test_the_grid_of_lanes_is_built_once_and_finds_lanes_only(road_map):
    grid = road_map.lane_grid
    assert road_map.lane_grid is grid
    points_m = np.array([[52, -3.9], [52, -4.1], [52, 2.0]])  # all next to or on the crosswalk, which is not a lane
    rows, starts = grid.find_near(points_m)
    assert [part.tolist() for part in np.split(rows, starts[1:-1])] == [[RIGHT], [], [RIGHT, LEFT]]


def test_places_on_lanes(road_map):
    points_m = np.array([[30.0, 1.0], [-5, 0], [100 + 20 * np.sin(1.0), 20 - 20 * np.cos(1.0)], [30, 0]])
    found_m = road_map.arcs_on_lanes_m(points_m, np.array([RIGHT, RIGHT, TURN, -1]))
    assert_allclose(found_m, [30, 0, 20, np.nan], atol=ROUNDED_M)


@pytest.mark.parametrize(
    ("positions_m", "yaws_rad", "lanes"),
    [
        pytest.param([[50, 0.5], [50, 3.5], [50, 9]], [0, 0, 0], [RIGHT, LEFT, -1], id="one lane, and none"),
        pytest.param([[103, 0.5]], [0.0], [STRAIGHT], id="two lanes, heads straight on"),
        pytest.param([[103, 0.5]], [0.4], [TURN], id="two lanes, heads to the left"),
        pytest.param([[99, 0], [103, 0.5]], [0, 0.4], [RIGHT, TURN], id="the follower with the nearest heading"),
        pytest.param([[111, 0], [103, 0.5]], [0, 0.4], [STRAIGHT, STRAIGHT], id="stays in its lane"),
        pytest.param([[111, 0], [111, 9], [103, 0.5]], [0, 0, 0.4], [STRAIGHT, -1, TURN], id="forgets its lane"),
        pytest.param([[103, 0.5]], [np.pi + 0.4], [STRAIGHT], id="the wrong way"),
    ],
)
def test_lane_of_the_av(road_map, positions_m, yaws_rad, lanes):
    assert lanes_along(road_map, positions_m, yaws_rad) == lanes


@pytest.mark.parametrize(
    ("position_m", "yaw_rad", "is_across"),
    [
        pytest.param((50, 0), 0.0, False, id="one lane"),
        pytest.param((50, 2), 0.0, True, id="two lanes side by side"),
        pytest.param((50, -1.5), 0.0, True, id="two corners off the road"),
        pytest.param((100, 0), 0.0, False, id="a lane and its follower"),
        pytest.param((120, 0), 0.0, False, id="the end of the junction"),
        pytest.param((120, 50), np.pi / 2, False, id="another lane"),
        pytest.param((50, -30), 0.0, True, id="off the road"),
    ],
)
def test_across_lanes(road_map, position_m, yaw_rad, is_across):
    places = find_lane_positions(drive_along([position_m], [yaw_rad]), road_map)
    assert places.is_across.item() is is_across


@pytest.mark.parametrize(
    ("y_m", "yaw_rad"),
    [
        pytest.param(0.8, 0.2, id="front left"),
        pytest.param(-0.8, -0.2, id="front right"),
        pytest.param(-0.8, 0.2, id="rear right"),
        pytest.param(0.8, -0.2, id="rear left"),
    ],
)
def test_a_single_corner_leaves_the_lane_of_the_frame_before(road_map, y_m, yaw_rad):
    drive = drive_along([[49, 0], [50, y_m], [51, 0]], [0, yaw_rad, 0])
    assert find_lane_positions(drive, road_map).is_across.tolist() == [[False, True, False]]


def test_what_the_room_held_before_is_no_lane(road_map):
    boxes_m = np.array([[[2, 1], [2, -1], [-2, -1], [-2, 1]]]) + np.array([[[50.0, -30]], [[50, 0]]])
    room = np.full(room_for_lanes(road_map, 1)[1:], 10**6)
    is_across = np.zeros(2, np.bool_)
    _write_across.py_func(road_map.surface, boxes_m, room, is_across)  # as plain Python, which checks indices
    assert is_across.tolist() == [True, False]


def test_short_lanes_that_follow_each_other_count_as_one(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    for i in range(5):
        left, right = (np.array([[1.5 * i, y, 0.0], [1.5 * i + 1.5, y, 0.0]]) for y in (2.0, -2.0))
        builder.add_lane(f"lane {i}", left, right, lanes_ahead=[f"lane {i + 1}"] if i != 3 else [])
    builder.save(tmp_path / "short.pb")
    short_lanes = build_driving_map(MapAPI(str(tmp_path / "short.pb"), WORLD_TO_ECEF))
    places = find_lane_positions(drive_along([[2.4, 0], [4.4, 0]], [0, 0]), short_lanes)
    # the first has no corner in lane 1, the second reaches over the end of lane 3, which leads nowhere
    assert places.is_across.tolist() == [[False, True]]
    assert np.isnan(short_lanes.speed_limits_mps).all()
    assert len(set(short_lanes.parents.tolist())) == 5


def test_the_rear_axle_is_in_a_junction(road_map):
    places = find_lane_positions(drive_along([[100.9, 0], [101.1, 0], [120.9, 0], [121.1, 0]], [0] * 4), road_map)
    assert places.is_in_junction.tolist() == [[False, True, True, False]]


def test_without_a_map_it_is_on_no_lane_and_across_none():
    places = find_lane_positions(straight_drive(3), None)
    assert places.lanes.tolist() == [[-1, -1, -1]]
    assert not places.is_across.any()
    assert not places.is_in_junction.any()


def test_a_map_without_lanes(tmp_path):
    MapBuilder(WORLD_TO_ECEF).save(tmp_path / "empty.pb")
    empty = build_driving_map(MapAPI(str(tmp_path / "empty.pb"), WORLD_TO_ECEF))
    places = find_lane_positions(straight_drive(2), empty)
    assert places.lanes.tolist() == [[-1, -1]]
    assert places.is_across.all()
    assert_array_equal(empty.distances_to_surface_m(np.zeros((1, 2))), [np.inf])


def test_a_batch_has_the_places_of_its_scenes(road_map):
    drives = [straight_drive(150, speed_mps=9), straight_drive(40), straight_drive(80, start_m=(90, 2), yaw_rad=0.3)]
    batch = find_lane_positions(stacked(*drives), road_map)
    for scene, drive in enumerate(drives):
        alone, num_frames = find_lane_positions(drive, road_map), drive.is_there.shape[1]
        for name in ("lanes", "is_across", "is_in_junction"):
            assert_array_equal(getattr(batch, name)[scene, :num_frames], getattr(alone, name)[0])
        assert (batch.lanes[scene, num_frames:] == -1).all()
        assert not batch.is_across[scene, num_frames:].any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"parents": np.zeros(2, np.int64)}, "shapes do not fit", id="shape"),
        pytest.param({"ahead_rows": np.full(4, 6)}, "rows up to 6", id="no such lane"),
        pytest.param({"area_starts": np.arange(3)}, "area_starts must have shape", id="areas"),
        pytest.param(
            {"centre_lines_m": np.zeros((6, 1, 2)), "arc_lengths_m": np.zeros((6, 1))}, "lines of 1", id="line"
        ),
    ],
)
def test_what_a_map_refuses(road_map, changes, message):
    with pytest.raises(InvalidArgumentError, match=message):
        dataclasses.replace(road_map, **changes)


def test_lanes_of_another_map_are_refused(road_map):
    with pytest.raises(InvalidArgumentError, match=r"rows below 6, .* up to 9"):
        road_map.arcs_on_lanes_m(np.zeros((1, 2)), np.array([9]))


@pytest.mark.parametrize(
    ("box", "several", "across"),
    [
        pytest.param((50, 0, 0, 4, 2), False, False, id="in a lane"),
        pytest.param((50, 2, 0, 4, 2), True, True, id="in two beside each other"),
        pytest.param((100, 0, 0, 4, 2), True, False, id="in two that follow each other"),
        pytest.param((50, -2, 0, 4, 2), False, True, id="half off the road"),
        pytest.param((50, -30, 0, 4, 2), False, True, id="off it"),
    ],
)
def test_several_lanes_as_navsim_counts_them(road_map, box, several, across):
    states = drive_along([box[:2]], [box[2]])
    assert are_in_several_lanes(np.array(box, float), road_map) == several
    assert find_lane_positions(states, road_map).is_across == across
