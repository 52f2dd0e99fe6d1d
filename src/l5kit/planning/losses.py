"""Losses of planning models: mean errors, and winner-takes-all losses of several modes."""

from typing import NamedTuple

import torch
from torch.nn import functional as F


def mean_over_steps(errors: torch.Tensor, available: torch.Tensor, available_only: bool) -> torch.Tensor:
    """Return the mean of weighted errors.

    Args:
        errors: Errors times weights, 0 in steps that are not available, shape (..., T, O).
        available: Above 0 (or True) in the steps that count, shape (..., T).
        available_only: Divide by the number of values in available steps, instead of by the number of all values as
            L5Kit 1.5 does. Without any available step the mean is then 0.

    Returns:
        A scalar.
    """
    if not available_only:
        return errors.mean()
    num_values = (available > 0).sum() * errors.shape[-1]
    return errors.sum() / num_values.clamp(min=1)


def missing_criterion(model: str) -> str:
    """Return the error message for a loss of a model without a criterion."""
    return (
        f"{model} has no criterion, so it cannot compute a loss; give it an element-wise one such as"
        " torch.nn.MSELoss(reduction='none'), or call eval() for predictions"
    )


class WinnerLosses(NamedTuple):
    """Winner-takes-all losses of several modes.

    Attributes:
        trajectories: Mean cost of the modes that are nearest to the truth, a scalar.
        modes: Mean cross entropy of these, a scalar.
    """

    trajectories: torch.Tensor
    modes: torch.Tensor


def mode_costs(errors: torch.Tensor, available: torch.Tensor, available_only: bool) -> torch.Tensor:
    """Return the mean error of each mode, (B, M).

    Args:
        errors: Weighted errors, 0 in steps that are not available, (B, M, T, O).
        available: 1 in available steps, 0 in others, (B, T).
        available_only: Divide by the values in available steps, instead of by all as L5Kit 1.5 does; without any
            available step the mean is then 0.
    """
    if not available_only:
        return errors.mean(dim=(2, 3))
    num_values = available.sum(dim=1, keepdim=True).clamp(min=1.0) * errors.shape[-1]
    return errors.sum(dim=(2, 3)) / num_values


def losses_of_winners(costs: torch.Tensor, logits: torch.Tensor, is_known: torch.Tensor | None = None) -> WinnerLosses:
    """Return the losses of the modes that are nearest to the truth, the first one of ties.

    Args:
        costs: Costs of each mode, (B, M).
        logits: Logits of each mode, (B, M).
        is_known: Samples that count, those with a known step, bool (B,); None for all of them, as in L5Kit 1.5, where
            the first mode wins for samples without a known step.
    """
    nearest = costs.argmin(dim=-1)
    winning = costs.gather(1, nearest.unsqueeze(1)).squeeze(1)
    surprise = F.cross_entropy(logits, nearest, reduction="none")
    if is_known is None:
        return WinnerLosses(winning.mean(), surprise.mean())
    num_known = is_known.sum().clamp(min=1)
    return WinnerLosses((winning * is_known).sum() / num_known, (surprise * is_known).sum() / num_known)


def mode_outputs(trajectories: torch.Tensor, logits: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the predictions of planners with several modes.

    Args:
        trajectories: x, y and yaw of each step, (B, M, T, 3).
        logits: Logits of each mode, (B, M).

    Returns:
        ``positions`` (B, T, 2) and ``yaws`` (B, T, 1) of the likeliest mode, ``positions_all`` (B, M, T, 2),
        ``yaws_all`` (B, M, T, 1) and ``mode_logits`` (B, M).
    """
    likeliest = logits.argmax(dim=-1).view(-1, 1, 1, 1).expand(-1, 1, trajectories.shape[2], trajectories.shape[3])
    chosen = trajectories.gather(1, likeliest).squeeze(1)
    return {
        "positions": chosen[..., :2],
        "yaws": chosen[..., 2:3],
        "positions_all": trajectories[..., :2],
        "yaws_all": trajectories[..., 2:3],
        "mode_logits": logits,
    }
