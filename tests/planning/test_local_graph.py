"""From points to one embedding for each polyline."""

import math

import pytest
import torch
from torch import nn

from l5kit.planning.vectorized import local_graph
from l5kit.planning.vectorized.local_graph import (
    LocalMLP,
    LocalSubGraph,
    LocalSubGraphLayer,
    SinusoidalPositionalEmbedding,
)
from support.tolerances import FLOAT32, FLOAT32_LONG, NETWORK


def test_positional_codes():
    embedding = SinusoidalPositionalEmbedding(6, max_len=10)
    codes = embedding(torch.zeros(2, 3, 4, 1))
    assert codes.shape == (4, 1, 6)
    for position in range(4):
        for pair in range(3):
            angle = position * math.exp(-math.log(10000) / 6 * 2 * pair)
            assert codes[position, 0, 2 * pair].item() == pytest.approx(math.sin(angle), abs=FLOAT32)
            assert codes[position, 0, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=FLOAT32)


def test_state_dicts_of_the_parts():
    shapes = lambda module: {name: tuple(value.shape) for name, value in module.state_dict().items()}  # noqa: E731
    assert shapes(SinusoidalPositionalEmbedding(8)) == {"static_embedding": (5000, 1, 8)}
    assert shapes(LocalMLP(4)) == {"linear.weight": (4, 4), "norm.weight": (4,), "norm.bias": (4,)}
    assert shapes(LocalMLP(4, use_norm=False)) == {"linear.weight": (4, 4), "linear.bias": (4,)}
    layer = {
        "mlp.linear.weight": (4, 4),
        "mlp.norm.weight": (4,),
        "mlp.norm.bias": (4,),
        "linear_remap.weight": (6, 8),
        "linear_remap.bias": (6,),
    }
    assert shapes(LocalSubGraphLayer(4, 6)) == layer
    assert list(shapes(LocalSubGraph(2, 4)))[5] == "layers.1.mlp.linear.weight"


def test_mlp_is_norm_and_relu_of_the_linear_layer():
    mlp, x = LocalMLP(4), torch.rand(3, 4)
    torch.testing.assert_close(mlp(x), nn.functional.layer_norm(x @ mlp.linear.weight.T, (4,)).relu())


def test_layer_puts_the_maximum_of_the_valid_points_beside_each_point():
    torch.manual_seed(0)
    layer, x = LocalSubGraphLayer(4, 6), torch.rand(2, 3, 4)
    invalid = torch.tensor([[False, False, True], [False, True, True]])
    points = layer.mlp(x)
    highest = torch.stack((points[0, :2].amax(0), points[1, 0]))
    expected = layer.linear_remap(torch.cat((points, highest[:, None].expand(2, 3, 4)), dim=-1))
    torch.testing.assert_close(layer(x, invalid), expected)


def graph_and_points():
    torch.manual_seed(0)
    invalid = torch.rand(2, 5, 4) > 0.5
    invalid[0, 1] = True
    invalid[1, 3] = True
    invalid[0, 0] = False
    return LocalSubGraph(3, 8), torch.randn(2, 5, 4, 8), invalid, torch.randn(1, 4, 8)


def test_polylines_without_points_are_zeros():
    graph, x, invalid, codes = graph_and_points()
    embeddings = graph(x, invalid, codes)
    assert embeddings.shape == (2, 5, 8)
    empty = invalid.all(dim=-1)
    assert empty.sum() >= 2
    assert torch.equal(embeddings[empty], torch.zeros(int(empty.sum()), 8))
    assert embeddings[~empty].abs().sum(dim=-1).min() > 0


def test_polylines_do_not_look_at_each_other():
    graph, x, invalid, codes = graph_and_points()
    alone = graph(x[:1, 2:3], invalid[:1, 2:3], codes)
    torch.testing.assert_close(alone[0, 0], graph(x, invalid, codes)[0, 2])


def test_invalid_points_change_nothing():
    graph, x, invalid, codes = graph_and_points()
    changed = torch.where(invalid.unsqueeze(-1), torch.full_like(x, 1e3), x)
    torch.testing.assert_close(graph(changed, invalid, codes), graph(x, invalid, codes))


def test_all_polylines_may_be_empty():
    graph, x, _, codes = graph_and_points()
    embeddings = graph(x, torch.ones(2, 5, 4, dtype=torch.bool), codes)
    assert torch.equal(embeddings, torch.zeros(2, 5, 8))


def test_packed_and_dense_give_the_same(monkeypatch):
    """Numbers and gradients do not depend on whether unused polylines are left out of the computation."""
    results = []
    for packs in (True, False):
        monkeypatch.setattr(local_graph, "_packing_pays", lambda x, packs=packs: packs)
        graph, x, invalid, codes = graph_and_points()
        x.requires_grad_()
        embeddings = graph(x, invalid, codes)
        (embeddings**2).sum().backward()
        results.append([embeddings, x.grad, *(parameter.grad for parameter in graph.parameters())])
    for packed, dense in zip(*results, strict=True):
        torch.testing.assert_close(packed, dense, rtol=NETWORK, atol=FLOAT32_LONG)


def test_p15_the_points_are_not_changed():
    graph, x, invalid, codes = graph_and_points()
    before = x.clone()
    graph(x, invalid, codes)
    assert torch.equal(x, before)


@pytest.mark.parametrize("num_layers", [0, -1])
def test_a_graph_without_layers(num_layers):
    with pytest.raises(AssertionError, match="num_layers"):
        LocalSubGraph(num_layers, 8)
