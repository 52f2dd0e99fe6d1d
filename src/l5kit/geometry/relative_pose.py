"""Kernels for points and headings relative to a pose."""

import math

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array

_PI = np.float32(np.pi)
_TWO_PI = np.float32(2 * np.pi)


@kernel_jit
def transform_xy(matrix: Float64Array, x: float, y: float) -> tuple[float, float]:
    """Return a point in the plane transformed by a matrix (3, 3)."""
    return (
        x * matrix[0, 0] + y * matrix[0, 1] + matrix[0, 2],
        x * matrix[1, 0] + y * matrix[1, 1] + matrix[1, 2],
    )


@kernel_jit
def wrap_angle(angle_rad: float) -> float:
    """Return an angle wrapped into [-pi, pi), with the same bits as :func:`l5kit.geometry.angle.angular_distance`."""
    return (angle_rad + math.pi) % (2 * math.pi) - math.pi


@kernel_jit
def turn_between(heading_rad: float, other_rad: float) -> float:
    """Return the unsigned angle between two headings, 0 to pi."""
    return abs(wrap_angle(heading_rad - other_rad))


@kernel_jit
def angular_distance_float32(a: np.float32, b: np.float32) -> np.float32:
    """Return :func:`l5kit.geometry.angle.angular_distance` of two float32 angles, computed in float32."""
    return (a - b + _PI) % _TWO_PI - _PI
