"""Poses, rotations and transforms of points."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import (
    GIMBAL_LOCK_COSINE,
    compute_agent_pose,
    ecef_to_geodetic,
    geodetic_to_ecef,
    rotation33_as_yaw,
    rotations33_as_yaws,
    transform_point,
    transform_points,
    vertical_flip,
    yaw_as_rotation33,
    yaws_as_rotations33,
    yaws_of_rotations,
)
from support.tolerances import FLOAT32, FLOAT32_LONG, FLOAT64, FLOAT64_LONG

VERTICAL_ROTATION = np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])

yaws = st.floats(-math.pi, math.pi)
metres = st.floats(-1e4, 1e4)


def make_batch(num_dims: int, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Return (5, 7, F) points and (5, F + 1, F + 1) matrices."""
    rng = np.random.default_rng(num_dims)
    points = rng.normal(size=(5, 7, num_dims)).astype(dtype)
    return points, rng.normal(size=(5, num_dims + 1, num_dims + 1)).astype(dtype)


def test_agent_pose_by_hand():
    pose = compute_agent_pose(np.array([10.0, -3.0]), math.pi / 2)
    np.testing.assert_allclose(pose, [[0, -1, 10], [1, 0, -3], [0, 0, 1]], atol=1e-15)
    assert pose.dtype == np.float64
    np.testing.assert_allclose(transform_point([2.0, 1.0], pose), [9, -1])


def test_agent_pose_takes_sine_and_cosine_in_the_precision_of_the_yaw():
    yaw = np.float32(0.3)
    narrow, wide = compute_agent_pose([0, 0], yaw), compute_agent_pose([0, 0], float(yaw))
    assert narrow.dtype == wide.dtype == np.float64
    assert narrow[0, 0] == np.float64(np.cos(yaw))
    assert wide[0, 0] == math.cos(float(yaw))
    assert narrow[1, 0] != wide[1, 0]


@given(metres, metres, yaws)
def test_agent_pose_inverts(x, y, yaw):
    pose = compute_agent_pose([x, y], yaw)
    points = np.array([[0.0, 0.0], [1.0, 2.0], [x, y]])
    there_and_back = transform_points(transform_points(points, pose), np.linalg.inv(pose))
    np.testing.assert_allclose(there_and_back, points, atol=1e-8)
    np.testing.assert_allclose(transform_point([x, y], np.linalg.inv(pose)), [0, 0], atol=1e-8)


@given(yaws)
def test_yaw_and_rotation_are_inverse(yaw):
    rotation = yaw_as_rotation33(yaw)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-15)
    assert type(rotation33_as_yaw(rotation)) is float
    assert rotation33_as_yaw(rotation) == pytest.approx(yaw, abs=FLOAT64)


def test_yaw_turns_x_towards_y():
    np.testing.assert_allclose(yaw_as_rotation33(math.pi / 2) @ [1, 0, 0], [0, 1, 0], atol=1e-15)


def test_j5_yaw_at_gimbal_lock_is_zero():
    assert rotation33_as_yaw(VERTICAL_ROTATION) == 0.0
    nearly = VERTICAL_ROTATION.copy()
    nearly[1, 0] = 8e-16
    assert rotation33_as_yaw(nearly) == 0.0
    nearly[1, 0] = 9e-16
    assert rotation33_as_yaw(nearly) == pytest.approx(math.pi / 2)


@pytest.mark.parametrize(
    ("cosine", "yaw_rad"), [(GIMBAL_LOCK_COSINE, 0.0), (np.nextafter(GIMBAL_LOCK_COSINE, 1), np.pi / 2)]
)
def test_the_least_cosine_of_a_heading(cosine, yaw_rad):
    pitched = np.array([[0, 0, 1], [cosine, 1, 0], [-1, 0, 0]])
    assert rotation33_as_yaw(pitched) == pytest.approx(yaw_rad)
    assert rotations33_as_yaws(pitched[None]) == pytest.approx([yaw_rad])


def test_yaw_drops_roll_and_pitch():
    roll = np.array([[1, 0, 0], [0, math.cos(0.2), -math.sin(0.2)], [0, math.sin(0.2), math.cos(0.2)]])
    pitch = np.array([[math.cos(0.1), 0, math.sin(0.1)], [0, 1, 0], [-math.sin(0.1), 0, math.cos(0.1)]])
    assert rotation33_as_yaw(yaw_as_rotation33(1.1) @ pitch @ roll) == pytest.approx(1.1)


