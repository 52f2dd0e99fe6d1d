"""Actions of drivers, and how an action becomes a pose: as it is, behind a tracker, or as controls of a model."""

from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.angle import angular_distance
from l5kit.simulation.trajectory_tracker import TrajectoryTracker
from l5kit.simulation.vehicle_models import PoseModel, VehicleModel, VehicleStates

_HELD_STEPS: Final = 15
"""Steps for which controls are held in the plan that they stand for, more than trackers look ahead."""


@dataclass(frozen=True, eq=False)
class Actions:
    """What K vehicles do next.

    Attributes:
        values: Planned world poses of their centres, x, y in metres and yaw in radians, (K, T, 3) float64; or controls
            of a vehicle model, (K, A) float64.
        times_s: When vehicles are to be at planned poses, seconds from now, rising, (T,); None for one pose a step of
            the simulation, from the next one on, and for controls.
        is_fallback: For which vehicles they are those of a fallback, (K,); None where nobody has one.

    Raises:
        InvalidArgumentError: The shapes or types are not as above, or times do not rise.
    """

    values: Float64Array
    times_s: Float64Array | None = None
    is_fallback: BoolArray | None = None

    def __post_init__(self) -> None:
        values = self.values
        if isinstance(values, np.ma.MaskedArray) or isinstance(self.times_s, np.ma.MaskedArray):
            raise InvalidArgumentError("values and times_s must be plain arrays, got a masked one; fill what is masked")
        if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.ndim not in (2, 3):
            given = f"{values.dtype} of shape {values.shape}" if isinstance(values, np.ndarray) else type(values)
            raise InvalidArgumentError(f"values must be float64 of shape (K, A) or (K, T, 3), got {given}")
        if self.is_plan and (values.shape[1] == 0 or values.shape[2] != 3):
            raise InvalidArgumentError(
                f"values must be planned poses x, y, yaw of shape (K, T, 3), T at least 1, got shape {values.shape}"
            )
        if self.times_s is not None and (not self.is_plan or np.shape(self.times_s) != (values.shape[1],)):
            raise InvalidArgumentError(
                f"times_s must be one for each of the planned poses of values {values.shape}, got shape "
                f"{np.shape(self.times_s)}"
            )
        if self.times_s is not None:
            times_s = np.asarray(self.times_s, np.float64)
            if not (np.isfinite(times_s).all() and (np.diff(times_s) > 0).all()):
                raise InvalidArgumentError(f"times_s must be finite and rise, got {times_s.tolist()}")
        if self.is_fallback is not None and np.shape(self.is_fallback) != (len(values),):
            raise InvalidArgumentError(
                f"is_fallback must say yes or no for each of {len(values)} vehicles, got shape "
                f"{np.shape(self.is_fallback)}"
            )

    @property
    def is_plan(self) -> bool:
        """Whether they are planned poses."""
        return self.values.ndim == 3

    def __len__(self) -> int:
        return len(self.values)

    def taken(self, rows: Int64Array | BoolArray) -> "Actions":
        """Return the actions of some of the vehicles."""
        is_fallback = None if self.is_fallback is None else self.is_fallback[rows]
        return Actions(self.values[rows], self.times_s, is_fallback)

    def times_of(self, step_time_s: float) -> Float64Array:
        """Return the times of planned poses, seconds from now, (T,)."""
        if self.times_s is not None:
            return np.asarray(self.times_s, np.float64)
        return step_time_s * np.arange(1.0, self.values.shape[1] + 1)


class ActionModel(Protocol):
    """How actions become poses: any object with this method and this property."""

    @property
    def has_motion(self) -> bool:
        """Whether the states after a step have the speed and acceleration of a vehicle, not differences of poses."""

    def move(self, states: VehicleStates, actions: Actions, step_time_s: float) -> VehicleStates:
        """Return the states of K vehicles one step later.

        Args:
            states: K vehicles.
            actions: What each of them does.
            step_time_s: Length of the step in seconds, above 0.

        Raises:
            InvalidArgumentError: The actions are of another kind than this model takes, or are not finite.
        """


