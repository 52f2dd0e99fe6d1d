"""Cases of the record buffer that can be worked out by hand, and what it refuses."""

import numpy as np
import pytest

from l5kit.data.index.windows import WindowSteps
from l5kit.data.log_facts import LogFacts
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, InvalidArgumentError, TrackNotFoundError
from support.logs import make_agent, make_agents, make_faces, make_frames


def scene_of(agents_of_frames, **kwargs):
    return SceneRecords(*make_frames([make_agents(*agents) for agents in agents_of_frames], **kwargs), host="made")


@pytest.fixture
def buffer():
    """Two scenes: tracks 1 and 2, then 1; and an empty frame."""
    first = scene_of([[make_agent(1), make_agent(2)], [make_agent(1)]], faces=[make_faces(R=1), make_faces()])
    return RecordBuffer([first, scene_of([[]])])


def tracks_of(buffer, scene, frame):
    start, stop = buffer.frames["agent_index_interval"][buffer.frame_rows([scene], frame)[0]]
    return buffer.agents["track_id"][start:stop].tolist()


def test_agents_are_put_replaced_and_removed(buffer):
    rows = buffer.frame_rows([0, 0, 1], [0, 0, 0])
    buffer.put_agents(rows, make_agents(make_agent(2, (5, 6)), make_agent(7), make_agent(1)))
    assert [tracks_of(buffer, *frame) for frame in ((0, 0), (0, 1), (1, 0))] == [[1, 2, 7], [1], [1]]
    (row,) = buffer.find_agents(rows[:1], [2])
    assert buffer.agents["centroid"][row].tolist() == [5, 6]
    buffer.remove_agents(rows[:2], [1, 7])
    assert tracks_of(buffer, 0, 0) == [2]
    buffer.replace_agents(rows[1:], make_agents(make_agent(3), make_agent(4)), [0, 2])
    assert [tracks_of(buffer, *frame) for frame in ((0, 0), (0, 1), (1, 0))] == [[], [1], [3, 4]]
    assert buffer.find_agents(rows[1:], [2, 4])[0] == -1


def test_the_order_of_the_call_is_that_of_the_frame(buffer):
    rows = buffer.frame_rows([1, 0, 1], [0, 1, 0])
    buffer.put_agents(rows, make_agents(make_agent(9), make_agent(8), make_agent(7)))
    assert (tracks_of(buffer, 1, 0), tracks_of(buffer, 0, 1)) == ([9, 7], [1, 8])


def test_rows_of_the_buffer_itself_are_put_as_they_were():
    buffer = RecordBuffer([scene_of([[make_agent(1)], [make_agent(2), make_agent(3)]])])
    rows = buffer.frame_rows([0, 0], 1)
    buffer.remove_agents(rows, [2, 3])
    # the second of the records lies where the first one is to be written
    assert buffer.agents["track_id"][:2].tolist() == [1, 2]
    buffer.put_agents(rows, buffer.agents[:2])
    assert tracks_of(buffer, 0, 1) == [1, 2]


def test_records_that_may_only_be_read_can_be_put_but_not_into_such_a_buffer(buffer):
    records = make_agents(make_agent(9))
    records.setflags(write=False)
    buffer.put_agents(buffer.frame_rows([1], 0), records)
    assert tracks_of(buffer, 1, 0) == [9]
    for track in (9, 8):
        with pytest.raises(ValueError, match="assignment destination is read-only"):
            buffer.as_read_only().put_agents(buffer.frame_rows([1], 0), make_agents(make_agent(track)))
    assert tracks_of(buffer, 1, 0) == [9]


def test_arrays_are_views_that_may_be_written_to(buffer):
    rows = buffer.find_agents(buffer.frame_rows([0], 1), [1])
    buffer.agents["yaw"][rows] = 0.5
    buffer.frames["timestamp"][buffer.frame_rows([1], 0)] = 12
    log = buffer.to_log()
    assert log.agents["yaw"].tolist() == [0, 0, 0.5]
    assert log.frames["timestamp"][2] == 12
    assert log.scenes["start_time"].tolist() == [0, 12]


def test_windows_show_what_is_in_the_buffer_without_a_copy(buffer):
    windows = buffer.windows(buffer.frame_rows([0, 1], [1, 0]), WindowSteps(1, 0))
    assert windows.counts.tolist() == [[2, 1], [0, 0]]
    assert np.shares_memory(windows.agents.arrays[0], buffer.agents)
    assert windows.agents.rows_of_frame(0, 1)["track_id"].tolist() == [1, 2]


