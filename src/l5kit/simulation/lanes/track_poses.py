"""Logged poses of the tracks and AVs of a batch of scenes, paths of the AVs, and the vehicles that follow lanes."""

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.data.array_shapes import as_read_only
from l5kit.data.map.bounds_grid import GridArrays
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.lanes.lane_choice import LaneArrays, choose_lane, lane_arrays
from l5kit.lanes.lane_paths import (
    UNKNOWN_LIMIT_MPS,
    LanePaths,
    TrackArrays,
    TrackPoses,
    filled_paths,
    find_moving_tracks,
    make_lane_paths,
    straight_paths,
)
from l5kit.simulation.engine.agent_rows import AgentsNow, read_agents
from l5kit.simulation.engine.scene_batch import SceneBatch


def poses_of_tracks(batch: SceneBatch, is_wanted: BoolArray) -> TrackPoses:
    """Return the logged poses of tracks in the simulated frames; unwanted tracks have no rows.

    Args:
        batch: The scenes.
        is_wanted: Mask of the tracks of the batch, (T,).
    """
    tracks = batch.tracks
    counts = np.zeros(len(tracks), np.int64)
    scenes: list[AgentsNow] = []
    for scene, records in enumerate(batch.recorded):
        frames = records.frames[batch.starts[scene] : batch.stops[scene]]
        scenes.append(read_agents(records.agents, frames, tracks, np.full(len(frames), scene), batch.threshold))
        of_rows = scenes[-1].track_rows
        counts += np.bincount(of_rows[is_wanted[of_rows]], minlength=len(tracks))

    # rows of all scenes, sorted by track, each appended to those of its track
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    positions_m, yaws_rad = np.empty((int(starts[-1]), 2)), np.empty(int(starts[-1]))
    ends = starts[:-1].copy()
    for agents in scenes:
        columns = as_read_only(agents.records["centroid"]), as_read_only(agents.records["yaw"])
        _sort_rows(agents.buffer_rows, agents.track_rows, is_wanted, columns, ends, positions_m, yaws_rad)
    scenes_of_tracks = tracks.scenes_of_tracks
    first_frames = np.maximum(tracks.first_frames, batch.starts[scenes_of_tracks])
    last_frames = np.minimum(tracks.last_frames, batch.stops[scenes_of_tracks] - 1)
    durations_s = np.asarray(np.maximum(last_frames - first_frames, 0) * batch.facts.step_time_s, np.float64)
    return TrackPoses(starts, positions_m, yaws_rad, durations_s)


def poses_of_avs(batch: SceneBatch) -> TrackPoses:
    """Return the logged poses of the AVs in the simulated frames, one track for each scene."""
    expert = batch.expert
    counts = expert.num_frames
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    is_there = expert.is_there
    durations_s: Float64Array = (counts - 1).astype(np.float64) * batch.facts.step_time_s
    return TrackPoses(starts, expert.positions_m[is_there], expert.yaws_rad[is_there], durations_s)


def find_lane_followers(batch: SceneBatch) -> BoolArray:
    """Return the mask of tracks of a batch whose vehicles follow lanes, (T,).

    These are vehicles that move 1 m or more away from their first logged position in the simulated frames, and that are
    on a lane there: within 2 m of one that is turned by at most 45 degrees against them.

    Args:
        batch: The scenes; without a map no vehicle follows lanes.
    """
    return batch.once(_find_lane_followers).copy()  # cached, as control rules and drivers both need it


def _find_lane_followers(batch: SceneBatch) -> BoolArray:
    is_follower: BoolArray = np.zeros(len(batch.tracks), np.bool_)
    driving_map = batch.driving_map
    if driving_map is None or driving_map.num_lanes == 0:
        return is_follower
    poses = poses_of_tracks(batch, batch.tracks.is_of(RoadUserGroup.VEHICLE))
    is_follower |= find_moving_tracks(poses)
    _mark_on_lanes(poses.arrays, lane_arrays(driving_map), driving_map.lane_grid.arrays, is_follower)
    return is_follower


@kernel_jit
def _sort_rows(
    rows: Int64Array,
    tracks: Int64Array,
    is_wanted: BoolArray,
    columns: tuple[Float64Array, NumericArray],
    ends: Int64Array,
    positions_m: Float64Array,
    headings_rad: Float64Array,
) -> None:
    """Append centroids and yaws of rows (N,) of records to those of their tracks, which end at ``ends``."""
    centroids_m, yaws_rad = columns
    for index in range(len(rows)):
        row, track = rows[index], tracks[index]
        if is_wanted[track]:
            target_row = ends[track]
            positions_m[target_row, 0], positions_m[target_row, 1] = centroids_m[row, 0], centroids_m[row, 1]
            headings_rad[target_row] = yaws_rad[row]
            ends[track] = target_row + 1


@kernel_jit
def _mark_on_lanes(poses: TrackArrays, lanes: LaneArrays, grid: GridArrays, is_marked: BoolArray) -> None:
    """Unmark tracks whose first row is on no lane."""
    for track in range(len(is_marked)):
        if is_marked[track]:
            row = poses.starts[track]
            is_marked[track] = choose_lane(lanes, grid, -1, poses.positions_m[row], poses.yaws_rad[row]) >= 0


def paths_of_avs(batch: SceneBatch, *, unknown_limit_mps: float = UNKNOWN_LIMIT_MPS) -> LanePaths:
    """Return the path of the AV of each of S scenes, from its poses in the simulated frames; S paths.

    Args:
        batch: The scenes.
        unknown_limit_mps: Speed limit where the map has none, above 0.
    """
    poses, driving_map = poses_of_avs(batch), batch.driving_map
    straight = straight_paths(poses, limit_mps=unknown_limit_mps)
    if driving_map is None or driving_map.num_lanes == 0:
        return straight
    return filled_paths(make_lane_paths(poses, driving_map, unknown_limit_mps=unknown_limit_mps), straight)
