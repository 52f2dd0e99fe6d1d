"""Scores of proposals: roll-outs with tracker and bicycle, collisions, and positions on the road.

The metrics are those of :mod:`l5kit.evaluation.driving`, over the seconds of a proposal instead of a scene, and with
forecasts of the others. Road users that already overlap the AV are skipped, as in the frames after a collision.
"""

from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array
from l5kit.evaluation.driving.collisions import (
    CollisionKind,
    angle_from_heading,
    is_fault_of_ego,
    kind_of,
    stands,
)
from l5kit.evaluation.driving.lane_positions import is_across_lanes, room_for_lanes
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.evaluation.driving.time_to_collision import STOPPED_MPS, LookAhead, counts_ahead, meeting_time
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.road_surface import RoadSurface, farthest_corner, no_surface, write_corners
from l5kit.simulation.lanes.lane_forecasts import RADIUS, Others
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
"""Columns of states: pose of the centre, speed, longitudinal acceleration, steering, lateral acceleration."""

NUM_STATE_COLUMNS = 7


class Tracking(NamedTuple):
    """Parameters of a tracker and its bicycle for kernels.

    Attributes:
        speed_fit: Matrix of the speed fit for plans of N steps, (N, N).
        num_ahead: Number of look-ahead steps.
        vehicle: Distance of the rear axle behind the centre and wheel base, both as shares of the length, and the
            largest tangent of the steering.
        longitudinal: Gain of the acceleration, and speed and gain of a stop.
        lateral: Time step, and the weights of the steering.
        bicycle: Parameters of the bicycle.
    """

    speed_fit: Float64Array
    num_ahead: int
    vehicle: tuple[float, ...]
    longitudinal: tuple[float, ...]
    lateral: tuple[float, ...]
    bicycle: tuple[float, ...]


def tracking_of(tracker: TrajectoryTracker, num_steps: int) -> Tracking:
    """Return the parameters of a tracker and its bicycle for kernels, for plans of ``num_steps`` steps."""
    params = tracker.params
    fit = speed_fit_matrix(num_steps, params.step_time_s, params.jerk_weight)
    return Tracking(fit, int(params.num_steps), *tracker.parameters, tracker.bicycle.parameters(params.step_time_s))


