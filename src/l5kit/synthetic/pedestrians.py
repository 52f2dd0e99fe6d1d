"""State of the pedestrians of a scene, and how they walk, wait and cross."""

from typing import NamedTuple

import numpy as np
from numba import njit

from l5kit._types import Float64Array, Int64Array
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.synthetic.right_of_way import crosswalk_has_vehicle
from l5kit.synthetic.road_network import Records, RoadNetwork
from l5kit.synthetic.signals import red_time_left

WALKING, WAITING, CROSSING = 0, 1, 2
PATH_SPACING_M = 0.5
_PERSONAL_SPACE_M = 0.95
_LOOK_AHEAD_M = 1.0
_NEAR_M = 5.0


MAX_CROSSINGS = 6
"""Largest number of crossings on the path of a pedestrian, including one unused entry."""

PEDESTRIAN_DTYPE = np.dtype(
    [
        ("active", "i8"),
        ("uid", "i8"),
        ("path_length_m", "f8"),
        ("crossing_s_m", "f8", (MAX_CROSSINGS, 2)),
        ("crossing_crosswalk", "i8", MAX_CROSSINGS),
        ("crossing_forward", "i8", MAX_CROSSINGS),
        ("next_crossing", "i8"),
        ("phase", "i8"),
        ("s_m", "f8"),
        ("speed_mps", "f8"),
        ("pace_mps", "f8"),
        ("box", "f8", 5),
        ("height_m", "f8"),
    ],
    align=True,
)
"""State of a pedestrian.

active: 1 while present; uid: number in the scene, shared with the vehicles; path_length_m: length of the path;
crossing_s_m: start and end of each crossing along the path; crossing_crosswalk: its crosswalk, -1 after the last;
crossing_forward: 1 if walked from the crosswalk's first end; next_crossing: index of the next or current crossing;
phase: WALKING, WAITING or CROSSING; s_m: distance walked; pace_mps: desired speed; box: x, y, yaw, length, width.
"""


class Pedestrians(NamedTuple):
    """State of W pedestrians (PEDESTRIAN_DTYPE) and their paths, points at 0.5 m, (W, K, 2).

    The kernels change the state in place.
    """

    state: Records
    path_m: Float64Array


@njit(nogil=True, cache=True)
def write_pedestrian_box(walk: Pedestrians, i: int, s_m: float, box: Float64Array) -> None:
    """Write the pose at a distance along a pedestrian's path, and the size, to a box (5,)."""
    point = min(int(s_m / PATH_SPACING_M), int(walk.state.path_length_m[i] / PATH_SPACING_M) - 1)
    fraction = s_m / PATH_SPACING_M - point
    dx = walk.path_m[i, point + 1, 0] - walk.path_m[i, point, 0]
    dy = walk.path_m[i, point + 1, 1] - walk.path_m[i, point, 1]
    box[0] = walk.path_m[i, point, 0] + fraction * dx
    box[1] = walk.path_m[i, point, 1] + fraction * dy
    box[2] = np.arctan2(dy, dx)
    box[3] = walk.state.box[i, 3]
    box[4] = walk.state.box[i, 4]


@njit(nogil=True, cache=True)
def mark_claims(net: RoadNetwork, walk: Pedestrians, claims: Int64Array, time_s: float) -> None:
    """Mark the crosswalks at which a pedestrian waits who may cross, so that vehicles give way, (C,)."""
    claims[:] = 0
    for i in range(walk.state.active.shape[0]):
        if walk.state.active[i] == 1 and walk.state.phase[i] == WAITING and _signal_allows(net, walk, i, time_s):
            claims[walk.state.crossing_crosswalk[i, walk.state.next_crossing[i]]] = 1


@njit(nogil=True, cache=True)
def mark_walkers(walk: Pedestrians, along_m: Float64Array) -> None:
    """Write the interval of each crosswalk that pedestrians on it still need: lowest and highest position, (C, 2)."""
    along_m[:, 0] = 1e6
    along_m[:, 1] = -1e6
    for i in range(walk.state.active.shape[0]):
        if walk.state.active[i] == 0 or walk.state.phase[i] != CROSSING:
            continue
        crossing = walk.state.next_crossing[i]
        crosswalk = walk.state.crossing_crosswalk[i, crossing]
        length_m = walk.state.crossing_s_m[i, crossing, 1] - walk.state.crossing_s_m[i, crossing, 0]
        done_m = walk.state.s_m[i] - walk.state.crossing_s_m[i, crossing, 0]
        low_m, high_m = done_m - 0.8, length_m
        if walk.state.crossing_forward[i, crossing] == 0:
            low_m, high_m = 0.0, length_m - done_m + 0.8
        along_m[crosswalk, 0] = min(along_m[crosswalk, 0], low_m)
        along_m[crosswalk, 1] = max(along_m[crosswalk, 1], high_m)


