"""Ways of proposals: lines beside the path of a vehicle, the obstacles on them, and the motion of a driver along them.

The driver is an intelligent driver with leaders, crossing road users, red lines, bends and speed limits.
"""

import math
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.lanes.lane_paths import PATH_STEP_M, PathArrays, index_along
from l5kit.lanes.path_positions import line_at, offset_at
from l5kit.lanes.red_lights import LINE_SLACK_M, RED, YELLOW, rank_of_line
from l5kit.simulation.lanes.courses import MOVES_MPS
from l5kit.simulation.lanes.lane_following import DriverParameters, acceleration_behind
from l5kit.simulation.lanes.lane_forecasts import Others
from l5kit.simulation.lanes.leaders import first_contact
from l5kit.simulation.lanes.route_tracking import EMERGENCY_BRAKING_MPS2


class Way(NamedTuple):
    """A line, and the transition of a vehicle onto it.

    Attributes:
        points_m: Points 2 m apart, (p, 2).
        speeds_mps: Highest speed at each point, (p,).
        arc_m: Arc length of the vehicle.
        offset_m: Offset of the vehicle to the left.
        slope: Tangent of the angle of the vehicle to the line.
        fade_m: Length over which offset and slope fade.
    """

    points_m: Float64Array
    speeds_mps: Float64Array
    arc_m: float
    offset_m: float
    slope: float
    fade_m: float


Strip = tuple[
    tuple[float, float, float, float], tuple[float, float], tuple[int, float, float], tuple[float, float, float, float]
]
"""Arguments of :func:`first_contact` for the searched part of a line and its width."""

CONTACT, ALONG_MPS, FIRST_S, LAST_S, PASSED = range(5)
"""Columns of obstacles: distance of contact on the way, speed along the way, first and last time in the way, and the
distance at which the vehicle has passed it."""

NUM_COLUMNS = 5

_VEHICLE = int(RoadUserGroup.VEHICLE)
_SIDE_ROOM_M = 0.15
_LOOK_STEPS = 5
_WITH_COS = 0.7

_LATE_S = 0.8
"""Time gap between a vehicle and a road user that crosses its way."""

_SLOWEST_MPS = 1.0
"""Lower bound of the speed for estimated arrival times at crossing road users."""

_STOPPING_S = 0.4
_MORE_STEPS = 3
_MOST_JERK_MPS3 = 4.0


@kernel_jit
def pose_on_way(way: Way, shift_m: float, driven_m: float) -> tuple[float, float, float]:
    """Return world x, y and yaw after some metres on the way to the line ``shift_m`` to the left of its points.

    The pose at 0 m is that of the vehicle; from there a cubic curve leads onto the line.
    """
    points_m, _, arc_m, offset_m, slope, fade_m = way
    x, y, along_x, along_y = line_at(points_m, arc_m + driven_m)
    beside_m, change = offset_at(driven_m, offset_m - shift_m, slope, fade_m)
    left_m = shift_m + beside_m
    return x - left_m * along_y, y + left_m * along_x, math.atan2(along_y, along_x) + math.atan(change)


@kernel_jit
def write_stop_lines(paths: PathArrays, track: int, front_m: float, ranks: Int64Array, lines: Float64Array) -> int:
    """Write the gaps from the front of a vehicle to yellow and red lines of its path, and their ranks, (n, 2).

    Returns:
        Their number; lines more than half a metre behind the front are skipped.
    """
    count = 0
    for piece in range(paths.piece_starts[track], paths.piece_starts[track + 1]):
        gap_m = paths.piece_arcs_m[piece] - front_m
        rank = rank_of_line(paths.line_lanes, piece, ranks)
        if count < len(lines) and gap_m >= -LINE_SLACK_M and rank >= YELLOW:
            lines[count, 0], lines[count, 1] = gap_m, rank
            count += 1
    return count


