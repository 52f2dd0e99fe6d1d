"""Giving way: where drivers stop to let others pass that cross their path or merge into it.

Two road users conflict if their courses come closer than their widths. Each of them occupies the shared stretch for
some time; if these times overlap, one of the two must wait. This criterion is the post-encroachment time of Allen, Shin
and Cooper, "Analysis of traffic conflicts and collisions", Transportation Research Record 667 (1978). Going straight
has priority over turning right, and that over turning left, as in traffic codes; ties are won by the first to arrive.
Road users that do not react (the AV, pedestrians, cyclists, replayed vehicles) always have priority. Red lights stop
others as well.
"""

import math

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.lanes.lane_paths import PATH_STEP_M
from l5kit.simulation.lanes.courses import MOVES_MPS, Courses, Routes, make_courses, write_courses
from l5kit.simulation.lanes.lane_following import Styles, TrafficArrays, mark_lights
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS, find_leader

_AHEAD_S, _BEHIND_S = 0.75, 0.5
"""Least time gaps between one road user leaving the shared stretch and the other one entering it: for a driver that
passes before the other, and for one that passes after it."""

_BESIDE_M = 0.4
"""Lateral distance between road users."""

_MERGED_S = 2.5
"""Time after which a vehicle that merges ahead of another one only counts as its leader."""

_SAME_WAY = 0.7
_BRAKES_MPS2 = 0.5
_TURNS_RAD, _INTO_M = 0.5, 6.0


@kernel_jit
def write_give_way_gaps(
    actors: Int64Array,
    traffic: TrafficArrays,
    routes: Routes,
    styles: Styles,
    gives_way: BoolArray,
    gaps_m: Float64Array,
) -> None:
    """Write the gap from the front of each driven agent to the position where it gives way, infinite without one.

    Args:
        actors: Rows of driven agents, ascending, (K,).
        traffic: R scenes.
        routes: Paths of the road users.
        styles: Driving styles.
        gives_way: Mask of the styles that give way, (N,).
        gaps_m: Output, (K,).
    """
    rows, colors = traffic.rows, traffic.colors
    gaps_m[:] = np.inf
    is_driven = np.zeros(len(rows.groups), np.bool_)
    is_driven[actors] = True
    courses, objects = make_courses(len(rows.groups) + 1), np.empty((len(rows.groups) + 1, OBJECT_FIELDS))
    ranks, actor = np.zeros(traffic.num_lanes, np.int64), 0
    for scene in range(len(rows.starts) - 1):
        if actor == len(actors) or actors[actor] >= rows.starts[scene + 1]:
            continue
        mark_lights(colors, scene, True, ranks)
        count = write_courses(scene, traffic, is_driven, routes, ranks, styles, courses, objects)
        mark_lights(colors, scene, False, ranks)
        for index in range(count):
            if courses.styles[index] >= 0:
                if gives_way[courses.styles[index]]:
                    gaps_m[actor] = _gap_to_give_way(index, count, courses, objects, styles, gives_way)
                actor += 1


