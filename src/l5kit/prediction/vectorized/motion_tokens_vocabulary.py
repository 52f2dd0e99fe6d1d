"""Vocabulary of motion tokens: displacements over the time of a token, clustered for each class of agents."""

from typing import Final

import numpy as np
from scipy.spatial import cKDTree

from l5kit._types import Float32Array, Float64Array, Int64Array
from l5kit.errors import InvalidArgumentError

AGENT_CLASSES: Final = ("vehicle", "cyclist", "pedestrian")
"""Classes of agents, each with tokens of its own; who is no cyclist and no pedestrian counts as a vehicle."""

LEVERS_M: Final = (2.0, 1.0, 0.3)
"""What a radian is worth, for each class: metres that a turn moves the ends of an agent."""

_MOST_FOR_CLUSTERS: Final = 20_000
_FINEST_M: Final = 0.01
_NUM_ROUNDS: Final = 20


def cluster_moves(moves: Float64Array, num_tokens: int, *, lever_m: float, seed: int = 0) -> Float64Array:
    """Return moves that stand for many: none at all first, then the centres of k-means, ascending.

    Moves that are nearly equal count once before they are clustered, so that the tokens cover all that there is and
    not mostly what is frequent, such as standing.

    Args:
        moves: x, y in metres and yaw in radians, (N, 3).
        num_tokens: How many there are to be, at most.
        lever_m: Metres that a radian is worth.
        seed: Decides where k-means starts.

    Returns:
        (V, 3) with V from 1 to ``num_tokens``; fewer than that where there are fewer moves.

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
    """Return the tokens of all classes; a class of which there is no move has those of all agents together.

    Args:
        moves: x, y in metres and yaw in radians, (N, 3), N at least 1.
        classes: Row in ``AGENT_CLASSES`` of each, (N,).
        num_tokens: Tokens of a class, at most.
        seed: Decides where k-means starts.

    Returns:
        The tokens, (C, num_tokens, 3) float32, zeros behind the last of a class; and how many each class has, (C,).

    Raises:
        InvalidArgumentError: There is no move, or a move is not finite.
    """
    if len(moves) == 0:
        raise InvalidArgumentError("moves are none; tokens need agents that are seen for as long as a token lasts")
    tokens = np.zeros((len(AGENT_CLASSES), num_tokens, 3), np.float32)
    sizes = np.zeros(len(AGENT_CLASSES), np.int64)
    for number, lever_m in enumerate(LEVERS_M):
        own = moves[classes == number]
        centres = cluster_moves(own if len(own) else moves, num_tokens, lever_m=lever_m, seed=seed)
        tokens[number, : len(centres)], sizes[number] = centres, len(centres)
    return tokens, sizes


def _thinned(points: Float64Array, cell_m: float) -> Float64Array:
    """Return one of the points in each cell of a grid."""
    _, firsts = np.unique(np.round(points / cell_m), axis=0, return_index=True)
    kept: Float64Array = points[np.sort(firsts)]
    return kept


def _k_means(points: Float64Array, num_centres: int, rng: np.random.Generator) -> Float64Array:
    """Return the centres of clusters (Lloyd), begun as by Arthur and Vassilvitskii, "k-means++" (2007)."""
    # each new centre is a point, drawn as likely as the square of its distance to the nearest centre so far
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
