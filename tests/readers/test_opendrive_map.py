"""OpenDRIVE maps written by hand: curves, widths, links and junctions, with values that one can work out."""

import numpy as np
import pytest
from scipy.integrate import quad

from l5kit.readers import SourceDataError, import_map, read_opendrive
from support.exchanged_maps import opened_map

LINE = "<geometry s='0' x='0' y='0' hdg='0' length='100'><line/></geometry>"
WIDTH = "<width sOffset='0' a='4' b='0' c='0' d='0'/>"


def lane(lane_id, *, width=WIDTH, links="", more="", kind="driving"):
    return f"<lane id='{lane_id}' type='{kind}'><link>{links}</link>{width}{more}</lane>"


def road(road_id, *, plan=LINE, links="", left="", right=None, junction=-1, before="", offset="", more=""):
    right = lane(-1) if right is None else right
    sections = (
        f"<laneSection s='0'><left>{left}</left><center><lane id='0' type='none'/></center><right>{right}</right>"
    )
    return (
        f"<road id='{road_id}' junction='{junction}'><link>{links}</link>{before}<planView>{plan}</planView>"
        f"<lanes>{offset}{sections}</laneSection></lanes>{more}</road>"
    )


def read(tmp_path, *content, header="<header/>"):
    (tmp_path / "map.xodr").write_text(f"<OpenDRIVE>{header}{''.join(content)}</OpenDRIVE>")
    return read_opendrive(tmp_path / "map.xodr")


def test_lanes_on_both_sides_of_a_line(tmp_path):
    found = read(tmp_path, road(7, left=lane(1) + lane(2), right=lane(-1)))

    lanes = found.lanes
    np.testing.assert_allclose(lanes["7.0.-1"].left_m, [[0, 0, 0], [100, 0, 0]], atol=1e-9)
    np.testing.assert_allclose(lanes["7.0.-1"].right_m, [[0, -4, 0], [100, -4, 0]], atol=1e-9)
    np.testing.assert_allclose(lanes["7.0.2"].left_m, [[100, 4, 0], [0, 4, 0]], atol=1e-9)  # against the road
    np.testing.assert_allclose(lanes["7.0.2"].right_m, [[100, 8, 0], [0, 8, 0]], atol=1e-9)
    assert (lanes["7.0.1"].change_right, lanes["7.0.2"].change_left) == ("7.0.2", "7.0.1")
    assert lanes["7.0.1"].change_left is None


def test_where_one_drives_on_the_left(tmp_path):
    text = road(7, left=lane(1)).replace("<road ", "<road rule='LHT' ")
    lanes = read(tmp_path, text).lanes
    np.testing.assert_allclose(lanes["7.0.1"].left_m, [[0, 4, 0], [100, 4, 0]], atol=1e-9)
    np.testing.assert_allclose(lanes["7.0.-1"].right_m, [[100, 0, 0], [0, 0, 0]], atol=1e-9)

    text = road(7, left=lane(1) + lane(2)).replace("<road ", "<road rule='LHT' ")
    lanes = read(tmp_path, text).lanes
    assert (lanes["7.0.1"].change_left, lanes["7.0.1"].change_right) == ("7.0.2", None)
    assert lanes["7.0.2"].change_right == "7.0.1"


def test_an_arc_is_a_circle(tmp_path):
    length_m = 50 * np.pi / 2
    plan = f"<geometry s='0' x='0' y='0' hdg='0' length='{length_m}'><arc curvature='0.02'/></geometry>"

    found = read(tmp_path, road(1, plan=plan)).lanes["1.0.-1"]

    np.testing.assert_allclose(found.left_m[-1], [50, 50, 0], atol=1e-9)
    np.testing.assert_allclose(found.right_m[-1], [54, 50, 0], atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(found.left_m[:, :2] - [0, 50], axis=1), 50, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(found.right_m[:, :2] - [0, 50], axis=1), 54, atol=1e-9)
    middles_m = 0.5 * (found.right_m[1:] + found.right_m[:-1])[:, :2] - [0, 50]
    assert np.abs(np.linalg.norm(middles_m, axis=1) - 54).max() < 0.01


