"""SafePathNet as a whole."""

import math

import pytest
import torch
from torch import nn

from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.planning.vectorized.common import build_target_normalization
from l5kit.prediction.vectorized.safepathnet_model import SafePathNetModel
from support.models import copied, no_dropout, rows, set_weights, signal, vector_batch
from support.tolerances import FLOAT32, FLOAT32_LONG, NETWORK


def make(
    *,
    steps=4,
    trajectories=2,
    max_num_agents=3,
    no_agents=False,
    no_map=False,
    no_boundaries=False,
    weights=(1.0, 1.0, 1.0),
    **options,
):
    criterion = nn.L1Loss(reduction="none")
    switches = (no_agents, no_map, no_boundaries)
    model = SafePathNetModel(
        3, 3, steps, list(weights), criterion, *switches, trajectories, max_num_agents, 0.25, **options
    )
    return no_dropout(set_weights(model))


def attention_table(name):
    return {
        f"{name}.in_proj_weight": (768, 256),
        f"{name}.in_proj_bias": (768,),
        f"{name}.out_proj.weight": (256, 256),
        f"{name}.out_proj.bias": (256,),
    }


def layer_table(name, attentions, num_norms):
    table = {}
    for attention in attentions:
        table |= attention_table(f"{name}.{attention}")
    table |= {
        f"{name}.linear1.weight": (1024, 256),
        f"{name}.linear1.bias": (1024,),
        f"{name}.linear2.weight": (256, 1024),
        f"{name}.linear2.bias": (256,),
    }
    return table | {f"{name}.norm{n}.{key}": (256,) for n in range(1, num_norms + 1) for key in ("weight", "bias")}


def safepathnet_table(num_steps, num_trajectories):
    """Names and shapes of the state dict of 1.5."""
    table = {
        "weights_scaling": (3,),
        "xy_scale": (num_steps, 2),
        "agent_std": (3,),
        "other_agent_std": (3,),
        "input_embed.weight": (128, 3),
        "input_embed.bias": (128,),
        "positional_embedding.static_embedding": (5000, 1, 128),
        "type_embedding.embedding.weight": (13, 256),
    }
    for layer in range(3):
        table |= {
            f"local_subgraph.layers.{layer}.mlp.linear.weight": (128, 128),
            f"local_subgraph.layers.{layer}.mlp.norm.weight": (128,),
            f"local_subgraph.layers.{layer}.mlp.norm.bias": (128,),
            f"local_subgraph.layers.{layer}.linear_remap.weight": (128, 256),
            f"local_subgraph.layers.{layer}.linear_remap.bias": (128,),
        }
    head = "global_head.transformer"
    graph = f"{head}.transformer_global_graph"
    table |= {
        f"{head}.egos_embedding": (10, 128),
        f"{head}.agents_embedding": (num_trajectories, 128),
        f"{graph}.encoder_projection_layer.weight": (256, 128),
        f"{graph}.tdecoder_projection_layer.weight": (256, 128),
    }
    for layer in range(3):
        table |= layer_table(f"{graph}.encoder.layers.{layer}", ["self_attn"], 2)
        table |= layer_table(f"{graph}.tdecoder.layers.{layer}", ["self_attn", "multihead_attn"], 3)
    num_values = 3 * num_steps + (num_trajectories > 1)
    return table | {
        "global_head.agent_prediction_model.layers.0.weight": (512, 256),
        "global_head.agent_prediction_model.layers.0.bias": (512,),
        "global_head.agent_prediction_model.layers.1.weight": (512, 512),
        "global_head.agent_prediction_model.layers.1.bias": (512,),
        "global_head.agent_prediction_model.layers.2.weight": (num_values, 512),
        "global_head.agent_prediction_model.layers.2.bias": (num_values,),
    }


@pytest.mark.parametrize("num_trajectories", [20, 1])
def test_state_dict_of_1_5(num_trajectories):
    model = SafePathNetModel(19, 19, 30, [1.0] * 3, None, False, False, False, num_trajectories)
    state = model.state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == safepathnet_table(30, num_trajectories)
    assert len(state) == 123
    assert (state["xy_scale"] == 1).all()
    assert not model.normalize_targets
    if num_trajectories == 20:
        assert sum(parameter.numel() for parameter in model.parameters()) == 6_192_347


