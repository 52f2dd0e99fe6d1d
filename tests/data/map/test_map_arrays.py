"""The arrays of a map: what is in them, that they are shared and read-only, and the network of its lanes."""

import gc
import itertools
import pickle
import weakref
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.data.map.lane_network import LaneNetwork
from l5kit.data.map.map_arrays import MapArrays, MapIds, MapLines
from l5kit.data.map.queries import LaneLocator
from l5kit.data.proto.road_network_pb2 import MapFragment
from l5kit.errors import InvalidArgumentError
from support.maps import WORLD_TO_ECEF, lane_lines_m, make_map, save_street_map


@pytest.fixture
def map_api(tmp_path: Path) -> MapAPI:
    return make_map(tmp_path / "map.pb")


@pytest.fixture
def street(tmp_path: Path) -> MapAPI:
    return MapAPI(save_street_map(tmp_path), WORLD_TO_ECEF)


def arrays_in(holder: object) -> dict[str, np.ndarray]:
    """All arrays of a dataclass and of those in it, by their paths."""
    found = {}
    for field in fields(holder):
        value = getattr(holder, field.name)
        if isinstance(value, np.ndarray):
            found[field.name] = value
        else:
            found |= {f"{field.name}.{name}": array for name, array in arrays_in(value).items()}
    return found


def test_rows_are_those_of_the_bounds_and_lines_those_of_the_lanes(map_api: MapAPI) -> None:
    arrays, bounds = map_api.arrays, map_api.bounds_info
    assert arrays.lane_ids.to_list() == bounds["lanes"]["ids"]
    assert arrays.crosswalk_ids.to_list() == bounds["crosswalks"]["ids"]
    assert (arrays.num_lanes, arrays.num_crosswalks) == (5, 2)
    assert_array_equal(arrays.bounds_m, [*bounds["lanes"]["bounds"], *bounds["crosswalks"]["bounds"]])
    for row, lane_id in enumerate(bounds["lanes"]["ids"]):
        coords = map_api.get_lane_coords(lane_id)
        assert arrays.lane_ids[row] == lane_id
        assert_array_equal(arrays.left_line(row), coords["xyz_left"])
        assert_array_equal(arrays.right_line(row), coords["xyz_right"])
    for polygon, crosswalk_id in zip(arrays.polygons(), bounds["crosswalks"]["ids"], strict=True):
        assert_array_equal(polygon, map_api.get_crosswalk_coords(crosswalk_id)["xyz"])


def test_lanes_and_crosswalks_without_points_have_no_row(tmp_path: Path) -> None:
    complete = make_map(tmp_path / "complete.pb")
    fragment = MapFragment.FromString((tmp_path / "complete.pb").read_bytes())
    fragment.elements[complete.ids_to_el["lights"]].element.lane.ClearField("left_boundary")
    for axis in "xyz":
        crosswalk = fragment.elements[complete.ids_to_el["near"]].element.traffic_control_element
        crosswalk.ClearField(f"points_{axis}_deltas_cm")
    (tmp_path / "map.pb").write_bytes(fragment.SerializeToString())
    arrays = MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF).arrays
    assert arrays.lane_ids.to_list() == ["green", "plain", "at 49 m", "at 51 m"]
    assert arrays.crosswalk_ids.to_list() == ["far"]
    for row in range(4):
        assert_array_equal(arrays.left_line(row), complete.arrays.left_line(row + 1))
        assert_array_equal(arrays.right_line(row), complete.arrays.right_line(row + 1))
    assert_array_equal(arrays.bounds_m, complete.arrays.bounds_m[[1, 2, 3, 4, 6]])
    assert arrays.controls.ids.to_list() == ["G"]
    assert arrays.lights.lanes_of(0).tolist() == [0]
    assert_array_equal(arrays.resampled(4).xyz_midlane, complete.arrays.resampled(4).xyz_midlane[1:])


