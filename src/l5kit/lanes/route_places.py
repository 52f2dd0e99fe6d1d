"""Places of vehicles on their routes, followed from step to step."""

import math
from typing import Protocol

import numpy as np
from numba import njit

from l5kit._types import Float64Array, Int64Array
from l5kit.data.array_shapes import as_kernel_array, as_read_only
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.relative_pose import wrap_angle
from l5kit.lanes.path_places import find_place, line_at, points_around

__all__ = ["FollowedPlaces", "HasPoints", "follow_route", "follow_routes", "follow_tracks"]

_NEVER = -2


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
        self._places: Float64Array = np.zeros((size, 3))
        self._places_before: Float64Array = np.zeros((size, 3))

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
        before = np.where(is_again[:, None], self._places_before[slots], self._places[slots])
        is_first = (frames_before < 0) | (frames_before > frames)
        places = before.copy()
        places[is_first, 0] = first_arcs_m[is_first]

        # a reach for each frame since, as a longer one would find the next lap
        num_reaches = np.where(is_first, 1, frames - frames_before)
        for reach in range(int(num_reaches.max(initial=0))):
            rows = np.flatnonzero(num_reaches > reach)
            found = places[rows]
            follow_routes(paths, routes[rows], poses[rows], found)
            places[rows] = found
        self._frames[slots], self._frames_before[slots] = frames, frames_before
        self._places_before[slots], self._places[slots] = before, places
        return places


def follow_routes(paths: HasPoints, routes: Int64Array, poses: Float64Array, places: Float64Array) -> None:
    """Write where K vehicles are on their routes.

    They are looked for from 10 m behind their last place to 40 m ahead of it, so that a route that comes by the same
    place twice does not matter. Each row depends on nothing but itself.

    Args:
        paths: All paths, such as :class:`l5kit.lanes.lane_paths.LanePaths`.
        routes: The path of each vehicle, -1 for none, int64 (K,).
        poses: World x, y and yaw, and more, metres and radians, float64 (K, 3 or more).
        places: The last places, which are changed: length of the path up to the vehicle and how far it is to the left
            of the path, metres, and its heading minus that of the path, radians in [-pi, pi), float64 (K, 3). Zeros for
            vehicles without a path.

    Raises:
        InvalidArgumentError: The shapes do not fit, or ``places`` is no float64 array that lies in one piece.
    """
    size = len(routes)
    is_fitting = len(poses) == size and poses.ndim == 2 and poses.shape[1] >= 3
    if not is_fitting or places.shape != (size, 3):
        raise InvalidArgumentError(
            f"follow_routes: {size} routes need poses ({size}, 3 or more) and places ({size}, 3), "
            f"got {poses.shape} and {places.shape}"
        )
    if places.dtype != np.float64 or not places.flags.c_contiguous:
        raise InvalidArgumentError(
            f"places must be float64 and lie in one piece, got {places.dtype} with strides {places.strides}; pass a "
            "whole array"
        )
    starts, points_m = as_read_only(paths.starts), as_read_only(paths.points_m)
    poses = as_kernel_array(poses, np.float64)
    _follow(starts, points_m, as_read_only(routes), poses, places)


@njit(nogil=True, cache=True, error_model="numpy")
def _follow(
    starts: Int64Array, points_m: Float64Array, routes: Int64Array, poses: Float64Array, places: Float64Array
) -> None:
    """Write what :func:`follow_routes` says."""
    for vehicle in range(len(routes)):
        follow_route(starts, points_m, routes[vehicle], poses[vehicle], False, places[vehicle])


@njit(nogil=True, cache=True, error_model="numpy")
def follow_route(
    starts: Int64Array, points_m: Float64Array, route: int, pose: Float64Array, is_new: bool, place: Float64Array
) -> None:
    """Write where one vehicle is on its route; see :func:`follow_routes`.

    Args:
        starts: First of the points of each path and the end of the last one.
        points_m: The points of all paths.
        route: The path of the vehicle, -1 for none.
        pose: World x, y and yaw, and more, (3 or more,).
        is_new: Whether its last place does not count.
        place: The last place, which is changed, (3,).
    """
    if route < 0 or starts[route + 1] - starts[route] < 2:
        place[0], place[1], place[2] = 0.0, 0.0, 0.0
        return
    points = points_m[starts[route] : starts[route + 1]]
    first, stop = 0, len(points)
    if not is_new:
        first, stop = points_around(place[0], stop)
    yaw = pose[2]
    arc_m, offset_m, _ = find_place(points, first, stop, (pose[0], pose[1], yaw))
    _, _, along_x, along_y = line_at(points, arc_m)
    turn = wrap_angle(yaw - math.atan2(along_y, along_x))
    place[0], place[1] = arc_m, offset_m
    place[2] = turn if turn < math.pi else -math.pi  # the modulus of a tiny negative number is 2 pi


@njit(nogil=True, cache=True, error_model="numpy")
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
    arcs_m, place = np.zeros(len(poses)), np.zeros(3)
    for track in range(len(row_starts) - 1):
        is_first = True
        place[:] = 0.0
        for row in range(row_starts[track], row_starts[track + 1]):
            if np.isfinite(poses[row]).all():
                follow_route(starts, points_m, track, poses[row], is_first, place)
                is_first = False
            arcs_m[row] = place[0]
    return arcs_m
