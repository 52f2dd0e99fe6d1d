"""Aerial images, and rotated and scaled crops of them.

Points in the image are (row, column), as in L5Kit 1.5.
"""

import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Float64Array, Int64Array, NumericArray, UInt8Array
from l5kit.configs.parameters import OUT_OF_BOUNDS_MODES
from l5kit.configs.texts import require_regular_file
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, InvalidArgumentError, UnsupportedValueError
from l5kit.geometry.transform import transform_point
from l5kit.rasterization.turned_crop import can_turn_and_scale, start_of_middle, turn_and_scale


class AerialImage:
    """Pixels of an aerial image, and the file that they were read from.

    If there is a file, pickling stores its path instead of the pixels; the receiving process reads the file again.

    Attributes:
        pixels: RGB, uint8, shape (rows, columns, 3).
        path: File that the pixels were read from, or None.
    """

    def __init__(self, pixels: UInt8Array, path: str | None = None) -> None:
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise InvalidArgumentError(
                f"map_im has shape {pixels.shape} and dtype {pixels.dtype}; pass uint8 RGB, shape (rows, columns, 3)"
            )
        self.pixels = pixels
        self.path = path

    @classmethod
    def from_file(cls, path: str) -> "AerialImage":
        """Read an image in any format that OpenCV knows; errors as in :func:`read_aerial_pixels`."""
        return cls(read_aerial_pixels(path), path)

    def __reduce__(self) -> tuple[object, ...]:
        return (AerialImage, (self.pixels,)) if self.path is None else (AerialImage.from_file, (self.path,))


def read_aerial_pixels(path: str) -> UInt8Array:
    """Return the pixels of an image file, RGB, shape (rows, columns, 3), read-only.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptedDataError: OpenCV cannot read the file as an image.
    """
    require_regular_file(path, called="picture file")
    with open(path, "rb") as file:
        content = np.frombuffer(file.read(), np.uint8)
    try:
        bgr = cv2.imdecode(content, cv2.IMREAD_COLOR) if content.size else None
    except cv2.error as error:  # headers with impossible sizes, for example
        raise CorruptedDataError(f"{path} is not an image that OpenCV can read ({error}); replace the file") from error
    if bgr is None:
        raise CorruptedDataError(f"{path} is not an image that OpenCV can read; replace the file")
    pixels: UInt8Array = np.ascontiguousarray(bgr[..., ::-1])
    pixels.setflags(write=False)
    return pixels


_MAX_BLACK_PX = 2**24
"""Maximum number of pixels by which a crop may exceed the whole image; these are padded with black."""


def get_sat_image_crop(
    sat_image: NumericArray,
    crop_size: ArrayLike,
    sat_pixel_translation: ArrayLike,
    yaw: float | None = None,
    *,
    out_of_bounds: str = "error",
) -> NumericArray:
    """Return a crop around a point at the scale of the image.

    Args:
        sat_image: Shape (rows, columns) or (rows, columns, channels).
        crop_size: Rows and columns of the crop, shape (>= 2,).
        sat_pixel_translation: Row and column of the centre, shape (>= 2,).
        yaw: Counter-clockwise rotation of the image around the centre in radians; None for none.
        out_of_bounds: ``error``, or ``pad`` to fill the area outside the image with 0.

    Returns:
        Shape (rows, columns, ...) of ``crop_size``; a view of ``sat_image`` without rotation and padding.

    Raises:
        IndexOutOfRangeError: The square to read, sqrt(2) times larger for a rotated crop, is not inside the image
            without its last row and column.
        InvalidArgumentError: ``crop_size`` or ``sat_pixel_translation`` has fewer than two entries.
    """
    size = _as_crop_size(crop_size)
    if yaw is None:
        return _get_sat_image_crop_without_rotation(sat_image, size, sat_pixel_translation, out_of_bounds=out_of_bounds)
    return _turn(_cut_to_turn(sat_image, size, sat_pixel_translation, out_of_bounds), yaw, size)


