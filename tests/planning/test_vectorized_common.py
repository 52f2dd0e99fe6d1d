"""Padding, poses and scales of the vector models."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from l5kit.errors import InvalidArgumentError
from l5kit.planning.vectorized.common import (
    build_matrix,
    build_target_normalization,
    compose,
    pad_avail,
    pad_points,
    transform_points,
    transform_xy,
)
from support.tolerances import FLOAT32, FLOAT64, FLOAT64_LONG

POSES = st.tuples(st.floats(-100, 100), st.floats(-100, 100), st.floats(-math.pi, math.pi))


def pose(x, y, yaw):
    return torch.tensor([[x, y]], dtype=torch.float64), torch.tensor([yaw], dtype=torch.float64)


def test_points_are_padded_behind():
    points = torch.arange(12.0).reshape(1, 2, 2, 3)
    padded = pad_points(points, 4)
    assert padded.shape == (1, 2, 4, 3)
    assert torch.equal(padded[:, :, :2], points)
    assert not padded[:, :, 2:].any()


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.uint8])
def test_availabilities_are_padded_behind_and_keep_their_dtype(dtype):
    padded = pad_avail(torch.ones(1, 2, 3, dtype=dtype), 5)
    assert padded.dtype == dtype
    assert padded[0, 1].tolist() == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("pad", [pad_points, pad_avail])
def test_padding_never_cuts(pad):
    for kind in (InvalidArgumentError, RuntimeError):  # torch said so in 1.5
        with pytest.raises(kind, match=r"pad_to is 2.*3 points"):
            pad(torch.ones(1, 2, 3, 3)[..., 0] if pad is pad_avail else torch.ones(1, 2, 3, 3), 2)


def test_a_quarter_turn_and_a_shift():
    matrix, inverse = build_matrix(*pose(3.0, 5.0, math.pi / 2))
    expected = torch.tensor([[0.0, -1, 3], [1, 0, 5], [0, 0, 1]], dtype=torch.float64)
    torch.testing.assert_close(matrix[0], expected, atol=FLOAT64, rtol=0)
    torch.testing.assert_close(inverse[0], torch.linalg.inv(expected), atol=FLOAT64, rtol=0)


def test_a_shift_by_whole_metres_keeps_the_turn():
    for each, expected in zip(
        build_matrix(torch.tensor([[1, 2]]), torch.tensor([0.3])),
        build_matrix(torch.tensor([[1.0, 2.0]]), torch.tensor([0.3])),
        strict=True,
    ):
        assert torch.equal(each, expected)


@given(POSES)
def test_the_inverse_undoes_the_pose(values):
    matrix, inverse = build_matrix(*pose(*values))
    torch.testing.assert_close(
        compose(matrix, inverse)[0], torch.eye(3, dtype=torch.float64), atol=FLOAT64_LONG, rtol=0
    )


@given(POSES, POSES)
def test_compose_is_the_matrix_product(first, second):
    outer, inner = build_matrix(*pose(*first))[0], build_matrix(*pose(*second))[0]
    torch.testing.assert_close(compose(outer, inner), outer @ inner)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_p12_matrices_follow_the_dtype(dtype):
    matrix, inverse = build_matrix(torch.ones(2, 3, 2, dtype=dtype), torch.ones(2, 3, dtype=dtype))
    assert (matrix.dtype, inverse.dtype, matrix.shape) == (dtype, dtype, (2, 3, 3, 3))


@pytest.mark.parametrize(("translation", "angle"), [((2, 2), (3,)), ((2, 3), (2,)), ((2,), (2,))])
def test_shapes_that_are_no_poses(translation, angle):
    with pytest.raises(AssertionError, match="translation has shape"):
        build_matrix(torch.zeros(translation), torch.zeros(angle))


def test_points_are_moved_and_turned_where_available():
    matrix, _ = build_matrix(*pose(1.0, 0.0, math.pi / 2))
    element = torch.tensor([[[[2.0, 0.0, 0.5], [9.0, 9.0, 9.0]]]], dtype=torch.float64)
    available = torch.tensor([[[True, False]]])
    yaw = torch.tensor([[math.pi / 2]], dtype=torch.float64)
    before = element.clone()
    moved = transform_points(element, matrix, available, yaw)
    assert moved[0, 0, 0].tolist() == pytest.approx([1.0, 2.0, 0.5 + math.pi / 2])
    assert moved[0, 0, 1].tolist() == [0.0, 0.0, 0.0]
    assert torch.equal(element, before)


def test_without_a_yaw_the_third_feature_stays():
    matrix, _ = build_matrix(*pose(1.0, 2.0, 1.0))
    element = torch.rand(1, 2, 3, 3, dtype=torch.float64)
    moved = transform_points(element, matrix, torch.ones(1, 2, 3))
    assert torch.equal(moved[..., 2], element[..., 2])


def test_each_item_of_a_batch_has_its_own_frame():
    matrices, _ = build_matrix(torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.zeros(2))
    moved = transform_points(torch.zeros(2, 1, 1, 3), matrices, torch.ones(2, 1, 1))
    assert moved[:, 0, 0, 0].tolist() == [1.0, 2.0]


def test_xy_is_the_product_with_the_matrix():
    matrix, _ = build_matrix(*pose(3.0, -4.0, 0.7))
    xy = torch.rand(5, 2, dtype=torch.float64)
    homogeneous = torch.cat((xy, torch.ones(5, 1, dtype=torch.float64)), dim=1)
    torch.testing.assert_close(transform_xy(xy, matrix), (homogeneous @ matrix[0].T)[:, :2])


def test_scale_of_the_targets():
    scale = build_target_normalization(12)
    assert (scale.shape, scale.dtype) == ((12, 2), torch.float32)
    first = [(2.211737, 0.058858), (4.018898, 0.077841), (5.822720, 0.106895)]
    torch.testing.assert_close(scale[:3], torch.tensor(first), atol=FLOAT32, rtol=0)
    torch.testing.assert_close(scale[11], torch.tensor([21.939283, 0.765445]), atol=FLOAT32, rtol=0)
    assert build_target_normalization(0).shape == (0, 2)
