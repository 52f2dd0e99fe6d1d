"""Vehicle models: states of N vehicles one time step later, given their states and actions.

Models compute each vehicle independently, in float64 and in a fixed order of operations, so that a batch gives the
same bits as its vehicles one by one. Headings are not wrapped. The formulas of the models, with their sources, are in
the docstrings of their classes.
"""

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, fields
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import require_shapes
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.angle import angular_distance
from l5kit.geometry.box import REAR_AXLE_SHARE
from l5kit.simulation.parameter_checks import require_step_time
from l5kit.simulation.vehicle_steps import BICYCLE, CURVATURE, UNICYCLE, step_vehicle

_Arrays: TypeAlias = tuple[Float64Array, ...]

_TYPES = [np.dtype(np.float64)] * 6
"""Dtypes of the arrays of states."""

_SLOWEST_TURNING_MPS = 0.6
"""Speed below which no curvature is derived from a log (Waymax paper)."""


def _require_limits(holder: object, **allowed: tuple[float, float]) -> None:
    """Refuse a dataclass with a number outside its allowed range."""
    for name, (low, high) in allowed.items():
        value = getattr(holder, name)
        if not low <= value <= high:
            raise InvalidArgumentError(f"{type(holder).__name__}: {name} is {value}; it must lie in [{low}, {high}]")


@dataclass(frozen=True)
class VehicleGeometry:
    """Positions of the axles of a vehicle as shares of its length; l5kit uses the default for all vehicles.

    Attributes:
        rear_axle_share: Distance of the rear axle behind the centre, over the length, at least 0; with 0 a model moves
            the centre itself.
        wheel_base_share: Distance between the axles, over the length, above 0.

    Raises:
        InvalidArgumentError: A share is out of range.
    """

    rear_axle_share: float = REAR_AXLE_SHARE
    wheel_base_share: float = 0.6

    def __post_init__(self) -> None:
        _require_limits(self, rear_axle_share=(0.0, 1.0), wheel_base_share=(1e-3, 1.0))

    def steering_of(self, yaw_rates: Float64Array, speeds_mps: Float64Array, *, length_m: float) -> Float64Array:
        """Return the steering angles in rad, (N,), of yaw rates in rad/s at speeds (N,): 0 below 0.6 m/s."""
        turns = np.abs(speeds_mps) >= _SLOWEST_TURNING_MPS
        wheel_base_m = self.wheel_base_share * length_m
        return np.arctan(wheel_base_m * np.where(turns, yaw_rates, 0.0) / np.where(turns, speeds_mps, 1.0))


NUPLAN_LENGTH_M = 5.176
"""Length of the vehicle of nuPlan, metres; its width is 2.297 m."""

NUPLAN_GEOMETRY = VehicleGeometry(
    rear_axle_share=(NUPLAN_LENGTH_M / 2 - 1.127) / NUPLAN_LENGTH_M, wheel_base_share=3.089 / NUPLAN_LENGTH_M
)
"""Axles of the vehicle of nuPlan: the rear axle 1.127 m ahead of the rear end, the wheel base 3.089 m."""


