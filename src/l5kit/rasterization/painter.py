"""Painter: compiled code that paints draw lists into images on the host, in recycled memory.

Polygons and lines are anti-aliased, bit for bit like OpenCV. The method is that of OpenCV's ``fillPoly`` and
``polylines`` with ``lineType=cv2.LINE_AA``, ``shift=9`` and 8-bit images (Apache-2.0, modules/imgproc/src/drawing.cpp):
a line is clipped at the border of the image and drawn three pixels wide, with weights by the distance from its centre;
a polygon gets such lines as outline, at whole rows, and then its rows are filled between the edges. Three things differ
from OpenCV without changing any bits: images are planes, weighted means come from a table for each colour, and the
edges of a polygon are sorted row by row.

Internally, positions are 65,536ths of a pixel. Position p is along the longer extent of a line, q across it.
"""

import ctypes
import functools
import math
import os
import threading
import weakref
from typing import Any, Final, Protocol

import numpy as np
from numba import njit
from numpy.typing import DTypeLike

from l5kit._kernels import kernel_jit
from l5kit._types import Int32Array, Int64Array, NumericArray, UInt8Array
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.rasterization.draw_list import (
    FILLED,
    OPEN_LINE,
    BlankList,
    CropList,
    DrawList,
    PictureList,
    ShapeList,
    StackedList,
    touched_rows,
)
from l5kit.rasterization.satellite_image import write_scaled_crop
from l5kit.rasterization.unit_range import STREAMED_NUM_BYTES, divide_by_255

_MAX_FREE_BYTES = 1 << 30
"""Enough for the batches that two threads have in flight, so that epochs do not start with fresh pages."""

_MAX_BLACK_BYTES = 1 << 26
"""Enough for the planes of one window for each of many threads."""

_SMALLEST_RECYCLED_BYTES = 1 << 20
"""Smaller arrays are not recycled, as NumPy and the operating system allocate them fast enough."""


class RecycledMemory:
    """Arrays whose memory is reused after the last reference to them, and to views of them, is gone.

    Args:
        max_free_bytes: Memory that is kept for reuse; the excess is released.
    """

    _free: list[UInt8Array]
    _black: list[UInt8Array]

    def __init__(self, max_free_bytes: int = _MAX_FREE_BYTES) -> None:
        self.max_free_bytes = max_free_bytes
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NumericArray:
        """Return an uninitialized C-contiguous array."""
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if num_bytes < _SMALLEST_RECYCLED_BYTES:
            return np.empty(shape, dtype)
        with self._lock:
            block = next((each for each in list(self._free) if each.nbytes == num_bytes), None)
            # remove by identity: the garbage collector may return blocks at any time, which changes positions
            self._free = [each for each in self._free if each is not block]
        if block is None:
            block = np.empty(num_bytes, np.uint8)

        # the lease is deleted with the last view
        lease: Any = (ctypes.c_char * num_bytes).from_buffer(block.data)
        weakref.finalize(lease, self._put, block).atexit = False
        return np.frombuffer(lease, np.uint8).view(dtype).reshape(shape)

    def black(self, shape: tuple[int, ...]) -> "LentBlack":
        """Lend zeroed bytes that must be 0 again at the end of the block, so that they need not be cleared.

        After an exception they are not reused.
        """
        return LentBlack(self, shape)

    def take_black(self, num_bytes: int) -> UInt8Array:
        """Return zeroed bytes for exclusive use until :meth:`keep_black`."""
        with self._lock:
            # the block returned last is the most likely to be in the caches
            for index in range(len(self._black) - 1, -1, -1):
                if self._black[index].nbytes == num_bytes:
                    return self._black.pop(index)
        return np.zeros(num_bytes, np.uint8)

    def keep_black(self, block: UInt8Array) -> None:
        """Keep zeroed bytes for reuse; the oldest ones are released first."""
        with self._lock:
            self._black.append(block)
            while len(self._black) > 1 and sum([other.nbytes for other in self._black]) > _MAX_BLACK_BYTES:
                self._black.pop(0)

    @property
    def num_free_bytes(self) -> int:
        """Memory that is kept for reuse."""
        return sum(block.nbytes for block in self._free)

    def _put(self, block: UInt8Array) -> None:
        """Keep a block; the oldest ones are released first."""
        with self._lock:
            self._free.append(block)
            while self.num_free_bytes > self.max_free_bytes:
                self._free.pop(0)

    def _forget(self) -> None:
        self._lock = threading.RLock()  # a block may be returned while this thread holds the lock
        self._free = []
        self._black = []


