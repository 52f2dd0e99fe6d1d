"""Tracker of planned trajectories: actions with which a vehicle with lags follows planned poses."""

import functools
import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.data.array_shapes import as_read_only
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.relative_pose import wrap_angle
from l5kit.simulation.parameter_checks import require_positive
from l5kit.simulation.vehicle_models import KinematicBicycle, VehicleStates, kernel_arrays, kernel_parameters

_Grid: TypeAlias = tuple[Int64Array, Float64Array]
_Constants: TypeAlias = tuple[float, ...]

_MOST_LOOKS_AHEAD = 10
"""Part of a plan that is used, in multiples of the look-ahead; later poses hardly affect the first fitted values."""

_CURVATURE_RIDGE = 1e-6
"""Weight of squared curvatures in their fit, which determines those of a plan at rest."""


@dataclass(frozen=True)
class TrackerParams:
    """Weights of the tracker; the defaults are those of the LQR tracker of the nuPlan devkit.

    Attributes:
        step_time_s: Time step of the plan and of the look-ahead, above 0.
        num_steps: Number of look-ahead steps, at least 1.
        speed_weight: Weight of the squared error of the speed at the end of the look-ahead, at least 0.
        acceleration_weight: Weight of the squared acceleration, above 0.
        offset_weight: Weight of the squared offset to the left in metres at the end of the look-ahead, at least 0.
        heading_weight: Weight of the squared error of the heading there, at least 0.
        steering_weight: Weight of the squared steering angle there, at least 0.
        steering_rate_weight: Weight of the squared steering rate, above 0.
        jerk_weight: Weight of squared jerks in the fit of the speeds, above 0.
        curvature_rate_weight: Weight of squared rates of the curvature in its fit, above 0.
        stopping_speed_mps: The vehicle is stopping if speed and reference speed are at most this, at least 0.
        stopping_gain_1ps: Braking over excess speed of a stopping vehicle, above 0.

    Raises:
        InvalidArgumentError: A value is out of range.
    """

    step_time_s: float = 0.1
    num_steps: int = 10
    speed_weight: float = 10.0
    acceleration_weight: float = 1.0
    offset_weight: float = 1.0
    heading_weight: float = 10.0
    steering_weight: float = 0.0
    steering_rate_weight: float = 1.0
    jerk_weight: float = 1e-4
    curvature_rate_weight: float = 1e-2
    stopping_speed_mps: float = 0.2
    stopping_gain_1ps: float = 0.5

    def __post_init__(self) -> None:
        may_be_0 = ("speed_weight", "offset_weight", "heading_weight", "steering_weight", "stopping_speed_mps")
        require_positive(self, may_be_0=may_be_0)
        if self.num_steps != int(self.num_steps):
            raise InvalidArgumentError(f"TrackerParams: num_steps is {self.num_steps}; pass a whole number of steps")


