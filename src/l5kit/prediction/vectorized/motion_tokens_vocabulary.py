"""Vocabulary of motion tokens: moves over the duration of a token, clustered for each agent class."""

from typing import Final

import numpy as np
from scipy.spatial import cKDTree

from l5kit._types import Float32Array, Float64Array, Int64Array
from l5kit.errors import InvalidArgumentError

AGENT_CLASSES: Final = ("vehicle", "cyclist", "pedestrian")
"""Agent classes, each with its own tokens; all except cyclists and pedestrians count as vehicles."""

LEVERS_M: Final = (2.0, 1.0, 0.3)
"""Weight of a radian in metres for each class: the distance that a turn moves the ends of an agent."""

_MOST_FOR_CLUSTERS: Final = 20_000
_FINEST_M: Final = 0.01
_NUM_ROUNDS: Final = 20


def cluster_moves(moves: Float64Array, num_tokens: int, *, lever_m: float, seed: int = 0) -> Float64Array:
    """Return representatives of many moves: the zero move first, then the k-means centres, ascending.

    Nearly equal moves are merged before clustering, so that the tokens cover the whole range of moves and not mostly
    the frequent ones, such as standing.

    Args:
        moves: x, y in metres and yaw in radians, (N, 3).
        num_tokens: Largest number of tokens.
        lever_m: Weight of a radian in metres.
        seed: Seed of k-means.

    Returns:
        (V, 3) with V from 1 to ``num_tokens``; fewer than ``num_tokens`` if there are too few distinct moves.

    Raises:
        InvalidArgumentError: ``num_tokens`` is below 1, or a move is not finite.
    """
    if num_tokens < 1 or not np.isfinite(moves).all():
        raise InvalidArgumentError(f"num_tokens is {num_tokens}, it must be at least 1; and all moves must be finite")
    none = np.zeros((1, 3))
    scale = np.array([1.0, 1.0, lever_m])
    scaled, cell_m = np.asarray(moves, np.float64) * scale, _FINEST_M
    thinned = _thinned(scaled, cell_m)
    while len(thinned) > _MOST_FOR_CLUSTERS:
        cell_m *= 1.5
        thinned = _thinned(scaled, cell_m)
    thinned = thinned[(np.abs(thinned) > _FINEST_M).any(axis=1)]
    if len(thinned) > num_tokens - 1 > 0:
        thinned = _k_means(thinned, num_tokens - 1, np.random.default_rng(seed))
    chosen = thinned[np.lexsort(thinned.T[::-1])][: num_tokens - 1] / scale
    return np.concatenate([none, chosen])


def make_vocabulary(
    moves: Float64Array, classes: Int64Array, num_tokens: int, *, seed: int = 0
) -> tuple[Float32Array, Int64Array]:
    """Return the tokens of all classes; a class without moves gets the tokens of all agents together.

    Args:
        moves: x, y in metres and yaw in radians, (N, 3), N at least 1.
        classes: Row of ``AGENT_CLASSES`` for each move, (N,).
        num_tokens: Largest number of tokens of a class.
        seed: Seed of k-means.

    Returns:
        Tokens, (C, num_tokens, 3) float32, padded with zeros; and the number of tokens of each class, (C,).

    Raises:
        InvalidArgumentError: There are no moves, or a move is not finite.
    """
    if len(moves) == 0:
        raise InvalidArgumentError("there are no moves; tokens need agents that are visible for their duration")
    tokens = np.zeros((len(AGENT_CLASSES), num_tokens, 3), np.float32)
    sizes = np.zeros(len(AGENT_CLASSES), np.int64)
    for number, lever_m in enumerate(LEVERS_M):
        own = moves[classes == number]
        centres = cluster_moves(own if len(own) else moves, num_tokens, lever_m=lever_m, seed=seed)
        tokens[number, : len(centres)], sizes[number] = centres, len(centres)
    return tokens, sizes


def _thinned(points: Float64Array, cell_m: float) -> Float64Array:
    """Return one point for each occupied cell of a grid."""
    _, firsts = np.unique(np.round(points / cell_m), axis=0, return_index=True)
    kept: Float64Array = points[np.sort(firsts)]
    return kept


def _k_means(points: Float64Array, num_centres: int, rng: np.random.Generator) -> Float64Array:
    """Return k-means centres (Lloyd), initialised by Arthur and Vassilvitskii, "k-means++" (2007)."""
    # each new centre is a point, drawn with probability proportional to its squared distance to the nearest centre
    centres = np.empty((num_centres, points.shape[1]))
    nearest_squared = np.full(len(points), np.inf)
    row = int(rng.integers(len(points)))
    for number in range(num_centres):
        centres[number] = points[row]
        nearest_squared = np.minimum(nearest_squared, ((points - centres[number]) ** 2).sum(axis=1))
        row = int(np.searchsorted(np.cumsum(nearest_squared), rng.random() * nearest_squared.sum(), side="right"))
        row = min(row, len(points) - 1)
    for _ in range(_NUM_ROUNDS):
        _, owners = cKDTree(centres).query(points)
        counts = np.bincount(owners, minlength=num_centres)
        sums = np.stack([np.bincount(owners, column, num_centres) for column in points.T], axis=1)
        is_used = counts > 0
        centres[is_used] = sums[is_used] / counts[is_used, None]
    return centres