@kernel_jit
def write_obstacles(
    way: Way,
    shift_m: float,
    size: tuple[float, float],
    others: Others,
    step_s: float,
    line_m: Float64Array,
    obstacles: Float64Array,
) -> int:
    """Write the obstacles on or crossing a way, one row each, and return their number.

    Road users whose boxes overlap the way now are obstacles from now on, and move along it. Others are obstacles if
    their forecasts cross the way, except for oncoming vehicles and vehicles from behind.

    Args:
        way: The way.
        shift_m: Offset of the line that it leads to.
        size: Half length and half width of the vehicle.
        others: Road users that may come near.
        step_s: Time step of the forecasts.
        line_m: Scratch array for points 2 m apart along the way; its length limits the search, (n, 2).
        obstacles: Output rows.
    """
    for point in range(len(line_m)):
        line_m[point, 0], line_m[point, 1], _ = pose_on_way(way, shift_m, point * PATH_STEP_M)
    half_m = size[1] + _SIDE_ROOM_M
    strip = (0.0, -np.inf, 0.0, 0.0), (half_m, half_m), (0, np.inf, np.inf), (0.0, 0.0, 1.0, 0.0)
    objects, count = others.objects, 0
    x, y, along_x, along_y = line_at(line_m, 0.0)
    for row in range(len(objects)):
        if count == len(obstacles):
            break
        contact_m, along_mps = first_contact(line_m, strip[0], strip[1], strip[2], strip[3], objects[row])
        # centre ahead of the start of the line
        is_ahead = (objects[row, 0] - x) * along_x + (objects[row, 1] - y) * along_y > 0
        if contact_m < np.inf:
            if contact_m > size[0] or is_ahead:
                obstacles[count, CONTACT], obstacles[count, ALONG_MPS] = contact_m, along_mps
                obstacles[count, FIRST_S], obstacles[count, LAST_S] = 0.0, np.inf
                obstacles[count, PASSED] = np.inf
                count += 1
        elif _find_crossing(line_m, strip, others, row, step_s, is_ahead, obstacles[count]):
            count += 1
    return count


@kernel_jit
def _find_crossing(
    line_m: Float64Array,
    strip: Strip,
    others: Others,
    row: int,
    step_s: float,
    is_ahead: bool,
    obstacle: Float64Array,
) -> bool:
    """Write time and position at which a road user crosses a line, and return whether it does."""
    moved, poses = others.objects[row].copy(), others.poses[row]
    speed = math.sqrt(moved[6] * moved[6] + moved[7] * moved[7])
    if speed < MOVES_MPS:
        return False

    # skip road users that cannot come near in the whole time: compare circles around the line and their motion
    last = len(line_m) - 1
    x, y = 0.5 * (line_m[0, 0] + line_m[last, 0]), 0.5 * (line_m[0, 1] + line_m[last, 1])
    reach_m = 0.5 * last * PATH_STEP_M + strip[1][0] + moved[8] + speed * (len(poses) - 1) * step_s + 1.0
    if not (moved[0] - x) ** 2 + (moved[1] - y) ** 2 < reach_m * reach_m:
        return False

    # the object at its forecast poses; its velocity turns with its heading
    is_vehicle = others.groups[row] == _VEHICLE
    obstacle[CONTACT], obstacle[ALONG_MPS], obstacle[FIRST_S] = np.inf, 0.0, np.inf
    for step in range(_LOOK_STEPS, len(poses), _LOOK_STEPS):
        turn = poses[step, 2] - poses[step - _LOOK_STEPS, 2]
        cos, sin = math.cos(turn), math.sin(turn)
        moved[6], moved[7] = cos * moved[6] - sin * moved[7], sin * moved[6] + cos * moved[7]
        moved[0], moved[1] = poses[step, 0], poses[step, 1]
        moved[2], moved[3] = math.cos(poses[step, 2]), math.sin(poses[step, 2])
        contact_m, along_mps = first_contact(line_m, strip[0], strip[1], strip[2], strip[3], moved)
        if contact_m < np.inf:
            # oncoming vehicles keep to their side, and vehicles from behind brake for the AV
            if is_vehicle and (along_mps < -_WITH_COS * speed or (along_mps > _WITH_COS * speed and not is_ahead)):
                return False
            if obstacle[FIRST_S] == np.inf:
                obstacle[FIRST_S] = step_s * (step - _LOOK_STEPS)
            obstacle[LAST_S] = step_s * (step + _LOOK_STEPS)
            if contact_m < obstacle[CONTACT]:
                obstacle[CONTACT], obstacle[ALONG_MPS] = contact_m, max(along_mps, 0.0)
        elif obstacle[FIRST_S] < np.inf:
            break
    obstacle[PASSED] = obstacle[CONTACT] + 2 * moved[8]
    return bool(obstacle[FIRST_S] < np.inf)


