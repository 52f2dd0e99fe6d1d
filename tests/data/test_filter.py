import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from l5kit.data import (
    AGENT_DTYPE,
    ChunkedDataset,
    filter_agents_by_distance,
    filter_agents_by_frames,
    filter_agents_by_labels,
    filter_agents_by_track_id,
    filter_tl_faces_by_frames,
    filter_tl_faces_by_status,
    get_agents_slice_from_frames,
    get_frames_slice_from_scenes,
    get_tl_faces_slice_from_frames,
)
from l5kit.data.filter import (
    PERCEPTION_LABEL_INDICES_TO_KEEP,
    PERCEPTION_LABELS_TO_KEEP,
    _get_label_filter,
    get_other_agents_ids,
    kept_probability,
)
from support.logs import make_agent, make_agents, make_faces, write_with_chunks
from support.random_logs import random_dataset


@pytest.fixture
def dataset():
    return random_dataset(np.random.default_rng(21), 4)


def agents_of(probabilities_by_column):
    """Agents with ids 1, 2, ..., each with a dict of probabilities by column."""
    return make_agents(*(make_agent(track, labels=labels) for track, labels in enumerate(probabilities_by_column, 1)))


def test_labels_to_keep():
    assert list(range(3, 16)) == PERCEPTION_LABEL_INDICES_TO_KEEP
    assert PERCEPTION_LABELS_TO_KEEP[0] == "PERCEPTION_LABEL_CAR"
    assert PERCEPTION_LABELS_TO_KEEP[-1] == "PERCEPTION_LABEL_ANIMAL"


@pytest.mark.parametrize(
    ("threshold", "kept"),
    [(0.5, [2, 4]), (0.0, [2, 3, 4]), (-1, [1, 2, 3, 4, 5]), (0.6, [2]), (1.0, []), (0, [2, 3, 4])],
)
def test_filter_by_labels_sums_the_kept_classes_and_is_strict(threshold, kept):
    agents = agents_of([{1: 1.0}, {3: 1.0}, {14: 0.5, 1: 0.5}, {3: 0.3, 12: 0.3}, {16: 1.0}])
    assert filter_agents_by_labels(agents, threshold)["track_id"].tolist() == kept
    assert _get_label_filter(agents["label_probabilities"], threshold).dtype == bool


def test_filter_by_labels_takes_half_by_default():
    assert filter_agents_by_labels(agents_of([{3: 0.5}, {3: 0.51}]))["track_id"].tolist() == [2]


def test_b10_agents_of_unknown_class_are_dropped_at_threshold_0():
    assert len(filter_agents_by_labels(agents_of([{1: 1.0}]), 0.0)) == 0


@settings(derandomize=True, deadline=None)
@given(arrays.arrays(np.float32, (5, 17), elements=st.floats(0, 1, width=32)), st.floats(-1, 3))
def test_a1_label_sums_and_their_comparison_are_in_float32(probabilities, threshold):
    sums = np.array([np.sum(row[3:16], dtype=np.float32) for row in probabilities])
    close = np.abs(sums - threshold) < 1e-5
    found = _get_label_filter(probabilities, threshold)
    np.testing.assert_array_equal(found[~close], (sums > np.float32(threshold))[~close])
    np.testing.assert_array_equal(_get_label_filter(probabilities, np.float64(threshold)), found)


def test_a1_a_threshold_between_two_float32_numbers_is_rounded():
    agents = agents_of([{3: np.float32(0.7)}])
    assert len(filter_agents_by_labels(agents, 0.7)) == 0
    assert len(filter_agents_by_labels(agents, np.float64(0.7))) == 0


def test_filter_by_distance_is_strict_and_sorted():
    agents = agents_of([{}] * 5)
    agents["centroid"] = [[3, 4], [0, 1], [0, 0], [1, 0], [30, 40]]
    assert filter_agents_by_distance(agents, np.zeros(2), 5.0)["track_id"].tolist() == [3, 2, 4]
    assert filter_agents_by_distance(agents, np.zeros(2), 5.001)["track_id"].tolist() == [3, 2, 4, 1]
    assert len(filter_agents_by_distance(agents[:0], np.zeros(2), 5.0)) == 0
    assert agents["track_id"].tolist() == [1, 2, 3, 4, 5]