@dataclass(frozen=True)
class VehicleStates:
    """States of N vehicles at one time.

    Attributes:
        positions_m: World positions of their centres, (N, 2) float64.
        yaws_rad: World headings, not wrapped, (N,) float64.
        speeds_mps: Speeds along the heading, negative if reversing, (N,) float64.
        accelerations_mps2: Accelerations along the heading, (N,) float64.
        steering_rad: Angles of the front wheels, left positive, (N,) float64; models without wheels do not change them.
        lengths_m: Lengths of the vehicles, above 0, (N,) float64.
        is_known_to_fit: Set by callers that have already checked the values, to skip the checks.

    Raises:
        InvalidArgumentError: Shapes do not match, a type is not float64, a value is not finite or a length not above 0.
    """

    positions_m: Float64Array
    yaws_rad: Float64Array
    speeds_mps: Float64Array
    accelerations_mps2: Float64Array
    steering_rad: Float64Array
    lengths_m: Float64Array
    is_known_to_fit: InitVar[bool] = field(default=False, kw_only=True)

    def __post_init__(self, is_known_to_fit: bool) -> None:
        if is_known_to_fit:
            return
        shape, arrays = self.lengths_m.shape, self._arrays
        # compared at once for speed, as environments without vectorization make states in each step
        shapes, types = [array.shape for array in arrays], [array.dtype for array in arrays]
        if shapes != [(*shape, 2)] + [shape] * 5 or types != _TYPES:
            one_each = {field.name: (len(self.lengths_m),) for field in fields(self)}
            require_shapes(self, **(one_each | {"positions_m": (len(self.lengths_m), 2)}))
            for name in one_each:
                if getattr(self, name).dtype != np.float64:
                    raise InvalidArgumentError(
                        f"VehicleStates: {name} is of {getattr(self, name).dtype}; give it as float64"
                    )
        broken = _first_broken(kernel_arrays(self))
        if broken >= 0:
            values = ", ".join(f"{field.name} {getattr(self, field.name)[broken].tolist()}" for field in fields(self))
            raise InvalidArgumentError(
                f"VehicleStates: vehicle {broken} has {values}; all must be finite, lengths_m above 0"
            )

    @property
    def _arrays(self) -> _Arrays:
        """The arrays in the order of the fields."""
        return (
            self.positions_m,
            self.yaws_rad,
            self.speeds_mps,
            self.accelerations_mps2,
            self.steering_rad,
            self.lengths_m,
        )

    def __len__(self) -> int:
        return len(self.lengths_m)

    @classmethod
    def of_boxes(cls, boxes: Float64Array, velocities_mps: Float64Array) -> "VehicleStates":
        """Return the states of vehicles that have not been driven yet, from logged boxes and velocities.

        Args:
            boxes: World x, y, yaw, length and width, (N, 5).
            velocities_mps: World x and y, (N, 2); speeds are negative if these point backwards.
        """
        positions_m, yaws_rad, lengths_m = boxes[:, :2].copy(), boxes[:, 2].copy(), boxes[:, 3].copy()
        ahead_mps = velocities_mps[:, 0] * np.cos(yaws_rad) + velocities_mps[:, 1] * np.sin(yaws_rad)
        speeds_mps = np.copysign(np.sqrt((velocities_mps**2).sum(axis=1)), ahead_mps)
        return cls(positions_m, yaws_rad, speeds_mps, np.zeros(len(boxes)), np.zeros(len(boxes)), lengths_m)

    @property
    def poses(self) -> Float64Array:
        """World x and y in metres and heading in radians, (N, 3)."""
        return np.column_stack([self.positions_m, self.yaws_rad])

    @property
    def motions(self) -> Float64Array:
        """Headings, speeds, accelerations and steering, as rows, (4, N)."""
        return np.array([self.yaws_rad, self.speeds_mps, self.accelerations_mps2, self.steering_rad])

    @property
    def velocities_mps(self) -> Float64Array:
        """World velocities, along the headings, (N, 2)."""
        velocities_mps = np.empty((len(self), 2))
        np.multiply(self.speeds_mps, np.cos(self.yaws_rad), out=velocities_mps[:, 0])
        np.multiply(self.speeds_mps, np.sin(self.yaws_rad), out=velocities_mps[:, 1])
        return velocities_mps

    def taken(self, vehicles: slice | BoolArray | Int64Array) -> "VehicleStates":
        """Return selected vehicles: views for a slice, copies for a mask (N,) or an array of rows."""
        return VehicleStates(*[array[vehicles] for array in self._arrays])


class VehicleModel(Protocol):
    """Protocol of a vehicle model."""

    def step(self, states: VehicleStates, actions: Float64Array, step_time_s: float) -> VehicleStates:
        """Return the states one step later.

        Args:
            states: N vehicles.
            actions: Actions of the vehicles, (N, A) float64; the model defines the A numbers.
            step_time_s: Length of the step in seconds, above 0.

        Raises:
            InvalidArgumentError: The actions have a wrong shape or type or are not finite, or the step time is wrong.
        """