@njit(nogil=True, cache=True)
def walk_one_step(net: RoadNetwork, walk: Pedestrians, veh: Records, i: int, time_s: float) -> None:
    """Move a pedestrian for one step of 0.1 s, without walking into others or onto a crosswalk that is not free.

    Pedestrians stay at the end of their path, since they could otherwise vanish in front of the AV.
    """
    crossing = walk.state.next_crossing[i]
    crosswalk = walk.state.crossing_crosswalk[i, crossing]
    if crosswalk >= 0 and walk.state.phase[i] == CROSSING:
        if walk.state.s_m[i] >= walk.state.crossing_s_m[i, crossing, 1]:
            walk.state.phase[i] = WALKING
            walk.state.next_crossing[i] += 1
    elif crosswalk >= 0 and walk.state.s_m[i] + 1.5 >= walk.state.crossing_s_m[i, crossing, 0]:
        is_free = _signal_allows(net, walk, i, time_s) and not crosswalk_has_vehicle(net, veh, crosswalk)
        walk.state.phase[i] = CROSSING if is_free else WAITING
    stop_m = walk.state.path_length_m[i] - 1.0
    if walk.state.phase[i] == WAITING:
        stop_m = min(stop_m, walk.state.crossing_s_m[i, walk.state.next_crossing[i], 0])
    goal = min(walk.state.pace_mps[i], np.sqrt(max(0.0, 2.0 * 1.2 * (stop_m - walk.state.s_m[i] - 0.05))))
    if _is_blocked(walk, veh, i, _LOOK_AHEAD_M):
        goal = 0.0
    speed = min(max(goal, walk.state.speed_mps[i] - 0.25), walk.state.speed_mps[i] + 0.12)
    if _is_blocked(walk, veh, i, 0.1 * speed):
        speed = 0.0
    walk.state.s_m[i] += 0.1 * speed
    walk.state.speed_mps[i] = speed
    write_pedestrian_box(walk, i, walk.state.s_m[i], walk.state.box[i])


@njit(nogil=True, cache=True)
def _signal_allows(net: RoadNetwork, walk: Pedestrians, i: int, time_s: float) -> bool:
    """Return whether the traffic of the crossed arm stays stopped for the duration of the crossing."""
    crossing = walk.state.next_crossing[i]
    head = net.crosswalks.head[walk.state.crossing_crosswalk[i, crossing]]
    if head < 0:
        return True
    length_m = walk.state.crossing_s_m[i, crossing, 1] - walk.state.s_m[i]
    return bool(red_time_left(net.heads.timing_s[head], time_s) > length_m / walk.state.pace_mps[i])


@njit(nogil=True, cache=True)
def _is_blocked(walk: Pedestrians, veh: Records, i: int, ahead_m: float) -> bool:
    """Return whether the position ``ahead_m`` ahead on a pedestrian's path is too close to another road user."""
    box = np.empty(5)
    write_pedestrian_box(walk, i, walk.state.s_m[i] + ahead_m, box)
    for j in range(walk.state.active.shape[0]):
        if j == i or walk.state.active[j] == 0 or abs(walk.state.box[j, 0] - box[0]) > _PERSONAL_SPACE_M:
            continue
        now = (walk.state.box[j, 0] - walk.state.box[i, 0]) ** 2 + (walk.state.box[j, 1] - walk.state.box[i, 1]) ** 2
        # pedestrians that are too close may separate, so only approaching ones block
        then = (walk.state.box[j, 0] - box[0]) ** 2 + (walk.state.box[j, 1] - box[1]) ** 2
        if then < _PERSONAL_SPACE_M**2 and then < now:
            return True
    box[3:] += 0.5
    blocked = False
    for j in range(veh.active.shape[0]):
        near = abs(veh.box[j, 0] - box[0]) < _NEAR_M and abs(veh.box[j, 1] - box[1]) < _NEAR_M
        if near and veh.active[j] == 1:
            blocked |= boxes_overlap(box, veh.box[j])
    return blocked
