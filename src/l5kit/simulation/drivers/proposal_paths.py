"""Paths of proposals: lines beside the path of a vehicle, how fast it may be on them, and what stands in their way."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from l5kit._types import Float64Array, Int64Array
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.lanes.lane_paths import PATH_STEP_M, PathArrays, index_along
from l5kit.lanes.path_positions import line_at, offset_at
from l5kit.lanes.red_lights import LINE_SLACK_M, YELLOW, rank_of_line
from l5kit.simulation.drivers.proposal_forecasts import Others
from l5kit.simulation.lanes.leaders import first_contact


class Way(NamedTuple):
    """A line that a vehicle comes onto.

    Attributes:
        points_m: Points 2 m apart, (p, 2).
        speeds_mps: Highest speed at each, (p,).
        arc_m: Where on them the vehicle is.
        offset_m: How far it is to the left of them.
        slope: The tangent of the angle between its heading and them.
        fade_m: The length along which offset and slope fade.
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
"""What says to :func:`first_contact` where a line is looked at, and how wide it is."""

CONTACT, ALONG_MPS, FIRST_S, LAST_S, PASSED = range(5)
"""Columns of obstacles: where on the way the vehicle meets it, its speed along the way, when it is first and last in
the way, and where the vehicle has passed it."""

NUM_COLUMNS = 5

_VEHICLE = int(RoadUserGroup.VEHICLE)
_SIDE_ROOM_M = 0.15
_FADE_S = 2.5
_SHORTEST_FADE_M = 8.0
_LOOK_STEPS = 5
_MOVES_MPS = 0.3
_WITH_COS = 0.7


@njit(nogil=True, cache=True, error_model="numpy")
def fade_length_m(speed_mps: float) -> float:
    """Return along what length a vehicle comes onto a line beside it."""
    return max(_FADE_S * speed_mps, _SHORTEST_FADE_M)


@njit(nogil=True, cache=True, error_model="numpy")
def speed_at(way: Way, driven_m: float) -> float:
    """Return how fast a vehicle may be after some metres of its way."""
    points = len(way.speeds_mps)
    return float(way.speeds_mps[index_along(way.arc_m + driven_m, points - 1)])


@njit(nogil=True, cache=True, error_model="numpy")
def pose_on_way(way: Way, shift_m: float, driven_m: float) -> tuple[float, float, float]:
    """Return world x, y and yaw after some metres of a way to the line ``shift_m`` to the left of its points.

    The pose after 0 m is that of the vehicle; from there a cubic curve leads onto the line.
    """
    points_m, _, arc_m, offset_m, slope, fade_m = way
    x, y, along_x, along_y = line_at(points_m, arc_m + driven_m)
    beside_m, change = offset_at(driven_m, offset_m - shift_m, slope, fade_m)
    left_m = shift_m + beside_m
    return x - left_m * along_y, y + left_m * along_x, math.atan2(along_y, along_x) + math.atan(change)


@njit(nogil=True, cache=True, error_model="numpy")
def write_stop_lines(paths: PathArrays, track: int, front_m: float, ranks: Int64Array, lines: Float64Array) -> int:
    """Write how far beyond the front of a vehicle the yellow and red lines of its path are, and their ranks, (n, 2).

    Returns:
        Their number; a line more than half a metre behind the front is left out.
    """
    count = 0
    for piece in range(paths.piece_starts[track], paths.piece_starts[track + 1]):
        gap_m = paths.piece_arcs_m[piece] - front_m
        rank = rank_of_line(paths.line_lanes, piece, ranks)
        if count < len(lines) and gap_m >= -LINE_SLACK_M and rank >= YELLOW:
            lines[count, 0], lines[count, 1] = gap_m, rank
            count += 1
    return count


@njit(nogil=True, cache=True, error_model="numpy")
def write_obstacles(
    way: Way,
    shift_m: float,
    size: tuple[float, float],
    others: Others,
    step_s: float,
    line_m: Float64Array,
    obstacles: Float64Array,
) -> int:
    """Write what stands in a way or will cross it, one row for each, and return their number.

    Road users whose boxes meet the way now are in it from now on, and go on along it. Of the others those cross it
    whose forecasts meet it, other than vehicles that come towards the AV, or from behind.

    Args:
        way: The way.
        shift_m: Which line it leads to.
        size: Half length and half width of the vehicle.
        others: Those that may come near.
        step_s: Time of a step of the forecasts.
        line_m: Room for points 2 m apart along the way, which also says how far is looked, (n, 2).
        obstacles: Takes the rows.
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
        # whose centre is ahead of the begin of the line
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


@njit(nogil=True, cache=True, error_model="numpy")
def _find_crossing(
    line_m: Float64Array,
    strip: Strip,
    others: Others,
    row: int,
    step_s: float,
    is_ahead: bool,
    obstacle: Float64Array,
) -> bool:
    """Write when and where somebody crosses a line, and return whether he does."""
    moved, poses = others.objects[row].copy(), others.poses[row]
    speed = math.sqrt(moved[6] * moved[6] + moved[7] * moved[7])
    if speed < _MOVES_MPS:
        return False

    # who cannot come near in all that time need not be followed step by step: circles around the line and the way
    last = len(line_m) - 1
    x, y = 0.5 * (line_m[0, 0] + line_m[last, 0]), 0.5 * (line_m[0, 1] + line_m[last, 1])
    reach_m = 0.5 * last * PATH_STEP_M + strip[1][0] + moved[8] + speed * (len(poses) - 1) * step_s + 1.0
    if not (moved[0] - x) ** 2 + (moved[1] - y) ** 2 < reach_m * reach_m:
        return False

    # the object where each step has it: its velocity turns with it
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
            # vehicles that come towards the AV keep to their side, and those from behind brake for it
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
