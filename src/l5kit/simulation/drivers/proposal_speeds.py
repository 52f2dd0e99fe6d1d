"""Speeds of proposals: how an intelligent driver moves along a way, with leaders, those who cross, and red lines."""

import numpy as np
from numba import njit

from l5kit._types import Float64Array
from l5kit.lanes.red_lights import RED
from l5kit.simulation.drivers.proposal_paths import (
    ALONG_MPS,
    CONTACT,
    FIRST_S,
    LAST_S,
    PASSED,
    Way,
    pose_on_way,
    speed_at,
)
from l5kit.simulation.lanes.lane_following import DriverParameters, acceleration_behind

_LATE_S = 0.8
"""Time that a vehicle leaves between itself and somebody who crosses its way."""

_SLOWEST_MPS = 1.0
"""Speed with which a vehicle at least gets to those who cross its way, as it is reckoned."""

_EMERGENCY_MPS2 = 6.0
_STOPPING_S = 0.4
_MORE_STEPS = 3
_MOST_JERK_MPS3 = 4.0


@njit(nogil=True, cache=True, error_model="numpy")
def write_driver_distances(
    way: Way,
    driver: tuple[DriverParameters, float, float],
    motion: tuple[float, float],
    half_m: float,
    end_m: float,
    lines: Float64Array,
    obstacles: Float64Array,
    driven_m: Float64Array,
) -> None:
    """Write how far a driver has come after each step, from 0 m on.

    Its acceleration changes by at most 4 m/s3, but where it needs more than half of b to stop in time.

    Args:
        way: The way.
        driver: Parameters, the part of the highest speed that is wanted, and the time of a step, seconds.
        motion: How fast it is now, at least 0, and how hard it accelerates.
        half_m: Half length of the vehicle.
        end_m: Gap from its front to the end of the way.
        lines: Gaps to yellow and red lines, and their ranks, (n, 2).
        obstacles: Rows of :func:`l5kit.simulation.drivers.proposal_paths.write_obstacles`.
        driven_m: Takes the metres, (N + 1,).
    """
    params, part, step_s = driver
    come_m, (speed, last) = 0.0, motion
    driven_m[0] = 0.0
    for step in range(1, len(driven_m)):
        wanted = max(part * speed_at(way, come_m), 0.1)

        # the nearest of the end of the way and the lines; a yellow one holds who can still stop with b (v^2 = 2 b s)
        gap_m = end_m - come_m
        for row in range(len(lines)):
            line_m = lines[row, 0] - come_m
            is_held = lines[row, 1] >= RED or speed * speed <= 2 * params[3] * line_m
            if line_m >= -0.5 and is_held and line_m < gap_m:
                gap_m = line_m
        gap_m = max(gap_m, 0.0)

        # as the one asks that is worst: a leader, somebody who crosses, or that line
        acceleration = acceleration_behind(speed, gap_m, 0.0, wanted, params, step_s)
        needed = _needed_braking(speed, gap_m)
        for row in range(len(obstacles)):
            gap_m, along_mps = _gap_to(obstacles[row], (step - 1) * step_s, come_m, speed, half_m)
            if gap_m < np.inf:
                acceleration = min(acceleration, acceleration_behind(speed, gap_m, along_mps, wanted, params, step_s))
                needed = max(needed, _needed_braking(speed - along_mps, gap_m))

        # smoothly where there is time; 0 may be reached at once from either side
        if needed <= 0.5 * params[3]:
            change = _MOST_JERK_MPS3 * step_s
            acceleration = min(max(acceleration, min(last, 0.0) - change), max(last, 0.0) + change)

        # a driver who stops within the step drives only until then
        after = max(speed + acceleration * step_s, 0.0)
        driven_s = step_s
        if after == 0.0 and acceleration < 0:
            driven_s = min(speed / -acceleration, step_s)
        come_m += 0.5 * (speed + after) * driven_s
        driven_m[step], speed, last = come_m, after, acceleration


@njit(nogil=True, cache=True, error_model="numpy")
def _needed_braking(closing_mps: float, gap_m: float) -> float:
    """Return how hard somebody has to brake who comes closer to something, to come to it with its speed."""
    return max(closing_mps, 0.0) ** 2 / max(2 * gap_m, 1e-3)


@njit(nogil=True, cache=True, error_model="numpy")
def _gap_to(
    obstacle: Float64Array, time_s: float, come_m: float, speed_mps: float, half_m: float
) -> tuple[float, float]:
    """Return the gap to an obstacle and its speed along the way, infinite and 0 where it does not matter."""
    gap_m, along_mps = obstacle[CONTACT] - half_m - come_m, obstacle[ALONG_MPS]
    if obstacle[LAST_S] == np.inf:
        return gap_m + along_mps * time_s, along_mps
    reckoned_mps = max(speed_mps, _SLOWEST_MPS)
    arrives_s = time_s + max(gap_m, 0.0) / reckoned_mps
    leaves_s = time_s + (obstacle[PASSED] + half_m - come_m) / reckoned_mps
    is_late, is_early = arrives_s > obstacle[LAST_S] + _LATE_S, leaves_s < obstacle[FIRST_S] - _LATE_S
    if gap_m < -half_m or is_late or is_early:
        return np.inf, 0.0
    return gap_m, along_mps


@njit(nogil=True, cache=True, error_model="numpy")
def write_emergency_distances(speed_mps: float, tracker: tuple[float, int, float], driven_m: Float64Array) -> None:
    """Write a plan with which a tracker brakes as hard as in an emergency, and comes to a stop without a rebound.

    A tracker that takes a part of the change of speed by the end of its look ahead would brake less and less. The plan
    therefore has the speed there, below 0 where need be, that makes it brake with 6 m/s2, or with less when it is slow.

    Args:
        speed_mps: How fast the vehicle is.
        tracker: Its gain, 1/s, how many steps it looks ahead, and the time of a step.
        driven_m: Takes the metres after each step, (N + 1,).
    """
    gain_1ps, num_ahead, step_s = tracker
    change_mps = -min(_EMERGENCY_MPS2, speed_mps / _STOPPING_S) / gain_1ps
    driven_m[0] = 0.0
    for step in range(1, len(driven_m)):
        speed = speed_mps + change_mps * min(step / (num_ahead + 1), 1.0)
        driven_m[step] = driven_m[step - 1] + (speed * step_s if step <= num_ahead + _MORE_STEPS else 0.0)


@njit(nogil=True, cache=True, error_model="numpy")
def write_plan(way: Way, shift_m: float, driven_m: Float64Array, plan: Float64Array) -> None:
    """Write the poses of a plan, (N + 1, 3), at the metres that are driven."""
    for step in range(len(driven_m)):
        plan[step, 0], plan[step, 1], plan[step, 2] = pose_on_way(way, shift_m, driven_m[step])
