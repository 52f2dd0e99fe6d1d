"""Velocities and accelerations of logged poses: differences over the times of neighbouring frames."""

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import as_kernel_array
from l5kit.errors import InvalidArgumentError


def rates_of_frames(values: Float64Array, timestamps_s: Float64Array, is_there: BoolArray) -> Float64Array:
    """Return the rates of change of values: central differences over the frames of scenes, one-sided at both ends.

    Args:
        values: Values of any unit, (S, F, D).
        timestamps_s: Times of the frames, seconds, (S, F).
        is_there: Mask of the frames of a scene, followed by padding, (S, F).

    Returns:
        Values per second, float64 (S, F, D); 0 for a scene of a single frame, and in padding.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """
    if values.ndim != 3 or not values.shape[:2] == timestamps_s.shape == is_there.shape:
        raise InvalidArgumentError(
            f"values of shape (S, F, D) need timestamps_s and is_there of shape (S, F), got {values.shape}, "
            f"{timestamps_s.shape} and {is_there.shape}"
        )
    frames = np.arange(is_there.shape[1])
    last = np.maximum(is_there.sum(axis=1, keepdims=True) - 1, 0)
    before = np.minimum(np.maximum(frames - 1, 0), last)
    after = np.minimum(frames + 1, last)
    steps = np.take_along_axis(values, after[..., None], axis=1) - np.take_along_axis(values, before[..., None], axis=1)
    seconds = np.take_along_axis(timestamps_s, after, axis=1) - np.take_along_axis(timestamps_s, before, axis=1)

    # steps (..., D) over seconds (...), 0 where unknown
    is_known = is_there & (seconds > 0)
    rates: Float64Array = np.divide(
        steps, seconds[..., None], out=np.zeros(steps.shape, np.float64), where=is_known[..., None]
    )
    return rates


def split_along_headings(vectors: Float64Array, yaws_rad: Float64Array) -> Float64Array:
    """Return the components of world vectors (..., 2) along headings (...) and to the left, (..., 2)."""
    cos, sin = np.cos(yaws_rad), np.sin(yaws_rad)
    x, y = vectors[..., 0], vectors[..., 1]
    return np.stack([cos * x + sin * y, cos * y - sin * x], axis=-1)


def velocities_of_rows(
    positions_m: Float64Array, times_s: Float64Array, tracks: Int64Array, scenes: Int64Array
) -> Float64Array:
    """Return the velocities of tracks: differences between rows of a track that are neighbours in time.

    Differences are central, one-sided at the ends of a track, and 0 for a single row.

    Args:
        positions_m: World x and y of N rows, in any order, (N, 2).
        times_s: Time of each row, seconds, (N,).
        tracks: Track of each row, numbered within its scene, (N,).
        scenes: Scene of each row, (N,).

    Returns:
        World x and y, metres per second, (N, 2).
    """
    if tracks.min(initial=0) < 0 or tracks.max(initial=0) > len(tracks):
        tracks = np.unique(tracks, return_inverse=True)[1]
    positions_m, times_s = (as_kernel_array(values, np.float64) for values in (positions_m, times_s))
    tracks, scenes = (as_kernel_array(values, np.int64) for values in (tracks, scenes))
    order = np.arange(len(tracks)) if _is_in_order(times_s, scenes) else np.lexsort((times_s, scenes))
    velocities_mps = np.empty(positions_m.shape)
    last_rows = np.empty(int(tracks.max(initial=-1)) + 1, np.int64)
    _write_velocities(order, positions_m, times_s, (tracks, scenes), last_rows, velocities_mps)
    return velocities_mps


@kernel_jit
def _is_in_order(times_s: Float64Array, scenes: Int64Array) -> bool:
    """Return whether rows are ordered by scene, and by time within each scene."""
    for row in range(1, len(times_s)):
        is_later = scenes[row] > scenes[row - 1]
        if not (is_later or (scenes[row] == scenes[row - 1] and times_s[row] >= times_s[row - 1])):
            return False
    return True


@kernel_jit
def _write_velocities(
    order: Int64Array,
    positions_m: Float64Array,
    times_s: Float64Array,
    of_rows: tuple[Int64Array, Int64Array],
    last_rows: Int64Array,
    velocities_mps: Float64Array,
) -> None:
    """Write the velocities of rows, visited by scene and time; ``last_rows`` is a buffer."""
    tracks, scenes = of_rows
    # neighbours of each row in its track, found with the last row of each track so far
    before, after = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    for index in range(len(order)):
        row = order[index]
        if index == 0 or scenes[row] != scenes[order[index - 1]]:
            last_rows[:] = -1
        last = last_rows[tracks[row]]
        before[row], after[row] = row, row
        if last >= 0:
            before[row], after[last] = last, row
        last_rows[tracks[row]] = row
    for row in range(len(order)):
        seconds = times_s[after[row]] - times_s[before[row]]
        for axis in range(positions_m.shape[1]):
            step_m = positions_m[after[row], axis] - positions_m[before[row], axis]
            velocities_mps[row, axis] = step_m / seconds if seconds > 0 else 0.0
