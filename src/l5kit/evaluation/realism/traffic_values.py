"""Values of the features of traffic: one row for each subject in each frame."""

from dataclasses import dataclass

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.map_scores import MOST_OFF_ROAD_M
from l5kit.evaluation.driving.motion import rates_of_frames
from l5kit.evaluation.driving.road_users import STATIONARY_MPS, RoadUsers
from l5kit.evaluation.driving.time_to_collision import AHEAD_RAD
from l5kit.evaluation.realism.road_edges import RoadEdges, distances_to_surface_m
from l5kit.geometry.angle import angular_distance
from l5kit.geometry.box import compute_box_outline
from l5kit.geometry.box_overlap import box_gap, boxes_overlap, overlap_time

_WIDEST_GAP_M = 40.0
"""Upper limit of gaps."""

_HORIZON_S = 5.0
"""Upper limit of times to collision."""

_REACH_S = 0.55
"""Reach of differences before and after a row: five rows at 10 Hz, with a margin for jitter of times."""


@dataclass(frozen=True, eq=False)
class TrafficValues(ReadOnlyArrays):
    """The M rows of subjects, ordered by scene and frame; NaN is an unknown value.

    Attributes:
        scenes: Scene of each row, int64 (M,).
        tracks: Track of each row, numbered within its scene, int64 (M,).
        speeds_mps: Magnitude of the velocity, float64 (M,); NaN for a track of a single row.
        accelerations_mps2: Rate of change of the speed, float64 (M,); NaN for a track of a single row.
        yaw_rates_radps: Rate of change of the heading, positive to the left, float64 (M,); NaN for a track of a single
            row.
        nearest_gaps_m: Gap to the box of the nearest other road user, at most 40 m, float64 (M,).
        times_to_collision_s: Time until the box overlaps one ahead, at most 5 s, float64 (M,).
        road_edge_distances_m: Distance of the centre to the edge of the road, negative off the road, float64 (M,); NaN
            without a map.
        is_colliding: Whether the box overlaps another, bool (M,).
        is_off_road: Whether a corner of the box is 0.3 m or more off the drivable surface, bool (M,); False without a
            map.
        has_map: Whether distances to the edge of the road and ``is_off_road`` are known.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    scenes: Int64Array
    tracks: Int64Array
    speeds_mps: Float64Array
    accelerations_mps2: Float64Array
    yaw_rates_radps: Float64Array
    nearest_gaps_m: Float64Array
    times_to_collision_s: Float64Array
    road_edge_distances_m: Float64Array
    is_colliding: BoolArray
    is_off_road: BoolArray
    has_map: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [name for name, array in vars(self).items() if isinstance(array, np.ndarray)]
        require_shapes(self, **dict.fromkeys(names, (len(self.scenes),)))


def measure_traffic(
    ego: EgoStates, road_users: RoadUsers, *, is_subject: BoolArray, edges: RoadEdges | None = None
) -> TrafficValues:
    """Return the traffic features of some road users.

    Velocities, accelerations and yaw rates are differences along each track, and never recorded values: differences
    between the first row at most 0.55 s before and the last row at most 0.55 s after, if the track has such rows, or
    between neighbouring rows over longer gaps. Recorded poses jitter too much for shorter differences. A turn is the
    sum of the turns from row to row, each of less than half a circle.

    Args:
        ego: The AV in S scenes, as a neighbour, and the times of the frames.
        road_users: All road users in the same frames.
        is_subject: Which of their rows to measure, (N,).
        edges: Edges of the road; without them, values that need a map are unknown.

    Raises:
        InvalidArgumentError: Road users have other frames, or ``is_subject`` has another shape.
    """
    road_users.require_frames_of(ego.is_there.shape)
    if is_subject.shape != (len(road_users),) or is_subject.dtype != np.bool_:
        raise InvalidArgumentError(
            f"is_subject must be bool of shape ({len(road_users)},), one for each row of road_users, got "
            f"{is_subject.dtype} of {is_subject.shape}"
        )
    velocities_mps, speeds_mps, accelerations_mps2, yaw_rates_radps = _motions(ego, road_users)
    gaps_m, times_s, is_colliding = _look_around_with_ego(ego, road_users, velocities_mps, is_subject)
    # corners are at most half the diagonal farther off the road than centres, so only few have to be checked
    boxes = road_users.boxes[is_subject]
    edge_distances_m, is_off_road = np.full(len(boxes), np.nan), np.zeros(len(boxes), np.bool_)
    if edges is not None:
        edge_distances_m = edges.distances_m(boxes[:, :2])
        near = np.flatnonzero(edge_distances_m <= 0.5 * np.hypot(boxes[:, 3], boxes[:, 4]))
        corners_m = compute_box_outline(boxes[near, :2], boxes[near, 2], boxes[near, 3:])
        off_m = distances_to_surface_m(edges.driving_map, corners_m.reshape(-1, 2)).reshape(-1, 4)
        is_off_road[near] = (off_m >= MOST_OFF_ROAD_M).any(axis=1)
    return TrafficValues(
        scenes=(road_users.frames_of_rows // max(1, ego.is_there.shape[1]))[is_subject],
        tracks=road_users.tracks[is_subject],
        speeds_mps=speeds_mps[is_subject],
        accelerations_mps2=accelerations_mps2[is_subject],
        yaw_rates_radps=yaw_rates_radps[is_subject],
        nearest_gaps_m=gaps_m[is_subject],
        times_to_collision_s=times_s[is_subject],
        road_edge_distances_m=edge_distances_m,
        is_colliding=is_colliding[is_subject],
        is_off_road=is_off_road,
        has_map=edges is not None,
    )


def _motions(ego: EgoStates, users: RoadUsers) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array]:
    """Return velocities (N, 2), speeds, accelerations and yaw rates of all rows, NaN for tracks of a single row."""
    frames = users.frames_of_rows
    scenes = frames // max(1, ego.is_there.shape[1])
    order = np.lexsort((frames, users.tracks, scenes))
    times_s, boxes = ego.timestamps_s.reshape(-1)[frames[order]], users.boxes[order]
    is_next = (np.diff(scenes[order]) == 0) & (np.diff(users.tracks[order]) == 0)

    # rows are sorted by track and time: find the first and the last row of the track within reach, or the neighbours
    # over longer gaps
    before, after = np.arange(len(order)), np.arange(len(order))
    goes_on = np.concatenate([[False], is_next, [False]])
    _stretch(times_s, goes_on, before, -1)
    _stretch(times_s, goes_on, after, 1)
    seconds = times_s[after] - times_s[before]
    seconds[seconds <= 0] = np.nan
    # a single row spans no time, which gives NaN for all values
    velocities = (boxes[after, :2] - boxes[before, :2]) / seconds[:, None]
    speeds = np.hypot(velocities[:, 0], velocities[:, 1])
    turns_rad = np.zeros(len(order))
    _sum_between(angular_distance(boxes[1:, 2], boxes[:-1, 2]), before, after, turns_rad)
    motions = np.column_stack([velocities, speeds, (speeds[after] - speeds[before]) / seconds, turns_rad / seconds])
    in_order = np.empty_like(motions)
    in_order[order] = motions
    return in_order[:, :2], in_order[:, 2], in_order[:, 3], in_order[:, 4]


@kernel_jit
def _stretch(times_s: Float64Array, goes_on: BoolArray, ends: Int64Array, direction: int) -> None:
    """Move the end of each row along its track, by at least one row, as far as the reach allows."""
    for row in range(len(times_s)):
        end = row
        while goes_on[end + (direction > 0)]:
            if end != row and abs(times_s[end + direction] - times_s[row]) > _REACH_S:
                break
            end += direction
        ends[row] = end


@kernel_jit
def _sum_between(steps: Float64Array, before: Int64Array, after: Int64Array, sums: Float64Array) -> None:
    """Write the sum of the steps between two rows; step k leads to row k + 1."""
    for row in range(len(sums)):
        for step in range(before[row], after[row]):
            sums[row] += steps[step]


def _look_around_with_ego(
    ego: EgoStates, users: RoadUsers, velocities_mps: Float64Array, is_subject: BoolArray
) -> tuple[Float64Array, Float64Array, BoolArray]:
    """Return the neighbourhood of subjects among the N rows of road users, with the AV as a neighbour.

    Returns:
        The gap between the box of each row and its nearest neighbour in the frame, metres, at most 40; the time until
        its box overlaps one ahead if all keep their velocities, seconds, at most 5, which is also the value of rows
        slower than 0.5 m/s; and whether its box overlaps another. A neighbour is ahead if its centre is at most 30
        degrees off the heading, seen from the centre of the row. (N,) each; other rows than subjects have the limits.
    """
    # insert the AV into the rows of each frame; its own results are dropped at the end
    there = ego.is_there.reshape(-1)
    ego_velocities_mps = rates_of_frames(ego.positions_m, ego.timestamps_s, ego.is_there).reshape(-1, 2)
    frames = np.concatenate([users.frames_of_rows, np.flatnonzero(there)])
    order = np.argsort(frames, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(frames, minlength=there.size))])
    boxes = np.concatenate([users.boxes, ego.boxes.reshape(-1, 5)[there]])[order]
    velocities_mps = np.concatenate([np.nan_to_num(velocities_mps), ego_velocities_mps[there]])[order]
    is_subject = np.concatenate([is_subject, np.zeros(there.sum(), np.bool_)])[order]

    # start at the limits
    gaps_m, times_s = np.full(len(boxes), _WIDEST_GAP_M), np.full(len(boxes), _HORIZON_S)
    is_colliding = np.zeros(len(boxes), np.bool_)
    _write_neighbours(
        np.ascontiguousarray(starts, np.int64),
        np.ascontiguousarray(boxes, np.float64),
        np.ascontiguousarray(velocities_mps, np.float64),
        np.ascontiguousarray(is_subject, np.bool_),
        gaps_m,
        times_s,
        is_colliding,
    )
    sorted_rows = np.empty(len(order), np.int64)
    sorted_rows[order] = np.arange(len(order))
    rows = sorted_rows[: len(users)]
    return gaps_m[rows], times_s[rows], is_colliding[rows]


@kernel_jit
def _write_neighbours(
    starts: Int64Array,
    boxes: Float64Array,
    velocities_mps: Float64Array,
    is_subject: BoolArray,
    gaps_m: Float64Array,
    times_s: Float64Array,
    is_colliding: BoolArray,
) -> None:
    """Lower gaps and times of subjects to those of their neighbours, and mark subjects that overlap one."""
    for frame in range(len(starts) - 1):
        for row in range(starts[frame], starts[frame + 1]):
            if not is_subject[row]:
                continue
            box, velocity = boxes[row], velocities_mps[row]
            moves = np.hypot(velocity[0], velocity[1]) >= STATIONARY_MPS
            for other in range(starts[frame], starts[frame + 1]):
                if other == row:
                    continue
                # The gap between the circumscribed circles is a cheap lower bound: below 0 the boxes may overlap, and
                # only neighbours that can close it in time can be met sooner.
                x, y = boxes[other, 0] - box[0], boxes[other, 1] - box[1]
                diagonals_m = np.hypot(box[3], box[4]) + np.hypot(boxes[other, 3], boxes[other, 4])
                least_m = np.hypot(x, y) - 0.5 * diagonals_m
                if least_m < gaps_m[row]:
                    gaps_m[row] = min(gaps_m[row], box_gap(box, boxes[other]))
                if least_m < 0.0 and boxes_overlap(box, boxes[other]):
                    is_colliding[row] = True
                closing_mps = np.hypot(velocities_mps[other, 0] - velocity[0], velocities_mps[other, 1] - velocity[1])
                if moves and least_m < times_s[row] * closing_mps:
                    cos, sin = np.cos(box[2]), np.sin(box[2])
                    if abs(np.arctan2(y * cos - x * sin, x * cos + y * sin)) <= AHEAD_RAD:
                        time_s = overlap_time(box, velocity, boxes[other], velocities_mps[other])
                        times_s[row] = min(times_s[row], time_s)
