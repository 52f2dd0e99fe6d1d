"""Lanes, their successors and the drivable surface of a map as arrays, for driving scores."""

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, as_read_only, require_shapes, require_starts
from l5kit.data.map.api import MapAPI
from l5kit.data.map.bounds_grid import BoundsGrid
from l5kit.data.map.centre_lines import CentreLines, project_on_lanes
from l5kit.data.map.drivable_areas import drivable_areas_of
from l5kit.data.map.lane_network import first_lanes_outside
from l5kit.data.proto.road_network_pb2 import TrafficControlElement
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.polygon import project_on_line
from l5kit.lanes.road_surface import (
    REACH_M,
    RoadSurface,
    distance_to_surface,
    find_lane_at,
    write_lanes_at,
)

FARTHEST_LANE_M = 2.0
"""A vehicle whose centre is farther than this from all lanes is on no lane."""


@dataclass(frozen=True, eq=False)
class DrivingMap(ReadOnlyArrays):
    """L lanes and A drivable areas, the first L of which are those of the lanes.

    Attributes:
        centre_lines_m: World x and y along the middle of each lane, P points, float64 (L, P, 2).
        arc_lengths_m: Arc length of the centre line up to each point, float64 (L, P).
        area_points_m: Corners of all areas as closed polygons, world x and y, float64 (any, 2).
        area_starts: Start of each area in ``area_points_m``, and the end of the last one, int64 (A + 1,). Lanes are
            followed by crosswalks, junctions, and the drivable areas of the map.
        grid: Finds the areas near points; its radius is :data:`REACH_M`.
        ahead_starts: Start of each lane in ``ahead_rows``, and the end of the last one, int64 (L + 1,).
        ahead_rows: The lanes that follow each lane without a lane change, int64.
        parents: Index of the road segment or junction of each lane, a separate one if the map has none, int64 (L,).
        is_in_junction: Whether each lane is part of a junction, bool (L,).
        has_line_at_start: Whether the stop line for the light of each lane is at its start, bool (L,): for lanes of
            junctions, and for lanes whose light is nearer to their first point than to their last; it is at the end of
            all others.
        speed_limits_mps: NaN if unknown, float64 (L,). A lane of a junction has the largest known limit of the lanes
            before and after the junction.

    Raises:
        InvalidArgumentError: The shapes do not fit, an area has no corners or a centre line fewer than two points.
    """

    centre_lines_m: Float64Array
    arc_lengths_m: Float64Array
    area_points_m: Float64Array
    area_starts: Int64Array
    grid: BoundsGrid
    ahead_starts: Int64Array
    ahead_rows: Int64Array
    parents: Int64Array
    is_in_junction: BoolArray
    has_line_at_start: BoolArray
    speed_limits_mps: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        size, points = self.arc_lengths_m.shape
        require_shapes(self, centre_lines_m=(size, points, 2), parents=(size,))
        require_shapes(self, is_in_junction=(size,), has_line_at_start=(size,), speed_limits_mps=(size,))
        num_areas = len(self.grid.bounds_m)
        if points < 2 or (np.diff(self.area_starts) < 1).any():
            raise InvalidArgumentError(
                f"DrivingMap: every area needs a corner and every centre line two points, got lines of {points} and "
                f"areas of at least {np.diff(self.area_starts).min(initial=points)}"
            )
        require_starts(self, "area_starts", num_parts=num_areas, end=len(self.area_points_m))
        require_starts(self, "ahead_starts", num_parts=size, end=len(self.ahead_rows))
        if num_areas < size or self.ahead_rows.min(initial=0) < 0 or self.ahead_rows.max(initial=-1) >= size:
            raise InvalidArgumentError(
                f"DrivingMap: {size} lanes need an area each and rows of lanes below {size} in ahead_rows, got "
                f"{num_areas} areas and rows up to {self.ahead_rows.max(initial=-1)}"
            )

    @property
    def num_lanes(self) -> int:
        """Number of lanes, L."""
        return len(self.parents)

    @cached_property
    def surface(self) -> RoadSurface:
        """The drivable surface in the form that kernels use."""
        ahead = self.ahead_starts, self.ahead_rows
        return RoadSurface(self.grid.arrays, self.area_points_m, self.area_starts, self.is_in_junction, ahead)

    @cached_property
    def lane_grid(self) -> BoundsGrid:
        """Finds the lanes near vehicles; its radius is :data:`FARTHEST_LANE_M`."""
        return BoundsGrid.build(self.grid.bounds_m[: self.num_lanes], FARTHEST_LANE_M)

    @cached_property
    def most_lanes_of_corners(self) -> int:
        """Upper bound for the number of lanes, with repetitions, that contain any of four points or follow those."""
        weights = np.zeros(len(self.grid.bounds_m), np.int64)
        weights[: self.num_lanes] = 1 + np.diff(self.ahead_starts)
        num_before = np.concatenate([[0], np.cumsum(weights[self.grid.cell_rows])])
        return 4 * int(np.diff(num_before[self.grid.cell_starts]).max(initial=0))

    def ahead_of(self, lane: int) -> Int64Array:
        """Return the lanes that follow a lane, as a read-only view."""
        return self.ahead_rows[self.ahead_starts[lane] : self.ahead_starts[lane + 1]]

    def lanes_at(self, points_m: Float64Array) -> tuple[Int64Array, Int64Array]:
        """Return the lanes that contain points.

        Args:
            points_m: World x and y, (B, 2).

        Returns:
            The lanes of each point, ascending, point by point, and the start of each point's lanes, (B + 1,).
        """
        points_m = _as_points(points_m)
        rows = np.empty(self.grid.most_in_cell * len(points_m), np.int64)
        starts = np.zeros(len(points_m) + 1, np.int64)
        _find_lanes(self.surface, points_m, rows, starts)
        return rows[: starts[-1]], starts

    def distances_to_surface_m(self, points_m: Float64Array) -> Float64Array:
        """Return distances of points (B, 2) to the drivable surface, 0 on it, infinite from half a metre on, (B,)."""
        distances_m: Float64Array = self.distances_of_tracks_m(points_m[None])[0]
        return distances_m

    def distances_of_tracks_m(self, tracks_m: Float64Array) -> Float64Array:
        """Return the distances of moving points to the drivable surface.

        The area that contained the point in the previous step is tried first, which is usually the right one.

        Args:
            tracks_m: World x and y of K points in T steps, (K, T, 2).

        Returns:
            Metres, 0 on the surface and infinite from half a metre on, (K, T).
        """
        distances_m = np.empty(tracks_m.shape[:2])
        _measure_tracks(self.surface, _as_points(tracks_m), distances_m)
        return distances_m

    def hold_tracks(self, tracks_m: Float64Array, is_wanted: BoolArray, kinds: Int64Array) -> BoolArray:
        """Return whether some lanes contain moving points.

        Args:
            tracks_m: World x and y of K points in T steps, (K, T, 2).
            is_wanted: Whether each lane counts, for N kinds of points, (N, L).
            kinds: The kind of each point, (K,).

        Returns:
            (K, T).
        """
        is_held = np.zeros(tracks_m.shape[:2], np.bool_)
        wanted, of_points = as_read_only(is_wanted), as_read_only(kinds)
        _mark_in_lanes(self.surface, _as_points(tracks_m), wanted, of_points, is_held)
        return is_held

    def arcs_on_lanes_m(self, points_m: Float64Array, lanes: Int64Array) -> Float64Array:
        """Return the arc lengths on the centre lines of lanes nearest to points.

        Args:
            points_m: World x and y, (B, 2).
            lanes: The lane of each point, -1 for none, (B,).

        Returns:
            Metres, NaN without a lane, (B,).

        Raises:
            InvalidArgumentError: A lane does not exist, or there is not exactly one for each point.
        """
        if lanes.shape != (len(points_m),) or lanes.max(initial=-1) >= self.num_lanes:
            raise InvalidArgumentError(
                f"lanes must be {len(points_m)} rows below {self.num_lanes}, got shape {lanes.shape} and rows up to "
                f"{lanes.max(initial=-1)}; are they from another map?"
            )
        positions_m = np.full(len(points_m), np.nan)
        project_on_lanes(_as_points(points_m), lanes, self.centre_lines_m, self.arc_lengths_m, positions_m)
        return positions_m


