"""Compact observations: hand-made scenes, a plain twin in NumPy, other frames of the world, ties, bounds and shapes."""

import math
from dataclasses import replace

import numpy as np
import pytest

from l5kit.data import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.environment.observations.compact_layout import (
    AGENT_COLUMNS,
    BOUND,
    EGO_COLUMNS,
    FRAMES,
    LANE_COLUMNS,
    ROUTE_FRAME_AGENT_COLUMNS,
    ROUTE_FRAME_ROUTE_COLUMNS,
    CompactLayout,
)
from l5kit.environment.observations.compact_state import SeenMap, write_compact_states
from l5kit.environment.observations.lane_points import LanePoints
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.driving_map import build_driving_map
from l5kit.lanes.lane_paths import LanePaths, TrackPoses, make_lane_paths
from l5kit.lanes.red_lights import RED, YELLOW, LaneColors, LightRows, lights_of_lines, lights_of_scenes
from support.driving import ROAD_LANES, find_places, make_road_map, straight_lane
from support.maps import WORLD_TO_ECEF

LAYOUT = CompactLayout()
RIGHT, STRAIGHT, TURN = (ROAD_LANES.index(name) for name in ("right", "straight", "turn"))
NO_COLORS = (np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return make_road_map(tmp_path_factory.mktemp("road"))


@pytest.fixture(scope="module")
def lane_points(road):
    return SeenMap.of_map(road)


@pytest.fixture(scope="module")
def paths(road):
    """Two paths from x = 10 on: over the junction to the east, and over the turn to the north."""
    east = np.linspace((10, 0), (98, 0), 45)
    turns = np.linspace(0, math.pi / 2, 20)
    around = np.column_stack([100 + 20 * np.sin(turns), 20 - 20 * np.cos(turns)])
    yaws = np.concatenate([np.zeros(45), np.zeros(45), turns])
    starts = np.array([0, 45, 110])
    tracks = TrackPoses(starts, np.concatenate([east, east, around]), yaws, np.full(2, 20.0))
    return make_lane_paths(tracks, road)


def rows_of(*scenes):
    """Rows of road users from x, y, yaw, length, width, velocity x and y, and group, for each slot."""
    users = np.array([user for scene in scenes for user in scene], float).reshape(-1, 8)
    starts = np.cumsum([0, *map(len, scenes)])
    return starts, users[:, 7].astype(np.int64), users[:, :5].copy(), users[:, 5:7].copy()


def lit(*colors, frame=0):
    """Lights of one slot, (lane, rank), as those of a frame of a scene; the frame before is all red."""
    lanes = np.array([0] * frame + [lane for lane, _ in colors], np.int64)
    ranks = np.array([RED] * frame + [rank for _, rank in colors], np.int64)
    return np.array([frame]), np.array([0] + [frame] * frame + [len(lanes)]), lanes, ranks


def seen_lights(colors, paths):
    """Lights of slots that are those of one scene, and paths whose lines have them."""
    frames, starts, lanes, ranks = colors
    lights = lights_of_scenes(LaneColors(np.array([0, len(starts) - 1]), starts, lanes, ranks))
    scenes = np.zeros(len(paths.line_lanes), np.int64)
    of_lines = lights_of_lines(lights, scenes, paths.line_lanes)
    return LightRows(frames, np.zeros(len(frames), np.int64), lights), paths._replace(line_lanes=of_lines)


def observe(box, *, motion=(0.0, 0.0, 0.0), users=(), colors=NO_COLORS, **others):
    """The parts of what one vehicle sees."""
    layout, lane_points = others.get("layout", LAYOUT), others.get("lane_points", SeenMap.of_map(None))
    paths, route = others.get("paths"), others.get("route", 0)
    boxes = np.array([box], float)
    if paths is None:
        paths, route = no_paths(), -1
    places = find_places(paths.arrays, np.array([route]), boxes)
    out = np.full((1, layout.size), np.nan, np.float32)
    lights, lit_paths = seen_lights(colors, paths.arrays)
    write_compact_states(
        layout,
        lane_points,
        (boxes, np.array([motion], float), np.zeros(1, np.int64)),
        seen=(rows_of(users), lights),
        routes=(lit_paths, np.array([route]), places),
        out=out,
    )
    return layout.split(out[0])


def no_paths():
    none, zero = np.zeros(0), np.zeros(1, np.int64)
    return LanePaths(
        zero, np.zeros((0, 2)), none, zero.copy(), none.copy(), zero[:0].copy(), zero[:0].repeat(2).reshape(0, 2), none
    )


def ego_of(parts):
    return dict(zip(EGO_COLUMNS, parts["ego"].tolist(), strict=True))


def named(row, columns):
    return dict(zip(columns, row.tolist(), strict=True))


def test_what_a_vehicle_knows_of_itself_and_its_route(paths):
    box = (40, -1.0, 0.1, 4.5, 2.0)
    parts = observe(box, motion=(8.0, -2.0, 0.3), paths=paths)
    expected = {
        "speed": 0.4,
        "acceleration": -0.4,
        "steering": 0.3,
        "length": 0.45,
        "width": 0.2,
        "has_route": 1.0,
        "offset": -0.2,
        "heading_cos": math.cos(0.1),
        "heading_sin": math.sin(0.1),
        "speed_limit": 0.5,
        "line_distance": 1.0,
        "line_is_red": 0.0,
        "line_is_yellow": 0.0,
        "end_distance": 1.0,
    }
    assert ego_of(parts) == pytest.approx(expected, abs=2e-3)  # maps hold centimetres
    ahead_m = 5.0 * np.arange(1, 11)
    cos, sin = math.cos(0.1), math.sin(0.1)
    route = np.column_stack([ahead_m * cos + sin, cos - ahead_m * sin, np.full(10, 50 * cos), np.full(10, -50 * sin)])
    np.testing.assert_allclose(parts["route"], route / 50, atol=1e-4)


def test_a_route_around_a_bend(paths):
    parts = observe((98, 0, 0, 4, 2), paths=paths, route=1)
    way_m = 18.0  # of the fourth point beyond the start of the circle of 20 m at x = 100
    turn = way_m / 20
    expected = [(2 + 20 * math.sin(turn)) / 50, 20 * (1 - math.cos(turn)) / 50, math.cos(turn), math.sin(turn)]
    np.testing.assert_allclose(parts["route"][3], expected, atol=0.02)
    straight = observe((98, 0, 0, 4, 2), paths=paths, route=0)["route"]
    np.testing.assert_allclose(straight[3], [0.4, 0, 1, 0], atol=1e-3)


def test_a_route_ends(paths):
    end_m = 10 + paths.lengths_m[0]
    parts = observe((end_m - 12.0, 0, 0, 4, 2), paths=paths)
    assert ego_of(parts)["end_distance"] == pytest.approx(12 / 50, abs=1e-3)
    np.testing.assert_allclose(50 * parts["route"][:, 0], [5, 10, *[12] * 8], atol=0.05)


def test_without_a_route_all_of_it_is_zero(paths):
    parts = observe((40, 0, 0, 4, 2), paths=paths, route=-1)
    assert not parts["ego"][EGO_COLUMNS.index("has_route") :].any()
    assert not parts["route"].any()


@pytest.mark.parametrize(
    ("x_m", "colors", "line"),
    [
        pytest.param(68, [(RIGHT, RED)], (0.6, 1, 0), id="red"),
        pytest.param(68, [(RIGHT, YELLOW)], (0.6, 0, 1), id="yellow"),
        pytest.param(68, [(STRAIGHT, RED)], (0.6, 1, 0), id="a light on a lane of the junction"),
        pytest.param(68, [(TURN, RED)], (1, 0, 0), id="of a lane that is not on the route"),
        pytest.param(98.3, [(RIGHT, RED)], (-0.006, 1, 0), id="half a metre beyond"),
        pytest.param(98.7, [(RIGHT, RED)], (1, 0, 0), id="passed"),
        pytest.param(40, [(RIGHT, RED)], (1, 0, 0), id="too far away"),
        pytest.param(68, [(RIGHT, YELLOW), (RIGHT, RED)], (0.6, 1, 0), id="red counts more"),
    ],
)
@pytest.mark.parametrize("frame", [0, 1])
def test_lines(paths, lane_points, x_m, colors, line, frame):
    parts = observe((x_m, 0, 0, 4, 2), paths=paths, lane_points=lane_points, colors=lit(*colors, frame=frame))
    found = ego_of(parts)
    names = ("line_distance", "line_is_red", "line_is_yellow")
    assert [found[name] for name in names] == pytest.approx(line, abs=1e-3)


def test_road_users_come_nearest_first_in_the_frame_of_the_vehicle():
    users = [
        (10, 35, math.pi, 5, 2.5, -3, 0, 0),
        (10, 15, math.pi / 2, 1, 0.5, 0, 6, 1),
        (10, 7, 0, 1, 1, 0, 0, -1),
        (10, 61, 0, 1, 1, 0, 0, 0),
    ]
    parts = observe((10, 10, math.pi / 2, 4, 2), motion=(5.0, 0.0, 0.0), users=users)
    first = {"x": 0.1, "cos": 1, "velocity_x": 0.05, "length": 0.1, "width": 0.05, "is_vulnerable": 1, "is_there": 1}
    second = {"x": 0.5, "sin": 1, "velocity_x": -0.25, "velocity_y": 0.15, "length": 0.5, "width": 0.25}
    second |= {"is_vehicle": 1, "is_there": 1}
    nothing = dict.fromkeys(AGENT_COLUMNS, 0.0)
    assert named(parts["agents"][0], AGENT_COLUMNS) == pytest.approx(nothing | first, abs=1e-6)
    assert named(parts["agents"][1], AGENT_COLUMNS) == pytest.approx(nothing | second, abs=1e-6)
    assert not parts["agents"][2:].any()


def test_who_is_nobody_is_not_seen():
    users = [(0, 0, 0, 4, 2, 10, 0, -1), (20, 0, 0, 4, 2, 0, 0, 2)]
    agents = observe((0, 0, 0, 4, 2), users=users)["agents"]
    assert agents[:2, 0].tolist() == pytest.approx([20 / 50, 0])
    assert named(agents[0], AGENT_COLUMNS)["is_other"] == 1


def test_of_many_road_users_the_nearest_are_seen_and_ties_go_by_row():
    ring = [(20 * math.cos(k), 20 * math.sin(k), 0, 4, 2, 0, 0, 0) for k in range(9)]
    square = [(x, y, 0, 4, 2, 0, 0, 0) for x, y in ((10, 0), (0, 10), (-10, 0), (0, -10))]
    layout = replace(LAYOUT, num_agents=3)
    seen = observe((0, 0, 0, 4, 2), users=[*ring, *square], layout=layout)["agents"]
    np.testing.assert_allclose(50 * seen[:, :2], [(10, 0), (0, 10), (-10, 0)], atol=1e-5)


def test_lanes_are_points_in_the_middle_of_them(lane_points):
    parts = observe((50, 1, 0, 4, 2), lane_points=lane_points, colors=lit((RIGHT, YELLOW)))
    first = named(parts["lanes"][0], LANE_COLUMNS)
    expected = {
        "x": 0,
        "y": -1 / 50,
        "cos": 1,
        "sin": 0,
        "speed_limit": 0.5,
        "is_red": 0,
        "is_yellow": 1,
        "is_there": 1,
    }
    assert first == pytest.approx(expected, abs=2e-4)
    left = parts["lanes"][parts["lanes"][:, 1] > 0]
    np.testing.assert_allclose(left[:, 1], 3 / 50, atol=2e-4)
    assert not left[:, 5:7].any()
    red = observe((50, 1, 0, 4, 2), lane_points=lane_points, colors=lit((RIGHT, RED)))["lanes"][0]
    assert named(red, LANE_COLUMNS)["is_red"] == 1


def test_points_of_a_map(road):
    lane_points = LanePoints.of_map(road)
    counts = np.bincount(lane_points.lanes, minlength=road.num_lanes)
    np.testing.assert_array_equal(counts, np.round(road.arc_lengths_m[:, -1] / 4))
    on_right = lane_points.lanes == RIGHT
    np.testing.assert_allclose(np.sort(lane_points.positions_m[on_right, 0]), 2 + 4.0 * np.arange(25), atol=0.01)
    on_turn = lane_points.lanes == TURN
    from_middle_m = lane_points.positions_m[on_turn] - [100, 20]
    np.testing.assert_allclose(np.linalg.norm(from_middle_m, axis=1), 20, atol=0.05)
    np.testing.assert_allclose((from_middle_m * lane_points.directions[on_turn]).sum(axis=1), 0, atol=0.6)
    assert set(lane_points.limits_mps[lane_points.lanes == ROAD_LANES.index("north")]) == {10.0}
    assert set(LanePoints.of_map(road, unknown_limit_mps=7.0).limits_mps) == {7.0, 10.0, 20.0}
    with pytest.raises(InvalidArgumentError, match="unknown_limit_mps is 0"):
        LanePoints.of_map(road, unknown_limit_mps=0)


class World:
    """K vehicles in B slots at random, with their road users, lights and routes on the made road."""

    def __init__(self, paths, num_lanes, *, seed=5, num_slots=6, size=30):
        rng = np.random.default_rng(seed)
        counts = rng.integers(0, 40, num_slots)
        starts = np.concatenate([[0], np.cumsum(counts)])
        num_rows = starts[-1]
        self.rows = (
            starts,
            rng.integers(-1, 3, num_rows),
            self.boxes(rng, num_rows),
            rng.normal(0, 8, (num_rows, 2)),
        )
        egos = self.boxes(rng, num_slots)
        lights = np.concatenate([[0], np.cumsum(rng.integers(0, 5, 10))])
        self.colors = (
            rng.integers(0, 10, num_slots),
            lights,
            rng.integers(0, num_lanes, lights[-1]),
            rng.integers(YELLOW, RED + 1, lights[-1]),
        )
        slots = rng.integers(0, num_slots, size)
        motions = rng.normal(0, 1, (size, 3)) * [10, 3, 0.3]
        self.vehicles = (egos[slots], motions, slots)
        self.paths, self.routes = paths.arrays, rng.integers(-1, 2, size)
        self.lane_points = None

    @staticmethod
    def boxes(rng, size):
        places_m = rng.uniform((-20, -30), (240, 60), (size, 2))
        return np.column_stack(
            [places_m, rng.uniform(-4, 4, size), rng.uniform(1, 15, size), rng.uniform(0.5, 3, size)]
        )

    def observe(self, lane_points, layout=LAYOUT, chosen=slice(None)):
        vehicles = tuple(column[chosen] for column in self.vehicles)
        size = len(vehicles[0])
        routes = self.routes[chosen]
        places = find_places(self.paths, routes, vehicles[0])
        out = np.full((size, layout.size), np.nan, np.float32)
        lights, paths = seen_lights(self.colors, self.paths)
        write_compact_states(
            layout,
            lane_points,
            vehicles,
            seen=(self.rows, lights),
            routes=(paths, routes, places),
            out=out,
        )
        return out

    def moved(self, turn_rad, shift_m):
        """The same world in another frame."""
        other = object.__new__(World)
        other.__dict__.update(self.__dict__)
        cos, sin = math.cos(turn_rad), math.sin(turn_rad)
        turned = np.array([[cos, sin], [-sin, cos]])

        def move(boxes):
            rest = boxes[:, 3:]
            return np.column_stack([boxes[:, :2] @ turned + shift_m, boxes[:, 2] + turn_rad, rest])

        other.rows = (*self.rows[:2], move(self.rows[2]), self.rows[3] @ turned)
        other.vehicles = (move(self.vehicles[0]), *self.vehicles[1:])
        other.paths = self.paths._replace(points_m=self.paths.points_m @ turned + shift_m)
        return other


@pytest.fixture(scope="module")
def world(paths, road):
    return World(paths, road.num_lanes)


def scaled_pose(delta_m, direction, heading, reach_m):
    """x, y, cosine and sine in the frame of a vehicle."""
    turned = np.array([[heading[0], -heading[1]], [heading[1], heading[0]]])
    return np.concatenate([delta_m @ turned / reach_m, direction @ turned], axis=-1)


def agents_of_twin(world, vehicle, layout):
    boxes, motions, slots = world.vehicles
    starts, groups, users, velocities = world.rows
    slot = slots[vehicle]
    chosen = [row for row in range(starts[slot], starts[slot + 1]) if groups[row] >= 0]
    seen, kinds, speeds = users[chosen], groups[chosen], velocities[chosen]
    far_m = np.linalg.norm(seen[:, :2] - boxes[vehicle, :2], axis=1)
    order = [i for i in np.argsort(far_m, kind="stable") if far_m[i] <= layout.reach_m][: layout.num_agents]
    heading = np.array([np.cos(boxes[vehicle, 2]), np.sin(boxes[vehicle, 2])])
    direction = np.stack([np.cos(seen[order, 2]), np.sin(seen[order, 2])], axis=-1)
    poses = scaled_pose(seen[order, :2] - boxes[vehicle, :2], direction, heading, layout.reach_m)
    relative = scaled_pose(speeds[order] - motions[vehicle, 0] * heading, direction, heading, 20.0)[:, :2]
    twin = np.zeros((layout.num_agents, len(AGENT_COLUMNS)))
    columns = (poses, relative, seen[order, 3:] / 10, np.eye(3)[kinds[order]], np.ones((len(order), 1)))
    twin[: len(order)] = np.concatenate(columns, axis=1)
    return twin


def lanes_of_twin(world, vehicle, layout, points):
    box, slot = world.vehicles[0][vehicle], world.vehicles[2][vehicle]
    far_m = np.linalg.norm(points.positions_m - box[:2], axis=1)
    order = [i for i in np.argsort(far_m, kind="stable") if far_m[i] <= layout.reach_m][: layout.num_lane_points]
    frames, starts, lanes, ranks = world.colors
    lights = slice(starts[frames[slot]], starts[frames[slot] + 1])
    found = [ranks[lights][lanes[lights] == lane].max(initial=0) for lane in points.lanes[order]]
    heading = np.array([np.cos(box[2]), np.sin(box[2])])
    poses = scaled_pose(points.positions_m[order] - box[:2], points.directions[order], heading, layout.reach_m)
    rest = [
        (limit / 20, rank == RED, rank == YELLOW, 1)
        for limit, rank in zip(points.limits_mps[order], found, strict=True)
    ]
    twin = np.zeros((layout.num_lane_points, len(LANE_COLUMNS)))
    twin[: len(order)] = np.concatenate([poses, np.reshape(rest, (-1, 4))], axis=1)
    return twin


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(LAYOUT, id="as it is"),
        pytest.param(CompactLayout(num_agents=40, num_lane_points=200, reach_m=20.0), id="all within a small reach"),
        pytest.param(CompactLayout(num_agents=1, num_lane_points=1, num_route_points=0), id="one of each"),
        pytest.param(CompactLayout(num_agents=0, num_lane_points=0), id="none"),
        pytest.param(CompactLayout(num_lane_points=300, reach_m=400.0), id="a reach beyond the map"),
        pytest.param(CompactLayout(num_lane_points=300, reach_m=1e15), id="a reach beyond all maps"),
    ],
)
def test_road_users_and_lanes_are_those_of_a_plain_twin(world, lane_points, layout):
    parts = layout.split(world.observe(lane_points, layout))
    for vehicle in range(len(world.routes)):
        twin = agents_of_twin(world, vehicle, layout)
        np.testing.assert_allclose(parts["agents"][vehicle], twin, atol=1e-5)
        twin = lanes_of_twin(world, vehicle, layout, lane_points.points)
        got = parts["lanes"][vehicle]
        np.testing.assert_allclose(np.hypot(*got[:, :2].T), np.hypot(*twin[:, :2].T), atol=1e-5)
        order, twin_order = (np.lexsort(np.round(lanes, 3).T) for lanes in (got, twin))
        if layout.num_lane_points != 1:
            np.testing.assert_allclose(got[order][:-1], twin[twin_order][:-1], atol=1e-3)


