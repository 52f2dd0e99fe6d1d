"""Routes of AVs: the lanes that logs take, with what holds along them, and where on them AVs are."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array, RecordArray
from l5kit.data.growing_array import GrowingArray
from l5kit.data.map.bounds_grid import GridArrays
from l5kit.data.windows import Windows
from l5kit.geometry.line import project_on_line
from l5kit.geometry.transform import rotations33_as_yaws
from l5kit.lanes.highest_speeds import write_highest_speeds
from l5kit.lanes.lane_choice import LaneArrays, choose_lane, lane_arrays
from l5kit.lanes.lane_paths import PATH_STEP_M, LanePaths, TrackPoses, make_lane_paths
from l5kit.lanes.route_map import RouteMap
from l5kit.lanes.route_places import FollowedPlaces, follow_route

__all__ = [
    "FASTEST_BEND_MPS",
    "FollowedRoutes",
    "RouteArrays",
    "RouteSource",
    "RoutedWindows",
    "SceneRoutes",
    "find_on_route",
]

FASTEST_BEND_MPS = 50.0
"""Speed that samples tell of where no bend makes slower, metres per second."""

_LATERAL_MPS2, _BRAKING_MPS2 = 3.0, 1.5
_FARTHEST_M = 30.0


class RouteArrays(NamedTuple):
    """N routes as kernels take them: the paths of :class:`~l5kit.lanes.lane_paths.LanePaths`, and what holds on them.

    Attributes:
        starts: First of the points of each route and the end of the last one, int64 (N + 1,).
        points_m: World x and y, 2 m apart along the route, float64 (P, 2).
        bend_speeds_mps: How fast the bends at a point and behind it allow to be there, float64 (P,).
        widths_m: Distance to the left and to the right edge of the lane at each point, float64 (P, 2).
        lengths_m: Length of each route, 0 for none, float64 (N,).
        piece_starts: First of the pieces of each route and the end of the last one, int64 (N + 1,).
        piece_arcs_m: Length of the route at which each piece begins, float64 (Q,).
        piece_lanes: Lane of each piece, int64 (Q,).
        line_lanes: Lanes whose red light stops before the piece, -1 for none, int64 (Q, 2).
    """

    starts: Int64Array
    points_m: Float64Array
    bend_speeds_mps: Float64Array
    widths_m: Float64Array
    lengths_m: Float64Array
    piece_starts: Int64Array
    piece_arcs_m: Float64Array
    piece_lanes: Int64Array
    line_lanes: Int64Array


@dataclass(frozen=True, kw_only=True)
class RoutedWindows(Windows):
    """Windows of AVs whose routes are known.

    Attributes:
        routes: Routes, among them those of the windows.
        route_rows: The route of each window, int64 (B,).
        route_arcs_m: Length of the route up to about where the AV is, from which it is looked for, float64 (B,).
    """

    routes: RouteArrays
    route_rows: Int64Array
    route_arcs_m: Float64Array

    def taken(self, windows: Int64Array | BoolArray) -> "RoutedWindows":
        """Return some of the windows, copies but for rows and routes."""
        return _with_routes(super().taken(windows), self.routes, self.route_rows[windows], self.route_arcs_m[windows])


@njit(nogil=True, cache=True, error_model="numpy")
def find_on_route(routes: RouteArrays, route: int, from_m: float, pose: Float64Array, place: Float64Array) -> bool:
    """Write where on its route a target is; return False if it has none, or is more than 30 m beside it.

    Args:
        routes: Routes.
        route: The route.
        from_m: Length of the route around which the target is looked for.
        pose: World x, y and yaw of the target, (3,).
        place: Takes length of the route, metres to the left of it, and heading minus that of the route, (3,).
    """
    if routes.starts[route + 1] - routes.starts[route] < 2:
        return False
    place[0] = from_m
    follow_route(routes.starts, routes.points_m, route, pose, False, place)
    return bool(abs(place[1]) <= _FARTHEST_M)


class RouteSource(Protocol):
    """Knows the routes of the AVs of scenes."""

    def of_log(self, windows: Windows, scenes: Int64Array, frames: Int64Array) -> RoutedWindows:
        """Return windows of scenes (B,) and frames (B,), counted in the scenes, with their routes."""


class SceneRoutes:
    """The routes of the AVs of the scenes of a log, each found when it is first asked for. Threads may share it.

    A route is the one that scores and the intelligent driver follow: the lanes that the AV takes in the log, then the
    straightest ones. It begins with the first frame in which the AV is on a lane. Nothing of it depends on when the AV
    is where.

    Args:
        frames_of: Returns the frames of a scene, ``FRAME_DTYPE``.
        num_scenes: Number of scenes.
        route_map: The lanes.
        step_time_s: Time between two frames.
    """

    def __init__(
        self,
        frames_of: Callable[[int], RecordArray],
        num_scenes: int,
        *,
        route_map: RouteMap,
        step_time_s: float,
    ) -> None:
        self._frames_of, self._map, self._step_time_s = frames_of, route_map, step_time_s
        self._lock = threading.Lock()
        self._rows: Int64Array = np.full(num_scenes, -1, np.int64)
        self._num_routes = 0
        self._parts = {
            "starts": GrowingArray(np.int64, first=0),
            "points_m": GrowingArray(np.float64, (2,)),
            "bend_speeds_mps": GrowingArray(np.float64),
            "widths_m": GrowingArray(np.float64, (2,)),
            "lengths_m": GrowingArray(np.float64),
            "piece_starts": GrowingArray(np.int64, first=0),
            "piece_arcs_m": GrowingArray(np.float64),
            "piece_lanes": GrowingArray(np.int64),
            "line_lanes": GrowingArray(np.int64, (2,)),
        }
        self._frame_starts = GrowingArray(np.int64, first=0)
        self._frame_arcs_m = GrowingArray(np.float64)

    def find(self, scenes: Int64Array) -> tuple[RouteArrays, Int64Array]:
        """Return routes, and which of them are those of scenes (B,)."""
        with self._lock:
            unknown = np.unique(scenes[self._rows[scenes] < 0])
            if len(unknown):
                self._add(unknown)
            return RouteArrays(**{name: part.read() for name, part in self._parts.items()}), self._rows[scenes]

    def of_log(self, windows: Windows, scenes: Int64Array, frames: Int64Array) -> RoutedWindows:
        """Return windows of the log with their routes.

        Args:
            windows: Of scenes (B,) and frames (B,), counted in the scenes.
            scenes: The scenes.
            frames: The frames.
        """
        routes, rows = self.find(scenes)
        starts, arcs_m = self._frame_starts.read(), self._frame_arcs_m.read()
        return _with_routes(windows, routes, rows, arcs_m[starts[rows] + frames])

    def _add(self, scenes: Int64Array) -> None:
        """Find the routes of scenes that are not known yet."""
        frames = [self._frames_of(scene) for scene in scenes.tolist()]
        poses = _poses_of(frames, self._step_time_s)
        firsts = np.empty(len(frames), np.int64)
        driving = self._map.driving
        lanes, grid = lane_arrays(driving), driving.lane_grid.arrays
        _find_first_rows_on_lanes(poses.starts, poses.positions_m, poses.yaws_rad, lanes, grid, firsts)
        paths = make_lane_paths(_from_rows(poses, firsts), driving)
        speeds_mps, widths_m = np.empty(len(paths.points_m)), np.empty((len(paths.points_m), 2))
        write_highest_speeds(paths.arrays, _LATERAL_MPS2, _BRAKING_MPS2, False, speeds_mps)
        _write_widths(
            paths.starts,
            paths.points_m,
            paths.piece_starts,
            paths.piece_arcs_m,
            paths.piece_lanes,
            driving.centre_lines_m,
            self._map.half_widths_m,
            widths_m,
        )
        self._keep(paths, np.minimum(speeds_mps, FASTEST_BEND_MPS), widths_m)
        self._frame_arcs_m.extend(_follow_frames(paths, poses))
        self._frame_starts.extend(self._frame_starts.read()[-1] + poses.starts[1:])
        self._rows[scenes] = self._num_routes + np.arange(len(scenes))
        self._num_routes += len(scenes)

    def _keep(self, paths: LanePaths, bend_speeds_mps: Float64Array, widths_m: Float64Array) -> None:
        of_points = {"points_m": paths.points_m, "bend_speeds_mps": bend_speeds_mps, "widths_m": widths_m}
        of_pieces = {name: getattr(paths, name) for name in ("piece_arcs_m", "piece_lanes", "line_lanes")}
        for name, starts, values in (
            ("starts", paths.starts, of_points),
            ("piece_starts", paths.piece_starts, of_pieces),
        ):
            known = self._parts[name]
            known.extend(known.read()[-1] + starts[1:])
            for key, rows in values.items():
                self._parts[key].extend(rows)
        self._parts["lengths_m"].extend(paths.lengths_m)


class FollowedRoutes:
    """Routes of scenes that are driven, and where on them their AVs were last; asked from frame to frame.

    Args:
        routes: The routes as logged.
        scenes: The scene of each of N slots, (N,); slots are how samples name scenes.

    Attributes:
        scenes: As above; may be changed where another scene begins in a slot.
    """

    def __init__(self, routes: SceneRoutes, scenes: Int64Array) -> None:
        self._routes = routes
        self.scenes = scenes
        self._followed = FollowedPlaces(len(scenes))

    def __deepcopy__(self, memo: dict[int, object]) -> "FollowedRoutes":
        """Return itself: asked again in a frame, it starts from what it knew before."""
        return self

    def of_log(self, windows: Windows, slots: Int64Array, frames: Int64Array) -> RoutedWindows:
        """Return windows with their routes, as :meth:`SceneRoutes.of_log`; AVs may be elsewhere than in the log.

        Args:
            windows: Of slots (B,) and frames (B,), counted in their scenes.
            slots: The slots.
            frames: The frames.
        """
        routes, rows = self._routes.find(self.scenes[slots])
        current = windows.current_frames
        poses = np.column_stack(
            [current["ego_translation"][:, :2].astype(np.float64), rotations33_as_yaws(current["ego_rotation"])]
        )
        places = self._followed.follow(routes, rows, slots=slots, frames=frames, poses=poses)
        return _with_routes(windows, routes, rows, places[:, 0].copy())


def _with_routes(windows: Windows, routes: RouteArrays, rows: Int64Array, arcs_m: Float64Array) -> RoutedWindows:
    return RoutedWindows(
        windows.frames,
        windows.counts,
        windows.agents,
        windows.tl_faces,
        windows.num_history,
        windows.ego_extent_m,
        routes=routes,
        route_rows=rows,
        route_arcs_m=arcs_m,
    )


def _poses_of(scenes: list[RecordArray], step_time_s: float) -> TrackPoses:
    """Return the poses of the AVs of scenes, a track for each."""
    counts = np.array([len(frames) for frames in scenes], np.int64)
    positions_m = [frames["ego_translation"][:, :2] for frames in scenes]
    yaws_rad = [rotations33_as_yaws(frames["ego_rotation"]) for frames in scenes]
    return TrackPoses(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate([np.zeros((0, 2)), *positions_m]),
        np.concatenate([np.zeros(0), *yaws_rad]),
        np.maximum(counts - 1, 0) * float(step_time_s),
    )


def _from_rows(poses: TrackPoses, firsts: Int64Array) -> TrackPoses:
    """Return tracks from some of their rows on."""
    counts = poses.starts[1:] - firsts
    kept = np.arange(len(poses.yaws_rad)) >= np.repeat(firsts, np.diff(poses.starts))
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return TrackPoses(starts, poses.positions_m[kept], poses.yaws_rad[kept], poses.durations_s)


def _follow_frames(paths: LanePaths, poses: TrackPoses) -> Float64Array:
    """Return the length of the route up to the AV in each frame, (F,)."""
    places = np.zeros((len(poses.yaws_rad), 3))
    _follow_tracks(
        paths.starts,
        paths.points_m,
        poses.starts,
        np.column_stack([poses.positions_m, poses.yaws_rad]),
        places,
    )
    return places[:, 0].copy()


@njit(nogil=True, cache=True, error_model="numpy")
def _find_first_rows_on_lanes(
    starts: Int64Array,
    positions_m: Float64Array,
    yaws_rad: Float64Array,
    lanes: LaneArrays,
    grid: GridArrays,
    firsts: Int64Array,
) -> None:
    """Write the first row of each track that is on a lane, the first of all where none is."""
    for track in range(len(firsts)):
        firsts[track] = starts[track]
        for row in range(starts[track], starts[track + 1]):
            if choose_lane(lanes, grid, -1, positions_m[row], yaws_rad[row]) >= 0:
                firsts[track] = row
                break


@njit(nogil=True, cache=True, error_model="numpy")
def _write_widths(
    starts: Int64Array,
    points_m: Float64Array,
    piece_starts: Int64Array,
    piece_arcs_m: Float64Array,
    piece_lanes: Int64Array,
    centre_lines_m: Float64Array,
    half_widths_m: Float64Array,
    widths_m: Float64Array,
) -> None:
    """Write how far the edges of the lane are to the left and right of each point of routes, (P, 2).

    In a lane change the route lies beside the centre line, and nearer to one edge.
    """
    for route in range(len(starts) - 1):
        piece, stop = piece_starts[route], piece_starts[route + 1]
        for point in range(starts[route], starts[route + 1]):
            while piece + 1 < stop and piece_arcs_m[piece + 1] <= (point - starts[route]) * PATH_STEP_M:
                piece += 1
            lane = piece_lanes[piece]
            line, x, y = centre_lines_m[lane], points_m[point, 0], points_m[point, 1]
            edge, part = project_on_line(line, points_m[point])
            along_x, along_y = line[edge + 1, 0] - line[edge, 0], line[edge + 1, 1] - line[edge, 1]
            length_m = max(math.sqrt(along_x * along_x + along_y * along_y), 1e-12)
            offset_m = ((y - line[edge, 1]) * along_x - (x - line[edge, 0]) * along_y) / length_m
            half_m = (1.0 - part) * half_widths_m[lane, edge] + part * half_widths_m[lane, edge + 1]
            widths_m[point, 0], widths_m[point, 1] = half_m - offset_m, half_m + offset_m


@njit(nogil=True, cache=True, error_model="numpy")
def _follow_tracks(
    starts: Int64Array, points_m: Float64Array, row_starts: Int64Array, poses: Float64Array, places: Float64Array
) -> None:
    """Write where each track is on its route in each of its rows, (M, 3), each looked for around the one before."""
    for track in range(len(row_starts) - 1):
        for row in range(row_starts[track], row_starts[track + 1]):
            is_first = row == row_starts[track]
            if not is_first:
                places[row] = places[row - 1]
            follow_route(starts, points_m, track, poses[row], is_first, places[row])