def build_driving_map(map_api: MapAPI) -> DrivingMap:
    """Return the driving map of a map; build it once and keep it.

    The map format has no areas of junctions: the convex hull of a junction's lanes is used. Drivable areas stored in
    the map, as by imports, are included.

    Args:
        map_api: The map. All its messages are read.
    """
    arrays, network = map_api.arrays, map_api.network
    num_lanes = arrays.num_lanes
    lanes = [np.concatenate([arrays.left_line(row), arrays.right_line(row)[::-1]])[:, :2] for row in range(num_lanes)]

    # index segments and junctions; a lane without a parent gets its own index
    number_of: dict[str, int] = {}
    indices = []
    for row, lane_id in enumerate(arrays.lane_ids.to_list()):
        parent = map_api.id_as_str(map_api[lane_id].element.lane.parent_segment_or_junction)
        name = f"parent {parent}" if parent else f"lane in row {row}"
        indices.append(number_of.setdefault(name, len(number_of)))
    parents, is_in_junction = np.array(indices, np.int64), network.is_in_junction[:num_lanes]

    # convex hull of the lanes of each junction; OpenCV needs float32, so center the points first
    in_junctions = np.flatnonzero(is_in_junction)
    order = in_junctions[np.argsort(parents[in_junctions], kind="stable")]
    breaks = np.flatnonzero(np.diff(parents[order])) + 1
    hulls = []
    for rows in (part.tolist() for part in np.split(order, breaks) if len(part)):
        points_m = np.concatenate([lanes[row] for row in rows])
        corners = cv2.convexHull((points_m - points_m.mean(axis=0)).astype(np.float32), returnPoints=False)
        hulls.append(points_m[np.ravel(corners)])

    areas = [*lanes, *(polygon[:, :2] for polygon in arrays.polygons()), *hulls, *drivable_areas_of(map_api)]
    bounds_m = np.array([[area.min(axis=0), area.max(axis=0)] for area in areas]).reshape(-1, 2, 2)
    centre_lines = CentreLines.of_map(arrays)
    ahead = [[lane for lane in network.ahead_of(row).tolist() if lane < num_lanes] for row in range(num_lanes)]

    # limits of all lanes of the network: lanes of junctions get the largest limit before and after
    limits_mps, is_inside = network.speed_limits_mps.copy(), network.is_in_junction.tolist()
    all_ahead = [network.ahead_of(row).tolist() for row in range(len(network))]
    all_behind = [network.behind_of(row).tolist() for row in range(len(network))]
    for lane in np.flatnonzero(network.is_in_junction).tolist():
        around = first_lanes_outside(lane, all_ahead, is_inside) | first_lanes_outside(lane, all_behind, is_inside)
        known_mps = [limit for limit in network.speed_limits_mps[list(around)].tolist() if limit > 0]
        limits_mps[lane] = max(known_mps, default=np.nan)
    return DrivingMap(
        centre_lines_m=centre_lines.points_m,
        arc_lengths_m=centre_lines.arc_lengths_m,
        area_points_m=np.concatenate([np.zeros((0, 2)), *areas]),
        area_starts=np.cumsum([0, *map(len, areas)], dtype=np.int64),
        grid=BoundsGrid.build(bounds_m, REACH_M),
        ahead_starts=np.cumsum([0, *map(len, ahead)], dtype=np.int64),
        ahead_rows=np.array([row for rows in ahead for row in rows], np.int64),
        parents=parents,
        is_in_junction=is_in_junction.copy(),
        has_line_at_start=is_in_junction | _find_lit_starts(map_api, centre_lines.points_m[:, [0, -1]]),
        speed_limits_mps=limits_mps[:num_lanes],
    )