@kernel_jit
def _gap_to_give_way(
    index: int, count: int, courses: Courses, objects: Float64Array, styles: Styles, gives_way: BoolArray
) -> float:
    """Return the gap to the nearest position where a driver gives way."""
    gap_m, speed, half_m = np.inf, courses.speeds_mps[index], courses.sizes_m[index, 0]
    braking = styles.params[courses.styles[index], 3]
    for other in range(count):
        if other == index or courses.speeds_mps[other] < MOVES_MPS:
            continue
        # computed in the same order for both of a pair, so that they agree on the priority
        low, high = min(index, other), max(index, other)
        enters_low_m, leaves_low_m, enters_high_m, leaves_high_m, merges = shared_stretch(low, high, courses)
        if enters_low_m < 0:
            continue
        own_m, others_m = (enters_low_m, leaves_low_m), (enters_high_m, leaves_high_m)
        if index == high:
            own_m, others_m = others_m, own_m

        # if one is in the way of the other already, the one ahead is simply a leader
        if _is_in_way(index, other, courses, objects) or _is_in_way(other, index, courses, objects):
            continue
        front_m = max(own_m[0] - half_m, 0.0)
        if front_m >= gap_m:
            continue

        # nobody waits if one of them leaves before the other arrives
        enters_s, leaves_s = _times_at(index, own_m, merges, courses, styles)
        other_enters_s, other_leaves_s = _times_at(other, others_m, merges, courses, styles)
        if enters_s > other_leaves_s + _BEHIND_S or other_enters_s > leaves_s + _AHEAD_S:
            continue

        # if both give way, priority goes by turn, then by time, then by row
        style = courses.styles[other]
        if style >= 0 and gives_way[style]:
            own = (_turn_rank(index, own_m, courses), enters_s, index)
            if own < (_turn_rank(other, others_m, courses), other_enters_s, other):
                continue

        # a driver that cannot stop any more, but leaves before the other arrives, continues
        can_stop = speed * speed <= 2 * braking * front_m or speed < MOVES_MPS
        if can_stop or leaves_s > other_enters_s:
            gap_m = front_m
    return gap_m


@kernel_jit
def _turn_rank(index: int, span_m: tuple[float, float], courses: Courses) -> int:
    """Return 0 for a road user that goes straight through a shared stretch, 1 for a right turn, 2 for a left turn."""
    points_m, last = courses.points_m[index], courses.counts[index] - 1
    point = min(int(min(span_m[1], span_m[0] + _INTO_M) / PATH_STEP_M), last)
    if point < 2:
        return 0
    x, y = points_m[1, 0] - points_m[0, 0], points_m[1, 1] - points_m[0, 1]
    later_x, later_y = points_m[point, 0] - points_m[point - 1, 0], points_m[point, 1] - points_m[point - 1, 1]
    # from the current heading to that some metres into the stretch
    turn = math.atan2(x * later_y - y * later_x, x * later_x + y * later_y)
    if abs(turn) < _TURNS_RAD:
        return 0
    return 2 if turn > 0 else 1


@kernel_jit
def _is_in_way(index: int, other: int, courses: Courses, objects: Float64Array) -> bool:
    """Return whether the box of a road user is on the course of another one now."""
    size = (courses.sizes_m[other, 0], courses.sizes_m[other, 1])
    line_m, reach_m = courses.points_m[other, : courses.counts[other]], courses.reaches_m[other]
    if len(line_m) < 2:
        return False
    gap_m, _ = find_leader(line_m, (0.0, 0.0, 0.0, 0.0), size, reach_m, objects[index : index + 1], -1)
    return gap_m < np.inf


@kernel_jit
def shared_stretch(low: int, high: int, courses: Courses) -> tuple[float, float, float, float, bool]:
    """Return where two road users enter and leave the first stretch that both of them need.

    Args:
        low: One of the two road users.
        high: The other one.
        courses: The courses of all.

    Returns:
        For each of the two the arc lengths at which its centre enters and leaves the stretch, 0 if it is there already,
        -1 if nothing is shared; and whether they leave it in the same direction.
    """
    apart_m = courses.sizes_m[low, 1] + courses.sizes_m[high, 1] + _BESIDE_M
    first_m, second_m = courses.points_m[low], courses.points_m[high]
    far_m = courses.reaches_m[low] + courses.reaches_m[high] + apart_m + 2 * PATH_STEP_M
    x, y = first_m[0, 0] - second_m[0, 0], first_m[0, 1] - second_m[0, 1]
    if x * x + y * y > far_m * far_m:
        return -1.0, -1.0, -1.0, -1.0, False

    # the first run of points of one course that are near any point of the other, and all points near that run
    num_first = min(courses.counts[low], int(courses.reaches_m[low] / PATH_STEP_M) + 2)
    num_second = min(courses.counts[high], int(courses.reaches_m[high] / PATH_STEP_M) + 2)
    enters, leaves, other_enters, other_leaves = -1, -1, num_second, -1
    for point in range(num_first):
        is_shared = False
        for other in range(num_second):
            x, y = first_m[point, 0] - second_m[other, 0], first_m[point, 1] - second_m[other, 1]
            if x * x + y * y < apart_m * apart_m:
                is_shared = True
                other_enters, other_leaves = min(other_enters, other), max(other_leaves, other)
        if is_shared:
            enters, leaves = point if enters < 0 else enters, point
        elif enters >= 0:
            break
    if enters < 0:
        return -1.0, -1.0, -1.0, -1.0, False
    merges = _same_way(first_m, leaves, courses.counts[low], second_m, other_leaves, courses.counts[high])
    # half a step of margin on either side, as there is no information between points
    return (
        max((enters - 0.5) * PATH_STEP_M, 0.0),
        (leaves + 0.5) * PATH_STEP_M,
        max((other_enters - 0.5) * PATH_STEP_M, 0.0),
        (other_leaves + 0.5) * PATH_STEP_M,
        merges,
    )


