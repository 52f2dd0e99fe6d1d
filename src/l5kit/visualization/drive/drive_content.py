"""Scenes and roads in the format of the page of ``l5kit drive``: all inputs of its simulation step and its judge.

Positions are float64 in world coordinates, since the page repeats the computations of the simulation row by row. The
byte format is that of :mod:`l5kit.visualization.viewer.packed_arrays`.
"""

from dataclasses import asdict

import numpy as np

from l5kit._types import JsonObject, NumericArray
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.records import AGENT_INTERVAL
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.comfort import COMFORT_BOUNDS
from l5kit.evaluation.driving.lane_positions import find_lane_positions
from l5kit.evaluation.driving.road_users import classify_rows
from l5kit.evaluation.driving.route_progress import find_progress, find_routes
from l5kit.evaluation.driving.scene_score import METRICS
from l5kit.evaluation.driving.time_to_collision import LookAhead
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_paths import LanePaths, make_lane_paths
from l5kit.lanes.path_positions import follow_tracks
from l5kit.lanes.red_lights import read_lane_colors
from l5kit.simulation.drivers.intelligent import intelligent_traffic
from l5kit.simulation.drivers.key_driver import KeyResponse
from l5kit.simulation.engine.scene_batch import SceneBatch, stack_ego_frames
from l5kit.simulation.engine.starting import fill_velocities, start_of_ego
from l5kit.simulation.intelligent_driver import AGENT_DRIVER, AV_DRIVER
from l5kit.simulation.lanes.track_poses import find_lane_followers, paths_of_avs, poses_of_avs, poses_of_tracks
from l5kit.simulation.vehicle_models import KinematicBicycle
from l5kit.visualization.controlled_lanes import ControlledLanes
from l5kit.visualization.scene_content import LaneLightRows
from l5kit.visualization.viewer.packed_arrays import pack_arrays

NUM_PLANNED_STEPS = 40
"""Steps of the IDM plan, the same as of the planner ``idm``."""


def drive_scene_bytes(batch: SceneBatch) -> bytes:
    """Return the bytes of a scene to be driven.

    Args:
        batch: One scene, driven from its first frame on, with a map that has lanes.

    Raises:
        InvalidArgumentError: There is no map with lanes.
    """
    if batch.road is None or batch.road.driving.num_lanes == 0:
        raise InvalidArgumentError("batch has no map with lanes, which traffic needs; pass a batch with a road")
    road = batch.road
    buffer = RecordBuffer(batch.recorded, facts=batch.facts)
    fill_velocities(buffer)
    arrays = _agent_arrays(batch, buffer)

    # lanes that are yellow or red for drivers, and displayed colours of all lights
    map_arrays, (scene,) = road.api.arrays, batch.recorded
    colors = read_lane_colors(batch.recorded, map_arrays.lights)
    shown = LaneLightRows.of_faces(ControlledLanes(map_arrays), scene.frames, scene.tl_faces)
    arrays |= {
        "color_starts": colors.starts.astype(np.uint32),
        "color_lanes": colors.lanes.astype(np.uint32),
        "color_ranks": colors.ranks.astype(np.uint8),
        "light_starts": shown.starts.astype(np.uint32),
        "light_lanes": shown.lanes.astype(np.uint32),
        "light_colors": shown.colors,
    }
    # route of the log, along which progress is measured, and progress of the log along it
    positions = find_lane_positions(batch.expert, road.driving)
    routes = find_routes(positions, road.driving, expert=batch.expert)
    progress_m = find_progress(batch.expert, positions, routes=routes, driving_map=road.driving)
    arrays |= {
        "route_parents": routes.parents.astype(np.int32),
        "route_line_starts": routes.line_starts.astype(np.uint32),
        "route_points": routes.points_m,
        "route_arcs": routes.arc_lengths_m,
        "expert_progress": progress_m[0],
    }
    # paths of traffic and of the AV, and the position of the logged AV on its path in each frame
    of_traffic = make_lane_paths(poses_of_tracks(batch, find_lane_followers(batch)), road.driving)
    of_av, logged = paths_of_avs(batch), poses_of_avs(batch)
    poses = np.column_stack([logged.positions_m, logged.yaws_rad])
    arrays |= _path_arrays("path", of_traffic) | _path_arrays("av_path", of_av)
    arrays["av_path_arcs"] = follow_tracks(of_av.starts, of_av.points_m, logged.starts, poses)
    return pack_arrays(_facts_of(batch), arrays)


