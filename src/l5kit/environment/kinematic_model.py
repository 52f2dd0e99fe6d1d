"""Kinematic models of the environment: motion of the AV in one step by steering and acceleration."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Float64Array, NumericArray
from l5kit.errors import InvalidArgumentError

__all__ = ["KinematicModel", "UnicycleModel"]

_STEERING_PER_STEP_RAD = float(np.deg2rad(45)) * 0.1
_ACCELERATION_PER_STEP = 6 * 0.1


class KinematicModel(ABC):
    """Base of models that move the AV by actions.

    Attributes:
        model_prefix: Name of the model.
    """

    model_prefix: str

    @abstractmethod
    def reset(self, init_state: ArrayLike) -> None:
        """Start from a state: x and y in metres, heading in radians, and speed in metres per step; (4,) or more."""

    @abstractmethod
    def update(self, input_action: ArrayLike) -> dict[str, NumericArray]:
        """Return the pose after a step, in the frame of the AV before: ``positions`` (1, 1, 2), ``yaws`` (1, 1, 1)."""


class UnicycleModel(KinematicModel):
    """Unicycle: the AV turns on the spot by the steering, then goes straight at the speed after acceleration.

    Speeds are metres per step, accelerations are speed changes per step. Poses are relative to the AV before the step,
    so its own position and heading stay 0.

    Args:
        model_prefix: Name of the model.
        min_acc: Least speed change in a step; lower values are clipped.
        max_acc: Greatest speed change in a step.
        min_steer: Least turn in a step, radians.
        max_steer: Greatest turn in a step.
        min_speed: Least speed, metres per step; None for no limit, so that braking leads to reversing as in L5Kit 1.5.

    Attributes:
        old_x: Position of the AV, metres, with ``old_y``.
        old_r: Heading of the AV, radians.
        old_v: Speed of the AV, metres per step.
        new_x: Position after the last action, metres, in the frame before it, with ``new_y``.
        new_r: Heading after the last action; ``new_v`` is the speed.

    Raises:
        InvalidArgumentError: A lower limit is above the upper one.
    """

    def __init__(
        self,
        model_prefix: str = "Unicycle",
        min_acc: float = -_ACCELERATION_PER_STEP,
        max_acc: float = _ACCELERATION_PER_STEP,
        min_steer: float = -_STEERING_PER_STEP_RAD,
        max_steer: float = _STEERING_PER_STEP_RAD,
        *,
        min_speed: float | None = None,
    ) -> None:
        for name, low, high in (("acc", min_acc, max_acc), ("steer", min_steer, max_steer)):
            if not low <= high:
                raise InvalidArgumentError(f"min_{name} is {low} and max_{name} {high}; pass the lower one first")
        self.model_prefix = model_prefix
        self.min_acc, self.max_acc = min_acc, max_acc
        self.min_steer, self.max_steer = min_steer, max_steer
        self.min_speed = min_speed
        self.reset(np.zeros(4))

    def reset(self, init_state: ArrayLike) -> None:
        """Start from a state: x, y, heading and speed, (4,) or more."""
        state = np.asarray(init_state, np.float64)
        if state.ndim != 1 or len(state) < 4:
            raise InvalidArgumentError(f"init_state must hold x, y, heading and speed, got shape {state.shape}")
        self.old_x, self.old_y, self.old_r, self.old_v = state[:4].tolist()
        self.new_x, self.new_y, self.new_r, self.new_v = self.old_x, self.old_y, self.old_r, self.old_v

    def update(self, input_action: ArrayLike) -> dict[str, NumericArray]:
        """Return the pose after a step with steering and acceleration, the first two values; float64."""
        action = np.asarray(input_action)
        positions_m, yaws_rad, speeds = self.moved(np.array([self.old_v]), action[None])
        self.new_x, self.new_y = positions_m[0].tolist()
        self.new_r, self.old_v = float(yaws_rad[0]), float(speeds[0])
        self.new_v = self.old_v
        return {"positions": positions_m[None], "yaws": yaws_rad[None, :, None]}

    def moved(self, speeds: Float64Array, controls: NumericArray) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return the poses of B vehicles after a step, in their frames before it.

        Args:
            speeds: Metres per step, (B,).
            controls: Steering and acceleration, (B, 2 or more).

        Returns:
            x and y (B, 2), headings (B,) and speeds (B,).
        """
        # limits apply in the dtype of the actions, all else is float64
        yaws_rad = np.clip(controls[:, 0], self.min_steer, self.max_steer).astype(np.float64)
        after = speeds + np.clip(controls[:, 1], self.min_acc, self.max_acc).astype(np.float64)
        if self.min_speed is not None:
            after = np.maximum(after, self.min_speed)
        return np.stack([np.cos(yaws_rad) * after, np.sin(yaws_rad) * after], axis=-1), yaws_rad, after
