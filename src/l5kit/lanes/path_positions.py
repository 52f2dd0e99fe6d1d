"""Positions on paths: poses at arc lengths, projection of vehicles onto paths, and tracking along routes.

A vehicle that enters a path initially keeps its offset from the line and its heading. Both fade over 20 m along a cubic
curve that starts with the heading of the vehicle and ends with that of the path, so nothing jumps sideways.
"""

import math
from typing import Protocol

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.data.array_shapes import as_kernel_array, as_read_only
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.relative_pose import wrap_angle
from l5kit.lanes.lane_paths import PATH_STEP_M, index_along

FADE_M = 20.0
"""Distance over which a vehicle next to its path merges onto it."""

_BACK_M, _ON_M = 10.0, 40.0
_MAX_SLOPE = 1.0
_SAME_LINE_M, _SAME_WAY = 0.25, 0.5
_NEVER = -2


@kernel_jit
def offset_at(driven_m: float, offset_m: float, slope: float, fade_m: float = FADE_M) -> tuple[float, float]:
    """Return the offset of a vehicle to the left of its path, and its derivative, after a driven distance.

    Both fade over ``fade_m``.
    """
    if driven_m >= fade_m:
        return 0.0, 0.0
    # cubic Hermite polynomial with offset and slope at its start, 0 and 0 at its end; and its derivative
    part = max(driven_m, 0.0) / fade_m
    left = 1.0 - part
    distance_m = (offset_m * (1.0 + 2.0 * part) + slope * fade_m * part) * left * left
    change = offset_m / fade_m * 6.0 * part * (part - 1.0) + slope * left * (1.0 - 3.0 * part)
    return distance_m, change


@kernel_jit
def line_at(points_m: Float64Array, arc_m: float) -> tuple[float, float, float, float]:
    """Return world x and y of a path at an arc length, and its unit tangent, which turns evenly between points."""
    edge = index_along(arc_m, len(points_m) - 2)
    part = arc_m / PATH_STEP_M - edge
    before, after = max(edge - 1, 0), min(edge + 2, len(points_m) - 1)
    step_x, step_y = points_m[edge + 1, 0] - points_m[edge, 0], points_m[edge + 1, 1] - points_m[edge, 1]
    # the tangent at a point is from the previous to the next point; on an edge it is interpolated between both ends
    weight = min(max(part, 0.0), 1.0)
    along_x = (1 - weight) * (points_m[edge + 1, 0] - points_m[before, 0])
    along_x += weight * (points_m[after, 0] - points_m[edge, 0])
    along_y = (1 - weight) * (points_m[edge + 1, 1] - points_m[before, 1])
    along_y += weight * (points_m[after, 1] - points_m[edge, 1])
    length = max(math.sqrt(along_x * along_x + along_y * along_y), 1e-12)
    return points_m[edge, 0] + part * step_x, points_m[edge, 1] + part * step_y, along_x / length, along_y / length


@kernel_jit
def pose_at(
    points_m: Float64Array, arc_m: float, entry_m: float, offset_m: float, slope: float
) -> tuple[float, float, float]:
    """Return world x, y and yaw of a vehicle on a path.

    Args:
        points_m: The path, (p, 2).
        arc_m: Current arc length.
        entry_m: Arc length at which it entered the path.
        offset_m: Its offset to the left there.
        slope: Tangent of the angle between its heading and the path there.
    """
    x, y, along_x, along_y = line_at(points_m, arc_m)
    left_m, change = offset_at(arc_m - entry_m, offset_m, slope)
    return x - left_m * along_y, y + left_m * along_x, math.atan2(along_y, along_x) + math.atan(change)


@kernel_jit
def points_around(arc_m: float, num_points: int) -> tuple[int, int]:
    """Return start and end of the points of a path to search for a vehicle that was at an arc length.

    They range from 10 m behind to 40 m ahead of it, so that paths may pass the same location twice.
    """
    return index_along(arc_m - _BACK_M, num_points - 1), index_along(arc_m + _ON_M, num_points - 1) + 1


@kernel_jit
def _squared_m(point_m: Float64Array, x: float, y: float) -> float:
    """Return the squared distance of a point (2,) of a path."""
    far_m2: float = (point_m[0] - x) ** 2 + (point_m[1] - y) ** 2
    return far_m2


