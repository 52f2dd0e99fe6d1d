"""Arrays in decoded files: what they read, what they refuse, and how they travel to other processes."""

import copy
import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.record_sequence import ROWS_PER_BLOCK, column_of, rows_of, whole_array
from l5kit.data.stores.npy_files import npy_header
from l5kit.data.views import view_of_scenes
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, ReadOnlyDatasetError
from support.logs import write_with_chunks
from support.random_logs import ARRAYS, random_dataset

PATIENCE_S = 120


@pytest.fixture(scope="module")
def made():
    return random_dataset(np.random.default_rng(5), 5)


@pytest.fixture
def path(made, tmp_path):
    return write_with_chunks(made, tmp_path / "log.zarr")


@pytest.fixture
def mapped(path):
    return ChunkedDataset(path).open(cached="mmap")


INDICES = {
    "a row": 3,
    "the last row": -1,
    "a slice": slice(4, 9),
    "an empty slice": slice(5, 5),
    "a slice behind the end": slice(3, 10**9),
    "a slice backwards": slice(9, 2, -3),
    "a field": "yaw",
    "two fields": ["yaw", "track_id"],
    "an ellipsis": Ellipsis,
    "numbers": [4, 1, 1, -1],
    "a table of numbers": np.array([[0, 3], [2, -2]]),
    "no numbers": np.zeros(0, dtype=np.int64),
    "field and rows": ("yaw", slice(2, 6)),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())
def test_it_reads_as_the_chunked_array_does(mapped, path, index):
    found, expected = mapped.agents[index], ChunkedDataset(path).open().agents[index]
    assert found.dtype == expected.dtype
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_array_equal(found, expected)


def test_a_boolean_index_selects_rows(mapped, made):
    chosen = made.agents["yaw"] > 0
    assert 0 < chosen.sum() < len(chosen)
    assert mapped.agents[chosen].tobytes() == made.agents[chosen].tobytes()


def test_rows_outside_are_errors(mapped):
    length = len(mapped.agents)
    for index in (length, -length - 1, [0, length]):
        with pytest.raises(IndexOutOfRangeError, match="out of range"):
            mapped.agents[index]
    for start, stop in ((-1, 2), (3, 2), (0, length + 1)):
        with pytest.raises(CorruptedDataError, match=f"of 'agents' of {length} rows"):
            mapped.agents.rows(start, stop, strict=True)


def test_rows_and_whole_are_views_that_cannot_be_changed_and_slices_are_copies(mapped, made):
    rows, whole, copied = mapped.agents.rows(2, 6, strict=True), mapped.agents.whole, mapped.agents[2:6]
    assert type(rows) is type(whole) is np.ndarray
    assert np.shares_memory(rows, whole)
    assert np.shares_memory(rows_of(mapped.agents, slice(2, 6)), whole)
    for view in (rows, whole, np.asarray(mapped.agents)):
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.setflags(write=True)
    copied["yaw"] = 77
    assert whole.tobytes() == made.agents.tobytes()
    assert np.array(mapped.agents).flags.writeable


def test_blocks_and_columns_of_more_rows_than_a_block(tmp_path):
    agents = np.zeros(2 * ROWS_PER_BLOCK + 5, dtype=random_dataset(np.random.default_rng(0)).agents.dtype)
    agents["track_id"] = np.arange(len(agents))
    ChunkedDataset.in_memory(agents=agents).save(tmp_path / "long.zarr")
    array = ChunkedDataset(tmp_path / "long.zarr").open(cached="mmap").agents
    np.testing.assert_array_equal(array["track_id"], agents["track_id"])
    np.testing.assert_array_equal(column_of(array, "track_id"), agents["track_id"])
    assert sum(1 for _ in array) == len(agents)
    assert array[[ROWS_PER_BLOCK, -1]]["track_id"].tolist() == [ROWS_PER_BLOCK, len(agents) - 1]


def test_writing_is_refused_and_says_how_to_write(mapped, made):
    for write in (
        lambda: mapped.agents.__setitem__(0, made.agents[0]),
        lambda: mapped.agents.append(made.agents[:1]),
        lambda: mapped.agents.resize(3),
    ):
        with pytest.raises(ReadOnlyDatasetError, match=r"mode='r\+' and without cached='mmap'"):
            write()


def test_the_fingerprint_is_that_of_the_chunks_also_of_views(mapped, path, made):
    chunked = ChunkedDataset(path).open()
    assert mapped.fingerprint() == chunked.fingerprint() is not None
    scenes = np.array([1, 2])
    assert view_of_scenes(mapped, scenes).fingerprint() == view_of_scenes(chunked, scenes).fingerprint()
    ChunkedDataset(path).open("r+").agents.append(made.agents[:1])
    assert mapped.fingerprint() != chunked.fingerprint(), "the files tell what they were made from"


