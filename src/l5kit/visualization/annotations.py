"""Outlines and labels of boxes in a raster."""

import cv2
import numpy as np

from l5kit._types import NumericArray, UInt8Array
from l5kit.errors import InvalidArgumentError
from l5kit.visualization.images import as_rgb
from l5kit.visualization.text import draw_text, text_size_px

_SHIFT = 4
"""Fractional bits of the pixel coordinates for OpenCV."""
_FAR_OUTSIDE_PX = 1e6
_INK: tuple[int, int, int] = (255, 255, 255)
_INK_OUTLINE: tuple[int, int, int] = (20, 20, 20)


def draw_box_outlines(
    image: NumericArray, corners_px: NumericArray, *, rgb_color: tuple[int, int, int], thickness: int = 1
) -> UInt8Array:
    """Return a copy of the picture with the outlines of all boxes.

    Args:
        image: uint8 picture in any form that :func:`l5kit.visualization.images.as_rgb` accepts.
        corners_px: ``[N, 4, 2]`` corners of each box in order, as (column, row).
        rgb_color: Red, green and blue, each 0 to 255.
        thickness: Line width in pixels.

    Returns:
        uint8 ``[H, W, 3]``.

    Raises:
        InvalidArgumentError: Corners or picture have a wrong form, or corners are not finite.
    """
    corners = _checked_corners(corners_px)
    canvas = as_rgb(image).copy()
    outlines = np.round(np.clip(corners, -_FAR_OUTSIDE_PX, _FAR_OUTSIDE_PX) * 2**_SHIFT).astype(np.int32)
    color = tuple(int(value) for value in rgb_color)
    cv2.polylines(canvas, list(outlines), True, color, thickness=int(thickness), lineType=cv2.LINE_AA, shift=_SHIFT)
    return canvas


def draw_box_labels(
    image: NumericArray, corners_px: NumericArray, *, texts: list[str], size_px: int = 11
) -> UInt8Array:
    """Return a copy of the picture with a text centred above every box whose centre is in the picture.

    Args:
        image: uint8 picture in any form that :func:`l5kit.visualization.images.as_rgb` accepts.
        corners_px: ``[N, 4, 2]`` corners of each box, as (column, row).
        texts: N lines.
        size_px: Font size.

    Returns:
        uint8 ``[H, W, 3]``.

    Raises:
        InvalidArgumentError: Corners or picture have a wrong form, corners are not finite, or there is not one text
            per box.
    """
    corners = _checked_corners(corners_px)
    if len(texts) != len(corners):
        raise InvalidArgumentError(f"texts has {len(texts)} entries for {len(corners)} boxes; give one per box")
    canvas = as_rgb(image)
    height, width = canvas.shape[:2]
    middles = corners.mean(axis=1)
    shown = np.flatnonzero(np.all((middles >= 0) & (middles < (width, height)), axis=1)).tolist()
    # a text is above the highest corner of its box, clipped to the picture
    anchors_px = np.zeros((len(shown), 2))
    for anchor_px, box in zip(anchors_px, shown, strict=True):
        text_width, text_height = text_size_px(texts[box], size_px=size_px)
        over_box = (middles[box, 0] - text_width / 2, corners[box, :, 1].min() - text_height - 2)
        anchor_px[:] = np.clip(over_box, 1, np.maximum((width - text_width - 1, height - text_height - 1), 1))
    kept = [texts[box] for box in shown]
    return draw_text(canvas, kept, np.rint(anchors_px), rgb_color=_INK, size_px=size_px, outline_rgb=_INK_OUTLINE)


def _checked_corners(corners_px: NumericArray) -> NumericArray:
    corners = np.asarray(corners_px, dtype=np.float64)
    if corners.size == 0:
        return np.zeros((0, 4, 2))
    if corners.ndim != 3 or corners.shape[1:] != (4, 2):
        raise InvalidArgumentError(f"corners_px has the shape {corners.shape}; allowed is [N, 4, 2]")
    if not np.isfinite(corners).all():
        raise InvalidArgumentError("corners_px has a value that is not finite; remove that box")
    return corners
