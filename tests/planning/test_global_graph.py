"""Types of elements, and what the agent of interest makes of them."""

import pytest
import torch

from l5kit.planning.vectorized.global_graph import MLP, MultiheadAttentionGlobalHead, VectorizedEmbedding
from support.models import vector_batch


def rows_of(embedding, batch):
    """Used rows of the embedding, shape (B, N)."""
    with torch.no_grad():
        embedding.embedding.weight.copy_(torch.arange(13.0).unsqueeze(1).expand_as(embedding.embedding.weight))
    return embedding(batch)[..., 0].long().tolist()


def test_p6_p16_rows_of_the_elements():
    rows = [0, 1, 1, 1, 9, 6, 10, 10, 11, 12, 11, 12]
    assert rows_of(VectorizedEmbedding(4), vector_batch()) == [rows, rows]


def test_p16_labels_are_embedded_when_asked_for():
    rows = rows_of(VectorizedEmbedding(4, use_agent_labels=True), vector_batch())
    assert [row[:4] for row in rows] == [[0, 2, 4, 1], [0, 3, 2, 1]]
    assert [row[4:] for row in rows] == [[9, 6, 10, 10, 11, 12, 11, 12]] * 2


def test_names_of_the_rows():
    embedding = VectorizedEmbedding(4)
    assert embedding.polyline_types == {
        "AGENT_OF_INTEREST": 0,
        "AGENT_NO": 1,
        "AGENT_CAR": 2,
        "AGENT_BIKE": 3,
        "AGENT_PEDESTRIAN": 4,
        "TL_UNKNOWN": 5,
        "TL_RED": 6,
        "TL_YELLOW": 7,
        "TL_GREEN": 8,
        "TL_NONE": 9,
        "CROSSWALK": 10,
        "LANE_BDRY_LEFT": 11,
        "LANE_BDRY_RIGHT": 12,
    }
    labels = embedding.PERCEPTION_LABEL_CAR, embedding.PERCEPTION_LABEL_PEDESTRIAN, embedding.PERCEPTION_LABEL_CYCLIST
    assert labels == (3, 14, 12)
    assert tuple(embedding.state_dict()["embedding.weight"].shape) == (13, 4)


def test_fractions_of_light_features_are_cut_off_and_any_label_is_allowed():
    batch = vector_batch()
    batch["lanes_mid"][:, 0, :, 2] = 2.9
    batch["all_other_agents_types"] = torch.tensor([[0, 50, 98], [97, 1, 2]])
    assert rows_of(VectorizedEmbedding(4), batch)[0][4] == 7
    assert rows_of(VectorizedEmbedding(4, use_agent_labels=True), batch)[1][1:4] == [1, 1, 1]


def test_scenes_without_other_agents_and_with_lists_of_any_lengths():
    batch = vector_batch()
    batch["all_other_agents_types"] = torch.zeros(2, 0, dtype=torch.long)
    batch["lanes"], batch["crosswalks"] = torch.zeros(2, 3, 5, 3), torch.zeros(2, 0, 5, 3)
    assert rows_of(VectorizedEmbedding(4), batch)[0] == [0, 9, 6, 11, 12, 11]


def test_mlp():
    torch.manual_seed(0)
    mlp = MLP(2, 5, 3, num_layers=4)
    shapes = [tuple(layer.weight.shape) for layer in mlp.layers]
    assert shapes == [(5, 2), (5, 5), (5, 5), (3, 5)]
    assert all(not layer.bias.any() for layer in mlp.layers)
    x = torch.rand(7, 2)
    expected = x
    for index, layer in enumerate(mlp.layers):
        expected = layer(expected if index == 0 else expected.relu())
    torch.testing.assert_close(mlp(x), expected)
    with torch.no_grad():
        mlp.layers[-1].bias.fill_(-1e3)
    assert mlp(x).max() < 0  # no ReLU at the end
    with pytest.raises(AssertionError, match="num_layers"):
        MLP(2, 5, 3, num_layers=1)


def test_the_head_looks_at_valid_elements_only():
    torch.manual_seed(0)
    head = MultiheadAttentionGlobalHead(16, 4, 3, dropout=0.0)
    inputs, types = torch.randn(5, 2, 16), torch.randn(5, 2, 16)
    mask = torch.tensor([[False, False, True, False, True], [False] * 5])
    outputs, attention = head(inputs, types, mask)
    assert outputs.shape == (2, 4, 3)
    assert attention.shape == (2, 1, 5)
    torch.testing.assert_close(attention.sum(dim=-1), torch.ones(2, 1))
    assert attention[0, 0, [2, 4]].tolist() == [0.0, 0.0]
    inputs[2, 0] = 100.0
    torch.testing.assert_close(head(inputs, types, mask)[0], outputs)


def test_the_types_are_in_the_keys_only():
    torch.manual_seed(0)
    head = MultiheadAttentionGlobalHead(16, 4, 3, dropout=0.0)
    inputs, mask = torch.randn(1, 2, 16), torch.zeros(2, 1, dtype=torch.bool)  # one element gets all the attention
    torch.testing.assert_close(head(inputs, torch.randn(1, 2, 16), mask), head(inputs, torch.zeros(1, 2, 16), mask))
