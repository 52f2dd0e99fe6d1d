"""Comfort of proposals: the smoothed signals of the score, one proposal after the other."""

import numpy as np
from numba import njit

from l5kit._types import Float64Array, Int64Array
from l5kit.evaluation.driving.comfort import COMFORT_BOUNDS
from l5kit.evaluation.driving.smoothing import smoothing_matrix
from l5kit.simulation.drivers.proposal_rollout import ACCELERATION, ACROSS, YAW

Band = tuple[Float64Array, Int64Array, Int64Array]
"""A matrix (N, N), and the first column of each of its rows that is not 0, and the end of these."""

ComfortFilters = tuple[Band, Band, Band, Band, Float64Array]
"""Filters of accelerations, of their slopes, of yaw rates and of yaw accelerations, and the bounds (6, 2)."""


def comfort_filters(num_samples: int) -> ComfortFilters:
    """Return the filters of signals of some samples, and the bounds of comfort."""
    return (
        _band(smoothing_matrix(num_samples, 8, order=2)),
        _band(smoothing_matrix(num_samples, 15, order=2, derivative=1)),
        _band(smoothing_matrix(num_samples, 5, order=2, derivative=1)),
        _band(smoothing_matrix(num_samples, 5, order=3, derivative=2)),
        np.array(list(COMFORT_BOUNDS.values())),
    )


def _band(matrix: Float64Array) -> Band:
    is_used = matrix != 0
    return matrix, is_used.argmax(axis=1), matrix.shape[1] - is_used[:, ::-1].argmax(axis=1)


@njit(nogil=True, cache=True, error_model="numpy")
def is_comfortable(states: Float64Array, step_s: float, filters: ComfortFilters) -> bool:
    """Return whether all signals of states (T + 1, 7) are within the bounds of the score."""
    smooth, slope, turn, bend, bounds = filters
    size, scratch = np.empty(len(states)), np.empty(len(states))
    for step in range(len(states)):
        size[step] = np.sqrt(states[step, ACCELERATION] ** 2 + states[step, ACROSS] ** 2)
    is_fine = _keeps(smooth, states[:, ACCELERATION], 1.0, bounds[0], scratch)
    is_fine = is_fine and _keeps(slope, scratch, step_s, bounds[3], size[:0])
    is_fine = is_fine and _keeps(smooth, states[:, ACROSS], 1.0, bounds[1], scratch)
    is_fine = is_fine and _keeps(smooth, size, 1.0, np.array([-np.inf, np.inf]), scratch)
    is_fine = is_fine and _keeps(slope, scratch, step_s, bounds[2], size[:0])
    is_fine = is_fine and _keeps(turn, states[:, YAW], step_s, bounds[4], size[:0])
    return is_fine and _keeps(bend, states[:, YAW], step_s * step_s, bounds[5], size[:0])


@njit(nogil=True, cache=True, error_model="numpy")
def _keeps(band: Band, signal: Float64Array, unit: float, bounds: Float64Array, filtered: Float64Array) -> bool:
    """Write a filtered signal where there is room for it, and return whether all of it is within bounds."""
    matrix, firsts, stops = band
    is_within = True
    for row in range(len(signal)):
        value = 0.0
        for column in range(firsts[row], stops[row]):
            value += matrix[row, column] * signal[column]
        value /= unit
        if row < len(filtered):
            filtered[row] = value
        is_within = is_within and bounds[0] <= value <= bounds[1]
    return is_within
