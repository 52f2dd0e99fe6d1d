"""Centre lines of the lanes of a map: arc lengths, projections and spans for routes, paths and scores."""

import math
from dataclasses import dataclass

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.data.map.map_arrays import MapArrays
from l5kit.geometry.polygon import arc_on_line, point_on_line, project_on_line

LARGEST_TURN_RAD = math.pi / 4
"""A vehicle whose heading differs from that of a lane by more than this is not on it."""

CHANGE_M = 20.0
"""Length over which a vehicle changes from one lane to another."""

_NUM_POINTS = 48


@dataclass(frozen=True, eq=False)
class CentreLines(ReadOnlyArrays):
    """The centre lines of L lanes with P points each.

    Attributes:
        points_m: World x and y, float64 (L, P, 2).
        arc_lengths_m: Length of the line up to each point, float64 (L, P).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    points_m: Float64Array
    arc_lengths_m: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, points_m=(*self.arc_lengths_m.shape, 2))

    @classmethod
    def of_map(cls, arrays: MapArrays) -> "CentreLines":
        """Return the midlines of the lanes of a map, in the order of its rows."""
        points_m = np.ascontiguousarray(arrays.resampled(_NUM_POINTS).xyz_midlane[..., :2])
        steps_m = np.linalg.norm(np.diff(points_m, axis=1), axis=-1)
        return cls(points_m, np.concatenate([np.zeros((len(points_m), 1)), np.cumsum(steps_m, axis=1)], axis=1))

    @property
    def lengths_m(self) -> Float64Array:
        """The length of each line, a read-only view, (L,)."""
        return self.arc_lengths_m[:, -1]

    def project_point(self, lane: int, point_m: Float64Array) -> tuple[float, float]:
        """Return arc length and heading of a line at its point nearest to a given point (2,)."""
        arc_m, heading_rad = arc_on_line(self.points_m[lane], self.arc_lengths_m[lane], point_m)
        return float(arc_m), float(heading_rad)

    def point_at(self, lane: int, arc_m: float) -> Float64Array:
        """Return the point of a line at an arc length, (2,)."""
        return np.array(point_on_line(self.points_m[lane], self.arc_lengths_m[lane], arc_m))

    def spans_of(self, lanes: Int64Array, *, is_change: BoolArray, start_m: float, end_m: float) -> Float64Array:
        """Return the part of each lane that is driven between a point on the first and a point on the last one, (Q, 2).

        Lanes connected by lane changes lie next to each other: the changes are spread evenly over the distance driven
        on them. A change starts half of :data:`CHANGE_M` before its nominal point, and not before the lane is entered.
        The part on a lane after a change starts next to the end of the previous part.

        Args:
            lanes: The lanes in driving order, (Q,).
            is_change: Whether each lane is reached by a lane change, (Q,); False for the first.
            start_m: Arc length on the first centre line at which the route starts.
            end_m: Arc length on the last centre line at which it ends.
        """
        spans_m = np.stack([np.zeros(len(lanes)), self.lengths_m[lanes]], axis=1)
        spans_m[0, 0], spans_m[-1, 1] = start_m, end_m
        firsts = np.flatnonzero(~is_change).tolist()
        for first, stop in zip(firsts, [*firsts[1:], len(lanes)], strict=True):
            last_m = self.point_at(lanes[stop - 1], spans_m[stop - 1, 1])
            for piece in range(first, stop - 1):
                begin_m = spans_m[piece, 0]
                left_m = max(self.project_point(lanes[piece], last_m)[0] - begin_m, 0.0)
                spans_m[piece, 1] = begin_m + max(left_m / (stop - piece) - 0.5 * CHANGE_M, 0.0)
                leaves_m = self.point_at(lanes[piece], spans_m[piece, 1])
                spans_m[piece + 1, 0] = self.project_point(lanes[piece + 1], leaves_m)[0]
            spans_m[stop - 1, 1] = max(spans_m[stop - 1])
        return spans_m


@kernel_jit
def project_on_lanes(
    points_m: Float64Array,
    lanes: Int64Array,
    centre_lines_m: Float64Array,
    arc_lengths_m: Float64Array,
    arcs_m: Float64Array,
) -> None:
    """Write the arc lengths of the points of centre lines that are nearest to given points.

    Args:
        points_m: World x and y, (B, 2).
        lanes: The lane of each point, -1 for none, (B,).
        centre_lines_m: (L, P, 2).
        arc_lengths_m: (L, P).
        arcs_m: Output, (B,); entries of points without a lane stay unchanged.
    """
    for point in range(len(points_m)):
        lane = lanes[point]
        if lane >= 0:
            edge, part = project_on_line(centre_lines_m[lane], points_m[point])
            before_m, after_m = arc_lengths_m[lane, edge], arc_lengths_m[lane, edge + 1]
            arcs_m[point] = before_m + part * (after_m - before_m)
