import pickle

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, split_scenes
from l5kit.data.views import RecordView, Segments, view_of_first_frames, view_of_scenes
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from support.logs import write_with_chunks
from support.random_logs import ARRAYS, assert_same_records, random_dataset, without_traffic_lights


@pytest.fixture(params=["numpy", "opened", "uncached"])
def datasets(request, tmp_path):
    made = [random_dataset(np.random.default_rng(seed), 4) for seed in range(3)]
    if request.param == "numpy":
        return made
    options = {"cached": request.param == "opened"}
    return [
        ChunkedDataset(write_with_chunks(dataset, tmp_path / f"{index}.zarr")).open(**options)
        for index, dataset in enumerate(made)
    ]


def test_a_view_reads_like_the_joined_arrays(datasets):
    joined = ChunkedDataset.concatenate(datasets)
    agents = np.concatenate([np.asarray(dataset.agents) for dataset in datasets])
    assert len(joined.agents) == len(agents)
    for index in (slice(None), slice(3, -3), slice(None, None, -2), [0, -1, 5], agents["yaw"] > 0, "centroid", 7, -1):
        np.testing.assert_array_equal(joined.agents[index], agents[index])
    assert [row["track_id"] for row in joined.agents] == agents["track_id"].tolist()
    assert joined.agents.dtype == agents.dtype


def test_concatenated_scenes_are_the_originals(datasets):
    joined = ChunkedDataset.concatenate(datasets)
    originals = [dataset.get_scene_dataset(index) for dataset in datasets for index in range(4)]
    assert len(joined.scenes) == 12
    for index, original in enumerate(originals):
        assert_same_records(joined.get_scene_dataset(index), original)
    assert joined.validate() == []
    nested = ChunkedDataset.concatenate([joined, datasets[0]])
    assert_same_records(nested.get_scene_dataset(-1), originals[3])
    assert nested.summary().num_scenes == 16


def test_empty_datasets_add_nothing(datasets):
    empty = ChunkedDataset("")
    joined = ChunkedDataset.concatenate([empty, datasets[0], empty, datasets[1], empty])
    expected = ChunkedDataset.concatenate(datasets[:2])
    for name in ARRAYS:
        assert np.asarray(getattr(joined, name)).tobytes() == np.asarray(getattr(expected, name)).tobytes()
    assert len(ChunkedDataset.concatenate([empty]).agents[:]) == 0


def test_views_are_read_only_and_change_nothing(datasets):
    before = [np.asarray(dataset.frames).copy() for dataset in datasets]
    joined = ChunkedDataset.concatenate(datasets)
    rows = joined.frames.rows(0, len(joined.frames))
    assert not rows.flags.writeable
    joined.frames[:]["timestamp"] = 0
    for dataset, frames in zip(datasets, before, strict=True):
        assert np.asarray(dataset.frames).tobytes() == frames.tobytes()
    with pytest.raises(TypeError):
        joined.frames[0] = rows[0]


def test_views_are_read_in_bounded_blocks(monkeypatch):
    agents = np.zeros(200_000, dtype=random_dataset(np.random.default_rng(0)).agents.dtype)
    zero = np.zeros(1, dtype=np.int64)
    view = RecordView([agents], Segments(zero, zero + 10, zero + 190_000), dtype=agents.dtype)
    longest = 0
    read = RecordView.rows

    def spy(self, start, stop, *, strict=False):
        nonlocal longest
        longest = max(longest, stop - start)
        return read(self, start, stop, strict=strict)

    monkeypatch.setattr(RecordView, "rows", spy)
    assert len(view["yaw"]) == 189_990
    assert view[np.arange(0, 189_990, 1000)].shape == (190,)
    assert longest <= 65_536


def test_views_of_files_pickle_small_and_have_a_fingerprint(tmp_path):
    path = write_with_chunks(random_dataset(np.random.default_rng(0), 30), tmp_path / "a.zarr")
    opened = ChunkedDataset(path).open()
    first, second = split_scenes(opened, (0.5, 0.5))
    assert_same_records(pickle.loads(pickle.dumps(first)), first)
    assert len(pickle.dumps(first)) < 50_000
    prints = {first.fingerprint(), second.fingerprint(), opened.fingerprint()}
    assert len(prints) == 3
    assert None not in prints
    assert ChunkedDataset.concatenate([ChunkedDataset("")]).fingerprint() is None


def test_views_of_other_ends_have_other_fingerprints(tmp_path):
    path = write_with_chunks(random_dataset(np.random.default_rng(0), 3), tmp_path / "a.zarr")
    opened = ChunkedDataset(path).open()
    one = np.zeros(1, dtype=np.int64)
    signatures = {
        str(RecordView([opened.agents], Segments(one, one + start, one + stop), dtype=opened.agents.dtype).signature())
        for start, stop in ((0, 5), (0, 6), (1, 6))
    }
    assert len(signatures) == 3


