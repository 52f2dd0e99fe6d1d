"""Angles between directions, in radians."""

import math
from typing import cast, overload

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import FloatArray, NumericArray
from l5kit.errors import InvalidArgumentError


@overload
def angular_distance(angle_a: float, angle_b: float) -> float: ...
@overload
def angular_distance(angle_a: NumericArray, angle_b: NumericArray | float) -> NumericArray: ...
@overload
def angular_distance(angle_a: float, angle_b: NumericArray) -> NumericArray: ...
def angular_distance(angle_a: NumericArray | float, angle_b: NumericArray | float) -> NumericArray | float:
    """Return the signed rotation from ``angle_b`` to ``angle_a``, wrapped into [-pi, pi).

    Opposite angles give -pi in either order. Arithmetic stays in the dtype of the arguments: float32 arrays are
    computed with float32(pi). With a float32 array, a ``np.float64`` scalar gives float64, a Python float float32.

    Args:
        angle_a: Angle or angles in radians, any shape.
        angle_b: Angle or angles in radians, broadcast against ``angle_a``.

    Returns:
        ``((angle_a - angle_b + pi) mod 2 pi) - pi`` with a non-negative modulus, in radians.
    """
    difference: NumericArray | float = (angle_a - angle_b + math.pi) % (2 * math.pi) - math.pi
    return difference


def angle_between_vectors(v1: ArrayLike, v2: ArrayLike) -> np.floating:
    """Return the unsigned angle between two vectors, in [0, pi] radians.

    Left and right are not distinguished, and the angle to a zero vector is 0. The result is a NumPy scalar: float32 if
    both vectors are float32, else float64.

    Args:
        v1: Shape (2,) or (3,).
        v2: Same shape as ``v1``.

    Raises:
        InvalidArgumentError: A shape is not (2,) or (3,), or the two differ.
    """
    first, second = _as_vector("v1", v1), _as_vector("v2", v2)
    if first.shape != second.shape:
        raise InvalidArgumentError(f"v2 has shape {second.shape}, but v1 has {first.shape}; both must be (2,) or (3,)")

    # length of the cross product, written out for two dimensions, which NumPy 2 no longer supports
    if first.shape == (2,):
        cross_norm = np.abs(first[0] * second[1] - first[1] * second[0])
    else:
        cross_norm = np.linalg.norm(np.cross(first, second))
    return cast("np.floating", np.arctan2(cross_norm, first @ second))


def compute_yaw_around_north_from_direction(direction_vector: ArrayLike) -> np.floating:
    """Return the unsigned angle between a direction and north, (0, 1), in [0, pi] radians.

    East and west are not distinguished. The result is a NumPy scalar of float64.

    Args:
        direction_vector: Shape (2,), of any length.

    Raises:
        InvalidArgumentError: The shape is not (2,).
    """
    return angle_between_vectors(direction_vector, (0.0, 1.0))


def _as_vector(name: str, value: ArrayLike) -> FloatArray:
    vector = np.asarray(value)
    if not np.issubdtype(vector.dtype, np.floating):
        vector = vector.astype(np.float64)
    if vector.shape not in ((2,), (3,)):
        raise InvalidArgumentError(f"{name} has shape {vector.shape}; pass one vector of shape (2,) or (3,)")
    return vector
