"""Boundaries of lanes from the painted lines and road edges along them.

The Waymo Open Motion Dataset lists, for stretches of a lane's centre line, the line that bounds it there. For each
point of such a stretch the nearest point of that line becomes a boundary point. Where no line is listed, or it is on
the wrong side or far away, the width of the lane is interpolated from the points around.
"""

from dataclasses import dataclass

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.data.array_shapes import require_shapes

LEFT, RIGHT = 0, 1

_FURTHEST_M = 10.0
_END_GAP_M = 0.1
_LOOKED_AT = 3


@dataclass(frozen=True)
class Polylines:
    """K lines in one array.

    Attributes:
        points_m: x, y and z of all points, float64, (N, 3).
        starts: First point of each line, and the end of the last one, int64, (K + 1,).
    """

    points_m: Float64Array
    starts: Int64Array

    def __post_init__(self) -> None:
        require_shapes(self, points_m=(len(self.points_m), 3))

    def line(self, row: int) -> Float64Array:
        """Return the points of one line."""
        return self.points_m[self.starts[row] : self.starts[row + 1]]


def find_boundaries(lanes: Polylines, lines: Polylines, stretches: Int64Array) -> Float64Array:
    """Return a point of the left and of the right boundary for each point of the centre lines of lanes.

    Args:
        lanes: Centre lines in driving direction.
        lines: Painted lines and road edges; a line may be empty.
        stretches: Lane, :data:`LEFT` or :data:`RIGHT`, first and last point on the lane, and line of each, (S, 5).
            Stretches are clipped to the lane; of two stretches at one point the later one takes precedence.

    Returns:
        Float64, (2, N, 3) for the N points of all lanes; NaN for all points of a side without any information.
    """
    boundaries_m = np.full((2, *lanes.points_m.shape), np.nan)
    directions = np.zeros((len(lanes.points_m), 2))
    _find_directions(lanes.points_m, lanes.starts, directions)
    _find_nearest(lanes.points_m, lanes.starts, directions, lines.points_m, lines.starts, stretches, boundaries_m)
    _fill_holes(lanes.points_m, lanes.starts, directions, boundaries_m)
    return boundaries_m


@kernel_jit
def _find_directions(points_m: Float64Array, starts: Int64Array, directions: Float64Array) -> None:
    """Write the unit tangents of lines at their points, by central differences."""
    for lane in range(len(starts) - 1):
        first, last = starts[lane], starts[lane + 1] - 1
        for point in range(first, last + 1):
            before, after = max(point - 1, first), min(point + 1, last)
            x_m, y_m = points_m[after, 0] - points_m[before, 0], points_m[after, 1] - points_m[before, 1]
            length_m = np.hypot(x_m, y_m)
            if length_m > 0:
                directions[point, 0], directions[point, 1] = x_m / length_m, y_m / length_m
            elif point > first:
                directions[point] = directions[point - 1]


@kernel_jit
def _nearest_piece(
    points_m: Float64Array, pieces: tuple[int, int], near: int, position_m: tuple[float, float]
) -> tuple[int, float, float]:
    """Return the piece of a line that is nearest to a position, the squared distance, and the fraction along the piece.

    The search covers all pieces if ``near`` is -1. Otherwise it covers those around that one, and extends while the
    best piece is at the edge of the searched range.
    """
    # Consecutive points of a lane are beside consecutive pieces, so only a few need to be measured.
    first, last = pieces
    low, high = (first, last) if near < 0 else (max(first, near - _LOOKED_AT), min(last, near + _LOOKED_AT))
    best, best_m2, best_part = first, np.inf, 0.0
    piece, step, stop = low, 1, high
    while True:
        for number in range(piece, stop + step, step):
            # projection of the point on the piece, clipped to its ends: (to . along) / |along|^2
            x_m, y_m = points_m[number, 0], points_m[number, 1]
            along_x, along_y = points_m[number + 1, 0] - x_m, points_m[number + 1, 1] - y_m
            to_x, to_y = position_m[0] - x_m, position_m[1] - y_m
            length = along_x * along_x + along_y * along_y
            part = min(max((to_x * along_x + to_y * along_y) / length, 0.0), 1.0) if length > 0 else 0.0
            off_x, off_y = to_x - part * along_x, to_y - part * along_y
            distance_m2 = off_x * off_x + off_y * off_y
            if distance_m2 < best_m2:
                best, best_m2, best_part = number, distance_m2, part
        if best == high and high < last:
            piece, step, high = high + 1, 1, min(last, high + _LOOKED_AT)
            stop = high
        elif best == low and low > first:
            piece, step, low = low - 1, -1, max(first, low - _LOOKED_AT)
            stop = low
        else:
            return best, best_m2, best_part


