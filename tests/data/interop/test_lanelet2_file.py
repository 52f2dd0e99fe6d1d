"""Semantic maps as Lanelet2 files and back: nothing is lost that the format can hold, and the rest is listed."""

from xml.etree import ElementTree

import numpy as np
import pytest

from l5kit.data import MapAPI, compare_maps, export_lanelet2
from l5kit.data.map.builder import MapBuilder
from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.readers import import_map, read_lanelet2
from support.exchanged_maps import city_map, opened_map, road_of
from support.maps import WORLD_TO_ECEF, lane_lines_m, make_map


def returned(semantic_map, folder):
    """A map that went out and came back."""
    export_lanelet2(semantic_map, folder / "map.osm")
    import_map("lanelet2", folder / "map.osm", folder / "back")
    return opened_map(folder / "back")


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return city_map(tmp_path_factory.mktemp("city") / "city")


def test_a_city_comes_back_as_it_was(city, tmp_path):
    differences = compare_maps(city, returned(city, tmp_path))

    assert differences.num_lanes == city.arrays.num_lanes > 100
    assert max(differences.boundary_m, differences.centre_line_m, differences.crosswalk_m) < 0.015
    assert differences.height_m < 0.01
    counts = [count for name, count in vars(differences).items() if not name.endswith("_m") and name != "num_lanes"]
    assert counts == [0] * len(counts)


def test_right_of_way_turns_and_junctions_come_back(city, tmp_path):
    back = returned(city, tmp_path)

    for lane in city.arrays.lane_ids.to_list():
        before, after = (each[lane].element.lane for each in (city, back))
        assert [each.id for each in before.yield_to_lanes] == [each.id for each in after.yield_to_lanes]
        assert before.turn_type_in_parent_junction == after.turn_type_in_parent_junction
    assert city.network.is_in_junction.sum() == back.network.is_in_junction.sum() > 0


def test_lights_without_a_place_stand_at_the_end_of_their_lane(tmp_path):
    lights = make_map(tmp_path / "map.pb")

    back = returned(lights, tmp_path)

    assert back.get_lane_traffic_control_ids("lights") == {"G", "R", "Y"}
    assert back.get_lane_traffic_control_ids("green") == {"G"}
    assert {face: back.get_color_for_face(face) for face in "GRY"} == {"G": "GREEN", "R": "RED", "Y": "YELLOW"}
    assert compare_maps(lights, back).crosswalk_m < 0.01


def test_faces_without_a_light_count_as_lights_of_their_own(tmp_path):
    """One light has two faces, and one face has none."""
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_traffic_light("lamp", np.array([1.0, 5.0, 2.0]), faces=["red", "green"])
    for face, kind in (("red", "signal_red_face"), ("green", "signal_green_face"), ("lonely", "signal_yellow_face")):
        builder.add_traffic_light_face(face, kind)
    builder.add_lane("a", *lane_lines_m(0.0), traffic_controls=["lamp", "red", "green", "lonely"])
    builder.save(tmp_path / "map.pb")

    result = export_lanelet2(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF), tmp_path / "map.osm")

    assert result.num_lights == 2


def test_a_sign_of_lights_ahead_is_no_light(tmp_path):
    """Its kind, ``signal_ahead_sign``, begins as those of faces do."""
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_traffic_control("ahead", "signal_ahead_sign", [1.0, 5.0, 2.0])
    builder.add_lane("a", *lane_lines_m(0.0), traffic_controls=["ahead"])
    builder.save(tmp_path / "map.pb")

    result = export_lanelet2(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF), tmp_path / "map.osm")

    found = read_lanelet2(tmp_path / "map.osm")
    text = (tmp_path / "map.osm").read_text()
    assert result.num_lights == 0
    assert "v='traffic_sign'" in text
    assert "light" not in text
    assert found.lanes["a"].controls == ("ahead",)
    np.testing.assert_allclose(found.controls["ahead"].points_m, [[1.0, 5.0, 2.0]], atol=0.01)


def test_lanes_share_corners_and_boundaries(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    road_of(builder)
    builder.save(tmp_path / "map.pb")

    result = export_lanelet2(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF), tmp_path / "map.osm", centre_lines=False)

    root = ElementTree.parse(tmp_path / "map.osm").getroot()
    assert len(root.findall("node")) == 9  # three boundaries of three points
    assert len(root.findall("way")) == 6
    dashed = [way for way in root.findall("way") if way.find("tag[@v='dashed']") is not None]
    assert len(dashed) == 2
    assert [relation.find("tag[@k='speed_limit']").get("v") for relation in root.findall("relation")[:4]] == [
        "48.6"
    ] * 4
    assert result.num_lanes == 4
    assert result.left_out == ("1 segment kept as the limits of their lanes only.",)