@pytest.mark.parametrize(("start", "end"), [(0.0, 0.05), (0.05, 0.0), (-0.03, 0.04), (0.02, -0.06), (0.01, 0.01)])
def test_a_clothoid_is_the_integral_of_its_curvature(tmp_path, start, end):
    length_m, heading_rad = 40.0, 0.3
    plan = (
        f"<geometry s='0' x='10' y='-5' hdg='{heading_rad}' length='{length_m}'>"
        f"<spiral curvStart='{start}' curvEnd='{end}'/></geometry>"
    )

    found = read(tmp_path, road(1, plan=plan)).lanes["1.0.-1"]

    def heading_at(s):
        return heading_rad + start * s + 0.5 * (end - start) / length_m * s**2

    x, y = (quad(lambda s, f=f: f(heading_at(s)), 0.0, length_m, epsabs=1e-12)[0] for f in (np.cos, np.sin))
    np.testing.assert_allclose(found.left_m[-1], [10 + x, -5 + y, 0], atol=1e-9)
    right = np.array([np.sin(heading_at(length_m)), -np.cos(heading_at(length_m)), 0.0])
    np.testing.assert_allclose(found.right_m[-1], found.left_m[-1] + 4 * right, atol=1e-9)


@pytest.mark.parametrize(
    "curve",
    [
        "<poly3 a='0' b='0' c='0.001' d='0.0001'/>",
        "<paramPoly3 aU='0' bU='1' cU='0' dU='0' aV='0' bV='0' cV='0.001' dV='0.0001' pRange='arcLength'/>",
        "<paramPoly3 aU='0' bU='30' cU='0' dU='0' aV='0' bV='0' cV='0.9' dV='2.7' pRange='normalized'/>",
    ],
)
def test_polynomials_turn_with_their_start(tmp_path, curve):
    plan = f"<geometry s='0' x='1' y='2' hdg='{np.pi / 2}' length='30'>{curve}</geometry>"
    found = read(tmp_path, road(1, plan=plan)).lanes["1.0.-1"]
    # at u = 30, v = 0.001 * 30^2 + 0.0001 * 30^3 = 3.6; u is north and v is west
    np.testing.assert_allclose(found.left_m[-1], [1 - 3.6, 2 + 30, 0], atol=1e-9)


def test_widths_offsets_and_heights_are_polynomials(tmp_path):
    width = "<width sOffset='0' a='3' b='0' c='0' d='0'/><width sOffset='50' a='3' b='0.02' c='0.0004' d='0'/>"
    text = road(
        1,
        right=lane(-1, width=width),
        offset="<laneOffset s='0' a='1' b='0.01' c='0' d='0'/>",
        more="<elevationProfile><elevation s='0' a='5' b='0.1' c='0' d='0'/></elevationProfile>",
    )
    found = read(tmp_path, text).lanes["1.0.-1"]

    np.testing.assert_allclose(found.left_m[[0, -1]], [[0, 1, 5], [100, 2, 15]], atol=1e-9)
    # at 100 m: 2 - (3 + 0.02 * 50 + 0.0004 * 50^2) = -3
    np.testing.assert_allclose(found.right_m[[0, -1]], [[0, -2, 5], [100, -3, 15]], atol=1e-9)
    at_75_m = np.interp(75.0, found.right_m[:, 0], found.right_m[:, 1])
    assert at_75_m == pytest.approx(1.75 - (3 + 0.5 + 0.25), abs=0.005)


