"""The query-centric model."""

import math

import pytest
import torch

from l5kit.prediction.vectorized.query_centric_losses import winners
from l5kit.prediction.vectorized.query_centric_model import QueryCentricModel
from support.models import copied, vector_batch

FRAME_KEYS = ("lanes_mid", "crosswalks", "lanes")


def make(*, joint=False, residual_to="ctra"):
    torch.manual_seed(0)
    return QueryCentricModel(4, 3, num_modes=3, joint=joint, dim=32, num_heads=4, dropout=0.0, residual_to=residual_to)


def moved(batch, angle, shift):
    """The scene turned, then moved."""
    batch = copied(batch)
    turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    for key in (*FRAME_KEYS, *(f"all_other_agents_{when}_positions" for when in ("history", "future"))):
        batch[key][..., :2] = batch[key][..., :2] @ turn + torch.tensor(shift)
    for when in ("history", "future"):
        batch[f"all_other_agents_{when}_yaws"] += angle
    return batch, turn


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("residual_to", [None, "constant_velocity", "ctrv", "ctra"])
def test_shapes_and_gradients(joint, residual_to):
    model, batch = make(joint=joint, residual_to=residual_to), vector_batch()
    losses = model.train()(batch)
    losses["loss"].backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    outputs = model.eval()(batch)
    assert outputs["agent_positions"].shape == (2, 3, 4, 2)
    assert outputs["all_agent_positions"].shape == (2, 3, 3, 4, 2)
    assert outputs["all_agent_yaws"].shape == (2, 3, 3, 4, 1)
    assert ("scene_logits" in outputs) == joint


@pytest.mark.parametrize("joint", [False, True])
def test_a_scene_that_is_turned_and_moved_is_predicted_alike(joint):
    model, batch = make(joint=joint).eval(), vector_batch()
    there, turn = moved(batch, 0.7, [12.0, -5.0])
    found, expected = model(there), model(batch)
    is_there = batch["all_other_agents_history_availability"].any(dim=-1)
    wanted = expected["all_agent_positions"] @ turn + torch.tensor([12.0, -5.0])
    torch.testing.assert_close(found["all_agent_positions"][is_there], wanted[is_there], rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(
        found["agent_traj_logits"][is_there], expected["agent_traj_logits"][is_there], rtol=1e-4, atol=1e-4
    )


def test_what_is_masked_has_no_influence():
    model, batch = make().eval(), vector_batch()
    other = copied(batch)
    other["all_other_agents_history_positions"][~batch["all_other_agents_history_availability"]] = 77.0
    other["crosswalks"][~batch["crosswalks_availabilities"]] = -50.0
    assert torch.equal(model(other)["all_agent_positions"], model(batch)["all_agent_positions"])


def test_an_agent_wins_alone_or_the_scene_as_a_whole():
    # two agents, two modes: mean distances 1 and 4, and 3 and 2; together 4 and 6
    distances = torch.tensor([[[[1.0], [4.0]], [[3.0], [2.0]]]])
    is_known = torch.ones(1, 2, 1, dtype=torch.bool)
    assert winners(distances, is_known, joint=False).tolist() == [[0, 1]]
    assert winners(distances, is_known, joint=True).tolist() == [[0, 0]]
