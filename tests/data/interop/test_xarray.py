"""Datasets as xarray knows them: names, units and coordinates; what is read, and when."""

import os
import pickle
import re

import dask
import numpy as np
import pytest
import xarray as xr

from l5kit.data import PERCEPTION_LABELS, ChunkedDataset, LogFacts
from l5kit.data.interop import to_xarray
from l5kit.data.layout import ARRAYS
from l5kit.data.views import view_of_scenes
from l5kit.errors import (
    CorruptedDataError,
    IndexOutOfRangeError,
    InvalidArgumentError,
    MissingDependencyError,
    install_command,
)
from support.random_logs import random_dataset, write_three_arrays

SCHEMA = {
    "scenes_frame_index_interval": (("scene", "bound"), None, None),
    "scenes_host": (("scene",), None, None),
    "scenes_start_time": (("scene",), "ns", None),
    "scenes_end_time": (("scene",), "ns", None),
    "frames_timestamp": (("frame",), "ns", None),
    "frames_agent_index_interval": (("frame", "bound"), None, None),
    "frames_traffic_light_faces_index_interval": (("frame", "bound"), None, None),
    "frames_ego_translation": (("frame", "xyz"), "m", "world"),
    "frames_ego_rotation": (("frame", "world_axis", "av_axis"), "1", "world from AV"),
    "agents_centroid": (("agent", "xy"), "m", "world"),
    "agents_extent": (("agent", "size"), "m", "agent"),
    "agents_yaw": (("agent",), "rad", "world"),
    "agents_velocity": (("agent", "xy"), "m/s", "world"),
    "agents_track_id": (("agent",), None, None),
    "agents_label_probabilities": (("agent", "label"), "1", None),
    "traffic_light_faces_face_id": (("face",), None, None),
    "traffic_light_faces_traffic_light_id": (("face",), None, None),
    "traffic_light_faces_traffic_light_face_status": (("face", "status"), "1", None),
}


def assert_holds(lazy, dataset):
    """Compare every variable with the field of the records, to the bit."""
    for key, (attribute, _, _) in ARRAYS.items():
        records = np.asarray(getattr(dataset, attribute))
        for field in records.dtype.names:
            values = lazy[f"{key}_{field}"].values
            assert values.dtype == records[field].dtype
            assert values.tobytes() == records[field].tobytes(), field


def test_variables_have_names_axes_units_and_frames(stored):
    lazy = to_xarray(stored)
    seen = {
        name: (variable.dims, variable.attrs.get("units"), variable.attrs.get("frame_of_reference"))
        for name, variable in lazy.data_vars.items()
    }
    assert seen == SCHEMA
    assert all(variable.attrs["long_name"] for variable in lazy.data_vars.values())
    assert_holds(lazy, stored)


def test_places_are_selected_by_name(stored):
    lazy = to_xarray(stored)
    assert lazy.label.values.tolist() == PERCEPTION_LABELS
    cars = lazy.agents_label_probabilities.sel(label="PERCEPTION_LABEL_CAR")
    assert cars.values.tolist() == stored.agents["label_probabilities"][:, 3].tolist()
    assert lazy.agents_extent.sel(size="height").values.tolist() == stored.agents["extent"][:, 2].tolist()
    assert lazy.frames_ego_rotation.sel(world_axis="x", av_axis="y").values.tolist() == (
        stored.frames["ego_rotation"][:, 0, 1].tolist()
    )


def test_facts_of_the_log_are_attributes(made):
    facts = LogFacts(ego_extent_m=(5.0, 2.0, 1.5), step_time_s=0.5, label_mapping={"bike": PERCEPTION_LABELS[12]})
    log = ChunkedDataset.in_memory(scenes=made.scenes, frames=made.frames, agents=made.agents, facts=facts)
    attributes = to_xarray(log).attrs
    assert attributes["ego_extent_m"] == [5.0, 2.0, 1.5]
    assert attributes["step_time_s"] == 0.5
    assert attributes["label_mapping"] == '{"bike": "PERCEPTION_LABEL_CYCLIST"}'


def test_a_million_agents_are_not_read_until_they_are_computed(tmp_path, chunks_read):
    agents = np.zeros(1_000_000, dtype=random_dataset(np.random.default_rng(0), 1).agents.dtype)
    agents["track_id"] = np.arange(len(agents))
    frames = np.zeros(1, dtype=random_dataset(np.random.default_rng(0), 1).frames.dtype)
    ChunkedDataset.in_memory(frames=frames, agents=agents).save(tmp_path / "large.zarr")
    lazy = to_xarray(ChunkedDataset(str(tmp_path / "large.zarr")).open())
    assert lazy.sizes["agent"] == 1_000_000
    assert lazy.agents_track_id.chunks == ((20_000,) * 50,)
    ids = pickle.loads(pickle.dumps(lazy)).agents_track_id
    assert len(pickle.dumps(ids)) < 100_000
    assert chunks_read == []
    assert ids.isel(agent=slice(39_998, 40_002)).values.tolist() == [39_998, 39_999, 40_000, 40_001]
    assert sorted(chunks_read) == ["agents/1", "agents/2"]
    chunks_read.clear()
    assert int(ids.isel(agent=-1)) == 999_999
    assert chunks_read == ["agents/49"]


