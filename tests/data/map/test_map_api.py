import json
import pickle
import warnings
import weakref
import zlib
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from l5kit.data.map.api import CACHE_SIZE, ENCODING, InterpolationMethod, MapAPI, TLFacesColors
from l5kit.data.map.builder import MapBuilder
from l5kit.data.map.content import MapDecodeError
from l5kit.data.proto.road_network_pb2 import GeoFrame, GeoLocation, MapFragment
from l5kit.errors import ConfigError, CorruptedDataError, InvalidArgumentError
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF
from support.tolerances import FLOAT32, FLOAT32_LONG, FLOAT64_LONG

ENSURE_LEN, METER = InterpolationMethod.INTER_ENSURE_LEN, InterpolationMethod.INTER_METER

L1_LEFT = [
    [-193.718282, 2.006869, 287.794606],
    [-188.718282, 2.006752, 287.794758],
    [-183.718275, 2.306636, 287.794910],
    [-176.718278, 2.206474, 287.795122],
]
L1_RIGHT = [
    [-193.718364, -1.493131, 287.794606],
    [-183.718364, -1.493364, 287.794910],
    [-176.718359, -1.293526, 287.795122],
]
L2_LEFT = [
    [-187.718677, -14.993271, 287.794788],
    [-187.718329, 0.006729, 287.794788],
    [-187.717981, 15.006729, 287.794788],
]
L2_RIGHT = [[-184.218677, -14.993352, 287.794894], [-184.217981, 15.006648, 287.794894]]
C1 = [
    [-189.718422, -3.993224, 287.794728],
    [-186.718422, -3.993294, 287.794819],
    [-186.718236, 4.006706, 287.794819],
    [-189.718236, 4.006776, 287.794728],
]


def write(path: Path, fragment: MapFragment | bytes) -> MapAPI:
    data = fragment if isinstance(fragment, bytes) else fragment.SerializeToString()
    path.write_bytes(data)
    return MapAPI(str(path), WORLD_TO_ECEF)


def fixture_s() -> MapFragment:
    return MapFragment.FromString(FIXTURE_S_MAP)


@pytest.fixture
def map_s(tmp_path: Path) -> MapAPI:
    return write(tmp_path / "map.pb", FIXTURE_S_MAP)


def lane_of(fragment: MapFragment, index: int):
    return fragment.elements[index].element.lane


# Known answers


def test_fixture_s_bytes_are_those_of_the_specification() -> None:
    assert len(FIXTURE_S_MAP) == 330
    assert zlib.crc32(FIXTURE_S_MAP) == 0x9AD6A6AF


@pytest.mark.parametrize(
    ("lane_id", "left", "right"), [("L1", L1_LEFT, L1_RIGHT), ("L2", L2_LEFT, L2_RIGHT)], ids=["L1", "L2"]
)
def test_lanes_of_fixture_s(map_s: MapAPI, lane_id: str, left, right) -> None:
    coords = map_s.get_lane_coords(lane_id)
    assert list(coords) == ["xyz_left", "xyz_right"]
    np.testing.assert_allclose(coords["xyz_left"], left, rtol=0, atol=FLOAT32_LONG)
    np.testing.assert_allclose(coords["xyz_right"], right, rtol=0, atol=FLOAT32_LONG)
    assert coords["xyz_left"].dtype == np.float64


def test_crosswalk_of_fixture_s(map_s: MapAPI) -> None:
    np.testing.assert_allclose(map_s.get_crosswalk_coords("C1")["xyz"], C1, rtol=0, atol=FLOAT32_LONG)
    (polygon,) = map_s.crosswalk_polygons
    np.testing.assert_array_equal(polygon, map_s.get_crosswalk_coords("C1")["xyz"])


def test_bounds_of_fixture_s(map_s: MapAPI) -> None:
    lanes, crosswalks = map_s.bounds_info["lanes"], map_s.bounds_info["crosswalks"]
    assert lanes["ids"] == ["L1", "L2"]
    assert crosswalks["ids"] == ["C1"]
    expected = [
        [[-193.718364, -1.493364], [-176.718278, 2.306636]],
        [[-187.718677, -14.993352], [-184.217981, 15.006729]],
    ]
    np.testing.assert_allclose(lanes["bounds"], expected, rtol=0, atol=FLOAT32_LONG)
    np.testing.assert_allclose(
        crosswalks["bounds"], [[[-189.718422, -3.993294], [-186.718236, 4.006776]]], atol=FLOAT32_LONG
    )
    assert lanes["bounds"].dtype == np.float64


def test_interpolations_of_fixture_s(map_s: MapAPI) -> None:
    midline = map_s.get_lane_as_interpolation("L1", 5, ENSURE_LEN)["xyz_midlane"]
    expected = [
        [-193.718323, 0.256869],
        [-189.467849, 0.256770],
        [-185.218668, 0.361620],
        [-180.968685, 0.426245],
        [-176.718318, 0.456474],
    ]
    np.testing.assert_allclose(midline[:, :2], expected, rtol=0, atol=FLOAT32_LONG)
    every_2_m = map_s.get_lane_as_interpolation("L2", 2.0, METER)
    assert {key: line.shape for key, line in every_2_m.items()} == {
        "xyz_left": (15, 3),
        "xyz_right": (15, 3),
        "xyz_midlane": (15, 3),
    }
    ends = every_2_m["xyz_midlane"][[0, -1], :2]
    np.testing.assert_allclose(ends, [[-185.968677, -14.993311], [-185.968027, 13.006689]], rtol=0, atol=FLOAT32_LONG)