def test_filter_by_track_id(dataset):
    rows = filter_agents_by_track_id(dataset.agents, 2)
    assert len(rows) == np.sum(dataset.agents["track_id"] == 2) > 0
    assert (rows["track_id"] == 2).all()
    assert len(filter_agents_by_track_id(dataset.agents, 999)) == 0


@pytest.mark.parametrize("stored", [False, True], ids=["numpy", "opened"])
def test_filter_by_frames(dataset, tmp_path, stored):
    source = ChunkedDataset(write_with_chunks(dataset, tmp_path / "a.zarr")).open() if stored else dataset
    agents = filter_agents_by_frames(dataset.frames, source.agents)
    faces = filter_tl_faces_by_frames(dataset.frames, source.tl_faces)
    assert len(agents) == len(faces) == len(dataset.frames)
    assert np.concatenate(agents).tobytes() == dataset.agents.tobytes()
    assert np.concatenate(faces).tobytes() == dataset.tl_faces.tobytes()
    for frame, rows in zip(dataset.frames, agents, strict=True):
        assert rows.tobytes() == dataset.agents[get_agents_slice_from_frames(frame)].tobytes()
    assert filter_agents_by_frames(dataset.frames[:0], source.agents) == []


def test_b8_a_single_frame_is_taken_by_both_filters(dataset):
    frame = dataset.frames[2]
    for single in (frame, dataset.frames[2:3], np.array(frame)):
        (agents,) = filter_agents_by_frames(single, dataset.agents)
        (faces,) = filter_tl_faces_by_frames(single, dataset.tl_faces)
        assert agents.tobytes() == dataset.agents[slice(*frame["agent_index_interval"])].tobytes()
        assert faces.tobytes() == dataset.tl_faces[slice(*frame["traffic_light_faces_index_interval"])].tobytes()


def test_filter_by_status():
    faces = make_faces(a=1, b=0, c=[0.1, 0, 0.9])
    assert filter_tl_faces_by_status(faces, "ACTIVE")["face_id"].tolist() == ["a", "c"]
    assert filter_tl_faces_by_status(faces, "INACTIVE")["face_id"].tolist() == ["b"]
    assert filter_tl_faces_by_status(faces, "UNKNOWN")["face_id"].tolist() == ["c"]
    with pytest.raises(KeyError):
        filter_tl_faces_by_status(faces, "BLINKING")


def test_slices_between_scenes_and_frames(dataset):
    assert get_frames_slice_from_scenes(dataset.scenes[1]) == slice(*dataset.scenes[1]["frame_index_interval"])
    assert get_frames_slice_from_scenes(*dataset.scenes[[0, -1]]) == slice(0, len(dataset.frames))
    assert get_agents_slice_from_frames(*dataset.frames[[0, -1]]) == slice(0, len(dataset.agents))
    assert get_tl_faces_slice_from_frames(*dataset.frames[[0, -1]]) == slice(0, len(dataset.tl_faces))
    frame = dataset.frames[3]
    assert get_tl_faces_slice_from_frames(frame) == slice(*frame["traffic_light_faces_index_interval"])


@pytest.mark.parametrize(
    ("all_ids", "priority", "selected", "max_agents", "chosen"),
    [
        ([5, 1, 5, 9], [9], 1, 10, {5, 9}),
        ([5, 1, 9, 7], [9, 9, 7], 1, 2, {9, 7}),
        ([5, 1, 9], [], None, 2, {5, 1}),
        ([5, 1], [5], 5, 0, set()),
        ([], [], 3, 4, set()),
    ],
)
def test_other_agents(all_ids, priority, selected, max_agents, chosen):
    found = get_other_agents_ids(np.array(all_ids, np.uint64), np.array(priority, np.uint64), selected, max_agents)
    assert sorted(found) == sorted(chosen)
    assert all(isinstance(track_id, np.uint64) for track_id in found)
    order = set()
    for track_id in [*priority, *all_ids]:
        if track_id in chosen and len(order) < max_agents:
            order.add(np.uint64(track_id))
    assert found == list(order)


def test_the_kernel_adds_probabilities_up_as_numpy_does() -> None:
    rows = np.zeros(2000, AGENT_DTYPE)
    rows["label_probabilities"] = np.random.default_rng(3).random((2000, 17), dtype=np.float32)
    sums = [kept_probability(row) for row in rows["label_probabilities"]]
    np.testing.assert_array_equal(np.float32(sums), rows["label_probabilities"][:, 3:16].sum(axis=1))