@kernel_jit
def roll_out(plans: Float64Array, length_m: float, tracking: Tracking, states: Float64Array) -> None:
    """Write the states of vehicles that follow plans, with :class:`TrajectoryTracker` and its bicycle.

    Reference speeds and curvatures are fitted once for the whole plan, as the tracker does at the start, and not again
    after each step for the rest of the plan.

    Args:
        plans: Poses of the centres from now on in steps of the tracker, (P, N + 1, 3).
        length_m: Length of the vehicle.
        tracking: Parameters of tracker and bicycle.
        states: Output, (P, T + 1, 7), with the first states given.
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


@kernel_jit
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
    """Write the desired acceleration and steering rate of a vehicle in one step of its plan."""
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


class RoadArrays(NamedTuple):
    """A DrivingMap for kernels.

    Attributes:
        surface: The drivable surface.
        most_lanes: Size of scratch arrays for the lanes of a box.
    """

    surface: RoadSurface
    most_lanes: int


_MOST_OFF_M = 0.25
"""Largest distance of a corner off the road, metres; slightly less than the score allows."""


def road_arrays(driving_map: DrivingMap | None) -> RoadArrays:
    """Return a map for kernels; without one there are no lanes."""
    surface = no_surface() if driving_map is None else driving_map.surface
    return RoadArrays(surface, room_for_lanes(driving_map, 1)[-1])


@kernel_jit
def first_step_off_road(states: Float64Array, body: tuple[float, float, float], road: RoadArrays) -> float:
    """Return the first of every other step of states (T + 1, 7) with a corner off the road, infinite without one."""
    box, corners_m, areas = np.empty(5), np.empty((4, 2)), np.full(4, -1)
    box[3], box[4] = body[0], body[1]
    for step in range(2, len(states), 2):
        box[0], box[1], box[2] = states[step, X], states[step, Y], states[step, YAW]
        write_corners(box, corners_m)
        if farthest_corner(road.surface, corners_m, areas) >= _MOST_OFF_M:
            return step
    return np.inf


@kernel_jit
def is_across(road: RoadArrays, box: Float64Array) -> bool:
    """Return whether the corners of a box are neither in one lane nor in successive lanes."""
    corners_m = np.empty((4, 2))
    write_corners(box, corners_m)
    return is_across_lanes(road.surface, corners_m, np.empty((5, road.most_lanes), np.int64))


NO_FAULT, FAULT_STEP, IS_AHEAD_FREE, OFF_STEP, IS_COMFORTABLE, WAY_M = range(6)
"""Columns of marks: score of collisions at fault, first step of one, whether the time to collision is long enough,
first step off the road, whether the plan is comfortable, and the driven distance."""

NUM_MARKS = 6

_LATERAL = int(CollisionKind.LATERAL)
_OTHER_OBJECT = int(RoadUserGroup.OTHER)
_LOOK = (LookAhead().step_s, LookAhead().num_least_steps + 1)
"""Step and number of look-ahead steps for the time to collision, one more than in the score, as forecasts are never
exact."""


@kernel_jit
def mark_collisions(
    states: Float64Array,
    body: tuple[float, float, float],
    others: Others,
    is_met: BoolArray,
    road: RoadArrays,
    marks: Float64Array,
) -> None:
    """Write the marks of a proposal that concern other road users.

    Args:
        states: States of the proposal, (T + 1, 7).
        body: Length, width, and distance of the rear axle behind the centre.
        others: Road users that may come near.
        is_met: Mask of road users that already overlap the AV; it is changed.
        road: Lanes, which decide on the fault of lateral collisions.
        marks: Output marks.
    """
    boxes, poses, groups, objects = others
    marks[NO_FAULT], marks[FAULT_STEP], marks[IS_AHEAD_FREE] = 1.0, np.inf, 1.0
    ego, other, rear_m = np.empty(5), np.empty(5), np.empty(2)
    ego[3], ego[4] = body[0], body[1]
    corners_m, room = np.empty((4, 2)), np.empty((5, road.most_lanes), np.int64)
    reach_m, look_s, num_objects = 0.5 * np.hypot(body[0], body[1]), _LOOK[1] * _LOOK[0], 0
    speeds_mps = np.sqrt(objects[:, 6] ** 2 + objects[:, 7] ** 2)
    for step in range(1, len(states)):
        ego[0], ego[1], ego[2] = states[step, X], states[step, Y], states[step, YAW]
        rear_m[0] = ego[0] - body[2] * np.cos(ego[2])
        rear_m[1] = ego[1] - body[2] * np.sin(ego[2])
        speed = abs(states[step, SPEED])
        for row in range(len(boxes)):
            if is_met[row]:
                continue
            # skip road users that are too far away to overlap, or to be met within the look-ahead
            other[:3] = poses[row, step]
            far_m2 = (other[0] - ego[0]) ** 2 + (other[1] - ego[1]) ** 2
            near_m = reach_m + objects[row, RADIUS]
            closing_m = look_s * (speed + speeds_mps[row])
            if far_m2 > (near_m + closing_m) ** 2:
                continue
            other[3:] = boxes[row, 3:]
            if boxes_overlap(ego, other):
                is_met[row] = True
                kind = kind_of(ego, rear_m, speed, other, stands(groups[row], speeds_mps[row]))
                if is_fault_of_ego(kind, kind == _LATERAL and is_across(road, ego)):
                    # the first collision with an object costs only half
                    num_objects += groups[row] == _OTHER_OBJECT
                    is_first_object = groups[row] == _OTHER_OBJECT and num_objects == 1
                    marks[NO_FAULT] = min(marks[NO_FAULT], 0.5 if is_first_object else 0.0)
                    marks[FAULT_STEP] = min(marks[FAULT_STEP], step)
                    marks[IS_AHEAD_FREE] = 0.0
            elif (
                marks[IS_AHEAD_FREE] > 0
                and speed > STOPPED_MPS
                and meeting_time(ego, speed, other, speeds_mps[row], _LOOK) < np.inf
            ):
                write_corners(ego, corners_m)
                angle = angle_from_heading(ego[2], rear_m, other)
                marks[IS_AHEAD_FREE] = not counts_ahead(angle, road.surface, corners_m, rear_m, room)