class LentBlack:
    """Context manager for bytes that are 0 at the beginning and at the end of a block.

    It is a class because a generator would take a few microseconds more, which is noticeable for single samples.

    Args:
        memory: Owner of the bytes.
        shape: Shape of the array.
    """

    __slots__ = ("_block", "_memory", "_shape")

    def __init__(self, memory: RecycledMemory, shape: tuple[int, ...]) -> None:
        self._memory, self._shape = memory, shape

    def __enter__(self) -> UInt8Array:
        self._block = self._memory.take_black(math.prod(self._shape))
        planes: UInt8Array = self._block.reshape(self._shape)
        return planes

    def __exit__(self, error_type: object, *_: object) -> None:
        if error_type is None:
            self._memory.keep_black(self._block)


recycled_memory = RecycledMemory()
"""Recycled memory of this process, shared by all rasters."""


class Painter:
    """Painter of draw lists into NumPy arrays; several threads may share one."""

    def paint(self, draw_list: DrawList, index: int, planes: UInt8Array, /) -> None:
        """Paint one window into planes, uint8 (channels, height, width).

        Raises:
            InvalidArgumentError: ``planes`` does not fit or cannot be written.
            IndexOutOfRangeError: There is no such window, or the aerial image ends inside the crop and
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
            IndexOutOfRangeError: The aerial image ends inside a crop and ``out_of_bounds`` is ``error``.
        """
        _require_fitting("images", images, (len(draw_list), *draw_list.planes_shape), _IMAGE_TYPES)
        brush = _brush_of(draw_list)
        if images.dtype == np.uint8:
            for index, planes in enumerate(images):
                brush.paint(index, planes, is_black=False)
            return
        rows = touched_rows(draw_list)
        # draw bytes on planes of one window, which stay in the caches, and convert them from there
        with recycled_memory.black(images.shape[1:]) as planes:
            for index, image in enumerate(images):
                brush.paint(index, planes, is_black=True)
                divide_by_255(planes, image, rows[index], images.nbytes >= STREAMED_NUM_BYTES)


_IMAGE_TYPES = (np.dtype(np.uint8), np.dtype(np.float32))


class _Brush(Protocol):
    """Protocol of a painter of the windows of one draw list, for one thread."""

    def paint(self, index: int, planes: UInt8Array, *, is_black: bool) -> None:
        """Paint a window into planes that are all 0 if ``is_black``, and have any content otherwise."""


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


SHIFT: Final = 16
ONE: Final = 1 << SHIFT
POINT_SHIFT: Final = 9
"""Fractional bits of input points."""

_SLOPE_WEIGHTS: Final = np.array(
    [181, 181, 181, 182, 182, 183, 184, 185, 187, 188, 190, 192, 194, 196, 198, 201]
    + [203, 206, 209, 211, 214, 218, 221, 224, 227, 231, 235, 238, 242, 246, 250, 254]
    + [256] * 32,
    dtype=np.int64,
)
"""Weight of a line in 256ths by its slope in 32nds: the steeper, the longer it is in each step."""

DISTANCE_WEIGHTS: Final = np.array(
    [168, 177, 185, 194, 202, 210, 218, 224, 231, 236, 241, 246, 249, 252, 254, 254]
    + [254, 254, 252, 249, 246, 241, 236, 231, 224, 218, 210, 202, 194, 185, 177, 168]
    + [158, 149, 140, 131, 122, 114, 105, 97, 89, 82, 75, 68, 62, 56, 50, 45]
    + [40, 36, 32, 28, 25, 22, 19, 16, 14, 12, 11, 9, 8, 7, 5, 5],
    dtype=np.int64,
)
"""Weight of a pixel in 256ths by its distance from a line in 32nds of a pixel; 1/2 at index 16."""

