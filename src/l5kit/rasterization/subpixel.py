"""Subpixel positions in 512ths of a pixel, as in OpenCV, and a test whether shapes can touch an image."""

from typing import Final, TypedDict

import cv2
import numpy as np
from numpy.typing import ArrayLike

from l5kit._kernels import kernel_jit
from l5kit._types import Int64Array


class SubpixelArguments(TypedDict):
    """Keyword arguments that OpenCV's drawing functions take for sub-pixel coordinates."""

    shift: int
    lineType: int


CV2_SUB_VALUES: Final[SubpixelArguments] = {"shift": 9, "lineType": cv2.LINE_AA}
"""Keyword arguments for OpenCV's drawing functions: fractional bits of the coordinates, anti-aliased lines."""

CV2_SHIFT_VALUE: Final = 2**9
"""Sub-pixel units per pixel."""

_END_INT64: Final = 2.0**63


def cv2_subpixel(coords: ArrayLike) -> Int64Array:
    """Return pixel coordinates in 512ths of a pixel, truncated toward zero.

    Args:
        coords: Any shape.

    Returns:
        The shape of ``coords``.
    """
    units: Int64Array = (np.asarray(coords) * CV2_SHIFT_VALUE).astype(np.int64)
    return units


@kernel_jit
def subpixel_of(position_px: float) -> np.int32:
    """Return a coordinate in 512ths of a pixel, truncated toward zero and to its low 32 bits; for use inside kernels.

    Values beyond int64, and NaN, give 0, as on x86; otherwise results would depend on the device.
    """
    units = position_px * CV2_SHIFT_VALUE
    return np.int32(np.int64(units)) if abs(units) < _END_INT64 else np.int32(0)


CULLING_MARGIN_PX: Final = 2.0
"""A shape this far outside the image touches no pixel; the observed limit is half a pixel."""


@kernel_jit
def touches_picture(
    column_low: float, row_low: float, column_high: float, row_high: float, raster_size: tuple[int, int]
) -> bool:
    """Return whether the upright box from the lowest to the highest column and row comes near the image.

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