@pytest.mark.parametrize(
    ("step", "method", "expected"),
    [
        (4, ENSURE_LEN, [[0, 0, 0], [7 / 3, 0, 0], [3, 5 / 3, 0], [3, 4, 0]]),
        (2.0, METER, [[0, 0, 0], [2, 0, 0], [3, 1, 0], [3, 3, 0]]),
        (3.5, METER, [[0, 0, 0], [3, 0.5, 0]]),
        (7.0, METER, [[0, 0, 0]]),
    ],
    ids=["4_points", "every_2_m", "every_3.5_m", "g9_end_point_is_dropped"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_interpolate_known_answers(step, method, expected, dtype) -> None:
    xyz = np.array([[0, 0, 0], [3, 0, 0], [3, 4, 0]], dtype=dtype)
    result = MapAPI.interpolate(xyz, step, method)
    np.testing.assert_allclose(result, expected, rtol=0, atol=FLOAT32)
    assert result.dtype == dtype


@pytest.mark.parametrize(
    ("dz_cm", "ecef"),
    [
        (0, (-2699053.071830, -4293241.964041, 3855339.682008)),
        (1000, (-2699057.298321, -4293248.686898, 3855345.759834)),
    ],
    ids=["height_0", "height_10"],
)
def test_geodetic_known_answers(tmp_path: Path, dz_cm: int, ecef) -> None:
    (tmp_path / "map.pb").write_bytes(b"")
    in_ecef = MapAPI(str(tmp_path / "map.pb"), np.eye(4))
    frame = GeoFrame(origin=GeoLocation(lat_e7=374293427, lng_e7=-1221565407))
    point = in_ecef.unpack_deltas_cm([0], [0], [dz_cm], frame)
    np.testing.assert_allclose(point, [ecef], rtol=0, atol=2e-6)


def test_test_map_of_1_5_without_id_and_frame(tmp_path: Path) -> None:
    fragment = MapFragment()
    lane = fragment.elements.add().element.lane
    lane.left_boundary.vertex_deltas_x_cm.extend([1, 2, 3])
    lane.left_boundary.vertex_deltas_y_cm.extend([10, 10, 10])
    lane.left_boundary.vertex_deltas_z_cm.extend([0, 0, 0])
    lane.right_boundary.vertex_deltas_x_cm.extend([1, 2, 3])
    lane.right_boundary.vertex_deltas_y_cm.extend([30, 30, 30])
    lane.right_boundary.vertex_deltas_z_cm.extend([0, 0, 0])
    assert fragment.ByteSize() == 40
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        map_api = write(tmp_path / "map.pb", fragment)
    assert map_api.ids_to_el == {"": 0}
    assert map_api.bounds_info["lanes"]["ids"] == [""]
    ecef = np.linalg.inv(map_api.ecef_to_world) @ [*map_api.get_lane_coords("")["xyz_left"][2], 1.0]
    np.testing.assert_allclose(ecef[:3], [6378137.0, 0.06, 0.30], rtol=0, atol=FLOAT32)


# Elements


def test_elements_by_id_bytes_and_position(map_s: MapAPI) -> None:
    assert len(map_s) == len(list(map_s)) == len(map_s.elements) == 7
    assert [MapAPI.id_as_str(element.id) for element in map_s] == ["L1", "L2", "C1", "T1", "F1", "F2", "F3"]
    assert map_s["C1"] == map_s[b"C1"] == map_s[2] == map_s[-5] == map_s.elements[2]
    assert map_s.ids_to_el["F3"] == 6
    np.testing.assert_allclose(map_s.ecef_to_world, np.linalg.inv(WORLD_TO_ECEF))


@pytest.mark.parametrize("index", [np.int64(2), np.uint8(2), np.int32(-5)], ids=["int64", "uint8", "negative_int32"])
def test_g8_numpy_integers_index(map_s: MapAPI, index) -> None:
    assert map_s[index] == map_s["C1"]


@pytest.mark.parametrize(
    ("item", "error"),
    [("nope", KeyError), (b"nope", KeyError), (7, IndexError), (-8, IndexError), (1.0, TypeError), (None, TypeError)],
    ids=["text", "bytes", "behind", "before", "float", "none"],
)
def test_elements_that_do_not_exist(map_s: MapAPI, item, error) -> None:
    with pytest.raises(error):
        map_s[item]


def test_kinds_of_elements(map_s: MapAPI) -> None:
    assert [MapAPI.is_lane(element) for element in map_s] == [True, True, False, False, False, False, False]
    assert [MapAPI.is_crosswalk(element) for element in map_s] == [False, False, True, False, False, False, False]
    assert [map_s.is_traffic_light(i) for i in ("L1", "C1", "T1", "F1")] == [False, False, True, False]


def test_crosswalk_without_points_is_none(tmp_path: Path) -> None:
    fragment = fixture_s()
    for axis in "xyz":
        fragment.elements[2].element.traffic_control_element.ClearField(f"points_{axis}_deltas_cm")
    map_api = write(tmp_path / "map.pb", fragment)
    assert not MapAPI.is_crosswalk(map_api["C1"])
    assert map_api.bounds_info["crosswalks"]["ids"] == []
    assert map_api.bounds_info["crosswalks"]["bounds"].shape == (0, 2, 2)
    assert map_api.crosswalk_polygons == ()
    with pytest.raises(AssertionError):
        map_api.get_crosswalk_coords("C1")


def test_module_names_of_1_5() -> None:
    assert (CACHE_SIZE, ENCODING) == (100000, "utf-8")
    assert {method.name: int(method) for method in InterpolationMethod} == {"INTER_METER": 0, "INTER_ENSURE_LEN": 1}
    assert {color.name: int(color) for color in TLFacesColors} == {"RED": 0, "GREEN": 1, "YELLOW": 2}
    assert MapAPI._undo_e7(374293427) == 37.4293427


# Lanes


@pytest.mark.parametrize("name", ["C1", "T1"])
def test_a5_lane_coordinates_of_another_element_are_an_assertion_error(map_s: MapAPI, name: str) -> None:
    with pytest.raises(AssertionError, match=f"'{name}' is not a lane"):
        map_s.get_lane_coords(name)
    with pytest.raises(KeyError):
        map_s.get_lane_coords("nope")
    with pytest.raises(AssertionError):
        map_s.get_crosswalk_coords("L1")


def test_g1_interpolation_does_not_change_cached_lane(map_s: MapAPI) -> None:
    before = {key: line.copy() for key, line in map_s.get_lane_coords("L1").items()}
    first = map_s.get_lane_as_interpolation("L1", 7, ENSURE_LEN)
    copy = {key: line.copy() for key, line in first.items()}
    map_s.get_lane_as_interpolation("L1", 0.5, METER)
    after = map_s.get_lane_coords("L1")
    assert list(after) == ["xyz_left", "xyz_right"]
    for key, line in after.items():
        np.testing.assert_array_equal(line, before[key])
    for key, line in map_s.get_lane_as_interpolation("L1", 7, ENSURE_LEN).items():
        np.testing.assert_array_equal(line, copy[key])
        assert line is first[key]


def test_g1_dicts_are_new_and_arrays_are_read_only(map_s: MapAPI) -> None:
    results = [
        map_s.get_lane_coords("L1"),
        map_s.get_crosswalk_coords("C1"),
        map_s.get_lane_as_interpolation("L1", 7, ENSURE_LEN),
        map_s.get_lane_as_interpolation("L1", 1.0, METER),
        {"lanes": map_s.bounds_info["lanes"]["bounds"], "xyz": map_s.lane_lines(5).xyz_left},
    ]
    for result in results:
        for array in result.values():
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0.0
    results[0].clear()
    map_s.get_lane_traffic_control_ids("L1").clear()
    assert set(map_s.get_lane_coords("L1")) == {"xyz_left", "xyz_right"}
    assert map_s.get_lane_traffic_control_ids("L1") == {"T1", "F1", "F2"}


def test_g2_a_map_is_freed_with_its_caches(tmp_path: Path) -> None:
    map_api = write(tmp_path / "map.pb", FIXTURE_S_MAP)
    map_api.get_lane_as_interpolation("L1", 7, ENSURE_LEN)
    map_api.get_color_for_face("F1")
    reference = weakref.ref(map_api)
    del map_api
    assert reference() is None


def test_g2_two_maps_do_not_share_caches(tmp_path: Path) -> None:
    moved = fixture_s()
    lane_of(moved, 0).left_boundary.vertex_deltas_z_cm[0] = 500
    maps = write(tmp_path / "a.pb", FIXTURE_S_MAP), write(tmp_path / "b.pb", moved)
    lines = [map_api.get_lane_as_interpolation("L1", 3, ENSURE_LEN)["xyz_left"] for map_api in maps]
    assert abs(lines[0][0, 2] - lines[1][0, 2]) > 4.9


def test_g3_bounds_of_many_lanes_are_those_of_each(tmp_path: Path) -> None:
    fragment = MapFragment()
    generator = np.random.default_rng(0)
    for i in range(300):
        element = fragment.elements.add()
        element.CopyFrom(fixture_s().elements[0])
        element.id.id = str(i).encode()
        element.element.lane.left_boundary.vertex_deltas_x_cm[0] = int(generator.integers(-(10**6), 10**6))
    map_api = write(tmp_path / "map.pb", fragment)
    for element_id, bounds in zip(*(map_api.bounds_info["lanes"][key] for key in ("ids", "bounds")), strict=True):
        points = np.concatenate(list(map_api.get_lane_coords(element_id).values()))[:, :2]
        np.testing.assert_array_equal(bounds, [points.min(axis=0), points.max(axis=0)])


@pytest.mark.parametrize("boundaries", [["left_boundary"], ["right_boundary"], ["left_boundary", "right_boundary"]])
def test_g4_lane_with_an_empty_boundary_is_left_out_of_the_bounds(tmp_path: Path, boundaries: list[str]) -> None:
    fragment = fixture_s()
    for boundary in boundaries:
        lane_of(fragment, 0).ClearField(boundary)
    map_api = write(tmp_path / "map.pb", fragment)
    assert map_api.bounds_info["lanes"]["ids"] == ["L2"]
    assert map_api.lane_lines(4).xyz_left.shape == (1, 4, 3)
    assert dict(map_api.lanes_by_control) == {}
    assert MapAPI.is_lane(map_api["L1"])
    assert map_api.get_lane_coords("L1")[f"xyz_{boundaries[0].split('_')[0]}"].shape == (0, 3)
    with pytest.raises(AssertionError, match="without points"):
        map_api.get_lane_as_interpolation("L1", 4, ENSURE_LEN)


def test_g5_altitude_and_bearing_are_ignored_with_one_warning(tmp_path: Path, map_s: MapAPI) -> None:
    fragment = fixture_s()
    for index in (0, 1):
        lane_of(fragment, index).geo_frame.origin.altitude_cm = 12345
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        raised = write(tmp_path / "raised.pb", fragment)
    for index in (0, 1):
        lane_of(fragment, index).geo_frame.bearing_degrees = 30.0
    with pytest.warns(RuntimeWarning, match="frames of 2 elements are rotated") as record:
        turned = write(tmp_path / "turned.pb", fragment)
    assert len(record) == 1
    for map_api in (raised, turned):
        for lane_id in ("L1", "L2"):
            for key, line in map_s.get_lane_coords(lane_id).items():
                np.testing.assert_array_equal(map_api.get_lane_coords(lane_id)[key], line)


@pytest.mark.parametrize("num_points", [2, 5, 20])
def test_lane_lines_equal_the_interpolation_of_each_lane(map_s: MapAPI, num_points: int) -> None:
    lines = map_s.lane_lines(num_points)
    for row, lane_id in enumerate(map_s.bounds_info["lanes"]["ids"]):
        for key, line in map_s.get_lane_as_interpolation(lane_id, num_points, ENSURE_LEN).items():
            np.testing.assert_array_equal(getattr(lines, key)[row], line)
    assert map_s.lane_lines(num_points) is lines


def test_map_without_elements(tmp_path: Path) -> None:
    map_api = write(tmp_path / "map.pb", b"")
    assert len(map_api) == 0
    assert map_api.bounds_info["lanes"]["bounds"].shape == (0, 2, 2)
    assert map_api.lane_lines(20).xyz_midlane.shape == (0, 20, 3)
    assert dict(map_api.lanes_by_control) == {}


def slow_interpolate(xyz, step, method):
    """The definition, with NumPy's own interpolation."""
    lengths = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(xyz, axis=0), axis=1))])
    at = np.linspace(0, lengths[-1], int(step)) if method == ENSURE_LEN else np.arange(0, lengths[-1], step)
    return np.stack([np.interp(at, lengths, xyz[:, axis]) for axis in range(3)], axis=-1)


