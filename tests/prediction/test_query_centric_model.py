"""The query-centric model."""

import math

import pytest
import torch

from l5kit.errors import InvalidArgumentError
from l5kit.planning.network_plans import read_plans
from l5kit.prediction.vectorized.query_centric_model import QueryCentricModel, mixture_nll, mode_surprise, winners
from support.models import copied, vector_batch, with_lanes_reversed
from support.tolerances import FLOAT32

MAP_KEYS = ("lanes_mid", "crosswalks", "lanes")
AGENT_KEYS = tuple(
    f"all_other_agents_{when}_{what}"
    for when in ("history", "future")
    for what in ("positions", "yaws", "availability")
)


def make(*, joint=False, residual_to="ctra", **options):
    torch.manual_seed(0)
    return QueryCentricModel(
        4, 3, num_modes=3, joint=joint, dim=32, num_heads=4, dropout=0.0, residual_to=residual_to, **options
    )


def calm_batch():
    """The batch of all models, but with agents that move as vehicles do."""
    batch = vector_batch()
    known = batch["all_other_agents_history_availability"]
    age = torch.arange(4).float() * 0.1
    speed = torch.tensor([[5.0, 0.0, 3.0], [8.0, 2.0, 11.0]])
    yaws = torch.tensor([[0.3, -2.0, 1.0], [3.0, 0.0, -0.7]])
    start = batch["all_other_agents_history_positions"][:, :, :1]
    ahead = torch.stack((yaws.cos(), yaws.sin()), dim=-1).unsqueeze(2)
    batch["all_other_agents_history_positions"] = start - ahead * (speed.unsqueeze(-1) * age).unsqueeze(-1)
    batch["all_other_agents_history_yaws"] = yaws[:, :, None, None].expand(-1, -1, 4, -1).clone()
    batch["all_other_agents_history_positions"][~known] = 0.0
    return batch


def moved(batch, angle, shift):
    """The scene turned, then moved."""
    batch = copied(batch)
    turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    for key in (*MAP_KEYS, "all_other_agents_history_positions", "all_other_agents_future_positions"):
        batch[key][..., :2] = batch[key][..., :2] @ turn + torch.tensor(shift)
    for when in ("history", "future"):
        batch[f"all_other_agents_{when}_yaws"] += angle
    return batch, turn


def padded(batch):
    """The same scene with an agent, a lane and a crosswalk more that are not there."""
    batch = copied(batch)
    elements = [*AGENT_KEYS, *MAP_KEYS, *(f"{key}_availabilities" for key in MAP_KEYS), "all_other_agents_types"]
    for key in elements:
        batch[key] = torch.cat((batch[key], torch.zeros_like(batch[key][:, :1])), dim=1)
    return batch


def test_the_order_of_lanes_does_not_matter():
    model, batch = make().eval(), vector_batch()
    found, expected = model(with_lanes_reversed(batch)), model(batch)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize(
    ("residual_to", "options"),
    [
        (None, {}),
        ("constant_velocity", {"motion_features": True}),
        ("ctrv", {"mode_loss": "mixture"}),
        ("ctra", {"residual_unit_m": 2.0, "motion_features": True}),
    ],
)
def test_shapes_and_gradients(joint, residual_to, options):
    model, batch = make(joint=joint, residual_to=residual_to, **options), vector_batch()
    losses = model.train()(batch)
    losses["loss"].backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name
    outputs = model.eval()(batch)
    assert outputs["agent_positions"].shape == (2, 3, 4, 2)
    assert outputs["agent_yaws"].shape == (2, 3, 4, 1)
    assert outputs["all_agent_positions"].shape == outputs["all_agent_scales"].shape == (2, 3, 3, 4, 2)
    assert outputs["all_agent_yaws"].shape == (2, 3, 3, 4, 1)
    assert ("scene_logits" in outputs) == joint


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize(("angle", "shift"), [(0.7, [12.0, -5.0]), (3.0, [0.0, 40.0])])
def test_a_scene_that_is_turned_and_moved_is_predicted_alike(joint, angle, shift):
    model, batch = make(joint=joint, motion_features=True).eval(), calm_batch()
    there, turn = moved(batch, angle, shift)
    found, expected = model(there), model(batch)
    is_there = batch["all_other_agents_history_availability"].any(dim=-1)
    wanted = expected["all_agent_positions"] @ turn + torch.tensor(shift)
    torch.testing.assert_close(found["all_agent_positions"][is_there], wanted[is_there], rtol=0, atol=1e-4)
    for key, add in (("agent_traj_logits", 0.0), ("all_agent_scales", 0.0), ("all_agent_yaws", angle)):
        torch.testing.assert_close(found[key][is_there], expected[key][is_there] + add, rtol=0, atol=1e-4)