def test_windows_know_the_size_of_the_av(buffer):
    assert buffer.windows([0], WindowSteps(0, 0)).ego_extent_m == buffer.facts.ego_extent_m == (4.87, 1.85, 1.8)
    large = RecordBuffer([scene_of([[]])], facts=LogFacts((8.0, 3.0, 4.0)))
    assert large.windows([0], WindowSteps(0, 0)).ego_extent_m == (8, 3, 4)


def test_a_log_of_a_buffer_keeps_hosts_and_own_times_of_scenes():
    own = SceneRecords(*make_frames([make_agents()]), host="own", time_span_ns=(5, 6))
    log = RecordBuffer([own, scene_of([[], []])]).to_log()
    assert log.scenes["host"].tolist() == ["own", "made"]
    assert log.scenes[["start_time", "end_time"]].tolist() == [(5, 6), (0, 100_000_000)]


def test_a_scene_without_frames_gets_its_first(buffer):
    empty = SceneRecords(*(array[:0] for array in make_frames([make_agents()])))
    grown = RecordBuffer([empty, scene_of([[make_agent(1)]]), empty])
    assert grown.to_log().scenes["frame_index_interval"].tolist() == [[0, 0], [0, 1], [1, 1]]
    grown.append_frames([2, 0], np.zeros(2, FRAME_DTYPE), agents=make_agents(make_agent(4)), agent_counts=[1, 0])
    assert [tracks_of(grown, scene, 0) for scene in range(3)] == [[], [1], [4]]


def test_the_scenes_handed_over_stay_as_they_are():
    scene = scene_of([[make_agent(1)]])
    before = [array.tobytes() for array in (scene.frames, scene.agents)]
    buffer = RecordBuffer([scene])
    rows = buffer.frame_rows([0], 0)
    buffer.set_ego(rows, np.ones((1, 2)), np.ones(1))
    buffer.put_agents(rows, make_agents(make_agent(1, (9, 9))))
    assert [array.tobytes() for array in (scene.frames, scene.agents)] == before


def test_what_is_not_there_is_named(buffer):
    rows = buffer.frame_rows([0, 1], 0)
    with pytest.raises(IndexOutOfRangeError, match="frame_indices has 2 for scene 0, which has 2 frames"):
        buffer.frame_rows([1, 0], [0, 2])
    with pytest.raises(IndexOutOfRangeError, match="frame_indices has -1 for scene 1"):
        buffer.frame_rows([1], -1)
    for scene in (-1, 2):
        with pytest.raises(IndexOutOfRangeError, match=f"scenes has {scene}, but the buffer has scenes 0 to 1"):
            buffer.frame_rows([scene], 0)
        with pytest.raises(IndexOutOfRangeError, match=f"scenes has {scene}"):
            buffer.append_frames([scene], np.zeros(1, FRAME_DTYPE))
        with pytest.raises(IndexOutOfRangeError, match=f"scenes has {scene}"):
            buffer.scene(scene)
    for row in (-1, 3):
        with pytest.raises(IndexOutOfRangeError, match=f"frame_rows has {row}, which is no frame"):
            buffer.windows([row], WindowSteps(1, 1))
        with pytest.raises(IndexOutOfRangeError, match=f"frame_rows has {row}, which is no frame"):
            buffer.set_ego([row], np.zeros((1, 2)), np.zeros(1))
    with pytest.raises(TrackNotFoundError, match="track 5 of frame 0 of scene 1 is not there"):
        buffer.remove_agents(rows, [1, 5])


def test_spare_frames_are_no_frames():
    buffer = RecordBuffer([scene_of([[]]), scene_of([[]])], spare_frames=1)
    assert buffer.frame_rows([0, 1], 0).tolist() == [0, 2]
    with pytest.raises(IndexOutOfRangeError, match="frame_rows has 1, which is no frame"):
        buffer.scenes_of([0, 1])


def test_spare_agents_keep_the_array_in_place():
    scene = scene_of([[make_agent(1)]])
    for spare, stays in ((0, False), (1, False), (3, True)):  # two agents, and room for half as many again
        buffer = RecordBuffer([scene], spare_agents=spare)
        array = buffer.agents
        buffer.put_agents([0], make_agents(make_agent(2)))
        assert (buffer.agents is array) == stays
        assert len(array) == 1 + spare
        assert tracks_of(buffer, 0, 0) == [1, 2]