coordinates = st.floats(-1000, 1000, allow_nan=False).map(lambda value: round(value, 2))


@given(
    xyz=arrays(np.float64, st.tuples(st.integers(1, 8), st.just(3)), elements=coordinates),
    num_points=st.integers(2, 30),
)
def test_interpolate_to_a_length_equals_numpy(xyz, num_points) -> None:
    expected = slow_interpolate(xyz, num_points, ENSURE_LEN)
    np.testing.assert_allclose(MapAPI.interpolate(xyz, num_points, ENSURE_LEN), expected, rtol=0, atol=FLOAT64_LONG)


@given(
    xyz=arrays(np.float64, st.tuples(st.integers(1, 8), st.just(3)), elements=coordinates),
    step=st.floats(0.5, 50.0),
)
def test_interpolate_by_distance_equals_numpy(xyz, step) -> None:
    lengths = np.linalg.norm(np.diff(xyz, axis=0), axis=1).cumsum()
    result = MapAPI.interpolate(xyz, step, METER)
    expected = slow_interpolate(xyz, step, METER)
    if lengths.size and abs(lengths[-1] / step - round(lengths[-1] / step)) < 1e-9:
        # Whether a last point lies below the end is decided by the last bit of a sum.
        expected, result = expected[: len(result)], result[: len(expected)]
    np.testing.assert_allclose(result, expected, rtol=0, atol=FLOAT64_LONG)


