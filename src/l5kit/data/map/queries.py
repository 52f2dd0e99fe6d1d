"""Spatial queries on the lanes of a map: lanes near a point, and their distances."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.data.map.map_arrays import LaneLines, MapArrays
from l5kit.geometry.polygon import crosses_edge, distance_to_edge, distance_to_line

_MIDLINE_POINTS = 20


@dataclass(frozen=True)
class LaneLocator:
    """Finds the lanes near a point, by the distance to their areas in the xy plane.

    Ties (a point inside a crossing) are ordered by distance to the midline.

    Attributes:
        arrays: The map; lanes are identified by their rows.
    """

    arrays: MapArrays

    @cached_property
    def _lines(self) -> LaneLines:
        return self.arrays.resampled(_MIDLINE_POINTS)

    def _box_distances_m(self, point_m: Float64Array) -> Float64Array:
        """Return the distance from a point to the bounds of each lane, 0 inside, float64 (N,)."""
        bounds_m = self.arrays.lane_bounds_m
        outside = np.maximum(np.maximum(bounds_m[:, 0] - point_m, point_m - bounds_m[:, 1]), 0.0)
        return np.hypot(outside[:, 0], outside[:, 1])

    def nearest(self, point_m: Float64Array) -> tuple[int, float]:
        """Return the row of the lane nearest to a point (2,) and its distance in metres; -1 and inf without lanes."""
        box_distances_m = self._box_distances_m(point_m)
        order = np.argsort(box_distances_m, kind="stable")
        lines, midlines = self.arrays.lane_lines, self._lines.xyz_midlane
        row, distance_m = _nearest_lane(lines.points, lines.offsets, midlines, order, box_distances_m[order], point_m)
        return int(row), float(distance_m)

    def within(self, point_m: Float64Array, radius_m: float) -> Int64Array:
        """Return the rows of the lanes within a distance of a point (2,), nearest first."""
        rows = np.flatnonzero(self._box_distances_m(point_m) <= radius_m)
        area_m, midline_m = self.distances_m(point_m, rows)
        order = np.lexsort((midline_m, area_m))
        return rows[order[area_m[order] <= radius_m]]

    def distances_m(self, point_m: Float64Array, rows: Int64Array) -> tuple[Float64Array, Float64Array]:
        """Return the distances from a point (2,) to the areas of lanes, 0 inside, and to their midlines, (n,) each."""
        lines = self.arrays.lane_lines
        return _lane_distances(lines.points, lines.offsets, self._lines.xyz_midlane, rows, point_m)


@kernel_jit
def _lane_distances(
    points: Float64Array,
    offsets: Int64Array,
    midlines: Float64Array,
    rows: Int64Array,
    point: Float64Array,
) -> tuple[Float64Array, Float64Array]:
    """Return the distances from a point to area and midline of the given lanes, float64 (n,) each."""
    area, midline = np.empty(len(rows)), np.empty(len(rows))
    for i in range(len(rows)):
        lane = rows[i]
        left = points[offsets[2 * lane] : offsets[2 * lane + 1]]
        right = points[offsets[2 * lane + 1] : offsets[2 * lane + 2]]
        # Even-odd rule for the polygon of the left boundary and the reversed right one: a point is inside if a ray
        # from it crosses the outline an odd number of times.
        is_inside = crosses_edge(left[0], right[0], point) != crosses_edge(left[-1], right[-1], point)
        for line in (left, right):
            for end in range(1, len(line)):
                is_inside = is_inside != crosses_edge(line[end - 1], line[end], point)
        area[i] = 0.0
        if not is_inside:
            ends = min(distance_to_edge(left[0], right[0], point), distance_to_edge(left[-1], right[-1], point))
            area[i] = min(ends, distance_to_line(left, point), distance_to_line(right, point))
        midline[i] = distance_to_line(midlines[lane], point)
    return area, midline


@kernel_jit
def _nearest_lane(
    points: Float64Array,
    offsets: Int64Array,
    midlines: Float64Array,
    order: Int64Array,
    box_distances: Float64Array,
    point: Float64Array,
) -> tuple[int, float]:
    """Return row and area distance of the nearest lane; ``order`` has the rows by ascending ``box_distances``."""
    best_row, best_area, best_midline = -1, np.inf, np.inf
    for i in range(len(order)):
        # bounds are at most as far as the lane inside them, so all remaining lanes are further than the best
        if box_distances[i] > best_area:
            break
        area, midline = _lane_distances(points, offsets, midlines, order[i : i + 1], point)
        if area[0] < best_area or (area[0] == best_area and midline[0] < best_midline):
            best_row, best_area, best_midline = order[i], area[0], midline[0]
    return best_row, best_area
