"""Boxes that share a point, and how much of a segment lies inside a box, decided without rounding.

Corners are float64 and taken as they are. Whether a corner is left of an edge is computed in floating point where the
sign is beyond doubt, else with integers, as robust geometry libraries do. So boxes that touch in a single point, or
whose edges coincide, are decided by their corners alone.

A box lists its corners clockwise, as :func:`l5kit.geometry.box.compute_box_outline` does. It may be a line or a point.
"""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array

_SIGN_ERROR: Final = 8 * float(np.finfo(np.float64).eps)
"""More than the rounding error of a cross product of differences, relative to the sizes of its two terms.

It is 3.4e-16 by Shewchuk, "Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric Predicates" (1997).
"""

_EDGES_OF_POINT: Final = ((1, 0), (0, -1), (-1, 0), (0, 1))
"""Directions of the edges of a box without length and width."""

_Point = tuple[int, int]


def boxes_touch(box_m: Float64Array, others_m: Float64Array) -> BoolArray:
    """Return which boxes share a point with one.

    Args:
        box_m: Its corners in metres, clockwise, shape (4, 2).
        others_m: Corners of the others, clockwise, shape (N, 4, 2).

    Returns:
        Shape (N,).
    """
    boxes_m = np.broadcast_to(box_m, others_m.shape)
    is_apart, is_doubtful = np.zeros((2, len(others_m)), np.bool_)
    for edges_m, corners_m in ((boxes_m, others_m), (others_m, boxes_m)):
        is_left, is_unknown = _left_of_edges(edges_m, corners_m)
        is_apart |= (is_left & ~is_unknown).all(axis=-1).any(axis=-1)
        is_doubtful |= is_unknown.any(axis=(-2, -1))
    touch = ~is_apart
    for index in np.flatnonzero(touch & is_doubtful).tolist():
        (box, other), _ = _as_integers(box_m, others_m[index])
        touch[index] = not _has_separating_edge(box, other) and not _has_separating_edge(other, box)
    return touch


def lengths_inside(segments_m: Float64Array, box_m: Float64Array) -> Float64Array:
    """Return how much of segments lies inside a box or on its edge.

    Where a segment crosses an edge, the point is rounded once, to the nearest float64.

    Args:
        segments_m: Start and end in metres, shape (S, 2, 2).
        box_m: Corners in metres, clockwise, shape (4, 2).

    Returns:
        Metres, shape (S,).
    """
    (box, *segments), scale = _as_integers(box_m, *segments_m)
    return np.array([_length_inside(start, end, box, scale) for start, end in segments], np.float64)


def _left_of_edges(edges_m: Float64Array, corners_m: Float64Array) -> tuple[BoolArray, BoolArray]:
    """Return which corners (N, 4, 2) are left of each edge of other boxes (N, 4, 2), and where this is not sure."""
    steps = (np.roll(edges_m, -1, axis=1) - edges_m)[:, :, None]
    offsets = corners_m[:, None] - edges_m[:, :, None]
    first, second = steps[..., 0] * offsets[..., 1], steps[..., 1] * offsets[..., 0]
    turns = first - second
    is_sure: BoolArray = np.abs(turns) > _SIGN_ERROR * (np.abs(first) + np.abs(second))
    return turns > 0, ~is_sure


def _as_integers(*outlines_m: Float64Array) -> tuple[list[list[_Point]], int]:
    """Return points in whole units of one length, and how many of these a metre has; nothing is rounded."""
    ratios = [[(x.as_integer_ratio(), y.as_integer_ratio()) for x, y in outline.tolist()] for outline in outlines_m]
    scale = max(denominator for outline in ratios for point in outline for _, denominator in point)
    points = [[(x * (scale // x_per), y * (scale // y_per)) for (x, x_per), (y, y_per) in row] for row in ratios]
    return points, scale


def _edges(box: list[_Point]) -> Iterator[tuple[_Point, _Point]]:
    """Yield start and direction of the edges; one without a length is square to the one before."""
    around = itertools.pairwise([box[-1], *box, box[0]])
    steps = [(end[0] - start[0], end[1] - start[1]) for start, end in around]
    for corner, before, step, of_point in zip(box, steps[:-1], steps[1:], _EDGES_OF_POINT, strict=True):
        yield corner, (step if any(step) else (before[1], -before[0]) if any(before) else of_point)


def _turn(corner: _Point, step: _Point, point: _Point) -> int:
    """Return a number above 0 where a point is left of an edge, below 0 where it is right of it."""
    return step[0] * (point[1] - corner[1]) - step[1] * (point[0] - corner[0])


def _has_separating_edge(box: list[_Point], other: list[_Point]) -> bool:
    return any(all(_turn(corner, step, point) > 0 for point in other) for corner, step in _edges(box))


def _length_inside(start: _Point, end: _Point, box: list[_Point], scale: int) -> float:
    """Return the metres of a segment that are inside a box, both in units of which a metre has ``scale``."""
    enters, leaves = Fraction(0), Fraction(1)
    for corner, step in _edges(box):
        of_start, of_end = _turn(corner, step, start), _turn(corner, step, end)
        if of_start > 0 and of_end > 0:
            return 0.0
        if of_start > 0:
            enters = max(enters, Fraction(of_start, of_start - of_end))
        elif of_end > 0:
            leaves = min(leaves, Fraction(of_start, of_start - of_end))
    if leaves < enters:
        return 0.0
    (x0, y0), (x1, y1) = _point_at(enters, start, end, scale), _point_at(leaves, start, end, scale)
    return math.sqrt((x1 - x0) ** 2 + (y1 - y0) ** 2)


def _point_at(part: Fraction, start: _Point, end: _Point, scale: int) -> tuple[float, float]:
    """Return the point in metres at a part of the way from start to end, rounded once."""
    numerator, denominator = part.numerator, part.denominator
    x, y = (a * denominator + numerator * (b - a) for a, b in zip(start, end, strict=True))
    return x / (denominator * scale), y / (denominator * scale)
