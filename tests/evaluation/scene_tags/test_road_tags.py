"""Tags that need a map, of made situations on the road of ``make_road_map``; the AV is 4 x 2 m.

``right`` ends at x = 100, where the junction begins.
"""

from dataclasses import replace

import numpy as np
import pytest

from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.data.map.lane_lights import LaneLights
from l5kit.data.records import TL_FACE_DTYPE
from l5kit.evaluation.driving.lane_positions import find_lane_positions
from l5kit.evaluation.scene_tags.road_tags import find_lane_changes, find_stops_at_red, find_unprotected_crossings
from l5kit.evaluation.scene_tags.tag_map import TagMap
from l5kit.evaluation.scene_tags.tag_table import TagThresholds
from l5kit.lanes.driving_map import build_driving_map
from support.driving import ROAD_LANES, drive_along, make_road_map, road_users_at, straight_drive
from support.maps import WORLD_TO_ECEF

DEFAULTS = TagThresholds()
ROW = {name: row for row, name in enumerate(ROAD_LANES)}


@pytest.fixture(scope="module")
def driving_map(tmp_path_factory):
    return make_road_map(tmp_path_factory.mktemp("road"))


def stops(driving_map, states, red, *, standing=((0, 30),)):
    return find_stops_at_red(
        states,
        find_lane_positions(states, driving_map),
        [np.array([ROW[name] for name in red], np.int64)] * states.is_there.shape[1],
        standing=np.array(standing),
        driving_map=driving_map,
        thresholds=DEFAULTS,
    ).tolist()


@pytest.mark.parametrize(
    ("x_m", "red", "expected"),
    [
        pytest.param(73.1, ["right"], True, id="light of the lane, front 24.9 m before its end"),
        pytest.param(72.9, ["right"], False, id="25.1 m"),
        pytest.param(73.1, ["straight"], True, id="light of the lane in the junction"),
        pytest.param(72.9, ["straight"], False, id="too far from the lane in the junction"),
        pytest.param(90.0, ["left"], False, id="light of the lane beside"),
        pytest.param(90.0, [], False, id="no red light"),
        pytest.param(104.9, ["straight"], True, id="4.9 m behind the line"),
        pytest.param(105.1, ["straight"], False, id="5.1 m behind the line"),
    ],
)
def test_stops_at_red(driving_map, x_m, red, expected):
    states = straight_drive(30, speed_mps=0.0, start_m=(x_m, 0.0))
    assert stops(driving_map, states, red) == ([[0, 30]] if expected else [])


def test_the_light_of_the_lane_that_is_driven_on_next_counts(driving_map):
    x_m = np.concatenate([np.full(30, 95.0), np.linspace(95.5, 115, 30)])
    states = drive_along(np.column_stack([x_m, 0 * x_m]), 0 * x_m)
    assert stops(driving_map, states, ["turn"]) == []
    assert stops(driving_map, states, ["straight"]) == [[0, 30]]
    assert stops(driving_map, straight_drive(30, speed_mps=0.0, start_m=(95.0, 0.0)), ["turn"]) == [[0, 30]]


def changes(driving_map, y_m, *, x_m=None, yaw=0.0):
    x_m = np.linspace(10, 40, len(y_m)) if x_m is None else x_m
    states = drive_along(np.column_stack([x_m, y_m]), np.full(len(y_m), yaw))
    places = find_lane_positions(states, driving_map)
    return find_lane_changes(states, places, driving_map=driving_map, thresholds=DEFAULTS).tolist()


def test_lane_changes(driving_map):
    assert changes(driving_map, np.repeat([0.0, 4.0], 20)) == [[19, 21]]
    assert changes(driving_map, np.repeat([0.0, 4.0, 0.0], 20)) == [[19, 21], [39, 41]]


@pytest.mark.parametrize(
    ("y_m", "x_m", "yaw"),
    [
        pytest.param(np.repeat([0.0, 4.0], [9, 20]), None, 0.0, id="0.9 s on the old lane"),
        pytest.param(np.repeat([0.0, 4.0, 0.0], [20, 9, 20]), None, 0.0, id="0.8 s on the new lane"),
        pytest.param(np.repeat([0.0, 4.0], 20), np.linspace(40, 10, 40), np.pi, id="against the lane"),
        pytest.param(np.zeros(40), np.linspace(80, 119, 40), 0.0, id="the lane ahead"),
    ],
)
def test_no_lane_changes(driving_map, y_m, x_m, yaw):
    assert changes(driving_map, y_m, x_m=x_m, yaw=yaw) == []


