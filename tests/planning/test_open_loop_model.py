"""The vector planning model, trained open loop."""

import pytest
import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.planning.vectorized.common import build_target_normalization
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from support.models import copied, set_weights, vector_batch
from support.tolerances import FLOAT32, NETWORK

HEAD = (1, 3)


def make(*, no_agents=False, no_map=False, no_boundaries=False, num_targets=12, **options):
    criterion = nn.L1Loss(reduction="none")
    arguments = (*HEAD, num_targets, [1.0, 1.0, 1.0], criterion, 0.0, no_agents, no_map, no_boundaries)
    return VectorizedModel(*arguments, **options)


def vector_table(num_steps):
    """Names and shapes of the state dict of 1.5 for three values a step."""
    table = {
        "weights_scaling": (3,),
        "xy_scale": (num_steps, 2),
        "agent_std": (3,),
        "other_agent_std": (3,),
        "input_embed.weight": (256, 3),
        "input_embed.bias": (256,),
        "positional_embedding.static_embedding": (5000, 1, 256),
        "type_embedding.embedding.weight": (13, 256),
    }
    for layer in range(3):
        table |= {
            f"local_subgraph.layers.{layer}.mlp.linear.weight": (256, 256),
            f"local_subgraph.layers.{layer}.mlp.norm.weight": (256,),
            f"local_subgraph.layers.{layer}.mlp.norm.bias": (256,),
            f"local_subgraph.layers.{layer}.linear_remap.weight": (256, 512),
            f"local_subgraph.layers.{layer}.linear_remap.bias": (256,),
        }
    return table | {
        "global_head.encoder.in_proj_weight": (768, 256),
        "global_head.encoder.in_proj_bias": (768,),
        "global_head.encoder.out_proj.weight": (256, 256),
        "global_head.encoder.out_proj.bias": (256,),
        "global_head.output_embed.layers.0.weight": (1024, 256),
        "global_head.output_embed.layers.0.bias": (1024,),
        "global_head.output_embed.layers.1.weight": (1024, 1024),
        "global_head.output_embed.layers.1.bias": (1024,),
        "global_head.output_embed.layers.2.weight": (3 * num_steps, 1024),
        "global_head.output_embed.layers.2.bias": (3 * num_steps,),
    }


def test_state_dict_of_1_5():
    model = make(num_targets=36)
    state = model.state_dict()
    assert len(state) == 33
    assert {name: tuple(value.shape) for name, value in state.items()} == vector_table(12)
    assert list(state) == list(vector_table(12))
    assert sum(parameter.numel() for parameter in model.parameters()) == 2_209_316
    assert torch.equal(state["xy_scale"], build_target_normalization(12))
    assert state["agent_std"].tolist() == pytest.approx([1.6919, 0.0365, 0.0218])
    assert state["other_agent_std"].tolist() == pytest.approx([33.2631, 21.3976, 1.5490])
    assert model.normalize_targets


NUMBERS = {
    "all": ({}, 3.356865, -1.289089, 12.734154, [2.058545, -0.012123, -1.39261, 0.01232], -3.417147),
    "no boundaries": ({"no_boundaries": True}, 3.341890, -1.784475, 12.321242, [1.952323, -0.012072], -3.275671),
    "alone": (
        {"no_boundaries": True, "no_map": True, "no_agents": True},
        3.198222,
        -8.000424,
        10.834052,
        [0.480787, -0.029564],
        -2.703086,
    ),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_of_1_5(case):
    options, loss, total, size, first, yaws = NUMBERS[case]
    model, batch = set_weights(make(**options)), vector_batch()
    assert model.train()(copied(batch))["loss"].item() == pytest.approx(loss, rel=NETWORK)
    outputs = model.eval()(batch)
    assert outputs["positions"].sum().item() == pytest.approx(total, rel=NETWORK)
    assert outputs["positions"].abs().sum().item() == pytest.approx(size, rel=NETWORK)
    assert outputs["positions"].flatten()[: len(first)].tolist() == pytest.approx(first, rel=NETWORK)
    assert outputs["yaws"].sum().item() == pytest.approx(yaws, rel=NETWORK)


def test_attention_of_1_5():
    attention = set_weights(make()).eval()(vector_batch())["attention_weights"]
    expected = [0.087315, 0.119430, 0.097513, 0, 0.096786, 0.094565]
    assert attention[0, 0, :6].tolist() == pytest.approx(expected, abs=2e-6)
    torch.testing.assert_close(attention.sum(dim=-1), torch.ones(2, 1))


def test_alone_the_model_looks_at_the_agent_of_interest_only():
    outputs = set_weights(make(no_agents=True, no_map=True)).eval()(vector_batch())
    assert outputs["attention_weights"][:, 0].tolist() == [[1.0] + [0.0] * 11] * 2


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        pytest.param({"no_agents": True}, ["other_agents_polyline"], id="agents"),
        pytest.param({"no_map": True}, ["lanes_mid", "crosswalks", "lanes"], id="map"),
        pytest.param({"no_boundaries": True}, ["lanes"], id="boundaries"),
    ],
)
def test_what_is_disabled_changes_nothing(options, changed):
    batch = vector_batch()
    other = copied(batch)
    for key in changed:
        other[key][..., :2] += 10.0
    disabled, enabled = set_weights(make(**options)).eval(), set_weights(make()).eval()
    torch.testing.assert_close(disabled(other)["positions"], disabled(batch)["positions"])
    assert not torch.allclose(enabled(other)["positions"], enabled(batch)["positions"])


