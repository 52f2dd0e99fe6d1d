"""Rows of driven scenes: read from the records as from plain arrays, and what simulations fill in before they start."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.driving.motion import velocities_of_rows
from l5kit.evaluation.driving.road_users import RoadUserGroup, classify_rows
from l5kit.evaluation.driving.scene_states import read_road_users
from l5kit.simulation.drivers.simple import ConstantVelocity
from l5kit.simulation.engine.agent_control import AgentControl, DrivenTracks
from l5kit.simulation.engine.agent_rows import read_agents
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation
from l5kit.simulation.engine.starting import fill_velocities
from l5kit.simulation.engine.track_table import TrackTable


@pytest.fixture(scope="module", params=["1.5", "traffic"])
def driven(request, scenes):
    control = AgentControl() if request.param == "1.5" else AgentControl.of_traffic()
    batch = SceneBatch(np.arange(3), scenes, np.array([0, 20, 50]), np.array([100, 60, 90]))
    seats = {"ego": EgoSeat(ConstantVelocity()), "agents": AgentSeat(ConstantVelocity(), control=control)}
    return SceneSimulation(batch, **seats, strict=True).run()


@pytest.mark.parametrize("options", [{}, {"include_unknown": True}, {"threshold": 0.9}], ids=str)
def test_road_users_of_records_are_those_of_arrays(driven, options):
    found = driven.road_users(**options)
    expected = read_road_users([driven.arrays(scene) for scene in range(3)], **options)
    for name in ("starts", "tracks", "groups", "boxes", "velocities_mps"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.boxes[:, 3].min() > 0


def test_road_users_of_one_scene(driven):
    found = driven.road_users(np.array([1]))
    assert_array_equal(found.boxes, read_road_users([driven.arrays(1)]).boxes)
    assert len(found.starts) == 41


def silenced(scene):
    """Return a scene in which every other track has no velocity."""
    agents = scene.agents.copy()
    agents["velocity"][agents["track_id"] % 2 == 0] = 0
    return SceneRecords(scene.frames, agents, scene.tl_faces)


def test_tracks_that_move_without_a_velocity_get_one(scenes):
    quiet = [silenced(scene) for scene in scenes[:2]]
    buffer = RecordBuffer(quiet)
    fill_velocities(buffer)
    for number, scene in enumerate(quiet):
        agents, intervals = scene.agents, scene.frames["agent_index_interval"]
        times_s = (scene.frames["timestamp"] - scene.frames["timestamp"][0]) * 1e-9
        ids, numbers = np.unique(agents["track_id"], return_inverse=True)
        differences_mps = velocities_of_rows(
            agents["centroid"], np.repeat(times_s, np.diff(intervals, axis=1)[:, 0]), numbers, 0 * numbers
        )
        num_filled = 0
        for track in range(len(ids)):
            rows = np.flatnonzero(numbers == track)
            way_m = np.hypot(*np.ptp(agents["centroid"][rows], axis=0))
            is_filled = not agents["velocity"][rows].any() and way_m >= 1.0
            expected = differences_mps[rows].astype(np.float32) if is_filled else agents["velocity"][rows]
            assert_array_equal(buffer.scene(number).agents["velocity"][rows], expected)
            num_filled += is_filled
        assert 10 < num_filled < len(ids)


def test_track_table_counts_rows_of_each_group(scenes):
    table = TrackTable.of_scenes(scenes)
    for number, scene in enumerate(scenes):
        groups = classify_rows(scene.agents["label_probabilities"], scene.agents["extent"])
        frames = np.repeat(np.arange(len(scene.frames)), np.diff(scene.frames["agent_index_interval"], axis=1)[:, 0])
        for track in range(*table.starts[number : number + 2].tolist()):
            rows = scene.agents["track_id"] == table.track_ids[track]
            known = groups[rows][groups[rows] != RoadUserGroup.NONE]
            expected = np.bincount(known).argmax() if len(known) else RoadUserGroup.NONE
            assert table.groups[track] == expected
            assert (table.first_frames[track], table.last_frames[track]) == (frames[rows].min(), frames[rows].max())


@pytest.fixture(scope="module")
def mixed(scenes):
    """Return a buffer, its tracks and agents of a frame of each scene: unsorted, with hidden and unknown rows."""
    buffer = RecordBuffer(scenes)
    tracks = TrackTable.of_scenes([scenes[0], scenes[1], silenced(scenes[2])])
    frames = buffer.frames[buffer.scene_starts + 40].copy()
    rng = np.random.default_rng(5)
    for first, end in frames["agent_index_interval"].tolist():
        buffer.agents[first:end] = buffer.agents[first:end][rng.permutation(end - first)]
        buffer.agents["track_id"][first] = 10**9  # the log has no such track
        buffer.agents["extent"][first + 1] = 0
        buffer.agents["label_probabilities"][first + 2] = 0.1
    return buffer, tracks, read_agents(buffer.agents, frames, tracks, np.arange(3), 0.5), frames


def test_agents_of_frames_are_their_records(mixed):
    buffer, tracks, agents, frames = mixed
    rows = np.concatenate([np.arange(*interval) for interval in frames["agent_index_interval"]])
    records = buffer.agents[rows]
    assert_array_equal(agents.buffer_rows, rows)
    assert_array_equal(agents.boxes[:, :2], records["centroid"])
    assert_array_equal(agents.boxes[:, 2:], np.column_stack([records["yaw"], records["extent"][:, :2]]))
    assert_array_equal(agents.velocities_mps, records["velocity"])
    assert_array_equal(agents.groups, classify_rows(records["label_probabilities"], records["extent"]))
    assert (agents.groups == RoadUserGroup.NONE).sum() >= 6
    for row, (scene, track_id) in enumerate(zip(agents.scenes_of_rows, records["track_id"], strict=True)):
        first, end = tracks.starts[scene : scene + 2]
        expected = np.flatnonzero(tracks.track_ids[first:end] == track_id)
        assert agents.track_rows[row] == (first + expected[0] if len(expected) else -1)


def test_agents_of_one_scene_and_without_some(mixed):
    agents = mixed[2]
    one = agents.taken(1)
    rows = slice(*agents.starts[1:3].tolist())
    left = agents.without(np.array([0, 5, int(agents.starts[1])]))
    is_left = ~np.isin(np.arange(len(agents)), [0, 5, agents.starts[1]])
    for name in ("track_rows", "groups", "boxes", "velocities_mps"):
        assert_array_equal(getattr(one, name), getattr(agents, name)[rows])
        assert_array_equal(getattr(left, name), getattr(agents, name)[is_left])
    assert_array_equal(left.starts, agents.starts - [0, 2, 3, 3])
    assert_array_equal(left.buffer_rows[: left.starts[1]], agents.firsts[0] + np.arange(left.starts[1]))


@pytest.mark.parametrize("classes", ["cars", "vehicles"])
def test_who_is_driven_is_found_as_row_by_row(mixed, classes):
    buffer, tracks, agents, _ = mixed
    rng = np.random.default_rng(2)
    may_drive, is_driven = rng.random(len(tracks)) < 0.8, rng.random(len(tracks)) < 0.4
    egos_m = np.stack([agents.positions_m[agents.scenes_of_rows == scene].mean(axis=0) for scene in range(3)])
    control = AgentControl(classes, near_m=30.0, far_m=60.0)
    of_tracks = DrivenTracks(may_drive, is_driven, np.zeros(len(tracks), bool), 0.5)
    expected = []
    for row, (scene, track) in enumerate(zip(agents.scenes_of_rows, agents.track_rows, strict=True)):
        distance_m = np.linalg.norm(agents.positions_m[row] - egos_m[scene])
        record = buffer.agents[agents.buffer_rows[row]]
        is_of = record["label_probabilities"][3] > 0.5 if classes == "cars" else agents.groups[row] != -1
        if track >= 0 and may_drive[track] and record["extent"][0] > 0 and is_of:
            expected += [row] if distance_m < (60.0 if is_driven[track] else 30.0) else []
    assert control.choose(agents, egos_m, records=buffer.agents, tracks=of_tracks).tolist() == expected
    assert 5 < len(expected) < len(agents) / 2