def test_variables_of_an_array_are_read_once_together(stored, chunks_read):
    lazy = to_xarray(stored)
    dask.compute(lazy.agents_yaw, lazy.agents_centroid, lazy.agents_velocity.sum())
    assert sorted(chunks_read) == sorted(f"agents/{number}" for number in range(stored.agents.num_chunks))


def test_chunks_are_those_of_the_files(stored):
    frames, agents = len(stored.frames), len(stored.agents)
    assert (frames, agents) == (48, 34)
    assert to_xarray(stored).chunksizes["frame"] == (20, 20, 8)
    assert to_xarray(stored, chunks_at_once=2).chunksizes["frame"] == (40, 8)
    assert to_xarray(stored, chunks_at_once=9).chunksizes["scene"] == (10,)


def test_chunks_of_a_part_end_where_those_of_the_files_do(stored):
    first = int(stored.scenes["frame_index_interval"][3, 0])
    lazy = to_xarray(stored, slice(3, None))
    ends = first + np.cumsum(lazy.chunksizes["frame"])
    assert 0 < first < 20
    assert ends.tolist() == [20, 40, 48]


@pytest.mark.parametrize(
    ("scenes", "numbers"),
    [
        pytest.param(3, [3], id="one"),
        pytest.param(-1, [9], id="one from the end"),
        pytest.param(slice(2, 8, 3), [2, 5], id="a slice"),
        pytest.param([4, 0, -2], [4, 0, 8], id="numbers in another order"),
        pytest.param(np.arange(10) % 4 == 1, [1, 5, 9], id="a mask"),
        pytest.param([], [], id="none of them"),
    ],
)
def test_a_part_has_renumbered_intervals(stored, scenes, numbers):
    part = to_xarray(stored, scenes)
    assert_holds(part, view_of_scenes(stored, np.array(numbers, dtype=np.int64)))
    counts = np.diff(stored.scenes["frame_index_interval"][numbers], axis=1)[:, 0]
    assert part.scenes_frame_index_interval.sel(bound="end").values.tolist() == np.cumsum(counts).tolist()


def test_a_part_is_found_without_agents_and_faces(stored, chunks_read):
    to_xarray(stored, [2, 7])
    assert chunks_read
    assert not [name for name in chunks_read if name.startswith(("agents", "traffic"))]


def test_it_is_cut_selected_and_combined_as_any_other(stored):
    lazy = to_xarray(stored)
    assert lazy.chunk(agent=5).chunksizes["agent"] == (5,) * 6 + (4,)
    twice = xr.concat([lazy.agents_yaw, lazy.agents_yaw], "agent")
    assert twice.values.tolist() == [*stored.agents["yaw"], *stored.agents["yaw"]]
    speeds = np.hypot(lazy.agents_velocity.sel(xy="x"), lazy.agents_velocity.sel(xy="y"))
    assert float(speeds.mean()) == pytest.approx(np.hypot(3, 3))


def test_b4_logs_without_traffic_lights(made, tmp_path):
    with pytest.warns(RuntimeWarning, match="without traffic lights"):
        old = ChunkedDataset(write_three_arrays(made, tmp_path / "old.zarr")).open()
    lazy = to_xarray(old)
    assert lazy.sizes["face"] == 0
    assert_holds(lazy, old)


def test_a_lost_file_is_an_error_when_it_is_computed(stored):
    os.remove(f"{stored.path}/agents/1")
    lazy = to_xarray(stored)
    assert lazy.agents_yaw[:10].values.tolist() == stored.agents[:10]["yaw"].tolist()
    with pytest.raises(CorruptedDataError, match=r"agents/1 is missing"):
        lazy.agents_yaw.compute()


@pytest.mark.parametrize(
    ("scenes", "error", "message"),
    [
        (10, IndexOutOfRangeError, "scenes names scene 10, but the dataset has 10 scenes"),
        ([0, -11], IndexOutOfRangeError, "scenes names scene -11"),
        (np.uint64(2**64 - 1), IndexOutOfRangeError, "scenes names scene 9223372036854775807"),
        ([True, False], InvalidArgumentError, "a mask of 10 scenes"),
        ([0.5], InvalidArgumentError, "scenes must be a whole number"),
        ("all", InvalidArgumentError, "scenes must be a whole number"),
    ],
)
def test_scenes_that_are_none(stored, scenes, error, message):
    with pytest.raises(error, match=message):
        to_xarray(stored, scenes)


def test_what_is_no_dataset(stored):
    with pytest.raises(InvalidArgumentError, match="dataset must be an opened dataset"):
        to_xarray(stored.agents)
    with pytest.raises(InvalidArgumentError, match="chunks_at_once must be 1 or more, got 0"):
        to_xarray(stored, chunks_at_once=0)


def test_without_xarray_the_extra_is_named(stored, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "xarray", None)
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("xarray"))):
        to_xarray(stored)