def test_line_without_length() -> None:
    xyz = np.full((3, 3), 2.5)
    np.testing.assert_array_equal(MapAPI.interpolate(xyz, 4, ENSURE_LEN), np.full((4, 3), 2.5))
    assert MapAPI.interpolate(xyz, 1.0, METER).shape == (0, 3)


@pytest.mark.parametrize(
    ("step", "method", "error"),
    [
        (1, ENSURE_LEN, AssertionError),
        (1.9, ENSURE_LEN, AssertionError),
        (0, METER, AssertionError),
        (-1.0, METER, AssertionError),
        (float("nan"), METER, AssertionError),
        (float("nan"), ENSURE_LEN, AssertionError),
        (float("inf"), ENSURE_LEN, AssertionError),
        (1_000_001, ENSURE_LEN, AssertionError),
        (5, 2, NotImplementedError),
        (5, "INTER_METER", NotImplementedError),
    ],
)
def test_a5_bad_interpolation_arguments(map_s: MapAPI, step, method, error) -> None:
    with pytest.raises(error):
        MapAPI.interpolate(np.zeros((2, 3)), step, method)
    with pytest.raises(error):
        map_s.get_lane_as_interpolation("L1", step, method)
    with pytest.raises(AssertionError, match="n at least 1"):
        MapAPI.interpolate(np.zeros((0, 3)), 5, ENSURE_LEN)


