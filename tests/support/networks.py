"""Small networks to evaluate: one with the weights of each workflow, and some whose scores are known."""

import dataclasses

import numpy as np
import torch
from torch import nn

from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.dataset import EgoDataset
from l5kit.openloop.scoring import score
from l5kit.openloop.setup import OpenLoopOptions, set_up
from l5kit.planning.checkpoint import save_checkpoint
from l5kit.workflows import TrainingConfig, make_model, open_samples
from l5kit.workflows.trained_network import configuration_of
from support.workflows import small_config


def save_network(workflow, city, folder, **changes):
    """Save a network of a workflow as it is before its training; returns the file."""
    cfg = small_config(workflow, **changes)
    config = TrainingConfig.from_cfg(cfg)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        samples = open_samples(config, config.params.val_loader, LocalDataManager(city), perturbed=False)
        save_checkpoint(folder / f"{workflow}.safetensors", make_model(config, samples), config=cfg)
    return folder / f"{workflow}.safetensors"


def score_stub(make_stub, file, city, **options):
    """Score a network in place of the one in a file; ``make_stub`` takes what the evaluation is set up with."""
    chosen = OpenLoopOptions(**options)
    setup = set_up(file, configuration_of(file), data_folder=city, options=chosen)
    return score(dataclasses.replace(setup, model=make_stub(setup)), chosen)


class KeepsVelocity(nn.Module):
    """Predicts what constant velocity does, agent by agent."""

    def __init__(self, setup):
        super().__init__()
        self.num_steps = setup.config.params.future_num_frames
        self.of_all_agents = setup.config.params.workflow in ("safepathnet", "motion_tokens", "query_centric")

    def forward(self, batch):
        assert not [key for key in batch if key.startswith("target_") or "future_pos" in key]
        if not self.of_all_agents:
            past, known = batch["history_positions"], batch["history_availabilities"]
            return {"positions": torch.stack([self.go_on(*agent) for agent in zip(past, known, strict=True)])}
        past, known = batch["all_other_agents_history_positions"], batch["all_other_agents_history_availability"]
        agents = [self.go_on(*agent) for agent in zip(past.flatten(0, 1), known.flatten(0, 1), strict=True)]
        return {"agent_positions": torch.stack(agents).unflatten(0, past.shape[:2])}

    def go_on(self, past, known):
        """The steps of one agent; steps ahead are as long as those of the past."""
        earlier = [back for back in range(1, len(past)) if known[back]]
        step = (past[0] - past[earlier[0]]) / earlier[0] if earlier and known[0] else torch.zeros(2)
        return past[0] + torch.arange(1, self.num_steps + 1)[:, None] * step


class KnowsTheFuture(nn.Module):
    """Predicts the logged future for raster samples, at an offset of some metres, in one or several modes."""

    def __init__(self, setup, *, offsets_m=((0.0, 0.0),), logits=(0.0,), log=None):
        super().__init__()
        self.samples = EgoDataset(setup.config.mapping, log or setup.samples.dataset, None)
        self.offsets_m, self.logits = torch.tensor(offsets_m), torch.tensor(logits)

    def forward(self, batch):
        places = zip(*(batch[key].tolist() for key in ("scene_index", "frame_index", "track_id")), strict=True)
        truth = [self.samples.get_frame(scene, frame, track)["target_positions"] for scene, frame, track in places]
        modes = torch.tensor(np.array(truth))[:, None] + self.offsets_m[:, None]
        if len(self.logits) == 1:
            return {"positions": modes[:, 0]}
        logits = self.logits.repeat(len(modes), 1)
        return {"positions": modes[:, logits[0].argmax()], "positions_all": modes, "mode_logits": logits}


def open_log(city):
    return ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
