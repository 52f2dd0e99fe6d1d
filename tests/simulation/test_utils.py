"""Changes of a single scene in memory: agents put in or hidden, and frames cut out."""

from typing import Any

import numpy as np
import pytest

from l5kit._types import RecordArray
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import DuplicateTrackError
from l5kit.simulation.utils import disable_agents, get_frames_subset, insert_agent
from support.fixture_s import make_fixture_s, save_fixture_s
from support.logs import make_agents, make_scene, make_several_scenes_log


def one_agent_a_frame() -> ChunkedDataset:
    return make_scene([[{"track_id": frame}] for frame in range(4)])


def tracks_of(log: Any, frame: int) -> list[int]:
    tracks: list[int] = log.agents["track_id"][slice(*log.frames["agent_index_interval"][frame])].tolist()
    return tracks


def agent(track_id: int, **values: Any) -> RecordArray:
    return make_agents({"track_id": track_id, **values})


def test_an_agent_of_a_new_track_comes_behind_the_others_of_its_frame() -> None:
    log = one_agent_a_frame()
    insert_agent(agent(7, centroid=(3, 4)), 1, log)
    assert [tracks_of(log, frame) for frame in range(4)] == [[0], [1, 7], [2], [3]]
    assert log.frames["agent_index_interval"].tolist() == [[0, 1], [1, 3], [3, 4], [4, 5]]
    assert log.agents["centroid"][2].tolist() == [3, 4]


def test_an_agent_of_a_track_that_is_there_is_overwritten() -> None:
    log = one_agent_a_frame()
    agents = log.agents
    insert_agent(agent(2, centroid=(3, 4), yaw=0.5), 2, log)
    assert log.agents is agents
    assert len(agents) == 4
    assert agents["centroid"].tolist() == [[0, 0], [0, 0], [3, 4], [0, 0]]


def test_agents_can_be_put_into_frames_without_agents() -> None:
    log = make_scene([[]] * 3)
    insert_agent(agent(5), 2, log)
    insert_agent(agent(6), 0, log)
    assert [tracks_of(log, frame) for frame in range(3)] == [[6], [], [5]]


def test_a_track_that_a_frame_has_twice_is_an_error() -> None:
    log = make_scene([[{"track_id": 1}, {"track_id": 1}]])
    with pytest.raises(DuplicateTrackError) as raised:
        insert_agent(agent(1), 0, log)
    assert isinstance(raised.value, AssertionError), "1.5 raised that"


@pytest.mark.parametrize("frame", [4, -1])
def test_an_agent_of_no_frame_is_an_error(frame: int) -> None:
    with pytest.raises(ValueError, match="frame_idx"):
        insert_agent(agent(1), frame, one_agent_a_frame())


def test_hidden_agents_keep_their_rows() -> None:
    log = make_fixture_s()
    before = log.agents.copy()
    disable_agents(log, np.array([1, 300]))
    hidden = ~np.isin(before["track_id"], [1, 300])
    assert hidden.any()
    np.testing.assert_array_equal(log.agents[~hidden], before[~hidden])
    for field in ("centroid", "yaw", "extent"):
        assert not log.agents[field][hidden].any()
    assert (log.agents["label_probabilities"][hidden] == -1).all()
    for field in ("track_id", "velocity"):
        np.testing.assert_array_equal(log.agents[field], before[field])


@pytest.mark.parametrize("allowlist", [np.array(1), np.zeros((1, 2))], ids=["scalar", "matrix"])
def test_an_allowlist_has_one_axis(allowlist: Any) -> None:
    with pytest.raises(ValueError, match="allowlist"):
        disable_agents(make_fixture_s(), allowlist)


def test_a_subset_has_the_tracks_of_its_frames() -> None:
    subset = get_frames_subset(one_agent_a_frame(), 1, 3)
    assert subset.agents["track_id"].tolist() == [1, 2]
    assert subset.path == ""


@pytest.mark.parametrize(("start", "end"), [(0, 30), (5, 6), (12, 30)])
def test_a_subset_holds_the_rows_of_the_scene_and_is_a_copy(start: int, end: int) -> None:
    log = make_fixture_s()
    subset = get_frames_subset(log, start, end)
    agents = slice(log.frames["agent_index_interval"][start, 0], log.frames["agent_index_interval"][end - 1, 1])
    np.testing.assert_array_equal(subset.agents, log.agents[agents])
    np.testing.assert_array_equal(subset.tl_faces, log.tl_faces[2 * start : 2 * end])
    assert subset.scenes["frame_index_interval"].tolist() == [[0, end - start]]
    assert subset.scenes["start_time"][0] == log.frames["timestamp"][start]
    assert subset.scenes["end_time"][0] == log.frames["timestamp"][end - 1]
    for field in ("agent_index_interval", "traffic_light_faces_index_interval"):
        assert subset.frames[field][0, 0] == 0
        np.testing.assert_array_equal(np.diff(subset.frames[field]), np.diff(log.frames[field][start:end]))
    for name in ("frames", "agents", "tl_faces"):
        assert not np.shares_memory(getattr(subset, name), getattr(log, name))


@pytest.mark.parametrize(("start", "end"), [(4, 5), (0, 5), (2, 2), (3, 1), (-1, 2)])
def test_frames_that_are_not_there_are_an_error(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="frame_start_idx"):
        get_frames_subset(one_agent_a_frame(), start, end)


CALLS = {
    "insert_agent": lambda log: insert_agent(agent(1), 0, log),
    "disable_agents": lambda log: disable_agents(log, np.array([1])),
    "get_frames_subset": lambda log: get_frames_subset(log, 0, 1),
}


@pytest.mark.parametrize("call", CALLS)
def test_several_scenes_are_an_error(call: str) -> None:
    with pytest.raises(ValueError, match="get_scene_dataset"):
        CALLS[call](make_several_scenes_log())


@pytest.mark.parametrize("call", CALLS)
def test_arrays_on_disk_are_an_error(call: str, tmp_path: Any) -> None:
    log = ChunkedDataset(save_fixture_s(tmp_path)).open()
    with pytest.raises(ValueError, match="NumPy"):
        CALLS[call](log)
