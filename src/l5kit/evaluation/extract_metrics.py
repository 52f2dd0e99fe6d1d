"""Metrics of a file of predictions against a file of true positions."""

import functools
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from l5kit._types import NumericArray
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.csv_rows import listed
from l5kit.evaluation.csv_utils import MAX_MODES, KeyedRow, PredictedRow, TrueRow, read_gt_csv, read_pred_csv
from l5kit.evaluation.metrics import metric_signature, scores_of_many
from l5kit.evaluation.selection_parity import MASK_FILE, Selection, check_selection_parity

if TYPE_CHECKING:
    from l5kit.dataset.agent import AgentDataset

_R = TypeVar("_R", bound=KeyedRow)

RowKey = tuple[str, str]
"""Track and time of a row, as text in the file."""

_HINT = (
    "there must be one prediction for each row of the truth: predict with AgentDataset(..., agents_mask=mask), where "
    "mask is the array arr_0 in the mask.npz next to the chopped dataset"
)


def compute_metrics_csv(
    ground_truth_path: str | os.PathLike[str],
    inference_output_path: str | os.PathLike[str],
    metrics: Sequence[metric_signature],
    max_modes: int = MAX_MODES,
    *,
    trained_on: "AgentDataset | Selection | None" = None,
) -> dict[str, Any]:
    """Return the mean of each metric over the rows of a file of predictions.

    Args:
        ground_truth_path: File of true positions.
        inference_output_path: File of predictions, with exactly one row for each true one.
        metrics: Functions such as those of :mod:`l5kit.evaluation.metrics`; ``functools.partial`` sets their options.
        max_modes: Number of modes in the file of predictions. Modes filled with zeros count in metrics that ignore
            confidences (ADE and FDE): write and read such files with no more modes than the model has.
        trained_on: Training data of the model. If its agents were selected differently from those of the test set next
            to the file of true positions, a ``RuntimeWarning`` lists the differences.

    Returns:
        The means by name of the metric (and options of a ``partial``): a number, or an array for metrics that return
        one. A metric that is not finite in some rows gives a ``RuntimeWarning`` that names them.

    Raises:
        FileNotFoundError: A file does not exist.
        InvalidArgumentError: No metric is given or two have the same name, a file cannot be read or has two rows for
            one track and time, rows are missing in one of the files, or a metric fails for a row. All such rows are
            listed, up to a limit.
    """
    if len(metrics) == 0:
        raise InvalidArgumentError("metrics is empty; pass at least one function")
    names = [_name_of(metric) for metric in metrics]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(f"metrics has {', '.join(twice)} more than once; pass each metric once")
    truth = _by_key(ground_truth_path, read_gt_csv(ground_truth_path))
    predictions = _by_key(inference_output_path, read_pred_csv(inference_output_path, max_modes))
    problem = _describe_difference(truth, predictions)
    if problem:
        raise InvalidArgumentError(
            f"the rows of {os.fspath(inference_output_path)!r} are not those of {os.fspath(ground_truth_path)!r}: "
            f"{problem}; {_HINT}"
        )
    if not truth:
        raise InvalidArgumentError(f"{os.fspath(ground_truth_path)!r} has no rows, so there is nothing to average")
    folder = Path(ground_truth_path).parent
    if trained_on is not None and (folder / MASK_FILE).is_file():
        check_selection_parity(folder, trained_on)
    elif trained_on is not None:
        warnings.warn(
            f"whether the model was trained on agents like those of {str(Path(ground_truth_path))!r} cannot be "
            f"checked: there is no {MASK_FILE} next to it",
            RuntimeWarning,
            stacklevel=2,
        )
    return {name: _mean(name, metric, truth, predictions) for name, metric in zip(names, metrics, strict=True)}


def validate_dicts(ground_truth: Mapping[Any, object], predicted: Mapping[Any, object]) -> bool:
    """Return whether two dictionaries have the same keys; if not, print the differences.

    Args:
        ground_truth: True positions by key.
        predicted: Predicted positions by key.
    """
    problem = _describe_difference(ground_truth, predicted)
    if problem:
        print(problem)  # noqa: T201 - 1.x prints this
    return not problem