@kernel_jit
def find_on_path(
    points_m: Float64Array, first: int, stop: int, pose: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Return the position of a pose on a path: arc length, and offset and slope as in :func:`pose_at`.

    If the path overlaps itself, as in laps of a roundabout, the first of the overlapping positions is returned.

    Args:
        points_m: The path, (p, 2).
        first: First of the points to search.
        stop: End of the points to search, exclusive.
        pose: World x, y and yaw.
    """
    x, y, yaw = pose
    nearest, nearest_m2 = first, np.inf
    for point in range(first, stop):
        far_m2 = _squared_m(points_m[point], x, y)
        if far_m2 < nearest_m2:
            nearest, nearest_m2 = point, far_m2
    # Points of laps do not coincide: accept an earlier local minimum that is at most half a step farther, if the path
    # there has the same direction and offset, up to rounded bends.
    most_m2 = (math.sqrt(nearest_m2) + PATH_STEP_M / 2) ** 2
    line_x, line_y, along_x, along_y = line_at(points_m, nearest * PATH_STEP_M)
    aside_m = (y - line_y) * along_x - (x - line_x) * along_y
    for point in range(first, nearest - 1):
        far_m2 = _squared_m(points_m[point], x, y)
        is_after_dip = point > first and _squared_m(points_m[point - 1], x, y) < far_m2
        if far_m2 > most_m2 or is_after_dip or _squared_m(points_m[point + 1], x, y) < far_m2:
            continue
        line_x, line_y, other_x, other_y = line_at(points_m, point * PATH_STEP_M)
        other_m = (y - line_y) * other_x - (x - line_x) * other_y
        if other_x * along_x + other_y * along_y > _SAME_WAY and abs(other_m - aside_m) < _SAME_LINE_M:
            nearest = point
            break
    # iterate along the path direction, which turns evenly, until the remaining distance is perpendicular
    arc_m = nearest * PATH_STEP_M
    end_m = (len(points_m) - 1) * PATH_STEP_M
    for _ in range(6):
        line_x, line_y, along_x, along_y = line_at(points_m, arc_m)
        step_m = (x - line_x) * along_x + (y - line_y) * along_y
        arc_m = min(max(arc_m + step_m, -FADE_M), end_m)
    line_x, line_y, along_x, along_y = line_at(points_m, arc_m)
    # a vehicle across its path enters it like one at 45 degrees
    turn = wrap_angle(yaw - math.atan2(along_y, along_x))
    slope = _MAX_SLOPE if turn > 0 else -_MAX_SLOPE
    if abs(turn) < math.pi / 4:
        slope = math.tan(turn)
    return arc_m, (y - line_y) * along_x - (x - line_x) * along_y, slope


class HasPoints(Protocol):
    """Arrays of polylines."""

    @property
    def starts(self) -> Int64Array:
        """Start of each line in the points, and the end of the last one."""

    @property
    def points_m(self) -> Float64Array:
        """The points of all lines."""


class FollowedPlaces:
    """Tracked positions on routes of N vehicles, each searched around its position in the previous frame.

    Args:
        size: N.
    """

    def __init__(self, size: int) -> None:
        self._frames: Int64Array = np.full(size, _NEVER, np.int64)
        self._frames_before: Int64Array = self._frames.copy()
        self._positions: Float64Array = np.zeros((size, 3))
        self._positions_before: Float64Array = np.zeros((size, 3))

    def forget(self, slot: int) -> None:
        """Reset one of the vehicles."""
        self._frames[slot] = _NEVER

    def follow(
        self,
        paths: HasPoints,
        routes: Int64Array,
        *,
        slots: Int64Array,
        frames: Int64Array,
        poses: Float64Array,
        first_arcs_m: Float64Array,
    ) -> Float64Array:
        """Return the positions of vehicles on their routes, (K, 3), as written by :func:`follow_routes`.

        A vehicle from an earlier frame is searched around its position then, as far ahead as it may have driven since.
        Repeated calls for a frame give the same result.

        Args:
            paths: All paths.
            routes: The path of each vehicle, -1 for none, (K,).
            slots: Index of each among the N vehicles, (K,).
            frames: The current frame of each, (K,).
            poses: World x, y, yaw, and optionally more, (K, 3 or more).
            first_arcs_m: Approximate arc length of each, around which a vehicle without an earlier position is
                searched, (K,).
        """
        is_again = self._frames[slots] == frames
        frames_before = np.where(is_again, self._frames_before[slots], self._frames[slots])
        before = np.where(is_again[:, None], self._positions_before[slots], self._positions[slots])
        is_first = (frames_before < 0) | (frames_before > frames)
        positions = before.copy()
        positions[is_first, 0] = first_arcs_m[is_first]

        # one search per elapsed frame, as a longer reach could find the next lap
        num_reaches = np.where(is_first, 1, frames - frames_before)
        for reach in range(int(num_reaches.max(initial=0))):
            rows = np.flatnonzero(num_reaches > reach)
            result = positions[rows]
            follow_routes(paths, routes[rows], poses[rows], result)
            positions[rows] = result
        self._frames[slots], self._frames_before[slots] = frames, frames_before
        self._positions_before[slots], self._positions[slots] = before, positions
        return positions


def follow_routes(paths: HasPoints, routes: Int64Array, poses: Float64Array, positions: Float64Array) -> None:
    """Write the positions of K vehicles on their routes.

    They are searched from 10 m behind to 40 m ahead of their last position, so that routes may pass the same location
    twice. Each row depends only on itself.

    Args:
        paths: All paths, such as :class:`l5kit.lanes.lane_paths.LanePaths`.
        routes: The path of each vehicle, -1 for none, int64 (K,).
        poses: World x, y, yaw, and optionally more, metres and radians, float64 (K, 3 or more).
        positions: The last positions, updated in place: arc length of the path, offset to the left of the path, metres,
            and heading relative to the path, radians in [-pi, pi), float64 (K, 3). Zeros for vehicles without a path.

    Raises:
        InvalidArgumentError: The shapes do not fit, or ``positions`` is not a contiguous float64 array.
    """
    size = len(routes)
    is_fitting = len(poses) == size and poses.ndim == 2 and poses.shape[1] >= 3
    if not is_fitting or positions.shape != (size, 3):
        raise InvalidArgumentError(
            f"follow_routes: {size} routes need poses ({size}, 3 or more) and positions ({size}, 3), "
            f"got {poses.shape} and {positions.shape}"
        )
    if positions.dtype != np.float64 or not positions.flags.c_contiguous:
        raise InvalidArgumentError(
            f"positions must be float64 and contiguous, got {positions.dtype} with strides {positions.strides}; "
            "pass a whole array"
        )
    starts, points_m = as_read_only(paths.starts), as_read_only(paths.points_m)
    poses = as_kernel_array(poses, np.float64)
    _follow(starts, points_m, as_read_only(routes), poses, positions)


@kernel_jit
def _follow(
    starts: Int64Array, points_m: Float64Array, routes: Int64Array, poses: Float64Array, positions: Float64Array
) -> None:
    """Write the result of :func:`follow_routes`."""
    for vehicle in range(len(routes)):
        follow_route(starts, points_m, routes[vehicle], poses[vehicle], False, positions[vehicle])


@kernel_jit
def follow_route(
    starts: Int64Array, points_m: Float64Array, route: int, pose: Float64Array, is_new: bool, position: Float64Array
) -> None:
    """Write the position of one vehicle on its route; see :func:`follow_routes`.

    Args:
        starts: Start of each path in the points, and the end of the last one.
        points_m: The points of all paths.
        route: The path of the vehicle, -1 for none.
        pose: World x, y, yaw, and optionally more, (3 or more,).
        is_new: Whether to ignore its last position.
        position: The last position, updated in place, (3,).
    """
    if route < 0 or starts[route + 1] - starts[route] < 2:
        position[0], position[1], position[2] = 0.0, 0.0, 0.0
        return
    points = points_m[starts[route] : starts[route + 1]]
    first, stop = 0, len(points)
    if not is_new:
        first, stop = points_around(position[0], stop)
    yaw = pose[2]
    arc_m, offset_m, _ = find_on_path(points, first, stop, (pose[0], pose[1], yaw))
    _, _, along_x, along_y = line_at(points, arc_m)
    turn = wrap_angle(yaw - math.atan2(along_y, along_x))
    position[0], position[1] = arc_m, offset_m
    position[2] = turn if turn < math.pi else -math.pi  # the modulus of a tiny negative number is 2 pi


@kernel_jit
def follow_tracks(
    starts: Int64Array, points_m: Float64Array, row_starts: Int64Array, poses: Float64Array
) -> Float64Array:
    """Return the arc length of each of N tracks on its path in each of its rows, (R,).

    Each row is searched around the previous one, the first row on the whole path; a row that is not finite keeps the
    previous arc length.

    Args:
        starts: Start of the path of each track in the points, and the end of the last one, (N + 1,).
        points_m: The points of all paths.
        row_starts: Start of each track in the rows, and the end of the last one, (N + 1,).
        poses: World x, y and yaw of all rows, (R, 3).
    """
    arcs_m, position = np.zeros(len(poses)), np.zeros(3)
    for track in range(len(row_starts) - 1):
        is_first = True
        position[:] = 0.0
        for row in range(row_starts[track], row_starts[track + 1]):
            if np.isfinite(poses[row]).all():
                follow_route(starts, points_m, track, poses[row], is_first, position)
                is_first = False
            arcs_m[row] = position[0]
    return arcs_m