@kernel_jit
def _find_nearest(
    lanes_m: Float64Array,
    lane_starts: Int64Array,
    directions: Float64Array,
    lines_m: Float64Array,
    line_starts: Int64Array,
    stretches: Int64Array,
    boundaries_m: Float64Array,
) -> None:
    """Write the nearest points of lines to the points of stretches of lanes, (2, N, 3)."""
    for row in range(len(stretches)):
        lane, side, first, last, line = stretches[row]
        first = lane_starts[lane] + max(first, 0)
        last = min(lane_starts[lane] + last, lane_starts[lane + 1] - 1)
        pieces = (line_starts[line], line_starts[line + 1] - 2)
        if pieces[1] < pieces[0]:
            continue
        piece = -1  # a full search for the first point, then local ones
        for point in range(first, last + 1):
            x_m, y_m = lanes_m[point, 0], lanes_m[point, 1]
            piece, distance_m2, part = _nearest_piece(lines_m, pieces, piece, (x_m, y_m))
            beside_m = lines_m[piece] + part * (lines_m[piece + 1] - lines_m[piece])

            # Offset to the left (cross product) and ahead (dot product), relative to the lane's direction. The point
            # must be on the right side, and if it is an end of the line, abreast of the lane point.
            leftwards_m = directions[point, 0] * (beside_m[1] - y_m) - directions[point, 1] * (beside_m[0] - x_m)
            ahead_m = directions[point, 0] * (beside_m[0] - x_m) + directions[point, 1] * (beside_m[1] - y_m)
            is_end = (piece == pieces[0] and part <= 0) or (piece == pieces[1] and part >= 1)
            if distance_m2 > _FURTHEST_M * _FURTHEST_M:
                piece = -1  # the local search may have lost the line
            elif is_end and abs(ahead_m) > _END_GAP_M:
                continue  # the line does not cover this point
            elif leftwards_m > 0 if side == LEFT else leftwards_m < 0:
                boundaries_m[side, point] = beside_m


@kernel_jit
def _fill_holes(
    lanes_m: Float64Array, lane_starts: Int64Array, directions: Float64Array, boundaries_m: Float64Array
) -> None:
    """Fill missing boundary points (NaN) perpendicular to the lane, at widths interpolated from known points."""
    for side in range(2):
        towards = 1.0 if side == LEFT else -1.0
        for lane in range(len(lane_starts) - 1):
            first, end = lane_starts[lane], lane_starts[lane + 1]
            # nearest known points before and after; beyond the first and the last known one their width is extrapolated
            before, after = first - 1, first - 1
            for point in range(first, end):
                if not np.isnan(boundaries_m[side, point, 0]):
                    before = point
                    continue
                while after < end and (after < point or np.isnan(boundaries_m[side, after, 0])):
                    after += 1
                if before < first and after == end:
                    break  # this side has no known points
                known = (before if before >= first else after, after if after < end else before)
                # lateral distance and height offset of the boundary at both points, interpolated linearly
                widths_m = np.zeros(2)
                rises_m = np.zeros(2)
                for row in range(2):
                    other = known[row]
                    x_m, y_m = lanes_m[other, 0], lanes_m[other, 1]
                    widths_m[row] = np.hypot(boundaries_m[side, other, 0] - x_m, boundaries_m[side, other, 1] - y_m)
                    rises_m[row] = boundaries_m[side, other, 2] - lanes_m[other, 2]
                part = (point - known[0]) / (known[1] - known[0]) if known[1] > known[0] else 0.0
                width_m = (1 - part) * widths_m[0] + part * widths_m[1]
                rise_m = (1 - part) * rises_m[0] + part * rises_m[1]
                boundaries_m[side, point, 0] = lanes_m[point, 0] - towards * width_m * directions[point, 1]
                boundaries_m[side, point, 1] = lanes_m[point, 1] + towards * width_m * directions[point, 0]
                boundaries_m[side, point, 2] = lanes_m[point, 2] + rise_m
