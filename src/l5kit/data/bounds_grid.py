"""Find the map elements around points of the world."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from l5kit._types import Float64Array, Int64Array

_MAX_CELLS = 256
"""Cells along an axis; a map of 15 km has cells as large as rasters usually are, larger maps have larger cells."""


@dataclass(frozen=True)
class BoundsGrid:
    """N bounds, and for each cell of a grid over the world those that come near some point of the cell.

    Attributes:
        bounds_m: Lowest and highest x and y, float64, shape (N, 2, 2).
        radius_m: Distance along both axes from which on bounds are too far away.
        origin_m: Lowest x and y of the grid, shape (2,).
        cell_m: Size of a cell, shape (2,).
        num_cells: Cells along x and y.
        cell_starts: First of the ``cell_rows`` of each cell and the end of the last one; y counts fastest.
        cell_rows: Bounds of each cell, ascending.
    """

    bounds_m: Float64Array
    radius_m: float
    origin_m: Float64Array
    cell_m: Float64Array
    num_cells: tuple[int, int]
    cell_starts: Int64Array
    cell_rows: Int64Array

    def __post_init__(self) -> None:
        for array in (self.bounds_m, self.origin_m, self.cell_m, self.cell_starts, self.cell_rows):
            array.setflags(write=False)

    @classmethod
    def build(cls, bounds_m: Float64Array, radius_m: float) -> "BoundsGrid":
        """Return the grid of bounds (N, 2, 2) for one radius; bounds that are not finite are near nothing."""
        bounds_m = np.array(bounds_m, dtype=np.float64)
        finite = bounds_m[np.isfinite(bounds_m).all(axis=(1, 2))]
        origin_m = finite[:, 0].min(axis=0, initial=np.inf) - radius_m if len(finite) else np.zeros(2)
        end_m = finite[:, 1].max(axis=0, initial=-np.inf) + radius_m if len(finite) else np.zeros(2)
        cell_m = np.maximum((end_m - origin_m) / _MAX_CELLS, radius_m)
        num_x, num_y = (np.floor((end_m - origin_m) / cell_m).astype(np.int64) + 1).tolist()
        starts, rows = _sort_into_cells(bounds_m, radius_m, origin_m, cell_m, (num_x, num_y))
        return cls(bounds_m, radius_m, origin_m, cell_m, (num_x, num_y), starts, rows)

    def find_near(self, points_m: Float64Array) -> tuple[Int64Array, Int64Array]:
        """Return the bounds that come closer than the radius to points along both axes.

        Args:
            points_m: World x and y, float64, shape (B, 2).

        Returns:
            The bounds of each point, ascending, one point after the other, and where those of each start, (B + 1,).
        """
        return _find_near(
            points_m,
            self.bounds_m,
            self.radius_m,
            self.origin_m,
            self.cell_m,
            self.num_cells,
            self.cell_starts,
            self.cell_rows,
        )


@njit(nogil=True, cache=True, error_model="numpy")
def _cell_of(position_m: float, origin_m: float, cell_m: float) -> int:
    """Return the cell along one axis; it never falls where the position grows, so that no rounding can hide bounds."""
    return int(np.floor((position_m - origin_m) / cell_m))


@njit(nogil=True, cache=True, error_model="numpy")
def _sort_into_cells(
    bounds_m: Float64Array, radius_m: float, origin_m: Float64Array, cell_m: Float64Array, num_cells: tuple[int, int]
) -> tuple[Int64Array, Int64Array]:
    """Return where the bounds of each cell start, and the bounds of all cells."""
    ranges = np.zeros((len(bounds_m), 2, 2), np.int64)
    starts = np.zeros(num_cells[0] * num_cells[1] + 1, np.int64)
    for row in range(len(bounds_m)):
        if not np.isfinite(bounds_m[row]).all():
            continue
        for axis in range(2):
            low, high = bounds_m[row, 0, axis] - radius_m, bounds_m[row, 1, axis] + radius_m
            ranges[row, 0, axis] = max(_cell_of(low, origin_m[axis], cell_m[axis]), 0)
            ranges[row, 1, axis] = min(_cell_of(high, origin_m[axis], cell_m[axis]) + 1, num_cells[axis])
        for x in range(ranges[row, 0, 0], ranges[row, 1, 0]):
            for y in range(ranges[row, 0, 1], ranges[row, 1, 1]):
                starts[x * num_cells[1] + y + 1] += 1
    starts = np.cumsum(starts)
    slots = starts.copy()
    rows = np.empty(starts[-1], np.int64)
    for row in range(len(bounds_m)):
        for x in range(ranges[row, 0, 0], ranges[row, 1, 0]):
            for y in range(ranges[row, 0, 1], ranges[row, 1, 1]):
                rows[slots[x * num_cells[1] + y]] = row
                slots[x * num_cells[1] + y] += 1
    return starts, rows


@njit(nogil=True, cache=True, error_model="numpy")
def _find_near(
    points_m: Float64Array,
    bounds_m: Float64Array,
    radius_m: float,
    origin_m: Float64Array,
    cell_m: Float64Array,
    num_cells: tuple[int, int],
    cell_starts: Int64Array,
    cell_rows: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Return what :meth:`BoundsGrid.find_near` returns."""
    starts = np.zeros(len(points_m) + 1, np.int64)
    cells = np.full(len(points_m), -1, np.int64)
    num_candidates = 0
    for point in range(len(points_m)):
        cell_x, cell_y = (points_m[point, 0] - origin_m[0]) / cell_m[0], (points_m[point, 1] - origin_m[1]) / cell_m[1]
        if 0 <= cell_x < num_cells[0] and 0 <= cell_y < num_cells[1]:
            cells[point] = np.int64(cell_x) * num_cells[1] + np.int64(cell_y)
            num_candidates += cell_starts[cells[point] + 1] - cell_starts[cells[point]]
    rows = np.empty(num_candidates, np.int64)
    num_rows = 0
    for point in range(len(points_m)):
        x, y = points_m[point, 0], points_m[point, 1]
        for slot in range(cell_starts[cells[point]], cell_starts[cells[point] + 1]) if cells[point] >= 0 else range(0):
            row = cell_rows[slot]
            if (
                bounds_m[row, 0, 0] - radius_m < x < bounds_m[row, 1, 0] + radius_m
                and bounds_m[row, 0, 1] - radius_m < y < bounds_m[row, 1, 1] + radius_m
            ):
                rows[num_rows] = row
                num_rows += 1
        starts[point + 1] = num_rows
    return rows[:num_rows], starts
