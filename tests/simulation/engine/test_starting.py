"""Start of a simulation: states of the AV, velocities that the log lacks, agents that find no room, and batches."""

import numpy as np
import pytest

from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.drivers.simple import ConstantVelocity, Standing
from l5kit.simulation.engine.actions import PlannedPoses
from l5kit.simulation.engine.agent_control import AgentControl, find_blocked
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation
from l5kit.simulation.engine.starting import fill_velocities, start_of_ego
from support.logs import make_scene


def records(frames, **options):
    return SceneRecords.of_scene_dataset(make_scene(frames, **options))


def test_the_state_of_the_av_is_that_of_the_frames_around():
    x_m = [0.0, 0.5, 1.2, 2.1]  # 5, 7 and 9 m/s
    scene = records([[]] * 4, positions_m=[(x, 0.0, 0.0) for x in x_m])
    for start, speed, acceleration in ((0, 5.0, 0.0), (1, 6.0, 20.0), (2, 8.0, 20.0), (3, 9.0, 0.0)):
        states, yaw_rates = start_of_ego(SceneBatch.of_scenes([scene], start=start))
        np.testing.assert_allclose(states.speeds_mps, speed, rtol=1e-6)
        np.testing.assert_allclose(states.accelerations_mps2, acceleration, atol=1e-6)
        assert states.steering_rad.tolist() == yaw_rates.tolist() == [0.0]


def test_a_track_that_moves_without_a_velocity_gets_one():
    rows = [[{"track_id": 1, "centroid": (f, 0)}, {"track_id": 2, "centroid": (5, 0.01 * f)}] for f in range(4)]
    scene = records(rows)
    assert not scene.agents["velocity"].any()
    buffer = RecordBuffer([scene])
    fill_velocities(buffer)
    filled = buffer.agents
    np.testing.assert_allclose(filled["velocity"][filled["track_id"] == 1], [[10, 0]] * 4, rtol=1e-5)
    assert not filled["velocity"][filled["track_id"] == 2].any()
    assert not scene.agents["velocity"].any()


def test_room_for_those_that_appear():
    boxes = np.array([[x, 0, 0, 4, 2] for x in (0, 3, 10, 12, 30, 50)], np.float64)
    is_new = np.array([False, True, True, True, True, True])
    is_there = np.array([True, True, True, True, True, True])
    ego = np.array([[31.0, 0, 0, 4, 2]])
    assert find_blocked(np.array([0, 6]), boxes, ego, is_there, is_new).tolist() == [1, 3, 4]
    is_there[0] = False
    assert find_blocked(np.array([0, 6]), boxes, ego, is_there, is_new).tolist() == [3, 4]


def test_a_vehicle_waits_until_there_is_room():
    car = {"extent": (4, 2, 2)}
    frames = [[{"track_id": 1, "centroid": (2.0 * f, 4), "velocity": (20, 0), **car}] for f in range(8)]
    for frame, rows in enumerate(frames[3:]):  # appears where the first one would be, were it not slower than the log
        rows.append({"track_id": 2, "centroid": (2.0 + 0.5 * frame, 4), "velocity": (5, 0), **car})
    scene = records(frames)
    seat = AgentSeat(Standing(), control=AgentControl.of_traffic())
    driven = SceneSimulation(SceneBatch.of_scenes([scene]), agents=seat).run().records(0)
    counts = np.diff(driven.frames["agent_index_interval"], axis=1)[:, 0]
    assert counts.tolist() == [1, 1, 1, 1, 1, 1, 1, 2]
    assert driven.agents["centroid"][-1].tolist() == [4.0, 4.0]  # 4 m ahead of the stationary one: bumpers touch


def test_gaps_of_a_track_are_bridged():
    frames = [[{"track_id": 1, "centroid": (f, 3), "velocity": (10, 0)}] if f not in (2, 3) else [] for f in range(6)]
    seat = AgentSeat(ConstantVelocity(), control=AgentControl.of_traffic())
    driven = SceneSimulation(SceneBatch.of_scenes([records(frames)]), agents=seat).run().records(0)
    np.testing.assert_allclose(driven.agents["centroid"][:, 0], range(6), atol=1e-9)
    assert driven.agents["track_id"].tolist() == [1] * 6


def test_a_track_twice_in_a_frame_is_a_fault_of_its_scene():
    twice = [[{"track_id": 5, "centroid": (3, 1)}] * (2 if f == 4 else 1) for f in range(8)]
    once = [[{"track_id": 5, "centroid": (3, 1)}] for _ in range(8)]
    seat = AgentSeat(Standing(), control=AgentControl.of_traffic())
    batch = SceneBatch.of_scenes([records(once), records(twice), records(once)])
    driven = SceneSimulation(batch, agents=seat).run()
    assert driven.finished.tolist() == [0, 2]
    assert "track 5 of frame 4" in str(driven.faults[1])
    assert len(driven.records(2).agents) == 8


@pytest.mark.parametrize(("start", "num_frames"), [(4, None), (-1, None), (0, 0)])
def test_frames_that_are_not_there_are_an_error(start, num_frames):
    with pytest.raises(InvalidArgumentError, match=r"scene 0 has 4 frames|num_frames is 0"):
        SceneBatch.of_scenes([records([[]] * 4)], start=start, num_frames=num_frames)


def test_scenes_of_one_frame_and_without_agents_work():
    scenes = [records([[]]), records([[], [], []])]
    seats = {"ego": EgoSeat(ConstantVelocity()), "agents": AgentSeat(Standing(), PlannedPoses())}
    driven = SceneSimulation(SceneBatch.of_scenes(scenes), **seats).run()
    assert driven.finished.tolist() == [0, 1]
    assert driven.ego_states().num_frames.tolist() == [1, 3]
