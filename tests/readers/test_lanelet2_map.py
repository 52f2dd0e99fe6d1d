"""Lanelet2 maps written by hand: what lanelets, rules and types of lines say, and what is wrong with bad ones."""

import re

import numpy as np
import pytest
from pymap3d import geodetic2ecef

from l5kit.readers import SourceDataError, import_map, read_lanelet2
from support.exchanged_maps import opened_map

NODES = {1: (0, 4), 2: (10, 4), 3: (20, 4), 4: (0, 0), 5: (10, 0), 6: (20, 0), 7: (0, -4), 8: (10, -4), 9: (20, -4)}
WAYS = {
    100: ([1, 2], {"type": "line_thin", "subtype": "solid"}),
    101: ([2, 3], {"type": "line_thin", "subtype": "solid"}),
    102: ([4, 5], {"type": "line_thin", "subtype": "dashed"}),
    103: ([6, 5], {"type": "line_thin", "subtype": "dashed_solid"}),  # against the lanes
    104: ([7, 8], {"type": "road_border"}),
    105: ([8, 9], {"type": "road_border"}),
}
LANELETS = {200: (100, 102), 201: (101, 103), 202: (102, 104), 203: (103, 105)}


def osm_of(nodes=NODES, ways=WAYS, relations="", lanelet_tags=None, geodetic=False):
    """The text of a map: two lanes along x, the left at 4 to 0 m, the right at 0 to -4 m, in two pieces each."""
    tags_of = {
        lanelet: {"type": "lanelet", "subtype": "road"} | (lanelet_tags or {}).get(lanelet, {}) for lanelet in LANELETS
    }
    text = ["<osm version='0.6'>"]
    for node, (x, y, *height) in nodes.items():
        local = "" if geodetic else f"<tag k='local_x' v='{x}'/><tag k='local_y' v='{y}'/>"
        degrees = (48.0 + y / 111_000.0, 11.0 + x / 74_000.0) if geodetic else ("", "")
        ele = f"<tag k='ele' v='{height[0] if height else 0}'/>"
        text.append(f"<node id='{node}' lat='{degrees[0]}' lon='{degrees[1]}'>{local}{ele}</node>")
    for way, (refs, tags) in ways.items():
        text.append(
            f"<way id='{way}'>{''.join(f'<nd ref={chr(39)}{ref}{chr(39)}/>' for ref in refs)}{as_tags(tags)}</way>"
        )
    for lanelet, (left, right) in LANELETS.items():
        rules = "".join(
            f"<member type='relation' ref='{rule}' role='regulatory_element'/>"
            for rule, users in RULES.items()
            if lanelet in users and f"id='{rule}'" in relations
        )
        members = f"<member type='way' ref='{left}' role='left'/><member type='way' ref='{right}' role='right'/>{rules}"
        text.append(f"<relation id='{lanelet}'>{members}{as_tags(tags_of[lanelet])}</relation>")
    return "\n".join([*text, relations, "</osm>"])


def as_tags(tags):
    return "".join(f"<tag k='{key}' v='{value}'/>" for key, value in tags.items())


def rule(rule_id, subtype, members, **tags):
    return (
        f"<relation id='{rule_id}'>{members}"
        f"{as_tags({'type': 'regulatory_element', 'subtype': subtype} | tags)}</relation>"
    )


RULES = {300: (200, 202), 301: (202,), 302: (202, 200), 303: (200,)}


def read(tmp_path, text):
    (tmp_path / "map.osm").write_text(text)
    return read_lanelet2(tmp_path / "map.osm")


def test_lanes_follow_and_lie_beside_each_other(tmp_path):
    lanes = read(tmp_path, osm_of()).lanes

    assert {name: lane.ahead for name, lane in lanes.items()} == {
        "200": ("201",),
        "201": (),
        "202": ("203",),
        "203": (),
    }
    np.testing.assert_array_equal(lanes["200"].left_m, [[0, 4, 0], [10, 4, 0]])
    np.testing.assert_array_equal(lanes["203"].left_m, [[10, 0, 0], [20, 0, 0]])  # the way runs the other way
    np.testing.assert_array_equal(lanes["203"].centre_m, [[10, -2, 0], [20, -2, 0]])
    assert all(lane.is_in_junction is None for lane in lanes.values())


def test_lines_say_where_one_may_change(tmp_path):
    lanes = read(tmp_path, osm_of()).lanes

    assert (lanes["200"].change_right, lanes["202"].change_left) == ("202", "200")
    # dashed_solid lets one go to the right of a line; seen from lanes against which it runs, to the left
    assert (lanes["201"].change_right, lanes["203"].change_left) == (None, "201")

    forbidden = {**WAYS, 102: (WAYS[102][0], WAYS[102][1] | {"lane_change": "no"})}
    lanes = read(tmp_path, osm_of(ways=forbidden)).lanes
    assert (lanes["200"].change_right, lanes["202"].change_left) == (None, None)


