"""Runs of frames in which something happens, and how fast values change around frames."""

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array


def find_runs(is_marked: BoolArray, times_s: Float64Array, *, merge_s: float) -> Int64Array:
    """Return the runs of marked frames; those with no more than ``merge_s`` between them are one.

    Args:
        is_marked: (F,).
        times_s: (F,), growing.
        merge_s: From the last frame of a run to the first of the next.

    Returns:
        First frame of each run and the one behind its last, int64 (R, 2).
    """
    frames = np.flatnonzero(is_marked)
    if len(frames) == 0:
        return np.zeros((0, 2), np.int64)
    is_apart = (np.diff(frames) > 1) & (np.diff(times_s[frames]) > merge_s + 1e-9)
    breaks = np.flatnonzero(is_apart)
    firsts = frames[np.concatenate([[0], breaks + 1])]
    lasts = frames[np.concatenate([breaks, [len(frames) - 1]])]
    return np.column_stack([firsts, lasts + 1])


def rates_around(values: Float64Array, times_s: Float64Array, window_s: float) -> Float64Array:
    """Return the mean rate of values (F,) over a window around each frame, cut off at both ends of the scene.

    Rates of less than half a window are 0.
    """
    starts_s = np.maximum(times_s - 0.5 * window_s, times_s[0])
    ends_s = np.minimum(times_s + 0.5 * window_s, times_s[-1])
    changes, spans_s = np.interp(ends_s, times_s, values) - np.interp(starts_s, times_s, values), ends_s - starts_s
    rates: Float64Array = np.zeros(len(values))
    np.divide(changes, spans_s, out=rates, where=spans_s >= 0.5 * window_s - 1e-9)
    return rates
