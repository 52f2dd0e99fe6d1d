"""Places on paths: the pose at a length of a path, where a vehicle is on it, and vehicles followed along routes.

A vehicle that comes onto a path keeps its distance from the line and its heading at first. Both fade over 20 m along a
cubic curve whose ends have the heading of the vehicle and that of the path, so that nothing jumps to the side.
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
"""Length along which a vehicle that is beside its path comes onto it."""

_BACK_M, _ON_M = 10.0, 40.0
_STEEPEST = 1.0
_SAME_LINE_M, _SAME_WAY = 0.25, 0.5
_NEVER = -2


@kernel_jit
def offset_at(driven_m: float, offset_m: float, slope: float, fade_m: float = FADE_M) -> tuple[float, float]:
    """Return how far a vehicle is to the left of its path, and the change of that per metre, after some metres.

    Both fade along ``fade_m``.
    """
    if driven_m >= fade_m:
        return 0.0, 0.0
    # the cubic of Hermite with offset and slope at its begin, 0 and 0 at its end; and its derivative
    part = max(driven_m, 0.0) / fade_m
    left = 1.0 - part
    distance_m = (offset_m * (1.0 + 2.0 * part) + slope * fade_m * part) * left * left
    change = offset_m / fade_m * 6.0 * part * (part - 1.0) + slope * left * (1.0 - 3.0 * part)
    return distance_m, change


@kernel_jit
def line_at(points_m: Float64Array, arc_m: float) -> tuple[float, float, float, float]:
    """Return world x and y of a path at a length, and the unit vector along it, which turns evenly between points."""
    edge = index_along(arc_m, len(points_m) - 2)
    part = arc_m / PATH_STEP_M - edge
    before, after = max(edge - 1, 0), min(edge + 2, len(points_m) - 1)
    step_x, step_y = points_m[edge + 1, 0] - points_m[edge, 0], points_m[edge + 1, 1] - points_m[edge, 1]
    # the direction at a point is from the one before to the one behind it; on an edge that of its ends, by their share
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
        arc_m: Where it is.
        entry_m: Where it came onto the path.
        offset_m: How far it was to the left there.
        slope: Tangent of the angle between its heading and the path there.
    """
    x, y, along_x, along_y = line_at(points_m, arc_m)
    left_m, change = offset_at(arc_m - entry_m, offset_m, slope)
    return x - left_m * along_y, y + left_m * along_x, math.atan2(along_y, along_x) + math.atan(change)