def test_controls_lead_to_lanes_and_lanes_to_controls(street: MapAPI) -> None:
    arrays = street.arrays
    controls = arrays.controls
    assert controls.ids.to_list() == ["T0", "red", "green", "yellow", "uturn", "unknown"]
    assert [controls.lanes_of(row).tolist() for row in range(6)] == [[0, 3, 6], [0, 1], [0], [0], [3], [6]]
    assert (controls.kinds > 0).tolist() == [True, True, True, True, True, False]
    for lane in range(arrays.num_lanes):
        listed = {name for row, name in enumerate(controls.ids.to_list()) if lane in controls.lanes_of(row)}
        assert listed == street.get_lane_traffic_control_ids(arrays.lane_ids[lane])


def test_lights_are_lights_and_faces_are_faces(street: MapAPI) -> None:
    arrays = street.arrays
    assert np.flatnonzero(arrays.has_light).tolist() == [0, 3, 6]
    assert [arrays.lights.id_of(face) for face in range(4)] == ["green", "red", "uturn", "yellow"]
    assert arrays.lights.ranks.tolist() == [1, 3, 3, 2]
    assert [arrays.lights.lanes_of(face).tolist() for face in range(4)] == [[0], [0, 1], [3], [0]]


def test_what_maps_of_one_file_share_is_read_only(street: MapAPI) -> None:
    content = street._content
    for name in ("kinds", "control_kinds", "lanes", "crosswalks", "lanes_by_row"):
        assert not getattr(content, name).flags.writeable, name


@pytest.mark.parametrize("part", ["arrays", "network"])
def test_arrays_are_plain_and_read_only_before_and_after_pickling(street: MapAPI, part: str) -> None:
    street.arrays.resampled(5), street.arrays.grid(30.0)
    before = getattr(street, part)
    after = pickle.loads(pickle.dumps(before))
    found = arrays_in(after)
    assert found.keys() == arrays_in(before).keys()
    assert len(found) >= 9
    for name, array in arrays_in(before).items():
        assert array.dtype.kind in "biuf", name
        assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert not array.flags.writeable, name
        assert not found[name].flags.writeable, name


def test_pickled_arrays_answer_the_same(street: MapAPI) -> None:
    arrays = pickle.loads(pickle.dumps(street.arrays))
    assert_array_equal(arrays.resampled(7).xyz_midlane, street.lane_lines(7).xyz_midlane)
    for point_m in np.random.default_rng(0).uniform(-60, 60, (20, 2)):
        assert_array_equal(
            arrays.grid(10.0).find_near(point_m[None])[0], street.arrays.grid(10.0).find_near(point_m[None])[0]
        )
        row, distance_m = LaneLocator(arrays).nearest(point_m)
        assert (arrays.lane_ids[row], distance_m) == street.get_nearest_lane(point_m)


def test_maps_of_one_file_share_what_is_in_it_but_for_the_messages(map_api: MapAPI) -> None:
    other = MapAPI(map_api.protobuf_map_path, WORLD_TO_ECEF)
    copied = pickle.loads(pickle.dumps(map_api))
    for again in (other, copied):
        assert again.arrays is map_api.arrays
        assert again.network is map_api.network
        assert again.elements is not map_api.elements
        assert again["plain"] == map_api["plain"]
        assert again.ids_to_el == map_api.ids_to_el
        assert again.ids_to_el is not map_api.ids_to_el
    other["plain"].element.lane.traffic_controls.add(id=b"R")
    assert other.get_lane_traffic_control_ids("plain") == {"R"}
    assert map_api.get_lane_traffic_control_ids("plain") == set()


def test_a_file_that_has_changed_and_another_matrix_are_read_anew(map_api: MapAPI) -> None:
    path = map_api.protobuf_map_path
    turned = WORLD_TO_ECEF @ np.diag([-1.0, -1.0, 1.0, 1.0])
    assert_array_equal(
        np.round(MapAPI(path, turned).arrays.left_line(0)[:, :2], 3), -np.round(map_api.arrays.left_line(0)[:, :2], 3)
    )
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("only", *lane_lines_m(0.0))
    builder.save(path)
    assert MapAPI(path, WORLD_TO_ECEF).arrays.lane_ids.to_list() == ["only"]
    assert map_api.arrays.num_lanes == 5