class InvertibleModel(VehicleModel, Protocol):
    """Vehicle model with an inverse, which returns the actions between two states."""

    def inverse(self, states: VehicleStates, next_states: VehicleStates, step_time_s: float) -> Float64Array:
        """Return the actions (N, A) float64 that lead to the next states, or close to them if these cannot be reached.

        Limits are not applied, so that a caller can see which ones are exceeded; :meth:`step` applies them.

        Args:
            states: N vehicles.
            next_states: The same vehicles one step later.
            step_time_s: Length of the step in seconds, above 0.

        Raises:
            InvalidArgumentError: The numbers of vehicles differ, or the step time is wrong.
        """


class PoseModel:
    """Vehicle model that moves vehicles to given poses, as in the simulations of L5Kit 1.5.

    An action is a world pose of the centre: x, y in metres and yaw in radians, (N, 3). The new speed is the distance
    over the step time, never negative, the acceleration the change of speed over the step time.
    """

    def step(self, states: VehicleStates, actions: Float64Array, step_time_s: float) -> VehicleStates:
        """Return the states with the given poses; see :class:`VehicleModel`."""
        _require_actions(states, actions, ("x_m", "y_m", "yaw_rad"), step_time_s)
        return _moved_to(states, actions[:, :2].copy(), actions[:, 2].copy(), step_time_s)

    def inverse(self, states: VehicleStates, next_states: VehicleStates, step_time_s: float) -> Float64Array:
        """Return the next poses, which are exactly the actions; see :class:`InvertibleModel`."""
        _require_pair(states, next_states, step_time_s)
        return next_states.poses


class PoseChange:
    """Vehicle model that moves and turns vehicles by given amounts (the delta action space of the Waymax paper).

    An action is dx (ahead), dy (left) in metres and dyaw in radians, relative to the vehicle's centre before the step,
    (N, 3). Speed and acceleration are those of :class:`PoseModel`.
    """

    def step(self, states: VehicleStates, actions: Float64Array, step_time_s: float) -> VehicleStates:
        """Return the states moved by the changes; see :class:`VehicleModel`."""
        _require_actions(states, actions, ("dx_m", "dy_m", "dyaw_rad"), step_time_s)
        positions_m = states.positions_m + _turned(_plain(actions), _plain(states.yaws_rad))
        return _moved_to(states, positions_m, states.yaws_rad + actions[:, 2], step_time_s)

    def inverse(self, states: VehicleStates, next_states: VehicleStates, step_time_s: float) -> Float64Array:
        """Return the changes of pose, exact up to rounding, dyaw in [-pi, pi); see :class:`InvertibleModel`."""
        _require_pair(states, next_states, step_time_s)
        displacements_m = next_states.positions_m - states.positions_m
        dyaws_rad = angular_distance(next_states.yaws_rad, states.yaws_rad)
        return np.column_stack([_turned(displacements_m, _plain(-states.yaws_rad)), dyaws_rad])


class _KernelModel:
    """Vehicle model with a kernel and actions of two numbers.

    Attributes:
        kind: Constant of the model in :mod:`l5kit.simulation.vehicle_steps`.
        action_names: Names of the two numbers.
    """

    kind: ClassVar[int]
    action_names: ClassVar[tuple[str, str]]

    def parameters(self, step_time_s: float) -> tuple[float, ...]:
        """Return the parameters of a step for kernels."""
        raise NotImplementedError

    def step(self, states: VehicleStates, actions: Float64Array, step_time_s: float) -> VehicleStates:
        """Return the states after the actions; see :class:`VehicleModel`."""
        _require_actions(states, actions, self.action_names, step_time_s)
        parameters, step_s = self.parameters(step_time_s), float(step_time_s)
        moved = move_vehicles(self.kind, kernel_arrays(states), _plain(actions), parameters, step_s)
        return VehicleStates(*[*moved, states.lengths_m])


