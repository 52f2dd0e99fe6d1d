import numpy as np
import pytest

from l5kit.data import SCENE_DTYPE, ChunkedDataset, get_combined_scenes
from support.logs import scenes_of, write_with_chunks


@pytest.fixture
def chained():
    starts_ns = 1000 * np.arange(10) + 5
    return scenes_of([10] * 10, hosts="host-a", start_ns=starts_ns, end_ns=starts_ns + 1000)


def test_chained_scenes_become_one(chained):
    (combined,) = get_combined_scenes(chained)
    assert combined["frame_index_interval"].tolist() == [0, 100]
    assert (combined["start_time"], combined["end_time"], combined["host"]) == (5, 10_005, "host-a")


def test_another_host_and_a_gap_break_the_chain(chained):
    chained["host"][1] = "host-b"
    assert get_combined_scenes(chained)["frame_index_interval"].tolist() == [[0, 10], [10, 20], [20, 100]]
    chained["start_time"][5] += 1
    combined = get_combined_scenes(chained)
    assert combined["frame_index_interval"].tolist() == [[0, 10], [10, 20], [20, 50], [50, 100]]
    assert combined["host"].tolist() == ["host-a", "host-b", "host-a", "host-a"]
    assert combined.dtype == np.dtype(SCENE_DTYPE)


def test_b11_frames_are_looked_at_only_on_request(chained):
    chained["frame_index_interval"][4:] += 7
    assert len(get_combined_scenes(chained)) == 1
    combined = get_combined_scenes(chained, require_adjacent=True)
    assert combined["frame_index_interval"].tolist() == [[0, 40], [47, 107]]


def test_no_scenes_are_returned_as_they_are():
    empty = np.empty(0, dtype=SCENE_DTYPE)
    assert get_combined_scenes(empty) is empty


def test_arguments_are_not_changed_and_arrays_on_disk_are_taken(chained, tmp_path):
    before = chained.copy()
    opened = ChunkedDataset(write_with_chunks(ChunkedDataset.in_memory(scenes=chained), tmp_path / "a.zarr")).open()
    assert get_combined_scenes(opened.scenes).tobytes() == get_combined_scenes(chained).tobytes()
    assert len(get_combined_scenes(chained[:1])) == 1
    assert chained.tobytes() == before.tobytes()
