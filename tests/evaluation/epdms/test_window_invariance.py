"""Scores of windows are invariant to world position, other windows, and far agents."""

import dataclasses
import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.data.map.bounds_grid import BoundsGrid
from l5kit.evaluation.driving.road_users import RoadUsers
from l5kit.evaluation.epdms import TERMS, score_windows
from l5kit.evaluation.epdms.details import WindowDetails
from l5kit.evaluation.epdms.plan_windows import bounds_of_meetings
from l5kit.lanes.driving_map import REACH_M
from support.driving import STEP_S
from support.windows import NUM_STATES, details_of, routes_on, window_along

NUM_WINDOWS, NUM_TRACKS = 60, 6
RED = (("straight", 20, 40), ("straight beside", 0, 30), ("across", 0, 99))


def wandering(rng):
    """A window along the route, off it, or against it."""
    turn = rng.choice([0.0, 0.0, 0.0, np.pi])
    yaws = turn + np.cumsum(rng.normal(0, rng.choice([0.0, 0.003]), NUM_STATES))
    speeds = np.abs(rng.uniform(0, 12) + np.cumsum(rng.normal(0, rng.choice([0.002, 0.1, 1.0]), NUM_STATES)))
    start = (rng.uniform(20, 140), rng.choice([0.0, 0.3, -1.2, 2.0, 4.0, 8.0]) + rng.normal(0, 0.2))
    ways = STEP_S * speeds[:, None] * np.stack([np.cos(yaws), np.sin(yaws)], axis=-1)
    return window_along(start + np.cumsum(ways, axis=0), yaws)


def users_around(rng, windows):
    """Road users that drive near the AVs of windows."""
    rows = []
    for number, window in enumerate(windows):
        at = window.positions_m[0, rng.integers(0, NUM_STATES, NUM_TRACKS)]
        at = at + rng.normal(0, rng.choice([4, 25]), (NUM_TRACKS, 2))
        moves, groups = rng.normal(0, 4, (NUM_TRACKS, 2)), rng.integers(0, 3, NUM_TRACKS)
        sizes, yaws = rng.uniform(0.5, 5, (NUM_TRACKS, 2)), np.arctan2(moves[:, 1], moves[:, 0])
        for step in range(NUM_STATES):
            for track in range(NUM_TRACKS):
                place = at[track] + STEP_S * step * moves[track]
                rows.append((number * NUM_STATES + step, track, groups[track], *place, yaws[track], *sizes[track]))
    return users_of(np.array(rows), len(windows))


def users_of(rows, num_windows):
    counts = np.bincount(rows[:, 0].astype(int), minlength=num_windows * NUM_STATES)
    return RoadUsers(
        starts=np.concatenate([[0], np.cumsum(counts)]),
        tracks=rows[:, 1].astype(np.int64),
        groups=rows[:, 2].astype(np.int64),
        labels=np.full(len(rows), -1),
        boxes=rows[:, 3:8].copy(),
        velocities_mps=np.ones((len(rows), 2)),
    )


@pytest.fixture(scope="module")
def world(crossing):
    """Plans, and those of rules in the same places."""
    rng = np.random.default_rng(5)
    drives, others = ([wandering(rng) for _ in range(NUM_WINDOWS)] for _ in range(2))
    users, routes = users_around(rng, drives), routes_on(crossing, red=RED)
    following = np.where(np.arange(NUM_WINDOWS) % 3 < 2, np.arange(NUM_WINDOWS) + 1, -1)
    return tuple(details_of(*each, users=users, routes=routes, following=following) for each in (drives, others))


def scored(plan, rules):
    rows = np.arange(len(plan.windows))
    return score_windows(plan, rules=rules, human=None, scenes=rows, frames=rows, planned=np.ones(len(rows)))


def with_windows(details, **changes):
    return WindowDetails(dataclasses.replace(details.windows, **changes), details.routes, details.params)


def test_each_term_tells_something_here(world):
    terms = scored(*world).terms
    for term in TERMS:
        assert 0.05 < np.nanmean(terms[term.name]) < 0.99, term.name