@dataclass(frozen=True)
class TrajectoryTracker:
    """Linear-quadratic regulator that turns planned poses into actions of :class:`KinematicBicycle`.

    Source: the LQR tracker of the nuPlan devkit, as described in its documents; signs and details that these leave open
    are our own. All quantities refer to the rear axle, and the look-ahead has n steps of time h.

    **Reference.** The plan is interpolated linearly at the times 0, h, 2 h, ... up to its end, or to ten times the
    look-ahead. Speeds v of its steps minimise sum (v_i h - d_i)^2 + w sum j_i^2, where d is the distance along the
    heading, and the jerk j the second difference of v over h^2. Curvatures k minimise
    sum (v_i k_i h - dyaw_i)^2 + w sum c_i^2, c the difference of k over h, and are clipped to the steering limit.
    Beyond its end a plan continues with its last speed and curvature.

    **Acceleration.** One decision for the time T = n h: a = q T / (r + q T^2) (v_n - v), which is 10/11 (v_n - v) with
    the default weights.

    **Steering rate.** One rate u for the n steps, for the offset e, the error of the heading p and the steering d:
    e += v p h, p += v (d / wheel base - k) h, d += u h, where v starts with the speed of the vehicle and changes with
    the acceleration above, not below 0. With offset, heading and steering at the end being z + B u, it minimises
    z' Q z + R u^2.

    **Stopping.** If speed and reference speed are both at most 0.2 m/s, a = -0.5 (v - v_n) and u = 0.

    Speeds are tracked, not positions along the path: if a plan brakes by 2 m/s2 to a stop, the vehicle comes to rest
    about 2 m beyond its end, unless it is replanned from the actual position.

    Attributes:
        bicycle: Vehicle model; its axles and its steering limit are used.
        params: Weights.
    """

    bicycle: KinematicBicycle = field(default_factory=KinematicBicycle)
    params: TrackerParams = field(default_factory=TrackerParams)

    def actions(self, states: VehicleStates, planned_poses: Float64Array, times_s: ArrayLike) -> Float64Array:
        """Return the actions of vehicles: desired acceleration (m/s2) and steering rate (rad/s), (N, 2).

        Args:
            states: N vehicles.
            planned_poses: World poses of their centres, x, y in metres and yaw in radians, (N, T, 3) float64.
            times_s: Times of the planned poses, seconds from now, ascending, (T,). A plan that has begun, times[0] <=
                0, is used from now on; any other plan is preceded by the current pose at time 0. The last time is at
                least ``params.step_time_s``.

        Raises:
            InvalidArgumentError: A vehicle has no planned poses or some that are not finite, the shapes do not match,
                or the times do not ascend or end too early.
        """
        times = np.asarray(times_s, dtype=np.float64)
        shape, step_s = (len(states), len(times), 3), self.params.step_time_s
        if planned_poses.ndim == 3 and len(planned_poses) == len(states) > 0 and planned_poses.shape[1] == 0:
            raise InvalidArgumentError(
                "planned_poses: vehicle 0 has no planned poses; plan at least one for each vehicle"
            )
        if planned_poses.shape != shape or len(times) == 0 or planned_poses.dtype != np.float64:
            raise InvalidArgumentError(
                f"planned_poses are {planned_poses.dtype} of shape {planned_poses.shape}; for {len(states)} vehicles "
                f"and {len(times)} times_s pass float64 of shape (N, T, 3) with T at least 1"
            )
        most_steps = _MOST_LOOKS_AHEAD * int(self.params.num_steps)
        grid = _grid_of(tuple(times.tolist()), step_s, most_steps)
        if not np.isfinite(planned_poses).all():
            vehicle, step = np.argwhere(~np.isfinite(planned_poses).all(axis=-1))[0].tolist()
            raise InvalidArgumentError(
                f"planned_poses: pose {step} of vehicle {vehicle} is {planned_poses[vehicle, step].tolist()}; plan "
                "finite poses, or leave the vehicle out"
            )

        speed_fit = speed_fit_matrix(len(grid[0]) - 1, step_s, self.params.jerk_weight)
        plan = planned_poses if planned_poses.flags.carray else planned_poses.copy(order="C")
        is_joined = bool(times[0] > 0)
        arrays, ahead = kernel_arrays(states), int(self.params.num_steps)
        return np.asarray(_track(arrays, plan, is_joined, grid, speed_fit, ahead, *self.parameters))

    @functools.cached_property
    def parameters(self) -> tuple[_Constants, _Constants, _Constants]:
        """Parameters for kernels: of the vehicle, of acceleration and of steering.

        They are: distance of the rear axle behind the centre and wheel base as shares of the length, and the largest
        tangent of the steering; the gain of the acceleration, and speed and gain of a stop; the time step, and the
        weights of curvature rate, offset, heading, steering and steering rate.
        """
        params, geometry = self.params, self.bicycle.geometry
        ahead_s = params.num_steps * params.step_time_s
        gain_1ps = params.speed_weight * ahead_s / (params.acceleration_weight + params.speed_weight * ahead_s**2)
        return (
            kernel_parameters(
                geometry.rear_axle_share, geometry.wheel_base_share, math.tan(self.bicycle.max_steering_rad)
            ),
            kernel_parameters(gain_1ps, params.stopping_speed_mps, params.stopping_gain_1ps),
            kernel_parameters(
                params.step_time_s,
                params.curvature_rate_weight,
                params.offset_weight,
                params.heading_weight,
                params.steering_weight,
                params.steering_rate_weight,
            ),
        )


@functools.lru_cache(maxsize=64)
def _grid_of(times_s: tuple[float, ...], step_s: float, most_steps: int) -> _Grid:
    """Return the knot before each of the times 0, h, 2 h, ..., and the position between it and the next one, 0 to 1.

    Args:
        times_s: Times of planned poses, which are the knots; time 0 is added before them if all are later.
        step_s: h.
        most_steps: Largest number of steps.

    Raises:
        InvalidArgumentError: The times do not ascend, or end before the first step.
    """
    times = np.array(times_s)
    is_rising = bool(np.isfinite(times).all() and (np.diff(times) > 0).all())
    if not is_rising or times[-1] < step_s * (1 - 1e-9):
        raise InvalidArgumentError(
            f"times_s are {times.tolist()}; they must be finite, rise, and end {step_s} s from now or later"
        )
    knots_s = times if times[0] <= 0 else np.concatenate([[0.0], times])
    num_steps = min(most_steps, max(1, math.floor(knots_s[-1] / step_s * (1 + 1e-9))))
    grid_s = np.minimum(step_s * np.arange(num_steps + 1), knots_s[-1])
    before = np.clip(np.searchsorted(knots_s, grid_s, side="right") - 1, 0, len(knots_s) - 2)
    shares = (grid_s - knots_s[before]) / (knots_s[before + 1] - knots_s[before])
    return as_read_only(before), as_read_only(shares)


