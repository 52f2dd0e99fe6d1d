"""Files as L5Kit 1.5 wrote them, of every kind and every network: they load, and compute what they computed there.

The networks that write them are not ours: see :mod:`support.networks_of_1_5`. Numbers of networks on vectors are those
of 1.5 itself for weights and samples that a hash gives.
"""

import functools
import importlib
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from l5kit.planning.checkpoint import read_checkpoint
from l5kit.planning.rasterized.model import RasterizedPlanningModel
from l5kit.planning.rasterized.multimodal_model import RasterizedMultiModalPlanningModel
from l5kit.planning.torch_files import outline_of
from l5kit.planning.vectorized.closed_loop_model import VectorizedUnrollModel
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from l5kit.prediction.rasterized.motion_model import RasterizedMotionModel
from l5kit.prediction.vectorized.safepathnet_model import SafePathNetModel
from support import networks_of_1_5 as theirs
from support.models import one_thread, raster_batch, set_weights, signal, vector_batch

__all__ = ["one_thread"]

SCALING = [1.0, 1.0, 1.0]


@dataclass(frozen=True)
class Case:
    """A network of 1.5, ours, and what both compute."""

    source: Any
    ours: Any
    batch: Any
    sums: dict[str, tuple[float, float | None]]
    """Sum and sum of absolute values of some results of 1.5."""


def images(num_channels, size):
    return {"image": 0.5 + signal((2, num_channels, size, size), 0, 0.5)}


def planner(arch, num_channels, num_targets):
    return RasterizedPlanningModel(arch, num_channels, num_targets, SCALING, None, False)


CASES = {
    "raster planner, resnet18": Case(
        lambda: theirs.RasterizedPlanningModel("resnet18", 5, 36),
        lambda: planner("resnet18", 5, 36),
        lambda: images(5, 64),
        {},
    ),
    "raster planner, simple_cnn": Case(
        lambda: theirs.RasterizedPlanningModel("simple_cnn", 5, 12),
        lambda: planner("simple_cnn", 5, 12),
        raster_batch,
        {"positions": (-1.974803, 10.529209), "yaws": (-1.777945, None)},
    ),
    "several modes": Case(
        lambda: theirs.RasterizedMultiModalPlanningModel("simple_cnn", 5, 4, 3),
        lambda: RasterizedMultiModalPlanningModel("simple_cnn", 5, 4, 3, 3, SCALING, None, False),
        raster_batch,
        {"positions": (-0.364982, 17.336042), "positions_all": (-8.019353, None), "yaws_all": (-6.861872, None)},
    ),
    "simnet, resnet50": Case(
        lambda: theirs.RasterizedPlanningModel("resnet50", 15, 150),
        lambda: planner("resnet50", 15, 150),
        lambda: images(15, 48),
        {},
    ),
    "agent motion": Case(
        lambda: theirs.backbone("simple_cnn", 25, 100),
        lambda: RasterizedMotionModel("simple_cnn", 25, 50, pretrained=False),
        lambda: images(25, 112),
        {},
    ),
    "agent motion, resnet18": Case(
        lambda: theirs.backbone("resnet18", 25, 100),
        lambda: RasterizedMotionModel("resnet18", 25, 50, pretrained=False),
        lambda: images(25, 48),
        {},
    ),
    "open loop": Case(
        lambda: theirs.VectorizedModel(4),
        lambda: VectorizedModel(1, 3, 12, SCALING, None, 0.0, False, False, False),
        vector_batch,
        {"positions": (-1.289089, 12.734154), "yaws": (-3.417147, None)},
    ),
    "unroll": Case(
        theirs.VectorizedUnrollModel,
        lambda: VectorizedUnrollModel(1, 3, 12, SCALING, None, 0.0, False, False, False, True, 1, 0.8),
        vector_batch,
        {"positions": (35.013207, 42.850504), "yaws": (-1.751894, None)},
    ),
    "safepathnet": Case(
        lambda: theirs.SafePathNetModel(4, 2),
        lambda: SafePathNetModel(3, 3, 4, SCALING, None, False, False, False, 2, 3, 0.25),
        vector_batch,
        {
            "agent_positions": (-2104.735667, 2900.295250),
            "agent_yaws": (19.447506, None),
            "all_agent_positions": (-4215.623442, None),
            "agent_traj_logits": (3.822267, None),
        },
    ),
}

