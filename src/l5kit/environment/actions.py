"""Actions of environments: what they stand for, and where they lead; of one environment or of many."""

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.environment.utils import KinematicActionRescaleParams, NonKinematicActionRescaleParams
from l5kit.errors import InvalidArgumentError

__all__ = [
    "MAX_ACC",
    "MAX_STEER",
    "checked_actions",
    "checked_choices",
    "choose_controls",
    "control_of",
    "kinematic_scales",
    "scale_actions",
    "scaled_controls",
    "scaled_poses",
    "write_controls",
]

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


def scaled_poses(actions: NumericArray, scales: NonKinematicActionRescaleParams) -> NumericArray:
    """Return the poses (..., 3) that actions (..., 3) stand for, in their own type."""
    scaled = actions.copy()
    pairs = ((scales.x_mu, scales.x_scale), (scales.y_mu, scales.y_scale), (scales.yaw_mu, scales.yaw_scale))
    for place, (mean, scale) in enumerate(pairs):
        scaled[..., place] = mean + scale * actions[..., place]
    return scaled


def scaled_controls(actions: NumericArray, scales: KinematicActionRescaleParams) -> NumericArray:
    """Return the steering and acceleration (..., 3), the third unused, that actions stand for, in their own type."""
    scaled = actions.copy()
    for place, scale in enumerate((scales.steer_scale, scales.acc_scale)):
        scaled[..., place] = scale * actions[..., place].astype(np.float64)
    return scaled


@njit(nogil=True, cache=True, error_model="numpy")
def control_of(value: float, low: float, high: float) -> float:
    """Return the control that an action stands for: ``low`` for -1 and less, 0 for 0, and ``high`` for 1 and more."""
    if value < 0:
        return low if value < -1.0 else -value * low
    return high if value > 1.0 else value * high


@njit(nogil=True, cache=True, error_model="numpy")
def write_controls(values: Float64Array, lows: Float64Array, highs: Float64Array, controls: Float64Array) -> None:
    """Write the controls (B, A) that actions (B, A) stand for, between limits (A,)."""
    for row in range(len(values)):
        for column in range(len(lows)):
            controls[row, column] = control_of(values[row, column], lows[column], highs[column])


@njit(nogil=True, cache=True, error_model="numpy")
def scale_actions(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the controls that an action stands for, zeros for one that is not finite.

    Arguments: actions (N, 2); lowest and highest controls; controls (N, 2) and whether an action is not finite, (N,),
    which are written.
    """
    actions, limits, controls, is_bad = arguments
    first, second = float(actions[item, 0]), float(actions[item, 1])
    is_finite = math.isfinite(first) and math.isfinite(second)
    _write_controls(item, (first, second), is_finite, limits, controls, is_bad)


@njit(nogil=True, cache=True, error_model="numpy")
def choose_controls(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the controls of a grid that a number stands for, zeros for one that is none of them.

    Arguments: numbers, int64 (N,); lowest and highest controls; how many values each control has; controls (N, 2) and
    whether a number is none, (N,), which are written.
    """
    numbers, limits, (num_first, num_second), controls, is_bad = arguments
    number = numbers[item]
    first = 2.0 * (number // num_second) / (num_first - 1) - 1.0
    second = 2.0 * (number % num_second) / (num_second - 1) - 1.0
    is_known = 0 <= number < num_first * num_second
    _write_controls(item, (first, second), is_known, limits, controls, is_bad)


@njit(nogil=True, cache=True, error_model="numpy")
def _write_controls(
    slot: int,
    action: tuple[float, float],
    is_action: bool,
    limits: tuple[tuple[float, float], tuple[float, float]],
    controls: Float64Array,
    is_bad: BoolArray,
) -> None:
    """Write the controls of an action from -1 to 1, zeros for one that is none."""
    lows, highs = limits
    is_bad[slot] = not is_action
    if is_action:
        controls[slot, 0] = control_of(action[0], lows[0], highs[0])
        controls[slot, 1] = control_of(action[1], lows[1], highs[1])
    else:
        controls[slot, 0], controls[slot, 1] = 0.0, 0.0


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
    is_bad = ~np.isfinite(values)
    if of is not None:
        is_bad[~of] = False
    if is_bad.any():
        if of is None:
            raise InvalidArgumentError(f"action is {values.tolist()}; all of it must be finite")
        first = int(np.argmax(is_bad.any(axis=-1)))
        raise InvalidArgumentError(
            f"action of environment {first} is {values[first].tolist()}; all of it must be finite"
        )
    return values[None] if of is None else values


def checked_choices(actions: ArrayLike, num_choices: int, *, of: BoolArray | None) -> Int64Array:
    """Return the numbers of actions of a discrete space, (N,); 0 for environments that do not count.

    Args:
        actions: Of N environments (N,), or of a single one.
        num_choices: How many there are.
        of: Whether the number of an environment counts, (N,); None for a single one.

    Raises:
        InvalidArgumentError: They have another shape, are no whole numbers, or there is no such action.
    """
    values: NumericArray = np.asarray(actions)
    if values.shape != (() if of is None else (len(of),)) or values.dtype.kind not in "iu":
        wanted = "a whole number" if of is None else f"{len(of)} whole numbers"
        raise InvalidArgumentError(f"action must be {wanted}, got shape {values.shape} of {values.dtype}")
    chosen = values.reshape(-1) if of is None else np.where(of, values, 0)
    is_bad = (chosen < 0) | (chosen >= num_choices)
    if is_bad.any():
        first = int(np.argmax(is_bad))
        where = "" if of is None else f" of environment {first}"
        raise InvalidArgumentError(f"action{where} is {int(chosen[first])}; there are 0 to {num_choices - 1}")
    return chosen.astype(np.int64)
