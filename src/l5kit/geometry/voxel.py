"""Voxel grids: counts of points per cell."""

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from l5kit._types import BoolArray, NumericArray
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError


def points_within_bounds(coords: ArrayLike, shape: ArrayLike) -> BoolArray:
    """Return which points are inside a grid: each coordinate at least 0 and below the length of the grid on that axis.

    Args:
        coords: Shape (N, D), D = 3 for voxels.
        shape: Cells on each axis, shape (D,).

    Returns:
        Shape (N,).

    Raises:
        InvalidArgumentError: The shapes do not match.
    """
    points, lengths = np.asarray(coords), np.asarray(shape)
    if lengths.ndim != 1 or points.ndim != 2 or points.shape[1] != len(lengths):
        raise InvalidArgumentError(
            f"coords has shape {points.shape} and shape has shape {lengths.shape}; pass (N, D) and (D,) with the same D"
        )
    inside: BoolArray = np.all((points >= 0) & (points < lengths), axis=1)
    return inside


def voxel_coords_to_intensity_grid(
    voxel_coords: ArrayLike,
    shape: tuple[int, ...],
    dtype: DTypeLike = np.float32,
    drop_out_of_bounds: bool = True,
) -> NumericArray:
    """Return the number of points in each cell of a grid.

    Args:
        voxel_coords: Cell of each point, integers of shape (N, D).
        shape: Cells on each axis, D of them.
        dtype: Dtype of the result.
        drop_out_of_bounds: Whether points outside the grid are skipped. If not, coordinates down to ``-length`` count
            from the end of their axis, like NumPy indices, and anything further out is an error.

    Returns:
        Array of shape ``shape``.

    Raises:
        InvalidArgumentError: ``voxel_coords`` are not integers, or the shapes do not match.
        IndexOutOfRangeError: A coordinate is outside the grid and ``drop_out_of_bounds`` is False.
    """
    coords = np.asarray(voxel_coords)
    if coords.size and not np.issubdtype(coords.dtype, np.integer):
        raise InvalidArgumentError(f"voxel_coords has dtype {coords.dtype}; pass integers (cells, not metres)")
    if drop_out_of_bounds:
        coords = coords[points_within_bounds(coords, shape)]
    else:
        # negative coordinates count from the end of their axis
        lengths = np.asarray(shape, dtype=np.int64)
        wrapped = np.where(coords < 0, coords + lengths, coords)
        outside = ~points_within_bounds(wrapped, lengths)
        if outside.any():
            row = int(np.argmax(outside))
            raise IndexOutOfRangeError(
                f"voxel_coords[{row}] is {coords[row].tolist()}, outside the grid of shape {tuple(shape)};"
                " pass drop_out_of_bounds=True to leave such points out"
            )
        coords = wrapped
    cells = np.ravel_multi_index(tuple(coords.T.astype(np.int64)), shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(dtype)


def normalize_intensity(x: ArrayLike, max_intensity: float) -> NumericArray:
    """Return intensities divided by a maximum and clipped to [0, 1].

    Args:
        x: Intensities, any shape.
        max_intensity: Intensity that becomes 1.
    """
    return np.clip(np.asarray(x) / max_intensity, 0, 1)
