"""Points of arc line paths, against arcs worked out by hand and the figures that the vendor's kit tests itself with."""

import math

import msgspec
import numpy as np
import pytest

from l5kit.errors import DatasetFormatError
from l5kit.readers.nuscenes_lanes import LARGEST_SAGITTA_M, LONGEST_STEP_M, ArclinePath, discretize_lane

QUARTER = 0.5 * math.pi * 10.0


def path(shape="LSR", lengths=(0.0, 8.0, 0.0), start=(0.0, 0.0, 0.0), radius=10.0):
    return ArclinePath(start_pose=start, shape=shape, radius=radius, segment_length=lengths)


@pytest.mark.parametrize(
    ("given", "end"),
    [
        pytest.param(path(), (8, 0), id="straight"),
        pytest.param(path(start=(1, 2, math.pi / 2)), (1, 10), id="straight north"),
        pytest.param(path(lengths=(QUARTER, 0, 0)), (10, 10), id="quarter to the left"),
        pytest.param(path(lengths=(0, 0, QUARTER)), (10, -10), id="quarter to the right"),
        pytest.param(path(lengths=(2 * QUARTER, 0, 0)), (0, 20), id="half circle"),
        pytest.param(path(lengths=(QUARTER, 5, QUARTER)), (20, 25), id="left, straight north, right to the east"),
        pytest.param(path("LSL", (QUARTER, 5, QUARTER)), (0, 25), id="left, straight, left"),
        pytest.param(path("RSR", (QUARTER, 5, QUARTER)), (0, -25), id="right, straight, right"),
        pytest.param(path("RSL", (QUARTER, 5, QUARTER)), (20, -25), id="right, straight, left"),
        pytest.param(path("LRL", (QUARTER, QUARTER, 0)), (20, 20), id="left, right"),
        pytest.param(path("RLR", (0, QUARTER, QUARTER)), (20, 20), id="left, right of the other kind"),
    ],
)
def test_a_path_ends_where_arcs_worked_out_by_hand_do(given, end):
    line_m = discretize_lane([given])

    np.testing.assert_allclose(line_m[0], given.start_pose[:2], atol=1e-12)
    np.testing.assert_allclose(line_m[-1], end, atol=1e-12)


def test_points_of_an_arc_lie_on_its_circle_and_close_together():
    line_m = discretize_lane([path(lengths=(QUARTER, 0, 0))])

    np.testing.assert_allclose(np.linalg.norm(line_m - (0, 10), axis=1), 10.0, atol=1e-12)
    middles_m = 0.5 * (line_m[1:] + line_m[:-1])
    assert (10.0 - np.linalg.norm(middles_m - (0, 10), axis=1)).max() <= LARGEST_SAGITTA_M * 1.001
    steps_m = np.linalg.norm(np.diff(line_m, axis=0), axis=1)
    np.testing.assert_allclose(steps_m, steps_m[0])
    assert steps_m[0] < LONGEST_STEP_M


@pytest.mark.parametrize(("length_m", "num_points"), [(1.9, 2), (2.0, 2), (2.1, 3), (4.0, 3)])
def test_points_of_a_straight_line_are_at_most_two_metres_apart(length_m, num_points):
    assert len(discretize_lane([path(lengths=(0, length_m, 0))])) == num_points


def test_a_very_large_circle_is_nearly_straight():
    line_m = discretize_lane([path("LSL", (100.0, 0, 0), radius=1e9)])

    np.testing.assert_allclose(line_m[-1], (100.0, 100.0**2 / 2e9), rtol=1e-9)


def test_paths_follow_one_another_without_doubled_points():
    line_m = discretize_lane([path(), path(start=(8, 0, 0), lengths=(QUARTER, 0, 0))])

    np.testing.assert_allclose(line_m[-1], (18, 10), atol=1e-12)
    assert np.linalg.norm(np.diff(line_m, axis=0), axis=1).min() > 0.1


