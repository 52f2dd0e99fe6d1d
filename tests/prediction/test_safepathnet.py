"""The parts of SafePathNet."""

import pytest
import torch
from torch import nn

from l5kit.prediction.vectorized.safepathnet import (
    MultimodalDecoder,
    MultimodalTransformerGlobalGraph,
    TrajectoryMatcher,
    TransformerGlobalGraph,
)


@pytest.mark.parametrize(
    ("coefficient", "logits", "best"),
    [
        pytest.param(0.0, [0.0, 9.0, 0.0], 2, id="cost only"),
        pytest.param(1.0, [0.0, 9.0, 0.0], 1, id="likely enough"),
        pytest.param(1.0, [0.0, 0.0, 0.0], 2, id="all as likely"),
    ],
)
def test_the_best_trajectory_is_near_and_likely(coefficient, logits, best):
    costs = torch.tensor([[[0.9, 0.8, 0.3]]], requires_grad=True)
    found = TrajectoryMatcher(coefficient)(costs, torch.tensor([[logits]]))
    assert found.tolist() == [[best]]
    assert not found.requires_grad
    assert list(TrajectoryMatcher().parameters()) == []


def graph(dropout=0.0):
    torch.manual_seed(0)
    return TransformerGlobalGraph(8, 16, 4, 32, 2, 2, dropout)


def elements():
    torch.manual_seed(1)
    invalid = torch.zeros(2, 6, dtype=torch.bool)
    invalid[0, 4:] = True
    return torch.randn(2, 6, 8), torch.randn(2, 3, 8), invalid, torch.randn(2, 6, 16)


def test_a_query_sees_all_valid_elements():
    model, (polylines, queries, invalid, types) = graph(), elements()
    seen = model(polylines, queries, invalid, None, types)
    assert seen.shape == (2, 3, 16)
    polylines[0, 4:], types[0, 4:] = 50.0, 50.0
    torch.testing.assert_close(model(polylines, queries, invalid, None, types), seen)
    polylines[0, 2] += 1.0
    assert not torch.allclose(model(polylines, queries, invalid, None, types)[0], seen[0])


def test_graph_is_encoder_and_decoder_of_projections():
    model, (polylines, queries, invalid, types) = graph(), elements()
    tgt_invalid = torch.tensor([[False, False, True], [False] * 3])
    memory = model.encoder((model.encoder_projection_layer(polylines) + types).transpose(0, 1), None, invalid)
    projected = model.tdecoder_projection_layer(queries).transpose(0, 1)
    expected = model.tdecoder(
        projected, memory, tgt_key_padding_mask=tgt_invalid, memory_key_padding_mask=invalid
    ).transpose(0, 1)
    torch.testing.assert_close(model(polylines, queries, invalid, tgt_invalid, types), expected)


def test_s4_queries_that_are_all_invalid_stay_finite():
    model, (polylines, queries, invalid, types) = graph(), elements()
    tgt_invalid = torch.tensor([[True] * 3, [False, True, False]])
    seen = model(polylines, queries, invalid, tgt_invalid, types)
    seen.sum().backward()
    assert torch.isfinite(seen).all()
    torch.testing.assert_close(seen[0], model(polylines, queries, invalid, None, types)[0])
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda e: (e[0][..., :7], e[1], e[2], e[3]), "last axis", id="elements"),
        pytest.param(lambda e: (e[0], e[1][..., :7], e[2], e[3]), "last axis", id="queries"),
        pytest.param(lambda e: (e[0], e[1], e[2][:, :5], e[3]), "invalid_mask", id="shape of the mask"),
        pytest.param(lambda e: (e[0], e[1], e[2].float(), e[3]), "invalid_mask", id="dtype of the mask"),
        pytest.param(lambda e: (e[0], e[1], e[2], e[3][..., :8]), "types", id="types"),
    ],
)
def test_shapes_that_do_not_fit(change, message):
    polylines, queries, invalid, types = change(elements())
    with pytest.raises(AssertionError, match=message):
        graph()(polylines, queries, invalid, None, types)