@given(st.lists(yaws, max_size=6))
def test_many_yaws_equal_one_by_one(yaws_rad):
    rotations = yaws_as_rotations33(yaws_rad)
    assert rotations.shape == (len(yaws_rad), 3, 3)
    for rotation, yaw in zip(rotations, yaws_rad, strict=True):
        np.testing.assert_allclose(rotation, yaw_as_rotation33(yaw), rtol=1e-15, atol=1e-16)
    rotations = np.concatenate([rotations, VERTICAL_ROTATION[None]])
    batched = rotations33_as_yaws(rotations)
    assert batched.dtype == np.float64
    np.testing.assert_allclose(batched, [rotation33_as_yaw(each) for each in rotations], rtol=1e-15)


def test_vertical_flip_keeps_the_type_of_floats():
    assert vertical_flip(np.eye(3, dtype=np.float32), np.int64(50)).dtype == np.float32
    assert vertical_flip(np.eye(3, dtype=np.int64), 0.5)[1, 2] == 0.5


def test_vertical_flip_mirrors_y_and_leaves_its_argument():
    matrix = np.array([[2.0, 0, 1], [0, 3, 4], [0, 0, 1]])
    before = matrix.copy()
    flipped = vertical_flip(matrix, 50)
    np.testing.assert_array_equal(matrix, before)
    x, y = transform_point([5.0, 7.0], matrix)
    np.testing.assert_allclose(transform_point([5.0, 7.0], flipped), [x, 50 - y])
    np.testing.assert_allclose(vertical_flip(flipped, 50), matrix)


