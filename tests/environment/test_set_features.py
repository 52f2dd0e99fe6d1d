"""Features of rows in any order: the largest values, or what the AV attends to, in torch and without it."""

import numpy as np
import pytest
import torch
from torch import nn

from l5kit.environment.models import SetFeatures
from l5kit.environment.policy_file import SetLayers

COLUMNS, WIDTH, OWN, FEATURES = 3, 4, 5, 6


def both_of(first, second, mix, query=None):
    """The same layers in torch and without it, as functions of arrays."""
    network = SetFeatures(first, second, mix, query=query)
    each = [tuple(value.detach().numpy() for value in (layer.weight, layer.bias)) for layer in (first, second)]
    of_query = None if query is None else tuple(value.detach().numpy() for value in (query.weight, query.bias))
    layers = SetLayers(*each, mix.weight.detach().numpy(), of_query)

    def by_torch(*arrays):
        return network(*map(torch.from_numpy, arrays)).detach().numpy()

    return by_torch, layers.mixed


def random_layers(num_heads):
    torch.manual_seed(0)
    query = nn.Linear(OWN, WIDTH * num_heads) if num_heads else None
    mix = nn.Linear(WIDTH * max(num_heads, 1), FEATURES, bias=False)
    return nn.Linear(COLUMNS, WIDTH), nn.Linear(WIDTH, WIDTH), mix, query


def random_rows(num_samples=6, count=7):
    """Rows, a mask of those present, and values of the AV; none is present in the first sample, all in the second."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(num_samples, count, COLUMNS)).astype(np.float32)
    is_there = (rng.random((num_samples, count, 1)) < 0.6).astype(np.float32)
    is_there[0], is_there[1] = 0, 1
    return rows, is_there, rng.normal(size=(num_samples, OWN)).astype(np.float32)


def plain_layer(weights, offsets=None):
    """A layer with these weights (outputs, inputs), and offsets of 0 if none are given."""
    layer = nn.Linear(len(weights[0]), len(weights), bias=offsets is not None)
    layer.weight.data = torch.tensor(weights, dtype=torch.float32)
    if offsets is not None:
        layer.bias.data = torch.tensor(offsets, dtype=torch.float32)
    return layer


@pytest.mark.parametrize("way", [0, 1], ids=["torch", "numpy"])
def test_attention_is_a_mean_with_the_weights_of_a_softmax(way):
    """Rows a = (1, 0) and b = (0, 2), a third that is not there; heads with queries (2, 0) x own and (0, 1) x own.

    Scores are queries times rows through the root of the width, 2: with own = 2 ** 0.5, those of the first head are 2
    and 0, those of the second 0 and 2. Nobody has the score 0 and adds nothing.
    """
    same = plain_layer([[1, 0], [0, 1]], [0, 0])
    query, mix = plain_layer([[2], [0], [0], [1]], [0, 0, 0, 0]), plain_layer(np.eye(4).tolist())
    rows = np.array([[[1, 0], [0, 2], [9, 9]]], np.float32)
    is_there, own = np.array([[[1], [1], [0]]], np.float32), np.array([[2**0.5]], np.float32)
    found = both_of(same, same, mix, query)[way](rows, is_there, own)
    total = np.exp(2) + 2
    expected = [np.exp(2) / total, 2 / total, 1 / total, 2 * np.exp(2) / total]
    np.testing.assert_allclose(found, [expected], rtol=1e-6)


@pytest.mark.parametrize("way", [0, 1], ids=["torch", "numpy"])
def test_the_largest_values_count_without_attention(way):
    same, mix = plain_layer([[1, 0], [0, 1]], [0, 0]), plain_layer([[1, 10]])
    rows = np.array([[[1, -3], [0, 2], [9, 9]]], np.float32)
    is_there, own = np.array([[[1], [1], [0]]], np.float32), np.zeros((1, 1), np.float32)
    np.testing.assert_array_equal(both_of(same, same, mix)[way](rows, is_there, own), [[21]])


@pytest.mark.parametrize("num_heads", [0, 1, 3])
def test_both_compute_the_same(num_heads):
    by_torch, without = both_of(*random_layers(num_heads))
    arrays = random_rows()
    found = without(*arrays)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_torch(*arrays), atol=1e-6)
    assert (found[0] == 0).all()  # empty set
    assert np.ptp(found[1:], axis=0).min() > 0
    assert without(*(array[:0] for array in arrays)).shape == (0, FEATURES)
    for row in range(len(found)):
        np.testing.assert_array_equal(without(*(array[row : row + 1] for array in arrays))[0], found[row])


@pytest.mark.parametrize("way", [0, 1], ids=["torch", "numpy"])
@pytest.mark.parametrize("num_heads", [0, 3])
def test_those_that_are_not_there_and_the_order_do_not_matter(num_heads, way):
    compute, (rows, is_there, own) = both_of(*random_layers(num_heads))[way], random_rows()
    expected = compute(rows, is_there, own)
    np.testing.assert_array_equal(compute(np.where(is_there > 0, rows, 50), is_there, own), expected)
    np.testing.assert_allclose(compute(rows[:, ::-1].copy(), is_there[:, ::-1].copy(), own), expected, atol=1e-6)
    more = (np.concatenate([array, np.zeros_like(array)], axis=1) for array in (rows, is_there))
    np.testing.assert_allclose(compute(*more, own), expected, atol=1e-6)


@pytest.mark.parametrize("way", [0, 1], ids=["torch", "numpy"])
def test_the_av_chooses_whom_it_attends_to(way):
    compute, (rows, is_there, own) = both_of(*random_layers(3))[way], random_rows()
    moved = np.abs(compute(rows, is_there, own + 5) - compute(rows, is_there, own)).max(axis=1)
    assert moved[0] == 0
    assert moved[1] > 0.01


def test_large_scores_stay_finite():
    first, second, mix, query = random_layers(2)
    query.weight.data *= 1e6
    for compute in both_of(first, second, mix, query):
        assert np.isfinite(compute(*random_rows())).all()


def test_gradients_are_finite_where_nobody_is_there():
    network = SetFeatures(*random_layers(2)[:3], query=random_layers(2)[3])
    rows, _, own = map(torch.from_numpy, random_rows())
    network(rows, torch.zeros_like(rows[..., :1]), own).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())
