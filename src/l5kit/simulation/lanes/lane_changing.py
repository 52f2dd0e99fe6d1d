"""Lane changes of drivers by MOBIL: decision, target lane, and start of the new path.

A driver changes lanes if that is safe for its new follower, and if it gains more than others lose: with the
accelerations a of the driver, of the new follower n and of the old follower o, and with a tilde for the accelerations
after the change,

    a~_n > -b_safe   and   a~ - a + p ((a~_n - a_n) + (a~_o - a_o)) > a_threshold.

Source: Kesting, Treiber and Helbing, "General Lane-Changing Model MOBIL for Car-Following Models", Transportation
Research Record 1999 (2007), equations 2 and 6, the symmetric rule; accelerations are those of the intelligent driver
model. All road users count as followers, including the AV and cyclists. Lights do not count: they are the same for
adjacent lanes.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.geometry.relative_pose import turn_between
from l5kit.lanes.lane_choice import LaneArrays, arc_on_lane, point_on_lane, straightest_ahead
from l5kit.lanes.lane_paths import piece_at, points_ahead
from l5kit.simulation.intelligent_driver import AGENT_DRIVER, driver_acceleration, unbounded_acceleration
from l5kit.simulation.lanes.courses import Courses, Routes, make_courses, write_courses
from l5kit.simulation.lanes.lane_following import (
    ARC,
    ENTRY,
    OFFSET,
    SLOPE,
    DriverParameters,
    Styles,
    TrafficArrays,
    params_of,
)
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS, find_leader, write_object
from l5kit.simulation.parameter_checks import require_positive

LEAST_CHANGE_M = 20.0
"""Least length of a lane change."""

_REACH_M = 60.0
_NEAREST_M, _FARTHEST_M = 1.5, 6.0
_LARGEST_TURN_RAD = 0.5
_NOWHERE_M = 1e9
_OTHERS: DriverParameters = AGENT_DRIVER.kernel_parameters
"""Assumed driver parameters of road users that no driver moves."""


@dataclass(frozen=True)
class LaneChangeParams:
    """Parameters of MOBIL.

    Attributes:
        politeness: p, weight of the gains and losses of others, at least 0. The authors consider up to 0.5 realistic.
        least_gain_mps2: The threshold, at least 0; that of the paper.
        safe_braking_mps2: b_safe, limit of the braking imposed on others, above 0. The paper has 4 for drivers that
            brake harder if necessary; agents here brake by 2 at most.
        duration_s: Duration of a change, above 0; 4 s is about the median of recorded changes (Toledo and Zohar,
            "Modeling Duration of Lane Changes", Transportation Research Record 1999, 2007: 4.6 s).
        every_s: Time between two decisions of a driver, above 0.

    Raises:
        InvalidArgumentError: A value is out of range.
    """

    politeness: float = 0.2
    least_gain_mps2: float = 0.1
    safe_braking_mps2: float = 2.0
    duration_s: float = 4.0
    every_s: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, may_be_0=("politeness", "least_gain_mps2"))


class ChangeRules(NamedTuple):
    """Rules of lane changes for kernels.

    Attributes:
        politeness: Politeness of each style, (N,).
        least_gains_mps2: Thresholds, (N,).
        safe_braking_mps2: Limits of the braking of others, (N,).
        durations_s: Durations of a change, (N,).
        lanes: The lanes of the map.
        sides: Left and right neighbour of each lane that may be changed to, -1 for none, (L, 2).
        limits_mps: Speed limits of lanes, (L,).
        is_in_junction: Mask of lanes without lane changes, (L,).
    """

    politeness: Float64Array
    least_gains_mps2: Float64Array
    safe_braking_mps2: Float64Array
    durations_s: Float64Array
    lanes: LaneArrays
    sides: Int64Array
    limits_mps: Float64Array
    is_in_junction: BoolArray


@kernel_jit
def choose_changes(
    actors: Int64Array,
    may_change: BoolArray,
    traffic: TrafficArrays,
    routes: Routes,
    styles: Styles,
    rules: ChangeRules,
    targets: Int64Array,
    poses: Float64Array,
) -> None:
    """Write the lanes that drivers change to now, -1 for none.

    Drivers decide in the order of the rows; later ones see the new positions of earlier ones.

    Args:
        actors: Rows of driven agents, ascending, (K,).
        may_change: Mask of those that decide now, (K,).
        traffic: R scenes.
        routes: Paths of the road users.
        styles: Driving styles.
        rules: Rules of lane changes.
        targets: Output lanes, (K,).
        poses: Output world x, y and yaw on these lanes beside the vehicle, (K, 3).
    """
    rows = traffic.rows
    targets[:] = -1
    is_driven = np.zeros(len(rows.groups), np.bool_)
    is_driven[actors] = True
    size = 2 * len(rows.groups) + 1
    courses, objects, boxes = make_courses(size), np.empty((size, OBJECT_FIELDS)), np.empty((size, 5))
    dark, actor = np.zeros(len(rules.limits_mps), np.int64), 0
    for scene in range(len(rows.starts) - 1):
        first = actor
        while actor < len(actors) and actors[actor] < rows.starts[scene + 1]:
            actor += 1
        if not may_change[first:actor].any():
            continue
        count = write_courses(scene, traffic, is_driven, routes, dark, styles, courses, objects)
        for index in range(count - 1):
            boxes[index] = rows.boxes[courses.agent_rows[index]]
        boxes[count - 1] = traffic.ego[0][scene]

        # courses of driven agents are in the order of the actors
        num_objects, member = count, first
        for index in range(count):
            if courses.styles[index] < 0:
                continue
            if may_change[member]:
                track = traffic.tracks[actors[member]]
                targets[member] = _lane_to_change_to(
                    index, track, count, num_objects, courses, objects, boxes, routes, styles, rules, poses[member]
                )
            if targets[member] >= 0:  # the vehicle occupies both lanes from now on
                boxes[num_objects] = boxes[index]
                boxes[num_objects, :3] = poses[member]
                write_object(objects, num_objects, boxes[num_objects], objects[index, 6:8])
                num_objects += 1
            member += 1


@kernel_jit
def _lane_to_change_to(
    index: int,
    track: int,
    count: int,
    num_objects: int,
    courses: Courses,
    objects: Float64Array,
    boxes: Float64Array,
    routes: Routes,
    styles: Styles,
    rules: ChangeRules,
    pose: Float64Array,
) -> int:
    """Return the better neighbour lane if the driver changes, else -1; its pose there is written to ``pose``."""
    paths, route, motion = routes.paths, routes.of_tracks[track], routes.motions[track]
    lane = paths.piece_lanes[piece_at(paths, route, paths.piece_starts[route], motion[ARC])]
    if rules.is_in_junction[lane]:
        return -1
    style, speed, seen = courses.styles[index], courses.speeds_mps[index], objects[:num_objects]
    params, size = params_of(styles, style), (courses.sizes_m[index, 0], courses.sizes_m[index, 1])
    position = (motion[ARC], motion[ENTRY], motion[OFFSET], motion[SLOPE])
    points_m = paths.points_m[paths.starts[route] : paths.starts[route + 1]]
    gap_m, leader_mps = find_leader(points_m, position, size, _REACH_M, seen, index)
    now_mps2 = driver_acceleration(speed, gap_m, leader_mps, courses.wanted_mps[index], params)
    best, best_gain_mps2 = -1, rules.least_gains_mps2[style]
    for side in range(2):
        target = rules.sides[lane, side]
        if target < 0 or rules.is_in_junction[target]:
            continue
        beside = _box_beside(boxes[index], target, max(speed * rules.durations_s[style], LEAST_CHANGE_M), rules)
        if beside[3] <= 0:
            continue

        # the position must be free, with the standing gap before and after it
        longer, is_taken = beside.copy(), False
        longer[3] += 2 * params[0]
        for other in range(num_objects):
            is_taken = is_taken or (other != index and boxes_overlap(longer, boxes[other]))
        if is_taken:
            continue

        # gap and speed on the target lane; the reaction of the driver itself must be safe, too
        ahead_m = points_ahead(rules.lanes, rules.limits_mps, target, beside[:2], _REACH_M)
        gap_m, leader_mps = find_leader(ahead_m, (0.0, 0.0, 0.0, 0.0), size, _REACH_M, seen, index)
        wanted_mps = max(styles.limit_parts[style] * rules.limits_mps[target], 0.1)
        if unbounded_acceleration(speed, gap_m, leader_mps, wanted_mps, params) < -rules.safe_braking_mps2[style]:
            continue
        gain_mps2 = driver_acceleration(speed, gap_m, leader_mps, wanted_mps, params) - now_mps2
        is_safe, others_gain_mps2 = _gain_of_others(
            index, beside, count, courses, seen, styles, rules.safe_braking_mps2[style]
        )
        gain_mps2 += rules.politeness[style] * others_gain_mps2
        if is_safe and gain_mps2 > best_gain_mps2:
            best, best_gain_mps2 = target, gain_mps2
            pose[:] = beside[:3]
    return best


@kernel_jit
def _box_beside(box: Float64Array, target: int, change_m: float, rules: ChangeRules) -> Float64Array:
    """Return the box of a vehicle moved onto a neighbour lane, (5,); with length 0 if it cannot change to it."""
    beside, lanes = box.copy(), rules.lanes
    arc_m, yaw = arc_on_lane(lanes, target, box[:2])
    beside[0], beside[1] = point_on_lane(lanes, target, arc_m)
    beside[2] = yaw
    apart_m = math.hypot(beside[0] - box[0], beside[1] - box[1])

    # the change must end before the next junction, possibly several short lanes ahead
    left_m, lane = lanes.arc_lengths_m[target, -1] - arc_m - change_m - 0.5 * box[3], target
    while left_m < 0.0:
        lane = straightest_ahead(lanes, lane)
        if lane < 0 or rules.is_in_junction[lane]:
            break
        left_m += max(lanes.arc_lengths_m[lane, -1], 0.1)
    has_room = arc_m > 0.0 and left_m >= 0.0
    if not (has_room and _NEAREST_M <= apart_m <= _FARTHEST_M and turn_between(yaw, box[2]) <= _LARGEST_TURN_RAD):
        beside[3] = 0.0
    return beside


@kernel_jit
def _gain_of_others(
    index: int,
    beside: Float64Array,
    count: int,
    courses: Courses,
    objects: Float64Array,
    styles: Styles,
    safe_mps2: float,
) -> tuple[bool, float]:
    """Return whether the change is safe for others, and the sum of their gains in acceleration."""
    changed, gain_mps2, position = np.empty((1, OBJECT_FIELDS)), 0.0, (0.0, 0.0, 0.0, 0.0)
    write_object(changed, 0, beside, objects[index, 6:8])
    for other in range(count):
        if other == index or courses.counts[other] < 2:
            continue
        size, speed = (courses.sizes_m[other, 0], courses.sizes_m[other, 1]), courses.speeds_mps[other]
        line_m = courses.points_m[other, : courses.counts[other]]
        gap_m, leader_mps = find_leader(line_m, position, size, _REACH_M, objects, other)
        new_gap_m, new_leader_mps = find_leader(line_m, position, size, _REACH_M, changed, -1)
        old_gap_m, _ = find_leader(line_m, position, size, _REACH_M, objects[index : index + 1], -1)

        # only the old follower, whose leader is the driver, and the new one, whose leader it becomes, are affected
        is_old = old_gap_m < np.inf and old_gap_m <= gap_m
        if not is_old and new_gap_m >= gap_m:
            continue

        # its leader after the change: for the old follower the one ahead of the driver, which is moved away temporarily
        next_gap_m, next_leader_mps = gap_m, leader_mps
        if is_old:
            x_m, objects[index, 0] = objects[index, 0], _NOWHERE_M
            next_gap_m, next_leader_mps = find_leader(line_m, position, size, _REACH_M, objects, other)
            objects[index, 0] = x_m
        if new_gap_m < next_gap_m:
            next_gap_m, next_leader_mps = new_gap_m, new_leader_mps

        # its gain, unless it would have to brake too hard
        style, wanted_mps = courses.styles[other], courses.wanted_mps[other]
        params = params_of(styles, style) if style >= 0 else _OTHERS
        is_follower = next_gap_m == new_gap_m and new_gap_m < np.inf
        if is_follower and unbounded_acceleration(speed, next_gap_m, next_leader_mps, wanted_mps, params) < -safe_mps2:
            return False, 0.0
        gain_mps2 += driver_acceleration(speed, next_gap_m, next_leader_mps, wanted_mps, params)
        gain_mps2 -= driver_acceleration(speed, gap_m, leader_mps, wanted_mps, params)
    return True, gain_mps2
