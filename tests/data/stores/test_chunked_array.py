import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data import AGENT_DTYPE, ChunkedDataset
from l5kit.data.record_sequence import rows_of
from l5kit.data.stores.chunk_files import ChunkCache
from l5kit.errors import CorruptedDataError, InvalidArgumentError, ReadOnlyDatasetError
from support.logs import make_agent, make_agents, write_with_chunks
from support.random_logs import random_dataset, write_three_arrays

NUM_ROWS = 23  # in chunks of 7


@pytest.fixture(scope="module")
def agents():
    return make_agents(*(make_agent(row + 1, (2 * row, 2 * row + 1)) for row in range(NUM_ROWS)))


@pytest.fixture(scope="module")
def folder(agents, tmp_path_factory):
    dataset = ChunkedDataset.in_memory(agents=agents)
    return write_with_chunks(dataset, tmp_path_factory.mktemp("chunks") / "small.zarr")


@pytest.fixture(params=["cached", "one chunk", "tiny cache"])
def opened(request, folder):
    options = {"cached": {}, "one chunk": {"cached": False}, "tiny cache": {"cache_size_bytes": 2 * 7 * 116}}
    return ChunkedDataset(folder).open(**options[request.param]).agents


bounds = st.none() | st.integers(-NUM_ROWS - 5, NUM_ROWS + 5)
steps = st.none() | st.integers(-6, 6).filter(lambda step: step != 0)
row_lists = st.lists(st.integers(-NUM_ROWS, NUM_ROWS - 1), min_size=1, max_size=30)
masks = st.lists(st.booleans(), min_size=NUM_ROWS, max_size=NUM_ROWS)
indices = st.one_of(
    st.builds(slice, bounds, bounds, steps),
    st.integers(-NUM_ROWS, NUM_ROWS - 1),
    row_lists,
    row_lists.map(np.array),
    masks.map(np.array),
    st.sampled_from(["centroid", "track_id", "label_probabilities", ["yaw", "extent"], Ellipsis, ()]),
)


@given(index=indices)
@settings(max_examples=120, deadline=None, derandomize=True)
def test_reads_equal_numpy(folder, agents, index):
    for options in ({}, {"cached": False}, {"cache_size_bytes": 7 * 116}):
        found = ChunkedDataset(folder).open(**options).agents[index]
        expected = agents[index]
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@given(indices=st.lists(indices, max_size=6))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_many_reads_of_one_array_equal_numpy(folder, agents, indices):
    opened = ChunkedDataset(folder).open(cache_size_bytes=2 * 7 * 116).agents
    for index in indices:
        np.testing.assert_array_equal(opened[index], agents[index])


def test_is_a_duck_array(opened, agents):
    assert (len(opened), opened.shape, opened.ndim, opened.size) == (NUM_ROWS, (NUM_ROWS,), 1, NUM_ROWS)
    assert (opened.dtype, opened.chunks, opened.nbytes) == (agents.dtype, (7,), agents.nbytes)
    assert np.asarray(opened).tobytes() == agents.tobytes()
    assert [row["track_id"] for row in opened] == list(range(1, NUM_ROWS + 1))
    assert isinstance(opened[3], np.void)
    assert opened["track_id", 3:5].tolist() == opened[3:5, "track_id"].tolist() == [4, 5]


@pytest.mark.parametrize("index", [NUM_ROWS, -NUM_ROWS - 1, [0, NUM_ROWS], np.ones(3, dtype=bool), 1.5, [0.5], (1, 2)])
def test_an_index_outside_is_an_index_error(opened, index):
    with pytest.raises(IndexError):
        opened[index]


def test_an_unknown_field_is_a_value_error_as_in_numpy(opened):
    with pytest.raises(ValueError, match="no field of name speed"):
        opened["speed"]


@pytest.mark.parametrize("rows", [slice(2, 5), slice(5, 20), slice(0, NUM_ROWS)], ids=["one chunk", "three", "all"])
def test_what_is_handed_out_never_changes_what_is_kept(opened, agents, rows):
    mine = opened[rows]
    mine["track_id"] = 999
    opened["track_id"][:] = 999
    assert opened[rows].tobytes() == agents[rows].tobytes()


def test_rows_are_read_only(opened):
    for rows in (opened.rows(2, 5), opened.rows(5, 20), rows_of(opened, slice(1, 3))):
        with pytest.raises(ValueError, match="read-only"):
            rows["yaw"] = 1


