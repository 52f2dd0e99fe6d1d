"""Drawing of trajectories into rasters."""

import math
from typing import Final

import cv2
import numpy as np

from l5kit._types import Float64Array, Int64Array, NumericArray, UInt8Array
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import transform_points

__all__ = [
    "ARROW_LENGTH_IN_PIXELS",
    "ARROW_THICKNESS_IN_PIXELS",
    "ARROW_TIP_LENGTH_IN_PIXELS",
    "PREDICTED_POINTS_COLOR",
    "REFERENCE_TRAJ_COLOR",
    "TARGET_POINTS_COLOR",
    "draw_arrowed_line",
    "draw_reference_trajectory",
    "draw_trajectory",
]

PREDICTED_POINTS_COLOR: Final = (0, 255, 255)
"""RGB cyan."""
TARGET_POINTS_COLOR: Final = (255, 0, 255)
"""RGB magenta."""
REFERENCE_TRAJ_COLOR: Final = (255, 255, 0)
"""RGB yellow."""

ARROW_LENGTH_IN_PIXELS: Final = 2
ARROW_THICKNESS_IN_PIXELS: Final = 1
ARROW_TIP_LENGTH_IN_PIXELS: Final = 1.8
"""Length of the tip as a multiple of the length of the arrow."""

_FAR_OUTSIDE_PX = 1e6
"""Coordinate beyond any picture, yet within OpenCV's 32 bit coordinates."""


def draw_trajectory(
    on_image: UInt8Array,
    positions: NumericArray,
    rgb_color: tuple[int, int, int],
    radius: int = 1,
    yaws: NumericArray | None = None,
    *,
    raster_from_agent: NumericArray | None = None,
) -> None:
    """Draw points into a picture as filled circles, or as small arrows if yaws are given.

    Args:
        on_image: uint8 ``[H, W, 3]``, changed in place.
        positions: ``[N, >=2]`` pixels as (column, row); fractions are truncated.
        rgb_color: Red, green and blue, each 0 to 255.
        radius: Radius of the circles in pixels: 1 for the pixel and its four neighbours, 0 for the pixel alone. Unused
            for arrows.
        yaws: ``[N, 1]`` or ``[N]`` radians.
        raster_from_agent: ``[3, 3]``, from the frame in which the yaws are measured to pixels, so that arrows match the
            raster, whatever its origin. Without it, yaws are measured in image axes, where rows grow downwards and a
            positive yaw points down: the wrong direction on a raster with its origin at the bottom.

    Raises:
        InvalidArgumentError: A shape or type is wrong, the numbers of positions and yaws differ, or a value is not
            finite.
    """
    pixels = _checked_points(positions)
    canvas = _checked_canvas(on_image)
    if yaws is None:
        _draw_dots(canvas, _truncated(pixels), rgb_color, radius=radius)
        _hand_back(canvas, on_image)
        return
    yaws_rad = np.asarray(yaws, dtype=np.float64)
    if yaws_rad.size != len(pixels):
        raise InvalidArgumentError(
            f"yaws has the shape {yaws_rad.shape} for {len(pixels)} positions; give one per position"
        )
    if not np.isfinite(yaws_rad).all():
        raise InvalidArgumentError("yaws has a value that is not finite; remove that position")
    # unit directions, rotated like the raster
    yaws_rad = yaws_rad.reshape(-1)
    directions = np.stack([np.cos(yaws_rad), np.sin(yaws_rad)], axis=1)
    if raster_from_agent is not None:
        matrix = np.asarray(raster_from_agent, dtype=np.float64)
        if matrix.shape != (3, 3) or not abs(np.linalg.det(matrix)) > 0:
            raise InvalidArgumentError(
                f"raster_from_agent is {matrix.tolist()}; allowed is an invertible [3, 3] matrix"
            )
        directions = directions @ matrix[:2, :2].T
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    tips = _truncated(pixels + np.asarray(ARROW_LENGTH_IN_PIXELS * directions, dtype=np.float64))
    # An arrow is a shaft and the two strokes of its tip at 45 degrees to the shaft. OpenCV's arrowedLine drew the same
    # before version 4.14, which refuses tips longer than their arrow.
    for start, tip in zip(_truncated(pixels).tolist(), tips.tolist(), strict=True):
        back = (start[0] - tip[0], start[1] - tip[1])
        length = ARROW_TIP_LENGTH_IN_PIXELS * math.hypot(*back)
        angles_rad = [math.atan2(back[1], back[0]) + side * math.pi / 4 for side in (1, -1)]
        barbs = [[round(tip[0] + length * math.cos(a)), round(tip[1] + length * math.sin(a))] for a in angles_rad]
        for end in (start, *barbs):
            cv2.line(canvas, end, tip, _plain(rgb_color), ARROW_THICKNESS_IN_PIXELS)
    _hand_back(canvas, on_image)


