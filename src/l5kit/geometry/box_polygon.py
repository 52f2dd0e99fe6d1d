"""Exact test whether an oriented box meets a polygon, for use inside kernels."""

import math

import numpy as np
from numba import njit

from l5kit._types import Float64Array
from l5kit.geometry.box_overlap import Box
from l5kit.geometry.polygon import is_inside_polygon


@njit(nogil=True, cache=True, error_model="numpy")
def box_meets_polygon(box: Box, polygon: Float64Array) -> bool:
    """Tell whether a box and a polygon overlap; ones that only touch do not.

    Args:
        box: World x and y of the centre, yaw, length and width, metres and radians.
        polygon: Its corners, (n, 2); it is closed by itself.
    """
    cos, sin, half_long_m, half_wide_m = math.cos(box[2]), math.sin(box[2]), 0.5 * box[3], 0.5 * box[4]
    # an edge of the polygon comes into the box, or all of the box lies within or without
    before_x, before_y = _seen_from(box, cos, sin, polygon[-1])
    for corner in range(len(polygon)):
        x, y = _seen_from(box, cos, sin, polygon[corner])
        if _enters(before_x, before_y, x, y, half_long_m, half_wide_m):
            return True
        before_x, before_y = x, y
    return is_inside_polygon(polygon, np.array([box[0], box[1]]))


@njit(nogil=True, cache=True, error_model="numpy")
def _seen_from(box: Box, cos: float, sin: float, point_m: Float64Array) -> tuple[float, float]:
    """Return how far a point is ahead and to the left of the centre of a box."""
    x, y = point_m[0] - box[0], point_m[1] - box[1]
    return x * cos + y * sin, y * cos - x * sin


@njit(nogil=True, cache=True, error_model="numpy")
def _enters(start_x: float, start_y: float, end_x: float, end_y: float, half_long_m: float, half_wide_m: float) -> bool:
    """Tell whether a segment has more than one point within a box around the origin (Liang and Barsky, 1984)."""
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
