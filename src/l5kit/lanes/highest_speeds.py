"""Highest speeds along paths: what bends and limits ahead allow, so that braking gets a vehicle there in time."""

import math

import numpy as np
from numba import njit

from l5kit._types import Float64Array
from l5kit.lanes.lane_paths import PATH_STEP_M, PathArrays, piece_at


@njit(nogil=True, cache=True, error_model="numpy")
def write_highest_speeds(
    paths: PathArrays, lateral_mps2: float, braking_mps2: float, has_limits: bool, speeds_mps: Float64Array
) -> None:
    """Write how fast a vehicle may be at each point of all paths, (P,).

    That is the speed with which it has some acceleration across in a bend, or the limit where limits count; before a
    slower place it is that from which one gets there by braking.

    Args:
        paths: All paths.
        lateral_mps2: Acceleration across, above 0.
        braking_mps2: How hard is braked before a slower place, above 0.
        has_limits: Whether speed limits count.
        speeds_mps: Takes the speeds, infinite where nothing ahead makes slower.
    """
    starts, points_m = paths.starts, paths.points_m
    for track in range(len(starts) - 1):
        first, stop = starts[track], starts[track + 1]
        piece = paths.piece_starts[track]
        for point in range(first, stop):
            arc_m = (point - first) * PATH_STEP_M
            piece = piece_at(paths, track, piece, arc_m)
            speeds_mps[point] = speed_in_bend(points_m[first:stop], point - first, lateral_mps2)
            if has_limits:
                speeds_mps[point] = min(paths.piece_limits_mps[piece], speeds_mps[point])
        for point in range(stop - 2, first - 1, -1):
            after = speeds_mps[point + 1]
            before = math.sqrt(after * after + 2 * braking_mps2 * PATH_STEP_M)
            speeds_mps[point] = min(speeds_mps[point], before)


@njit(nogil=True, cache=True, error_model="numpy")
def speed_in_bend(points_m: Float64Array, point: int, lateral_mps2: float) -> float:
    """Return how fast a vehicle may be at a point of a line, by how the line turns over 8 m around it."""
    before, after = max(point - 2, 0), min(point + 2, len(points_m) - 1)
    if before == point or after == point:
        return np.inf
    x, y = points_m[point, 0] - points_m[before, 0], points_m[point, 1] - points_m[before, 1]
    next_x, next_y = points_m[after, 0] - points_m[point, 0], points_m[after, 1] - points_m[point, 1]
    turn = abs(math.atan2(x * next_y - y * next_x, x * next_x + y * next_y))
    curvature = turn / (0.5 * (after - before) * PATH_STEP_M)
    return math.sqrt(lateral_mps2 / curvature) if curvature > 1e-6 else np.inf
