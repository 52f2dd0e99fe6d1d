"""Scores of proposals: collisions with others as forecasts have them, and times to collision.

The metrics are those of :mod:`l5kit.evaluation.driving`, over the seconds of a proposal in place of a scene. Someone
who overlaps the AV already is left out, as in the frames after a collision.
"""

import math

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array
from l5kit.evaluation.driving.collisions import CollisionKind, angle_from_heading, kind_of
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.simulation.drivers.proposal_forecasts import RADIUS, Others
from l5kit.simulation.drivers.proposal_places import RoadArrays, is_across, is_across_or_in_junction
from l5kit.simulation.drivers.proposal_rollout import SPEED, YAW, X, Y

NO_FAULT, FAULT_STEP, IS_AHEAD_FREE, OFF_STEP, IS_COMFORTABLE, WAY_M = range(6)
"""Columns of marks: score of collisions at fault, first step of one, whether the time to collision is long enough,
first step off the road, whether it is comfortable, and how far it comes."""

NUM_COLUMNS = 6

_FRONT, _LATERAL = int(CollisionKind.FRONT), int(CollisionKind.LATERAL)
_OTHER_STOPPED = int(CollisionKind.OTHER_STOPPED)
_OTHER_OBJECT = int(RoadUserGroup.OTHER)
_STANDS_MPS = 0.05
_STOPPED_MPS = 0.005
_AHEAD_RAD, _BEHIND_RAD = math.radians(30.0), math.radians(150.0)
_LOOK_S, _NUM_LOOKS = 0.1, 10
"""Looks ahead for the time to collision, one more than those of the score: forecasts are never exact."""


@njit(nogil=True, cache=True, error_model="numpy")
def mark_collisions(
    states: Float64Array,
    body: tuple[float, float, float],
    others: Others,
    is_met: BoolArray,
    road: RoadArrays,
    marks: Float64Array,
) -> None:
    """Write what a proposal has to do with others.

    Args:
        states: The states of the proposal, (T + 1, 7).
        body: Length, width, and how far the rear axle is behind the centre.
        others: Those that may come near.
        is_met: Who overlaps the AV already; it is changed.
        road: Lanes, for whom collisions to the side are counted.
        marks: Takes the marks.
    """
    boxes, poses, groups, objects = others
    marks[NO_FAULT], marks[FAULT_STEP], marks[IS_AHEAD_FREE] = 1.0, np.inf, 1.0
    ego, other, rear_m = np.empty(5), np.empty(5), np.empty(2)
    ego[3], ego[4] = body[0], body[1]
    reach_m, look_s, num_objects = 0.5 * math.sqrt(body[0] ** 2 + body[1] ** 2), _NUM_LOOKS * _LOOK_S, 0
    speeds_mps = np.sqrt(objects[:, 6] ** 2 + objects[:, 7] ** 2)
    for step in range(1, len(states)):
        _place(states[step], body[2], ego, rear_m)
        speed = abs(states[step, SPEED])
        for row in range(len(boxes)):
            if is_met[row]:
                continue
            other[:3] = poses[row, step]
            far_m2 = (other[0] - ego[0]) ** 2 + (other[1] - ego[1]) ** 2
            near_m = reach_m + objects[row, RADIUS]
            way_m = look_s * (speed + speeds_mps[row])
            if far_m2 > (near_m + way_m) ** 2:
                continue
            other[3:] = boxes[row, 3:]
            if boxes_overlap(ego, other):
                is_met[row] = True
                stands = groups[row] == _OTHER_OBJECT or speeds_mps[row] <= _STANDS_MPS
                if _is_at_fault(kind_of(ego, rear_m, speed, other, stands), ego, road):
                    num_objects += groups[row] == _OTHER_OBJECT
                    _mark_fault(marks, step, groups[row] == _OTHER_OBJECT and num_objects == 1)
            elif marks[IS_AHEAD_FREE] > 0 and speed > _STOPPED_MPS and _meets_soon(ego, speed, other, speeds_mps[row]):
                marks[IS_AHEAD_FREE] = not _counts(ego, rear_m, other, road)


@njit(nogil=True, cache=True, error_model="numpy")
def _place(state: Float64Array, to_rear_m: float, ego: Float64Array, rear_m: Float64Array) -> None:
    """Write the pose of a state into the box of the AV, and where its rear axle is."""
    ego[0], ego[1], ego[2] = state[X], state[Y], state[YAW]
    rear_m[0] = ego[0] - to_rear_m * math.cos(ego[2])
    rear_m[1] = ego[1] - to_rear_m * math.sin(ego[2])


@njit(nogil=True, cache=True, error_model="numpy")
def _mark_fault(marks: Float64Array, step: int, is_first_object: bool) -> None:
    """Write a collision at fault; the first one with an object costs only half."""
    marks[NO_FAULT] = min(marks[NO_FAULT], 0.5 if is_first_object else 0.0)
    marks[FAULT_STEP] = min(marks[FAULT_STEP], step)
    marks[IS_AHEAD_FREE] = 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _is_at_fault(kind: int, ego: Float64Array, road: RoadArrays) -> bool:
    """Return whether the AV is at fault for a collision of a kind."""
    return kind in (_FRONT, _OTHER_STOPPED) or (kind == _LATERAL and is_across(road, ego))


@njit(nogil=True, cache=True, error_model="numpy")
def _meets_soon(ego: Float64Array, speed_mps: float, other: Float64Array, other_mps: float) -> bool:
    """Return whether two boxes meet within 1 s that go on along their headings."""
    moved, met = ego.copy(), other.copy()
    step_x, step_y = _LOOK_S * speed_mps * math.cos(ego[2]), _LOOK_S * speed_mps * math.sin(ego[2])
    met_x, met_y = _LOOK_S * other_mps * math.cos(other[2]), _LOOK_S * other_mps * math.sin(other[2])
    for look in range(1, _NUM_LOOKS + 1):
        moved[0], moved[1] = ego[0] + look * step_x, ego[1] + look * step_y
        met[0], met[1] = other[0] + look * met_x, other[1] + look * met_y
        if boxes_overlap(moved, met):
            return True
    return False


@njit(nogil=True, cache=True, error_model="numpy")
def _counts(ego: Float64Array, rear_m: Float64Array, other: Float64Array, road: RoadArrays) -> bool:
    """Return whether somebody counts for the time to collision."""
    angle_rad = angle_from_heading(ego[2], rear_m, other)
    if angle_rad <= _AHEAD_RAD:
        return True
    return angle_rad <= _BEHIND_RAD and is_across_or_in_junction(road, ego, rear_m)
