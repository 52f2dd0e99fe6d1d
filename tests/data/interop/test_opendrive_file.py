"""Semantic maps as OpenDRIVE files and back: boundaries within 5 cm, and nothing lost that the format can hold."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from pymap3d.ecef import ecef2geodetic

from l5kit.data import MapAPI, compare_maps, export_opendrive
from l5kit.data.interop.opendrive_roads import fit_course, simplified_rows
from l5kit.data.map.builder import MapBuilder
from l5kit.errors import InvalidArgumentError
from l5kit.readers import import_map
from support.exchanged_maps import city_map, opened_map, road_of
from support.maps import WORLD_TO_ECEF, lane_lines_m, make_map

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


def returned(semantic_map, folder):
    """A map that went out and came back."""
    export_opendrive(semantic_map, folder / "map.xodr")
    import_map("opendrive", folder / "map.xodr", folder / "back")
    return opened_map(folder / "back")


def saved(builder, folder):
    builder.save(folder / "map.pb")
    return MapAPI(str(folder / "map.pb"), WORLD_TO_ECEF)


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return city_map(tmp_path_factory.mktemp("city") / "city")


@pytest.fixture(scope="module")
def back(city, tmp_path_factory):
    return returned(city, tmp_path_factory.mktemp("opendrive"))


def test_a_city_comes_back_as_it_was(city, back):
    differences = compare_maps(city, back)

    assert differences.num_lanes == city.arrays.num_lanes > 100
    assert max(differences.boundary_m, differences.centre_line_m, differences.crosswalk_m) < 0.03
    assert differences.height_m < 0.02
    counts = [count for name, count in vars(differences).items() if not name.endswith("_m") and name != "num_lanes"]
    assert counts == [0] * len(counts)


def test_junctions_and_who_goes_first_come_back(city, back):
    assert city.network.is_in_junction.sum() == back.network.is_in_junction.sum() > 0
    yielding = 0
    for lane in city.arrays.lane_ids.to_list():
        before, after = (sorted(each.id for each in m[lane].element.lane.yield_to_lanes) for m in (city, back))
        assert before == after
        yielding += len(before)
    assert yielding > 0


def test_the_world_is_where_it_was(city, back):
    points = np.column_stack([city.arrays.left_line(0), np.ones(len(city.arrays.left_line(0)))])
    before, after = (ecef2geodetic(*(points @ np.linalg.inv(each.ecef_to_world).T)[:, :3].T) for each in (city, back))
    np.testing.assert_allclose(before[:2], after[:2], rtol=0.0, atol=2e-6)  # degrees: 0.2 m, as the height is another


@pytest.mark.skipif(not SHARED.is_dir(), reason="the maps of ../shared are not here")
def test_lanes_of_the_shared_street_map_come_back(tmp_path):
    """A part of it, as the whole takes a while: benchmarks of the page on map exchange write all of it."""
    matrix = np.array(json.loads((SHARED / "meta.json").read_text())["world_to_ecef"])
    street = MapAPI(str(SHARED / "semantic_synth.pb"), matrix)
    builder = MapBuilder(matrix)
    for row in range(0, street.arrays.num_lanes, 40):
        builder.add_lane(street.arrays.lane_ids[row], street.arrays.left_line(row), street.arrays.right_line(row))
    builder.save(tmp_path / "part.pb")
    part = MapAPI(str(tmp_path / "part.pb"), matrix)

    differences = compare_maps(part, returned(part, tmp_path))

    assert (differences.num_lanes, differences.missing_lanes) == (242, 0)
    assert max(differences.boundary_m, differences.centre_line_m) < 0.03


def test_lanes_side_by_side_are_one_road(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    road_of(builder)
    road = saved(builder, tmp_path)

    back = returned(road, tmp_path)

    roads = ElementTree.parse(tmp_path / "map.xodr").getroot().findall("road")
    assert [len(each.findall("lanes/laneSection/right/lane")) for each in roads] == [2, 2]
    assert float(roads[0].get("length")) == pytest.approx(20.0, abs=0.01)
    marks = [each.get("laneChange") for each in roads[0].findall("lanes/laneSection/right/lane/roadMark")]
    assert marks == ["both", "none"]
    speeds = [each.get("max") for each in roads[0].findall("lanes/laneSection/right/lane/speed")]
    assert speeds == ["13.5", "13.5"]
    differences = compare_maps(road, back)
    assert differences.boundary_m < 0.02
    assert (differences.successors, differences.lane_changes, differences.speed_limits) == (0, 0, 0)


@pytest.mark.parametrize(("allowed", "mark"), [("left", "increase"), ("right", "decrease")])
def test_a_change_in_one_direction_comes_back(tmp_path, allowed, mark):
    builder = MapBuilder(WORLD_TO_ECEF)
    road_of(builder, changes_to=(allowed,))
    road = saved(builder, tmp_path)

    back = returned(road, tmp_path)

    assert f"laneChange='{mark}'" in (tmp_path / "map.xodr").read_text()
    assert compare_maps(road, back).lane_changes == 0


def test_lanes_that_part_outside_of_junctions_get_one_that_is_made_up(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("a", *lane_lines_m(0.0, start_m=0.0, end_m=10.0), lanes_ahead=["b", "c"])
    for name, y_m in (("b", 1.0), ("c", -1.0)):
        left, right = lane_lines_m(0.0, start_m=10.0, end_m=30.0)
        left[-1, 1] += y_m
        right[-1, 1] += y_m
        builder.add_lane(name, left, right, lanes_ahead=["d"])
    builder.add_lane("d", *lane_lines_m(0.0, start_m=30.0, end_m=40.0))
    parting = saved(builder, tmp_path)

    result = export_opendrive(parting, tmp_path / "map.xodr")
    import_map("opendrive", tmp_path / "map.xodr", tmp_path / "back")

    assert any("made up" in sentence for sentence in result.left_out)
    assert compare_maps(parting, opened_map(tmp_path / "back")).successors == 0
    assert not opened_map(tmp_path / "back").network.is_in_junction.any()


def test_faces_that_lanes_name_without_their_light_come_back(tmp_path):
    lights = make_map(tmp_path / "lights.pb")

    back = returned(lights, tmp_path)

    assert compare_maps(lights, back).controls == 0
    assert compare_maps(lights, back).lights == 0
    assert compare_maps(lights, back).crosswalk_m < 0.02


@pytest.mark.parametrize("radius_m", [6.0, 15.0, 80.0])
def test_a_course_follows_curves_with_ends_cut_askew(radius_m):
    turns = np.linspace(0.0, np.pi / 2, 30)
    left = np.stack([(radius_m - 1.75) * np.sin(turns), (radius_m - 1.75) * (1 - np.cos(turns)) + 1.75, 0 * turns], 1)
    right = np.stack([(radius_m + 1.75) * np.sin(turns), (radius_m + 1.75) * (1 - np.cos(turns)) - 1.75, 0 * turns], 1)
    left[0, 0] -= 0.5

    course = fit_course([left, right])

    assert course.error_m < 0.05
    assert course.lengths_m.sum() == pytest.approx(radius_m * np.pi / 2, rel=0.05)


def test_simplified_functions_stay_within_the_tolerance():
    arcs = np.linspace(0.0, 10.0, 401)
    values = np.sin(arcs)
    rows = simplified_rows(arcs, values, 0.01)
    assert np.abs(np.interp(arcs, arcs[rows], values[rows]) - values).max() <= 0.01
    assert rows.sum() < 60
    assert simplified_rows(arcs, 2 * arcs, 0.01).sum() == 2


def test_files_of_others_are_kept(tmp_path):
    lights = make_map(tmp_path / "lights.pb")
    (tmp_path / "map.xodr").write_text("<OpenDRIVE/>")
    with pytest.raises(InvalidArgumentError, match="not written by l5kit"):
        export_opendrive(lights, tmp_path / "map.xodr", overwrite=True)


def test_the_schema_accepts_the_file(city, tmp_path):
    """The schema of OpenDRIVE 1.7, as scenariogeneration brings it, has no complaint."""
    etree = pytest.importorskip("lxml.etree", reason="lxml is not installed (dependency group dev)")
    package = pytest.importorskip(
        "scenariogeneration", reason="scenariogeneration is not installed (dependency group dev)"
    )
    schemas = Path(package.__file__).resolve().parents[1] / "schemas"
    export_opendrive(city, tmp_path / "map.xodr")

    schema = etree.XMLSchema(etree.parse(str(schemas / "opendrive_17_core.xsd")))

    assert schema.validate(etree.parse(str(tmp_path / "map.xodr"))), list(schema.error_log)[:3]
