"""Drawing with OpenCV at a 512th of a pixel."""

from typing import Final, TypedDict

import cv2
import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Int64Array


class SubpixelArguments(TypedDict):
    """Keyword arguments that OpenCV's drawing functions take for sub-pixel coordinates."""

    shift: int
    lineType: int


CV2_SUB_VALUES: Final[SubpixelArguments] = {"shift": 9, "lineType": cv2.LINE_AA}
"""Keyword arguments for OpenCV's drawing functions: fractional bits of the coordinates, anti-aliased lines."""

CV2_SHIFT_VALUE: Final = 2**9
"""Sub-pixel units per pixel."""


def cv2_subpixel(coords: ArrayLike) -> Int64Array:
    """Return pixel coordinates in 512ths of a pixel, cut off toward zero.

    Args:
        coords: Any shape.

    Returns:
        The shape of ``coords``.
    """
    units: Int64Array = (np.asarray(coords) * CV2_SHIFT_VALUE).astype(np.int64)
    return units
