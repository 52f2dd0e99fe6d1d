"""Actions of environments: what they stand for, and where they lead; of one environment or of many."""

import math

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, NumericArray
from l5kit.device.backend import KernelArguments
from l5kit.environment.utils import KinematicActionRescaleParams
from l5kit.errors import InvalidArgumentError

MAX_ACC = 6
"""What the action 1 stands for in kinematic mode, metres per second squared."""

MAX_STEER = math.radians(45)
"""What it stands for in steering, radians per second."""


def kinematic_scales(step_time_s: float, *, acceleration_per_step: bool) -> KinematicActionRescaleParams:
    """Return what the actions of kinematic mode stand for in a step.

    Args:
        step_time_s: Seconds of a step.
        acceleration_per_step: Whether acceleration is scaled by the square of that, as speeds are metres per step; else
            by itself, as in L5Kit 1.5.
    """
    return KinematicActionRescaleParams(
        MAX_STEER * step_time_s, MAX_ACC * step_time_s ** (2 if acceleration_per_step else 1)
    )


def scaled_controls(actions: NumericArray, scales: KinematicActionRescaleParams) -> NumericArray:
    """Return the steering and acceleration (..., 3), the third unused, that actions stand for, in their own type."""
    scaled = actions.copy()
    for column, scale in enumerate((scales.steer_scale, scales.acc_scale)):
        scaled[..., column] = scale * actions[..., column].astype(np.float64)
    return scaled


@njit(nogil=True, cache=True, error_model="numpy")
def control_of(value: float, low: float, high: float) -> float:
    """Return the control that an action stands for: ``low`` for -1 and less, 0 for 0, and ``high`` for 1 and more."""
    if value < 0:
        return low if value < -1.0 else -value * low
    return high if value > 1.0 else value * high


@njit(nogil=True, cache=True, error_model="numpy")
def scale_actions(item: int, arguments: KernelArguments) -> None:
    """Write the controls that an action stands for, zeros for one that is not finite.

    Arguments: lowest and highest controls, (A,) each; actions (N, A); controls (N, A) and whether an action is not
    finite, (N,), which are written.
    """
    lows, highs, actions, controls, is_bad = arguments
    is_bad[item] = False
    for column in range(len(lows)):
        is_bad[item] = is_bad[item] or not math.isfinite(actions[item, column])
    for column in range(len(lows)):
        value = 0.0 if is_bad[item] else float(actions[item, column])
        controls[item, column] = control_of(value, lows[column], highs[column])


@njit(nogil=True, cache=True, error_model="numpy")
def choose_controls(item: int, arguments: KernelArguments) -> None:
    """Write the controls of a grid that a choice stands for, zeros for one that is none of them.

    Arguments: lowest and highest controls, (A,) each; how many values each has, int64 (A,); choices, int64 (N,);
    controls (N, A) and whether a choice is none, (N,), which are written.
    """
    lows, highs, sizes, choices, controls, is_bad = arguments
    num_choices = 1
    for column in range(len(sizes)):
        num_choices *= sizes[column]
    rest = choices[item]
    is_bad[item] = not 0 <= rest < num_choices
    for index in range(len(sizes)):
        # the last control changes first
        column = len(sizes) - 1 - index
        value = 2.0 * (rest % sizes[column]) / (sizes[column] - 1) - 1.0
        rest //= sizes[column]
        controls[item, column] = 0.0 if is_bad[item] else control_of(value, lows[column], highs[column])


def checked_actions(actions: ArrayLike, num_values: int, *, of: BoolArray | None) -> NumericArray:
    """Return a copy of actions (N, A), in floating point.

    Args:
        actions: Of N environments (N, A); of a single one (A,), which becomes (1, A).
        num_values: A.
        of: Whether the values of an environment count, (N,); None for a single one.

    Raises:
        InvalidArgumentError: They have another shape, or a value that counts is not finite.
    """
    values: NumericArray = np.array(actions)
    shape = (num_values,) if of is None else (len(of), num_values)
    if values.shape != shape or values.dtype.kind not in "fiub":
        wanted = f"{num_values} numbers" if of is None else f"numbers of shape {shape}"
        raise InvalidArgumentError(f"action must be {wanted}, got shape {values.shape} of {values.dtype}")
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    # values of environments that do not count may be anything
    is_bad = ~np.isfinite(values)
    if of is not None:
        is_bad[~of] = False
    if np.count_nonzero(is_bad):
        if of is None:
            raise InvalidArgumentError(f"action is {values.tolist()}; all of it must be finite")
        first = int(np.argmax(is_bad.any(axis=-1)))
        raise InvalidArgumentError(
            f"action of environment {first} is {values[first].tolist()}; all of it must be finite"
        )
    return values[None] if of is None else values
