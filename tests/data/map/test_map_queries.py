from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.data.labels import TL_FACE_LABEL_TO_INDEX
from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.data.proto.road_network_pb2 import MapElement, MapFragment, TrafficControlElement
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from support.logs import make_faces
from support.maps import WORLD_TO_ECEF


def straight(y_m: float, x_from_m: float, x_to_m: float) -> np.ndarray:
    return np.array([[x_from_m, y_m, 0.0], [(x_from_m + x_to_m) / 2, y_m, 0.0], [x_to_m, y_m, 0.0]])


def build_crossing() -> MapBuilder:
    """Two lanes to the east and one back on a road, then a junction to a slower and a faster road.

    B lies left of A, W comes back left of B; J1 leads from A to C, J2 from B over J3 to D.
    """
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_segment(
        "road", straight(0, 0, 100), lanes=["W", "B", "A"], speed_limit_mps=20.0, backward_speed_limit_mps=15.0
    )
    builder.add_segment("slow", straight(0, 120, 200), lanes=["C"], speed_limit_mps=10.0)
    builder.add_segment("fast", straight(0, 150, 200), lanes=["D"], speed_limit_mps=30.0)
    builder.add_segment("silent", straight(0, 200, 300), lanes=["E"])
    builder.add_junction("junction", lanes=["J1", "J2", "J3"])
    builder.add_lane(
        "A",
        straight(0, 0, 100),
        straight(-4, 0, 100),
        parent="road",
        lanes_ahead=["J1"],
        change_left="B",
        traffic_controls=["T", "red", "green", "arrow", "far"],
    )
    builder.add_lane(
        "B", straight(4, 0, 100), straight(0, 0, 100), parent="road", lanes_ahead=["J2", "J1"], change_right="A"
    )
    builder.add_lane("W", straight(4, 100, 0), straight(8, 100, 0), parent="road", orientation="ONE_WAY_BACKWARD")
    builder.add_lane("J1", straight(0, 100, 120), straight(-4, 100, 120), parent="junction", lanes_ahead=["C"])
    builder.add_lane("J2", straight(4, 100, 120), straight(0, 100, 120), parent="junction", lanes_ahead=["J3"])
    builder.add_lane("J3", straight(4, 120, 150), straight(0, 120, 150), parent="junction", lanes_ahead=["D", "J2"])
    builder.add_lane("C", straight(0, 120, 200), straight(-4, 120, 200), parent="slow", traffic_controls=["sign"])
    builder.add_lane("D", straight(4, 150, 200), straight(0, 150, 200), parent="fast", lanes_ahead=["gone"])
    builder.add_lane("E", straight(4, 200, 300), straight(0, 200, 300), parent="silent")
    builder.add_lane(
        "F", straight(50, 200, 300), straight(46, 200, 300), parent="gone", traffic_controls=["light only"]
    )
    builder.add_traffic_light("T", [100.0, 5.0, 4.0], faces=["red", "green", "arrow"])
    builder.add_traffic_light("light only", [100.0, 5.0, 4.0])
    builder.add_traffic_light_face("red", "signal_red_face")
    builder.add_traffic_light_face("green", "signal_green_face")
    builder.add_traffic_light_face("arrow", "signal_left_arrow_yellow_face")
    builder.add_traffic_light_face("elsewhere", "signal_red_face")
    builder.add_traffic_control("sign", "yield_sign", [200.0, -5.0, 2.0])
    builder.add_crosswalk("X", np.array([[100.0, -5, 0], [102, -5, 0], [102, 5, 0]]))
    builder.add_node("end", [100.0, 0.0, 0.0])
    return builder


@pytest.fixture(scope="module")
def crossing(tmp_path_factory: pytest.TempPathFactory) -> MapAPI:
    path = tmp_path_factory.mktemp("map") / "crossing.pb"
    build_crossing().save(path)
    return MapAPI(str(path), WORLD_TO_ECEF)


@pytest.mark.parametrize(
    ("lane_id", "ahead", "behind", "left", "right"),
    [
        ("A", ["J1"], [], "B", None),
        ("B", ["J2", "J1"], [], None, "A"),
        ("J1", ["C"], ["A", "B"], None, None),
        ("J2", ["J3"], ["B", "J3"], None, None),
        ("D", ["gone"], ["J3"], None, None),
    ],
)
def test_neighbours(crossing: MapAPI, lane_id: str, ahead, behind, left, right) -> None:
    assert crossing.get_lanes_ahead(lane_id) == ahead
    assert crossing.get_lanes_behind(lane_id) == behind
    assert crossing.get_lane_left(lane_id) == left
    assert crossing.get_lane_right(lane_id) == right


