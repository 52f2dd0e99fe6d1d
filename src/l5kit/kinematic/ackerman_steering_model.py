"""Least-squares fits of a car's path to goal poses.

All quantities are per step: speeds in metres per step, accelerations in metres per step squared, steering in radians
per step. At 10 steps per second the default acceleration bound of 0.3 is 30 m/s^2.
"""

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Float64Array
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.angle import angular_distance

_NUM_GAUSS_NEWTON_STEPS = 5
_MAX_STEER_RAD = math.radians(45) * 0.1

FittedPath = tuple[Float64Array, Float64Array, Float64Array, Float64Array]
ControlledPath = tuple[Float64Array, Float64Array, Float64Array, Float64Array, Float64Array, Float64Array]


def fit_ackerman_model_exact(
    x0: ArrayLike,
    y0: ArrayLike,
    r0: ArrayLike,
    v0: ArrayLike,
    gx: ArrayLike,
    gy: ArrayLike,
    gr: ArrayLike,
    gv: ArrayLike,
    wgx: ArrayLike,
    wgy: ArrayLike,
    wgr: ArrayLike,
    wgv: ArrayLike,
    ws: float = 5.0,
    wa: float = 5.0,
    min_acc: float = -0.3,
    max_acc: float = 0.3,
    min_steer: float = -_MAX_STEER_RAD,
    max_steer: float = _MAX_STEER_RAD,
) -> ControlledPath:
    """Return the path within steering and acceleration bounds that comes nearest to the goal states.

    Heading and speed are updated before the position: ``r_i = r_(i-1) + steer_i``, ``v_i = v_(i-1) + acc_i``,
    ``x_i = x_(i-1) + v_i cos r_i``, ``y_i = y_(i-1) + v_i sin r_i``. SciPy's trust region reflective method minimises
    the sum of squares of the weighted goal errors, ``ws * steer`` and ``wa * acc``.

    Args:
        x0: Start x in metres, scalar or shape (N,).
        y0: Start y in metres, scalar or shape (N,).
        r0: Start heading in radians, scalar or shape (N,).
        v0: Start speed in metres per step, scalar or shape (N,).
        gx: Goal x in metres, shape (N,).
        gy: Goal y in metres, scalar or shape (N,), like all arguments up to ``wgv``.
        gr: Goal headings in radians.
        gv: Goal speeds in metres per step.
        wgx: Weights of the x errors.
        wgy: Weights of the y errors.
        wgr: Weights of the heading errors (wrapped to [-pi, pi)).
        wgv: Weights of the speed errors.
        ws: Weight of the steering.
        wa: Weight of the acceleration.
        min_acc: Lower bound of the acceleration, below 0, in metres per step squared.
        max_acc: Upper bound of the acceleration, above 0.
        min_steer: Lower bound of the steering, below 0, in radians per step.
        max_steer: Upper bound of the steering, above 0.

    Returns:
        x, y, heading, speed, acceleration and steering, each of shape (N,).

    Raises:
        InvalidArgumentError: An array does not match N, N is 0, a value is not finite, or bounds do not enclose 0.
    """
    from scipy.optimize import least_squares  # lazy: slower to import than everything else that sampling needs

    _check_bounds("acc", min_acc, max_acc)
    _check_bounds("steer", min_steer, max_steer)
    num_steps = _count_steps(gx)
    fit = _ExactFit(
        start=_stack({"x0": x0, "y0": y0, "r0": r0, "v0": v0}, num_steps),
        goals=_stack({"gx": gx, "gy": gy, "gr": gr, "gv": gv}, num_steps),
        goal_weights=_stack({"wgx": wgx, "wgy": wgy, "wgr": wgr, "wgv": wgv}, num_steps),
        control_weights=np.repeat([float(ws), float(wa)], num_steps),
    )
    bounds = (np.repeat([min_steer, min_acc], num_steps), np.repeat([max_steer, max_acc], num_steps))
    solution = least_squares(fit.residuals, np.zeros(2 * num_steps), jac=fit.jacobian, bounds=bounds)
    x, y, r, v = fit.roll_out(solution.x)
    steer, acc = solution.x.reshape(2, num_steps)
    return x, y, r, v, acc, steer