@dataclass(frozen=True)
class Unicycle(_KernelModel):
    """Vehicle model that turns about the centre and then moves along the new heading, like the unicycle of L5Kit 1.5.

    An action is acceleration (m/s2) and yaw rate (rad/s), (N, 2). Both are clipped to their limits; then
    v += a dt, yaw += w dt, x += v cos(yaw) dt, y += v sin(yaw) dt, each with the values just computed. Speeds may
    become negative. Defaults are 6 m/s2 and 45 degrees a second, as intended in L5Kit 1.5; its actual limit is ten
    times the acceleration, see :meth:`with_step_limits`.

    Attributes:
        accelerations_mps2: Lowest and highest acceleration.
        yaw_rates_radps: Lowest and highest yaw rate.

    Raises:
        InvalidArgumentError: Limits are not finite or do not include 0.
    """

    kind = UNICYCLE
    action_names = ("acceleration_mps2", "yaw_rate_radps")
    accelerations_mps2: tuple[float, float] = (-6.0, 6.0)
    yaw_rates_radps: tuple[float, float] = (-math.pi / 4, math.pi / 4)

    def __post_init__(self) -> None:
        for name in ("accelerations_mps2", "yaw_rates_radps"):
            low, high = getattr(self, name)
            if not -math.inf < low <= 0 <= high < math.inf:
                raise InvalidArgumentError(f"Unicycle: {name} is {(low, high)}; pass a lowest <= 0 and a highest >= 0")

    @classmethod
    def with_step_limits(
        cls,
        step_time_s: float = 0.1,
        *,
        speed_changes_mpstep: tuple[float, float] = (-0.6, 0.6),
        yaw_changes_rad: tuple[float, float] = (-0.0785398, 0.0785398),
    ) -> "Unicycle":
        """Return a model with limits given per step, as in L5Kit 1.5; the defaults are those of 1.5.

        The model of 1.5 measures speeds in metres per step. Its action (steer, acc) corresponds to our action
        (acc / step_time_s ** 2, steer / step_time_s), and its default of 0.6 to 60 m/s2.

        Args:
            step_time_s: Length of a step in seconds.
            speed_changes_mpstep: Lowest and highest change of the speed in metres per step.
            yaw_changes_rad: Lowest and highest change of the heading in a step.

        Raises:
            InvalidArgumentError: The step time is not above 0, or limits are wrong.
        """
        require_step_time(step_time_s)
        return cls(
            (speed_changes_mpstep[0] / step_time_s**2, speed_changes_mpstep[1] / step_time_s**2),
            (yaw_changes_rad[0] / step_time_s, yaw_changes_rad[1] / step_time_s),
        )

    def parameters(self, step_time_s: float) -> tuple[float, ...]:  # noqa: ARG002 signature of other models
        """Return the parameters of a step for kernels: lowest and highest acceleration and yaw rate, an unused 0."""
        return kernel_parameters(*self.accelerations_mps2, *self.yaw_rates_radps, 0.0)

    def inverse(self, states: VehicleStates, next_states: VehicleStates, step_time_s: float) -> Float64Array:
        """Return accelerations and yaw rates from two poses and the speed before; see :class:`InvertibleModel`.

        The new speed is the distance along the next heading over the step time, regardless of the one in
        ``next_states``. To replay a log, pass as ``states`` those reached so far, not those of the log, whose speeds
        differ. Headings are reproduced exactly, positions except for the displacement across the next heading.
        """
        _require_pair(states, next_states, step_time_s)
        displacements_m = _turned(next_states.positions_m - states.positions_m, _plain(-next_states.yaws_rad))
        accelerations_mps2 = (displacements_m[:, 0] / step_time_s - states.speeds_mps) / step_time_s
        yaw_rates_radps = angular_distance(next_states.yaws_rad, states.yaws_rad) / step_time_s
        return np.column_stack([accelerations_mps2, yaw_rates_radps])


