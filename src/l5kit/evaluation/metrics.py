"""Open-loop metrics of one prediction with several modes, and what closed-loop metrics are made of.

All prediction metrics take the same four arrays: ``ground_truth`` (T, C), ``pred`` (M, T, C), ``confidences`` (M,) that
sum to 1, and ``avails`` (T,), 1 where the truth is known and 0 elsewhere. Distances are in the unit of the coordinates,
metres throughout l5kit. A step that is not available counts as an error of 0 and stays in means, as in the metrics of
the competition that the dataset was published with; ``only_available=True`` leaves such steps out.

Results have the dtype of what they are made of: float32 for float32 arrays, float64 as soon as one array is of float64
or of integers. They are computed in float64, by :mod:`l5kit.evaluation.batched_metrics`, which has the same metrics for
batches of tensors; what these functions add are the checks and the types of L5Kit 1.5.

Notation: e[m, t] is the squared distance of mode m at step t (0 where not available), and ell[m] is
ln confidence[m] - 0.5 * sum over t of e[m, t], the log-likelihood of mode m, up to a constant, when each coordinate is
normally distributed with variance 1.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from l5kit._types import FloatArray
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.collision import CollisionType, detect_collision
from l5kit.evaluation.thresholds import MISS_THRESHOLD_M

if TYPE_CHECKING:
    import torch

__all__ = [
    "MISS_THRESHOLD_M",
    "CollisionType",
    "average_displacement_error_mean",
    "average_displacement_error_oracle",
    "detect_collision",
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
"""Takes ``ground_truth``, ``pred``, ``confidences`` and ``avails`` and returns a number or an array."""


def neg_multi_log_likelihood(
    ground_truth: FloatArray, pred: FloatArray, confidences: FloatArray, avails: FloatArray
) -> np.floating:
    """Return -ln of the sum over modes of exp(ell), up to the constant of the normal distribution.

    The largest ell is factored out, so that no distance is too large.

    Args:
        ground_truth: True positions, (T, C).
        pred: Predicted positions, (M, T, C).
        confidences: Probabilities of the modes, (M,).
        avails: 1 where the truth is known, else 0, (T,).

    Raises:
        InvalidArgumentError: Shapes do not fit, a number is not finite, or the confidences are no probabilities.
    """
    return _number("neg_multi_log_likelihood", ground_truth, pred, confidences, avails)


def rmse(ground_truth: FloatArray, pred: FloatArray, confidences: FloatArray, avails: FloatArray) -> np.floating:
    """Return sqrt(2 * :func:`neg_multi_log_likelihood` / T), with a likelihood rounded to below 0 taken as 0.

    Of a single mode it is the root mean squared distance over the steps. Arguments and errors as there.
    """
    return _number("rmse", ground_truth, pred, confidences, avails)


def prob_true_mode(
    ground_truth: FloatArray, pred: FloatArray, confidences: FloatArray, avails: FloatArray
) -> FloatArray:
    """Return the probability of each mode given the truth, the softmax of ell, (M,).

    Arguments and errors as for :func:`neg_multi_log_likelihood`.
    """
    return _score("prob_true_mode", ground_truth, pred, confidences, avails)


def time_displace(
    ground_truth: FloatArray, pred: FloatArray, confidences: FloatArray, avails: FloatArray
) -> FloatArray:
    """Return for each step the distances of the modes weighted with :func:`prob_true_mode`, (T,).

    Arguments and errors as for :func:`neg_multi_log_likelihood`.
    """
    return _score("time_displace", ground_truth, pred, confidences, avails)


def average_displacement_error_oracle(
    ground_truth: FloatArray,
    pred: FloatArray,
    confidences: FloatArray,
    avails: FloatArray,
    *,
    only_available: bool = False,
) -> np.floating:
    """Return the distance averaged over the steps, of the mode for which it is smallest.

    As in L5Kit 1.5, steps whose truth is not known count as distance 0; what l5kit calls ADE is over known steps only,
    which is ``only_available=True``.

    Args:
        ground_truth: True positions, (T, C).
        pred: Predicted positions, (M, T, C).
        confidences: Probabilities of the modes, (M,).
        avails: 1 where the truth is known, else 0, (T,).
        only_available: Average over the available steps, NaN without any, instead of over all T.

    Raises:
        InvalidArgumentError: Shapes do not fit, a number is not finite, or the confidences are no probabilities.
    """
    return _average_displacement_error(ground_truth, pred, confidences, avails, "oracle", only_available=only_available)


def average_displacement_error_mean(
    ground_truth: FloatArray,
    pred: FloatArray,
    confidences: FloatArray,
    avails: FloatArray,
    *,
    only_available: bool = False,
) -> np.floating:
    """Return the distance averaged over the steps and over the modes, whatever their confidences.

    Arguments and errors as for :func:`average_displacement_error_oracle`.
    """
    return _average_displacement_error(ground_truth, pred, confidences, avails, "mean", only_available=only_available)


def final_displacement_error_oracle(
    ground_truth: FloatArray,
    pred: FloatArray,
    confidences: FloatArray,
    avails: FloatArray,
    *,
    only_available: bool = False,
) -> np.floating:
    """Return the distance at the last step, of the mode for which it is smallest.

    Arguments and errors as for :func:`average_displacement_error_oracle`, but ``only_available`` takes the last step
    that is available, where otherwise a last step that is not available makes the error 0.
    """
    return _final_displacement_error(ground_truth, pred, confidences, avails, "oracle", only_available=only_available)


def final_displacement_error_mean(
    ground_truth: FloatArray,
    pred: FloatArray,
    confidences: FloatArray,
    avails: FloatArray,
    *,
    only_available: bool = False,
) -> np.floating:
    """Return the distance at the last step averaged over the modes, whatever their confidences.

    Arguments and errors as for :func:`final_displacement_error_oracle`.
    """
    return _final_displacement_error(ground_truth, pred, confidences, avails, "mean", only_available=only_available)


def miss_rate(
    ground_truth: FloatArray,
    pred: FloatArray,
    confidences: FloatArray,
    avails: FloatArray,
    *,
    threshold_m: float = MISS_THRESHOLD_M,
) -> np.floating:
    """Return 1 if every mode is further than a distance from the truth at the last available step, else 0.

    The mean over predictions is the miss rate. Without any available step it is NaN. Modes of confidence 0 do not
    count: files are filled up with such.

    Args:
        ground_truth: True positions, (T, C).
        pred: Predicted positions, (M, T, C).
        confidences: Probabilities of the modes, (M,).
        avails: 1 where the truth is known, else 0, (T,).
        threshold_m: The distance.

    Raises:
        InvalidArgumentError: Shapes do not fit, a number is not finite, or the confidences are no probabilities.
    """
    return _number("miss_rate", ground_truth, pred, confidences, avails, threshold_m=threshold_m)


def distance_to_reference_trajectory(pred_centroid: "torch.Tensor", ref_traj: "torch.Tensor") -> "torch.Tensor":
    """Return the distance of positions to the nearest point of a reference trajectory.

    Args:
        pred_centroid: Positions in metres, (B, 2).
        ref_traj: Points of the trajectories in metres, (B, N, 2), or (1, N, 2) for one that all share.

    Returns:
        Distances in metres, (B,).

    Raises:
        InvalidArgumentError: A shape is not as above.
    """
    if pred_centroid.dim() != 2 or pred_centroid.shape[-1] != 2:
        raise InvalidArgumentError(f"pred_centroid has shape {tuple(pred_centroid.shape)}; pass positions, (B, 2)")
    size = len(pred_centroid)
    if ref_traj.dim() != 3 or ref_traj.shape[-1] != 2 or len(ref_traj) not in (1, size) or ref_traj.shape[1] == 0:
        raise InvalidArgumentError(
            f"ref_traj has shape {tuple(ref_traj.shape)}; pass points of shape ({size}, N, 2) or (1, N, 2), N > 0"
        )
    import torch

    distances: torch.Tensor = torch.linalg.vector_norm(pred_centroid.unsqueeze(1) - ref_traj, dim=-1)
    return distances.amin(dim=-1)


def _assert_shapes(ground_truth: FloatArray, pred: FloatArray, confidences: FloatArray, avails: FloatArray) -> None:
    """Check what all prediction metrics need.

    Raises:
        InvalidArgumentError: Shapes do not fit, a number is not finite, or the confidences are no probabilities.
    """
    if np.ndim(pred) != 3:
        raise InvalidArgumentError(f"pred has shape {np.shape(pred)}; pass modes, steps and coordinates, (M, T, C)")
    num_modes, num_steps, num_coords = np.shape(pred)
    arrays = {"ground_truth": ground_truth, "pred": pred, "confidences": confidences, "avails": avails}
    wanted = {"ground_truth": (num_steps, num_coords), "confidences": (num_modes,), "avails": (num_steps,)}
    for name, shape in wanted.items():
        if np.shape(arrays[name]) != shape:
            raise InvalidArgumentError(
                f"{name} has shape {np.shape(arrays[name])}, but pred of shape {np.shape(pred)} needs {shape}"
            )
    if num_modes == 0 or num_steps == 0:
        raise InvalidArgumentError(f"pred has shape {np.shape(pred)}; at least one mode and one step are needed")
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise InvalidArgumentError(
                f"{name} holds NaN or infinity; steps without truth need avails 0 and any number"
            )
    _require_probabilities(confidences)


def _require_probabilities(confidences: FloatArray) -> None:
    total = float(np.sum(confidences))
    if not np.allclose(total, 1) or (np.asarray(confidences) < 0).any():
        raise InvalidArgumentError(
            f"confidences must be at least 0 and sum to 1, got {np.asarray(confidences).tolist()}, which sum to {total}"
        )


def _average_displacement_error(
    ground_truth: FloatArray,
    pred: FloatArray,
    confidences: FloatArray,
    avails: FloatArray,
    mode: str,
    *,
    only_available: bool = False,
) -> np.floating:
    """Return the displacement averaged over steps, and reduced over modes by ``mode``, "oracle" or "mean"."""
    name = f"average_displacement_error_{_known_mode(mode)}"
    return _number(name, ground_truth, pred, confidences, avails, only_available=only_available)


def _final_displacement_error(
    ground_truth: FloatArray,
    pred: FloatArray,
    confidences: FloatArray,
    avails: FloatArray,
    mode: str,
    *,
    only_available: bool = False,
) -> np.floating:
    """Return the displacement at the last step, reduced over modes by ``mode``, "oracle" or "mean"."""
    name = f"final_displacement_error_{_known_mode(mode)}"
    return _number(name, ground_truth, pred, confidences, avails, only_available=only_available)


def _known_mode(mode: str) -> str:
    if mode not in ("oracle", "mean"):
        raise InvalidArgumentError(f"mode must be 'oracle' or 'mean', got {mode!r}")
    return mode


def scores_of_many(
    metric: metric_signature,
    ground_truth: FloatArray,
    pred: FloatArray,
    confidences: FloatArray,
    avails: FloatArray,
) -> FloatArray | None:
    """Return a metric of this module for N predictions at once, (N, ...); None for one of somebody else.

    Args:
        metric: The function, or a ``functools.partial`` of it with options by name.
        ground_truth: True positions, (N, T, C).
        pred: Predicted positions, (N, M, T, C), finite, like the others.
        confidences: Probabilities of the modes, (N, M).
        avails: 1 where the truth is known, else 0, (N, T).
    """
    from l5kit.evaluation import batched_metrics

    function: object = metric
    options: dict[str, Any] = {}
    if isinstance(metric, functools.partial) and not metric.args:
        function, options = metric.func, metric.keywords
    name = getattr(function, "__name__", "")
    if name not in batched_metrics.__all__ or function is not globals().get(name):
        return None
    return _scores(name, ground_truth, pred, confidences, avails, **options)


def _score(name: str, *arrays: FloatArray, **options: float) -> FloatArray:
    """Return a metric of :mod:`l5kit.evaluation.batched_metrics` for one prediction."""
    _assert_shapes(*arrays)
    score: FloatArray = _scores(name, *(np.asarray(array)[None] for array in arrays), **options)[0]
    return score


def _scores(name: str, *arrays: FloatArray, **options: float) -> FloatArray:
    """Return a metric of :mod:`l5kit.evaluation.batched_metrics` for N predictions.

    It is computed in float64 and handed out in the floating dtype to which NumPy brings the arrays it is made of, which
    for displacements and misses are not the confidences.
    """
    import torch

    from l5kit.evaluation import batched_metrics

    truth, pred, confidences, avails = arrays
    value = getattr(batched_metrics, name)(
        *(torch.from_numpy(np.array(each, np.float64)) for each in arrays), **options
    )
    uses_confidences = not name.endswith(("error_oracle", "error_mean", "miss_rate"))
    dtype = np.result_type(truth, pred, avails, *([confidences] if uses_confidences else []))
    with np.errstate(over="ignore"):
        found: FloatArray = value.numpy().astype(dtype if np.issubdtype(dtype, np.floating) else np.float64)
    return found


def _number(name: str, *arrays: FloatArray, **options: float) -> np.floating:
    """Return what :func:`_score` does as a scalar of its dtype."""
    number = _score(name, *arrays, **options)
    return number.dtype.type(number)