def test_neighbours_are_new_lists(crossing: MapAPI) -> None:
    crossing.get_lanes_behind("J1").clear()
    assert crossing.get_lanes_behind("J1") == ["A", "B"]


@pytest.mark.parametrize(
    "method", ["get_lanes_ahead", "get_lanes_behind", "get_lane_left", "get_lane_right", "get_lane_speed_limit"]
)
def test_neighbours_of_what_is_no_lane(crossing: MapAPI, method: str) -> None:
    with pytest.raises(KeyError):
        getattr(crossing, method)("gone")
    with pytest.raises(InvalidArgumentError, match="'X' is not a lane"):
        getattr(crossing, method)("X")


@pytest.mark.parametrize(
    ("lane_id", "limit_mps"),
    [
        ("A", 20.0),
        ("W", 15.0),
        ("C", 10.0),
        ("D", 30.0),
        ("E", None),
        ("F", None),
        ("J1", 10.0),
        ("J2", 20.0),
        ("J3", 20.0),
    ],
    ids=["forward", "backward", "slow", "fast", "no_limit", "no_parent", "junction", "over_two_lanes", "with_a_loop"],
)
def test_speed_limits(crossing: MapAPI, lane_id: str, limit_mps: float | None) -> None:
    assert crossing.get_lane_speed_limit(lane_id) == limit_mps


def test_backward_lane_of_a_segment_with_one_limit(tmp_path: Path) -> None:
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_segment("road", straight(0, 0, 100), speed_limit_mps=12.5)
    builder.add_lane("W", straight(0, 9, 0), straight(4, 9, 0), parent="road", orientation="ONE_WAY_BACKWARD")
    builder.save(tmp_path / "map.pb")
    assert MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF).get_lane_speed_limit("W") == 12.5


@pytest.mark.parametrize(
    ("point_m", "lane_id", "distance_m"),
    [
        ([50.0, -1.0], "A", 0.0),
        ([50.0, 3.0, 99.0], "B", 0.0),
        ([50.0, -7.0], "A", 3.0),
        ([-3.0, -8.0], "A", 5.0),
        ([250.0, 20.0], "E", 16.0),
        ([250.0, 60.0], "F", 10.0),
    ],
    ids=["inside", "inside_with_z", "beside", "off_a_corner", "between_two", "beyond"],
)
def test_nearest_lane(crossing: MapAPI, point_m, lane_id: str, distance_m: float) -> None:
    found, found_m = crossing.get_nearest_lane(np.array(point_m))
    assert found == lane_id
    assert found_m == pytest.approx(distance_m, abs=0.01)


def test_of_two_lanes_around_a_point_the_one_with_the_nearer_midline_is_nearest(tmp_path: Path) -> None:
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("wide", straight(10, 0, 50), straight(-10, 0, 50))
    builder.add_lane("narrow", straight(8, 0, 50), straight(4, 0, 50))
    builder.save(tmp_path / "map.pb")
    map_api = MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF)
    assert map_api.get_nearest_lane(np.array([25.0, 5.0])) == ("narrow", 0.0)
    assert map_api.get_nearest_lane(np.array([25.0, 1.0])) == ("wide", 0.0)
    assert map_api.get_lanes_within(np.array([25.0, 5.0]), 1.0) == ["narrow", "wide"]


def test_lanes_within(crossing: MapAPI) -> None:
    assert crossing.get_lanes_within(np.array([50.0, -1.0]), 0.0) == ["A"]
    assert crossing.get_lanes_within(np.array([50.0, -1.0]), 1.5) == ["A", "B"]
    assert crossing.get_lanes_within(np.array([50.0, -1.0]), 6.0) == ["A", "B", "W"]
    assert crossing.get_lanes_within(np.array([50.0, -99.0]), 6.0) == []


def polygon_distance(polygon: np.ndarray, point: np.ndarray) -> float:
    """Distance to a convex or bent strip by dense sampling of its edges, 0 inside by winding number."""
    closed = np.concatenate([polygon, polygon[:1]])
    angles = np.unwrap(np.arctan2(*(closed - point).T[::-1]))
    if abs(angles[-1] - angles[0]) > np.pi:
        return 0.0
    along = np.linspace(0.0, 1.0, 2001)[:, None, None]
    edges = closed[:-1] + along * (closed[1:] - closed[:-1])
    return float(np.linalg.norm(edges - point, axis=-1).min())


