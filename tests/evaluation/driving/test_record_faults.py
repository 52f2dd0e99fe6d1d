"""Faults of recorded scenes: the first thing that cannot be, of the AV, of times, then of agents."""

import numpy as np
import pytest

from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.driving.record_faults import RecordFault, find_record_fault
from support.logs import log_of, make_agent, make_frames, scenes_of

YEAR_NS = 365 * 86_400 * 10**9


def fault_of(*agents, **given):
    frames = make_frames(list(agents), **given)
    return find_record_fault(SceneRecords.read(log_of(scenes_of([len(agents)]), *frames), 0))


def test_a_scene_that_can_be_has_none():
    assert fault_of([make_agent(1), make_agent(2)], [], [make_agent(1, (3, 0))]) is None


@pytest.mark.parametrize(
    ("given", "frame", "message"),
    [
        pytest.param(
            {"positions_m": [(0, 0), (np.nan, 0)]}, 1, "the pose of the AV is not finite in the log", id="pose"
        ),
        pytest.param(
            {"positions_m": [(0, 0), (2e7, 0)]}, 1, "the AV is more than 1e+07 m from the origin in the log", id="far"
        ),
        pytest.param(
            {"timestamps_ns": [5, 5]}, 1, "the time of the frame is not after that of the frame before it", id="time"
        ),
        pytest.param(
            {"timestamps_ns": [0, YEAR_NS + 1]}, 1, "the frame is more than a year after the first one", id="late"
        ),
    ],
)
def test_of_frames_before_those_of_agents(given, frame, message):
    broken = [make_agent(7, velocity=(2e4, 0))]
    assert fault_of(broken, broken, **given) == RecordFault(frame, None, message)


def test_a_scene_may_last_a_year():
    assert fault_of([], [], timestamps_ns=[0, YEAR_NS]) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"yaw": np.nan}, "the agent is not finite", id="not finite"),
        pytest.param({"yaw": np.inf, "velocity": (2e4, 0)}, "the agent is not finite", id="rather than too fast"),
        pytest.param(
            {"velocity": (0, -2e4)},
            "velocity of the agent is [0.0, -20000.0]; no road user is beyond 10000",
            id="too fast",
        ),
        pytest.param(
            {"centroid": (2e7, 0)}, "centroid of the agent is [20000000.0, 0.0]; no road user is beyond 1e+07", id="far"
        ),
    ],
)
def test_of_road_users_only(values, message):
    assert fault_of([make_agent(1)], [make_agent(1), make_agent(4, **values)]) == RecordFault(1, 4, message)
    assert fault_of([make_agent(1)], [make_agent(1), make_agent(4, **values, label=1)]) is None


def test_a_track_twice_in_a_frame_is_told_of_by_the_first_row_that_repeats_one():
    rows = [make_agent(track) for track in (5, 3, 5, 3)]
    assert fault_of([make_agent(3), make_agent(5)], rows) == RecordFault(1, 5, "the frame has the track twice")
    assert fault_of([make_agent(3)], [make_agent(3)]) is None
