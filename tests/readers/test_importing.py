"""The import: what it writes, that it is the same however it was carried out, and that nothing half counts as whole."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.jobs.worker_processes import WorkerProcesses
from l5kit.data.map import builder
from l5kit.data.map.builder import MapBuilder
from l5kit.errors import InvalidArgumentError, MapTooLargeError
from l5kit.lanes.driving_map import build_driving_map
from l5kit.readers import import_files, importing, parts
from l5kit.readers.importing import import_dataset
from l5kit.readers.joined_map import JoinedMap
from l5kit.readers.map_writing import WORLD_TO_ECEF, add_map, least_bytes_of
from l5kit.readers.reader import SceneRef, SourceDataError
from l5kit.readers.scene_conversion import face_id, light_id, to_records, with_lights_renamed
from l5kit.readers.source_map import SourceLane, SourceMap
from l5kit.readers.source_scene import LightState, SourceLights
from support.source_scenes import INFO, NUM_STEPS, MadeReader, line, made_map, made_scene, made_source

ONE_TOWN = {"train-0": "town", "train-1": "town", "val-0": "town"}


TWO_LIGHTS = SourceLights(
    ("in", "on"), np.array([[LightState.RED], [LightState.GREEN]]).repeat(NUM_STEPS, 1), np.full((2, 3), np.nan)
)


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def log_of(result, split):
    return ChunkedDataset(str(result.scenes[split])).open()


def open_map(folder):
    meta = json.loads((folder / "meta.json").read_text())
    return MapAPI(str(folder / "semantic_map" / "semantic_map.pb"), np.array(meta["world_to_ecef"]))


def times_read(reader):
    return (reader.source / "read.log").read_text().split()


def test_each_split_becomes_a_log_with_facts_and_sources(tmp_path):
    told = []
    result = import_dataset(
        made_source(tmp_path / "source", ONE_TOWN), tmp_path / "out", progress=lambda *counts: told.append(counts)
    )
    assert told[-1] == (3, 3)
    assert (result.num_scenes, result.failed, result.num_remarks) == (3, (), 0)
    assert list(result.scenes) == ["train", "val"]
    train = log_of(result, "train")
    assert (len(train.scenes), len(train.frames), len(train.agents)) == (2, 2 * NUM_STEPS, 2 * (2 * NUM_STEPS - 3))
    assert train.facts.ego_extent_m == (4.8, 1.9, 1.5)
    assert train.facts.step_time_s == 0.1
    assert dict(train.facts.label_mapping) == dict(INFO.label_mapping)
    assert [dict(each) for each in train.facts.sources] == [
        {"dataset": "Made by hand", "version": "7", "licence": "for tests"}
    ]
    rows = [json.loads(row) for row in (tmp_path / "out" / "sources" / "train.jsonl").read_text().splitlines()]
    assert [(row["scene"], row["name"], row["file"], row["map"]) for row in rows] == [
        (0, "train-0", "train-0.txt", "town"),
        (1, "train-1", "train-1.txt", "town"),
    ]
    assert (rows[0]["targets"], rows[0]["track_ids"], rows[0]["offset_m"]) == ([17], None, [0.0, 0.0])
    told = json.loads((tmp_path / "out" / "import.json").read_text())
    assert (told["missing"], told["made_up"], told["scenes"]) == (
        ["There is no weather."],
        ["All sizes."],
        {"train": 2, "val": 1},
    )
    for path in result.scenes.values():
        assert validate_path(path) == []
    assert not (tmp_path / "out.parts").exists()


def test_the_semantic_map_has_lanes_lights_signs_and_limits(tmp_path):
    import_dataset(made_source(tmp_path / "source", ONE_TOWN), tmp_path / "out")
    town = open_map(tmp_path / "out")
    network = town.network
    lanes = {name: row for row, name in enumerate(town.bounds_info["lanes"]["ids"])}
    assert set(lanes) == {"town/in", "town/on", "town/beside"}
    assert np.allclose(town.get_lane_coords("town/in")["xyz_left"], [[-50, 1.75, 1], [0, 1.75, 1], [50, 1.75, 1]])
    assert np.allclose(town.get_lane_coords("town/in")["xyz_right"], [[-50, -1.75, 1], [0, -1.75, 1], [50, -1.75, 1]])
    assert network.ahead_of(lanes["town/in"]).tolist() == [lanes["town/on"]]
    assert network.right_rows[lanes["town/beside"]] == lanes["town/in"]
    assert network.is_in_junction[[lanes["town/in"], lanes["town/on"]]].tolist() == [False, True]
    assert network.speed_limits_mps[lanes["town/in"]] == 12.5
    controls = {town.id_as_str(each) for each in town["town/in"].element.lane.traffic_controls}
    assert controls == {light_id("town", "in"), *(face_id("town", "in", color) for color in ("red", "yellow", "green"))}
    assert town.get_tl_feature_for_lane("town/in", {}) is not None
    (sign,) = (town.id_as_str(each) for each in town["town/beside"].element.lane.traffic_controls)
    assert sign == "town/sign/s"
    crosswalk = town.get_crosswalk_coords("town/crosswalk/1")["xyz"]
    assert np.allclose(crosswalk[:, :2], [[45, -5], [48, -5], [48, 5]])
    areas = json.loads((tmp_path / "out" / "semantic_map" / "areas.json").read_text())
    assert [(area["id"], area["kind"]) for area in areas["areas"]] == [
        ("town/1", "crosswalk"),
        ("town/1", "drivable_area"),
    ]


def test_drivable_areas_of_the_source_are_part_of_the_road(tmp_path):
    import_dataset(made_source(tmp_path / "source", ONE_TOWN), tmp_path / "out")
    driving_map = build_driving_map(open_map(tmp_path / "out"))
    points_m = np.array([[-49.0, 8.5], [-49.0, -8.5], [-49.0, 9.6]])  # lanes are from -1.75 to 5.75
    assert driving_map.distances_to_surface_m(points_m).tolist() == [0.0, 0.0, np.inf]


def test_lights_of_the_log_are_those_of_the_map(tmp_path):
    result = import_dataset(made_source(tmp_path / "source", {"val-0": "town"}), tmp_path / "out")
    log = log_of(result, "val")
    shown = []
    for first, stop in log.frames["traffic_light_faces_index_interval"].tolist():
        faces = log.tl_faces[first:stop]
        active = [face["face_id"][-1] for face in faces if face["traffic_light_face_status"][0] > 0]
        unknown = sum(face["traffic_light_face_status"][2] > 0 for face in faces)
        shown.append((len(faces), "".join(active), int(unknown)))
    assert shown == [(3, "g", 0)] * 5 + [(3, "r", 0)] * 5 + [(3, "", 3), (0, "", 0)]
    town = open_map(tmp_path / "out")
    assert {str(face["traffic_light_id"]) for face in log.tl_faces} == {light_id("town", "in")}
    assert town.is_traffic_face_color(face_id("town", "in", "red"), "red")


def test_maps_with_frames_of_their_own_lie_apart_in_one_world(tmp_path):
    contents = {"val-0": "far a", "val-3": "far b", "val-8": "far c"}
    result = import_dataset(made_source(tmp_path / "source", contents), tmp_path / "out")
    log, world = log_of(result, "val"), open_map(tmp_path / "out")
    lines = (tmp_path / "out" / "sources" / "val.jsonl").read_text().splitlines()
    middles = []
    for number, row in enumerate(map(json.loads, lines)):
        scene = log.get_scene_dataset(number)
        shift_m = 1000.0 * int(row["name"].rpartition("-")[2])
        offset_m = np.array(row["offset_m"])
        assert np.abs(scene.frames["ego_translation"][:, 0] - np.arange(NUM_STEPS) - shift_m - offset_m[0]).max() < 1e-6
        lane = world.get_lane_coords(f"{row['map']}/in")
        left = made_map(shift_m=shift_m).lanes[0].centre_m + [offset_m[0], offset_m[1] + 1.75, 0.0]
        assert np.abs(lane["xyz_left"] - left).max() < 0.011
        assert (offset_m == np.round(offset_m)).all()
        middles.append(lane["xyz_left"][:, :2].mean(axis=0))
    apart_m = np.linalg.norm(np.array(middles)[:, None] - np.array(middles), axis=2)[np.triu_indices(3, 1)]
    assert (apart_m > 500).all()
    assert len(world.bounds_info["lanes"]["ids"]) == 9


def test_a_lane_with_the_id_of_one_elsewhere_gets_a_name_of_its_own(tmp_path):
    reader = made_source(tmp_path / "source", {"val-0": "far", "val-1": "far", "val-2": "far"})
    result = import_dataset(reader, tmp_path / "out")
    town = open_map(tmp_path / "out")
    assert set(town.bounds_info["lanes"]["ids"]) == {
        f"far/{name}{number}" for name in ("in", "on", "beside") for number in ("", "~2", "~3")
    }
    lanes = {name: row for row, name in enumerate(town.bounds_info["lanes"]["ids"])}
    assert town.network.ahead_of(lanes["far/in~3"]).tolist() == [lanes["far/on~3"]]
    areas = json.loads((tmp_path / "out" / "semantic_map" / "areas.json").read_text())["areas"]
    assert [area["id"] for area in areas if area["kind"] == "crosswalk"] == ["far/1", "far/1~2", "far/1~3"]
    assert result.num_remarks == 12  # three lanes, two areas and a sign, twice
    assert len(json.loads((tmp_path / "out" / "import.json").read_text())["map_remarks"]) == 12


def test_lights_go_with_the_lanes_of_their_own_scene(tmp_path):
    """Each light belongs to the lane of the AV in its scene, also if the lane was renamed."""
    result = import_dataset(
        made_source(tmp_path / "source", dict.fromkeys(["val-0", "val-1", "val-2"], "far")), tmp_path / "out"
    )
    log, world = log_of(result, "val"), open_map(tmp_path / "out")
    alone = import_dataset(made_source(tmp_path / "alone", {"val-0": "far"}), tmp_path / "one")
    statuses = log_of(alone, "val").tl_faces["traffic_light_face_status"][:]
    for number, lane in enumerate(["in", "in~2", "in~3"]):
        scene = log.get_scene_dataset(number)
        assert set(scene.tl_faces["traffic_light_id"].tolist()) == {light_id("far", lane)}
        colors = [scene.tl_faces["face_id"][row::3].tolist() for row in range(3)]
        steps = len(scene.tl_faces) // 3
        assert colors == [[face_id("far", lane, color)] * steps for color in ("red", "yellow", "green")]
        assert (scene.tl_faces["traffic_light_face_status"] == statuses).all()
        assert {*scene.tl_faces["face_id"].tolist(), light_id("far", lane)} == world.get_lane_traffic_control_ids(
            f"far/{lane}"
        )
        first_m = world.get_lane_coords(f"far/{lane}")["xyz_left"][0, 0]
        assert 0 < scene.frames["ego_translation"][0, 0] - first_m < 100  # it is this lane, and none elsewhere


def test_the_light_of_a_lane_with_a_new_name_stands_where_its_own_scene_says():
    joined = JoinedMap("town")
    for x_m, place_m in ((0.0, [49.0, 3.0, 1.0]), (100.0, [149.0, 3.0, 1.0]), (0.0, None), (200.0, None)):
        lanes = [SourceLane(name, line((x_m, y_m), (x_m + 50, y_m))) for y_m, name in enumerate(("a", "b"))]
        renamed = joined.add(SourceMap("town", lanes), scene="s")
        with_lights = joined.add_lights({"a": place_m}, renamed)
        assert set(renamed) == (set() if x_m == 0.0 else {"a", "b"})
        assert with_lights == {lane: name for lane, name in renamed.items() if lane == "a"}
    assert {lane: None if place_m is None else place_m.tolist() for lane, place_m in joined.lights.items()} == {
        "a": [49.0, 3.0, 1.0],
        "a~2": [149.0, 3.0, 1.0],
        "a~3": None,
    }


def test_lights_whose_lanes_change_names_are_not_taken_for_one_another():
    before = to_records(made_scene(lights=TWO_LIGHTS), INFO)
    after = with_lights_renamed(before, "town", {"in": "on", "on": "in"})
    swapped = to_records(made_scene(lights=replace(TWO_LIGHTS, lane_ids=("on", "in"))), INFO)
    assert (after.tl_faces == swapped.tl_faces).all()
    assert (before.tl_faces != swapped.tl_faces).any()


def test_a_new_name_is_none_that_another_element_has():
    joined = JoinedMap("town")
    for x_m, names in ((0.0, ("a",)), (100.0, ("a", "a~2"))):
        lanes = [SourceLane(name, line((x_m + number, 0), (x_m + 50, 0))) for number, name in enumerate(names)]
        joined.add(SourceMap("town", lanes), scene="s")
    assert {name: lane.centre_m[0, 0] for name, lane in joined.lanes.items()} == {"a": 0.0, "a~3": 100.0, "a~2": 101.0}


def test_the_course_of_a_road_is_that_of_its_left_lane_where_the_map_is_put(monkeypatch):
    courses_m = []
    lines = MapBuilder.geodetic_lines
    monkeypatch.setattr(MapBuilder, "geodetic_lines", lambda own, given: lines(own, courses_m.extend(given) or given))
    joined = JoinedMap("town")
    joined.add(made_map(), scene="s")
    add_map(MapBuilder(WORLD_TO_ECEF), joined, np.array([100.0, 20.0]))
    (course_m,) = courses_m
    beside_m = next(lane.centre_m for lane in made_map().lanes if lane.lane_id == "beside")
    assert course_m.tolist() == (beside_m + [100.0, 20.0, 0.0]).tolist()


def test_of_the_lanes_around_a_lane_counts_what_each_piece_knows():
    joined = JoinedMap("town")
    for around in (
        {"successors": ("c",)},
        {"successors": ("c", "d"), "predecessors": ("p",), "left_neighbour": "l", "is_in_junction": False},
        {"predecessors": ("q",), "left_neighbour": "other", "right_neighbour": "r", "is_in_junction": True},
    ):
        lane = SourceLane("a", line((0, 0), (50, 0)), **around)
        assert joined.add(SourceMap("town", [lane]), scene="s") == {}
    known = joined.lanes["a"]
    assert (known.successors, known.predecessors) == (("c", "d"), ("p", "q"))
    assert (known.left_neighbour, known.right_neighbour, known.is_in_junction) == ("l", "r", False)


def test_names_with_slashes_are_no_two_elements_in_one(tmp_path, monkeypatch):
    from support import source_scenes

    made = source_scenes.made_map

    def named(name, **options):
        lanes = made(name, **options).lanes
        more = (replace(lanes[0], lane_id="sign/s"), replace(lanes[2], lane_id="segment/in"), *lanes)
        return replace(made(name, **options), lanes=more)

    monkeypatch.setattr(source_scenes, "made_map", named)
    result = import_dataset(made_source(tmp_path / "source", {"val-0": "town/in", "val-1": "town"}), tmp_path / "out")
    assert (result.num_scenes, result.failed) == (2, ())
    ids = set(open_map(tmp_path / "out").bounds_info["lanes"]["ids"])
    assert {"town%2Fin/in", "town/in", "town/sign%2Fs"} <= ids
    assert len(ids) == 10


@pytest.mark.parametrize("split", ["../val", "/val", "", ".", "a/b", "v\0"])
def test_splits_that_lead_elsewhere_are_refused(tmp_path, monkeypatch, split):
    reader = made_source(tmp_path / "source", {"val-0": "town"})
    monkeypatch.setattr(MadeReader, "list_scenes", lambda self: [SceneRef(split, "val-0", "val-0.txt")])
    with pytest.raises(InvalidArgumentError, match="split must be a name"):
        import_dataset(reader, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"source"}


def test_a_file_whose_name_is_no_text_is_listed_and_the_others_go_on(tmp_path):
    reader = made_source(tmp_path / "source", {"val-0": "town", "val-\udcff": "town"})
    result = import_dataset(reader, tmp_path / "out")
    assert result.num_scenes == 1
    (failed,) = json.loads((tmp_path / "out" / "import.json").read_text())["failed"]
    assert failed["file"] == "val-\\udcff.txt"
    assert failed["message"] == "val-\\udcff.txt: its name cannot be written as UTF-8; rename the file"


def with_sides(name, **options):
    """The map with boundaries that are known."""
    lanes = made_map(name, **options).lanes
    sides = [replace(lane, left_m=lane.centre_m + [0, 2, 0], right_m=lane.centre_m - [0, 2, 0]) for lane in lanes]
    return replace(made_map(name, **options), lanes=sides)


FEWER = "the maps of the first 4 scenes have more than 140 bytes, .*--max-scenes 2, for example.*out.parts"


@pytest.mark.parametrize(
    ("most", "message", "num_read"),
    [(140, FEWER, 4), (1000, "makes the map larger than 1,000 bytes", 6)],
    ids=["while reading", "while writing"],
)
def test_a_map_that_is_too_large_is_told_before_logs_are_written(tmp_path, monkeypatch, most, message, num_read):
    """Certain findings are reported while scenes are read; what was read is reused by an import of fewer scenes."""
    from support import source_scenes

    contents = {f"val-{number}": "one" if number < 2 else f"own {number}" for number in range(6)}
    reader = made_source(tmp_path / "source", contents)
    monkeypatch.setattr(source_scenes, "made_map", with_sides)
    with monkeypatch.context() as patch:
        patch.setattr(importing, "MOST_MAP_BYTES", most)
        patch.setattr(builder, "MOST_MAP_BYTES", most)
        patch.setattr(import_files, "write_log", lambda *_, **__: pytest.fail("a log is written in vain"))
        with pytest.raises(MapTooLargeError, match=message):
            import_dataset(reader, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert len(times_read(reader)) == num_read
    assert import_dataset(reader, tmp_path / "out", max_scenes=2).num_scenes == 2
    assert len(times_read(reader)) == num_read


def test_the_least_size_of_a_map_is_near_its_size_and_not_above():
    xs_m = np.arange(0.0, 200.0, 0.7)
    course = line(*zip(xs_m, 10 * np.sin(xs_m / 20), strict=True))
    lane = SourceLane("a", course, course + [0, 2, 0], course - [0, 2, 0])
    tight = builder.MapBuilder(WORLD_TO_ECEF)
    tight.add_lane("a", lane.left_m, lane.right_m)
    size = tight.to_fragment().ByteSize()
    assert 0.9 * size < least_bytes_of(SourceMap("town", [lane, replace(lane, lane_id="b", left_m=None, right_m=None)]))
    assert least_bytes_of(SourceMap("town", [lane])) <= size


def test_maps_that_have_no_room_on_earth_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(import_files, "_FURTHEST_M", 1000.0)
    reader = made_source(tmp_path / "source", {"val-0": "town", "val-3": "far a", "val-8": "far c"})
    with pytest.raises(MapTooLargeError, match=r"3 maps do not fit next to each other within 1 km.*--max-scenes"):
        import_dataset(reader, tmp_path / "out")


@pytest.mark.parametrize("name", ["swapped", "another version", "a password", "an unknown compression", "a folder"])
def test_parts_that_are_not_those_of_their_scene_are_read_again(tmp_path, monkeypatch, name):
    reader = made_source(tmp_path / "source", ONE_TOWN | {"val-1": "far"})
    import_dataset(reader, tmp_path / "whole")
    with monkeypatch.context() as patch:
        fill_disk(patch, import_files, "add_map", 0)
        with pytest.raises(OSError, match="No space"):
            import_dataset(reader, tmp_path / "out")
    first, second, *_ = sorted((tmp_path / "out.parts").rglob("*.npz"))
    content = bytearray(first.read_bytes())
    directory = content.rindex(b"PK\x01\x02")
    if name == "swapped":
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    elif name == "another version":
        first.write_bytes(b"")
    elif name == "a folder":
        first.rename(tmp_path / "moved.npz")
        first.mkdir()
    else:
        content[directory + (8 if name == "a password" else 10)] |= 1 if name == "a password" else 77
        first.write_bytes(content)
    (reader.source / "read.log").unlink()
    import_dataset(reader, tmp_path / "out")
    assert len(times_read(reader)) == (2 if name == "swapped" else 1)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_tracks_without_numbers_are_numbered_and_told(tmp_path, monkeypatch):
    reader = made_source(tmp_path / "source", {"val-0": "town"})
    from support import source_scenes

    made = source_scenes.made_scene
    monkeypatch.setattr(source_scenes, "made_scene", lambda name, **options: made(name, ids=("b5", "007"), **options))
    result = import_dataset(reader, tmp_path / "out")
    row = json.loads((tmp_path / "out" / "sources" / "val.jsonl").read_text())
    assert row["track_ids"] == {"1": "b5", "2": "007"}
    assert set(log_of(result, "val").agents["track_id"].tolist()) == {1, 2}


SEVERAL = {f"train-{number}": f"far {number % 3}" for number in range(10)} | {"train-7": "damaged", "val-0": "town"}


@pytest.mark.process
def test_the_files_are_the_same_for_any_number_of_workers(tmp_path):
    reader = made_source(tmp_path / "source", SEVERAL)
    import_dataset(reader, tmp_path / "one")
    import_dataset(reader, tmp_path / "threads", workers=3)
    with WorkerProcesses(2) as processes:
        import_dataset(reader, tmp_path / "processes", workers=processes)
    expected = files_of(tmp_path / "one")
    assert files_of(tmp_path / "threads") == expected
    assert files_of(tmp_path / "processes") == expected


KILLED = """
import sys, time
from pathlib import Path
from support import source_scenes
from l5kit.readers.importing import import_dataset