@dataclass(frozen=True)
class InvertibleBicycle(_KernelModel):
    """Vehicle model with acceleration and curvature (Gulino et al., Waymax, arXiv 2310.08710).

    An action is acceleration (m/s2) and curvature (1/m, left positive), (N, 2), both clipped to their limits. The rear
    axle moves: x += v cos(yaw) dt + a cos(yaw) dt^2 / 2, y likewise with the sine, yaw += k (v dt + a dt^2 / 2), v += a
    dt along the new heading. The new steering is atan(k x wheel base). Speeds may become negative.

    The paper moves the reference point of an object in its data, the centre: ``VehicleGeometry(rear_axle_share=0)``.

    Attributes:
        max_acceleration_mps2: Largest acceleration and braking of an action, above 0.
        max_curvature_1pm: Largest curvature of an action and of a feasible step of a log, above 0.
        max_log_acceleration_mps2: Largest acceleration of a feasible step of a log, above 0.
        geometry: Positions of the axles.

    Raises:
        InvalidArgumentError: A limit is out of range.
    """

    kind = CURVATURE
    action_names = ("acceleration_mps2", "curvature_1pm")
    max_acceleration_mps2: float = 6.0
    max_curvature_1pm: float = 0.3
    max_log_acceleration_mps2: float = 10.4
    geometry: VehicleGeometry = VehicleGeometry()

    def __post_init__(self) -> None:
        above_0 = (1e-6, 1e6)
        _require_limits(
            self, max_acceleration_mps2=above_0, max_curvature_1pm=above_0, max_log_acceleration_mps2=above_0
        )

    def parameters(self, step_time_s: float) -> tuple[float, ...]:  # noqa: ARG002 signature of other models
        """Return the parameters of a step for kernels: largest acceleration and curvature, axle shares, an unused 0."""
        return kernel_parameters(
            self.max_acceleration_mps2,
            self.max_curvature_1pm,
            self.geometry.rear_axle_share,
            self.geometry.wheel_base_share,
            0.0,
        )

    def inverse(self, states: VehicleStates, next_states: VehicleStates, step_time_s: float) -> Float64Array:
        """Return accelerations and curvatures from two poses with their speeds; see :class:`InvertibleModel`.

        a = dv / dt and k = dyaw / (v dt + a dt^2 / 2), with dyaw wrapped; k is 0 for |v| below 0.6 m/s, and if the
        distance is 0. Speeds are reproduced exactly, headings unless k is set to 0, and positions as far as they are
        consistent with the speeds.
        """
        _require_pair(states, next_states, step_time_s)
        accelerations_mps2 = (next_states.speeds_mps - states.speeds_mps) / step_time_s
        distances_m = (states.speeds_mps + accelerations_mps2 * step_time_s / 2) * step_time_s
        dyaws_rad = angular_distance(next_states.yaws_rad, states.yaws_rad)
        return np.column_stack([accelerations_mps2, _curvatures(dyaws_rad, distances_m, states.speeds_mps)])

    def is_infeasible(self, states: VehicleStates, next_states: VehicleStates, step_time_s: float) -> BoolArray:
        """Return the mask of steps (N,) of a log that exceed what a vehicle can do (Waymax: 10.4 m/s2, 0.3 1/m).

        Args:
            states: N vehicles of a log.
            next_states: The same vehicles one step later.
            step_time_s: Length of the step in seconds.

        Raises:
            InvalidArgumentError: The numbers of vehicles differ, or the step time is wrong.
        """
        accelerations_mps2, curvatures_1pm = np.abs(self.inverse(states, next_states, step_time_s)).T
        is_infeasible: BoolArray = (accelerations_mps2 > self.max_log_acceleration_mps2) | (
            curvatures_1pm > self.max_curvature_1pm
        )
        return is_infeasible


