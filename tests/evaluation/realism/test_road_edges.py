"""Edges of the made road of ``make_road_map``: 8 m wide from y = -2 to 6, with a crosswalk and a junction."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from l5kit.errors import InvalidArgumentError

ROUNDED_M = 0.02


@pytest.mark.parametrize(
    ("point_m", "distance_m"),
    [
        pytest.param((20, 0), 2.0, id="middle of the right lane"),
        pytest.param((20, 2), 4.0, id="between the lanes, which is no edge"),
        pytest.param((20, 5), 1.0, id="left lane"),
        pytest.param((20, -3), -1.0, id="off to the right"),
        pytest.param((20, 8.5), -2.5, id="off to the left"),
        pytest.param((52, -9), 1.0, id="on the crosswalk beside the road"),
        pytest.param((100, 0), 2.0, id="where lanes follow each other, which is no edge"),
        pytest.param((180, 1.5), 0.5, id="road to the east"),
        pytest.param((20, -300), -10.0, id="far away"),
    ],
)
def test_distances_to_the_edge(road_edges, point_m, distance_m):
    assert_allclose(road_edges.distances_m(np.array([point_m], float)), [distance_m], atol=ROUNDED_M)


def test_an_edge_that_goes_on_under_a_crosswalk_ends_there_to_a_quarter_of_a_metre(road_edges):
    """The crosswalk reaches from x = 50 to 54 over the edge of the road at y = -2, and over that at y = 6."""
    distance_m = road_edges.distances_m(np.array([[52.0, 2.0]]))[0]
    assert np.hypot(1.75, 4) - ROUNDED_M < distance_m < np.hypot(2.25, 4) + ROUNDED_M


def test_all_points_at_once_are_as_each_alone(road_edges):
    points_m = np.random.default_rng(0).uniform((-20, -20), (230, 110), (400, 2))
    alone = [road_edges.distances_m(point[None])[0] for point in points_m]
    assert_allclose(road_edges.distances_m(points_m), alone, atol=0)
    assert (np.abs(alone) <= 10).all()


def test_edges_are_where_the_surface_ends(road_edges):
    """Beside the middle of each edge one side is on the road and the other is not."""
    starts, ends = road_edges.ends_m[:, 0], road_edges.ends_m[:, 1]
    aside = (ends - starts)[:, ::-1] * [-1, 1]
    aside *= 0.2 / np.linalg.norm(aside, axis=1, keepdims=True)
    middles = 0.5 * (starts + ends)
    left = road_edges.driving_map.distances_to_surface_m(middles + aside) == 0
    right = road_edges.driving_map.distances_to_surface_m(middles - aside) == 0
    assert len(starts) > 10
    assert (left != right).mean() > 0.95  # the middle of parts that were joined is none of those that were looked at


def test_points_of_another_shape_are_refused(road_edges):
    with pytest.raises(InvalidArgumentError, match=r"\(B, 2\)"):
        road_edges.distances_m(np.zeros((4, 3)))
