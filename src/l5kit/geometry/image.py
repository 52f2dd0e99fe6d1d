"""Rotated crops of images."""

import math

import cv2
import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import NumericArray
from l5kit.errors import InvalidArgumentError


def crop_rectangle_from_image(image: NumericArray, corners: ArrayLike) -> NumericArray:
    """Return the part of an image inside a rotated rectangle, turned upright.

    The rectangle is the one of least area around the corners; its sides are rounded down to whole pixels. Its angle is
    normalised to (0, 90] degrees, since versions of OpenCV differ in the range: the x axis of the result is the x axis
    of the image turned by that angle towards higher rows. Pixels outside the image are 0.

    Args:
        image: Shape (rows, columns) or (rows, columns, 3), uint8 or float32.
        corners: Corners as (row, column), in any order, shape (4, 2).

    Returns:
        Shape (height, width) or (height, width, 3), the dtype of ``image``.

    Raises:
        InvalidArgumentError: The shape or dtype is wrong, or a side of the rectangle is below one pixel.
    """
    points = np.asarray(corners, dtype=np.float32)
    if points.shape != (4, 2):
        raise InvalidArgumentError(f"corners has shape {points.shape}; pass four (row, column) corners, shape (4, 2)")
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in (1, 3)):
        raise InvalidArgumentError(f"image has shape {image.shape}; allowed are (rows, columns) and (rows, columns, 3)")
    if image.dtype not in (np.uint8, np.float32):
        raise InvalidArgumentError(f"image has dtype {image.dtype}; convert it to uint8 or float32")

    # rectangle of least area by OpenCV, with its angle in (0, 90] degrees: each quarter turn swaps the sides
    center_xy, (width, height), angle_deg = cv2.minAreaRect(np.ascontiguousarray(points[:, ::-1]))
    num_quarter_turns = math.ceil(angle_deg / 90.0) - 1
    if num_quarter_turns % 2:
        width, height = height, width
    angle_deg -= 90.0 * num_quarter_turns
    size = (int(width), int(height))
    if min(size) < 1:
        raise InvalidArgumentError(f"corners span {width:g} x {height:g} pixels; they must span at least 1 x 1")

    # canvas for the upright rectangle, shifted by whole pixels so that nothing is interpolated twice
    center, half_size = np.array(center_xy), 0.5 * np.array(size)
    shift_xy = np.maximum(0.0, np.ceil(half_size - center) + 1.0)
    canvas_width, canvas_height = np.ceil(center + shift_xy + half_size).astype(int) + 2
    upright_from_image = np.asarray(cv2.getRotationMatrix2D(center_xy, angle_deg, 1.0), dtype=np.float64)
    upright_from_image[:, 2] += shift_xy
    upright = cv2.warpAffine(image, upright_from_image, (int(canvas_width), int(canvas_height)))
    return cv2.getRectSubPix(upright, size, (center_xy[0] + shift_xy[0], center_xy[1] + shift_xy[1]))
