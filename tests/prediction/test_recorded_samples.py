"""The vector models on samples that L5Kit 1.5 made of a real scene and a synthetic map."""

import numpy as np
import pytest
import torch
from torch import nn

from l5kit.planning.vectorized.closed_loop_model import VectorizedUnrollModel
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from l5kit.prediction.vectorized.safepathnet_model import SafePathNetModel

RECORDINGS = [("scene", ""), ("street_map", "syn_")]


NUM_STEPS = 3
"""Future steps to look at; the recorded samples have more."""


def recorded_batch(path, group):
    """Two samples of a group as a batch."""
    with np.load(path) as recording:
        names = [name.split("/") for name in recording.files if name.startswith(f"{group}/")]
        indices, keys = sorted({name[2] for name in names})[-2:], {name[3] for name in names}
        columns = {key: np.stack([recording[f"{group}/{index}/{key}"] for index in indices]) for key in keys}
    batch = {key: torch.from_numpy(column) for key, column in columns.items() if column.dtype.kind in "fiub"}
    batch |= {key: value[:, :NUM_STEPS] for key, value in batch.items() if key.startswith("target_")}
    batch |= {key: value[:, :, :NUM_STEPS] for key, value in batch.items() if "_future_" in key}
    assert len(batch["type"]) == 2
    return batch


def losses_and_predictions(model, batch):
    torch.manual_seed(0)
    losses = model.train()(batch)
    losses["loss"].backward()
    return losses, model.eval()(batch)


def finite(values):
    return all(torch.isfinite(value).all() for value in values.values())


@pytest.mark.parametrize(("recording", "prefix"), RECORDINGS)
@pytest.mark.parametrize("model_class", [VectorizedModel, VectorizedUnrollModel])
def test_planners(shared_golden, recording, prefix, model_class):
    batch = recorded_batch(shared_golden / f"{recording}.npz", f"{prefix}vec/ego")
    unroll = (False, 2, 0.8) if model_class is VectorizedUnrollModel else ()
    torch.manual_seed(0)
    model = model_class(1, 3, 3 * NUM_STEPS, [1.0] * 3, nn.L1Loss(reduction="none"), 0.0, False, False, False, *unroll)
    losses, outputs = losses_and_predictions(model, batch)
    assert finite(losses)
    assert finite(outputs)
    assert outputs["positions"].shape == batch["target_positions"].shape
    num_elements = 1 + sum(
        batch[key].shape[1] for key in ("all_other_agents_types", "lanes_mid", "crosswalks", "lanes")
    )
    assert outputs["attention_weights"].shape[2] == num_elements
    unavailable = ~batch["other_agents_polyline_availability"].any(dim=-1)
    assert unavailable.any()
    assert not outputs["attention_weights"][:, 0, 1 : 1 + unavailable.shape[1]][unavailable].any()


@pytest.mark.parametrize(("recording", "prefix"), RECORDINGS)
def test_safepathnet(shared_golden, recording, prefix):
    batch = recorded_batch(shared_golden / f"{recording}.npz", f"{prefix}vec_sp/egoagent")
    num_agents, num_steps = batch["all_other_agents_future_positions"].shape[1:3]
    torch.manual_seed(0)
    model = SafePathNetModel(
        19, 19, num_steps, [1.0] * 3, nn.L1Loss(reduction="none"), False, False, False, 5, num_agents, 0.25
    )
    losses, outputs = losses_and_predictions(model, batch)
    assert finite(losses)
    assert finite(outputs)
    assert outputs["all_agent_positions"].shape == (len(batch["type"]), num_agents, 5, num_steps, 2)