def fit_ackerman_model_approximate(
    gx: ArrayLike,
    gy: ArrayLike,
    gr: ArrayLike,
    gv: ArrayLike,
    wx: ArrayLike,
    wy: ArrayLike,
    wr: ArrayLike,
    wv: ArrayLike,
    wgx: ArrayLike,
    wgy: ArrayLike,
    wgr: ArrayLike,
    wgv: ArrayLike,
) -> FittedPath:
    """Return a compromise between goal states and a car's motion, after five Gauss-Newton steps from the goals.

    Unlike in :func:`fit_ackerman_model_exact`, the motion is a soft constraint: each state i should lead to the next by
    ``x_(i+1) = x_i + v_i cos r_i``, ``y_(i+1) = y_i + v_i sin r_i``, ``r_(i+1) = r_i``, ``v_(i+1) = v_i``. Each
    Gauss-Newton step takes the minimum-norm solution of the linear least-squares problem.

    Args:
        gx: Goal x in metres, shape (N,).
        gy: Goal y in metres, scalar or shape (N,), like all following arguments.
        gr: Goal headings in radians.
        gv: Goal speeds in metres per step.
        wx: Weights of the x motion; the last is unused, also of ``wy``, ``wr`` and ``wv``.
        wy: Weights of the y motion.
        wr: Weights of the constant heading.
        wv: Weights of the constant speed.
        wgx: Weights of the x errors.
        wgy: Weights of the y errors.
        wgr: Weights of the heading errors (wrapped to [-pi, pi)).
        wgv: Weights of the speed errors.

    Returns:
        x, y, heading and speed, each of shape (N,).

    Raises:
        InvalidArgumentError: An array does not match N, N is 0, or a value is not finite.
    """
    num_steps = _count_steps(gx)
    fit = _ApproximateFit(
        goals=_stack({"gx": gx, "gy": gy, "gr": gr, "gv": gv}, num_steps),
        goal_weights=_stack({"wgx": wgx, "wgy": wgy, "wgr": wgr, "wgv": wgv}, num_steps),
        motion_weights=_stack({"wx": wx, "wy": wy, "wr": wr, "wv": wv}, num_steps),
    )
    states = fit.goals
    for _ in range(_NUM_GAUSS_NEWTON_STEPS):
        step, *_ = np.linalg.lstsq(fit.jacobian(states), -fit.residuals(states), rcond=None)
        states = states + step.reshape(4, num_steps)
    x, y, r, v = states
    return x, y, r, v


@dataclass(frozen=True)
class _ExactFit:
    """Residuals and Jacobian as functions of the controls (2 N,): all steering, then all accelerations."""

    start: Float64Array  # (4, N) x, y, r, v
    goals: Float64Array  # (4, N)
    goal_weights: Float64Array  # (4, N)
    control_weights: Float64Array  # (2 N,)

    def roll_out(self, controls: Float64Array) -> Float64Array:
        """Return the states (4, N) resulting from the controls."""
        states = np.empty_like(self.start)
        states[2:] = self.start[2:] + np.cumsum(controls.reshape(2, -1), axis=1)
        states[:2] = self.start[:2] + np.cumsum(_velocities(states), axis=1)
        return states

    def residuals(self, controls: Float64Array) -> Float64Array:
        """Return the weighted goal errors, then the weighted controls, shape (6 N,)."""
        goal_residuals = self.goal_weights * _state_differences(self.roll_out(controls), self.goals)
        return np.concatenate([goal_residuals.ravel(), self.control_weights * controls])

    def jacobian(self, controls: Float64Array) -> Float64Array:
        """Return the derivatives of the residuals, shape (6 N, 2 N)."""
        num_steps = self.start.shape[1]
        states = self.roll_out(controls)
        # Steering in step j turns the velocities of all steps from j on: x_i changes by their sum of -vy, y_i by
        # that of vx. Acceleration lengthens them instead.
        vx, vy = _velocities(states)
        cos, sin = np.cos(states[2]), np.sin(states[2])
        blocks = np.zeros((6, num_steps, 2, num_steps))  # residual, step; control, step
        blocks[0, :, 0], blocks[0, :, 1] = _sums_since(-vy), _sums_since(cos)
        blocks[1, :, 0], blocks[1, :, 1] = _sums_since(vx), _sums_since(sin)
        blocks[2, :, 0] = blocks[3, :, 1] = np.tri(num_steps)
        blocks[:4] *= self.goal_weights[:, :, None, None]
        jacobian = blocks.reshape(6 * num_steps, 2 * num_steps)
        np.fill_diagonal(jacobian[4 * num_steps :], self.control_weights)
        return jacobian


