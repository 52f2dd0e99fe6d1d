"""Points of lane centre lines in a grid, and the search for those nearest to a vehicle."""

import math
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.data.array_shapes import as_kernel_tuple
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_paths import UNKNOWN_LIMIT_MPS

STEP_M = 4.0
"""Approximate distance between two points of a lane, metres."""

_CELL_M = 8.0
_MOST_CELLS = 1000
_SLACK_M = 1e-6


class LanePoints(NamedTuple):
    """P points of lane centre lines, sorted by the square cells of a grid over the world, as arrays for kernels.

    Attributes:
        positions_m: World x and y, float64 (P, 2).
        directions: Unit vector along the lane, world frame, float64 (P, 2).
        limits_mps: Speed limit of the lane, float64 (P,).
        lanes: Lane of each point, a row of the map, int64 (P,).
        origin_m: Lowest x and y of the grid, float64 (2,).
        cell_m: Size of a cell along both axes.
        num_cells: Number of cells along x and y.
        cell_starts: First point of each cell and the end of the last one, int64 (cells + 1,); y varies fastest.
    """

    positions_m: Float64Array
    directions: Float64Array
    limits_mps: Float64Array
    lanes: Int64Array
    origin_m: Float64Array
    cell_m: float
    num_cells: tuple[int, int]
    cell_starts: Int64Array

    @classmethod
    def of_map(cls, driving_map: DrivingMap | None, *, unknown_limit_mps: float = UNKNOWN_LIMIT_MPS) -> "LanePoints":
        """Return points of all lanes of a map, evenly spaced about 4 m apart on each lane; build them only once.

        A lane has at least one point, unless its length is 0.

        Args:
            driving_map: The lanes; None for none.
            unknown_limit_mps: Speed limit of lanes without one in the map, above 0.

        Raises:
            InvalidArgumentError: The limit is not above 0.
        """
        if not unknown_limit_mps > 0:
            raise InvalidArgumentError(f"unknown_limit_mps is {unknown_limit_mps}; pass metres per second above 0")
        if driving_map is None:
            return cls._sorted(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0), np.zeros(0, np.int64))

        # midpoints of equal parts of centre lines; the number of parts makes their length closest to 4 m
        centre_lines_m, arc_lengths_m = driving_map.centre_lines_m, driving_map.arc_lengths_m
        lengths_m = arc_lengths_m[:, -1]
        counts = np.where(lengths_m > 0, np.maximum(np.round(lengths_m / STEP_M), 1), 0).astype(np.int64)
        lanes = np.repeat(np.arange(len(counts)), counts)
        indices = np.arange(len(lanes)) - np.repeat(np.cumsum(counts) - counts, counts)
        arcs_m = (indices + 0.5) * (lengths_m / np.maximum(counts, 1))[lanes]

        # interpolate on the edges of the centre lines, which also give the directions
        edges = np.clip((arc_lengths_m[lanes] <= arcs_m[:, None]).sum(axis=1) - 1, 0, arc_lengths_m.shape[1] - 2)
        before_m, after_m = arc_lengths_m[lanes, edges], arc_lengths_m[lanes, edges + 1]
        start_m = centre_lines_m[lanes, edges]
        directions = (centre_lines_m[lanes, edges + 1] - start_m) / (after_m - before_m)[:, None]
        positions_m = start_m + (arcs_m - before_m)[:, None] * directions

        limits_mps = driving_map.speed_limits_mps[lanes]
        limits_mps = np.where(limits_mps > 0, limits_mps, unknown_limit_mps)
        return cls._sorted(positions_m, directions, limits_mps, lanes)

    @classmethod
    def _sorted(
        cls, positions_m: Float64Array, directions: Float64Array, limits_mps: Float64Array, lanes: Int64Array
    ) -> "LanePoints":
        """Return points sorted by cell, keeping their order within a cell."""
        # cells of 8 m, or larger ones if the world would need more than 1000 of them along an axis
        origin_m = positions_m.min(axis=0) if len(lanes) else np.zeros(2)
        size_m = positions_m.max(axis=0) - origin_m if len(lanes) else np.zeros(2)
        cell_m = max(_CELL_M, float(size_m.max()) / _MOST_CELLS)
        cells = np.floor((positions_m - origin_m) / cell_m).astype(np.int64)
        num_x, num_y = (np.floor(size_m / cell_m).astype(np.int64) + 1).tolist()
        cell_indices = cells[:, 0] * num_y + cells[:, 1]
        order = np.argsort(cell_indices, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(cell_indices, minlength=num_x * num_y))]).astype(np.int64)
        columns = positions_m[order], directions[order], limits_mps[order], lanes[order]
        return as_kernel_tuple(cls(*columns, origin_m, cell_m, (num_x, num_y), starts))