@pytest.mark.parametrize(("turn_rad", "shift_m"), [(1.1, (300, -20)), (-2.7, (0, 0)), (0.0, (-1000, 4000))])
def test_the_frame_of_the_world_does_not_matter(world, road, lane_points, turn_rad, shift_m):
    cos, sin = math.cos(turn_rad), math.sin(turn_rad)
    lines_m = road.centre_lines_m @ np.array([[cos, sin], [-sin, cos]]) + shift_m
    points = SeenMap.of_map(replace(road, centre_lines_m=lines_m))
    layout = replace(LAYOUT, num_lane_points=400, reach_m=30.0)
    moved = layout.split(world.moved(turn_rad, shift_m).observe(points, layout))
    still = layout.split(world.observe(lane_points, layout))
    for name in ("ego", "route", "agents"):
        np.testing.assert_allclose(moved[name], still[name], atol=1e-4, err_msg=name)
    ways_m = [np.hypot(parts["lanes"][..., 0], parts["lanes"][..., 1]) for parts in (moved, still)]
    np.testing.assert_allclose(*ways_m, atol=1e-4)
    np.testing.assert_allclose(moved["lanes"].sum(axis=1), still["lanes"].sum(axis=1), atol=1e-2)


def test_rows_have_the_same_bits_alone_and_in_any_order(world, lane_points):
    together = world.observe(lane_points)
    for vehicle in range(len(world.routes)):
        assert world.observe(lane_points, chosen=[vehicle]).tobytes() == together[vehicle].tobytes()
    backwards = world.observe(lane_points, chosen=slice(None, None, -1))
    assert backwards.tobytes() == together[::-1].tobytes()


