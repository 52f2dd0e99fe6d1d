"""Step judge: the driving reward of a step, one kernel item for each AV, on the processor or a device."""

import math
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.data.array_shapes import as_kernel_tuple
from l5kit.device.backend import Backend, DeviceArray, KernelArguments
from l5kit.environment.rewards.step_faults import AvState, FaultArrays, find_faults, write_rear_axle
from l5kit.environment.rewards.step_reward import DrivenStep
from l5kit.evaluation.driving.lane_positions import room_for_lanes
from l5kit.evaluation.driving.map_scores import MOST_EXCESS_MPS, MOST_OFF_ROAD_M
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_paths import UNKNOWN_LIMIT_MPS, PathArrays
from l5kit.lanes.red_lights import RED, SceneLights, rank_of_line
from l5kit.lanes.road_surface import farthest_corner, named_surface, write_corners
from l5kit.simulation.lanes.lane_following import SceneRows, limit_at

FAILURES = ("collision", "contact", "off_road", "red_light", "time_to_collision")
"""Failures of a step: collision at fault, other collision, off the road, red line passed, short time to collision."""

TERMS = (
    *("progress", "collision", "contact", "off_road", "time_to_collision"),
    *("off_route", "speed", "comfort", "red_light", "end"),
)
"""The terms of the reward, in the order of their columns."""

_MOST_EXCESS = 3.0
"""Largest excess over the speed limit, in multiples of the excess that the score takes as full."""

_LARGEST_TURN_RAD = math.pi / 2

_COLLISION, _CONTACT, _OFF, _RED, _CLOSE = range(len(FAILURES))
_PROGRESS, _AT_FAULT, _NOT_AT_FAULT, _OFF_ROAD, _TIME_LEFT, _OFF_ROUTE, _SPEED, _COMFORT, _RED_LIGHT, _END = range(
    len(TERMS)
)
_LASTING = (_OFF_ROAD, _TIME_LEFT, _OFF_ROUTE, _SPEED, _COMFORT)

_Pair = tuple[Float64Array, Float64Array]
"""Values before and after the step."""


class StepRules(NamedTuple):
    """Parameters for judging steps.

    Attributes:
        step_s: Seconds of a step.
        tolerated_m: Largest offset from the route, metres.
        least_mps: Lower bound of the reference, m/s.
        by_expert: Whether the reference is the logged AV.
        bounds: Lower and upper bounds of six signals in the order of ``COMFORT_BOUNDS``, (6, 2).
        factors: Factors of the terms, (number of terms,).
        ends: Mask of failures that end an episode, (number of failures,).
        is_product: Whether the terms per second scale the progress.
    """

    step_s: float
    tolerated_m: float
    least_mps: float
    by_expert: bool
    bounds: Float64Array
    factors: Float64Array
    ends: BoolArray
    is_product: bool


@kernel_jit
def _is_on_route(position: Float64Array, tolerated_m: float) -> bool:
    """Return whether an AV is near its route and heads along it; False for NaN."""
    return bool(abs(position[1]) <= tolerated_m and abs(position[2]) <= _LARGEST_TURN_RAD)


@kernel_jit
def _excess(value: float, bounds: Float64Array) -> float:
    """Return the excess of a value over its bounds, relative to the bound, 0 to 1."""
    bound: float = bounds[1] if value > 0 else bounds[0]
    return min(max(value / bound - 1.0, 0.0), 1.0)