@pytest.mark.parametrize("joint", [False, True])
def test_what_is_not_there_has_no_influence(joint):
    model, batch = make(joint=joint, motion_features=True).eval(), calm_batch()
    other = copied(batch)
    other["all_other_agents_history_positions"][~batch["all_other_agents_history_availability"]] = 77.0
    other["all_other_agents_history_yaws"][~batch["all_other_agents_history_availability"]] = 1.0
    other["crosswalks"][~batch["crosswalks_availabilities"]] = -50.0
    expected, more = model(batch), model(padded(batch))
    for key, values in model(other).items():
        assert torch.equal(values, expected[key]), key
        of_all = more[key] if key == "scene_logits" else more[key][:, :3]
        torch.testing.assert_close(of_all, expected[key], rtol=0, atol=2e-6 if "logits" in key else 2e-5)
    losses, with_more = model.train()(batch), model(padded(batch))
    assert with_more["loss"].item() == pytest.approx(losses["loss"].item(), rel=1e-5)


ALL_LOSSES = pytest.mark.parametrize(
    ("joint", "mode_loss"), [(joint, loss) for joint in (False, True) for loss in ("winner", "mixture")]
)


@ALL_LOSSES
def test_losses_are_alike_wherever_a_scene_lies(joint, mode_loss):
    model = make(joint=joint, mode_loss=mode_loss, motion_features=True).train()
    batch = calm_batch()
    expected, found = model(batch), model(moved(batch, 0.7, [12.0, -5.0])[0])
    assert found.keys() == expected.keys()
    for name, loss in expected.items():
        assert found[name].item() == pytest.approx(loss.item(), rel=1e-4, abs=1e-4), name


@ALL_LOSSES
def test_losses_look_at_known_steps_of_agents_that_are_there_only(joint, mode_loss):
    model, batch = make(joint=joint, mode_loss=mode_loss).train(), calm_batch()
    is_known = batch["all_other_agents_future_availability"]
    is_known[:, :, -1] = False
    is_known[0, 1] = False
    other = copied(batch)
    other["all_other_agents_future_positions"][~is_known.bool()] = 1e6
    other["all_other_agents_future_yaws"][~is_known.bool()] = float("nan")
    expected = model(batch)
    for scene in (other, padded(batch)):
        for name, loss in model(scene).items():
            assert loss.item() == pytest.approx(expected[name].item(), rel=1e-5), name
    is_known[0, 0, 0] = not is_known[0, 0, 0]
    assert model(batch)["loss"].item() != pytest.approx(expected["loss"].item(), rel=1e-6)


@ALL_LOSSES
def test_scenes_without_any_known_step_give_finite_losses_and_gradients(joint, mode_loss):
    model, batch = make(joint=joint, mode_loss=mode_loss).train(), calm_batch()
    batch["all_other_agents_future_availability"][0] = False
    for _ in range(2):  # of one scene, then of none anything is known
        model.zero_grad()
        losses = model(batch)
        losses["loss"].backward()
        assert all(loss.isfinite() for loss in losses.values())
        assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())
        batch["all_other_agents_future_availability"][:] = False
    assert losses["loss"].item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("joint", [False, True])
