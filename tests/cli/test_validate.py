"""``l5kit validate``."""

import json
import re
import shutil

import numpy as np
import pytest

from l5kit.data import FRAME_DTYPE, SCENE_DTYPE, ChunkedDataset, LogFacts, MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.evaluation.driving.map_checks import check_log_on_map, check_map
from l5kit.lanes.driving_map import build_driving_map
from support.maps import WORLD_TO_ECEF


def zarr_of(city):
    return city / "scenes" / "sample.zarr"


def test_a_whole_dataset_has_no_findings(l5kit, city):
    done = l5kit("validate", city)
    assert done.exit_code == 0
    assert "nothing wrong found" in done.stdout


def test_a_whole_dataset_has_no_findings_in_json(l5kit, city):
    done = l5kit("validate", city, "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {"dataset": str(zarr_of(city)), "findings": []}


def truncate(folder):
    chunk = folder / "agents" / "0"
    chunk.write_bytes(chunk.read_bytes()[:1000])


def remove_chunk(folder):
    (folder / "frames" / "0").unlink()


def remove_array(folder):
    shutil.rmtree(folder / "scenes")


def turn_interval_around(folder):
    frames = ChunkedDataset(str(folder)).open("r+").frames
    frame = frames[5]
    frame["agent_index_interval"] = frame["agent_index_interval"][::-1].copy()
    frames[5] = frame


@pytest.mark.parametrize("array", ["scenes", "frames", "agents", "traffic_light_faces"])
def test_parts_of_a_log_that_has_changed_since_are_not_taken(l5kit, city_copy, tmp_path, array):
    checked = ("validate", city_copy, "--job", tmp_path / "job")
    assert l5kit(*checked).exit_code == 0
    assert l5kit(*checked).exit_code == 0
    chunk = zarr_of(city_copy) / array / "0"
    chunk.write_bytes(chunk.read_bytes() + b"more")
    refused = l5kit(*checked)
    assert refused.exit_code == 1
    assert "which belongs to another job: data differ" in refused.stderr


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        pytest.param(truncate, "agents", id="truncated chunk"),
        pytest.param(remove_chunk, "frames", id="missing chunk"),
        pytest.param(remove_array, "scenes", id="missing array"),
        pytest.param(turn_interval_around, "5", id="interval turned around"),
    ],
)
def test_damage_is_found_with_exit_status_1(l5kit, city_copy, damage, seen):
    damage(zarr_of(city_copy))
    as_json, as_text = l5kit("validate", city_copy, "--json"), l5kit("validate", city_copy)
    assert (as_json.exit_code, as_text.exit_code) == (1, 1)
    findings = json.loads(as_json.stdout)["findings"]
    assert any(finding["severity"] == "error" and seen in str(finding) for finding in findings)
    assert "error" in as_text.stdout
    assert "Traceback" not in as_text.stderr + as_json.stderr


def test_a_changed_file_is_found_by_its_digest_only(l5kit, city_copy, tmp_path):
    digests = tmp_path / "digests.json"
    assert l5kit("info", city_copy, "--checksums", digests).exit_code == 0
    frames = ChunkedDataset(str(zarr_of(city_copy))).open("r+").frames
    frame = frames[3]
    frame["ego_translation"] += np.array([0.01, 0.0, 0.0])
    frames[3] = frame
    assert l5kit("validate", city_copy).exit_code == 0
    done = l5kit("validate", city_copy, "--checksums", digests, "--json")
    assert done.exit_code == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["check"] == "checksum"
    assert finding["file"].endswith("frames/0")


BAD_DIGESTS = {
    "no JSON": b"{",
    "a list": b"[1, 2]",
    "a number": b'{"agents/0": 7}',
    "a nest": b"[" * 50_000,
    "no UTF-8": b'{"agents/0": "\xff"}',
    "a folder": None,
}


