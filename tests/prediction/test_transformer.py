"""The transformer, layer by layer."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from l5kit.prediction.vectorized.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

DIM, HEADS = 16, 4


def attention_table(name):
    return {
        f"{name}.in_proj_weight": (48, 16),
        f"{name}.in_proj_bias": (48,),
        f"{name}.out_proj.weight": (16, 16),
        f"{name}.out_proj.bias": (16,),
    }


REST = {"linear1.weight": (32, 16), "linear1.bias": (32,), "linear2.weight": (16, 32), "linear2.bias": (16,)}


def norm_table(count):
    return {f"norm{number}.{key}": (16,) for number in range(1, count + 1) for key in ("weight", "bias")}


@pytest.mark.parametrize(
    ("layer", "table"),
    [
        (TransformerEncoderLayer, attention_table("self_attn") | REST | norm_table(2)),
        (
            TransformerDecoderLayer,
            attention_table("self_attn") | attention_table("multihead_attn") | REST | norm_table(3),
        ),
    ],
    ids=["encoder", "decoder"],
)
def test_state_dict_of_a_layer(layer, table):
    state = layer(DIM, HEADS, 32).state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == table
    assert list(state) == list(table)


def inputs():
    torch.manual_seed(0)
    return torch.randn(5, 2, DIM), torch.randn(3, 2, DIM), torch.randn(5, 1, DIM), torch.randn(3, 1, DIM)


def mask():
    invalid = torch.zeros(2, 5, dtype=torch.bool)
    invalid[0, 3:] = True
    return invalid


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("normalize_before", [False, True], ids=["post", "pre"])
def test_without_codes_a_layer_is_that_of_torch(activation, normalize_before):
    memory, queries, _, _ = inputs()
    options = {"activation": activation, "dropout": 0.0, "dim_feedforward": 32}
    ours = TransformerEncoderLayer(DIM, HEADS, normalize_before=normalize_before, **options)
    theirs = nn.TransformerEncoderLayer(DIM, HEADS, norm_first=normalize_before, **options)
    theirs.load_state_dict(ours.state_dict())
    expected = theirs(memory, src_key_padding_mask=mask())
    torch.testing.assert_close(ours(memory, src_key_padding_mask=mask())[0], expected)
    decoder = TransformerDecoderLayer(DIM, HEADS, normalize_before=normalize_before, **options)
    of_torch = nn.TransformerDecoderLayer(DIM, HEADS, norm_first=normalize_before, **options)
    of_torch.load_state_dict(decoder.state_dict())
    expected = of_torch(queries, memory, memory_key_padding_mask=mask())
    torch.testing.assert_close(decoder(queries, memory, memory_key_padding_mask=mask()), expected)


def test_codes_of_an_encoder_layer_are_in_queries_and_keys_but_not_in_values():
    x, _, pos, _ = inputs()
    layer = TransformerEncoderLayer(DIM, HEADS, 32, dropout=0.0)
    attended, attention = layer.self_attn(x + pos, x + pos, x)
    first = layer.norm1(x + attended)
    expected = layer.norm2(first + layer.linear2(F.relu(layer.linear1(first))))
    output, weights = layer(x, pos=pos)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, attention)
    faster, none = layer(x, pos=pos, need_attention=False)
    assert none is None
    torch.testing.assert_close(faster, expected)


def test_codes_of_a_decoder_layer():
    memory, x, pos, query_pos = inputs()
    layer = TransformerDecoderLayer(DIM, HEADS, 32, dropout=0.0)
    first = layer.norm1(x + layer.self_attn(x + query_pos, x + query_pos, x)[0])
    second = layer.norm2(first + layer.multihead_attn(first + query_pos, memory + pos, memory)[0])
    expected = layer.norm3(second + layer.linear2(F.relu(layer.linear1(second))))
    torch.testing.assert_close(layer(x, memory, pos=pos, query_pos=query_pos), expected)


def test_with_pos_embed():
    layer, x = TransformerEncoderLayer(DIM, HEADS), torch.rand(3, DIM)
    assert layer.with_pos_embed(x, None) is x
    assert torch.equal(TransformerDecoderLayer(DIM, HEADS).with_pos_embed(x, x), 2 * x)


@pytest.mark.parametrize("layer", [TransformerEncoderLayer, TransformerDecoderLayer])
@pytest.mark.parametrize(("activation", "error"), [("tanh", RuntimeError), (None, AssertionError)])
def test_activations_that_do_not_exist(layer, activation, error):
    with pytest.raises(error, match="relu and gelu"):
        layer(DIM, HEADS, activation=activation)


def test_an_encoder_is_its_layers_one_after_the_other():
    x, _, pos, _ = inputs()
    encoder = TransformerEncoder(TransformerEncoderLayer(DIM, HEADS, 32, dropout=0.0), 2, nn.LayerNorm(DIM))
    encoder.reset_parameters()
    assert not torch.equal(encoder.layers[0].linear1.weight, encoder.layers[1].linear1.weight)
    expected = x
    for layer in encoder.layers:
        expected, _ = layer(expected, pos=pos, src_key_padding_mask=mask())
    torch.testing.assert_close(encoder(x, pos=pos, src_key_padding_mask=mask()), encoder.norm(expected))


def test_a_decoder_gives_the_output_of_every_layer_when_asked_for():
    memory, queries, _, _ = inputs()
    layer, norm = TransformerDecoderLayer(DIM, HEADS, 32, dropout=0.0), nn.LayerNorm(DIM)
    decoder = TransformerDecoder(layer, 2, norm, return_intermediate=True)
    outputs = decoder(queries, memory)
    assert outputs.shape == (2, 3, 2, DIM)
    first = decoder.layers[0](queries, memory)
    torch.testing.assert_close(outputs[0], norm(first))
    torch.testing.assert_close(outputs[1], norm(decoder.layers[1](first, memory)))
    torch.testing.assert_close(TransformerDecoder(layer, 2, norm)(queries, memory), outputs[1])
    without_norm = TransformerDecoder(layer, 2)(queries, memory)
    torch.testing.assert_close(norm(without_norm), outputs[1])


def test_every_layer_of_a_decoder_needs_a_norm_to_be_returned():
    memory, queries, _, _ = inputs()
    decoder = TransformerDecoder(TransformerDecoderLayer(DIM, HEADS, 32), 2, return_intermediate=True)
    with pytest.raises(AssertionError, match="norm is None"):
        decoder(queries, memory)


def test_initial_weights():
    torch.manual_seed(0)
    encoder = TransformerEncoder(TransformerEncoderLayer(64, HEADS, 256), 2)
    encoder.reset_parameters()
    layer = encoder.layers[0]
    for module in (layer.linear1, layer.linear2, layer.self_attn.out_proj):
        assert module.weight.std().item() == pytest.approx(0.02, rel=0.1)
        assert not module.bias.any()
    assert layer.self_attn.in_proj_weight.abs().max().item() <= (6 / (64 + 192)) ** 0.5
    assert layer.self_attn.in_proj_weight.std().item() == pytest.approx((2 / (64 + 192)) ** 0.5, rel=0.1)
    assert not layer.self_attn.in_proj_bias.any()
    decoder = TransformerDecoder(TransformerDecoderLayer(64, HEADS, 256), 2)
    decoder.reset_parameters()
    assert decoder.layers[1].linear1.weight.std().item() == pytest.approx((2 / (64 + 256)) ** 0.5, rel=0.1)