@pytest.mark.parametrize(
    ("text", "limit_mps"), [("36", 10.0), ("36 km/h", 10.0), ("10 mph", 4.4704), ("12.5 m/s", 12.5), ("5mps", 5.0)]
)
def test_speed_limits_have_units(tmp_path, text, limit_mps):
    lanes = read(tmp_path, osm_of(lanelet_tags={200: {"speed_limit": text}})).lanes
    assert lanes["200"].speed_limit_mps == pytest.approx(limit_mps)
    assert lanes["202"].speed_limit_mps is None


def test_regulatory_elements_name_lights_signs_limits_and_who_goes_first(tmp_path):
    nodes = {**NODES, 10: (20, 6, 5), 11: (20, 7, 5), 12: (9, -5, 2), 13: (9.5, -5, 2)}
    ways = {
        **WAYS,
        110: ([10, 11], {"type": "traffic_light", "subtype": "red_yellow_green"}),
        111: ([12, 13], {"type": "traffic_sign", "subtype": "de206"}),
        112: ([5, 8], {"type": "stop_line"}),
    }
    relations = "\n".join(
        [
            rule(300, "speed_limit", "", sign_type="18 km/h"),
            rule(
                301,
                "traffic_sign",
                "<member type='way' ref='111' role='refers'/><member type='way' ref='112' role='ref_line'/>",
            ),
            rule(
                302,
                "right_of_way",
                "<member type='relation' ref='202' role='yield'/>"
                "<member type='relation' ref='200' role='right_of_way'/>",
            ),
            rule(303, "traffic_light", "<member type='way' ref='110' role='refers'/>"),
        ]
    )

    found = read(tmp_path, osm_of(nodes, ways, relations))
    own = read(tmp_path, osm_of(nodes, ways, relations, {200: {"speed_limit": "36"}}))

    assert own.lanes["200"].speed_limit_mps == pytest.approx(10.0)  # that of the lanelet comes first
    assert [found.lanes[name].speed_limit_mps for name in ("200", "201", "202")] == [5.0, None, 5.0]
    assert found.lanes["202"].controls == ("stop_sign-111", "stop_line-112")
    assert found.lanes["202"].yields_to == ("200",)
    faces = ("light-110-red", "light-110-yellow", "light-110-green")
    assert found.lanes["200"].controls == ("light-110", *faces)
    np.testing.assert_allclose(found.controls["light-110"].points_m, [[20, 6.5, 5]])
    assert found.controls["light-110-green"].kind == "signal_green_face"
    np.testing.assert_allclose(found.controls["stop_line-112"].points_m, [[10, 0, 0], [10, -4, 0]])
    np.testing.assert_allclose(found.controls["stop_sign-111"].points_m, [[9.25, -5, 2]])


def test_bulbs_are_faces_of_the_light_that_they_name(tmp_path):
    nodes = {**NODES, 10: (20, 6, 5), 11: (20, 7, 5), 12: (20, -6, 5), 13: (20, -7, 5)}
    light = {"type": "traffic_light", "subtype": "red_yellow_green"}
    ways = {**WAYS, 110: ([10, 11], light), 111: ([12, 13], light)}
    ways |= {120: ([10, 11], {"type": "light_bulbs", "traffic_light_id": 110})}
    ways |= {121: ([12, 13], {"type": "light_bulbs", "traffic_light_id": 111})}
    members = "".join(f"<member type='way' ref='{way}' role='refers'/>" for way in (110, 111))
    members += "".join(f"<member type='way' ref='{way}' role='light_bulbs'/>" for way in (120, 121))
    text = osm_of(nodes, ways, rule(303, "traffic_light", members))
    for node in (10, 11, 12, 13):
        text = text.replace(f"<node id='{node}' lat='' lon=''>", f"<node id='{node}'><tag k='color' v='red'/>")

    controls = read(tmp_path, text).controls

    assert controls["light-110"].parts == ("bulb-10", "bulb-11")
    assert controls["light-111"].parts == ("bulb-12", "bulb-13")


def test_crosswalks_two_way_lanes_and_lanelets_for_others(tmp_path):
    tags = {
        200: {"one_way": "no"},
        201: {"subtype": "bicycle_lane"},
        202: {"subtype": "crosswalk"},
        203: {"subtype": "walkway"},
    }
    found = read(tmp_path, osm_of(lanelet_tags=tags))

    assert list(found.lanes) == ["200", "200~back", "201"]
    assert (found.lanes["200"].ahead, found.lanes["200~back"].ahead) == (("201",), ())
    np.testing.assert_array_equal(found.lanes["200~back"].left_m, [[10, 0, 0], [0, 0, 0]])
    assert found.lanes["201"].access == "ONLY_BIKE"
    corners = found.controls["crosswalk-202"].points_m
    assert {tuple(corner) for corner in corners.tolist()} == {(0, 0, 0), (10, 0, 0), (10, -4, 0), (0, -4, 0)}
    assert found.left_out == ("1 lanelet of subtype 'walkway' left out, as semantic maps have none.",)


