"""Parts of a reward that follow from how AVs move: progress, speed, comfort and red lines, of one step."""

import math
from typing import NamedTuple

from numba import njit

from l5kit._types import BoolArray, Float64Array, NumericArray
from l5kit.lanes.lane_paths import UNKNOWN_LIMIT_MPS, PathArrays
from l5kit.lanes.red_lights import RED, rank_of_line
from l5kit.simulation.lanes.lane_following import limit_at

PROGRESS, OFF_ROUTE, SPEED, COMFORT, RED_LIGHT = range(5)
"""Columns of what :func:`write_amounts` writes."""

NUM_AMOUNTS = 5

EXCESS_MPS = 2.23
"""The excess over the limit that counts as one, as in the score."""

MOST_EXCESS = 3.0
"""More than that many of it count as that many."""

_LARGEST_TURN_RAD = math.pi / 2


class StepRules(NamedTuple):
    """What steps are judged by.

    Attributes:
        step_s: Seconds of a step.
        tolerated_m: Most metres beside the route.
        least_mps: Least m/s of a reference.
        by_expert: Whether the reference is the logged AV.
        bounds: Least and most of six signals in the order of ``COMFORT_BOUNDS``, (6, 2).
        factors: What the terms are multiplied by, (number of terms,).
        ends: Which failures end the task, (number of failures,).
        is_product: Whether what lasts scales the progress.
    """

    step_s: float
    tolerated_m: float
    least_mps: float
    by_expert: bool
    bounds: Float64Array
    factors: Float64Array
    ends: BoolArray
    is_product: bool


Pair = tuple[Float64Array, Float64Array]
"""Values before the step, and after it."""


@njit(nogil=True, cache=True, error_model="numpy")
def _is_on_route(position: Float64Array, tolerated_m: float) -> bool:
    """Return whether an AV is near its route and looks along it; what is no number is not."""
    return bool(abs(position[1]) <= tolerated_m and abs(position[2]) <= _LARGEST_TURN_RAD)


@njit(nogil=True, cache=True, error_model="numpy")
def _excess(value: float, bounds: Float64Array) -> float:
    """Return how far a value is beyond its bounds, as a part of the bound, 0 to 1."""
    bound: float = bounds[1] if value > 0 else bounds[0]
    return min(max(value / bound - 1.0, 0.0), 1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def _discomfort(before: Float64Array, after: Float64Array, step_s: float, bounds: Float64Array) -> float:
    """Return the mean excess of six signals over their bounds, 0 to 1, from differences of motions."""
    # accelerations along and across (v times the yaw rate) and the size of both; jerks are their differences
    along, across = after[1], after[0] * after[2]
    size = math.sqrt(along * along + across * across)
    across_before = before[0] * before[2]
    size_before = math.sqrt(before[1] * before[1] + across_before * across_before)
    total = _excess(along, bounds[0]) + _excess(across, bounds[1])
    total += _excess((size - size_before) / step_s, bounds[2])
    total += _excess((along - before[1]) / step_s, bounds[3])
    total += _excess(after[2], bounds[4]) + _excess((after[2] - before[2]) / step_s, bounds[5])
    return total / 6.0


@njit(nogil=True, cache=True, error_model="numpy")
def write_amounts(
    box: Float64Array,
    motions: Pair,
    route_positions: Pair,
    expert_arcs_m: tuple[float, float],
    paths: PathArrays,
    route: int,
    ranks: NumericArray,
    rules: StepRules,
    amounts: Float64Array,
) -> None:
    """Write how much of each part of a reward a step of an AV has.

    Args:
        box: The AV, (5,).
        motions: Speed, acceleration along, yaw rate, and more, (3 or more,).
        route_positions: Where on its route it is, (3,).
        expert_arcs_m: Where the logged AV was, and is.
        paths: All paths.
        route: Its path.
        ranks: The lights of its scene.
        rules: What the step is judged by.
        amounts: Takes seconds times a share for all columns but the last, and red lines that were passed, (5,).
    """
    (before, position), step_s = route_positions, rules.step_s
    has_path = paths.piece_starts[route] < paths.piece_starts[route + 1]
    limit_mps = limit_at(paths, route, position[0]) if has_path else UNKNOWN_LIMIT_MPS
    is_on = has_path and _is_on_route(position, rules.tolerated_m) and _is_on_route(before, rules.tolerated_m)

    # progress as a part of the way of the reference, which is that at the limit, or that of the logged AV
    reference_m = limit_mps * step_s
    if rules.by_expert:
        reference_m = expert_arcs_m[1] - expert_arcs_m[0]
    gain = 0.0
    if is_on and math.isfinite(position[0] - before[0]):
        gain = (position[0] - before[0]) / max(reference_m, rules.least_mps * step_s)
    amounts[PROGRESS] = step_s * min(max(gain, -1.0), 1.0)

    # what lasts counts in seconds, by how much of it there is
    amounts[OFF_ROUTE] = 0.0 if _is_on_route(position, rules.tolerated_m) or not has_path else step_s
    excess = (abs(motions[1][0]) - limit_mps) / EXCESS_MPS
    amounts[SPEED] = step_s * min(max(excess, 0.0), MOST_EXCESS)
    amounts[COMFORT] = step_s * _discomfort(motions[0], motions[1], step_s, rules.bounds)
    amounts[RED_LIGHT] = 0.0
    if is_on:
        # lines that the front has passed in the step, and that were red when it began
        front_before_m, front_m = before[0] + 0.5 * box[3], position[0] + 0.5 * box[3]
        for piece in range(paths.piece_starts[route], paths.piece_starts[route + 1]):
            is_passed = front_before_m <= paths.piece_arcs_m[piece] < front_m
            if is_passed and rank_of_line(paths.line_lanes, piece, ranks) >= RED:
                amounts[RED_LIGHT] += 1.0
