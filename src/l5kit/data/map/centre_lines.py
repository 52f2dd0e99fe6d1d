"""Centre lines of the lanes of a map, as routes, paths and scores measure along them."""

import math
from dataclasses import dataclass

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.data.map.map_arrays import MapArrays
from l5kit.geometry.polygon import arc_on_line, point_on_line, project_on_line

LARGEST_TURN_RAD = math.pi / 4
"""A vehicle that is turned by more than this against a lane is not on it."""

CHANGE_M = 20.0
"""Length along which a vehicle changes from one lane to another."""

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
        """Return the middles of the lanes of a map, in the order of its rows."""
        points_m = np.ascontiguousarray(arrays.resampled(_NUM_POINTS).xyz_midlane[..., :2])
        steps_m = np.linalg.norm(np.diff(points_m, axis=1), axis=-1)
        return cls(points_m, np.concatenate([np.zeros((len(points_m), 1)), np.cumsum(steps_m, axis=1)], axis=1))

    @property
    def lengths_m(self) -> Float64Array:
        """The length of each line, a read-only view, (L,)."""
        return self.arc_lengths_m[:, -1]

    def project_point(self, lane: int, point_m: Float64Array) -> tuple[float, float]:
        """Return the length of a line up to the place nearest to a point (2,), and its heading there."""
        arc_m, heading_rad = arc_on_line(self.points_m[lane], self.arc_lengths_m[lane], point_m)
        return float(arc_m), float(heading_rad)

    def point_at(self, lane: int, arc_m: float) -> Float64Array:
        """Return the point of a line at a length, (2,)."""
        return np.array(point_on_line(self.points_m[lane], self.arc_lengths_m[lane], arc_m))

    def spans_of(self, lanes: Int64Array, *, is_change: BoolArray, start_m: float, end_m: float) -> Float64Array:
        """Return which part of each lane is driven from a place on the first one to a place on the last one, (Q, 2).

        Lanes that one changes between lie beside each other: the changes are spread evenly over what is driven of
        them. The way to the other side begins half of :data:`CHANGE_M` before the place of a change, and no earlier
        than the lane is entered. A lane after a change begins beside the end of the part before.

        Args:
            lanes: The lanes one after the other, (Q,).
            is_change: Which of them are reached by a lane change, (Q,); the first is not.
            start_m: Length of the first centre line at which the way starts.
            end_m: Length of the last one at which it ends.
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
    """Write the length of centre lines up to the places nearest to points that have a lane.

    Args:
        points_m: World x and y, (B, 2).
        lanes: The lane of each point, -1 for none, (B,).
        centre_lines_m: (L, P, 2).
        arc_lengths_m: (L, P).
        arcs_m: What is written, (B,).
    """
    for point in range(len(points_m)):
        lane = lanes[point]
        if lane >= 0:
            edge, part = project_on_line(centre_lines_m[lane], points_m[point])
            before_m, after_m = arc_lengths_m[lane, edge], arc_lengths_m[lane, edge + 1]
            arcs_m[point] = before_m + part * (after_m - before_m)
