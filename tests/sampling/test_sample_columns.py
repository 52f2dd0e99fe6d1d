"""Columns of samples: memory of the caller, windows whose target is missing, and checked shapes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.configs.parameters import RasterGeometry, SamplingParams, VectorSamplingParams
from l5kit.data.index.windows import CurrentFrames, Windows, cut_windows
from l5kit.data.map.api import MapAPI
from l5kit.errors import InvalidArgumentError, TrackNotFoundError, UnsupportedValueError
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling import AgentSampler, SampleColumns, VectorSampler
from l5kit.sampling.sample_columns import ColumnMemory
from l5kit.sampling.tracks import TrackStates, find_targets, trace_tracks
from l5kit.vectorization.vectorizer import Vectorizer
from support.logs import make_several_scenes_log
from support.maps import WORLD_TO_ECEF, save_street_map
from support.samples import make_cfg
from support.vectors import make_vector_cfg

KINDS = ["raster", "vector"]
ROWS = [3, 9, 14]


@pytest.fixture(scope="module")
def samplers(tmp_path_factory) -> dict[str, Any]:
    cfg, vector_cfg = make_cfg(), make_vector_cfg()
    context = RenderContext.from_geometry(RasterGeometry.from_cfg(cfg))
    street = MapAPI(save_street_map(tmp_path_factory.mktemp("street")), WORLD_TO_ECEF)
    return {
        "raster": AgentSampler(SamplingParams.from_cfg(cfg), context, BoxRasterizer(context, 0.5, 3), None),
        "vector": VectorSampler(VectorSamplingParams.from_cfg(vector_cfg), Vectorizer(vector_cfg, street), None),
    }


def cut(sampler: Any, rows: list[int] = ROWS) -> Windows:
    log = make_several_scenes_log()
    zeros = np.zeros(len(rows), np.int64)
    current = CurrentFrames(log.frames, np.array(rows, np.int64), zeros, zeros + 20)
    return cut_windows(current, log.agents, log.tl_faces, sampler.steps)


def assert_same_columns(columns: Any, expected: Any) -> None:
    assert list(columns) == list(expected)
    for key, column in columns.items():
        assert (column.dtype, column.shape) == (expected[key].dtype, expected[key].shape), key
        assert_array_equal(column, expected[key], err_msg=key)


@pytest.mark.parametrize("track_ids", [None, [1, 2, 1]], ids=["AV", "agents"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_columns_are_written_into_memory_of_the_caller(samplers, kind, track_ids):
    sampler = samplers[kind]
    track_ids = None if track_ids is None else np.array(track_ids, np.uint64)
    expected = sampler.make_columns(cut(sampler), track_ids)
    memory = {key: np.full((5, *column.shape[1:]), 77, column.dtype) for key, column in expected.items()}
    columns = sampler.make_columns(cut(sampler), track_ids, out=memory)
    assert_same_columns(columns, expected)
    assert columns.is_made.all()
    for key, array in memory.items():
        assert np.shares_memory(columns[key], array), key
        assert (array[3:] == 77).all() or array.dtype == bool, key


@pytest.mark.parametrize("kind", KINDS)
def test_columns_without_memory_of_the_caller_get_their_own(samplers, kind):
    sampler = samplers[kind]
    memory = {"centroid": np.empty((3, 2))}
    columns = sampler.make_columns(cut(sampler), out=memory)
    assert columns["centroid"].base is memory["centroid"]
    assert_same_columns(columns, sampler.make_columns(cut(sampler)))


def test_what_gives_memory_is_asked_for_its_keys_only(samplers):
    sampler, asked = samplers["raster"], []
    expected = sampler.make_columns(cut(sampler))
    memory = {"image": np.full_like(expected["image"], 7), "yaw": np.full(3, 7.0), "unknown": np.zeros(1)}

    def give(key, shape, dtype):
        asked.append(key)
        assert (shape, dtype) == (expected[key].shape, expected[key].dtype)
        return memory[key]

    columns = sampler.make_columns(cut(sampler), out=ColumnMemory(memory.keys(), give))
    assert set(asked) == {"image", "yaw"}
    assert columns["image"] is memory["image"]
    assert columns["yaw"] is memory["yaw"]
    assert_same_columns(columns, expected)


@pytest.mark.parametrize(
    "array",
    [np.empty((2, 2)), np.empty((3, 3)), np.empty((3, 2), np.float32), np.empty((2, 3)).T],
    ids=["rows", "shape", "dtype", "order"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_does_not_fit_is_refused(samplers, kind, array):
    with pytest.raises(InvalidArgumentError, match=r"out\['centroid'\] has shape .* \(3, 2\) and type float64"):
        samplers[kind].make_columns(cut(samplers[kind]), out={"centroid": array})


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_an_earlier_batch_are_memory_for_the_next_one(samplers, kind):
    sampler = samplers[kind]
    expected, earlier = sampler.make_columns(cut(sampler, [9, 14, 3])), sampler.make_columns(cut(sampler))
    assert_same_columns(sampler.make_columns(cut(sampler, [9, 14, 3]), out=earlier), expected)


@pytest.mark.parametrize("shift", [0, 20], ids=["same", "overlapping"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_columns_in_one_memory_are_refused(samplers, kind, shift):
    sampler = samplers[kind]
    columns = sampler.make_columns(cut(sampler))
    shape, num_values = columns["agent_from_world"].shape, columns["agent_from_world"].size
    memory = np.empty(2 * num_values)
    out = {
        "agent_from_world": memory[:num_values].reshape(shape),
        "world_from_agent": memory[shift : shift + num_values].reshape(shape),
    }
    with pytest.raises(InvalidArgumentError, match=r"^out\['agent_from_world'\] and out\['world_from_agent'\] share"):
        sampler.make_columns(cut(sampler), out=out)
    out["world_from_agent"] = memory[num_values:].reshape(shape)
    assert_same_columns(sampler.make_columns(cut(sampler), out=out), columns)


def test_memory_of_somebody_else_may_not_overlap_either(samplers):
    memory = bytearray(1000)
    out = {"centroid": np.frombuffer(memory)[:6].reshape(3, 2), "yaw": np.frombuffer(memory)[5:8]}
    with pytest.raises(InvalidArgumentError, match=r"^out\['centroid'\] and out\['yaw'\] share memory"):
        samplers["raster"].make_columns(cut(samplers["raster"]), out=out)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.broadcast_to(0.0, (3, 2)), "type float64, read-only"),
        ([1.0], "is a list; this batch needs a NumPy array"),
        (np.array(0.0), r"has shape \(\)"),
    ],
    ids=["read-only", "list", "number"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_cannot_be_written_is_refused(samplers, kind, array, message):
    with pytest.raises(InvalidArgumentError, match=rf"^out\['centroid'\] .*{message}"):
        samplers[kind].make_columns(cut(samplers[kind]), out={"centroid": array})


@pytest.mark.parametrize("missing", ["error", "mask"])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_for_a_key_that_no_sample_has_is_refused(samplers, kind, missing):
    ids, out = np.array([1, 77, 1] if missing == "mask" else [1, 2, 1], np.uint64), {"centroids": np.empty((3, 2))}
    with pytest.raises(InvalidArgumentError, match=r"^out has 'centroids', which these .* centroid"):
        samplers[kind].make_columns(cut(samplers[kind]), ids, out=out, missing=missing)


@pytest.mark.parametrize("missing", ["error", "mask"])
@pytest.mark.parametrize("num_ids", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_another_number_of_tracks_than_windows_is_refused(samplers, kind, num_ids, missing):
    with pytest.raises(InvalidArgumentError, match=rf"^track_ids has shape \({num_ids},\); .* 3 windows"):
        samplers[kind].make_columns(cut(samplers[kind]), np.ones(num_ids, np.uint64), missing=missing)


def test_kernels_of_tracks_refuse_another_number_of_them(samplers):
    windows, one = cut(samplers["raster"]), np.ones(1, np.uint64)
    with pytest.raises(InvalidArgumentError, match=r"^track_ids has shape \(1,\)"):
        find_targets(windows, one, 0.5)
    with pytest.raises(InvalidArgumentError, match=r"^track_ids has shape \(1,\)"):
        trace_tracks(windows.agents, one, TrackStates.empty(*windows.frames.shape))
    num_frames = windows.agents.num_frames
    with pytest.raises(InvalidArgumentError, match=r"^states have shape \(3, .*at least"):
        trace_tracks(windows.agents, np.ones(3, np.uint64), TrackStates.empty(3, num_frames - 1))


@pytest.mark.parametrize(
    "track_ids",
    [
        [1, 2, 1],
        np.array([1, 2, 1]),
        np.array([1, 2, 1], ">u8"),
        np.array([1, 2, 1], object),
        np.array([1, 2, 1], "u1"),
    ],
    ids=["list", "int64", "big-endian", "objects", "bytes"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_of_any_type_are_tracks(samplers, kind, track_ids):
    sampler = samplers[kind]
    expected = sampler.make_columns(cut(sampler), np.array([1, 2, 1], np.uint64))
    assert_same_columns(sampler.make_columns(cut(sampler), track_ids), expected)
    assert sampler.make_columns(cut(sampler), track_ids, missing="mask").is_made.all()


@pytest.mark.parametrize(
    "track_ids",
    [
        [1.0, 2.0, np.nan],
        np.array([1.0, 2.0, 1.0]),
        [True] * 3,
        np.ones(3, np.bool_),
        ["1"] * 3,
        [1, None, 2],
        [[1], 2],
    ],
    ids=str,
)
@pytest.mark.parametrize("missing", ["error", "mask"])
def test_tracks_that_are_no_whole_numbers_are_refused(samplers, track_ids, missing):
    with pytest.raises(InvalidArgumentError, match=r"^track_ids .*whole numbers"):
        samplers["raster"].make_columns(cut(samplers["raster"]), track_ids, missing=missing)


@pytest.mark.parametrize("wrong", [-1, 2**64, 2**53 + 1], ids=str)
def test_tracks_that_no_row_holds_are_missing(samplers, wrong):
    sampler = samplers["raster"]
    with pytest.raises(TrackNotFoundError, match=f"^track {wrong} is not among the agents of the current frame"):
        sampler.make_columns(cut(sampler), [1, wrong, 1])
    assert sampler.make_columns(cut(sampler), [1, wrong, 1], missing="mask").is_made.tolist() == [True, False, True]


def test_neighbours_among_large_tracks_are_told_apart(samplers):
    windows = cut(samplers["raster"], ROWS[:1])
    (agents,) = windows.agents.arrays
    agents = agents.copy()
    agents["track_id"][agents["track_id"] == 1] = 2**53 + 1
    windows = replace(windows, agents=replace(windows.agents, arrays=[agents]))
    columns = samplers["raster"].make_columns(windows, np.array([2**53]), missing="mask")
    assert not columns.is_made.any()
    assert samplers["raster"].make_columns(windows, np.array([2**53 + 1]), missing="mask").is_made.all()


@pytest.mark.parametrize("given", [True, False], ids=["given memory", "new memory"])
@pytest.mark.parametrize("track_ids", [[1, 77, 2], [77, 1, 78], [77, 77, 77]], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_windows_without_their_target_are_masked_when_asked_for(samplers, kind, track_ids, given):
    sampler = samplers[kind]
    track_ids = np.array(track_ids, np.uint64)
    with pytest.raises(TrackNotFoundError, match="track 7"):
        sampler.make_columns(cut(sampler), track_ids)
    whole = sampler.make_columns(cut(sampler), np.array([1, 2, 1], np.uint64))
    memory = {key: np.full_like(column, 1) for key, column in whole.items()} if given else None
    columns = sampler.make_columns(cut(sampler), track_ids, missing="mask", out=memory)
    is_there = track_ids < 70
    assert_array_equal(columns.is_made, is_there)
    assert {key: (column.shape, column.dtype) for key, column in columns.items()} == {
        key: (column.shape, column.dtype) for key, column in whole.items()
    }
    for window in range(3):
        if not is_there[window]:
            assert not any(column[window].any() for column in columns.values())
            continue
        alone = sampler.make_columns(cut(sampler, [ROWS[window]]), track_ids[window : window + 1])
        for key, column in columns.items():
            assert_array_equal(column[window], alone[key][0], err_msg=key)
    if memory is not None:
        assert all(np.shares_memory(columns[key], memory[key]) for key in memory if key != "world_to_image")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_masked_where_nothing_is_missing(samplers, kind):
    sampler = samplers[kind]
    for track_ids in (None, np.array([1, 2, 2], np.uint64)):
        masked = sampler.make_columns(cut(sampler), track_ids, missing="mask")
        assert_same_columns(masked, sampler.make_columns(cut(sampler), track_ids))
        assert masked.is_made.all()


@pytest.mark.parametrize("kind", KINDS)
def test_another_word_for_missing_is_refused(samplers, kind):
    with pytest.raises(UnsupportedValueError, match="missing is 'skip'; use 'error' or 'mask'"):
        samplers[kind].make_columns(cut(samplers[kind]), missing="skip")


@pytest.mark.parametrize("kind", KINDS)
def test_no_window_gives_empty_columns(samplers, kind):
    sampler = samplers[kind]
    expected = sampler.make_columns(cut(sampler))
    for track_ids in (None, np.empty(0, np.uint64)):
        columns = sampler.make_columns(cut(sampler, []), track_ids)
        assert {key: (0, *column.shape[1:]) for key, column in expected.items()} == {
            key: column.shape for key, column in columns.items()
        }


def test_columns_are_told_by_their_shapes():
    columns = SampleColumns({"a": np.zeros(4), "b": np.zeros((4, 3))}, np.ones(4, np.bool_))
    assert repr(columns) == "<SampleColumns of 4 samples: a (4,), b (4, 3)>"


def test_columns_of_other_lengths_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"\{'b': \(2, 3\)\} are not columns of 4 samples"):
        SampleColumns({"a": np.zeros(4), "b": np.zeros((2, 3))}, np.ones(4, np.bool_))
