"""Properties of all models: modes, outputs, scripting, compiling, devices, unchanged batches."""

import copy
import warnings

import pytest
import torch
from torch import nn

from l5kit.planning.rasterized.model import RasterizedPlanningModel
from l5kit.planning.rasterized.multimodal_model import RasterizedMultiModalPlanningModel
from l5kit.planning.vectorized.closed_loop_model import VectorizedUnrollModel
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from l5kit.prediction.vectorized.safepathnet_model import SafePathNetModel
from support.models import (
    copied,
    no_dropout,
    raster_batch,
    routed_batch,
    rows,
    set_weights,
    vector_batch,
    with_lanes_reversed,
)
from support.tolerances import NETWORK

ONES = [1.0, 1.0, 1.0]

MAKERS = {
    "raster": lambda criterion: RasterizedPlanningModel("simple_cnn", 5, 12, ONES, criterion, False),
    "multimodal": lambda criterion: RasterizedMultiModalPlanningModel("simple_cnn", 5, 4, 3, 3, ONES, criterion, False),
    "open loop": lambda criterion: VectorizedModel(1, 3, 12, ONES, criterion, 0.0, False, False, False),
    "unroll": lambda criterion: VectorizedUnrollModel(
        1, 3, 12, ONES, criterion, 0.0, False, False, False, False, 1, 0.8
    ),
    "SafePathNet": lambda criterion: no_dropout(
        SafePathNetModel(3, 3, 4, ONES, criterion, False, False, False, 2, 3, 0.25)
    ),
    "unroll by changes": lambda criterion: VectorizedUnrollModel(
        3, 3, 12, ONES, criterion, 0.0, False, False, False, False, 1, 0.8, velocity_residual=True
    ),
    "unroll by changes of a baseline": lambda criterion: VectorizedUnrollModel(
        3, 3, 12, ONES, criterion, 0.0, False, False, False, False, 1, 0.8, motion_residual="ctra"
    ),
    "SafePathNet with motions": lambda criterion: no_dropout(
        SafePathNetModel(
            3, 3, 4, ONES, criterion, False, False, False, 2, 3, 0.25, agents_in_own_frame=True, position_scale_m=5.0
        )
    ),
    "open loop, told the motion": lambda criterion: VectorizedModel(
        3, 3, 12, ONES, criterion, 0.0, False, False, False, motion_step_time_s=0.1, dim_features=64
    ),
    "open loop with a route": lambda criterion: VectorizedModel(
        3, 3, 12, ONES, criterion, 0.0, False, False, True, use_route=True, dim_features=64
    ),
    "unroll with a route": lambda criterion: VectorizedUnrollModel(
        1, 3, 12, ONES, criterion, 0.0, False, False, False, False, 1, 0.8, use_route=True, dim_features=64
    ),
    "SafePathNet with a route": lambda criterion: no_dropout(
        SafePathNetModel(3, 3, 4, ONES, criterion, False, False, False, 2, 3, 0.25, use_route=True)
    ),
}

TRAIN_KEYS = {
    name: ["loss", "loss/agents_traj", "loss/agents_traj_prob"] if name.startswith("SafePathNet") else ["loss"]
    for name in MAKERS
}

# key -> shape for a batch of 2, in eval mode: 4 steps, 3 modes, 3 other agents, 2 trajectories each, 12 elements
EVAL_SHAPES = {
    "raster": {"positions": (2, 4, 2), "yaws": (2, 4, 1)},
    "multimodal": {
        "positions": (2, 4, 2),
        "yaws": (2, 4, 1),
        "positions_all": (2, 3, 4, 2),
        "yaws_all": (2, 3, 4, 1),
        "mode_logits": (2, 3),
    },
    "open loop": {"positions": (2, 4, 2), "yaws": (2, 4, 1), "attention_weights": (2, 1, 12)},
    "unroll": {"positions": (2, 4, 2), "yaws": (2, 4, 1), "attention_weights": (2, 4, 12)},
    "SafePathNet": {
        "agent_positions": (2, 3, 4, 2),
        "agent_yaws": (2, 3, 4, 1),
        "all_agent_positions": (2, 3, 2, 4, 2),
        "all_agent_yaws": (2, 3, 2, 4, 1),
        "agent_traj_logits": (2, 3, 2),
    },
}

