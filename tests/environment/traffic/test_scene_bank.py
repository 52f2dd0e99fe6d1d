"""Scenes of a log as arrays: rows, tracks, routes and motion, logs without a map, and damaged scenes."""

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.scene_records import SceneRecords
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_slots import TrafficSlots
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, InvalidArgumentError
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.lanes.red_lights import rank_of_line, read_lane_colors
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.starting import start_of_ego
from l5kit.simulation.lanes.track_poses import find_lane_followers, paths_of_avs
from support.logs import make_log

PEDESTRIAN = 14


def small_log():
    """Four scenes of 12, 3, 10 and 4 frames; the third has no agents, and in the last one nothing moves."""
    moving = [
        [{"track_id": 7, "centroid": (5 + 0.5 * k, 2), "velocity": (5, 0)}, {"track_id": 3, "label": PEDESTRIAN}]
        for k in range(12)
    ]
    silent = [[{"track_id": 1, "centroid": (2.0 * k, 0)}] for k in range(3)]
    lengths = (12, 3, 10, 4)
    ways_m = np.concatenate([0.3 * np.arange(length) for length in lengths])
    positions_m = np.column_stack([ways_m, np.full(len(ways_m), 1.0), np.zeros(len(ways_m))])
    return make_log([moving, silent, [[]] * 10, [[]] * 4], positions_m=positions_m)


def test_scenes_without_a_map_have_straight_routes():
    bank = SceneBank(small_log(), road=None, drives_agents=True)
    assert bank.prepare(np.array([1, 0, 2])).tolist() == [0, 1, 2]
    assert bank.scenes.tolist() == [1, 0, 2]
    assert bank.frame_starts.tolist() == [0, 3, 15, 25]
    assert bank.routes.tolist() == [0, 1, 2, 3]
    assert bank.path_tracks.tolist() == [-1, -1, -1]
    np.testing.assert_allclose(bank.expert_arcs_m[3:15], 0.3 * np.arange(12), atol=1e-9)
    np.testing.assert_allclose(bank.ego_poses[3:15], [(0.3 * k, 1, 0) for k in range(12)], atol=1e-9)
    np.testing.assert_allclose(bank.ego_motion, np.broadcast_to([3.0, 0, 0, 0], (25, 4)), atol=1e-6)


def test_rows_and_tracks_are_counted_over_all_scenes():
    bank = SceneBank(small_log(), road=None, drives_agents=False)
    bank.prepare(np.array([1, 0]))
    row_starts, vehicles, is_entering, groups, boxes, directions, velocities_mps, tracks, arcs_m = bank.rows
    assert row_starts.tolist() == [0, 1, 2, 3, *range(5, 28, 2)]
    assert bank.track_ids.tolist() == [1, 3, 7]
    assert tracks[:5].tolist() == [0, 0, 0, 2, 1]
    assert groups[3:5].tolist() == [RoadUserGroup.VEHICLE, RoadUserGroup.VULNERABLE]
    assert is_entering.tolist() == [True, False, False, True, True, *[False] * 22]
    assert (vehicles == -1).all()
    assert (arcs_m == 0).all()
    np.testing.assert_allclose(boxes[5], [5.5, 2, 0, 4, 2])
    np.testing.assert_array_equal(directions, np.broadcast_to([1.0, 0.0], (27, 2)))
    np.testing.assert_allclose(velocities_mps[:3], [[20.0, 0]] * 3)  # of the poses, as the log has none
    np.testing.assert_allclose(velocities_mps[3], [5.0, 0])


def test_arrays_read_before_stay_as_they_were():
    bank = SceneBank(small_log(), road=None, drives_agents=False)
    assert bank.prepare(np.array([0])).tolist() == [0]
    before, copied = bank.ego_poses, bank.ego_poses.copy()
    assert bank.prepare(np.array([3, 2, 1, 0])).tolist() == [1, 2, 3, 0]
    np.testing.assert_array_equal(before, copied)
    np.testing.assert_array_equal(bank.ego_poses[:12], copied)
    assert len(bank.ego_poses) == 29
    with pytest.raises(ValueError, match="read-only"):
        bank.ego_poses[0] = 0


def test_a_city_scene_has_the_parts_of_a_simulation(city_log, road):
    bank = SceneBank(city_log, road=road, drives_agents=True)
    bank.prepare(np.array([1, 2]))
    for bank_row, scene in enumerate((1, 2)):
        batch = SceneBatch.of_scenes([SceneRecords.read(city_log, scene)], facts=city_log.facts, road=road)
        first, stop = bank.frame_starts[bank_row : bank_row + 2]
        vehicles = bank.path_tracks[bank.routes[bank_row] + 1 : bank.routes[bank_row + 1]]
        np.testing.assert_array_equal(bank.track_ids[vehicles], batch.tracks.track_ids[find_lane_followers(batch)])
        last_frames = bank.path_last_frames[bank.routes[bank_row] + 1 : bank.routes[bank_row + 1]]
        np.testing.assert_array_equal(last_frames, batch.tracks.last_frames[find_lane_followers(batch)])
        np.testing.assert_array_equal(bank.ego_poses[first:stop, :2], batch.ego_log.positions_m[0])
        colors = read_lane_colors(batch.recorded, road.api.arrays.lights)
        lanes = bank.lights.lanes[slice(*bank.lights.lane_starts[bank_row : bank_row + 2])]
        np.testing.assert_array_equal(lanes, np.unique(colors.lanes))
        for frame in range(0, stop - first, 9):
            ranks = bank.lights.ranks[slice(*bank.lights.starts[first + frame : first + frame + 2])]
            rows = slice(*colors.starts[frame : frame + 2])
            expected = [colors.ranks[rows][colors.lanes[rows] == lane].max(initial=0) for lane in lanes]
            np.testing.assert_array_equal(ranks, expected)
        for frame in (0, 17, 99):
            later = SceneBatch.of_scenes(batch.recorded, facts=city_log.facts, road=road, start=frame)
            states, yaw_rates_radps = start_of_ego(later)
            expected = (states.speeds_mps[0], states.accelerations_mps2[0], yaw_rates_radps[0], states.steering_rad[0])
            np.testing.assert_array_equal(bank.ego_motion[first + frame], expected)
        ways_m = np.linalg.norm(np.diff(batch.ego_log.positions_m[0], axis=0), axis=1)
        np.testing.assert_allclose(np.diff(bank.expert_arcs_m[first:stop]), ways_m, atol=0.05)
        assert ways_m.sum() > 5