@dataclass(frozen=True)
class KinematicBicycle(_KernelModel):
    """Vehicle model with rear axle, steered front wheels and lags (the kinematic bicycle model of the nuPlan devkit).

    An action is the desired acceleration (m/s2) and steering rate (rad/s), (N, 2). Acceleration a and steering d
    follow with first-order lags, x += dt / (dt + tau) (x_wanted - x), where the desired steering is d + rate dt; the
    steering is then clipped to its limit. The rear axle moves with the speed v and the steering before the step:
    x += v cos(yaw) dt, y += v sin(yaw) dt, yaw += v tan(d) / wheel base dt, v += a dt with the new acceleration.
    Speeds may become negative.

    Attributes:
        max_steering_rad: Largest angle of the front wheels, above 0 and below pi / 2.
        acceleration_lag_s: tau of the acceleration, at least 0.
        steering_lag_s: tau of the steering, at least 0.
        geometry: Positions of the axles; ``NUPLAN_GEOMETRY`` for the vehicle of nuPlan, of ``NUPLAN_LENGTH_M``.

    Raises:
        InvalidArgumentError: A value is out of range.
    """

    kind = BICYCLE
    action_names = ("acceleration_mps2", "steering_rate_radps")
    max_steering_rad: float = math.pi / 3
    acceleration_lag_s: float = 0.2
    steering_lag_s: float = 0.05
    geometry: VehicleGeometry = VehicleGeometry()

    def __post_init__(self) -> None:
        _require_limits(self, max_steering_rad=(1e-6, 1.57), acceleration_lag_s=(0, 60), steering_lag_s=(0, 60))

    def parameters(self, step_time_s: float) -> tuple[float, ...]:
        """Return the parameters of a step for kernels: steering limit, gains of the lags, and axle shares."""
        return kernel_parameters(
            self.max_steering_rad,
            step_time_s / (step_time_s + self.acceleration_lag_s),
            step_time_s / (step_time_s + self.steering_lag_s),
            self.geometry.rear_axle_share,
            self.geometry.wheel_base_share,
        )

    def inverse(self, states: VehicleStates, next_states: VehicleStates, step_time_s: float) -> Float64Array:
        """Return desired accelerations and steering rates, from speeds and steering; see :class:`InvertibleModel`.

        Next speeds are reproduced exactly, next steering angles within the limit. Poses follow from speed and steering
        of ``states``; an action affects the pose only after its own step. Use :meth:`log_states` for suitable states of
        a log.
        """
        _require_pair(states, next_states, step_time_s)
        reached_mps2 = (next_states.speeds_mps - states.speeds_mps) / step_time_s
        acceleration_gain = (step_time_s + self.acceleration_lag_s) / step_time_s
        wanted_mps2 = states.accelerations_mps2 + acceleration_gain * (reached_mps2 - states.accelerations_mps2)
        steering_gain = (step_time_s + self.steering_lag_s) / step_time_s**2
        return np.column_stack([wanted_mps2, steering_gain * (next_states.steering_rad - states.steering_rad)])

    def log_states(
        self, poses: Float64Array, times_s: Float64Array, lengths_m: Float64Array
    ) -> tuple[VehicleStates, ...]:
        """Return states whose speeds and steering lead from each pose of a log to the next, one for each step.

        The speed is the distance of the rear axle along the heading over the step time, and the steering turns the
        heading as in the log, within the limit: d = atan(wheel base x dyaw / distance). Below 0.6 m/s the last steering
        is kept. The acceleration is the change of speed since the last step, over the time of the last step. So the
        ``inverse`` of two successive states replays the log, except for sideways motion of the rear axle in a step.

        Args:
            poses: x, y in metres and yaw in radians of the centres, (N, T, 3) float64, T at least 2.
            times_s: Times of the poses, ascending, (T,).
            lengths_m: Lengths of the vehicles, (N,) float64.

        Returns:
            T - 1 states of N vehicles.

        Raises:
            InvalidArgumentError: Shapes do not match, times do not ascend, or a value is not finite.
        """
        if poses.shape != (len(lengths_m), len(times_s), 3) or len(times_s) < 2:
            raise InvalidArgumentError(
                f"poses have shape {poses.shape} for {len(times_s)} times_s and {len(lengths_m)} lengths_m; "
                "pass (N, T, 3), (T,) and (N,), T at least 2"
            )
        steps_s: Float64Array = np.diff(np.asarray(times_s, np.float64))
        if not (steps_s > 0).all():
            raise InvalidArgumentError(f"times_s must rise, got {np.asarray(times_s).tolist()}")

        # distance of the rear axle along the heading
        starts, ends = poses[:, :-1], poses[:, 1:]
        headings = np.stack([np.cos(poses[..., 2]), np.sin(poses[..., 2])], axis=-1)
        rear_m = poses[..., :2] - (self.geometry.rear_axle_share * lengths_m)[:, None, None] * headings
        distances_m = (np.diff(rear_m, axis=1) * headings[:, :-1]).sum(axis=-1)
        speeds_mps = distances_m / steps_s
        curvatures_1pm = _curvatures(angular_distance(ends[..., 2], starts[..., 2]), distances_m, speeds_mps)
        steering_rad = np.arctan(self.geometry.wheel_base_share * lengths_m[:, None] * curvatures_1pm)

        # a slow vehicle keeps its last known steering, 0 before the first
        steps = np.where(np.abs(speeds_mps) >= _SLOWEST_TURNING_MPS, np.arange(len(steps_s)), -1)
        last = np.maximum.accumulate(steps, axis=1)
        steering_rad = np.where(last >= 0, np.take_along_axis(steering_rad, np.maximum(last, 0), axis=1), 0.0)
        steering_rad = np.clip(steering_rad, -self.max_steering_rad, self.max_steering_rad)

        changes_mps = np.diff(speeds_mps, axis=1, prepend=speeds_mps[:, :1])
        accelerations_mps2 = changes_mps / np.concatenate([steps_s[:1], steps_s[:-1]])
        columns = zip(speeds_mps.T, accelerations_mps2.T, steering_rad.T, strict=True)
        return tuple(
            VehicleStates(starts[:, step, :2], starts[:, step, 2], *values, lengths_m)
            for step, values in enumerate(columns)
        )


