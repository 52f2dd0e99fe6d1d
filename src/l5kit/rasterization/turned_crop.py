"""Crops of an image, rotated and scaled in one go, bit for bit like OpenCV 4.

The method is that of OpenCV's ``warpAffine`` and ``resize`` with ``INTER_LINEAR`` for 8-bit images (Apache-2.0,
modules/imgproc/src/imgwarp.cpp and resize.cpp of OpenCV 4): positions in the image are rounded to 32nds of a pixel, the
outside is black, and the weights of the scaling are 2048ths. Only the pixels that the result needs are rotated, row by
row, while OpenCV rotates a square of twice the area. The bits do not depend on the installed OpenCV.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic, register_jitable

from l5kit._kernels import kernel_jit
from l5kit._types import Int32Array, Int64Array, NumericArray, UInt8Array
from l5kit.rasterization.unit_range import TargetContext, TypedCode

_CHANNELS: Final = 3
_PITCH: Final = 4
"""Values of a pixel in a line of int32: three channels and one for padding, so that it is one vector."""

_MOST_PIXELS: Final = 1 << 15
"""Number of rows or columns at which OpenCV's 16-bit positions overflow."""

_POSITION_SCALE: Final = 1024
"""Positions are 1024ths of a pixel before they are rounded to 32nds."""

_WEIGHT_SCALE: Final = 2048


def can_turn_and_scale(picture: NumericArray, yaw: float, size: tuple[int, int], side: int) -> bool:
    """Return whether :func:`turn_and_scale` supports a crop.

    OpenCV uses a different method to halve images, and supports more dtypes.

    Args:
        picture: The image, shape (rows, columns, ...).
        yaw: Angle in radians.
        size: Rows and columns to scale.
        side: Rows and columns of the result.
    """
    return (
        picture.dtype == np.uint8
        and picture.ndim == 3
        and picture.shape[2] == _CHANNELS
        and picture.strides[1:] == (_CHANNELS, 1)
        and picture.strides[0] > 0
        and min(picture.shape) > 0
        and max(picture.shape) < _MOST_PIXELS
        and min(*size, side) > 0
        and size != (2 * side, 2 * side)
        and math.isfinite(yaw)
    )


def turn_and_scale(
    picture: UInt8Array, yaw: float, size: tuple[int, int], side: int, planes: UInt8Array, *, upside_down: bool
) -> None:
    """Rotate an image around its centre, scale the centre of that, and write the centre of the result.

    Args:
        picture: Shape (rows, columns, 3), supported according to :func:`can_turn_and_scale`.
        yaw: Angle in radians, counter-clockwise.
        size: Rows and columns of the rotated image to scale, at most those of ``picture``.
        side: Rows and columns after scaling.
        planes: Output for the centre of these, uint8, C-contiguous, shape (3, height, width), at most ``side``.
        upside_down: Whether the last row is written first.
    """
    num_rows, num_columns = picture.shape[:2]

    # Two rows of the matrix from positions in the rotated image to positions in the image. The steps are those of
    # getRotationMatrix2D and of the inversion in warpAffine, so that all bits agree.
    x, y = num_columns / 2, num_rows / 2
    angle = float(np.degrees(yaw)) * (math.pi / 180)  # degrees in the dtype of the yaw
    cos, sin = math.cos(angle), math.sin(angle)
    shift_x, shift_y = (1 - cos) * x - sin * y, sin * x + (1 - cos) * y
    determinant = cos * cos - sin * -sin
    inverse = 1.0 / determinant if determinant != 0 else 0.0
    x_from_x, y_from_y = cos * inverse, cos * inverse
    x_from_y, y_from_x = sin * -inverse, -sin * -inverse
    shifts = -x_from_x * shift_x - x_from_y * shift_y, -y_from_x * shift_x - y_from_y * shift_y

    # All bytes of the image, including gaps between its rows, as a read-only view (N,). This gives the kernel a single
    # array type for crops, whole images, images of files and padded ones.
    num_bytes = (num_rows - 1) * picture.strides[0] + _CHANNELS * num_columns
    _turn_and_scale(
        np.lib.stride_tricks.as_strided(picture, (num_bytes,), (1,), writeable=False),
        (num_rows, num_columns, picture.strides[0]),
        (x_from_x, x_from_y, shifts[0], y_from_x, y_from_y, shifts[1]),
        (start_of_middle(num_rows, size[0]), start_of_middle(num_columns, size[1])),
        size,
        side,
        planes,
        upside_down,
    )


@register_jitable
def start_of_middle(num_pixels: int, num_in_middle: int) -> int:
    """Return the first of the central rows or columns, truncated to a whole pixel."""
    return int(num_pixels / 2 - num_in_middle / 2)