@kernel_jit
def write_amounts(
    box: Float64Array,
    motions: _Pair,
    route_positions: _Pair,
    expert_arcs_m: tuple[float, float],
    paths: PathArrays,
    route: int,
    ranks: NumericArray,
    rules: StepRules,
    terms: Float64Array,
) -> None:
    """Write the amounts of the terms that follow from the motion of an AV in a step.

    Args:
        box: Box of the AV, (5,).
        motions: Speed, longitudinal acceleration, yaw rate, and more, (3 or more,).
        route_positions: Positions on its route, (3,).
        expert_arcs_m: Arc lengths of the logged AV, before and after.
        paths: All paths.
        route: Path of the AV.
        ranks: Lights of its scene.
        rules: Parameters of the judge.
        terms: Receives seconds times a share, and the number of red lines passed, (number of terms,).
    """
    (before, position), (motion_before, motion), step_s = route_positions, motions, rules.step_s
    has_path = paths.piece_starts[route] < paths.piece_starts[route + 1]
    limit_mps = limit_at(paths, route, position[0]) if has_path else UNKNOWN_LIMIT_MPS
    is_on = has_path and _is_on_route(position, rules.tolerated_m) and _is_on_route(before, rules.tolerated_m)

    # progress relative to the reference distance, at the speed limit or of the logged AV
    reference_m = limit_mps * step_s
    if rules.by_expert:
        reference_m = expert_arcs_m[1] - expert_arcs_m[0]
    gain = 0.0
    if is_on and math.isfinite(position[0] - before[0]):
        gain = (position[0] - before[0]) / max(reference_m, rules.least_mps * step_s)
    terms[_PROGRESS] = step_s * min(max(gain, -1.0), 1.0)

    # terms per second are amounts in seconds, weighted by their share
    terms[_OFF_ROUTE] = 0.0 if _is_on_route(position, rules.tolerated_m) or not has_path else step_s
    excess = (abs(motion[0]) - limit_mps) / MOST_EXCESS_MPS
    terms[_SPEED] = step_s * min(max(excess, 0.0), _MOST_EXCESS)

    # Mean excess of six signals over their bounds, 0 to 1: longitudinal and lateral acceleration (v times yaw rate),
    # jerk of their magnitude, longitudinal jerk, yaw rate and yaw acceleration. Jerks and yaw acceleration are
    # differences of the two motions.
    bounds, along, across = rules.bounds, motion[1], motion[0] * motion[2]
    size = math.sqrt(along * along + across * across)
    across_before = motion_before[0] * motion_before[2]
    size_before = math.sqrt(motion_before[1] * motion_before[1] + across_before * across_before)
    total = _excess(along, bounds[0]) + _excess(across, bounds[1])
    total += _excess((size - size_before) / step_s, bounds[2])
    total += _excess((along - motion_before[1]) / step_s, bounds[3])
    total += _excess(motion[2], bounds[4]) + _excess((motion[2] - motion_before[2]) / step_s, bounds[5])
    terms[_COMFORT] = step_s * (total / 6.0)

    terms[_RED_LIGHT] = 0.0
    if is_on:
        # stop lines that the front has passed in the step, and that were red before it
        front_before_m, front_m = before[0] + 0.5 * box[3], position[0] + 0.5 * box[3]
        for piece in range(paths.piece_starts[route], paths.piece_starts[route + 1]):
            is_passed = front_before_m <= paths.piece_arcs_m[piece] < front_m
            if is_passed and rank_of_line(paths.line_lanes, piece, ranks) >= RED:
                terms[_RED_LIGHT] += 1.0


@kernel_jit
def write_outcome(
    counts: Int64Array,
    off_road_m: float,
    is_close: bool,
    rules: StepRules,
    terms: Float64Array,
    failures: BoolArray,
) -> tuple[float, bool]:
    """Write the failures and all terms of a step; return the reward and whether the episode has failed.

    Args:
        counts: Collisions at fault and others, as written by ``find_faults``, (2,).
        off_road_m: Distance of the farthest corner from the drivable surface.
        is_close: Whether the time to collision is too short.
        rules: Parameters of the judge.
        terms: The terms; those of :func:`write_amounts` are already set, (number of terms,).
        failures: Receives the failures, (number of failures,).
    """
    # failures, and whether any of them ends the episode
    is_off = off_road_m >= MOST_OFF_ROAD_M
    failures[_COLLISION], failures[_CONTACT] = counts[0] > 0, counts[1] > 0
    failures[_OFF], failures[_RED], failures[_CLOSE] = is_off, terms[_RED_LIGHT] > 0, is_close
    is_failed = False
    for failure in range(len(failures)):
        is_failed = is_failed or (failures[failure] and rules.ends[failure])

    # remaining amounts: collisions as counts, the others as seconds
    terms[_AT_FAULT], terms[_NOT_AT_FAULT] = float(counts[0]), float(counts[1])
    terms[_OFF_ROAD], terms[_TIME_LEFT] = rules.step_s if is_off else 0.0, rules.step_s if is_close else 0.0
    terms[_END] = 1.0 if is_failed else 0.0
    if rules.is_product:
        # Scaling terms are set to 0, so that the terms still add up to the reward. Negative progress is not scaled.
        for term in _LASTING:
            if terms[_PROGRESS] > 0:
                terms[_PROGRESS] *= max(1.0 + rules.factors[term] * terms[term] / rules.step_s, 0.0)
            terms[term] = 0.0
    terms[0] *= rules.factors[0]
    total = terms[0]  # in fixed order, so that single steps and batches give the same bits
    for column in range(1, len(terms)):
        terms[column] *= rules.factors[column]
        total += terms[column]
    return total, is_failed