def _as_points(points_m: Float64Array) -> Float64Array:
    """Return points in the memory layout for which kernels are compiled."""
    view = np.ascontiguousarray(points_m, dtype=np.float64).view()
    view.setflags(write=False)
    return view


def _find_lit_starts(map_api: MapAPI, ends_m: Float64Array) -> BoolArray:
    """Return whether each lane has a light that is nearer to its start than to its end, (L,).

    Args:
        map_api: The map.
        ends_m: First and last point of each centre line, (L, 2, 2).
    """
    is_near_start = np.zeros(len(ends_m), np.bool_)
    controls = map_api.arrays.controls
    # The format does not say where vehicles wait. If a light controls leaving a lane, it is ahead, at or behind the end
    # of the lane; in other datasets lights control entering a lane, and are at its start.
    for control in np.flatnonzero(controls.kinds == TrafficControlElement.TRAFFIC_LIGHT_FIELD_NUMBER).tolist():
        light = map_api[controls.ids[control]].element.traffic_control_element
        deltas = light.points_x_deltas_cm, light.points_y_deltas_cm, light.points_z_deltas_cm
        position_m = map_api.unpack_deltas_cm(*deltas, light.geo_frame)[:1, :2]
        if len(position_m):
            lanes = controls.lanes_of(control)
            before_m, behind_m = np.linalg.norm(ends_m[lanes] - position_m, axis=-1).T
            is_near_start[lanes] |= before_m < behind_m
    return is_near_start