def test_each_agent_gets_a_query_for_each_trajectory():
    model = MultimodalTransformerGlobalGraph(graph(), 10, agent_num_trajectories=2, max_num_agents=3)
    polylines, _, invalid, types = elements()
    invalid[1, 2] = True
    queries = torch.stack(
        [polylines[:, agent] + model.agents_embedding[trajectory] for agent in (1, 2, 3) for trajectory in (0, 1)],
        dim=1,
    )
    mask = invalid[:, [1, 1, 2, 2, 3, 3]]
    expected = model.transformer_global_graph(polylines, queries, invalid, mask, types)
    torch.testing.assert_close(model(polylines, invalid, types), expected)


def test_repeated_features_are_in_a_row():
    model = MultimodalTransformerGlobalGraph(graph(), 4, agent_num_trajectories=2, max_num_agents=3)
    features = torch.tensor([[[1.0], [2.0]]])
    assert model.repeat_features(features, 3).flatten().tolist() == [1, 1, 1, 2, 2, 2]
    assert model.repeat_agent_features(features).flatten().tolist() == [1, 1, 2, 2]
    assert model.repeat_ego_features(features).shape == (1, 8, 1)


def test_s7_the_embedding_of_the_ego_is_kept_for_loading():
    model = MultimodalTransformerGlobalGraph(graph(), 10, agent_num_trajectories=2, max_num_agents=3)
    assert model.state_dict()["egos_embedding"].shape == (10, 8)


def decoder(num_trajectories, max_num_agents=3):
    torch.manual_seed(0)
    return MultimodalDecoder(
        dim_in=8,
        projection_dim=16,
        nhead=4,
        dim_feedforward=32,
        num_layers=1,
        num_decode_layers=1,
        dropout=0.0,
        agent_future_num_frames=5,
        agent_num_trajectories=num_trajectories,
        max_num_agents=max_num_agents,
    )


@pytest.mark.parametrize(("max_num_agents", "num_agents"), [(3, 3), (2, 2), (9, 5)])
@pytest.mark.parametrize("num_trajectories", [1, 4])
def test_shapes_of_the_predictions(num_trajectories, max_num_agents, num_agents):
    model = decoder(num_trajectories, max_num_agents)
    polylines, _, invalid, types = elements()
    trajectories, logits = model(polylines, types, invalid)
    assert trajectories.shape == (2, num_agents, num_trajectories, 5, 3)
    assert logits.shape == (2, num_agents, num_trajectories)
    assert model.agent_multimodal_predictions == (num_trajectories > 1)


def test_the_last_value_is_the_logit():
    model = decoder(4)
    with torch.no_grad():
        model.agent_prediction_model.layers[2].weight.zero_()
        model.agent_prediction_model.layers[2].bias.copy_(torch.arange(16.0))
    polylines, _, invalid, types = elements()
    trajectories, logits = model(polylines, types, invalid)
    assert trajectories[0, 1, 2].tolist() == torch.arange(15.0).reshape(5, 3).tolist()
    assert (logits == 15).all()


def test_one_trajectory_has_a_logit_of_1():
    polylines, _, invalid, types = elements()
    assert (decoder(1)(polylines, types, invalid)[1] == 1).all()
    assert isinstance(decoder(1).agent_prediction_model.layers[-1], nn.Linear)
    assert decoder(1).agent_prediction_model.layers[-1].out_features == 15


@pytest.mark.parametrize("name", ["agent_num_trajectories", "agent_future_num_frames", "max_num_agents"])
def test_counts_below_1(name):
    with pytest.raises(AssertionError, match=f"{name} (is )?0"):
        MultimodalDecoder(**{name: 0})


def test_defaults_of_1_5():
    model = MultimodalDecoder()
    found = (model.num_timesteps, model.num_trajectories, model.num_outputs, model.agent_num_timesteps)
    assert found == (45, 10, 3, 30)
    assert (model.agent_num_trajectories, model.multimodal_predictions) == (5, True)