@dataclass(frozen=True)
class PlannedPoses:
    """Vehicles that are where their plan says one step later, as in the simulations of L5Kit 1.5.

    Between two planned times poses are interpolated, headings the short way round.
    """

    has_motion = False

    def move(self, states: VehicleStates, actions: Actions, step_time_s: float) -> VehicleStates:
        """Return the states at the planned poses; see :class:`ActionModel`."""
        plan = _as_plan(actions, self)
        times_s = plan.times_of(step_time_s)
        after = int(np.searchsorted(times_s, step_time_s * (1 - 1e-9)))
        if after == len(times_s):
            raise InvalidArgumentError(
                f"times_s of plans end at {times_s[-1]} s; they must reach the next step, {step_time_s} s from now"
            )
        poses = plan.values[:, after]
        if times_s[after] > step_time_s * (1 + 1e-9):
            # the step ends between two poses of the plan, or before its first one
            now = np.column_stack([states.positions_m, states.yaws_rad])
            before, before_s = (plan.values[:, after - 1], times_s[after - 1]) if after else (now, 0.0)
            part = (step_time_s - before_s) / (times_s[after] - before_s)
            between: Float64Array = before + part * (poses - before)
            between[:, 2] = before[:, 2] + part * angular_distance(poses[:, 2], before[:, 2])
            poses = between
        return PoseModel().step(states, poses, step_time_s)


@dataclass(frozen=True)
class TrackedPlans:
    """Vehicles that follow their plans as well as a bicycle can, behind an LQR tracker (default of the nuPlan devkit).

    Attributes:
        tracker: Turns plans into wanted accelerations and steering rates; its bicycle carries them out.
    """

    tracker: TrajectoryTracker = field(default_factory=TrajectoryTracker)
    has_motion = True

    def move(self, states: VehicleStates, actions: Actions, step_time_s: float) -> VehicleStates:
        """Return the states of the bicycles; see :class:`ActionModel`."""
        plan = _as_plan(actions, self)
        wanted = self.tracker.actions(states, plan.values, plan.times_of(step_time_s))
        return self.tracker.bicycle.step(states, wanted, step_time_s)


@dataclass(frozen=True)
class Controls:
    """Vehicles of a model whose controls the driver gives: a bicycle, a unicycle, changes of pose.

    Attributes:
        model: Says what the controls mean, and their limits.
        has_motion: Whether its states have a speed and an acceleration of their own.
    """

    model: VehicleModel
    has_motion: bool = True

    def move(self, states: VehicleStates, actions: Actions, step_time_s: float) -> VehicleStates:
        """Return the states after the controls; see :class:`ActionModel`."""
        if actions.is_plan:
            raise InvalidArgumentError(
                f"actions are planned poses {actions.values.shape}, but {type(self.model).__name__} takes controls "
                "(K, A); use TrackedPlans or PlannedPoses"
            )
        return self.model.step(states, actions.values, step_time_s)

    def plan(self, states: VehicleStates, actions: Actions, *, step_time_s: float) -> Actions:
        """Return where controls of K vehicles lead if they are held for 15 steps, (K, 15, 3).

        Vehicles whose controls are not finite have NaN.
        """
        is_broken: BoolArray = np.any(~np.isfinite(actions.values), axis=1)
        held = Actions(np.where(is_broken[:, None], 0.0, actions.values))
        poses = np.empty((len(actions), _HELD_STEPS, 3))
        for step in range(_HELD_STEPS):
            states = self.move(states, held, step_time_s)
            poses[:, step, :2], poses[:, step, 2] = states.positions_m, states.yaws_rad
        poses[is_broken] = np.nan
        return Actions(poses)


def _as_plan(actions: Actions, model: ActionModel) -> Actions:
    if not actions.is_plan:
        raise InvalidArgumentError(
            f"actions are controls {actions.values.shape}, but {type(model).__name__} takes planned poses (K, T, 3)"
        )
    return actions
