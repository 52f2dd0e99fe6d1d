"""Prepared scenes: scenes of a log as arrays for kernels, with the paths of their vehicles."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.record_buffer import RecordBuffer
from l5kit.device.backend import DeviceArray
from l5kit.environment.traffic.traffic_kernels import LogRows
from l5kit.environment.traffic.traffic_steps import SceneStarts
from l5kit.errors import CorruptedDataError
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.lanes.lane_paths import LanePaths, PathArrays, TrackPoses, make_lane_paths
from l5kit.lanes.path_positions import follow_tracks
from l5kit.lanes.red_lights import SceneLights, lights_of_lines, lights_of_scenes, read_lane_colors
from l5kit.simulation.engine.agent_rows import AgentsNow, read_agents
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.starting import fill_velocities, logged_states
from l5kit.simulation.lanes.track_poses import find_lane_followers, paths_of_avs, poses_of_tracks


class EgoLog(NamedTuple):
    """Logged AVs in F frames.

    Attributes:
        poses: World x, y and yaw, float64 (F, 3).
        motion: Speed in m/s, longitudinal acceleration in m/s2, yaw rate in rad/s and steering in rad, float64 (F, 4).
        arcs_m: Arc lengths along their own routes, float64 (F,).
    """

    poses: DeviceArray
    motion: DeviceArray
    arcs_m: DeviceArray


class BankArrays(NamedTuple):
    """S scenes with all their frames, tracks and paths, concatenated.

    Attributes:
        starts: Starts of scenes.
        rows: Agent rows of all frames.
        paths: All paths; for each scene that of the AV, then those of vehicles that may be driven. ``line_lanes`` holds
            light numbers of the scene, -1 for none.
        path_tracks: Track of each path, a row of ``track_ids``, -1 for an AV, int64 (P,).
        path_last_frames: Last frame of the track, counted in its scene; that of the scene for an AV, int64 (P,).
        ego: The logged AVs.
        lights: The lights of all scenes.
        track_ids: Track ids of all scenes in the log, uint64 (T,).
    """

    starts: SceneStarts
    rows: LogRows
    paths: PathArrays
    path_tracks: DeviceArray
    path_last_frames: DeviceArray
    ego: EgoLog
    lights: SceneLights
    track_ids: DeviceArray

    @classmethod
    def empty(cls) -> "BankArrays":
        """Return arrays without scenes."""
        start, whole, part = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)
        points_m, boxes = np.zeros((0, 2)), np.zeros((0, 5))
        vehicles, is_new = np.zeros(0, np.int32), np.zeros(0, np.bool_)
        return cls(
            SceneStarts(start, start),
            LogRows(start, vehicles, is_new, whole, boxes, points_m, points_m, whole, part),
            PathArrays(start, points_m, part, start, part, whole, np.zeros((0, 2), np.int64), part),
            whole,
            whole,
            EgoLog(np.zeros((0, 3)), np.zeros((0, 4)), part),
            SceneLights(start, np.zeros(0, np.int8), start, whole),
            np.zeros(0, np.uint64),
        )


def prepare_scene(batch: SceneBatch, *, drives_agents: bool, unknown_limit_mps: float) -> tuple[BankArrays, PathArrays]:
    """Return a scene as arrays, without paths of vehicles, and these paths.

    The arrays contain the path of the AV; tracks and frames are counted in the scene. Only agent rows of road users and
    of vehicles with a path are kept.

    Args:
        batch: Batch with a single scene, all frames of which are simulated.
        drives_agents: Whether vehicles get paths.
        unknown_limit_mps: Speed limit of lanes without one in the map, above 0.

    Raises:
        L5KitError: Records of the scene are invalid.
    """
    records = batch.recorded[0]
    buffer = RecordBuffer(batch.recorded, facts=batch.facts)
    fill_velocities(buffer)
    num_frames, table = len(records.frames), batch.tracks
    frames = buffer.frames[buffer.scene_starts[0] : buffer.scene_stops[0]]
    rows = read_agents(buffer.agents, frames, table, np.zeros(num_frames, np.int64), batch.threshold)
    av_paths, vehicle_paths, vehicle_tracks = _paths_of(batch, drives_agents, unknown_limit_mps)

    # vehicles are tracks with a path, numbered within the scene; other rows are kept only if they are road users
    vehicles_of_tracks = np.full(len(table), -1, np.int32)
    vehicles_of_tracks[vehicle_tracks] = np.arange(len(vehicle_tracks))
    vehicles = vehicles_of_tracks[rows.track_rows]
    of_frames = np.repeat(np.arange(num_frames), np.diff(rows.starts))
    is_entering = _first_rows(rows, of_frames, vehicles >= 0)
    kept = np.flatnonzero((rows.groups != RoadUserGroup.NONE) | (vehicles >= 0))  # often a fifth of all
    boxes = rows.boxes[kept]
    headings = np.empty((len(kept), 2))
    _write_headings(boxes, headings)

    # the logged AV, and its arc length along its route, followed through the frames
    states, yaw_rates_radps = logged_states(batch, np.zeros(num_frames, np.int64), np.arange(num_frames))
    ego_poses = np.column_stack([states.positions_m, states.yaws_rad])
    motion = (states.speeds_mps, states.accelerations_mps2, yaw_rates_radps, states.steering_rad)
    expert_arcs_m = follow_tracks(av_paths.starts, av_paths.points_m, np.array([0, num_frames]), ego_poses)
    faces = None if batch.road is None else batch.road.api.arrays.lights
    lights = lights_of_scenes(read_lane_colors(batch.recorded, faces))

    # arc lengths of vehicles on their paths, each followed through the frames; a stable sort keeps their order
    order = np.argsort(vehicles[kept], kind="stable")[np.count_nonzero(vehicles[kept] < 0) :]
    arcs_m, row_starts = np.zeros(len(kept)), np.searchsorted(vehicles[kept][order], np.arange(len(vehicle_paths) + 1))
    arcs_m[order] = follow_tracks(vehicle_paths.starts, vehicle_paths.points_m, row_starts, boxes[:, :3][order])
    num_rows = np.bincount(of_frames[kept], minlength=num_frames)
    arrays = BankArrays(
        starts=SceneStarts(np.array([0, num_frames]), np.array([0, 1 + len(vehicle_tracks)])),
        rows=LogRows(
            starts=np.concatenate([[0], np.cumsum(num_rows)]),
            vehicles=vehicles[kept],
            is_new=is_entering[kept],
            groups=rows.groups[kept],
            boxes=boxes,
            headings=headings,
            velocities_mps=rows.velocities_mps[kept],
            tracks=rows.track_rows[kept],
            arcs_m=arcs_m,
        ),
        paths=_with_lights(av_paths, lights),
        path_tracks=np.concatenate([[-1], vehicle_tracks]).astype(np.int64),
        path_last_frames=np.concatenate([[num_frames - 1], table.last_frames[vehicle_tracks]]).astype(np.int64),
        ego=EgoLog(ego_poses, np.column_stack(motion), expert_arcs_m),
        lights=lights,
        track_ids=table.track_ids,
    )
    return arrays, _with_lights(vehicle_paths, lights)


def _paths_of(
    batch: SceneBatch, drives_agents: bool, unknown_limit_mps: float
) -> tuple[LanePaths, LanePaths, Int64Array]:
    """Return the path of the AV, the paths of vehicles, and the tracks of these vehicles."""
    av_paths, table = paths_of_avs(batch, unknown_limit_mps=unknown_limit_mps), batch.tracks
    driving_map = batch.driving_map
    if driving_map is None or driving_map.num_lanes == 0:
        return av_paths, _taken(av_paths, np.zeros(1, np.bool_)), np.zeros(0, np.int64)
    is_follower = find_lane_followers(batch) if drives_agents else np.zeros(len(table), np.bool_)
    poses: TrackPoses = poses_of_tracks(batch, is_follower)
    paths = make_lane_paths(poses, driving_map, unknown_limit_mps=unknown_limit_mps)
    is_follower &= paths.has_path
    return av_paths, _taken(paths, is_follower), np.flatnonzero(is_follower)


def _with_lights(paths: LanePaths, lights: SceneLights) -> PathArrays:
    """Return the paths of a scene with light numbers in place of the lanes of stop lines."""
    scenes = np.zeros(len(paths.line_lanes), np.int64)
    return paths.arrays._replace(line_lanes=lights_of_lines(lights, scenes, paths.line_lanes))


def _taken(paths: LanePaths, is_wanted: BoolArray) -> LanePaths:
    """Return some of the paths (N,), which must include all paths with points; or none."""
    if not is_wanted.any():
        none, zero = slice(0), np.zeros(1, np.int64)
        rows = {name: getattr(paths, name)[none] for name in ("points_m", "lengths_m", *_PIECES)}
        return LanePaths(starts=zero, piece_starts=zero.copy(), **rows)
    # dropped paths have no points, so each other path still ends where the next one starts
    kept = np.append(is_wanted, True)
    return replace(
        paths,
        starts=paths.starts[kept],
        piece_starts=paths.piece_starts[kept],
        lengths_m=paths.lengths_m[is_wanted],
    )


_PIECES = ("piece_arcs_m", "piece_lanes", "line_lanes", "piece_limits_mps")


def _first_rows(rows: AgentsNow, frames: Int64Array, has_path: BoolArray) -> BoolArray:
    """Return a mask of rows whose track is not in the frame before, (M,).

    Raises:
        CorruptedDataError: A frame has a track with a path more than once.
    """
    # sort by track, then by frame
    order = np.lexsort((frames, rows.track_rows))
    is_same_track = np.diff(rows.track_rows[order]) == 0
    steps = np.diff(frames[order])
    is_twice = is_same_track & (steps == 0) & has_path[order[1:]]
    if is_twice.any():
        row = int(order[1:][is_twice][0])
        name = int(rows.tracks.track_ids[rows.track_rows[row]])
        raise CorruptedDataError(f"frame {int(frames[row])} has track {name} more than once")
    # a track that returns after a gap enters again
    is_entering = np.ones(len(order), np.bool_)
    is_entering[order[1:]] = ~(is_same_track & (steps <= 1))
    return is_entering


@kernel_jit
def _write_headings(boxes: Float64Array, headings: Float64Array) -> None:
    """Write cosines and sines of the yaws of boxes."""
    for row in range(len(boxes)):
        headings[row, 0], headings[row, 1] = np.cos(boxes[row, 2]), np.sin(boxes[row, 2])
