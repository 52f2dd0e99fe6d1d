"""Sides of lanes from polygons and centre lines, and how many corners are compared at most."""

import numpy as np
import pytest

from l5kit.readers import nuscenes_lanes
from l5kit.readers.nuscenes_lanes import sides_of_lane

EAST_M = np.array([(0.0, 0.0), (5.0, 0.0), (10.0, 0.0)])
OUTLINE_M = np.array([(0.0, -2.0), (4.0, -2.0), (10.0, -2.0), (10.0, 2.0), (0.0, 2.0)])


@pytest.mark.parametrize("order", [1, -1], ids=["counterclockwise", "clockwise"])
@pytest.mark.parametrize("first", range(5))
def test_sides_run_with_the_lane_whatever_the_order_of_the_corners(order, first):
    outline_m = np.roll(OUTLINE_M[::order], first, axis=0)
    left_m, right_m = sides_of_lane(EAST_M, outline_m)
    assert left_m.tolist() == [[0, 2], [10, 2]]
    assert right_m.tolist() == [[0, -2], [4, -2], [10, -2]]
    left_m, right_m = sides_of_lane(EAST_M[::-1], outline_m)
    assert left_m.tolist() == [[10, -2], [4, -2], [0, -2]]
    assert right_m.tolist() == [[10, 2], [0, 2]]


def test_no_more_corners_and_points_are_compared_than_a_lane_may_have(monkeypatch):
    monkeypatch.setattr(nuscenes_lanes, "_MOST_PAIRS", len(EAST_M) * len(OUTLINE_M))
    assert sides_of_lane(EAST_M, OUTLINE_M)[0] is not None
    monkeypatch.setattr(nuscenes_lanes, "_MOST_PAIRS", len(EAST_M) * len(OUTLINE_M) - 1)
    assert sides_of_lane(EAST_M, OUTLINE_M) == (None, None)


def test_a_lane_with_absurdly_many_corners_has_no_sides(monkeypatch):
    """100,000 corners and 10,000 points of a centre line would take 16 GB."""
    monkeypatch.setattr(nuscenes_lanes, "_offsets", lambda *_: pytest.fail("they are compared"))
    xs_m = np.linspace(0.0, 10.0, 50_000)
    outline_m = np.concatenate([np.stack([xs_m, xs_m * 0 - 2], 1), np.stack([xs_m[::-1], xs_m * 0 + 2], 1)])
    centre_m = np.stack([np.linspace(0.0, 10.0, 10_000), np.zeros(10_000)], axis=1)
    assert sides_of_lane(centre_m, outline_m) == (None, None)