@given(x_m=st.floats(-20, 320), y_m=st.floats(-40, 80))
def test_nearest_and_within_equal_a_slow_search(crossing: MapAPI, x_m: float, y_m: float) -> None:
    point = np.array([x_m, y_m])
    distances_m = {}
    for lane_id in crossing.bounds_info["lanes"]["ids"]:
        left, right = (line[:, :2] for line in crossing.get_lane_coords(lane_id).values())
        distances_m[lane_id] = polygon_distance(np.concatenate([left, right[::-1]]), point)
    found, distance_m = crossing.get_nearest_lane(point)
    assert distance_m == pytest.approx(min(distances_m.values()), abs=0.02)
    assert distances_m[found] == pytest.approx(distance_m, abs=0.02)
    within = crossing.get_lanes_within(point, 30.0)
    assert within == [] or within[0] == found
    assert {i for i, distance in distances_m.items() if distance < 29.98} <= set(within)
    assert set(within) <= {i for i, distance in distances_m.items() if distance < 30.02}
    assert all(distances_m[a] <= distances_m[b] + 0.04 for a, b in pairwise(within))


@pytest.mark.parametrize("point", [[1.0], [1.0, 2.0, 3.0, 4.0], [np.nan, 0.0]], ids=["1d", "4d", "nan"])
def test_bad_points(crossing: MapAPI, point) -> None:
    with pytest.raises(InvalidArgumentError, match="point_m"):
        crossing.get_nearest_lane(np.array(point))
    with pytest.raises(InvalidArgumentError, match="radius_m"):
        crossing.get_lanes_within(np.zeros(2), -1.0)


def test_no_lane_is_near_on_a_map_without_lanes(tmp_path: Path) -> None:
    (tmp_path / "map.pb").write_bytes(b"")
    empty = MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF)
    assert empty.get_lanes_within(np.zeros(2), 1e9) == []
    with pytest.raises(InvalidArgumentError, match="no lane"):
        empty.get_nearest_lane(np.zeros(2))


def faces(**status: str) -> np.ndarray:
    return make_faces(**{name: np.eye(3)[TL_FACE_LABEL_TO_INDEX[state]] for name, state in status.items()})


@pytest.mark.parametrize(
    ("lane_id", "active", "state"),
    [
        ("A", ["red", "green", "arrow"], "RED"),
        ("A", ["green", "arrow"], "YELLOW"),
        ("A", ["green"], "GREEN"),
        ("A", ["elsewhere", "far", "not in the map"], "UNKNOWN"),
        ("A", [], "UNKNOWN"),
        ("F", ["red"], "UNKNOWN"),
        ("B", ["red"], "NONE"),
        ("C", ["red"], "NONE"),
    ],
    ids=["red", "yellow", "green", "faces_of_others", "empty_frame", "light_without_faces", "no_light", "only_a_sign"],
)
def test_i2_lane_state_takes_red_before_yellow_before_green(crossing: MapAPI, lane_id, active, state) -> None:
    for order in (active, active[::-1]):
        assert crossing.get_lane_tl_state(lane_id, faces(**dict.fromkeys(order, "ACTIVE"))) == state


def test_i3_controls_without_a_colour_do_not_count(crossing: MapAPI) -> None:
    assert crossing.get_lane_tl_state("A", faces(T="ACTIVE", far="ACTIVE", green="ACTIVE")) == "GREEN"


def test_only_active_faces_count(crossing: MapAPI) -> None:
    assert crossing.get_lane_tl_state("A", faces(red="INACTIVE", arrow="UNKNOWN", green="ACTIVE")) == "GREEN"


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        ("lane", ["A", "B", "W", "J1", "J2", "J3", "C", "D", "E", "F"]),
        ("segment", ["road", "slow", "fast", "silent"]),
        ("node", ["end"]),
        ("junction", ["junction"]),
        ("crosswalk", ["X"]),
        ("pedestrian_crosswalk", ["X"]),
        ("traffic_light", ["T", "light only"]),
        ("signal_red_face", ["red", "elsewhere"]),
        ("yield_sign", ["sign"]),
        ("stop_sign", []),
        ("traffic_control_element", ["T", "light only", "red", "green", "arrow", "elsewhere", "sign", "X"]),
        ("building", []),
    ],
)
def test_elements_of_kind(crossing: MapAPI, kind: str, ids: list[str]) -> None:
    assert [MapAPI.id_as_str(element.id) for element in crossing.get_elements_of_kind(kind)] == ids


