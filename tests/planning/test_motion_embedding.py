"""Embeddings of the current motion of agents, and the networks that use them."""

import math

import pytest
import torch
from torch import nn

from l5kit.configs.overrides import with_overrides
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.planning.motion_embedding import DIM_IMAGE, MotionEmbedding, MotionHead
from l5kit.workflows.workflow import TrainingConfig, make_model
from support.models import raster_batch, set_weights, signal, vector_batch
from support.tolerances import NETWORK
from support.workflows import VECTOR_WORKFLOWS, small_config

STEP_S = 0.1
WORKFLOWS = (
    "raster_planner",
    "vector_planner",
    "urban_driver",
    "agent_motion",
    "agent_motion_multimodal",
    "safepathnet",
    "simnet",
)


def past_of(speed_mps, acceleration_mps2, *, num_past=4):
    """Positions of an agent that drives along x, the current one first, headings and availability."""
    times_s = -STEP_S * torch.arange(num_past + 1, dtype=torch.float32)
    along_m = speed_mps * times_s + 0.5 * acceleration_mps2 * times_s**2
    positions = torch.stack([along_m, torch.zeros_like(along_m)], dim=-1)
    return positions, torch.zeros(num_past + 1), torch.ones(num_past + 1, dtype=torch.bool)


def batched(*pasts):
    return tuple(torch.stack(parts) for parts in zip(*pasts, strict=True))


@pytest.fixture
def embedding():
    return set_weights(MotionEmbedding(16, STEP_S))


def test_features_of_a_hand_computed_motion(embedding):
    features = []
    embedding.layers.register_forward_pre_hook(lambda _, inputs: features.append(inputs[0]))
    embedding(*batched(past_of(10.0, -2.0)))
    # 10 m/s in units of 5, -2 m/s2 in units of 1, no turn, the square of the speed, it moves, its past is known
    assert features[0].tolist() == [pytest.approx([2.0, -2.0, 0.0, 4.0, 1.0, 1.0], abs=2e-3)]


def test_a_centimetre_of_acceleration_shows(embedding):
    steady, braking = embedding(*batched(past_of(10.0, 0.0), past_of(10.0, -2.0)))
    assert (steady - braking).abs().max() > 0.05


def test_place_and_direction_do_not_matter(embedding):
    positions, yaws, is_known = batched(past_of(8.0, 1.0))
    turn = torch.tensor([[math.cos(2.0), math.sin(2.0)], [-math.sin(2.0), math.cos(2.0)]])
    elsewhere = positions @ turn + torch.tensor([30.0, -20.0])
    expected = embedding(positions, yaws, is_known)
    torch.testing.assert_close(embedding(elsewhere, yaws + 2.0, is_known), expected, rtol=1e-2, atol=1e-3)


def test_what_is_not_known_has_no_influence(embedding):
    positions, yaws, is_known = batched(past_of(8.0, 1.0))
    is_known[:, 3:] = False
    changed = positions.clone()
    changed[:, 3:] = 1e4
    torch.testing.assert_close(embedding(changed, yaws, is_known), embedding(positions, yaws, is_known))


@pytest.mark.parametrize("num_known", [0, 1])
def test_agents_without_a_past_stand(embedding, num_known):
    positions, yaws, is_known = batched(past_of(8.0, 1.0))
    is_known[:, num_known:] = False
    still = embedding(torch.zeros_like(positions), yaws, is_known)
    torch.testing.assert_close(embedding(positions, yaws, is_known), still)


def test_noise_is_kept_to_bounds(embedding):
    positions, yaws, is_known = batched(past_of(8.0, 1.0))
    positions[:, 0] += 50.0
    assert torch.isfinite(embedding(positions, yaws, is_known)).all()


@pytest.mark.parametrize("step_s", [0.0, -0.1, math.nan])
def test_a_step_takes_time(step_s):
    with pytest.raises(InvalidArgumentError, match="past_step_time_s"):
        MotionEmbedding(8, step_s)