@dataclass(frozen=True)
class _ApproximateFit:
    """Residuals and Jacobian as functions of the states (4, N)."""

    goals: Float64Array  # (4, N)
    goal_weights: Float64Array  # (4, N)
    motion_weights: Float64Array  # (4, N), last column unused

    def residuals(self, states: Float64Array) -> Float64Array:
        """Return the weighted goal errors, then the motion errors between successive states, shape (8 N - 4,)."""
        reached = states[:, :-1].copy()
        reached[:2] += _velocities(reached)
        goal_residuals = self.goal_weights * _state_differences(states, self.goals)
        motion_residuals = self.motion_weights[:, :-1] * _state_differences(reached, states[:, 1:])
        return np.concatenate([goal_residuals.ravel(), motion_residuals.ravel()])

    def jacobian(self, states: Float64Array) -> Float64Array:
        """Return the derivatives of the residuals, shape (8 N - 4, 4 N)."""
        num_steps = states.shape[1]
        steps, kinds = np.arange(num_steps - 1), np.arange(4)[:, None]
        vx, vy = _velocities(states[:, :-1])
        cos, sin = np.cos(states[2, :-1]), np.sin(states[2, :-1])
        blocks = np.zeros((4, num_steps - 1, 4, num_steps))  # residual, step; state, step
        # motion error: state predicted from the previous one, minus the state itself
        blocks[kinds, steps, kinds, steps] = 1.0
        blocks[kinds, steps, kinds, steps + 1] = -1.0
        blocks[0, steps, 2, steps], blocks[0, steps, 3, steps] = -vy, cos
        blocks[1, steps, 2, steps], blocks[1, steps, 3, steps] = vx, sin
        blocks *= self.motion_weights[:, :-1, None, None]
        return np.concatenate([np.diag(self.goal_weights.ravel()), blocks.reshape(-1, 4 * num_steps)])


def _velocities(states: Float64Array) -> Float64Array:
    """Return the displacement (2, N) of the step of each state (4, N), in metres."""
    velocities: Float64Array = states[3] * np.stack([np.cos(states[2]), np.sin(states[2])])
    return velocities


def _state_differences(states: Float64Array, others: Float64Array) -> Float64Array:
    differences = states - others
    differences[2] = angular_distance(states[2], others[2])
    return differences


def _sums_since(terms: Float64Array) -> Float64Array:
    """Return the (N, N) sums of terms[j] to terms[i], inclusive, at row i and column j, and 0 for j > i."""
    sums = np.cumsum(terms)
    return np.tril(sums[:, None] - (sums - terms))


def _count_steps(gx: ArrayLike) -> int:
    shape = np.shape(gx)
    if len(shape) != 1 or shape[0] == 0:
        raise InvalidArgumentError(f"gx has shape {shape}; pass at least one goal, shape (N,)")
    return cast("int", shape[0])


def _stack(values: dict[str, ArrayLike], num_steps: int) -> Float64Array:
    """Return four scalars or arrays of length N as one array (4, N)."""
    stacked = np.empty((len(values), num_steps))
    for row, (name, value) in zip(stacked, values.items(), strict=True):
        array = np.asarray(value, dtype=np.float64)
        if array.shape not in ((), (1,), (num_steps,)):
            raise InvalidArgumentError(f"{name} has shape {array.shape}; for gx of {num_steps} pass that or a scalar")
        if not np.isfinite(array).all():
            raise InvalidArgumentError(f"{name} holds values that are not finite: {array}")
        row[:] = array
    return stacked


def _check_bounds(name: str, lower: float, upper: float) -> None:
    if not lower < 0 < upper:
        raise InvalidArgumentError(f"min_{name} is {lower} and max_{name} is {upper}; the bounds must enclose 0")
