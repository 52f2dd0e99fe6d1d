"""Gap between boxes, and the time until boxes that move on meet."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from l5kit.geometry.box_overlap import box_gap, boxes_overlap, overlap_time

UNIT = np.array([0.0, 0.0, 0.0, 4.0, 2.0])
STILL = np.zeros(2)


@pytest.mark.parametrize(
    ("other", "gap_m"),
    [
        pytest.param([10, 0, 0, 4, 2], 6.0, id="ahead"),
        pytest.param([0, -5, 0, 4, 2], 3.0, id="beside"),
        pytest.param([7, 6, 0, 4, 2], 5.0, id="corner to corner"),
        pytest.param([10, 0, np.pi / 2, 4, 2], 7.0, id="across"),
        pytest.param([5, 0, np.pi / 4, 2, 2], 3 - np.sqrt(2), id="a corner ahead"),
        pytest.param([3.9, 0, 0, 4, 2], 0.0, id="overlaps"),
        pytest.param([0, 0, 1, 0.2, 0.2], 0.0, id="inside"),
        pytest.param([4, 0, 0, 4, 2], 0.0, id="touches"),
    ],
)
def test_known_gaps(other, gap_m):
    other = np.array(other, float)
    assert_allclose([box_gap(UNIT, other), box_gap(other, UNIT)], gap_m, atol=1e-12)


@pytest.mark.parametrize(
    ("other", "velocity", "other_velocity", "time_s"),
    [
        pytest.param([10, 0, 0, 4, 2], (3, 0), (0, 0), 2.0, id="drives up to one that stands"),
        pytest.param([10, 0, 0, 4, 2], (3, 0), (1, 0), 3.0, id="to one that is slower"),
        pytest.param([10, 0, 0, 4, 2], (3, 0), (-3, 0), 1.0, id="to one that comes"),
        pytest.param([10, 0, 0, 4, 2], (3, 0), (3, 0), np.inf, id="behind one as fast"),
        pytest.param([10, 0, 0, 4, 2], (3, 0), (4, 0), np.inf, id="behind one that is faster"),
        pytest.param([10, 2.1, 0, 4, 2], (3, 0), (0, 0), np.inf, id="past one"),
        pytest.param([10, 0, np.pi / 2, 4, 2], (7, 0), (0, 0), 1.0, id="to one across"),
        pytest.param([0, 8, -np.pi / 2, 4, 2], (0, 0), (0, -2.5), 2.0, id="is driven at"),
        pytest.param([10, -9, np.pi / 2, 4, 2], (2, 0), (0, 2), 3.5, id="crossing ways"),
        pytest.param([10, -20, np.pi / 2, 4, 2], (2, 0), (0, 2), np.inf, id="crosses behind"),
        pytest.param([1, 0, 0, 4, 2], (0, 0), (0, 0), 0.0, id="overlaps"),
        pytest.param([1, 0, 0, 4, 2], (0, 0), (9, 0), 0.0, id="overlaps and leaves"),
    ],
)
def test_known_times(other, velocity, other_velocity, time_s):
    other, velocity, other_velocity = (np.array(values, float) for values in (other, velocity, other_velocity))
    assert_allclose(overlap_time(UNIT, velocity, other, other_velocity), time_s)
    assert_allclose(overlap_time(other, other_velocity, UNIT, velocity), time_s)


coordinates, sizes = st.floats(-12.0, 12.0), st.floats(0.3, 6.0)
boxes = st.tuples(coordinates, coordinates, st.floats(-4.0, 4.0), sizes, sizes).map(np.array)
velocities = st.tuples(st.floats(-9.0, 9.0), st.floats(-9.0, 9.0)).map(np.array)


def moved(box, offset_m):
    return box + [*offset_m, 0, 0, 0]


@settings(max_examples=200, deadline=None)
@given(boxes, boxes, velocities)
def test_boxes_overlap_from_the_time_on_and_not_before(a, b, velocity):
    time_s = overlap_time(a, velocity, b, STILL)
    before_s = np.linspace(0, min(time_s, 5.0) * (1 - 1e-6) - 1e-6, 40)
    assert time_s == 0 or not any(boxes_overlap(moved(a, t * velocity), b) for t in before_s)
    if np.isfinite(time_s):
        assert box_gap(moved(a, time_s * velocity), b) < 1e-6


@settings(max_examples=100, deadline=None)
@given(boxes, boxes)
def test_a_gap_is_as_far_as_points_of_the_outlines(a, b):
    assert box_gap(a, b) == box_gap(b, a)
    if box_gap(a, b) > 0:
        points = [outline_points(box) for box in (a, b)]
        farther_m = np.linalg.norm(points[0][:, None] - points[1][None], axis=-1).min() - box_gap(a, b)
        assert -1e-9 < farther_m < 0.1


def outline_points(box):
    """Points of the sides, at most 0.1 m apart."""
    sides = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1], [1, 1]]) * box[3:] / 2
    parts = np.linspace(0, 1, 61)[:, None]
    local = np.concatenate([start + parts * (end - start) for start, end in itertools.pairwise(sides)])
    turn = np.array([[np.cos(box[2]), np.sin(box[2])], [-np.sin(box[2]), np.cos(box[2])]])
    return local @ turn + box[:2]
