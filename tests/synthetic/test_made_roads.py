"""Road networks of made towns."""

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from l5kit.synthetic.road_network import (
    BIKE_LANE,
    CAR_CONNECTOR,
    CAR_LANE,
    LEFT,
    RIGHT,
    THROUGH,
    RoadNetwork,
    build_road_network,
    line_yaws,
    offset_line,
)
from l5kit.synthetic.scene import Town, build_town
from l5kit.synthetic.town_plan import LANE_WIDTH_M, plan_town, sample_bezier
from support.tolerances import FLOAT32, FLOAT64, FLOAT64_LONG


@pytest.fixture(scope="module", params=[(1, 500.0), (2, 260.0), (3, 900.0)], ids=["500 m", "260 m", "900 m"])
def any_town(request: pytest.FixtureRequest) -> Town:
    seed, size_m = request.param
    return build_town(size_m, seed=seed)


def lane_yaws_rad(net: RoadNetwork, lane: int) -> np.ndarray:
    """Return the direction at each point of a lane's centre line, (n,)."""
    return net.points["yaw_rad"][net.lanes.first_point[lane] : net.lanes.end_point[lane]]


def test_town_has_every_kind_of_place() -> None:
    plan = plan_town(900.0, np.random.default_rng(0))
    assert set(plan.controls) == {"signal", "yield", "all_way", "none"}
    assert {road.num_lanes for road in plan.roads} == {1, 2}
    assert {len(plan.arms_of(node)) for node in range(len(plan.controls))} == {2, 3, 4}
    turned = [np.ptp(line_yaws(road.centre_m)) for road in plan.roads]
    assert max(turned) > 0.3, "some roads are curved"


def test_town_fills_its_size_around_the_origin() -> None:
    plan = plan_town(800.0, np.random.default_rng(5))
    assert np.abs(plan.position_m).max() == pytest.approx(400.0, abs=30.0)
    assert np.abs(plan.position_m.mean(axis=0)).max() < 20.0


def test_every_car_lane_reaches_every_other(any_town: Town) -> None:
    lanes, edges = any_town.network.lanes, []
    for lane in range(len(lanes)):
        edges += [(lane, after) for after in any_town.network.next_of(lane)]
        edges += [(lane, int(beside)) for beside in (lanes.left_lane[lane], lanes.right_lane[lane]) if beside >= 0]
    rows, columns = np.array(edges).T
    graph = coo_matrix((np.ones(len(edges)), (rows, columns)), shape=(len(lanes), len(lanes)))
    _, part = connected_components(graph, directed=True, connection="strong")
    assert len(set(part[lanes.kind == CAR_LANE])) == 1


def test_every_lane_goes_on(any_town: Town) -> None:
    assert all(any_town.network.next_of(lane) for lane in range(len(any_town.network.lanes)))


def test_connectors_join_their_lanes_smoothly(any_town: Town) -> None:
    net = any_town.network
    for lane in np.nonzero(net.lanes.from_lane >= 0)[0]:
        before, after = net.lanes.from_lane[lane], net.lanes.to_lane[lane]
        points, yaws = net.lane_points_m(lane), lane_yaws_rad(net, lane)
        np.testing.assert_allclose(points[0], net.lane_points_m(before)[-1], atol=FLOAT64_LONG)
        np.testing.assert_allclose(points[-1], net.lane_points_m(after)[0], atol=FLOAT64_LONG)
        for own, other in ((yaws[0], lane_yaws_rad(net, before)[-1]), (yaws[-1], lane_yaws_rad(net, after)[0])):
            assert abs((own - other + np.pi) % (2 * np.pi) - np.pi) < 0.06


def test_no_curve_is_too_tight(any_town: Town) -> None:
    net = any_town.network
    for lane in range(len(net.lanes)):
        points = net.lane_points_m(lane)
        curvature = np.abs(np.diff(lane_yaws_rad(net, lane))) / np.hypot(*np.diff(points, axis=0).T)
        assert curvature.max() < (1 / 40.0 if net.lanes.from_lane[lane] < 0 else 1 / 3.5)


