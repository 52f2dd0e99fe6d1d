"""Places of proposals on the map: off the drivable surface, across lanes, in a junction; one point after the other."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.map.bounds_grid import BoundsGrid, GridArrays
from l5kit.evaluation.driving.lane_places import hold_all_corners, lanes_of_corners
from l5kit.geometry.polygon import distance_to_polygon, is_inside_polygon
from l5kit.lanes.driving_map import REACH_M, DrivingMap
from l5kit.simulation.drivers.proposal_rollout import YAW, X, Y


class RoadArrays(NamedTuple):
    """A DrivingMap, as kernels take it.

    Attributes:
        grid: Finds the areas near points.
        areas: Corners of all areas, and the first ones of each.
        ahead: First of the lanes ahead of each lane, and these.
        is_in_junction: Which lanes are part of a junction.
    """

    grid: GridArrays
    areas: tuple[Float64Array, Int64Array]
    ahead: tuple[Int64Array, Int64Array]
    is_in_junction: BoolArray


_MOST_OFF_M = 0.25
"""How far a corner may be off the road, metres; a bit less than the score allows."""

_MOST_LANES = 64


def road_arrays(driving_map: DrivingMap | None) -> RoadArrays:
    """Return a map as kernels take it; without one there are no lanes."""
    if driving_map is None:
        none, starts = np.zeros(0, np.int64), np.zeros(1, np.int64)
        driving_map = DrivingMap(
            centre_lines_m=np.zeros((0, 2, 2)),
            arc_lengths_m=np.zeros((0, 2)),
            area_points_m=np.zeros((0, 2)),
            area_starts=starts,
            grid=BoundsGrid.build(np.zeros((0, 2, 2)), REACH_M),
            ahead_starts=starts,
            ahead_rows=none,
            parents=none,
            is_in_junction=np.zeros(0, np.bool_),
            has_line_at_start=np.zeros(0, np.bool_),
            speed_limits_mps=np.zeros(0),
        )
    return RoadArrays(
        driving_map.grid.arrays,
        (driving_map.area_points_m, driving_map.area_starts),
        (driving_map.ahead_starts, driving_map.ahead_rows),
        driving_map.is_in_junction,
    )


@njit(nogil=True, cache=True, error_model="numpy")
def first_step_off_road(states: Float64Array, body: tuple[float, float, float], road: RoadArrays) -> float:
    """Return the first of every other step of states (T + 1, 7) with a corner off the road, infinite for none."""
    if len(road.areas[1]) == 1:
        return np.inf
    corner_m, last = np.empty(2), np.full(4, -1)
    for step in range(2, len(states), 2):
        cos, sin = math.cos(states[step, YAW]), math.sin(states[step, YAW])
        for corner in range(4):
            long_m = 0.5 * body[0] * (1.0 if corner < 2 else -1.0)
            wide_m = 0.5 * body[1] * (1.0 if corner % 2 == 0 else -1.0)
            corner_m[0] = states[step, X] + cos * long_m - sin * wide_m
            corner_m[1] = states[step, Y] + sin * long_m + cos * wide_m
            last[corner] = _area_at(road, corner_m, last[corner])
            if last[corner] < 0:
                return step
    return np.inf


@njit(nogil=True, cache=True, error_model="numpy")
def _area_at(road: RoadArrays, point_m: Float64Array, last: int) -> int:
    """Return an area that holds a point or is nearly there, -1 for none; ``last`` is tried first."""
    points_m, starts = road.areas
    if last >= 0 and is_inside_polygon(points_m[starts[last] : starts[last + 1]], point_m):
        return last
    near = np.empty(_MOST_LANES, np.int64)
    count = _areas_near(road, point_m, near)
    for slot in range(count):
        if is_inside_polygon(points_m[starts[near[slot]] : starts[near[slot] + 1]], point_m):
            return int(near[slot])
    for slot in range(count):
        if distance_to_polygon(points_m[starts[near[slot]] : starts[near[slot] + 1]], point_m) < _MOST_OFF_M:
            return int(near[slot])
    return -1


@njit(nogil=True, cache=True, error_model="numpy")
def _areas_near(road: RoadArrays, point_m: Float64Array, near: Int64Array) -> int:
    """Write the areas whose bounds come near a point, as many as there is room for, and return their number."""
    bounds_m, radius_m, origin_m, cell_m, num_cells, cell_starts, cell_rows = road.grid
    x, y = point_m[0], point_m[1]
    cell_x, cell_y = (x - origin_m[0]) / cell_m[0], (y - origin_m[1]) / cell_m[1]
    if not (0 <= cell_x < num_cells[0] and 0 <= cell_y < num_cells[1]):
        return 0
    cell, count = np.int64(cell_x) * num_cells[1] + np.int64(cell_y), 0
    for slot in range(cell_starts[cell], cell_starts[cell + 1]):
        row = cell_rows[slot]
        is_near = bounds_m[row, 0, 0] - radius_m < x < bounds_m[row, 1, 0] + radius_m
        is_near = is_near and bounds_m[row, 0, 1] - radius_m < y < bounds_m[row, 1, 1] + radius_m
        if is_near and count < len(near):
            near[count] = row
            count += 1
    return count


@njit(nogil=True, cache=True, error_model="numpy")
def _lanes_at(road: RoadArrays, point_m: Float64Array, lanes: Int64Array) -> int:
    """Write the lanes that hold a point, and return their number."""
    points_m, starts = road.areas
    kept = 0
    for slot in range(_areas_near(road, point_m, lanes)):
        row = lanes[slot]
        if row < len(road.is_in_junction) and is_inside_polygon(points_m[starts[row] : starts[row + 1]], point_m):
            lanes[kept] = row
            kept += 1
    return kept


@njit(nogil=True, cache=True, error_model="numpy")
def is_across(road: RoadArrays, box: Float64Array) -> bool:
    """Return whether the corners of a box lie neither in one lane nor in lanes that follow each other."""
    if len(road.areas[1]) == 1:
        return False
    rows, starts = np.empty(4 * _MOST_LANES, np.int64), np.zeros(5, np.int64)
    cos, sin, corner_m = math.cos(box[2]), math.sin(box[2]), np.empty(2)
    for corner in range(4):
        long_m = 0.5 * box[3] * (1.0 if corner < 2 else -1.0)
        wide_m = 0.5 * box[4] * (1.0 if corner % 2 == 0 else -1.0)
        corner_m[0] = box[0] + cos * long_m - sin * wide_m
        corner_m[1] = box[1] + sin * long_m + cos * wide_m
        first = starts[corner]
        starts[corner + 1] = first + _lanes_at(road, corner_m, rows[first : first + _MOST_LANES])
    lanes, corners = lanes_of_corners(rows, starts, road.ahead)
    return not hold_all_corners(lanes, corners, road.ahead)


@njit(nogil=True, cache=True, error_model="numpy")
def is_across_or_in_junction(road: RoadArrays, box: Float64Array, rear_m: Float64Array) -> bool:
    """Return whether a box is across lanes, or a lane of a junction holds its rear axle."""
    lanes = np.empty(_MOST_LANES, np.int64)
    for slot in range(_lanes_at(road, rear_m, lanes)):
        if road.is_in_junction[lanes[slot]]:
            return True
    return is_across(road, box)
