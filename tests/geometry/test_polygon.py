"""Distances to lines and polygons, and what lies inside."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from l5kit.geometry.polygon import (
    distance_to_edge,
    distance_to_line,
    distance_to_polygon,
    furthest_from_line,
    is_inside_polygon,
)
from support.tolerances import FLOAT64

L_SHAPE = np.array([[0.0, 0.0], [4, 0], [4, 2], [2, 2], [2, 4], [0, 4]])


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        pytest.param((1.0, 1.0), 0.0, id="inside"),
        pytest.param((3.0, 3.0), 1.0, id="in the notch"),
        pytest.param((-3.0, -4.0), 5.0, id="off a corner"),
        pytest.param((2.0, -0.25), 0.25, id="below an edge"),
        pytest.param((-0.5, 2.0), 0.5, id="beside the edge that closes it"),
    ],
)
def test_distance_to_a_polygon(point, expected):
    assert_allclose(distance_to_polygon(L_SHAPE, np.array(point)), expected, atol=FLOAT64)
    assert is_inside_polygon(L_SHAPE, np.array(point)) is (expected == 0)


def test_distance_to_a_line_is_that_to_its_nearest_edge():
    line = np.array([[0.0, 0.0], [3, 0], [3, 4]])
    assert distance_to_line(line, np.array([5.0, 2.0])) == 2.0
    assert furthest_from_line(line, np.array([[5.0, 2.0], [-3.0, -4.0], [0.0, 0.0]])) == 5.0
    assert distance_to_edge(line[0], line[0], np.array([3.0, 4.0])) == 5.0
