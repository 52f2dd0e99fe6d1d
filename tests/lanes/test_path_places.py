"""Places on paths that lie over themselves: laps of roundabouts of many sizes."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from l5kit.lanes.lane_paths import PATH_STEP_M
from l5kit.lanes.path_positions import find_on_path, follow_routes

LAPS = 3.5


def circle(radius_m: float, *, phase: float = 0.0) -> np.ndarray:
    """Return the points of a path around the origin, 2 m apart, so that those of its laps do not coincide."""
    turns = phase + np.arange(0, LAPS * 2 * np.pi * radius_m, PATH_STEP_M) / radius_m
    return radius_m * np.stack([np.cos(turns), np.sin(turns)], axis=-1)


@pytest.mark.parametrize("phase", [0.0, 0.7, 2.0, 3.9, 5.5])
@pytest.mark.parametrize("aside_m", [-1.5, 0.0, 1.5])
@pytest.mark.parametrize("radius_m", [5.0, 5.9, 6.3, 7.5, 14.2, 30.0])
def test_a_vehicle_that_drives_laps_comes_by_each_of_them(radius_m, aside_m, phase):
    points_m = circle(radius_m, phase=phase)
    paths = SimpleNamespace(starts=np.array([0, len(points_m)]), points_m=points_m)
    place, arcs_m = np.zeros((1, 3)), []
    driven_m = np.arange(0.3, (LAPS - 0.5) * 2 * np.pi * radius_m, 0.8)
    for turn in phase + driven_m / radius_m:
        x, y = (radius_m - aside_m) * np.array([np.cos(turn), np.sin(turn)])
        pose = np.array([[x, y, turn + np.pi / 2]])
        follow_routes(paths, np.zeros(1, np.int64), pose, place)
        arcs_m.append(place[0, 0])
    assert_allclose(arcs_m, driven_m, atol=1.0, rtol=0.02)
    assert_allclose(place[0, 1], aside_m, atol=0.25)


def test_a_place_beside_two_legs_of_a_path_is_that_of_the_nearer_one():
    """There and back at an offset of 2 m, as in a U-turn; the opposite direction is not the same line."""
    there = np.column_stack([np.arange(0, 40, 2.0), np.zeros(20)])
    points_m = np.concatenate([there, [[41.0, 1.0]], there[::-1] + [0.0, 2.0]])
    arc_m, offset_m, _ = find_on_path(points_m, 0, len(points_m), (10.2, 1.6, np.pi))
    assert 55 < arc_m < 75
    assert_allclose(offset_m, 0.4, atol=1e-6)
