"""The frames around a frame, with their agents and traffic light faces."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.data.records import FRAME_DTYPE
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, L5KitError
from l5kit.sampling import get_agent_context
from support.fixture_s import make_fixture_s, make_fixture_s_arrays
from support.logs import make_log, rows_as_bytes, without_face_intervals

EMPTY_FACES = np.empty(0)
FRAME_NAMES = np.dtype(FRAME_DTYPE).names or ()


def agents_at(frames: Any, agents: Any, index: int) -> bytes:
    return rows_as_bytes(agents[slice(*frames[index]["agent_index_interval"])])


def faces_at(frames: Any, tl_faces: Any, index: int) -> bytes:
    return rows_as_bytes(tl_faces[slice(*frames[index]["traffic_light_faces_index_interval"])])


@given(index=st.integers(0, 29), num_history=st.integers(0, 40), num_future=st.integers(0, 40))
def test_context_holds_the_rows_of_each_frame(index: int, num_history: int, num_future: int) -> None:
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    context = get_agent_context(index, frames, agents, tl_faces, num_history, num_future)
    past = list(range(index, max(-1, index - num_history - 1), -1))
    future = list(range(index + 1, min(30, index + num_future + 1)))
    for part, indices in ((0, past), (1, future)):
        assert [frame["timestamp"] for frame in context[part]] == [frames[i]["timestamp"] for i in indices]
        assert [rows_as_bytes(rows) for rows in context[part + 2]] == [agents_at(frames, agents, i) for i in indices]
        assert [rows_as_bytes(rows) for rows in context[part + 4]] == [faces_at(frames, tl_faces, i) for i in indices]


@pytest.mark.parametrize("index", [0, 4, 7, 9, 15])
def test_intervals_are_rebased_to_the_rows_in_the_order_of_time(index: int) -> None:
    log = make_log([[[{"track_id": k + 1}] * (0 if k in (3, 8, 9) else k % 4) for k in range(16)]])
    context = get_agent_context(index, log.frames, log.agents, log.tl_faces, 5, 5)
    for part, order in ((0, -1), (1, 1)):
        for rows_part, field in ((2, "agent_index_interval"), (4, "traffic_light_faces_index_interval")):
            rows_of_frames = context[part + rows_part]
            in_time = [row for rows in rows_of_frames[::order] for row in rows]
            for frame, rows in zip(context[part], rows_of_frames, strict=True):
                start, stop = frame[field]
                assert 0 <= start <= stop <= len(in_time)
                assert in_time[start:stop] == list(rows)


def test_intervals_of_a_future_after_a_frame_without_agents() -> None:
    log = make_log([[[{"track_id": 1}, {"track_id": 2}], [], [{"track_id": 3}]]])
    future_frames = get_agent_context(0, log.frames, log.agents, log.tl_faces, 0, 2)[1]
    assert future_frames["agent_index_interval"].tolist() == [[0, 0], [0, 1]]


def test_the_interval_of_a_frame_without_agents_may_lie_anywhere() -> None:
    log = make_log([[[{"track_id": 1}, {"track_id": 2}], [{"track_id": 3}], [], [{"track_id": 4}]]])
    for anywhere in ((0, 0), (4, 4), (900, 900)):
        log.frames["agent_index_interval"][2] = anywhere
        context = get_agent_context(1, log.frames, log.agents, log.tl_faces, 0, 2)
        assert [rows["track_id"].tolist() for rows in context[3]] == [[], [4]]
        empty, last = context[1]["agent_index_interval"].tolist()
        assert (empty in ([0, 0], [1, 1]), last) == (True, [0, 1])


def test_results_are_copies_and_arguments_stay_as_they_are() -> None:
    arrays = make_fixture_s_arrays()[1:]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.setflags(write=False)
    context = get_agent_context(10, *arrays, 3, 5)
    for part in context[:2]:
        part["ego_translation"] = 0
    for rows in (rows for part in context[2:] for rows in part):
        rows[rows.dtype.names[0]] = np.zeros((), rows.dtype)[rows.dtype.names[0]]
    for array, copied in zip(arrays, before, strict=True):
        assert rows_as_bytes(array) == rows_as_bytes(copied)


def test_no_frames_at_all_are_an_index_error() -> None:
    with pytest.raises(IndexError, match="state_index 0 is out of range for a scene of 0 frames"):
        get_agent_context(0, np.empty(0, FRAME_DTYPE), make_fixture_s_arrays()[2], EMPTY_FACES, 2, 4)


@pytest.mark.parametrize("index", [-1, 30, 1000])
def test_d11_a_frame_beyond_the_scene_is_an_index_error(index: int) -> None:
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    with pytest.raises(IndexError, match=f"state_index {index} is out of range for a scene of 30 frames") as raised:
        get_agent_context(index, frames, agents, tl_faces, 50, 5)
    assert isinstance(raised.value, L5KitError)


def test_faces_may_be_an_empty_array_of_any_type() -> None:
    _, frames, agents, _ = make_fixture_s_arrays()
    context = get_agent_context(10, frames, agents, EMPTY_FACES, 3, 5)
    assert [len(faces) for part in context[4:] for faces in part] == [0] * 9


def test_frames_of_the_older_layout_have_no_faces() -> None:
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    context = get_agent_context(10, without_face_intervals(frames), agents, tl_faces, 3, 5)
    assert [len(rows) for rows in context[2]] == [3, 3, 3, 3]
    assert [len(faces) for part in context[4:] for faces in part] == [0] * 9


def test_e8_arrays_of_an_opened_dataset_are_taken(tmp_path: Any) -> None:
    path = tmp_path / "log.zarr"
    make_fixture_s().save(path)
    stored = type(make_fixture_s())(str(path)).open()
    from_store = get_agent_context(10, stored.frames, stored.agents, stored.tl_faces, 3, 5)
    from_memory = get_agent_context(10, *make_fixture_s_arrays()[1:], 3, 5)
    for stored_part, part in zip(from_store, from_memory, strict=True):
        assert [rows_as_bytes(rows) for rows in stored_part] == [rows_as_bytes(rows) for rows in part]


@pytest.mark.parametrize("interval", [(-4, 2), (5, 2), (95, 99)])
def test_an_interval_outside_the_agents_names_what_is_damaged(interval: tuple[int, int]) -> None:
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    frames["agent_index_interval"][12] = interval
    with pytest.raises(CorruptedDataError, match=r"agent_index_interval .* of a frame does not lie within the 98 rows"):
        get_agent_context(10, frames, agents, tl_faces, 3, 5)


def test_a_missing_chunk_of_faces_reads_as_zeros_one_of_agents_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "log.zarr"
    make_fixture_s().save(folder)
    (folder / "traffic_light_faces" / "0").unlink()
    log = ChunkedDataset(str(folder)).open()
    faces = get_agent_context(10, log.frames, log.agents, log.tl_faces, 2, 2)[4]
    assert [len(rows) for rows in faces] == [2, 2, 2]
    assert not any(rows["traffic_light_face_status"].any() for rows in faces)
    (folder / "agents" / "0").unlink()
    log = ChunkedDataset(str(folder)).open()
    with pytest.raises(CorruptedDataError, match=r"agents.0 is missing"):
        get_agent_context(10, log.frames, log.agents, log.tl_faces, 2, 2)


@pytest.mark.parametrize("has_agents", [False, True])
@pytest.mark.parametrize("faces", ["some", "none", "older layout"])
def test_a_log_of_one_frame(has_agents: bool, faces: str) -> None:
    log = make_log([[[{"track_id": 1}] if has_agents else []]])
    frames, tl_faces = np.asarray(log.frames), log.tl_faces if faces == "some" else EMPTY_FACES
    if faces == "older layout":
        frames = frames[[name for name in FRAME_NAMES if not name.startswith("traffic")]].copy()
    history, future, history_agents, _, history_faces, _ = get_agent_context(0, frames, log.agents, tl_faces, 2, 2)
    assert (len(history), len(future)) == (1, 0)
    assert (len(history_agents[0]), len(history_faces[0])) == (int(has_agents), int(faces == "some"))
