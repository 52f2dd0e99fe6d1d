"""Painting of one row of pixels, for devices on which each row of a picture is painted by a thread of its own.

The pixels are those of :mod:`l5kit.rasterization.antialiased`, to the bit: all of it is arithmetic of whole numbers,
and a row sees the same shapes in the same order. Nothing is kept between rows, so that no thread waits for another one.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from l5kit._types import Int32Array, UInt8Array
from l5kit.errors import InvalidArgumentError
from l5kit.rasterization.antialiased import (
    DISTANCE_WEIGHTS,
    ONE,
    SHIFT,
    SLOPE_WEIGHTS,
    clip_line,
    divide,
    end_weights,
    outside,
)
from l5kit.rasterization.draw_list import FILLED, OPEN_LINE

__all__ = ["MARGIN_PX", "ShapeArrays", "bound_rows", "paint_row", "require_countable"]

MARGIN_PX: Final = 4
"""Rows above and below its points that a contour may touch, corners being at whole rows, and one to spare."""

_POINT_SHIFT: Final = 9

_NONE: Final[Any] = np.int64(-(2**62))
"""Stands for a crossing before the first one."""

_ZERO: Final[Any] = np.int64(0)
_BEFORE: Final[Any] = np.int64(-1)

ShapeArrays = tuple[Int32Array, Int32Array, Int32Array, Int32Array, UInt8Array]
"""Points, contours, shapes, groups and colours.