def road_bytes(driving_map: DrivingMap) -> bytes:
    """Return the bytes of the lanes and the drivable surface of a map, for the judge."""
    starts = driving_map.area_starts
    return pack_arrays(
        {"num_lanes": driving_map.num_lanes, "num_areas": len(starts) - 1},
        {
            "centre_lines": driving_map.centre_lines_m,
            "arc_lengths": driving_map.arc_lengths_m,
            "area_points": driving_map.area_points_m,
            "area_bounds": driving_map.grid.bounds_m,
            "area_starts": starts.astype(np.uint32),
            "ahead_starts": driving_map.ahead_starts.astype(np.uint32),
            "ahead_rows": driving_map.ahead_rows.astype(np.uint32),
            "parents": driving_map.parents.astype(np.int32),
            "is_in_junction": driving_map.is_in_junction.astype(np.uint8),
            "speed_limits": driving_map.speed_limits_mps,
        },
    )


def _facts_of(batch: SceneBatch) -> JsonObject:
    """Return the parameters of a scene, its vehicle, its traffic and its judge."""
    states, yaw_rates = start_of_ego(batch)
    control = intelligent_traffic().control
    bicycle, step_s, look = KinematicBicycle(), float(batch.facts.step_time_s), LookAhead()
    start = {
        "x": states.positions_m[0, 0],
        "y": states.positions_m[0, 1],
        "yaw": states.yaws_rad[0],
        "speed": states.speeds_mps[0],
        "acceleration": states.accelerations_mps2[0],
        "steering": states.steering_rad[0],
        "yaw_rate": yaw_rates[0],
    }
    return {
        "scene_index": int(batch.scene_indices[0]),
        "num_frames": int(batch.stops[0]),
        "step_s": step_s,
        "labels": list(PERCEPTION_LABELS),
        "track_ids": [str(track_id) for track_id in batch.tracks.track_ids.tolist()],
        "size_m": [float(batch.body.length_m), float(batch.body.width_m)],
        "rear_axle_to_centre_m": float(batch.body.rear_axle_to_centre_m),
        "start": {name: float(value) for name, value in start.items()},
        "bicycle": list(bicycle.parameters(step_s)),
        "response": asdict(KeyResponse()),
        "agent_driver": list(AGENT_DRIVER.kernel_parameters),
        "av_driver": list(AV_DRIVER.kernel_parameters),
        "near_m": float(control.near_m),
        "num_planned_steps": NUM_PLANNED_STEPS,
        "comfort_bounds": {name: list(bounds) for name, bounds in COMFORT_BOUNDS.items()},
        "look": {"step_s": look.step_s, "num_steps": look.num_steps, "least_s": look.least_s},
        "metrics": [metric.as_json() for metric in METRICS],
    }


def _agent_arrays(batch: SceneBatch, buffer: RecordBuffer) -> dict[str, NumericArray]:
    """Return the agents of all frames, whether traffic may drive each track, and the last frame of each."""
    intervals = buffer.frames[AGENT_INTERVAL]
    agents = buffer.agents[: int(intervals[-1, 1])]
    tracks = batch.tracks
    probabilities = agents["label_probabilities"]
    groups = classify_rows(probabilities, agents["extent"], threshold=batch.threshold)
    return {
        "time_s": stack_ego_frames([batch.recorded[0].frames]).timestamps_s[0],
        "agent_starts": np.append(intervals[:, 0], intervals[-1, 1]).astype(np.uint32),
        "agent_track": np.searchsorted(tracks.track_ids, agents["track_id"]).astype(np.uint32),
        "agent_xy": np.ascontiguousarray(agents["centroid"], np.float64),
        "agent_yaw": np.ascontiguousarray(agents["yaw"], np.float32),
        "agent_extent": np.ascontiguousarray(agents["extent"], np.float32),
        "agent_velocity": np.ascontiguousarray(agents["velocity"], np.float32),
        "agent_label": probabilities.argmax(axis=1).astype(np.uint8),
        "agent_group": groups.astype(np.int32),
        "track_may_drive": intelligent_traffic().control.begin(batch).may_drive.astype(np.uint8),
        "track_last_frame": tracks.last_frames.astype(np.int32),
    }


def _path_arrays(name: str, paths: LanePaths) -> dict[str, NumericArray]:
    return {
        f"{name}_starts": paths.starts.astype(np.uint32),
        f"{name}_points": paths.points_m,
        f"{name}_lengths": paths.lengths_m,
        f"{name}_piece_starts": paths.piece_starts.astype(np.uint32),
        f"{name}_piece_arcs": paths.piece_arcs_m,
        f"{name}_line_lanes": paths.line_lanes.astype(np.int32),
        f"{name}_limits": paths.piece_limits_mps,
    }