def test_no_vehicles_and_no_map(world):
    assert world.observe(SeenMap.of_map(None), chosen=slice(0, 0)).shape == (0, LAYOUT.size)
    parts = LAYOUT.split(world.observe(SeenMap.of_map(None)))
    assert not parts["lanes"].any()
    assert parts["agents"].any()


@pytest.mark.parametrize(
    ("box", "motion"),
    [
        pytest.param((1e7, -1e7, 0, 4, 2), (0, 0, 0), id="far off the map"),
        pytest.param((50, 300, 0, 4, 2), (0, 0, 0), id="beside the map"),
        pytest.param((1e300, 1e300, 1e10, 4, 2), (0, 0, 0), id="nowhere"),
        pytest.param((40, 0, 0, 1e9, 1e9), (1e9, -1e9, 1e9), id="beyond all scales"),
        pytest.param((np.nan, 0, 0, 4, 2), (np.nan, np.nan, np.nan), id="no number"),
        pytest.param((np.inf, 0, np.inf, 4, 2), (np.inf, -np.inf, 0), id="infinite"),
    ],
)
def test_all_values_are_finite_and_within_the_bound(paths, lane_points, box, motion):
    users = [(50, 0, 0, 1e9, -1e9, 1e12, -1e12, 0), (np.nan, np.nan, np.nan, 4, 2, 0, 0, 1)]
    for route in (-1, 0, 1):
        parts = observe(box, motion=motion, users=users, paths=paths, route=route, lane_points=lane_points)
        whole = np.concatenate([part.ravel() for part in parts.values()])
        assert np.isfinite(whole).all()
        assert np.abs(whole).max() <= BOUND


