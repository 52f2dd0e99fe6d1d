"""A dataset as a sequence of scenes: length, indices, slices, iteration, ``with``."""

import numpy as np
import pandas as pd
import pytest
from zarr.storage import MemoryStore

from l5kit.data import ChunkedDataset
from l5kit.errors import DatasetNotFoundError, IndexOutOfRangeError, InvalidArgumentError
from support.random_logs import assert_same_records, random_dataset


@pytest.fixture(scope="module")
def log():
    return random_dataset(np.random.default_rng(0), 5)


@pytest.fixture(scope="module")
def path(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.zarr"
    log.save(path)
    return path


def test_the_length_is_the_number_of_scenes(log):
    assert len(log) == 5
    assert len(ChunkedDataset("")) == 0


def test_a_dataset_without_scenes_is_true_as_in_1_5(log):
    assert bool(ChunkedDataset(""))
    assert bool(log[:0])


@pytest.mark.parametrize(
    ("index", "scene"),
    [(0, 0), (3, 3), (-1, 4), (-5, 0), (np.uint8(2), 2), (np.array(1), 1)],
)
def test_an_index_gives_a_scene_with_frames_agents_and_faces(log, index, scene):
    assert_same_records(log[index], log.get_scene_dataset(scene))


@pytest.mark.parametrize(
    ("index", "scenes"),
    [
        (slice(1, 3), [1, 2]),
        (slice(None, None, -2), [4, 2, 0]),
        (slice(9, None), []),
        ([3, -1, 3], [3, 4, 3]),
        ([], []),
        (np.array([True, False, False, True, False]), [0, 3]),
        (range(2), [0, 1]),
    ],
    ids=str,
)
def test_several_scenes_are_a_view(log, index, scenes):
    view = log[index]
    assert len(view) == len(scenes)
    for found, scene in zip(view, scenes, strict=True):
        assert_same_records(found, log.get_scene_dataset(scene))


@pytest.mark.parametrize("index", [5, -6, [0, 5], np.int64(99)], ids=str)
def test_an_index_outside_names_the_scene_and_what_is_allowed(log, index):
    with pytest.raises(IndexOutOfRangeError, match=r"names scene -?\d+, but the dataset has 5 scenes; use -5 to 4"):
        log[index]


@pytest.mark.parametrize("index", ["agents", None, (0, 1), 1.0, True, [0.5], [[0]], [True]], ids=str)
def test_what_names_no_scenes_is_refused(log, index):
    with pytest.raises(InvalidArgumentError, match="whole number"):
        log[index]


def test_iteration_goes_through_all_scenes_and_may_be_repeated(log):
    for _ in range(2):
        assert [len(scene.frames) for scene in log] == np.diff(log.scenes["frame_index_interval"])[:, 0].tolist()


def test_numpy_takes_a_dataset_for_one_object_as_before(log):
    both = np.array([log, log], dtype=object)
    assert both.shape == (2,)
    assert both[1] is log


def test_a_single_dataset_is_no_list_of_datasets(log):
    with pytest.raises(InvalidArgumentError, match="list of opened datasets"):
        ChunkedDataset.concatenate(log)


def test_with_opens_and_closes(log, path):
    with ChunkedDataset(path) as dataset:
        assert_same_records(dataset, log)
        agents, store = dataset.agents, dataset.root.store
    assert not store._is_open
    assert len(dataset) == len(dataset.agents) == 0
    assert not hasattr(dataset, "root")
    assert agents[:].tobytes() == log.agents.tobytes()
    assert len(dataset.open()) == 5


def test_with_keeps_how_a_dataset_was_opened(log, path, tmp_path):
    log.save(tmp_path / "copy.zarr")
    with ChunkedDataset(tmp_path / "copy.zarr").open("r+") as dataset:
        dataset.scenes["host"] = "other"
    with ChunkedDataset(tmp_path / "copy.zarr") as dataset:
        assert set(dataset.scenes["host"]) == {"other"}
    with ChunkedDataset(path).open(cached="mmap") as dataset:
        assert_same_records(dataset, log)


def test_with_closes_a_zip_file_after_an_error(log, tmp_path):
    log.save(tmp_path / "log.zarr.zip")
    dataset = ChunkedDataset(tmp_path / "log.zarr.zip").open()
    archive = dataset.root.store._zf
    assert archive.fp is not None
    with pytest.raises(IndexOutOfRangeError), dataset:
        dataset[99]
    assert archive.fp is None


def test_with_leaves_a_dataset_in_memory_and_a_store_of_ones_own_as_they_are(log):
    with log[1:] as view:
        pass
    assert len(view) == 4
    store = MemoryStore()
    with ChunkedDataset(store).initialize(num_scenes=2) as dataset:
        pass
    assert len(dataset) == 0
    assert store._is_open
    with dataset:
        assert len(dataset) == 2


def test_with_says_that_there_is_no_dataset(tmp_path):
    with pytest.warns(RuntimeWarning, match="does not exist"):
        dataset = ChunkedDataset(tmp_path / "none.zarr")
    with pytest.raises(DatasetNotFoundError), dataset:
        pass


@pytest.mark.parametrize("make", [pd.DataFrame, pd.Series])
@pytest.mark.parametrize("cached", [True, "mmap"])
def test_pandas_says_how_to_make_a_frame_of_an_array(path, make, cached):
    with (
        ChunkedDataset(path).open(cached=cached, progress=False) as dataset,
        pytest.raises(InvalidArgumentError, match=r"call l5kit\.data\.interop\.to_pandas\(array\)"),
    ):
        make(dataset.agents)
