"""Dask arrays and dataframes of the records of a dataset."""

import sys

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.interop import to_dask_array, to_dask_dataframe
from l5kit.data.views import RecordView, Segments
from l5kit.errors import InvalidArgumentError, MissingDependencyError


def test_an_array_holds_the_records_in_the_chunks_of_the_files(stored):
    array = to_dask_array(stored.agents)
    assert array.chunks == ((10, 10, 10, 4),)
    assert array.compute().tobytes() == stored.agents[:].tobytes()
    assert to_dask_array(stored.agents, chunks_at_once=3).chunks == ((30, 4),)


def test_parts_of_a_view_that_are_short_are_taken_together_up_to_a_chunk(stored):
    ranges = np.array([[2, 8], [14, 18], [21, 22]])
    segments = Segments(np.zeros(3, np.int64), ranges[:, 0], ranges[:, 1])
    view = RecordView([stored.agents], segments, dtype=stored.agents.dtype)
    array = to_dask_array(view, "track_id")
    assert array.chunks == ((10, 1),)
    rows = [row for start, stop in ranges.tolist() for row in range(start, stop)]
    assert array.compute().tolist() == stored.agents["track_id"][rows].tolist()


def test_one_field_is_an_array(stored):
    field = to_dask_array(stored.frames, "ego_rotation")
    assert (field.shape, field.chunks[0]) == ((48, 3, 3), (20, 20, 8))
    assert field[20:18:-1].compute().tolist() == stored.frames["ego_rotation"][20:18:-1].tolist()


def test_other_arrays_of_datasets(made, stored):
    view = ChunkedDataset.concatenate([stored, made])
    assert to_dask_array(view.agents, "yaw").compute().tolist() == [*made.agents["yaw"]] * 2
    assert to_dask_array(made.agents["yaw"].astype([("yaw", "f4")])["yaw"].view([("yaw", "f4")])).shape == (34,)
    mapped = ChunkedDataset(stored.path).open(cached="mmap", progress=False)
    assert to_dask_array(mapped.frames).compute().tobytes() == made.frames.tobytes()
    assert to_dask_array(made.agents[:0], "centroid").compute().shape == (0, 2)


def test_a_dataframe_has_a_partition_for_each_chunk_and_a_column_for_each_number(stored):
    frame = to_dask_dataframe(stored.agents, ["track_id", "centroid", "extent_height"])
    assert frame.divisions == (0, 10, 20, 30, 33)
    table = frame.compute()
    assert table.columns.tolist() == ["track_id", "centroid_x", "centroid_y", "extent_height"]
    assert (table.index.name, table.index.tolist()) == ("row", list(range(34)))
    assert table["centroid_y"].tolist() == stored.agents["centroid"][:, 1].tolist()
    assert table["extent_height"].tolist() == stored.agents["extent"][:, 2].tolist()
    assert table.dtypes.astype(str).tolist() == ["uint64", "float64", "float64", "float32"]
    assert frame.loc[20:21].compute()["track_id"].tolist() == stored.agents["track_id"][20:22].tolist()


def test_all_columns_have_names(stored):
    assert len(to_dask_dataframe(stored.agents).columns) == 2 + 3 + 1 + 2 + 1 + 17
    assert {"ego_rotation_x_z", "ego_translation_z", "agent_index_interval_end"} < {
        *to_dask_dataframe(stored.frames).columns
    }
    assert "label_probabilities_PERCEPTION_LABEL_CAR" in to_dask_dataframe(stored.agents).columns


def test_texts_are_texts(stored):
    table = to_dask_dataframe(stored.scenes).compute()
    assert table["host"].tolist() == stored.scenes["host"].tolist()
    assert table["start_time"].dtype == np.int64
    groups = to_dask_dataframe(stored.tl_faces).groupby("face_id")["traffic_light_face_status_ACTIVE"].sum().compute()
    expected = [
        stored.tl_faces["traffic_light_face_status"][stored.tl_faces["face_id"] == face, 0].sum()
        for face in groups.index
    ]
    assert groups.tolist() == expected
    assert groups.index.tolist()


def test_each_file_is_read_once(stored, chunks_read):
    to_dask_dataframe(stored.agents, ["velocity_x", "yaw"]).sum().compute()
    assert sorted(chunks_read) == [f"agents/{number}" for number in range(4)]


def test_a_dataset_without_rows_is_an_empty_table(stored):
    table = to_dask_dataframe(stored.agents[:0], ["centroid"]).compute()
    assert (table.shape, table.columns.tolist()) == ((0, 2), ["centroid_x", "centroid_y"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda log: to_dask_array(log), "records must be an array of an opened dataset, such as dataset.agents"),
        (lambda log: to_dask_array(np.zeros(3)), "records must be an array of an opened dataset"),
        (lambda log: to_dask_array(log.agents, "speed"), r"field must be one of \['centroid', .* got 'speed'"),
        (lambda log: to_dask_array(log.agents, chunks_at_once=-1), "chunks_at_once must be 1 or more, got -1"),
        (lambda log: to_dask_dataframe(log.agents, "yaw"), r"got the single 'yaw'; put it into a list"),
        (lambda log: to_dask_dataframe(log.agents, ["speed"]), r"columns has 'speed'; there are .*'yaw'"),
    ],
)
def test_wrong_calls(stored, call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call(stored)


@pytest.mark.parametrize(("call", "library"), [(to_dask_array, "dask.array"), (to_dask_dataframe, "dask.dataframe")])
def test_without_dask_the_extra_is_named(stored, monkeypatch, call, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[xarray"):
        call(stored.agents)
