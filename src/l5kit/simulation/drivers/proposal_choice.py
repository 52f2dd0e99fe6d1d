"""Choice of plans: given plans and rule-based proposals are rolled out and scored, and the best one is driven."""

import math
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array
from l5kit.evaluation.driving.comfort import ComfortBounds, ComfortFilters, is_drive_comfortable
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.lanes.lane_paths import PATH_STEP_M
from l5kit.lanes.red_lights import LINE_SLACK_M, RED
from l5kit.simulation.drivers.proposal_paths import NUM_COLUMNS as OBSTACLE_COLUMNS
from l5kit.simulation.drivers.proposal_paths import (
    Way,
    write_driver_distances,
    write_emergency_distances,
    write_obstacles,
    write_plan,
)
from l5kit.simulation.drivers.proposal_scores import (
    ACCELERATION,
    ACROSS,
    FAULT_STEP,
    IS_AHEAD_FREE,
    IS_COMFORTABLE,
    NO_FAULT,
    NUM_MARKS,
    NUM_STATE_COLUMNS,
    OFF_STEP,
    SPEED,
    WAY_M,
    YAW,
    RoadArrays,
    Tracking,
    first_step_off_road,
    mark_collisions,
    roll_out,
)
from l5kit.simulation.lanes.lane_following import DriverParameters
from l5kit.simulation.lanes.lane_forecasts import Agents, Lanes, Others, forecast_others

GIVEN, EMERGENCY = -2, -1
"""Values in place of a proposal index: the given plan, and emergency braking."""

_MARGIN_M = 0.3
"""Required gap between others and the sides of an AV that drives a given plan, as forecasts are not exact."""


class Driving(NamedTuple):
    """Motion of the proposals.

    Attributes:
        parameters: Parameters of the driver.
        shifts_m: Offsets to the left, (O,).
        parts: Desired shares of the highest speed, (V,); proposals are ordered by offset, then by share.
    """

    parameters: DriverParameters
    shifts_m: Float64Array
    parts: Float64Array


class Scoring(NamedTuple):
    """Parameters of roll-outs and of their scores.

    Attributes:
        road: Drivable surface and lanes.
        lanes: Lanes of the forecasts of others.
        tracking: Tracker and bicycle that follow a plan.
        filters: Filters of comfort, for the number of samples of a roll-out.
        bounds: Bounds of comfort.
        num_steps: Steps of a roll-out.
        step_s: Time of a step.
    """

    road: RoadArrays
    lanes: Lanes
    tracking: Tracking
    filters: ComfortFilters
    bounds: ComfortBounds
    num_steps: int
    step_s: float


class Situation(NamedTuple):
    """Surroundings of an AV.

    Attributes:
        way: Way along its path.
        ego: Its x, y, yaw, speed, acceleration, steering, length and width, (8,).
        end_m: Gap from its front to the end of the path.
        lines: Gaps to yellow and red lines, and their ranks, (n, 2).
        reach_m: Range of its view.
        others: Road users that may come near.
    """

    way: Way
    ego: Float64Array
    end_m: float
    lines: Float64Array
    reach_m: float
    others: Others


_PROGRESS, _AHEAD, _COMFORT = 5.0, 5.0, 2.0
_LEAST_WAY_M = 2.0
_OFF_CENTRE = 0.02
_CHANGED = 0.01
_EMERGENCY_S = 2.0
_MOST_OBSTACLES = 32
_REACH_M, _REACH_S, _LONGEST_REACH_M = 30.0, 6.0, 3000.0
_SLOW_MPS, _LEAST_START_M, _LEAST_PART = 1.0, 4.0, 0.5
_MOST_WAITS = 10


@kernel_jit
def see(
    way: Way,
    ego: Float64Array,
    end_m: float,
    lines: Float64Array,
    agents: Agents,
    scoring: Scoring,
) -> Situation:
    """Return the situation of an AV; arguments as in :class:`Situation`, and all agents."""
    reach_m = min(_REACH_M + _REACH_S * max(ego[3], 0.0), _LONGEST_REACH_M)
    others = forecast_others(ego, agents, (reach_m, _REACH_S), scoring.lanes, scoring.num_steps, scoring.step_s)
    return Situation(way, ego, end_m, lines, reach_m, others)