noted = source_scenes.read_once

def slowly(reader, ref):
    noted(reader, ref)
    time.sleep(0.05)

source_scenes.read_once = slowly
import_dataset(source_scenes.MadeReader(Path(sys.argv[1])), sys.argv[2])
"""


@pytest.mark.process
def test_an_import_that_was_killed_goes_on_and_reads_nothing_twice(tmp_path):
    reader = made_source(tmp_path / "source", SEVERAL)
    import_dataset(reader, tmp_path / "whole")
    (reader.source / "read.log").unlink()
    paths = os.pathsep.join([str(Path(import_files.__file__).parents[2]), str(Path(__file__).parents[1])])
    command = [sys.executable, "-c", KILLED, str(reader.source), str(tmp_path / "out")]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}) as process:
        while not (reader.source / "read.log").exists() or len(times_read(reader)) < 4:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    before = times_read(reader)
    import_dataset(reader, tmp_path / "out")
    again = times_read(reader)[len(before) :]
    assert len(before) + len(again) <= len(SEVERAL) + 2  # the one that was being read, and the damaged one
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    assert not (tmp_path / "out.parts").exists()


def fill_disk(monkeypatch, module, name, after):
    """Let a function fail as on a full disk after some calls."""
    original, calls = getattr(module, name), []

    def failing(*arguments, **options):
        calls.append(arguments)
        if len(calls) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, failing)


@pytest.mark.parametrize(
    ("module", "name", "after"),
    [
        (parts.np, "savez", 4),
        (import_files, "add_map", 1),
        (import_files, "write_log", 0),
        (import_files, "_write_json", 2),
    ],
    ids=["parts", "map", "log", "last file"],
)
def test_a_full_disk_ends_the_import_and_leaves_nothing_half(tmp_path, monkeypatch, module, name, after):
    reader = made_source(tmp_path / "source", SEVERAL)
    import_dataset(reader, tmp_path / "whole")
    (reader.source / "read.log").unlink()
    with monkeypatch.context() as patch:
        fill_disk(patch, module, name, after)
        with pytest.raises(OSError, match=r"No space left on device: '.*out"):
            import_dataset(reader, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    before = len(times_read(reader))
    import_dataset(reader, tmp_path / "out")
    assert len(times_read(reader)) <= len(SEVERAL) + (2 if before < len(SEVERAL) else 1) + 1
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_parts_that_were_damaged_or_whose_file_has_changed_are_read_again(tmp_path, monkeypatch):
    reader = made_source(tmp_path / "source", ONE_TOWN)
    with monkeypatch.context() as patch:
        fill_disk(patch, import_files, "add_map", 0)
        with pytest.raises(OSError, match="No space"):
            import_dataset(reader, tmp_path / "out")
    first, *_ = sorted((tmp_path / "out.parts").rglob("*.npz"))
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 0xFF
    first.write_bytes(content)
    os.utime(reader.source / "val-0.txt", (1, 1))
    (reader.source / "read.log").unlink()
    import_dataset(reader, tmp_path / "out")
    assert 1 <= len(times_read(reader)) <= 2  # the damaged one may be that of the changed file
    assert "val-0" in times_read(reader)
    import_dataset(reader, tmp_path / "fresh")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "fresh")


BESIDE = {"town.map": b"lanes", "far.map": b"lanes", "classes.tab": b"car"}
CHANGES = {
    "a map has other bytes": ("town.map", lambda path: path.write_bytes(b"lanes, more"), ["train-0", "val-0"]),
    "the map of one scene was written again": ("far.map", lambda path: os.utime(path, (1, 1)), ["train-1"]),
    "a map is gone": ("town.map", Path.unlink, ["train-0", "val-0"]),
    "a table of all scenes": ("classes.tab", lambda path: os.utime(path, (1, 1)), ["train-0", "train-1", "val-0"]),
    "a file of no scene": ("notes.md", lambda path: path.write_text("more"), []),
}


@pytest.mark.parametrize(("name", "change", "expected"), CHANGES.values(), ids=CHANGES)
def test_what_changes_beside_scenes_is_read_again_for_them_alone(tmp_path, monkeypatch, name, change, expected):
    reader = made_source(tmp_path / "source", {"train-0": "town", "train-1": "far", "val-0": "town"})
    for beside, content in BESIDE.items():
        (reader.source / beside).write_bytes(content)
    listed = [
        replace(ref, others=(f"{(reader.source / ref.file).read_text()}.map", "classes.tab"))
        for ref in reader.list_scenes()
    ]
    monkeypatch.setattr(MadeReader, "list_scenes", lambda self: listed)
    with monkeypatch.context() as patch:
        fill_disk(patch, import_files, "add_map", 0)
        with pytest.raises(OSError, match="No space"):
            import_dataset(reader, tmp_path / "out")
    change(reader.source / name)
    (reader.source / "read.log").unlink()
    assert import_dataset(reader, tmp_path / "out").num_scenes == 3
    log = reader.source / "read.log"
    assert (times_read(reader) if log.exists() else []) == expected


def test_a_reader_that_ends_the_process_fails_one_scene(tmp_path):
    source = made_source(tmp_path / "source", {"val-0": "town", "val-1": "the end of the process"})
    result = import_dataset(source, tmp_path / "out")
    assert result.num_scenes == 1
    assert [each.message for each in result.failed] == ["val-1.txt: SystemExit: 0"]


def test_scenes_that_cannot_be_read_are_listed_and_the_others_go_on(tmp_path):
    contents = {
        "val-0": "town",
        "val-1": "damaged",
        "val-2": "a mistake of the reader",
        "val-3": "another class",
        "val-4": "town",
    }
    result = import_dataset(made_source(tmp_path / "source", contents), tmp_path / "out")
    assert result.num_scenes == len(log_of(result, "val").scenes) == 2
    messages = {each.ref.name: each.message for each in result.failed}
    assert list(messages) == ["val-1", "val-2", "val-3"]
    assert messages["val-1"] == "val-1.txt (line 1): it is damaged"
    assert messages["val-2"] == "val-2.txt: RuntimeError: that was not foreseen"
    assert messages["val-3"].startswith("val-3.txt: track '23' has the class 'horse', none of the source: car")
    assert validate_path(result.scenes["val"]) == []


def test_strict_imports_end_at_the_first_scene_that_fails(tmp_path):
    reader = made_source(tmp_path / "source", {"val-0": "town", "val-1": "damaged"})
    with pytest.raises(SourceDataError, match=r"val-1.txt \(line 1\): it is damaged"):
        import_dataset(reader, tmp_path / "out", strict=True)
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_where_no_scene_can_be_read(tmp_path):
    reader = made_source(tmp_path / "source", {"val-0": "damaged", "val-1": "damaged"})
    with pytest.raises(
        SourceDataError, match=r"none of 2 scenes could be read; the first one: val-0.txt \(line 1\): it is damaged"
    ):
        import_dataset(reader, tmp_path / "out")
    with pytest.raises(SourceDataError, match="none of 0 scenes"):
        import_dataset(MadeReader(tmp_path), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_scene_that_changes_while_it_is_imported_is_listed(tmp_path, monkeypatch):
    from support import source_scenes

    noted = source_scenes.read_once

    def changing(reader, ref):
        noted(reader, ref)
        os.utime(reader.source / "val-0.txt", (1, len(times_read(reader))))

    monkeypatch.setattr(source_scenes, "read_once", changing)
    result = import_dataset(made_source(tmp_path / "source", ONE_TOWN | {"val-1": "town"}), tmp_path / "out")
    assert [each.message.partition("; ")[0] for each in result.failed] == [
        "val-0.txt: the file was changed while it was imported"
    ]
    assert result.num_scenes == 3


def test_a_lack_of_memory_is_no_fault_of_the_scene(tmp_path):
    with pytest.raises(MemoryError):
        import_dataset(made_source(tmp_path / "source", {"val-0": "too large"}), tmp_path / "out")


def test_only_the_first_scenes_are_imported_where_so_many_are_asked_for(tmp_path):
    reader = made_source(tmp_path / "source", ONE_TOWN)
    assert list(import_dataset(reader, tmp_path / "one", max_scenes=1).scenes) == ["train"]
    assert times_read(reader) == ["train-0"]
    assert import_dataset(reader, tmp_path / "many", max_scenes=99).num_scenes == 3
    with pytest.raises(InvalidArgumentError, match="max_scenes must be at least 1"):
        import_dataset(reader, tmp_path / "none", max_scenes=0)


def test_only_an_import_is_replaced_and_only_where_that_is_asked_for(tmp_path):
    reader, out = made_source(tmp_path / "source", ONE_TOWN), tmp_path / "out"
    import_dataset(reader, out)
    with pytest.raises(InvalidArgumentError, match="which holds an import"):
        import_dataset(reader, out)
    assert import_dataset(reader, out, overwrite=True, max_scenes=1).num_scenes == 1
    (out / "import.json").unlink()
    with pytest.raises(InvalidArgumentError, match=r"holds 'meta\.json', but no import"):
        import_dataset(reader, out, overwrite=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="which is a file"):
        import_dataset(reader, tmp_path / "file", overwrite=True)


def test_steps_of_another_time_are_refused(tmp_path):
    from dataclasses import replace

    reader = MadeReader(made_source(tmp_path / "source", ONE_TOWN).source, replace(INFO, step_time_s=0.5))
    with pytest.raises(SourceDataError, match=r"steps are 0.1 s apart, those of the source are 0.5 s"):
        import_dataset(reader, tmp_path / "out")