@pytest.mark.parametrize("content", BAD_DIGESTS.values(), ids=BAD_DIGESTS.keys())
def test_a_list_of_digests_that_is_none_is_an_error(l5kit, city, tmp_path, content):
    if content is None:
        (tmp_path / "digests.json").mkdir()
    else:
        (tmp_path / "digests.json").write_bytes(content)
    done = l5kit("validate", city, "--checksums", tmp_path / "digests.json")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "--checksums" in done.stderr
    assert "digests.json" in done.stderr
    assert "unexpected" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_list_of_digests_may_begin_with_a_byte_order_mark(l5kit, city, tmp_path):
    digests = tmp_path / "digests.json"
    assert l5kit("info", city, "--checksums", digests).exit_code == 0
    digests.write_bytes(b"\xef\xbb\xbf" + digests.read_bytes())
    assert l5kit("validate", city, "--checksums", digests).exit_code == 0


def empty_map(city):
    file = city / "semantic_map" / "semantic_map.pb"
    file.write_bytes(b"")
    return file


def break_map(city):
    file = city / "semantic_map" / "semantic_map.pb"
    file.write_bytes(file.read_bytes()[:10_000])
    return file


def break_meta(city):
    (city / "meta.json").write_text('{"world_to_ecef": 1')
    return city / "meta.json"


def break_aerial(city):
    file = city / "aerial_map" / "aerial_map.png"
    file.write_bytes(b"no picture")
    return file


