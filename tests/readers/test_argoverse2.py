"""Scenarios of Argoverse 2: imports agree with the files, and errors name what is wrong with them."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.errors import DatasetNotFoundError
from l5kit.readers import argoverse2
from l5kit.readers.argoverse2 import Argoverse2Reader
from l5kit.readers.importing import import_dataset
from l5kit.readers.reader import SourceDataError
from support import argoverse2_files as av2

MOST_REAL = 5
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "argoverse2"
LABELS = {
    "vehicle": "CAR",
    "bus": "BUS",
    "pedestrian": "PEDESTRIAN",
    "cyclist": "CYCLIST",
    "motorcyclist": "MOTORCYCLIST",
    "riderless_bicycle": "BICYCLE",
}


def id_of(number):
    return f"{number:08x}-0000-4000-8000-000000000000"


def made(folder):
    av2.write_scenario(folder, id_of(1))
    av2.write_scenario(folder, id_of(2), city="miami", dx=3.5)
    return folder


def one_shared(folder):
    if not SHARED.is_dir():
        pytest.skip(f"the real scenario is not there: {SHARED}")
    (scenario,) = SHARED.glob("scenario_*.parquet")
    name = scenario.stem.removeprefix("scenario_")
    shutil.copytree(SHARED, folder / name)
    return folder


def real_folder(_):
    named = os.environ.get("L5KIT_REAL_AV2")
    if not named:
        pytest.skip("L5KIT_REAL_AV2 names no folder of real scenarios")
    return Path(named)


@pytest.fixture(scope="module", params=[made, one_shared, real_folder], ids=lambda source: source.__name__)
def imported(request, tmp_path_factory):
    """A source and its import."""
    folder = tmp_path_factory.mktemp("av2")
    source = request.param(folder / "source")
    return source, import_dataset(Argoverse2Reader(source), folder / "out", max_scenes=MOST_REAL)


def scenes_of(result):
    """Yield the row in ``sources``, and the scene of the log, of each scene."""
    for split, path in result.scenes.items():
        log = ChunkedDataset(str(path)).open()
        lines = (result.folder / "sources" / f"{split}.jsonl").read_text().splitlines()
        assert len(lines) == len(log.scenes)
        for number, line in enumerate(lines):
            row = json.loads(line)
            assert row["scene"] == number
            yield row, log.get_scene_dataset(number)


def test_every_row_of_the_source_is_in_the_log_and_nothing_else(imported):
    source, result = imported
    assert not result.failed
    for row, scene in scenes_of(result):
        rows = av2.read_rows(source / row["file"])
        steps = sorted(each["timestep"] for each in rows if each["track_id"] == "AV")
        frame_of = {step: frame for frame, step in enumerate(steps)}
        offset_m = np.array(row["offset_m"])
        assert len(scene.frames) == len(steps)
        found = {}
        for frame, (first, stop) in enumerate(scene.frames["agent_index_interval"].tolist()):
            for agent in scene.agents[first:stop]:
                found[frame, int(agent["track_id"])] = agent
        expected = {}
        for each in rows:
            position_m = np.array([each["position_x"], each["position_y"]]) + offset_m
            if each["track_id"] == "AV":
                assert np.abs(scene.frames["ego_translation"][frame_of[each["timestep"]], :2] - position_m).max() < 1e-3
            elif each["timestep"] in frame_of:
                expected[frame_of[each["timestep"]], int(each["track_id"])] = each, position_m
        assert found.keys() == expected.keys()
        for key, (each, position_m) in expected.items():
            agent = found[key]
            assert np.abs(agent["centroid"] - position_m).max() < 1e-3
            assert np.abs(np.angle(np.exp(1j * (agent["yaw"] - each["heading"])))) < 1e-3
            assert np.abs(agent["velocity"] - [each["velocity_x"], each["velocity_y"]]).max() < 1e-3
            label = PERCEPTION_LABELS[int(agent["label_probabilities"].argmax())].rpartition("LABEL_")[2]
            assert label == LABELS.get(each["object_type"], "UNKNOWN")
            assert agent["label_probabilities"].sum() == 1
            assert (agent["extent"] > 0).all()


def test_times_are_even_between_those_of_the_source(imported):
    source, result = imported
    for row, scene in scenes_of(result):
        first = av2.read_rows(source / row["file"])[0]
        steps_ns = np.diff(scene.frames["timestamp"])
        assert abs(int(scene.frames["timestamp"][0]) - first["start_timestamp"]) <= 64
        assert np.abs(steps_ns - 100_000_000).max() < 5_000_000


def test_targets_are_the_focal_track_and_the_scored_ones(imported):
    source, result = imported
    for row, _ in scenes_of(result):
        rows = av2.read_rows(source / row["file"])
        asked = {int(each["track_id"]) for each in rows if each["object_category"] >= 2 and each["track_id"] != "AV"}
        assert set(row["targets"]) == asked
        assert int(rows[0]["focal_track_id"]) in asked


def test_every_lane_of_the_source_is_on_the_map_within_a_centimetre(imported):
    source, result = imported
    meta = json.loads((result.folder / "meta.json").read_text())
    map_api = MapAPI(str(result.folder / "semantic_map" / "semantic_map.pb"), np.array(meta["world_to_ecef"]))
    on_map = {map_api.id_as_str(element.id) for element in map_api if map_api.is_lane(element)}
    expected = set()
    for row, _ in scenes_of(result):
        folder = (source / row["file"]).parent
        elements = json.loads(next(folder.glob(f"log_map_archive_{row['name']}.json")).read_text())
        for key, segment in elements["lane_segments"].items():
            name = f"{row['map']}/{key}"
            expected.add(name)
            lane = map_api.get_lane_coords(name)
            for side in ("left", "right"):
                line = np.array([[p["x"], p["y"], p["z"]] for p in segment[f"{side}_lane_boundary"]])
                line[:, :2] += row["offset_m"]
                assert np.abs(lane[f"xyz_{side}"] - line).max() < 0.011
            ahead = {map_api.id_as_str(each) for each in map_api[name].element.lane.lanes_ahead}
            assert {f"{row['map']}/{other}" for other in segment["successors"]} & on_map == ahead
    assert on_map == expected
    assert len(map_api.bounds_info["crosswalks"]["ids"]) > 0


def test_nothing_is_wrong_with_what_was_imported(imported):
    _, result = imported
    for path in result.scenes.values():
        assert validate_path(path) == []
        facts = ChunkedDataset(str(path)).open().facts
        assert facts.sources[0]["dataset"] == "Argoverse 2 motion forecasting"
        assert "CC BY-NC-SA 4.0" in facts.sources[0]["licence"]
        assert facts.label_mapping["bus"] == "PERCEPTION_LABEL_BUS"


def read_made(folder, **changes):
    av2.write_scenario(folder, id_of(1), **changes)
    reader = Argoverse2Reader(folder)
    return reader.read(reader.list_scenes()[0])


def test_gaps_stay_gaps(tmp_path):
    tracks = read_made(tmp_path).tracks
    seen = tracks.is_valid[tracks.ids.index("1002")]
    assert np.flatnonzero(seen).tolist() == [*range(10, 40), *range(60, 90)]


def test_lanes_may_be_changed_to_neighbours_that_run_alike_behind_no_solid_line(tmp_path):
    lanes = {lane.lane_id: lane for lane in read_made(tmp_path).map.lanes}
    assert (lanes["11"].left_neighbour, lanes["11"].right_neighbour) == (None, "12")  # 21 comes towards it
    assert (lanes["12"].left_neighbour, lanes["12"].right_neighbour) == ("11", None)
    assert (lanes["21"].left_neighbour, lanes["21"].right_neighbour) == (None, None)
    elements = av2.made_map()
    elements["lane_segments"]["12"]["left_lane_mark_type"] = "SOLID_WHITE"
    lanes = {lane.lane_id: lane for lane in read_made(tmp_path / "solid", elements=elements).map.lanes}
    assert lanes["12"].left_neighbour is None
    assert lanes["11"].right_neighbour == "12"  # whose marking is no concern of the other side


def test_kinds_of_lanes_and_areas_are_those_of_the_source(tmp_path):
    source_map = read_made(tmp_path).map
    lanes = {lane.lane_id: lane for lane in source_map.lanes}
    assert {key for key, lane in lanes.items() if lane.is_in_junction} == {"31"}
    assert {key for key, lane in lanes.items() if lane.kind == "bike"} == {"41"}
    crosswalk, area = source_map.areas
    assert crosswalk.outline_m[:, :2].tolist() == [[140, -8], [140, 4], [144, 4], [144, -8]]
    assert (area.kind, len(area.outline_m)) == ("drivable_area", 3)


def test_the_av_is_as_high_as_the_lanes_and_so_are_their_centres(tmp_path):
    scene = read_made(tmp_path)
    assert (scene.ego.positions_m[:, 2] == 22).all()
    assert all((lane.centre_m[:, 2] == 22).all() for lane in scene.map.lanes)


@pytest.mark.parametrize("is_null", [False, True], ids=["no key", "null"])
@pytest.mark.parametrize("counts", [(40, 40), (40, 25), (25, 60)])
def test_lanes_without_a_centre_line_have_the_middle_of_their_boundaries(tmp_path, counts, is_null):
    """As in the maps of sensor logs: a quarter of a circle, whose boundaries have different numbers of points."""
    elements = av2.made_map()
    segment = elements["lane_segments"]["11"]
    for side, radius_m, count in zip(("left", "right"), (48.0, 52.0), counts, strict=True):
        turns_rad = np.linspace(0.0, np.pi / 2, count) ** 2 / (np.pi / 2)  # closer together at the start
        corners = np.stack([90 + radius_m * np.sin(turns_rad), 50 - radius_m * np.cos(turns_rad)], axis=1)
        segment[f"{side}_lane_boundary"] = av2.points(*((x, y, 22.0 + (side == "left")) for x, y in corners.tolist()))
    if is_null:
        segment["centerline"] = None
    else:
        del segment["centerline"]
    scene = read_made(tmp_path, elements=elements)
    centre_m = next(lane.centre_m for lane in scene.map.lanes if lane.lane_id == "11")
    assert len(centre_m) == max(counts)
    np.testing.assert_allclose(centre_m[[0, -1]], [[90, 0, 22.5], [140, 50, 22.5]], atol=1e-6)
    np.testing.assert_allclose(np.hypot(*(centre_m[:, :2] - [90, 50]).T), 50.0, atol=0.15)
    steps_m = np.linalg.norm(np.diff(centre_m, axis=0), axis=1)
    np.testing.assert_allclose(steps_m, steps_m.mean(), rtol=0.01)
    assert not scene.remarks


def test_steps_without_the_av_are_left_out_and_told(tmp_path):
    shown = av2.MadeTrack("AV", steps=range(50))
    scene = read_made(tmp_path, rows=av2.scenario_rows([shown, *av2.TRACKS[1:]]))
    assert len(scene.timestamps_ns) == 50
    assert scene.remarks == ("Steps 0 to 49 of 110 are kept, those with the AV.",)


def test_scenarios_of_splits_go_to_logs_of_their_own(tmp_path):
    for number, split in enumerate(("train", "val", "train")):
        av2.write_scenario(tmp_path / "source" / split, id_of(number))
    result = import_dataset(Argoverse2Reader(tmp_path / "source"), tmp_path / "out")
    lengths = {split: len(ChunkedDataset(str(path)).open().scenes) for split, path in result.scenes.items()}
    assert lengths == {"train": 2, "val": 1}


@pytest.mark.parametrize("place", ["", "val", f"val/{id_of(3)}"])
def test_a_source_may_be_a_folder_of_splits_of_scenarios_or_one_scenario(tmp_path, place):
    av2.write_scenario(tmp_path / "val", id_of(3))
    (ref,) = Argoverse2Reader(tmp_path / place).list_scenes()
    assert (ref.split, ref.name) == ("sample" if place.endswith(id_of(3)) else "val", id_of(3))
    assert Argoverse2Reader(tmp_path / place).read(ref).map.name == "austin"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_without_scenarios_is_told(tmp_path, is_there):
    (tmp_path / "empty" / "pictures").mkdir(parents=True)
    problem = "no scenario of Argoverse 2 motion forecasting" if is_there else "there is no such folder"
    with pytest.raises(DatasetNotFoundError, match=problem):
        Argoverse2Reader(tmp_path / ("empty" if is_there else "none")).list_scenes()


def test_a_file_in_place_of_a_folder_is_told(tmp_path):
    (tmp_path / "scenario.parquet").touch()
    with pytest.raises(DatasetNotFoundError, match="this is a file; give the folder around it"):
        Argoverse2Reader(tmp_path / "scenario.parquet").list_scenes()


def test_lanes_and_areas_without_geometry_are_left_out_and_told(tmp_path):
    elements = av2.made_map()
    elements["lane_segments"]["11"]["centerline"] = []
    elements["lane_segments"]["12"]["left_lane_boundary"] = av2.points((1, 1, 1), (1, 1, 1))
    elements["drivable_areas"]["61"]["area_boundary"] = av2.points((1, 1, 1))
    scene = read_made(tmp_path, elements=elements)
    assert {lane.lane_id for lane in scene.map.lanes} == {"21", "31", "41"}
    assert len(scene.map.areas) == 1
    assert scene.remarks == (
        "Lane segment 11 has no geometry and is left out.",
        "Lane segment 12 has no geometry and is left out.",
        "drivable_areas 61 has no geometry and is left out.",
    )


@pytest.mark.parametrize("is_flat", [False, True], ids=["folders", "files"])
def test_the_map_of_a_scenario_is_among_its_files(tmp_path, is_flat):
    """So that the scenario is read again once its map has changed."""
    for number in (1, 2):
        folder = av2.write_scenario(tmp_path / "source", id_of(number))
        if is_flat:
            for path in folder.iterdir():
                path.rename(folder.parent / path.name)
            folder.rmdir()
    refs = Argoverse2Reader(tmp_path / "source").list_scenes()
    assert [ref.name for ref in refs] == [id_of(1), id_of(2)]
    for ref in refs:
        (other,) = ref.others
        found = (tmp_path / "source" / other).resolve()
        assert found.name == f"log_map_archive_{ref.name}.json"
        assert found.is_file()


def changed(row, **values):
    return [each | (values if number == row else {}) for number, each in enumerate(av2.scenario_rows())]


def with_lane(**values):
    elements = av2.made_map()
    elements["lane_segments"]["11"] |= values
    return elements


def without_key(key):
    elements = av2.made_map()
    del elements["lane_segments"]["11"][key]
    return elements


BACKWARDS = {"start_timestamp": 2e17, "end_timestamp": 1e17}
FAULTS = {
    "track twice in a step": (
        {"rows": [*av2.scenario_rows(), av2.scenario_rows()[200]]},
        "'1001' is in timestep 90 twice",
    ),
    "step after the end": ({"rows": changed(3, timestep=110)}, "timestep must be 0 to 109, got 0 to 110"),
    "negative step": ({"rows": changed(3, timestep=-1)}, "timestep must be 0 to 109"),
    "position is not a number": ({"rows": changed(113, position_x=np.nan)}, "positions_m of track '1001', step 3"),
    "AV at infinity": ({"rows": changed(3, position_x=np.inf)}, "positions_m of the AV must be finite and within"),
    "position far away": (
        {"rows": changed(113, position_y=1e30)},
        r"track '1001', step 3 must be finite and within 1e\+07 m, got \[.*, 1e\+30\]",
    ),
    "speed": (
        {"rows": changed(113, velocity_y=1e5)},
        "velocities_mps of track '1001', step 3 must be finite and within",
    ),
    "heading": ({"rows": changed(113, heading=np.nan)}, "yaws_rad of track '1001', step 3 must be finite"),
    "time overflows": (
        {"columns": {"end_timestamp": 1e30}},
        "start_timestamp and end_timestamp must be from 1 to 9.2e",
    ),
    "time is no number": ({"columns": {"start_timestamp": np.nan}}, "time goes backwards"),
    "lane far away": (
        {"elements": with_lane(centerline=av2.points((90, 0, 0), (1e30, 0, 0)))},
        r"\(lane segment 11\): centre_m of lane '11', number 1, must be finite and within 1e\+07 m of 0, got \[1e\+30",
    ),
    "lane far from the AV": (
        {"elements": with_lane(centerline=av2.points((90, 0, 0), (5e6, 0, 0)))},
        r"log_map_archive_.*: centre_m of lane '11' of map 'austin', number 1, must be finite and within 100000 m",
    ),
    "lane under another id": ({"elements": with_lane(id=12)}, r"\(lane segment 11\): id must be its key"),
    "successors as text": ({"elements": with_lane(successors="12")}, "successors must be a list, got '12'"),
    "junction as text": ({"elements": with_lane(is_intersection="false")}, "is_intersection must be a bool"),
    "lane of no text": (
        {"elements": {**av2.made_map(), "drivable_areas": {"\ud800": av2.made_map()["drivable_areas"]["61"]}}},
        "the id of an area must be text",
    ),
    "too many steps": ({"columns": {"num_timestamps": 10**6}}, "num_timestamps must be a number of steps from 1 to"),
    "unknown class": ({"rows": changed(110, object_type="tank")}, "track '1001' has the class 'tank'"),
    "no AV": ({"rows": av2.scenario_rows(av2.TRACKS[1:])}, "there is no track AV"),
    "gap of the AV": (
        {"rows": av2.scenario_rows([av2.MadeTrack("AV", steps=[*range(20), *range(21, 110)])])},
        "track AV has a gap after timestep 19",
    ),
    "time goes backwards": ({"columns": BACKWARDS}, "time goes backwards: start_timestamp is 2000"),
    "no steps": ({"columns": {"num_timestamps": 0}}, "num_timestamps must be a number of steps"),
    "steps at another rate": ({"columns": {"end_timestamp": float(av2.START_NS + 50e9)}}, "steps are 0.458716 s apart"),
    "no rows": ({"rows": []}, "it has no rows; the scenario is empty"),
    "no city": ({"columns": {"city": ""}}, "column city must have one value in all rows"),
    "unknown version of the tracks": ({"without": ("heading", "timestep")}, "there is no column timestep, heading"),
    "unknown version of the map": ({"elements": {"lanes": {}}}, "it must have lane_segments"),
    "unknown kind of lane": (
        {"elements": with_lane(lane_type="TRAM")},
        r"\(lane segment 11\): lane_type must be one of",
    ),
    "lane without boundary": ({"elements": without_key("left_lane_boundary")}, r"\(lane segment 11\): KeyError"),
    "point without height": ({"elements": with_lane(centerline=[{"x": 1, "y": 2}])}, r"\(lane segment 11\): KeyError"),
}


@pytest.mark.parametrize(("changes", "message"), FAULTS.values(), ids=FAULTS)
def test_what_is_wrong_with_a_scenario_is_told_with_its_file_and_the_others_go_on(tmp_path, changes, message):
    source = tmp_path / "source"
    av2.write_scenario(source, id_of(1), **changes)
    av2.write_scenario(source, id_of(2))
    result = import_dataset(Argoverse2Reader(source), tmp_path / "out")
    assert result.num_scenes == 1
    (failed,) = result.failed
    assert failed.ref.name == id_of(1)
    with pytest.raises(SourceDataError, match=message):
        raise SourceDataError("", "", failed.message)
    assert f"{id_of(1)}/" in failed.message
    assert json.loads((tmp_path / "out" / "import.json").read_text())["failed"][0]["message"] == failed.message


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(byte ^ 0x5A for byte in content[4:200])
    path.write_bytes(content)


DAMAGE = {
    "cut tracks": ("scenario", cut, "cannot be read as Parquet"),
    "flipped tracks": ("scenario", flip, "cannot be read as Parquet"),
    "empty tracks": ("scenario", lambda path: path.write_bytes(b""), "cannot be read as Parquet"),
    "no tracks": ("scenario", Path.unlink, "there is no such file, although its folder exists"),
    "cut map": ("log_map_archive", cut, "cannot be read as JSON"),
    "flipped map": ("log_map_archive", flip, "cannot be read as JSON"),
    "no map": ("log_map_archive", Path.unlink, "there is no such file, the map next to the scenario"),
}


@pytest.mark.parametrize(("file", "damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_files_are_named(tmp_path, file, damage, message):
    folder = av2.write_scenario(tmp_path, id_of(1))
    (path,) = folder.glob(f"{file}_*")
    damage(path)
    reader = Argoverse2Reader(tmp_path)
    with pytest.raises(SourceDataError, match=message) as caught:
        reader.read(reader.list_scenes()[0])
    assert (tmp_path / caught.value.file) == path


def doubled(path, key):
    """Put a member of an object of the map before itself once more, with another value."""
    text = path.read_text()
    assert f'"{key}": ' in text
    path.write_text(text.replace(f'"{key}": ', f'"{key}": null, "{key}": ', 1))


@pytest.mark.parametrize("key", ["lane_segments", "12", "lane_type", "x"])
def test_a_key_that_is_twice_in_an_object_of_the_map_is_told(tmp_path, key):
    folder = av2.write_scenario(tmp_path, id_of(1))
    (path,) = folder.glob("log_map_archive_*")
    doubled(path, key)
    reader = Argoverse2Reader(tmp_path)
    with pytest.raises(
        SourceDataError, match=f"cannot be read as JSON: the key '{key}' is repeated in one object"
    ) as told:
        reader.read(reader.list_scenes()[0])
    assert (tmp_path / told.value.file) == path


def tracks_of(folder):
    """The file of the tracks of a scenario that was just written."""
    (path,) = av2.write_scenario(folder, id_of(1)).glob("scenario_*")
    return path


def with_column(folder, name, make):
    """Write a scenario with one column mapped by a function, and return the scenario."""
    path = tracks_of(folder)
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index(name), name, make(table[name].to_pylist())), path)
    reader = Argoverse2Reader(folder)
    return reader.read(reader.list_scenes()[0])


def as_text(values):
    return pa.array([str(value) for value in values])


def first_missing(values):
    return pa.array([None, *values[1:]])


KINDS = {
    "text for numbers": ("position_x", as_text, "must hold numbers, got string"),
    "text for whole numbers": ("object_category", as_text, "must hold whole numbers, got string"),
    "text for a number of all": ("num_timestamps", as_text, "must hold numbers, got string"),
    "encoded text for numbers": (
        "velocity_y",
        lambda values: as_text(values).dictionary_encode(),
        "must hold numbers, got dictionary<values=string",
    ),
    "fractions for whole numbers": (
        "timestep",
        lambda values: pa.array([step + 0.9 for step in values]),
        "must hold whole numbers, got double",
    ),
    "numbers for text": ("track_id", lambda values: pa.array(range(len(values))), "must hold text, got int64"),
    "bytes for text": (
        "object_type",
        lambda values: pa.array([name.encode() for name in values]),
        "must hold text, got binary",
    ),
    "truth values": ("heading", lambda values: pa.array([True] * len(values)), "must hold numbers, got bool"),
    "lists": (
        "velocity_x",
        lambda values: pa.array([[value] for value in values]),
        "must hold numbers, got list<",
    ),
    "nothing": ("city", lambda values: pa.nulls(len(values)), "must hold text, got null"),
    "a text is missing": ("track_id", first_missing, "has 1 rows without a value"),
    "a number is missing": ("position_y", first_missing, "has 1 rows without a value"),
    "a whole number is missing": ("timestep", first_missing, "has 1 rows without a value"),
}


@pytest.mark.parametrize(("name", "make", "message"), KINDS.values(), ids=KINDS)
def test_a_column_of_another_kind_is_named_with_its_file(tmp_path, name, make, message):
    with pytest.raises(SourceDataError, match=f"column {name} {message}") as told:
        with_column(tmp_path, name, make)
    assert told.value.file == f"{id_of(1)}/scenario_{id_of(1)}.parquet"


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("track_id", lambda values: pa.array(values, pa.large_string())),
        ("object_type", lambda values: pa.array(values).dictionary_encode()),
        ("timestep", lambda values: pa.array(values, pa.int16())),
        ("position_x", lambda values: pa.array(values, pa.float32())),
    ],
    ids=["large text", "encoded text", "short numbers", "short fractions"],
)
def test_a_column_of_the_same_kind_in_another_form_is_read(tmp_path, name, make):
    found, expected = with_column(tmp_path / "other", name, make), read_made(tmp_path / "same")
    assert (found.tracks.ids, found.tracks.classes) == (expected.tracks.ids, expected.tracks.classes)
    np.testing.assert_allclose(found.tracks.positions_m, expected.tracks.positions_m, rtol=1e-6)


def refused_unread(folder, monkeypatch, message):
    """Read the scenario of a folder, which must be refused with a message before its columns are unpacked."""
    reader = Argoverse2Reader(folder)
    (ref,) = reader.list_scenes()
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("it is unpacked"))
    with pytest.raises(SourceDataError, match=message) as told:
        reader.read(ref)
    assert told.value.file == ref.file


def test_a_table_of_too_many_rows_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    rows = pa.array(np.zeros(5_000_001, np.int8))
    path = tracks_of(tmp_path)
    pq.write_table(pa.table({"timestep": rows}), path)
    assert path.stat().st_size < 100_000  # which does not reveal the result
    refused_unread(tmp_path, monkeypatch, r"it has 5000001 rows of \d+ bytes, but a scenario has 5000000 of 1073741824")


def test_a_table_of_too_many_bytes_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    metadata = pq.read_metadata(tracks_of(tmp_path))
    num_bytes = metadata.row_group(0).total_byte_size
    reader = Argoverse2Reader(tmp_path)
    monkeypatch.setattr(argoverse2, "_MOST_BYTES", num_bytes)
    assert reader.read(reader.list_scenes()[0]).name == id_of(1)
    monkeypatch.setattr(argoverse2, "_MOST_BYTES", num_bytes - 1)
    refused_unread(tmp_path, monkeypatch, f"it has {metadata.num_rows} rows of {num_bytes} bytes, but a scenario has")


NUM_SEEDS = 120


def test_random_damage_is_told_or_does_no_harm(tmp_path):
    folder = av2.write_scenario(tmp_path, id_of(1))
    reader = Argoverse2Reader(tmp_path)
    (ref,) = reader.list_scenes()
    paths = [*folder.iterdir()]
    whole = [path.read_bytes() for path in paths]
    named = []
    for seed in range(NUM_SEEDS):
        rng = np.random.default_rng(seed)
        content = bytearray(whole[seed % 2])
        for place in rng.integers(0, len(content), rng.integers(1, 4)):
            content[place] = rng.integers(256)
        paths[seed % 2].write_bytes(content)
        try:
            reader.read(ref)
        except SourceDataError as error:
            named.append(tmp_path / error.file)
        paths[seed % 2].write_bytes(whole[seed % 2])
    assert set(named) == set(paths)
    assert NUM_SEEDS / 4 < len(named) < NUM_SEEDS
