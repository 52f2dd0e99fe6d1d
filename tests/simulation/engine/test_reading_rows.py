"""Rows of driven scenes: read from the records as from plain arrays, and what simulations fill in before they start."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data import ChunkedDataset
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.driving.motion import velocities_of_rows
from l5kit.evaluation.driving.road_users import RoadUserGroup, classify_rows
from l5kit.evaluation.driving.scene_states import read_road_users
from l5kit.simulation.drivers.simple import ConstantVelocity
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation
from l5kit.simulation.engine.starting import fill_velocities
from l5kit.simulation.engine.track_table import TrackTable
from support.cities import small_city


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = small_city(tmp_path_factory.mktemp("rows") / "city")
    log = ChunkedDataset(str(folder.path / "scenes" / "sample.zarr")).open()
    return [SceneRecords.read(log, scene) for scene in range(len(log.scenes))]


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
