"""Other road users around each one: gap to the nearest, time to collision, and overlaps."""

import math

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.geometry.box_overlap import box_gap, boxes_overlap, overlap_time

REACH_M = 40.0
"""Gaps are at most so wide, metres."""

HORIZON_S = 5.0
"""Times to collision are at most so long, seconds."""

_STANDS_MPS = 0.5
_AHEAD_RAD = math.radians(30.0)


def look_around(
    starts: Int64Array, boxes: Float64Array, velocities_mps: Float64Array, is_subject: BoolArray
) -> tuple[Float64Array, Float64Array, BoolArray]:
    """Return what is around the road users that are asked for, among the N rows of G frames.

    Args:
        starts: First row of each frame and the end of the last one, (G + 1,).
        boxes: World x and y, yaw, length and width, (N, 5).
        velocities_mps: World x and y, (N, 2).
        is_subject: Which rows are asked for, (N,).

    Returns:
        The gap between the box of each row and the nearest other of its frame, metres, at most :data:`REACH_M`; the
        time until its box overlaps one that is ahead when all go on with their velocities, seconds, at most
        :data:`HORIZON_S`, which is also that of rows slower than 0.5 m/s; and whether its box overlaps another. Ahead
        is whose centre is at most 30 degrees off the heading, seen from the centre of the row. (N,) each; rows that
        are not asked for have the highest values.
    """
    gaps_m, times_s = np.full(len(boxes), REACH_M), np.full(len(boxes), HORIZON_S)
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
    return gaps_m, times_s, is_colliding


@njit(nogil=True, cache=True, error_model="numpy")
def _write_neighbours(
    starts: Int64Array,
    boxes: Float64Array,
    velocities_mps: Float64Array,
    is_subject: BoolArray,
    gaps_m: Float64Array,
    times_s: Float64Array,
    is_colliding: BoolArray,
) -> None:
    """Lower gaps and times of subjects to those of the others in their frames, and mark those that overlap one."""
    for frame in range(len(starts) - 1):
        for row in range(starts[frame], starts[frame + 1]):
            if not is_subject[row]:
                continue
            box, velocity = boxes[row], velocities_mps[row]
            moves = np.hypot(velocity[0], velocity[1]) >= _STANDS_MPS
            for other in range(starts[frame], starts[frame + 1]):
                if other == row:
                    continue
                # the gap is not below that of the circles around the boxes, which costs little: below 0 they may
                # overlap, and only who comes that far in time can be met before the one that is known
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
                    if abs(np.arctan2(y * cos - x * sin, x * cos + y * sin)) <= _AHEAD_RAD:
                        time_s = overlap_time(box, velocity, boxes[other], velocities_mps[other])
                        times_s[row] = min(times_s[row], time_s)
