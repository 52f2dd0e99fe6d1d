"""Routes of maps: successive and neighbouring lanes, the shortest route, and positions without one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data import LaneRoute, MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.data.map.lane_routes import LANE_CHANGE_COST_M
from l5kit.errors import InvalidArgumentError, RouteNotFoundError
from support.driving import straight_lane
from support.maps import WORLD_TO_ECEF

AROUND = ["right", "north", "west", "south", "right"]
EXACT_M = 0.02
"""Maps hold centimetres."""


def save(builder: MapBuilder, folder: Path) -> MapAPI:
    builder.save(folder / "map.pb")
    return MapAPI(str(folder / "map.pb"), WORLD_TO_ECEF)


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> MapAPI:
    """Two lanes along x, from the right one of which one gets on to the north, and a road back to the west."""
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("right", *straight_lane((0, 0), (100, 0)), lanes_ahead=["north", "gone"], change_left="left")
    builder.add_lane("left", *straight_lane((0, 4), (100, 4)), change_right="right")
    builder.add_lane("north", *straight_lane((100, 0), (100, 80)), lanes_ahead=["west"])
    builder.add_lane("west", *straight_lane((100, 80), (0, 80)), lanes_ahead=["south"])
    builder.add_lane("south", *straight_lane((0, 80), (0, 0)), lanes_ahead=["right"])
    builder.add_lane("opposite", *straight_lane((100, -4), (0, -4)))
    return save(builder, tmp_path_factory.mktemp("road"))


@pytest.mark.parametrize(
    ("start", "goal", "lanes", "changes", "length_m"),
    [
        pytest.param((10, 0), (60, 0.5), ["right"], 0, 50.0, id="ahead on one lane"),
        pytest.param((10, 0), (100, 30), ["right", "north"], 0, 120.0, id="over lanes that follow"),
        pytest.param((10, 4), (100, 30), ["left", "right", "north"], 1, None, id="with a change to the right"),
        pytest.param((10, 0), (90, 4), ["right", "left"], 1, None, id="with a change to the left"),
        pytest.param((60, 0), (10, 0), AROUND, 0, 310.0, id="behind: around"),
        pytest.param((60, 4), (10, 4), ["left", *AROUND, "left"], 2, None, id="around with changes"),
        pytest.param((30, 0), (30, 0), ["right"], 0, 0.0, id="start and goal are one"),
    ],
)
def test_the_lanes_of_routes(
    road: MapAPI,
    start: tuple[float, float],
    goal: tuple[float, float],
    lanes: list[str],
    changes: int,
    length_m: float | None,
) -> None:
    route = road.find_route(start, goal)
    assert list(route.lane_ids) == lanes
    assert [road.arrays.lane_ids[row] for row in route.lane_rows.tolist()] == lanes
    assert route.is_change.sum() == changes
    assert not route.is_change[0]
    np.testing.assert_allclose(np.abs(route.line_m[0] - start).max(), 0.0, atol=EXACT_M)
    np.testing.assert_allclose(np.abs(route.line_m[-1] - goal).min(), 0.0, atol=EXACT_M)
    if length_m is not None:
        assert route.length_m == pytest.approx(length_m, abs=5 * EXACT_M)


def test_the_line_goes_across_in_the_middle_of_what_is_driven_beside(road: MapAPI) -> None:
    route = road.find_route((10, 4), (90, 0))
    np.testing.assert_allclose(route.line_m[[0, -1]], [(10, 4), (90, 0)], atol=EXACT_M)
    is_before, is_after = route.line_m[:, 0] < 40 + EXACT_M, route.line_m[:, 0] > 60 - EXACT_M
    assert (is_before | is_after).all()
    np.testing.assert_allclose(route.line_m[is_before, 1], 4, atol=EXACT_M)
    np.testing.assert_allclose(route.line_m[is_after, 1], 0, atol=EXACT_M)
    assert route.length_m == pytest.approx(60 + np.hypot(20, 4), abs=5 * EXACT_M)


@pytest.mark.parametrize("goal_m", [99.99, 100.0, 100.02, 130.0])
def test_the_line_does_not_turn_around_where_a_lane_begins_before_the_end_of_the_last(
    tmp_path: Path, goal_m: float
) -> None:
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("first", *straight_lane((0, 0), (100, 0)), lanes_ahead=["second"])
    builder.add_lane("second", *straight_lane((99.98, 0), (200, 0)))
    line_m = save(builder, tmp_path).find_route((50, 0), (goal_m, 0)).line_m
    assert np.diff(line_m[:, 0]).min() > 0
    np.testing.assert_allclose(line_m[[0, -1], 0], [50, goal_m], atol=0.02)


def fork(folder: Path, detour_m: float) -> MapAPI:
    """Two neighbouring lanes: the left one leads straight to the goal, the right one on a detour."""
    builder = MapBuilder(WORLD_TO_ECEF)
    height_m = np.sqrt((50 + detour_m / 2) ** 2 - 50**2)
    builder.add_lane("right", *straight_lane((0, 0), (50, 0)), lanes_ahead=["out"], change_left="left")
    builder.add_lane("left", *straight_lane((0, 4), (50, 4)), lanes_ahead=["straight"], change_right="right")
    builder.add_lane("out", *straight_lane((50, 0), (100, -height_m)), lanes_ahead=["back"])
    builder.add_lane("back", *straight_lane((100, -height_m), (150, 0)), lanes_ahead=["goal"])
    builder.add_lane("straight", *straight_lane((50, 4), (150, 4)), lanes_ahead=["goal"])
    builder.add_lane("goal", *straight_lane((150, 2), (200, 2)))
    return save(builder, folder)


@pytest.mark.parametrize(("detour_m", "is_changed"), [(19.5, False), (20.5, True)])
def test_a_lane_is_changed_for_more_than_20_metres(tmp_path: Path, detour_m: float, is_changed: bool) -> None:
    route = fork(tmp_path, detour_m).find_route((5, 0), (190, 2))
    expected = ["right", "left", "straight", "goal"] if is_changed else ["right", "out", "back", "goal"]
    assert list(route.lane_ids) == expected


def test_lanes_beside_that_begin_later_are_no_short_cut(tmp_path: Path) -> None:
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("long", *straight_lane((0, 0), (300, 0)), lanes_ahead=["on"], change_left="pocket")
    builder.add_lane("pocket", *straight_lane((270, 4), (300, 4)), lanes_ahead=["on"], change_right="long")
    builder.add_lane("on", *straight_lane((300, 0), (350, 0)))
    assert list(save(builder, tmp_path).find_route((5, 0), (340, 0)).lane_ids) == ["long", "on"]


def test_the_heading_chooses_the_lane(road: MapAPI) -> None:
    corner = (100.0, 1.0)
    assert road.find_route(corner, (100, 40), heading_rad=np.pi / 2).lane_ids == ("north",)
    assert road.find_route(corner, (90, 4), heading_rad=0.0).lane_ids[0] == "right"
    for turn_rad, is_fitting in ((np.pi / 4 - 1e-3, True), (-np.pi / 4 + 1e-3, True), (np.pi / 4 + 1e-3, False)):
        if is_fitting:
            assert road.find_route((30, 0), (60, 0), heading_rad=turn_rad).lane_ids == ("right",)
        else:
            with pytest.raises(InvalidArgumentError, match=r"start \(30\.00, 0\.00\) has no lane .* differ by more"):
                road.find_route((30, 0), (60, 0), heading_rad=turn_rad, reach_m=0.0)


@pytest.mark.parametrize(("aside_m", "is_within"), [(4.98, True), (5.02, False)])
def test_places_beside_lanes_take_the_nearest_one_within_reach(road: MapAPI, aside_m: float, is_within: bool) -> None:
    start = (30.0, 6.0 + aside_m)
    if is_within:
        assert road.find_route(start, (60, 4)).lane_ids == ("left",)
    else:
        with pytest.raises(InvalidArgumentError, match=r"the nearest, 'left', is 5\.0 m away; .* larger reach_m"):
            road.find_route(start, (60, 4))
        assert road.find_route(start, (60, 4), reach_m=6.0).lane_ids == ("left",)


def test_where_no_way_leads(road: MapAPI) -> None:
    with pytest.raises(RouteNotFoundError, match=r"from \(50\.00, -4\.00\), lane 'opposite', to .* 0 of the 6 lanes"):
        road.find_route((50, -4), (50, 0))
    with pytest.raises(RouteNotFoundError, match="5 of the 6 lanes"):
        road.find_route((50, 0), (50, -4))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"start_m": (1.0,)}, "start_m must be x and y"),
        ({"goal_m": (np.nan, 0.0)}, "goal_m must be x and y"),
        ({"heading_rad": np.inf}, "heading_rad must be finite"),
        ({"reach_m": -1.0}, "reach_m must be at least 0"),
        ({"goal_m": (1e4, 0.0)}, r"goal \(10000\.00, 0\.00\) has no lane within reach_m=5 metres: the nearest, '"),
    ],
    ids=str,
)
def test_wrong_arguments(road: MapAPI, arguments: dict[str, object], match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        road.find_route(**({"start_m": (30, 0), "goal_m": (60, 0)} | arguments))  # type: ignore[arg-type]


def test_a_map_without_lanes(tmp_path: Path) -> None:
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_crosswalk("crosswalk", np.array([[50.0, -10, 0], [54, -10, 0], [54, 10, 0], [50, 10, 0]]))
    with pytest.raises(InvalidArgumentError, match="the map has none"):
        save(builder, tmp_path).find_route((0, 0), (1, 1))


def make_town(rng: np.random.Generator, folder: Path) -> MapAPI:
    """Roads of two lanes between crossings at random places, some of which lead on to each other."""
    crossings = rng.uniform(-200, 200, size=(5, 2))
    ends = [(a, b) for a in range(5) for b in range(5) if a != b and rng.random() < 0.5]
    builder = MapBuilder(WORLD_TO_ECEF)
    for a, b in ends:
        ahead = [f"{b} {c} {side}" for start, c in ends for side in "lr" if start == b and rng.random() < 0.5]
        along = (crossings[b] - crossings[a]) / np.linalg.norm(crossings[b] - crossings[a])
        left = np.array([-along[1], along[0]])
        for side, at_m in (("l", 2.0), ("r", -2.0)):
            other = {"l": {"change_right": f"{a} {b} r"}, "r": {"change_left": f"{a} {b} l"}}[side]
            lane = straight_lane(crossings[a] + at_m * left, crossings[b] + at_m * left)
            changes = other if rng.random() < 0.6 else {}
            builder.add_lane(f"{a} {b} {side}", *lane, lanes_ahead=[n for n in ahead if rng.random() < 0.8], **changes)
    return save(builder, folder)


def cheapest_m(town: MapAPI, start: np.ndarray, goal: np.ndarray) -> float:
    """Return what the cheapest route costs, by relaxing all edges of a graph of lanes until nothing changes."""
    arrays, network = town.arrays, town.network
    starts, goals = (set(town.get_lanes_within(place, 0.0)) for place in (start, goal))
    ids = arrays.lane_ids.to_list()
    middles = [(arrays.left_line(row)[:, :2] + arrays.right_line(row)[:, :2]) / 2 for row in range(len(ids))]
    lengths = [np.linalg.norm(middle[1] - middle[0]) for middle in middles]

    def place(lane: int, point: np.ndarray) -> float:
        along = (middles[lane][1] - middles[lane][0]) / lengths[lane]
        return float(np.clip((point - middles[lane][0]) @ along, 0, lengths[lane]))

    def beside(lane: int) -> list[int]:
        return [int(rows[lane]) for rows in (network.left_rows, network.right_rows) if rows[lane] >= 0]

    first = [lane for lane in range(len(ids)) if ids[lane] in starts]
    at_start = {other: LANE_CHANGE_COST_M for lane in first for other in beside(lane)} | dict.fromkeys(first, 0.0)
    costs = np.full(len(ids), np.inf)
    for lane, cost in at_start.items():
        for ahead in network.ahead_of(lane).tolist():
            if ahead < len(ids):
                costs[ahead] = min(costs[ahead], cost + lengths[lane] - place(lane, start))
    for _ in ids:
        for lane in range(len(ids)):
            edges = [(ahead, lengths[lane]) for ahead in network.ahead_of(lane).tolist() if ahead < len(ids)]
            for other, cost in edges + [(other, LANE_CHANGE_COST_M) for other in beside(lane)]:
                costs[other] = min(costs[other], costs[lane] + cost)
    whole = [costs[lane] + place(lane, goal) for lane in range(len(ids)) if ids[lane] in goals]
    for lane, cost in at_start.items():
        if ids[lane] in goals and place(lane, goal) >= place(lane, start):
            whole.append(cost + place(lane, goal) - place(lane, start))
    return min(whole)


def cost_of(town: MapAPI, route: LaneRoute) -> float:
    """Return the cost of a route of a town, in which neighbouring lanes are equally long."""
    rows = route.lane_rows.tolist()
    lines = [(town.arrays.left_line(row)[:, :2] + town.arrays.right_line(row)[:, :2]) / 2 for row in rows]
    lengths = [float(np.linalg.norm(line[1] - line[0])) for line in lines]
    followed = sum(length for length, is_change in zip(lengths, route.is_change[1:], strict=False) if not is_change)
    return followed - route.start_m + route.end_m + LANE_CHANGE_COST_M * int(route.is_change.sum())


@pytest.fixture(scope="module")
def town_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("town")


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_way_is_cheaper(town_folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    town = make_town(rng, town_folder)
    if not town.arrays.num_lanes:
        return
    rows = rng.integers(town.arrays.num_lanes, size=2)
    ends = [(town.arrays.left_line(row)[:, :2] + town.arrays.right_line(row)[:, :2]) / 2 for row in rows]
    start, goal = (end[0] + rng.uniform(0.05, 0.95) * (end[1] - end[0]) for end in ends)
    expected_m = cheapest_m(town, start, goal)
    if not np.isfinite(expected_m):
        with pytest.raises(RouteNotFoundError):
            town.find_route(start, goal)
        return
    route = town.find_route(start, goal)
    assert cost_of(town, route) == pytest.approx(expected_m, abs=0.2)
    assert_is_driven(town, route.lane_rows.tolist(), route.is_change.tolist())
    assert route.lane_ids[0] in town.get_lanes_within(start, 0.0)
    assert route.lane_ids[-1] in town.get_lanes_within(goal, 0.0)


def assert_is_driven(town: MapAPI, rows: Sequence[int], is_change: Sequence[bool]) -> None:
    """Check that each lane follows the previous one, or is its neighbour where that is allowed."""
    network = town.network
    for before, lane, is_beside in zip(rows[:-1], rows[1:], is_change[1:], strict=True):
        beside = (network.left_rows[before], network.right_rows[before])
        assert lane in (beside if is_beside else network.ahead_of(before))
