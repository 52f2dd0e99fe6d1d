from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pymap3d.ecef import geodetic2ecef

from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.data.proto.road_network_pb2 import Lane, MapFragment, TrafficControlElement
from l5kit.errors import InvalidArgumentError
from l5kit.readers.map_writing import WORLD_TO_ECEF as IMPORTED_TO_ECEF
from support.maps import WORLD_TO_ECEF

CENTIMETRE = 0.01

coordinates = st.floats(-5000, 5000, allow_nan=False)
ids = st.text(min_size=1, max_size=8)
id_lists = st.lists(ids, max_size=3)


def line(minimum: int = 2):
    return arrays(np.float64, st.tuples(st.integers(minimum, 6), st.just(3)), elements=coordinates)


lanes = st.fixed_dictionaries(
    {
        "xyz_left": line(),
        "xyz_right": line(),
        "lanes_ahead": id_lists,
        "change_left": st.none() | ids,
        "change_right": st.none() | ids,
        "traffic_controls": id_lists,
        "yield_to_lanes": id_lists,
        "parent": st.none() | ids,
        "turn_type": st.sampled_from(Lane.TurnType.keys()),
        "can_have_parked_cars": st.booleans(),
    }
)


def opened(builder: MapBuilder, folder: Path) -> MapAPI:
    builder.save(folder / "map.pb")
    return MapAPI(str(folder / "map.pb"), WORLD_TO_ECEF)


def as_text(global_ids) -> list[str]:
    return [MapAPI.id_as_str(global_id) for global_id in global_ids]


def written_again(map_api: MapAPI) -> MapFragment:
    """Build a map from what the API reads of another one."""
    builder = MapBuilder(WORLD_TO_ECEF, name=map_api._fragment.name)
    for element in map_api:
        element_id, lane = MapAPI.id_as_str(element.id), element.element.lane
        if MapAPI.is_crosswalk(element):
            builder.add_crosswalk(element_id, map_api.get_crosswalk_coords(element_id)["xyz"])
            continue
        builder.add_lane(
            element_id,
            **map_api.get_lane_coords(element_id),
            lanes_ahead=map_api.get_lanes_ahead(element_id),
            change_left=map_api.get_lane_left(element_id),
            change_right=map_api.get_lane_right(element_id),
            traffic_controls=as_text(lane.traffic_controls),
            yield_to_lanes=as_text(lane.yield_to_lanes),
            parent=MapAPI.id_as_str(lane.parent_segment_or_junction) or None,
            turn_type=Lane.TurnType.Name(lane.turn_type_in_parent_junction),
            can_have_parked_cars=lane.can_have_parked_cars,
        )
    return builder.to_fragment()


@given(lanes=st.dictionaries(ids, lanes, max_size=4), crosswalk=line(3))
def test_what_is_read_is_what_was_written(tmp_path_factory: pytest.TempPathFactory, lanes, crosswalk) -> None:
    builder = MapBuilder(WORLD_TO_ECEF, name="round trip")
    for lane_id, lane in lanes.items():
        builder.add_lane(lane_id, **lane)
    builder.add_crosswalk("a crosswalk", crosswalk)
    map_api = opened(builder, tmp_path_factory.mktemp("map"))
    for lane_id, lane in lanes.items():
        for side, xyz in map_api.get_lane_coords(lane_id).items():
            assert np.linalg.norm(xyz - lane[side], axis=1).max() <= CENTIMETRE
        assert map_api.get_lane_traffic_control_ids(lane_id) == set(lane["traffic_controls"])
    assert np.linalg.norm(map_api.get_crosswalk_coords("a crosswalk")["xyz"] - crosswalk, axis=1).max() <= CENTIMETRE
    assert map_api._fragment == builder.to_fragment()
    assert written_again(map_api) == builder.to_fragment()