_WEIGHT_TRIPLES: Final = (
    DISTANCE_WEIGHTS[32:] | DISTANCE_WEIGHTS[:32] << 20 | DISTANCE_WEIGHTS[:31:-1] << 40  # before, on, after
)
"""Weights of the three pixels across a line by its position in the central one, 20 bits for each."""

_FULL: Final = 255
"""Index into a row of paint; on 0 it gives the colour itself."""

_ZERO: Final[Any] = np.int64(0)


def mix_paint(color: UInt8Array) -> UInt8Array:
    """Return the value of a pixel after painting a colour over it, for every weight.

    Args:
        color: Shape (channels,).

    Returns:
        Shape (channels, 256, 256), by the value before and the weight in 256ths. The weighted mean is applied twice.
    """
    value, weight = np.arange(256, dtype=np.int32)[:, None], np.arange(256, dtype=np.int32)
    share, rest = color.astype(np.int32)[:, None, None] * weight + 127, 256 - weight
    once = (value * rest + share) >> 8
    return ((once * rest + share) >> 8).astype(np.uint8)


def scratch_size(num_points: int, height: int) -> int:
    """Return the number of int64 values that :func:`draw_shapes` needs for shapes and planes of given sizes.

    In sequence: one value for each row, four for each edge, and the crossings of each edge with each row. A polygon
        only touches the part that it needs.
    """
    return num_points * (height + 4) + height


@kernel_jit
def draw_shapes(
    planes: UInt8Array,
    points: Int32Array,
    contours: Int64Array,
    shapes: Int64Array,
    first: int,
    end: int,
    paints: UInt8Array,
    scratch: Int64Array,
) -> None:
    """Draw shapes of a :class:`l5kit.rasterization.draw_list.ShapeList` over each other.

    Args:
        planes: Output, C-contiguous, shape (number of planes, height, width).
        points: Column and row in 512ths of a pixel, shape (P, 2).
        contours: First point and end point of each, shape (K, 2).
        shapes: Kind, first contour, end contour, row of ``paints``, and first plane of each; it is drawn in as many
            planes as paints have channels; shape (S, 5).
        first: First shape to draw.
        end: End of the shapes to draw.
        paints: From :func:`mix_paint`, shape (colours, channels, 256, 256).
        scratch: Overwritten; at least :func:`scratch_size` values for the most points of a filled shape.
    """
    if planes.size == 0:
        return
    height, width, channels = planes.shape[1], planes.shape[2], paints.shape[1]
    all_pixels, all_paint = np.frombuffer(planes, np.uint8), np.frombuffer(paints, np.uint8)
    for shape in range(first, end):
        is_filled, is_closed = shapes[shape, 0] == FILLED, shapes[shape, 0] != OPEN_LINE
        pixels = all_pixels[shapes[shape, 4] * height * width :]
        paint = all_paint[shapes[shape, 3] * channels << 16 :]
        num_edges, low, high = _ZERO, height, _ZERO
        if is_filled:
            scratch[:height] = 0
        for contour in range(shapes[shape, 1], shapes[shape, 2]):
            start, stop = contours[contour, 0], contours[contour, 1]
            before = start - 1 if is_closed and start < stop else start
            x0 = y0 = _ZERO
            for position in range(before, stop):
                point = stop - 1 if position < start else position
                x1: Any = np.int64(points[point, 0]) << (SHIFT - POINT_SHIFT)
                y1: Any = np.int64(points[point, 1]) << (SHIFT - POINT_SHIFT)
                if is_filled:
                    y1 = (y1 + (ONE >> 1)) & -ONE  # round corners of polygons to whole rows
                if position > before:
                    _draw_line(pixels, channels, height, width, paint, x0, y0, x1, y1)
                    if is_filled:
                        row0, row1 = y0 >> SHIFT, y1 >> SHIFT
                        top, bottom = max(min(row0, row1), 0), min(max(row0, row1), height)
                        if top < bottom:
                            # an edge: x in its first visible row, change of x per row, first row, end of its rows
                            at, x_per_row = height + 4 * num_edges, divide(x1 - x0, row1 - row0)
                            x_there = x0 + (top - row0) * x_per_row if row0 < row1 else x1 + (top - row1) * x_per_row
                            scratch[np.uint64(at)], scratch[np.uint64(at + 1)] = x_there, x_per_row
                            scratch[np.uint64(at + 2)], scratch[np.uint64(at + 3)] = top, bottom
                            num_edges += 1

                            # changes of the number of crossings at its first and end row, accumulated later
                            scratch[np.uint64(top)] += 1
                            if bottom < height:
                                scratch[np.uint64(bottom)] -= 1
                            low, high = min(low, top), max(high, bottom)
                x0, y0 = x1, y1
        if num_edges > 0:
            _fill_rows(pixels, channels, height, width, paint, scratch, num_edges, low, high)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def divide(dividend: int, divisor: int) -> int:
    """Return a quotient truncated toward zero; exact for dividends below 2**52, and faster than integer division."""
    return int(np.float64(dividend) / np.float64(divisor))


