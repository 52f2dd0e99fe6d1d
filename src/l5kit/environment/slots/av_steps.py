"""Kernels of AVs that models move: where they start, how they move, and what they meet; one item a slot."""

import math
from typing import Any

from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.environment.episode_roads import AvArrays
from l5kit.environment.traffic.traffic_kernels import LogRows, Seats, list_present
from l5kit.environment.traffic.traffic_steps import MET, SceneStarts, SlotPlaces, TrafficRoom
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.geometry.relative_pose import wrap_angle
from l5kit.lanes.road_surface import farthest_corner, write_corners
from l5kit.simulation.vehicle_steps import step_bicycle, step_by_curvature, step_unicycle

__all__ = [
    "BICYCLE",
    "CURVATURE",
    "NUM_NUMBERS",
    "REPLAY",
    "UNICYCLE",
    "check_avs",
    "move_avs",
    "start_avs",
]

REPLAY, UNICYCLE, CURVATURE, BICYCLE = range(4)
"""What moves AVs: the log, or a model."""

NUM_NUMBERS = 5
"""Numbers of a model."""

_SPEED, _ACCELERATION, _YAW_RATE, _STEERING = range(4)
"""Columns of motions."""


@njit(nogil=True, cache=True, error_model="numpy")
def start_avs(item: int, arguments: tuple[Any, ...]) -> None:
    """Put an AV where it starts.

    Arguments: slots (B,); x, y, yaw and motions, (B, 7); places of all slots; ``scenes`` of BankArrays; all AVs; which
    are new, and whose scenes are over, (N,) each.
    """
    slots, states, places, scenes, avs, is_new, is_over = arguments
    avs, slot = AvArrays(*avs), slots[item]
    pose, motion = (states[item, 0], states[item, 1], states[item, 2]), states[item, 3:]
    _write_av(avs, slot, pose, (motion[_SPEED], motion[_ACCELERATION], motion[_YAW_RATE], motion[_STEERING]))
    for column in range(len(motion)):
        avs.motions_before[slot, column] = motion[column]
    is_new[slot], is_over[slot] = True, _is_last(slot, SlotPlaces(*places), SceneStarts(*scenes))


@njit(nogil=True, cache=True, error_model="numpy")
def move_avs(item: int, arguments: tuple[Any, ...]) -> None:
    """Move the AV of a slot into the frame that the traffic has reached, unless its scene was over before.

    Arguments: places of all slots; ``scenes`` and ``ego`` of BankArrays; all AVs; which are new, and whose scenes are
    over, (N,) each; actions (N, 2); what moves them, the numbers of the model, and seconds.
    """
    places, scenes, log, avs, is_new, is_over, actions, (kind, numbers, step_s) = arguments
    if is_over[item]:
        return
    avs, places, scenes, (log_poses, log_motion, _) = AvArrays(*avs), SlotPlaces(*places), SceneStarts(*scenes), log
    is_new[item], is_over[item] = False, _is_last(item, places, scenes)
    box, motion = avs.boxes[item], avs.motions[item]
    for column in range(len(motion)):
        avs.motions_before[item, column] = motion[column]
    if kind == REPLAY:
        row = scenes.frames[places.bank_rows[item]] + places.frames[item]
        pose, logged = log_poses[row], log_motion[row]
        of_log = (logged[_SPEED], logged[_ACCELERATION], logged[_YAW_RATE], logged[_STEERING])
        _write_av(avs, item, (pose[0], pose[1], pose[2]), of_log)
        return
    now = (box[0], box[1], box[2], motion[_SPEED], motion[_ACCELERATION], motion[_STEERING], box[3])
    action = (actions[item, 0], actions[item, 1])
    if kind == UNICYCLE:
        moved = step_unicycle(now, action, numbers, step_s)
    elif kind == CURVATURE:
        moved = step_by_curvature(now, action, numbers, step_s)
    else:
        moved = step_bicycle(now, action, numbers, step_s)
    x, y, yaw, speed_mps, acceleration, steering = moved
    yaw_rate = wrap_angle(yaw - box[2]) / step_s
    _write_av(avs, item, (x, y, yaw), (speed_mps, acceleration, yaw_rate, steering))


@njit(nogil=True, cache=True, error_model="numpy")
def check_avs(item: int, arguments: tuple[Any, ...]) -> None:
    """Write whether the AV of a slot overlaps a road user, and how far off the road it is.

    Arguments: slots (B,); places of all slots; ``scenes`` and ``rows`` of BankArrays; seats; room of the traffic; the
    map; boxes of all AVs; corners (N, 4, 2) and the areas that held them, (N, 4); what is written, (N,) each.
    """
    slots, places, scenes, rows, seats, room, surface, boxes, corners_m, areas, is_collided, off_road_m = arguments
    places, scenes, room = SlotPlaces(*places), SceneStarts(*scenes), TrafficRoom(*room)
    slot = slots[item]
    if places.frames[slot] < 0:
        return
    scene, own = places.bank_rows[slot], slot % len(room.steps)
    frame = scenes.frames[scene] + places.frames[slot]
    num_own = scenes.routes[scene + 1] - scenes.routes[scene] - 1
    present, is_met = room.present[own], room.marks[own, MET]
    is_collided[slot] = _overlaps(slot, frame, num_own, LogRows(*rows), Seats(*seats), boxes[slot], present, is_met)
    write_corners(boxes[slot], corners_m[slot])
    off_road_m[slot] = farthest_corner(surface, corners_m[slot], areas[slot])


@njit(nogil=True, cache=True, error_model="numpy")
def _is_last(slot: int, places: SlotPlaces, scenes: SceneStarts) -> bool:
    """Return whether a slot is in the last frame of its scene."""
    scene = places.bank_rows[slot]
    return bool(scenes.frames[scene] + places.frames[slot] + 1 >= scenes.frames[scene + 1])


@njit(nogil=True, cache=True, error_model="numpy")
def _write_av(
    avs: AvArrays, slot: int, pose: tuple[float, float, float], motion: tuple[float, float, float, float]
) -> None:
    """Write where an AV is, and its speed, acceleration, yaw rate and steering."""
    x, y, yaw = pose
    speed_mps, acceleration, yaw_rate, steering = motion
    avs.boxes[slot, 0], avs.boxes[slot, 1], avs.boxes[slot, 2] = x, y, yaw
    avs.velocities_mps[slot, 0], avs.velocities_mps[slot, 1] = speed_mps * math.cos(yaw), speed_mps * math.sin(yaw)
    motions = avs.motions[slot]
    motions[_SPEED], motions[_ACCELERATION] = speed_mps, acceleration
    motions[_YAW_RATE], motions[_STEERING] = yaw_rate, steering


@njit(nogil=True, cache=True, error_model="numpy")
def _overlaps(
    slot: int,
    frame: int,
    num_own: int,
    rows: LogRows,
    seats: Seats,
    box: Float64Array,
    present: Int64Array,
    is_met: BoolArray,
) -> bool:
    """Return whether a box overlaps that of a road user of a slot."""
    states: NumericArray = seats.states[slot]
    count = list_present(frame, rows, states, num_own, present, is_met)
    for number in range(count):
        who = present[number]
        if who < 0:
            if seats.groups[slot, -1 - who] >= 0 and boxes_overlap(box, seats.boxes[slot, -1 - who]):
                return True
        elif rows.groups[who] >= 0 and boxes_overlap(box, rows.boxes[who]):
            return True
    return False
