"""Spatial grid over the bounds of map elements, for finding the elements near a point."""

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
"""Largest number of cells along an axis, approximately. Up to 15 km, cells are about as large as rasters usually are.

Numbers of cells fit into two bytes.
"""

_MOST_ENTRIES = 1_000_000
"""Entries of all cells together above which cells are enlarged, if :data:`_MOST_CELLS_OF_BOUNDS` is exceeded as well.

Map elements usually lie in a few cells each; many elements that each span the whole map would take a gigabyte.
"""

_MOST_CELLS_OF_BOUNDS = 64
"""Average number of cells per element above which cells are enlarged; a road has about ten."""


class GridArrays(NamedTuple):
    """The fields of a :class:`BoundsGrid` that kernels use: all except the last."""

    bounds_m: Float64Array
    radius_m: float
    origin_m: Float64Array
    cell_m: Float64Array
    num_cells: tuple[int, int]
    cell_starts: Int64Array
    cell_rows: Int64Array


@dataclass(frozen=True, eq=False)
class BoundsGrid(ReadOnlyArrays):
    """N bounds, and for each cell of a grid the bounds that come near some point of the cell.

    Attributes:
        bounds_m: Lowest and highest x and y, float64, shape (N, 2, 2).
        radius_m: Distance along either axis from which on bounds count as too far away.
        origin_m: Lowest x and y of the grid, shape (2,).
        cell_m: Size of a cell, shape (2,).
        num_cells: Cells along x and y.
        cell_starts: Start of each cell in ``cell_rows``, and the end of the last one; y varies fastest.
        cell_rows: Rows of the bounds of each cell, ascending.
        most_in_cell: The largest number of bounds in any cell.
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
        """Return the grid of bounds (N, 2, 2) for one radius; bounds that are not finite are never near a point."""
        if bounds_m.flags.writeable or bounds_m.dtype != np.float64:
            bounds_m = np.array(bounds_m, dtype=np.float64)
        is_finite = np.isfinite(bounds_m).all(axis=(1, 2))
        finite = bounds_m[is_finite]
        origin_m = finite[:, 0].min(axis=0, initial=np.inf) - radius_m if len(finite) else np.zeros(2)
        end_m = finite[:, 1].max(axis=0, initial=-np.inf) + radius_m if len(finite) else np.zeros(2)
        # cells are at least as large as the radius, so that each of the bounds is near few cells
        cell_m = np.maximum((end_m - origin_m) / _MAX_CELLS, radius_m)
        # after this many doublings a single cell is left
        for _ in range(_MAX_CELLS.bit_length()):
            num_x, num_y = (np.floor((end_m - origin_m) / cell_m).astype(np.int64) + 1).tolist()
            # the lowest cell that each of the bounds comes near, and the number of cells along both axes
            low = np.maximum(_cells_of(finite[:, 0] - radius_m, origin_m, cell_m), 0)
            high = np.minimum(_cells_of(finite[:, 1] + radius_m, origin_m, cell_m) + 1, (num_x, num_y))
            counts = np.maximum(high - low, 0)
            if counts.prod(axis=1).sum() <= max(_MOST_ENTRIES, _MOST_CELLS_OF_BOUNDS * len(finite)):
                break
            cell_m = 2 * cell_m

        # expand each of the bounds to the columns of cells that it touches, then to the cells of each column
        columns = np.repeat(np.arange(len(finite)), counts[:, 0])
        first_cells = expand_ranges(low[:, 0], counts[:, 0]) * num_y + low[columns, 1]
        cells = expand_ranges(first_cells, counts[columns, 1])
        order = np.argsort(cells.astype(np.uint16), kind="stable")  # NumPy sorts two-byte integers by radix
        starts = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=num_x * num_y))])
        rows = np.flatnonzero(is_finite)[np.repeat(columns, counts[columns, 1])[order]]
        most_in_cell = int(np.diff(starts).max())
        return cls(bounds_m, float(radius_m), origin_m, cell_m, (num_x, num_y), starts, rows, most_in_cell)

    @cached_property
    def arrays(self) -> GridArrays:
        """The arrays that kernels need to find bounds near a point."""
        return GridArrays(**{name: getattr(self, name) for name in GridArrays._fields})

    def find_near(self, points_m: Float64Array) -> tuple[Int64Array, Int64Array]:
        """Return the bounds that are closer than the radius along both axes, for each point.

        Args:
            points_m: World x and y, float64, shape (B, 2).

        Returns:
            Rows of the bounds near each point, ascending, point by point, and the start of each point's rows, (B + 1,).
        """
        rows, starts = np.empty(self.most_in_cell * len(points_m), np.int64), np.empty(len(points_m) + 1, np.int64)
        num_rows = write_near(points_m, tuple(self.arrays), rows, starts)
        return rows[:num_rows], starts


def _cells_of(positions_m: Float64Array, origin_m: Float64Array, cell_m: Float64Array) -> Int64Array:
    """Return the cells of positions (N, 2) along both axes.

    The result is monotonic in the position, so rounding never hides bounds.
    """
    cells: Int64Array = np.floor((positions_m - origin_m) / cell_m).astype(np.int64)
    return cells


@kernel_jit
def write_near(points_m: Float64Array, grid_arrays: tuple[Any, ...], rows: Int64Array, starts: Int64Array) -> int:
    """Write the result of :meth:`BoundsGrid.find_near` and return the number of rows; takes :class:`GridArrays`."""
    grid, num_rows = GridArrays(*grid_arrays), 0
    starts[0] = 0
    for point in range(len(points_m)):
        num_rows += find_near_point(points_m[point, 0], points_m[point, 1], grid, rows[num_rows:])
        starts[point + 1] = num_rows
    return num_rows


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def find_near_point(x: float, y: float, grid: GridArrays, rows: Int64Array) -> int:
    """Write the bounds that come near a point, ascending, and return their number; for use inside kernels.

    Args:
        x: World x.
        y: World y.
        grid: Fields of :attr:`BoundsGrid.arrays`.
        rows: Output for the rows of the bounds; must hold all rows of a cell.
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
    """Return start and end, in the ``cell_rows`` of a grid, of the cell that contains a point."""
    cell_x, cell_y = (x - origin_m[0]) / cell_m[0], (y - origin_m[1]) / cell_m[1]
    if not (0 <= cell_x < num_cells[0] and 0 <= cell_y < num_cells[1]):
        return 0, 0
    cell = np.int64(cell_x) * num_cells[1] + np.int64(cell_y)
    return cell_starts[cell], cell_starts[cell + 1]


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def is_near(x: float, y: float, bounds_m: Float64Array, row: int, radius_m: float) -> bool:
    """Return whether row ``row`` of the bounds (N, 2, 2) is closer to a point than a radius along both axes."""
    return bool(
        bounds_m[row, 0, 0] - radius_m < x < bounds_m[row, 1, 0] + radius_m
        and bounds_m[row, 0, 1] - radius_m < y < bounds_m[row, 1, 1] + radius_m
    )