@functools.lru_cache(maxsize=64)
def speed_fit_matrix(num_steps: int, step_time_s: float, jerk_weight: float) -> Float64Array:
    """Return the matrix F, (num_steps, num_steps), which maps distances d of the steps to fitted speeds, d F.

    The normal equations are (h^2 I + w D'D / h^4) v = h d, D the second differences; they depend on the horizon only.
    """
    jerks = np.diff(np.eye(num_steps), n=2, axis=0) / step_time_s**2
    normal = step_time_s**2 * np.eye(num_steps) + jerk_weight * (jerks.T @ jerks)
    fit: Float64Array = np.ascontiguousarray(np.linalg.solve(normal, step_time_s * np.eye(num_steps)).T)
    fit.setflags(write=False)
    return fit


@kernel_jit
def _track(
    arrays: tuple[Float64Array, ...],
    plan: Float64Array,
    is_joined: bool,
    grid: _Grid,
    speed_fit: Float64Array,
    num_ahead: int,
    vehicle: _Constants,
    longitudinal: _Constants,
    lateral: _Constants,
) -> Float64Array:
    """Return the actions (N, 2) of vehicles one by one.

    Args:
        arrays: Arrays of the states.
        plan: Planned poses of the centres, (N, T, 3).
        is_joined: Whether the current pose of a vehicle is the first knot of the grid, before the plan.
        grid: Knot before each of the M + 1 times of the grid, and the position between it and the next one.
        speed_fit: Matrix of the speed fit, (M, M).
        num_ahead: Number of look-ahead steps.
        vehicle: First of :attr:`TrajectoryTracker.parameters`.
        longitudinal: Second of these.
        lateral: Third of these.
    """
    positions_m, yaws_rad, speeds_mps, _, steering_rad, lengths_m = arrays
    rear_share, base_share, max_tan = vehicle
    gain_1ps, stopping_mps, stopping_gain_1ps = longitudinal
    num_steps, (knots, shares) = speed_fit.shape[0], grid
    path, now = np.empty((num_steps + 1, 5)), np.empty((1, 5))  # x, y, yaw, its cosine and its sine
    speeds, curvatures, scratch = np.empty(num_steps), np.empty(num_steps), np.empty(num_steps)
    actions = np.zeros((lengths_m.shape[0], 2))
    for i in range(lengths_m.shape[0]):
        now[0, 0], now[0, 1], now[0, 2] = positions_m[i, 0], positions_m[i, 1], yaws_rad[i]
        # the planned poses at the times of the grid
        for k in range(num_steps + 1):
            knot, share = knots[k] - is_joined, shares[k]
            for column in range(3):
                start = plan[i, knot, column] if knot >= 0 else now[0, column]
                way = plan[i, knot + 1, column] - start
                path[k, column] = start + share * (way if column < 2 else _wrapped(way))
        move_to_rear_axle(path, rear_share * lengths_m[i])
        move_to_rear_axle(now, rear_share * lengths_m[i])
        fit_speeds(path, speed_fit, speeds)
        wanted_mps = speeds[min(num_ahead, num_steps - 1)]
        if speeds_mps[i] <= stopping_mps and wanted_mps <= stopping_mps:
            actions[i, 0] = -stopping_gain_1ps * (speeds_mps[i] - wanted_mps)
            continue
        actions[i, 0] = gain_1ps * (wanted_mps - speeds_mps[i])
        wheel_base_m = base_share * lengths_m[i]
        fit_curvatures(path, speeds, (lateral[0], lateral[1], max_tan / wheel_base_m), curvatures, scratch)
        motion = (speeds_mps[i], actions[i, 0], steering_rad[i], wheel_base_m)
        actions[i, 1] = best_steering_rate(now[0], path[0], curvatures, motion, num_ahead, lateral)
    return actions


@kernel_jit
def _wrapped(angle_rad: float) -> float:
    """Return an angle wrapped into [-pi, pi); angles in this range are returned exactly, without rounding."""
    return angle_rad if -math.pi <= angle_rad < math.pi else wrap_angle(angle_rad)


