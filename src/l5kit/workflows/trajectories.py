"""Trajectories of a batch: predictions with the truth and the past, all modes, and the kinematic baselines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from l5kit.kinematic.baselines import BASELINES, Baseline, baseline_displacements

Batch = Mapping[str, torch.Tensor]
"""Tensors by name, (B, ...): samples side by side, or what a network makes of them."""


@dataclass(frozen=True)
class Trajectories:
    """N predicted trajectories with the truth and the past.

    Attributes:
        predicted_m: Predicted positions, (N, T, 2).
        truth_m: True positions in the same frame, (N, T, 2).
        is_known: Where these are known, (N, T).
        past_m: Past positions, the current one first, (N, H + 1, 2).
        past_yaws_rad: Headings there, (N, H + 1).
        past_is_known: Where these are known, (N, H + 1).
    """

    predicted_m: torch.Tensor
    truth_m: torch.Tensor
    is_known: torch.Tensor
    past_m: torch.Tensor
    past_yaws_rad: torch.Tensor
    past_is_known: torch.Tensor


def ego_trajectories(batch: Batch, outputs: Batch) -> Trajectories:
    """Return the trajectory of the target of each sample; of several modes the likeliest."""
    return Trajectories(
        predicted_m=outputs["positions"],
        truth_m=batch["target_positions"],
        is_known=batch["target_availabilities"] > 0,
        past_m=batch["history_positions"],
        past_yaws_rad=batch["history_yaws"][..., 0],
        past_is_known=batch["history_availabilities"] > 0,
    )


def agent_trajectories(batch: Batch, outputs: Batch) -> Trajectories:
    """Return the likeliest trajectories of all agents of each sample, one after the other."""
    return Trajectories(
        predicted_m=outputs["agent_positions"].flatten(0, 1),
        truth_m=batch["all_other_agents_future_positions"].flatten(0, 1),
        is_known=batch["all_other_agents_future_availability"].flatten(0, 1) > 0,
        past_m=batch["all_other_agents_history_positions"].flatten(0, 1),
        past_yaws_rad=batch["all_other_agents_history_yaws"][..., 0].flatten(0, 1),
        past_is_known=batch["all_other_agents_history_availability"].flatten(0, 1) > 0,
    )


@dataclass(frozen=True)
class Modes:
    """N predictions of M trajectories each.

    Attributes:
        predicted_m: Predicted positions, (N, M, T, 2).
        probabilities: How likely each trajectory is, (N, M).
    """

    predicted_m: torch.Tensor
    probabilities: torch.Tensor


def modes_of(outputs: Batch) -> Modes:
    """Return all trajectories of what a model gave, in the order of :class:`Trajectories`; one of those with one."""
    if "all_agent_positions" in outputs:
        logits = outputs["agent_traj_logits"].flatten(0, 1).float()
        return Modes(outputs["all_agent_positions"].flatten(0, 1).float(), logits.softmax(dim=-1))
    if "positions_all" in outputs:
        return Modes(outputs["positions_all"].float(), outputs["mode_logits"].float().softmax(dim=-1))
    positions_m = outputs["agent_positions"].flatten(0, 1) if "agent_positions" in outputs else outputs["positions"]
    return Modes(positions_m[:, None].float(), torch.ones_like(positions_m[:, :1, 0], dtype=torch.float32))


def baseline_positions(
    trajectories: Trajectories, *, step_time_s: float, past_step_time_s: float
) -> dict[Baseline, torch.Tensor]:
    """Return where agents get to by each baseline, (N, T, 2) in metres; nothing for samples without a past.

    Args:
        trajectories: The agents.
        step_time_s: Seconds between two future steps.
        past_step_time_s: Seconds between two past ones.
    """
    # a baseline goes on from a step, for which it takes the current pose and one before
    if trajectories.past_m.shape[1] < 2:
        return {}
    past_m, past_yaws_rad = trajectories.past_m.float(), trajectories.past_yaws_rad.float()
    return {
        baseline: past_m[:, :1]
        + baseline_displacements(
            baseline,
            past_m,
            past_yaws_rad,
            trajectories.past_is_known,
            num_steps=trajectories.truth_m.shape[1],
            step_time_s=step_time_s,
            past_step_time_s=past_step_time_s,
        )
        for baseline in BASELINES
    }


TrajectoriesOf = Callable[[Batch, Batch], Trajectories]
"""Takes a batch and what a model made of it."""
