"""Places on paths: the pose at a length of a path, and the length at which a vehicle is.

A vehicle that comes onto a path keeps its distance from the line and its heading at first. Both fade over 20 m along a
cubic curve whose ends have the heading of the vehicle and that of the path, so that nothing jumps to the side.
"""

import math

import numpy as np
from numba import njit

from l5kit._types import Float64Array
from l5kit.geometry.relative_pose import wrap_angle
from l5kit.lanes.lane_paths import PATH_STEP_M, index_along

FADE_M = 20.0
"""Length along which a vehicle that is beside its path comes onto it."""

_BACK_M, _ON_M = 10.0, 40.0
_STEEPEST = 1.0
_SAME_LINE_M, _SAME_WAY = 0.25, 0.5


@njit(nogil=True, cache=True, error_model="numpy")
def offset_at(driven_m: float, offset_m: float, slope: float) -> tuple[float, float]:
    """Return how far a vehicle is to the left of its path, and the change of that per metre, after some metres."""
    if driven_m >= FADE_M:
        return 0.0, 0.0
    part = max(driven_m, 0.0) / FADE_M
    left = 1.0 - part
    distance_m = (offset_m * (1.0 + 2.0 * part) + slope * FADE_M * part) * left * left
    change = offset_m / FADE_M * 6.0 * part * (part - 1.0) + slope * left * (1.0 - 3.0 * part)
    return distance_m, change


@njit(nogil=True, cache=True, error_model="numpy")
def line_at(points_m: Float64Array, arc_m: float) -> tuple[float, float, float, float]:
    """Return world x and y of a path at a length, and the unit vector along it, which turns evenly between points."""
    edge = index_along(arc_m, len(points_m) - 2)
    part = arc_m / PATH_STEP_M - edge
    before, after = max(edge - 1, 0), min(edge + 2, len(points_m) - 1)
    step_x, step_y = points_m[edge + 1, 0] - points_m[edge, 0], points_m[edge + 1, 1] - points_m[edge, 1]
    weight = min(max(part, 0.0), 1.0)
    along_x = (1 - weight) * (points_m[edge + 1, 0] - points_m[before, 0])
    along_x += weight * (points_m[after, 0] - points_m[edge, 0])
    along_y = (1 - weight) * (points_m[edge + 1, 1] - points_m[before, 1])
    along_y += weight * (points_m[after, 1] - points_m[edge, 1])
    length = max(math.sqrt(along_x * along_x + along_y * along_y), 1e-12)
    return points_m[edge, 0] + part * step_x, points_m[edge, 1] + part * step_y, along_x / length, along_y / length


@njit(nogil=True, cache=True, error_model="numpy")
def pose_at(
    points_m: Float64Array, arc_m: float, entry_m: float, offset_m: float, slope: float
) -> tuple[float, float, float]:
    """Return world x, y and yaw of a vehicle on a path.

    Args:
        points_m: The path, (p, 2).
        arc_m: Where it is.
        entry_m: Where it came onto the path.
        offset_m: How far it was to the left there.
        slope: Tangent of the angle between its heading and the path there.
    """
    x, y, along_x, along_y = line_at(points_m, arc_m)
    left_m, change = offset_at(arc_m - entry_m, offset_m, slope)
    return x - left_m * along_y, y + left_m * along_x, math.atan2(along_y, along_x) + math.atan(change)


@njit(nogil=True, cache=True, error_model="numpy")
def points_around(arc_m: float, num_points: int) -> tuple[int, int]:
    """Return first and end of the points of a path among which a vehicle is looked for that was at a length of it.

    They lie from 10 m behind to 40 m ahead of there, so that a path that comes by the same place twice does not matter.
    """
    return index_along(arc_m - _BACK_M, num_points - 1), index_along(arc_m + _ON_M, num_points - 1) + 1


@njit(nogil=True, cache=True, error_model="numpy")
def _squared_m(point_m: Float64Array, x: float, y: float) -> float:
    """Return the squared distance of a point (2,) of a path."""
    far_m2: float = (point_m[0] - x) ** 2 + (point_m[1] - y) ** 2
    return far_m2


@njit(nogil=True, cache=True, error_model="numpy")
def find_place(
    points_m: Float64Array, first: int, stop: int, pose: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Return where on a path a pose is: the length of the path up to there, and offset and slope as in :func:`pose_at`.

    Where the points lie over themselves, as the laps of a roundabout do, it is the first of the places there.

    Args:
        points_m: The path, (p, 2).
        first: First of the points that are looked at.
        stop: End of these points, not included.
        pose: World x, y and yaw.
    """
    x, y, yaw = pose
    nearest, nearest_m2 = first, np.inf
    for point in range(first, stop):
        far_m2 = _squared_m(points_m[point], x, y)
        if far_m2 < nearest_m2:
            nearest, nearest_m2 = point, far_m2
    # points of laps do not coincide: an earlier one is as good if it is nearest around, at most half a step farther,
    # and the path there goes the same way and is as far aside, up to rounded bends
    most_m2 = (math.sqrt(nearest_m2) + PATH_STEP_M / 2) ** 2
    line_x, line_y, along_x, along_y = line_at(points_m, nearest * PATH_STEP_M)
    aside_m = (y - line_y) * along_x - (x - line_x) * along_y
    for point in range(first, nearest - 1):
        far_m2 = _squared_m(points_m[point], x, y)
        is_after_dip = point > first and _squared_m(points_m[point - 1], x, y) < far_m2
        if far_m2 > most_m2 or is_after_dip or _squared_m(points_m[point + 1], x, y) < far_m2:
            continue
        line_x, line_y, other_x, other_y = line_at(points_m, point * PATH_STEP_M)
        other_m = (y - line_y) * other_x - (x - line_x) * other_y
        if other_x * along_x + other_y * along_y > _SAME_WAY and abs(other_m - aside_m) < _SAME_LINE_M:
            nearest = point
            break
    arc_m = nearest * PATH_STEP_M
    end_m = (len(points_m) - 1) * PATH_STEP_M
    for _ in range(6):
        line_x, line_y, along_x, along_y = line_at(points_m, arc_m)
        step_m = (x - line_x) * along_x + (y - line_y) * along_y
        arc_m = min(max(arc_m + step_m, -FADE_M), end_m)
    line_x, line_y, along_x, along_y = line_at(points_m, arc_m)
    turn = wrap_angle(yaw - math.atan2(along_y, along_x))
    slope = _STEEPEST if turn > 0 else -_STEEPEST
    if abs(turn) < math.pi / 4:
        slope = math.tan(turn)
    return arc_m, (y - line_y) * along_x - (x - line_x) * along_y, slope