def kernel_arrays(states: VehicleStates) -> _Arrays:
    """Return the arrays of states in the order of the fields, in a layout for which kernels are compiled only once."""
    # inlined `_plain` for speed
    return tuple([array if array.flags.carray else array.copy(order="C") for array in states._arrays])


def kernel_parameters(*values: float) -> tuple[float, ...]:
    """Return parameters as floats, since kernels are compiled again for integers."""
    return tuple(float(value) for value in values)


def _plain(array: Float64Array) -> Float64Array:
    """Return the array itself if it is contiguous and writable, else a copy."""
    return array if array.flags.carray else array.copy(order="C")


def _moved_to(
    states: VehicleStates, positions_m: Float64Array, yaws_rad: Float64Array, step_time_s: float
) -> VehicleStates:
    """Return the states at new poses, with speeds and accelerations derived from these."""
    size = len(states)
    before, moved = (_plain(states.positions_m), _plain(states.speeds_mps)), (np.empty(size), np.empty(size))
    is_finite = _write_motions(before, (positions_m, yaws_rad), float(step_time_s), moved)
    # values that are not finite are refused there
    return VehicleStates(
        positions_m, yaws_rad, *moved, states.steering_rad.copy(), states.lengths_m, is_known_to_fit=is_finite
    )


def _curvatures(dyaws_rad: Float64Array, distances_m: Float64Array, speeds_mps: Float64Array) -> Float64Array:
    """Return the curvatures of steps, 0 at low speed."""
    is_turning = (np.abs(speeds_mps) >= _SLOWEST_TURNING_MPS) & (distances_m != 0)
    return np.where(is_turning, dyaws_rad / np.where(is_turning, distances_m, 1.0), 0.0)


def _require_actions(states: VehicleStates, actions: Float64Array, names: Sequence[str], step_time_s: float) -> None:
    require_step_time(step_time_s)
    if actions.shape != (len(states), len(names)) or actions.dtype != np.float64:
        raise InvalidArgumentError(
            f"actions are {actions.dtype} of shape {actions.shape}; for {len(states)} vehicles pass float64 of shape "
            f"{(len(states), len(names))} with {', '.join(names)}"
        )
    if np.count_nonzero(np.isfinite(actions)) < actions.size:
        vehicle = int(np.flatnonzero(~np.isfinite(actions).all(axis=1))[0])
        values = ", ".join(f"{name} {value}" for name, value in zip(names, actions[vehicle].tolist(), strict=True))
        raise InvalidArgumentError(f"actions of vehicle {vehicle} are {values}; all must be finite")


