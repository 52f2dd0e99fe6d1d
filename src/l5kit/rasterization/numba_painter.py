"""Numba painter: draw lists as pictures, painted by compiled code on the processor."""

import functools
from typing import Protocol

import numpy as np

from l5kit._types import NumericArray, UInt8Array
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.rasterization.antialiased import draw_shapes, mix_paint, scratch_size
from l5kit.rasterization.draw_list import (
    BlankList,
    CropList,
    DrawList,
    PictureList,
    ShapeList,
    StackedList,
    touched_rows,
)
from l5kit.rasterization.picture_memory import recycled_memory
from l5kit.rasterization.satellite_image import write_scaled_crop
from l5kit.rasterization.unit_range import STREAMED_NUM_BYTES, divide_by_255


class NumbaPainter:
    """A painter into NumPy arrays; see :class:`l5kit.rasterization.painter.Painter`."""

    def paint(self, draw_list: DrawList, index: int, planes: UInt8Array, /) -> None:
        """Paint one window into planes, uint8 (channels, height, width).

        Raises:
            InvalidArgumentError: ``planes`` does not fit or cannot be written.
            IndexOutOfRangeError: There is no such window, or an aerial picture ends inside the crop, and
                ``out_of_bounds`` is ``error``.
        """
        if not 0 <= index < len(draw_list):
            raise IndexOutOfRangeError(
                f"index {index} is out of range for a draw list of {len(draw_list)} windows; they count from 0"
            )
        _require_fitting("planes", planes, draw_list.planes_shape, (np.dtype(np.uint8),))
        _brush_of(draw_list).paint(index, planes, is_black=False)

    def paint_batch(self, draw_list: DrawList, images: NumericArray, /) -> None:
        """Paint all windows into images, uint8 or float32 (B, channels, height, width).

        Raises:
            InvalidArgumentError: ``images`` does not fit or cannot be written.
            IndexOutOfRangeError: An aerial picture ends inside a crop, and ``out_of_bounds`` is ``error``.
        """
        _require_fitting("images", images, (len(draw_list), *draw_list.planes_shape), _IMAGE_TYPES)
        brush = _brush_of(draw_list)
        if images.dtype == np.uint8:
            for index, planes in enumerate(images):
                brush.paint(index, planes, is_black=False)
            return
        rows = touched_rows(draw_list)
        with recycled_memory.black(images.shape[1:]) as planes:  # of one window, so that they stay in the caches
            for index, image in enumerate(images):
                brush.paint(index, planes, is_black=True)
                divide_by_255(planes, image, rows[index], images.nbytes >= STREAMED_NUM_BYTES)


_IMAGE_TYPES = (np.dtype(np.uint8), np.dtype(np.float32))


class _Brush(Protocol):
    """Paints the windows of one draw list, for one thread."""

    def paint(self, index: int, planes: UInt8Array, *, is_black: bool) -> None:
        """Paint a window into planes that are 0 already, if ``is_black``, or hold anything."""


class _ShapeBrush:
    def __init__(self, shapes: ShapeList) -> None:
        self._list = shapes
        self._paints = _paints_of(shapes.colors.tobytes(), shapes.colors.shape)
        self._scratch = np.empty(scratch_size(shapes.most_points, shapes.planes_shape[1]), np.int64)

    def paint(self, index: int, planes: UInt8Array, *, is_black: bool) -> None:
        shapes = self._list
        if not is_black or shapes.background:
            planes.fill(shapes.background)
        first, end = shapes.starts[index], shapes.starts[index + 1]
        draw_shapes(planes, shapes.points, shapes.contours, shapes.shapes, first, end, self._paints, self._scratch)


class _CropBrush:
    def __init__(self, crops: CropList) -> None:
        self._list = crops

    def paint(self, index: int, planes: UInt8Array, *, is_black: bool) -> None:  # noqa: ARG002
        crops = self._list
        write_scaled_crop(
            planes,
            crops.picture.pixels,
            crops.centers[index],
            crops.angles_rad[index],
            crops.num_aerial_pixels,
            interpolation=crops.interpolation,
            out_of_bounds=crops.out_of_bounds,
            upside_down=crops.upside_down,
        )


class _PictureBrush:
    def __init__(self, pictures: PictureList) -> None:
        self._pictures = pictures.pictures

    def paint(self, index: int, planes: UInt8Array, *, is_black: bool) -> None:  # noqa: ARG002
        planes[...] = self._pictures[index]


class _BlankBrush:
    def paint(self, index: int, planes: UInt8Array, *, is_black: bool) -> None:  # noqa: ARG002
        if not is_black:
            planes.fill(0)


class _StackedBrush:
    def __init__(self, stacked: StackedList) -> None:
        self._parts: list[tuple[slice, _Brush]] = []
        first = 0
        for part in stacked.parts:
            end = first + part.planes_shape[0]
            self._parts.append((slice(first, end), _brush_of(part)))
            first = end

    def paint(self, index: int, planes: UInt8Array, *, is_black: bool) -> None:
        for channels, brush in self._parts:
            brush.paint(index, planes[channels], is_black=is_black)


def _brush_of(draw_list: DrawList) -> _Brush:
    match draw_list:
        case ShapeList():
            return _ShapeBrush(draw_list)
        case CropList():
            return _CropBrush(draw_list)
        case PictureList():
            return _PictureBrush(draw_list)
        case BlankList():
            return _BlankBrush()
        case StackedList():
            return _StackedBrush(draw_list)


@functools.lru_cache(maxsize=16)
def _paints_of(colors: bytes, shape: tuple[int, int]) -> UInt8Array:
    """Return the paints of colours, given as bytes (colours, channels), shape (colours, channels, 256, 256)."""
    rows = np.frombuffer(colors, np.uint8).reshape(shape)
    paints = np.empty((*shape, 256, 256), np.uint8)
    for paint, color in zip(paints, rows, strict=True):
        paint[...] = mix_paint(color)
    paints.setflags(write=False)
    return paints


def _require_fitting(
    name: str, pixels: NumericArray, shape: tuple[int, ...], dtypes: tuple[np.dtype[np.generic], ...]
) -> None:
    flags = pixels.flags
    if pixels.shape != shape or pixels.dtype not in dtypes or not flags.c_contiguous or not flags.writeable:
        raise InvalidArgumentError(
            f"{name} has shape {pixels.shape} and dtype {pixels.dtype}{'' if flags.writeable else ', read-only'}; the "
            f"draw list needs a C-contiguous array of shape {shape} and "
            f"{' or '.join(str(dtype) for dtype in dtypes)} that can be written"
        )
