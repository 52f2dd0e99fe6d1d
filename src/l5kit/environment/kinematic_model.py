"""Kinematic models of the environment: what an action of steering and acceleration makes of the AV in one step."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Float64Array, NumericArray
from l5kit.errors import InvalidArgumentError

__all__ = ["KinematicModel", "UnicycleModel"]

_STEERING_PER_STEP_RAD = float(np.deg2rad(45)) * 0.1
_ACCELERATION_PER_STEP = 6 * 0.1


class KinematicModel(ABC):
    """What moves the AV by actions.

    Attributes:
        model_prefix: Name of the model.
    """

    model_prefix: str

    @abstractmethod
    def reset(self, init_state: ArrayLike) -> None:
        """Start from a state: x and y in metres, heading in radians, and speed in metres per step; (4,) or more."""

    @abstractmethod
    def update(self, input_action: ArrayLike) -> dict[str, NumericArray]:
        """Return where an action leads in a step, as seen from the AV: ``positions`` (1, 1, 2), ``yaws`` (1, 1, 1)."""


class UnicycleModel(KinematicModel):
    """Unicycle: the AV turns by the steering on the spot and then goes straight on, faster by the acceleration.

    Speeds are metres per step and accelerations changes of them in a step. Position and heading are those of the AV
    before the step, so that they stay 0.

    Args:
        model_prefix: Name of the model.
        min_acc: Least change of speed in a step; smaller ones are taken for it.
        max_acc: Greatest one.
        min_steer: Least turn in a step, radians.
        max_steer: Greatest one.
        min_speed: Least speed, metres per step; None for any, so that who brakes on drives backwards, as in L5Kit 1.5.

    Attributes:
        old_x: Where the AV is, metres; so is ``old_y``.
        old_r: Its heading, radians.
        old_v: Its speed, metres per step.
        new_x: Where the last action led it, metres, as seen from where it was; so is ``new_y``.
        new_r: Its heading after the last action; ``new_v`` is its speed.

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
        """Return where steering and acceleration, the first two values, lead in one step; float64."""
        action = np.asarray(input_action)
        positions_m, yaws_rad, speeds = self.moved(np.array([self.old_v]), action[None])
        self.new_x, self.new_y = positions_m[0].tolist()
        self.new_r, self.old_v = float(yaws_rad[0]), float(speeds[0])
        self.new_v = self.old_v
        return {"positions": positions_m[None], "yaws": yaws_rad[None, :, None]}

    def moved(self, speeds: Float64Array, controls: NumericArray) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return where B vehicles are after a step, as seen from where they were.

        Args:
            speeds: Metres per step, (B,).
            controls: Steering and acceleration, (B, 2 or more).

        Returns:
            x and y (B, 2), headings (B,) and speeds (B,).
        """
        # limits apply in the type of the actions, all else is float64
        yaws_rad = np.clip(controls[:, 0], self.min_steer, self.max_steer).astype(np.float64)
        after = speeds + np.clip(controls[:, 1], self.min_acc, self.max_acc).astype(np.float64)
        if self.min_speed is not None:
            after = np.maximum(after, self.min_speed)
        return np.stack([np.cos(yaws_rad) * after, np.sin(yaws_rad) * after], axis=-1), yaws_rad, after