@kernel_jit
def points_around(arc_m: float, num_points: int) -> tuple[int, int]:
    """Return first and end of the points of a path among which a vehicle is looked for that was at a length of it.

    They lie from 10 m behind to 40 m ahead of there, so that a path that comes by the same place twice does not matter.
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
    """Return where on a path a pose is: the length of the path up to there, and offset and slope as in :func:`pose_at`.

    Where the points lie over themselves, as the laps of a roundabout do, it is the first of the places there.

    Args:
        points_m: The path, (p, 2).
        first: First of the points that are looked at.
        stop: End of these points, not included.
        pose: World x, y and yaw.
    """
    x, y, yaw = pose
    nearest, nearest_m2 = first, np.inf
    for point in range(first, stop):
        far_m2 = _squared_m(points_m[point], x, y)
        if far_m2 < nearest_m2:
            nearest, nearest_m2 = point, far_m2
    # points of laps do not coincide: an earlier one is as good if it is nearest around, at most half a step farther,
    # and the path there goes the same way and is as far aside, up to rounded bends
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
    # steps along the direction of the path until the rest is across it, as that direction turns evenly
    arc_m = nearest * PATH_STEP_M
    end_m = (len(points_m) - 1) * PATH_STEP_M
    for _ in range(6):
        line_x, line_y, along_x, along_y = line_at(points_m, arc_m)
        step_m = (x - line_x) * along_x + (y - line_y) * along_y
        arc_m = min(max(arc_m + step_m, -FADE_M), end_m)
    line_x, line_y, along_x, along_y = line_at(points_m, arc_m)
    # a vehicle across its path comes onto it as one turned by 45 degrees
    turn = wrap_angle(yaw - math.atan2(along_y, along_x))
    slope = _STEEPEST if turn > 0 else -_STEEPEST
    if abs(turn) < math.pi / 4:
        slope = math.tan(turn)
    return arc_m, (y - line_y) * along_x - (x - line_x) * along_y, slope


class HasPoints(Protocol):
    """Arrays of lines of points."""

    @property
    def starts(self) -> Int64Array:
        """First of the points of each line and the end of the last one."""

    @property
    def points_m(self) -> Float64Array:
        """The points of all lines."""


class FollowedPlaces:
    """Places on routes of N vehicles that drive, each looked for around where it was in the frame before.

    Args:
        size: N.
    """

    def __init__(self, size: int) -> None:
        self._frames: Int64Array = np.full(size, _NEVER, np.int64)
        self._frames_before: Int64Array = self._frames.copy()
        self._positions: Float64Array = np.zeros((size, 3))
        self._positions_before: Float64Array = np.zeros((size, 3))

    def forget(self, slot: int) -> None:
        """Begin anew with one of the vehicles."""
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
        """Return where vehicles are on their routes, (K, 3), as :func:`follow_routes` writes it.

        One that was asked for in an earlier frame is looked for around where it was then, as far ahead as it may have
        come in the frames since. Asked again in a frame, the answer is the same.

        Args:
            paths: All paths.
            routes: The path of each, -1 for none, (K,).
            slots: Which of the N vehicles they are, (K,).
            frames: The current frame of each, (K,).
            poses: World x, y and yaw, and more, (K, 3 or more).
            first_arcs_m: Length of the path up to about where each is, around which those are looked for that are asked
                for the first time, (K,).
        """
        is_again = self._frames[slots] == frames
        frames_before = np.where(is_again, self._frames_before[slots], self._frames[slots])
        before = np.where(is_again[:, None], self._positions_before[slots], self._positions[slots])
        is_first = (frames_before < 0) | (frames_before > frames)
        positions = before.copy()
        positions[is_first, 0] = first_arcs_m[is_first]

        # a reach for each frame since, as a longer one would find the next lap
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
    """Write where K vehicles are on their routes.

    They are looked for from 10 m behind their last position to 40 m ahead of it, so that a route that comes by the same
    place twice does not matter. Each row depends on nothing but itself.

    Args:
        paths: All paths, such as :class:`l5kit.lanes.lane_paths.LanePaths`.
        routes: The path of each vehicle, -1 for none, int64 (K,).
        poses: World x, y and yaw, and more, metres and radians, float64 (K, 3 or more).
        positions: The last positions, which are changed: length of the path up to the vehicle, how far it is to the
            left of the path, metres, and its heading minus that of the path, radians in [-pi, pi), float64 (K, 3).
            Zeros for vehicles without a path.

    Raises:
        InvalidArgumentError: The shapes do not fit, or ``positions`` is no float64 array that lies in one piece.
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
            f"positions must be float64 and lie in one piece, got {positions.dtype} with strides {positions.strides}; "
            "pass a whole array"
        )
    starts, points_m = as_read_only(paths.starts), as_read_only(paths.points_m)
    poses = as_kernel_array(poses, np.float64)
    _follow(starts, points_m, as_read_only(routes), poses, positions)


@kernel_jit
def _follow(
    starts: Int64Array, points_m: Float64Array, routes: Int64Array, poses: Float64Array, positions: Float64Array
) -> None:
    """Write what :func:`follow_routes` says."""
    for vehicle in range(len(routes)):
        follow_route(starts, points_m, routes[vehicle], poses[vehicle], False, positions[vehicle])


@kernel_jit
def follow_route(
    starts: Int64Array, points_m: Float64Array, route: int, pose: Float64Array, is_new: bool, position: Float64Array
) -> None:
    """Write where one vehicle is on its route; see :func:`follow_routes`.

    Args:
        starts: First of the points of each path and the end of the last one.
        points_m: The points of all paths.
        route: The path of the vehicle, -1 for none.
        pose: World x, y and yaw, and more, (3 or more,).
        is_new: Whether its last place does not count.
        position: The last place, which is changed, (3,).
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
    """Return the length of its path up to each of N tracks in each of its rows, (R,).

    Each row is looked for around the one before, the first one on the whole path; one that is not finite stays where
    the one before was.

    Args:
        starts: First of the points of the path of each track, and the end of the last one, (N + 1,).
        points_m: The points of all paths.
        row_starts: First row of each track and the end of the last one, (N + 1,).
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