@kernel_jit
def insert_nearest(
    near: Int64Array, far_m2: Float64Array, most: int, count: int, number: int, squared_m2: float
) -> int:
    """Insert a number into the ``most`` nearest, sorted by distance, then by number; return the new count.

    If the buffer is full, the last one is dropped, which may be the new one.
    """
    if count == most:
        if most == 0 or squared_m2 > far_m2[most - 1] or (squared_m2 == far_m2[most - 1] and number > near[most - 1]):
            return count
        count -= 1
    index = count
    while index > 0:
        before_m2 = far_m2[index - 1]
        if before_m2 < squared_m2 or (before_m2 == squared_m2 and near[index - 1] < number):
            break
        near[index], far_m2[index] = near[index - 1], before_m2
        index -= 1
    near[index], far_m2[index] = number, squared_m2
    return count + 1


@kernel_jit
def _insert_points(
    positions_m: Float64Array,
    span: tuple[int, int],
    position: tuple[float, float, float],
    near: Int64Array,
    far_m2: Float64Array,
    most: int,
    count: int,
) -> int:
    """Insert points of a span into the nearest ones to a position, given with its squared reach; return the count."""
    x, y, reach_m2 = position
    for point in range(span[0], span[1]):
        x_m, y_m = positions_m[point, 0] - x, positions_m[point, 1] - y
        squared_m2 = x_m * x_m + y_m * y_m
        if squared_m2 <= reach_m2:
            count = insert_nearest(near, far_m2, most, count, point, squared_m2)
    return count


@kernel_jit
def find_nearest_points(
    points: LanePoints, position: tuple[float, float, float], near: Int64Array, far_m2: Float64Array, most: int
) -> int:
    """Write the points that are nearest to a world position, nearest first, ties by number.

    Rings of cells around the position are searched until no point outside of them can be nearer.

    Args:
        points: The points.
        position: World x and y, and the reach, beyond which points are ignored.
        near: Receives indices of points, int64 (``most`` or more,).
        far_m2: Receives their squared distances, float64, of the same length.
        most: Largest number of points.

    Returns:
        The number of points found.
    """
    positions_m, cell_starts, cell_m = points.positions_m, points.cell_starts, points.cell_m
    num_x, num_y = points.num_cells
    x, y, reach_m = position
    x_m, y_m = x - points.origin_m[0], y - points.origin_m[1]
    is_near = -reach_m <= x_m <= num_x * cell_m + reach_m and -reach_m <= y_m <= num_y * cell_m + reach_m
    if not is_near or most == 0:
        return 0

    # Ring 0 is the cell of the position and covers the distance to its nearest edge; each ring adds the size of a cell.
    cell_x, cell_y = math.floor(x_m / cell_m), math.floor(y_m / cell_m)
    part_x, part_y = x_m - cell_x * cell_m, y_m - cell_y * cell_m
    edge_m = min(min(part_x, cell_m - part_x), min(part_y, cell_m - part_y)) - _SLACK_M
    squared = (x, y, reach_m * reach_m)
    count, ring = 0, 0
    last_ring = max(max(cell_x, num_x - 1 - cell_x), max(cell_y, num_y - 1 - cell_y))
    while True:
        for column in range(max(cell_x - ring, 0), min(cell_x + ring + 1, num_x)):
            # all cells of the outer columns of a ring, the lowest and the highest one of the others
            is_side = abs(column - cell_x) == ring
            height = 2 * ring + 1 if is_side else 1
            for row in range(cell_y - ring, cell_y + ring + 1, height if is_side else 2 * ring):
                low, high = max(row, 0), min(row + height, num_y)
                if low < high:
                    span = (cell_starts[column * num_y + low], cell_starts[column * num_y + high])
                    count = _insert_points(positions_m, span, squared, near, far_m2, most, count)
        seen_m = edge_m + ring * cell_m
        has_seen_all = ring >= last_ring or seen_m > reach_m
        if has_seen_all or (count == most and seen_m > 0 and far_m2[most - 1] < seen_m * seen_m):
            return count
        ring += 1
