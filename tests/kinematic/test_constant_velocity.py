"""Velocities from past positions, for any number of leading axes."""

import pytest

torch = pytest.importorskip("torch")

from l5kit.kinematic.baselines import current_velocities, displacements_at_constant_velocity  # noqa: E402 - needs torch


def test_velocities_of_the_agents_of_a_batch():
    positions = torch.tensor(
        [[[[4.0, 1.0], [2.0, 0.0], [9.0, 9.0]], [[4.0, 1.0], [7.0, 7.0], [0.0, 0.0]]]]
    )  # (1, 2, 3, 2)
    is_known = torch.tensor([[[True, True, True], [True, False, True]]])
    velocities_mps = current_velocities(positions, is_known, 0.5)
    assert velocities_mps.tolist() == [[[4.0, 2.0], [4.0, 1.0]]]


@pytest.mark.parametrize("known", [[True, False, False], [False, True, True]])
def test_who_has_no_past_or_is_not_there_stands_still(known):
    positions = torch.tensor([[4.0, 1.0], [2.0, 0.0], [9.0, 9.0]])
    assert current_velocities(positions, torch.tensor(known), 0.1).tolist() == [0.0, 0.0]


def test_ways_start_one_step_ahead():
    displacements_m = displacements_at_constant_velocity(torch.tensor([[2.0, -1.0]]), 3, 0.5)
    assert displacements_m.tolist() == [[[1.0, -0.5], [2.0, -1.0], [3.0, -1.5]]]
