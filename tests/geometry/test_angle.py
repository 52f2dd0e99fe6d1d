"""Angles between directions."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.errors import InvalidArgumentError
from l5kit.geometry import angle_between_vectors, angular_distance, compute_yaw_around_north_from_direction
from l5kit.geometry.relative_pose import turn_between, wrap_angle
from support.tolerances import FLOAT64, FLOAT64_LONG

angles = st.floats(-20.0, 20.0)


@pytest.mark.parametrize(
    ("a_deg", "b_deg", "expected_deg"),
    [
        pytest.param(170, -170, -20, id="over the cut, down"),
        pytest.param(-170, 170, 20, id="over the cut, up"),
        pytest.param(150, -90, -120, id="more than half a turn"),
        pytest.param(30, 30, 0, id="equal"),
        pytest.param(170 + 360, -170 - 720, -20, id="whole turns"),
    ],
)
def test_angular_distance_wraps(a_deg, b_deg, expected_deg):
    assert math.degrees(angular_distance(math.radians(a_deg), math.radians(b_deg))) == pytest.approx(expected_deg)


def test_angular_distance_of_opposite_angles_is_minus_pi_both_ways():
    assert angular_distance(math.pi, 0.0) == -math.pi
    assert angular_distance(0.0, math.pi) == -math.pi


@given(angles, angles, st.integers(-3, 3))
def test_angular_distance_is_the_rotation_from_b_to_a(a, b, turns):
    distance = angular_distance(a + turns * 2 * math.pi, b)
    assert -math.pi <= distance < math.pi
    assert math.cos(b + distance) == pytest.approx(math.cos(a), abs=FLOAT64_LONG)
    assert math.sin(b + distance) == pytest.approx(math.sin(a), abs=FLOAT64_LONG)


@given(st.lists(angles, min_size=1, max_size=8), angles)
def test_angular_distance_of_arrays_equals_the_scalar_one(a, b):
    batched = angular_distance(np.array(a), b)
    np.testing.assert_array_equal(batched, [angular_distance(each, b) for each in a])


def test_angular_distance_of_float32_arrays_is_computed_in_float32():
    a, b = np.array([3.0, -1.25, 0.1], dtype=np.float32), np.array([-3.0, 0.5, 0.1], dtype=np.float32)
    pi, two_pi = np.float32(np.pi), np.float32(2 * np.pi)
    distances = angular_distance(a, b)
    assert distances.dtype == np.float32
    np.testing.assert_array_equal(distances, np.mod(a - b + pi, two_pi) - pi)
    assert distances[2] == 0.0


@pytest.mark.parametrize(
    ("v1", "v2", "expected"),
    [
        pytest.param((1, 0), (0, 2), math.pi / 2, id="left"),
        pytest.param((1, 0), (0, -2), math.pi / 2, id="right, same as left"),
        pytest.param((1, 1), (-1, -1), math.pi, id="opposite"),
        pytest.param((3, 0, 0), (1, 0, 1), math.pi / 4, id="in space"),
        pytest.param((0, 0), (1, 0), 0.0, id="zero vector"),
    ],
)
def test_angle_between_vectors_is_unsigned(v1, v2, expected):
    assert angle_between_vectors(v1, v2) == pytest.approx(expected, abs=FLOAT64)
    assert angle_between_vectors(np.array(v2), np.array(v1)) == pytest.approx(expected, abs=FLOAT64)


@given(angles, angles, st.floats(0.1, 10.0))
def test_angle_between_vectors_is_the_absolute_angular_distance(a, b, length):
    v1, v2 = (math.cos(a), math.sin(a)), (length * math.cos(b), length * math.sin(b))
    assert angle_between_vectors(v1, v2) == pytest.approx(abs(angular_distance(a, b)), abs=1e-7)


@pytest.mark.parametrize(
    ("direction", "expected"),
    [((0, 5), 0.0), ((1, 0), math.pi / 2), ((-1, 0), math.pi / 2), ((0, -1), math.pi)],
    ids=["north", "east", "west", "south"],
)
def test_j2_yaw_around_north_is_unsigned(direction, expected):
    assert compute_yaw_around_north_from_direction(np.array(direction)) == pytest.approx(expected)


@pytest.mark.parametrize("vectors", [((1, 0), (1, 1)), ((1, 0, 0), (1, 1, 0))], ids=["in the plane", "in space"])
@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ((np.float32, np.float32), np.float32),
        ((np.float64, np.float64), np.float64),
        ((np.float32, np.float64), np.float64),
        ((np.int64, np.int64), np.float64),
    ],
)
def test_angles_between_vectors_are_the_scalars_of_numpy(vectors, dtypes, expected):
    angle = angle_between_vectors(*(np.array(vector, dtype) for vector, dtype in zip(vectors, dtypes, strict=True)))
    assert type(angle) is expected
    assert angle == np.arctan2(expected(1), expected(1))
    assert type(angle_between_vectors(*vectors)) is np.float64
    assert type(compute_yaw_around_north_from_direction([1, 0])) is np.float64


def test_j3_plane_vectors_give_no_deprecation_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert angle_between_vectors(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(math.pi / 4)


@pytest.mark.parametrize(("v1", "v2"), [((1, 0, 0, 0), (1, 0)), ((1, 0), (1, 0, 0)), (((1, 0),), (1, 0))])
def test_angle_between_vectors_refuses_other_shapes(v1, v2):
    with pytest.raises(InvalidArgumentError, match=r"v[12] has shape"):
        angle_between_vectors(v1, v2)


@pytest.mark.parametrize(
    ("angle_rad", "expected"),
    [(0.5, 0.5), (np.pi, -np.pi), (-np.pi, -np.pi), (3 * np.pi / 2, -np.pi / 2), (-5 * np.pi / 2, -np.pi / 2)],
)
def test_kernels_wrap_angles_as_arrays_do(angle_rad, expected):
    assert wrap_angle(angle_rad) == pytest.approx(expected)
    assert wrap_angle(angle_rad) == angular_distance(np.array([angle_rad]), 0.0)[0]
    assert turn_between(angle_rad + 2.0, 2.0) == pytest.approx(abs(expected))
    assert turn_between(2.0, angle_rad + 2.0) == pytest.approx(abs(expected))
