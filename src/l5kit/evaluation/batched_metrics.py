"""Open-loop metrics of predictions with several modes, for batches of tensors, on any device.

All take ``ground_truth`` (B, T, C), ``pred`` (B, M, T, C), ``confidences`` (B, M) and ``avails`` (B, T), which may be
bool, and return one value, or one array, for each of the B predictions. Gradients flow to ``pred`` and ``confidences``
and are finite, also where a distance or a confidence is 0; :func:`miss_rate` is a step and has none.

Shapes are checked, values are not, because looking at them would wait for the device: NaN in gives NaN out.
:mod:`l5kit.evaluation.metrics` has them for one prediction in arrays, as L5Kit 1.5, and the notation.
"""

import torch

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.thresholds import MISS_THRESHOLD_M

__all__ = [
    "average_displacement_error_mean",
    "average_displacement_error_oracle",
    "displacements",
    "final_displacement_error_mean",
    "final_displacement_error_oracle",
    "miss_rate",
    "neg_multi_log_likelihood",
    "prob_true_mode",
    "rmse",
    "time_displace",
]


def neg_multi_log_likelihood(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> torch.Tensor:
    """Return the negative log-likelihood of each prediction, (B,); also the loss of the competition before its mean.

    Args:
        ground_truth: True positions, (B, T, C).
        pred: Predicted positions, (B, M, T, C).
        confidences: Probabilities of the modes, (B, M).
        avails: 1 where the truth is known, else 0, (B, T).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """
    return -torch.logsumexp(_log_likelihoods(ground_truth, pred, confidences, avails), dim=-1)


def rmse(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> torch.Tensor:
    """Return sqrt(2 * negative log-likelihood / T) of each prediction, (B,), 0 where that is below 0.

    Arguments and errors as for :func:`neg_multi_log_likelihood`.
    """
    squares = 2 * neg_multi_log_likelihood(ground_truth, pred, confidences, avails) / ground_truth.shape[1]
    is_positive = ~(squares <= 0)  # also NaN, which must not become 0
    return torch.where(is_positive, torch.sqrt(torch.where(is_positive, squares, 1.0)), 0.0)


def prob_true_mode(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> torch.Tensor:
    """Return the probability of each mode given the truth, (B, M).

    Where the squares of all distances are beyond the dtype, nothing tells the modes apart, and they share it evenly.
    Arguments and errors as for :func:`neg_multi_log_likelihood`.
    """
    likelihoods = _log_likelihoods(ground_truth, pred, confidences, avails)
    is_beyond = likelihoods.isneginf().all(dim=-1, keepdim=True)
    return torch.softmax(torch.where(is_beyond, 0.0, likelihoods), dim=-1)


def time_displace(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> torch.Tensor:
    """Return for each step the distances of the modes weighted with :func:`prob_true_mode`, (B, T).

    Arguments and errors as for :func:`neg_multi_log_likelihood`.
    """
    probabilities = prob_true_mode(ground_truth, pred, confidences, avails)
    return torch.einsum("bm,bmt->bt", probabilities, displacements(ground_truth, pred, avails))


def average_displacement_error_oracle(
    ground_truth: torch.Tensor,
    pred: torch.Tensor,
    confidences: torch.Tensor,
    avails: torch.Tensor,
    *,
    only_available: bool = False,
) -> torch.Tensor:
    """Return the distance averaged over the steps, of the mode for which it is smallest, (B,).

    As in L5Kit 1.5, steps whose truth is not known count as distance 0; what l5kit calls ADE is over known steps only,
    which is ``only_available=True``.

    Args:
        ground_truth: True positions, (B, T, C).
        pred: Predicted positions, (B, M, T, C).
        confidences: Probabilities of the modes, (B, M).
        avails: 1 where the truth is known, else 0, (B, T).
        only_available: Average over the available steps, NaN without any, instead of over all T.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """
    _check_shapes(ground_truth, pred, confidences, avails)
    return _average_of_modes(ground_truth, pred, avails, only_available=only_available).amin(dim=-1)


def average_displacement_error_mean(
    ground_truth: torch.Tensor,
    pred: torch.Tensor,
    confidences: torch.Tensor,
    avails: torch.Tensor,
    *,
    only_available: bool = False,
) -> torch.Tensor:
    """Return the distance averaged over the steps and over the modes, whatever their confidences, (B,).

    Arguments and errors as for :func:`average_displacement_error_oracle`.
    """
    _check_shapes(ground_truth, pred, confidences, avails)
    return _average_of_modes(ground_truth, pred, avails, only_available=only_available).mean(dim=-1)


def final_displacement_error_oracle(
    ground_truth: torch.Tensor,
    pred: torch.Tensor,
    confidences: torch.Tensor,
    avails: torch.Tensor,
    *,
    only_available: bool = False,
) -> torch.Tensor:
    """Return the distance at the last step, of the mode for which it is smallest, (B,).

    Arguments and errors as for :func:`average_displacement_error_oracle`, but ``only_available`` takes the last step
    that is available.
    """
    _check_shapes(ground_truth, pred, confidences, avails)
    return _last_of_modes(ground_truth, pred, avails, only_available=only_available).amin(dim=-1)


def final_displacement_error_mean(
    ground_truth: torch.Tensor,
    pred: torch.Tensor,
    confidences: torch.Tensor,
    avails: torch.Tensor,
    *,
    only_available: bool = False,
) -> torch.Tensor:
    """Return the distance at the last step averaged over the modes, whatever their confidences, (B,).

    Arguments and errors as for :func:`final_displacement_error_oracle`.
    """
    _check_shapes(ground_truth, pred, confidences, avails)
    return _last_of_modes(ground_truth, pred, avails, only_available=only_available).mean(dim=-1)


def miss_rate(
    ground_truth: torch.Tensor,
    pred: torch.Tensor,
    confidences: torch.Tensor,
    avails: torch.Tensor,
    *,
    threshold_m: float = MISS_THRESHOLD_M,
) -> torch.Tensor:
    """Return 1 where every mode is further than a distance from the truth at the last available step, else 0, (B,).

    NaN where no step is available. Modes of confidence 0 do not count.

    Args:
        ground_truth: True positions, (B, T, C).
        pred: Predicted positions, (B, M, T, C).
        confidences: Probabilities of the modes, (B, M).
        avails: 1 where the truth is known, else 0, (B, T).
        threshold_m: The distance.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """
    _check_shapes(ground_truth, pred, confidences, avails)
    errors_of_modes = _last_of_modes(ground_truth, pred.detach(), avails, only_available=True)
    errors = torch.where(confidences > 0, errors_of_modes, torch.inf).amin(dim=-1)
    errors = torch.where((avails > 0).any(dim=-1), errors, torch.nan)
    return torch.where(errors.isnan(), errors, (errors > threshold_m).to(errors.dtype))


def displacements(ground_truth: torch.Tensor, pred: torch.Tensor, avails: torch.Tensor) -> torch.Tensor:
    """Return the distances of all modes at all steps, (B, M, T), 0 where the truth is not known.

    Args:
        ground_truth: True positions, (B, T, C).
        pred: Predicted positions, (B, M, T, C).
        avails: 1 where the truth is known, else 0, (B, T).
    """
    distances: torch.Tensor = torch.linalg.vector_norm(_differences(ground_truth, pred, avails), dim=-1)
    return distances


def _check_shapes(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> None:
    if pred.dim() != 4 or 0 in pred.shape[1:]:
        raise InvalidArgumentError(
            f"pred has shape {tuple(pred.shape)}; pass predictions, modes, steps and coordinates, (B, M, T, C)"
        )
    size, num_modes, num_steps, num_coords = pred.shape
    for name, tensor, shape in (
        ("ground_truth", ground_truth, (size, num_steps, num_coords)),
        ("confidences", confidences, (size, num_modes)),
        ("avails", avails, (size, num_steps)),
    ):
        if tuple(tensor.shape) != shape:
            raise InvalidArgumentError(
                f"{name} has shape {tuple(tensor.shape)}, but pred of shape {tuple(pred.shape)} needs {shape}"
            )


def _differences(ground_truth: torch.Tensor, pred: torch.Tensor, avails: torch.Tensor) -> torch.Tensor:
    """Return the errors of the coordinates, (B, M, T, C), 0 where not available."""
    return (ground_truth[:, None] - pred) * avails[:, None, :, None]


def _log_likelihoods(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> torch.Tensor:
    """Return ell, (B, M); -inf, and no gradient, for a mode of confidence 0."""
    _check_shapes(ground_truth, pred, confidences, avails)
    squares = _differences(ground_truth, pred, avails).square().sum(dim=(-2, -1))
    is_possible = confidences != 0
    log_confidences = torch.where(is_possible, torch.log(torch.where(is_possible, confidences, 1.0)), -torch.inf)
    return log_confidences - 0.5 * squares


def _average_of_modes(
    ground_truth: torch.Tensor, pred: torch.Tensor, avails: torch.Tensor, *, only_available: bool
) -> torch.Tensor:
    """Return the displacements averaged over steps, (B, M)."""
    distances = displacements(ground_truth, pred, avails)
    if not only_available:
        return distances.mean(dim=-1)
    is_available = avails > 0
    return (distances * is_available[:, None]).sum(dim=-1) / is_available.sum(dim=-1, keepdim=True)


def _last_of_modes(
    ground_truth: torch.Tensor, pred: torch.Tensor, avails: torch.Tensor, *, only_available: bool
) -> torch.Tensor:
    """Return the displacements at the last step, (B, M)."""
    distances = displacements(ground_truth, pred, avails)
    if not only_available:
        return distances[..., -1]
    steps = torch.arange(1, distances.shape[-1] + 1, device=distances.device)
    last = (steps * (avails > 0)).amax(dim=-1)  # (B,), counted from 1; 0 without any
    index = (last - 1).clamp(min=0)[:, None, None].expand(-1, distances.shape[1], 1)
    return torch.where(last[:, None] > 0, distances.gather(-1, index).squeeze(-1), torch.nan)