@pytest.mark.parametrize(("length_m", "step"), [(2e7, 1.0), (1000.0, 0.0009), (1e300, 1.0), (np.inf, 1.0)])
def test_a_line_that_would_have_millions_of_points_is_refused(length_m, step) -> None:
    with pytest.raises(InvalidArgumentError, match="more than 1,000,000 points"):
        MapAPI.interpolate(np.array([[0.0, 0, 0], [length_m, 0, 0]]), step, METER)


def test_a_line_may_have_a_million_points() -> None:
    line = np.array([[0.0, 0, 0], [1000.0, 0, 0]])
    assert len(MapAPI.interpolate(line, 0.001, METER)) == 1_000_000
    assert len(MapAPI.interpolate(line, 1_000_000, ENSURE_LEN)) == 1_000_000


def test_the_lane_that_is_too_long_is_named(tmp_path) -> None:
    fragment = fixture_s()
    lane = next(element for element in fragment.elements if element.id.id == b"L1").element.lane
    lane.left_boundary.vertex_deltas_x_cm[-1] = 2_000_000_000
    with pytest.raises(InvalidArgumentError, match=r"lane 'L1' of .*long\.pb: step is 1 m, but the line is 20,00\d"):
        write(tmp_path / "long.pb", fragment).get_lane_as_interpolation("L1", 1, METER)


@pytest.mark.parametrize("first", [True, False], ids=["lane behind", "lane before"])
def test_a_lane_is_found_beside_a_light_of_the_same_id(tmp_path, map_s: MapAPI, first: bool) -> None:
    fragment = fixture_s()
    light = next(element for element in fragment.elements if element.element.HasField("traffic_control_element"))
    light.id.id = b"L1"
    if not first:
        fragment.elements.append(light)
    found = write(tmp_path / "twins.pb", fragment)
    np.testing.assert_array_equal(found.get_lane_coords("L1")["xyz_left"], map_s.get_lane_coords("L1")["xyz_left"])
    assert "L1" in found.bounds_info["lanes"]["ids"]


@pytest.mark.parametrize("lane_is_last", [True, False], ids=["lane behind", "lane before"])
def test_the_network_has_a_lane_beside_a_light_of_the_same_id(tmp_path, lane_is_last: bool) -> None:
    builder = MapBuilder(WORLD_TO_ECEF)
    line = np.array([[0.0, 0, 0], [10, 0, 0]])
    builder.add_segment("road", line, lanes=["A", "B", "C"], speed_limit_mps=20.0)
    builder.add_traffic_light("T", [10.0, 5.0, 4.0])
    builder.add_lane("A", line, line - [0, 4, 0], parent="road", lanes_ahead=["B"], traffic_controls=["T"])
    builder.add_lane(
        "B",
        line,
        line - [0, 4, 0],
        parent="road",
        lanes_ahead=["C"],
        change_left="A",
        change_right="C",
        traffic_controls=["T"],
    )
    builder.add_lane("C", line, line - [0, 4, 0], parent="road")
    builder.save(tmp_path / "map.pb")
    alone = MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF)
    fragment = MapFragment.FromString((tmp_path / "map.pb").read_bytes())
    light = type(fragment.elements[0]).FromString(alone["T"].SerializeToString())
    light.id.id = b"B"
    lights_and_map = [light, *fragment.elements] if lane_is_last else [*fragment.elements, light]
    with pytest.warns(RuntimeWarning, match="for example 'B'"):
        found = write(tmp_path / "twins.pb", MapFragment(elements=lights_and_map))
    questions = (
        *("get_lanes_ahead", "get_lanes_behind", "get_lane_left", "get_lane_right", "get_lane_speed_limit"),
        "get_lane_traffic_control_ids",
    )
    for question in questions:
        for lane_id in "ABC":
            assert getattr(found, question)(lane_id) == getattr(alone, question)(lane_id), (question, lane_id)
    assert found.get_lanes_ahead("B") == ["C"]
    assert found.get_lanes_behind("C") == ["B"]
    assert found.get_lane_speed_limit("B") == 20.0


