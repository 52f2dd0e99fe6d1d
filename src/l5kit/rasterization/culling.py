"""Which shapes can touch the picture at all."""

from typing import Final

from numba import njit

CULLING_MARGIN_PX: Final = 2.0
"""A shape that lies this far outside one edge of the picture touches no pixel; half a pixel is what was seen."""


@njit(nogil=True, cache=True, error_model="numpy")
def touches_picture(low: tuple[float, float], high: tuple[float, float], raster_size: tuple[int, int]) -> bool:
    """Return whether the upright box from the lowest to the highest column and row comes near the picture.

    Args:
        low: Lowest column and row.
        high: Highest column and row.
        raster_size: Width and height in pixels.
    """
    return bool(
        high[0] > -CULLING_MARGIN_PX
        and low[0] < raster_size[0] + CULLING_MARGIN_PX
        and high[1] > -CULLING_MARGIN_PX
        and low[1] < raster_size[1] + CULLING_MARGIN_PX
    )