def test_losses_of_1_5():
    losses = make()(vector_batch())
    expected = {"loss": 1.761798, "loss/agents_traj": 1.588767, "loss/agents_traj_prob": 0.692125}
    assert {key: value.item() for key, value in losses.items()} == pytest.approx(expected, rel=NETWORK)


def test_predictions_of_1_5():
    outputs = make().eval()(vector_batch())
    sums = {key: value.sum().item() for key, value in outputs.items()}
    expected = {
        "agent_positions": -2104.735667,
        "agent_yaws": 19.447506,
        "all_agent_positions": -4215.623442,
        "all_agent_yaws": 39.152386,
        "agent_traj_logits": 3.822267,
    }
    assert sums == pytest.approx(expected, rel=NETWORK)
    assert outputs["agent_positions"].abs().sum().item() == pytest.approx(2900.295250, rel=NETWORK)
    assert outputs["agent_positions"][0, 0, 0].tolist() == pytest.approx([-132.248306, 64.967476], rel=NETWORK)
    assert outputs["agent_yaws"].flatten()[:2].tolist() == pytest.approx([2.595442, -2.033371], rel=NETWORK)
    assert outputs["agent_traj_logits"].flatten()[:2].tolist() == pytest.approx([0.368096, 0.366592], rel=NETWORK)


def test_a_batch_with_fewer_agents_than_get_trajectories():
    """Elements of the map, which lie behind them, are no agents."""
    batch, model = vector_batch(), make(max_num_agents=9)
    num_agents = batch["all_other_agents_types"].shape[1]
    assert num_agents < 9
    assert model(batch)["loss"] > 0
    shapes = {value.shape[1] for value in model.eval()(batch).values()}
    assert shapes == {num_agents}


def test_shapes_of_a_usual_batch():
    """25 steps, 20 trajectories, 30 agents."""
    batch = vector_batch()
    torch.manual_seed(0)
    batch |= {
        "other_agents_polyline": torch.randn(2, 30, 4, 3),
        "other_agents_polyline_availability": torch.rand(2, 30, 4) > 0.3,
        "all_other_agents_types": torch.randint(0, 17, (2, 30)),
        "all_other_agents_history_positions": torch.randn(2, 30, 4, 2),
        "all_other_agents_history_yaws": torch.randn(2, 30, 4, 1),
        "all_other_agents_history_availability": torch.rand(2, 30, 4) > 0.3,
        "all_other_agents_future_positions": torch.randn(2, 30, 25, 2),
        "all_other_agents_future_yaws": torch.randn(2, 30, 25, 1),
        "all_other_agents_future_availability": torch.rand(2, 30, 25) > 0.3,
    }
    model = SafePathNetModel(3, 3, 25, [1.0] * 3, nn.L1Loss(reduction="none"), False, False, False, 20, 30)
    assert model(batch)["loss"] > 0
    shapes = {key: tuple(value.shape) for key, value in model.eval()(batch).items()}
    assert shapes == {
        "agent_positions": (2, 30, 25, 2),
        "agent_yaws": (2, 30, 25, 1),
        "all_agent_positions": (2, 30, 20, 25, 2),
        "all_agent_yaws": (2, 30, 20, 25, 1),
        "agent_traj_logits": (2, 30, 20),
    }


class Given(SafePathNetModel):
    """A model whose trajectories (B, A, K, T, 3), scaled and in the frame of each agent, and logits are given."""

    def __init__(self, trajectories, logits, **options):
        steps, weights, criterion = trajectories.shape[3], [1.0, 1.0, 1.0], nn.L1Loss(reduction="none")
        switches = (False, False, False)
        super().__init__(3, 3, steps, weights, criterion, *switches, trajectories.shape[2], **options)
        self.given = trajectories, logits

    def model_call(self, agents_polys, static_polys, agents_avail, static_avail, type_embedding, lane_bdry_len):
        return self.given


