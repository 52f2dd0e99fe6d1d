"""The reader of people's own tables: what a column map says, what is made up, and what is refused by column and row."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.jobs.worker_processes import WorkerProcesses
from l5kit.errors import ConfigError, DatasetNotFoundError
from l5kit.readers.formats import ReaderOptions, open_reader
from l5kit.readers.importing import import_dataset
from l5kit.readers.motion import headings_of
from l5kit.readers.reader import SourceDataError
from support.table_files import COLUMNS, FEATURES, NUM_STEPS, Table, feature, write_columns, write_map


def without(*names):
    return {meaning: name for meaning, name in COLUMNS.items() if meaning not in names}


def read_one(folder, table=None, *, name="a.csv", **changes):
    (table or Table.make()).write(folder / name)
    write_columns(folder, **changes)
    reader = open_reader("table", folder)
    (ref,) = reader.list_scenes()
    return reader.read(ref)


# --- content of tables


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_tracks_have_places_sizes_classes_and_gaps(tmp_path, name):
    scene = read_one(tmp_path, name=name)
    assert scene.ego.positions_m[:, 0] == pytest.approx(0.8 * np.arange(NUM_STEPS))
    assert scene.ego.size_m.tolist() == [4.8, 1.9, 1.6]
    assert scene.timestamps_ns[:2].tolist() == [1_000_000_000, 1_100_000_000]
    tracks = scene.tracks
    assert (tracks.ids, tracks.classes) == (("7", "8"), ("car", "man"))
    assert tracks.is_valid.sum(axis=1).tolist() == [NUM_STEPS, NUM_STEPS - 10]
    assert tracks.velocities_mps[0, 5].tolist() == pytest.approx([8.0, 0.0])
    assert tracks.yaws_rad[1, 0] == pytest.approx(np.pi / 2)
    assert tracks.sizes_m[1, 0].tolist() == [0.6, 0.6, 1.75]


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_columns_may_be_parted_by_other_letters(tmp_path, delimiter):
    Table.make().write(tmp_path / "a.csv", delimiter=delimiter)
    write_columns(tmp_path)
    reader = open_reader("table", tmp_path)
    assert len(reader.read(reader.list_scenes()[0]).timestamps_ns) == NUM_STEPS


def test_units_are_turned_into_seconds_and_radians(tmp_path):
    table = Table.make()
    table.columns["t"] = [round(1000 * time_s) for time_s in table.columns["t"]]
    table.columns["yaw"] = np.degrees(table.columns["yaw"]).tolist()
    scene = read_one(tmp_path, table, time_unit="ms", heading_unit="deg")
    assert scene.timestamps_ns[1] - scene.timestamps_ns[0] == 100_000_000
    assert scene.tracks.yaws_rad[1, 0] == pytest.approx(np.pi / 2)


@pytest.mark.parametrize("kind", ["seconds", "text", "timestamp"])
def test_times_may_count_from_1970(tmp_path, kind):
    start_s = 1_700_000_000
    table = Table.make(start_s=start_s)
    times_ns = np.rint(np.array(table.columns["t"]) * 1e9).astype(np.int64)
    name = "a.csv"
    if kind == "text":
        table.columns["t"] = [str(np.datetime64(int(each), "ns"))[:23] for each in times_ns]
    elif kind == "timestamp":
        table.columns["t"], name = pa.array(times_ns, pa.timestamp("ns")), "a.parquet"
    scene = read_one(tmp_path, table, name=name)
    assert scene.timestamps_ns[0] == start_s * 1_000_000_000
    assert np.diff(scene.timestamps_ns) == pytest.approx(np.full(NUM_STEPS - 1, 1e8), abs=2e6)


def test_what_a_table_does_not_tell_is_made_up_and_told(tmp_path):
    scene = read_one(
        tmp_path, columns=without("heading", "length", "width", "class"), classes=None, sizes={"CAR": [5, 2, 1.5]}
    )
    assert scene.tracks.yaws_rad[0] == pytest.approx(np.zeros(NUM_STEPS), abs=1e-6)
    assert scene.tracks.yaws_rad[1, :5] == pytest.approx(np.full(5, np.pi / 2))
    assert scene.ego.size_m.tolist() == [5.0, 2.0, 1.5]
    made_up = " ".join(open_reader("table", tmp_path).info.made_up)
    for text in ("Headings: the direction of motion", "Velocities: differences", "Sizes: defaults", "all are cars"):
        assert text in made_up


def test_classes_that_are_not_listed_are_unknown_and_told(tmp_path):
    scene = read_one(tmp_path, classes={"car": "PERCEPTION_LABEL_CAR"})
    assert scene.tracks.classes == ("car", "other")
    assert "Classes that classes: does not list are UNKNOWN: man." in scene.remarks
    assert open_reader("table", tmp_path).info.label_mapping["other"] == "PERCEPTION_LABEL_UNKNOWN"


def test_without_an_av_the_vehicle_seen_the_longest_is_taken(tmp_path):
    table = Table.make()
    kept = [row for row, name in enumerate(table.columns["id"]) if name != "ego" or row > 30]
    table.columns = {name: [values[row] for row in kept] for name, values in table.columns.items()}
    scene = read_one(tmp_path, table, av="none")
    assert scene.ego.positions_m[0, 0] == 20.0
    assert scene.tracks.ids == ("8", "ego")
    assert any("track '7', the vehicle that is seen the longest, is used" in remark for remark in scene.remarks)


def test_headings_hold_while_a_track_stands():
    velocities = np.zeros((2, 5, 2))
    velocities[0, 1:3] = [[0.0, 2.0], [2.0, 0.0]]
    found = headings_of(velocities, np.ones((2, 5), bool))
    assert found.tolist() == [pytest.approx([np.pi / 2, np.pi / 2, 0, 0, 0]), [0.0] * 5]


# --- other rates, many scenes


@pytest.mark.parametrize("step_s", [0.04, 0.5])
def test_rows_at_another_rate_are_interpolated(tmp_path, step_s):
    scene = read_one(tmp_path, Table.make(step_s=step_s, num_steps=21), step=0.1)
    assert set(np.diff(scene.timestamps_ns)) == {100_000_000}
    steps = len(scene.timestamps_ns)
    assert steps == round(20 * step_s / 0.1) + 1
    assert scene.ego.positions_m[:, 0] == pytest.approx(0.8 * np.arange(steps), abs=1e-9)
    hidden = ~scene.tracks.is_valid[1]
    assert hidden.sum() == pytest.approx(10 * step_s / 0.1, abs=1.0 + step_s / 0.1)


def test_tracks_with_times_of_their_own_meet_in_even_steps(tmp_path):
    table = Table.make()
    shift = {"ego": 0.0, "7": 0.013, "8": 0.041}
    table.columns["t"] = [
        round(time_s + shift[name], 6) for time_s, name in zip(table.columns["t"], table.columns["id"], strict=True)
    ]
    scene = read_one(tmp_path, table, step=0.1)
    assert scene.tracks.positions_m[0, 5, 0] == pytest.approx(20 + 8 * (0.5 - 0.013))
    with pytest.raises(SourceDataError, match=r"has rows at 40 of the \d+ times .* Write step: 0\.1 in the column map"):
        read_one(tmp_path / "raw", table)


def test_a_column_of_scenes_makes_several_of_a_file(tmp_path):
    first, second = Table.make(), Table.make(num_steps=12)
    both = {name: first.columns[name] + second.columns[name] for name in first.columns}
    both["s"] = [2] * len(first.columns["t"]) + [10] * len(second.columns["t"])
    Table(both).write(tmp_path / "train" / "a.csv")
    write_columns(tmp_path, columns=COLUMNS | {"scene": "s"})
    reader = open_reader("table", tmp_path)
    refs = reader.list_scenes()
    assert sorted((ref.split, ref.name, ref.record) for ref in refs) == [
        ("train", "train/a/10", "scene '10'"),
        ("train", "train/a/2", "scene '2'"),
    ]
    assert {ref.name: len(reader.read(ref).timestamps_ns) for ref in refs} == {"train/a/10": 12, "train/a/2": NUM_STEPS}


def test_long_recordings_are_cut(tmp_path):
    Table.make().write(tmp_path / "a.csv")
    write_columns(tmp_path, scene_seconds=1.5)
    reader = open_reader("table", tmp_path)
    scenes = [reader.read(ref) for ref in reader.list_scenes()]
    assert [(scene.name, len(scene.timestamps_ns)) for scene in scenes] == [
        ("a/0000", 15),
        ("a/0001", 15),
        ("a/0002", 10),
    ]


def test_a_recording_that_would_be_cut_into_too_many_scenes_is_listed_and_refused_by_name(tmp_path):
    table = Table.make()
    table.columns["t"][-1] = 200.0
    table.write(tmp_path / "long.csv")
    Table.make().write(tmp_path / "short.csv")
    write_columns(tmp_path, scene_seconds=0.001)
    long, *others = open_reader("table", tmp_path).list_scenes()
    assert (long.file, {ref.file for ref in others}) == ("long.csv", {"short.csv"})
    with pytest.raises(SourceDataError, match=r"^long\.csv: it has 200001 pieces of scene_seconds, more than 100000"):
        open_reader("table", tmp_path).read(long)


def test_of_the_scenes_of_a_file_the_one_that_would_be_cut_into_too_many_is_refused_alone(tmp_path):
    first, second = Table.make(), Table.make(num_steps=12)
    second.columns["t"][-1] = 200.0
    both = {name: first.columns[name] + second.columns[name] for name in first.columns}
    both["s"] = [1] * len(first.columns["t"]) + [2] * len(second.columns["t"])
    Table(both).write(tmp_path / "a.csv")
    write_columns(tmp_path, columns=COLUMNS | {"scene": "s"}, scene_seconds=0.001)
    reader = open_reader("table", tmp_path)
    *pieces, long = reader.list_scenes()
    assert (len(pieces), long.name) == (NUM_STEPS, "a/2")
    assert {ref.record for ref in pieces} == {f"scene '1', piece {piece}" for piece in range(NUM_STEPS)}
    with pytest.raises(SourceDataError, match=r"^a\.csv \(scene '2'\): it has 200001 pieces of scene_seconds"):
        reader.read(long)


# --- maps


def test_a_map_of_geojson_has_lanes_areas_and_signs(tmp_path):
    write_map(tmp_path, FEATURES)
    scene = read_one(tmp_path, map="map.geojson")
    lanes = {lane.lane_id: lane for lane in scene.map.lanes}
    assert lanes["in"].successors == ("on",)
    assert lanes["in"].left_m[:, 1].tolist() == [1.6, 1.6]
    assert lanes["in"].speed_limit_mps == pytest.approx(10.0)
    assert (lanes["on"].left_neighbour, lanes["beside"].kind, lanes["beside"].is_in_junction) == (
        "beside",
        "bus",
        False,
    )
    assert [(area.kind, len(area.outline_m)) for area in scene.map.areas] == [("crosswalk", 4)]
    assert [(sign.position_m.tolist(), sign.lane_ids) for sign in scene.map.signs] == [([18.0, -3.0, 0.5], ("in",))]
    assert any("begins within 0.5 m of another's end" in remark for remark in scene.remarks)


def test_a_lane_that_ends_where_it_begins_does_not_follow_itself(tmp_path):
    ring = feature("LineString", [[0, 50], [20, 50], [20, 70], [0, 50.2]], id="ring")
    write_map(tmp_path, [ring, feature("LineString", [[0, 49.8], [-20, 49.8]], id="out")])
    scene = read_one(tmp_path, map="map.geojson")
    assert {lane.lane_id: lane.successors for lane in scene.map.lanes} == {"ring": ("out",), "out": ()}


def test_a_map_in_degrees_lies_around_its_origin(tmp_path):
    degree_m = 111_319.49  # of longitude at the equator
    write_map(tmp_path, [feature("LineString", [[10.0, 0.0], [10.0 + 100 / degree_m, 0.0]], id="a")])
    scene = read_one(tmp_path, map="map.geojson", map_origin=[0.0, 10.0])
    assert scene.map.lanes[0].centre_m == pytest.approx(np.array([[0, 0, 0], [100, 0, 0]]), abs=1e-2)


MAP_DAMAGE = {
    "no such file": (None, r"map\.geojson: there is no such file"),
    "no JSON": ("{", r"map\.geojson: the map is not valid JSON"),
    "no features": ("{}", r"map\.geojson: features is missing"),
    "no geometry": ([{"type": "Feature"}], r"map\.geojson \(feature 0\): the feature\.geometry is missing"),
    "other shape": ([feature("MultiPoint", [])], r"geometry\.type must be one of LineString, Polygon, Point"),
    "other kind": ([feature("Polygon", [[[0, 0], [1, 0], [1, 1]]], kind="lawn")], "kind of a Polygon must be one of"),
    "one point": ([feature("LineString", [[0, 0]])], "must have two points apart"),
    "text": ([feature("LineString", [["a", 0], [1, 1]])], "coordinates must be numbers"),
    "two lanes": ([FEATURES[0], FEATURES[0]], r"feature 1\): there are two lanes with the id 'in'"),
    "width": ([feature("LineString", [[0, 0], [1, 1]], width=-1)], r"width of lane '0' must be from 0\.5 to 50 m"),
    "not finite": ('{"features": [{"geometry": {"type": "Point", "coordinates": [NaN, 1]}}]}', "must be x, y, z"),
}


@pytest.mark.parametrize("kind", MAP_DAMAGE)
def test_what_is_no_map_is_refused_by_feature(tmp_path, kind):
    content, message = MAP_DAMAGE[kind]
    if isinstance(content, str):
        (tmp_path / "map.geojson").write_text(content)
    elif content is not None:
        write_map(tmp_path, content)
    with pytest.raises(SourceDataError, match=message):
        read_one(tmp_path, map="map.geojson")


# --- what is refused


def _nan(table):
    table.columns["yaw"][7] = float("nan")


def _twice(table):
    for values in table.columns.values():
        values.append(values[3])


def _text(table):
    table.columns["px"][4] = "here"


def _empty(table):
    for values in table.columns.values():
        values.clear()


def _hole(table):
    table.columns["py"][2] = ""


def _no_av(table):
    table.columns["id"] = [name.replace("ego", "me") for name in table.columns["id"]]


def _renamed(table):
    table.columns["pxx"] = table.columns.pop("px")


def _size(table):
    table.columns["l"][1] = -4.0


DAMAGE = {
    "NaN": (_nan, r"column 'yaw' has no value in row 8, and in 1 rows"),
    "a row twice": (_twice, r"track 'ego' has two rows at \d+ ns"),
    "text": (_text, r"column 'px' must hold numbers, got string, such as 'here' in row 5"),
    "no rows": (_empty, "it has no rows"),
    "a hole": (_hole, r"column 'py' has no value in row 3, and in 1 rows"),
    "no AV": (_no_av, r"there is no track 'ego', the AV of the column map; there are: 7, 8, me\. Without an AV"),
    "no column": (_renamed, r"there is no column 'px' \(did you mean 'pxx'\?\), which the column map names"),
    "size below 0": (_size, "sizes_m of track '7'"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_fails_one_file_with_column_and_row(tmp_path, kind):
    damage, message = DAMAGE[kind]
    for name in "bc":
        Table.make().write(tmp_path / "set" / f"{name}.csv")
    table = Table.make()
    damage(table)
    table.write(tmp_path / "set" / "a.csv")
    write_columns(tmp_path / "set")
    result = import_dataset(open_reader("table", tmp_path / "set"), tmp_path / "out")
    assert result.num_scenes == 2
    (failed,) = result.failed
    assert failed.message.startswith("a.csv: ")
    with pytest.raises(ValueError, match=message):
        raise ValueError(failed.message)


COLUMN_MAPS = {
    "no mapping": ("[1]", "must hold keys and values"),
    "no columns": ("av: a", "must have columns: with the names of time, track, x, y"),
    "a key": ("colums: {}\nav: a", r"has the key 'colums' \(did you mean 'columns'\?\)"),
    "a needed one": ("columns: {time: t, track: i, x: x}\nav: a", r"lacks columns\.y"),
    "an unknown one": ("columns: {time: t, track: i, x: x, y: y, yaw: y}\nav: a", "has the key 'yaw'"),
    "no av": ("columns: {time: t, track: i, x: x, y: y}", "av must be the id of the track of the AV, or none"),
    "classes": ("columns: {time: t, track: i, x: x, y: y, class: k}\nav: a", "so classes: must give a label"),
    "a label": (
        "columns: {time: t, track: i, x: x, y: y, class: k}\nav: a\nclasses: {c: CARR}",
        r"classes\.c is 'CARR' \(did you mean 'CAR'\?\)",
    ),
    "a unit": (
        "columns: {time: t, track: i, x: x, y: y}\nav: a\ntime_unit: h",
        "time_unit must be one of s, ms, us, ns",
    ),
    "a size": ("columns: {time: t, track: i, x: x, y: y}\nav: a\nsizes: {CAR: [1, 2]}", r"sizes\.CAR must be"),
    "half a size": ("columns: {time: t, track: i, x: x, y: y, length: l}\nav: a", "must be given both or not at all"),
    "a step": ("columns: {time: t, track: i, x: x, y: y}\nav: a\nstep: 0", "step must be seconds from"),
    "an origin": ("columns: {time: t, track: i, x: x, y: y}\nav: a\nmap_origin: [100, 0]", "map_origin must be"),
}


@pytest.mark.parametrize("kind", COLUMN_MAPS)
def test_a_column_map_is_checked_by_key(tmp_path, kind):
    text, message = COLUMN_MAPS[kind]
    (tmp_path / "columns.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        open_reader("table", tmp_path)


def test_headings_that_are_no_numbers_are_refused_in_parquet_files_too(tmp_path):
    table = Table.make()
    table.columns["yaw"][5] = float("nan")
    with pytest.raises(SourceDataError, match=r"a\.parquet: yaws_rad of track '8', step 1 must be finite"):
        read_one(tmp_path, table, name="a.parquet")


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="there is no such folder"):
        open_reader("table", tmp_path / "none")
    with pytest.raises(DatasetNotFoundError, match="there is no column map"):
        open_reader("table", tmp_path)
    write_columns(tmp_path)
    with pytest.raises(DatasetNotFoundError, match="there are no tables in"):
        open_reader("table", tmp_path).list_scenes()


# --- whole imports


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.process
@pytest.mark.parametrize("has_map", [True, False])
def test_an_import_is_valid_and_the_same_for_any_number_of_processes(tmp_path, has_map):
    for name in "abc":
        Table.make().write(tmp_path / "set" / f"{name}.csv")
    write_map(tmp_path / "elsewhere", FEATURES)
    columns = write_columns(tmp_path / "elsewhere", map="map.geojson" if has_map else None, licence="mine", name="Ours")
    reader = open_reader("table", tmp_path / "set", ReaderOptions(columns=columns))
    result = import_dataset(reader, tmp_path / "one")
    assert not result.failed
    path = result.scenes["sample"]
    assert validate_path(path) == []
    log = ChunkedDataset(str(path)).open()
    assert (len(log.scenes), log.facts.step_time_s, log.facts.sources[0]["licence"]) == (3, 0.1, "mine")
    with WorkerProcesses(2) as workers:
        import_dataset(reader, tmp_path / "two", workers=workers)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_a_changed_column_map_is_read_again(tmp_path):
    Table.make().write(tmp_path / "a.csv")
    columns = write_columns(tmp_path)
    (ref,) = open_reader("table", tmp_path).list_scenes()
    assert str(columns) in ref.others
    again = pickle.loads(pickle.dumps(open_reader("table", tmp_path)))
    assert len(again.read(ref).timestamps_ns) == NUM_STEPS