def _describe_difference(ground_truth: Collection[object], predicted: Collection[object]) -> str:
    """Return the differences between two collections of keys; an empty text without any."""
    missing = [_describe_key(key) for key in ground_truth if key not in predicted]
    unknown = [_describe_key(key) for key in predicted if key not in ground_truth]
    parts = []
    if len(ground_truth) != len(predicted):
        parts.append(f"{len(ground_truth)} rows of truth, {len(predicted)} predicted")
    if missing:
        parts.append(f"{len(missing)} missing in the predictions: {listed(missing)}")
    if unknown:
        parts.append(f"{len(unknown)} predicted but unknown: {listed(unknown)}")
    return ". ".join(parts)


def _describe_key(key: object) -> str:
    return f"track {key[0]} at {key[1]}" if isinstance(key, tuple) and len(key) == 2 else str(key)


def _by_key(path: str | os.PathLike[str], rows: Iterable[_R]) -> dict[RowKey, _R]:
    """Return rows by track and time."""
    by_key: dict[RowKey, _R] = {}
    twice = []
    for row in rows:
        key = (row["track_id"], row["timestamp"])
        if key in by_key:
            twice.append(_describe_key(key))
        by_key[key] = row
    if twice:
        raise InvalidArgumentError(
            f"{os.fspath(path)!r} has {len(twice)} rows with the track and time of another row: {listed(twice)}; keep "
            "one of each"
        )
    return by_key


def _name_of(metric: Callable[..., object]) -> str:
    if not isinstance(metric, functools.partial):
        return getattr(metric, "__name__", type(metric).__name__)
    options = [*map(repr, metric.args), *(f"{name}={value!r}" for name, value in metric.keywords.items())]
    return f"{_name_of(metric.func)}({', '.join(options)})"


def _mean(
    name: str,
    metric: metric_signature,
    truth: Mapping[RowKey, TrueRow],
    predictions: Mapping[RowKey, PredictedRow],
) -> object:
    """Return the mean of a metric over rows with the same keys."""
    # metrics of l5kit are computed for all rows at once, unless a row is invalid, which they report row by row
    pairs = [(row, predictions[key]) for key, row in truth.items()]
    coords, avails = (np.stack([row[name] for row, _ in pairs]) for name in ("coord", "avail"))
    pred, confidences = (np.stack([row[name] for _, row in pairs]) for name in ("coords", "conf"))
    are_probabilities = np.allclose(confidences.sum(axis=1), 1) and (confidences >= 0).all()
    are_finite = all(np.isfinite(each).all() for each in (coords, pred, avails))
    together = None
    if are_probabilities and are_finite and pred.shape[2:] == coords.shape[1:]:
        together = scores_of_many(metric, coords, pred, confidences, avails)
    if together is not None:
        _warn_where_not_finite(name, list(truth), together)
        return np.mean(together, axis=0)
    values, problems = [], []
    for key, row in truth.items():
        predicted = predictions[key]
        try:
            values.append(metric(row["coord"], predicted["coords"], predicted["conf"], row["avail"]))
        except InvalidArgumentError as error:
            problems.append(f"{_describe_key(key)}: {error}")
    if problems:
        raise InvalidArgumentError(f"{name} cannot be computed for {len(problems)} rows: {listed(problems)}")
    _warn_where_not_finite(name, list(truth), np.array(values))
    return np.mean(values, axis=0)


def _warn_where_not_finite(name: str, keys: list[RowKey], values: NumericArray) -> None:
    is_finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if not is_finite.all():
        rows = [_describe_key(keys[row]) for row in np.flatnonzero(~is_finite).tolist()]
        warnings.warn(
            f"{name} is not finite in {len(rows)} rows, and so is its mean: {listed(rows)}",
            RuntimeWarning,
            stacklevel=4,
        )
