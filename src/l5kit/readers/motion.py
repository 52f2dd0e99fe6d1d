"""Velocities of tracks from their positions, for sources that tell none."""

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array

__all__ = ["velocities_of"]


def velocities_of(positions_m: Float64Array, is_valid: BoolArray, timestamps_ns: Int64Array) -> Float64Array:
    """Return velocities by central differences over the neighbouring steps in which a track is seen.

    At the ends of a run of steps the difference to the one neighbour is taken; a track that is seen in one step alone
    stands. Steps on the other side of a gap are no neighbours.

    Args:
        positions_m: x and y, or more axes, (N, T, D); where not valid they mean nothing.
        is_valid: Whether a track is seen, (N, T).
        timestamps_ns: Ascending, int64, (T,).

    Returns:
        Metres per second, float64, (N, T, D); 0 where not valid.
    """
    steps = np.arange(is_valid.shape[1])
    seen_before = np.zeros_like(is_valid)
    seen_after = np.zeros_like(is_valid)
    seen_before[:, 1:] = is_valid[:, :-1]
    seen_after[:, :-1] = is_valid[:, 1:]
    first = np.where(seen_before, steps - 1, steps)
    last = np.where(seen_after, steps + 1, steps)
    rows = np.arange(len(is_valid))[:, None]
    times_s = (timestamps_ns - timestamps_ns[:1]) / 1e9
    positions = np.where(is_valid[..., None], positions_m, 0.0)
    passed_s = np.where(last > first, times_s[last] - times_s[first], 1.0)
    velocities_mps: Float64Array = (positions[rows, last] - positions[rows, first]) / passed_s[..., None]
    return np.where(is_valid[..., None], velocities_mps, 0.0)