def test_rows_of_one_chunk_are_not_copied(folder):
    array = ChunkedDataset(folder).open().agents
    assert np.shares_memory(array.rows(1, 4), array.rows(2, 6))


@pytest.mark.parametrize(("start", "stop"), [(20, 24), (-1, 3), (5, 4)], ids=["behind", "before", "backwards"])
def test_strict_rows_outside_the_array_are_an_error_that_names_it(opened, agents, start, stop):
    with pytest.raises(CorruptedDataError, match=rf"\[{start}, {stop}\) of 'agents' of 23 rows"):
        opened.rows(start, stop, strict=True)
    with pytest.raises(CorruptedDataError, match=rf"\[{start}, {stop}\)"):
        rows_of(agents, slice(start, stop), strict=True)


def test_b5_a_second_read_does_not_touch_the_files(folder, monkeypatch):
    array = ChunkedDataset(folder).open().agents
    before = array[:]
    monkeypatch.setattr(type(array), "_read_chunk", lambda *_: pytest.fail("read from disk again"))
    assert array[:].tobytes() == before.tobytes()
    assert array[::-1]["track_id"][0] == NUM_ROWS


def test_the_cache_keeps_the_least_recently_used_within_its_size():
    cache = ChunkCache(max_bytes=250)
    chunks = {index: np.zeros(100, dtype=np.uint8) for index in range(3)}
    for index, chunk in chunks.items():
        cache.put(("agents", index), chunk)
        cache.get(("agents", 0))
    assert cache.get(("agents", 1)) is None
    assert cache.get(("agents", 0)) is chunks[0]
    assert cache.get(("agents", 2)) is chunks[2]
    assert (cache.num_bytes, len(cache)) == (200, 2)
    cache.put(("agents", 9), np.zeros(251, dtype=np.uint8))
    assert cache.get(("agents", 9)) is None
    whole = ChunkCache(max_bytes=250)
    whole.put(("agents", 0), np.zeros(250, dtype=np.uint8))
    assert (whole.num_bytes, len(whole)) == (250, 1)
    cache.put(("agents", 0), np.zeros(10, dtype=np.uint8))
    assert cache.num_bytes == 110
    cache.discard(("agents", 0))
    cache.discard(("agents", 0))
    assert cache.num_bytes == 100


@pytest.mark.parametrize("num_chunks", [0, 1, 2, 4])
def test_all_arrays_of_a_dataset_share_one_bounded_cache(folder, num_chunks):
    size = num_chunks * 7 * 116
    dataset = ChunkedDataset(folder).open(cache_size_bytes=size)
    dataset.agents[:]
    cache = dataset.agents._cache
    assert cache is dataset.frames._cache
    is_joined = num_chunks == 4
    assert cache.num_bytes == (dataset.agents.nbytes if is_joined else sum(map(len_in_bytes, cache._chunks.values())))
    assert cache.num_bytes <= size


def len_in_bytes(chunk):
    return chunk.nbytes


def test_an_array_that_fits_into_the_cache_needs_no_copy_across_chunks(folder, agents):
    array = ChunkedDataset(folder).open().agents
    rows = array.rows(5, 16)
    assert not rows.flags.owndata
    assert not rows.flags.writeable
    assert np.shares_memory(rows, array.rows(6, 7))
    np.testing.assert_array_equal(rows, agents[5:16])


def test_only_the_chunks_that_are_asked_for_are_decoded(folder, monkeypatch):
    array = ChunkedDataset(folder).open().agents
    read = []
    monkeypatch.setattr(array, "_read_chunk", lambda index: read.append(index) or np.zeros(7, array.dtype))
    array.rows(8, 13)
    array.rows(0, 1)
    array.rows(8, 13)
    array.whole_with(np.array([6, 3]), np.array([8, 3]))
    assert read == [1, 0]


def test_whole_rows_hold_the_ranges_that_are_asked_for(folder, agents):
    array = ChunkedDataset(folder).open().agents
    whole = array.whole_with(np.array([2, 15, 20]), np.array([9, 16, 20]))
    assert whole.shape == agents.shape
    for rows in (slice(2, 9), slice(15, 16)):
        np.testing.assert_array_equal(whole[rows], agents[rows])


@pytest.mark.parametrize("options", [{"cached": False}, {"cache_size_bytes": 1000}, {"mode": "r+"}])
def test_an_array_that_does_not_fit_or_may_change_is_kept_by_chunks(folder, options, tmp_path):
    path = tmp_path / "copy.zarr"
    shutil.copytree(folder, path)
    array = ChunkedDataset(str(path)).open(**options).agents
    assert array.whole_with(np.array([0]), np.array([9])) is None