@pytest.mark.parametrize("turn_rad", [0.0, 0.3, np.pi / 2, 2.1, -1.0])
def test_the_world_may_lie_anywhere(world, turn_rad):
    matrix = np.array([[np.cos(turn_rad), -np.sin(turn_rad)], [np.sin(turn_rad), np.cos(turn_rad)]])

    def moved(points_m):
        return points_m @ matrix.T + (10_000.0, -7_000.0)

    def moved_states(states):
        return dataclasses.replace(states, positions_m=moved(states.positions_m), yaws_rad=states.yaws_rad + turn_rad)

    def moved_details(details):
        windows, routes = details.windows, details.routes
        road, users = routes.driving_map, windows.road_users
        areas_m = moved(road.area_points_m)
        parts = [areas_m[start:stop] for start, stop in itertools.pairwise(road.area_starts)]
        bounds_m = np.array([[part.min(axis=0), part.max(axis=0)] for part in parts])
        elsewhere = dataclasses.replace(
            road,
            centre_lines_m=moved(road.centre_lines_m),
            area_points_m=areas_m,
            grid=BoundsGrid.build(bounds_m, REACH_M),
        )
        paths = dataclasses.replace(routes.paths, points_m=moved(routes.paths.points_m))
        boxes = np.column_stack([moved(users.boxes[:, :2]), users.boxes[:, 2] + turn_rad, users.boxes[:, 3:]])
        changed = dataclasses.replace(
            windows,
            states=moved_states(windows.states),
            past=moved_states(windows.past),
            road_users=dataclasses.replace(users, boxes=boxes),
        )
        return WindowDetails(changed, dataclasses.replace(routes, driving_map=elsewhere, paths=paths), details.params)

    found, wanted = scored(*map(moved_details, world)), scored(*world)
    for name, values in wanted.terms.items():
        assert_allclose(found.terms[name], values, atol=1e-6, err_msg=name)
    assert_allclose(found.scores, wanted.scores, atol=1e-6)


def test_a_batch_is_its_windows_one_by_one(world):
    """But for extended comfort, which is of two."""
    together = scored(*world)
    for window in range(NUM_WINDOWS):
        alone = scored(*(_only(details, window) for details in world))
        for term in TERMS[:-1]:
            assert_array_equal(alone.terms[term.name], together.terms[term.name][[window]], err_msg=term.name)


def test_extended_comfort_is_that_of_two_windows_alone(world):
    name = TERMS[-1].name
    together = scored(*world).terms[name]
    for window in range(0, NUM_WINDOWS, 3):
        both = (_only(details, window, window + 1) for details in world)
        found = scored(*(with_windows(each, following=np.array([1, -1])) for each in both))
        assert_array_equal(found.terms[name], [together[window], np.nan])


def test_who_is_out_of_reach_does_not_matter(world):
    wanted = scored(*world)
    near = []
    for details in world:
        windows = details.windows
        firsts = NUM_STATES * np.arange(NUM_WINDOWS)
        bounds_m = bounds_of_meetings(windows.states, max(details.params.looks_s))
        near.append(with_windows(details, road_users=windows.road_users.windows(firsts, NUM_STATES, bounds_m)))
        assert 0 < len(near[-1].windows.road_users) < 0.9 * len(windows.road_users)
    found = scored(*near)
    for name, values in wanted.terms.items():
        assert_array_equal(found.terms[name], values, err_msg=name)


def _only(details, first, *others):
    rows = np.array([first, *others])
    windows, users = details.windows, details.windows.road_users
    of_windows = np.searchsorted(rows, users.frames_of_rows // NUM_STATES)
    is_of = np.isin(users.frames_of_rows // NUM_STATES, rows)
    columns = (of_windows * NUM_STATES + users.frames_of_rows % NUM_STATES, users.tracks, users.groups, users.boxes)
    return with_windows(
        details,
        states=windows.states.taken(rows),
        past=windows.past.taken(rows),
        road_users=users_of(np.column_stack([column[is_of] for column in columns]), len(rows)),
        scenes=windows.scenes[rows],
        frames=windows.frames[rows],
        arcs_m=windows.arcs_m[rows],
        following=np.full(len(rows), -1),
    )