def test_what_comes_twice_is_named(buffer):
    rows = buffer.frame_rows([0, 1], 0)
    with pytest.raises(InvalidArgumentError, match="track 1 of frame 0 of scene 1 is given twice"):
        buffer.put_agents(rows[[1, 0, 1]], make_agents(*[make_agent(1)] * 3))
    with pytest.raises(InvalidArgumentError, match="track 2 of frame 0 of scene 0 is given twice"):
        buffer.remove_agents(rows[[0, 0]], [2, 2])
    with pytest.raises(InvalidArgumentError, match="scenes has 1 more than once"):
        buffer.append_frames([1, 1], np.zeros(2, FRAME_DTYPE))
    for change in (buffer.replace_agents, buffer.replace_tl_faces):
        with pytest.raises(InvalidArgumentError, match=f"frame_rows has {rows[0]} more than once"):
            change(rows[[0, 0]], make_agents(), [0, 0])
    damaged = RecordBuffer([scene_of([[make_agent(3), make_agent(3)]])])
    with pytest.raises(InvalidArgumentError, match="track 3 of frame 0 of scene 0 is there more than once"):
        damaged.put_agents(damaged.frame_rows([0], 0), make_agents(make_agent(3)))
    with pytest.raises(AssertionError):  # as insert_agent of 1.5
        damaged.find_agents(damaged.frame_rows([0], 0), [3])


def test_arrays_that_do_not_go_together_are_refused(buffer):
    rows = buffer.frame_rows([0, 1], 0)
    with pytest.raises(InvalidArgumentError, match=r"positions_m must have shape \(2, 2\)"):
        buffer.set_ego(rows, np.zeros((2, 4)), np.zeros(2))
    with pytest.raises(InvalidArgumentError, match=r"yaws_rad \(2,\)"):
        buffer.set_ego(rows, np.zeros((2, 3)), np.zeros((2, 1)))
    with pytest.raises(InvalidArgumentError, match="agents must be 2 records"):
        buffer.put_agents(rows, make_agents(make_agent(1)))
    with pytest.raises(InvalidArgumentError, match="agents must be 1 records"):
        buffer.replace_agents(rows, make_agents(), [0, 1])
    with pytest.raises(InvalidArgumentError, match="the counts of agents must be 2 numbers from 0 on"):
        buffer.replace_agents(rows, make_agents(make_agent(1)), [2, -1])
    with pytest.raises(InvalidArgumentError, match="frames must be 2 records"):
        buffer.append_frames([0, 1], np.zeros(2, AGENT_DTYPE))
    with pytest.raises(InvalidArgumentError, match="of one shape"):
        buffer.find_agents(rows, [1])
    with pytest.raises(InvalidArgumentError, match="at least one scene"):
        RecordBuffer([])
    for name in ("spare_frames", "spare_agents"):
        with pytest.raises(InvalidArgumentError, match=f"{name} must be at least 0, got -1"):
            RecordBuffer([scene_of([[]])], **{name: -1})


def test_calls_about_nothing_change_nothing(buffer):
    before = buffer.to_log()
    nothing = np.zeros(0, np.int64)
    buffer.put_agents(nothing, make_agents())
    buffer.remove_agents(nothing, nothing)
    buffer.replace_agents(nothing, make_agents(), nothing)
    buffer.set_ego(nothing, np.zeros((0, 2)), np.zeros(0))
    assert len(buffer.append_frames(nothing, np.zeros(0, FRAME_DTYPE))) == 0
    after = buffer.to_log()
    assert all(getattr(after, name).tobytes() == getattr(before, name).tobytes() for name in vars(before))


@pytest.mark.parametrize("interval", [(10**9, 10**9 + 3), (0, 10**9), (-5, 2), (2, 1)], ids=str)
def test_intervals_that_somebody_has_written_are_not_followed_out_of_the_rows(buffer, interval):
    row = int(buffer.frame_rows([0], [1])[0])
    agents = buffer.agents[:1].copy()
    buffer.frames["agent_index_interval"][row] = interval
    for call in (
        lambda: buffer.find_agents([row], [77]),
        lambda: buffer.put_agents([row], agents),
        lambda: buffer.remove_agents([row], [77]),
    ):
        with pytest.raises(
            CorruptedDataError, match=r"frame 1 of scene 0 .*agent_index_interval .* does not lie within"
        ):
            call()


@pytest.mark.parametrize("track", [-1, 1.5, np.nan, "1"], ids=str)
def test_numbers_that_no_track_can_have_are_not_looked_for(buffer, track):
    for call in (buffer.find_agents, buffer.remove_agents):
        with pytest.raises(InvalidArgumentError, match=r"track_ids has .* is a whole one from 0"):
            call(buffer.frame_rows([0], [0]), [track])


def test_agents_and_their_numbers_come_together(buffer):
    frames, agents = buffer.frames[:1].copy(), buffer.agents[:1].copy()
    with pytest.raises(InvalidArgumentError, match=r"agents is None, but .* \[3\]"):
        buffer.append_frames([0], frames, agent_counts=[3])
    with pytest.raises(InvalidArgumentError, match="counts of agents must be 1 numbers from 0 on, got None"):
        buffer.append_frames([0], frames, agents=agents)
    buffer.append_frames([0], frames, agent_counts=[0])