def test_a_road_is_tilted_about_its_line(tmp_path):
    tilt = "<lateralProfile><superelevation s='0' a='0.5' b='0' c='0' d='0'/></lateralProfile>"
    found = read(tmp_path, road(1, more=tilt)).lanes["1.0.-1"]
    np.testing.assert_allclose(found.left_m[0], [0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(found.right_m[0], [0, -4 * np.cos(0.5), -4 * np.sin(0.5)], atol=1e-9)


def test_limits_of_roads_are_those_at_the_start_of_a_section(tmp_path):
    before = "".join(f"<type s='{s}' type='town'><speed max='{limit}'/></type>" for s, limit in ((0, 10), (40, 20)))
    sections = "".join(f"<laneSection s='{s}'><right>{lane(-1)}</right></laneSection>" for s in (0, 40))
    text = f"<road id='1' junction='-1'>{before}<planView>{LINE}</planView><lanes>{sections}</lanes></road>"
    assert [each.speed_limit_mps for each in read(tmp_path, text).lanes.values()] == [10.0, 20.0]


def test_limits_of_lanes_come_before_those_of_roads(tmp_path):
    before = "<type s='0' type='town'><speed max='36' unit='km/h'/></type>"
    text = road(1, before=before, right=lane(-1, more="<speed sOffset='0' max='30' unit='mph'/>") + lane(-2))
    lanes = read(tmp_path, text).lanes
    assert lanes["1.0.-1"].speed_limit_mps == pytest.approx(13.4112)
    assert lanes["1.0.-2"].speed_limit_mps == pytest.approx(10.0)


def junction_map():
    """Road 1 along x into a junction: straight on over 10 to road 2, and left over 11 to the end of road 3."""
    to_junction = "<successor elementType='junction' elementId='5'/>"
    link = "<{} elementType='road' elementId='{}' contactPoint='{}'/>"
    ahead = LINE.replace("x='0'", "x='100'").replace("length='100'", "length='20'")
    turn = "<geometry s='0' x='100' y='0' hdg='0' length='31.41592653589793'><arc curvature='0.05'/></geometry>"
    both = "<predecessor id='-1'/><successor id='{}'/>"
    return [
        road(1, links=to_junction),
        road(2, plan=LINE.replace("x='0'", "x='120'"), links=link.format("predecessor", 10, "end"), right=lane(-1)),
        road(
            3,
            plan="<geometry s='0' x='120' y='90' hdg='-1.5707963267948966' length='70'><line/></geometry>",
            left=lane(1),
            right="",
        ),
        road(
            10,
            plan=ahead,
            junction=5,
            links=link.format("predecessor", 1, "end") + link.format("successor", 2, "start"),
            right=lane(-1, links=both.format(-1)),
        ),
        road(
            11,
            plan=turn,
            junction=5,
            links=link.format("predecessor", 1, "end") + link.format("successor", 3, "end"),
            right=lane(-1, links=both.format(1)),
        ),
        "<junction id='5'>"
        "<connection id='0' incomingRoad='1' connectingRoad='10' contactPoint='start'>"
        "<laneLink from='-1' to='-1'/></connection>"
        "<connection id='1' incomingRoad='1' connectingRoad='11' contactPoint='start'>"
        "<laneLink from='-1' to='-1'/></connection>"
        "<priority high='10' low='11'/></junction>",
    ]


def test_junctions_lead_from_roads_to_roads(tmp_path):
    lanes = read(tmp_path, *junction_map()).lanes

    assert {name: set(each.ahead) for name, each in lanes.items()} == {
        "1.0.-1": {"10.0.-1", "11.0.-1"},
        "2.0.-1": set(),
        "3.0.1": set(),
        "10.0.-1": {"2.0.-1"},
        "11.0.-1": {"3.0.1"},
    }
    assert [name for name, each in lanes.items() if each.is_in_junction] == ["10.0.-1", "11.0.-1"]
    assert lanes["11.0.-1"].yields_to == ("10.0.-1",)
    np.testing.assert_allclose(lanes["11.0.-1"].left_m[-1], lanes["3.0.1"].left_m[0], atol=1e-9)
    import_map("opendrive", tmp_path / "map.xodr", tmp_path / "out")
    assert set(opened_map(tmp_path / "out").get_lanes_ahead("1.0.-1")) == {"10.0.-1", "11.0.-1"}


def test_a_road_that_does_not_say_which_end_is_at_a_junction_leads_there_at_the_nearer_one(tmp_path):
    said = (
        "<successor elementType='junction' elementId='5'/>",
        "<predecessor elementType='road' elementId='1' contactPoint='end'/>",
    )
    text = "".join(junction_map())
    for link in said:
        assert link in text
        text = text.replace(link, "")
    lanes = read(tmp_path, text).lanes
    assert set(lanes["1.0.-1"].ahead) == {"10.0.-1", "11.0.-1"}


def test_sections_of_a_road_follow_each_other(tmp_path):
    to_second = "<successor id='-2'/>"
    first = f"<laneSection s='0'><right>{lane(-1, links=to_second)}</right></laneSection>"
    second = f"<laneSection s='40'><right>{lane(-1)}{lane(-2)}</right></laneSection>"
    text = f"<road id='1' junction='-1'><planView>{LINE}</planView><lanes>{first}{second}</lanes></road>"
    lanes = read(tmp_path, text).lanes
    assert lanes["1.0.-1"].ahead == ("1.1.-2",)
    np.testing.assert_allclose(lanes["1.0.-1"].left_m[-1], [40, 0, 0], atol=1e-9)
    np.testing.assert_allclose(lanes["1.1.-2"].left_m, [[40, -4, 0], [100, -4, 0]], atol=1e-9)


def test_signals_and_crosswalks(tmp_path):
    signals = (
        "<signals><signal s='95' t='-5' id='s1' dynamic='yes' orientation='+' zOffset='5' type='1000001' subtype='-1'/>"
        "<signal s='99' t='-5' id='s2' dynamic='no' orientation='+' zOffset='2' country='DE' type='206'/>"
        "<signal s='9' t='-5' id='s3' dynamic='no' orientation='+' zOffset='2' type='274'/></signals>"
    )
    objects = (
        "<objects><object type='crosswalk' id='o1' s='50' t='0' zOffset='0' hdg='0' length='4' width='8'/>"
        "<object type='tree' id='o2' s='50' t='9'/>"
        "<object type='crosswalk' id='o3' s='0' t='0' hdg='0'><outline><cornerRoad s='20' t='4' dz='0'/>"
        "<cornerRoad s='23' t='4' dz='0'/><cornerRoad s='23' t='-4' dz='0'/></outline></object></objects>"
    )
    found = read(tmp_path, road(1, left=lane(1), more=objects + signals))

    assert found.lanes["1.0.-1"].controls[0] == "signal-s1"
    assert found.lanes["1.0.-1"].controls[-1] == "signal-s2"
    assert found.lanes["1.0.1"].controls == ()
    assert found.controls["signal-s1"].parts == ("signal-s1-red", "signal-s1-yellow", "signal-s1-green")
    np.testing.assert_allclose(found.controls["signal-s1"].points_m, [[95, -5, 5]])
    corners = found.controls["crosswalk-1-o1"].points_m
    np.testing.assert_allclose(corners[:, :2], [[52, 4], [48, 4], [48, -4], [52, -4]], atol=1e-9)
    np.testing.assert_allclose(
        found.controls["crosswalk-1-o3"].points_m[:, :2], [[20, 4], [23, 4], [23, -4]], atol=1e-9
    )
    assert found.left_out[1:] == (
        "1 object of type 'tree' left out, as semantic maps have none.",
        "1 signal of type '274' left out, as semantic maps have none.",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (road(1).replace("length='100'", "length='1e9'"), r"road '1'\): geometry must have s and length"),
        (road(1).replace("length='100'", "length='nan'"), "finite number as length"),
        (road(1).replace("<line/>", "<loop/>"), "none of line, arc, spiral"),
        (road(1).replace("<line/>", "<arc curvature='1e9'/>"), "curvature of a arc is too great"),
        (road(1).replace("a='4'", "a='x'"), "width must have a finite number as a, got 'x'"),
        (road(1, right=lane(-1, width="<border sOffset='0' a='4' b='0' c='0' d='0'/>")), "has borders and no widths"),
        (road(1) + road(1), "two roads of this id"),
        (road(1, right=lane(-1, kind="sidewalk")), "no lane for vehicles"),
        (road(1, right=lane(-1, more="<speed sOffset='0' max='5' unit='knots'/>")), "unit of a speed must be"),
        ("<junction id='5'><connection id='0' incomingRoad='1' connectingRoad='9'/></junction>" + road(1), "road '9'"),
        (
            road(1, right=lane(-1, links="<successor id='x'/>")),
            r"road '1'\): successor must have a finite number as id",
        ),
        ("<road", "is no XML"),
    ],
)
def test_errors_name_the_road(tmp_path, content, message):
    with pytest.raises(SourceDataError, match=message):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("projection", "offset", "message"),
    [
        ("48.5", "<offset hdg='askew'/>", "offset must have a finite number as hdg"),
        ("4.8.5", "", "could not convert"),
        ("200", "", "geoReference must have lat_0 from -90 to 90 and lon_0 from -360 to 360, got 200 and 11"),
    ],
)
def test_errors_name_the_header(tmp_path, projection, offset, message):
    place = f"<geoReference>+proj=tmerc +lat_0={projection} +lon_0=11</geoReference>"
    with pytest.raises(SourceDataError, match=rf"header\): {message}"):
        read(tmp_path, road(1), header=f"<header>{place}{offset}</header>")


