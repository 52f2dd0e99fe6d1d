"""Exact contact of boxes, and lengths of segments inside boxes, decided without rounding.

Corners are float64 and taken as exact. Whether a corner is left of an edge is computed in floating point if the sign
is beyond doubt, else with integers, as in robust geometry libraries. So boxes that touch in a single point, or
whose edges coincide, are decided by their corners alone.

Corners of a box are clockwise, as from :func:`l5kit.geometry.box.compute_box_outline`. A box may be a line or a point.
"""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array

_SIGN_ERROR: Final = 8 * float(np.finfo(np.float64).eps)
"""Bound above the rounding error of a cross product of differences, relative to the sizes of its two terms.

The error is at most 3.4e-16, see Shewchuk, "Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric
Predicates" (1997).
"""

_APART, _TOUCHING, _IN_DOUBT = range(3)

_EDGES_OF_POINT: Final = ((1, 0), (0, -1), (-1, 0), (0, 1))
"""Directions of the edges of a box without length and width."""

_Point = tuple[int, int]


def boxes_touch(boxes_m: Float64Array, others_m: Float64Array) -> BoolArray:
    """Return which pairs of boxes share a point.

    Args:
        boxes_m: Corners in metres, clockwise, shape (N, 4, 2), or one box for all others, (4, 2).
        others_m: Corners of the others, clockwise, shape (N, 4, 2).

    Returns:
        Shape (N,).
    """
    # writable, contiguous copies, so that the kernel is compiled for one type only
    shape = others_m.shape
    boxes_m, others_m = (np.array(np.broadcast_to(each, shape), order="C") for each in (boxes_m, others_m))
    contacts = _find_contacts(boxes_m, others_m)
    touch: BoolArray = contacts == _TOUCHING
    for index in np.flatnonzero(contacts == _IN_DOUBT).tolist():
        (box, other), _ = _as_integers(boxes_m[index], others_m[index])
        touch[index] = not _has_separating_edge(box, other) and not _has_separating_edge(other, box)
    return touch


def lengths_inside(segments_m: Float64Array, box_m: Float64Array) -> Float64Array:
    """Return the length of segments inside a box or on its edges.

    Crossings of a segment and an edge are rounded once, to the nearest float64.

    Args:
        segments_m: Start and end in metres, shape (S, 2, 2).
        box_m: Corners in metres, clockwise, shape (4, 2).

    Returns:
        Metres, shape (S,).
    """
    (box, *segments), scale = _as_integers(box_m, *segments_m)
    lengths_m = np.zeros(len(segments))
    for row, (start, end) in enumerate(segments):
        # part of the segment that is inside all edges so far, as fractions of its length
        enters, leaves = Fraction(0), Fraction(1)
        for corner, step in _edges(box):
            start_turn, end_turn = _turn(corner, step, start), _turn(corner, step, end)
            if start_turn > 0 and end_turn > 0:
                break
            if start_turn > 0:
                enters = max(enters, Fraction(start_turn, start_turn - end_turn))
            elif end_turn > 0:
                leaves = min(leaves, Fraction(start_turn, start_turn - end_turn))
        else:
            if enters <= leaves:
                (x0, y0), (x1, y1) = _point_at(enters, start, end, scale), _point_at(leaves, start, end, scale)
                lengths_m[row] = math.sqrt((x1 - x0) ** 2 + (y1 - y0) ** 2)
    return lengths_m


@kernel_jit
def _find_contacts(firsts_m: Float64Array, seconds_m: Float64Array) -> Int64Array:
    """Return for pairs of boxes (P, 4, 2), clockwise, whether they are apart, touching or in doubt, (P,)."""
    contacts = np.empty(len(firsts_m), np.int64)
    for pair in range(len(firsts_m)):
        one, other = _relation(firsts_m[pair], seconds_m[pair]), _relation(seconds_m[pair], firsts_m[pair])
        contacts[pair] = _APART if min(one, other) == _APART else max(one, other)
    return contacts


@kernel_jit
def _relation(box_m: Float64Array, other_m: Float64Array) -> int:
    """Return whether an edge of a box separates it from another, none does, or this is in doubt due to rounding."""
    is_doubtful = False
    for edge in range(4):
        # boxes are apart if all corners of one are left of an edge of the other, which runs clockwise
        num_left = 0
        for corner in range(4):
            turn, error = turn_from_edge(box_m, edge, other_m[corner, 0], other_m[corner, 1])
            num_left += turn > error
            is_doubtful |= not abs(turn) > error
        if num_left == 4:
            return _APART
    return _IN_DOUBT if is_doubtful else _TOUCHING


@kernel_jit
def turn_from_edge(box_m: Float64Array, edge: int, x: float, y: float) -> tuple[float, float]:
    """Return a number that is positive if a point is left of an edge of a box, and its rounding error bound."""
    after = (edge + 1) % 4
    first = (box_m[after, 0] - box_m[edge, 0]) * (y - box_m[edge, 1])
    second = (box_m[after, 1] - box_m[edge, 1]) * (x - box_m[edge, 0])
    return first - second, _SIGN_ERROR * (abs(first) + abs(second))


def _as_integers(*outlines_m: Float64Array) -> tuple[list[list[_Point]], int]:
    """Return points as integers in a common unit, and the number of units per metre; nothing is rounded."""
    ratios = [[(x.as_integer_ratio(), y.as_integer_ratio()) for x, y in outline.tolist()] for outline in outlines_m]
    scale = max(denominator for outline in ratios for point in outline for _, denominator in point)
    points = [[(x * (scale // x_per), y * (scale // y_per)) for (x, x_per), (y, y_per) in row] for row in ratios]
    return points, scale


def _edges(box: list[_Point]) -> Iterator[tuple[_Point, _Point]]:
    """Yield start and direction of the edges; an edge without length is perpendicular to the one before."""
    around = itertools.pairwise([box[-1], *box, box[0]])
    steps = [(end[0] - start[0], end[1] - start[1]) for start, end in around]
    for corner, before, step, point_step in zip(box, steps[:-1], steps[1:], _EDGES_OF_POINT, strict=True):
        yield corner, (step if any(step) else (before[1], -before[0]) if any(before) else point_step)


def _turn(corner: _Point, step: _Point, point: _Point) -> int:
    """Return a number that is positive if a point is left of an edge, and negative if it is right of it."""
    return step[0] * (point[1] - corner[1]) - step[1] * (point[0] - corner[0])


def _has_separating_edge(box: list[_Point], other: list[_Point]) -> bool:
    return any(all(_turn(corner, step, point) > 0 for point in other) for corner, step in _edges(box))


def _point_at(part: Fraction, start: _Point, end: _Point, scale: int) -> tuple[float, float]:
    """Return the point in metres at a fraction of the segment from start to end, rounded once."""
    numerator, denominator = part.numerator, part.denominator
    x, y = (a * denominator + numerator * (b - a) for a, b in zip(start, end, strict=True))
    return x / (denominator * scale), y / (denominator * scale)