def test_the_head_puts_raster_and_motion_together():
    head = set_weights(MotionHead(6, STEP_S))
    positions, yaws, is_known = batched(past_of(8.0, 1.0), past_of(8.0, -1.0))
    batch = {
        "history_positions": positions,
        "history_yaws": yaws[..., None],
        "history_availabilities": is_known.float(),
    }
    image = signal((1, DIM_IMAGE), 4).expand(2, -1)
    outputs = head(image, batch)
    assert outputs.shape == (2, 6)
    assert (outputs[0] - outputs[1]).abs().max() > 1e-4
    assert (head(-image, batch) - outputs).abs().max() > 1e-4


def batch_for(workflow):
    if workflow in VECTOR_WORKFLOWS:
        return vector_batch()
    positions, yaws, is_known = batched(past_of(8.0, 1.0), past_of(2.0, -1.0))
    past = {"history_positions": positions, "history_yaws": yaws[..., None], "history_availabilities": is_known.float()}
    return raster_batch() | past


def config_of(workflow, *changes):
    sizes = ["model_params.future_num_frames=4", "model_params.motion_features=true"]
    if workflow not in VECTOR_WORKFLOWS:
        sizes += ["model_params.history_num_frames=1", "model_params.model_architecture=simple_cnn"]
        sizes += ["raster_params.raster_size=[112,112]", "raster_params.map_type=stub_debug"]
    return TrainingConfig.from_cfg(with_overrides(small_config(workflow), [*sizes, *changes]))


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_every_network_learns_from_the_motion(workflow):
    config = config_of(workflow)
    torch.manual_seed(0)
    model = make_model(config) if workflow in VECTOR_WORKFLOWS else config.network.build_for(5)
    losses = model.train()(batch_for(workflow))
    losses["loss"].backward()
    of_motion = [weights.grad for name, weights in model.named_parameters() if "motion" in name]
    assert of_motion
    assert all(gradient is not None and gradient.abs().max() > 0 for gradient in of_motion if gradient.dim() > 1)


@pytest.mark.parametrize("workflow", ["vector_planner", "urban_driver", "safepathnet"])
def test_predictions_depend_on_the_motion_of_others(workflow):
    torch.manual_seed(0)
    model, batch = make_model(config_of(workflow)).eval(), vector_batch()
    with torch.no_grad():
        before = model(batch)
        model.get_submodule("motion_embedding.layers").layers[-1].bias.add_(
            signal((model.input_embed.out_features,), 3)
        )
        after = model(batch)
    key = "agent_positions" if workflow == "safepathnet" else "positions"
    assert (before[key] - after[key]).abs().max() > NETWORK


@pytest.mark.parametrize("workflow", ["raster_planner", "vector_planner", "safepathnet"])
def test_motion_needs_a_past(workflow):
    key = {"raster_planner": "history_num_frames", "vector_planner": "history_num_frames_ego"}
    change = f"model_params.{key.get(workflow, 'history_num_frames_agents')}=0"
    with pytest.raises(ConfigError, match=r"velocities need past frames.*motion_features"):
        config_of(workflow, change)


def test_weights_of_1_5_do_not_change():
    model = make_model(TrainingConfig.from_cfg(small_config("vector_planner")))
    assert not [name for name in model.state_dict() if "motion" in name]


def test_fewer_features_make_a_smaller_network():
    small = make_model(config_of("vector_planner", "model_params.dim_features=32"))
    assert small.input_embed.out_features == 32
    assert isinstance(small.global_head.encoder, nn.MultiheadAttention)
    assert small.global_head.encoder.embed_dim == 32
    assert small.train()(vector_batch())["loss"] > 0


def test_features_are_shared_among_the_heads_of_the_attention():
    with pytest.raises(ConfigError, match=r"dim_features.*multiple of 8"):
        config_of("urban_driver", "model_params.dim_features=12")
