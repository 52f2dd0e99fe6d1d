"""Motion that a source lacks: velocities, headings and missing AV poses; and rotations from quaternions.

Quaternions are in the order w, x, y, z.
"""

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.errors import CorruptedDataError

_SLOWEST_MPS = 0.5
"""Below this speed the motion of a track does not define its heading."""

_ROTATION_TOLERANCE = 0.01
"""Allowed deviation of the norm of a quaternion from 1."""


def velocities_of(positions_m: Float64Array, is_valid: BoolArray, timestamps_ns: Int64Array) -> Float64Array:
    """Return velocities by central differences over the adjacent steps in which a track is observed.

    At the ends of a run of steps the difference to the single neighbour is used; a track that is observed in only one
    step has velocity 0. Differences never span a gap.

    Args:
        positions_m: x and y, or more axes, (N, T, D); undefined where not valid.
        is_valid: Whether a track is observed, (N, T).
        timestamps_ns: Ascending, int64, (T,).

    Returns:
        Metres per second, float64, (N, T, D); 0 where not valid.
    """
    steps = np.arange(is_valid.shape[1])
    seen_before = np.zeros_like(is_valid)
    seen_after = np.zeros_like(is_valid)
    seen_before[:, 1:] = is_valid[:, :-1]
    seen_after[:, :-1] = is_valid[:, 1:]
    # from the step before to the step after, each replaced by the step itself where the track is not observed
    first = np.where(seen_before, steps - 1, steps)
    last = np.where(seen_after, steps + 1, steps)
    rows = np.arange(len(is_valid))[:, None]
    times_s = (timestamps_ns - timestamps_ns[:1]) / 1e9
    positions = np.where(is_valid[..., None], positions_m, 0.0)
    passed_s = np.where(last > first, times_s[last] - times_s[first], 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # extreme positions, which are refused later
        velocities_mps: Float64Array = (positions[rows, last] - positions[rows, first]) / passed_s[..., None]
    return np.where(is_valid[..., None], velocities_mps, 0.0)


def steps_seen(is_seen: BoolArray, who: str) -> slice:
    """Return the steps from the first to the last in which something is observed.

    Args:
        is_seen: Whether it is observed, (T,).
        who: Its description, for the error.

    Raises:
        CorruptedDataError: It is never observed.
    """
    steps = np.flatnonzero(is_seen)
    if not len(steps):
        raise CorruptedDataError(f"{who} is seen in no step")
    return slice(int(steps[0]), int(steps[-1]) + 1)


def rows_around(known_ns: Int64Array, times_ns: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return for each time the rows of the known times before and after it, (T,) each.

    Both are the same row for a known time, and outside the range of the known times.

    Args:
        known_ns: Ascending, (N,), N at least 1.
        times_ns: Any times, (T,).
    """
    after = np.clip(np.searchsorted(known_ns, times_ns), 0, len(known_ns) - 1)
    return np.where(known_ns[after] > times_ns, np.maximum(after - 1, 0), after), after


def filled_poses(poses: Float64Array, is_seen: BoolArray, timestamps_ns: Int64Array) -> Float64Array:
    """Return poses in all steps, with missing ones interpolated linearly in time.

    Args:
        poses: x, y, z and heading, (T, 4); undefined where missing.
        is_seen: Whether there is a pose, (T,), true in at least one step.
        timestamps_ns: Ascending, int64, (T,).

    Returns:
        Float64, (T, 4), with unwrapped headings.
    """
    times_s = (timestamps_ns - timestamps_ns[0]) / 1e9
    known = poses[is_seen].copy()
    known[:, 3] = np.unwrap(known[:, 3])
    return np.column_stack([np.interp(times_s, times_s[is_seen], column) for column in known.T])


def headings_of(velocities_mps: Float64Array, is_valid: BoolArray) -> Float64Array:
    """Return the headings of tracks as their directions of motion.

    A track that hardly moves keeps its last heading, or at its start takes its first one; a track that never moves has
    heading 0.

    Args:
        velocities_mps: x and y, (N, T, 2).
        is_valid: Whether a track is observed, (N, T).

    Returns:
        Radians, float64, (N, T).
    """
    # for each step the last step up to it in which the track moves; -1 before the first, whose heading is then used
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
    """Refuse quaternions (N, 4) that are not normalized, which would silently give wrong headings."""
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rotations, axis=-1)
    is_wrong = ~(np.abs(lengths - 1.0) <= _ROTATION_TOLERANCE)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise ValueError(
            f"rotation must be a quaternion of length 1, got {rotations[row].tolist()} in {what} {row} of the scene"
        )


def forward_of(rotations: Float64Array) -> Float64Array:
    """Return the x axes rotated by quaternions w, x, y, z (N, 4), unit vectors, (N, 3); NaN for a zero quaternion."""
    with np.errstate(invalid="ignore"):
        w, x, y, z = np.moveaxis(rotations / np.linalg.norm(rotations, axis=-1, keepdims=True), -1, 0)
    return np.stack([w * w + x * x - y * y - z * z, 2 * (x * y + w * z), 2 * (x * z - w * y)], axis=-1)


def yaws_of(rotations: Float64Array) -> Float64Array:
    """Return the headings of the x axes rotated by quaternions w, x, y, z (N, 4) of any norm, (N,)."""
    w, x, y, z = np.ascontiguousarray(rotations.T)
    yaws: Float64Array = np.arctan2(2 * (x * y + w * z), w * w + x * x - y * y - z * z)
    return yaws


def rotations_of(rotations: Float64Array) -> Float64Array:
    """Return the matrices of quaternions w, x, y, z (N, 4), (N, 3, 3); NaN for a zero quaternion."""
    with np.errstate(invalid="ignore"):
        w, x, y, z = np.moveaxis(rotations / np.linalg.norm(rotations, axis=-1, keepdims=True), -1, 0)
    # the product q v q* of the unit quaternion with each axis, as columns
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
