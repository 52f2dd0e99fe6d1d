"""Route columns: the route ahead of AVs, positions of road users along it, and the graph of nearby lanes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float32Array, Float64Array, Int64Array, NumericArray, RecordArray
from l5kit.configs.parameters import RouteParams
from l5kit.data.index.windows import Targets, Windows
from l5kit.data.map.lane_lights import LaneLights, LightArrays
from l5kit.geometry.relative_pose import transform_xy, wrap_angle
from l5kit.lanes.lane_paths import PATH_STEP_M, index_along, piece_at
from l5kit.lanes.path_positions import find_on_path, line_at
from l5kit.lanes.red_lights import LINE_SLACK_M, YELLOW, rank_of_line
from l5kit.lanes.route_map import RouteMap
from l5kit.lanes.routes import RoutedWindows, RoutePlace, WindowRoutes, find_on_route
from l5kit.vectorization.vector_map import NO_LIGHT, set_states

_AGENTS_BACK_M = 30.0


def agents_by_route(columns: Mapping[str, NumericArray]) -> dict[str, NumericArray]:
    """Return the columns of other agents, ordered by their relevance to the route.

    Agents ahead in the lane of the route come first, nearest along it first; then agents ahead next to it, nearest to
    it first; then agents behind, nearest along it first. Agents without a position on the route come last, in their
    order.

    Args:
        columns: Columns of B samples; only those of the M other agents, (B, M, ...), are returned.
    """
    positions, has_position = columns["all_other_agents_route_places"], columns["all_other_agents_route_availability"]
    along_m, is_ahead, is_inside = positions[..., 0], positions[..., 0] >= 0, positions[..., 5] > 0
    group = np.select([~has_position, is_ahead & is_inside, is_ahead], [3, 0, 1], 2)
    nearness_m = np.where(group == 3, 0.0, np.abs(np.where(group == 1, positions[..., 1], along_m)))
    order = np.lexsort((nearness_m, group), axis=-1)
    return {
        key: column[np.arange(len(order))[:, None], order]
        for key, column in columns.items()
        if key.startswith(("all_other_agents_", "other_agents_"))
    }


class _LaneGraph(NamedTuple):
    """The L lanes of a map in the form of kernels: fields of :class:`RouteMap`, and successors of lanes."""

    ahead_starts: Int64Array
    ahead_rows: Int64Array
    side_rows: Int64Array
    limits_mps: Float64Array
    is_in_junction: BoolArray
    has_light: BoolArray


class _Lights(NamedTuple):
    """The active faces of windows, and the lanes that they control."""

    faces: Int64Array
    face_starts: Int64Array
    ranks: Int64Array
    lane_starts: Int64Array
    lane_rows: Int64Array


class _Seen(NamedTuple):
    """Targets of windows, and the rows of the agents of their current frames."""

    centroids_m: Float64Array
    yaws_rad: Float64Array
    extents_m: Float64Array
    velocities_mps: Float64Array
    agent_from_world: Float64Array
    agent_starts: Int64Array
    agent_stops: Int64Array


class _Given(NamedTuple):
    """Inputs for the columns of B windows.

    Attributes:
        routes: Routes of the windows.
        seen: Targets of the windows.
        windows: First and end window to which ``agents`` belong.
        agents: Rows of agents.
        track_ids: Tracks of the other agents of each window, (B, M).
        is_there: Mask of those in the current frame, (B, M).
        lane_rows: Rows of the lanes around each target, -1 for none, (B, L).
        graph: The lanes of the map.
        lights: Active faces, and the lanes that they control.
        states: State of the light of each lane in the current window; zeros between windows.
        ahead_m: Distances along the route from the target to the points of the columns, ascending, (R,).
        goal_m: Distance along the route to the goal.
    """

    routes: WindowRoutes
    seen: _Seen
    windows: tuple[int, int]
    agents: RecordArray
    track_ids: Int64Array
    is_there: BoolArray
    lane_rows: Int64Array
    graph: _LaneGraph
    lights: _Lights
    states: Int64Array
    ahead_m: Float64Array
    goal_m: float


class _Target(NamedTuple):
    """Target of a window: the window, its route, and the arc length of the target along it."""

    window: int
    route: int
    arc_m: float


class _RoadUser(NamedTuple):
    """World velocity, length and width of a road user."""

    x_mps: float
    y_mps: float
    length_m: float
    width_m: float


class _Columns(NamedTuple):
    """Columns of the route of B samples; see ``docs/samples.md``."""

    route_polyline: Float32Array
    route_availability: BoolArray
    route_limits: Float32Array
    route_bend_speeds: Float32Array
    route_lights: Int64Array
    route_in_junction: BoolArray
    route_widths: Float32Array
    route_lanes: Int64Array
    route_gaps: Float32Array
    goal_position: Float32Array
    goal_availability: BoolArray
    agent_route_place: Float32Array
    agent_route_availability: BoolArray
    all_other_agents_route_places: Float32Array
    all_other_agents_route_availability: BoolArray
    lane_on_route: BoolArray


class _GraphColumns(NamedTuple):
    """Columns of the graph of nearby lanes of B samples; see ``docs/samples.md``."""

    lane_limits: Float32Array
    lane_successors: BoolArray
    lane_neighbours: Int64Array


@dataclass(frozen=True)
class RouteColumns:
    """Maker of the route columns of samples, with fixed parameters.

    Attributes:
        params: Points of the route, and distance of the goal.
        route_map: The lanes.
        lights: Lanes that faces control.
    """

    params: RouteParams
    route_map: RouteMap
    lights: LaneLights

    def columns(
        self, windows: Windows, targets: Targets, track_ids: Int64Array, *, is_there: BoolArray, lane_rows: Int64Array
    ) -> dict[str, NumericArray]:
        """Return the columns of B windows, one array (B, ...) for each key.

        Targets that are agents, and windows whose routes are unknown, have no route.

        Args:
            windows: The windows.
            targets: Their targets.
            track_ids: Tracks of the other agents of each window, (B, M).
            is_there: Mask of those in the current frame, (B, M).
            lane_rows: Rows of the lanes around each target, -1 for none, (B, L).
        """
        ahead_m = np.array(self.params.points_m)
        num_agents, num_lanes = track_ids.shape[1], lane_rows.shape[1]
        size, num_points = len(windows), len(ahead_m)

        # without a route, everything is zero except for rows of lanes, which are -1
        result = _Columns(
            route_polyline=np.zeros((size, num_points, 3), np.float32),
            route_availability=np.zeros((size, num_points), np.bool_),
            route_limits=np.zeros((size, num_points), np.float32),
            route_bend_speeds=np.zeros((size, num_points), np.float32),
            route_lights=np.zeros((size, num_points), np.int64),
            route_in_junction=np.zeros((size, num_points), np.bool_),
            route_widths=np.zeros((size, num_points, 2), np.float32),
            route_lanes=np.full((size, num_points), -1, np.int64),
            route_gaps=np.zeros((size, 2), np.float32),
            goal_position=np.zeros((size, 2), np.float32),
            goal_availability=np.zeros(size, np.bool_),
            agent_route_place=np.zeros((size, 6), np.float32),
            agent_route_availability=np.zeros(size, np.bool_),
            all_other_agents_route_places=np.zeros((size, num_agents, 6), np.float32),
            all_other_agents_route_availability=np.zeros((size, num_agents), np.bool_),
            lane_on_route=np.zeros((size, num_lanes), np.bool_),
        )
        if isinstance(windows, RoutedWindows) and targets.track_ids is None:
            active, lights = self.lights.find_active(windows.tl_faces), self.lights
            seen = _seen(windows, targets)
            for rows, part in windows.agents.parts():
                given = _Given(
                    routes=windows.routes,
                    seen=seen,
                    windows=(part.start, part.stop),
                    agents=rows,
                    track_ids=track_ids,
                    is_there=is_there,
                    lane_rows=lane_rows,
                    graph=self._graph,
                    lights=_Lights(*active, lights.ranks, lights.lane_starts, lights.lane_rows),
                    states=np.zeros(len(self.route_map.has_light), np.int64),
                    ahead_m=ahead_m,
                    goal_m=float(self.params.goal_distance_m),
                )
                _write_routes(given, result)

        # limits and links of the lanes around, with or without a route
        of_lanes = _GraphColumns(
            lane_limits=np.zeros(lane_rows.shape, np.float32),
            lane_successors=np.zeros((*lane_rows.shape, num_lanes), np.bool_),
            lane_neighbours=np.full((*lane_rows.shape, 2), -1, np.int64),
        )
        _write_graph(lane_rows, self._graph, of_lanes)
        return {**result._asdict(), "lane_rows": lane_rows, **of_lanes._asdict()}

    @property
    def _graph(self) -> _LaneGraph:
        driving = self.route_map.driving
        return _LaneGraph(
            driving.ahead_starts,
            driving.ahead_rows,
            self.route_map.side_rows,
            self.route_map.limits_mps,
            driving.is_in_junction,
            self.route_map.has_light,
        )


def _seen(windows: Windows, targets: Targets) -> _Seen:
    frames = windows.frames
    # velocity of the AV since the previous step; 0 if that step is unknown
    velocities_mps = np.zeros((len(windows), 2))
    if windows.num_history > 1:
        has_past = windows.counts[0] > 1
        steps_s = (frames["timestamp"][:, 0] - frames["timestamp"][:, 1]) * 1e-9
        has_past &= steps_s > 0
        steps_m = frames["ego_translation"][has_past, 0, :2] - frames["ego_translation"][has_past, 1, :2]
        velocities_mps[has_past] = steps_m / steps_s[has_past, None]
    agents = windows.agents
    return _Seen(
        targets.centroids_m,
        targets.yaws_rad.astype(np.float64, copy=False),
        targets.extents_m.astype(np.float64, copy=False),
        velocities_mps,
        targets.agent_from_world,
        agents.starts[:, 0].astype(np.int64),
        agents.stops[:, 0].astype(np.int64),
    )


@kernel_jit
def _write_routes(given: _Given, columns: _Columns) -> None:
    """Write the columns of windows; see :meth:`RouteColumns.columns`."""
    seen, lights, arrays = given.seen, given.lights, given.routes.arrays
    controlled = LightArrays(lights.ranks, lights.lane_starts, lights.lane_rows)
    for window in range(given.windows[0], given.windows[1]):
        pose = np.array([seen.centroids_m[window, 0], seen.centroids_m[window, 1], seen.yaws_rad[window]])
        is_on_route, position = find_on_route(given.routes, window, pose)
        if not is_on_route:
            continue

        # points and gaps with the lights of this window, from one table for all windows that is restored afterwards
        target = _Target(window, given.routes.rows[window], position.arc_m)
        shown = lights.faces[lights.face_starts[window] : lights.face_starts[window + 1]]
        set_states(shown, controlled, given.states, True)
        _write_points(given, target, columns)

        # distances from the front to the first yellow or red line and to the end of the route, at most the reach
        front_m, reach_m = target.arc_m + 0.5 * seen.extents_m[window, 0], given.ahead_m[-1]
        gaps_m = columns.route_gaps[window]
        gaps_m[0] = reach_m
        gaps_m[1] = max(min(arrays.lengths_m[target.route] - front_m, reach_m), 0.0)
        for piece in range(arrays.piece_starts[target.route], arrays.piece_starts[target.route + 1]):
            gap_m = arrays.piece_arcs_m[piece] - front_m
            if gap_m > reach_m:
                break
            if -LINE_SLACK_M <= gap_m < gaps_m[0] and rank_of_line(arrays.line_lanes, piece, given.states) >= YELLOW:
                gaps_m[0] = max(gap_m, 0.0)
        set_states(shown, controlled, given.states, False)

        # the goal is at the end of a route that is shorter than the goal distance
        goal_arc_m = min(position.arc_m + given.goal_m, arrays.lengths_m[target.route])
        points_m = arrays.points_m[arrays.starts[target.route] : arrays.starts[target.route + 1]]
        goal_x, goal_y, _, _ = line_at(points_m, goal_arc_m)
        goal_x, goal_y = transform_xy(seen.agent_from_world[window], goal_x, goal_y)
        columns.goal_position[window, 0], columns.goal_position[window, 1] = goal_x, goal_y
        columns.goal_availability[window] = columns.agent_route_availability[window] = True

        # positions of the AV and of other agents along the route
        x_mps, y_mps = seen.velocities_mps[window, 0], seen.velocities_mps[window, 1]
        av = _RoadUser(x_mps, y_mps, seen.extents_m[window, 0], seen.extents_m[window, 1])
        columns.agent_route_place[window] = _along_route(given, target, position, av)
        _write_agents(given, target, columns)

        # mark the lanes around that are part of the route ahead
        lane_rows, stop = given.lane_rows[window], arrays.piece_starts[target.route + 1]
        for piece in range(arrays.piece_starts[target.route], stop):
            begin_m = arrays.piece_arcs_m[piece]
            end_m = arrays.piece_arcs_m[piece + 1] if piece + 1 < stop else np.inf
            if begin_m <= target.arc_m + given.ahead_m[-1] and end_m > target.arc_m:
                for slot in range(len(lane_rows)):
                    columns.lane_on_route[window, slot] |= lane_rows[slot] == arrays.piece_lanes[piece]


@kernel_jit
def _write_points(given: _Given, target: _Target, columns: _Columns) -> None:
    """Write the properties of the points of the route ahead; lines between two points belong to the second one."""
    routes, window, route = given.routes.arrays, target.window, target.route
    first = routes.starts[route]
    points_m = routes.points_m[first : routes.starts[route + 1]]
    piece = piece_at(routes, route, routes.piece_starts[route], target.arc_m - PATH_STEP_M)
    for point in range(len(given.ahead_m)):
        here_m = target.arc_m + given.ahead_m[point]
        if here_m > routes.lengths_m[route]:
            break

        # with several stop lines between two points, the light of the highest rank is used
        before, piece, light = piece, piece_at(routes, route, piece, here_m), NO_LIGHT
        for passed in range(before + 1, piece + 1):
            for side in range(2):
                lane = routes.line_lanes[passed, side]
                if lane >= 0 and given.graph.has_light[lane]:
                    state = given.states[lane]
                    light = state if light == NO_LIGHT else max(light, state)
        x, y, along_x, along_y = line_at(points_m, here_m)
        x, y = transform_xy(given.seen.agent_from_world[window], x, y)
        columns.route_polyline[window, point, 0], columns.route_polyline[window, point, 1] = x, y
        turn_rad = wrap_angle(math.atan2(along_y, along_x) - given.seen.yaws_rad[window])
        columns.route_polyline[window, point, 2] = turn_rad
        columns.route_availability[window, point] = True

        # properties of the lane at this point, and of the nearest point of the route
        lane, row = routes.piece_lanes[piece], first + index_along(here_m + 0.5 * PATH_STEP_M, len(points_m) - 1)
        columns.route_limits[window, point] = given.graph.limits_mps[lane]
        columns.route_bend_speeds[window, point] = routes.bend_speeds_mps[row]
        columns.route_lights[window, point] = light
        columns.route_in_junction[window, point] = given.graph.is_in_junction[lane]
        columns.route_widths[window, point, 0] = routes.widths_m[row, 0]
        columns.route_widths[window, point, 1] = routes.widths_m[row, 1]
        columns.route_lanes[window, point] = lane


@kernel_jit
def _along_route(
    given: _Given, target: _Target, position: RoutePlace, user: _RoadUser
) -> tuple[float, float, float, float, float, float]:
    """Return the six values of the position of a road user along the route of a target."""
    routes, route = given.routes.arrays, target.route
    first, stop = routes.starts[route], routes.starts[route + 1]
    _, _, along_x, along_y = line_at(routes.points_m[first:stop], position.arc_m)
    row = first + index_along(position.arc_m + 0.5 * PATH_STEP_M, stop - first - 1)
    half_m = 0.5 * (abs(math.cos(position.turn_rad)) * user.width_m + abs(math.sin(position.turn_rad)) * user.length_m)
    left_m, right_m = routes.widths_m[row, 0], routes.widths_m[row, 1]
    is_inside = position.left_m - half_m < left_m and position.left_m + half_m > -right_m
    return (
        position.arc_m - target.arc_m,
        position.left_m,
        user.x_mps * along_x + user.y_mps * along_y,
        user.y_mps * along_x - user.x_mps * along_y,
        position.turn_rad,
        1.0 if is_inside else 0.0,
    )


@kernel_jit
def _write_agents(given: _Given, target: _Target, columns: _Columns) -> None:
    """Write the positions of the other agents of a window along its route."""
    routes, window = given.routes.arrays, target.window
    points_m = routes.points_m[routes.starts[target.route] : routes.starts[target.route + 1]]
    first = index_along(target.arc_m - _AGENTS_BACK_M, len(points_m) - 1)
    stop = index_along(target.arc_m + given.ahead_m[-1], len(points_m) - 1) + 1
    track_ids, is_there = given.track_ids[window], given.is_there[window]
    for row in range(given.seen.agent_starts[window], given.seen.agent_stops[window]):
        agent = given.agents[row]
        for slot in range(len(track_ids)):
            # only selected agents that are in the current frame
            if track_ids[slot] != np.int64(agent.track_id) or not is_there[slot]:
                continue
            if columns.all_other_agents_route_availability[window, slot]:
                break  # the first row of a track is used
            yaw = float(agent.yaw)
            arc_m, offset_m, _ = find_on_path(points_m, first, stop, (agent.centroid[0], agent.centroid[1], yaw))
            _, _, along_x, along_y = line_at(points_m, arc_m)
            position = RoutePlace(arc_m, offset_m, wrap_angle(yaw - math.atan2(along_y, along_x)))
            x_mps, y_mps = float(agent.velocity[0]), float(agent.velocity[1])
            user = _RoadUser(x_mps, y_mps, float(agent.extent[0]), float(agent.extent[1]))
            columns.all_other_agents_route_places[window, slot] = _along_route(given, target, position, user)
            columns.all_other_agents_route_availability[window, slot] = True
            break


@kernel_jit
def _write_graph(lane_rows: Int64Array, graph: _LaneGraph, columns: _GraphColumns) -> None:
    """Write speed limits, successors and neighbours of the lanes of windows (B, L)."""
    for window in range(len(lane_rows)):
        rows = lane_rows[window]
        for slot in range(len(rows)):
            lane = rows[slot]
            if lane < 0:
                continue
            columns.lane_limits[window, slot] = graph.limits_mps[lane]
            for other in range(len(rows)):
                if rows[other] < 0:
                    continue
                for link in range(graph.ahead_starts[lane], graph.ahead_starts[lane + 1]):
                    columns.lane_successors[window, slot, other] |= graph.ahead_rows[link] == rows[other]
                for side in range(2):
                    if graph.side_rows[lane, side] == rows[other]:
                        columns.lane_neighbours[window, slot, side] = other