def test_whole_array_is_one_piece_without_a_copy(mapped, path, made):
    agents = mapped.agents
    assert whole_array(made.agents) is made.agents
    assert np.shares_memory(whole_array(agents), agents.whole)
    assert whole_array(ChunkedDataset(path).open().agents) is None
    assert whole_array([1, 2]) is None


def test_whole_array_of_views(mapped, path):
    first_two, second, others = (view_of_scenes(mapped, np.array(scenes)) for scenes in ([0, 1], [1], [0, 2]))
    for view in (first_two, second):
        assert whole_array(view.agents).tobytes() == view.agents[:].tobytes()
        assert np.shares_memory(whole_array(view.agents), mapped.agents.whole)
        assert not whole_array(view.agents).flags.writeable
    assert whole_array(first_two.frames).tobytes() == first_two.frames[:].tobytes()
    assert whole_array(second.frames) is None, "its intervals are shifted"
    assert whole_array(others.agents) is None, "two ranges"
    assert whole_array(ChunkedDataset.concatenate([mapped, mapped]).agents) is None, "two arrays"
    assert whole_array(view_of_scenes(ChunkedDataset(path).open(), np.array([1])).agents) is None, "not in memory"
    nested = view_of_scenes(first_two, np.array([1]))
    assert whole_array(nested.agents).tobytes() == nested.agents[:].tobytes()
    assert whole_array(view_of_scenes(mapped, np.array([], dtype=np.int64)).agents) is None


def test_it_is_pickled_small_and_copied_without_a_copy_of_the_rows(mapped, made):
    sent = pickle.dumps(mapped.agents)
    assert len(sent) < 2_000
    received = pickle.loads(sent)
    assert received.whole.tobytes() == made.agents.tobytes()
    assert received.signature() == mapped.agents.signature()
    assert np.shares_memory(copy.deepcopy(mapped.agents).whole, mapped.agents.whole)


def damage_by_removal(file: Path) -> None:
    file.unlink()


def damage_by_cutting(file: Path) -> None:
    content = file.read_bytes()
    file.unlink()  # the old one stays mapped
    file.write_bytes(content[:-1])


def damage_by_another_array(file: Path) -> None:
    content = file.read_bytes()
    header = npy_header("<u1", (len(content) - 128,))
    file.unlink()
    file.write_bytes(header + bytes(len(content) - len(header)))


@pytest.mark.skipif("os.name == 'nt'", reason="a mapped file cannot be removed there")
@pytest.mark.parametrize("damage", [damage_by_removal, damage_by_cutting, damage_by_another_array])
def test_a_file_that_is_gone_or_another_is_named_where_it_is_mapped_anew(mapped, made, damage):
    sent = pickle.dumps(mapped.agents)
    damage(mapped.agents.file)
    with pytest.raises(CorruptedDataError, match="open the dataset with cached='mmap' again") as error:
        pickle.loads(sent)
    assert str(mapped.agents.file) in str(error.value)
    assert mapped.agents.whole.tobytes() == made.agents.tobytes(), "what is mapped stays"


def send_rows(dataset, queue):
    """Send the rows of all arrays, read one by one, as a sampler in a worker does."""
    queue.put({name: b"".join(row.tobytes() for row in getattr(dataset, name)) for name in ARRAYS})


@pytest.mark.process
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_read_the_same_rows(mapped, made, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    workers = [context.Process(target=send_rows, args=(mapped, queue), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    received = [queue.get(timeout=PATIENCE_S) for _ in workers]
    for worker in workers:
        worker.join(PATIENCE_S)
    assert [worker.exitcode for worker in workers] == [0, 0]
    expected = {name: getattr(made, name).tobytes() for name in ARRAYS}
    assert received == [expected, expected]


def anonymous_megabytes():
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / 1024
    raise LookupError("no figure for anonymous memory")


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells")
def test_reading_all_rows_takes_no_memory_of_the_process(tmp_path):
    agents = np.zeros(400_000, dtype=random_dataset(np.random.default_rng(0)).agents.dtype)
    agents["track_id"] = np.arange(len(agents))
    ChunkedDataset.in_memory(agents=agents).save(tmp_path / "large.zarr")
    size_mb, total = agents.nbytes / 2**20, int(agents["track_id"].sum())
    assert size_mb > 40
    del agents
    array = ChunkedDataset(tmp_path / "large.zarr").open(cached="mmap").agents
    before = anonymous_megabytes()
    views = [array.rows(start, start + 100, strict=True) for start in range(0, len(array), 100)]
    assert sum(int(rows["track_id"].sum()) for rows in views) == total
    assert anonymous_megabytes() - before < size_mb / 4
