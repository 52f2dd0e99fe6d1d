"""Savitzky-Golay filters as matrices: polynomials fitted to windows of a signal, and their derivatives.

They give what ``scipy.signal.savgol_filter`` gives with its defaults, which takes a second to import.
Source: Savitzky and Golay, "Smoothing and Differentiation of Data by Simplified Least Squares Procedures" (1964).
"""

import math
from functools import lru_cache

import numpy as np

from l5kit._types import Float64Array
from l5kit.errors import InvalidArgumentError


@lru_cache(maxsize=256)
def smoothing_matrix(num_samples: int, window: int, *, order: int, derivative: int = 0) -> Float64Array:
    """Return the matrix whose product with a signal is the smoothed signal, or a derivative of it.

    In the middle a sample has a window around it; one of an even number of samples lies half a sample to the right, and
    what is taken is the value in its middle. The first and the last half of a window are those of the polynomial of the
    first and the last window.

    Args:
        num_samples: Samples of the signal, N.
        window: Samples of a window; a longer one is shortened to N.
        order: Of the polynomials, below the length of the window.
        derivative: Which derivative, with 1 between two samples; 0 for the signal itself.

    Returns:
        Read-only, float64 (N, N).

    Raises:
        InvalidArgumentError: The window is too short for the order.
    """
    length = min(window, num_samples)
    if not 0 <= derivative <= order < length:
        raise InvalidArgumentError(
            f"a polynomial of order {order} and its derivative {derivative} need windows of more than {order} samples, "
            f"got window {window} and {num_samples} samples"
        )
    matrix = np.zeros((num_samples, num_samples))
    half = length // 2
    for sample in range(num_samples):
        if half <= sample < num_samples - half:
            first, position = sample - (length - 1) // 2, (length - 1) / 2
        else:
            first = 0 if sample < half else num_samples - length
            position = sample - first
        # least squares: the pseudo-inverse of the powers gives each coefficient of the polynomial around the position
        # as a sum over the window, and the derivative there is that coefficient times the factorial
        fit = np.linalg.pinv((np.arange(length)[:, None] - position) ** np.arange(order + 1))  # (order + 1, length)
        matrix[sample, first : first + length] = math.factorial(derivative) * fit[derivative]
    matrix.setflags(write=False)
    return matrix
