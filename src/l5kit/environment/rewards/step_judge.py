"""Judge of steps: what steps of AVs are worth by the driving reward, one item an AV, on the processor or a device."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import as_kernel_tuple
from l5kit.device.backend import Backend, DeviceArray, KernelArguments
from l5kit.environment.rewards.step_faults import AvState, FaultArrays, find_faults, write_rear_axle
from l5kit.environment.rewards.step_reward import DrivenStep
from l5kit.environment.rewards.step_terms import NUM_AMOUNTS, StepRules, write_amounts
from l5kit.evaluation.driving.lane_positions import room_for_lanes
from l5kit.evaluation.driving.map_scores import MOST_OFF_ROAD_M
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.red_lights import SceneLights
from l5kit.lanes.road_surface import farthest_corner, named_surface, write_corners
from l5kit.simulation.lanes.lane_following import SceneRows

FAILURES = ("collision", "contact", "off_road", "red_light", "time_to_collision")
"""What can go wrong in a step: a collision at fault, one that is not, a corner off the road, a red line passed, or too
little time to a collision."""

TERMS = (
    *("progress", "collision", "contact", "off_road", "time_to_collision"),
    *("off_route", "speed", "comfort", "red_light", "end"),
)
"""The terms of the reward, in the order of their columns."""

_OFF_ROAD_M = MOST_OFF_ROAD_M
_COLLISION, _CONTACT, _OFF, _RED, _CLOSE = range(len(FAILURES))
_END = TERMS.index("end")
_LASTING = tuple(TERMS.index(name) for name in ("off_road", "time_to_collision", "off_route", "speed", "comfort"))


@njit(nogil=True, cache=True, error_model="numpy")
def write_outcome(
    counts: Int64Array,
    off_road_m: float,
    is_close: bool,
    amounts: Float64Array,
    rules: StepRules,
    terms: Float64Array,
    failures: BoolArray,
) -> tuple[float, bool]:
    """Write the terms of a step and what went wrong in it; return the sum of the terms and whether the task has ended.

    Args:
        counts: Collisions at fault and others, as ``find_faults`` writes them, (2,).
        off_road_m: How far the farthest corner is off the drivable surface.
        is_close: Whether the AV would soon meet somebody.
        amounts: The other parts, as ``write_amounts`` writes them, (5,).
        rules: What the step is judged by.
        terms: Takes the terms, (number of terms,).
        failures: Takes what went wrong, (number of failures,).
    """
    # what went wrong, and whether any of it ends the task
    is_off = off_road_m >= _OFF_ROAD_M
    failures[_COLLISION], failures[_CONTACT] = counts[0] > 0, counts[1] > 0
    failures[_OFF], failures[_RED], failures[_CLOSE] = is_off, amounts[4] > 0, is_close
    is_failed = False
    for failure in range(len(failures)):
        is_failed = is_failed or (failures[failure] and rules.ends[failure])

    # the terms in the order of TERMS, collisions and red lines as numbers, all others as seconds
    terms[0], terms[1], terms[2] = amounts[0], float(counts[0]), float(counts[1])
    terms[3], terms[4] = rules.step_s if is_off else 0.0, rules.step_s if is_close else 0.0
    for column in range(1, 5):
        terms[4 + column] = amounts[column]
    terms[_END] = 1.0 if is_failed else 0.0
    if rules.is_product:
        # the others become 0, so that the terms still add up to the reward; going backwards is never made better
        for term in _LASTING:
            if terms[0] > 0:
                terms[0] *= max(1.0 + rules.factors[term] * terms[term] / rules.step_s, 0.0)
            terms[term] = 0.0
    terms[0] *= rules.factors[0]
    total = terms[0]  # added from left to right, so that one step has the bits of many
    for column in range(1, len(terms)):
        terms[column] *= rules.factors[column]
        total += terms[column]
    return total, is_failed


class JudgeRoom(NamedTuple):
    """Room for what is looked up of R slots that are judged at the same time; item n has the row n modulo R.

    Attributes:
        counts: Collisions, (R, 2).
        amounts: Parts of the reward, (R, NUM_AMOUNTS).
        lanes: Lanes of the map, (R, any).
        corners_m: Corners of AVs, (R, 4, 2).
        rear_axles_m: Middles of their rear axles, (R, 2).
    """

    counts: Int64Array
    amounts: Float64Array
    lanes: Int64Array
    corners_m: Float64Array
    rear_axles_m: Float64Array

    @classmethod
    def make(cls, backend: Backend, size: int, driving_map: DrivingMap | None) -> "JudgeRoom":
        """Return room on a device, of one slot where one is judged after the other."""
        size = 1 if backend.is_serial else size
        return cls(
            counts=backend.empty((size, 2), np.int64),
            amounts=backend.empty((size, NUM_AMOUNTS), np.float64),
            lanes=backend.empty(room_for_lanes(driving_map, size), np.int64),
            corners_m=backend.empty((size, 4, 2), np.float64),
            rear_axles_m=backend.empty((size, 2), np.float64),
        )


class OutcomeArrays(NamedTuple):
    """Rewards of steps of B slots with T terms, and what went wrong in them, K failures.

    Attributes:
        totals: The reward, float64 (B,).
        terms: Its parts, float64 (B, T).
        failures: What went wrong, bool (B, K).
        is_failed: Whether that ends the task, bool (B,).
    """

    totals: DeviceArray
    terms: DeviceArray
    failures: DeviceArray
    is_failed: DeviceArray

    @classmethod
    def make(cls, backend: Backend, size: int) -> "OutcomeArrays":
        """Return zeros on a device."""
        return cls(
            totals=backend.zeros(size, np.float64),
            terms=backend.zeros((size, len(TERMS)), np.float64),
            failures=backend.zeros((size, len(FAILURES)), np.bool_),
            is_failed=backend.zeros(size, np.bool_),
        )


def step_for_kernel(step: DrivenStep) -> tuple[object, ...]:
    """Return a step as :func:`judge_step` takes it, with nothing in the place of its map."""
    return as_kernel_tuple((*step[:-1], False))


@njit(nogil=True, cache=True, error_model="numpy")
def judge_step(item: int, arguments: KernelArguments) -> None:
    """Write what a step of an AV is worth, nothing where an episode begins: who overlaps the AV there has collided.

    Arguments: slots (B,), -1 for none, and whether their episodes begin; the step of :func:`step_for_kernel`;
    FaultArrays of all slots, with room for all rows, changed; the map, as :func:`named_surface` takes it; StepRules;
    JudgeRoom; OutcomeArrays, which are written.
    """
    slots, is_new, step, memory, surface, rules, room, outcome = arguments
    step, memory, rules = DrivenStep(*step), FaultArrays(*memory), StepRules(*rules)
    room, outcome, slot = JudgeRoom(*room), OutcomeArrays(*outcome), slots[item]
    if slot < 0:
        return
    # on a device each slot has room of its own, on the processor all use the same row
    own = item % len(room.counts)
    if is_new[item]:
        memory.num_tracks[slot] = 0

    # collisions of an episode count once, so that those of its first frame are remembered, too
    is_close = _find_faults(item, slot, own, step, memory, surface, room)
    if is_new[item]:
        _write_nothing(item, outcome)
        return

    off_road_m = farthest_corner(surface, room.corners_m[own], memory.areas[slot])
    (frames, _, lights), counts, amounts = step.lights, room.counts[own], room.amounts[own]
    frame, lights = frames[item], SceneLights(*lights)
    write_amounts(
        step.boxes[item],
        (step.motions_before[item], step.motions[item]),
        (step.route_positions_before[item], step.route_positions[item]),
        (step.expert_arcs_before_m[item], step.expert_arcs_m[item]),
        PathArrays(*step.paths),
        step.routes[item],
        lights.ranks[lights.starts[frame] : lights.starts[frame + 1]],
        rules,
        amounts,
    )
    outcome.totals[item], outcome.is_failed[item] = write_outcome(
        counts, off_road_m, is_close, amounts, rules, outcome.terms[item], outcome.failures[item]
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _find_faults(
    item: int, slot: int, own: int, step: DrivenStep, memory: FaultArrays, surface: tuple[Any, ...], room: JudgeRoom
) -> bool:
    """Write corners and new collisions of an AV to its row of the room; return whether it is close to somebody."""
    box, corners_m, rear_axle_m = step.boxes[item], room.corners_m[own], room.rear_axles_m[own]
    write_corners(box, corners_m)
    write_rear_axle(box, rear_axle_m)
    rows = SceneRows(*step.rows)
    return find_faults(
        AvState(box, abs(step.motions[item, 0]), corners_m, rear_axle_m),
        slot,
        item,
        rows,
        step.track_rows,
        (memory.tracks, memory.num_tracks),
        (named_surface(surface), room.lanes[own]),
        room.counts[own],
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _write_nothing(item: int, outcome: OutcomeArrays) -> None:
    """Write that a step is worth nothing, and that nothing went wrong."""
    outcome.totals[item], outcome.is_failed[item] = 0.0, False
    for column in range(outcome.terms.shape[1]):
        outcome.terms[item, column] = 0.0
    for column in range(outcome.failures.shape[1]):
        outcome.failures[item, column] = False