@kernel_jit
def keep_or_plan(
    given: Float64Array,
    situation: Situation,
    scoring: Scoring,
    driving: Driving,
    last: tuple[float, float],
    plan: Float64Array,
) -> tuple[int, float]:
    """Write the given plan if it is acceptable, else the best proposal; return its index, and the number of waits.

    A plan is acceptable if its roll-out has no collision at fault, stays on the road, has no road user ahead within the
    time to collision, and passes no red line. An AV that hardly moves is waiting if its plan covers less than half the
    distance of a proposal without a fault. After some waiting frames the proposal starts the AV, and drives on until
    plans go farther.

    Args:
        given: The plan, world poses from now on in steps of the tracker, (1, N + 1, 3).
        situation: Surroundings of the AV.
        scoring: Parameters of roll-outs and scores.
        driving: Motion of the proposals.
        last: The offset chosen last, and the number of frames that the AV has been waiting.
        plan: Output: world poses from one step ahead on, (T, 3).
    """
    ego, lines = situation.ego, situation.lines
    marks = score_plans(given, ego, situation.others, scoring, _MARGIN_M)[0]
    is_fine = _has_no_fault(marks)
    for row in range(len(lines)):
        is_fine = is_fine and not (lines[row, 1] >= RED and marks[WAY_M] > lines[row, 0] + LINE_SLACK_M)
    may_start = ego[3] < _SLOW_MPS or last[1] >= _MOST_WAITS
    chosen, waits = GIVEN, 0.0
    if may_start or not is_fine:
        # the rules take over, or at least tell how far they would drive
        chosen, rule_marks = plan_scene(situation, scoring, driving, last[0], plan)
        if may_start and chosen >= 0 and _has_no_fault(rule_marks[chosen]):
            by_rules_m = math.hypot(plan[-1, 0] - ego[0], plan[-1, 1] - ego[1])
            by_plan_m = math.hypot(given[0, len(plan), 0] - ego[0], given[0, len(plan), 1] - ego[1])
            if by_rules_m > _LEAST_START_M and by_plan_m < _LEAST_PART * by_rules_m:
                waits = last[1] + 1.0
    if is_fine and waits <= _MOST_WAITS:
        plan[:] = given[0, 1 : len(plan) + 1]
        chosen = GIVEN
    return chosen, waits


