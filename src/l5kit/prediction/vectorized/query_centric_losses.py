"""Losses of the query-centric model: the winner takes all, of an agent or of a whole scene."""

import torch

_LOG_SCALE_RANGE = (-5.0, 5.0)


def winners(distances: torch.Tensor, is_known: torch.Tensor, *, joint: bool) -> torch.Tensor:
    """Return the mode that comes nearest to the truth, without gradient.

    Args:
        distances: From the truth, shape (B, A, K, T).
        is_known: Steps whose truth is known, bool, shape (B, A, T).
        joint: Whether one mode wins for all agents of a scene: the one with the least mean of their mean distances.

    Returns:
        int64, shape (B, A).
    """
    known = is_known.unsqueeze(2)
    sums = torch.where(known, distances.detach(), torch.zeros_like(distances)).sum(dim=-1)
    costs = sums / known.sum(dim=-1).clamp(min=1)
    if joint:
        costs = costs.sum(dim=1, keepdim=True).expand_as(costs)  # agents without truth add nothing
    return costs.argmin(dim=-1)


def of_winners(values: torch.Tensor, winner: torch.Tensor) -> torch.Tensor:
    """Return those of the winning modes, shape (B, A, T, F), of values (B, A, K, T, F)."""
    index = winner[:, :, None, None, None].expand(-1, -1, 1, values.shape[3], values.shape[4])
    return values.gather(2, index).squeeze(2)


def laplace_nll(errors: torch.Tensor, log_scales: torch.Tensor) -> torch.Tensor:
    """Return negative log-likelihoods of Laplace distributions: ln(2 b) + |error| / b.

    Args:
        errors: Of any shape.
        log_scales: Logarithms of the scales b, of the same shape; taken from -5 to 5.
    """
    log_scales = log_scales.clamp(_LOG_SCALE_RANGE[0], _LOG_SCALE_RANGE[1])
    return errors.abs() * torch.exp(-log_scales) + log_scales + 0.6931471805599453


def mixture_nll(surprise: torch.Tensor, logits: torch.Tensor, is_known: torch.Tensor, *, joint: bool) -> torch.Tensor:
    """Return the negative log-likelihood of mixtures for each known step, a scalar.

    Args:
        surprise: Negative log-likelihoods of each step in each mode, shape (B, A, K, T).
        logits: Of the modes, shape (B, A, K).
        is_known: Steps whose truth is known, bool, shape (B, A, T).
        joint: Whether all agents of a scene have one mode in common.
    """
    # -ln of the sum over modes of p exp(-surprise), with the likelihood of a whole trajectory, or of all of a scene
    of_modes = torch.where(is_known.unsqueeze(2), surprise, torch.zeros_like(surprise)).sum(dim=-1)
    log_probabilities = logits.log_softmax(dim=-1)
    if joint:
        of_modes, log_probabilities = of_modes.sum(dim=1), log_probabilities[:, 0]
    of_mixtures = -torch.logsumexp(log_probabilities - of_modes, dim=-1)  # 0 where no step is known
    return of_mixtures.sum() / is_known.sum().clamp(min=1)


def mode_surprise(logits: torch.Tensor, winner: torch.Tensor, is_any: torch.Tensor, *, joint: bool) -> torch.Tensor:
    """Return the mean cross entropy of the winning modes, a scalar.

    Args:
        logits: Of the modes, shape (B, A, K).
        winner: Which won, int64, shape (B, A).
        is_any: Agents with a known step, bool, shape (B, A).
        joint: Whether each scene counts once, and not each agent.
    """
    surprise = -logits.log_softmax(dim=-1).gather(2, winner.unsqueeze(-1)).squeeze(-1)
    if joint:
        surprise, is_any = surprise[:, 0], is_any.any(dim=1)
    return (surprise * is_any).sum() / is_any.sum().clamp(min=1)