def test_parts_are_views_of_all_columns():
    layout = CompactLayout(num_agents=2, num_route_points=3, num_lane_points=1)
    assert layout.size == 14 + 3 * 4 + 2 * 12 + 8
    observations = np.arange(5 * 2 * layout.size, dtype=np.float32).reshape(5, 2, layout.size)
    parts = layout.split(observations)
    assert [(name, part.shape[2:]) for name, part in parts.items()] == [
        ("ego", (14,)),
        ("route", (3, 4)),
        ("agents", (2, 12)),
        ("lanes", (1, 8)),
    ]
    assert all(np.shares_memory(part, observations) for part in parts.values())
    joined = np.concatenate([part.reshape(5, 2, -1) for part in parts.values()], axis=-1)
    np.testing.assert_array_equal(joined, observations)
    assert layout.parts["route"] == (slice(14, 26), (3, 4))
    with pytest.raises(InvalidArgumentError, match="last axis must be 58"):
        layout.split(observations[..., 1:])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_agents": -1}, "num_agents is -1"),
        ({"num_lane_points": 2.5}, "num_lane_points is 2.5"),
        ({"num_route_points": True}, "num_route_points is True"),
        ({"reach_m": 0.0}, "reach_m is 0"),
        ({"route_step_m": math.nan}, "route_step_m is nan"),
        ({"num_route_points": 51}, "at most 5 times reach_m"),
    ],
)
def test_layouts_that_cannot_be(values, message):
    with pytest.raises(InvalidArgumentError, match=message):
        CompactLayout(**values)


