"""Kernels of environments on a device: what actions stand for, and what a step is worth; one item a slot."""

import math
from typing import Any

from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.environment.actions import control_of
from l5kit.environment.rewards.step_faults import find_faults, write_rear_axle
from l5kit.environment.rewards.step_terms import write_amounts_of
from l5kit.environment.rewards.step_worth import StepRules, write_worth
from l5kit.environment.traffic.traffic_steps import SceneStarts, SlotPlaces
from l5kit.lanes.lane_paths import PathArrays

__all__ = ["GOES_ON", "IS_BAD", "IS_OVER", "choose_controls", "judge_steps", "scale_actions"]

GOES_ON, IS_OVER, IS_BAD = range(3)
"""States of an environment after a step: the last one has been given an action that is none."""

_SPEED, _ACCELERATION, _YAW_RATE = range(3)


@njit(nogil=True, cache=True, error_model="numpy")
def scale_actions(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the controls that an action stands for, zeros for one that is not finite.

    Arguments: actions (N, 2); lowest and highest controls; controls (N, 2) and whether an action is not finite, (N,),
    which are written.
    """
    actions, limits, controls, is_bad = arguments
    first, second = float(actions[item, 0]), float(actions[item, 1])
    is_finite = math.isfinite(first) and math.isfinite(second)
    _write_controls(item, (first, second), is_finite, limits, controls, is_bad)


@njit(nogil=True, cache=True, error_model="numpy")
def choose_controls(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the controls of a grid that a number stands for, zeros for one that is none of them.

    Arguments: numbers, int64 (N,); lowest and highest controls; how many values each control has; controls (N, 2) and
    whether a number is none, (N,), which are written.
    """
    numbers, limits, (num_first, num_second), controls, is_bad = arguments
    number = numbers[item]
    first = 2.0 * (number // num_second) / (num_first - 1) - 1.0
    second = 2.0 * (number % num_second) / (num_second - 1) - 1.0
    is_known = 0 <= number < num_first * num_second
    _write_controls(item, (first, second), is_known, limits, controls, is_bad)


@njit(nogil=True, cache=True, error_model="numpy")
def _write_controls(
    slot: int,
    action: tuple[float, float],
    is_action: bool,
    limits: tuple[tuple[float, float], tuple[float, float]],
    controls: Float64Array,
    is_bad: BoolArray,
) -> None:
    """Write the controls of an action from -1 to 1, zeros for one that is none."""
    lows, highs = limits
    is_bad[slot] = not is_action
    if is_action:
        controls[slot, 0] = control_of(action[0], lows[0], highs[0])
        controls[slot, 1] = control_of(action[1], lows[1], highs[1])
    else:
        controls[slot, 0], controls[slot, 1] = 0.0, 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def judge_steps(item: int, arguments: tuple[Any, ...]) -> None:
    """Write what a step of a slot is worth and whether its episode is over, or begin to judge where one begins.

    Arguments: places of all slots; what a bank has: ``scenes``, ``paths``, starts and ranks of ``lights``,
    ``expert_arcs_m`` and ``ego_poses``; the AVs; ``rows`` and ``places`` of a DeviceCompactView; ``map_checks`` of a
    DeviceSimulation; what is remembered; room; rules; last frames of episodes, counted in their scenes, and which
    actions were none, (N,) each; what is written.
    """
    slot_places, bank, avs, (rows, places), map_checks, remembered, room, rules, (last_frames, is_bad), out = arguments
    scenes, paths, (light_starts, light_ranks), expert_arcs_m, ego_poses = bank
    slot_places, scenes, paths = SlotPlaces(*slot_places), SceneStarts(*scenes), PathArrays(*paths)
    boxes, _, motions, num_starts = avs
    seen_starts, memory, before, now = remembered
    motions_before, places_before, arcs_before_m, rows_before, yaws_before_rad = before
    motions_now, arcs_now_m = now
    numbers, bounds, worth_rules = rules
    counts, amounts, lanes, rear_axles_m = room
    scene, box = slot_places.bank_rows[item], boxes[item]
    frame_of_scene, is_new = slot_places.frames[item], seen_starts[item] != num_starts[item]
    frame = scenes.frames[scene] + frame_of_scene
    if is_new:
        seen_starts[item], memory[1][item] = num_starts[item], 0
        yaws_before_rad[item] = ego_poses[frame - 1, 2]
    motions_now[item, _SPEED], motions_now[item, _ACCELERATION] = motions[item, 0], motions[item, 1]
    motions_now[item, _YAW_RATE] = _turn(box[2], yaws_before_rad[item]) / numbers[0]
    arcs_now_m[item] = expert_arcs_m[frame]
    is_close = _find_faults_of(item, avs, rows, memory, map_checks, (lanes, rear_axles_m), counts[item])
    if is_new:
        _begin(item, out)
    else:
        before_row = rows_before[item]
        write_amounts_of(
            item,
            boxes,
            (motions_before, motions_now),
            (places_before, places),
            (arcs_before_m, arcs_now_m),
            paths,
            scenes.routes[scene],
            light_ranks[light_starts[before_row] : light_starts[before_row + 1]],
            numbers,
            bounds,
            amounts[item],
        )
        totals, terms, sums, failures = out[0], out[1][item], out[2][item], out[3][item]
        off_road_m = map_checks[2][item]
        totals[item], is_failed = write_worth(
            counts[item], off_road_m, is_close, amounts[item], StepRules(*worth_rules), terms, failures
        )
        sums[0] += totals[item]
        for column in range(len(terms)):
            sums[1 + column] += terms[column]
        _write_ends(item, is_failed, frame_of_scene >= last_frames[item], is_bad[item], out)
    for column in range(3):
        motions_before[item, column] = motions_now[item, column]
        places_before[item, column] = places[item, column]
    arcs_before_m[item], rows_before[item], yaws_before_rad[item] = arcs_now_m[item], frame, box[2]


@njit(nogil=True, cache=True, error_model="numpy")
def _turn(after_rad: float, before_rad: float) -> float:
    """Return a turn in [-pi, pi), as ``angular_distance`` does."""
    return (after_rad - before_rad + math.pi) % (2 * math.pi) - math.pi


@njit(nogil=True, cache=True, error_model="numpy")
def _find_faults_of(
    slot: int,
    avs: tuple[Any, ...],
    rows: tuple[Any, ...],
    memory: tuple[Int64Array, Int64Array],
    map_checks: tuple[Any, ...],
    room: tuple[Int64Array, Float64Array],
    counts: Int64Array,
) -> bool:
    """Write the collisions of a slot, and return whether its AV is close to somebody."""
    sizes, starts, (groups, others, velocities_mps, track_rows) = rows
    box, rear_axle_m = avs[0][slot], room[1][slot]
    write_rear_axle(box, rear_axle_m)
    return find_faults(
        (box, abs(avs[2][slot, 0]), map_checks[1][slot], rear_axle_m),
        slot,
        (starts[slot], starts[slot] + sizes[slot]),
        (groups, others, velocities_mps, track_rows),
        memory,
        (map_checks[0], room[0][slot]),
        counts,
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _begin(slot: int, out: tuple[Any, ...]) -> None:
    """Write that nothing has happened yet in an episode."""
    totals, terms, sums, failures, is_terminated, is_truncated, states = out
    totals[slot], sums[slot, 0] = 0.0, 0.0
    for column in range(terms.shape[1]):
        terms[slot, column], sums[slot, 1 + column] = 0.0, 0.0
    for column in range(failures.shape[1]):
        failures[slot, column] = False
    is_terminated[slot], is_truncated[slot], states[slot] = False, False, GOES_ON


@njit(nogil=True, cache=True, error_model="numpy")
def _write_ends(slot: int, is_failed: bool, is_at_end: bool, is_bad: bool, out: tuple[Any, ...]) -> None:
    """Write whether an episode is over, and how the environment stands."""
    out[4][slot], out[5][slot] = is_failed, is_at_end and not is_failed
    out[6][slot] = GOES_ON
    if is_bad:
        out[6][slot] = IS_BAD
    elif is_failed or is_at_end:
        out[6][slot] = IS_OVER