EVAL_SHAPES |= {
    "unroll by changes": EVAL_SHAPES["unroll"],
    "unroll by changes of a baseline": EVAL_SHAPES["unroll"],
    "SafePathNet with motions": EVAL_SHAPES["SafePathNet"],
    "open loop, told the motion": EVAL_SHAPES["open loop"],
    "open loop with a route": EVAL_SHAPES["open loop"] | {"attention_weights": (2, 1, 10)},  # no boundaries
    "unroll with a route": EVAL_SHAPES["unroll"] | {"attention_weights": (2, 4, 14)},
    "SafePathNet with a route": EVAL_SHAPES["SafePathNet"],
}

ignore_jit = pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")


def batch_for(name):
    if name.endswith("a route"):
        return routed_batch()
    return raster_batch() if name in ("raster", "multimodal") else vector_batch()


def make(name):
    return set_weights(MAKERS[name](nn.L1Loss(reduction="none")))


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        torch.testing.assert_close(
            ours[key], value, rtol=NETWORK, atol=NETWORK, msg=lambda text, key=key: f"{key}: {text}"
        )


@pytest.fixture(params=list(MAKERS))
def name(request):
    return request.param


def test_train_mode_gives_finite_scalar_losses_with_gradients(name):
    model = make(name)
    losses = model.train()(batch_for(name))
    assert list(losses) == TRAIN_KEYS[name]
    for value in losses.values():
        assert value.shape == ()
        assert value.dtype == torch.float32
        assert torch.isfinite(value)
    assert losses["loss"] > 0
    losses["loss"].backward()
    unused = {"global_head.transformer.egos_embedding"}  # row S7 of the defects
    for parameter_name, parameter in model.named_parameters():
        if parameter_name not in unused:
            assert parameter.grad is not None, parameter_name
            assert torch.isfinite(parameter.grad).all(), parameter_name
    assert sum(parameter.grad.abs().sum() for parameter in model.parameters() if parameter.grad is not None) > 0


def test_eval_mode_gives_predictions(name):
    outputs = make(name).eval()(batch_for(name))
    assert {key: tuple(value.shape) for key, value in outputs.items()} == EVAL_SHAPES[name]
    assert all(value.dtype == torch.float32 for value in outputs.values())
    assert all(torch.isfinite(value).all() for value in outputs.values())


