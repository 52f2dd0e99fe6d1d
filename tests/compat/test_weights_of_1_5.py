"""Weights that users of L5Kit 1.5 trained or that were published load: TorchScript, state dicts, whole modules."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from l5kit.planning.checkpoint import load_checkpoint
from l5kit.planning.rasterized.model import RasterizedPlanningModel
from l5kit.planning.rasterized.multimodal_model import RasterizedMultiModalPlanningModel
from l5kit.planning.vectorized.closed_loop_model import VectorizedUnrollModel
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from l5kit.prediction.vectorized.safepathnet_model import SafePathNetModel

ONES = [1.0, 1.0, 1.0]
LOSS = nn.L1Loss(reduction="none")
SWITCHES = (False, False, False)
MODELS: dict[str, Callable[[], nn.Module]] = {
    "raster": lambda: RasterizedPlanningModel("resnet18", 5, 12, ONES, LOSS, False),
    "multimodal": lambda: RasterizedMultiModalPlanningModel("simple_cnn", 5, 4, 3, 3, ONES, LOSS, False),
    "open loop": lambda: VectorizedModel(1, 3, 12, ONES, LOSS, 0.0, *SWITCHES),
    "unroll": lambda: VectorizedUnrollModel(1, 3, 12, ONES, LOSS, 0.0, *SWITCHES, False, 1, 0.8),
    "SafePathNet": lambda: SafePathNetModel(3, 3, 4, ONES, LOSS, *SWITCHES, 2, 3, 0.25),
}
KEPT_BY_TORCH = ("training", "_parameters", "_buffers", "_modules", "criterion")


def as_of_1_5(model: nn.Module) -> nn.Module:
    """Return a model without the attributes that only this version has, and with one that only 1.5 has."""
    for part in model.modules():
        for name in [name for name in vars(part) if not name.startswith("_") and name not in KEPT_BY_TORCH]:
            if type(part).__module__.startswith("l5kit."):
                del part.__dict__[name]
    model.__dict__["disable_pos_encode"] = False
    return model


def save_script(model: nn.Module, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(model), path)


WRITERS: dict[str, Callable[[Any, Path], None]] = {
    "TorchScript": save_script,
    "state dict": lambda model, path: torch.save(model.state_dict(), path),
    "module": lambda model, path: torch.save(as_of_1_5(model), path),
    "module, old form": lambda model, path: torch.save(as_of_1_5(model), path, _use_new_zipfile_serialization=False),
}


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", MODELS)
def test_weights_are_loaded(name: str, writer: str, tmp_path: Path) -> None:
    theirs, ours = MODELS[name](), MODELS[name]()  # drawn apart
    weights = {key: value.clone() for key, value in theirs.state_dict().items()}
    WRITERS[writer](theirs, tmp_path / "model.pt")
    assert not load_checkpoint(ours, tmp_path / "model.pt", allow_pickle=writer.startswith("module"))
    assert list(ours.state_dict()) == list(weights)
    for key, value in ours.state_dict().items():
        assert torch.equal(value, weights[key]), key