def test_what_nobody_holds_is_freed(tmp_path: Path) -> None:
    map_api = make_map(tmp_path / "map.pb")
    lines, grid = map_api.arrays.resampled(5), map_api.arrays.grid(30.0)
    assert map_api.arrays.resampled(5) is lines
    assert map_api.arrays.grid(30.0) is grid
    assert map_api.arrays.grid(31.0) is not grid
    assert grid.bounds_m is map_api.arrays.bounds_m
    held = [weakref.ref(lines), weakref.ref(grid)]
    del lines, grid
    gc.collect()
    assert [reference() for reference in held] == [None, None]
    arrays = weakref.ref(map_api.arrays)
    del map_api
    gc.collect()
    assert arrays() is None


def test_odd_files_are_warned_of_at_each_opening(tmp_path: Path) -> None:
    make_map(tmp_path / "map.pb")
    fragment = MapFragment.FromString((tmp_path / "map.pb").read_bytes())
    fragment.elements.append(fragment.elements[-1])
    (tmp_path / "map.pb").write_bytes(fragment.SerializeToString())
    held = []
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="for example 'far'") as record:
            held.append(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF))
        assert [Path(warning.filename).name for warning in record] == [Path(__file__).name]
    assert held[0].arrays is held[1].arrays


def test_ids_are_texts_of_any_length() -> None:
    texts = ["a", "", "überlang" * 40, "b"]
    ids = MapIds.of_texts(texts)
    assert ids.to_list() == [ids[row] for row in range(4)] == texts
    assert ids.taken(np.array([2, 0])).to_list() == [texts[2], "a"]
    assert MapIds.of_texts([]).to_list() == []
    data = np.frombuffer(b"..one.two", dtype=np.uint8)
    assert MapIds.gather(data, np.array([[6, 9], [2, 5], [4, 4]])).to_list() == ["two", "one", ""]


def test_lines_are_taken_in_any_order() -> None:
    points = np.arange(18.0).reshape(6, 3)
    lines = MapLines(points, np.array([0, 2, 2, 6]), np.zeros((3, 2, 2)))
    assert lines.taken(np.arange(3)) is lines
    taken = lines.taken(np.array([2, 1, 0]))
    assert taken.lengths.tolist() == [4, 0, 2]
    assert_array_equal(taken.points, points[[2, 3, 4, 5, 0, 1]])


WRONG = {
    "bounds_m": lambda arrays: {"bounds_m": arrays.bounds_m[1:]},
    "has_light": lambda arrays: {"has_light": arrays.has_light[1:]},
    "crosswalk_lines": lambda arrays: {"crosswalk_lines": arrays.lane_lines},
    "lane_lines": lambda arrays: {"lane_lines": arrays.crosswalk_lines},
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_do_not_fit_are_refused(map_api: MapAPI, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"MapArrays: .*{name}"):
        replace(map_api.arrays, **WRONG[name](map_api.arrays))


@pytest.mark.parametrize("offsets", [[0, 2], [0, 2, 5], [1, 2, 6], [0, 2, 4, 6]])
def test_starts_that_do_not_fit_are_refused(offsets: list[int]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"MapLines: (offsets must have shape|shapes do not fit)"):
        MapLines(np.zeros((6, 3)), np.array(offsets), np.zeros((2, 2, 2)))


# The network


@pytest.fixture
def roads(tmp_path: Path) -> MapAPI:
    """Lane A leads over J to B and to a lane that is not there; K of the junction has no geometry and leads to B."""
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_segment("fast", lane_lines_m(0.0)[0], lanes=["A"], speed_limit_mps=20.0)
    builder.add_segment("slow", lane_lines_m(0.0)[0], lanes=["B"], speed_limit_mps=8.0)
    builder.add_junction("junction", lanes=["J", "K"])
    builder.add_lane("K", *lane_lines_m(0.0), parent="junction", lanes_ahead=["B"])
    builder.add_lane("A", *lane_lines_m(0.0), parent="fast", lanes_ahead=["J", "gone", "K"], change_left="far")
    builder.add_lane("J", *lane_lines_m(0.0), parent="junction", lanes_ahead=["B"], change_right="K")
    builder.add_lane("B", *lane_lines_m(0.0), parent="slow")
    fragment = builder.to_fragment()
    (lane,) = [element.element.lane for element in fragment.elements if element.id.id == b"K"]
    lane.ClearField("left_boundary")
    (tmp_path / "map.pb").write_bytes(fragment.SerializeToString())
    return MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF)


