"""Terms of EPDMS: one function for each, the table of their weights, and the scores of windows.

Source: docs/metrics.md of NAVSIM (Apache-2.0), summarized in docs/reference/epdms.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.evaluation.driving.collisions import count_at_fault, no_at_fault_collisions
from l5kit.evaluation.driving.comfort import comfort_of_frames, is_comfortable
from l5kit.evaluation.driving.map_scores import (
    drivable_area_compliance,
    driving_direction_compliance,
    sum_over_last_second,
)
from l5kit.evaluation.driving.metric import MULTIPLIER, MetricFacts, combine
from l5kit.evaluation.driving.scene_score import WindowScores
from l5kit.evaluation.driving.time_to_collision import time_to_collision
from l5kit.evaluation.epdms.details import WindowDetails, find_red_areas
from l5kit.evaluation.epdms.plan_windows import steps_of

EPDMS: Final = "epdms"
"""Name of the score, and prefix of the names of its terms."""


@dataclass(frozen=True, kw_only=True)
class WindowTerm(MetricFacts):
    """A term: a function of windows, and its description.

    Attributes:
        of_windows: Returns the values of W windows, 0 to 1, NaN where the term does not apply, float64 (W,).
    """

    of_windows: Callable[[WindowDetails], Float64Array]


def no_collision(details: WindowDetails) -> Float64Array:
    """Return NC: 0 with a collision at fault with a vehicle or vulnerable road user, 0.5 with another object, else 1.

    The AV is at fault if its front hits a road user or if it hits a stationary one, and for lateral collisions if it is
    in several lanes or off the road.
    """
    counts = count_at_fault(details.states, details.windows.road_users, details.collisions)
    return no_at_fault_collisions(counts, by_number=False)


def stays_on_road(details: WindowDetails) -> Float64Array:
    """Return DAC: 0 if any corner is ever off the drivable surface, else 1."""
    values = drivable_area_compliance(details.distances_off_road_m, most_m=details.params.seam_m)
    return _where(details.routes is not None, values)


def drives_in_direction(details: WindowDetails) -> Float64Array:
    """Return DDC: 1 for less than 2 m in a second off the route and outside junctions, 0.5 below 6 m, else 0."""
    distances_m = np.zeros(details.states.is_there.shape)
    steps_m = np.diff(details.states.positions_m, axis=1)
    distances_m[:, 1:] = np.hypot(steps_m[..., 0], steps_m[..., 1])
    # treated like progress against a lane, of which the largest sum within a second decides
    sums_m = sum_over_last_second(np.where(details.is_centre_astray, -distances_m, 0.0), details.states)
    return _where(details.has_route, driving_direction_compliance(sums_m))


def obeys_lights(details: WindowDetails) -> Float64Array:
    """Return TLC: 0 if the box meets a lane of the route that is closed by a red light, else 1."""
    if details.routes is None:
        return np.full(len(details.windows), np.nan)
    is_in_red: BoolArray = np.any(find_red_areas(details.windows, details.routes), axis=1)
    values = np.where(is_in_red, 0.0, 1.0)
    return _where(details.has_route, values)


def progress(details: WindowDetails) -> Float64Array:
    """Return EP: the distance along the route over the longest of distance x product of multipliers, of plan and rules.

    Negative distances count as 0; EP is 1 if the longest is at most 5 m.
    """
    own_m = _distance_along_route(details)
    longest_m = own_m * product_of_multipliers(details)
    if (rules := details.rules) is not None:
        longest_m = np.maximum(longest_m, _distance_along_route(rules) * product_of_multipliers(rules))
    # if neither gets far, as in a queue, progress is meaningless
    is_free = longest_m > details.params.free_way_m
    ratios = np.divide(own_m, longest_m, out=np.ones(len(own_m)), where=is_free)
    return _where(details.has_route, np.minimum(ratios, 1.0))


def leaves_time(details: WindowDetails) -> Float64Array:
    """Return TTC: 0 if the AV, extrapolated by up to 0.9 s, meets the box of a road user at that time, else 1."""
    return time_to_collision(details.meeting_times_s)


def keeps_lane(details: WindowDetails) -> Float64Array:
    """Return LK: 0 if the centre is more than 0.5 m off the route's centre line for 2 s without a break, else 1.

    States in junctions are skipped.
    """
    is_beside, is_passed_over = np.abs(details.offsets_m) > details.params.most_offset_m, details.is_centre_in_junction
    length, longest = np.zeros((2, len(is_beside)), np.int64)
    for step in range(is_beside.shape[1]):
        length = np.where(is_passed_over[:, step], length, np.where(is_beside[:, step], length + 1, 0))
        longest = np.maximum(longest, length)
    is_kept = longest < steps_of(details.params.offset_s)
    return _where(details.has_route, is_kept.astype(np.float64))


def history_comfort(details: WindowDetails) -> Float64Array:
    """Return HC: 1 if all signals of the past and the window are within the bounds of comfort, else 0."""
    return comfort_of_frames(is_comfortable(details.signals_with_past), details.windows.with_past)


def extended_comfort(details: WindowDetails) -> Float64Array:
    """Return EC: 1 if a plan and the one a stride later have similar signals in their common time, else 0.

    NaN without a later window.
    """
    params, signals, windows = details.params, details.signals, details.windows
    firsts = np.flatnonzero(windows.following >= 0)
    seconds, num_between = windows.following[firsts], params.num_between
    is_alike = np.ones(len(firsts), np.bool_)
    for values, most in (
        (signals.accelerations_mps2, params.acceleration_mps2),
        (signals.jerks_mps3, params.jerk_mps3),
        (signals.yaw_rates_radps, params.yaw_rate_radps),
        (signals.yaw_accelerations_radps2, params.yaw_acceleration_radps2),
    ):
        # the common states, which are a stride earlier in the second window
        differences = values[firsts, num_between:] - values[seconds, : values.shape[1] - num_between]
        is_alike &= np.sqrt((differences**2).mean(axis=1)) <= most
    scores = np.full(len(windows), np.nan)
    scores[firsts] = is_alike
    return scores


def product_of_multipliers(details: WindowDetails) -> Float64Array:
    """Return the product of the multiplying terms, with 1 for terms that do not apply, (W,)."""
    product = np.ones(len(details.windows))
    for term in TERMS:
        if term.role == MULTIPLIER:
            values = term.of_windows(details)
            product *= np.where(np.isnan(values), 1.0, values)
    return product


def _distance_along_route(details: WindowDetails) -> Float64Array:
    """Return the distances of plans along their routes, at least 0, metres, (W,)."""
    return np.maximum(details.arcs_m[:, -1] - details.arcs_m[:, 0], 0.0)


def _where(applies: BoolArray | bool, values: Float64Array) -> Float64Array:
    """Return values, with NaN where a term does not apply."""
    return np.where(applies, values, np.nan)


TERMS: Final = (
    WindowTerm(
        name="epdms_no_at_fault_collisions",
        label="Plan: no collision at fault",
        sentence="NC: 1 without a collision at fault; 0.5 with a single one, with an object that is no road user",
        role=MULTIPLIER,
        of_score=EPDMS,
        of_windows=no_collision,
        failure="plan collides",
    ),
    WindowTerm(
        name="epdms_drivable_area_compliance",
        label="Plan: stays on the road",
        sentence="DAC: 1 if no corner of the AV is off the drivable surface, else 0",
        role=MULTIPLIER,
        of_score=EPDMS,
        needs_map=True,
        of_windows=stays_on_road,
        failure="plan off road",
    ),
    WindowTerm(
        name="epdms_driving_direction_compliance",
        label="Plan: drives in direction",
        sentence="DDC: 1 if the AV drives less than 2 m within a second off its route and outside of junctions, "
        "0.5 below 6 m, else 0",
        role=MULTIPLIER,
        of_score=EPDMS,
        needs_map=True,
        of_windows=drives_in_direction,
        failure="plan off its route",
    ),
    WindowTerm(
        name="epdms_traffic_light_compliance",
        label="Plan: obeys lights",
        sentence="TLC: 0 if the AV is on a lane of its route that is closed by a red light, else 1",
        role=MULTIPLIER,
        of_score=EPDMS,
        needs_map=True,
        of_windows=obeys_lights,
        failure="plan passes red",
    ),
    WindowTerm(
        name="epdms_progress",
        label="Plan: progress",
        sentence="EP: distance of the plan along the route, as a share of the longest distance of it and of the rule "
        "planner without a fault",
        role=5.0,
        of_score=EPDMS,
        needs_map=True,
        of_windows=progress,
    ),
    WindowTerm(
        name="epdms_time_to_collision",
        label="Plan: time to collision",
        sentence="TTC: 0 if the AV, extrapolated by up to 0.9 s, meets a road user at that time, else 1",
        role=5.0,
        of_score=EPDMS,
        of_windows=leaves_time,
        failure="plan too close",
    ),
    WindowTerm(
        name="epdms_lane_keeping",
        label="Plan: keeps its lane",
        sentence="LK: 0 if the AV is more than 0.5 m off the centre line for 2 s outside junctions, else 1",
        role=2.0,
        of_score=EPDMS,
        needs_map=True,
        of_windows=keeps_lane,
        failure="plan leaves its lane",
    ),
    WindowTerm(
        name="epdms_history_comfort",
        label="Plan: comfort after the past",
        sentence="HC: 1 if the plan, following the last 1.5 s, is within the bounds of comfort, else 0",
        role=2.0,
        of_score=EPDMS,
        of_windows=history_comfort,
        failure="plan uncomfortable",
    ),
    WindowTerm(
        name="epdms_extended_comfort",
        label="Plan: comfort beside the next plan",
        sentence="EC: 1 if the plan and the one 0.5 s later accelerate and turn alike, else 0",
        role=2.0,
        of_score=EPDMS,
        of_windows=extended_comfort,
        failure="plans differ",
    ),
)
"""The terms of EPDMS, in the order of tables; weights and multipliers are their roles."""


def score_windows(
    plan: WindowDetails,
    *,
    rules: WindowDetails | None,
    human: WindowDetails | None,
    scenes: Int64Array,
    frames: Int64Array,
    planned: Float64Array,
) -> WindowScores:
    """Return the scores of W windows.

    A term that is 0 for the logged drive in the same window counts as 1 (human filter): the cause is most likely a
    fault of the map or of a box.

    Args:
        plan: The rolled-out plans.
        rules: Plans of the rule planner from the same states, for the comparison of progress; None for none.
        human: The logged drives of the same seconds, followed by the same tracker; None for no filter.
        scenes: Scene of each window, copied to the result, (W,).
        frames: First frame of each window, copied to the result, (W,).
        planned: Planned share of each window, copied to the result, (W,).
    """
    plan = replace(plan, rules=rules)
    terms = {term.name: term.of_windows(plan) for term in TERMS}
    if human is not None:
        human = replace(human, rules=rules)
        for term in TERMS:
            values, of_human = terms[term.name], term.of_windows(human)
            terms[term.name] = np.where((of_human == 0.0) & ~np.isnan(values), 1.0, values)
    return WindowScores(scenes, frames, planned, combine(terms, TERMS), terms)