@kernel_jit
def _fill_rows(
    pixels: UInt8Array,
    channels: int,
    height: int,
    width: int,
    paint: UInt8Array,
    scratch: Int64Array,
    num_edges: int,
    low: int,
    high: int,
) -> None:
    """Fill between each pair of crossings in each row, given the edges in scratch."""
    # reserve space for the crossings, row after row; the head of scratch holds the write position of each row
    num_crossings, begin = 0, height + 4 * num_edges
    for row in range(low, high):
        num_crossings += scratch[np.uint64(row)]
        scratch[np.uint64(row)] = begin
        begin += num_crossings

    # write the x of each edge in the rows that it crosses
    for at in range(height, height + 4 * num_edges, 4):
        x, x_per_row = scratch[np.uint64(at)], scratch[np.uint64(at + 1)]
        for row in range(scratch[np.uint64(at + 2)], scratch[np.uint64(at + 3)]):
            slot = scratch[np.uint64(row)]
            scratch[np.uint64(slot)] = x
            scratch[np.uint64(row)] = slot + 1
            x += x_per_row

    # fill between each pair of crossings of a row
    begin = height + 4 * num_edges
    for row in range(low, high):
        end = scratch[np.uint64(row)]
        is_pair = end - begin == 2
        if not is_pair:
            _sort(scratch, begin, end)
        for i in range(begin, end - 1, 2):
            x0, x1 = scratch[np.uint64(i)], scratch[np.uint64(i + 1)]
            if is_pair and x1 < x0:
                x0, x1 = x1, x0
            left, right = max((x0 + ONE - 1) >> SHIFT, 0), min((x1 >> SHIFT) + 1, width)
            for channel in range(channels if left < right else 0):
                at = (channel * height + row) * width
                _fill_bytes(pixels, at + left, at + right, paint[np.uint64(channel << 16 | _FULL)])
        begin = end


@kernel_jit
def _sort(values: Int64Array, begin: int, end: int) -> None:
    for i in range(begin + 1, end):
        value = values[np.uint64(i)]
        j = i
        while j > begin and values[np.uint64(j - 1)] > value:
            values[np.uint64(j)] = values[np.uint64(j - 1)]
            j -= 1
        values[np.uint64(j)] = value


@kernel_jit
def _fill_bytes(pixels: UInt8Array, begin: int, end: int, value: int) -> None:
    """Fill one or more bytes in overlapping runs of fixed length, each compiled to a single store."""
    if end - begin >= 16:
        for i in range(begin, end - 16, 16):
            for j in range(16):
                pixels[np.uint64(i + j)] = value
        for j in range(16):
            pixels[np.uint64(end - 16 + j)] = value
    elif end - begin >= 8:
        for j in range(8):
            pixels[np.uint64(begin + j)] = value
        for j in range(8):
            pixels[np.uint64(end - 8 + j)] = value
    elif end - begin >= 4:
        for j in range(4):
            pixels[np.uint64(begin + j)] = value
        for j in range(4):
            pixels[np.uint64(end - 4 + j)] = value
    else:
        pixels[np.uint64(begin)] = value
        pixels[np.uint64((begin + end) >> 1)] = value
        pixels[np.uint64(end - 1)] = value


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _outside(x: int, y: int, width: int, height: int) -> int:
    """Return outcode bits for positions left of, right of, above and below an image."""
    return (x < 0) | (x >= width) << 1 | (y < 0) << 2 | (y >= height) << 3