def test_controls_of_what_is_no_lane(map_s: MapAPI) -> None:
    with pytest.raises(KeyError, match="no element with id 'nowhere'"):
        map_s.get_lane_traffic_control_ids("nowhere")
    assert map_s.get_lane_traffic_control_ids("C1") == set()
    assert map_s.get_lane_traffic_control_ids("L1") == {"T1", "F1", "F2"}


@pytest.mark.parametrize("first", [True, False], ids=["crosswalk behind", "crosswalk before"])
def test_a_crosswalk_is_found_beside_a_face_of_the_same_id(tmp_path, map_s: MapAPI, first: bool) -> None:
    fragment = fixture_s()
    face = type(fragment.elements[0])()
    face.CopyFrom(next(element for element in fragment.elements if not element.element.HasField("lane")))
    face.element.Clear()
    face.element.traffic_control_element.signal_red_face.SetInParent()
    face.id.id = b"C1"
    if first:
        elements = [face, *fragment.elements]
        fragment = type(fragment)(elements=elements)
    else:
        fragment.elements.append(face)
    found = write(tmp_path / "twins.pb", fragment)
    np.testing.assert_array_equal(found.get_crosswalk_coords("C1")["xyz"], map_s.get_crosswalk_coords("C1")["xyz"])
    assert found.bounds_info["crosswalks"]["ids"] == ["C1"]


def test_arguments_of_interpolate_are_not_changed() -> None:
    xyz = np.array([[0.0, 0, 0], [3, 0, 0]])
    MapAPI.interpolate(xyz, 2, ENSURE_LEN)[:] = 9.0
    np.testing.assert_array_equal(xyz, [[0, 0, 0], [3, 0, 0]])


def test_unpack_deltas_gives_the_decoded_line(map_s: MapAPI) -> None:
    lane = map_s["L1"].element.lane
    boundary = lane.left_boundary
    deltas = (boundary.vertex_deltas_x_cm, boundary.vertex_deltas_y_cm, boundary.vertex_deltas_z_cm)
    np.testing.assert_array_equal(
        map_s.unpack_deltas_cm(*deltas, lane.geo_frame), map_s.get_lane_coords("L1")["xyz_left"]
    )
    with pytest.raises(AssertionError):
        map_s.unpack_deltas_cm([1, 2], [1, 2], [1], lane.geo_frame)


# Traffic lights


@pytest.mark.parametrize(
    ("face", "color"),
    [
        ("signal_red_face", "RED"),
        ("signal_upper_left_arrow_yellow_face", "YELLOW"),
        ("signal_right_arrow_green_face", "GREEN"),
        ("signal_red_u_turn", "RED"),
        ("signal_yellow_u_turn", "YELLOW"),
        ("signal_green_u_turn", "GREEN"),
        ("signal_flashing_yellow", "YELLOW"),
        ("signal_flashing_red", "RED"),
    ],
)
def test_g6_every_face_has_a_colour(tmp_path: Path, face: str, color: str) -> None:
    fragment = fixture_s()
    getattr(fragment.elements[6].element.traffic_control_element, face).SetInParent()
    map_api = write(tmp_path / "map.pb", fragment)
    assert map_api.get_color_for_face("F3") == map_api.get_face_color_or_none("F3") == color
    # section 6 of map.md: U-turn and flashing faces are no faces there
    is_face = face.endswith("_face")
    assert map_api.is_traffic_face("F3") is is_face
    states = {name: map_api.is_traffic_face_color("F3", name.lower()) for name in TLFacesColors.__members__}
    assert states == {name: is_face and name == color for name in TLFacesColors.__members__}


def test_elements_without_a_colour(map_s: MapAPI) -> None:
    assert not map_s.is_traffic_face("T1")
    assert map_s.get_face_color_or_none("T1") is None
    assert map_s.get_face_color_or_none("not in the map") is None
    with pytest.raises(ValueError):
        map_s.get_color_for_face("T1")
    with pytest.raises(KeyError):
        map_s.get_color_for_face("not in the map")
    with pytest.raises(KeyError):
        map_s.is_traffic_face("not in the map")
    with pytest.raises(ValueError, match="'blue'"):
        map_s.is_traffic_face_color("F1", "blue")


@pytest.mark.parametrize(
    ("lane_id", "active", "feature"),
    [
        ("L1", {}, 0),
        ("L1", {"F2": "green"}, 1),
        ("L1", {"F2": "yellow"}, 2),
        ("L1", {"F1": "red", "F2": "green"}, 3),
        ("L1", {"F3": "red"}, 0),
        ("L2", {"F1": "red"}, 4),
        ("L1", {"F1": "unknown"}, 0),
        ("L1", {"F1": "unknown", "F2": "green"}, 1),
        ("L1", {"F1": "none"}, 4),
    ],
    ids=[
        "g10_light_but_no_active_face",
        "green",
        "yellow",
        "red_wins",
        "face_of_another_lane",
        "no_light",
        "unknown",
        "unknown_beside_green",
        "none",
    ],
)
def test_tl_feature_for_lane(map_s: MapAPI, lane_id: str, active: dict[str, str], feature: int) -> None:
    assert map_s.get_tl_feature_for_lane(lane_id, active) == feature