@pytest.mark.parametrize("num_dims", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batched_transform_equals_looped(num_dims, dtype):
    points, matrices = make_batch(num_dims, dtype)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    batched, shared = transform_points(points, matrices), transform_points(points, matrices[0])
    assert batched.dtype == shared.dtype == dtype
    for index, matrix in enumerate(matrices):
        np.testing.assert_allclose(batched[index], transform_points(points[index], matrix), atol=tolerance)
        np.testing.assert_allclose(shared[index], transform_points(points[index], matrices[0]), atol=tolerance)
        expected = matrix[:num_dims, :num_dims] @ points[index, 3] + matrix[:num_dims, num_dims]
        np.testing.assert_allclose(transform_point(points[index, 3], matrix), expected, atol=tolerance)


def test_transform_ignores_the_last_row():
    matrix = np.array([[1.0, 0, 5], [0, 1, 6], [7, 8, 9]])
    np.testing.assert_array_equal(transform_points([[1, 2]], matrix), [[6, 8]])


@pytest.mark.parametrize("shape", [(0, 2), (0, 4, 2), (3, 0, 3)])
def test_transform_of_no_points_keeps_the_shape(shape):
    assert transform_points(np.zeros(shape), np.eye(shape[-1] + 1)).shape == shape


@given(arrays(np.float64, (4, 2), elements=metres), arrays(np.float64, (2, 3), elements=st.floats(-3, 3)))
def test_transform_equals_homogeneous_product(points, top_rows):
    matrix = np.vstack([top_rows, [0, 0, 1]])
    homogeneous = np.column_stack([points, np.ones(len(points))])
    np.testing.assert_allclose(transform_points(points, matrix), (homogeneous @ matrix.T)[:, :2], atol=1e-7)


@pytest.mark.parametrize(
    ("points_shape", "matrix_shape"),
    [
        pytest.param((3, 10), (4, 4), id="ten columns"),
        pytest.param((10, 4), (4, 4), id="four columns, 4 x 4"),
        pytest.param((10, 3), (3, 3), id="three columns, 3 x 3"),
        pytest.param((2,), (3, 3), id="one-dimensional points"),
        pytest.param((), (3, 3), id="scalar"),
        pytest.param((1, 2, 3, 2), (3, 3), id="four-dimensional points"),
        pytest.param((10, 2), (3,), id="one-dimensional matrix"),
        pytest.param((10, 2), (3, 4), id="matrix not square"),
        pytest.param((10, 2), (10, 3, 3), id="batch of matrices, no batch of points"),
        pytest.param((5, 10, 2), (4, 3, 3), id="batches of different length"),
        pytest.param((5, 10, 2), (1, 5, 3, 3), id="four-dimensional matrix"),
    ],
)
def test_transform_refuses_shapes_that_do_not_fit(points_shape, matrix_shape):
    with pytest.raises(InvalidArgumentError, match=r"(points|transf_matrix) has shape"):
        transform_points(np.zeros(points_shape), np.zeros(matrix_shape))
    with pytest.raises(AssertionError):  # what scripts for 1.x catch
        transform_points(np.zeros(points_shape), np.zeros(matrix_shape))


def test_j1_geodetic_order_is_latitude_longitude_altitude():
    on_the_equator = ecef_to_geodetic(np.array([6378137.0 + 100.0, 0.0, 0.0]))
    np.testing.assert_allclose(on_the_equator, [0, 0, 100], atol=FLOAT32)
    east = ecef_to_geodetic([0.0, 6378137.0, 0.0])
    np.testing.assert_allclose(east, [0, 90, 0], atol=FLOAT32)


def test_geodetic_to_ecef_at_the_pole_and_without_altitude():
    np.testing.assert_allclose(geodetic_to_ecef([90.0, 0.0, 10.0]), [0, 0, 6356752.314245 + 10.0], atol=FLOAT32_LONG)
    two, three = geodetic_to_ecef(np.array([37.4, -122.1])), geodetic_to_ecef(np.array([37.4, -122.1, 0.0]))
    np.testing.assert_array_equal(two, three)
    assert two.shape == (3,)
    assert two.dtype == np.float64


@given(st.floats(-89.0, 89.0), st.floats(-179.0, 179.0), st.floats(-100.0, 5000.0))
def test_geodetic_and_ecef_are_inverse(latitude, longitude, altitude):
    there_and_back = ecef_to_geodetic(geodetic_to_ecef([latitude, longitude, altitude]))
    np.testing.assert_allclose(there_and_back[:2], [latitude, longitude], atol=FLOAT64_LONG)
    assert there_and_back[2] == pytest.approx(altitude, abs=1e-3)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        pytest.param(lambda: compute_agent_pose(np.zeros(3), 0.0), "agent_centroid_m", id="compute_agent_pose"),
        pytest.param(lambda: rotation33_as_yaw(np.eye(4)), "rotation", id="rotation33_as_yaw"),
        pytest.param(lambda: rotations33_as_yaws(np.eye(3)), "rotations", id="rotations33_as_yaws"),
        pytest.param(lambda: yaws_as_rotations33(0.0), "yaws", id="yaws_as_rotations33"),
        pytest.param(lambda: vertical_flip(np.eye(4), 1), "tm", id="vertical_flip"),
        pytest.param(lambda: transform_point(np.zeros((1, 2)), np.eye(3)), "point", id="transform_point"),
        pytest.param(lambda: ecef_to_geodetic(np.zeros(2)), "point", id="ecef_to_geodetic"),
        pytest.param(lambda: geodetic_to_ecef(np.zeros(4)), "lla_point", id="geodetic_to_ecef"),
    ],
)
def test_shape_errors_name_the_argument(call, name):
    with pytest.raises(InvalidArgumentError, match=rf"^{name} has shape \("):
        call()


@pytest.mark.parametrize("latitude", [90.1, -90.1, -122.1, 1e300, np.inf])
def test_latitudes_beyond_the_poles_are_refused(latitude):
    with pytest.raises(InvalidArgumentError, match=rf"latitude {re.escape(str(latitude))}, .*; allowed are -90 to 90"):
        geodetic_to_ecef([latitude, 37.4])


def test_headings_of_rotations_are_those_of_the_matrices_to_the_bit() -> None:
    yaws_rad = np.concatenate([np.random.default_rng(5).uniform(-20, 20, 2000), [0.0, -0.0, np.pi, -np.pi, np.pi / 2]])
    for given_rad in (yaws_rad, np.stack([yaws_rad, yaws_rad], axis=1)[:, 0]):
        np.testing.assert_array_equal(yaws_of_rotations(given_rad), rotations33_as_yaws(yaws_as_rotations33(given_rad)))
