"""Columns of routes: the route ahead of AVs, where road users are along it, and the graph of the lanes around."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float32Array, Float64Array, Int64Array, NumericArray, RecordArray
from l5kit.configs.parameters import RouteParams
from l5kit.data.map.lane_lights import LaneLights
from l5kit.data.windows import Targets, Windows
from l5kit.geometry.relative_pose import transform_xy
from l5kit.lanes.lane_paths import PATH_STEP_M, index_along
from l5kit.lanes.path_places import find_place, line_at
from l5kit.lanes.red_lights import YELLOW
from l5kit.lanes.route_map import RouteMap
from l5kit.lanes.routes import RouteArrays, RoutedWindows, find_on_route
from l5kit.vectorization.vector_map import NO_LIGHT, set_states

__all__ = ["RouteColumns", "agents_by_route"]

_AGENTS_BACK_M = 30.0
_LINE_SLACK_M = 0.5


def agents_by_route(columns: Mapping[str, NumericArray]) -> dict[str, NumericArray]:
    """Return the columns of other agents in the order of what they matter to the route.

    Those ahead in the lane of the route come first, the nearest along it before others; then those ahead beside it, the
    nearest to it before others; then those behind, the nearest along it before others. Those without a place on the
    route stay as they are, behind these.

    Args:
        columns: Those of B samples with M other agents, (B, M, ...), and others, which are left out.
    """
    places, has_place = columns["all_other_agents_route_places"], columns["all_other_agents_route_availability"]
    along_m, is_ahead, is_inside = places[..., 0], places[..., 0] >= 0, places[..., 5] > 0
    group = np.select([~has_place, is_ahead & is_inside, is_ahead], [3, 0, 1], 2)
    nearness_m = np.where(group == 3, 0.0, np.abs(np.where(group == 1, places[..., 1], along_m)))
    order = np.lexsort((nearness_m, group), axis=-1)
    return {
        key: column[np.arange(len(order))[:, None], order]
        for key, column in columns.items()
        if key.startswith(("all_other_agents_", "other_agents_"))
    }


class _LaneGraph(NamedTuple):
    """What kernels ask of the L lanes of a map: the fields of :class:`RouteMap`, and where lanes lead."""

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
    """Targets of windows, and where the agents of their current frames stand."""

    centroids_m: Float64Array
    yaws_rad: Float64Array
    extents_m: Float64Array
    velocities_mps: Float64Array
    agent_from_world: Float64Array
    agent_starts: Int64Array
    agent_stops: Int64Array


class _Columns(NamedTuple):
    """The columns of B samples that tell of the route; see ``docs/samples.md``."""

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


@dataclass(frozen=True)
class RouteColumns:
    """Makes the columns of routes with fixed parameters.

    Attributes:
        params: Which points of the route, and which goal.
        route_map: The lanes.
        lights: Finds the lanes that faces control.
    """

    params: RouteParams
    route_map: RouteMap
    lights: LaneLights

    def columns(
        self, windows: Windows, targets: Targets, track_ids: Int64Array, *, is_there: BoolArray, lane_rows: Int64Array
    ) -> dict[str, NumericArray]:
        """Return the columns of B windows, one array (B, ...) for each key.

        Targets that are agents, and windows whose routes nobody knows, have no route.

        Args:
            windows: The windows.
            targets: Whom they are about.
            track_ids: The other agents of each, (B, M).
            is_there: Which of them are in the current frame, (B, M).
            lane_rows: The lanes around each, -1 for none, (B, L).
        """
        points_m = np.array(self.params.points_m)
        found = _no_columns(len(windows), track_ids.shape[1], len(points_m), lane_rows.shape[1])
        if isinstance(windows, RoutedWindows) and targets.track_ids is None:
            active, lights = self.lights.find_active(windows.tl_faces), self.lights
            seen = _seen(windows, targets)
            for rows, part in windows.agents.parts():
                _write_routes(
                    windows.routes,
                    windows.route_rows,
                    windows.route_arcs_m,
                    (part.start, part.stop),
                    seen,
                    rows,
                    self._graph,
                    _Lights(*active, lights.ranks, lights.lane_starts, lights.lane_rows),
                    track_ids,
                    is_there,
                    lane_rows,
                    points_m,
                    self.params.goal_distance_m,
                    found,
                )
        return {**found._asdict(), "lane_rows": lane_rows, **self._graph_columns(lane_rows)}

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

    def _graph_columns(self, lane_rows: Int64Array) -> dict[str, NumericArray]:
        """Return limits and order of the lanes around, (B, L), (B, L, L) and (B, L, 2)."""
        size = lane_rows.shape[1]
        limits_mps = np.zeros(lane_rows.shape, np.float32)
        successors = np.zeros((*lane_rows.shape, size), np.bool_)
        neighbours = np.full((*lane_rows.shape, 2), -1, np.int64)
        _write_graph(lane_rows, self._graph, limits_mps, successors, neighbours)
        return {"lane_limits": limits_mps, "lane_successors": successors, "lane_neighbours": neighbours}


def _no_columns(size: int, num_agents: int, num_points: int, num_lanes: int) -> _Columns:
    """Return the columns of B samples without a route."""
    return _Columns(
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


def _seen(windows: Windows, targets: Targets) -> _Seen:
    frames = windows.frames
    # the AV has come here from where it was a step ago; where that is not known it counts as standing
    velocities_mps = np.zeros((len(windows), 2))
    if windows.num_history > 1:
        has_past = windows.counts[0] > 1
        steps_s = (frames["timestamp"][:, 0] - frames["timestamp"][:, 1]) * 1e-9
        has_past &= steps_s > 0
        ways_m = frames["ego_translation"][has_past, 0, :2] - frames["ego_translation"][has_past, 1, :2]
        velocities_mps[has_past] = ways_m / steps_s[has_past, None]
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


@njit(nogil=True, cache=True, error_model="numpy")
def _write_routes(
    routes: RouteArrays,
    route_rows: Int64Array,
    route_arcs_m: Float64Array,
    part: tuple[int, int],
    seen: _Seen,
    agents: RecordArray,
    graph: _LaneGraph,
    lights: _Lights,
    track_ids: Int64Array,
    is_there: BoolArray,
    lane_rows: Int64Array,
    ahead_m: Float64Array,
    goal_m: float,
    columns: _Columns,
) -> None:
    """Write the columns of the windows ``part``, whose agents are ``agents``; see :meth:`RouteColumns.columns`."""
    states, place, reach_m = np.zeros(len(graph.has_light), np.int64), np.zeros(3), ahead_m[-1]
    for window in range(part[0], part[1]):
        route = route_rows[window]
        pose = np.array([seen.centroids_m[window, 0], seen.centroids_m[window, 1], seen.yaws_rad[window]])
        if not find_on_route(routes, route, route_arcs_m[window], pose, place):
            continue
        points_m = routes.points_m[routes.starts[route] : routes.starts[route + 1]]
        shown = lights.faces[lights.face_starts[window] : lights.face_starts[window + 1]]
        controlled = (lights.ranks, lights.lane_starts, lights.lane_rows)
        set_states(shown, controlled, states, True)
        _write_points(routes, route, place[0], seen, window, graph, states, ahead_m, columns)
        front_m = place[0] + 0.5 * seen.extents_m[window, 0]
        _write_gaps(routes, route, front_m, states, reach_m, columns.route_gaps[window])
        set_states(shown, controlled, states, False)
        goal_x, goal_y, _, _ = line_at(points_m, min(place[0] + goal_m, routes.lengths_m[route]))
        goal_x, goal_y = transform_xy(seen.agent_from_world[window], goal_x, goal_y)
        columns.goal_position[window, 0], columns.goal_position[window, 1] = goal_x, goal_y
        columns.goal_availability[window] = columns.agent_route_availability[window] = True
        _write_place(
            routes,
            route,
            (place[0], place[1], place[2]),
            place[0],
            (seen.velocities_mps[window, 0], seen.velocities_mps[window, 1]),
            (seen.extents_m[window, 0], seen.extents_m[window, 1]),
            columns.agent_route_place[window],
        )
        _write_agents(
            routes, route, place[0], reach_m, agents, seen, window, track_ids[window], is_there[window], columns
        )
        _mark_lanes(routes, route, place[0], reach_m, lane_rows[window], columns.lane_on_route[window])


@njit(nogil=True, cache=True, error_model="numpy")
def _write_points(
    routes: RouteArrays,
    route: int,
    arc_m: float,
    seen: _Seen,
    window: int,
    graph: _LaneGraph,
    states: Int64Array,
    ahead_m: Float64Array,
    columns: _Columns,
) -> None:
    """Write what holds at the points of the route ahead; the lines between two points stand at the second one."""
    first = routes.starts[route]
    points_m = routes.points_m[first : routes.starts[route + 1]]
    piece, stop = routes.piece_starts[route], routes.piece_starts[route + 1]
    before_m = arc_m - PATH_STEP_M
    while piece + 1 < stop and routes.piece_arcs_m[piece + 1] <= before_m:
        piece += 1
    for point in range(len(ahead_m)):
        here_m = arc_m + ahead_m[point]
        if here_m > routes.lengths_m[route]:
            break
        light = NO_LIGHT
        while piece + 1 < stop and routes.piece_arcs_m[piece + 1] <= here_m:
            piece += 1
            for side in range(2):
                lane = routes.line_lanes[piece, side]
                if lane >= 0 and graph.has_light[lane]:
                    light = states[lane] if light == NO_LIGHT else max(light, states[lane])
        x, y, along_x, along_y = line_at(points_m, here_m)
        x, y = transform_xy(seen.agent_from_world[window], x, y)
        columns.route_polyline[window, point, 0], columns.route_polyline[window, point, 1] = x, y
        columns.route_polyline[window, point, 2] = _wrapped(math.atan2(along_y, along_x) - seen.yaws_rad[window])
        columns.route_availability[window, point] = True
        lane, row = routes.piece_lanes[piece], first + index_along(here_m + 0.5 * PATH_STEP_M, len(points_m) - 1)
        columns.route_limits[window, point] = graph.limits_mps[lane]
        columns.route_bend_speeds[window, point] = routes.bend_speeds_mps[row]
        columns.route_lights[window, point] = light
        columns.route_in_junction[window, point] = graph.is_in_junction[lane]
        columns.route_widths[window, point, 0] = routes.widths_m[row, 0]
        columns.route_widths[window, point, 1] = routes.widths_m[row, 1]
        columns.route_lanes[window, point] = lane


@njit(nogil=True, cache=True, error_model="numpy")
def _write_gaps(
    routes: RouteArrays, route: int, front_m: float, states: Int64Array, reach_m: float, gaps_m: Float32Array
) -> None:
    """Write how far the first yellow or red line and the end of the route are ahead of a front, at most the reach."""
    gaps_m[0] = reach_m
    gaps_m[1] = max(min(routes.lengths_m[route] - front_m, reach_m), 0.0)
    for piece in range(routes.piece_starts[route], routes.piece_starts[route + 1]):
        gap_m = routes.piece_arcs_m[piece] - front_m
        if gap_m > reach_m:
            break
        for side in range(2):
            lane = routes.line_lanes[piece, side]
            if lane >= 0 and states[lane] >= YELLOW and -_LINE_SLACK_M <= gap_m < gaps_m[0]:
                gaps_m[0] = max(gap_m, 0.0)


@njit(nogil=True, cache=True, error_model="numpy")
def _write_place(
    routes: RouteArrays,
    route: int,
    place: tuple[float, float, float],
    from_m: float,
    velocity_mps: tuple[float, float],
    size_m: tuple[float, float],
    values: Float32Array,
) -> None:
    """Write the six numbers of a road user along a route.

    Args:
        routes: Routes.
        route: The route.
        place: Where it is: length of the route, metres to the left, and its heading minus that of the route.
        from_m: Length of the route from which metres along it count.
        velocity_mps: World velocity.
        size_m: Length and width.
        values: Takes them, (6,).
    """
    arc_m, offset_m, turn = place
    first = routes.starts[route]
    _, _, along_x, along_y = line_at(routes.points_m[first : routes.starts[route + 1]], arc_m)
    row = first + index_along(arc_m + 0.5 * PATH_STEP_M, routes.starts[route + 1] - first - 1)
    half_m = 0.5 * (abs(math.cos(turn)) * size_m[1] + abs(math.sin(turn)) * size_m[0])
    is_inside = offset_m - half_m < routes.widths_m[row, 0] and offset_m + half_m > -routes.widths_m[row, 1]
    values[0], values[1] = arc_m - from_m, offset_m
    values[2] = velocity_mps[0] * along_x + velocity_mps[1] * along_y
    values[3] = velocity_mps[1] * along_x - velocity_mps[0] * along_y
    values[4], values[5] = turn, 1.0 if is_inside else 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _write_agents(
    routes: RouteArrays,
    route: int,
    arc_m: float,
    reach_m: float,
    agents: RecordArray,
    seen: _Seen,
    window: int,
    track_ids: Int64Array,
    is_there: BoolArray,
    columns: _Columns,
) -> None:
    """Write where the other agents of a window are along its route."""
    points_m = routes.points_m[routes.starts[route] : routes.starts[route + 1]]
    first = index_along(arc_m - _AGENTS_BACK_M, len(points_m) - 1)
    stop = index_along(arc_m + reach_m, len(points_m) - 1) + 1
    for row in range(seen.agent_starts[window], seen.agent_stops[window]):
        agent = agents[row]
        for slot in range(len(track_ids)):
            if track_ids[slot] != np.int64(agent.track_id) or not is_there[slot]:
                continue
            if columns.all_other_agents_route_availability[window, slot]:
                break  # of several rows of a track the first counts
            yaw = float(agent.yaw)
            found_m, offset_m, _ = find_place(points_m, first, stop, (agent.centroid[0], agent.centroid[1], yaw))
            _, _, along_x, along_y = line_at(points_m, found_m)
            _write_place(
                routes,
                route,
                (found_m, offset_m, _wrapped(yaw - math.atan2(along_y, along_x))),
                arc_m,
                (agent.velocity[0], agent.velocity[1]),
                (agent.extent[0], agent.extent[1]),
                columns.all_other_agents_route_places[window, slot],
            )
            columns.all_other_agents_route_availability[window, slot] = True
            break


@njit(nogil=True, cache=True, error_model="numpy")
def _mark_lanes(
    routes: RouteArrays, route: int, arc_m: float, reach_m: float, lane_rows: Int64Array, is_on_route: BoolArray
) -> None:
    """Mark the lanes (L,) that are part of the route ahead."""
    stop = routes.piece_starts[route + 1]
    for piece in range(routes.piece_starts[route], stop):
        begin_m = routes.piece_arcs_m[piece]
        end_m = routes.piece_arcs_m[piece + 1] if piece + 1 < stop else np.inf
        if begin_m <= arc_m + reach_m and end_m > arc_m:
            for slot in range(len(lane_rows)):
                is_on_route[slot] |= lane_rows[slot] == routes.piece_lanes[piece]


@njit(nogil=True, cache=True, error_model="numpy")
def _write_graph(
    lane_rows: Int64Array,
    graph: _LaneGraph,
    limits_mps: Float32Array,
    successors: BoolArray,
    neighbours: Int64Array,
) -> None:
    """Write limits of the lanes of windows (B, L), which of them follow each, and where those beside each stand."""
    for window in range(len(lane_rows)):
        rows = lane_rows[window]
        for slot in range(len(rows)):
            lane = rows[slot]
            if lane < 0:
                continue
            limits_mps[window, slot] = graph.limits_mps[lane]
            for other in range(len(rows)):
                if rows[other] < 0:
                    continue
                for link in range(graph.ahead_starts[lane], graph.ahead_starts[lane + 1]):
                    successors[window, slot, other] |= graph.ahead_rows[link] == rows[other]
                for side in range(2):
                    if graph.side_rows[lane, side] == rows[other]:
                        neighbours[window, slot, side] = other


@njit(nogil=True, cache=True, error_model="numpy")
def _wrapped(angle_rad: float) -> float:
    """Return an angle in [-pi, pi)."""
    return (angle_rad + math.pi) % (2 * math.pi) - math.pi
