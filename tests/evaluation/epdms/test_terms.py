"""Terms of EPDMS: windows of four seconds whose values are known by hand, also right at the thresholds."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.evaluation.driving.scene_score import METRICS
from l5kit.evaluation.epdms import EPDMS_METRICS, TERMS, EpdmsParams, score_windows
from l5kit.evaluation.epdms.terms import (
    drives_in_direction,
    extended_comfort,
    history_comfort,
    keeps_lane,
    leaves_time,
    no_collision,
    obeys_lights,
    product_of_multipliers,
    progress,
    stays_on_road,
)
from l5kit.lanes.driving_map import build_driving_map
from support.driving import LINE_M, STEP_S, make_lit_road
from support.windows import (
    NUM_PAST,
    NUM_STATES,
    details_of,
    routes_on,
    straight_window,
    users_in_each_state,
    window_along,
)

CAR, ANIMAL = {}, {"group": RoadUserGroup.OTHER}
TIMES_S = STEP_S * np.arange(NUM_STATES)


def value_of(term, *windows, **given):
    """The value of a term for one window."""
    (value,) = term(details_of(*windows, **given))
    return value


# --- NC: the AV is 4 x 2 m, its front at 2 m

MET = {
    "a car that stands ahead": ([{"at": (20, 0)}], (0, 0), 0.0),
    "a pedestrian": ([{"at": (20, 0), "size": (0.5, 0.5), "group": RoadUserGroup.VULNERABLE}], (0, 0), 0.0),
    "an animal": ([{"at": (20, 0)} | ANIMAL], (0, 0), 0.5),
    "two animals, whose number does not count": (
        [{"at": (20, 0)} | ANIMAL, {"at": (30, 0)} | ANIMAL],
        (0, 0),
        0.5,
    ),
    "an animal and a car": ([{"at": (20, 0)} | ANIMAL, {"at": (30, 0)}], (0, 0), 0.0),
    "a car that is only touched": ([{"at": (44, 0)}], (0, 0), 1.0),
    "one that is met by a millimetre": ([{"at": (43.999, 0)}], (0, 0), 0.0),
    "who comes from behind": ([{"at": (-10, 0), "moves": (15, 0), "v": (15, 0)}], (0, 0), 1.0),
    "who comes from the side into its lane": ([{"at": (0, 5), "moves": (10, -1), "v": (10, -1)}], (0, 0), 1.0),
    "the same where it is in two lanes": ([{"at": (0, 7), "moves": (10, -1), "v": (10, -1)}], (0, 2), 0.0),
    "the same where it is off the road": ([{"at": (0, 3), "moves": (10, -1), "v": (10, -1)}], (0, -2), 0.0),
}


@pytest.mark.parametrize(("others", "start", "value"), MET.values(), ids=MET)
def test_collisions_at_fault(crossing, others, start, value):
    users, routes = users_in_each_state(*others), routes_on(crossing)
    assert value_of(no_collision, straight_window(start_m=start), users=users, routes=routes) == value


def test_nobody_is_at_fault_who_stands(crossing):
    users = users_in_each_state({"at": (20, 0), "moves": (-10, 0), "v": (-10, 0)})
    assert value_of(no_collision, straight_window(0.0), users=users, routes=routes_on(crossing)) == 1.0


def test_without_a_map_what_comes_from_the_side_is_no_fault():
    users = users_in_each_state({"at": (0, 7), "moves": (10, -1), "v": (10, -1)})
    assert value_of(no_collision, straight_window(start_m=(0, 2)), users=users) == 1.0


# --- DAC: lanes begin at y = -2


@pytest.mark.parametrize(("beside_m", "value"), [(0.0, 1.0), (0.005, 1.0), (0.02, 0.0), (0.2, 0.0), (5.0, 0.0)])
def test_no_corner_may_leave_the_road(crossing, beside_m, value):
    """0.2 m are fine for nuPlan; a centimetre is what maps are exact to."""
    window = straight_window(5.0, start_m=(10, -1 - beside_m))
    assert value_of(stays_on_road, window, routes=routes_on(crossing)) == value


# --- DDC: a second has eleven steps

ASTRAY = {
    "below 2 m": (1.81, (90, 8), np.pi, 1.0),
    "above 2 m": (1.82, (90, 8), np.pi, 0.5),
    "below 6 m": (5.45, (90, 8), np.pi, 0.5),
    "above 6 m": (5.46, (90, 8), np.pi, 0.0),
    "with the oncoming lane against its direction": (10.0, (10, 8), 0.0, 0.0),
    "in the lane beside that of the route": (10.0, (10, 4), 0.0, 1.0),
    "in the route against its direction": (10.0, (90, 0), np.pi, 1.0),
    "in a junction off the route": (5.0, (110, -25), np.pi / 2, 1.0),
    "on a road off the route": (10.0, (110, 40), np.pi / 2, 0.0),
    "beside all roads": (10.0, (10, -20), 0.0, 0.0),
}


@pytest.mark.parametrize(("speed_mps", "start", "yaw_rad", "value"), ASTRAY.values(), ids=ASTRAY)
def test_the_way_off_the_route_within_a_second(crossing, speed_mps, start, yaw_rad, value):
    assert (
        value_of(drives_in_direction, straight_window(speed_mps, start, yaw_rad), routes=routes_on(crossing)) == value
    )


# --- TLC: the front is over the line, at x = 100, from state 19 on, and the rear behind the junction from 42 on

LIGHTS = {
    "green": ((), 1.0),
    "red all the time": ((("straight", 0, 99),), 0.0),
    "red until the AV comes to the line": ((("straight", 0, NUM_PAST + 19),), 1.0),
    "red for one frame more": ((("straight", 0, NUM_PAST + 20),), 0.0),
    "red for the lane that crosses": ((("across", 0, 99),), 1.0),
    "red for the turn that begins there": ((("turn", 0, 99),), 1.0),
    "red for the lane beside": ((("straight beside", 0, 99),), 1.0),
}


@pytest.mark.parametrize(("red", "value"), LIGHTS.values(), ids=LIGHTS)
def test_red_lights_of_the_route(crossing, red, value):
    window = straight_window(start_m=(79.5, 0))
    assert value_of(obeys_lights, window, routes=routes_on(crossing, red=red)) == value


def test_a_red_light_of_the_lane_beside_counts_in_that(crossing):
    window, red = straight_window(start_m=(79.5, 4)), (("straight beside", 0, 99),)
    assert value_of(obeys_lights, window, routes=routes_on(crossing, red=red)) == 0.0


@pytest.mark.parametrize(("start_m", "value"), [(LINE_M - 42.0, 1.0), (LINE_M - 41.9, 0.0)])
def test_a_light_at_the_end_of_a_lane_closes_those_behind_it(tmp_path, start_m, value):
    """After 40 m the front, 2 m ahead of the centre, is at the line, or 0.1 m behind it."""
    road, names = build_driving_map(make_lit_road(tmp_path, width_m=4.0)), ("first", "second")
    routes = routes_on(road, lanes=names, names=names, red=[("first", 0, 99)])
    assert value_of(obeys_lights, straight_window(start_m=(start_m, 0)), routes=routes) == value


# --- EP

BLOCKED = {"at": (30, 0)}
WAYS = {
    "half as far as rules": (5.0, 10.0, (), 0.5),
    "as far": (10.0, 10.0, (), 1.0),
    "farther": (10.0, 5.0, (), 1.0),
    "farther than rules that collide": (4.0, 10.0, (BLOCKED,), 1.0),
    "rules come 4.96 m": (0.0, 1.24, (), 1.0),
    "rules come 5.04 m": (0.0, 1.26, (), 0.0),
    "back": (-2.0, 10.0, (), 0.0),
    "with a collision, where rules have none": (10.0, 5.0, (BLOCKED,), 1.0),
}


@pytest.mark.parametrize(("speed_mps", "of_rules_mps", "others", "value"), WAYS.values(), ids=WAYS)
def test_progress_is_compared_with_rules(crossing, speed_mps, of_rules_mps, others, value):
    users, routes = users_in_each_state(*others), routes_on(crossing)
    plan, rules = (
        details_of(straight_window(speed, (5, 0)), users=users, routes=routes) for speed in (speed_mps, of_rules_mps)
    )
    assert_allclose(progress(dataclasses.replace(plan, rules=rules)), value, atol=1e-6)
    assert_allclose(scores_of(plan, rules=rules).terms["epdms_progress"], value, atol=1e-6)


def test_progress_of_the_log_is_compared_with_rules_too(crossing):
    """A stationary log in a window in which the rules drive has no progress, which forgives a plan with half of it."""
    plan, rules, human = (
        details_of(straight_window(speed_mps, (5, 0)), routes=routes_on(crossing)) for speed_mps in (5.0, 10.0, 0.0)
    )
    assert scores_of(plan, rules=rules, human=human).terms["epdms_progress"] == 1.0
    assert scores_of(plan, rules=rules).terms["epdms_progress"] == pytest.approx(0.5, abs=1e-6)


def test_a_plan_that_is_compared_with_itself_has_all_progress(crossing):
    assert value_of(progress, straight_window(3.0), routes=routes_on(crossing)) == 1.0


# --- TTC: states up to 31 look 0.9 s ahead

CLOSING = {
    "met 0.9 s after state 31": (19.99, 5.0, 0.0),
    "met only after that": (20.01, 5.0, 1.0),
    "kept behind at 1 m": (1.0, 10.0, 1.0),
}


@pytest.mark.parametrize(("gap_m", "lead_mps", "value"), CLOSING.values(), ids=CLOSING)
def test_times_to_collision_look_at_where_others_are_later(crossing, gap_m, lead_mps, value):
    users = users_in_each_state({"at": (4 + gap_m, 0), "moves": (lead_mps, 0), "v": (lead_mps, 0)})
    window = straight_window(start_m=(0, 0))
    assert value_of(leaves_time, window, users=users, routes=routes_on(crossing)) == value


def test_speeds_of_others_do_not_matter(crossing):
    """The row says that it is stationary; nuPlan would predict a collision in half a second."""
    users = users_in_each_state({"at": (9, 0), "moves": (10, 0), "v": (0, 0)})
    window = straight_window(start_m=(0, 0))
    assert value_of(leaves_time, window, users=users, routes=routes_on(crossing)) == 1.0


@pytest.mark.parametrize(("speed_mps", "value"), [(0.0049, 1.0), (0.0051, 0.0)])
def test_an_av_that_stands_meets_nobody(crossing, speed_mps, value):
    """Somebody comes up to the front of the AV, and is 0.1 m in it after 2 s."""
    users = users_in_each_state({"at": (6, 0), "moves": (-1.05, 0), "v": (-1.05, 0)})
    window = straight_window(0.0, (0, 0), speeds_mps=speed_mps)
    assert value_of(leaves_time, window, users=users, routes=routes_on(crossing)) == value


@pytest.mark.parametrize(("start", "value"), [((0, 0), 1.0), ((0, 2), 0.0), ((0, -2), 0.0), ((104, 0), 0.0)])
def test_others_beside_count_across_lanes_off_the_road_and_in_junctions(crossing, start, value):
    """The other comes to the side of the AV."""
    beside = {"at": (start[0] - 1.0, start[1] + 5), "moves": (1, -1), "v": (1, -1)}
    window = straight_window(1.0, start)
    assert value_of(leaves_time, window, users=users_in_each_state(beside), routes=routes_on(crossing)) == value


def test_who_has_hit_the_av_from_behind_is_left_out(crossing):
    """It drives through the AV, and would be ahead of it within the 0.9 s."""
    users = users_in_each_state({"at": (-5, 0), "moves": (15, 0), "v": (15, 0)})
    details = details_of(straight_window(), users=users, routes=routes_on(crossing))
    assert (details.collisions.kinds > 0).sum() == 1
    assert leaves_time(details) == 1.0


# --- LK


def beside_for(num_states, beside_m, first=3):
    """A window along the route, off it in some states."""
    y_m = np.zeros(NUM_STATES)
    y_m[first : first + num_states] = beside_m
    return y_m


@pytest.mark.parametrize(
    ("num_states", "beside_m", "value"),
    [(19, 0.51, 1.0), (20, 0.51, 0.0), (20, -0.51, 0.0), (38, 0.49, 1.0)],
)
def test_two_seconds_beside_the_centre_line(crossing, num_states, beside_m, value):
    positions_m = np.column_stack([10 + 5.0 * TIMES_S, beside_for(num_states, beside_m)])
    assert value_of(keeps_lane, window_along(positions_m), routes=routes_on(crossing)) == value


def test_states_in_junctions_neither_count_nor_break_it(crossing):
    """At 10 m/s from x = 90.4 on, states 9 to 29 are in the junction: 9 before it and 11 behind it."""
    positions_m = np.column_stack([90.4 + 10.0 * TIMES_S, np.full(NUM_STATES, 0.6)])
    details = details_of(window_along(positions_m), routes=routes_on(crossing))
    assert details.is_centre_in_junction.sum() == 21  # a lane that crosses begins a bit before
    assert keeps_lane(details) == 0.0  # 9 and 11 consecutive states off it
    back = positions_m.copy()
    back[20:22, 1] = 0.0  # in the junction it is on the line
    assert value_of(keeps_lane, window_along(back), routes=routes_on(crossing)) == 0.0
    back[5, 1] = 0.0
    assert value_of(keeps_lane, window_along(back), routes=routes_on(crossing)) == 1.0


# --- HC and EC


@pytest.mark.parametrize(("braking_mps2", "value"), [(-3.9, 1.0), (-4.2, 0.0)])
def test_the_past_counts_for_comfort(braking_mps2, value):
    """All of it as in the past: -4.05 m/s2 are the bound."""
    window = straight_window(accelerations_mps2=(braking_mps2, 0.0))
    past = details_of(window).windows.past
    braked = dataclasses.replace(past, accelerations_mps2=np.tile((braking_mps2, 0.0), (1, NUM_PAST, 1)))
    assert value_of(history_comfort, window, past=braked) == value


def test_hard_braking_before_the_window_is_uncomfortable():
    past = details_of(straight_window()).windows.past
    braked = dataclasses.replace(past, accelerations_mps2=np.tile((-6.0, 0.0), (1, NUM_PAST, 1)))
    assert value_of(history_comfort, straight_window(), past=braked) == 0.0
    assert value_of(history_comfort, straight_window(), past=past) == 1.0


ALIKE = {
    "the same": ({}, 1.0),
    "0.69 m/s2 apart": ({"accelerations_mps2": (0.69, 0.0)}, 1.0),
    "0.71 m/s2 apart": ({"accelerations_mps2": (0.71, 0.0)}, 0.0),
    "across as well as along": ({"accelerations_mps2": (0.6, 0.6)}, 0.0),
    "0.09 rad/s apart": ({"yaws_rad": 0.09 * TIMES_S}, 1.0),
    "0.11 rad/s apart": ({"yaws_rad": 0.11 * TIMES_S}, 0.0),
}


@pytest.mark.parametrize(("motion", "value"), ALIKE.values(), ids=ALIKE)
def test_a_plan_and_the_next_one(motion, value):
    windows = straight_window(), straight_window(**motion)
    found = extended_comfort(details_of(*windows, following=[1, -1]))
    assert_array_equal(found, [value, np.nan])


def test_the_next_plan_is_compared_at_the_same_times():
    """The second window starts with the acceleration that the first has from 0.5 s on."""
    later = np.column_stack([0.5 * np.sin(2 * TIMES_S), 0 * TIMES_S])
    first = straight_window(accelerations_mps2=later)
    shifted = np.column_stack([0.5 * np.sin(2 * (TIMES_S + 0.5)), 0 * TIMES_S])
    alike = details_of(first, straight_window(accelerations_mps2=shifted), following=[1, -1])
    apart = details_of(first, first, following=[1, -1])
    assert (extended_comfort(alike)[0], extended_comfort(apart)[0]) == (1.0, 0.0)


# --- the score


def scores_of(plan, *, rules=None, human=None):
    rows = np.zeros(len(plan.windows), np.int64)
    return score_windows(plan, rules=rules, human=human, scenes=rows, frames=rows, planned=np.ones(len(rows)))


def test_jerks_of_plans_are_compared_by_the_size_of_the_acceleration():
    """It grows by 0.4 or 0.6 m/s3 in one plan, and by 0 in the other, which are at most 0.7 m/s2 apart."""
    for jerk_mps3, value in ((0.45, 1.0), (0.55, 0.0)):
        grows = np.column_stack([2.0 + jerk_mps3 * (TIMES_S - 1.75), 0 * TIMES_S])
        windows = straight_window(accelerations_mps2=(2.0, 0.0)), straight_window(accelerations_mps2=grows)
        found = extended_comfort(details_of(*windows, following=[1, -1]))
        assert found[0] == value


def test_a_window_without_fault_has_all_points(crossing):
    found = scores_of(details_of(straight_window(), routes=routes_on(crossing)))
    assert found.scores == 1.0
    assert {name: value[0] for name, value in found.terms.items() if not np.isnan(value[0])} == {
        term.name: 1.0 for term in TERMS[:-1]
    }


def test_weights_of_what_fails_and_what_does_not_apply(crossing):
    """LK has weight 2 of 16; without a next plan of 14."""
    routes, beside = routes_on(crossing), straight_window(5.0, (5, 0.6))
    found = scores_of(details_of(beside, beside, routes=routes, following=[1, -1]))
    assert_allclose(found.scores, [14 / 16, 12 / 14])


def test_multipliers_multiply(crossing):
    routes = routes_on(crossing)
    users = users_in_each_state({"at": (60, 0), "moves": (-5, 0), "v": (-5, 0)} | ANIMAL)
    details = details_of(straight_window(start_m=(5, 0)), users=users, routes=routes)
    assert product_of_multipliers(details) == 0.5
    found = scores_of(details)
    assert_allclose(found.scores, 0.5 * 9 / 14)  # and no time to collision: 14 - 5


def test_what_the_log_fails_is_forgiven(crossing):
    """The log leaves the road, too; that it collides does not help a plan that has only half a fault."""
    routes = routes_on(crossing)
    off_road = details_of(straight_window(5.0, (5, -1.5)), routes=routes)
    assert scores_of(off_road).terms["epdms_drivable_area_compliance"] == 0.0
    found = scores_of(off_road, human=off_road)
    assert (found.terms["epdms_drivable_area_compliance"], found.scores) == (1.0, 1.0)
    in_lane = details_of(straight_window(5.0), routes=routes)
    assert scores_of(off_road, human=in_lane).scores == 0.0


def test_without_a_map_only_what_needs_none_counts():
    found = scores_of(details_of(straight_window()))
    need_map = {term.name for term in TERMS if term.needs_map}
    assert {name for name, value in found.terms.items() if np.isnan(value).all()} == need_map | {
        "epdms_extended_comfort"
    }
    assert found.scores == 1.0


def test_a_log_on_no_lane_has_no_route(crossing):
    routes = routes_on(crossing)
    starts = np.zeros(2, np.int64)
    none = dataclasses.replace(
        routes.paths,
        starts=starts,
        points_m=np.zeros((0, 2)),
        lengths_m=np.zeros(1),
        piece_starts=starts,
        **{name: np.zeros(0, np.int64) for name in ("piece_lanes",)},
        piece_arcs_m=np.zeros(0),
        piece_limits_mps=np.zeros(0),
        line_lanes=np.zeros((0, 2), np.int64),
    )
    details = details_of(straight_window(), routes=dataclasses.replace(routes, paths=none))
    found = scores_of(details)
    lost = {"driving_direction_compliance", "traffic_light_compliance", "progress", "lane_keeping", "extended_comfort"}
    assert {name for name, value in found.terms.items() if np.isnan(value).all()} == {f"epdms_{each}" for each in lost}


def test_weights_are_those_that_are_published():
    roles = {term.name.removeprefix("epdms_"): term.role for term in TERMS}
    multipliers = [name for name, role in roles.items() if role == "multiplier"]
    assert [name.split("_")[0] for name in multipliers] == ["no", "drivable", "driving", "traffic"]
    assert [role for role in roles.values() if role != "multiplier"] == [5.0, 5.0, 2.0, 2.0, 2.0]
    names = [metric.name for metric in (*METRICS, *EPDMS_METRICS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("given", [{"stride_s": 0.0}, {"past_s": 0.15}, {"looks_s": (0.0, 5.0)}, {"jerk_mps3": -1.0}])
def test_thresholds_that_are_not_possible(given):
    with pytest.raises(InvalidArgumentError, match=next(iter(given))):
        EpdmsParams(**given)