def test_arrays_that_do_not_fit(world, lane_points):
    arguments = {
        "seen": (world.rows, seen_lights(world.colors, world.paths)[0]),
        "routes": (world.paths, world.routes, np.zeros((30, 3))),
    }
    shape = (30, LAYOUT.size)
    vehicles = (world.vehicles[0], world.vehicles[1][:, :2], *world.vehicles[2:])
    with pytest.raises(InvalidArgumentError, match=r"motions must have shape \(30, 3\), got \(30, 2\)"):
        write_compact_states(LAYOUT, lane_points, vehicles, out=np.zeros(shape, np.float32), **arguments)
    with pytest.raises(InvalidArgumentError, match=r"out must have shape \(30, 390\)"):
        write_compact_states(LAYOUT, lane_points, world.vehicles, out=np.zeros((30, 389), np.float32), **arguments)
    for out in (np.zeros(shape), np.zeros((30, 2 * LAYOUT.size), np.float32)[:, ::2]):
        with pytest.raises(InvalidArgumentError, match="out must be a contiguous float32 array"):
            write_compact_states(LAYOUT, lane_points, world.vehicles, out=out, **arguments)


ALONG = CompactLayout(frame="route", num_lane_points=0)
CAR = (4, 2)


def user(x, y, yaw=0.0, *, size=CAR, velocity=(0.0, 0.0), group=0):
    return (x, y, yaw, *size, *velocity, group)


