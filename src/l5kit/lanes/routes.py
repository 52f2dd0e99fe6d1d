"""Routes of AVs: logged lanes with widths, lights and bend speeds along them, and positions of AVs on them."""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array, RecordArray
from l5kit.data.growing_array import GrowingArray
from l5kit.data.index.windows import Windows
from l5kit.data.map.bounds_grid import GridArrays
from l5kit.geometry.polygon import project_on_line
from l5kit.geometry.transform import rotations33_as_yaws
from l5kit.lanes.lane_choice import LaneArrays, choose_lane, lane_arrays
from l5kit.lanes.lane_paths import PATH_STEP_M, TrackPoses, make_lane_paths, piece_at, write_highest_speeds
from l5kit.lanes.path_positions import FollowedPlaces, follow_route, follow_tracks, line_at
from l5kit.lanes.route_map import RouteMap

FASTEST_BEND_MPS = 50.0
"""Speed in samples if no bend limits it, metres per second."""

_LATERAL_MPS2, _BRAKING_MPS2 = 3.0, 1.5
_FARTHEST_M = 30.0


class RouteArrays(NamedTuple):
    """N routes for kernels: paths as in :class:`~l5kit.lanes.lane_paths.LanePaths`, with widths and speeds.

    Attributes:
        starts: Start of each route in the points, and the end of the last one, int64 (N + 1,).
        points_m: World x and y, 2 m apart along the route, float64 (P, 2).
        bend_speeds_mps: Highest speed at a point because of bends at and after it, float64 (P,).
        widths_m: Distance to the left and to the right edge of the lane that contains each point, at least 0, float64
            (P, 2).
        lengths_m: Length of each route, 0 for none, float64 (N,).
        piece_starts: Start of each route in the pieces, and the end of the last one, int64 (N + 1,).
        piece_arcs_m: Arc length of the route at which each piece begins, float64 (Q,).
        piece_lanes: Lane of each piece, int64 (Q,).
        line_lanes: Lanes whose red light has its stop line at the start of the piece, -1 for none, int64 (Q, 2).
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


class WindowRoutes(NamedTuple):
    """The routes of B windows, for kernels.

    Attributes:
        arrays: Routes, including those of the windows.
        rows: The route of each window, int64 (B,).
        arcs_m: Approximate arc length of the AV on its route, the start of the search, float64 (B,).
    """

    arrays: RouteArrays
    rows: Int64Array
    arcs_m: Float64Array


class RoutePlace(NamedTuple):
    """Position of a road user on a route.

    Attributes:
        arc_m: Arc length of the route.
        left_m: Offset to the left of the route.
        turn_rad: Heading relative to the route, in [-pi, pi).
    """

    arc_m: float
    left_m: float
    turn_rad: float


class _Tracks(NamedTuple):
    """Poses of AVs: start of each track, with the end of the last one, and world x, y and yaw, float64 (R, 3)."""

    starts: Int64Array
    poses: Float64Array


@dataclass(frozen=True, kw_only=True)
class RoutedWindows(Windows):
    """Windows of AVs with known routes.

    Attributes:
        routes: Their routes.
    """

    routes: WindowRoutes

    def taken(self, windows: Int64Array | BoolArray) -> "RoutedWindows":
        """Return some of the windows; rows and routes are shared, everything else is copied."""
        arrays, rows, arcs_m = self.routes
        return _with_routes(super().taken(windows), WindowRoutes(arrays, rows[windows], arcs_m[windows]))


@kernel_jit
def find_on_route(routes: WindowRoutes, window: int, pose: Float64Array) -> tuple[bool, RoutePlace]:
    """Return whether the target of a window has a route at most 30 m away, and its position on it.

    Args:
        routes: The routes of the windows.
        window: The window.
        pose: World x, y and yaw of the target, (3,).
    """
    starts, route, position = routes.arrays.starts, routes.rows[window], np.zeros(3)
    if starts[route + 1] - starts[route] < 2:
        return False, RoutePlace(0.0, 0.0, 0.0)
    position[0] = routes.arcs_m[window]
    follow_route(starts, routes.arrays.points_m, route, pose, False, position)
    # beyond the ends of a route, the nearest point of its line may be far away
    x, y, _, _ = line_at(routes.arrays.points_m[starts[route] : starts[route + 1]], position[0])
    is_near = math.sqrt((pose[0] - x) ** 2 + (pose[1] - y) ** 2) <= _FARTHEST_M
    return is_near, RoutePlace(position[0], position[1], position[2])


class RouteSource(Protocol):
    """Provides the routes of the AVs of scenes."""

    def of_log(self, windows: Windows, scenes: Int64Array, frames: Int64Array) -> RoutedWindows:
        """Return windows of scenes (B,) and frames (B,), relative to the scenes, with their routes."""


class SceneRoutes:
    """The routes of the AVs of the scenes of a log, each computed on first use. Thread-safe.

    A route is the one used by scores and the intelligent driver: the lanes that the AV takes in the log, then the
    straightest ones. It begins at the first frame in which the AV is on a lane, and does not depend on the timing of
    the AV.

    Args:
        frames_of: Returns the frames of a scene, ``FRAME_DTYPE``.
        num_scenes: Number of scenes.
        route_map: The lanes.
        step_time_s: Time between two frames.

    Attributes:
        route_map: The lanes.
    """

    def __init__(
        self,
        frames_of: Callable[[int], RecordArray],
        num_scenes: int,
        *,
        route_map: RouteMap,
        step_time_s: float,
    ) -> None:
        self._frames_of, self.route_map, self._step_time_s = frames_of, route_map, float(step_time_s)
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
        """Return the routes so far, and the row of each of some scenes (B,) in them."""
        with self._lock:
            unknown = np.unique(scenes[self._rows[scenes] < 0])
            if len(unknown):
                self._add(unknown)
            return RouteArrays(**{name: part.read() for name, part in self._parts.items()}), self._rows[scenes]

    def of_log(self, windows: Windows, scenes: Int64Array, frames: Int64Array) -> RoutedWindows:
        """Return windows of the log with their routes.

        Args:
            windows: Windows of scenes (B,) and frames (B,), relative to the scenes.
            scenes: The scenes.
            frames: The frames.
        """
        routes, rows = self.find(scenes)
        starts, arcs_m = self._frame_starts.read(), self._frame_arcs_m.read()
        of_frames = np.minimum(starts[rows] + frames, starts[rows + 1] - 1)  # after the log, use its last frame
        return _with_routes(windows, WindowRoutes(routes, rows, arcs_m[of_frames]))

    def _add(self, scenes: Int64Array) -> None:
        """Compute the routes of new scenes."""
        # poses of the AVs, one track per scene
        frames = [self._frames_of(scene) for scene in scenes.tolist()]
        positions_m = np.concatenate([np.zeros((0, 2)), *(each["ego_translation"][:, :2] for each in frames)])
        yaws_rad = np.concatenate([np.zeros(0), *(rotations33_as_yaws(each["ego_rotation"]) for each in frames)])
        bounds = np.cumsum([0, *map(len, frames)], dtype=np.int64)
        tracks = _Tracks(bounds, np.column_stack([positions_m, yaws_rad]))

        # paths begin where the AV first is on a lane, and ignore poses that are not finite
        driving = self.route_map.driving
        lanes, grid = lane_arrays(driving), driving.lane_grid.arrays
        counts = np.diff(tracks.starts)
        firsts = _find_first_rows_on_lanes(tracks, lanes, grid)
        is_kept = np.arange(len(tracks.poses)) >= np.repeat(firsts, counts)
        is_kept &= np.isfinite(tracks.poses).all(axis=1)
        starts = np.concatenate([[0], np.cumsum(is_kept)])[tracks.starts].astype(np.int64)
        poses, durations_s = tracks.poses[is_kept], np.maximum(counts - 1, 0) * self._step_time_s
        kept = TrackPoses(starts, poses[:, :2].copy(), poses[:, 2].copy(), durations_s)
        paths = make_lane_paths(kept, driving)

        # speeds and widths at the points of the routes
        speeds_mps = np.empty(len(paths.points_m))
        write_highest_speeds(paths.arrays, _LATERAL_MPS2, _BRAKING_MPS2, False, speeds_mps)
        routes = RouteArrays(
            starts=paths.starts,
            points_m=paths.points_m,
            bend_speeds_mps=np.minimum(speeds_mps, FASTEST_BEND_MPS),
            widths_m=np.empty((len(paths.points_m), 2)),
            lengths_m=paths.lengths_m,
            piece_starts=paths.piece_starts,
            piece_arcs_m=paths.piece_arcs_m,
            piece_lanes=paths.piece_lanes,
            line_lanes=paths.line_lanes,
        )
        _write_widths(routes, lanes, grid, self.route_map.half_widths_m)

        # append, shifting starts by the existing number of rows
        for name, rows in routes._asdict().items():
            known = self._parts[name]
            known.extend(known.read()[-1] + rows[1:] if name in ("starts", "piece_starts") else rows)
        self._frame_arcs_m.extend(follow_tracks(routes.starts, routes.points_m, tracks.starts, tracks.poses))
        self._frame_starts.extend(self._frame_starts.read()[-1] + tracks.starts[1:])
        self._rows[scenes] = self._num_routes + np.arange(len(scenes))
        self._num_routes += len(scenes)


class FollowedRoutes:
    """Routes of scenes that are simulated, with the last positions of their AVs; queried frame by frame.

    Args:
        routes: The logged routes.
        scenes: The scene of each of N slots, (N,); samples name scenes by slots.
        first_frames: The frame of its scene at which each slot starts, (N,).

    Attributes:
        route_map: The lanes.
    """

    def __init__(self, routes: SceneRoutes, scenes: Int64Array, first_frames: Int64Array) -> None:
        self._routes, self.route_map = routes, routes.route_map
        self._scenes, self._first_frames = scenes.copy(), first_frames.copy()
        self._followed = FollowedPlaces(len(scenes))

    @classmethod
    def of_scenes(
        cls, frames: Sequence[RecordArray], *, first_frame: int, route_map: RouteMap, step_time_s: float
    ) -> "FollowedRoutes":
        """Return the routes of scenes given by their frames, one slot per scene, all starting at the same frame."""
        routes = SceneRoutes(frames.__getitem__, len(frames), route_map=route_map, step_time_s=step_time_s)
        return cls(routes, np.arange(len(frames)), np.full(len(frames), first_frame))

    def __deepcopy__(self, memo: dict[int, object]) -> "FollowedRoutes":
        """Return the object itself: repeated queries for a frame start from the same earlier positions."""
        return self

    def begin(self, slot: int, scene: int, first_frame: int) -> None:
        """Restart a slot with a scene, at one of its frames."""
        self._scenes[slot], self._first_frames[slot] = scene, first_frame
        self._followed.forget(slot)

    def of_log(self, windows: Windows, slots: Int64Array, frames: Int64Array) -> RoutedWindows:
        """Return windows with their routes, like :meth:`SceneRoutes.of_log`; AVs may deviate from the log.

        In the first queried frame, an AV is searched around its logged position.

        Args:
            windows: Windows of slots (B,) and frames (B,), relative to the slots.
            slots: The slots.
            frames: The frames.
        """
        logged = self._routes.of_log(windows, self._scenes[slots], self._first_frames[slots] + frames)
        routes, rows, logged_arcs_m = logged.routes
        current = windows.current_frames
        poses = np.column_stack(
            [current["ego_translation"][:, :2].astype(np.float64), rotations33_as_yaws(current["ego_rotation"])]
        )
        positions = self._followed.follow(
            routes, rows, slots=slots, frames=frames, poses=poses, first_arcs_m=logged_arcs_m
        )
        return _with_routes(windows, WindowRoutes(routes, rows, positions[:, 0].copy()))


@dataclass(frozen=True, eq=False)
class LaterRoutes:
    """Routes of simulated scenes for windows of arrays that have dropped the first frames of the slots.

    Attributes:
        followed: The routes.
        first_frames: The first frame of each of N slots in these arrays, (N,).
    """

    followed: FollowedRoutes
    first_frames: Int64Array

    def of_log(self, windows: Windows, slots: Int64Array, frames: Int64Array) -> RoutedWindows:
        """Return windows with their routes; ``frames`` are relative to the first ones."""
        return self.followed.of_log(windows, slots, frames + self.first_frames[slots])


def _with_routes(windows: Windows, routes: WindowRoutes) -> RoutedWindows:
    return RoutedWindows(
        windows.frames,
        windows.counts,
        windows.agents,
        windows.tl_faces,
        windows.num_history,
        windows.ego_extent_m,
        routes=routes,
    )


@kernel_jit
def _find_first_rows_on_lanes(tracks: _Tracks, lanes: LaneArrays, grid: GridArrays) -> Int64Array:
    """Return the first row of each track that is on a lane, or its first row if there is none."""
    firsts = tracks.starts[:-1].copy()
    for track in range(len(firsts)):
        for row in range(tracks.starts[track], tracks.starts[track + 1]):
            pose = tracks.poses[row]
            if np.isfinite(pose).all() and choose_lane(lanes, grid, -1, pose[:2], pose[2]) >= 0:
                firsts[track] = row
                break
    return firsts


@kernel_jit
def _write_widths(routes: RouteArrays, lanes: LaneArrays, grid: GridArrays, half_widths_m: Float64Array) -> None:
    """Write the distances from each point of routes to the lane edges on the left and right, 0 beyond an edge.

    The lane is that of the piece. In the first half of a lane change the route is not in it yet: there the lane is used
    that a vehicle at the point would be on.
    """
    starts = routes.starts
    for route in range(len(starts) - 1):
        piece = routes.piece_starts[route]
        points_m, lane = routes.points_m[starts[route] : starts[route + 1]], -1
        for row in range(len(points_m)):
            piece = piece_at(routes, route, piece, row * PATH_STEP_M)
            before, lane = lane, routes.piece_lanes[piece]
            left_m, right_m = _edges_beside(lanes.centre_lines_m[lane], half_widths_m[lane], points_m[row])
            if min(left_m, right_m) < 0:
                _, _, along_x, along_y = line_at(points_m, row * PATH_STEP_M)
                other = choose_lane(lanes, grid, before, points_m[row], math.atan2(along_y, along_x))
                if other >= 0:
                    other_left_m, other_right_m = _edges_beside(
                        lanes.centre_lines_m[other], half_widths_m[other], points_m[row]
                    )
                    if min(other_left_m, other_right_m) > min(left_m, right_m):
                        lane, left_m, right_m = other, other_left_m, other_right_m
            # a point in a gap between lanes counts as on the edge of its corridor
            widths_m = routes.widths_m[starts[route] + row]
            widths_m[0], widths_m[1] = max(left_m, 0.0), max(right_m, 0.0)


@kernel_jit
def _edges_beside(line: Float64Array, half_widths_m: Float64Array, point_m: Float64Array) -> tuple[float, float]:
    """Return the distances from a point to the left and right edge of a lane, negative beyond an edge."""
    # the offset is the cross product of the edge with the vector to the point, divided by the length of the edge
    edge, part = project_on_line(line, point_m)
    along_x, along_y = line[edge + 1, 0] - line[edge, 0], line[edge + 1, 1] - line[edge, 1]
    length_m = max(math.sqrt(along_x * along_x + along_y * along_y), 1e-12)
    offset_m = ((point_m[1] - line[edge, 1]) * along_x - (point_m[0] - line[edge, 0]) * along_y) / length_m
    half_m = (1.0 - part) * half_widths_m[edge] + part * half_widths_m[edge + 1]
    return half_m - offset_m, half_m + offset_m