def test_agents_may_come_in_any_order(joint):
    model, batch = make(joint=joint, motion_features=True).eval(), calm_batch()
    order = [0, 2, 1]
    turned = copied(batch)
    for key in (*AGENT_KEYS, "all_other_agents_types"):
        turned[key] = turned[key][:, order]
    expected, found = model(batch), model(turned)
    for key in ("all_agent_positions", "all_agent_yaws", "agent_traj_logits", "all_agent_scales"):
        torch.testing.assert_close(found[key], expected[key][:, order], rtol=0, atol=2e-5)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize(
    "mode_loss", [pytest.param("mixture", marks=pytest.mark.slow), pytest.param("winner", marks=pytest.mark.long)]
)
def test_it_learns_a_scene_by_heart(joint, mode_loss):
    """Each of its agents goes another way than the baseline says; the likeliest mode comes to know it."""
    model, batch = make(joint=joint, mode_loss=mode_loss, residual_unit_m=1.0), calm_batch()
    is_there = batch["all_other_agents_history_availability"].any(dim=-1)
    batch["all_other_agents_future_availability"][:] = is_there.unsqueeze(-1)
    before = model.eval()(batch)["all_agent_positions"].mean(dim=2).detach()
    wanted = before + torch.linspace(0.25, 1.0, 4)[:, None] * torch.tensor([1.0, -0.5])
    batch["all_other_agents_future_positions"][..., :2] = wanted
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = model.train()(batch)["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.2
    found = model.eval()(batch)
    errors_m = torch.linalg.vector_norm(found["agent_positions"] - wanted, dim=-1)[is_there]
    assert errors_m.mean() < 0.5 * torch.linalg.vector_norm(before - wanted, dim=-1)[is_there].mean()
    scales_m = found["all_agent_scales"][is_there]
    assert 1e-3 < scales_m.min() < scales_m.max() < 10.0


def test_agents_and_the_map_have_an_influence_unless_they_are_disabled():
    batch = calm_batch()
    no_agent, no_lane = copied(batch), copied(batch)
    no_agent["all_other_agents_history_availability"][:, 2] = False
    no_lane["lanes_mid_availabilities"][:, 0] = False
    for other, option in ((no_agent, "disable_other_agents"), (no_lane, "disable_map")):
        for joint in (False, True):
            before, after = (make(joint=joint).eval()(scene)["all_agent_positions"][:, 0] for scene in (batch, other))
            assert not torch.allclose(before, after, atol=1e-7)
        alone = make(**{option: True}).eval()
        before, after = (alone(scene)["all_agent_positions"][:, 0] for scene in (batch, other))
        assert torch.equal(before, after)


def test_joint_modes_have_one_probability_and_marginal_ones_one_for_each_agent():
    batch = calm_batch()
    marginal, joint = make().eval()(batch), make(joint=True).eval()(batch)
    assert (marginal["agent_traj_logits"][:, :1] - marginal["agent_traj_logits"]).abs().max() > 1e-5
    assert torch.equal(joint["agent_traj_logits"], joint["scene_logits"].unsqueeze(1).expand(-1, 3, -1))
    assert joint["scene_logits"].std(dim=-1).min() > 0


def test_differences_are_added_to_the_baseline_in_fixed_units():
    """5 m/s for 0.4 s; the AV of the first scene looks along 0.3 rad."""
    model, batch = make(residual_unit_m=2.0).eval(), calm_batch()
    for head in (model.decoder.proposals, model.decoder.additions):
        torch.nn.init.zeros_(head[-1].weight)
        torch.nn.init.zeros_(head[-1].bias)
    outputs = model(batch)
    way = outputs["agent_positions"][0, 0, -1] - batch["all_other_agents_history_positions"][0, 0, 0]
    torch.testing.assert_close(way, 2.0 * torch.tensor([math.cos(0.3), math.sin(0.3)]), rtol=0, atol=1e-3)
    with torch.no_grad():
        model.decoder.additions[-1].bias.view(4, 5)[:, 1] = 0.5  # to the left
    further = model(batch)["agent_positions"][0, 0] - outputs["agent_positions"][0, 0]
    left = torch.tensor([-math.sin(0.3), math.cos(0.3)])
    wanted = 2.0 * 0.5 * torch.tensor([0.25, 0.5, 0.75, 1.0]).unsqueeze(-1) * left
    torch.testing.assert_close(further, wanted, rtol=0, atol=1e-4)


def test_the_plan_of_the_av_is_that_of_the_first_agent():
    outputs = make().eval()(calm_batch())
    plans = read_plans(outputs, 2, headings="network")
    torch.testing.assert_close(
        torch.as_tensor(plans.positions_m).float(), outputs["agent_positions"][:, 0].detach(), rtol=0, atol=FLOAT32
    )


def test_an_agent_wins_alone_or_the_scene_as_a_whole():
    # two agents, two modes: mean distances 1 and 4, and 3 and 2; together 4 and 6
    distances = torch.tensor([[[[1.0], [4.0]], [[3.0], [2.0]]]])
    is_known = torch.ones(1, 2, 1, dtype=torch.bool)
    assert winners(distances, is_known, joint=False).tolist() == [[0, 1]]
    assert winners(distances, is_known, joint=True).tolist() == [[0, 0]]


def test_likelihoods_of_mixtures_are_those_by_hand():
    # two agents, two modes alike likely, one step; likelihoods 1/2 and 1/4, and 1/4 and 1/2
    surprise = -torch.log(torch.tensor([[[[0.5], [0.25]], [[0.25], [0.5]]]]))
    logits, is_known = torch.zeros(1, 2, 2), torch.ones(1, 2, 1, dtype=torch.bool)
    marginal = mixture_nll(surprise, logits, is_known, joint=False)
    joint = mixture_nll(surprise, logits, is_known, joint=True)
    assert marginal.item() == pytest.approx(-math.log(0.375))
    assert joint.item() == pytest.approx(-math.log(0.125) / 2)
    is_known[0, 1] = False
    assert mixture_nll(surprise, logits, is_known, joint=True).item() == pytest.approx(-math.log(0.375))


def test_scenes_of_joint_modes_count_once():
    logits = torch.log(torch.tensor([[[0.75, 0.25], [0.75, 0.25]], [[0.5, 0.5], [0.5, 0.5]]]))
    winner, is_any = torch.tensor([[0, 0], [1, 1]]), torch.tensor([[True, True], [False, True]])
    joint = mode_surprise(logits, winner, is_any, joint=True)
    assert joint.item() == pytest.approx(-(math.log(0.75) + math.log(0.5)) / 2)
    marginal = mode_surprise(logits, winner, is_any, joint=False)
    assert marginal.item() == pytest.approx(-(2 * math.log(0.75) + math.log(0.5)) / 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode_loss": "best"}, "mode_loss is 'best'"),
        ({"residual_unit_m": 0.0}, "residual_unit_m is 0.0"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make(**options)