def test_room_that_was_set_apart_stays_so():
    cache = ChunkCache(max_bytes=250)
    assert cache.reserve(200)
    assert not cache.reserve(51)
    cache.put(("agents", 0), np.zeros(60, dtype=np.uint8))
    assert (cache.num_bytes, len(cache)) == (200, 0)


def test_threads_may_read_at_once(folder, agents):
    array = ChunkedDataset(folder).open(cache_size_bytes=2 * 7 * 116).agents
    wrong = []

    def read(seed):
        for row in np.random.default_rng(seed).integers(0, NUM_ROWS, 200):
            if array[int(row)] != agents[row]:
                wrong.append(row)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert array._cache.num_bytes == sum(chunk.nbytes for chunk in array._cache._chunks.values())


@pytest.fixture
def writable(agents, tmp_path):
    path = write_with_chunks(ChunkedDataset.in_memory(agents=agents), tmp_path / "mine.zarr")
    return ChunkedDataset(path).open("r+")


writes = st.one_of(
    st.builds(slice, bounds, bounds, st.none() | st.integers(1, 4)), st.integers(-NUM_ROWS, NUM_ROWS - 1), st.just(...)
)


@given(index=writes, value=st.integers(1, 10**6))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_writes_equal_numpy(tmp_path_factory, agents, index, value):
    path = write_with_chunks(ChunkedDataset.in_memory(agents=agents), tmp_path_factory.mktemp("w") / "w.zarr")
    opened = ChunkedDataset(path).open("r+")
    opened.agents[:]
    expected = agents.copy()
    rows = expected[index].copy()
    rows["track_id"] = value
    expected[index] = rows
    opened.agents[index] = rows
    assert opened.agents[:].tobytes() == expected.tobytes()
    assert ChunkedDataset(path).open().agents[:].tobytes() == expected.tobytes()


def test_a_column_is_written(writable, agents):
    writable.agents["yaw"] = np.linspace(0, 1, NUM_ROWS)
    assert writable.agents["yaw"].tolist() == np.linspace(0, 1, NUM_ROWS, dtype=np.float32).tolist()
    assert writable.agents["track_id"].tolist() == agents["track_id"].tolist()


@pytest.mark.parametrize("index", [NUM_ROWS, [1, 2], slice(None, None, -1), 1.5])
def test_a_write_to_anything_else_is_an_index_error(writable, agents, index):
    with pytest.raises(IndexError):
        writable.agents[index] = agents[:2]


def test_append_and_resize(writable, agents):
    assert writable.agents.append(agents[:10]) == (33,)
    assert writable.agents[:].tobytes() == np.concatenate([agents, agents[:10]]).tobytes()
    writable.agents.resize(16)
    assert writable.agents.append(agents[:0]) == (16,)
    assert writable.agents[:].tobytes() == agents[:16].tobytes()
    with pytest.raises(InvalidArgumentError, match="-1"):
        writable.agents.resize(-1)


def test_rows_cut_off_do_not_come_back(writable):
    writable.agents.resize(9)
    writable.agents.resize(NUM_ROWS)
    assert not writable.agents[9:]["track_id"].any()
    assert not ChunkedDataset(writable.path).open().agents[9:]["track_id"].any()


def test_rows_cut_off_are_not_iterated_over(writable, agents):
    writable.agents[:]
    writable.agents.resize(9)
    assert [row["track_id"] for row in writable.agents] == agents["track_id"][:9].tolist()


def test_rows_of_zeros_are_rows_like_any_other(writable, agents):
    writable.agents[:] = np.zeros(NUM_ROWS, dtype=AGENT_DTYPE)
    reopened = ChunkedDataset(writable.path).open().agents
    assert len(reopened.rows(0, NUM_ROWS, strict=True)) == NUM_ROWS


def test_a_lost_chunk_that_is_written_anew_is_no_longer_missing(writable, agents):
    (Path(writable.path) / "agents" / "1").unlink()
    assert not writable.agents[7:14]["track_id"].any()
    with pytest.raises(CorruptedDataError, match="missing"):
        writable.agents.rows(7, 14, strict=True)
    writable.agents[7:14] = agents[7:14]
    assert writable.agents.rows(7, 14, strict=True).tobytes() == agents[7:14].tobytes()