def draw_arrowed_line(
    on_image: UInt8Array,
    position: NumericArray,
    yaw: float,
    rgb_color: tuple[int, int, int],
    *,
    raster_from_agent: NumericArray | None = None,
) -> None:
    """Draw one arrow of :func:`draw_trajectory`.

    Args:
        on_image: uint8 ``[H, W, 3]``, changed in place.
        position: ``[>=2]`` pixels as (column, row).
        yaw: Radians; a number or an array with one element.
        rgb_color: Red, green and blue, each 0 to 255.
        raster_from_agent: As in :func:`draw_trajectory`.

    Raises:
        InvalidArgumentError: As in :func:`draw_trajectory`.
    """
    draw_trajectory(
        on_image, np.asarray(position)[None], rgb_color, yaws=np.asarray(yaw), raster_from_agent=raster_from_agent
    )


def draw_reference_trajectory(on_image: UInt8Array, world_to_pixel: NumericArray, positions: NumericArray) -> None:
    """Draw world positions inside the picture in :data:`REFERENCE_TRAJ_COLOR`; others are skipped.

    Args:
        on_image: uint8 ``[H, W, 3]``, changed in place.
        world_to_pixel: ``[3, 3]``, from world metres to pixels (the ``raster_from_world`` of a sample).
        positions: ``[N, 2]`` world metres.

    Raises:
        InvalidArgumentError: A shape or type is wrong, or a value is not finite.
    """
    canvas = _checked_canvas(on_image)
    positions_m = _checked_points(positions)
    height, width = canvas.shape[:2]
    pixels = transform_points(positions_m, np.asarray(world_to_pixel, dtype=np.float64))
    inside = np.all((pixels > 0) & (pixels < (width, height)), axis=1)
    _draw_dots(canvas, _truncated(np.floor(pixels[inside])), REFERENCE_TRAJ_COLOR, radius=1)
    _hand_back(canvas, on_image)


def _checked_canvas(on_image: UInt8Array) -> UInt8Array:
    """Return the picture itself, or a contiguous copy if OpenCV cannot draw into it."""
    if not isinstance(on_image, np.ndarray) or on_image.dtype != np.uint8 or on_image.shape[2:] != (3,):
        raise InvalidArgumentError(
            f"on_image is {getattr(on_image, 'dtype', type(on_image).__name__)} of shape {np.shape(on_image)}; "
            "allowed is uint8 [H, W, 3], as returned by rasterizer.to_rgb(...)"
        )
    if not on_image.flags.writeable:
        raise InvalidArgumentError("on_image is read-only; give a writable copy")
    return np.ascontiguousarray(on_image)


def _hand_back(canvas: UInt8Array, on_image: UInt8Array) -> None:
    if canvas is not on_image:
        on_image[...] = canvas


def _checked_points(positions: NumericArray) -> Float64Array:
    points = np.asarray(positions, dtype=np.float64)
    if points.size == 0:
        return np.zeros((0, 2))
    if points.ndim != 2 or points.shape[1] < 2:
        raise InvalidArgumentError(f"positions has the shape {points.shape}; allowed is [N, 2] or wider, x and y first")
    if not np.isfinite(points[:, :2]).all():
        bad = int(np.flatnonzero(~np.isfinite(points[:, :2]).all(axis=1))[0])
        raise InvalidArgumentError(f"positions[{bad}] is {points[bad, :2]}; remove positions that are not finite")
    return points[:, :2]


def _truncated(pixels: Float64Array) -> Int64Array:
    return np.clip(pixels, -_FAR_OUTSIDE_PX, _FAR_OUTSIDE_PX).astype(np.int64)


def _draw_dots(canvas: UInt8Array, pixels: Int64Array, rgb_color: tuple[int, int, int], *, radius: int) -> None:
    for column, row in pixels.tolist():
        cv2.circle(canvas, (column, row), int(radius), _plain(rgb_color), -1)


def _plain(rgb_color: tuple[int, int, int]) -> tuple[int, ...]:
    """Return the colour as Python ints, since OpenCV refuses NumPy integers."""
    return tuple(int(value) for value in rgb_color)