def test_lines_of_junctions_are_not_painted(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_junction("junction", lanes=["turn"])
    builder.add_lane("turn", *lane_lines_m(0.0), parent="junction")
    builder.add_lane("road", *lane_lines_m(8.0))
    builder.save(tmp_path / "map.pb")

    export_lanelet2(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF), tmp_path / "map.osm", centre_lines=False)

    root = ElementTree.parse(tmp_path / "map.osm").getroot()
    type_of = {way.get("id"): way.find("tag[@k='type']").get("v") for way in root.findall("way")}
    types = {
        lanelet.find("tag[@k='l5kit:id']").get("v"): [type_of[each.get("ref")] for each in lanelet.findall("member")]
        for lanelet in root.findall("relation")
        if lanelet.find("tag[@v='lanelet']") is not None
    }
    assert types == {"turn": ["virtual"] * 2, "road": ["line_thin"] * 2}


@pytest.mark.parametrize(("allowed", "subtype"), [("left", "solid_dashed"), ("right", "dashed_solid")])
def test_a_change_in_one_direction_comes_back(tmp_path, allowed, subtype):
    builder = MapBuilder(WORLD_TO_ECEF)
    road_of(builder, changes_to=(allowed,))
    builder.save(tmp_path / "map.pb")
    road = MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF)

    back = returned(road, tmp_path)

    assert f"v='{subtype}'" in (tmp_path / "map.osm").read_text()
    assert (back.get_lane_left("right"), back.get_lane_right("left")) == (
        ("left", None) if allowed == "left" else (None, "right")
    )
    assert compare_maps(road, back).lane_changes == 0


def test_corners_too_far_apart_are_listed(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("a", *lane_lines_m(0.0, start_m=0.0, end_m=10.0), lanes_ahead=["b", "nowhere"])
    builder.add_lane("b", *lane_lines_m(0.0, start_m=10.5, end_m=20.0))
    builder.save(tmp_path / "map.pb")

    result = export_lanelet2(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF), tmp_path / "map.osm")

    assert result.left_out == (
        "1 successor with ids that the map does not have, left out.",
        "1 successor lost, as the corners of the lanes are more than 3 cm apart.",
    )


def test_ids_are_any_text_that_xml_can_hold(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    odd = "<a & 'b' \"c\">\n\u00fc"
    builder.add_lane(odd, *lane_lines_m(0.0))
    builder.save(tmp_path / "odd.pb")
    assert returned(MapAPI(str(tmp_path / "odd.pb"), WORLD_TO_ECEF), tmp_path).arrays.lane_ids.to_list() == [odd]

    builder.add_lane("bell \a", *lane_lines_m(4.0))
    builder.save(tmp_path / "bell.pb")
    with pytest.raises(UnsupportedValueError, match="which XML does not allow"):
        export_lanelet2(MapAPI(str(tmp_path / "bell.pb"), WORLD_TO_ECEF), tmp_path / "bell.osm")
    assert not (tmp_path / "bell.osm").exists()


def test_files_of_others_are_kept(tmp_path):
    lights = make_map(tmp_path / "map.pb")
    (tmp_path / "map.osm").write_text("<osm/>")

    with pytest.raises(FileExistsError, match="replace it"):
        export_lanelet2(lights, tmp_path / "map.osm")
    with pytest.raises(InvalidArgumentError, match="not written by l5kit"):
        export_lanelet2(lights, tmp_path / "map.osm", overwrite=True)
    export_lanelet2(lights, tmp_path / "own.osm")
    export_lanelet2(lights, tmp_path / "own.osm", overwrite=True)


def test_a_map_without_lanes_is_refused(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.save(tmp_path / "map.pb")
    with pytest.raises(InvalidArgumentError, match="no lane with geometry"):
        export_lanelet2(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF), tmp_path / "map.osm")


def test_the_library_of_the_format_finds_the_same_roads(city, tmp_path):
    """Lanelet2 itself reads the file without a complaint, and routes over the same lanes with the same limits."""
    lanelet2 = pytest.importorskip(
        "lanelet2", reason="Lanelet2 is not installed (dependency group dev, Linux on x86-64)"
    )
    export_lanelet2(city, tmp_path / "map.osm")
    node = ElementTree.parse(tmp_path / "map.osm").getroot().find("node")
    origin = lanelet2.io.Origin(float(node.get("lat")), float(node.get("lon")))
    lanelets, errors = lanelet2.io.loadRobust(str(tmp_path / "map.osm"), lanelet2.projection.UtmProjector(origin))
    rules = lanelet2.traffic_rules.create(
        lanelet2.traffic_rules.Locations.Germany, lanelet2.traffic_rules.Participants.Vehicle
    )
    graph = lanelet2.routing.RoutingGraph(lanelets, rules)

    def name_of(lanelet):
        return lanelet.attributes["l5kit:id"] if lanelet else None

    lanes = [lanelet for lanelet in lanelets.laneletLayer if lanelet.attributes["subtype"] == "road"]
    assert len(errors) == 0
    assert len(lanes) == city.arrays.num_lanes
    for lanelet in lanes:
        name = name_of(lanelet)
        assert sorted(map(name_of, graph.following(lanelet))) == sorted(city.get_lanes_ahead(name))
        assert name_of(graph.left(lanelet)) == city.get_lane_left(name)
        assert name_of(graph.right(lanelet)) == city.get_lane_right(name)
        assert rules.speedLimit(lanelet).speedLimit == pytest.approx(3.6 * city.get_lane_speed_limit(name), abs=1e-3)
