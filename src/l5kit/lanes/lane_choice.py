"""Lane choice: the lane that a vehicle with a given pose drives on, and arc lengths on lanes."""

import math
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.data.map.bounds_grid import GridArrays
from l5kit.data.map.centre_lines import LARGEST_TURN_RAD
from l5kit.geometry.polygon import arc_on_line, distance_to_polygon, is_inside_polygon, point_on_line
from l5kit.geometry.relative_pose import turn_between
from l5kit.lanes.driving_map import FARTHEST_LANE_M, DrivingMap


class LaneArrays(NamedTuple):
    """Some of the fields of :class:`~l5kit.lanes.driving_map.DrivingMap`, for kernels."""

    centre_lines_m: Float64Array
    arc_lengths_m: Float64Array
    area_starts: Int64Array
    area_points_m: Float64Array
    ahead_starts: Int64Array
    ahead_rows: Int64Array


def lane_arrays(driving_map: DrivingMap) -> LaneArrays:
    """Return the lanes of a map in the form that kernels use."""
    return LaneArrays(**{name: getattr(driving_map, name) for name in LaneArrays._fields})


@kernel_jit
def is_ahead(lanes: LaneArrays, lane: int, other: int) -> bool:
    """Return whether lane ``other`` follows ``lane`` without a lane change."""
    starts, rows = lanes.ahead_starts, lanes.ahead_rows
    is_present = False
    for slot in range(starts[lane], starts[lane + 1]):
        is_present |= rows[slot] == other
    return is_present


@kernel_jit
def arc_on_lane(lanes: LaneArrays, lane: int, point_m: Float64Array) -> tuple[float, float]:
    """Return the arc length of a centre line nearest to a point, and the heading of the line there."""
    position_m, heading_rad = arc_on_line(lanes.centre_lines_m[lane], lanes.arc_lengths_m[lane], point_m)
    return position_m, heading_rad


@kernel_jit
def point_on_lane(lanes: LaneArrays, lane: int, arc_m: float) -> tuple[float, float]:
    """Return world x and y of a centre line at an arc length, which may lie slightly outside of the line."""
    x, y = point_on_line(lanes.centre_lines_m[lane], lanes.arc_lengths_m[lane], arc_m)
    return x, y


@kernel_jit
def choose_lane(lanes: LaneArrays, grid: GridArrays, before: int, point_m: Float64Array, yaw_rad: float) -> int:
    """Return the lane that a vehicle with a given pose is on, -1 for none; ``before`` is its previous lane, or -1.

    Among the lanes that contain its centre, the order of preference is: the previous lane, a lane that follows it, the
    lane with the most similar heading, the first lane of the map. If no lane contains the centre, the nearest one is
    used. Lanes farther than :data:`FARTHEST_LANE_M`, or whose heading differs by more than :data:`LARGEST_TURN_RAD`,
    are excluded.
    """
    bounds_m, radius_m, origin_m, cell_m, num_cells, cell_starts, cell_rows = grid
    x, y = point_m[0], point_m[1]
    cell_x, cell_y = (x - origin_m[0]) / cell_m[0], (y - origin_m[1]) / cell_m[1]
    if not (0 <= cell_x < num_cells[0] and 0 <= cell_y < num_cells[1]):
        return -1
    # slice the areas here, as GPU functions cannot return a part of an array
    starts, points_m = lanes.area_starts, lanes.area_points_m
    if before >= 0 and is_inside_polygon(points_m[starts[before] : starts[before + 1]], point_m):
        turn = turn_between(arc_on_lane(lanes, before, point_m)[1], yaw_rad)
        if turn <= LARGEST_TURN_RAD:
            return before
    cell = np.int64(cell_x) * num_cells[1] + np.int64(cell_y)
    # rank successors of the previous lane first, then lanes that contain the centre, then lanes nearby
    best, best_rank, best_far_m, best_turn = -1, 9, np.inf, np.inf
    for slot in range(cell_starts[cell], cell_starts[cell + 1]):
        lane = cell_rows[slot]
        if not (bounds_m[lane, 0, 0] - radius_m < x < bounds_m[lane, 1, 0] + radius_m):
            continue
        if not (bounds_m[lane, 0, 1] - radius_m < y < bounds_m[lane, 1, 1] + radius_m):
            continue
        far_m = distance_to_polygon(points_m[starts[lane] : starts[lane + 1]], point_m)
        turn = turn_between(arc_on_lane(lanes, lane, point_m)[1], yaw_rad)
        if far_m > FARTHEST_LANE_M or turn > LARGEST_TURN_RAD:
            continue
        rank = 2 if far_m == 0.0 else 3
        if far_m == 0.0 and before >= 0 and is_ahead(lanes, before, lane):
            rank = 1
        if (rank, far_m, turn) < (best_rank, best_far_m, best_turn):
            best, best_rank, best_far_m, best_turn = lane, rank, far_m, turn
    return best


@kernel_jit
def straightest_ahead(lanes: LaneArrays, lane: int) -> int:
    """Return the successor with the smallest change of heading, the first of the map in a tie, or -1."""
    best, best_turn = -1, np.inf
    heading = _last_heading(lanes, lane)
    for slot in range(lanes.ahead_starts[lane], lanes.ahead_starts[lane + 1]):
        other = lanes.ahead_rows[slot]
        turn = turn_between(_last_heading(lanes, other), heading)
        is_equal = abs(turn - best_turn) <= 1e-6
        if (is_equal and other < best) or (not is_equal and turn < best_turn):
            best, best_turn = other, turn
    return best


@kernel_jit
def _last_heading(lanes: LaneArrays, lane: int) -> float:
    """Return the heading at the end of a centre line."""
    line = lanes.centre_lines_m[lane]
    return math.atan2(line[-1, 1] - line[-2, 1], line[-1, 0] - line[-2, 0])


def find_lanes_of_track(driving_map: DrivingMap, positions_m: Float64Array, yaws_rad: Float64Array) -> Int64Array:
    """Return the lane that a vehicle is on in each of its poses, by :func:`choose_lane`, -1 for none.

    Args:
        driving_map: The map.
        positions_m: World x and y of its centre in successive poses, float64 (F, 2).
        yaws_rad: World headings, float64 (F,).

    Returns:
        Rows of the map, int64 (F,).
    """
    chosen = np.empty(len(yaws_rad), np.int64)
    _write_lanes_of_track(lane_arrays(driving_map), driving_map.lane_grid.arrays, positions_m, yaws_rad, chosen)
    return chosen


@kernel_jit
def _write_lanes_of_track(
    lanes: LaneArrays, grid: GridArrays, positions_m: Float64Array, yaws_rad: Float64Array, chosen: Int64Array
) -> None:
    """Write the lane of each pose."""
    before = -1
    for row in range(len(yaws_rad)):
        before = choose_lane(lanes, grid, before, positions_m[row], yaws_rad[row])
        chosen[row] = before
