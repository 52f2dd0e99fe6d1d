"""Rotations as quaternions w, x, y, z, as many datasets tell them."""

import numpy as np

from l5kit._types import Float64Array

_ROTATION_TOLERANCE = 0.01
"""By how much the length of a quaternion may differ from 1."""


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
