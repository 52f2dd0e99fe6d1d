"""Highest speeds along paths: bends, limits, braking before them, and a driver that respects them."""

import math

import numpy as np
import pytest

from l5kit.lanes.lane_paths import PathArrays, write_highest_speeds
from l5kit.simulation.intelligent_driver import AV_DRIVER
from l5kit.simulation.lanes.lane_following import ARC, NUM_COLUMNS, SPEED, drive_on, locate_vehicles
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS

RADIUS_M = 15.0
BEND_M = 100.0
"""End of the straight part, where a half circle begins that is followed by another straight part."""

LATERAL_MPS2 = 3.0
BRAKING_MPS2 = 3.0
LIMIT_MPS = 14.0
IN_BEND_MPS = math.sqrt(LATERAL_MPS2 * RADIUS_M)


def path_with_bend(limits_mps=(LIMIT_MPS, LIMIT_MPS)):
    """A path of two lanes, the second of which begins 40 m after the begin, as kernels take it."""
    arcs_m = np.arange(0.0, 260.0, 2.0)
    end_m = BEND_M + math.pi * RADIUS_M
    turned = (np.clip(arcs_m, BEND_M, end_m) - BEND_M) / RADIUS_M
    along_m = np.minimum(arcs_m, BEND_M) + RADIUS_M * np.sin(turned) - np.maximum(arcs_m - end_m, 0)
    points_m = np.column_stack([along_m, RADIUS_M * (1 - np.cos(turned))])
    starts, pieces, arcs_of_pieces = np.array([0, len(points_m)]), np.array([0, 2]), np.array([0.0, 40.0])
    lines = np.full((2, 2), -1)
    return PathArrays(
        starts,
        points_m,
        np.array([arcs_m[-2]]),
        pieces,
        arcs_of_pieces,
        np.zeros(2, int),
        lines,
        np.array(limits_mps),
    )


def speeds_of(paths, *, has_limits=False):
    speeds_mps = np.empty(len(paths.points_m))
    write_highest_speeds(paths, LATERAL_MPS2, BRAKING_MPS2, has_limits, speeds_mps)
    return speeds_mps


def test_speed_in_a_bend_is_that_of_the_acceleration_across():
    assert speeds_of(path_with_bend())[54:70] == pytest.approx(IN_BEND_MPS, rel=5e-3)


def test_before_a_bend_it_is_what_braking_allows():
    speeds_mps = speeds_of(path_with_bend())[:51]  # the last of them is where the bend begins
    np.testing.assert_allclose(np.diff(speeds_mps**2), -2 * BRAKING_MPS2 * 2.0)
    in_full_m = 4.0  # the turn over 8 m around a point is that of the circle from here on
    assert IN_BEND_MPS < speeds_mps[-1] <= math.sqrt(IN_BEND_MPS**2 + 2 * BRAKING_MPS2 * in_full_m)


def test_behind_the_bend_nothing_makes_slower():
    assert (speeds_of(path_with_bend())[-40:] == np.inf).all()


def test_limits_count_where_they_are_wanted():
    paths = path_with_bend(limits_mps=(16.0, 5.0))
    speeds_mps = speeds_of(paths, has_limits=True)
    assert (speeds_mps[20:] == 5.0).all()
    assert speeds_mps[19] == pytest.approx(math.sqrt(25 + 2 * BRAKING_MPS2 * 2.0))
    assert speeds_mps[0] == 16.0


@pytest.mark.parametrize(
    ("has_bends", "highest_mps"),
    [pytest.param(True, IN_BEND_MPS, id="bends"), pytest.param(False, LIMIT_MPS, id="none")],
)
def test_a_driver_slows_down_before_a_bend_and_drives_on_behind_it(has_bends, highest_mps):
    paths = path_with_bend()
    bends_mps = speeds_of(paths) if has_bends else np.zeros(0)
    motions = np.zeros((1, NUM_COLUMNS))
    box = np.array([[5.0, 0.0, 0.0, 4.0, 2.0]])
    locate_vehicles(paths, np.array([0]), np.array([0]), box, np.array([LIMIT_MPS]), np.array([True]), motions)
    drive, in_bend, after = (AV_DRIVER.kernel_parameters, 1.0, 0.1, bends_mps), [], []
    for _ in range(400):
        before_mps = motions[0, SPEED]
        drive_on(
            paths,
            0,
            motions[0],
            (2, 1),
            np.zeros((0, OBJECT_FIELDS)),
            -1,
            np.zeros(1, int),
            drive,
            np.inf,
            np.empty((1, 3)),
        )
        assert motions[0, SPEED] - before_mps >= -0.1 * BRAKING_MPS2 - 1e-9
        if BEND_M + 4 < motions[0, ARC] < BEND_M + math.pi * RADIUS_M - 4:
            in_bend.append(motions[0, SPEED])
        elif BEND_M + math.pi * RADIUS_M + 30 < motions[0, ARC] < 200:
            after.append(motions[0, SPEED])
    assert np.mean(in_bend) == pytest.approx(highest_mps, rel=0.02)
    assert max(after) > 0.9 * highest_mps
