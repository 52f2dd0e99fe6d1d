"""Roll-out of proposals: where a bicycle behind a tracker gets that follows each of several plans."""

from typing import NamedTuple

import numpy as np
from numba import njit

from l5kit._types import Float64Array
from l5kit.simulation.trajectory_tracker import (
    TrajectoryTracker,
    best_steering_rate,
    fit_curvatures,
    fit_speeds,
    move_to_rear_axle,
    speed_fit_matrix,
)
from l5kit.simulation.vehicle_models import move_vehicles
from l5kit.simulation.vehicle_steps import BICYCLE

X, Y, YAW, SPEED, ACCELERATION, STEERING, ACROSS = range(7)
"""Columns of states: pose of the centre, speed, acceleration along the heading, steering, acceleration across."""

NUM_COLUMNS = 7


class Tracking(NamedTuple):
    """A tracker and its bicycle, as kernels take them.

    Attributes:
        speed_fit: The fit of the speeds of a plan of N steps, (N, N).
        num_ahead: Steps looked ahead.
        vehicle: How far behind the centre the rear axle is, the wheel base, and the largest tangent of the steering.
        longitudinal: Gain of the acceleration, and speed and gain of a stop.
        lateral: The step, and the weights of the steering.
        bicycle: Numbers of the bicycle.
    """

    speed_fit: Float64Array
    num_ahead: int
    vehicle: tuple[float, ...]
    longitudinal: tuple[float, ...]
    lateral: tuple[float, ...]
    bicycle: tuple[float, ...]


def tracking_of(tracker: TrajectoryTracker, num_steps: int) -> Tracking:
    """Return a tracker and its bicycle as kernels take them, for plans of some of its steps."""
    params = tracker.params
    fit = speed_fit_matrix(num_steps, params.step_time_s, params.jerk_weight)
    return Tracking(fit, int(params.num_steps), *tracker.parameters, tracker.bicycle.parameters(params.step_time_s))


@njit(nogil=True, cache=True, error_model="numpy")
def roll_out(plans: Float64Array, length_m: float, tracking: Tracking, states: Float64Array) -> None:
    """Write where vehicles get that follow plans, by the rules of :class:`TrajectoryTracker` and its bicycle.

    Reference speeds and curvatures are fitted to a plan once, as the tracker does at its begin, and not again after
    each step to what is left of it.

    Args:
        plans: Poses of the centres from now on in steps of the tracker, (P, N + 1, 3).
        length_m: Length of the vehicle.
        tracking: Numbers of tracker and bicycle.
        states: Takes the states, (P, T + 1, 7); the first ones are there already.
    """
    rear_share, base_share, max_tan = tracking.vehicle
    speed_fit, lateral = tracking.speed_fit, tracking.lateral
    num_plans, num_steps = len(plans), len(speed_fit)
    paths = np.empty((num_plans, num_steps + 1, 5))
    speeds, curvatures = np.empty((num_plans, num_steps)), np.empty((num_plans, num_steps))
    scratch, actions, lengths_m = np.empty(num_steps), np.empty((num_plans, 2)), np.full(num_plans, length_m)
    for number in range(num_plans):
        paths[number, :, :3] = plans[number]
        move_to_rear_axle(paths[number], rear_share * length_m)
        fit_speeds(paths[number], speed_fit, speeds[number])
        steepest = (lateral[0], lateral[1], max_tan / (base_share * length_m))
        fit_curvatures(paths[number], speeds[number], steepest, curvatures[number], scratch)
    for step in range(states.shape[1] - 1):
        for number in range(num_plans):
            _decide(
                states[number, step],
                step,
                paths[number],
                speeds[number],
                curvatures[number],
                length_m,
                tracking,
                actions[number],
            )
        before = (
            states[:, step, :2].copy(),
            states[:, step, YAW].copy(),
            states[:, step, SPEED].copy(),
            states[:, step, ACCELERATION].copy(),
            states[:, step, STEERING].copy(),
            lengths_m,
        )
        moved = move_vehicles(BICYCLE, before, actions, tracking.bicycle, lateral[0])
        after = states[:, step + 1]
        after[:, :2] = moved[0]
        after[:, YAW], after[:, SPEED], after[:, ACCELERATION], after[:, STEERING] = (
            moved[1],
            moved[2],
            moved[3],
            moved[4],
        )
        after[:, ACROSS] = moved[2] * (moved[1] - before[1]) / lateral[0]


@njit(nogil=True, cache=True, error_model="numpy")
def _decide(
    state: Float64Array,
    step: int,
    path: Float64Array,
    speeds: Float64Array,
    curvatures: Float64Array,
    length_m: float,
    tracking: Tracking,
    action: Float64Array,
) -> None:
    """Write wanted acceleration and steering rate of a vehicle in one step of its plan."""
    rear_share, base_share, _ = tracking.vehicle
    gain_1ps, stopping_mps, stopping_gain_1ps = tracking.longitudinal
    num_ahead, lateral = tracking.num_ahead, tracking.lateral
    speed, wanted = state[SPEED], speeds[min(step + num_ahead, len(speeds) - 1)]
    if speed <= stopping_mps and wanted <= stopping_mps:
        action[0], action[1] = -stopping_gain_1ps * (speed - wanted), 0.0
        return
    now = np.empty((1, 5))
    now[0, 0], now[0, 1], now[0, 2] = state[X], state[Y], state[YAW]
    move_to_rear_axle(now, rear_share * length_m)
    action[0] = gain_1ps * (wanted - speed)
    motion = (speed, action[0], state[STEERING], base_share * length_m)
    action[1] = best_steering_rate(now[0], path[step], curvatures[step:], motion, num_ahead, lateral)
