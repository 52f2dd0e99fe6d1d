"""Motions fitted to pasts, and where they lead."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from l5kit.kinematic.baselines import MotionFit, displacements_of_motion, fit_motion  # noqa: E402 - needs torch
from support.tolerances import FLOAT32_LONG, NETWORK  # noqa: E402

STEP_S = 0.1


def poses(times_s, *, speed_mps, acceleration_mps2=0.0, yaw_rad=0.0, yaw_rate_rad_s=0.0):
    """Positions (T, 2) and headings (T,) of an exact motion that is at the origin at time 0, by fine steps."""
    positions = []
    for time_s in times_s:
        edges = np.linspace(0, time_s, 20_001)
        middle = (edges[1:] + edges[:-1]) / 2
        distances_m = (speed_mps + acceleration_mps2 * middle) * np.diff(edges)
        yaws = yaw_rad + yaw_rate_rad_s * middle
        positions.append([np.sum(distances_m * np.cos(yaws)), np.sum(distances_m * np.sin(yaws))])
    yaws = yaw_rad + yaw_rate_rad_s * np.asarray(times_s)
    return torch.tensor(np.array(positions)), torch.tensor(yaws)


@pytest.mark.parametrize(
    "motion",
    [
        pytest.param({"speed_mps": 8.0}, id="straight"),
        pytest.param({"speed_mps": -2.0, "yaw_rad": 1.0}, id="reversing"),
        pytest.param(
            {"speed_mps": 8.0, "yaw_rate_rad_s": 0.4, "yaw_rad": 3.1}, id="turning over the end of the circle"
        ),
        pytest.param(
            {"speed_mps": 6.0, "acceleration_mps2": 1.5, "yaw_rate_rad_s": -0.3}, id="speeding up and turning"
        ),
    ],
)
@pytest.mark.parametrize("known", [[1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 0, 1]], ids=["all known", "gaps"])
def test_an_exact_motion_is_found_and_gone_on_with(motion, known):
    past, yaws = poses(-STEP_S * np.arange(6), **motion)
    is_known = torch.tensor(known) > 0
    past[~is_known], yaws[~is_known] = 99.0, 99.0  # unused
    wrapped = torch.atan2(torch.sin(yaws), torch.cos(yaws))
    fit = fit_motion(past, wrapped, is_known, STEP_S, "acceleration_mps2" in motion)
    expected = {"acceleration_mps2": 0.0, "yaw_rate_rad_s": 0.0, **motion}
    for name in ("speed_mps", "acceleration_mps2", "yaw_rate_rad_s"):
        assert float(getattr(fit, name)) == pytest.approx(expected[name], abs=0.05), name
    future, _ = poses(STEP_S * np.arange(1, 31), **motion)
    np.testing.assert_allclose(displacements_of_motion(fit, 30, STEP_S), future, atol=0.05)


def test_a_fit_weighs_all_steps():
    # ways of -1, -1 and -3 m after 1, 2 and 3 steps back: sum(k * way) / sum(k * k) = (1 + 2 + 9) / 14 m a step
    past = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [-1.0, 0.0], [-3.0, 0.0]])
    fit = fit_motion(past, torch.zeros(4), torch.ones(4) > 0, 0.5, False)
    assert float(fit.speed_mps) == pytest.approx(12 / 14 / 0.5, rel=FLOAT32_LONG)


@pytest.mark.parametrize(
    ("known", "speed_mps"),
    [
        pytest.param([True, False, False], 0.0, id="no earlier position"),
        pytest.param([False, True, True], 0.0, id="not there now"),
        pytest.param([True, True, False], 20.0, id="one earlier position gives no acceleration"),
    ],
)
def test_who_has_little_past(known, speed_mps):
    positions = torch.tensor([[4.0, 1.0], [2.0, 1.0], [9.0, 9.0]])
    fit = fit_motion(positions, torch.zeros(3), torch.tensor(known), 0.1, True)
    assert float(fit.speed_mps) == pytest.approx(speed_mps)
    assert float(fit.acceleration_mps2) == float(fit.yaw_rate_rad_s) == 0.0


def test_who_brakes_stands_at_last():
    numbers = (torch.tensor(value) for value in (2.0, -4.0, math.pi / 2, 0.0))
    displacements_m = displacements_of_motion(MotionFit(*numbers), 3, 0.25)
    # 2 t - 2 t^2: 0.375 m after 0.25 s, half a metre after 0.5 s, where the speed is 0
    np.testing.assert_allclose(displacements_m, [[0.0, 0.375], [0.0, 0.5], [0.0, 0.5]], atol=NETWORK)


def test_any_leading_axes_and_torchscript():
    positions, yaws, is_known = torch.rand(2, 3, 4, 2), torch.rand(2, 3, 4), torch.ones(2, 3, 4) > 0
    displacements_m = displacements_of_motion(fit_motion(positions, yaws, is_known, 0.1, True), 5, 0.1)
    assert displacements_m.shape == (2, 3, 5, 2)
    single = displacements_of_motion(fit_motion(positions[1, 2], yaws[1, 2], is_known[1, 2], 0.1, True), 5, 0.1)
    torch.testing.assert_close(displacements_m[1, 2], single)
    scripted = torch.jit.script(fit_motion)(positions, yaws, is_known, 0.1, True)
    torch.testing.assert_close(torch.jit.script(displacements_of_motion)(scripted, 5, 0.1), displacements_m)
