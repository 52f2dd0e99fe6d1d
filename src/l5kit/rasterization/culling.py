"""Culling: which shapes can touch the picture at all."""

from typing import Final

from numba import njit

CULLING_MARGIN_PX: Final = 2.0
"""A shape that lies this far outside one edge of the picture touches no pixel; half a pixel is what was seen."""


@njit(nogil=True, cache=True, error_model="numpy")
def touches_picture(
    column_low: float, row_low: float, column_high: float, row_high: float, raster_size: tuple[int, int]
) -> bool:
    """Return whether the upright box from the lowest to the highest column and row comes near the picture.

    Args:
        column_low: Lowest column.
        row_low: Lowest row.
        column_high: Highest column.
        row_high: Highest row.
        raster_size: Width and height in pixels.
    """
    return bool(
        column_high > -CULLING_MARGIN_PX
        and column_low < raster_size[0] + CULLING_MARGIN_PX
        and row_high > -CULLING_MARGIN_PX
        and row_low < raster_size[1] + CULLING_MARGIN_PX
    )
