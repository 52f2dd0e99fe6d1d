"""Driving scores based on the map: drivable surface, driving direction and speed limit."""

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.lane_positions import LanePositions
from l5kit.geometry.box import compute_box_outline
from l5kit.lanes.driving_map import DrivingMap

MOST_OFF_ROAD_M = 0.3
"""Distance from the drivable surface at which a corner of the AV counts as off the road."""

_WINDOW_S = 1.0
TOLERATED_BACKWARD_M = (2.0, 6.0)
"""Distances driven backward within a second from which half of the score, and all of it, is lost."""

MOST_EXCESS_MPS = 2.23


def find_distances_off_road(states: EgoStates, driving_map: DrivingMap) -> Float64Array:
    """Return the distance from the drivable surface of the farthest corner of the AV.

    Returns:
        Metres, 0 where all corners are on it and in padding, infinite from half a metre on, (S, F).
    """
    return np.where(states.is_there, distances_of_boxes_off_road(states.boxes, driving_map), 0.0)


def distances_of_boxes_off_road(boxes: Float64Array, driving_map: DrivingMap) -> Float64Array:
    """Return the distance from the drivable surface of the farthest corner of each box.

    Args:
        boxes: World x and y, yaw, length and width in F frames, (..., F, 5).
        driving_map: The map.

    Returns:
        Metres, 0 where all corners are on it, infinite from half a metre on, (..., F).
    """
    corners_m = compute_box_outline(boxes[..., :2], boxes[..., 2], boxes[..., 3:])
    tracks_m = np.moveaxis(corners_m, -2, -3)  # (..., 4, F, 2): each corner through the frames
    of_corners_m = driving_map.distances_of_tracks_m(tracks_m.reshape(-1, *tracks_m.shape[-2:]))
    farthest_m: Float64Array = of_corners_m.reshape(tracks_m.shape[:-1]).max(axis=-2)
    return farthest_m


def drivable_area_compliance(distances_m: Float64Array, *, most_m: float = MOST_OFF_ROAD_M) -> Float64Array:
    """Return the score of scenes: 0 if a corner was 0.3 m or more off the drivable surface, else 1, (S,).

    Args:
        distances_m: As :func:`find_distances_off_road` returns them, (S, F).
        most_m: Distance at which a corner counts as off the road, metres above 0.
    """
    is_on_road = np.all(distances_m < most_m, axis=1)
    return np.asarray(is_on_road, np.float64)


def find_progress_along_lanes(
    states: EgoStates, driving_map: DrivingMap, lane_positions: LanePositions
) -> Float64Array:
    """Return the distance of the centre of the AV along the centre line of its lane since the previous frame.

    Returns:
        Metres, negative against the direction of the lane, 0 in the first frame, after a change of lane, and where
        there is no lane, (S, F).

    Raises:
        InvalidArgumentError: The lane positions have another number of frames or are of another map.
    """
    lane_positions.require_shape(states.is_there.shape)
    along_m = driving_map.arcs_on_lanes_m(states.positions_m.reshape(-1, 2), lane_positions.lanes.reshape(-1))
    steps_m = np.diff(along_m.reshape(lane_positions.lanes.shape), axis=1)
    is_same = (lane_positions.lanes[:, 1:] == lane_positions.lanes[:, :-1]) & (lane_positions.lanes[:, 1:] >= 0)
    progress_m = np.zeros(lane_positions.lanes.shape)
    progress_m[:, 1:] = np.where(is_same, steps_m, 0.0)
    return progress_m


def sum_over_last_second(values: Float64Array, states: EgoStates) -> Float64Array:
    """Return for each frame the sum of the values of the last second, 11 values at 10 Hz, (S, F).

    A second is rounded to mean time steps of the scene; there are fewer values at the start. The sum is 0 in padding.
    """
    # one value more than steps per second; a scene of a single frame has a NaN step, and gets one value
    sums = np.zeros(values.shape)
    with np.errstate(invalid="ignore"):
        counts = np.rint(_WINDOW_S / states.step_times_s)
    _write_sums(values, np.nan_to_num(counts).astype(np.int64) + 1, sums)
    return np.where(states.is_there, sums, 0.0)


def driving_direction_compliance(sums_m: Float64Array) -> Float64Array:
    """Return the score of scenes by the farthest backward drive in a second: 1 below 2 m, 0.5 below 6 m, else 0, (S,).

    Args:
        sums_m: Progress along the lanes, summed by :func:`sum_over_last_second`, (S, F).
    """
    backward_m = np.maximum(0.0, -sums_m.min(axis=1, initial=0.0))
    full_m, half_m = TOLERATED_BACKWARD_M
    return np.where(backward_m < full_m, 1.0, np.where(backward_m < half_m, 0.5, 0.0))


def find_speed_excess(states: EgoStates, limits_mps: Float64Array) -> Float64Array:
    """Return the excess of the speed of the AV over the speed limit.

    Args:
        states: The AV.
        limits_mps: Speed limit in each frame, NaN if unknown, (S, F); see :func:`limits_of_lanes`.

    Returns:
        Metres per second, 0 within the limit, if no limit is known, and in padding, (S, F).
    """
    is_known = states.is_there & ~np.isnan(limits_mps)
    return np.where(is_known, np.maximum(0.0, states.speeds_mps - limits_mps), 0.0)


def limits_of_lanes(driving_map: DrivingMap, lanes: Int64Array) -> Float64Array:
    """Return the speed limits of lanes, m/s, NaN for no lane (-1) and unknown limits; any shape."""
    limits_mps: Float64Array = np.append(driving_map.speed_limits_mps, np.nan)[lanes]
    return limits_mps


def speed_limit_compliance(excess_mps: Float64Array, states: EgoStates) -> Float64Array:
    """Return the score of scenes: max(0, 1 - sum of the excess x time step / (2.23 m/s x duration)), (S,).

    It is 1 for a scene without duration.

    Args:
        excess_mps: As :func:`find_speed_excess` returns it, (S, F).
        states: The AV.
    """
    has_duration = states.durations_s > 0
    seconds = np.where(has_duration, states.step_times_s, 0.0)
    most_m = np.where(has_duration, MOST_EXCESS_MPS * states.durations_s, 1.0)
    scores: Float64Array = np.maximum(0.0, 1.0 - excess_mps.sum(axis=1) * seconds / most_m)
    return scores


@kernel_jit
def _write_sums(values: Float64Array, counts: Int64Array, sums: Float64Array) -> None:
    """Write for each value the sum of the last values up to it, as many as the count of the scene."""
    for scene in range(values.shape[0]):
        for frame in range(values.shape[1]):
            for other in range(max(frame + 1 - counts[scene], 0), frame + 1):
                sums[scene, frame] += values[scene, other]