def test_tl_feature_of_an_unknown_colour_is_a_key_error(map_s: MapAPI) -> None:
    with pytest.raises(KeyError):
        map_s.get_tl_feature_for_lane("L1", {"F1": "blue"})


def test_g7_controls_that_are_not_in_the_map_are_ignored(tmp_path: Path) -> None:
    fragment = fixture_s()
    for index in (0, 1):
        lane_of(fragment, index).traffic_controls.add(id=b"elsewhere")
    map_api = write(tmp_path / "map.pb", fragment)
    assert map_api.get_tl_feature_for_lane("L1", {"F1": "red", "elsewhere": "green"}) == 3
    assert map_api.get_tl_feature_for_lane("L1", {"elsewhere": "green"}) == 0
    assert map_api.get_tl_feature_for_lane("L2", {"elsewhere": "green"}) == 4
    assert map_api.lanes_by_control["elsewhere"].tolist() == [0, 1]


def test_lanes_by_control(map_s: MapAPI) -> None:
    lanes = map_s.lanes_by_control
    assert {control: rows.tolist() for control, rows in lanes.items()} == {"T1": [0], "F1": [0], "F2": [0]}
    assert lanes["T1"].dtype == np.int64


# Files


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MapAPI(str(tmp_path / "none.pb"), WORLD_TO_ECEF)


@pytest.mark.parametrize("data", [FIXTURE_S_MAP[:-3], b"PNG picture, not a map"], ids=["cut_off", "other_file"])
def test_undecodable_file_is_a_decode_error_that_names_it(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DecodeError, match=r"bad\.pb") as caught:
        write(tmp_path / "bad.pb", data)
    assert isinstance(caught.value, MapDecodeError)
    assert isinstance(caught.value, CorruptedDataError)


def test_axes_of_different_length_are_an_error_that_names_the_element(tmp_path: Path) -> None:
    fragment = fixture_s()
    lane_of(fragment, 1).right_boundary.vertex_deltas_y_cm.append(5)
    with pytest.raises(CorruptedDataError, match="'L2'"):
        write(tmp_path / "map.pb", fragment)


def test_id_that_is_not_text(tmp_path: Path) -> None:
    fragment = fixture_s()
    fragment.elements[0].id.id = b"\xff\xfe"
    with pytest.raises(CorruptedDataError, match="not UTF-8"):
        write(tmp_path / "map.pb", fragment)


@pytest.mark.parametrize("matrix", [np.eye(3), np.zeros((4, 4)), np.full((4, 4), np.nan)], ids=["3x3", "zeros", "nan"])
def test_bad_matrix(tmp_path: Path, matrix) -> None:
    (tmp_path / "map.pb").write_bytes(FIXTURE_S_MAP)
    with pytest.raises(ValueError, match="world_to_ecef"):
        MapAPI(str(tmp_path / "map.pb"), matrix)


def test_repeated_ids_give_the_last_and_one_warning(tmp_path: Path) -> None:
    fragment = fixture_s()
    fragment.elements[1].id.id = b"L1"
    with pytest.warns(RuntimeWarning, match="'L1'") as record:
        map_api = write(tmp_path / "map.pb", fragment)
    assert len(record) == 1
    assert map_api.ids_to_el["L1"] == 1
    np.testing.assert_allclose(map_api.get_lane_coords("L1")["xyz_left"], L2_LEFT, atol=FLOAT32_LONG)
    assert map_api.bounds_info["lanes"]["ids"] == ["L1", "L1"]


def test_d21_a_pickled_map_is_small_and_reads_itself_again(tmp_path: Path, map_s: MapAPI, monkeypatch) -> None:
    map_s.lane_lines(20)
    map_s.get_lane_as_interpolation("L1", 20, ENSURE_LEN)
    data = pickle.dumps(map_s)
    assert len(data) < 2000
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.lane_lines(20).xyz_left, map_s.lane_lines(20).xyz_left)
    assert again.bounds_info["lanes"]["ids"] == ["L1", "L2"]
    assert again.protobuf_map_path == map_s.protobuf_map_path
    assert pickle.loads(pickle.dumps(again))["L1"] == map_s["L1"]


def test_a_pickled_map_is_not_read_from_another_file(tmp_path: Path) -> None:
    data = pickle.dumps(write(tmp_path / "map.pb", FIXTURE_S_MAP))
    (tmp_path / "map.pb").write_bytes(b"")
    with pytest.raises(CorruptedDataError, match="changed"):
        len(pickle.loads(data))


def test_a_pickled_map_with_a_relative_path_survives_another_folder(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "map.pb").write_bytes(FIXTURE_S_MAP)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(MapAPI("map.pb", WORLD_TO_ECEF))
    monkeypatch.chdir(tmp_path / "other")
    assert len(pickle.loads(data)) == 7


