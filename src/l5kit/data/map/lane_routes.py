"""Routes between two points of a map along connected lanes, with lane changes where they are allowed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.data.frame_rows import parts_of_rows
from l5kit.data.map.centre_lines import CHANGE_M, LARGEST_TURN_RAD, CentreLines, project_on_lanes
from l5kit.data.map.lane_network import LaneNetwork
from l5kit.data.map.map_arrays import MapArrays
from l5kit.data.map.queries import LaneLocator
from l5kit.errors import InvalidArgumentError, RouteNotFoundError
from l5kit.geometry.angle import angular_distance

LANE_CHANGE_COST_M = 20.0
"""An additional lane change is taken only if it shortens the route by more than this."""

_LEAST_M = 1e-9
"""Smallest cost of an edge of the lane graph, which must not be zero."""

_SAME_PLACE_M = 1e-6

_JOINT_M = 0.05
"""Points closer than this are merged: maps round coordinates to centimetres, so lanes may overlap slightly."""


@dataclass(frozen=True, eq=False)
class LaneRoute(ReadOnlyArrays):
    """A route along Q lanes of a map.

    Attributes:
        lane_ids: Ids of the lanes in driving order; a lane may occur twice.
        lane_rows: Their rows in :class:`~l5kit.data.map.map_arrays.MapArrays`, int64 (Q,).
        is_change: Whether each lane is reached by a lane change; otherwise it follows the previous lane. Bool (Q,).
        start_m: Arc length on the centre line of the first lane at which the route starts.
        end_m: Arc length on the centre line of the last lane at which it ends.
        line_m: World x and y along the centre lines from start to end, crossing over at lane changes, float64 (P, 2); a
            single point if start and end coincide.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    lane_ids: tuple[str, ...]
    lane_rows: Int64Array
    is_change: BoolArray
    start_m: float
    end_m: float
    line_m: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (len(self.lane_ids),)
        require_shapes(self, lane_rows=shape, is_change=shape, line_m=(len(self.line_m), 2))

    @property
    def length_m(self) -> float:
        """The length of :attr:`line_m`."""
        return float(np.linalg.norm(np.diff(self.line_m, axis=0), axis=1).sum())


class _Entry(NamedTuple):
    """A lane at which a route may begin: cost of reaching it, arc length of the start on it, and the lanes up to it."""

    cost_m: float
    arc_m: float
    lanes: list[int]