def one_agent(position=(0.0, 0.0), yaw=0.0, available=True):
    """A batch of one scene with one agent that has 2 steps of future, at 2 and 4 m in front of it, turned by 0.2."""
    ahead = torch.tensor([[2.0, 0.0], [4.0, 0.0]])
    rotation = torch.tensor([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
    batch = rows(vector_batch(), slice(0, 1))
    for key in ("other_agents_polyline", "other_agents_polyline_availability", "all_other_agents_types"):
        batch[key] = batch[key][:, :1]
    return batch | {
        "all_other_agents_history_positions": torch.tensor(position).expand(1, 1, 4, 2).clone(),
        "all_other_agents_history_yaws": torch.full((1, 1, 4, 1), yaw),
        "all_other_agents_history_availability": torch.full((1, 1, 4), available),
        "all_other_agents_future_positions": (ahead @ rotation.T + torch.tensor(position))[None, None],
        "all_other_agents_future_yaws": torch.full((1, 1, 2, 1), yaw + 0.2),
        "all_other_agents_future_availability": torch.ones(1, 1, 2, dtype=torch.bool),
    }


def right_trajectory(yaw_rad):
    values = torch.tensor([[2.0 / 125, 0.0, yaw_rad / math.pi], [4.0 / 125, 0.0, yaw_rad / math.pi]])
    return values[None, None, None]


POSES = [pytest.param((0.0, 0.0), 0.0, id="at the ego"), pytest.param((10.0, -5.0), 1.2, id="elsewhere")]


@pytest.mark.parametrize(("position", "yaw"), POSES)
def test_s1_single_yaws_are_relative_to_the_agent(position, yaw):
    model = Given(right_trajectory(0.2), torch.ones(1, 1, 1), yaw_residual="single")
    batch = one_agent(position, yaw)
    assert model(batch)["loss/agents_traj"].item() == pytest.approx(0.0, abs=FLOAT32)
    outputs = model.eval()(batch)
    torch.testing.assert_close(outputs["agent_positions"], batch["all_other_agents_future_positions"])
    torch.testing.assert_close(outputs["agent_yaws"], batch["all_other_agents_future_yaws"])


@pytest.mark.parametrize(("position", "yaw"), POSES)
def test_s1_doubled_yaws_are_those_of_1_5(position, yaw):
    model = Given(right_trajectory(2 * (yaw + 0.2)), torch.ones(1, 1, 1))
    batch = one_agent(position, yaw)
    assert model(batch)["loss/agents_traj"].item() == pytest.approx(0.0, abs=FLOAT32)
    outputs = model.eval()(batch)
    torch.testing.assert_close(outputs["agent_positions"], batch["all_other_agents_future_positions"])
    torch.testing.assert_close(outputs["agent_yaws"], 4 * batch["all_other_agents_future_yaws"])


def test_s1_a_turn_across_the_back_is_a_small_one():
    batch = one_agent(yaw=3.1)
    batch["all_other_agents_future_yaws"] -= 2 * math.pi
    model = Given(right_trajectory(0.2), torch.ones(1, 1, 1), yaw_residual="single")
    assert model(batch)["loss/agents_traj"].item() == pytest.approx(0.0, abs=FLOAT32)


def test_s1_other_treatments_of_yaws_do_not_exist():
    with pytest.raises(UnsupportedValueError, match=r"yaw_residual is 'triple'.*doubled.*single"):
        make(yaw_residual="triple")


def test_agents_that_are_not_there_stay_where_their_pose_is():
    model = Given(right_trajectory(0.2), torch.ones(1, 1, 1), yaw_residual="single").eval()
    outputs = model(one_agent((3.0, 4.0), 0.5, available=False))
    assert outputs["agent_positions"][0, 0].tolist() == [[3.0, 4.0], [3.0, 4.0]]
    assert outputs["agent_yaws"].flatten().tolist() == [0.5, 0.5]


def test_the_likeliest_trajectory_is_selected_and_the_matched_one_trained():
    right, wrong = right_trajectory(0.4), right_trajectory(0.4) + 1.0
    model = Given(torch.cat((right, wrong), dim=2), torch.tensor([[[0.0, 1.0]]]), cost_prob_coeff=0.5)
    batch = one_agent()
    losses = model(batch)
    assert losses["loss/agents_traj"].item() == pytest.approx(0.0, abs=FLOAT32)
    surprise = math.log(1 + math.e)
    assert losses["loss/agents_traj_prob"].item() == pytest.approx(surprise)
    assert losses["loss"].item() == pytest.approx(0.5 * surprise)
    outputs = model.eval()(batch)
    torch.testing.assert_close(outputs["agent_positions"], outputs["all_agent_positions"][:, :, 1])


@pytest.mark.parametrize(
    ("options", "loss"),
    [pytest.param({}, 3.0, id="1.5"), pytest.param({"apply_weights_scaling": True}, 111.0, id="applied")],
)
def test_s6_weights_are_applied_when_asked_for(options, loss):
    model = Given(right_trajectory(0.4) + 1.0, torch.ones(1, 1, 1), **options)
    model.weights_scaling = torch.tensor([1.0, 10.0, 100.0])
    assert model(one_agent())["loss/agents_traj"].item() == pytest.approx(loss, rel=FLOAT32_LONG)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"no_boundaries": True}, id="s2 boundaries"),
        pytest.param({"no_agents": True}, id="s3 agents"),
        pytest.param({"no_map": True}, id="map"),
        pytest.param({"no_boundaries": True, "no_agents": True, "no_map": True}, id="all"),
    ],
)
def test_s2_s3_everything_can_be_disabled(options):
    model, batch = make(**options), vector_batch()
    assert torch.isfinite(model(batch)["loss"])
    assert all(torch.isfinite(value).all() for value in model.eval()(batch).values())


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        pytest.param({"no_map": True}, ["lanes_mid", "crosswalks", "lanes"], id="map"),
        pytest.param({"no_boundaries": True}, ["lanes"], id="boundaries"),
    ],
)
def test_s2_what_is_disabled_changes_nothing(options, changed):
    batch = vector_batch()
    other = copied(batch)
    for key in changed:
        other[key][..., :2] += 10.0
    disabled, enabled = make(**options).eval(), make().eval()
    key = "agent_positions"
    torch.testing.assert_close(disabled(other)[key], disabled(batch)[key])
    assert not torch.allclose(enabled(other)[key], enabled(batch)[key])