class JudgeRoom(NamedTuple):
    """Work buffers of R slots that are judged at the same time; item n uses row n modulo R.

    Attributes:
        counts: Collisions, (R, 2).
        lanes: Lanes of the map, (R, any).
        corners_m: Corners of AVs, (R, 4, 2).
        rear_axles_m: Middles of their rear axles, (R, 2).
    """

    counts: Int64Array
    lanes: Int64Array
    corners_m: Float64Array
    rear_axles_m: Float64Array

    @classmethod
    def make(cls, backend: Backend, size: int, driving_map: DrivingMap | None) -> "JudgeRoom":
        """Return buffers on a device, one for each slot that is judged at the same time."""
        size = backend.rows_at_once(size)
        return cls(
            counts=backend.empty((size, 2), np.int64),
            lanes=backend.empty(room_for_lanes(driving_map, size), np.int64),
            corners_m=backend.empty((size, 4, 2)),
            rear_axles_m=backend.empty((size, 2)),
        )


class OutcomeArrays(NamedTuple):
    """Rewards and failures of steps of B slots, with T terms and K failures.

    Attributes:
        totals: The reward, float64 (B,).
        terms: Terms of the reward, float64 (B, T).
        failures: Failures, bool (B, K).
        is_failed: Whether one of them ends the episode, bool (B,).
    """

    totals: DeviceArray
    terms: DeviceArray
    failures: DeviceArray
    is_failed: DeviceArray

    @classmethod
    def make(cls, backend: Backend, size: int) -> "OutcomeArrays":
        """Return zeros on a device."""
        return cls(
            totals=backend.zeros(size),
            terms=backend.zeros((size, len(TERMS))),
            failures=backend.zeros((size, len(FAILURES)), np.bool_),
            is_failed=backend.zeros(size, np.bool_),
        )


def step_for_kernel(step: DrivenStep) -> tuple[object, ...]:
    """Return a step as :func:`judge_step` takes it, with False in place of its map."""
    return as_kernel_tuple((*step[:-1], False))


@kernel_jit
def judge_step(item: int, arguments: KernelArguments) -> None:
    """Write the reward of a step of an AV; at the start of an episode zeros, and overlapping road users have collided.

    Arguments: slots (B,), -1 for none, and mask of episodes that begin; the step of :func:`step_for_kernel`;
    FaultArrays of all slots, with capacity for all rows, which are updated; the map, as :func:`named_surface` takes it;
    StepRules; JudgeRoom; output: OutcomeArrays.
    """
    slots, is_new, step, memory, surface, rules, room, outcome = arguments
    step, memory, rules = DrivenStep(*step), FaultArrays(*memory), StepRules(*rules)
    room, outcome, slot = JudgeRoom(*room), OutcomeArrays(*outcome), slots[item]
    if slot < 0:
        return
    # one buffer for each slot on a device, for each thread on the processor
    own = item % len(room.counts)
    if is_new[item]:
        memory.num_tracks[slot] = 0

    # collisions count once in an episode, so those of its first frame are remembered, too
    box, corners_m, rear_axle_m = step.boxes[item], room.corners_m[own], room.rear_axles_m[own]
    write_corners(box, corners_m)
    write_rear_axle(box, rear_axle_m)
    counts, terms, failures = room.counts[own], outcome.terms[item], outcome.failures[item]
    is_close = find_faults(
        AvState(box, abs(step.motions[item, 0]), corners_m, rear_axle_m),
        slot,
        item,
        SceneRows(*step.rows),
        step.track_rows,
        memory,
        (named_surface(surface), room.lanes[own]),
        counts,
    )
    if is_new[item]:
        outcome.totals[item], outcome.is_failed[item] = 0.0, False
        terms[:], failures[:] = 0.0, False
        return

    off_road_m = farthest_corner(surface, corners_m, memory.areas[slot])
    frames, _, lights = step.lights
    frame, lights = frames[item], SceneLights(*lights)
    write_amounts(
        box,
        (step.motions_before[item], step.motions[item]),
        (step.route_positions_before[item], step.route_positions[item]),
        (step.expert_arcs_before_m[item], step.expert_arcs_m[item]),
        PathArrays(*step.paths),
        step.routes[item],
        lights.ranks[lights.starts[frame] : lights.starts[frame + 1]],
        rules,
        terms,
    )
    outcome.totals[item], outcome.is_failed[item] = write_outcome(counts, off_road_m, is_close, rules, terms, failures)
