"""Drivable surface of a map for kernels: distances of points and boxes to it, and the lanes that contain points.

These kernels do not allocate memory, so they also run on devices.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import as_read_only
from l5kit.data.map.bounds_grid import BoundsGrid, GridArrays, is_near, slots_of_cell
from l5kit.geometry.polygon import distance_to_polygon, is_inside_polygon

REACH_M = 0.5
"""Distance from the drivable surface from which on points are only known to be far away, metres."""


class RoadSurface(NamedTuple):
    """Drivable areas, the first of which are those of lanes.

    Attributes:
        grid: Finds the areas near points; its radius is :data:`REACH_M`.
        points_m: Corners of all areas, area by area.
        starts: Start of each area in the corners, and the end of the last one; empty without a map.
        is_in_junction: Whether each lane is part of a junction.
        ahead: Start of each lane in the lanes ahead, and the lanes ahead.
    """

    grid: GridArrays
    points_m: Float64Array
    starts: Int64Array
    is_in_junction: BoolArray
    ahead: tuple[Int64Array, Int64Array]


@cache
def no_surface() -> RoadSurface:
    """Return the surface for no map, where nothing is off the road; on a map without areas, everything is."""
    grid, none = BoundsGrid.build(np.zeros((0, 2, 2)), REACH_M), as_read_only(np.zeros(0, np.int64))
    points_m, is_in_junction = as_read_only(np.zeros((0, 2))), as_read_only(np.zeros(0, np.bool_))
    return RoadSurface(grid.arrays, points_m, none, is_in_junction, (as_read_only(np.zeros(1, np.int64)), none))


@kernel_jit
def named_surface(parts: tuple[Any, ...]) -> RoadSurface:
    """Return a surface given as a plain tuple, the form in which devices pass it, as a named tuple."""
    grid, points_m, starts, is_in_junction, ahead = parts
    return RoadSurface(GridArrays(*grid), points_m, starts, is_in_junction, ahead)


@kernel_jit
def distance_to_surface(surface: RoadSurface, point_m: Float64Array, hint: int) -> tuple[float, int]:
    """Return the distance of a point to the surface, infinite from half a metre on, and its area, -1 for none.

    The area in ``hint`` is tried first, which only affects the run time.
    """
    grid, points_m, starts = surface.grid, surface.points_m, surface.starts
    if 0 <= hint < len(starts) - 1 and is_inside_polygon(points_m[starts[hint] : starts[hint + 1]], point_m):
        return 0.0, hint
    x, y = point_m[0], point_m[1]
    first, end = slots_of_cell(x, y, grid.origin_m, grid.cell_m, grid.num_cells, grid.cell_starts)
    for slot in range(first, end):
        area = grid.cell_rows[slot]
        polygon = points_m[starts[area] : starts[area + 1]]
        if is_near(x, y, grid.bounds_m, area, grid.radius_m) and is_inside_polygon(polygon, point_m):
            return 0.0, area
    distance_m = np.inf
    for slot in range(first, end):
        area = grid.cell_rows[slot]
        if is_near(x, y, grid.bounds_m, area, grid.radius_m):
            distance_m = min(distance_m, distance_to_polygon(points_m[starts[area] : starts[area + 1]], point_m))
    return (distance_m if distance_m < REACH_M else np.inf), -1


@kernel_jit
def farthest_corner(parts: tuple[Any, ...], corners_m: Float64Array, areas: Int64Array) -> float:
    """Return the distance of the farthest of four corners (4, 2) to the drivable surface.

    It is infinite from half a metre on, and 0 without a map.

    Args:
        parts: The surface in the form used by :func:`named_surface`.
        corners_m: World x and y.
        areas: The last area of each corner, -1 for none, (4,), updated in place; only a hint.
    """
    surface = named_surface(parts)
    farthest_m = 0.0
    for corner in range(4 if len(surface.starts) else 0):
        far_m, area = distance_to_surface(surface, corners_m[corner], areas[corner])
        areas[corner] = area if area >= 0 else areas[corner]
        farthest_m = max(farthest_m, far_m)
    return farthest_m


@kernel_jit
def write_corners(box: Float64Array, corners_m: Float64Array) -> None:
    """Write front left, front right, rear right and rear left corner of a box, given by x, y, yaw, length and width."""
    cos, sin = math.cos(box[2]), math.sin(box[2])
    for corner in range(4):
        along = 0.5 * box[3] if corner < 2 else -0.5 * box[3]
        across = 0.5 * box[4] if corner == 0 or corner == 3 else -0.5 * box[4]
        corners_m[corner, 0] = box[0] + along * cos - across * sin
        corners_m[corner, 1] = box[1] + along * sin + across * cos


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def write_lanes_at(surface: RoadSurface, point_m: Float64Array, lanes: Int64Array) -> int:
    """Write the lanes that contain a point, ascending, and return their number; there must be room for all."""
    grid, starts, count = surface.grid, surface.starts, 0
    x, y = point_m[0], point_m[1]
    first, end = slots_of_cell(x, y, grid.origin_m, grid.cell_m, grid.num_cells, grid.cell_starts)
    for slot in range(first, end):
        area = grid.cell_rows[slot]
        if area >= len(surface.is_in_junction) or not is_near(x, y, grid.bounds_m, area, grid.radius_m):
            continue
        if is_inside_polygon(surface.points_m[starts[area] : starts[area + 1]], point_m):
            lanes[count] = area
            count += 1
    return count


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def find_lane_at(surface: RoadSurface, point_m: Float64Array, is_wanted: BoolArray, hint: int) -> int:
    """Return a wanted lane that contains a point, -1 for none.

    Args:
        surface: The map.
        point_m: World x and y.
        is_wanted: Whether each lane is wanted, (L,).
        hint: A wanted lane to try first, -1 for none.
    """
    grid, starts = surface.grid, surface.starts
    if hint >= 0 and is_inside_polygon(surface.points_m[starts[hint] : starts[hint + 1]], point_m):
        return hint
    x, y = point_m[0], point_m[1]
    first, end = slots_of_cell(x, y, grid.origin_m, grid.cell_m, grid.num_cells, grid.cell_starts)
    for slot in range(first, end):
        lane = grid.cell_rows[slot]
        if lane >= len(is_wanted) or not is_wanted[lane] or not is_near(x, y, grid.bounds_m, lane, grid.radius_m):
            continue
        if is_inside_polygon(surface.points_m[starts[lane] : starts[lane + 1]], point_m):
            return int(lane)
    return -1


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def is_in_junction(surface: RoadSurface, point_m: Float64Array) -> bool:
    """Return whether a lane of a junction contains a point."""
    return find_lane_at(surface, point_m, surface.is_in_junction, -1) >= 0
