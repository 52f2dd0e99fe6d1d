"""Distances between two distributions that are given as counts: Jensen-Shannon and Wasserstein."""

import numpy as np

from l5kit._types import Float64Array, NumericArray
from l5kit.errors import InvalidArgumentError


def jensen_shannon_distance(first: NumericArray, second: NumericArray) -> Float64Array:
    """Return the Jensen-Shannon distance: the square root of the divergence to base 2.

    With shares p and q of the bins and m = (p + q) / 2 it is sqrt((KL(p, m) + KL(q, m)) / 2), where KL(p, m) sums
    p log2(p / m) over the bins that p has. It is symmetric, fulfils the triangle inequality, and goes from 0 for equal
    shares to 1 where no bin is shared. Source: Endres and Schindelin, "A New Metric for Probability Distributions",
    2003.

    Args:
        first: Counts of bins, at least 0, (..., K).
        second: As ``first``.

    Returns:
        (...), NaN where either has no counts.

    Raises:
        InvalidArgumentError: The shapes differ.
    """
    p, q = _shares(first, second)
    middle = 0.5 * (p + q)
    divergences = 0.5 * (_relative_entropies(p, middle) + _relative_entropies(q, middle))
    distances: Float64Array = np.sqrt(np.clip(divergences, 0.0, 1.0))
    return distances


def wasserstein_distance(first: NumericArray, second: NumericArray, *, cell_width: float) -> Float64Array:
    """Return the Wasserstein distance of order 1: how far shares have to be moved, on average, to become the others.

    It is the area between the two cumulative shares. Values that were counted into cells count as their middles, which
    changes the distance by at most the width of a cell.

    Args:
        first: Counts of cells of equal width, at least 0, (..., K).
        second: As ``first``.
        cell_width: Any unit.

    Returns:
        In that unit, (...), NaN where either has no counts.

    Raises:
        InvalidArgumentError: The shapes differ.
    """
    p, q = _shares(first, second)
    apart = np.abs(np.cumsum(p, axis=-1) - np.cumsum(q, axis=-1))
    distances: Float64Array = cell_width * apart[..., :-1].sum(axis=-1)
    return distances


def _shares(first: NumericArray, second: NumericArray) -> tuple[Float64Array, Float64Array]:
    """Return counts over their sums, NaN where these are 0."""
    if first.shape != second.shape or first.ndim == 0:
        raise InvalidArgumentError(
            f"counts to compare must have one shape (..., K), got {first.shape} and {second.shape}"
        )
    sums = first.sum(axis=-1, keepdims=True), second.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        p, q = first / sums[0], second / sums[1]
    return p, q


def _relative_entropies(shares: Float64Array, others: Float64Array) -> Float64Array:
    """Return how many bits shares (..., K) are from others that are above 0 where they are, (...)."""
    is_empty = shares == 0
    logs = np.log2(np.where(is_empty, 1.0, shares) / np.where(is_empty, 1.0, others))
    entropies: Float64Array = (shares * logs).sum(axis=-1)
    return entropies
