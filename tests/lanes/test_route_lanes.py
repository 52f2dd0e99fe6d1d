"""Lanes of routes, and those that red lights close."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.lanes.driving_map import build_driving_map
from l5kit.lanes.lane_paths import make_path_of_lanes
from l5kit.lanes.route_map import lanes_closed_by_red, mark_route_lanes
from support.driving import make_lit_road
from support.windows import LANES, make_crossing


@pytest.fixture(scope="module")
def crossing(tmp_path_factory):
    return make_crossing(tmp_path_factory.mktemp("crossing"))


ROUTES = {
    "straight on": (
        ("right", "straight", "east"),
        {"right", "beside", "straight", "straight beside", "east", "east beside"},
    ),
    "to the left": (("right", "turn", "north"), {"right", "beside", "turn", "north"}),
    "up to the junction": (("right",), {"right", "beside"}),
    "the other way": (("oncoming",), {"oncoming"}),
    "from within the junction": (("straight", "east"), {"straight", "east", "east beside"}),
    "within it": (("across",), {"across"}),
}


@pytest.mark.parametrize(("lanes", "found"), ROUTES.values(), ids=ROUTES)
def test_lanes_beside_those_of_the_path_and_between_them(crossing, lanes, found):
    paths = make_path_of_lanes(np.array([LANES.index(lane) for lane in lanes]), crossing)
    (is_of_route,) = mark_route_lanes(paths, crossing)
    assert {LANES[lane] for lane in np.flatnonzero(is_of_route)} == found


def test_lights_of_junctions_close_their_lane_and_others_what_follows(crossing, tmp_path):
    starts, closed = lanes_closed_by_red(crossing)
    of = {name: {LANES[lane] for lane in closed[starts[row] : starts[row + 1]]} for row, name in enumerate(LANES)}
    assert (of["straight"], of["across"]) == ({"straight"}, {"across"})
    assert (of["right"], of["east"]) == ({"straight", "turn"}, set())  # with the line at its end
    starts, closed = lanes_closed_by_red(build_driving_map(make_lit_road(tmp_path, width_m=4.0)))
    assert (starts.tolist(), closed.tolist()) == ([0, 1, 1], [1])


def tracks_over(crossing):
    """Points that go across the roads, on and off lanes, and back."""
    rng = np.random.default_rng(1)
    starts = rng.uniform((-5, -10), (225, 15), (20, 1, 2))
    return starts + np.cumsum(rng.normal(0, 1.0, (20, 50, 2)), axis=1)


def test_distances_of_tracks_are_those_of_their_points(crossing):
    tracks_m = tracks_over(crossing)
    alone = crossing.distances_to_surface_m(tracks_m.reshape(-1, 2)).reshape(tracks_m.shape[:2])
    found = crossing.distances_of_tracks_m(tracks_m)
    assert_allclose(found, alone)
    assert 0.2 < (found == 0).mean() < 0.8
    assert ((found > 0) & np.isfinite(found)).any()


def test_lanes_that_hold_tracks_are_those_that_hold_their_points(crossing):
    tracks_m, rng = tracks_over(crossing), np.random.default_rng(2)
    is_wanted, kinds = rng.random((3, len(LANES))) < 0.5, rng.integers(0, 3, 20)
    rows, starts = crossing.lanes_at(tracks_m.reshape(-1, 2))
    wanted = [
        is_wanted[kinds[point // 50]][rows[starts[point] : starts[point + 1]]].any() for point in range(len(starts) - 1)
    ]
    found = crossing.hold_tracks(tracks_m, is_wanted, kinds)
    assert_array_equal(found.reshape(-1), wanted)
    assert 0.1 < found.mean() < 0.9