@kernel_jit
def _share(along: int, rise: int, run: int) -> int:
    return int(np.float64(along) * np.float64(rise) / np.float64(run))


@kernel_jit
def _clip(x0: int, y0: int, x1: int, y1: int, width: int, height: int) -> tuple[bool, int, int, int, int]:
    """Return whether any part of a line is visible, and its ends clipped to the border: rows first, the start first."""
    side0, side1 = _outside(x0, y0, width, height), _outside(x1, y1, width, height)
    if side0 & side1:
        return False, x0, y0, x1, y1
    if side0 & 12:
        border = 0 if side0 < 8 else height - 1
        x0 += _share(border - y0, x1 - x0, y1 - y0)
        y0 = border
    if side1 & 12:
        border = 0 if side1 < 8 else height - 1
        x1 += _share(border - y1, x1 - x0, y1 - y0)
        y1 = border
    side0, side1 = _outside(x0, y0, width, height), _outside(x1, y1, width, height)
    if side0 & side1:
        return False, x0, y0, x1, y1
    if side0:
        border = 0 if side0 == 1 else width - 1
        y0 += _share(border - x0, y1 - y0, x1 - x0)
        x0 = border
    if side1:
        border = 0 if side1 == 1 else width - 1
        y1 += _share(border - x1, y1 - y0, x1 - x0)
        x1 = border
    return True, x0, y0, x1, y1