def around_bend(arc_m, left_m=0.0):
    """World x, y and heading of a place on the turn: a circle of 20 m around (100, 20) from x = 100 on."""
    turn = arc_m / 20
    radius_m = 20 - left_m
    return 100 + radius_m * math.sin(turn), 20 - radius_m * math.cos(turn), turn


def test_a_road_user_around_a_bend_is_ahead_on_the_route(paths):
    x, y, yaw = around_bend(20.0, left_m=1.5)
    speed = (6 * math.cos(yaw), 6 * math.sin(yaw))
    parts = observe(
        (96, 0, 0, *CAR),
        motion=(10.0, 0, 0),
        users=[user(x, y, yaw, velocity=speed)],
        paths=paths,
        route=1,
        layout=ALONG,
    )
    found = named(parts["agents"][0], ROUTE_FRAME_AGENT_COLUMNS)
    expected = {"along": 24 / 50, "across": 1.5 / 5, "velocity_along": -4 / 20, "velocity_across": 0}
    expected |= {"length_along": 0.4, "length_across": 0.2, "time_to_route": 0, "along_then": 24 / 50}
    expected |= {"is_vehicle": 1, "is_vulnerable": 0, "is_other": 0, "is_there": 1}
    assert found == pytest.approx(expected, abs=0.01)


