"""Open-loop metrics of multi-modal predictions, and building blocks of closed-loop metrics.

All prediction metrics take ``ground_truth`` (B, T, C), ``pred`` (B, M, T, C), ``confidences`` (B, M) that sum to 1, and
``avails`` (B, T), 1 where the truth is known and 0 elsewhere. Distances have the unit of the coordinates, which is
metres throughout l5kit. A step that is not available has the error 0 and stays in means, as in the metrics of the
dataset's competition; ``only_available=True`` leaves such steps out.

- Batches of tensors, on any device, give one value, or one array, for each of the B predictions. Gradients flow to
  ``pred`` and ``confidences`` and are finite, even if a distance or a confidence is 0; :func:`miss_rate` is a step
  function without gradients. ``avails`` may be bool. Shapes are checked; values are not, as this would synchronize with
  the device: NaN inputs give NaN outputs.
- One prediction in arrays, without the axis B, gives a number or an array, as in L5Kit 1.5. Values are checked, too.
  Results are computed in float64 and have the dtype of the arrays: float32 for float32, float64 if any array is float64
  or integer.

Notation: e[m, t] is the squared distance of mode m at step t (0 if not available), and ell[m] is
ln confidence[m] - 0.5 * sum over t of e[m, t], the log-likelihood of mode m, up to a constant, if each coordinate is
normally distributed with variance 1.
"""

import functools
from collections.abc import Callable
from typing import Any, Protocol, overload

import numpy as np
import torch
from numpy.typing import ArrayLike

from l5kit._types import FloatArray
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.collision import CollisionType, detect_collision
from l5kit.evaluation.result_files import MISS_THRESHOLD_M

__all__ = [
    "MISS_THRESHOLD_M",
    "CollisionType",
    "average_displacement_error_mean",
    "average_displacement_error_oracle",
    "detect_collision",
    "displacements",
    "distance_to_reference_trajectory",
    "final_displacement_error_mean",
    "final_displacement_error_oracle",
    "metric_signature",
    "miss_rate",
    "neg_multi_log_likelihood",
    "prob_true_mode",
    "rmse",
    "scores_of_many",
    "time_displace",
]

metric_signature = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], Any]
"""Takes ``ground_truth``, ``pred``, ``confidences`` and ``avails``, and returns a number or an array."""


class _Metric(Protocol):
    """A metric of a batch of predictions as tensors, or of one prediction as arrays."""

    @overload
    def __call__(
        self,
        ground_truth: torch.Tensor,
        pred: torch.Tensor,
        confidences: torch.Tensor,
        avails: torch.Tensor,
        **options: float,
    ) -> torch.Tensor: ...
    @overload
    def __call__(
        self, ground_truth: FloatArray, pred: FloatArray, confidences: FloatArray, avails: FloatArray, **options: float
    ) -> Any: ...


def _of_arrays_too(of_batch: Callable[..., torch.Tensor]) -> _Metric:
    """Extend a metric of batches of tensors to single predictions as arrays, as in L5Kit 1.5."""

    @functools.wraps(of_batch)
    def metric(ground_truth: Any, pred: Any, confidences: Any, avails: Any, **options: float) -> Any:
        if isinstance(pred, torch.Tensor) and np.ndim(ground_truth) != 2:
            return of_batch(ground_truth, pred, confidences, avails, **options)
        one = [
            each.detach().cpu().numpy() if isinstance(each, torch.Tensor) else np.asarray(each)
            for each in (ground_truth, pred, confidences, avails)
        ]
        _assert_shapes(*one)
        score = _scores(of_batch, *(each[None] for each in one), **options)[0]
        return score.dtype.type(score) if score.ndim == 0 else score

    return metric