def test_every_kind_of_the_schema_is_found(tmp_path: Path) -> None:
    fragment = MapFragment()
    element_kinds = [field.name for field in MapElement.Element.DESCRIPTOR.fields]
    control_kinds = [field.name for field in TrafficControlElement.DESCRIPTOR.oneofs_by_name["Type"].fields]
    for kind in element_kinds:
        getattr(fragment.elements.add().element, kind).SetInParent()
    for kind in control_kinds:
        getattr(fragment.elements.add().element.traffic_control_element, kind).SetInParent()
    shape_kinds = ["building", "region", "venue", "administrative_boundary", "park", "drivable_surface_prior"]
    for kind in shape_kinds:
        getattr(fragment.elements.add().element.annotated_shape, kind).SetInParent()
    (tmp_path / "map.pb").write_bytes(fragment.SerializeToString())
    map_api = MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF)
    counts = {"traffic_control_element": 1 + len(control_kinds), "annotated_shape": 1 + len(shape_kinds)}
    for kind in [*element_kinds, *control_kinds, *shape_kinds]:
        assert len(list(map_api.get_elements_of_kind(kind))) == counts.get(kind, 1), kind
    with pytest.raises(InvalidArgumentError, match=r"segment, node, lane.*crosswalk.*u_turn_only_sign.*got 'road'"):
        map_api.get_elements_of_kind("road")


def test_ids_that_a_lane_names_and_that_are_no_text_are_an_error_that_names_it(tmp_path: Path) -> None:
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("A", straight(0, 0, 100), straight(-4, 0, 100), parent="road!", lanes_ahead=["next!"])
    builder.save(str(tmp_path / "map.pb"))
    calls = {"next!": MapAPI.get_lanes_ahead, "road!": MapAPI.get_lane_speed_limit}
    for name, call in calls.items():
        damaged = tmp_path / f"{name}.pb"
        damaged.write_bytes((tmp_path / "map.pb").read_bytes().replace(name.encode(), b"\xbf" * len(name)))
        semantic_map = MapAPI(str(damaged), WORLD_TO_ECEF)
        with pytest.raises(CorruptedDataError, match=f"{name}.pb: lane 'A' names the id .*not UTF-8"):
            call(semantic_map, "A")


def map_of(path: Path, *lanes: tuple[str, list, list]) -> MapAPI:
    builder = MapBuilder(WORLD_TO_ECEF)
    for name, left, right in lanes:
        builder.add_lane(name, np.array([[*xy, 0.0] for xy in left]), np.array([[*xy, 0.0] for xy in right]))
    builder.save(path / "map.pb")
    return MapAPI(str(path / "map.pb"), WORLD_TO_ECEF)


@pytest.mark.parametrize("side", ["xyz_left", "xyz_right"])
@pytest.mark.parametrize(
    ("vertex", "offset_m", "expected_m"),
    [(0, -1, 1), (0, 1, 0), (0, 3, 0), (0, 6, 2), (1, -2, 2**0.5), (1, 2, 2**0.5), (2, -1, 0), (2, 1, 1), (2, -6, 2)],
)
def test_a_point_level_with_a_corner_is_inside_or_not(tmp_path, side, vertex, offset_m, expected_m) -> None:
    diamond = map_of(tmp_path, ("A", [(0, 0), (2, 2), (4, 0)], [(0, 0), (2, -2), (4, 0)]))
    x, y, _ = diamond.get_lane_coords("A")[side][vertex]
    lane, distance_m = diamond.get_nearest_lane(np.array([x + offset_m, y]))
    assert (lane, distance_m) == ("A", pytest.approx(expected_m, abs=0.02))
    assert (distance_m == 0) == (expected_m == 0)


def test_of_lanes_that_lie_alike_the_first_is_the_nearest(tmp_path) -> None:
    course = [(0, 2), (9, 2)], [(0, 0), (9, 0)]
    twins = map_of(tmp_path, ("B", *course), ("A", *course), ("far", [(0, 99), (9, 99)], [(0, 97), (9, 97)]))
    for point in ((5.0, 1.5), (5.0, 7.0)):
        assert twins.get_nearest_lane(np.array(point))[0] == "B"
        assert twins.get_lanes_within(np.array(point), 20.0) == ["B", "A"]


def test_the_radius_is_within(tmp_path) -> None:
    lane = map_of(tmp_path, ("A", [(0, 2), (9, 2)], [(0, 0), (9, 0)]))
    for point in (np.array([5.0, 7.0]), np.array([-3.0, -4.0])):
        _, distance_m = lane.get_nearest_lane(point)
        assert lane.get_lanes_within(point, distance_m) == ["A"]
        assert lane.get_lanes_within(point, np.nextafter(distance_m, 0)) == []
    assert lane.get_lanes_within(np.array([5.0, 1.0]), 0.0) == ["A"]
