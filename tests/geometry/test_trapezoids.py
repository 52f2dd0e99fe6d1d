"""Polygons with holes, cut into trapezoids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.geometry.polygon import is_inside_polygon
from l5kit.geometry.trapezoids import cut_into_trapezoids

SQUARE = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]])
HOLE = np.array([[4.0, 4.0], [6.0, 4.0], [6.0, 6.0], [4.0, 6.0]])


def area_of(corners):
    x, y = corners.T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


def test_a_square_with_a_square_hole_is_four_boxes():
    cut = cut_into_trapezoids([SQUARE, HOLE])
    assert sorted(area_of(corners) for corners in cut) == [8.0, 8.0, 40.0, 40.0]


@pytest.mark.parametrize(
    ("rings", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([SQUARE[:3]], [50.0], id="triangle"),
        pytest.param([SQUARE], [100.0], id="square"),
        pytest.param([SQUARE[::-1]], [100.0], id="clockwise"),
        pytest.param([SQUARE, SQUARE], [], id="all of it is a hole"),
        pytest.param([SQUARE, SQUARE + [10.0, 0.0]], [100.0, 100.0], id="side by side"),
    ],
)
def test_areas_of_what_is_cut(rings, expected):
    assert [area_of(corners) for corners in cut_into_trapezoids(rings)] == expected


def ring_around(generator, middle, radius_m, num_corners):
    """A ring of corners in random directions and distances, seen from its middle."""
    turns = np.sort(generator.uniform(0, 2 * np.pi, num_corners))
    far_m = radius_m * generator.uniform(0.7, 1.0, num_corners)
    return middle + far_m[:, None] * np.stack([np.cos(turns), np.sin(turns)], axis=1)


@given(st.integers(0, 2**32 - 1), st.integers(12, 80))
def test_points_are_in_one_trapezoid_where_they_are_in_the_outline_and_in_no_hole(seed, num_corners):
    generator = np.random.default_rng(seed)
    turns = np.linspace(0, 2 * np.pi, num_corners, endpoint=False) + generator.uniform(0, 1)
    outline = 100 * np.stack([np.cos(turns), np.sin(turns)], axis=1) * generator.uniform(0.8, 1.0, (num_corners, 1))
    holes = [ring_around(generator, np.array([x_m, 5.0]), 15.0, 7) for x_m in (-35.0, 0.0, 35.0)]
    cut = cut_into_trapezoids([outline, *holes])
    for point in generator.uniform(-110, 110, (50, 2)):
        is_inside = is_inside_polygon(outline, point) and not any(is_inside_polygon(hole, point) for hole in holes)
        assert sum(is_inside_polygon(corners, point) for corners in cut) == is_inside
