"""Drivable areas in semantic maps: written, read, and part of the road."""

import cv2
import numpy as np
import pytest

from l5kit.data import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.data.map.drivable_areas import drivable_areas_of, read_drivable_polygons
from l5kit.data.proto.road_network_pb2 import MapFragment
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.driving_map import build_driving_map
from l5kit.readers.map_writing import WORLD_TO_ECEF as IMPORTED_TO_ECEF
from support.maps import WORLD_TO_ECEF, lane_lines_m

SQUARE = np.array([[-50.0, -9, 0], [50, -9, 0], [50, 9, 0], [-50, 9, 0]])
ISLAND = np.array([[0.0, 5, 0], [10, 5, 0], [10, 7, 0], [0, 7, 0]])
STATED_M = 0.02
"""Places on earth are written in 1e-7 degrees, 1.1 cm."""


def map_with_area(folder, *, world_to_ecef=WORLD_TO_ECEF, shift_m=0.0, holes=(ISLAND,)):
    builder = MapBuilder(world_to_ecef)
    shift = np.array([shift_m, shift_m, 0.0])
    left, right = lane_lines_m(0.0)
    builder.add_lane("lane", left + shift, right + shift)
    builder.add_drivable_area("area", SQUARE + shift, holes=[hole + shift for hole in holes])
    builder.save(folder / "map.pb")
    return MapAPI(str(folder / "map.pb"), world_to_ecef)


@pytest.mark.parametrize(
    ("world_to_ecef", "shift_m"),
    [
        pytest.param(WORLD_TO_ECEF, 0.0, id="published world"),
        pytest.param(IMPORTED_TO_ECEF, 0.0, id="imported world"),
        pytest.param(IMPORTED_TO_ECEF, 300_000.0, id="far from the origin"),
    ],
)
def test_outline_and_holes_are_read_as_they_were_written(tmp_path, world_to_ecef, shift_m):
    map_api = map_with_area(tmp_path, world_to_ecef=world_to_ecef, shift_m=shift_m)
    ((outline, hole),) = read_drivable_polygons(map_api)
    assert np.abs(outline - shift_m - SQUARE[:, :2]).max() < STATED_M
    assert np.abs(hole - shift_m - ISLAND[:, :2]).max() < STATED_M


def test_the_road_is_lanes_and_drivable_areas_but_not_what_is_cut_out(tmp_path):
    driving_map = build_driving_map(map_with_area(tmp_path))
    points_m = np.array([[0.0, 0.0], [45.0, 8.0], [5.0, 6.0], [0.0, 12.0], [0.0, 9.2]])
    distances_m = driving_map.distances_to_surface_m(points_m)
    assert distances_m[:2].tolist() == [0.0, 0.0]
    assert np.isinf(distances_m[2:4]).all()  # on the island, which is 2 m wide, and far away
    assert distances_m[4] == pytest.approx(0.2, abs=STATED_M)
    assert driving_map.num_lanes == 1
    assert driving_map.lanes_at(points_m[1:2])[0].tolist() == []  # an area is no lane


def test_small_areas_without_holes_stay_as_they_are(tmp_path):
    (area,) = drivable_areas_of(map_with_area(tmp_path, holes=()))
    assert np.abs(area - SQUARE[:, :2]).max() < STATED_M


def test_areas_with_many_corners_are_cut(tmp_path):
    turns = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    circle = 30 * np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=1)
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_drivable_area("area", circle)
    builder.save(tmp_path / "map.pb")
    areas = drivable_areas_of(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF))
    assert max(map(len, areas)) <= 4
    assert sum(cv2.contourArea(area.astype(np.float32)) for area in areas) == pytest.approx(2825.6, rel=1e-3)


def test_a_map_without_drivable_areas_has_none(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("lane", *lane_lines_m(0.0))
    builder.save(tmp_path / "map.pb")
    assert drivable_areas_of(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF)) == []


def test_rings_of_two_corners_are_refused():
    builder = MapBuilder(WORLD_TO_ECEF)
    with pytest.raises(InvalidArgumentError, match="n at least 3"):
        builder.add_drivable_area("area", SQUARE[:2])
    with pytest.raises(InvalidArgumentError, match="n at least 3"):
        builder.add_drivable_area("area", SQUARE, holes=[SQUARE[:2]])


@pytest.mark.parametrize(("ring", "expected"), [("outline", []), ("hole", [4])])
def test_rings_of_two_corners_in_a_file_are_left_out(tmp_path, ring, expected):
    map_with_area(tmp_path)
    content = MapFragment.FromString((tmp_path / "map.pb").read_bytes())
    (polygon,) = (area for each in content.elements for area in each.element.annotated_shape.multipolygon.polygons)
    del (polygon if ring == "outline" else polygon.holes[0]).shell_vertices[2:]
    (tmp_path / "map.pb").write_bytes(content.SerializeToString())
    areas = drivable_areas_of(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF))
    assert [len(area) for area in areas] == expected
