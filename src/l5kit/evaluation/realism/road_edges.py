"""Edges of the road: parts of the outlines of drivable areas with no other area on their outer side."""

from dataclasses import dataclass

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.data.map.bounds_grid import BoundsGrid
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.polygon import distance_to_edge
from l5kit.lanes.driving_map import DrivingMap

FARTHEST_M = 10.0
"""Upper limit of distances to the edge of the road, metres."""

_PART_M = 0.5
_PROBE_M = 0.2
_SLIT_M = 0.1
_MOST_CANDIDATES = 4_000_000
"""Size of the buffer for edges near the points of a chunk, which bounds the memory."""


@dataclass(frozen=True, eq=False)
class RoadEdges(ReadOnlyArrays):
    """E straight edges of the road of a map; create it once per map, by :func:`find_road_edges`.

    Attributes:
        driving_map: The map.
        ends_m: World x and y of both ends of each edge, float64 (E, 2, 2).
        grid: Index of the edges near points.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    driving_map: DrivingMap
    ends_m: Float64Array
    grid: BoundsGrid

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, ends_m=(len(self.grid.bounds_m), 2, 2))

    def distances_m(self, points_m: Float64Array) -> Float64Array:
        """Return the distances of points to the edge of the road: positive on the road, negative off it.

        A point less than 0.1 m from the drivable surface is on the road, as adjoining areas may leave slits.

        Args:
            points_m: World x and y, (B, 2).

        Returns:
            Metres, from -10 to 10, (B,).

        Raises:
            InvalidArgumentError: The shape is not (B, 2).
        """
        if points_m.ndim != 2 or points_m.shape[1] != 2:
            raise InvalidArgumentError(f"points_m must have shape (B, 2), got {points_m.shape}")
        points_m = np.ascontiguousarray(points_m, dtype=np.float64).view()
        points_m.setflags(write=False)
        distances_m = np.full(len(points_m), FARTHEST_M)
        size = max(1, _MOST_CANDIDATES // max(1, self.grid.most_in_cell))
        for first in range(0, len(points_m), size):
            part = slice(first, first + size)
            rows, starts = self.grid.find_near(points_m[part])
            _lower_to_nearest(points_m[part], rows, starts, self.ends_m, distances_m[part])
        is_on_road = distances_to_surface_m(self.driving_map, points_m) < _SLIT_M
        return np.where(is_on_road, distances_m, -distances_m)


def find_road_edges(driving_map: DrivingMap) -> RoadEdges:
    """Return the edges of the road of a map.

    The outlines of all areas are cut into parts of at most half a metre. A part is an edge of the road if one of the
    two points 0.2 m to the sides of its middle lies on some area, and the other on none. So neither lines between lanes
    nor slits of up to 0.2 m between adjoining areas are edges.
    """
    # Ends of short parts of the outlines of all areas, (K, 2, 2), and the side that each part belongs to. The last
    # point of an outline is followed by its first.
    points_m, starts = driving_map.area_points_m, driving_map.area_starts
    following = np.arange(1, len(points_m) + 1)
    following[starts[1:] - 1] = starts[:-1]
    sides_m = points_m[following] - points_m
    counts = np.ceil(np.hypot(*sides_m.T) / _PART_M).astype(np.int64)
    sides = np.repeat(np.arange(len(points_m)), counts)
    within = np.arange(len(sides)) - np.repeat(np.cumsum(counts) - counts, counts)
    shares = np.stack([within, within + 1], axis=1) / counts[sides][:, None]
    ends_m = points_m[sides][:, None] + shares[..., None] * sides_m[sides][:, None]

    # a point to the left and one to the right of the middle of each part
    steps_m = ends_m[:, 1] - ends_m[:, 0]
    aside_m = _PROBE_M * np.column_stack([-steps_m[:, 1], steps_m[:, 0]]) / np.hypot(*steps_m.T)[:, None]
    middles_m = 0.5 * (ends_m[:, 0] + ends_m[:, 1])
    is_on_left = distances_to_surface_m(driving_map, middles_m + aside_m) == 0
    is_on_right = distances_to_surface_m(driving_map, middles_m - aside_m) == 0

    # parts that are edges, with successive parts of a side joined, (E, 2, 2)
    is_edge = is_on_left != is_on_right
    kept = np.flatnonzero(is_edge)
    is_next = (np.diff(kept) == 1) & (np.diff(sides[kept]) == 0)
    firsts = kept[np.concatenate([[True], ~is_next])[: len(kept)]]
    lasts = kept[np.concatenate([~is_next, [True]])[: len(kept)]]
    edges_m = np.stack([ends_m[firsts, 0], ends_m[lasts, 1]], axis=1)
    bounds_m = np.stack([edges_m.min(axis=1), edges_m.max(axis=1)], axis=1)
    return RoadEdges(driving_map, edges_m, BoundsGrid.build(bounds_m, FARTHEST_M))


def distances_to_surface_m(driving_map: DrivingMap, points_m: Float64Array) -> Float64Array:
    """Return :meth:`DrivingMap.distances_to_surface_m` of points (B, 2), computed in chunks, (B,)."""
    size = max(1, _MOST_CANDIDATES // max(1, driving_map.grid.most_in_cell))
    parts = [driving_map.distances_to_surface_m(points_m[k : k + size]) for k in range(0, len(points_m), size)]
    return np.concatenate([np.zeros(0), *parts])


@kernel_jit
def _lower_to_nearest(
    points_m: Float64Array, rows: Int64Array, starts: Int64Array, ends_m: Float64Array, distances_m: Float64Array
) -> None:
    """Lower the distance of each point to that of its nearest edge."""
    for point in range(len(points_m)):
        for slot in range(starts[point], starts[point + 1]):
            edge = ends_m[rows[slot]]
            distances_m[point] = min(distances_m[point], distance_to_edge(edge[0], edge[1], points_m[point]))