@pytest.mark.parametrize(
    ("damage", "check"),
    [(break_map, "map"), (empty_map, "map"), (break_meta, "meta"), (break_aerial, "aerial")],
    ids=["map", "empty map", "meta", "aerial"],
)
def test_files_that_lie_with_the_log_are_checked(l5kit, city_copy, damage, check):
    file = damage(city_copy)
    done = l5kit("validate", city_copy, "--json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert done.exit_code == 1
    assert (finding["severity"], finding["check"], finding["file"]) == ("error", check, str(file))
    assert str(file) in finding["message"]


def test_a_log_alone_has_no_findings(l5kit, city_copy):
    for name in ("semantic_map", "aerial_map"):
        shutil.rmtree(city_copy / name)
    (city_copy / "meta.json").unlink()
    assert l5kit("validate", city_copy).exit_code == 0


def made_map(folder, lanes, *, junction=()):
    """A map of straight lanes: start and end along x, the lanes after each, and the position of its light."""
    builder = MapBuilder(WORLD_TO_ECEF)
    for name, (ends_m, after, light_m) in lanes.items():
        controls = []
        if light_m is not None:
            controls = [f"light {name}", f"face {name}"]
            builder.add_traffic_light(controls[0], np.array([light_m, 0.0, 5.0]), faces=controls[1:])
            builder.add_traffic_light_face(controls[1], "signal_red_face")
        left_m, right_m = (np.array([(x, y, 0.0) for x in ends_m]) for y in (2.0, -2.0))
        parent = "junction" if name in junction else None
        builder.add_lane(name, left_m, right_m, lanes_ahead=after, traffic_controls=controls, parent=parent)
    if junction:
        builder.add_junction("junction", lanes=junction)
    builder.save(folder / "map.pb")
    return MapAPI(str(folder / "map.pb"), WORLD_TO_ECEF)


WEST, INSIDE, TURN = (0.0, 50.0), (50.0, 70.0), (50.0, 69.0)


@pytest.mark.parametrize(
    ("lanes", "junction", "expected"),
    [
        pytest.param({"a": (WEST, ["b"], 50.0), "b": (INSIDE, [], None)}, (), [], id="line at the end"),
        pytest.param({"a": (WEST, ["b"], None), "b": (INSIDE, [], 50.0)}, (), [], id="line at the start"),
        pytest.param({"a": (WEST, [], 50.0)}, (), ["1 of 1 lanes with .*, such as 'a'"], id="nothing behind the line"),
        pytest.param({"b": (INSIDE, [], 51.0)}, (), ["1 of 1 lanes with .*, such as 'b'"], id="nothing before it"),
        pytest.param(
            {"a": (WEST, ["b", "c"], 50.0), "b": (INSIDE, [], None), "c": (TURN, [], None)},
            (),
            ["no lane is part of a junction, although lanes fork or merge 1 times"],
            id="no junction",
        ),
        pytest.param(
            {"a": (WEST, ["b", "c"], 50.0), "b": (INSIDE, [], None), "c": (TURN, [], None)}, ["b"], [], id="a junction"
        ),
    ],
)
def test_maps_whose_lights_hold_nobody_and_without_junctions(tmp_path, lanes, junction, expected):
    findings = check_map(made_map(tmp_path, lanes, junction=junction))
    assert len(findings) == len(expected)
    for finding, text in zip(findings, expected, strict=True):
        assert finding.severity == "warning"
        assert re.match(text, finding.message)


def test_warnings_about_a_map_are_findings_of_the_dataset(l5kit, city_copy):
    made_map(city_copy / "semantic_map", {"b": (INSIDE, [], 51.0)})
    (city_copy / "semantic_map" / "map.pb").replace(city_copy / "semantic_map" / "semantic_map.pb")
    done = l5kit("validate", city_copy, "--json")
    assert done.exit_code == 1
    finding, *of_scenes = json.loads(done.stdout)["findings"]
    assert (finding["severity"], finding["check"]) == ("warning", "map: stop lines")
    assert finding["file"].endswith("semantic_map.pb")
    assert {finding["check"] for finding in of_scenes} == {"map: route off lanes", "map: drivable area"}


def lanes_at(*, y_m=0.0, width_m=4.0, x_m):
    """Boundaries of a lane along x."""
    return tuple(np.array([(x, y_m + side * width_m / 2, 0.0) for x in x_m]) for side in (1, -1))


def fault_map(folder, fault):
    """A road of two lanes of 50 m one after the other, with one fault; without one it has no finding."""
    builder = MapBuilder(WORLD_TO_ECEF)
    first, second = lanes_at(x_m=(0.0, 50.0)), lanes_at(x_m=(50.0, 100.0))
    if fault == "gap":
        second = lanes_at(x_m=(52.0, 100.0))
    elif fault in ("narrow", "wide"):
        second = lanes_at(x_m=(50.0, 100.0), width_m=0.8 if fault == "narrow" else 12.0)
    elif fault == "sides":
        second = second[::-1]
    elif fault == "overlap":
        second = lanes_at(x_m=(49.5, 100.0))
    elif fault == "junction":  # which no road leads to
        second = lanes_at(x_m=(200.0, 250.0))
    elif fault == "oncoming":
        second = lanes_at(x_m=(70.0, 51.0))[::-1]
    lights = []
    if fault in ("faces", "lit"):
        lights = ["light", "face"][: 1 + (fault == "lit")]
        builder.add_traffic_light("light", np.array([50.0, 3.0, 5.0]), faces=lights[1:])
    if fault == "lit":
        builder.add_traffic_light_face("face", "signal_red_face")
    ahead = [] if fault in ("dead end", "overlap", "oncoming", "junction") else ["second"]
    builder.add_lane("first", *first, lanes_ahead=ahead, traffic_controls=lights, parent="road")
    builder.add_lane("second", *second, parent="junction" if fault == "junction" else "next road")
    if fault == "junction":
        builder.add_junction("junction", lanes=["second"])
    limits_mps = {"no limit": (10.0, 0.0), "fast": (90.0, 90.0)}.get(fault, (10.0, 10.0))
    for name, x_m, limit_mps in (("road", (0.0, 50.0), limits_mps[0]), ("next road", (50.0, 100.0), limits_mps[1])):
        builder.add_segment(name, np.array([(x, 0.0, 0.0) for x in x_m]), speed_limit_mps=limit_mps)
    builder.save(folder / "map.pb")
    return MapAPI(str(folder / "map.pb"), WORLD_TO_ECEF)


@pytest.mark.parametrize(
    ("fault", "check", "text"),
    [
        pytest.param("dead end", "dead ends", "1 of 2 lanes have no successor .*, such as 'first'", id="dead end"),
        pytest.param("overlap", "dead ends", "1 of 2 lanes have no successor .*, such as 'first'", id="begins before"),
        pytest.param("gap", "gaps", "1 of 1 successors .* such as 'second' after 'first', by 2.0 m", id="gap"),
        pytest.param("narrow", "widths", "1 of 2 lanes are narrower than 1 m, such as 'second' .* 0.80 m", id="narrow"),
        pytest.param("wide", "widths", "1 of 2 lanes are wider than 10 m, such as 'second' .* 12.00 m", id="wide"),
        pytest.param(
            "sides", "sides", "1 of 2 lanes have their left boundary on the right, such as 'second'", id="sides"
        ),
        pytest.param("faces", "light faces", "1 of 1 lanes with a traffic light list no face", id="no face"),
        pytest.param(
            "no limit", "speed limits", "1 of 2 lanes outside of .* the limit 0.*, such as 'second'", id="limit of 0"
        ),
        pytest.param("fast", "speed limits", "2 lanes have a limit below 1 or above 70 m/s, .* 90:", id="large limit"),
    ],
)
def test_each_fault_of_a_map_is_one_finding(tmp_path, fault, check, text):
    (finding,) = check_map(fault_map(tmp_path, fault))
    assert (finding.severity, finding.check) == ("warning", f"map: {check}")
    assert re.match(text, finding.message)


@pytest.mark.parametrize(
    "fault", [None, "lit", "oncoming", "junction"], ids=["no light", "a light", "oncoming lane ahead", "junction"]
)
def test_a_map_without_faults_has_no_findings(tmp_path, fault):
    assert check_map(fault_map(tmp_path, fault)) == []


def log_of_drives(*tracks_m):
    """A log of the AV along tracks of x and y, each heading east, 10 m/s at 10 Hz."""
    intervals = np.cumsum([0, *map(len, tracks_m)])
    scenes, frames = np.zeros(len(tracks_m), SCENE_DTYPE), np.zeros(intervals[-1], FRAME_DTYPE)
    scenes["frame_index_interval"] = np.stack([intervals[:-1], intervals[1:]], axis=1)
    frames["ego_translation"][:, :2] = np.concatenate(tracks_m)
    frames["ego_rotation"] = np.eye(3)
    return ChunkedDataset.in_memory(scenes=scenes, frames=frames)


def test_scenes_that_leave_all_lanes_or_the_drivable_area_are_findings(tmp_path):
    x_m = np.arange(10.0, 90.0)
    on_road = np.stack([x_m, np.zeros(80)], axis=1)
    beside = on_road.copy()
    beside[30:, 1] = 1.5  # 0.4 m of the car are off the road, whose lane still holds its middle
    away = on_road.copy()
    away[40:60, 1] = 6.0
    driving_map = build_driving_map(fault_map(tmp_path, None))
    findings = list(check_log_on_map(log_of_drives(on_road, beside, away), driving_map, facts=LogFacts()))
    assert [(finding.scene, finding.check) for finding in findings] == [
        (1, "map: drivable area"),
        (2, "map: route off lanes"),
        (2, "map: drivable area"),
    ]
    assert "in 50 of 80 frames, starting at frame 30 of the scene" in findings[0].message
    assert "on no lane for 2.0 s of 8.0 s, starting at frame 40 of the scene" in findings[1].message
    assert "in 20 of 80 frames, starting at frame 40 of the scene" in findings[2].message


def test_a_log_that_leaves_its_map_is_a_finding_of_the_dataset(l5kit, city_copy):
    frames = ChunkedDataset(str(zarr_of(city_copy))).open("r+").frames
    moved = frames[:]
    moved["ego_translation"][:, 1] += 5_000.0
    frames[:] = moved
    done = l5kit("validate", city_copy, "--json")
    findings = json.loads(done.stdout)["findings"]
    assert done.exit_code == 1
    assert {finding["check"] for finding in findings} == {"map: route off lanes", "map: drivable area"}
    assert {finding["scene"] for finding in findings} >= {0}