def test_who_crosses_moves_across(paths):
    crossing = user(70, -12, math.pi / 2, velocity=(0, 5.0), group=1)
    parts = observe((40, 0, 0, *CAR), motion=(8.0, 0, 0), users=[crossing], paths=paths, layout=ALONG)
    found = named(parts["agents"][0], ROUTE_FRAME_AGENT_COLUMNS)
    told = [found[name] for name in ("along", "across", "velocity_along", "velocity_across")]
    assert told == pytest.approx([30 / 50, -12 / 5, -8 / 20, 5 / 20], abs=2e-3)
    assert [found["length_along"], found["length_across"]] == pytest.approx([0.2, 0.4])
    assert found["is_vulnerable"] == 1
    # 12 m less half of 4 m and half of the 2 m of the vehicle at 5 m/s, in which this one drives 14.4 m
    assert [found["time_to_route"], found["along_then"]] == pytest.approx([1.8 / 5, (30 - 14.4) / 50], abs=2e-3)


@pytest.mark.parametrize("velocity", [(0, -5.0), (0, 0.0), (0, 1.0)], ids=["away", "standing", "too late"])
def test_who_does_not_come_near_the_route_in_time_never_does(paths, velocity):
    parts = observe((40, 0, 0, *CAR), users=[user(70, -12, velocity=velocity)], paths=paths, layout=ALONG)
    assert named(parts["agents"][0], ROUTE_FRAME_AGENT_COLUMNS)["time_to_route"] == 1


def test_those_on_the_route_come_before_those_beside_and_behind(paths):
    leader, beside, behind = user(80, 0), user(52, 17), user(25, 0)
    parts = observe((40, 0, 0, *CAR), users=[behind, beside, leader], paths=paths, layout=replace(ALONG, num_agents=2))
    assert parts["agents"][:, 0].tolist() == pytest.approx([-15 / 50, 12 / 50], abs=2e-3)
    near = user(70, 0)
    parts = observe((40, 0, 0, *CAR), users=[behind, beside, near], paths=paths, layout=replace(ALONG, num_agents=2))
    assert sorted(parts["agents"][:, 0].tolist()) == pytest.approx([-15 / 50, 30 / 50], abs=2e-3)


def test_points_of_the_route_tell_how_fast_one_may_be(paths):
    parts = observe((80, 0, 0, *CAR), paths=paths, route=1, layout=ALONG)
    columns = dict(zip(ROUTE_FRAME_ROUTE_COLUMNS, parts["route"].T, strict=True))
    assert columns["bend_speed"][0] == 1  # straight on to x = 100
    in_bend_mps = math.sqrt(2.0 * 20)
    np.testing.assert_allclose(columns["bend_speed"][5:], in_bend_mps / 20, rtol=0.05)
    np.testing.assert_allclose(columns["speed_limit"][:3], 0.5)
    np.testing.assert_allclose(columns["sin"][9], math.sin(30 / 20), atol=0.02)


def test_without_a_route_it_is_straight_on(paths):
    parts = observe((40, 5, 0, *CAR), motion=(2.0, 0, 0), users=[user(60, 8)], paths=paths, route=-1, layout=ALONG)
    plain = observe((40, 5, 0, *CAR), motion=(2.0, 0, 0), users=[user(60, 8)], layout=replace(ALONG, frame="vehicle"))
    np.testing.assert_array_equal(parts["agents"][0, [0, 2, 3, 8, 11]], plain["agents"][0, [0, 4, 5, 8, 11]])
    assert parts["agents"][0, 1] == pytest.approx(3 / 5)
    assert not parts["route"].any()


def test_it_is_the_same_in_another_frame_of_the_world(paths, road):
    world = World(paths, road.num_lanes)
    before = world.observe(SeenMap.of_map(None), ALONG)
    after = world.moved(2.1, np.array([4000.0, -700.0])).observe(SeenMap.of_map(None), ALONG)
    np.testing.assert_allclose(after, before, atol=1e-5)


def test_ego_and_lanes_do_not_depend_on_the_frame(paths, road):
    world, points = World(paths, road.num_lanes), SeenMap.of_map(road)
    plain, along = CompactLayout(), CompactLayout(frame="route")
    seen, seen_along = (layout.split(world.observe(points, layout)) for layout in (plain, along))
    for part in ("ego", "lanes"):
        np.testing.assert_array_equal(seen[part], seen_along[part])
    assert (seen["agents"] != seen_along["agents"]).any()


def test_an_unknown_frame_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"frame is 'rout' .did you mean 'route'"):
        CompactLayout(frame="rout")
    assert FRAMES == ("vehicle", "route")


LANES = replace(ALONG, forecast="lanes")