LineCourse = tuple[bool, bool, int, int, int, int, int, tuple[int, int, int, int]]
"""Properties of a line: whether any part is visible, whether p counts columns, its first p in pixels and its number of
further steps, q there and its change in each step, its weight, and those of its first two and its last two steps.
"""


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def line_course(x0: int, y0: int, x1: int, y1: int, height: int, width: int) -> LineCourse:
    """Clip a line at the border of an image, and return its parameters for drawing pixel by pixel along p."""
    side0 = _outside(x0, y0, width << SHIFT, height << SHIFT)
    side1 = _outside(x1, y1, width << SHIFT, height << SHIFT)
    if side0 & side1:
        return False, False, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, (_ZERO, _ZERO, _ZERO, _ZERO)
    if side0 | side1:
        is_seen, x0, y0, x1, y1 = _clip(x0, y0, x1, y1, width << SHIFT, height << SHIFT)
        if not is_seen:
            return False, False, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, (_ZERO, _ZERO, _ZERO, _ZERO)

    # p runs forward along the longer extent
    is_flat = abs(x1 - x0) > abs(y1 - y0)
    p0 = x0 if is_flat else y0
    p1 = x1 if is_flat else y1
    q0 = y0 if is_flat else x0
    q1 = y1 if is_flat else x1
    if p1 < p0:
        p0, p1, q0, q1 = p1, p0, q1, q0

    # q in each step, and the weight of the line by its slope
    q_per_step = divide((q1 - q0) << SHIFT, (p1 - p0) | 1)
    slope = (q_per_step >> (SHIFT - 5)) & 0x3F
    usual = _SLOPE_WEIGHTS[np.uint64(slope ^ 0x3F if q_per_step < 0 else slope)]

    # whole pixels along p, and q at the centre of the first of them
    p, num_steps = p0 >> SHIFT, ((p1 + ONE) >> SHIFT) - (p0 >> SHIFT)
    q = q0 + (q_per_step * -(p0 & (ONE - 1)) >> SHIFT) + (ONE >> 1)
    return True, is_flat, p, num_steps, q, q_per_step, usual, _end_weights(p0, p1 + ONE, num_steps, usual)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _draw_line(
    pixels: UInt8Array,
    channels: int,
    height: int,
    width: int,
    paint: UInt8Array,
    x0: int,
    y0: int,
    x1: int,
    y1: int,
) -> None:
    """Clip a line and draw it pixel by pixel along p."""
    is_seen, is_flat, p, num_steps, q, q_per_step, usual, ends = line_course(x0, y0, x1, y1, height, width)
    if not is_seen:
        return
    p_size, q_size = (width, height) if is_flat else (height, width)
    p_stride, q_stride = (1, width) if is_flat else (width, 1)
    p_end = p + num_steps
    weight, second, last_but_one, last = ends
    q_low, q_high = min(q, q + num_steps * q_per_step), max(q, q + num_steps * q_per_step)

    # lines more than a pixel inside the border need no bounds checks; separate loops for one and three channels
    is_inside = q_low >= ONE and q_high < (q_size - 1) << SHIFT and p_end < p_size
    at, plane_size = p * p_stride, height * width
    if is_inside and channels == 3:
        for step in range(num_steps + 1):
            if step >= num_steps - 1:
                weight = last if step == num_steps else last_but_one
            weights = weight * _WEIGHT_TRIPLES[np.uint64((q >> (SHIFT - 5)) & 31)]
            position = at + (q >> SHIFT) * q_stride
            _blend_3(pixels, paint, plane_size, position - q_stride, weights >> 8 & 0xFF)
            _blend_3(pixels, paint, plane_size, position, weights >> 28 & 0xFF)
            _blend_3(pixels, paint, plane_size, position + q_stride, weights >> 48 & 0xFF)
            weight, second = second, usual
            at += p_stride
            q += q_per_step
    elif is_inside and channels == 1:
        for step in range(num_steps + 1):
            if step >= num_steps - 1:
                weight = last if step == num_steps else last_but_one
            weights = weight * _WEIGHT_TRIPLES[np.uint64((q >> (SHIFT - 5)) & 31)]
            position = at + (q >> SHIFT) * q_stride
            _blend(pixels, paint, position - q_stride, weights >> 8 & 0xFF)
            _blend(pixels, paint, position, weights >> 28 & 0xFF)
            _blend(pixels, paint, position + q_stride, weights >> 48 & 0xFF)
            weight, second = second, usual
            at += p_stride
            q += q_per_step
    else:
        for step in range(min(num_steps + 1, p_size - p)):
            if step >= num_steps - 1:
                weight = last if step == num_steps else last_but_one
            weights = weight * _WEIGHT_TRIPLES[np.uint64((q >> (SHIFT - 5)) & 31)] >> 8
            for pixel in range((q >> SHIFT) - 1, (q >> SHIFT) + 2):
                if 0 <= pixel < q_size:
                    for channel in range(channels):
                        to = channel * plane_size + at + pixel * q_stride
                        _blend(pixels, paint, to, channel << 16 | weights & 0xFF)
                weights >>= 20
            weight, second = second, usual
            at += p_stride
            q += q_per_step


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _end_weights(p0: int, p1: int, num_steps: int, weight: int) -> tuple[int, int, int, int]:
    """Return the weights of a line in its first two and last two steps, by its fractional ends in 16ths of a pixel."""
    i, j = (p0 >> 9) & 0x78, (p1 >> 9) & 0x78
    begin, end = ((0x78 - i) | 4) * weight, (j | 4) * weight
    of_two = (((j - i) & 0x78 | 4) * weight >> 8) & 0x1FF
    of_three = (((j - i) + 0x80 | 4) * weight >> 8) & 0x1FF
    first = of_two if num_steps == 1 else (begin >> 8) & 0x1FF
    second = (begin + (weight << 7) >> 8) & 0x1FF
    last_but_one = of_two if num_steps == 1 else of_three if num_steps == 2 else (end + (weight << 7) >> 8) & 0x1FF
    last = of_two if num_steps == 1 else (end >> 8) & 0x1FF
    return first, second, last_but_one, last


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _blend(pixels: UInt8Array, paint: UInt8Array, at: int, channel_and_weight: int) -> None:
    i = np.uint64(at)
    pixels[i] = paint[np.uint64(np.int64(pixels[i]) << 8 | channel_and_weight)]


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _blend_3(pixels: UInt8Array, paint: UInt8Array, plane_size: int, at: int, weight: int) -> None:
    _blend(pixels, paint, at, weight)
    _blend(pixels, paint, at + plane_size, 1 << 16 | weight)
    _blend(pixels, paint, at + 2 * plane_size, 2 << 16 | weight)