@kernel_jit
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
    """Write the distance driven after each step, starting with 0 m.

    The acceleration changes by at most 4 m/s3, unless more than half of b is needed to stop in time.

    Args:
        way: The way.
        driver: Parameters, desired share of the highest speed, and time step in seconds.
        motion: Current speed, at least 0, and acceleration.
        half_m: Half length of the vehicle.
        end_m: Gap from its front to the end of the way.
        lines: Gaps to yellow and red lines, and their ranks, (n, 2).
        obstacles: Rows of :func:`write_obstacles`.
        driven_m: Output in metres, (N + 1,).
    """
    params, part, step_s = driver
    travelled_m, (speed, last) = 0.0, motion
    driven_m[0] = 0.0
    for step in range(1, len(driven_m)):
        wanted = max(part * way.speeds_mps[index_along(way.arc_m + travelled_m, len(way.speeds_mps) - 1)], 0.1)

        # nearest of the end of the way and the lines; a yellow line counts if the AV can still stop with b (v^2 = 2 b
        # s)
        gap_m = end_m - travelled_m
        for row in range(len(lines)):
            line_m = lines[row, 0] - travelled_m
            is_held = lines[row, 1] >= RED or speed * speed <= 2 * params[3] * line_m
            if line_m >= -LINE_SLACK_M and is_held and line_m < gap_m:
                gap_m = line_m
        gap_m = max(gap_m, 0.0)

        # least acceleration for all leaders, crossing road users, and that line
        acceleration = acceleration_behind(speed, gap_m, 0.0, wanted, params, step_s)
        needed = _needed_braking(speed, gap_m)
        for row in range(len(obstacles)):
            gap_m, along_mps = _gap_to(obstacles[row], (step - 1) * step_s, travelled_m, speed, half_m)
            if gap_m < np.inf:
                acceleration = min(acceleration, acceleration_behind(speed, gap_m, along_mps, wanted, params, step_s))
                needed = max(needed, _needed_braking(speed - along_mps, gap_m))

        # limit the jerk if there is time; 0 may be reached at once from either side
        if needed <= 0.5 * params[3]:
            change = _MOST_JERK_MPS3 * step_s
            acceleration = min(max(acceleration, min(last, 0.0) - change), max(last, 0.0) + change)

        # if the driver stops within the step, it moves only until then
        after = max(speed + acceleration * step_s, 0.0)
        driven_s = step_s
        if after == 0.0 and acceleration < 0:
            driven_s = min(speed / -acceleration, step_s)
        travelled_m += 0.5 * (speed + after) * driven_s
        driven_m[step], speed, last = travelled_m, after, acceleration


@kernel_jit
def _needed_braking(closing_mps: float, gap_m: float) -> float:
    """Return the deceleration needed to match the speed of an obstacle when the gap to it is closed."""
    return max(closing_mps, 0.0) ** 2 / max(2 * gap_m, 1e-3)


@kernel_jit
def _gap_to(
    obstacle: Float64Array, time_s: float, travelled_m: float, speed_mps: float, half_m: float
) -> tuple[float, float]:
    """Return the gap to an obstacle and its speed along the way; infinity and 0 if it does not matter."""
    gap_m, along_mps = obstacle[CONTACT] - half_m - travelled_m, obstacle[ALONG_MPS]
    if obstacle[LAST_S] == np.inf:
        return gap_m + along_mps * time_s, along_mps
    reckoned_mps = max(speed_mps, _SLOWEST_MPS)
    arrives_s = time_s + max(gap_m, 0.0) / reckoned_mps
    leaves_s = time_s + (obstacle[PASSED] + half_m - travelled_m) / reckoned_mps
    is_late, is_early = arrives_s > obstacle[LAST_S] + _LATE_S, leaves_s < obstacle[FIRST_S] - _LATE_S
    if gap_m < -half_m or is_late or is_early:
        return np.inf, 0.0
    return gap_m, along_mps


@kernel_jit
def write_emergency_distances(speed_mps: float, tracker: tuple[float, int, float], driven_m: Float64Array) -> None:
    """Write a plan for which a tracker brakes as hard as in an emergency, and stops without a rebound.

    A tracker that corrects a share of the speed error at its look-ahead would brake less and less. The plan therefore
    has a speed there, below 0 if needed, that makes it brake with 6 m/s2, or with less at low speed.

    Args:
        speed_mps: Speed of the vehicle.
        tracker: Gain, 1/s, number of look-ahead steps, and time step.
        driven_m: Output in metres after each step, (N + 1,).
    """
    gain_1ps, num_ahead, step_s = tracker
    change_mps = -min(EMERGENCY_BRAKING_MPS2, speed_mps / _STOPPING_S) / gain_1ps
    driven_m[0] = 0.0
    for step in range(1, len(driven_m)):
        speed = speed_mps + change_mps * min(step / (num_ahead + 1), 1.0)
        driven_m[step] = driven_m[step - 1] + (speed * step_s if step <= num_ahead + _MORE_STEPS else 0.0)


@kernel_jit
def write_plan(way: Way, shift_m: float, driven_m: Float64Array, plan: Float64Array) -> None:
    """Write the poses of a plan, (N + 1, 3), at driven distances."""
    for step in range(len(driven_m)):
        plan[step, 0], plan[step, 1], plan[step, 2] = pose_on_way(way, shift_m, driven_m[step])