class FolderOf:
    def __init__(self, folder: Path):
        self.folder = folder

    def require(self, key: str) -> str:
        return str(self.folder / key)


def test_from_cfg(tmp_path: Path) -> None:
    (tmp_path / "m.pb").write_bytes(FIXTURE_S_MAP)
    (tmp_path / "meta.json").write_text(json.dumps({"world_to_ecef": WORLD_TO_ECEF.tolist()}))
    cfg = {"raster_params": {"semantic_map_key": "m.pb", "dataset_meta_key": "meta.json"}}
    map_api = MapAPI.from_cfg(FolderOf(tmp_path), cfg)
    np.testing.assert_allclose(map_api.get_lane_coords("L1")["xyz_left"], L1_LEFT, atol=FLOAT32_LONG)
    with pytest.raises(ConfigError, match="semantic_map_key"):
        MapAPI.from_cfg(FolderOf(tmp_path), {"raster_params": {"dataset_meta_key": "meta.json"}})


# The made street map


@pytest.fixture(scope="module")
def street_map(shared_data: Path) -> MapAPI:
    return MapAPI(str(shared_data / "semantic_synth.pb"), WORLD_TO_ECEF)


def test_street_map_lanes_are_decoded_as_one_by_one(street_map: MapAPI) -> None:
    assert len(street_map.bounds_info["lanes"]["ids"]) == 9680
    assert len(street_map.crosswalk_polygons) == 540
    lines = street_map.lane_lines(20)
    for row in range(0, 9680, 97):
        lane_id = street_map.bounds_info["lanes"]["ids"][row]
        lane = street_map[lane_id].element.lane
        for side in ("left", "right"):
            boundary = getattr(lane, f"{side}_boundary")
            deltas = [getattr(boundary, f"vertex_deltas_{axis}_cm") for axis in "xyz"]
            xyz = street_map.unpack_deltas_cm(*deltas, lane.geo_frame)
            np.testing.assert_array_equal(street_map.get_lane_coords(lane_id)[f"xyz_{side}"], xyz)
        for key, line in street_map.get_lane_as_interpolation(lane_id, 20, ENSURE_LEN).items():
            np.testing.assert_array_equal(getattr(lines, key)[row], line)


def test_street_map_interpolation_equals_the_definition(street_map: MapAPI) -> None:
    for lane_id in street_map.bounds_info["lanes"]["ids"][::211]:
        coords = street_map.get_lane_coords(lane_id)
        lines = street_map.get_lane_as_interpolation(lane_id, 20, ENSURE_LEN)
        left, right = (slow_interpolate(coords[key], 20, ENSURE_LEN) for key in ("xyz_left", "xyz_right"))
        for key, line in (("xyz_left", left), ("xyz_right", right), ("xyz_midlane", (left + right) / 2)):
            expected = slow_interpolate(line, 20, ENSURE_LEN) if key == "xyz_midlane" else line
            np.testing.assert_allclose(lines[key], expected, rtol=0, atol=FLOAT64_LONG)


def test_repr_tells_path_and_counts_and_reads_no_file(map_s: MapAPI) -> None:
    assert repr(map_s) == f"<MapAPI {map_s.protobuf_map_path!r}: 7 elements, 2 lanes>"
    copied = pickle.loads(pickle.dumps(map_s))
    Path(map_s.protobuf_map_path).unlink()
    assert repr(copied) == f"<MapAPI {map_s.protobuf_map_path!r}: not read yet>"


@pytest.mark.parametrize("wrong", ["folder", Path("folder"), {}, None], ids=repr)
def test_from_cfg_names_what_is_no_data_manager(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"^data_manager must .*pass LocalDataManager\(folder\)"):
        MapAPI.from_cfg(wrong, {})  # type: ignore[arg-type]


def test_a_number_of_points_counts_by_its_whole_part() -> None:
    line = np.array([[0.0, 0.0], [4.0, 0.0]])
    assert MapAPI.interpolate(line, 3.7, ENSURE_LEN).tolist() == [[0, 0], [2, 0], [4, 0]]


@pytest.mark.parametrize("latitude_e7", [900_000_001, -1_221_565_407])
def test_frames_beyond_the_poles_are_refused_by_name(tmp_path: Path, map_s: MapAPI, latitude_e7: int) -> None:
    fragment = fixture_s()
    lane_of(fragment, 1).geo_frame.origin.lat_e7 = latitude_e7
    with pytest.raises(CorruptedDataError, match=rf"'L2'\) has its origin at latitude {latitude_e7 / 1e7}; allowed"):
        _ = write(tmp_path / "map.pb", fragment).arrays
    frame = GeoFrame(origin=GeoLocation(lat_e7=latitude_e7))
    with pytest.raises(InvalidArgumentError, match=f"origin at latitude {latitude_e7 / 1e7}; allowed are -90 to 90"):
        map_s.unpack_deltas_cm([0], [0], [0], frame)
    at_a_pole = map_s.unpack_deltas_cm([0], [0], [0], GeoFrame(origin=GeoLocation(lat_e7=900_000_000)))
    assert np.isfinite(at_a_pole).all()
