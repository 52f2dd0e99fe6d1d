"""Actions of drivers, and action models, which turn them into poses: directly, by a tracker, or by a vehicle model.

Also storage and resampling of plans.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from l5kit._types import BoolArray, Float64Array, FloatArray, Int64Array
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.angle import angular_distance
from l5kit.geometry.transform import round_world
from l5kit.simulation.trajectory_tracker import TrajectoryTracker
from l5kit.simulation.vehicle_models import PoseModel, VehicleModel, VehicleStates

_HELD_STEPS: Final = 15
"""Number of steps for which controls are held to convert them to a plan; more than the look-ahead of trackers."""

_TURN_STEPS: Final = 5
"""Number of steps at the end of a plan whose mean speed and turn rate extrapolate it."""

_SAME_S: Final = 1e-9
"""Largest difference of equal times."""


@dataclass(frozen=True, eq=False)
class Actions:
    """Next actions of K vehicles.

    Attributes:
        values: Planned world poses of their centres, x, y in metres and yaw in radians, (K, T, 3) float64; or controls
            of a vehicle model, (K, A) float64.
        times_s: Times of planned poses, seconds from now, ascending, (T,); None for one pose per step of the
            simulation, starting with the next one, and for controls.
        is_fallback: Mask of the vehicles with fallback actions, (K,); None without fallbacks.

    Raises:
        InvalidArgumentError: The shapes or types are wrong, or times do not ascend.
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
                f"is_fallback must be one bool for each of {len(values)} vehicles, got shape "
                f"{np.shape(self.is_fallback)}"
            )

    @property
    def is_plan(self) -> bool:
        """Whether these are planned poses."""
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
    """Protocol of an object that turns actions into poses."""

    @property
    def has_motion(self) -> bool:
        """Whether states after a step have speed and acceleration of a vehicle model, instead of pose differences."""

    def move(self, states: VehicleStates, actions: Actions, step_time_s: float) -> VehicleStates:
        """Return the states of K vehicles one step later.

        Args:
            states: K vehicles.
            actions: Action of each vehicle.
            step_time_s: Length of the step in seconds, above 0.

        Raises:
            InvalidArgumentError: The actions are of a kind that the model does not take, or are not finite.
        """


@dataclass(frozen=True)
class PlannedPoses:
    """Action model that moves vehicles exactly to their planned poses, as in the simulations of L5Kit 1.5.

    Poses are interpolated between planned times, headings along the shorter arc.
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
            # the step ends between two poses of the plan, or before the first one
            before, before_s = (plan.values[:, after - 1], times_s[after - 1]) if after else (states.poses, 0.0)
            part = (step_time_s - before_s) / (times_s[after] - before_s)
            poses = poses_between(before, poses, part)
        return PoseModel().step(states, poses, step_time_s)


@dataclass(frozen=True)
class TrackedPlans:
    """Action model in which a bicycle follows each plan with an LQR tracker (default of the nuPlan devkit).

    Attributes:
        tracker: Computes accelerations and steering rates for plans; its bicycle executes them.
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
    """Action model for controls of a vehicle model: a bicycle, a unicycle, changes of pose.

    Attributes:
        model: Vehicle model, which defines the controls and their limits.
        has_motion: Whether its states include speed and acceleration.
    """

    model: VehicleModel
    has_motion: bool = True

    def move(self, states: VehicleStates, actions: Actions, step_time_s: float) -> VehicleStates:
        """Return the states after the controls; see :class:`ActionModel`."""
        if actions.is_plan:
            raise InvalidArgumentError(
                f"actions are planned poses {actions.values.shape}, but {type(self.model).__name__} takes controls "
                "(K, A); plans need TrackedPlans (--moves tracked) or PlannedPoses (--moves poses)"
            )
        return self.model.step(states, actions.values, step_time_s)

    def plan(self, states: VehicleStates, actions: Actions, *, step_time_s: float) -> Actions:
        """Return the poses that K vehicles reach if their controls are held for 15 steps, (K, 15, 3).

        Poses are NaN for vehicles whose controls are not finite.
        """
        is_broken: BoolArray = np.any(~np.isfinite(actions.values), axis=1)
        held = Actions(np.where(is_broken[:, None], 0.0, actions.values))
        poses = np.empty((len(actions), _HELD_STEPS, 3))
        for step in range(_HELD_STEPS):
            states = self.move(states, held, step_time_s)
            poses[:, step, :2], poses[:, step, 2] = states.positions_m, states.yaws_rad
        poses[is_broken] = np.nan
        return Actions(poses)


def poses_between(before: Float64Array, after: FloatArray, parts: Float64Array | float) -> Float64Array:
    """Return poses x, y and yaw interpolated between two others, (..., 3), headings along the shorter arc.

    Args:
        before: Start poses, (..., 3).
        after: End poses, (..., 3).
        parts: Interpolation weight from 0 to 1, in a shape that broadcasts to (..., 3).
    """
    changes = after - before
    changes[..., 2] = angular_distance(changes[..., 2], 0.0)
    between: Float64Array = before + parts * changes
    return between


def _as_plan(actions: Actions, model: ActionModel) -> Actions:
    if not actions.is_plan:
        raise InvalidArgumentError(
            f"actions are controls {actions.values.shape}, but {type(model).__name__} takes planned poses (K, T, 3); "
            "controls need a vehicle model: Controls(KinematicBicycle()), for example, or --moves FILE.py:NAME"
        )
    return actions


@dataclass(frozen=True, eq=False)
class _Step:
    """Plans (K, T, 3) of scenes and frames, (K,) each, and their times (T,)."""

    scenes: Int64Array
    frames: Int64Array
    times_s: Float64Array
    poses: FloatArray


