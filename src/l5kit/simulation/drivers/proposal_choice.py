"""Choice of proposals: for each scene all of them are planned, rolled out and scored, and the best one is the plan."""

import math

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.lanes.lane_paths import PATH_STEP_M
from l5kit.simulation.drivers import proposal_rollout as rollout
from l5kit.simulation.drivers.proposal_comfort import ComfortFilters, is_comfortable
from l5kit.simulation.drivers.proposal_forecasts import Lanes, Others, forecast_others
from l5kit.simulation.drivers.proposal_places import RoadArrays, first_step_off_road
from l5kit.simulation.drivers.proposal_rollout import Tracking, roll_out
from l5kit.simulation.drivers.proposal_scores import (
    FAULT_STEP,
    IS_AHEAD_FREE,
    IS_COMFORTABLE,
    NO_FAULT,
    NUM_COLUMNS,
    OFF_STEP,
    WAY_M,
    mark_collisions,
)
from l5kit.simulation.drivers.proposal_speeds import write_plan, write_ways_of_driver, write_ways_of_emergency
from l5kit.simulation.drivers.proposal_ways import NUM_COLUMNS as OBSTACLE_COLUMNS
from l5kit.simulation.drivers.proposal_ways import Way, write_obstacles
from l5kit.simulation.lanes.lane_following import Numbers

Driving = tuple[Numbers, Float64Array, Float64Array, float]
"""Parameters of the driver, offsets to the left, parts of the speed that are wanted, and the time of a step."""

_PROGRESS, _AHEAD, _COMFORT = 5.0, 5.0, 2.0
_LEAST_WAY_M = 2.0
_OFF_CENTRE = 0.02
_CHANGED = 0.01
_EMERGENCY_S = 2.0
_MOST_OBSTACLES = 32
_REACH_M, _REACH_S, _LONGEST_REACH_M = 30.0, 6.0, 3000.0


