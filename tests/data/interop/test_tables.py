"""Arrays of records and scenes as tables of Arrow, pandas and polars, with the values of the dataset."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from l5kit.data import AGENT_DTYPE, PERCEPTION_LABELS, ChunkedDataset
from l5kit.data.interop import export_columns, to_arrow, to_arrow_batches, to_pandas, to_polars
from l5kit.errors import (
    CorruptedDataError,
    IndexOutOfRangeError,
    InvalidArgumentError,
    MissingDependencyError,
    install_command,
)
from support.logs import write_with_chunks
from support.random_logs import random_dataset, write_three_arrays

ARRAYS = {"scenes": "scenes", "frames": "frames", "agents": "agents", "traffic_light_faces": "tl_faces"}
TO_TABLE = {"arrow": to_arrow, "pandas": to_pandas, "polars": to_polars}


def values_of(table, column):
    """The values of a column of any kind of table as a NumPy array."""
    if isinstance(table, pa.Table):
        flat, shape = table[column].combine_chunks(), [len(table)]
        while pa.types.is_fixed_size_list(flat.type):
            shape.append(flat.type.list_size)
            flat = flat.flatten()
        return flat.to_numpy(zero_copy_only=False).reshape(shape)
    return table[column].to_numpy()


def assert_column(values, wanted):
    """Compare values with a field to the bit, and texts by their characters."""
    if wanted.dtype.kind == "U":
        assert values.tolist() == wanted.tolist()
        return
    assert values.dtype == wanted.dtype
    assert values.shape == wanted.shape
    assert np.ascontiguousarray(values).tobytes() == wanted.tobytes()


@pytest.fixture(scope="module")
def log():
    return random_dataset(np.random.default_rng(5), 4, min_frames=3)


@pytest.fixture(scope="module")
def opened(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.zarr"
    write_with_chunks(log, path)
    return ChunkedDataset(path).open()


def forms_of(log, opened, array):
    """The same rows in all forms in which arrays come."""
    records = getattr(log, array)
    both = ChunkedDataset.concatenate([opened, opened])
    columns = Path(opened.path).with_name("columns.zarr")
    if not columns.exists():
        export_columns(opened, columns)
    return {
        "records": records,
        "chunked": getattr(opened, array),
        "mapped": getattr(ChunkedDataset(opened.path).open(cached="mmap", progress=False), array),
        "not_cached": getattr(ChunkedDataset(opened.path).open(cached=False), array),
        "columns": getattr(ChunkedDataset(columns).open(), array),
        "view": getattr(both[: len(log)], array),
        "strided": np.repeat(records, 2)[::2],
        "recarray": records.view(np.recarray),
        "swapped": records.astype(records.dtype.newbyteorder()),
    }


@pytest.mark.parametrize("array", ARRAYS.values())
@pytest.mark.parametrize("kind", ["arrow", "polars"])
def test_every_field_of_every_array_is_a_column_with_its_values(log, opened, kind, array):
    records = getattr(log, array)
    for form in forms_of(log, opened, array).values():
        table = TO_TABLE[kind](form)
        assert (table.column_names if kind == "arrow" else table.columns) == list(records.dtype.names)
        for field in records.dtype.names:
            assert_column(values_of(table, field), records[field])


@pytest.mark.parametrize("array", ARRAYS.values())
@pytest.mark.parametrize("kind", TO_TABLE)
def test_without_lists_every_value_is_a_column(log, opened, kind, array):
    records = getattr(log, array)
    options = {} if kind == "pandas" else {"nested": False}
    for form in forms_of(log, opened, array).values():
        table = TO_TABLE[kind](form, **options)
        columns = iter(table.column_names if kind == "arrow" else table.columns)
        for field in records.dtype.names:
            numbers = records[field].reshape(len(records), -1)
            for number in range(numbers.shape[1]):
                name = next(columns)
                assert name.startswith(field)
                assert_column(values_of(table, name), np.ascontiguousarray(numbers[:, number]))
        assert next(columns, None) is None


def test_columns_have_the_names_of_axes(log):
    assert to_pandas(log.agents).columns[:9].tolist() == [
        "centroid_x",
        "centroid_y",
        "extent_length",
        "extent_width",
        "extent_height",
        "yaw",
        "velocity_x",
        "velocity_y",
        "track_id",
    ]
    row = to_pandas(log.frames).iloc[4]
    assert row["ego_rotation_x_y"] == log.frames[4]["ego_rotation"][0, 1]
    assert row["agent_index_interval_end"] == log.frames[4]["agent_index_interval"][1]


def test_types_of_arrow_and_of_polars(log):
    arrow = to_arrow(log.frames).schema
    assert arrow.field("ego_rotation").type == pa.list_(pa.list_(pa.float64(), 3), 3)
    assert arrow.field("ego_translation").metadata[b"units"] == b"m"
    assert json.loads(arrow.field("ego_translation").metadata[b"axes"]) == {"xyz": ["x", "y", "z"]}
    assert to_arrow(log.tl_faces).schema.field("face_id").type == pa.string()
    polars = to_polars(log.agents).schema
    assert polars["label_probabilities"] == pl.Array(pl.Float32, 17)
    assert polars["track_id"] == pl.UInt64
    assert to_polars(log.frames).schema["ego_rotation"] == pl.Array(pl.Float64, (3, 3))


@pytest.mark.parametrize("kind", TO_TABLE)
@pytest.mark.parametrize("scenes", [None, 2, -1, slice(1, 3), [3, 0], [False, True, False, True], []], ids=str)
def test_scenes_are_tables_with_numbers_of_scene_and_frame(log, opened, kind, scenes):
    wanted = np.arange(4)[slice(None) if scenes is None else scenes].reshape(-1).astype(int)
    for dataset in (log, opened):
        tables = TO_TABLE[kind](dataset, scenes)
        assert list(tables) == list(ARRAYS)
        assert values_of(tables["scenes"], "scene_index").tolist() == wanted.tolist()
        frames = [log.frames[slice(*log.scenes["frame_index_interval"][scene])] for scene in wanted]
        assert_column(values_of(tables["frames"], "timestamp"), np.concatenate([log.frames[:0], *frames])["timestamp"])
        numbers = [(scene, number) for scene, rows in zip(wanted, frames, strict=True) for number in range(len(rows))]
        for key, field in (
            ("agents", "agent_index_interval"),
            ("traffic_light_faces", "traffic_light_faces_index_interval"),
        ):
            counts = [int(np.diff(row[field])[0]) for rows in frames for row in rows]
            found = [values_of(tables[key], name).tolist() for name in ("scene_index", "frame_index")]
            assert list(zip(*found, strict=True)) == [
                place for place, n in zip(numbers, counts, strict=True) for _ in range(n)
            ]


@pytest.mark.parametrize("kind", TO_TABLE)
def test_numbers_of_scene_and_frame_stand_before_the_fields(log, kind):
    for key, table in TO_TABLE[kind](log, [1]).items():
        numbers = ["scene_index", "frame_index"][: 1 if key == "scenes" else 2]
        names = table.column_names if kind == "arrow" else list(table.columns)
        plain = TO_TABLE[kind](getattr(log, ARRAYS[key]))
        assert names == numbers + (plain.column_names if kind == "arrow" else list(plain.columns))


def test_intervals_of_scenes_count_rows_of_the_dataset(log):
    tables = to_arrow(log, [2, 1])
    assert_column(values_of(tables["scenes"], "frame_index_interval"), log.scenes[[2, 1]]["frame_index_interval"])
    first = log.frames[slice(*log.scenes["frame_index_interval"][2])]
    for field in ("agent_index_interval", "traffic_light_faces_index_interval"):
        assert_column(values_of(tables["frames"], field)[: len(first)], first[field])
    agents = log.agents[slice(first["agent_index_interval"][0, 0], first["agent_index_interval"][-1, 1])]
    assert_column(values_of(tables["agents"], "centroid")[: len(agents)], agents["centroid"])


@pytest.mark.parametrize("kind", TO_TABLE)
def test_one_scene_of_a_dataset_is_given_as_it_is(log, kind):
    tables = TO_TABLE[kind](log[2])
    assert_column(values_of(tables["agents"], "track_id"), log[2].agents["track_id"])
    assert set(values_of(tables["frames"], "scene_index")) == {0}


def test_the_source_may_change_after_its_table_was_made(log):
    records = np.zeros(3, dtype=[("speed_mps", np.float64)])
    frame, polars = to_pandas(records), to_polars(records)
    records["speed_mps"] = 7
    assert frame["speed_mps"].tolist() == polars["speed_mps"].to_list() == [0.0] * 3
    frame["speed_mps"] += 1.0
    frame = to_pandas(log.agents)
    frame["centroid_x"] += 1.0
    assert frame["centroid_x"].tolist() == (log.agents["centroid"][:, 0] + 1.0).tolist()


def test_arrow_has_the_memory_of_a_field_that_lies_alone():
    records = np.zeros(3, dtype=[("speed_mps", np.float64)])
    assert to_arrow(records)["speed_mps"].chunk(0).buffers()[1].address == records.ctypes.data


@pytest.mark.parametrize("kind", TO_TABLE)
def test_names_of_labels_and_states(kind):
    agents = np.zeros(4, dtype=AGENT_DTYPE)
    agents["label_probabilities"][0, [3, 14]] = 0.4, 0.6
    agents["label_probabilities"][1, 3] = 1
    agents["label_probabilities"][3] = np.nan
    names = TO_TABLE[kind](agents, label_names=True)["label"]
    if kind == "arrow":
        assert pa.types.is_dictionary(names.type)
        names = names.to_pylist()
    elif kind == "polars":
        assert names.dtype == pl.Enum(PERCEPTION_LABELS)
        names = names.to_list()
    else:
        assert names.cat.categories.tolist() == PERCEPTION_LABELS
        names = names.astype(object).where(names.notna(), None).tolist()
    assert names == ["PERCEPTION_LABEL_PEDESTRIAN", "PERCEPTION_LABEL_CAR", None, None]


def test_names_of_states_of_faces(log):
    states = np.array(["ACTIVE", "INACTIVE", "UNKNOWN"])
    found = to_pandas(log.tl_faces, label_names=True)["status"].tolist()
    assert found == states[log.tl_faces["traffic_light_face_status"].argmax(axis=1)].tolist()
    assert "status" not in to_pandas(log.tl_faces).columns


@pytest.mark.parametrize("kind", TO_TABLE)
def test_columns_are_chosen_in_the_order_wanted(log, kind):
    table = TO_TABLE[kind](log.agents, columns=["yaw", "centroid"])
    names = table.column_names if kind == "arrow" else list(table.columns)
    assert names == (["yaw", "centroid_x", "centroid_y"] if kind == "pandas" else ["yaw", "centroid"])


@pytest.mark.parametrize("kind", TO_TABLE)
@pytest.mark.parametrize("columns", [[], ["yaw"], ["yaw", "label"], ["label", "yaw"], ["label_probabilities"]])
@pytest.mark.parametrize(("array", "name"), [("agents", "label"), ("tl_faces", "status"), ("frames", None)])
def test_names_are_added_whatever_columns_are_chosen(log, kind, columns, array, name):
    stand_in = {"agents": {}, "tl_faces": {"yaw": "face_id", "label": "status"}, "frames": {"yaw": "timestamp"}}[array]
    wanted = [stand_in.get(column, column) for column in columns]
    fields = (*getattr(log, array).dtype.names, name)
    wanted = [column for column in wanted if column in fields]
    table = TO_TABLE[kind](getattr(log, array), columns=wanted, label_names=True)
    found = table.column_names if kind == "arrow" else list(table.columns)
    named = [column for column in found if column in ("label", "status")]
    assert named == ([] if name is None else [name])
    if name is not None and name not in wanted:
        assert found[-1] == name
    plain = TO_TABLE[kind](getattr(log, array), columns=[column for column in wanted if column != name])
    others = plain.column_names if kind == "arrow" else list(plain.columns)
    assert [column for column in found if column != name] == others


def test_single_columns_are_chosen_by_name(log):
    frame = to_pandas(log.agents, columns=["velocity_y", "label", "velocity"], label_names=True)
    assert frame.columns.tolist() == ["velocity_y", "label", "velocity_x"]


@pytest.mark.parametrize(
    ("data", "options", "text"),
    [
        ("agents", {"columns": ["speed"]}, "columns has 'speed'; there are .*'centroid'"),
        ("agents", {"columns": "yaw"}, r"single 'yaw'; put it into a list"),
        ("agents", {"columns": ["label"]}, "columns has 'label'"),
        ("agents", {"scenes": 1}, "scenes is 1, but data is an array"),
        ("log", {"columns": ["yaw"]}, "pass one array"),
        ("log", {"scenes": "all"}, "scenes must be a whole number"),
        ("numbers", {}, r"records along one axis .* got float64 of shape \(3,\)"),
        ("table", {}, "records along one axis .* got void.* shape"),
        ("path", {}, "got 'a.zarr'"),
    ],
)
@pytest.mark.parametrize("kind", TO_TABLE)
def test_what_cannot_be_is_an_error_that_says_what_can(log, kind, data, options, text):
    data = {
        "agents": log.agents,
        "log": log,
        "numbers": np.zeros(3),
        "table": np.zeros((2, 2), AGENT_DTYPE),
        "path": "a.zarr",
    }[data]
    with pytest.raises(InvalidArgumentError, match=text.replace("void.*", r".*")):
        TO_TABLE[kind](data, **options)


@pytest.mark.parametrize("kind", TO_TABLE)
def test_a_dataset_that_was_not_opened_is_no_empty_one(opened, kind):
    with pytest.raises(InvalidArgumentError, match=r"which is not open; call open\(\) on it"):
        TO_TABLE[kind](ChunkedDataset(opened.path))
    assert len(TO_TABLE[kind](ChunkedDataset(""))["agents"]) == 0


@pytest.mark.parametrize("kind", TO_TABLE)
def test_a_scene_that_is_not_there(log, kind):
    with pytest.raises(IndexOutOfRangeError, match="scenes names scene 4"):
        TO_TABLE[kind](log, 4)


@pytest.mark.parametrize("kind", TO_TABLE)
def test_no_rows_give_the_same_columns(log, kind):
    some, none = (TO_TABLE[kind](rows, label_names=True) for rows in (log.agents, log.agents[:0]))
    assert len(none) == 0
    if kind == "pandas":
        assert none.dtypes.equals(some.dtypes)
    else:
        assert none.schema == some.schema


@pytest.mark.parametrize("kind", TO_TABLE)
def test_a_dataset_of_the_older_layout_has_no_faces(log, tmp_path, kind):
    path = write_three_arrays(log, tmp_path / "older.zarr")
    with pytest.warns(RuntimeWarning, match="without traffic lights"):
        older = ChunkedDataset(path).open()
    tables = TO_TABLE[kind](older)
    assert len(tables["traffic_light_faces"]) == 0
    assert_column(values_of(tables["agents"], "yaw"), log.agents["yaw"])


@pytest.mark.parametrize("kind", TO_TABLE)
@pytest.mark.parametrize("whole", [True, False])
def test_a_lost_chunk_is_an_error(log, tmp_path, kind, whole):
    write_with_chunks(log, tmp_path / "log.zarr")
    (tmp_path / "log.zarr" / "agents" / "1").unlink()
    dataset = ChunkedDataset(tmp_path / "log.zarr").open()
    with pytest.raises(CorruptedDataError, match="agents/1 is missing"):
        TO_TABLE[kind](dataset.agents if whole else dataset)


def test_batches_are_read_when_they_are_asked_for(opened, log, monkeypatch):
    (chunk_length,) = opened.agents.chunks
    reader = to_arrow_batches(opened.agents, rows_per_batch=2 * chunk_length + 1, columns=["track_id"])
    read = []
    monkeypatch.setattr(
        type(opened.agents),
        "passing_rows",
        lambda array, start, stop: read.append((start, stop)) or array.rows(start, stop),
    )
    first = reader.read_next_batch()
    assert read == [(0, 2 * chunk_length)]
    rest = reader.read_all()
    assert len(first) + len(rest) == len(log.agents)
    assert (
        values_of(pa.Table.from_batches([first]), "track_id").tolist() == log.agents["track_id"][: len(first)].tolist()
    )


def test_batches_have_at_least_one_row(log):
    with pytest.raises(InvalidArgumentError, match="rows_per_batch must be 1 or more, got 0"):
        to_arrow_batches(log.agents, rows_per_batch=0)


def test_libraries_that_take_arrow_take_an_array(opened, log):
    pytest.importorskip("duckdb")
    import duckdb

    agents = opened.agents
    assert pa.table(agents).equals(to_arrow(log.agents))
    assert pl.DataFrame(agents).equals(to_polars(log.agents))
    (found,) = duckdb.sql("select count(*), sum(track_id), max(centroid[2]) from agents").fetchall()
    assert found == (len(log.agents), int(log.agents["track_id"].sum()), log.agents["centroid"][:, 1].max())
    if hasattr(pd.DataFrame, "from_arrow"):
        assert len(pd.DataFrame.from_arrow(agents)) == len(log.agents)


@pytest.mark.parametrize(
    ("kind", "library", "extra"), [("arrow", "pyarrow", "arrow"), ("pandas",) * 3, ("polars",) * 3]
)
def test_a_library_that_is_missing_is_named_with_its_extra(log, monkeypatch, kind, library, extra):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependencyError, match=re.escape(f"needs {library}: {install_command(extra)}")):
        TO_TABLE[kind](log.agents)


def test_polars_needs_no_pyarrow(log, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert to_polars(log.agents, label_names=True).shape == (len(log.agents), 7)
    with pytest.raises(MissingDependencyError, match="to_arrow_batches needs pyarrow"):
        to_arrow_batches(log.agents)


def test_texts_that_are_none_are_shown(log):
    faces = log.tl_faces[:2].copy()
    faces["face_id"][1:].view(np.uint32)[0] = 0x110000
    for table in (to_arrow(faces).to_pydict(), to_pandas(faces), to_polars(faces)):
        assert list(table["face_id"])[1].startswith("\N{REPLACEMENT CHARACTER}")