def get_sat_image_crop_scaled(
    sat_image: NumericArray,
    crop_size: ArrayLike,
    sat_pixel_translation: ArrayLike,
    yaw: float | None = None,
    sat_pixel_scale: float = 1.0,
    pixel_size: ArrayLike = 1.0,
    interpolation: int = cv2.INTER_LINEAR,
    *,
    out_of_bounds: str = "error",
) -> NumericArray:
    """Return a crop around a point, rotated and scaled.

    Args:
        sat_image: Shape (rows, columns) or (rows, columns, channels).
        crop_size: Width and height of the result in pixels, shape (>= 2,).
        sat_pixel_translation: Row and column of the centre in ``sat_image``, shape (>= 2,).
        yaw: Counter-clockwise rotation of the image around the centre in radians; None for none.
        sat_pixel_scale: Metres per pixel of ``sat_image``.
        pixel_size: Metres per pixel of the result, one number or one for each axis.
        interpolation: OpenCV's name of the interpolation.
        out_of_bounds: ``error``, or ``pad`` to fill the area outside the image with 0.

    Returns:
        Shape (height, width, ...).

    Raises:
        IndexOutOfRangeError: As in :func:`get_sat_image_crop`.
        InvalidArgumentError: ``crop_size`` or ``sat_pixel_translation`` has fewer than two entries, or the crop is
            smaller than one pixel of ``sat_image`` or far larger than all of it.
    """
    width, height = _as_crop_size(crop_size)[:2].tolist()
    sat_size = aerial_crop_size((width, height), sat_image.shape, sat_pixel_scale, pixel_size)
    if sat_image.dtype == np.uint8 and sat_image.shape[2:] == (3,):
        planes = np.empty((3, height, width), np.uint8)
        write_scaled_crop(
            planes,
            sat_image,
            sat_pixel_translation,
            yaw,
            sat_size,
            interpolation=interpolation,
            out_of_bounds=out_of_bounds,
        )
        return np.ascontiguousarray(planes.transpose(1, 2, 0))
    crop = get_sat_image_crop(sat_image, sat_size, sat_pixel_translation, yaw, out_of_bounds=out_of_bounds)
    return _scale_crop(crop, (height, width), interpolation)


def write_scaled_crop(
    planes: UInt8Array,
    sat_image: UInt8Array,
    sat_pixel_translation: ArrayLike,
    yaw: float | None,
    sat_size: tuple[int, int],
    *,
    interpolation: int = cv2.INTER_LINEAR,
    out_of_bounds: str = "error",
    upside_down: bool = False,
) -> None:
    """Write a crop of :func:`get_sat_image_crop_scaled` into planes.

    Args:
        planes: Output, uint8, C-contiguous, shape (3, height, width).
        sat_image: Shape (rows, columns, 3), uint8.
        sat_pixel_translation: Row and column of the centre in ``sat_image``, shape (>= 2,).
        yaw: Counter-clockwise rotation of the image around the centre in radians; None for none.
        sat_size: Rows and columns of the image in the crop, from :func:`aerial_crop_size`.
        interpolation: OpenCV's name of the interpolation.
        out_of_bounds: ``error``, or ``pad`` to fill the area outside the image with 0.
        upside_down: Whether the last row is written first.

    Raises:
        IndexOutOfRangeError: As in :func:`get_sat_image_crop`.
    """
    if yaw is None:
        crop = get_sat_image_crop(sat_image, sat_size, sat_pixel_translation, out_of_bounds=out_of_bounds)
    else:
        large, side = _cut_to_turn(sat_image, sat_size, sat_pixel_translation, out_of_bounds), max(planes.shape[1:])
        if interpolation == cv2.INTER_LINEAR and can_turn_and_scale(large, yaw, sat_size, side):
            turn_and_scale(large, yaw, sat_size, side, planes, upside_down=upside_down)
            return
        crop = _turn(large, yaw, sat_size)
    scaled = _scale_crop(crop, planes.shape[1:], interpolation)
    np.copyto(planes, (scaled[::-1] if upside_down else scaled).transpose(2, 0, 1))


def aerial_crop_size(
    crop_size: tuple[int, int], picture_shape: tuple[int, ...], sat_pixel_scale: float, pixel_size: ArrayLike
) -> tuple[int, int]:
    """Return rows and columns of an aerial image that a crop covers.

    A crop is a square of its longer side; a rotated crop reads sqrt(2) times as much of the image.

    Args:
        crop_size: Width and height of the crop in pixels.
        picture_shape: Shape of the image, which starts with rows and columns.
        sat_pixel_scale: Metres per pixel of the image.
        pixel_size: Metres per pixel of the crop, one number or one for each axis.

    Raises:
        InvalidArgumentError: The crop covers less than a pixel of the image, or far more than all of it.
    """
    side = max(crop_size)
    side_m = np.array([side, side]) * np.asarray(pixel_size, np.float64)
    sides_px = np.round(side_m / sat_pixel_scale).tolist()
    area_px = 2 * sides_px[0] * sides_px[1]
    covers = f"a crop of {side} pixels of {np.asarray(pixel_size).tolist()} m covers"
    if not min(sides_px) >= 1:
        raise InvalidArgumentError(
            f"{covers} less than one pixel of the aerial picture ({sat_pixel_scale:g} m); use a larger raster_size or "
            "pixel_size, if the matrices of meta.json are right"
        )
    if not area_px <= picture_shape[0] * picture_shape[1] + _MAX_BLACK_PX:
        raise InvalidArgumentError(
            f"{covers} {sides_px[0]:,.0f} x {sides_px[1]:,.0f} pixels of an aerial picture that has {picture_shape[0]} "
            f"x {picture_shape[1]} of {sat_pixel_scale:g} m; use a smaller raster_size or pixel_size, if the matrices "
            "of meta.json and the picture belong together"
        )
    return int(sides_px[0]), int(sides_px[1])