def test_the_order_of_other_agents_does_not_matter():
    model, batch = set_weights(make()).eval(), vector_batch()
    shuffled = copied(batch)
    for key in ("other_agents_polyline", "other_agents_polyline_availability", "all_other_agents_types"):
        shuffled[key] = batch[key][:, [2, 0, 1]]
    torch.testing.assert_close(model(shuffled)["positions"], model(batch)["positions"])


def test_padding_does_not_matter():
    """More points, lanes and agents that are not available change no prediction."""
    model, batch = set_weights(make()).eval(), vector_batch()
    padded = copied(batch)
    pad = nn.functional.pad
    padded["lanes_mid"] = pad(batch["lanes_mid"], (0, 0, 0, 3, 0, 2))
    padded["lanes_mid_availabilities"] = pad(batch["lanes_mid_availabilities"], (0, 3, 0, 2))
    padded["other_agents_polyline"] = pad(batch["other_agents_polyline"], (0, 0, 0, 0, 0, 4))
    padded["other_agents_polyline_availability"] = pad(batch["other_agents_polyline_availability"], (0, 0, 0, 4))
    padded["all_other_agents_types"] = pad(batch["all_other_agents_types"], (0, 4))
    torch.testing.assert_close(model(padded)["positions"], model(batch)["positions"])


def test_a_history_longer_than_the_polylines_of_the_map_works():
    model, batch = set_weights(make()).eval(), vector_batch()
    pad = nn.functional.pad
    longer = copied(batch)
    for key in ("agent_trajectory_polyline", "other_agents_polyline"):
        longer[key] = pad(batch[key], (0, 0, 0, 16))
    for key in ("agent_polyline_availability", "other_agents_polyline_availability"):
        longer[key] = pad(batch[key], (0, 16))
    torch.testing.assert_close(model(longer)["positions"], model(batch)["positions"])


def test_a_scene_without_other_agents_or_map():
    batch = vector_batch()
    for key in ("other_agents_polyline", "other_agents_polyline_availability", "all_other_agents_types"):
        batch[key] = batch[key][:, :0]
    for key in ("lanes_mid", "crosswalks", "lanes"):
        batch[f"{key}_availabilities"] = torch.zeros_like(batch[f"{key}_availabilities"])
    model = set_weights(make())
    assert torch.isfinite(model(batch)["loss"])
    outputs = model.eval()(batch)
    assert outputs["attention_weights"].shape == (2, 1, 9)
    assert torch.isfinite(outputs["positions"]).all()


def test_p7_lights_enter_through_the_type_of_the_lane_only():
    model, batch = set_weights(make()).eval(), vector_batch()
    later_points, first_point = copied(batch), copied(batch)
    later_points["lanes_mid"][:, :, 1:, 2] = 3.0
    first_point["lanes_mid"][:, :, 0, 2] = 3.0
    expected = model(batch)["positions"]
    torch.testing.assert_close(model(later_points)["positions"], expected)
    assert not torch.allclose(model(first_point)["positions"], expected)


def test_p8_the_loss_over_available_steps():
    ours, theirs = set_weights(make(average_available_only=True)), set_weights(make())
    batch = vector_batch()  # 7 of 8 steps are available
    assert ours(batch)["loss"].item() == pytest.approx(theirs(batch)["loss"].item() * 8 / 7, rel=FLOAT32)


def test_p16_labels_matter_when_asked_for():
    batch = vector_batch()
    cars = {**batch, "all_other_agents_types": torch.full((2, 3), 3)}
    without, with_labels = set_weights(make()).eval(), set_weights(make(use_agent_labels=True)).eval()
    assert torch.equal(without(cars)["positions"], without(batch)["positions"])
    assert not torch.allclose(with_labels(cars)["positions"], with_labels(batch)["positions"])


def test_shapes_of_a_usual_batch():
    """Fifteen scenes with 12 steps and labels of all kinds."""
    batch = {key: value[[0, 1] * 7 + [0]] for key, value in vector_batch().items()}
    batch["all_other_agents_types"] = torch.arange(45).reshape(15, 3) % 99
    batch["target_positions"] = torch.ones(15, 12, 2)
    batch["target_yaws"] = torch.ones(15, 12, 1)
    batch["target_availabilities"] = torch.ones(15, 12, dtype=torch.bool)
    model = make(num_targets=36)
    assert model(batch)["loss"] > 0
    outputs = model.eval()(batch)
    assert (outputs["positions"].shape, outputs["yaws"].shape) == ((15, 12, 2), (15, 12, 1))


@pytest.mark.parametrize("num_targets", [0, 1, 35])
def test_targets_that_are_no_steps(num_targets):
    with pytest.raises(InvalidArgumentError, match=r"num_targets is|at least one"):
        make(num_targets=num_targets)


@pytest.mark.parametrize("weights", [[], [1.0], [1.0, 1.0]])
def test_weights_for_other_than_three_values(weights):
    with pytest.raises(InvalidArgumentError, match="weights_scaling"):
        VectorizedModel(*HEAD, 12, weights, None, 0.0, False, False, False)