@kernel_jit
def plan_scene(
    situation: Situation, scoring: Scoring, driving: Driving, last_shift_m: float, plan: Float64Array
) -> tuple[int, Float64Array]:
    """Write the best proposal for an AV, and return its index, or EMERGENCY, and the marks of all, (P, 6).

    Args:
        situation: Surroundings of the AV.
        scoring: Parameters of roll-outs and scores.
        driving: Motion of the proposals.
        last_shift_m: The offset chosen last.
        plan: Output: world poses from one step ahead on, (T, 3).
    """
    shifts_m, parts, tracking = driving.shifts_m, driving.parts, scoring.tracking
    num_plans, num_poses = len(shifts_m) * len(parts), len(tracking.speed_fit) + 1
    driven_m, plans = np.empty((num_plans, num_poses)), np.empty((num_plans, num_poses, 3))
    # distances and poses of each proposal
    way, ego, step_s = situation.way, situation.ego, scoring.step_s
    obstacles = np.empty((_MOST_OBSTACLES, OBSTACLE_COLUMNS))
    line_m = np.empty((int(situation.reach_m / PATH_STEP_M) + 2, 2))
    motion, half = (max(ego[3], 0.0), ego[4]), (0.5 * ego[6], 0.5 * ego[7])
    count = 0
    for number in range(num_plans):
        shift_m = shifts_m[number // len(parts)]
        # obstacles depend on the line only, not on the speed
        if number % len(parts) == 0:
            count = write_obstacles(way, shift_m, half, situation.others, step_s, line_m, obstacles)
        driver, seen = (driving.parameters, parts[number % len(parts)], step_s), obstacles[:count]
        write_driver_distances(way, driver, motion, half[0], situation.end_m, situation.lines, seen, driven_m[number])
        write_plan(way, shift_m, driven_m[number], plans[number])

    marks = score_plans(plans, ego, situation.others, scoring, 0.0)
    best = choose(marks, shifts_m, last_shift_m)
    chosen = best
    # too late to stop comfortably: brake as hard as possible along the line of the best proposal
    if marks[best, FAULT_STEP] * step_s <= _EMERGENCY_S:
        braking = (tracking.longitudinal[0], tracking.num_ahead, step_s)
        write_emergency_distances(motion[0], braking, driven_m[best])
        write_plan(way, shifts_m[best // len(parts)], driven_m[best], plans[best])
        chosen = EMERGENCY
    plan[:] = plans[best, 1 : len(plan) + 1]
    return chosen, marks


@kernel_jit
def score_plans(
    plans: Float64Array, ego: Float64Array, others: Others, scoring: Scoring, margin_m: float
) -> Float64Array:
    """Return the marks, (P, 6), of rolled out plans of an AV, (P, N + 1, 3), from now on in steps of the tracker.

    Others must keep ``margin_m`` from the sides of the AV.
    """
    tracking = scoring.tracking
    rear_share, base_share, _ = tracking.vehicle
    states = np.empty((len(plans), scoring.num_steps + 1, NUM_STATE_COLUMNS))
    states[:, 0, :6] = ego[:6]
    # v^2 k, with the curvature k = tan(steering) / wheel base
    states[:, 0, ACROSS] = ego[3] * ego[3] * math.tan(ego[5]) / (base_share * ego[6])
    roll_out(plans, ego[6], tracking, states)
    body = (ego[6], ego[7], rear_share * ego[6])
    wide = (body[0], body[1] + 2.0 * margin_m, body[2])

    # road users that already overlap the AV cannot be avoided by any plan
    box = np.empty(5)
    box[:3], box[3:] = ego[:3], ego[6:8]
    is_met_now = np.zeros(len(others.boxes), np.bool_)
    for row in range(len(is_met_now)):
        is_met_now[row] = boxes_overlap(box, others.boxes[row])

    marks = np.empty((len(plans), NUM_MARKS))
    for number in range(len(plans)):
        mark_collisions(states[number], wide, others, is_met_now.copy(), scoring.road, marks[number])
        marks[number, OFF_STEP] = first_step_off_road(states[number], body, scoring.road)
        marks[number, IS_COMFORTABLE] = is_drive_comfortable(
            states[number, :, ACCELERATION],
            states[number, :, ACROSS],
            states[number, :, YAW],
            scoring.step_s,
            scoring.filters,
            scoring.bounds,
        )
        marks[number, WAY_M] = scoring.step_s * states[number, 1:, SPEED].sum()
    return marks


@kernel_jit
def _has_no_fault(marks: Float64Array) -> bool:
    """Return whether a plan with these marks has no collision at fault, stays on the road, and keeps the time gaps."""
    return bool(marks[NO_FAULT] == 1.0 and marks[OFF_STEP] == np.inf and marks[IS_AHEAD_FREE] == 1.0)


@kernel_jit
def choose(marks: Float64Array, shifts_m: Float64Array, last_shift_m: float) -> int:
    """Return the best proposal; if all collide, the one that does so last, and among these the slowest.

    Leaving the road counts only if some proposal stays on it. Offsets to the side, and a change of the offset, cost a
    little, as a tie-break.
    """
    num_parts, on_road = len(marks) // len(shifts_m), False
    for number in range(len(marks)):
        on_road = on_road or marks[number, OFF_STEP] == np.inf
    # progress is relative to the farthest plan without a fault, and at least to a minimal distance
    best_way_m = _LEAST_WAY_M
    for number in range(len(marks)):
        if marks[number, NO_FAULT] > 0 and (marks[number, OFF_STEP] == np.inf or not on_road):
            best_way_m = max(best_way_m, marks[number, WAY_M])
    best, best_value, best_step, best_way = 0, -np.inf, -np.inf, np.inf
    for number in range(len(marks)):
        mark, shift_m = marks[number], shifts_m[number // num_parts]
        if on_road and mark[OFF_STEP] < np.inf:
            continue
        total = _PROGRESS * max(mark[WAY_M], 0.0) / best_way_m + _AHEAD * mark[IS_AHEAD_FREE]
        total = (total + _COMFORT * mark[IS_COMFORTABLE]) / (_PROGRESS + _AHEAD + _COMFORT)
        total -= _OFF_CENTRE * (shift_m != 0.0) + _CHANGED * (shift_m != last_shift_m)
        value = mark[NO_FAULT] * total
        step, distance_m = mark[FAULT_STEP], mark[WAY_M]
        # plans that collide have the value 0, and are only compared with plans of no higher value
        is_better = value > best_value
        if mark[NO_FAULT] == 0.0:
            value = 0.0
            is_better = best_value <= 0.0 and (step > best_step or (step == best_step and distance_m < best_way))
        if is_better:
            best, best_value, best_step, best_way = number, value, step, distance_m
    return best