@kernel_jit
def _same_way(
    first_m: Float64Array, point: int, count: int, second_m: Float64Array, other: int, other_count: int
) -> bool:
    """Return whether two courses have about the same direction at a point of each."""
    before, after = max(point - 1, 0), min(point + 1, count - 1)
    x, y = first_m[after, 0] - first_m[before, 0], first_m[after, 1] - first_m[before, 1]
    before, after = max(other - 1, 0), min(other + 1, other_count - 1)
    other_x, other_y = second_m[after, 0] - second_m[before, 0], second_m[after, 1] - second_m[before, 1]
    lengths_m = math.sqrt((x * x + y * y) * (other_x * other_x + other_y * other_y))
    return bool(x * other_x + y * other_y > _SAME_WAY * lengths_m)


@kernel_jit
def _times_at(
    index: int, span_m: tuple[float, float], merges: bool, courses: Courses, styles: Styles
) -> tuple[float, float]:
    """Return when the front of a road user reaches a stretch, and when its rear leaves it, in seconds.

    Driven agents may accelerate on the way; others keep their speed, or their current braking.
    """
    style, speed, half_m = courses.styles[index], courses.speeds_mps[index], courses.sizes_m[index, 0]
    acceleration = styles.params[style, 2] if style >= 0 else courses.accelerations_mps2[index]
    enters_s = _time_for(max(span_m[0] - half_m, 0.0), speed, acceleration, courses.wanted_mps[index])
    leaves_s = _time_for(span_m[1] + half_m, speed, acceleration, courses.wanted_mps[index])
    return enters_s, min(leaves_s, enters_s + _MERGED_S) if merges else leaves_s


@kernel_jit
def _time_for(distance_m: float, speed_mps: float, acceleration_mps2: float, highest_mps: float) -> float:
    """Return the time for a distance, accelerating to a highest speed, or braking; infinite if it stops before."""
    if distance_m <= 0:
        return 0.0
    if acceleration_mps2 < -_BRAKES_MPS2:
        # v^2 + 2 a s, the squared speed at the end of the distance, is negative if it stops before
        left = speed_mps * speed_mps + 2 * acceleration_mps2 * distance_m
        return (math.sqrt(left) - speed_mps) / acceleration_mps2 if left > 0 else np.inf
    if acceleration_mps2 <= 0 or speed_mps >= highest_mps:
        return distance_m / speed_mps if speed_mps > 0 else np.inf
    # acceleration takes (v_high^2 - v^2) / 2a metres; within them the time follows from s = v t + a t^2 / 2
    speeding_m = (highest_mps * highest_mps - speed_mps * speed_mps) / (2 * acceleration_mps2)
    if distance_m <= speeding_m:
        return (math.sqrt(speed_mps * speed_mps + 2 * acceleration_mps2 * distance_m) - speed_mps) / acceleration_mps2
    return (highest_mps - speed_mps) / acceleration_mps2 + (distance_m - speeding_m) / highest_mps