def crossings(driving_map, other_frames, *, lit=(), speed_mps=10.0, start_m=(100.0, 0.0), **other):
    """Return the crossings of a drive of 6 s through the junction where another one is on the AV's way at x = 110."""
    states = straight_drive(60, speed_mps=speed_mps, start_m=start_m)
    car = {"at": (110.0, 0.0), "yaw": np.pi / 2, "v": (0.0, 5.0)} | other
    users = road_users_at([[car] if frame in other_frames else [] for frame in range(60)])
    has_light = np.isin(np.arange(driving_map.num_lanes), [ROW[name] for name in lit])
    tag_map = TagMap(driving_map, LaneLights.of_faces({}), has_light)
    return find_unprotected_crossings(
        states, users, find_lane_positions(states, driving_map), tag_map=tag_map, thresholds=DEFAULTS
    ).tolist()


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        pytest.param({}, True, id="crosses"),
        pytest.param({"lit": ["straight"]}, False, id="a light rules the lane"),
        pytest.param({"lit": ["turn"]}, True, id="a light rules another lane"),
        pytest.param({"yaw": np.radians(31)}, True, id="31 degrees"),
        pytest.param({"yaw": np.radians(29)}, False, id="29 degrees: goes the same way"),
        pytest.param({"v": (0.0, 0.9)}, False, id="stands"),
        pytest.param({"group": 2}, False, id="is no road user"),
        pytest.param({"start_m": (100.0, 3.1)}, False, id="passes beside it"),
        pytest.param({"start_m": (130.0, 0.0), "at": (140.0, 0.0)}, False, id="not in a junction"),
    ],
)
def test_unprotected_crossings(driving_map, situation, expected):
    # the boxes overlap while the AV is between x = 107 and 113, both without, frames 8 to 12; 20 is 0.8 s behind
    found = crossings(driving_map, [20], **situation)
    assert (found == [[8, 13]]) if expected and situation.get("yaw") is None else (bool(found) == expected)


@pytest.mark.parametrize(("frame", "expected"), [(42, True), (43, False)], ids=["3.0 s after", "3.1 s after"])
def test_post_encroachment_time_of_crossings(driving_map, frame, expected):
    assert bool(crossings(driving_map, [frame])) == expected


def test_on_a_map_without_lanes_nothing_is_done_on_a_lane(tmp_path):
    MapBuilder(WORLD_TO_ECEF).save(tmp_path / "empty.pb")
    empty = build_driving_map(MapAPI(str(tmp_path / "empty.pb"), WORLD_TO_ECEF))
    assert empty.num_lanes == 0
    assert crossings(empty, [20]) == []
    assert stops(empty, straight_drive(30, speed_mps=0.0), []) == []
    assert changes(empty, np.repeat([0.0, 4.0], 20)) == []


def test_red_lanes_of_frames():
    lights = LaneLights.of_faces(
        {"a": ("RED", np.array([1, 4])), "b": ("GREEN", np.array([2])), "c": ("RED", np.array([3]))}
    )
    faces = np.zeros(4, TL_FACE_DTYPE)
    faces["face_id"] = ["a", "b", "c", "a"]
    faces["traffic_light_face_status"] = [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]  # active, inactive, unknown
    tag_map = TagMap(None, lights, np.zeros(5, np.bool_))
    red = tag_map.red_lanes(np.array([[0, 3], [3, 4], [4, 4]]), faces)
    assert [lanes.tolist() for lanes in red] == [[1, 4], [], []]
    assert [len(lanes) for lanes in tag_map.red_lanes(np.zeros((2, 2), np.int64), faces[:0])] == [0, 0]
    assert [
        len(lanes) for lanes in replace(tag_map, lights=LaneLights.of_faces({})).red_lanes(np.zeros((1, 2), int), faces)
    ] == [0]