@dataclass(frozen=True)
class LaneRouter:
    """Finds shortest routes along the lanes of a map.

    Attributes:
        arrays: The lanes.
        network: Their connections.
        locator: Finds the lanes at a point.
    """

    arrays: MapArrays
    network: LaneNetwork
    locator: LaneLocator

    @cached_property
    def _lines(self) -> CentreLines:
        return CentreLines.of_map(self.arrays)

    @cached_property
    def _graph(self) -> tuple[Float64Array, Int64Array, Int64Array]:
        """Costs from the start of each lane to the starts of connected lanes, as the fields of a sparse row matrix.

        These are the costs in metres, the connected lanes, and the start of each lane's entries.
        """
        network, num_lanes = self.network, self.arrays.num_lanes
        lengths_m = self._lines.lengths_m
        ahead_starts = network.ahead_starts[: num_lanes + 1]
        ahead = network.ahead_rows[: ahead_starts[-1]]
        sources = [parts_of_rows(ahead_starts)]
        targets: list[Int64Array] = [ahead]
        costs: list[Float64Array] = [lengths_m[sources[0]]]
        for beside in (network.left_rows[:num_lanes], network.right_rows[:num_lanes]):
            lanes = np.flatnonzero((beside >= 0) & (beside < num_lanes))
            others = beside[lanes]
            # Neighbouring lanes may begin at different points: the distance up to the start of the other one counts.
            onward_m = self._arcs_of_starts(others, on=lanes) - self._arcs_of_starts(lanes, on=others)
            sources.append(lanes)
            targets.append(others)
            costs.append(LANE_CHANGE_COST_M + onward_m)
        from_lane, to_lane, cost_m = np.concatenate(sources), np.concatenate(targets), np.concatenate(costs)

        # drop lanes without geometry; of several edges between two lanes keep the cheapest
        order = np.lexsort((cost_m, to_lane, from_lane))
        order = order[to_lane[order] < num_lanes]
        is_first = np.diff(np.stack([from_lane[order], to_lane[order]]), axis=1, prepend=-1).any(axis=0)
        order = order[is_first]
        starts = np.concatenate([[0], np.cumsum(np.bincount(from_lane[order], minlength=num_lanes))])
        costs_m: Float64Array = np.maximum(cost_m[order], _LEAST_M)
        reached: Int64Array = to_lane[order].astype(np.int64, copy=False)
        return costs_m, reached, starts

    def _arcs_of_starts(self, lanes: Int64Array, *, on: Int64Array) -> Float64Array:
        """Return the arc lengths on some lanes of the starts of others, metres, (n,)."""
        arcs_m = np.empty(len(lanes))
        points_m = np.ascontiguousarray(self._lines.points_m[lanes, 0])
        project_on_lanes(points_m, on, self._lines.points_m, self._lines.arc_lengths_m, arcs_m)
        return arcs_m

    def find(
        self, start_m: Float64Array, goal_m: Float64Array, *, heading_rad: float | None, reach_m: float
    ) -> LaneRoute:
        """Return the shortest route; see :meth:`l5kit.data.map.api.MapAPI.find_route`.

        Args:
            start_m: World x and y, (2,).
            goal_m: World x and y, (2,).
            heading_rad: World heading at the start; None for all lanes.
            reach_m: Largest distance from start and goal to the area of a lane.

        Raises:
            InvalidArgumentError: No lane is within reach of the start or the goal.
            RouteNotFoundError: No route leads from the start to the goal.
        """
        starts = self._lanes_at("start", start_m, heading_rad=heading_rad, reach_m=reach_m)
        ends = self._lanes_at("goal", goal_m, reach_m=reach_m)
        goals = {lane: self._lines.project_point(lane, goal_m)[0] for lane in ends}
        entries = self._find_entries(starts, start_m)

        # Routes to a goal further ahead on a start lane; all others go through the start of the goal's lane.
        routes = [
            (entry.cost_m + goals[lane] - entry.arc_m, entry.lanes)
            for lane, entry in entries.items()
            if goals.get(lane, -1.0) >= entry.arc_m
        ]
        # cheapest way to the start of each lane that follows a start lane
        first_edges: dict[int, tuple[float, list[int]]] = {}
        for lane, entry in entries.items():
            cost_m = entry.cost_m + self._lines.lengths_m[lane] - entry.arc_m
            for ahead in self.network.ahead_of(lane).tolist():
                if ahead < self.arrays.num_lanes and cost_m < first_edges.get(ahead, (np.inf,))[0]:
                    first_edges[ahead] = cost_m, entry.lanes
        costs_m, lanes_before = self._search(first_edges)
        for lane, arc_m in goals.items():
            if np.isfinite(costs_m[lane]):
                after = [lane]
                while lanes_before[after[0]] >= 0:
                    after.insert(0, int(lanes_before[after[0]]))
                routes.append((float(costs_m[lane]) + arc_m, first_edges[after[0]][1] + after))
        if not routes:
            ids = self.arrays.lane_ids
            raise RouteNotFoundError(
                f"no route along lanes leads from {_text(start_m)}, lane {ids[starts[0]]!r}, to {_text(goal_m)}, lane "
                f"{ids[ends[0]]!r}: {int(np.isfinite(costs_m).sum())} of the {self.arrays.num_lanes} lanes of the map "
                "are reachable from there; choose a goal on one of them, or a start with another heading"
            )
        _, lanes = min(routes, key=lambda route: route[0])
        return self._route_of(np.array(lanes, np.int64), start_m=entries[lanes[0]].arc_m, end_m=goals[lanes[-1]])

    def _lanes_at(
        self, name: str, point_m: Float64Array, *, heading_rad: float | None = None, reach_m: float
    ) -> list[int]:
        """Return the lanes that contain a point, or the nearest ones, restricted to a direction if there is a heading.

        Raises:
            InvalidArgumentError: No lane is within reach.
        """
        near = self.locator.within(point_m, reach_m)
        rows = near
        if heading_rad is not None:
            headings_rad = np.array([self._lines.project_point(lane, point_m)[1] for lane in near.tolist()])
            rows = near[np.abs(angular_distance(headings_rad, heading_rad)) <= LARGEST_TURN_RAD]
        if not len(rows):
            ids, (nearest, far_m) = self.arrays.lane_ids, self.locator.nearest(point_m)
            reason = f"the nearest, {ids[nearest]!r}, is {far_m:.1f} m away" if nearest >= 0 else "the map has none"
            if len(near):
                reason = f"all lanes there differ by more than 45 degrees from heading_rad={heading_rad}"
            raise InvalidArgumentError(
                f"{name} {_text(point_m)} has no lane within reach_m={reach_m:g} metres: {reason}; choose a place on a "
                "lane, another heading, or a larger reach_m"
            )
        areas_m, _ = self.locator.distances_m(point_m, rows)
        chosen: list[int] = rows[areas_m <= areas_m.min() + _SAME_PLACE_M].tolist()
        return chosen

    def _find_entries(self, starts: list[int], start_m: Float64Array) -> dict[int, _Entry]:
        """Return the lanes at the start, and those reached from there by lane changes alone."""
        entries = {lane: _Entry(0.0, self._lines.project_point(lane, start_m)[0], [lane]) for lane in starts}
        open_lanes = list(starts)
        for lane in open_lanes:  # grows during the loop: lanes with the fewest changes come first
            before = entries[lane]
            for other in (int(self.network.left_rows[lane]), int(self.network.right_rows[lane])):
                if not 0 <= other < self.arrays.num_lanes or other in entries:
                    continue
                onward_m = self._lines.project_point(lane, self._lines.points_m[other, 0])[0] - before.arc_m
                cost_m = before.cost_m + LANE_CHANGE_COST_M + max(onward_m, 0.0)
                entries[other] = _Entry(cost_m, self._lines.project_point(other, start_m)[0], [*before.lanes, other])
                open_lanes.append(other)
        return entries

    def _search(self, first_edges: Mapping[int, tuple[float, list[int]]]) -> tuple[Float64Array, Int64Array]:
        """Return the cost of reaching the start of each lane, and the previous lane; -1 for lanes of the first edges.

        Args:
            first_edges: The lanes that follow those at the start, with the cost of reaching each.
        """
        from scipy.sparse import csr_array  # SciPy loads slowly, so import it on use
        from scipy.sparse.csgraph import dijkstra

        costs_m, targets, starts = self._graph
        num_lanes = self.arrays.num_lanes
        # the start is an additional row of the matrix, connected by the first edges only
        content = (
            np.concatenate([costs_m, [max(cost_m, _LEAST_M) for cost_m, _ in first_edges.values()]]),
            np.concatenate([targets, np.fromiter(first_edges, np.int32, len(first_edges))], dtype=np.int32),
            np.append(starts, len(targets) + len(first_edges)).astype(np.int32),
        )  # the search of SciPy 1.13 takes indices of 32 bits only
        matrix = csr_array(content, shape=(num_lanes + 1, num_lanes + 1))
        distances_m, before = dijkstra(matrix, indices=num_lanes, return_predecessors=True)
        return distances_m[:num_lanes], np.where(before == num_lanes, -1, before)[:num_lanes].astype(np.int64)

    def _route_of(self, lanes: Int64Array, *, start_m: float, end_m: float) -> LaneRoute:
        """Return the route along the given lanes, including its line."""
        pairs = zip(lanes[:-1].tolist(), lanes[1:].tolist(), strict=True)
        is_change = np.array([False, *(lane not in self.network.ahead_of(before) for before, lane in pairs)])
        spans_m = self._lines.spans_of(lanes, is_change=is_change, start_m=start_m, end_m=end_m)
        parts = []
        for lane, is_after_change, (begin_m, stop_m) in zip(lanes.tolist(), is_change, spans_m.tolist(), strict=True):
            arcs_m, points_m = self._lines.arc_lengths_m[lane], self._lines.points_m[lane]
            # a lane change takes some distance, so the line crosses over at an angle
            first_m = min(begin_m + CHANGE_M, stop_m) if is_after_change else begin_m
            inside_m = arcs_m[(arcs_m > first_m) & (arcs_m < stop_m)]
            knots_m = np.concatenate([[first_m], inside_m, [stop_m]])
            parts.append(np.stack([np.interp(knots_m, arcs_m, points_m[:, axis]) for axis in range(2)], axis=1))

        # drop the second of two almost coinciding points, between which the line might turn around
        line_m = np.concatenate(parts)
        is_kept = np.append(True, np.linalg.norm(np.diff(line_m, axis=0), axis=1) > _JOINT_M)
        if not is_kept[-1]:  # keep the end and drop the points around it
            is_kept &= np.linalg.norm(line_m - line_m[-1], axis=1) > _JOINT_M
            is_kept[0], is_kept[-1] = True, float(np.linalg.norm(line_m[-1] - line_m[0])) > _SAME_PLACE_M
        ids = tuple(self.arrays.lane_ids[lane] for lane in lanes.tolist())
        return LaneRoute(ids, lanes, is_change, start_m, end_m, line_m[is_kept])


def _text(point_m: Float64Array) -> str:
    return f"({point_m[0]:.2f}, {point_m[1]:.2f})"
