"""The contract: what a reader may give, and what is refused with the name of the track, step or lane."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

from l5kit.errors import InvalidArgumentError
from l5kit.readers.joined_map import pack_map, unpack_map
from l5kit.readers.lane_groups import group_lanes
from l5kit.readers.map_writing import boundaries_of, turn_of
from l5kit.readers.motion import velocities_of
from l5kit.readers.parts import Part, write_part
from l5kit.readers.reader import SceneRef, SourceDataError, SourceInfo, naming_source
from l5kit.readers.scene_conversion import face_id, light_id, to_records, track_ids_of
from l5kit.readers.source_map import SourceArea, SourceLane, SourceMap, SourceSign, is_line, open_outline
from l5kit.readers.source_scene import SourceEgo, SourceLights, SourceScene, SourceTracks
from support.source_scenes import INFO, NUM_STEPS, line, made_map, made_scene

SCENE = made_scene()


def with_value(name, place, value):
    """The tracks of the scene with another value in one array."""
    array = getattr(SCENE.tracks, name).copy()
    array[place] = value
    return lambda: replace(SCENE.tracks, **{name: array})


def times(*changes):
    times_ns = SCENE.timestamps_ns.copy()
    for step, time_ns in changes:
        times_ns[step] = time_ns
    return lambda: replace(SCENE, timestamps_ns=times_ns)


START_NS = int(SCENE.timestamps_ns[0])
EGO = SCENE.ego
LANE = SourceLane("a", line((0, 0), (1, 0)))
REFUSED = {
    "track twice": (lambda: replace(SCENE.tracks, ids=("17", "17")), "track '17' occurs twice"),
    "track without id": (lambda: replace(SCENE.tracks, ids=("17", "")), "must be text that is not empty"),
    "a class less": (lambda: replace(SCENE.tracks, classes=("car",)), "there are 1 classes for 2 tracks"),
    "position": (with_value("positions_m", (1, 3, 0), np.nan), "positions_m of track '23', step 3 must be finite"),
    "heading": (with_value("yaws_rad", (0, 0), np.inf), "yaws_rad of track '17', step 0 must be finite"),
    "velocity": (with_value("velocities_mps", (0, 11, 1), np.nan), "velocities_mps of track '17', step 11"),
    "position far away": (
        with_value("positions_m", (1, 3, 0), 1e30),
        r"positions_m of track '23', step 3 must be finite and within 1e\+07 m, got \[1e\+30, ",
    ),
    "heading of many turns": (with_value("yaws_rad", (0, 2), 1e7), r"within 1e\+06 rad, got 10000000.0"),
    "speed": (with_value("velocities_mps", (0, 0, 0), -1001.0), r"within 1000 m/s, got \[-1001.0, 0.0\]"),
    "size of a mountain": (with_value("sizes_m", (0, 2), 101.0), "up to 100 m, got .4.5, 1.8, 101.0"),
    "track far from the AV": (
        lambda: replace(SCENE, tracks=with_value("positions_m", (0, 5, 1), 2e5)()),
        "track '17' must be within 100000 m of the first position of the AV, .* in step 5",
    ),
    "light far from the AV": (
        lambda: replace(SCENE, lights=replace(SCENE.lights, positions_m=np.array([[0.0, 2e5, 0.0]]))),
        "the light of lane 'in' must be finite and within 100000 m of",
    ),
    "track of no text": (lambda: replace(SCENE.tracks, ids=("17", "\ud800")), "can be written as UTF-8"),
    "track of a book": (lambda: replace(SCENE.tracks, ids=("17", "x" * 257)), "of 256 characters at most"),
    "time overflows": (times((11, 2**63 - 1)), "timestamps_ns must be from 1 to 9200000000000000000, got 92233"),
    "time before 1970": (times((0, -(2**63))), "timestamps_ns must be from 1 to"),
    "AV far away": (
        lambda: replace(EGO, positions_m=EGO.positions_m + [0.0, 1e30, 0.0]),
        r"within 1e\+07 m, got \[0.0, 1e\+30, 1.0\] in step 0",
    ),
    "AV of many turns": (lambda: replace(EGO, yaws_rad=EGO.yaws_rad - 1e9), r"within 1e\+06 rad, got -1000000000.0"),
    "AV as large as a mountain": (lambda: replace(EGO, size_m=np.array([4.0, 2.0, 1e3])), "above 0 and up to 100 m"),
    "AV that leaps away": (
        lambda: replace(SCENE, ego=replace(EGO, positions_m=EGO.positions_m + np.eye(NUM_STEPS)[:, 3:6] * 2e5)),
        "positions_m of the AV, number 3, must be finite and within 100000 m of",
    ),
    "AV that leaps": (
        lambda: replace(SCENE, ego=replace(EGO, positions_m=EGO.positions_m + np.eye(NUM_STEPS)[:, 3:6] * 20)),
        r"must be reached with 150 m/s at most, got 210 m/s from \[2.0, 0.0, 1.0\] to \[23.0, .* in step 3",
    ),
    "size that records have no number for": (with_value("sizes_m", (0, 2), 1e-60), "above 0 and up to 100 m"),
    "lane far away": (
        lambda: replace(LANE, left_m=line((0, 0), (1e30, 0))),
        r"left_m of lane 'a', number 1, must be finite and within 1e\+07 m of 0, got \[1e\+30, 0.0, 1.0\]",
    ),
    "lane far from the AV": (
        lambda: replace(SCENE, map=SourceMap("town", (replace(LANE, right_m=line((0, 0), (2e5, 0))),))),
        r"right_m of lane 'a' of map 'town', number 1, must be finite and within 100000 m of \[0.0, 0.0, 1.0\], got "
        r"\[200000.0, 0.0, 1.0\]",
    ),
    "area far away": (lambda: SourceArea("1", "walkway", line((0, 0), (1e8, 0), (1, 1))), r"walkway '1', number 1"),
    "sign far away": (lambda: SourceSign("1", np.array([0.0, 0.0, 1e8])), r"sign '1' must be .* 1e\+07 m"),
    "lane of no text": (lambda: SourceMap("town", (replace(LANE, lane_id="a\0"),)), "the id of a lane must be text"),
    "size": (with_value("sizes_m", (1, 2), 0.0), "sizes_m of track '23' must be finite, above 0 and up to 100 m, got"),
    "numbers for bools": (lambda: replace(SCENE.tracks, is_valid=np.ones((2, 12))), "is_valid must be bool"),
    "a step less": (lambda: replace(SCENE.tracks, yaws_rad=np.zeros((2, 11))), "shapes do not fit"),
    "a target less": (lambda: replace(SCENE.tracks, is_target=np.array([True])), "shapes do not fit"),
    "equal times": (
        times((4, START_NS + 300_000_000)),
        "step 4 is at 1500000000300000000 ns after 1500000000300000000",
    ),
    "times backwards": (times((4, START_NS)), "times must ascend, but step 4"),
    "times that nearly stand": (times((4, START_NS + 300_000_999)), "1000000 ns apart at least, but step 4 is 999 ns"),
    "no step": (lambda: replace(SCENE, timestamps_ns=np.zeros(0, np.int64)), "with a step at least"),
    "times in seconds": (lambda: replace(SCENE, timestamps_ns=np.arange(12.0)), "must be int64"),
    "other lengths": (lambda: replace(SCENE, lights=SourceLights.none(11)), r"\(12, 12, 11\) steps, but there are 12"),
    "AV nowhere": (
        lambda: replace(EGO, positions_m=EGO.positions_m + np.nan),
        "of the AV must be finite and within 1e.07 m, got .nan, nan, nan. in step 0",
    ),
    "AV without size": (lambda: replace(EGO, size_m=np.array([4.0, 0.0, 1.0])), "size_m of the AV must be above 0"),
    "light twice": (
        lambda: SourceLights(("a", "a"), np.zeros((2, 3), np.uint8), np.zeros((2, 3))),
        "lane 'a' has two lights",
    ),
    "state of a light": (lambda: SourceLights(("a",), np.full((1, 3), 5), np.zeros((1, 3))), "got 5"),
    "lane without course": (lambda: SourceLane("a", line((1, 1))), "centre_m of lane 'a' must have shape"),
    "lane of one place": (lambda: SourceLane("a", line((1, 1), (1, 1))), "have two points apart"),
    "boundary that is none": (lambda: replace(LANE, left_m=np.zeros((4, 2))), "left_m of lane 'a'"),
    "limit of nothing": (lambda: replace(LANE, speed_limit_mps=0.0), "speed_limit_mps of lane 'a' must be above 0"),
    "kind of lane": (lambda: replace(LANE, kind="tram"), "kind of lane 'a' must be one of"),
    "area of two corners": (lambda: SourceArea("1", "crosswalk", line((0, 0), (1, 0))), "n at least 3"),
    "kind of area": (lambda: SourceArea("1", "pond", line((0, 0), (1, 0), (1, 1))), "kind of area '1'"),
    "sign nowhere": (lambda: SourceSign("1", np.array([0.0, np.nan, 0.0])), "position_m of sign '1'"),
    "lane twice": (lambda: SourceMap("town", (LANE, LANE)), "the map has lane 'a' twice"),
    "map without a name": (lambda: SourceMap(""), "the name of a map"),
    "label": (lambda: replace(INFO, label_mapping={"car": "CAR"}), "got 'CAR' for 'car'"),
    "step time": (lambda: replace(INFO, step_time_s=0.0), "step_time_s must be above 0"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make()


def test_what_is_not_seen_may_hold_anything_and_nobody_need_be_there():
    assert np.isnan(SCENE.tracks.positions_m[1, 4:7]).all()
    empty = replace(SCENE, tracks=SourceTracks.none(NUM_STEPS), lights=SourceLights.none(NUM_STEPS))
    assert empty.tracks.ids == ()
    one_step = SourceScene(
        "one", START_NS + np.zeros(1, np.int64), SourceEgo(np.zeros((1, 3)), np.zeros(1), np.ones(3)),
        SourceTracks.none(1), SourceLights.none(1), SourceMap("town"),
    )  # fmt: skip
    assert len(one_step.timestamps_ns) == 1


def test_info_and_errors_are_the_same_after_pickling():
    assert pickle.loads(pickle.dumps(INFO)) == INFO
    assert isinstance(INFO, SourceInfo)
    with pytest.raises(TypeError):
        INFO.label_mapping["car"] = "PERCEPTION_LABEL_BUS"
    error = pickle.loads(pickle.dumps(SourceDataError("a.bin", "record 3", "it is short")))
    assert (error.file, error.record, error.problem) == ("a.bin", "record 3", "it is short")
    assert str(error) == "a.bin (record 3): it is short"
    assert sorted([SceneRef("val", "b", "f"), SceneRef("train", "z", "f"), SceneRef("val", "a", "g")])[1].name == "a"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("not a number"), "a.json (row 2): not a number"),
        (KeyError("city"), "a.json (row 2): KeyError: 'city'"),
        (InvalidArgumentError("too long"), "a.json (row 2): too long"),
        (SourceDataError("b.json", "", "told already"), "b.json: told already"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_get_the_names_of_file_and_record(error, message):
    with pytest.raises(SourceDataError, match=re.escape(message)), naming_source("a.json", "row 2"):
        raise error


def test_a_disk_that_fails_is_no_fault_of_the_file():
    with pytest.raises(OSError, match="no space") as caught, naming_source("a.json"):
        raise OSError("no space")
    assert not isinstance(caught.value, SourceDataError)


def test_a_map_is_the_same_after_it_was_packed():
    left = replace(made_map().lanes[0], left_m=line((-50, 2), (50, 2)), left_neighbour="beside")
    limited = replace(made_map().lanes[1], speed_limit_mps=np.float64(8.0), successors=(np.str_("beside"),))
    given = SourceMap("town", (left, limited, *made_map().lanes[2:]), made_map().areas, made_map().signs)
    found = unpack_map(pack_map(given))
    assert pack_map(found) == pack_map(given)
    assert len(list(found.lines())) == len(list(given.lines()))
    assert all(np.array_equal(a, b) for (*_, a), (*_, b) in zip(found.lines(), given.lines(), strict=True))
    assert (found.lanes[1].speed_limit_mps, found.lanes[1].successors) == (8.0, ("beside",))
    assert found.lanes[0].right_m is None
    assert np.array_equal(found.lanes[0].left_m, left.left_m)
    assert (found.lanes[0].left_neighbour, found.signs[0].lane_ids) == ("beside", ("beside",))


def test_names_that_are_texts_of_numpy_are_the_same_after_a_part_was_written(tmp_path):
    ref = SceneRef(np.str_("train"), np.str_("a"), "a.csv")
    scene = made_scene("a", ids=(np.str_("17"), np.str_("man")), remarks=(np.str_("It rains."), "A \ud800."))
    write_part(tmp_path / "a.npz", ref, scene, to_records(scene, INFO))
    head = Part(tmp_path / "a.npz").head_if_whole(ref)
    assert head is not None
    assert (head.ref, head.remarks, set(head.track_ids.values())) == (ref, ["It rains.", "A \\ud800."], {"17", "man"})


def test_what_is_cut_out_of_an_area_is_near_the_av_too():
    outline_m = np.array([(0.0, 0.0, 0.0), (9.0, 0.0, 0.0), (9.0, 9.0, 0.0)])
    area = SourceArea("a", "drivable_area", outline_m, (outline_m / 3, outline_m + 2e5))
    with pytest.raises(InvalidArgumentError, match=r"holes_m of drivable_area 'a' of map 'town', number 0, must be"):
        SourceMap("town", areas=(area,)).require_near(np.zeros(3))


@pytest.mark.parametrize(
    ("corners", "num_corners"),
    [
        ([(0, 0), (4, 0), (4, 4)], 3),
        ([(0, 0), (4, 0), (4, 4), (0, 0)], 3),
        ([(0, 0), (4, 0), (0, 0)], None),
        ([(0, 0), (4, 0)], None),
        ([(1, 1), (1, 1), (1, 1), (1, 1)], None),
        ([], None),
    ],
    ids=["open", "closed", "there and back", "two corners", "one place", "none"],
)
def test_outlines_are_open_and_have_an_area(corners, num_corners):
    outline_m = open_outline(np.array([(*corner, 0.0) for corner in corners], np.float64).reshape(-1, 3))
    assert num_corners == (None if outline_m is None else len(outline_m))


@pytest.mark.parametrize(
    ("ids", "numbers"),
    [
        (("17", "4"), [17, 4]),
        (("17", "AV"), [1, 2]),
        (("1", "01"), [1, 2]),
        (("0", "5"), [1, 2]),
        ((str(2**63), "1"), [1, 2]),
        ((str(2**63 - 1), "1"), [2**63 - 1, 1]),
        (("²", "1"), [1, 2]),
        ((), []),
    ],
    ids=repr,
)
def test_ids_that_are_numbers_are_kept_and_others_numbered(ids, numbers):
    assert track_ids_of(ids).tolist() == numbers


def test_ids_of_lights_fit_into_records_and_differ_by_map_and_lane():
    ids = {light_id(town, lane) for town in ("a", "ab") for lane in ("b", "", "c" * 99)}
    assert len(ids) == 6
    assert {len(each) for each in ids} == {13}
    assert face_id("a", "b", "green") == f"{light_id('a', 'b')}-g"


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (np.zeros((0, 3)), False),
        (np.zeros((2, 3)), False),
        (line((0, 0), (0.02, 0)), True),
        (line((0, 0), (5, 0), (0, 0)), True),
        (line((0, 0), (np.nan, 0)), False),
        (np.zeros((2, 2)), False),
        (None, False),
    ],
)
def test_a_line_has_two_places(points, expected):
    assert is_line(points) is expected


def test_velocities_are_differences_over_the_neighbours_that_are_seen():
    times_ns = np.array([0, 500, 1000, 1500, 2000, 2500]) * 1_000_000
    positions_m = np.array([[[0.0, 0.0], [1.0, 0.0], [3.0, 1.0], [np.nan, np.nan], [9.0, 1.0], [np.nan, 0.0]]])
    is_valid = np.array([[True, True, True, False, True, False]])
    found = velocities_of(positions_m, is_valid, times_ns)
    assert found.tolist() == [[[2, 0], [3, 1], [4, 2], [0, 0], [0, 0], [0, 0]]]


def turning(angle_rad, *, radius_m=10.0):
    angles = np.linspace(0.0, angle_rad, 20)
    side = np.sign(angle_rad)
    return line(*zip(radius_m * np.sin(abs(angles)), side * radius_m * (1 - np.cos(angles)), strict=True))


TURNS = {20: "THROUGH", -20: "THROUGH", 90: "LEFT", -90: "RIGHT", 125: "SHARP_LEFT", -125: "SHARP_RIGHT", 175: "U_TURN"}


@pytest.mark.parametrize(("degrees", "expected"), TURNS.items())
def test_turns_are_told_by_how_far_the_course_turns(degrees, expected):
    assert turn_of(SourceLane("a", turning(np.radians(degrees)), is_in_junction=True)) == expected


def test_unknown_boundaries_lie_half_a_usual_width_beside_the_centre():
    left_m, right_m = boundaries_of(SourceLane("a", turning(np.pi / 2, radius_m=20.0), kind="bike"))
    middle_m = np.array([0.0, 20.0])
    assert np.allclose(np.linalg.norm(left_m[1:-1, :2] - middle_m, axis=1), 20.0 - 0.75, atol=0.02)
    assert np.allclose(np.linalg.norm(right_m[1:-1, :2] - middle_m, axis=1), 20.0 + 0.75, atol=0.02)
    with_repeat = SourceLane("a", line((0, 0), (0, 0), (10, 0)), left_m=line((0, 1), (10, 1)))
    left_m, right_m = boundaries_of(with_repeat)
    assert left_m.tolist() == [[0, 1, 1], [10, 1, 1]]
    assert right_m.tolist() == [[0, -1.75, 1], [10, -1.75, 1]]


def straight(lane_id, **fields):
    return SourceLane(lane_id, line((0, 0), (1, 0)), **fields)


def groups_of(*lanes):
    known = {lane.lane_id: lane for lane in lanes}
    followers = {lane.lane_id: [name for name in lane.successors if name in known] for lane in lanes}
    return {(group.lanes, group.is_junction) for group in group_lanes(known, followers)}


def test_lanes_side_by_side_are_one_road_from_left_to_right():
    lanes = [
        straight("c", left_neighbour="b"),
        straight("a", right_neighbour="b"),
        straight("b", left_neighbour="a", right_neighbour="c", successors=("d",)),
        straight("d"),
        straight("e", left_neighbour="gone"),
    ]
    assert groups_of(*lanes) == {(("a", "b", "c"), False), (("d",), False), (("e",), False)}


def test_a_lane_is_left_of_another_also_where_only_one_of_them_tells():
    assert groups_of(straight("b"), straight("a", right_neighbour="b")) == {(("a", "b"), False)}
    assert groups_of(straight("b", left_neighbour="a"), straight("a")) == {(("a", "b"), False)}


def test_lanes_with_other_limits_are_roads_of_their_own():
    lanes = [straight("a", right_neighbour="b", speed_limit_mps=10.0), straight("b", speed_limit_mps=20.0)]
    assert groups_of(*lanes) == {(("a",), False), (("b",), False)}


def test_a_lane_of_an_intersection_and_one_of_a_road_beside_it_are_apart():
    lanes = [straight("a", right_neighbour="b", is_in_junction=True), straight("b", left_neighbour="a")]
    assert groups_of(*lanes) == {(("a",), True), (("b",), False)}


def test_lanes_that_part_or_meet_in_an_intersection_are_one_junction():
    inside = {"is_in_junction": True}
    lanes = [
        straight("from", successors=("left", "through")),
        straight("left", successors=("out",), **inside),
        straight("through", successors=("away",), **inside),
        straight("other", successors=("out",), **inside),
        straight("out"),
        straight("away"),
        straight("elsewhere", **inside),
    ]
    junctions = {frozenset(names) for names, is_junction in groups_of(*lanes) if is_junction}
    assert junctions == {frozenset(("left", "through", "other")), frozenset(("elsewhere",))}