def _require_pair(states: VehicleStates, next_states: VehicleStates, step_time_s: float) -> None:
    require_step_time(step_time_s)
    if len(states) != len(next_states):
        raise InvalidArgumentError(
            f"next_states are of {len(next_states)} vehicles and states of {len(states)}; pass the same vehicles"
        )


@kernel_jit
def _first_broken(arrays: _Arrays) -> int:
    """Return the first vehicle with a value that is not finite or with an invalid length, -1 if there is none."""
    positions_m, yaws_rad, speeds_mps, accelerations_mps2, steering_rad, lengths_m = arrays
    for i in range(lengths_m.shape[0]):
        finite = math.isfinite(positions_m[i, 0]) and math.isfinite(positions_m[i, 1]) and math.isfinite(yaws_rad[i])
        finite = finite and math.isfinite(speeds_mps[i]) and math.isfinite(accelerations_mps2[i])
        if not (finite and math.isfinite(steering_rad[i]) and 0 < lengths_m[i] < math.inf):
            return i
    return -1


@kernel_jit
def _write_motions(
    before: tuple[Float64Array, Float64Array],
    poses: tuple[Float64Array, Float64Array],
    step_s: float,
    result: tuple[Float64Array, Float64Array],
) -> bool:
    """Write speeds and accelerations of vehicles moved to poses; return whether poses and results are finite.

    ``before`` are positions (N, 2) and speeds (N,), ``poses`` positions (N, 2) and headings (N,) one step later.
    """
    (before_m, speeds_before), (positions_m, yaws_rad), (speeds_mps, accelerations_mps2) = before, poses, result
    is_finite = True
    for i in range(len(speeds_mps)):
        x, y = positions_m[i, 0] - before_m[i, 0], positions_m[i, 1] - before_m[i, 1]
        speeds_mps[i] = math.sqrt(x * x + y * y) / step_s
        accelerations_mps2[i] = (speeds_mps[i] - speeds_before[i]) / step_s
        # a position that is not finite makes the acceleration so
        is_finite = is_finite and math.isfinite(accelerations_mps2[i]) and math.isfinite(yaws_rad[i])
    return is_finite


@kernel_jit
def _turned(vectors_m: Float64Array, yaws_rad: Float64Array) -> Float64Array:
    """Return the first two columns of vectors (N, >= 2) rotated by angles, (N, 2)."""
    turned_m = np.empty((vectors_m.shape[0], 2))
    for i in range(vectors_m.shape[0]):
        cos, sin = math.cos(yaws_rad[i]), math.sin(yaws_rad[i])
        turned_m[i, 0] = cos * vectors_m[i, 0] - sin * vectors_m[i, 1]
        turned_m[i, 1] = sin * vectors_m[i, 0] + cos * vectors_m[i, 1]
    return turned_m


@kernel_jit
def move_vehicles(
    kind: int, arrays: _Arrays, actions: Float64Array, parameters: tuple[float, ...], step_s: float
) -> _Arrays:
    """Return positions, yaws, speeds, accelerations and steering after a step of a model with ``parameters``."""
    positions_m, yaws_rad, speeds_mps, accelerations_mps2, steering_rad, lengths_m = arrays
    moved_m, rest = np.empty(positions_m.shape), np.empty((4, len(actions)))
    for i in range(len(actions)):
        x, y, yaw = positions_m[i, 0], positions_m[i, 1], yaws_rad[i]
        now = (x, y, yaw, speeds_mps[i], accelerations_mps2[i], steering_rad[i], lengths_m[i])
        moved = step_vehicle(kind, now, (actions[i, 0], actions[i, 1]), parameters, step_s)
        moved_m[i, 0], moved_m[i, 1], rest[0, i], rest[1, i], rest[2, i], rest[3, i] = moved
    return moved_m, rest[0], rest[1], rest[2], rest[3]
