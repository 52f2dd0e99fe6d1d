"""Painting of single rows of pixels, for devices where each row of an image has its own thread.

The pixels equal those of :mod:`l5kit.rasterization.painter` bit for bit: all arithmetic is in integers, and a row draws
the same shapes in the same order. Rows share no state, so threads never wait for each other.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Int32Array, UInt8Array, UInt64Array
from l5kit.device.backend import Backend
from l5kit.errors import InvalidArgumentError
from l5kit.rasterization.draw_list import FILLED, OPEN_LINE
from l5kit.rasterization.painter import DISTANCE_WEIGHTS, ONE, SHIFT, divide, line_course

MARGIN_PX: Final = 4
"""Rows above and below its points that a contour may touch, including rounding of corners and a margin of one row."""

POINT_SHIFT: Final = 9

_FAR: Final[Any] = np.int64(-(2**62))
"""Left of all crossings; its negative is right of them."""

_ZERO: Final[Any] = np.int64(0)
_BEFORE: Final[Any] = np.int64(-1)


class ShapeArrays(NamedTuple):
    """Shapes to draw, like those of a :class:`~l5kit.rasterization.draw_list.ShapeList`.

    Attributes:
        points: Columns and rows in 512ths of a pixel, (P, 2).
        contours: First point, end point, first row and end row that each may touch, (K, 4).
        shapes: Kind, first contour, end contour and colour of each, (S, 4).
        groups: First shape, end shape and first plane of each, (G, 3).
        colors: (colours, channels).
    """

    points: Int32Array
    contours: Int32Array
    shapes: Int32Array
    groups: Int32Array
    colors: UInt8Array


class Canvas(NamedTuple):
    """Planes to draw in.

    Attributes:
        pixels: Pixels of successive planes, (planes x height x width,).
        words: The same memory as words of eight pixels; the last one may be partially used.
        height: Rows of a plane.
        width: Columns of a plane.
    """

    pixels: UInt8Array
    words: UInt64Array
    height: int
    width: int


_Line = tuple[int, int, int, int]
"""Column and row of both ends of a line, in 65,536ths of a pixel."""

_Crossings = tuple[int, int, int]
"""Number of edges of a filled shape that cross a row, and the leftmost and rightmost crossing, 65,536ths of a pixel."""

_EIGHT_TIMES: Final[Any] = np.uint64(0x0101010101010101)
"""Factor that repeats a byte eight times in a word."""

_WORD_SHIFT: Final = 3

_MOST_POINTS: Final = 2**31 - 1


def require_countable(num_points: int) -> None:
    """Refuse shapes with more points than 32 bits can count.

    Raises:
        InvalidArgumentError: There are too many points.
    """
    if num_points > _MOST_POINTS:
        raise InvalidArgumentError(
            f"the shapes of these windows may have {num_points} points, but at most {_MOST_POINTS} are supported; draw "
            "fewer windows at once, in smaller batches"
        )


def paint(backend: Backend, canvas: Canvas, num_groups: int, drawn: ShapeArrays) -> None:
    """Draw shapes, all rows of all groups in parallel.

    Args:
        backend: Backend of the arrays.
        canvas: Output planes, with the background.
        num_groups: Number of groups.
        drawn: The shapes.
    """
    backend.run(_paint_row, num_groups * canvas.height, canvas, drawn)


@kernel_jit
def bound_rows(points: Int32Array, first: int, end: int, height: int, contours: Int32Array, contour: int) -> None:
    """Write a contour, and the rows that it may touch, from its points."""
    low: Any = np.int64(height)
    high: Any = np.int64(0)
    for point in range(first, end):
        row: Any = np.int64(points[point, 1]) >> POINT_SHIFT
        low, high = min(low, row - MARGIN_PX), max(high, row + MARGIN_PX + 1)
    contours[contour, 0], contours[contour, 1] = first, end
    contours[contour, 2], contours[contour, 3] = max(low, 0), max(min(high, height), 0)


@kernel_jit
def _paint_row(item: int, arguments: tuple[Any, ...]) -> None:
    """Draw the shapes of a group, over each other, in one row of its planes."""
    of_canvas, of_shapes = arguments
    canvas, drawn = Canvas(*of_canvas), ShapeArrays(*of_shapes)
    group, row = item // canvas.height, item % canvas.height
    contours, shapes, groups = drawn.contours, drawn.shapes, drawn.groups
    position = (groups[group, 2], row)
    for shape in range(groups[group, 0], groups[group, 1]):
        # draw the lines in this row, and find its crossings with the edges of a filled shape
        crossings = (_ZERO, -_FAR, _FAR)
        for contour in range(shapes[shape, 1], shapes[shape, 2]):
            if contours[contour, 2] <= row < contours[contour, 3]:
                crossings = _draw_contour(canvas, position, drawn, shape, contour, crossings)
        if crossings[0] == 2:
            _fill_between(canvas, position, drawn, shape, crossings[1], crossings[2])
        elif crossings[0] > 2:
            # several edges: fill between each pair of crossings from left to right
            x0, edge = _next_crossing(row, canvas.height, drawn, shape, (_FAR, _BEFORE))
            for pair in range(crossings[0] // 2):
                x1, edge = _next_crossing(row, canvas.height, drawn, shape, (x0, edge))
                _fill_between(canvas, position, drawn, shape, x0, x1)
                if pair + 1 < crossings[0] // 2:
                    x0, edge = _next_crossing(row, canvas.height, drawn, shape, (x1, edge))


@kernel_jit
def _position(point: int) -> int:
    """Return a coordinate of a point in 65,536ths of a pixel."""
    result: Any = np.int64(point) << (SHIFT - POINT_SHIFT)
    return result  # type: ignore[no-any-return]


@kernel_jit
def _height(point: int, is_filled: bool) -> int:
    """Return the row of a point in 65,536ths; corners of filled shapes are at whole rows."""
    y: Any = np.int64(point) << (SHIFT - POINT_SHIFT)
    if is_filled:
        y = (y + (ONE >> 1)) & -ONE
    return y  # type: ignore[no-any-return]


@kernel_jit
def _draw_contour(
    canvas: Canvas, position: tuple[int, int], drawn: ShapeArrays, shape: int, contour: int, crossings: _Crossings
) -> _Crossings:
    """Draw the lines of a contour in a row, and return the crossings, updated with those of this contour."""
    points, contours, shapes = drawn.points, drawn.contours, drawn.shapes
    start: Any = np.int64(contours[contour, 0])
    stop: Any = np.int64(contours[contour, 1])
    is_filled, is_open, row = shapes[shape, 0] == FILLED, shapes[shape, 0] == OPEN_LINE, position[1]
    if start >= stop:
        return crossings
    count, leftmost, rightmost = crossings
    before = start if is_open else stop - 1
    y0 = _height(points[before, 1], is_filled)
    for point in range(start + 1 if is_open else start, stop):
        y1 = _height(points[point, 1], is_filled)
        if (min(y0, y1) >> SHIFT) - 3 <= row <= (max(y0, y1) >> SHIFT) + 3:
            line = (_position(points[before, 0]), y0, _position(points[point, 0]), y1)
            _draw_line(canvas, position, drawn, shape, line)
            if is_filled:
                is_crossing, x = _crossing(line, row, canvas.height)
                if is_crossing:
                    count, leftmost, rightmost = count + 1, min(leftmost, x), max(rightmost, x)
        before, y0 = point, y1
    return count, leftmost, rightmost


@kernel_jit
def _draw_line(canvas: Canvas, position: tuple[int, int], drawn: ShapeArrays, shape: int, line: _Line) -> None:
    """Draw the part of an anti-aliased line that is in a row."""
    row = position[1]
    height: Any = np.int64(canvas.height)
    width: Any = np.int64(canvas.width)
    is_seen, is_flat, p, num_steps, q, q_per_step, usual, weights = line_course(
        line[0], line[1], line[2], line[3], height, width
    )
    if not is_seen:
        return
    if is_flat:
        for step in range(min(num_steps + 1, width - p)):
            at = q + step * q_per_step
            across = row - (at >> SHIFT)
            if -1 <= across <= 1:
                weight = _weight_at(step, num_steps, weights, usual, at, across)
                _blend(canvas, position, p + step, drawn, shape, weight)
        return
    step = row - p
    if 0 <= step <= num_steps:
        at = q + step * q_per_step
        for across in range(-1, 2):
            column = (at >> SHIFT) + across
            if 0 <= column < width:
                weight = _weight_at(step, num_steps, weights, usual, at, across)
                _blend(canvas, position, column, drawn, shape, weight)


@kernel_jit
def _weight_at(step: int, num_steps: int, weights: tuple[int, int, int, int], usual: int, at: int, across: int) -> int:
    """Return the weight in 256ths of a pixel before (-1), on (0) or after (1) a line in one of its steps."""
    weight: Any = usual
    if step == num_steps:
        weight = weights[3]
    elif step == num_steps - 1:
        weight = weights[2]
    elif step < 2:
        weight = weights[step]
    part = (at >> (SHIFT - 5)) & 31
    position: Any = part + 32 if across < 0 else part if across == 0 else 63 - part
    result: int = (weight * DISTANCE_WEIGHTS[position]) >> 8 & 0xFF
    return result


@kernel_jit
def _blend(canvas: Canvas, position: tuple[int, int], column: int, drawn: ShapeArrays, shape: int, weight: int) -> None:
    """Blend a colour into a pixel of each plane, twice like OpenCV."""
    pixels, colors, color = canvas.pixels, drawn.colors, drawn.shapes[shape, 3]
    plane: Any = np.int64(canvas.height) * canvas.width
    at: Any = np.int64(position[0]) * plane + np.int64(position[1]) * canvas.width + column
    if colors.shape[1] == 3:  # read all values before writing, so that memory accesses can overlap
        red, green, blue = pixels[at], pixels[at + plane], pixels[at + 2 * plane]
        pixels[at] = _mixed(red, colors[color, 0], weight)
        pixels[at + plane] = _mixed(green, colors[color, 1], weight)
        pixels[at + 2 * plane] = _mixed(blue, colors[color, 2], weight)
        return
    for channel in range(colors.shape[1]):
        pixels[at] = _mixed(pixels[at], colors[color, channel], weight)
        at += plane


@kernel_jit
def _mixed(value: int, color: int, weight: int) -> int:
    """Return the value of a pixel after painting a colour over it with a weight in 256ths."""
    share: Any = np.int64(color) * weight + 127
    once: Any = (np.int64(value) * (256 - weight) + share) >> 8
    result: int = (once * (256 - weight) + share) >> 8
    return result


@kernel_jit
def _crossing(line: _Line, row: int, height: int) -> tuple[bool, int]:
    """Return whether an edge of a filled shape crosses a row, and the crossing."""
    x0, y0, x1, y1 = line
    row0, row1 = y0 >> SHIFT, y1 >> SHIFT
    if not max(min(row0, row1), 0) <= row < min(max(row0, row1), height):
        return False, _ZERO
    x_per_row = divide(x1 - x0, row1 - row0)
    return True, x0 + (row - row0) * x_per_row if row0 < row1 else x1 + (row - row1) * x_per_row


@kernel_jit
def _next_crossing(row: int, height: int, drawn: ShapeArrays, shape: int, last: tuple[int, int]) -> tuple[int, int]:
    """Return the next crossing after a given one from left to right, and its edge.

    Crossings at the same position are ordered by their edges.
    """
    points, contours, shapes = drawn.points, drawn.contours, drawn.shapes
    best_x, best_edge, edge = -_FAR, _BEFORE, _ZERO
    for contour in range(shapes[shape, 1], shapes[shape, 2]):
        start: Any = np.int64(contours[contour, 0])
        stop: Any = np.int64(contours[contour, 1])
        if not contours[contour, 2] <= row < contours[contour, 3]:
            edge += stop - start
            continue
        before = stop - 1
        for point in range(start, stop):
            y0, y1 = _height(points[before, 1], True), _height(points[point, 1], True)
            line = (_position(points[before, 0]), y0, _position(points[point, 0]), y1)
            is_there, x = _crossing(line, row, height)
            before = point
            if is_there and (x > last[0] or (x == last[0] and edge > last[1])) and x < best_x:
                best_x, best_edge = x, edge
            edge += 1
    return best_x, best_edge


@kernel_jit
def _fill_between(canvas: Canvas, position: tuple[int, int], drawn: ShapeArrays, shape: int, x0: int, x1: int) -> None:
    """Fill the pixels from one crossing to another."""
    pixels, words, height, width = canvas
    colors, color = drawn.colors, drawn.shapes[shape, 3]
    left: Any = max((x0 + ONE - 1) >> SHIFT, 0)
    right: Any = min((x1 >> SHIFT) + 1, np.int64(width))
    if left >= right:
        return
    begin: Any = (np.int64(position[0]) * height + position[1]) * width
    for channel in range(colors.shape[1]):
        # write eight pixels at once in words that lie inside this row, so no other thread writes to them
        first, end, value = begin + left, begin + right, colors[color, channel]
        first_word = (first + 7) >> _WORD_SHIFT
        end_word = max(end >> _WORD_SHIFT, first_word)
        for at in range(first, min(first_word << _WORD_SHIFT, end)):
            pixels[at] = value
        word: Any = np.uint64(value) * _EIGHT_TIMES
        for at in range(first_word, end_word):
            words[at] = word
        for at in range(max(end_word << _WORD_SHIFT, first), end):
            pixels[at] = value
        begin += height * width