def test_the_network_has_rows_of_lanes_with_geometry_then_of_others_then_of_names(roads: MapAPI) -> None:
    network = roads.network
    assert roads.arrays.lane_ids.to_list() == ["A", "J", "B"]
    assert network.ids.to_list() == ["A", "J", "B", "K", "gone", "far"]
    assert len(network) == 4
    assert [network.ahead_of(lane).tolist() for lane in range(4)] == [[1, 4, 3], [2], [], [2]]
    assert [network.behind_of(lane).tolist() for lane in range(4)] == [[], [0], [3, 1], [0]]
    assert network.left_rows.tolist() == [5, -1, -1, -1]
    assert network.right_rows.tolist() == [-1, 3, -1, -1]
    assert network.is_in_junction.tolist() == [False, True, False, True]
    assert network.speed_limits_mps.tolist() == [20.0, 8.0, 8.0, 8.0]


def test_the_map_tells_what_the_network_tells(roads: MapAPI) -> None:
    network = roads.network
    for row in range(len(network)):
        lane_id = network.ids[row]
        assert roads.get_lanes_ahead(lane_id) == [network.ids[ahead] for ahead in network.ahead_of(row)]
        assert roads.get_lanes_behind(lane_id) == [network.ids[behind] for behind in network.behind_of(row)]
        assert roads.get_lane_speed_limit(lane_id) == network.speed_limits_mps[row]
    assert roads.get_lane_left("A") == "far"
    assert roads.get_lane_right("J") == "K"


def test_a_network_that_does_not_fit_is_refused(roads: MapAPI) -> None:
    network = roads.network
    with pytest.raises(InvalidArgumentError, match=r"LaneNetwork: .*speed_limits_mps"):
        replace(network, speed_limits_mps=network.speed_limits_mps[1:])
    with pytest.raises(InvalidArgumentError, match=r"LaneNetwork: behind_starts must have shape \(5,\) and go from 0"):
        replace(network, behind_rows=network.behind_rows[1:])


def test_a_map_without_lanes_has_an_empty_network(tmp_path: Path) -> None:
    (tmp_path / "map.pb").write_bytes(b"")
    empty = MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF)
    assert len(empty.network) == len(empty.network.ids) == empty.arrays.num_lanes == 0
    assert LaneLocator(empty.arrays).nearest(np.zeros(2)) == (-1, np.inf)
    assert isinstance(empty.network, LaneNetwork)
    assert isinstance(empty.arrays, MapArrays)


def test_distances_of_given_lanes(map_api: MapAPI) -> None:
    area_m, midline_m = LaneLocator(map_api.arrays).distances_m(np.array([0.0, 3.0]), np.array([2, 0, 1]))
    np.testing.assert_allclose(area_m, [3.0, 1.0, 0.0], atol=0.02)
    np.testing.assert_allclose(midline_m, [5.0, 3.0, 1.0], atol=0.02)


def test_ids_are_read_like_a_list():
    texts = ["a", "bb", "", "ccc", "\u00e9"]
    ids = MapIds.of_texts(texts)
    rows = [None, 0, 1, 3, 5, 9, -1, -2]
    for start, stop, step in itertools.product(rows, rows, [None, 1, 2, -1]):
        assert ids[start:stop:step] == texts[start:stop:step]
    assert [ids[row] for row in range(-5, 5)] == texts + texts
    assert list(ids) == texts


def test_ids_and_arrays_are_told_in_a_line():
    assert repr(MapIds.of_texts(["a", "b"])) == "<MapIds of 2: 'a', 'b'>"
    assert repr(MapIds.of_texts(list("abcd"))) == "<MapIds of 4: 'a', 'b', 'c', ...>"
    lines = MapLines(np.zeros((3, 3)), np.array([0, 3]), np.zeros((1, 2, 2)))
    assert repr(lines) == "MapLines(points=<float64 (3, 3)>, offsets=<int64 (2,)>, bounds_m=<float64 (1, 2, 2)>)"
