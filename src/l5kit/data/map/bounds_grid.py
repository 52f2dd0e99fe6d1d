"""Grid over the bounds of map elements, which finds those around points of the world."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes, require_starts
from l5kit.data.frame_rows import expand_ranges

_MAX_CELLS = 255
"""Cells along an axis, about; a map of 15 km has cells as large as rasters usually are, larger maps have larger cells.

It keeps the numbers of all cells within two bytes.
"""

_MOST_ENTRIES = 1_000_000
"""Bounds of all cells together from which on, if they also are many for each of the bounds, cells are made larger.

Elements of a map are in a few cells each; those that lie on each other over all of it would take a gigabyte.
"""

_MOST_CELLS_OF_BOUNDS = 64
"""Cells of each of the bounds, on average, that are many; a road has about ten."""


class GridArrays(NamedTuple):
    """The fields of a :class:`BoundsGrid` but the last, as kernels take them."""

    bounds_m: Float64Array
    radius_m: float
    origin_m: Float64Array
    cell_m: Float64Array
    num_cells: tuple[int, int]
    cell_starts: Int64Array
    cell_rows: Int64Array


@dataclass(frozen=True, eq=False)
class BoundsGrid(ReadOnlyArrays):
    """N bounds, and for each cell of a grid over the world those that come near some point of the cell.

    Attributes:
        bounds_m: Lowest and highest x and y, float64, shape (N, 2, 2).
        radius_m: Distance along both axes from which on bounds are too far away.
        origin_m: Lowest x and y of the grid, shape (2,).
        cell_m: Size of a cell, shape (2,).
        num_cells: Cells along x and y.
        cell_starts: First of the ``cell_rows`` of each cell and the end of the last one; y counts fastest.
        cell_rows: Bounds of each cell, ascending.
        most_in_cell: The largest number of bounds of a cell.
    """

    bounds_m: Float64Array
    radius_m: float
    origin_m: Float64Array
    cell_m: Float64Array
    num_cells: tuple[int, int]
    cell_starts: Int64Array
    cell_rows: Int64Array
    most_in_cell: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, bounds_m=(len(self.bounds_m), 2, 2), origin_m=(2,), cell_m=(2,))
        num_cells = self.num_cells[0] * self.num_cells[1]
        require_starts(self, "cell_starts", num_parts=num_cells, end=len(self.cell_rows))

    @classmethod
    def build(cls, bounds_m: Float64Array, radius_m: float) -> "BoundsGrid":
        """Return the grid of bounds (N, 2, 2) for one radius; bounds that are not finite are near nothing."""
        if bounds_m.flags.writeable or bounds_m.dtype != np.float64:
            bounds_m = np.array(bounds_m, dtype=np.float64)
        is_finite = np.isfinite(bounds_m).all(axis=(1, 2))
        finite = bounds_m[is_finite]
        origin_m = finite[:, 0].min(axis=0, initial=np.inf) - radius_m if len(finite) else np.zeros(2)
        end_m = finite[:, 1].max(axis=0, initial=-np.inf) + radius_m if len(finite) else np.zeros(2)
        # a cell is as large as the radius at least, so that bounds come near few cells
        cell_m = np.maximum((end_m - origin_m) / _MAX_CELLS, radius_m)
        # after as many doublings there is one cell
        for _ in range(_MAX_CELLS.bit_length()):
            num_x, num_y = (np.floor((end_m - origin_m) / cell_m).astype(np.int64) + 1).tolist()
            # the lowest cells that the bounds come near, and how many along both axes
            low = np.maximum(_cells_of(finite[:, 0] - radius_m, origin_m, cell_m), 0)
            high = np.minimum(_cells_of(finite[:, 1] + radius_m, origin_m, cell_m) + 1, (num_x, num_y))
            counts = np.maximum(high - low, 0)
            if counts.prod(axis=1).sum() <= max(_MOST_ENTRIES, _MOST_CELLS_OF_BOUNDS * len(finite)):
                break
            cell_m = 2 * cell_m

        # each of the bounds once for each column of cells that it touches, then once for each cell of that column
        columns = np.repeat(np.arange(len(finite)), counts[:, 0])
        first_cells = expand_ranges(low[:, 0], counts[:, 0]) * num_y + low[columns, 1]
        cells = expand_ranges(first_cells, counts[columns, 1])
        order = np.argsort(cells.astype(np.uint16), kind="stable")  # two bytes, for which NumPy's sort is a radix sort
        starts = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=num_x * num_y))])
        rows = np.flatnonzero(is_finite)[np.repeat(columns, counts[columns, 1])[order]]
        most_in_cell = int(np.diff(starts).max())
        return cls(bounds_m, float(radius_m), origin_m, cell_m, (num_x, num_y), starts, rows, most_in_cell)

    @cached_property
    def arrays(self) -> GridArrays:
        """All that finds bounds near a point, as kernels take it."""
        return GridArrays(**{name: getattr(self, name) for name in GridArrays._fields})

    def find_near(self, points_m: Float64Array) -> tuple[Int64Array, Int64Array]:
        """Return the bounds that come closer than the radius to points along both axes.

        Args:
            points_m: World x and y, float64, shape (B, 2).

        Returns:
            The bounds of each point, ascending, one point after the other, and where those of each start, (B + 1,).
        """
        rows, starts = np.empty(self.most_in_cell * len(points_m), np.int64), np.empty(len(points_m) + 1, np.int64)
        num_rows = write_near(points_m, tuple(self.arrays), rows, starts)
        return rows[:num_rows], starts


def _cells_of(positions_m: Float64Array, origin_m: Float64Array, cell_m: Float64Array) -> Int64Array:
    """Return the cells of positions (N, 2) along both axes.

    They never fall where a position grows, so that no rounding can hide bounds.
    """
    cells: Int64Array = np.floor((positions_m - origin_m) / cell_m).astype(np.int64)
    return cells


@kernel_jit
def write_near(points_m: Float64Array, grid_arrays: tuple[Any, ...], rows: Int64Array, starts: Int64Array) -> int:
    """Write what :meth:`BoundsGrid.find_near` returns, and return how many rows; the grid as :class:`GridArrays`."""
    grid, num_rows = GridArrays(*grid_arrays), 0
    starts[0] = 0
    for point in range(len(points_m)):
        num_rows += find_near_point(points_m[point, 0], points_m[point, 1], grid, rows[num_rows:])
        starts[point + 1] = num_rows
    return num_rows


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def find_near_point(x: float, y: float, grid: GridArrays, rows: Int64Array) -> int:
    """Write the bounds that come near a point, ascending, and return how many they are; for use inside kernels.

    Args:
        x: World x.
        y: World y.
        grid: As :attr:`BoundsGrid.arrays` has it.
        rows: Takes the bounds; there must be room for all of a cell.
    """
    bounds_m, radius_m, origin_m, cell_m, num_cells, cell_starts, cell_rows = grid
    num_rows = 0
    first, end = slots_of_cell(x, y, origin_m, cell_m, num_cells, cell_starts)
    for slot in range(first, end):
        row = cell_rows[slot]
        if is_near(x, y, bounds_m, row, radius_m):
            rows[num_rows] = row
            num_rows += 1
    return num_rows


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def slots_of_cell(
    x: float,
    y: float,
    origin_m: Float64Array,
    cell_m: Float64Array,
    num_cells: tuple[int, int],
    cell_starts: Int64Array,
) -> tuple[int, int]:
    """Return first and end place among the ``cell_rows`` of a grid of the cell that a point lies in."""
    cell_x, cell_y = (x - origin_m[0]) / cell_m[0], (y - origin_m[1]) / cell_m[1]
    if not (0 <= cell_x < num_cells[0] and 0 <= cell_y < num_cells[1]):
        return 0, 0
    cell = np.int64(cell_x) * num_cells[1] + np.int64(cell_y)
    return cell_starts[cell], cell_starts[cell + 1]


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def is_near(x: float, y: float, bounds_m: Float64Array, row: int, radius_m: float) -> bool:
    """Return whether some of the bounds (N, 2, 2) come closer than a radius to a point along both axes."""
    return bool(
        bounds_m[row, 0, 0] - radius_m < x < bounds_m[row, 1, 0] + radius_m
        and bounds_m[row, 0, 1] - radius_m < y < bounds_m[row, 1, 1] + radius_m
    )
