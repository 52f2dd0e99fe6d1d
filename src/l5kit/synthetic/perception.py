"""What the AV perceives of a scene: detection range, hidden views, tracks that begin and end."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array

_BEGIN_FRAMES, _END_FRAMES = 2, 5
_SIGHT_WIDTH_M = 0.6


@dataclass(frozen=True)
class Objects:
    """Everything around the AV in T frames: E objects.

    Args:
        exists: whether the object is in the world, (T, E).
        box: x, y, yaw, length, width, (T, E, 5).
        speed_mps: speeds, (T, E).
        height_m: heights, (E,).
        label: perception label, (E,).
        range_m: distance up to which the AV detects the object, (E,).
        hides: whether things behind the object are hidden, (E,).
        dropout_rate: chance a frame that the detector loses the object for a while, (E,).
    """

    exists: BoolArray
    box: Float64Array
    speed_mps: Float64Array
    height_m: Float64Array
    label: Int64Array
    range_m: Float64Array
    hides: BoolArray
    dropout_rate: Float64Array


def track_numbers(objects: Objects, av_xy_m: Float64Array, rng: np.random.Generator) -> Int64Array:
    """Number the tracks under which the AV sees each object in each frame, 0 where it does not; (T, E).

    A track begins once an object has been seen in two frames, goes on through short gaps, and ends when the object
    leaves the detection range, stays hidden or is lost; seen again, it gets a new number. Numbers start at 1 in the
    order in which tracks begin.
    """
    seen = _visible(objects.exists, objects.box, objects.range_m, objects.hides, av_xy_m)
    seen &= ~_dropouts(objects.dropout_rate, rng.random(seen.shape))
    seen_again = np.zeros_like(seen)
    _join_frames(seen, objects.exists, seen_again)
    begins = seen_again & ~np.concatenate([np.zeros((1, seen.shape[1]), bool), seen_again[:-1]])
    number = np.zeros(seen.shape, np.int64)
    number[begins] = 1 + np.arange(begins.sum())
    return np.where(seen_again, np.maximum.accumulate(number, axis=0), 0)


@njit(nogil=True, cache=True)
def _visible(
    exists: BoolArray, box: Float64Array, range_m: Float64Array, hides: BoolArray, av_xy_m: Float64Array
) -> BoolArray:
    """Tell which objects are in range with a free line of sight to their centre, (T, E)."""
    seen = np.zeros(exists.shape, dtype=np.bool_)
    for t in range(exists.shape[0]):
        for e in range(exists.shape[1]):
            if not exists[t, e]:
                continue
            dx, dy = box[t, e, 0] - av_xy_m[t, 0], box[t, e, 1] - av_xy_m[t, 1]
            if dx * dx + dy * dy < range_m[e] ** 2:
                seen[t, e] = not _is_hidden(exists[t], box[t], hides, av_xy_m[t], e)
    return seen


@njit(nogil=True, cache=True)
def _is_hidden(exists: BoolArray, box: Float64Array, hides: BoolArray, av_xy_m: Float64Array, e: int) -> bool:
    dx, dy = box[e, 0] - av_xy_m[0], box[e, 1] - av_xy_m[1]
    square = dx * dx + dy * dy + 1e-9
    distance = np.sqrt(square)
    for other in range(exists.shape[0]):
        if other == e or not hides[other] or not exists[other]:
            continue
        ox, oy = box[other, 0] - av_xy_m[0], box[other, 1] - av_xy_m[1]
        along = (ox * dx + oy * dy) / square
        if 0.0 < along < 1.0 - 3.0 / distance and abs(ox * dy - oy * dx) / distance < _SIGHT_WIDTH_M:
            return True
    return False


@njit(nogil=True, cache=True)
def _dropouts(rate: Float64Array, draws: Float64Array) -> BoolArray:
    """Mark the frames in which the detector has lost an object: bursts of 6 to 25 frames, (T, E)."""
    lost = np.zeros(draws.shape, dtype=np.bool_)
    for e in range(draws.shape[1]):
        left = 0
        for t in range(draws.shape[0]):
            if left == 0 and draws[t, e] < rate[e]:
                left = 6 + int(20.0 * draws[t, e] / rate[e])
            if left > 0:
                lost[t, e] = True
                left -= 1
    return lost


@njit(nogil=True, cache=True)
def _join_frames(seen: BoolArray, exists: BoolArray, tracked: BoolArray) -> None:
    """Turn sightings into tracks: start after two in a row, bridge gaps of fewer than five frames."""
    for e in range(seen.shape[1]):
        hits, misses, on = 0, 0, False
        for t in range(seen.shape[0]):
            hits = hits + 1 if seen[t, e] else 0
            misses = 0 if seen[t, e] else misses + 1
            if not on and (hits >= _BEGIN_FRAMES or (t == 0 and seen[t, e])):
                on = True
            if on and (misses >= _END_FRAMES or not exists[t, e]):
                on = False
            tracked[t, e] = on
