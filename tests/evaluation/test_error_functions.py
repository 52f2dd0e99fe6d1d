"""Errors of tensors."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from l5kit.evaluation.error_functions import closest_angle_error, l2_error
from support.tolerances import FLOAT32_LONG, FLOAT64_LONG

ANGLES = st.floats(-20, 20)


def test_l2_error_is_the_distance_along_the_last_axis():
    pred, truth = torch.tensor([[[3.0, 4.0], [0.0, 0.0]]]), torch.tensor([0.0, 0.0])
    assert l2_error(pred, truth).tolist() == [[5.0, 0.0]]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param(0.0, 2.0, 2.0, id="less than half a turn"),
        pytest.param(0.0, 4.0, 2 * math.pi - 4, id="shorter the other way"),
        pytest.param(3.0, -3.0, 2 * math.pi - 6, id="across the cut"),
        pytest.param(1.0, 1.0, 0.0, id="the same"),
        pytest.param(0.0, 6 * math.pi, 0.0, id="whole turns"),
    ],
)
def test_known_angle_errors(a, b, expected):
    assert closest_angle_error(torch.tensor([a]), torch.tensor([b])).item() == pytest.approx(expected, abs=FLOAT32_LONG)


@given(ANGLES, ANGLES)
def test_an_angle_error_is_unsigned_symmetric_and_that_of_the_directions(a, b):
    first, second = torch.tensor([a], dtype=torch.float64), torch.tensor([b], dtype=torch.float64)
    error = closest_angle_error(first, second).item()
    assert 0 <= error <= math.pi + 1e-12
    assert error == pytest.approx(closest_angle_error(second, first).item(), abs=FLOAT64_LONG)
    assert math.cos(error) == pytest.approx(math.cos(a - b), abs=FLOAT64_LONG)


def test_unequal_shapes_are_an_assertion_error():
    with pytest.raises(AssertionError, match=r"angle_b has shape \(3,\), but angle_a has \(2,\)"):
        closest_angle_error(torch.zeros(2), torch.zeros(3))
