"""Details of windows, the input of terms: collisions, lanes, route, red lights, signals; computed on first use."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays
from l5kit.evaluation.driving.collisions import CollisionKind, Collisions, blame, find_kinds
from l5kit.evaluation.driving.comfort import ComfortSignals, find_comfort_signals
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.lane_positions import are_in_junction, are_in_several_lanes
from l5kit.evaluation.driving.map_scores import find_distances_off_road
from l5kit.evaluation.driving.time_to_collision import find_meeting_times
from l5kit.evaluation.epdms.plan_windows import STEP_S, EpdmsParams, PlanWindows, WindowRoutes, steps_of
from l5kit.geometry.box_overlap import box_meets_polygon
from l5kit.lanes.path_positions import follow_route
from l5kit.lanes.red_lights import RED


class _Lights(NamedTuple):
    """The lanes with a yellow or red light in each frame, and the lanes that the red light of each lane closes.

    Attributes:
        starts: First row of each frame and the end of the last one.
        lanes: Lane of each row.
        ranks: Light of each row.
        closed_starts: Start of the closed lanes of each lane, and the end of the last one.
        closed_lanes: The closed lanes.
    """

    starts: Int64Array
    lanes: Int64Array
    ranks: Int64Array
    closed_starts: Int64Array
    closed_lanes: Int64Array


class _Areas(NamedTuple):
    """The areas of lanes.

    Attributes:
        bounds_m: Lowest and highest x and y of each lane, (L, 2, 2).
        points_m: Corners of all lanes, (any, 2).
        starts: First corner of each lane and the end of the last one.
    """

    bounds_m: Float64Array
    points_m: Float64Array
    starts: Int64Array


def find_red_areas(windows: PlanWindows, routes: WindowRoutes) -> BoolArray:
    """Return the states in which the box of the AV meets a lane of its route that a red light closes, (W, T).

    Args:
        windows: The windows.
        routes: Map, routes and lights.
    """
    is_on_red = np.zeros(windows.states.is_there.shape, np.bool_)
    colors, driving_map = routes.colors, routes.driving_map
    if colors is None:
        return is_on_red
    _mark_red(
        windows.states.boxes,
        colors.scene_starts[windows.scenes] + windows.frames,
        _Lights(colors.starts, colors.lanes, colors.ranks, *routes.closed_by_red),
        routes.is_of_route[windows.scenes],
        _Areas(driving_map.grid.bounds_m, driving_map.area_points_m, driving_map.area_starts),
        is_on_red,
    )
    return is_on_red


@kernel_jit
def _mark_red(
    boxes: Float64Array,
    first_frames: Int64Array,
    lights: _Lights,
    is_of_route: BoolArray,
    areas: _Areas,
    is_on_red: BoolArray,
) -> None:
    """Mark the states (W, T) whose boxes meet closed lanes of their routes, (W, L)."""
    for window in range(len(boxes)):
        for step in range(boxes.shape[1]):
            frame, box = first_frames[window] + step, boxes[window, step]
            for row in range(lights.starts[frame], lights.starts[frame + 1]):
                if lights.ranks[row] < RED:
                    continue
                lane = lights.lanes[row]
                for slot in range(lights.closed_starts[lane], lights.closed_starts[lane + 1]):
                    closed = lights.closed_lanes[slot]
                    if is_of_route[window, closed] and _is_on(box, closed, areas):
                        is_on_red[window, step] = True


@kernel_jit
def _is_on(box: Float64Array, lane: int, areas: _Areas) -> bool:
    """Return whether a box meets the area of a lane."""
    # half of length plus width exceeds half the diagonal: rule out lanes beyond this reach
    reach_m = 0.5 * (box[3] + box[4])
    for axis in range(2):
        if box[axis] + reach_m < areas.bounds_m[lane, 0, axis] or box[axis] - reach_m > areas.bounds_m[lane, 1, axis]:
            return False
    return box_meets_polygon(box, areas.points_m[areas.starts[lane] : areas.starts[lane + 1]])


@dataclass(frozen=True, eq=False)
class WindowDetails(ReadOnlyArrays):
    """W windows of T states, and the values that terms need. Rarely needed values are computed for few states only.

    Attributes:
        windows: The windows.
        routes: Map and routes; None without a map.
        params: The thresholds.
        rules: Plans of the rule planner from the same states, for the comparison of progress; None for none.
    """

    windows: PlanWindows
    routes: WindowRoutes | None = None
    params: EpdmsParams = field(default_factory=EpdmsParams)
    rules: "WindowDetails | None" = None

    @property
    def states(self) -> EgoStates:
        """The states of the AV, (W, T)."""
        return self.windows.states

    @property
    def has_route(self) -> BoolArray:
        """Which windows have a route, (W,)."""
        if self.routes is None:
            return np.zeros(len(self.windows), np.bool_)
        return self.routes.paths.has_path[self.windows.scenes]

    @cached_property
    def distances_off_road_m(self) -> Float64Array:
        """Distance of the farthest corner from the road, infinite from half a metre on; 0 without a map, (W, T)."""
        if self.routes is None:
            return np.zeros(self.states.is_there.shape)
        return find_distances_off_road(self.states, self.routes.driving_map)

    @cached_property
    def collisions(self) -> Collisions:
        """Collisions with each row of road users.

        The AV is at fault for lateral collisions if it is in several lanes or off the road.
        """
        kinds = find_kinds(self.states, self.windows.road_users)
        # lateral collisions are rare, so lanes are searched for few frames only
        rows = np.flatnonzero(kinds == CollisionKind.LATERAL)
        is_aside = np.zeros(len(kinds), np.bool_)
        is_aside[rows] = self._are_aside(self.windows.road_users.frames_of_rows[rows])
        return blame(kinds, is_aside)

    @cached_property
    def meeting_times_s(self) -> Float64Array:
        """Time until the AV, extrapolated straight on, meets a road user in its way, infinite for never, (W, T).

        That is a road user ahead of it; or, if it is in several lanes, off the road or in a junction, not behind it.
        """
        is_left_out = (self.collisions.kinds != CollisionKind.NONE) & ~self.collisions.is_at_fault
        looks = np.array([steps_of(each) for each in self.params.looks_s], np.int64)
        ahead_s, around_s = find_meeting_times(
            self.states, self.windows.road_users, is_left_out=is_left_out, looks=looks, step_time_s=STEP_S
        )
        # road users to the side matter only if they are met sooner, so lanes are searched for these frames only
        frames = np.flatnonzero(around_s < ahead_s)
        looks_aside = self._are_aside(frames)
        if self.routes is not None and len(frames):
            rear_axles_m = self.states.rear_axles_m.reshape(-1, 2)[frames]
            looks_aside |= are_in_junction(rear_axles_m, self.routes.driving_map)
        aside = frames[looks_aside]
        ahead_s.reshape(-1)[aside] = around_s.reshape(-1)[aside]
        return ahead_s

    @cached_property
    def is_centre_in_junction(self) -> BoolArray:
        """Whether the centre of the AV is in a lane of a junction, (W, T)."""
        if self.routes is None:
            return np.zeros(self.states.is_there.shape, np.bool_)
        return are_in_junction(self.states.positions_m, self.routes.driving_map)

    @cached_property
    def is_centre_astray(self) -> BoolArray:
        """Whether the centre of the AV is neither on a lane of the route nor on one of a junction, (W, T)."""
        if self.routes is None:
            return np.zeros(self.states.is_there.shape, np.bool_)
        driving_map = self.routes.driving_map
        is_fine = self.routes.is_of_route | driving_map.is_in_junction
        return ~driving_map.hold_tracks(self.states.positions_m, is_fine, self.windows.scenes)

    @property
    def arcs_m(self) -> Float64Array:
        """Arc length of the AV along the route's centre line; 0 without a route, (W, T)."""
        arcs_m: Float64Array = self._route_positions[..., 0]
        return arcs_m

    @property
    def offsets_m(self) -> Float64Array:
        """Offset of the AV to the left of the route's centre line; 0 without a route, (W, T)."""
        offsets_m: Float64Array = self._route_positions[..., 1]
        return offsets_m

    @cached_property
    def signals(self) -> ComfortSignals:
        """Smoothed signals of the windows without their past, (W, T)."""
        return find_comfort_signals(self.states)

    @cached_property
    def signals_with_past(self) -> ComfortSignals:
        """Smoothed signals of the windows with their past, (W, P + T)."""
        return find_comfort_signals(self.windows.with_past)

    @cached_property
    def _route_positions(self) -> Float64Array:
        """Positions of the AVs on their routes, as of :func:`follow_route`, (W, T, 3)."""
        states, windows = self.states, self.windows
        positions = np.zeros((*states.is_there.shape, 3))
        if self.routes is not None:
            paths = self.routes.paths
            poses = np.concatenate([states.positions_m, states.yaws_rad[..., None]], axis=-1)
            _follow_windows(paths.starts, paths.points_m, windows.scenes, poses, windows.arcs_m, positions)
        return positions

    def _are_aside(self, frames: Int64Array) -> BoolArray:
        """Return whether the AV is in several lanes or off the road in the given states of all W * T, (K,)."""
        if self.routes is None or len(frames) == 0:
            return np.zeros(len(frames), np.bool_)
        boxes = self.states.boxes.reshape(-1, 5)[frames]
        is_off: BoolArray = self.distances_off_road_m.reshape(-1)[frames] >= self.params.seam_m
        return is_off | are_in_several_lanes(boxes, self.routes.driving_map)


@kernel_jit
def _follow_windows(
    starts: Int64Array,
    points_m: Float64Array,
    scenes: Int64Array,
    poses: Float64Array,
    arcs_m: Float64Array,
    route_positions: Float64Array,
) -> None:
    """Write the positions of AVs on the routes of their scenes, searching each near the previous one."""
    position = np.zeros(3)
    for window in range(len(poses)):
        is_anywhere = np.isnan(arcs_m[window])
        position[0] = 0.0 if is_anywhere else arcs_m[window]
        for step in range(poses.shape[1]):
            follow_route(starts, points_m, scenes[window], poses[window, step], is_anywhere and step == 0, position)
            route_positions[window, step] = position