def test_mixed_record_types_become_those_of_the_format():
    new = random_dataset(np.random.default_rng(1), 2)
    old = random_dataset(np.random.default_rng(2), 2)
    narrow = [("centroid", "<f4", (2,)), *[(name, old.agents.dtype[name]) for name in old.agents.dtype.names[1:]]]
    old.agents = old.agents.astype(narrow)
    joined = ChunkedDataset.concatenate([old, new])
    assert joined.agents.dtype == new.agents.dtype
    np.testing.assert_array_equal(joined.agents["centroid"][: len(old.agents)], old.agents["centroid"])
    assert ChunkedDataset.concatenate([old, old]).agents.dtype == old.agents.dtype


def test_frames_without_faces_join_frames_with_faces():
    new = random_dataset(np.random.default_rng(1), 2)
    scenes, frames, agents = without_traffic_lights(random_dataset(np.random.default_rng(2), 2))
    old = ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents)
    for order in ([old, new], [new, old], [old, old]):
        joined = ChunkedDataset.concatenate(order)
        assert {finding.severity for finding in joined.validate()} <= {"warning"}
        for index, source in enumerate(order):
            assert len(joined.get_scene_dataset(2 * index).tl_faces) == len(source.get_scene_dataset(0).tl_faces)


def test_segments_check_their_shapes():
    one, two = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    with pytest.raises(InvalidArgumentError, match=r"\(2,\)"):
        Segments(one, two, two)
    with pytest.raises(InvalidArgumentError, match="start <= stop"):
        Segments(one, one + 3, one)


@pytest.mark.parametrize("indices", [[0, 1, 2, 3], [2], [3, 0, 1], [1, 1], []], ids=str)
def test_view_of_scenes(datasets, indices):
    source = datasets[0]
    view = view_of_scenes(source, np.array(indices, dtype=np.int64))
    assert len(view.scenes) == len(indices)
    for position, index in enumerate(indices):
        assert_same_records(view.get_scene_dataset(position), source.get_scene_dataset(index))
    assert view.validate() == []


def test_consecutive_scenes_are_one_segment(datasets):
    view = view_of_scenes(datasets[0], np.array([0, 1, 2, 3]))
    assert "1 ranges" in repr(view.frames)
    assert "2 ranges" in repr(view_of_scenes(datasets[0], np.array([0, 1, 3])).agents)


@pytest.mark.parametrize("num_frames", [1, 2, 100])
def test_view_of_first_frames(datasets, num_frames):
    source = datasets[1]
    view = view_of_first_frames(source, num_frames)
    for index in range(4):
        whole, short = source.get_scene_dataset(index), view.get_scene_dataset(index)
        kept = min(num_frames, len(whole.frames))
        assert short.frames.tobytes() == whole.frames[:kept].tobytes()
        assert short.agents.tobytes() == whole.agents[: whole.frames["agent_index_interval"][kept - 1, 1]].tobytes()
    assert view.validate() == []


def test_a_view_of_damaged_intervals_is_an_error():
    broken = random_dataset(np.random.default_rng(3), 3)
    broken.scenes["frame_index_interval"][1, 1] = 10**6
    with pytest.raises(CorruptedDataError, match="1000000"):
        view_of_scenes(broken, np.arange(3))


@pytest.mark.parametrize(
    ("fractions", "counts"),
    [
        ((0.8, 0.2), [8, 2]),
        ([1.0], [10]),
        ((0.3, 0.3), [3, 3]),
        ((0.25,) * 4, [3, 2, 3, 2]),
        ((0.7, 0.2, 0.1), [7, 2, 1]),
        ((0.2, 0.4, 0.3, 0.1), [2, 4, 3, 1]),
    ],
    ids=str,
)
def test_split_scenes(tmp_path, fractions, counts):
    made = random_dataset(np.random.default_rng(9), 10)
    source = ChunkedDataset(write_with_chunks(made, tmp_path / "s.zarr")).open()
    parts = split_scenes(source, fractions, seed=3)
    assert [len(part.scenes) for part in parts] == counts
    times = [part.scenes["start_time"].tolist() for part in parts]
    assert all(part == sorted(part) for part in times)
    together = [time for part in times for time in part]
    assert len(set(together)) == len(together) == sum(counts)
    assert set(together) <= set(made.scenes["start_time"].tolist())
    by_time = {int(scene["start_time"]): index for index, scene in enumerate(made.scenes)}
    for part in parts:
        assert part.validate() == []
        for index in range(len(part.scenes)):
            original = made.get_scene_dataset(by_time[int(part.scenes[index]["start_time"])])
            assert_same_records(part.get_scene_dataset(index), original)


def test_split_scenes_depends_on_the_seed_only():
    made = random_dataset(np.random.default_rng(9), 20)
    times = {
        seed: [part.scenes["start_time"].tolist() for part in split_scenes(made, (0.5, 0.5), seed=seed)]
        for seed in (0, 1)
    }
    assert times[0] != times[1]
    assert [part.scenes["start_time"].tolist() for part in split_scenes(made, (0.5, 0.5))] == times[0]


@pytest.mark.parametrize(
    "fractions", [(), (0.5, 0.6), (0.0, 1.0), (-0.1, 0.5), (0.9, 0.1), (np.nan,), ((0.5,),)], ids=str
)
def test_split_scenes_refuses(fractions):
    with pytest.raises(InvalidArgumentError, match="fractions"):
        split_scenes(random_dataset(np.random.default_rng(9), 3), fractions)