def _type_mix_pixels(
    typing_context: object,  # noqa: ARG001
    picture: types.Type,
    upper: types.Type,
    lower: types.Type,
    right_weight: types.Type,
    lower_weight: types.Type,
    line: types.Type,
    at: types.Type,
) -> TypedCode:
    """Return types and code of writing the weighted mean of four neighbouring pixels to ``line`` from ``at`` on.

    The bytes from ``upper`` and ``lower`` on are two pixels each, of which eight bytes are read; weights are 32nds.
    """

    def generate(
        context: TargetContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        source, target = (context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 5))
        bytes_8, shorts_8 = ir.VectorType(ir.IntType(8), 8), ir.VectorType(ir.IntType(16), 8)
        ints_4 = ir.VectorType(ir.IntType(32), _PITCH)

        def load(offset: ir.Value) -> ir.Value:
            position = builder.bitcast(builder.gep(source, [offset]), bytes_8.as_pointer())
            return builder.zext(builder.load(position, align=1), shorts_8)

        def weights_of(weight: ir.Value) -> tuple[ir.Value, ir.Value]:
            return builder.sub(ir.Constant(weight.type, 32), weight), weight

        above, below = (_splat(builder, weight, shorts_8) for weight in weights_of(arguments[4]))
        pixels = builder.add(builder.mul(load(arguments[1]), above), builder.mul(load(arguments[2]), below))

        def take(first: int) -> ir.Value:
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), _PITCH), list(range(first, first + _PITCH)))
            return builder.zext(builder.shuffle_vector(pixels, ir.Constant(shorts_8, ir.Undefined), lanes), ints_4)

        left, right = (_splat(builder, weight, ints_4) for weight in weights_of(arguments[3]))
        mean = builder.add(builder.mul(take(0), left), builder.mul(take(_CHANNELS), right))
        mean = builder.lshr(builder.add(mean, ir.Constant(ints_4, [512] * _PITCH)), ir.Constant(ints_4, [10] * _PITCH))
        builder.store(mean, builder.bitcast(builder.gep(target, [arguments[6]]), ints_4.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(picture, upper, lower, right_weight, lower_weight, line, at), generate


def _type_mix_columns(
    typing_context: object,  # noqa: ARG001
    line: types.Type,
    left: types.Type,
    right: types.Type,
    left_weight: types.Type,
    right_weight: types.Type,
    scaled: types.Type,
    at: types.Type,
) -> TypedCode:
    """Return types and code of writing a 16th of the weighted sum of two pixels of a line to ``scaled``."""

    def generate(
        context: TargetContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        source, target = (context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 5))
        ints_4 = ir.VectorType(ir.IntType(32), _PITCH)

        def weighted(position: ir.Value, weight: ir.Value) -> ir.Value:
            pixel = builder.load(builder.bitcast(builder.gep(source, [position]), ints_4.as_pointer()), align=4)
            return builder.mul(pixel, _splat(builder, weight, ints_4))

        total = builder.add(weighted(arguments[1], arguments[3]), weighted(arguments[2], arguments[4]))
        total = builder.lshr(total, ir.Constant(ints_4, [4] * _PITCH))
        builder.store(total, builder.bitcast(builder.gep(target, [arguments[6]]), ints_4.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(line, left, right, left_weight, right_weight, scaled, at), generate


def _splat(builder: ir.IRBuilder, value: ir.Value, vector: ir.VectorType) -> ir.Value:
    """Return a vector with the low bits of a number in all lanes."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, builder.trunc(value, vector.element), ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    )


_mix_pixels: Any = intrinsic(_type_mix_pixels)
_mix_columns: Any = intrinsic(_type_mix_columns)


@kernel_jit
def _turn_and_scale(
    picture: UInt8Array,
    layout: tuple[int, int, int],
    matrix: tuple[float, float, float, float, float, float],
    first_turned: tuple[int, int],
    size: tuple[int, int],
    side: int,
    planes: UInt8Array,
    upside_down: bool,
) -> None:
    """Rotate the needed rows, scale each once, and write the weighted means of two at a time.

    ``picture`` holds the bytes of the image, (N,); ``layout`` its numbers of rows and columns, and of bytes from one
    row to the next. ``first_turned`` is the first row and column of the rotated image to scale.
    """
    num_rows, num_columns = size
    height, width = planes.shape[1:]
    first_row, first_column = start_of_middle(side, height), start_of_middle(side, width)
    rows, row_weights = _scaled_from(num_rows, side, False)
    columns, column_weights = _scaled_from(num_columns, side, True)
    steps = np.empty((2, num_columns), np.int64)
    for column in range(num_columns):
        steps[0, column] = np.int64(np.rint(matrix[0] * (first_turned[1] + column) * _POSITION_SCALE))
        steps[1, column] = np.int64(np.rint(matrix[3] * (first_turned[1] + column) * _POSITION_SCALE))
    line = np.empty(_PITCH * num_columns, np.int32)
    scaled, scaled_rows = np.empty((2, _PITCH * width), np.int32), np.full(2, -1)
    mixed = np.empty(_PITCH * width, np.uint8)

    # a row of the raster is the mean of two scaled rows, which are kept as the next rows may need them again
    for row in range(height):
        upper = max(rows[row + first_row], 0)
        lower = min(rows[row + first_row] + 1, num_rows - 1)
        for needed in (upper, lower):
            if scaled_rows[needed & 1] != needed:
                _turn_row(picture, layout, matrix, first_turned[0] + needed, steps, line)
                to = (needed & 1) * _PITCH * width
                for column in range(width):
                    left = columns[column + first_column]
                    right = min(left + 1, num_columns - 1)
                    weights = column_weights[column + first_column]
                    _mix_columns(line, _PITCH * left, _PITCH * right, weights[0], weights[1], scaled, to)
                    to += _PITCH
                scaled_rows[needed & 1] = needed
        _mix_rows(scaled[upper & 1], scaled[lower & 1], row_weights[row + first_row], mixed)
        target = height - 1 - row if upside_down else row
        for column in range(width):
            for channel in range(_CHANNELS):
                planes[channel, target, column] = mixed[_PITCH * column + channel]


@kernel_jit
def _scaled_from(num_pixels: int, side: int, is_cut_off: bool) -> tuple[Int64Array, Int64Array]:
    """Return the first of the two source pixels of each scaled pixel, (N,), and their weights in 2048ths, (N, 2).

    The first pixel may be -1. With ``is_cut_off``, positions beyond the border take all weight from the border pixel.
    """
    firsts, weights = np.empty(side, np.int64), np.empty((side, 2), np.int64)
    scale = 1.0 / (np.float64(side) / np.float64(num_pixels))
    for i in range(side):
        position = np.float32((i + 0.5) * scale - 0.5)
        first = int(np.floor(position))
        share = np.float32(position - np.float32(first))
        if is_cut_off and (first < 0 or first >= num_pixels - 1):
            first, share = min(max(first, 0), num_pixels - 1), np.float32(0)
        firsts[i] = first
        weights[i, 0] = np.int64(np.rint((np.float32(1) - share) * np.float32(_WEIGHT_SCALE)))
        weights[i, 1] = np.int64(np.rint(share * np.float32(_WEIGHT_SCALE)))
    return firsts, weights


@kernel_jit
def _turn_row(
    picture: UInt8Array,
    layout: tuple[int, int, int],
    matrix: tuple[float, float, float, float, float, float],
    row: int,
    steps: Int64Array,
    line: Int32Array,
) -> None:
    """Write a row of the rotated image; ``steps`` (2, N) are offsets of its columns in 1024ths of a pixel."""
    num_rows, num_columns, pitch = layout
    x = np.int64(np.rint((matrix[1] * row + matrix[2]) * _POSITION_SCALE)) + 16
    y = np.int64(np.rint((matrix[4] * row + matrix[5]) * _POSITION_SCALE)) + 16
    for i in range(steps.shape[1]):
        x_32nds, y_32nds = (x + steps[0, i]) >> 5, (y + steps[1, i]) >> 5
        left, top, to_right, to_bottom = x_32nds >> 5, y_32nds >> 5, x_32nds & 31, y_32nds & 31
        # eight bytes are read, which hold two and two thirds pixels
        if 0 <= left < num_columns - 2 and 0 <= top < num_rows - 1:
            at = top * pitch + _CHANNELS * left
            _mix_pixels(picture, at, at + pitch, to_right, to_bottom, line, _PITCH * i)
        else:
            for channel in range(_CHANNELS):
                total = 512
                for pixel in range(4):
                    x_pixel, y_pixel = left + (pixel & 1), top + (pixel >> 1)
                    if 0 <= x_pixel < num_columns and 0 <= y_pixel < num_rows:
                        at = y_pixel * pitch + _CHANNELS * x_pixel + channel
                        weight_x = to_right if pixel & 1 else 32 - to_right
                        weight_y = to_bottom if pixel >> 1 else 32 - to_bottom
                        total += np.int64(picture[at]) * weight_x * weight_y
                line[_PITCH * i + channel] = np.int32(total >> 10)


@kernel_jit
def _mix_rows(upper: Int32Array, lower: Int32Array, weights: Int64Array, mixed: UInt8Array) -> None:
    """Write the weighted mean of two scaled lines (N,)."""
    upper_weight, lower_weight = np.int32(weights[0]), np.int32(weights[1])
    for i in range(len(mixed)):
        from_upper = np.int32(upper[i] * upper_weight) >> np.int32(16)
        from_lower = np.int32(lower[i] * lower_weight) >> np.int32(16)
        mixed[i] = np.uint8((from_upper + from_lower + np.int32(2)) >> np.int32(2))
