"""Actions of environments: what they stand for, and where they lead; of one environment or of many."""

import math

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, NumericArray
from l5kit.environment.utils import KinematicActionRescaleParams, NonKinematicActionRescaleParams
from l5kit.errors import InvalidArgumentError

__all__ = ["MAX_ACC", "MAX_STEER", "checked_actions", "kinematic_scales", "scaled_controls", "scaled_poses"]

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


def checked_actions(actions: ArrayLike, shape: tuple[int, ...], *, of: BoolArray | None = None) -> NumericArray:
    """Return a copy of actions, in floating point.

    Args:
        actions: Of one environment (3,), or of many (N, 3).
        shape: Which of these.
        of: Whether the values of an environment count, (N,); None for all.

    Raises:
        InvalidArgumentError: They have another shape, or a value is not finite.
    """
    values: NumericArray = np.array(actions)
    if values.shape != shape or values.dtype.kind not in "fiub":
        wanted = f"{shape[0]} numbers" if len(shape) == 1 else f"numbers of shape {shape}"
        raise InvalidArgumentError(f"action must be {wanted}, got shape {values.shape} of {values.dtype}")
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    is_bad = ~np.isfinite(values)
    if of is not None:
        is_bad[~of] = False
    if is_bad.any():
        if len(shape) == 1:
            raise InvalidArgumentError(f"action is {values.tolist()}; all of it must be finite")
        first = int(np.argmax(is_bad.any(axis=-1)))
        raise InvalidArgumentError(
            f"action of environment {first} is {values[first].tolist()}; all of it must be finite"
        )
    return values