def test_long_lines_do_not_drift(tmp_path: Path) -> None:
    steps = np.arange(20_000)[:, None] * np.array([[0.1249, 0.0349, 0.0049]])
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("long", steps, steps + [0, 4, 0])
    xyz = opened(builder, tmp_path).get_lane_coords("long")["xyz_left"]
    assert np.linalg.norm(xyz - steps, axis=1).max() <= CENTIMETRE


@pytest.mark.parametrize("rotation", [0.0, 1.0], ids=["straight", "turned"])
def test_any_rigid_transform_works(tmp_path: Path, rotation: float) -> None:
    world_to_ecef = np.eye(4)
    cos, sin = np.cos(rotation), np.sin(rotation)
    world_to_ecef[:2, :2] = [[cos, -sin], [sin, cos]]
    builder = MapBuilder(world_to_ecef)
    xyz = np.array([[6378137.0, 1.0, 2.0], [6378137.0, 31.0, 2.0]])
    builder.add_lane("A", xyz, xyz + [0, 0, 4])
    builder.save(tmp_path / "map.pb")
    left = MapAPI(str(tmp_path / "map.pb"), world_to_ecef).get_lane_coords("A")["xyz_left"]
    assert np.linalg.norm(left - xyz, axis=1).max() <= CENTIMETRE