@kernel_jit
def project_onward(
    line: Float64Array, lengths_m: Float64Array, point: Float64Array, before_m: float, reach_m: float
) -> float:
    """Return the arc length of a line (P, 2) nearest to a point, within a reach of a previous arc length.

    A line may overlap itself, as laps of a roundabout do: its nearest point overall may belong to another lap.

    Args:
        line: Its points.
        lengths_m: Arc length up to each point, ascending, (P,).
        point: World x and y.
        before_m: Previous arc length; NaN for none, to search the whole line.
        reach_m: Distance along the line to search from there, at least 0.
    """
    first, stop = 0, len(line)
    if before_m >= lengths_m[0] - reach_m and before_m <= lengths_m[-1] + reach_m:
        while first < stop - 2 and lengths_m[first + 1] < before_m - reach_m:
            first += 1
        while stop > first + 2 and lengths_m[stop - 2] > before_m + reach_m:
            stop -= 1
    edge, share = project_on_line(line[first:stop], point)
    start_m, end_m = lengths_m[first + edge], lengths_m[first + edge + 1]
    position_m: float = start_m + share * (end_m - start_m)
    return position_m


@kernel_jit
def _find_lanes(surface: RoadSurface, points_m: Float64Array, rows: Int64Array, starts: Int64Array) -> None:
    """Write the lanes that contain points, point by point, and the start of each point's lanes."""
    for point in range(len(points_m)):
        starts[point + 1] = starts[point] + write_lanes_at(surface, points_m[point], rows[starts[point] :])


@kernel_jit
def _measure_tracks(surface: RoadSurface, tracks_m: Float64Array, distances_m: Float64Array) -> None:
    """Write the distances of tracks (K, T, 2) to the surface, starting each search with the previous area."""
    for track in range(len(tracks_m)):
        area = -1
        for step in range(tracks_m.shape[1]):
            distances_m[track, step], area = distance_to_surface(surface, tracks_m[track, step], area)


@kernel_jit
def _mark_in_lanes(
    surface: RoadSurface, tracks_m: Float64Array, is_wanted: BoolArray, kinds: Int64Array, is_held: BoolArray
) -> None:
    """Mark the points of tracks (K, T, 2) that a wanted lane contains."""
    for track in range(len(tracks_m)):
        lane = -1
        for step in range(tracks_m.shape[1]):
            lane = find_lane_at(surface, tracks_m[track, step], is_wanted[kinds[track]], lane)
            is_held[track, step] = lane >= 0
