"""Boxes as polygons."""

import importlib.util
import sys

import numpy as np
import pytest

from l5kit.errors import MissingDependencyError
from l5kit.planning.utils import _get_bounding_box, _get_sides, within_range
from support.tolerances import FLOAT64

needs_shapely = pytest.mark.skipif(importlib.util.find_spec("shapely") is None, reason="needs the extra collision")


@needs_shapely
def test_corners_of_a_box():
    box = _get_bounding_box(np.array([10.0, 20.0]), 0.0, np.array([4.0, 2.0, 1.0]))
    corners = list(box.exterior.coords)[:4]
    assert corners == [(12.0, 21.0), (12.0, 19.0), (8.0, 19.0), (8.0, 21.0)]


@needs_shapely
@pytest.mark.parametrize("yaw", [-2.0, 0.0, 0.3, np.pi])
def test_area_and_centre_are_those_of_the_box(yaw):
    box = _get_bounding_box(np.array([10.0, -20.0]), yaw, np.array([4.5, 2.0]))
    assert box.is_valid
    assert box.area == pytest.approx(9.0)
    assert (box.centroid.x, box.centroid.y) == pytest.approx((10.0, -20.0))


@needs_shapely
@pytest.mark.parametrize("yaw", [0.0, 1.1])
def test_sides_of_a_box(yaw):
    front, rear, left, right = _get_sides(_get_bounding_box(np.array([1.0, 2.0]), yaw, np.array([4.0, 2.0])))
    assert [side.length for side in (front, rear, left, right)] == pytest.approx([2.0, 2.0, 4.0, 4.0])
    assert front.touches(left)
    assert front.touches(right)
    assert not front.touches(rear)
    ahead = np.array([np.cos(yaw), np.sin(yaw)])
    middle = np.array(front.centroid.coords[0]) - np.array(rear.centroid.coords[0])
    np.testing.assert_allclose(middle, 4.0 * ahead, atol=FLOAT64)


@needs_shapely
def test_direction_of_the_sides():
    front, rear, left, right = _get_sides(_get_bounding_box(np.zeros(2), 0.0, np.array([4.0, 2.0])))
    assert list(front.coords) == [(2.0, 1.0), (2.0, -1.0)]
    assert list(rear.coords) == [(-2.0, -1.0), (-2.0, 1.0)]
    assert list(left.coords) == [(2.0, 1.0), (-2.0, 1.0)]
    assert list(right.coords) == [(2.0, -1.0), (-2.0, -1.0)]


def test_without_shapely_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "shapely", None)
    with pytest.raises(MissingDependencyError, match="extra collision"):
        _get_bounding_box(np.zeros(2), 0.0, np.ones(2))


def test_range_is_half_the_diagonals():
    agents = np.array([[9.9, 0.0], [10.1, 0.0], [1000.0, 0.0]])
    extents = np.array([[12.0, 5.0, 1.0]] * 3)  # a diagonal of 13 m
    near = within_range(np.zeros(2), np.array([4.2, 5.6]), agents, extents)  # and one of 7 m
    assert near.tolist() == [True, False, False]


def test_p13_extents_of_several_egos_are_read_row_by_row():
    centroids = np.array([[0.0, 0.0], [50.0, 0.0]])
    extents = np.array([[4.0, 2.0, 1.5], [4.0, 2.0, 1.5]])
    assert within_range(centroids, extents, centroids, extents).tolist() == [True, True]
    assert within_range(centroids, extents, centroids + 1000.0, extents).tolist() == [False, False]


def test_range_without_agents():
    assert within_range(np.zeros(2), np.ones(2), np.zeros((0, 2)), np.zeros((0, 3))).shape == (0,)