def test_a_dataset_opened_for_reading_refuses_writes(opened, agents):
    for write in (
        lambda: opened.append(agents[:1]),
        lambda: opened.resize(3),
        lambda: opened.__setitem__(0, agents[0]),
    ):
        with pytest.raises(ReadOnlyDatasetError, match=r"mode='r\+'"):
            write()


def test_dask_reads_it(folder, agents):
    dask_array = pytest.importorskip("dask.array")
    array = ChunkedDataset(folder).open().agents
    lazy = dask_array.from_array(array, chunks=array.chunks)
    assert lazy.chunks == ((7, 7, 7, 2),)
    assert lazy.compute(scheduler="threads").tobytes() == agents.tobytes()
    assert dask_array.from_array(array).compute(scheduler="threads").tobytes() == agents.tobytes()
    assert int(lazy["track_id"].sum().compute(scheduler="threads")) == NUM_ROWS * (NUM_ROWS + 1) // 2


def test_b9_filters_take_the_arrays_of_a_dataset(tmp_path):
    from l5kit.data import filter_agents_by_labels, filter_agents_by_track_id

    dataset = random_dataset(np.random.default_rng(4), 4)
    opened = ChunkedDataset(write_with_chunks(dataset, tmp_path / "b9.zarr")).open()
    assert (
        filter_agents_by_track_id(opened.agents, 1).tobytes() == filter_agents_by_track_id(dataset.agents, 1).tobytes()
    )
    assert filter_agents_by_labels(opened.agents).tobytes() == filter_agents_by_labels(dataset.agents).tobytes()


OTHER_RECORDS = np.zeros(3, dtype=[("track_id", np.uint64), ("yaw", np.float32)])


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.zeros(3), id="floats"),
        pytest.param([0.0, 1.0], id="a list of floats"),
        pytest.param([[0, 1], [2, 3]], id="a list of lists"),
        pytest.param(7, id="a number"),
        pytest.param(None, id="nothing"),
        pytest.param([(1, 2)], id="tuples that are too short"),
        pytest.param(OTHER_RECORDS, id="other records"),
    ],
)
def test_rows_are_made_of_records_only(writable, agents, values):
    for write in (writable.agents.append, lambda rows: writable.agents.__setitem__(slice(0, 3), rows)):
        with pytest.raises(InvalidArgumentError, match=r"rows of 'agents' must be records with the fields \['cent"):
            write(values)
    assert writable.agents[:].tobytes() == agents.tobytes()


@pytest.mark.parametrize(
    "values",
    [
        lambda rows: rows.tolist(),
        lambda rows: list(rows),
        lambda rows: rows[[*reversed(rows.dtype.names)]],
        lambda rows: ChunkedDataset.concatenate([ChunkedDataset.in_memory(agents=rows)]).agents,
    ],
    ids=["tuples", "a list of records", "other order of fields", "a view"],
)
def test_append_takes_every_form_of_records(writable, agents, values):
    assert writable.agents.append(values(agents[:2])) == (25,)
    assert writable.agents[23:].tobytes() == agents[:2].tobytes()
    assert writable.agents.append(agents[2].item()) == (26,)
    assert writable.agents[25].tobytes() == agents[2].tobytes()
    assert writable.agents.append([]) == (26,)


@pytest.mark.parametrize(
    "write",
    [
        lambda array, rows: array.append(rows),
        lambda array, rows: array.__setitem__(slice(0, 2), rows),
        lambda array, rows: array.__setitem__(0, rows[0]),
    ],
    ids=["append", "rows", "a row"],
)
def test_fields_that_the_array_has_not_are_refused_by_name(writable, agents, write):
    wide = np.zeros(2, [*agents.dtype.descr, ("colour", "<i4")])
    with pytest.raises(InvalidArgumentError, match=r"\['colour'\].*would be lost"):
        write(writable.agents, wide)
    assert writable.agents[:].tobytes() == agents.tobytes()


def test_face_intervals_are_refused_where_they_are_not_stored(tmp_path):
    log = random_dataset(np.random.default_rng(4), 3)
    frames = ChunkedDataset(write_three_arrays(log, tmp_path / "old.zarr"))
    with pytest.warns(RuntimeWarning, match="without traffic lights"):
        frames = frames.open("r+").frames
    rows = np.array(log.frames[:2])
    rows["traffic_light_faces_index_interval"] = 0
    frames.append(rows)
    rows["traffic_light_faces_index_interval"] = (0, 3)
    with pytest.raises(InvalidArgumentError, match="traffic_light_faces_index_interval"):
        frames.append(rows)
