"""Perception of the objects around the AV: occlusion, dropped detections, starts and ends of tracks."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array

_BEGIN_FRAMES, _END_FRAMES = 2, 5
_SIGHT_WIDTH_M = 0.6


@dataclass(frozen=True)
class DetectableObjects:
    """E objects around the AV in T frames.

    Args:
        exists: Whether the object exists, (T, E).
        xy_m: Positions, (T, E, 2); arbitrary if the object does not exist.
        hides: Whether the object occludes others, (E,).
        dropout_rate: Probability per frame that the detector loses the object for a while, (E,).
    """

    exists: BoolArray
    xy_m: Float64Array
    hides: BoolArray
    dropout_rate: Float64Array


def detect(objects: DetectableObjects, av_xy_m: Float64Array, rng: np.random.Generator) -> BoolArray:
    """Return in which frames the AV tracks each object, (T, E).

    A track starts once an object has been seen in two frames, continues through gaps of fewer than five, and ends when
    the object is gone, stays occluded or is lost.
    """
    seen = _visible(objects.exists, objects.xy_m, objects.hides, av_xy_m)
    seen &= ~_dropouts(objects.dropout_rate, rng.random(seen.shape))
    tracked = np.zeros_like(seen)
    _join_frames(seen, objects.exists, tracked)
    return tracked


@njit(nogil=True, cache=True)
def _visible(exists: BoolArray, xy_m: Float64Array, hides: BoolArray, av_xy_m: Float64Array) -> BoolArray:
    """Return whether the AV has a free line of sight to the centre of each object, (T, E)."""
    seen = np.zeros(exists.shape, dtype=np.bool_)
    for t in range(exists.shape[0]):
        for e in range(exists.shape[1]):
            if not exists[t, e]:
                continue
            seen[t, e] = True
            dx, dy = xy_m[t, e, 0] - av_xy_m[t, 0], xy_m[t, e, 1] - av_xy_m[t, 1]
            square = dx * dx + dy * dy + 1e-9
            distance = np.sqrt(square)
            for other in range(exists.shape[1]):
                if other == e or not hides[other] or not exists[t, other]:
                    continue
                ox, oy = xy_m[t, other, 0] - av_xy_m[t, 0], xy_m[t, other, 1] - av_xy_m[t, 1]
                # position of the other object: share along the line of sight, and distance from it
                along = (ox * dx + oy * dy) / square
                if 0.0 < along < 1.0 - 3.0 / distance and abs(ox * dy - oy * dx) / distance < _SIGHT_WIDTH_M:
                    seen[t, e] = False
                    break
    return seen


@njit(nogil=True, cache=True)
def _dropouts(rate: Float64Array, draws: Float64Array) -> BoolArray:
    """Mark the frames in which the detector has lost an object, in bursts of 6 to 25 frames, (T, E)."""
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
    """Convert detections to tracks: start after two in a row, bridge gaps of fewer than five frames."""
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
