"""Route map: lanes with widths, limits, lights and neighbours for routes, and the lanes that belong to a route."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.data.frame_rows import expand_ranges, parts_of_rows
from l5kit.data.map.api import MapAPI
from l5kit.data.map.lane_network import LaneNetwork
from l5kit.lanes.driving_map import DrivingMap, build_driving_map
from l5kit.lanes.lane_paths import UNKNOWN_LIMIT_MPS, LanePaths, known_limits


@dataclass(frozen=True, eq=False)
class RouteMap(ReadOnlyArrays):
    """The L lanes of a map with the properties used by routes and lane graphs of samples.

    Attributes:
        driving: Centre lines, successors and areas.
        half_widths_m: Half of the distance between the boundaries at each point of the centre lines, float64 (L, P).
        limits_mps: Speed limits, :data:`~l5kit.lanes.lane_paths.UNKNOWN_LIMIT_MPS` if unknown, float64 (L,).
        has_light: Whether a traffic light controls each lane, bool (L,).
        side_rows: The lanes that a vehicle may change to on the left and on the right, -1 for none, int64 (L, 2).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    driving: DrivingMap
    half_widths_m: Float64Array
    limits_mps: Float64Array
    has_light: BoolArray
    side_rows: Int64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        size = self.driving.num_lanes
        require_shapes(self, half_widths_m=self.driving.arc_lengths_m.shape, limits_mps=(size,))
        require_shapes(self, has_light=(size,), side_rows=(size, 2))


def build_route_map(map_api: MapAPI) -> RouteMap:
    """Return the route map of a map; build it once and keep it.

    Args:
        map_api: The map. All its messages are read.
    """
    driving, network = build_driving_map(map_api), map_api.network
    size, num_points = driving.arc_lengths_m.shape
    lines = map_api.arrays.resampled(num_points)
    apart_m = np.linalg.norm(lines.xyz_left[..., :2] - lines.xyz_right[..., :2], axis=-1)
    return RouteMap(
        driving=driving,
        half_widths_m=0.5 * apart_m,
        limits_mps=known_limits(driving, UNKNOWN_LIMIT_MPS),
        has_light=map_api.arrays.has_light.copy(),
        side_rows=find_lane_sides(network, size),
    )


def find_lane_sides(network: LaneNetwork, size: int) -> Int64Array:
    """Return the lanes that a vehicle may change to on the left and on the right of each lane, -1 for none, (L, 2).

    Args:
        network: The road network of a map.
        size: L, the number of lanes with geometry; other lanes are ignored.
    """
    sides = np.stack([network.left_rows[:size], network.right_rows[:size]], axis=-1)
    return np.where(sides < size, sides, -1)


def mark_route_lanes(paths: LanePaths, driving_map: DrivingMap) -> BoolArray:
    """Return whether each lane belongs to the route of each of N paths, (N, L).

    The route consists of the lanes of the path; all parallel lanes of the same road segments in the same direction; and
    the junction lanes that connect such lanes.

    Args:
        paths: Paths along lanes of the map; a path without lanes has no route.
        driving_map: The map.
    """
    is_of_route = np.zeros((len(paths), driving_map.num_lanes), np.bool_)
    # all pairs of a lane and a successor
    before = parts_of_rows(driving_map.ahead_starts)
    after = driving_map.ahead_rows
    is_inside, parents, lines_m = driving_map.is_in_junction, driving_map.parents, driving_map.centre_lines_m
    for path in np.flatnonzero(paths.has_path).tolist():
        # Segments first. A segment has lanes of both directions: compare with the nearest lane of the path.
        own = np.unique(paths.lanes_of(path))
        own = own[~is_inside[own]]
        candidates = np.flatnonzero(np.isin(parents, parents[own]) & ~is_inside)
        if len(own):
            middles_m, chords_m = lines_m[:, lines_m.shape[1] // 2], lines_m[:, -1] - lines_m[:, 0]
            far_m = np.linalg.norm(middles_m[candidates, None] - middles_m[own], axis=-1)
            far_m[parents[candidates, None] != parents[own]] = np.inf
            nearest = own[far_m.argmin(axis=1)]
            is_of_route[path, candidates] = (chords_m[candidates] * chords_m[nearest]).sum(axis=-1) > 0

        # then the junction lanes that connect two of them, and finally all lanes of the path
        is_between = driving_map.is_in_junction & _reached(is_of_route[path], before, after, driving_map)
        is_between &= _reached(is_of_route[path], after, before, driving_map)
        is_of_route[path] |= is_between
        is_of_route[path, paths.lanes_of(path)] = True
    return is_of_route


def lanes_closed_by_red(driving_map: DrivingMap) -> tuple[Int64Array, Int64Array]:
    """Return the lanes that must not be entered while the light of a lane is red.

    That is the lane itself if its stop line is at its start, and otherwise the lanes that follow it.

    Returns:
        Start of each lane in the closed lanes, with the end of the last one, (L + 1,), and the closed lanes.
    """
    # for each lane, a row with its own index, or rows with the lanes ahead
    counts = np.where(driving_map.has_line_at_start, 1, np.diff(driving_map.ahead_starts))
    starts = np.concatenate([[0], np.cumsum(counts)])
    is_own = np.repeat(driving_map.has_line_at_start, counts)
    closed = np.repeat(np.arange(driving_map.num_lanes), counts)
    slots = expand_ranges(driving_map.ahead_starts[:-1], counts)
    closed[~is_own] = driving_map.ahead_rows[slots[~is_own]]
    return starts, closed


def _reached(is_begin: BoolArray, before: Int64Array, after: Int64Array, driving_map: DrivingMap) -> BoolArray:
    """Return whether each junction lane can be reached from some lanes through junction lanes only, (L,)."""
    is_reached, is_new = np.zeros(len(is_begin), np.bool_), is_begin & ~driving_map.is_in_junction
    while is_new.any():
        result = after[is_new[before]]
        is_new = np.zeros(len(is_begin), np.bool_)
        is_new[result] = True
        is_new &= driving_map.is_in_junction & ~is_reached
        is_reached |= is_new
    return is_reached