def test_s3_a_disabled_agent_still_has_its_own_trajectories():
    batch = vector_batch()
    other = copied(batch)
    other["other_agents_polyline"][:, 0, :, :2] += 10.0
    model = make(no_agents=True).eval()
    found, moved = model(batch)["agent_traj_logits"], model(other)["agent_traj_logits"]
    assert not torch.allclose(found[:, 0], moved[:, 0])


def test_s4_scenes_without_agents_are_finite_and_change_no_other_scene():
    batch = vector_batch()
    for key in batch:
        if key.startswith(("other_agents", "all_other_agents")) and key.endswith("availability"):
            batch[key][0] = False
    model = make()
    losses = model(batch)
    losses["loss"].backward()
    assert all(torch.isfinite(value) for value in losses.values())
    assert all(parameter.grad is None or torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    alone = model(rows(batch, slice(1, 2)))
    assert losses["loss"].item() == pytest.approx(alone["loss"].item(), rel=FLOAT32_LONG)
    assert all(torch.isfinite(value).all() for value in model.eval()(batch).values())


def test_s5_without_any_target_the_loss_is_0():
    batch = vector_batch()
    batch["all_other_agents_future_availability"][:] = False
    losses = make()(batch)
    assert {key: value.item() for key, value in losses.items()} == dict.fromkeys(losses, 0.0)


def test_s8_sizes_and_dropout_can_be_chosen():
    options = {"dim_local": 32, "dim_global": 64, "dim_feedforward": 128, "nhead": 4, "num_local_layers": 1}
    model = SafePathNetModel(
        3,
        3,
        4,
        [1.0] * 3,
        None,
        False,
        False,
        False,
        2,
        3,
        num_encoder_layers=1,
        num_decoder_layers=2,
        dropout=0.3,
        **options,
    )
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert shapes["input_embed.weight"] == (32, 3)
    assert shapes["type_embedding.embedding.weight"] == (13, 64)
    graph = "global_head.transformer.transformer_global_graph"
    assert shapes[f"{graph}.encoder.layers.0.linear1.weight"] == (128, 64)
    layers = [
        len(getattr(model.global_head.transformer.transformer_global_graph, part).layers)
        for part in ("encoder", "tdecoder")
    ]
    assert (len(model.local_subgraph.layers), layers) == (1, [1, 2])
    assert {module.p for module in model.modules() if isinstance(module, nn.Dropout)} == {0.3}
    assert model.eval()(vector_batch())["agent_positions"].shape == (2, 3, 4, 2)


@pytest.mark.parametrize(("position", "yaw"), POSES)
def test_s9_normalized_targets_are_undone(position, yaw):
    given = right_trajectory(0.2)
    given[..., :2] /= build_target_normalization(2)
    model = Given(given, torch.ones(1, 1, 1), yaw_residual="single", normalize_targets=True)
    batch = one_agent(position, yaw)
    assert model(batch)["loss/agents_traj"].item() == pytest.approx(0.0, abs=FLOAT32)
    torch.testing.assert_close(model.eval()(batch)["agent_positions"], batch["all_other_agents_future_positions"])


def test_agents_beyond_the_most_get_no_trajectories():
    model, batch = make(max_num_agents=2), vector_batch()
    assert torch.isfinite(model(batch)["loss"])
    assert model.eval()(batch)["agent_positions"].shape == (2, 2, 4, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "at least one"),
        ({"trajectories": 0}, "agent_num_trajectories is 0"),
        ({"max_num_agents": 0}, "max_num_agents 0"),
        ({"weights": (1.0, 1.0)}, "weights_scaling"),
    ],
)
def test_arguments_that_make_no_model(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make(**options)


def with_motions(**options):
    return set_weights(make(agents_in_own_frame=True, **options)).eval()


def test_motions_do_not_depend_on_where_an_agent_is():
    model, batch = with_motions(), vector_batch()
    polylines, available = batch["other_agents_polyline"], batch["other_agents_polyline_availability"]
    turn, shift = torch.tensor(2.0), torch.tensor([7.0, -3.0])
    rotation = torch.tensor([[torch.cos(turn), -torch.sin(turn)], [torch.sin(turn), torch.cos(turn)]])
    moved = torch.cat((polylines[..., :2] @ rotation.T + shift, polylines[..., 2:] + turn), dim=-1)
    before, after = model._embed_motions(polylines, available), model._embed_motions(moved, available)
    torch.testing.assert_close(before, after, atol=NETWORK, rtol=NETWORK)
    assert before[0, 0].norm().item() == pytest.approx(1.0, rel=FLOAT32_LONG)
    assert not torch.allclose(before[0, 0], before[0, 1], atol=1e-2)


def test_motions_concern_other_agents_only():
    without, with_them = set_weights(make()).eval(), with_motions()
    assert list(without.state_dict()) == list(with_them.state_dict())
    polylines, static = signal((2, 4, 4, 3), 1), signal((2, 3, 5, 3), 2)
    available = torch.ones(2, 4, 4, dtype=torch.bool), torch.ones(2, 3, 5, dtype=torch.bool)
    plain, _ = without.embed_elements(polylines, static, *available)
    embeddings, _ = with_them.embed_elements(polylines, static, *available)
    changed = (plain - embeddings).abs().amax(dim=(0, 2)) > 1e-3
    assert changed.tolist() == [False, True, True, True, False, False, False]


def test_a_heading_that_was_seen_reversed_counts_as_a_limited_turn():
    model, polylines = with_motions(), torch.zeros(1, 2, 4, 3)
    polylines[0, 0, 1:, 2], polylines[0, 1, 1:, 2] = 3.0, 1.0
    embeddings = model._embed_motions(polylines, torch.ones(1, 2, 4, dtype=torch.bool))
    torch.testing.assert_close(embeddings[0, 0], embeddings[0, 1])