def test_a_damaged_scene_is_named_and_the_bank_stays_as_it_was():
    log = small_log()
    log.frames["agent_index_interval"][4] = [5, 900]  # of scene 0
    bank = SceneBank(log, road=None, drives_agents=False)
    bank.prepare(np.array([1]))
    with pytest.raises(CorruptedDataError, match=r"scene 0 cannot be driven: .*frame 4"):
        bank.prepare(np.array([2, 0]))
    assert bank.scenes.tolist() == [1]
    assert len(bank) == 1
    assert len(bank.ego_poses) == 3
    assert bank.prepare(np.array([2, 1])).tolist() == [1, 0]


@pytest.mark.parametrize("broken", ["ego", "track"])
def test_what_cannot_be_driven_is_a_damage(city_log, road, broken):
    records = SceneRecords.read(city_log, 0)
    frames, agents = records.frames.copy(), records.agents.copy()
    if broken == "ego":
        frames["ego_translation"][5] = np.nan
    else:
        batch = SceneBatch.of_scenes([records], facts=city_log.facts, road=road)
        driven = batch.tracks.track_ids[find_lane_followers(batch)]
        first = int(np.flatnonzero(np.isin(agents["track_id"][: frames["agent_index_interval"][0, 1]], driven))[0])
        agents["track_id"][first + 1] = agents["track_id"][first]
    scenes = np.asarray(city_log.scenes)[:1].copy()
    scenes["frame_index_interval"] = [0, len(frames)]
    log = ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents, tl_faces=records.tl_faces)
    bank = SceneBank(log, road=road, drives_agents=True)
    with pytest.raises(CorruptedDataError, match=r"scene 0 cannot be driven: "):
        bank.prepare(np.array([0]))
    assert len(bank) == 0


def test_scenes_without_agents_and_short_ones_can_be_stepped():
    bank = SceneBank(small_log(), road=None, drives_agents=True)
    slots = TrafficSlots(bank, 3, drives=IntelligentDriver())
    every = np.arange(3)
    slots.start(every, bank.prepare(np.array([2, 1, 0])), np.array([0, 1, 4]))
    slots.step(every, np.zeros((3, 5)), np.zeros((3, 2)))
    slots.enter(every, np.zeros((3, 5)))
    rows = slots.rows(every)
    assert rows.starts.tolist() == [0, 0, 1, 3]
    np.testing.assert_allclose(rows.boxes[:, 0], [4.0, 7.5, 0.0])
    assert rows.scene_rows[0] is rows.starts


def test_other_arguments_are_refused():
    log = small_log()
    with pytest.raises(InvalidArgumentError, match=r"unknown_limit_mps is 0"):
        SceneBank(log, road=None, drives_agents=False, unknown_limit_mps=0)
    bank = SceneBank(log, road=None, drives_agents=False)
    for scene in (-1, 4):
        with pytest.raises(IndexOutOfRangeError, match=rf"scenes has {scene}; the log has scenes 0 to 3"):
            bank.prepare(np.array([scene]))


def test_lights_of_lines_are_those_of_the_map(city_log, road):
    bank = SceneBank(city_log, road=road, drives_agents=True)
    bank.prepare(np.array([2, 0, 1]))
    assert len(bank.lights.ranks) < road.driving.num_lanes * len(bank.ego_poses) / 10
    num_lit, of_map = 0, np.zeros(road.driving.num_lanes, np.int64)
    for bank_row, scene in enumerate((2, 0, 1)):
        batch = SceneBatch.of_scenes([SceneRecords.read(city_log, scene)], facts=city_log.facts, road=road)
        colors, paths = read_lane_colors(batch.recorded, road.api.arrays.lights), paths_of_avs(batch)
        first = bank.paths.piece_starts[bank.routes[bank_row]]
        np.testing.assert_array_equal(bank.paths.piece_lanes[first : first + len(paths.piece_lanes)], paths.piece_lanes)
        for frame in range(0, len(colors.starts) - 1, 9):
            rows = slice(*colors.starts[frame : frame + 2])
            of_map[:] = 0
            np.maximum.at(of_map, colors.lanes[rows], colors.ranks[rows])
            row = bank.frame_starts[bank_row] + frame
            ranks = bank.lights.ranks[slice(*bank.lights.starts[row : row + 2])]
            for piece in range(len(paths.piece_lanes)):
                expected = rank_of_line(paths.line_lanes, piece, of_map)
                assert rank_of_line(bank.paths.line_lanes, first + piece, ranks) == expected
                num_lit += expected > 0
    assert num_lit > 0