@pytest.fixture(scope="module")
def side_road(tmp_path_factory):
    """A road along x, onto which another one turns from the south: up x = 50, then around a circle of 20 m."""
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("road", *straight_lane((0, 0), (70, 0)), lanes_ahead=["on"], parent="segment")
    builder.add_lane("on", *straight_lane((70, 0), (200, 0)), parent="segment")
    builder.add_lane("side", *straight_lane((50, -60), (50, -20)), lanes_ahead=["joins"], parent="segment")
    turns = np.linspace(np.pi, np.pi / 2, 40)
    around = np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=-1)
    middle = np.array([70.0, -20.0, 0.0])
    builder.add_lane("joins", middle + 22 * around, middle + 18 * around, lanes_ahead=["on"], parent="segment")
    builder.add_segment("segment", np.array([(0.0, 0.0, 0.0), (200.0, 0.0, 0.0)]), speed_limit_mps=10.0)
    file = tmp_path_factory.mktemp("side") / "side.pb"
    builder.save(file)
    return build_driving_map(MapAPI(str(file), WORLD_TO_ECEF))


@pytest.fixture(scope="module")
def along_road(side_road):
    east = np.linspace((10, 0), (150, 0), 71)
    return make_lane_paths(TrackPoses(np.array([0, 71]), east, np.zeros(71), np.full(1, 20.0)), side_road)


def see_side_road(side_road, along_road, who, layout):
    parts = observe(
        (20, 0, 0, *CAR),
        motion=(5.0, 0, 0),
        users=[who],
        paths=along_road,
        layout=layout,
        lane_points=SeenMap.of_map(side_road),
    )
    return named(parts["agents"][0], ROUTE_FRAME_AGENT_COLUMNS)


def test_a_vehicle_that_will_turn_onto_the_route_is_forecast_along_its_lane(side_road, along_road):
    joins = user(50, -40, math.pi / 2, velocity=(0, 10.0))
    seen = see_side_road(side_road, along_road, joins, LANES)
    # on the arc its corner is within the 2 m of the vehicle where 20 - 20 sin(a) = 2 cos(a) + sin(a) + 1
    turn = 1.0266
    time_s = (20 + 20 * turn) / 10
    assert seen["time_to_route"] == pytest.approx(time_s / 5, abs=0.01)
    assert seen["along_then"] == pytest.approx((70 - 20 * math.cos(turn) - 20 - 5 * time_s) / 50, abs=0.02)
    # velocities are those of the next look, after 4.5 s
    turn = (45 - 20) / 20
    told = [seen["velocity_along"], seen["velocity_across"]]
    assert told == pytest.approx([(10 * math.sin(turn) - 5) / 20, 10 * math.cos(turn) / 20], abs=0.01)
    # where it is now does not change
    assert [seen["along"], seen["across"]] == pytest.approx([30 / 50, -5], abs=1e-3)


def test_one_that_comes_to_its_lane_again_is_on_the_route_later(side_road, along_road):
    """With their velocities the first one would be after 4.9 s, too, and the other one sooner."""
    drifts = user(50, -38, math.pi / 2 - 0.3, velocity=(7.5 * math.sin(0.3), 7.5 * math.cos(0.3)))
    by_velocity, by_lane = (see_side_road(side_road, along_road, drifts, layout) for layout in (ALONG, LANES))
    assert by_velocity["time_to_route"] < 1
    assert by_lane["time_to_route"] == 1
    turns = user(55.9, -5.9, math.pi / 4, velocity=(3.5, 3.5))
    by_velocity, by_lane = (see_side_road(side_road, along_road, turns, layout) for layout in (ALONG, LANES))
    assert by_velocity["time_to_route"] < by_lane["time_to_route"] < 1


@pytest.mark.parametrize(
    "who",
    [
        user(50, -40, math.pi / 2, velocity=(0, 10.0), group=1),
        user(30, -10, math.pi / 2, velocity=(0, 4.0)),
        user(50, -40, math.pi / 2, velocity=(0, 0.2)),
        user(60, 0, 0, velocity=(3.0, 0)),
    ],
    ids=["a pedestrian", "off all lanes", "stationary", "on the route"],
)
def test_all_others_keep_their_velocity(side_road, along_road, who):
    by_lane, by_velocity = (see_side_road(side_road, along_road, who, layout) for layout in (LANES, ALONG))
    assert by_lane == by_velocity


def test_without_a_map_all_keep_their_velocity(paths, road):
    world, without_map = World(paths, road.num_lanes), SeenMap.of_map(None)
    np.testing.assert_array_equal(world.observe(without_map, LANES), world.observe(without_map, ALONG))


def test_lanes_are_followed_in_the_frame_of_the_route_only():
    with pytest.raises(InvalidArgumentError, match=r"forecast is 'lanes', but frame 'vehicle' .*pass frame='route'"):
        CompactLayout(forecast="lanes")
    with pytest.raises(InvalidArgumentError, match=r"forecast is 'lane' .did you mean 'lanes'"):
        CompactLayout(forecast="lane", frame="route")
