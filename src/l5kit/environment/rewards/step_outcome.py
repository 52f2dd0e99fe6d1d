"""Outcomes of steps by the driving reward: terms and their sum, what went wrong, and whether that ends the task."""

from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.environment.rewards.step_terms import StepRules
from l5kit.evaluation.driving.map_scores import MOST_OFF_ROAD_M

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