def get_sat_image_crop_scaled_from_ecef(
    sat_image: NumericArray, crop_size: ArrayLike, ecef_translation: ArrayLike, ecef_to_sat: Float64Array, **kwargs: Any
) -> NumericArray:
    """Return :func:`get_sat_image_crop_scaled` around a point given in ECEF.

    Args:
        sat_image: Shape (rows, columns) or (rows, columns, channels).
        crop_size: Width and height of the result in pixels, shape (>= 2,).
        ecef_translation: ECEF position of the centre in metres, shape (3,).
        ecef_to_sat: Row and column of the image from ECEF, shape (4, 4).
        **kwargs: The other arguments of :func:`get_sat_image_crop_scaled`.

    Returns:
        Shape (height, width, ...).
    """
    center = transform_point(np.asarray(ecef_translation), ecef_to_sat)
    return get_sat_image_crop_scaled(sat_image, crop_size, center, **kwargs)


def _get_sat_image_crop_without_rotation(
    sat_image: NumericArray, crop_size: ArrayLike, sat_pixel_translation: ArrayLike, *, out_of_bounds: str = "error"
) -> NumericArray:
    """Return the unrotated crop of ``crop_size`` rows and columns around a point; a view if inside the image."""
    size, center = _as_crop_size(crop_size)[:2], np.asarray(sat_pixel_translation, dtype=np.float64)
    if center.ndim != 1 or len(center) < 2:
        raise InvalidArgumentError(f"sat_pixel_translation is {sat_pixel_translation!r}; pass row and column")
    if out_of_bounds not in OUT_OF_BOUNDS_MODES:
        raise UnsupportedValueError(f"out_of_bounds is {out_of_bounds!r}; use one of {OUT_OF_BOUNDS_MODES}")
    start = (center[:2] - size // 2).astype(np.int64)
    end = start + size
    image_size = np.array(sat_image.shape[:2])
    if (start >= 0).all() and (end < image_size).all():
        return sat_image[start[0] : end[0], start[1] : end[1]]
    if out_of_bounds == "pad":
        # copy the part inside the image into zeros
        crop: NumericArray = np.zeros((*(end - start), *sat_image.shape[2:]), sat_image.dtype)
        low = np.clip(start, 0, sat_image.shape[:2])
        high = np.clip(end, low, sat_image.shape[:2])
        rows, columns = (slice(first, last) for first, last in zip(low - start, high - start, strict=True))
        crop[rows, columns] = sat_image[low[0] : high[0], low[1] : high[1]]
        return crop
    raise IndexOutOfRangeError(
        f"the crop needs rows {start[0]} to {end[0]} and columns {start[1]} to {end[1]} of an aerial picture of"
        f" {image_size[0]} x {image_size[1]}; it must end before the last row and column. Use a larger picture, a"
        " smaller raster, or raster_params.satellite_out_of_bounds: pad"
    )


def _cut_to_turn(
    sat_image: NumericArray, crop_size: ArrayLike, sat_pixel_translation: ArrayLike, out_of_bounds: str
) -> NumericArray:
    """Return the unrotated crop that contains a crop of ``crop_size`` rows and columns at any rotation."""
    large_size = np.ceil(_as_crop_size(crop_size) * math.sqrt(2)).astype(np.int64)
    return _get_sat_image_crop_without_rotation(
        sat_image, large_size, sat_pixel_translation, out_of_bounds=out_of_bounds
    )


def _turn(large: NumericArray, yaw: float, size: Sequence[int] | Int64Array) -> NumericArray:
    """Return the central rows and columns of a crop after a counter-clockwise rotation around its centre."""
    num_rows, num_columns = large.shape[:2]
    turn = cv2.getRotationMatrix2D((num_columns / 2, num_rows / 2), float(np.degrees(yaw)), 1)
    return _crop_center(cv2.warpAffine(large, turn, (num_columns, num_rows)), size)


def _scale_crop(crop: NumericArray, size: tuple[int, ...], interpolation: int) -> NumericArray:
    """Return the central rows and columns of a crop after scaling it to a square of the longer side."""
    side = max(size)
    return _crop_center(cv2.resize(crop, (side, side), interpolation=interpolation), size)


def _crop_center(image: NumericArray, size: Sequence[int] | Int64Array) -> NumericArray:
    """Return the central ``size`` rows and columns of an image, with the start truncated to whole pixels."""
    row, column = (start_of_middle(image.shape[axis], size[axis]) for axis in (0, 1))
    return image[row : row + size[0], column : column + size[1]]


def _as_crop_size(crop_size: ArrayLike) -> Int64Array:
    size = np.asarray(crop_size)
    if size.ndim != 1 or len(size) < 2:
        raise InvalidArgumentError(f"crop_size is {crop_size!r}; pass two sizes")
    return size.astype(np.int64)
