"""Kernels of AVs on a device: where they start, how they move, and what they meet there; one item a slot."""

import math
from typing import Any

from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.environment.rewards.step_faults import farthest_corner, write_corners
from l5kit.environment.traffic.traffic_kernels import LogRows, Seats, list_present
from l5kit.environment.traffic.traffic_steps import MET, SceneStarts, SlotPlaces, TrafficRoom
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.simulation.vehicle_steps import Moved, step_bicycle, step_by_curvature, step_unicycle

__all__ = ["BICYCLE", "CURVATURE", "NUM_NUMBERS", "REPLAY", "UNICYCLE", "check_avs", "move_avs", "start_avs"]

REPLAY, UNICYCLE, CURVATURE, BICYCLE = range(4)
"""What moves AVs: the log, or a model."""

NUM_NUMBERS = 5
"""Numbers of a model."""

_SPEED, _ACCELERATION, _STEERING = range(3)
"""Columns of motions."""


@njit(nogil=True, cache=True, error_model="numpy")
def start_avs(item: int, arguments: tuple[Any, ...]) -> None:
    """Put an AV where it starts.

    Arguments: slots (B,); x, y, yaw, speed, acceleration and steering, (B, 6); boxes, velocities and motions of all
    AVs; areas that held their corners; how often each slot has started.
    """
    slots, states, avs, areas, num_starts = arguments
    slot = slots[item]
    now = (states[item, 0], states[item, 1], states[item, 2], states[item, 3], states[item, 4], states[item, 5])
    _write_av(avs, slot, now)
    for corner in range(4):
        areas[slot, corner] = -1
    num_starts[slot] += 1


@njit(nogil=True, cache=True, error_model="numpy")
def move_avs(item: int, arguments: tuple[Any, ...]) -> None:
    """Move the AV of a slot into the frame that the traffic has reached, unless its scene was over before.

    Arguments: places of all slots; ``scenes`` and ``ego`` of BankArrays; which slots are over; boxes, velocities and
    motions of all AVs; actions (N, 2); what moves them, the numbers of the model, and seconds.
    """
    places, scenes, log, is_over, avs, actions, (kind, numbers, step_s) = arguments
    if is_over[item]:
        return
    if kind == REPLAY:
        places, (log_poses, log_motion, _) = SlotPlaces(*places), log
        row = SceneStarts(*scenes).frames[places.bank_rows[item]] + places.frames[item]
        pose, motion = log_poses[row], log_motion[row]
        _write_av(avs, item, (pose[0], pose[1], pose[2], motion[0], motion[1], motion[3]))
        return
    box, motion = avs[0][item], avs[2][item]
    now = (box[0], box[1], box[2], motion[_SPEED], motion[_ACCELERATION], motion[_STEERING], box[3])
    action = (actions[item, 0], actions[item, 1])
    if kind == UNICYCLE:
        _write_av(avs, item, step_unicycle(now, action, numbers, step_s))
    elif kind == CURVATURE:
        _write_av(avs, item, step_by_curvature(now, action, numbers, step_s))
    else:
        _write_av(avs, item, step_bicycle(now, action, numbers, step_s))


@njit(nogil=True, cache=True, error_model="numpy")
def check_avs(item: int, arguments: tuple[Any, ...]) -> None:
    """Write whether the AV of a slot overlaps a road user, how far off the road it is, and whether its scene is over.

    Arguments: slots (B,); places of all slots; ``scenes`` and ``rows`` of BankArrays; seats; room of the traffic; the
    map; boxes of all AVs; room for corners (N, 4, 2) and the areas that held them, (N, 4); what is written, (N,) each.
    """
    slots, places, scenes, rows, seats, room, surface, boxes, (corners_m, areas), found = arguments
    places, scenes, room = SlotPlaces(*places), SceneStarts(*scenes), TrafficRoom(*room)
    is_collided, off_road_m, is_over = found
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
    is_over[slot] = frame + 1 >= scenes.frames[scene + 1]


@njit(nogil=True, cache=True, error_model="numpy")
def _write_av(avs: tuple[Float64Array, Float64Array, Float64Array], slot: int, now: Moved) -> None:
    """Write the state of an AV."""
    boxes, velocities_mps, motions = avs
    x, y, yaw, speed_mps, acceleration, steering = now
    boxes[slot, 0], boxes[slot, 1], boxes[slot, 2] = x, y, yaw
    velocities_mps[slot, 0], velocities_mps[slot, 1] = speed_mps * math.cos(yaw), speed_mps * math.sin(yaw)
    motions[slot, _SPEED], motions[slot, _ACCELERATION], motions[slot, _STEERING] = speed_mps, acceleration, steering


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
