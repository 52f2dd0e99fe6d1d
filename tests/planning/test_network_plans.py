"""Plans of networks: which outputs count, where they lie in the world, and what is refused."""

import math

import numpy as np
import pytest
import torch

from l5kit.errors import InvalidArgumentError
from l5kit.planning.network_plans import headings_of_paths, read_plans
from support.tolerances import FLOAT32

MODES_M = torch.arange(24.0).reshape(2, 3, 2, 2)
MODE_YAWS = torch.arange(12.0).reshape(2, 3, 2, 1)
PLANS = {
    "one plan": {"positions": MODES_M[:, 1], "yaws": MODE_YAWS[:, 1], "extra": None},
    "likeliest": {
        "positions_all": MODES_M,
        "yaws_all": MODE_YAWS,
        "mode_logits": torch.tensor([[0.0, 2.0, 1.0], [-3.0, -1.0, -2.0]]),
    },
    "first of all agents": {"agent_positions": MODES_M.roll(2, 1), "agent_yaws": MODE_YAWS.roll(2, 1)},
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_plan_that_counts(name, dtype):
    outputs = {key: value.to(dtype) if value is not None else None for key, value in PLANS[name].items()}
    plans = read_plans(outputs, 2)
    assert plans.positions_m.tolist() == MODES_M[:, 1].tolist()
    assert plans.yaws_rad.tolist() == MODE_YAWS[:, 1, :, 0].tolist()
    assert (plans.positions_m.dtype, plans.yaws_rad.dtype) == (np.float64, np.float64)


def test_a_plan_lies_before_its_target():
    plans = read_plans({"positions": torch.tensor([[[2.0, 1.0]]] * 2), "yaws": torch.full((2, 1, 1), 0.5)}, 2)
    quarter_left = [[0.0, -1.0, 10.0], [1.0, 0.0, 20.0], [0.0, 0.0, 1.0]]
    poses = plans.in_world(np.array([np.eye(3), quarter_left]), np.array([0.0, math.pi / 2]))
    np.testing.assert_allclose(poses, [[[2, 1, 0.5]], [[9, 22, math.pi / 2 + 0.5]]], atol=1e-12)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (torch.zeros(2, 3, 2), "gave Tensor"),
        ({"loss": torch.zeros(())}, "no 'positions', but \\['loss'\\]"),
        ({"positions": torch.zeros(2, 3, 2)}, "'yaws' not"),
        ({"positions": [[0.0, 0.0]], "yaws": torch.zeros(2, 3, 1)}, "'positions' as list"),
        ({"positions": torch.zeros(2, 3, 3), "yaws": torch.zeros(2, 3, 1)}, "'positions' of shape \\(2, 3, 3\\)"),
        ({"positions": torch.zeros(2, 0, 2), "yaws": torch.zeros(2, 0, 1)}, "'positions' of shape \\(2, 0, 2\\)"),
        ({"positions": torch.zeros(1, 3, 2), "yaws": torch.zeros(1, 3, 1)}, "'positions' .* \\(2, T, 2\\)"),
        ({"positions": torch.zeros(2, 3, 2), "yaws": torch.zeros(2, 3)}, "'yaws' of shape \\(2, 3\\)"),
        ({"positions": torch.zeros(2, 3, 2), "yaws": torch.zeros(2, 4, 1)}, "'yaws' of 4 steps"),
        ({"positions_all": MODES_M, "yaws_all": MODE_YAWS}, "'mode_logits' not"),
        ({**PLANS["likeliest"], "mode_logits": torch.zeros(3, 2)}, "'mode_logits' of shape \\(3, 2\\)"),
        ({"agent_positions": MODES_M[0], "agent_yaws": MODE_YAWS}, "'agent_positions' .* \\(2, M, T, 2\\)"),
    ],
)
def test_what_is_no_plan_is_named(outputs, message):
    with pytest.raises(InvalidArgumentError, match=message):
        read_plans(outputs, 2)


def test_headings_follow_a_path():
    steps_m = np.array([[2, 0], [0, 2], [-2, 0], [0.1, 0]], float)
    around = np.cumsum(steps_m, axis=0)
    creeping = np.cumsum(np.full((4, 2), [0.3, -0.3]), axis=0)  # a metre after three steps
    still = np.array([[0.01, 0.0], [0.0, -0.02], [-0.3, 0.1], [0.2, 0.2]])
    headings_rad = headings_of_paths(np.stack([around, creeping, still]))
    quarter = math.pi / 2
    np.testing.assert_allclose(headings_rad[0], [0, quarter, 2 * quarter, 2 * quarter], atol=1e-12)
    np.testing.assert_allclose(headings_rad[1], [-quarter / 2] * 4, atol=1e-12)
    assert (headings_rad[2] == 0).all()


def test_a_network_without_headings_goes_along_its_path():
    plans = read_plans({"positions": torch.tensor([[[0.0, 2.0], [0.0, 4.0]]])}, 1, headings="path")
    np.testing.assert_allclose(plans.yaws_rad, math.pi / 2, atol=FLOAT32)
