"""Box overlap, gaps between boxes, and overlap of boxes and polygons, for use inside kernels."""

import math
from typing import TypeAlias

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array
from l5kit.geometry.polygon import is_inside_polygon

Box: TypeAlias = Float64Array | tuple[float, float, float, float, float]
"""World x and y of the centre, yaw, length and width, metres and radians."""


@kernel_jit
def boxes_overlap(a: Box, b: Box) -> bool:
    """Return whether two boxes (x m, y m, yaw rad, length m, width m) overlap, by the separating axis theorem."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    reach = 0.5 * (math.sqrt(a[3] ** 2 + a[4] ** 2) + math.sqrt(b[3] ** 2 + b[4] ** 2))
    if dx * dx + dy * dy > reach * reach:
        return False
    cos_a, sin_a, cos_b, sin_b = math.cos(a[2]), math.sin(a[2]), math.cos(b[2]), math.sin(b[2])
    cos_ab = abs(cos_a * cos_b + sin_a * sin_b)
    sin_ab = abs(sin_a * cos_b - cos_a * sin_b)
    if abs(dx * cos_a + dy * sin_a) >= 0.5 * (a[3] + b[3] * cos_ab + b[4] * sin_ab):
        return False
    if abs(dy * cos_a - dx * sin_a) >= 0.5 * (a[4] + b[3] * sin_ab + b[4] * cos_ab):
        return False
    if abs(dx * cos_b + dy * sin_b) >= 0.5 * (b[3] + a[3] * cos_ab + a[4] * sin_ab):
        return False
    return bool(abs(dy * cos_b - dx * sin_b) < 0.5 * (b[4] + a[3] * sin_ab + a[4] * cos_ab))


@kernel_jit
def overlapping(boxes: Float64Array) -> BoolArray:
    """Return which boxes, (N, 5), overlap any other one, (N,)."""
    overlaps = np.zeros(boxes.shape[0], dtype=np.bool_)
    for i in range(boxes.shape[0]):
        for j in range(i):
            if boxes_overlap(boxes[i], boxes[j]):
                overlaps[i] = True
                overlaps[j] = True
    return overlaps


@kernel_jit
def box_gap(a: Float64Array, b: Float64Array) -> float:
    """Return the shortest distance in metres between two boxes (x m, y m, yaw rad, length m, width m).

    It is 0 for overlapping boxes; otherwise the shortest distance is always at a corner of one of them.
    """
    if boxes_overlap(a, b):
        return 0.0
    return min(_gap_of_corners(a, b), _gap_of_corners(b, a))


@kernel_jit
def overlap_time(a: Float64Array, velocity_a: Float64Array, b: Float64Array, velocity_b: Float64Array) -> float:
    """Return the time in seconds until two boxes overlap that keep their velocities and do not turn.

    The result is exact: boxes overlap while their projections on all four side directions overlap (separating axis
    theorem), which for each direction is one time interval. The score instead checks steps of 0.1 s, with speeds along
    headings: :func:`l5kit.evaluation.driving.time_to_collision.meeting_time`.

    Args:
        a: World x and y, yaw, length and width, (5,).
        velocity_a: World x and y, metres per second, (2,).
        b: As ``a``.
        velocity_b: As ``velocity_a``.

    Returns:
        0 for boxes that overlap now, infinite for boxes that never overlap.
    """
    cos_ab, sin_ab = abs(np.cos(a[2] - b[2])), abs(np.sin(a[2] - b[2]))
    enters, leaves = 0.0, np.inf
    for axis in range(4):
        yaw = (a[2] if axis < 2 else b[2]) + (0.5 * np.pi if axis % 2 else 0.0)
        own, other = (a, b) if axis < 2 else (b, a)
        along, across = (other[4], other[3]) if axis % 2 else (other[3], other[4])
        half = 0.5 * (own[3 + axis % 2] + along * cos_ab + across * sin_ab)
        cos, sin = np.cos(yaw), np.sin(yaw)
        apart = (b[0] - a[0]) * cos + (b[1] - a[1]) * sin
        speed = (velocity_b[0] - velocity_a[0]) * cos + (velocity_b[1] - velocity_a[1]) * sin
        if abs(speed) < 1e-12:
            if abs(apart) >= half:
                return np.inf
            continue
        first, second = (-half - apart) / speed, (half - apart) / speed
        enters, leaves = max(enters, min(first, second)), min(leaves, max(first, second))
    return enters if enters < leaves else np.inf


@kernel_jit
def _gap_of_corners(a: Float64Array, b: Float64Array) -> float:
    """Return the least distance from the corners of a box to another box."""
    cos_b, sin_b = np.cos(b[2]), np.sin(b[2])
    cos, sin = np.cos(a[2] - b[2]), np.sin(a[2] - b[2])
    x = (a[0] - b[0]) * cos_b + (a[1] - b[1]) * sin_b
    y = (a[1] - b[1]) * cos_b - (a[0] - b[0]) * sin_b
    nearest = np.inf
    for corner in range(4):
        along = 0.5 * a[3] if corner < 2 else -0.5 * a[3]
        across = 0.5 * a[4] if corner % 2 else -0.5 * a[4]
        ahead = abs(x + along * cos - across * sin) - 0.5 * b[3]
        aside = abs(y + along * sin + across * cos) - 0.5 * b[4]
        nearest = min(nearest, np.hypot(max(ahead, 0.0), max(aside, 0.0)))
    return nearest


@kernel_jit
def box_meets_polygon(box: Box, polygon: Float64Array) -> bool:
    """Return whether a box and a polygon overlap; touching does not count.

    Args:
        box: World x and y of the centre, yaw, length and width, metres and radians.
        polygon: Corners, (n, 2); the first one need not be repeated.
    """
    cos, sin, half_long_m, half_wide_m = math.cos(box[2]), math.sin(box[2]), 0.5 * box[3], 0.5 * box[4]
    # either an edge of the polygon enters the box, or the whole box is inside or outside
    before_x, before_y = _seen_from(box, cos, sin, polygon[-1])
    for corner in range(len(polygon)):
        x, y = _seen_from(box, cos, sin, polygon[corner])
        if _enters(before_x, before_y, x, y, half_long_m, half_wide_m):
            return True
        before_x, before_y = x, y
    return is_inside_polygon(polygon, np.array([box[0], box[1]]))


@kernel_jit
def _seen_from(box: Box, cos: float, sin: float, point_m: Float64Array) -> tuple[float, float]:
    """Return the coordinates of a point ahead and to the left of the centre of a box."""
    x, y = point_m[0] - box[0], point_m[1] - box[1]
    return x * cos + y * sin, y * cos - x * sin


@kernel_jit
def _enters(start_x: float, start_y: float, end_x: float, end_y: float, half_long_m: float, half_wide_m: float) -> bool:
    """Return whether a segment has more than one point inside a box around the origin (Liang and Barsky, 1984)."""
    first, last = 0.0, 1.0
    for axis in range(2):
        start, way, half_m = start_x, end_x - start_x, half_long_m
        if axis == 1:
            start, way, half_m = start_y, end_y - start_y, half_wide_m
        if way == 0.0:
            if abs(start) >= half_m:
                return False
            continue
        near, far = (-half_m - start) / way, (half_m - start) / way
        first, last = max(first, min(near, far)), min(last, max(near, far))
    return first < last