@pytest.mark.parametrize(
    ("length", "message"),
    [("nan", "road must have a finite number as length, got 'nan'"), ("-5", "length of a road must be at least 0 m")],
)
def test_a_length_that_is_none_is_refused(tmp_path, length, message):
    element = road(1).replace("<road ", f"<road length='{length}' ")
    with pytest.raises(SourceDataError, match=message):
        read(tmp_path, element)


def test_entities_are_refused(tmp_path):
    (tmp_path / "map.xodr").write_text("<!DOCTYPE a [<!ENTITY x 'y'>]><OpenDRIVE/>")
    with pytest.raises(SourceDataError, match="DOCTYPE"):
        read_opendrive(tmp_path / "map.xodr")


def test_the_projection_says_where_the_world_is(tmp_path):
    proj = "+proj=tmerc +lat_0=48.5 +lon_0=11.25 +k=1 +x_0=0 +y_0=0 +datum=WGS84"
    header = f"<header><geoReference><![CDATA[{proj}]]></geoReference></header>"
    found = read(tmp_path, road(1), header=header)
    np.testing.assert_allclose(np.degrees(np.arctan2(found.world_to_ecef[1, 3], found.world_to_ecef[0, 3])), 11.25)
    assert "projection" in read(tmp_path, road(1)).left_out[0]

    turned = header.replace("</header>", f"<offset x='10' y='20' z='0' hdg='{np.pi / 2}'/></header>")
    matrix = read(tmp_path, road(1), header=turned).world_to_ecef
    in_first = np.linalg.inv(found.world_to_ecef) @ matrix @ [1.0, 0.0, 0.0, 1.0]  # x of the file is north
    np.testing.assert_allclose(in_first, [10, 21, 0, 1], atol=1e-6)


def test_files_beyond_the_bound_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("l5kit.readers.opendrive_map._MOST_BYTES", 100)
    with pytest.raises(SourceDataError, match=r"but such a map has 100 at most; cut it"):
        read(tmp_path, road(1))