class KeptPlans:
    """Plans of S scenes of up to F frames, with possibly different lengths and times.

    Args:
        shape: S and F.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._shape = shape
        self._steps: list[_Step] = []

    def keep(self, scenes: Int64Array, frames: Int64Array, actions: Actions, step_time_s: float) -> None:
        """Store the plans of scenes (K,) in frames (K,); controls are ignored."""
        if actions.is_plan and len(actions):
            times_s = actions.times_of(step_time_s).copy()
            self._steps.append(_Step(scenes, frames, times_s, round_world(actions.values)))

    def joined(self) -> tuple[FloatArray | None, Float64Array | None]:
        """Return all plans, (S, F, T, 3), and their common times, (T,); None without plans.

        Plans are resampled to the common times; see :func:`plans_at`. They are float32, or float64 if some coordinates
        are too large for float32.
        """
        if not self._steps:
            return None, None
        times_s = join_times([step.times_s for step in self._steps])
        dtype = np.result_type(*(step.poses for step in self._steps))
        plans = np.full((*self._shape, len(times_s), 3), np.nan, dtype)
        for step in self._steps:
            plans[step.scenes, step.frames] = plans_at(times_s, step.poses, step.times_s)
        return plans, times_s


def join_times(parts: Sequence[Float64Array]) -> Float64Array:
    """Return the union of the times of several plans, ascending; empty without plans."""
    longest = max(parts, key=len, default=np.zeros(0))
    kinds = {part.tobytes(): part for part in parts}.values()
    # Plans that differ only in length, such as those of one planner, share the times of the longest one.
    if all(_begins_with(longest, part) for part in kinds):
        return longest
    times_s = np.sort(np.concatenate(list(kinds)))
    each_once: Float64Array = times_s[np.concatenate([[True], np.diff(times_s) > _SAME_S])]
    return each_once


def plans_at(times_s: Float64Array, plans: FloatArray, their_times_s: Float64Array) -> FloatArray:
    """Return plans at other times, (K, len(times_s), 3); poses at identical times are copied.

    Other poses are interpolated, headings along the shorter arc, and are NaN before the first and after the last time.

    Args:
        times_s: Times, ascending.
        plans: World poses, NaN without a plan, (K, T, 3).
        their_times_s: Times of the plans, ascending, at least one, (T,).
    """
    at = np.full((len(plans), len(times_s), 3), np.nan, plans.dtype)
    if _begins_with(times_s, their_times_s):
        at[:, : len(their_times_s)] = plans
        return at
    after = np.minimum(np.searchsorted(their_times_s, times_s - _SAME_S), len(their_times_s) - 1)
    is_own = np.abs(their_times_s[after] - times_s) <= _SAME_S
    at[:, is_own] = plans[:, after[is_own]]
    between = ~is_own & (times_s > their_times_s[0]) & (times_s < their_times_s[-1])

    # in float64, as float32 loses the small steps of large world coordinates
    ends, starts = after[between], after[between] - 1
    parts = (times_s[between] - their_times_s[starts]) / (their_times_s[ends] - their_times_s[starts])
    at[:, between] = poses_between(plans[:, starts].astype(np.float64), plans[:, ends], parts[:, None])
    return at


def _begins_with(times_s: Float64Array, others_s: Float64Array) -> bool:
    """Return whether the first times equal ``others_s``."""
    return len(others_s) <= len(times_s) and np.allclose(others_s, times_s[: len(others_s)], rtol=0, atol=_SAME_S)


def reaching_plans(now: Float64Array, plan: Actions, times_s: Float64Array) -> Float64Array:
    """Return plans at even time steps from 0 on, (R, N + 1, 3), extrapolated beyond their end with their last motion.

    Args:
        now: Current poses, (R, 1, 3).
        plan: The plans.
        times_s: The times, (N + 1,).

    Raises:
        InvalidArgumentError: The plans end before the first step.
    """
    own_s, poses = plan.times_of(float(times_s[1])), plan.values
    if own_s[0] > 0:
        own_s, poses = np.concatenate([[0.0], own_s]), np.concatenate([now, poses], axis=1)

    # steps covered by the plan itself
    last = int(np.searchsorted(times_s, own_s[-1] * (1 + 1e-9), side="right")) - 1
    if last < 1:
        raise InvalidArgumentError(
            f"times_s of plans end at {own_s[-1]} s; they must reach {times_s[1]} s from now or later"
        )
    reaching = np.empty((len(poses), len(times_s), 3))
    reaching[:, : last + 1] = plans_at(times_s[: last + 1], poses, own_s)

    # extrapolate with the mean chord of the last steps, turned by the mean turn in each step
    num_steps = min(last, _TURN_STEPS)
    begin, end = reaching[:, last - num_steps], reaching[:, last]
    turn_rad = angular_distance(end[:, 2], begin[:, 2]) / num_steps
    middle_rad = begin[:, 2] + 0.5 * num_steps * turn_rad
    chord_m = (
        (end[:, 0] - begin[:, 0]) * np.cos(middle_rad) + (end[:, 1] - begin[:, 1]) * np.sin(middle_rad)
    ) / num_steps
    steps = np.arange(1, len(times_s) - last)
    headings_rad = end[:, 2, None] + turn_rad[:, None] * steps
    between_rad = headings_rad - 0.5 * turn_rad[:, None]
    reaching[:, last + 1 :, 0] = end[:, 0, None] + np.cumsum(chord_m[:, None] * np.cos(between_rad), axis=1)
    reaching[:, last + 1 :, 1] = end[:, 1, None] + np.cumsum(chord_m[:, None] * np.sin(between_rad), axis=1)
    reaching[:, last + 1 :, 2] = headings_rad
    return reaching