@_of_arrays_too
def neg_multi_log_likelihood(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> torch.Tensor:
    """Return the negative log-likelihood of each prediction, (B,); its mean is the loss of the competition.

    Args:
        ground_truth: True positions, (B, T, C).
        pred: Predicted positions, (B, M, T, C).
        confidences: Probabilities of the modes, (B, M).
        avails: 1 where the truth is known, else 0, (B, T).

    Raises:
        InvalidArgumentError: Shapes do not fit; or, for arrays, a number is not finite or the confidences are not
            probabilities.
    """
    return -torch.logsumexp(_log_likelihoods(ground_truth, pred, confidences, avails), dim=-1)


@_of_arrays_too
def rmse(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> torch.Tensor:
    """Return sqrt(2 * negative log-likelihood / T) of each prediction, (B,), 0 if that is negative.

    Arguments and errors as for :func:`neg_multi_log_likelihood`.
    """
    squares = 2 * neg_multi_log_likelihood(ground_truth, pred, confidences, avails) / ground_truth.shape[1]
    is_positive = ~(squares <= 0)  # also NaN, which must not become 0
    return torch.where(is_positive, torch.sqrt(torch.where(is_positive, squares, 1.0)), 0.0)


@_of_arrays_too
def prob_true_mode(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> torch.Tensor:
    """Return the probability of each mode given the truth, (B, M).

    If the squares of all distances overflow, the modes cannot be distinguished and share it evenly. Arguments and
    errors as for :func:`neg_multi_log_likelihood`.
    """
    likelihoods = _log_likelihoods(ground_truth, pred, confidences, avails)
    is_beyond = likelihoods.isneginf().all(dim=-1, keepdim=True)
    return torch.softmax(torch.where(is_beyond, 0.0, likelihoods), dim=-1)


@_of_arrays_too
def time_displace(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> torch.Tensor:
    """Return for each step the distances of the modes, weighted by :func:`prob_true_mode`, (B, T).

    Arguments and errors as for :func:`neg_multi_log_likelihood`.
    """
    probabilities = prob_true_mode(ground_truth, pred, confidences, avails)
    return torch.einsum("bm,bmt->bt", probabilities, displacements(ground_truth, pred, avails))


@_of_arrays_too
def average_displacement_error_oracle(
    ground_truth: torch.Tensor,
    pred: torch.Tensor,
    confidences: torch.Tensor,
    avails: torch.Tensor,
    *,
    only_available: bool = False,
) -> torch.Tensor:
    """Return the smallest distance among the modes, averaged over the steps, (B,).

    As in L5Kit 1.5, steps with unknown truth count as distance 0. ADE elsewhere in l5kit is over known steps only,
    which is ``only_available=True``.

    Args:
        ground_truth: True positions, (B, T, C).
        pred: Predicted positions, (B, M, T, C).
        confidences: Probabilities of the modes, (B, M).
        avails: 1 where the truth is known, else 0, (B, T).
        only_available: Average over the available steps only, NaN without any, instead of over all T.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """
    _check_shapes(ground_truth, pred, confidences, avails)
    return _average_of_modes(ground_truth, pred, avails, only_available=only_available).amin(dim=-1)


@_of_arrays_too
def average_displacement_error_mean(
    ground_truth: torch.Tensor,
    pred: torch.Tensor,
    confidences: torch.Tensor,
    avails: torch.Tensor,
    *,
    only_available: bool = False,
) -> torch.Tensor:
    """Return the distance averaged over the steps and over the modes, regardless of their confidences, (B,).

    Arguments and errors as for :func:`average_displacement_error_oracle`.
    """
    _check_shapes(ground_truth, pred, confidences, avails)
    return _average_of_modes(ground_truth, pred, avails, only_available=only_available).mean(dim=-1)


@_of_arrays_too
def final_displacement_error_oracle(
    ground_truth: torch.Tensor,
    pred: torch.Tensor,
    confidences: torch.Tensor,
    avails: torch.Tensor,
    *,
    only_available: bool = False,
) -> torch.Tensor:
    """Return the smallest distance among the modes at the last step, (B,).

    Arguments and errors as for :func:`average_displacement_error_oracle`, but ``only_available`` uses the last
    available step.
    """
    _check_shapes(ground_truth, pred, confidences, avails)
    return _last_of_modes(ground_truth, pred, avails, only_available=only_available).amin(dim=-1)


@_of_arrays_too
def final_displacement_error_mean(
    ground_truth: torch.Tensor,
    pred: torch.Tensor,
    confidences: torch.Tensor,
    avails: torch.Tensor,
    *,
    only_available: bool = False,
) -> torch.Tensor:
    """Return the distance at the last step averaged over the modes, regardless of their confidences, (B,).

    Arguments and errors as for :func:`final_displacement_error_oracle`.
    """
    _check_shapes(ground_truth, pred, confidences, avails)
    return _last_of_modes(ground_truth, pred, avails, only_available=only_available).mean(dim=-1)


@_of_arrays_too
def miss_rate(
    ground_truth: torch.Tensor,
    pred: torch.Tensor,
    confidences: torch.Tensor,
    avails: torch.Tensor,
    *,
    threshold_m: float = MISS_THRESHOLD_M,
) -> torch.Tensor:
    """Return 1 if every mode is farther than a threshold from the truth at the last available step, else 0, (B,).

    NaN if no step is available. Modes with confidence 0 do not count.

    Args:
        ground_truth: True positions, (B, T, C).
        pred: Predicted positions, (B, M, T, C).
        confidences: Probabilities of the modes, (B, M).
        avails: 1 where the truth is known, else 0, (B, T).
        threshold_m: The threshold, metres.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """
    _check_shapes(ground_truth, pred, confidences, avails)
    errors_of_modes = _last_of_modes(ground_truth, pred.detach(), avails, only_available=True)
    errors = torch.where(confidences > 0, errors_of_modes, torch.inf).amin(dim=-1)
    errors = torch.where((avails > 0).any(dim=-1), errors, torch.nan)
    return torch.where(errors.isnan(), errors, (errors > threshold_m).to(errors.dtype))


def displacements(ground_truth: torch.Tensor, pred: torch.Tensor, avails: torch.Tensor) -> torch.Tensor:
    """Return the distances of all modes at all steps, (B, M, T), 0 where the truth is unknown.

    Args:
        ground_truth: True positions, (B, T, C).
        pred: Predicted positions, (B, M, T, C).
        avails: 1 where the truth is known, else 0, (B, T).
    """
    distances: torch.Tensor = torch.linalg.vector_norm(_differences(ground_truth, pred, avails), dim=-1)
    return distances


def distance_to_reference_trajectory(pred_centroid: torch.Tensor, ref_traj: torch.Tensor) -> torch.Tensor:
    """Return the distance of positions to the nearest point of a reference trajectory.

    Args:
        pred_centroid: Positions in metres, (B, 2).
        ref_traj: Points of the trajectories in metres, (B, N, 2), or (1, N, 2) for one shared by all.

    Returns:
        Distances in metres, (B,).

    Raises:
        InvalidArgumentError: A shape is wrong.
    """
    if pred_centroid.dim() != 2 or pred_centroid.shape[-1] != 2:
        raise InvalidArgumentError(f"pred_centroid has shape {tuple(pred_centroid.shape)}; pass positions, (B, 2)")
    size = len(pred_centroid)
    if ref_traj.dim() != 3 or ref_traj.shape[-1] != 2 or len(ref_traj) not in (1, size) or ref_traj.shape[1] == 0:
        raise InvalidArgumentError(
            f"ref_traj has shape {tuple(ref_traj.shape)}; pass points of shape ({size}, N, 2) or (1, N, 2), N > 0"
        )
    distances: torch.Tensor = torch.linalg.vector_norm(pred_centroid.unsqueeze(1) - ref_traj, dim=-1)
    return distances.amin(dim=-1)


def _assert_shapes(ground_truth: FloatArray, pred: FloatArray, confidences: FloatArray, avails: FloatArray) -> None:
    """Check one prediction in arrays.

    Raises:
        InvalidArgumentError: Shapes do not fit, a number is not finite, or the confidences are not probabilities.
    """
    if np.ndim(pred) != 3:
        raise InvalidArgumentError(f"pred has shape {np.shape(pred)}; pass modes, steps and coordinates, (M, T, C)")
    _require_others(ground_truth, pred, confidences, avails)
    if 0 in np.shape(pred)[:2]:
        raise InvalidArgumentError(f"pred has shape {np.shape(pred)}; at least one mode and one step are needed")
    arrays = {"ground_truth": ground_truth, "pred": pred, "confidences": confidences, "avails": avails}
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise InvalidArgumentError(
                f"{name} holds NaN or infinity; for steps without truth, pass 0 in avails and any number"
            )
    # probabilities are at least 0 and sum to 1
    total = float(np.sum(confidences))
    if not np.allclose(total, 1) or (np.asarray(confidences) < 0).any():
        raise InvalidArgumentError(
            f"confidences must be at least 0 and sum to 1, got {np.asarray(confidences).tolist()}, which sum to {total}"
        )


def _average_displacement_error(
    ground_truth: FloatArray, pred: FloatArray, confidences: FloatArray, avails: FloatArray, mode: str
) -> np.floating:
    """Return the displacement averaged over steps, and reduced over modes by ``mode``, "oracle" or "mean"."""
    by_mode = {"oracle": average_displacement_error_oracle, "mean": average_displacement_error_mean}
    return _of_mode(by_mode, mode)(ground_truth, pred, confidences, avails)


def _final_displacement_error(
    ground_truth: FloatArray, pred: FloatArray, confidences: FloatArray, avails: FloatArray, mode: str
) -> np.floating:
    """Return the displacement at the last step, reduced over modes by ``mode``, "oracle" or "mean"."""
    by_mode = {"oracle": final_displacement_error_oracle, "mean": final_displacement_error_mean}
    return _of_mode(by_mode, mode)(ground_truth, pred, confidences, avails)


def _of_mode(by_mode: dict[str, _Metric], mode: str) -> Callable[..., np.floating]:
    if mode not in by_mode:
        raise InvalidArgumentError(f"mode must be 'oracle' or 'mean', got {mode!r}")
    return by_mode[mode]


def scores_of_many(
    metric: metric_signature,
    ground_truth: FloatArray,
    pred: FloatArray,
    confidences: FloatArray,
    avails: FloatArray,
) -> FloatArray | None:
    """Return a metric of this module for N predictions at once, (N, ...); None for any other metric.

    Args:
        metric: The function, or a ``functools.partial`` of it with keyword options.
        ground_truth: True positions, (N, T, C), finite like the other arrays.
        pred: Predicted positions, (N, M, T, C).
        confidences: Probabilities of the modes, (N, M).
        avails: 1 where the truth is known, else 0, (N, T).
    """
    function: Any = metric
    options: dict[str, Any] = {}
    if isinstance(metric, functools.partial) and not metric.args:
        function, options = metric.func, metric.keywords
    of_batch = getattr(function, "__wrapped__", None)
    if of_batch is None or function is not globals().get(function.__name__):
        return None
    return _scores(of_batch, ground_truth, pred, confidences, avails, **options)


def _scores(of_batch: Callable[..., torch.Tensor], *arrays: FloatArray, **options: float) -> FloatArray:
    """Return a metric of N predictions in arrays.

    It is computed in float64 and returned in the floating dtype to which NumPy promotes the arrays used, which for
    displacements and misses exclude the confidences.
    """
    truth, pred, confidences, avails = arrays
    value = of_batch(*(torch.from_numpy(np.array(each, np.float64)) for each in arrays), **options)
    uses_confidences = not of_batch.__name__.endswith(("error_oracle", "error_mean", "miss_rate"))
    dtype = np.result_type(truth, pred, avails, *([confidences] if uses_confidences else []))
    with np.errstate(over="ignore"):
        scores: FloatArray = value.numpy().astype(dtype if np.issubdtype(dtype, np.floating) else np.float64)
    return scores


def _check_shapes(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> None:
    if pred.dim() != 4 or 0 in pred.shape[1:]:
        raise InvalidArgumentError(
            f"pred has shape {tuple(pred.shape)}; pass predictions, modes, steps and coordinates, (B, M, T, C)"
        )
    _require_others(ground_truth, pred, confidences, avails)


def _require_others(ground_truth: ArrayLike, pred: ArrayLike, confidences: ArrayLike, avails: ArrayLike) -> None:
    """Check that the other arguments, tensors or arrays, fit predictions (..., M, T, C)."""
    *batch, num_modes, num_steps, num_coords = np.shape(pred)
    for name, array, shape in (
        ("ground_truth", ground_truth, (*batch, num_steps, num_coords)),
        ("confidences", confidences, (*batch, num_modes)),
        ("avails", avails, (*batch, num_steps)),
    ):
        if tuple(np.shape(array)) != shape:
            raise InvalidArgumentError(
                f"{name} has shape {tuple(np.shape(array))}, but pred of shape {tuple(np.shape(pred))} needs {shape}"
            )


def _differences(ground_truth: torch.Tensor, pred: torch.Tensor, avails: torch.Tensor) -> torch.Tensor:
    """Return the errors of the coordinates, (B, M, T, C), 0 where not available."""
    return (ground_truth[:, None] - pred) * avails[:, None, :, None]


def _log_likelihoods(
    ground_truth: torch.Tensor, pred: torch.Tensor, confidences: torch.Tensor, avails: torch.Tensor
) -> torch.Tensor:
    """Return ell, (B, M); -inf without a gradient for a mode with confidence 0."""
    _check_shapes(ground_truth, pred, confidences, avails)
    # ell = log(c) - 0.5 * sum of squares; the inner `where` keeps log(0), whose gradient is NaN, out of the graph
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