@kernel_jit
def move_to_rear_axle(poses: Float64Array, rear_m: float) -> None:
    """Move poses (K, 5) back along their headings, and write cosine and sine of the headings."""
    for k in range(poses.shape[0]):
        poses[k, 3], poses[k, 4] = math.cos(poses[k, 2]), math.sin(poses[k, 2])
        poses[k, 0] -= rear_m * poses[k, 3]
        poses[k, 1] -= rear_m * poses[k, 4]


@kernel_jit
def fit_speeds(path: Float64Array, speed_fit: Float64Array, speeds: Float64Array) -> None:
    """Write the speeds (M,) of the steps of a path, see :func:`speed_fit_matrix`."""
    speeds[:] = 0.0
    for j in range(speeds.shape[0]):
        distance_m = path[j, 3] * (path[j + 1, 0] - path[j, 0]) + path[j, 4] * (path[j + 1, 1] - path[j, 1])
        for k in range(speeds.shape[0]):
            speeds[k] += speed_fit[j, k] * distance_m


@kernel_jit
def fit_curvatures(
    path: Float64Array,
    speeds: Float64Array,
    constants: _Constants,
    curvatures: Float64Array,
    scratch: Float64Array,
) -> None:
    """Write the curvatures (M,) of the steps of a path, within a limit: a tridiagonal system, solved by elimination."""
    # row k of the normal equations: (way_k^2 + ridge + n c) k_k - c (k_{k-1} + k_{k+1}) = way_k dyaw_k, n neighbours
    step_s, rate_weight, max_curvature = constants
    last = speeds.shape[0] - 1
    coupling = rate_weight / (step_s * step_s)
    for k in range(last + 1):
        neighbours = (k > 0) + (k < last)
        distance_m = speeds[k] * step_s
        pivot = distance_m * distance_m + _CURVATURE_RIDGE + coupling * neighbours
        side = distance_m * _wrapped(path[k + 1, 2] - path[k, 2])
        if k > 0:
            pivot -= coupling * scratch[k - 1]
            side += coupling * curvatures[k - 1]
        scratch[k] = coupling / pivot
        curvatures[k] = side / pivot
    # back substitution; the limit clips the solution, and is not part of the fit
    for k in range(last - 1, -1, -1):
        curvatures[k] += scratch[k] * curvatures[k + 1]
    for k in range(last + 1):
        curvatures[k] = min(max(curvatures[k], -max_curvature), max_curvature)


@kernel_jit
def best_steering_rate(
    now: Float64Array,
    planned: Float64Array,
    curvatures: Float64Array,
    motion: _Constants,
    num_ahead: int,
    lateral: _Constants,
) -> float:
    """Return the steering rate that minimises the errors at the end of the look-ahead.

    Args:
        now: Current pose of the rear axle.
        planned: Planned pose of the rear axle.
        curvatures: Curvatures of the plan from there on.
        motion: Speed, acceleration, steering and wheel base.
        num_ahead: Number of look-ahead steps.
        lateral: Third of :attr:`TrajectoryTracker.parameters`.
    """
    speed, acceleration, steering, wheel_base_m = motion
    step_s, _, by_offset, by_heading, by_steering, by_rate = lateral
    cos, sin = planned[3], planned[4]
    offset = cos * (now[1] - planned[1]) - sin * (now[0] - planned[0])
    heading = _wrapped(now[2] - planned[2])

    # errors at the end as z + B u: z without steering, and their derivatives by the rate, step by step
    offset_by_rate, heading_by_rate, steering_by_rate = 0.0, 0.0, 0.0
    for k in range(num_ahead):
        distance_m = max(0.0, speed + acceleration * k * step_s) * step_s
        curvature = curvatures[min(k, curvatures.shape[0] - 1)]
        offset += distance_m * heading
        offset_by_rate += distance_m * heading_by_rate
        heading += distance_m * (steering / wheel_base_m - curvature)
        heading_by_rate += distance_m * steering_by_rate / wheel_base_m
        steering_by_rate += step_s

    # z' Q z + R u^2 is minimal where its derivative is 0: u = -B' Q z / (B' Q B + R)
    slope = by_offset * offset_by_rate * offset + by_heading * heading_by_rate * heading
    slope += by_steering * steering_by_rate * steering
    bend = by_offset * offset_by_rate * offset_by_rate + by_heading * heading_by_rate * heading_by_rate
    bend += by_steering * steering_by_rate * steering_by_rate + by_rate
    rate: float = -slope / bend
    return rate
