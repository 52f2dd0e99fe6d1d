"""Appearances: road users that a log lets appear so close ahead of the AV that it cannot stop in time."""

import math

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.evaluation.driving.comfort import COMFORT_BOUNDS
from l5kit.evaluation.driving.ego_states import EgoArrays, EgoStates
from l5kit.evaluation.driving.road_users import RoadUserArrays, RoadUsers
from l5kit.lanes.driving_map import FARTHEST_LANE_M
from l5kit.lanes.lane_paths import PATH_STEP_M, LanePaths, PathArrays
from l5kit.lanes.path_positions import find_on_path, line_at, points_around
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS, find_leader, write_object

_BRAKING_MPS2 = -COMFORT_BOUNDS["accelerations_along_mps2"][0]
"""Hardest braking of an AV that still counts as comfortable."""

_REACTION_S, _STANDING_GAP_M = 0.5, 2.0
_BESIDE_M = 0.25
"""Margin of the corridor ahead of the AV on either side."""


@kernel_jit
def stopping_gap_m(speed_mps: float) -> float:
    """Return the gap that the AV needs to stop 2 m before an obstacle: v^2 / 8.1 + 0.5 v + 2, metres."""
    return speed_mps * speed_mps / (2.0 * _BRAKING_MPS2) + _REACTION_S * speed_mps + _STANDING_GAP_M


def find_gaps_at_appearance(
    states: EgoStates, road_users: RoadUsers, paths: LanePaths, *, path_of_scene: Int64Array
) -> Float64Array:
    """Return the gaps to road users that appear in the path of the AV, nearer than it can stop.

    A road user appears in a frame if it was missing in the frame before; those of the first frame do not count. The
    path is a corridor half a metre wider than the AV. It follows a lane path if the AV is within 2 m of it and turned
    by less than 45 degrees against it, otherwise the heading of the AV.

    Args:
        states: The AV in S scenes.
        road_users: Other road users in the same frames, N rows.
        paths: Paths that AVs follow.
        path_of_scene: Index of the path of each scene, (S,).

    Returns:
        Gaps from the front of the AV to the boxes along the path, metres, (N,); infinite for all rows except those that
        appear in the path nearer than :func:`stopping_gap_m`.

    Raises:
        InvalidArgumentError: The number of frames of the road users differs.
    """
    road_users.require_frames_of(states.is_there.shape)
    gaps_m = np.full(len(road_users), np.inf)
    _write_gaps(
        states.arrays,
        road_users.arrays,
        paths.arrays,
        np.ascontiguousarray(path_of_scene, np.int64),
        np.zeros(road_users.num_tracks, np.int64),
        gaps_m,
    )
    return gaps_m


@kernel_jit
def _write_gaps(
    egos: EgoArrays,
    others: RoadUserArrays,
    paths: PathArrays,
    path_of_scene: Int64Array,
    last_frames: Int64Array,
    gaps_m: Float64Array,
) -> None:
    """Write the gaps of rows that appear close; ``last_frames`` is a scratch array with one number for each track."""
    boxes, speeds_mps, tracks, other_boxes = egos.boxes, egos.speeds_mps, others.tracks, others.boxes
    objects = np.empty((1, OBJECT_FIELDS))
    for scene in range(len(egos.num_frames)):
        last_frames[:] = -2
        path, arc_m = path_of_scene[scene], 0.0
        points_m = paths.points_m[paths.starts[path] : paths.starts[path + 1]]
        for frame in range(egos.num_frames[scene]):
            ego, speed_mps = boxes[scene, frame], speeds_mps[scene, frame]
            reach_m = stopping_gap_m(speed_mps)
            # in every frame, as the search starts at the position in the frame before
            first, stop = points_around(arc_m, len(points_m)) if frame else (0, len(points_m))
            arc_m, offset_m, slope = find_on_path(points_m, first, stop, (ego[0], ego[1], ego[2]))
            position, line = (arc_m, arc_m, offset_m, slope), line_at(points_m, arc_m)
            is_on_path = math.hypot(ego[0] - line[0], ego[1] - line[1]) <= FARTHEST_LANE_M and abs(slope) < 1.0

            # rows that were missing in the frame before, and are near enough for a search along the path
            number = scene * boxes.shape[1] + frame
            for row in range(others.starts[number], others.starts[number + 1]):
                was_there = last_frames[tracks[row]] == frame - 1
                last_frames[tracks[row]] = frame
                apart_m = math.hypot(other_boxes[row, 0] - ego[0], other_boxes[row, 1] - ego[1])
                radii_m = 0.5 * (math.hypot(ego[3], ego[4]) + math.hypot(other_boxes[row, 3], other_boxes[row, 4]))
                if frame == 0 or was_there or apart_m > reach_m + radii_m + _BESIDE_M:
                    continue
                write_object(objects, 0, other_boxes[row], others.velocities_mps[row])
                size = (0.5 * ego[3], 0.5 * ego[4] + _BESIDE_M)
                if is_on_path:
                    gap_m = find_leader(points_m, position, size, reach_m, objects, -1)[0]
                else:
                    # an AV off its path is assumed to drive straight
                    ahead_m = _points_ahead(ego, size[0] + reach_m)
                    gap_m = find_leader(ahead_m, (0.0, 0.0, 0.0, 0.0), size, reach_m, objects, -1)[0]
                if gap_m < reach_m:
                    gaps_m[row] = gap_m


@kernel_jit
def _points_ahead(pose: Float64Array, length_m: float) -> Float64Array:
    """Return points of a straight path from x, y and yaw on, of at least the length, (p, 2)."""
    points_m = np.empty((int(length_m / PATH_STEP_M) + 3, 2))
    for point in range(len(points_m)):
        points_m[point, 0] = pose[0] + point * PATH_STEP_M * math.cos(pose[2])
        points_m[point, 1] = pose[1] + point * PATH_STEP_M * math.sin(pose[2])
    return points_m