@njit(nogil=True, cache=True, error_model="numpy")
def plan_scene(
    way: Way,
    ego: Float64Array,
    end_m: float,
    lines: Float64Array,
    agents: tuple[Float64Array, Float64Array, Int64Array],
    road: tuple[RoadArrays, Lanes],
    driving: Driving,
    following: tuple[Tracking, ComfortFilters],
    last_shift_m: float,
    plan: Float64Array,
) -> tuple[int, Float64Array]:
    """Write the best plan for an AV, and return which proposal that is, -1 for emergency braking, and all marks (P, 6).

    Args:
        way: The way along its path.
        ego: Its x, y, yaw, speed, acceleration, steering, length and width.
        end_m: Gap from its front to the end of the path.
        lines: Gaps to yellow and red lines, and their ranks.
        agents: Boxes, velocities and groups of the agents of the scene.
        road: Drivable surface, and lanes that others follow.
        driving: How proposals drive.
        following: How they are rolled out, and filters for as many samples as roll-outs have.
        last_shift_m: The offset that was chosen last.
        plan: Takes world poses from one step ahead on, (T, 3).
    """
    _, shifts_m, parts, step_s = driving
    tracking, filters = following
    speed, num_rolled = max(ego[3], 0.0), filters[0][0].shape[0]
    reach_m = min(_REACH_M + _REACH_S * speed, _LONGEST_REACH_M)
    others = forecast_others(ego, agents, (reach_m, _REACH_S), road[1], num_rolled - 1, step_s)
    num_plans, num_poses = len(shifts_m) * len(parts), len(tracking[0]) + 1
    driven_m, plans = np.empty((num_plans, num_poses)), np.empty((num_plans, num_poses, 3))
    _write_proposals(way, ego, reach_m, end_m, lines, others, driving, driven_m, plans)
    states = _roll_out_from(ego, plans, tracking, num_rolled)
    marks = _mark_proposals(states, ego, tracking[2][0], others, road[0], filters, step_s)
    best = choose(marks, shifts_m, last_shift_m)
    chosen = best
    if marks[best, FAULT_STEP] * step_s <= _EMERGENCY_S:
        write_ways_of_emergency(speed, (tracking[3][0], tracking[1], step_s), driven_m[best])
        write_plan(way, shifts_m[best // len(parts)], driven_m[best], plans[best])
        chosen = -1
    plan[:] = plans[best, 1 : len(plan) + 1]
    return chosen, marks


@njit(nogil=True, cache=True, error_model="numpy")
def _write_proposals(
    way: Way,
    ego: Float64Array,
    reach_m: float,
    end_m: float,
    lines: Float64Array,
    others: Others,
    driving: Driving,
    driven_m: Float64Array,
    plans: Float64Array,
) -> None:
    """Write how far each proposal comes, (P, N + 1), and its poses, (P, N + 1, 3); all parts of an offset in a row."""
    numbers, shifts_m, parts, step_s = driving
    obstacles, line_m = np.empty((_MOST_OBSTACLES, OBSTACLE_COLUMNS)), np.empty((int(reach_m / PATH_STEP_M) + 2, 2))
    motion, half = (max(ego[3], 0.0), ego[4]), (0.5 * ego[6], 0.5 * ego[7])
    count = 0
    for number in range(len(plans)):
        shift_m = shifts_m[number // len(parts)]
        if number % len(parts) == 0:
            count = write_obstacles(way, shift_m, half, others, step_s, line_m, obstacles)
        driver = (numbers, parts[number % len(parts)], step_s)
        write_ways_of_driver(way, driver, motion, half[0], end_m, lines, obstacles[:count], driven_m[number])
        write_plan(way, shift_m, driven_m[number], plans[number])


@njit(nogil=True, cache=True, error_model="numpy")
def _roll_out_from(ego: Float64Array, plans: Float64Array, tracking: Tracking, num_rolled: int) -> Float64Array:
    """Return the states of an AV that follows each of several plans, (P, T + 1, 7)."""
    states = np.empty((len(plans), num_rolled, rollout.NUM_COLUMNS))
    base_m = tracking[2][1] * ego[6]
    states[:, 0, :6] = ego[:6]
    states[:, 0, rollout.ACROSS] = ego[3] * ego[3] * math.tan(ego[5]) / base_m
    roll_out(plans, ego[6], tracking, states)
    return states


@njit(nogil=True, cache=True, error_model="numpy")
def _mark_proposals(
    states: Float64Array,
    ego: Float64Array,
    rear_share: float,
    others: Others,
    road: RoadArrays,
    filters: ComfortFilters,
    step_s: float,
) -> Float64Array:
    """Return the marks of proposals that were rolled out, (P, 6)."""
    body = (ego[6], ego[7], rear_share * ego[6])
    marks = np.empty((len(states), NUM_COLUMNS))
    is_met_now = _find_met(ego, others)
    for number in range(len(states)):
        mark_collisions(states[number], body, others, is_met_now.copy(), road, marks[number])
        marks[number, OFF_STEP] = first_step_off_road(states[number], body, road)
        marks[number, IS_COMFORTABLE] = is_comfortable(states[number], step_s, filters)
        marks[number, WAY_M] = step_s * states[number, 1:, rollout.SPEED].sum()
    return marks


@njit(nogil=True, cache=True, error_model="numpy")
def choose(marks: Float64Array, shifts_m: Float64Array, last_shift_m: float) -> int:
    """Return the best of proposals; where all collide the one that does so last, and among these the slowest.

    Leaving the road counts only where some proposal stays on it. Offsets to the side, and offsets other than the last
    one, cost a little, so that equal ones are told apart.
    """
    num_parts, on_road = len(marks) // len(shifts_m), False
    for number in range(len(marks)):
        on_road = on_road or marks[number, OFF_STEP] == np.inf
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
        step, way_m = mark[FAULT_STEP], mark[WAY_M]
        is_better = value > best_value
        if mark[NO_FAULT] == 0.0:
            value = 0.0
            is_better = best_value <= 0.0 and (step > best_step or (step == best_step and way_m < best_way))
        if is_better:
            best, best_value, best_step, best_way = number, value, step, way_m
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def _find_met(ego: Float64Array, others: Others) -> BoolArray:
    """Return which others overlap the AV now."""
    box = np.empty(5)
    box[:3], box[3:] = ego[:3], ego[6:8]
    is_met = np.zeros(len(others[0]), np.bool_)
    for row in range(len(is_met)):
        is_met[row] = boxes_overlap(box, others[0][row])
    return is_met
