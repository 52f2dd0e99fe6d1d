"""Outlines of all lanes and crosswalks of a map, concatenated."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int32Array, Int64Array, NumericArray
from l5kit.data.array_shapes import require_shapes, require_starts
from l5kit.data.frame_rows import expand_ranges
from l5kit.data.map.map_arrays import MapArrays


@dataclass(frozen=True)
class Outlines:
    """N closed outlines with P points in total.

    Attributes:
        starts: First point of each outline and the end of the last one, int64, shape (N + 1,).
        points_m: World x and y, float64, shape (P, 2).
        bounds_m: [[x_min, y_min], [x_max, y_max]] of each, float64, shape (N, 2, 2).
    """

    starts: Int64Array
    points_m: Float64Array
    bounds_m: Float64Array

    def __post_init__(self) -> None:
        require_shapes(self, points_m=(len(self.points_m), 2), bounds_m=(len(self), 2, 2))
        require_starts(self, "starts", num_parts=len(self), end=len(self.points_m))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def near(self, positions_m: NumericArray, radius_m: float) -> Int64Array:
        """Return the outlines with bounds within a distance, along x and y, of any position (M, 2); ascending."""
        is_near: BoolArray = np.zeros(len(self), np.bool_)
        for position_m in np.asarray(positions_m, dtype=np.float64):
            touches = (self.bounds_m[:, 0] <= position_m + radius_m) & (self.bounds_m[:, 1] >= position_m - radius_m)
            is_near |= touches.all(axis=1)
        return np.flatnonzero(is_near)

    def take(self, indices: Int64Array) -> "Outlines":
        """Return some of the outlines, in the order of ``indices``."""
        lengths = np.diff(self.starts)[indices]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        points = expand_ranges(self.starts[indices], lengths)
        return Outlines(starts, self.points_m[points], self.bounds_m[indices])


@dataclass(frozen=True)
class MapShapes:
    """The L lanes and the crosswalks of a map, in the order of ``bounds_info``.

    Attributes:
        lanes: Outlines of the lanes: the left boundary forward, then the right one backward.
        lane_left_counts: Points of the left boundary of each lane, int32, shape (L,).
        crosswalks: Outlines of the crosswalks.
    """

    lanes: Outlines
    lane_left_counts: Int32Array
    crosswalks: Outlines

    def __post_init__(self) -> None:
        require_shapes(self, lane_left_counts=(len(self.lanes),))

    def near(self, positions_m: NumericArray, radius_m: float) -> tuple["MapShapes", Int64Array]:
        """Return the shapes within a distance of any position (M, 2), and the indices of their lanes, ascending."""
        lanes, crosswalks = self.lanes.near(positions_m, radius_m), self.crosswalks.near(positions_m, radius_m)
        return MapShapes(self.lanes.take(lanes), self.lane_left_counts[lanes], self.crosswalks.take(crosswalks)), lanes


def read_map_shapes(arrays: MapArrays) -> MapShapes:
    """Return the outlines of all lanes and crosswalks of a map."""
    # lane lines come in pairs, left and right; the points of right lines are reversed
    lines, crosswalks = arrays.lane_lines, arrays.crosswalk_lines
    starts, counts = lines.offsets[:-1], lines.lengths
    is_right = np.arange(len(lines)) % 2 == 1
    firsts, steps = np.where(is_right, starts + counts - 1, starts), np.where(is_right, -1, 1)
    within_line = np.arange(len(lines.points)) - np.repeat(starts, counts)
    points = np.repeat(firsts, counts) + np.repeat(steps, counts) * within_line
    return MapShapes(
        lanes=Outlines(lines.offsets[::2], lines.points[points, :2], arrays.lane_bounds_m),
        lane_left_counts=counts[::2].astype(np.int32),
        crosswalks=Outlines(crosswalks.offsets, crosswalks.points[:, :2], arrays.crosswalk_bounds_m),
    )