REAL = [
    path("LSR", (0.23651121617864976, 28.593481378991886, 3.254561444252876),
         (421.2419602954602, 1087.9127960414617, 2.739593514975998), 999.999),
    path("LSL", (22.380622583127813, 0.18854612175175053, 0.0010839266609007578),
         (391.7142849867393, 1100.464077182952, 2.7365754617298705), 14.473414516079979),
]  # fmt: skip
"""Two paths of singapore-onenorth from the tests of nuscenes-devkit 1.2."""


def test_real_paths_end_where_the_map_says():
    assert np.abs(discretize_lane(REAL[:1])[-1] - (391.7142849867393, 1100.464077182952)).max() < 1e-9
    assert np.abs(discretize_lane(REAL)[-1] - (372.7733659833846, 1093.0160135871615)).max() < 1e-9


def test_real_paths_run_through_the_points_of_the_vendor():
    line_m = discretize_lane(REAL)
    vendors_m = np.array(
        [
            (413.85953060356087, 1091.049417600379),
            (399.0946493417915, 1097.322609236462),
            (388.10416900705434, 1101.4829190922167),
            (380.714126599876, 1100.630853563314),
            (374.7234399843828, 1096.220590949774),
        ]
    )
    for point_m in vendors_m:
        assert distance_to_line(line_m, point_m) <= LARGEST_SAGITTA_M


def distance_to_line(line_m, point_m):
    starts_m, steps_m = line_m[:-1], np.diff(line_m, axis=0)
    parts = np.clip(((point_m - starts_m) * steps_m).sum(1) / (steps_m**2).sum(1), 0, 1)
    return np.linalg.norm(starts_m + parts[:, None] * steps_m - point_m, axis=1).min()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([path("LSX")], "shape is 'LSX'"),
        ([path(radius=0.0)], "radius above 0"),
        ([path(lengths=(0, -1.0, 0))], "not below 0"),
        ([path(start=(math.nan, 0, 0))], "finite"),
        ([path(lengths=(0, 0, 0))], "no length"),
        ([], "its 0 arc line paths"),
    ],
)
def test_what_is_no_path_is_refused(given, told):
    with pytest.raises(DatasetFormatError, match=told):
        discretize_lane(given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param(
            path(lengths=(0, 20_000.5, 0)),
            "segment_length is 20000.5 m with a curvature of 0 1/m, which takes more than 10000 points",
            id="straight",
        ),
        pytest.param(path(lengths=(0, 1e300, 0)), "segment_length is 1e\\+300 m", id="straight beyond all bounds"),
        pytest.param(path(lengths=(1e12, 0, 0)), "segment_length is 1e\\+12 m with a curvature of 0.1 1/m", id="left"),
        pytest.param(path(lengths=(0, 0, 1e12)), "segment_length is 1e\\+12 m with a curvature of 0.1 1/m", id="right"),
        pytest.param(
            path(lengths=(1.0, 0, 0), radius=1e-12),
            "segment_length is 1 m with a curvature of 1e\\+12 1/m",
            id="a radius of nothing",
        ),
    ],
)
def test_a_segment_that_would_take_all_memory_is_refused_before_its_points_are_made(given, told, monkeypatch):
    monkeypatch.setattr(np, "linspace", lambda *_, **__: pytest.fail("its points are made"))
    with pytest.raises(DatasetFormatError, match=told):
        discretize_lane([given])


def test_the_longest_segment_is_taken():
    line_m = discretize_lane([path(lengths=(0, 20_000.0, 0))])
    assert len(line_m) == 10_001


def test_a_path_is_read_from_the_records_of_the_map():
    text = (
        '{"start_pose": [1, 2, 0.5], "end_pose": [3, 4, 0.5], "shape": "LSR", "radius": 999.999, '
        '"segment_length": [0, 2.5, 0]}'
    )
    assert msgspec.json.decode(text, type=ArclinePath) == path("LSR", (0, 2.5, 0), (1, 2, 0.5), 999.999)
