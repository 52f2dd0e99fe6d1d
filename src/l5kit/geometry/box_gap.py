"""Gap between oriented boxes, and the time until boxes that move on overlap, for use inside kernels."""

import numpy as np
from numba import njit

from l5kit._types import Float64Array
from l5kit.geometry.box_overlap import boxes_overlap


@njit(nogil=True, cache=True, error_model="numpy")
def box_gap(a: Float64Array, b: Float64Array) -> float:
    """Return the shortest distance in metres between two boxes (x m, y m, yaw rad, length m, width m).

    It is 0 for boxes that overlap; of others, a corner of one is nearest to the other.
    """
    if boxes_overlap(a, b):
        return 0.0
    return min(_gap_of_corners(a, b), _gap_of_corners(b, a))


@njit(nogil=True, cache=True, error_model="numpy")
def overlap_time(a: Float64Array, velocity_a: Float64Array, b: Float64Array, velocity_b: Float64Array) -> float:
    """Return after how many seconds two boxes overlap that go on with their velocities and do not turn.

    It is exact: boxes overlap while their shadows do on all four directions of their sides (separating axis theorem),
    and on each of these they do from one time to another. The score asks at steps of 0.1 s, and for speeds along
    headings: :func:`l5kit.evaluation.driving.time_to_collision.meeting_time`.

    Args:
        a: World x and y, yaw, length and width, (5,).
        velocity_a: World x and y, metres per second, (2,).
        b: As ``a``.
        velocity_b: As ``velocity_a``.

    Returns:
        0 for boxes that overlap now, infinite for boxes that never will.
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


@njit(nogil=True, cache=True, error_model="numpy")
def _gap_of_corners(a: Float64Array, b: Float64Array) -> float:
    """Return the distance from the corner of a box that is nearest to another box to that box."""
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