def test_neighbours_point_at_each_other_one_width_apart(any_town: Town) -> None:
    net = any_town.network
    with_left = np.nonzero(net.lanes.left_lane >= 0)[0]
    for lane in with_left:
        left = net.lanes.left_lane[lane]
        assert net.lanes.right_lane[left] == lane
        apart = np.hypot(*(net.lane_points_m(left) - net.lane_points_m(lane)).T)
        np.testing.assert_allclose(apart, LANE_WIDTH_M, atol=FLOAT32)


def test_traffic_keeps_to_the_right(any_town: Town) -> None:
    net, plan = any_town.network, any_town.plan
    for lane in np.nonzero((net.lanes.kind == CAR_LANE) | (net.lanes.kind == BIKE_LANE))[0]:
        centre = plan.roads[net.lanes.road[lane]].centre_m
        point, yaw = net.lane_points_m(lane)[20], lane_yaws_rad(net, lane)[20]
        to_centre = centre[np.argmin(np.hypot(*(centre - point).T))] - point
        assert to_centre @ [-np.sin(yaw), np.cos(yaw)] > 1.0, "the middle of the road is to the left"


def test_turns_turn_the_right_way(any_town: Town) -> None:
    net = any_town.network
    for lane in np.nonzero(net.lanes.kind == CAR_CONNECTOR)[0]:
        turned = lane_yaws_rad(net, lane)[-1] - lane_yaws_rad(net, lane)[0]
        low, high = {THROUGH: (-0.5, 0.5), LEFT: (1.0, 2.2), RIGHT: (-2.2, -1.0)}[int(net.lanes.turn[lane])]
        assert low < turned < high


def test_crossing_ways_share_a_zone_and_parallel_ones_do_not(town: Town) -> None:
    lanes, zone = town.network.lanes, town.network.zone_end_m
    through = np.nonzero((lanes.kind == CAR_CONNECTOR) & (lanes.turn == THROUGH))[0]
    crossing = parallel = 0
    for a in through:
        for b in through:
            if a != b and lanes.node[a] == lanes.node[b]:
                end = zone[lanes.node[a], lanes.local_index[a], lanes.local_index[b]]
                if (lanes.arm[a] - lanes.arm[b]) % 2 == 1:
                    crossing += 1
                    assert 0.0 < end < lanes.length_m[a] + 5.0
                elif (lanes.arm[a] - lanes.arm[b]) % 4 == 2:
                    parallel += 1
                    assert end == -100.0
    assert crossing > 0
    assert parallel > 0


def test_same_seed_same_network() -> None:
    first, again, other = (
        build_road_network(plan_town(400.0, rng), rng) for rng in map(np.random.default_rng, (7, 7, 8))
    )
    assert first.points.tobytes() == again.points.tobytes()
    assert first.lanes.tobytes() == again.lanes.tobytes()
    assert first.points.tobytes() != other.points.tobytes()


def test_offset_of_a_straight_line() -> None:
    line = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    np.testing.assert_allclose(offset_line(line, 2.0), [[0, 2], [1, 2], [2, 2]], atol=FLOAT64)
    np.testing.assert_allclose(offset_line(line[::-1], 2.0), [[2, -2], [1, -2], [0, -2]], atol=FLOAT64)


def test_bezier_points_are_equally_spaced() -> None:
    line = sample_bezier(np.array([[0.0, 0.0], [10.0, 0.0], [20.0, 5.0], [30.0, 20.0]]), spacing_m=1.0)
    steps = np.hypot(*np.diff(line, axis=0).T)
    np.testing.assert_allclose(steps, steps.mean(), rtol=1e-3)
    np.testing.assert_allclose(line[[0, -1]], [[0, 0], [30, 20]])
