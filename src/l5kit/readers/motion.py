"""Motion that a source does not tell: velocities, headings, poses of the AV that are missing; and turns by quaternions.

Quaternions are w, x, y, z, as many datasets tell them.
"""

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.errors import CorruptedDataError

_SLOWEST_MPS = 0.5
"""Slower tracks tell nothing of their heading by their motion."""

_ROTATION_TOLERANCE = 0.01
"""By how much the length of a quaternion may differ from 1."""


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
    # From the step before to the step after, where a track is seen there, else from or to the step itself.
    first = np.where(seen_before, steps - 1, steps)
    last = np.where(seen_after, steps + 1, steps)
    rows = np.arange(len(is_valid))[:, None]
    times_s = (timestamps_ns - timestamps_ns[:1]) / 1e9
    positions = np.where(is_valid[..., None], positions_m, 0.0)
    passed_s = np.where(last > first, times_s[last] - times_s[first], 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # places beyond all bounds, which are refused later on
        velocities_mps: Float64Array = (positions[rows, last] - positions[rows, first]) / passed_s[..., None]
    return np.where(is_valid[..., None], velocities_mps, 0.0)


def steps_seen(is_seen: BoolArray, who: str) -> slice:
    """Return the steps from the first to the last one in which somebody is seen.

    Args:
        is_seen: Whether that is so, (T,).
        who: Of whom, for the error.

    Raises:
        CorruptedDataError: It is so in none.
    """
    steps = np.flatnonzero(is_seen)
    if not len(steps):
        raise CorruptedDataError(f"{who} is seen in no step")
    return slice(int(steps[0]), int(steps[-1]) + 1)


def rows_around(known_ns: Int64Array, times_ns: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return for each time the rows of the known times before and after it, (T,) each.

    Both are the same row at a known time, and beyond the first and the last one.

    Args:
        known_ns: Ascending, (N,), N at least 1.
        times_ns: Any times, (T,).
    """
    after = np.clip(np.searchsorted(known_ns, times_ns), 0, len(known_ns) - 1)
    return np.where(known_ns[after] > times_ns, np.maximum(after - 1, 0), after), after


def filled_poses(poses: Float64Array, is_seen: BoolArray, timestamps_ns: Int64Array) -> Float64Array:
    """Return poses in all steps; those that are not seen lie evenly in time between the ones around.

    Args:
        poses: x, y, z and heading, (T, 4); where not seen they mean nothing.
        is_seen: Whether there is one, (T,), in one step at least.
        timestamps_ns: Ascending, int64, (T,).

    Returns:
        Float64, (T, 4); headings do not jump by a turn.
    """
    times_s = (timestamps_ns - timestamps_ns[0]) / 1e9
    known = poses[is_seen].copy()
    known[:, 3] = np.unwrap(known[:, 3])
    return np.column_stack([np.interp(times_s, times_s[is_seen], column) for column in known.T])


def headings_of(velocities_mps: Float64Array, is_valid: BoolArray) -> Float64Array:
    """Return the headings of tracks that point to where they move.

    While a track hardly moves it keeps the heading from before, at its start that from after; one that never moves has
    the heading 0.

    Args:
        velocities_mps: x and y, (N, T, 2).
        is_valid: Whether a track is seen, (N, T).

    Returns:
        Radians, float64, (N, T).
    """
    # The last step up to each in which the track moves, -1 before the first one, whose heading then counts.
    moves = is_valid & (np.hypot(velocities_mps[..., 0], velocities_mps[..., 1]) > _SLOWEST_MPS)
    yaws_rad = np.arctan2(velocities_mps[..., 1], velocities_mps[..., 0])
    steps = np.arange(is_valid.shape[1])
    last = np.maximum.accumulate(np.where(moves, steps, -1), axis=1)
    has_moved = last[:, -1:] >= 0
    first = np.argmax(moves, axis=1)
    rows = np.arange(len(is_valid))[:, None]
    held_rad = yaws_rad[rows, np.where(last >= 0, last, first[:, None])]
    return np.where(has_moved, held_rad, 0.0)


def require_unit(rotations: Float64Array, what: str) -> None:
    """Refuse quaternions (N, 4) that are no rotations, which would be turned into wrong headings in silence."""
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rotations, axis=-1)
    is_wrong = ~(np.abs(lengths - 1.0) <= _ROTATION_TOLERANCE)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise ValueError(
            f"rotation must be a quaternion of length 1, got {rotations[row].tolist()} in {what} {row} of the scene"
        )


def forward_of(rotations: Float64Array) -> Float64Array:
    """Return where quaternions w, x, y, z (N, 4) turn the x axis to, unit vectors, (N, 3); NaN for one of length 0."""
    with np.errstate(invalid="ignore"):
        w, x, y, z = np.moveaxis(rotations / np.linalg.norm(rotations, axis=-1, keepdims=True), -1, 0)
    return np.stack([w * w + x * x - y * y - z * z, 2 * (x * y + w * z), 2 * (x * z - w * y)], axis=-1)


def yaws_of(rotations: Float64Array) -> Float64Array:
    """Return the heading of the x axis that quaternions w, x, y, z (N, 4) turn, (N,), whatever their length."""
    w, x, y, z = np.ascontiguousarray(rotations.T)
    yaws: Float64Array = np.arctan2(2 * (x * y + w * z), w * w + x * x - y * y - z * z)
    return yaws


def rotations_of(rotations: Float64Array) -> Float64Array:
    """Return the matrices of quaternions w, x, y, z (N, 4), (N, 3, 3); NaN for one of length 0."""
    with np.errstate(invalid="ignore"):
        w, x, y, z = np.moveaxis(rotations / np.linalg.norm(rotations, axis=-1, keepdims=True), -1, 0)
    # the product q v q* of the unit quaternion with each axis, as columns
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