def test_a_few_steps_of_training_lower_the_loss(name):
    torch.manual_seed(0)
    model, batch = MAKERS[name](nn.L1Loss(reduction="none")), batch_for(name)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(batch)["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expected = 0.999 if name.startswith("unroll by changes") else 0.9  # these are small in so few steps
    assert min(losses[1:]) < expected * losses[0]


def test_p1_p2_the_batch_is_not_changed(name):
    model, batch = make(name), batch_for(name)
    before = copied(batch)
    first = model.train()(batch)["loss"]
    model.eval()(batch)
    assert batch.keys() == before.keys()
    assert all(torch.equal(batch[key], before[key]) for key in before)
    assert torch.equal(model.train()(batch)["loss"], first)


def test_a_batch_gives_what_its_samples_give_one_by_one(name):
    model, batch = make(name).eval(), batch_for(name)
    together = model(batch)
    for index in range(2):
        alone = model(rows(batch, slice(index, index + 1)))
        assert_same(alone, {key: value[index : index + 1] for key, value in together.items()})


@pytest.mark.parametrize("name", [name for name in MAKERS if name not in ("raster", "multimodal")])
def test_the_order_of_lanes_does_not_matter(name):
    """Lanes at exactly the same distance come in another order than in samples of L5Kit 1.5, which sorted unstably."""
    model, batch = make(name), batch_for(name)
    other = with_lanes_reversed(batch)
    assert not torch.equal(other["lanes_mid"], batch["lanes_mid"])
    for mode in (True, False):
        found, expected = model.train(mode)(other), model.train(mode)(batch)
        for each in (found, expected):
            each.pop("attention_weights", None)  # one for each element, and so in their order
        assert_same(found, expected)


def test_without_a_criterion_only_eval_mode_works(name):
    model, batch = MAKERS[name](None), batch_for(name)
    with pytest.raises(NotImplementedError, match=r"no criterion.*eval"):
        model.train()(batch)
    assert model.eval()(batch).keys() == EVAL_SHAPES[name].keys()


def test_keys_that_a_model_does_not_know_are_ignored(name):
    model, batch = make(name).eval(), batch_for(name)
    assert_same(model({**batch, "scene_index": 7, "more": torch.ones(3)}), model(batch))


@pytest.mark.slow
@ignore_jit
@pytest.mark.parametrize("criterion", [None, nn.L1Loss(reduction="none")], ids=["no criterion", "L1"])
def test_scripted_models_give_the_same(name, criterion):
    model, batch = set_weights(MAKERS[name](criterion)), batch_for(name)
    scripted = torch.jit.script(model)
    assert list(scripted.state_dict()) == list(model.state_dict())
    assert_same(scripted.eval()(copied(batch)), model.eval()(copied(batch)))
    if criterion is not None:
        assert_same(scripted.train()(copied(batch)), model.train()(copied(batch)))


@pytest.mark.slow
@pytest.mark.parametrize("mode", [pytest.param(True, marks=pytest.mark.long), False], ids=["train", "eval"])
def test_compiled_models_are_one_graph_and_give_the_same(name, mode):
    torch._dynamo.reset()
    # the graphs of the larger models take long to differentiate ahead of time
    backend = "aot_eager" if name in ("raster", "multimodal", "open loop") else "eager"
    model, batch = make(name).train(mode), batch_for(name)
    expected = model(batch)
    compiled = torch.compile(copy.deepcopy(model), backend=backend, fullgraph=True)
    found = compiled(batch)
    assert_same(found, expected)
    if mode:
        expected["loss"].backward()
        found["loss"].backward()
        for ours, theirs in zip(compiled.parameters(), model.parameters(), strict=True):
            if theirs.grad is not None:
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=NETWORK)


def test_nothing_is_made_on_another_device_than_that_of_the_model(name):
    """On the meta device, tensors have no values: reading one, or mixing in a CPU tensor, fails."""
    model = MAKERS[name](nn.L1Loss(reduction="none")).to("meta")
    batch = {key: value.to("meta") for key, value in batch_for(name).items()}
    assert all(value.device.type == "meta" for value in model.train()(batch).values())
    outputs = model.eval()(batch)
    assert {key: tuple(value.shape) for key, value in outputs.items()} == EVAL_SHAPES[name]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_numbers_on_cuda_are_those_on_the_cpu(name):
    model, batch = make(name), batch_for(name)
    expected = model.train()(batch), model.eval()(batch)
    model, batch = model.to("cuda"), {key: value.to("cuda") for key, value in batch.items()}
    for found, wanted in zip((model.train()(batch), model.eval()(batch)), expected, strict=True):
        assert_same({key: value.cpu() for key, value in found.items()}, wanted)


def test_mixed_precision_is_near_full_precision(name):
    model, batch = make(name), batch_for(name)
    expected = model(batch)["loss"]
    with torch.autocast("cpu", torch.bfloat16):
        losses = model(batch)
        losses["loss"].backward()
    torch.testing.assert_close(losses["loss"].float(), expected, rtol=0.05, atol=0)


def test_no_warning_of_torch_is_shown(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, batch = make(name), batch_for(name)
        model.train()(batch)["loss"].backward()
        model.eval()(batch)
