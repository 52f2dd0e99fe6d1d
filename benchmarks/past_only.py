"""Networks that only see the past of the agents they predict, scored in the towns of training_table.py.

They measure what can be learned without map, lights and other agents; the gap to the networks of the table is what
these inputs contribute. Each is a user-defined network (``docs/own_model.md``): three layers over the past in the frame
of the agent, added to constant turn rate and acceleration, trained on absolute errors with the batches and steps of the
small configuration whose samples it uses.

Run ``PYTHONPATH=benchmarks python benchmarks/past_only.py --work WORK``, with the work folder of ``training_table.py``.
"""

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from l5kit._types import JsonObject
from l5kit.training import train
from training_scores import SceneSums, score_town, shown
from training_table import KEY, TOWNS, configuration_of, make_towns

WORKFLOWS = ("vector_planner", "agent_motion", "safepathnet")
"""Workflows: the AV at 3 s, all agents at 5 s, the AV and the agents around it at 3 s."""

OF_TARGET = ("history_positions", "history_yaws", "history_availabilities", "target_positions", "target_availabilities")
OF_ALL = (
    "all_other_agents_history_positions",
    "all_other_agents_history_yaws",
    "all_other_agents_history_availability",
    "all_other_agents_future_positions",
    "all_other_agents_future_availability",
)


class PastOnly(nn.Module):
    """Three layers over the past of each agent.

    Args:
        workflow: Workflow whose samples it uses.
        future_num_frames: Predicted steps T.
        history_num_frames: Past steps of the agent of interest, with rasters.
        history_num_frames_ego: Past steps of the AV, with vectors.
        width: Features of the hidden layers.
    """

    def __init__(
        self,
        workflow: str,
        future_num_frames: int,
        history_num_frames: int | None = None,
        history_num_frames_ego: int | None = None,
        width: int = 256,
    ) -> None:
        super().__init__()
        self.of_all, self.num_steps = workflow == "safepathnet", future_num_frames
        past = history_num_frames if history_num_frames_ego is None else history_num_frames_ego
        if past is None:
            raise ValueError(f"{workflow} tells of no past")
        self.num_past = past + 1
        self.layers = nn.Sequential(
            *(nn.Linear(5 * self.num_past + 2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
            nn.Linear(width, 2 * future_num_frames),
        )

    def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the loss in train mode, and predictions in eval mode."""
        positions, yaws, known, target, is_target = OF_ALL if self.of_all else OF_TARGET
        past_m, angles = batch[positions][..., : self.num_past, :], batch[yaws][..., : self.num_past, 0]
        is_known = batch[known][..., : self.num_past, None].to(past_m.dtype)
        to_own = rotations(-angles[..., 0])
        here_m = past_m[..., :1, :]
        way_m = (past_m - here_m) @ to_own * is_known
        turns = (angles - angles[..., :1])[..., None]
        features = torch.cat([way_m, turns.sin() * is_known, turns.cos() * is_known, is_known], dim=-1).flatten(-2)
        size_m = batch["all_other_agents_history_extents" if self.of_all else "extent"]
        size_m = size_m[..., 0, :2] if self.of_all else size_m[..., :2]
        ahead = self.layers(torch.cat([features, size_m.to(features.dtype)], dim=-1)).unflatten(-1, (self.num_steps, 2))
        ahead_m = here_m + ahead @ to_own.mT
        if self.training:
            weight = batch[is_target][..., None].to(ahead_m.dtype)
            return {"loss": ((ahead_m - batch[target]).abs() * weight).sum() / (2 * weight.sum().clamp(min=1))}
        names = ("agent_positions", "agent_yaws") if self.of_all else ("positions", "yaws")
        return {names[0]: ahead_m, names[1]: torch.zeros_like(ahead_m[..., :1])}


def rotations(angles: torch.Tensor) -> torch.Tensor:
    """Return matrices (..., 2, 2) that rotate row vectors by angles (...)."""
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([torch.stack([cos, sin], dim=-1), torch.stack([-sin, cos], dim=-1)], dim=-2)


def past_only_configuration(workflow: str) -> JsonObject:
    """Return the small configuration of a workflow with this network, and minimal rasters, as it uses none."""
    cfg = configuration_of(workflow, seed=0, factor=1.0, steps_factor=1.0)
    cfg["model_params"] |= {"model": "past_only.PastOnly", "kinematic_residual": "ctra"}
    if "raster_size" in cfg["raster_params"]:
        cfg["raster_params"] |= {"raster_size": [8, 8], "pixel_size": [5.0, 5.0], "map_type": "box_debug"}
    return cfg


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, score and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("training-table"), help="folder of towns and trainings")
    parser.add_argument("--workflow", action="append", choices=WORKFLOWS, help="may be given several times; all")
    parser.add_argument("--samples", type=int, default=640, help="samples of each test town")
    options = parser.parse_args(arguments)
    towns = options.work / "towns"
    make_towns(towns, other_towns=False)
    print("| samples of | ADE | FDE | ADE / best baseline | minutes |\n|---|---|---|---|---|")
    for workflow in options.workflow or WORKFLOWS:
        cfg, folder = past_only_configuration(workflow), options.work / "trainings" / f"past-only-{workflow}"
        trained = train(cfg, folder, data_folder=towns, resume=(folder / "config.yaml").is_file(), show_bar=False)
        weights = trained.best_weights or trained.weights
        parts = (
            score_town(weights, cfg, towns / town.name, key=KEY, max_samples=options.samples)
            for town in TOWNS
            if town.part == "test"
        )
        scenes = functools.reduce(SceneSums.followed_by, parts)
        cells = [shown(scenes.estimate(name), " m") for name in ("ade_m", "fde_m")]
        cells.append(shown(scenes.ratio("ade_m"), ""))
        print(f"| `{workflow}` | {' | '.join(cells)} | {trained.minutes:.1f} |", flush=True)


if __name__ == "__main__":
    main()