Points are columns and rows in 512ths of a pixel, (P, 2). A contour is its first point, its end point, and the first
and the end row that it may touch, (K, 4). A shape is its kind, its first contour, their end, and its colour, (S, 4). A
group is its first shape, their end, and the first of the planes that they are drawn in, (G, 3). Colours are (colours,
channels). They mean what those of a :class:`~l5kit.rasterization.draw_list.ShapeList` do.
"""

_Line = tuple[int, int, int, int]
"""Column and row of both ends of a line, in 65,536ths of a pixel."""


_MOST_POINTS: Final = 2**31 - 1


def require_countable(num_points: int) -> None:
    """Refuse more points of shapes than 32 bits count.

    Raises:
        InvalidArgumentError: There are more.
    """
    if num_points > _MOST_POINTS:
        raise InvalidArgumentError(
            f"the shapes of these windows may have {num_points} points, but {_MOST_POINTS} is the most; draw fewer "
            "windows at once, as in smaller batches"
        )


@njit(nogil=True, cache=True, error_model="numpy")
def bound_rows(points: Int32Array, first: int, end: int, height: int, contours: Int32Array, contour: int) -> None:
    """Write a contour of points that are written already, and the rows that it may touch."""
    low: Any = np.int64(height)
    high: Any = np.int64(0)
    for point in range(first, end):
        row: Any = np.int64(points[point, 1]) >> _POINT_SHIFT
        low, high = min(low, row - MARGIN_PX), max(high, row + MARGIN_PX + 1)
    contours[contour, 0], contours[contour, 1] = first, end
    contours[contour, 2], contours[contour, 3] = max(low, 0), max(min(high, height), 0)


@njit(nogil=True, cache=True, error_model="numpy")
def paint_row(images: UInt8Array, group: int, row: int, drawn: ShapeArrays) -> None:
    """Draw the shapes of a group, one over the other, in one row of its planes.

    Args:
        images: Planes (any number, height, width), which hold the background.
        group: The group.
        row: The row.
        drawn: What is drawn.
    """
    _, contours, shapes, groups, _ = drawn
    first_plane = groups[group, 2]
    for shape in range(groups[group, 0], groups[group, 1]):
        is_filled, is_any = shapes[shape, 0] == FILLED, False
        for contour in range(shapes[shape, 1], shapes[shape, 2]):
            if contours[contour, 2] <= row < contours[contour, 3]:
                is_any = True
                _draw_contour(images, first_plane, row, drawn, shape, contour)
        if is_filled and is_any:
            _fill_row(images, first_plane, row, drawn, shape)


@njit(nogil=True, cache=True, error_model="numpy")
def _line_of(points: Int32Array, before: int, point: int, is_filled: bool) -> _Line:
    """Return the line from one point to another; corners of filled shapes lie at whole rows."""
    x0: Any = np.int64(points[before, 0]) << (SHIFT - _POINT_SHIFT)
    y0: Any = np.int64(points[before, 1]) << (SHIFT - _POINT_SHIFT)
    x1: Any = np.int64(points[point, 0]) << (SHIFT - _POINT_SHIFT)
    y1: Any = np.int64(points[point, 1]) << (SHIFT - _POINT_SHIFT)
    if is_filled:
        y0, y1 = (y0 + (ONE >> 1)) & -ONE, (y1 + (ONE >> 1)) & -ONE
    return x0, y0, x1, y1


@njit(nogil=True, cache=True, error_model="numpy")
def _draw_contour(images: UInt8Array, first_plane: int, row: int, drawn: ShapeArrays, shape: int, contour: int) -> None:
    """Draw the lines of a contour in a row."""
    points, contours, shapes, _, colors = drawn
    start: Any = np.int64(contours[contour, 0])
    stop: Any = np.int64(contours[contour, 1])
    is_filled, color = shapes[shape, 0] == FILLED, shapes[shape, 3]
    before = stop - 1 if shapes[shape, 0] != OPEN_LINE and start < stop else start
    first = start if shapes[shape, 0] != OPEN_LINE else start + 1
    for point in range(first, stop):
        line = _line_of(points, before, point, is_filled)
        low, high = min(line[1], line[3]), max(line[1], line[3])
        if (low >> SHIFT) - 3 <= row <= (high >> SHIFT) + 3:
            _draw_line(images, first_plane, row, colors, color, line)
        before = point


@njit(nogil=True, cache=True, error_model="numpy")
def _draw_line(images: UInt8Array, first_plane: int, row: int, colors: UInt8Array, color: int, line: _Line) -> None:
    """Draw what of an anti-aliased line lies in a row."""
    x0, y0, x1, y1 = line
    height: Any = np.int64(images.shape[1])
    width: Any = np.int64(images.shape[2])
    side0 = outside(x0, y0, width << SHIFT, height << SHIFT)
    side1 = outside(x1, y1, width << SHIFT, height << SHIFT)
    if side0 & side1:
        return
    if side0 | side1:
        is_seen, x0, y0, x1, y1 = clip_line(x0, y0, x1, y1, width << SHIFT, height << SHIFT)
        if not is_seen:
            return
    is_flat = abs(x1 - x0) > abs(y1 - y0)
    p0 = x0 if is_flat else y0
    p1 = x1 if is_flat else y1
    q0 = y0 if is_flat else x0
    q1 = y1 if is_flat else x1
    if p1 < p0:
        p0, p1, q0, q1 = p1, p0, q1, q0
    q_per_step = divide((q1 - q0) << SHIFT, (p1 - p0) | 1)
    slope = (q_per_step >> (SHIFT - 5)) & 0x3F
    usual = SLOPE_WEIGHTS[slope ^ 0x3F if q_per_step < 0 else slope]
    p, num_steps = p0 >> SHIFT, ((p1 + ONE) >> SHIFT) - (p0 >> SHIFT)
    weights = end_weights(p0, p1 + ONE, num_steps, usual)
    q = q0 + (q_per_step * -(p0 & (ONE - 1)) >> SHIFT) + (ONE >> 1)
    if is_flat:
        for step in range(min(num_steps + 1, width - p)):
            at = q + step * q_per_step
            beside = row - (at >> SHIFT)
            if -1 <= beside <= 1:
                weight = _weight_at(step, num_steps, weights, usual, at, beside)
                _blend(images, first_plane, row, p + step, colors, color, weight)
        return
    step = row - p
    if 0 <= step <= num_steps:
        at = q + step * q_per_step
        for beside in range(-1, 2):
            column = (at >> SHIFT) + beside
            if 0 <= column < width:
                weight = _weight_at(step, num_steps, weights, usual, at, beside)
                _blend(images, first_plane, row, column, colors, color, weight)


@njit(nogil=True, cache=True, error_model="numpy")
def _weight_at(step: int, num_steps: int, weights: tuple[int, int, int, int], usual: int, at: int, beside: int) -> int:
    """Return the weight in 256ths of a pixel before (-1), on (0) or behind (1) a line in one of its steps."""
    weight: Any = usual
    if step == num_steps:
        weight = weights[3]
    elif step == num_steps - 1:
        weight = weights[2]
    elif step < 2:
        weight = weights[step]
    part = (at >> (SHIFT - 5)) & 31
    place: Any = part + 32 if beside < 0 else part if beside == 0 else 63 - part
    found: int = (weight * DISTANCE_WEIGHTS[place]) >> 8 & 0xFF
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def _blend(
    images: UInt8Array, first_plane: int, row: int, column: int, colors: UInt8Array, color: int, weight: int
) -> None:
    """Mix a colour into a pixel of each of its planes, twice, as OpenCV does."""
    for channel in range(colors.shape[1]):
        value: Any = np.int64(images[first_plane + channel, row, column])
        share: Any = np.int64(colors[color, channel]) * weight + 127
        rest = 256 - weight
        value = (value * rest + share) >> 8
        images[first_plane + channel, row, column] = (value * rest + share) >> 8


@njit(nogil=True, cache=True, error_model="numpy")
def _crossing(points: Int32Array, before: int, point: int, row: int, height: int) -> tuple[bool, int]:
    """Return whether an edge of a filled shape crosses a row, and where."""
    x0, y0, x1, y1 = _line_of(points, before, point, True)
    row0, row1 = y0 >> SHIFT, y1 >> SHIFT
    if not max(min(row0, row1), 0) <= row < min(max(row0, row1), height):
        return False, 0
    x_per_row = divide(x1 - x0, row1 - row0)
    return True, x0 + (row - row0) * x_per_row if row0 < row1 else x1 + (row - row1) * x_per_row


@njit(nogil=True, cache=True, error_model="numpy")
def _next_crossing(
    height: int, row: int, drawn: ShapeArrays, shape: int, last: tuple[int, int]
) -> tuple[int, int, int]:
    """Return the crossing that follows another one from left to right, its edge, and how many there are in the row.

    Crossings in one place come in the order of their edges.
    """
    points, contours, shapes, _, _ = drawn
    best_x, best_edge, count, edge = -_NONE, _BEFORE, _ZERO, _ZERO
    for contour in range(shapes[shape, 1], shapes[shape, 2]):
        start: Any = np.int64(contours[contour, 0])
        stop: Any = np.int64(contours[contour, 1])
        if not contours[contour, 2] <= row < contours[contour, 3]:
            edge += stop - start
            continue
        before = stop - 1
        for point in range(start, stop):
            is_there, x = _crossing(points, before, point, row, height)
            before = point
            if is_there:
                count += 1
                is_behind = x > last[0] or (x == last[0] and edge > last[1])
                if is_behind and (x < best_x):
                    best_x, best_edge = x, edge
            edge += 1
    return best_x, best_edge, count


@njit(nogil=True, cache=True, error_model="numpy")
def _fill_row(images: UInt8Array, first_plane: int, row: int, drawn: ShapeArrays, shape: int) -> None:
    """Fill between every first and second crossing of a row."""
    colors, color = drawn[4], drawn[2][shape, 3]
    height: Any = np.int64(images.shape[1])
    width: Any = np.int64(images.shape[2])
    x0, edge, count = _next_crossing(height, row, drawn, shape, (_NONE, _BEFORE))
    for pair in range(count // 2):
        x1, edge, _ = _next_crossing(height, row, drawn, shape, (x0, edge))
        left, right = max((x0 + ONE - 1) >> SHIFT, 0), min((x1 >> SHIFT) + 1, width)
        for channel in range(colors.shape[1]):
            for column in range(left, right):
                images[first_plane + channel, row, column] = colors[color, channel]
        if pair + 1 < count // 2:
            x0, edge, _ = _next_crossing(height, row, drawn, shape, (x1, edge))
