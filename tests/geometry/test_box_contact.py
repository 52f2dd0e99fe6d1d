"""Boxes that touch, and segments in boxes, decided without rounding."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.geometry.box import compute_box_outline
from l5kit.geometry.box_contact import boxes_touch, lengths_inside

BOX = compute_box_outline([0.0, 0.0], 0.0, [4.0, 2.0])
LINE = compute_box_outline([0.0, 0.0], 0.0, [4.0, 0.0])
POINT = compute_box_outline([1.0, 0.5], 0.0, [0.0, 0.0])
TINY = 2.0**-52


def moved(box, x, y):
    return box + np.array([x, y])


@pytest.mark.parametrize(
    ("box", "other", "expected"),
    [
        pytest.param(BOX, BOX, True, id="the same"),
        pytest.param(BOX, moved(BOX, 4.0, 0.0), True, id="end to end"),
        pytest.param(BOX, moved(BOX, 4.0, 2.0), True, id="corner to corner"),
        pytest.param(BOX, moved(BOX, 4.0 + 4 * TINY, 0.0), False, id="one bit apart"),
        pytest.param(BOX, compute_box_outline([0.0, 0.0], 0.3, [0.1, 0.1]), True, id="inside"),
        pytest.param(BOX, LINE, True, id="a line inside"),
        pytest.param(BOX, moved(LINE, 0.0, 1.0), True, id="a line on the edge"),
        pytest.param(BOX, moved(LINE, 0.0, 1.0 + TINY), False, id="a line beside the edge"),
        pytest.param(LINE, LINE, True, id="the same line"),
        pytest.param(LINE, moved(LINE, 4.0, 0.0), True, id="lines end to end"),
        pytest.param(LINE, moved(LINE, 4.5, 0.0), False, id="lines one behind the other"),
        pytest.param(LINE, compute_box_outline([0.0, 0.0], math.pi / 2, [1.0, 0.0]), True, id="lines that cross"),
        pytest.param(BOX, POINT, True, id="a point inside"),
        pytest.param(LINE, POINT, False, id="a point beside a line"),
        pytest.param(LINE, moved(POINT, 0.0, -0.5), True, id="a point on a line"),
        pytest.param(LINE, moved(POINT, 2.0, -0.5), False, id="a point behind a line"),
        pytest.param(POINT, POINT, True, id="the same point"),
        pytest.param(POINT, moved(POINT, 0.0, TINY), False, id="two points"),
    ],
)
def test_boxes_that_touch_by_hand(box, other, expected):
    assert boxes_touch(box, other[None]).tolist() == [expected]
    assert boxes_touch(other, box[None]).tolist() == [expected]


def test_several_boxes_are_decided_like_one():
    rng = np.random.default_rng(3)
    others = compute_box_outline(rng.integers(-4, 5, (60, 2)) / 2, rng.integers(0, 4, 60) * 0.5, np.full((60, 2), 1.5))
    touch = boxes_touch(BOX, others)
    assert touch.tolist() == [boxes_touch(BOX, other[None])[0] for other in others]
    assert 0 < touch.sum() < 60
    assert boxes_touch(BOX, np.empty((0, 4, 2))).shape == (0,)


numbers = st.floats(-1e4, 1e4, allow_subnormal=False).filter(lambda value: value == 0 or abs(value) > 1e-6)


@given(st.tuples(numbers, numbers), numbers, st.tuples(st.floats(0.5, 9), st.floats(0.5, 9)), st.data())
def test_a_point_touches_where_it_is_left_of_no_edge(centroid, yaw, extent, data):
    """Points on the edges and corners, as near as numbers get, decided with fractions."""
    box = compute_box_outline(centroid, yaw, extent)
    first = data.draw(st.integers(0, 3))
    part = data.draw(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0]))
    point = box[first] + part * (box[(first + 1) % 4] - box[first])
    exact = [[Fraction(value) for value in corner] for corner in [*box.tolist(), box[0].tolist(), point.tolist()]]
    *corners, (x, y) = exact
    is_left = any((bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0 for (ax, ay), (bx, by) in itertools.pairwise(corners))
    assert boxes_touch(box, np.broadcast_to(point, (1, 4, 2)))[0] == (not is_left)


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        pytest.param([(-1, 0), (1, 0)], 2.0, id="inside"),
        pytest.param([(-5, 0), (5, 0)], 4.0, id="through"),
        pytest.param([(5, 0), (0, 0)], 2.0, id="into it"),
        pytest.param([(-2, 1), (2, 1)], 4.0, id="on an edge"),
        pytest.param([(-3, 1), (0, 1)], 2.0, id="on a part of an edge"),
        pytest.param([(-2, 1 + TINY), (2, 1 + TINY)], 0.0, id="beside an edge"),
        pytest.param([(2, 1), (3, 4)], 0.0, id="from a corner"),
        pytest.param([(3, 0), (4, 0)], 0.0, id="before it"),
        pytest.param([(1, 2), (3, 0)], 0.0, id="over a corner"),
        pytest.param([(1, 1.5), (2, 0.5)], math.sqrt(0.5), id="across a corner"),
        pytest.param([(0, 0), (0, 0)], 0.0, id="a point"),
    ],
)
def test_lengths_by_hand(segment, expected):
    segments = np.array([segment, segment[::-1]], np.float64)
    assert lengths_inside(segments, BOX).tolist() == [expected, expected]


def test_only_points_of_a_box_that_is_a_point_are_inside_it():
    segments = np.array([[(0.0, 0.5), (2.0, 0.5)], [(0.0, 0.0), (2.0, 0.0)]])
    assert lengths_inside(segments, POINT).tolist() == [0.0, 0.0]
    assert lengths_inside(segments, moved(LINE, 0.0, 0.5)).tolist() == [2.0, 0.0]
    assert lengths_inside(np.empty((0, 2, 2)), BOX).shape == (0,)
