"""Exact test whether oriented boxes overlap, for use inside kernels."""

import math
from typing import TypeAlias

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array

Box: TypeAlias = Float64Array | tuple[float, float, float, float, float]
"""World x and y of the centre, yaw, length and width, metres and radians."""


@njit(nogil=True, cache=True, error_model="numpy")
def boxes_overlap(a: Box, b: Box) -> bool:
    """Tell whether two boxes (x m, y m, yaw rad, length m, width m) overlap, by the separating axis theorem."""
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


@njit(nogil=True, cache=True, error_model="numpy")
def overlapping(boxes: Float64Array) -> BoolArray:
    """Mark the boxes, (N, 5), that overlap any other; returns (N,)."""
    found = np.zeros(boxes.shape[0], dtype=np.bool_)
    for i in range(boxes.shape[0]):
        for j in range(i):
            if boxes_overlap(boxes[i], boxes[j]):
                found[i] = True
                found[j] = True
    return found