def test_frames_have_height_0_and_no_bearing() -> None:
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("A", np.zeros((2, 3)), np.ones((2, 3)))
    frame = builder.to_fragment().elements[0].element.lane.geo_frame
    assert not frame.origin.HasField("altitude_cm")
    assert frame.bearing_degrees == 0.0
    assert (frame.origin.lat_e7 // 10**6, frame.origin.lng_e7 // 10**6) == (374, -1222)


def place(location) -> np.ndarray:
    ecef = geodetic2ecef(location.lat_e7 / 1e7, location.lng_e7 / 1e7, location.altitude_cm / 100.0)
    return (np.linalg.inv(WORLD_TO_ECEF) @ [*ecef, 1.0])[:3]


def test_road_network_elements() -> None:
    xyz = np.array([[0.0, 0.0, 280.0], [100.0, 20.0, 281.0], [150.0, 80.0, 282.0]])
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_segment(
        "S",
        xyz,
        lanes=["A", "B"],
        speed_limit_mps=13.5,
        backward_speed_limit_mps=8.0,
        start_node="N1",
        end_node="N2",
        road_class="RESIDENTIAL",
        travel_direction="TWO_WAY",
    )
    builder.add_node("N1", xyz[0], segments=["S"], junction="J")
    builder.add_junction("J", lanes=["C"], traffic_controls=["T"], nodes=["N1"])
    segment, node, junction = (element.element for element in builder.to_fragment().elements)
    np.testing.assert_allclose([place(vertex) for vertex in segment.segment.vertices], xyz, atol=CENTIMETRE)
    assert as_text(segment.segment.lanes) == ["A", "B"]
    assert (segment.segment.start_node.id, segment.segment.end_node.id) == (b"N1", b"N2")
    assert (segment.segment.road_class, segment.segment.travel_direction) == (6, 1)
    assert segment.segment.speed_limit_meters_per_second == 13.5
    assert segment.segment.backward_direction_speed_limit_meters_per_second == 8.0
    np.testing.assert_allclose(place(node.node.location), xyz[0], atol=CENTIMETRE)
    assert (as_text(node.node.road_segments), node.node.junction.id) == (["S"], b"J")
    assert as_text(junction.junction.lanes) == ["C"]
    assert as_text(junction.junction.traffic_control_elements) == ["T"]
    assert as_text(junction.junction.road_network_nodes) == ["N1"]


def test_traffic_controls(tmp_path: Path) -> None:
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_traffic_light("T", [1.0, 2.0, 3.0], faces=["F1", "F2"])
    builder.add_traffic_light_face("F1", "signal_left_arrow_green_face", xyz=[1.0, 2.0, 3.0], no_right_turn_on_red=True)
    builder.add_traffic_light_face("F2")
    builder.add_traffic_control("stop", "stop_line", [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
    builder.add_traffic_control("sign", "stop_sign", [0.0, 0.0, 2.0])
    builder.add_traffic_control("zone", "keep_clear_zone", np.eye(3), geometry_type="POLYGON")
    builder.add_crosswalk("X", np.eye(3), traffic_lights=["T"])
    map_api = opened(builder, tmp_path)
    controls = {MapAPI.id_as_str(e.id): e.element.traffic_control_element for e in map_api}
    kinds = {control_id: control.WhichOneof("Type") for control_id, control in controls.items()}
    assert kinds == {
        "T": "traffic_light",
        "F1": "signal_left_arrow_green_face",
        "F2": "signal_red_face",
        "stop": "stop_line",
        "sign": "stop_sign",
        "zone": "keep_clear_zone",
        "X": "pedestrian_crosswalk",
    }
    name_of = TrafficControlElement.GeometryType.Name
    shapes = {control_id: name_of(control.geometry_type) for control_id, control in controls.items()}
    expected = ["POINT", "POINT", "UKNOWN", "LINESTRING", "POINT", "POLYGON", "POLYGON"]
    assert shapes == dict(zip(controls, expected, strict=True))
    assert as_text(controls["T"].traffic_light.face_states) == ["F1", "F2"]
    assert controls["F1"].signal_left_arrow_green_face.no_right_turn_on_red
    assert as_text(controls["X"].pedestrian_crosswalk.traffic_lights) == ["T"]
    light = controls["T"]
    deltas = (light.points_x_deltas_cm, light.points_y_deltas_cm, light.points_z_deltas_cm)
    np.testing.assert_allclose(map_api.unpack_deltas_cm(*deltas, light.geo_frame), [[1, 2, 3]], atol=CENTIMETRE)
    assert (map_api.get_color_for_face("F1"), map_api.get_color_for_face("F2")) == ("GREEN", "RED")


OK = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda b: b.add_lane("used", OK, OK), "'used' is already used"),
        (lambda b: b.add_node("used", OK[0]), "'used' is already used"),
        (lambda b: b.add_lane("", OK, OK), "must be non-empty text"),
        (lambda b: b.add_lane(5, OK, OK), "must be non-empty text"),
        (lambda b: b.add_lane("a", OK[:1], OK), "xyz_left must have shape .* n at least 2"),
        (lambda b: b.add_lane("a", OK, OK[:, :2]), r"xyz_right must have shape .* got \(2, 2\)"),
        (lambda b: b.add_lane("a", OK, OK * np.nan), "xyz_right must be finite"),
        (lambda b: b.add_lane("a", OK, OK + [3e7, 0, 0]), "xyz_right exceeds the range"),
        (lambda b: b.add_lane("a", OK, OK, turn_type="AHEAD"), "turn_type must be one of UNKNOWN, THROUGH.*'AHEAD'"),
        (lambda b: b.add_lane("a", OK, OK, orientation="NORTH"), "orientation must be one of"),
        (lambda b: b.add_lane("a", OK, OK, lanes_ahead="xyz"), "expected a list of ids, got the single text 'xyz'"),
        (lambda b: b.add_crosswalk("a", OK), "n at least 3"),
        (lambda b: b.add_traffic_light("a", OK), "n = 1"),
        (lambda b: b.add_traffic_light_face("a", "stop_sign"), "kind must be one of signal_flashing_yellow"),
        (lambda b: b.add_traffic_control("a", "sign", OK), "kind must be one of stop_sign"),
        (lambda b: b.add_traffic_control("a", "stop_line", OK, geometry_type="LINE"), "geometry_type must be one of"),
        (lambda b: b.add_segment("a", OK[:1]), "n at least 2"),
        (lambda b: b.add_segment("a", OK, speed_limit_mps=-1.0), "at least 0 m/s"),
        (lambda b: b.add_segment("a", OK, road_class="ROAD"), "road_class must be one of"),
    ],
)
def test_bad_elements_are_refused_and_leave_the_map_as_it_was(add, message: str) -> None:
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_junction("used")
    with pytest.raises(InvalidArgumentError, match=message):
        add(builder)
    assert len(builder) == 1
    builder.add_lane("a", OK, OK)
    assert len(builder) == 2


