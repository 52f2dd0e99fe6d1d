"""Route map: the lanes of a map as routes tell of them, and the lanes that belong to a route."""

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
    """The L lanes of a map as routes and lane graphs of samples tell of them.

    Attributes:
        driving: Centre lines, order and areas.
        half_widths_m: Half of the distance between the boundaries at each point of the centre lines, float64 (L, P).
        limits_mps: Speed limits, :data:`~l5kit.lanes.lane_paths.UNKNOWN_LIMIT_MPS` where the map does not say, float64
            (L,).
        has_light: Which lanes a traffic light controls, bool (L,).
        side_rows: The lanes that one may change to on the left and on the right, -1 for none, int64 (L, 2).

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
    """Return what routes need of a map; build it once and keep it.

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
    """Return the lanes to the left and to the right of each that one may change to, -1 for none, (L, 2).

    Args:
        network: The road network of a map.
        size: L, how many lanes have a geometry; others are nobody's side.
    """
    sides = np.stack([network.left_rows[:size], network.right_rows[:size]], axis=-1)
    return np.where(sides < size, sides, -1)


def mark_route_lanes(paths: LanePaths, driving_map: DrivingMap) -> BoolArray:
    """Return which lanes belong to the route of each of N paths, (N, L).

    They are the lanes of the path; those of the same road segments in the same direction, however many beside each
    other; and in junctions those through which one gets from such a lane to such a lane.

    Args:
        paths: Paths along lanes of the map; one without lanes has no route.
        driving_map: The map.
    """
    is_of_route = np.zeros((len(paths), driving_map.num_lanes), np.bool_)
    # all pairs of a lane and one that follows it
    before = parts_of_rows(driving_map.ahead_starts)
    after = driving_map.ahead_rows
    is_inside, parents, lines_m = driving_map.is_in_junction, driving_map.parents, driving_map.centre_lines_m
    for path in np.flatnonzero(paths.has_path).tolist():
        # segments first; one has lanes of both directions: the nearest of the path's own says which is the route's
        own = np.unique(paths.lanes_of(path))
        own = own[~is_inside[own]]
        candidates = np.flatnonzero(np.isin(parents, parents[own]) & ~is_inside)
        if len(own):
            middles_m, chords_m = lines_m[:, lines_m.shape[1] // 2], lines_m[:, -1] - lines_m[:, 0]
            far_m = np.linalg.norm(middles_m[candidates, None] - middles_m[own], axis=-1)
            far_m[parents[candidates, None] != parents[own]] = np.inf
            nearest = own[far_m.argmin(axis=1)]
            is_of_route[path, candidates] = (chords_m[candidates] * chords_m[nearest]).sum(axis=-1) > 0

        # then what leads through junctions from one of them to another, and all of the path at last
        is_between = driving_map.is_in_junction & _reached(is_of_route[path], before, after, driving_map)
        is_between &= _reached(is_of_route[path], after, before, driving_map)
        is_of_route[path] |= is_between
        is_of_route[path, paths.lanes_of(path)] = True
    return is_of_route


def lanes_closed_by_red(driving_map: DrivingMap) -> tuple[Int64Array, Int64Array]:
    """Return the lanes that nobody may enter while the light of a lane is red.

    It is the lane itself where its line is at its start, and else those that follow it.

    Returns:
        First of the closed lanes of each lane and the end of the last one, (L + 1,), and these.
    """
    # a row for each lane with its own number, or with those of the lanes ahead
    counts = np.where(driving_map.has_line_at_start, 1, np.diff(driving_map.ahead_starts))
    starts = np.concatenate([[0], np.cumsum(counts)])
    is_own = np.repeat(driving_map.has_line_at_start, counts)
    closed = np.repeat(np.arange(driving_map.num_lanes), counts)
    slots = expand_ranges(driving_map.ahead_starts[:-1], counts)
    closed[~is_own] = driving_map.ahead_rows[slots[~is_own]]
    return starts, closed


def _reached(is_begin: BoolArray, before: Int64Array, after: Int64Array, driving_map: DrivingMap) -> BoolArray:
    """Return which lanes of junctions are reached from some lanes through none but lanes of junctions, (L,)."""
    is_reached, is_new = np.zeros(len(is_begin), np.bool_), is_begin & ~driving_map.is_in_junction
    while is_new.any():
        result = after[is_new[before]]
        is_new = np.zeros(len(is_begin), np.bool_)
        is_new[result] = True
        is_new &= driving_map.is_in_junction & ~is_reached
        is_reached |= is_new
    return is_reached