def test_junctions_are_where_lanelets_turn(tmp_path):
    lanes = read(tmp_path, osm_of(lanelet_tags={201: {"turn_direction": "left"}})).lanes
    assert [(lane.is_in_junction, lane.turn) for lane in lanes.values()] == [(False, ""), (True, "LEFT")] + 2 * [
        (False, "")
    ]


def test_latitudes_and_longitudes_become_metres(tmp_path):
    (tmp_path / "map.osm").write_text(osm_of(geodetic=True))
    import_map("lanelet2", tmp_path / "map.osm", tmp_path / "out", origin=(48.0, 11.0))

    semantic_map = opened_map(tmp_path / "out")
    left_m = semantic_map.get_lane_coords("200")["xyz_left"]
    np.testing.assert_allclose(left_m[:, 1], 4.0, atol=0.03)  # a degree of latitude has 111.2 km there
    np.testing.assert_allclose(left_m[1] - left_m[0], [10.08, 0, 0], atol=0.03)  # one of longitude 74.6 km
    origin_ecef_m = [*geodetic2ecef(48.0, 11.0, 0.0), 1.0]
    np.testing.assert_allclose(semantic_map.ecef_to_world @ origin_ecef_m, [0, 0, 0, 1], atol=1e-6)


def test_local_coordinates_are_placed_by_latitudes_and_longitudes(tmp_path):
    """Turned by a quarter and shifted: x of the file is south."""
    text = osm_of(geodetic=True)
    for node, (x, y) in NODES.items():
        local = f"<tag k='local_x' v='{100 - y * 1.0018}'/><tag k='local_y' v='{50 + x * 1.0077}'/>"
        text = re.sub(rf"(<node id='{node}' [^>]*>)", rf"\1{local}", text)

    found = read(tmp_path, text)

    ecef_m = found.world_to_ecef @ [100.0, 50.0, 0.0, 1.0]
    np.testing.assert_allclose(ecef_m[:3], geodetic2ecef(48.0, 11.0, 0.0), atol=0.1)
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("<nd ref='9'/>", "<nd ref='99'/>"), r"relation 203\): node 99 is not in the file"),
        (
            lambda text: text.replace("ref='105' role='right'", "ref='105' role='left'"),
            r"relation 203\): a lanelet must",
        ),
        (lambda text: text.replace("ref='104'", "ref='999'"), r"relation 202\): way 999 is not in the file"),
        (lambda text: text.replace("way id='101'", "way id='100'"), r"way 100\): this id is used twice"),
        (lambda text: text.replace("local_x' v='20'", "local_x' v='far'"), r"node 3\): could not convert"),
        (lambda text: text.replace("local_x' v='20'", "local_x' v='1e300'"), "node 3 must be finite and within"),
        (lambda text: text.replace("local_x' v='20'", "local_x' v='nan'"), "local_x must be a finite number"),
        (lambda text: text.replace("k='local_x'", "k='x'"), "nodes must have lat and lon"),
        (lambda text: text.replace("node id='3'", "node"), "it has no id"),
        (lambda text: text[: len(text) // 2], "cut off"),
        (lambda text: "<!DOCTYPE osm [<!ENTITY a 'b'>]>" + text, "DOCTYPE"),
        (lambda text: "<osm/>", "no nodes"),
        (lambda text: text.replace("subtype' v='road'", "subtype' v='stairs'"), "no lanelet for vehicles"),
        (
            lambda text: text.replace("'road'/>", "'road'/><tag k='speed_limit' v='fast'/>", 1),
            "speed_limit must be above",
        ),
    ],
)
def test_errors_name_the_element(tmp_path, change, message):
    text = osm_of()
    assert change(text) != text
    with pytest.raises(SourceDataError, match=message):
        read(tmp_path, change(text))


def test_an_import_replaces_imports_only(tmp_path):
    (tmp_path / "map.osm").write_text(osm_of())
    out = tmp_path / "out"
    import_map("lanelet2", tmp_path / "map.osm", out)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        import_map("lanelet2", tmp_path / "map.osm", out)
    import_map("lanelet2", tmp_path / "map.osm", out, overwrite=True)
    (out / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"mine\.txt"):
        import_map("lanelet2", tmp_path / "map.osm", out, overwrite=True)
    assert opened_map(out).arrays.num_lanes == 4


def test_an_encoding_that_nobody_knows_is_refused(tmp_path):
    (tmp_path / "map.osm").write_text("<?xml version='1.0' encoding='UT-8'?><osm/>")
    with pytest.raises(SourceDataError, match=r"map\.osm.*it has an unknown encoding: UT-8; write it as UTF-8"):
        read_lanelet2(tmp_path / "map.osm")