KINDS = [
    (name, kind)
    for name in CASES
    for kind in theirs.WRITERS
    if "resnet" not in name or kind in theirs.USUAL  # these are large
]


@functools.cache
def source_of(name):
    return set_weights(CASES[name].source()).eval()


@pytest.fixture(scope="module", autouse=True)
def _forget_networks():
    yield
    source_of.cache_clear()


ARCHITECTURES = {
    *("RasterizedPlanningModel", "RasterizedMultiModalPlanningModel", "RasterizedMotionModel", "ResNet-50 for simnet"),
    *("VectorizedModel", "VectorizedUnrollModel", "SafePathNetModel"),
}


def test_every_architecture_has_every_usual_kind_of_file():
    """That of simnet is the planner with other outputs; that of agent motion was a backbone without its own class."""
    found = {name: type(CASES[name].ours()).__name__ for name in CASES if name != "simnet, resnet50"}
    found["simnet, resnet50"] = "ResNet-50 for simnet"
    for kind in theirs.USUAL:
        assert {found[name] for name, other in KINDS if other == kind} == ARCHITECTURES, kind


@torch.no_grad()
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_files_of_1_5_give_the_outputs_of_1_5(name, kind, tmp_path):
    case, source, file = CASES[name], source_of(name), tmp_path / "weights.pt"
    theirs.WRITERS[kind](source, file)
    ours = case.ours().eval()
    needs_pickle = "module" in kind
    mismatch = read_checkpoint(file, allow_pickle=needs_pickle).load_into(ours)
    assert not mismatch
    outputs = ours(case.batch())
    assert case.sums or "image" in case.batch()  # or nothing below would be compared
    check_outline(file, source, has_class=needs_pickle or kind == "script")
    for key, (total, absolute) in case.sums.items():
        assert outputs[key].sum().item() == pytest.approx(total, rel=1e-4), key
        assert absolute is None or outputs[key].abs().sum().item() == pytest.approx(absolute, rel=1e-4), key
    if "image" in case.batch():
        wanted = source(case.batch()) if "agent motion" not in name else motion_of(source, case.batch())
        assert wanted
        for key, value in wanted.items():
            torch.testing.assert_close(outputs[key], value, rtol=1e-5, atol=1e-5 * float(value.abs().max()))


def check_outline(file, source, *, has_class):
    """Names, shapes and types are read without running anything."""
    outline = outline_of(file)
    wanted = {key: (tuple(value.shape), value.dtype) for key, value in source.state_dict().items()}
    assert {key: (tuple(value.shape), value.dtype) for key, value in outline.weights.items()} == wanted
    assert outline.model_class == (f"{type(source).__module__}.{type(source).__name__}" if has_class else None)


def motion_of(source, batch):
    return {"positions": source(batch["image"]).view(2, 50, 2)}


def test_the_numbers_of_parameters_are_those_of_1_5():
    def count(network):
        return sum(parameter.numel() for parameter in network.parameters())

    assert count(theirs.RasterizedPlanningModel("resnet50", 5, 36)) == 23_588_068
    assert count(theirs.RasterizedPlanningModel("resnet18", 5, 36)) == 11_201_252
    assert count(theirs.RasterizedMultiModalPlanningModel("simple_cnn", 5, 12, 4)) == 348_436
    assert count(theirs.VectorizedModel(12)) == 2_209_316
    assert count(theirs.VectorizedUnrollModel()) == 2_175_491
    safepathnet = theirs.SafePathNetModel(30, 20)
    assert count(safepathnet) == 6_192_347
    assert len(safepathnet.state_dict()) == 123


@pytest.mark.parametrize(("path", "name"), theirs.module_paths_of_1_5())
def test_classes_that_files_of_1_5_name_are_there(path, name):
    assert isinstance(getattr(importlib.import_module(path), name), type)