@pytest.mark.parametrize(
    "matrix", [np.eye(3), np.eye(4) * np.nan, np.diag([2.0, 2.0, 2.0, 1.0])], ids=["3x3", "nan", "scaled"]
)
def test_bad_matrix(matrix) -> None:
    with pytest.raises(InvalidArgumentError, match="world_to_ecef"):
        MapBuilder(matrix)


def test_arguments_and_the_map_are_not_changed() -> None:
    builder = MapBuilder(WORLD_TO_ECEF)
    left, right = OK.copy(), OK + 1.0
    left.setflags(write=False)
    builder.add_lane("a", left, right)
    builder.to_fragment().Clear()
    assert len(builder) == len(builder.to_fragment().elements) == 1
    np.testing.assert_array_equal(right, OK + 1.0)


def test_save_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "map.pb"
    path.write_bytes(b"old")
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("a", OK, OK)
    builder.save(str(path))
    assert MapFragment.FromString(path.read_bytes()) == builder.to_fragment()
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        builder.save(tmp_path / "missing" / "map.pb")


@pytest.mark.parametrize("direction", [1, -1])
def test_a_line_reaches_as_far_as_the_format_can_say(tmp_path: Path, direction: int) -> None:
    """Positions are centimetres in 32 bits; with this transform world y is east of the map's origin."""
    largest_m = direction * (2**31 - 1) / 100
    builder = MapBuilder(np.eye(4))
    for y_m in (largest_m, largest_m + direction * 0.01):
        ends = np.array([[6378137.0, 0.0, 0.0], [6378137.0, y_m, 0.0]])
        if y_m == largest_m:
            builder.add_lane("A", ends, ends)
        else:
            with pytest.raises(InvalidArgumentError, match="exceeds the range of the format"):
                builder.add_lane("B", ends, ends)
    builder.save(tmp_path / "map.pb")
    coords = MapAPI(str(tmp_path / "map.pb"), np.eye(4)).get_lane_coords("A")
    np.testing.assert_allclose(coords["xyz_left"][1, 1], largest_m, atol=CENTIMETRE)


def test_a_transform_may_be_skewed_by_a_millionth() -> None:
    skewed = np.eye(4)
    for share, is_allowed in ((1e-6, True), (np.nextafter(1e-6, 1), False)):
        skewed[1, 0] = share
        if is_allowed:
            MapBuilder(skewed)
        else:
            with pytest.raises(InvalidArgumentError, match="must rotate and shift only"):
                MapBuilder(skewed)


@pytest.mark.parametrize(
    "world_to_ecef", [WORLD_TO_ECEF, IMPORTED_TO_ECEF, np.eye(4)], ids=["town", "imported", "centre"]
)
def test_segments_converted_at_once_have_the_bytes_of_single_ones(world_to_ecef) -> None:
    generator = np.random.default_rng(3)
    courses = [np.round(generator.normal(0.0, 900.0, (count, 3)), 3) for count in (2, 3, 2, 9, 40)]
    courses.append(np.array([[0.0, 0.0, 0.0], [0.0, 5.0, 0.125]]))  # at the origin, and halfway between centimetres
    single, at_once = MapBuilder(world_to_ecef), MapBuilder(world_to_ecef)
    for number, (course, line_of) in enumerate(zip(courses, at_once.geodetic_lines(courses), strict=True)):
        single.add_segment(str(number), course)
        at_once.add_segment(str(number), line_of)
    assert at_once.to_fragment() == single.to_fragment()
    assert at_once.geodetic_lines([]) == []
    with pytest.raises(InvalidArgumentError, match=r"lines must have shape \(n, 3\) with n at least 2, got \(1, 3\)"):
        at_once.geodetic_lines([courses[0], courses[0][:1]])
