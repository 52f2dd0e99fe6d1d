"""What terms look at: collisions, places on lanes and on the route, lights, signals; each found at its first use."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays
from l5kit.evaluation.driving.collisions import CollisionKind, Collisions, blame, find_kinds
from l5kit.evaluation.driving.comfort import ComfortSignals, find_comfort_signals
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.lane_positions import are_in_junction, are_in_several_lanes
from l5kit.evaluation.driving.map_scores import find_distances_off_road
from l5kit.evaluation.driving.time_to_collision import find_meeting_times
from l5kit.evaluation.epdms.params import STEP_S, EpdmsParams, steps_of
from l5kit.evaluation.epdms.plan_windows import PlanWindows, WindowRoutes
from l5kit.lanes.path_positions import follow_route


@dataclass(frozen=True, eq=False)
class WindowDetails(ReadOnlyArrays):
    """W windows of T states, and what is found of them. What is asked of few states is found of these alone.

    Attributes:
        windows: The windows.
        routes: Map and routes; None without a map.
        params: The thresholds.
    """

    windows: PlanWindows
    routes: WindowRoutes | None = None
    params: EpdmsParams = field(default_factory=EpdmsParams)

    @property
    def states(self) -> EgoStates:
        """The AV, (W, T)."""
        return self.windows.states

    @property
    def has_route(self) -> BoolArray:
        """Which windows have a route, (W,)."""
        if self.routes is None:
            return np.zeros(len(self.windows), np.bool_)
        return self.routes.paths.has_path[self.windows.scenes]

    @cached_property
    def distances_off_road_m(self) -> Float64Array:
        """How far the farthest corner is from the road, infinite from half a metre on; 0 without a map, (W, T)."""
        if self.routes is None:
            return np.zeros(self.states.is_there.shape)
        return find_distances_off_road(self.states, self.routes.driving_map)

    @cached_property
    def collisions(self) -> Collisions:
        """What became of each row of the others.

        The AV is to blame for those to its side where it is in several lanes or off the road.
        """
        kinds = find_kinds(self.states, self.windows.road_users)
        # who is hit from the side is rare, and so are the frames of which it is asked where the AV is
        rows = np.flatnonzero(kinds == CollisionKind.LATERAL)
        is_aside = np.zeros(len(kinds), np.bool_)
        is_aside[rows] = self._are_aside(self.windows.road_users.frames_of_rows[rows])
        return blame(kinds, is_aside)

    @cached_property
    def meeting_times_s(self) -> Float64Array:
        """After what time the AV, moved straight on, meets others who are in its way, infinite for never, (W, T).

        They are ahead of it; or, where it is in several lanes, off the road or in a junction, not behind it.
        """
        is_left_out = (self.collisions.kinds != CollisionKind.NONE) & ~self.collisions.is_at_fault
        looks = np.array([steps_of(each) for each in self.params.looks_s], np.int64)
        times = find_meeting_times(
            self.states, self.windows.road_users, is_left_out=is_left_out, looks=looks, step_time_s=STEP_S
        )
        # those to its sides matter only where they are met sooner, and so only there it is asked where the AV is
        times_s = times.ahead_s.copy()
        frames = np.flatnonzero(times.around_s < times.ahead_s)
        looks_aside = self._are_aside(frames)
        if self.routes is not None and len(frames):
            rear_axles_m = self.states.rear_axles_m.reshape(-1, 2)[frames]
            looks_aside |= are_in_junction(rear_axles_m, self.routes.driving_map)
        by_frame = times_s.reshape(-1)
        by_frame[frames[looks_aside]] = times.around_s.reshape(-1)[frames[looks_aside]]
        return times_s

    @cached_property
    def is_centre_in_junction(self) -> BoolArray:
        """Whether a lane of a junction holds the centre of the AV, (W, T)."""
        if self.routes is None:
            return np.zeros(self.states.is_there.shape, np.bool_)
        return are_in_junction(self.states.positions_m, self.routes.driving_map)

    @cached_property
    def is_centre_astray(self) -> BoolArray:
        """Whether the centre of the AV is on no lane of the route and on none of a junction, (W, T)."""
        if self.routes is None:
            return np.zeros(self.states.is_there.shape, np.bool_)
        driving_map = self.routes.driving_map
        is_fine = self.routes.is_of_route | driving_map.is_in_junction
        return ~driving_map.hold_tracks(self.states.positions_m, is_fine, self.windows.scenes)

    @property
    def arcs_m(self) -> Float64Array:
        """Length of the route's centre line up to the AV; 0 without a route, (W, T)."""
        arcs_m: Float64Array = self._route_positions[..., 0]
        return arcs_m

    @property
    def offsets_m(self) -> Float64Array:
        """How far the AV is to the left of the route's centre line; 0 without a route, (W, T)."""
        offsets_m: Float64Array = self._route_positions[..., 1]
        return offsets_m

    @cached_property
    def signals(self) -> ComfortSignals:
        """Smoothed signals of the windows alone, (W, T)."""
        return find_comfort_signals(self.states)

    @cached_property
    def signals_with_past(self) -> ComfortSignals:
        """Smoothed signals of the windows with their past, (W, P + T)."""
        return find_comfort_signals(self.windows.with_past)

    @cached_property
    def _route_positions(self) -> Float64Array:
        """Where on their routes AVs are, as :func:`follow_route` says, (W, T, 3)."""
        states, windows = self.states, self.windows
        positions = np.zeros((*states.is_there.shape, 3))
        if self.routes is not None:
            paths = self.routes.paths
            poses = np.concatenate([states.positions_m, states.yaws_rad[..., None]], axis=-1)
            _follow_windows(paths.starts, paths.points_m, windows.scenes, poses, windows.arcs_m, positions)
        return positions

    def _are_aside(self, frames: Int64Array) -> BoolArray:
        """Return whether the AV is in several lanes or off the road in some of the W * T states, (K,)."""
        if self.routes is None or len(frames) == 0:
            return np.zeros(len(frames), np.bool_)
        boxes = self.states.boxes.reshape(-1, 5)[frames]
        is_off: BoolArray = self.distances_off_road_m.reshape(-1)[frames] >= self.params.seam_m
        return is_off | are_in_several_lanes(boxes, self.routes.driving_map)


@njit(nogil=True, cache=True, error_model="numpy")
def _follow_windows(
    starts: Int64Array,
    points_m: Float64Array,
    scenes: Int64Array,
    poses: Float64Array,
    arcs_m: Float64Array,
    route_positions: Float64Array,
) -> None:
    """Write the positions of AVs on the routes of their scenes, each state looked for around the one before."""
    position = np.zeros(3)
    for window in range(len(poses)):
        is_anywhere = np.isnan(arcs_m[window])
        position[0] = 0.0 if is_anywhere else arcs_m[window]
        for step in range(poses.shape[1]):
            follow_route(starts, points_m, scenes[window], poses[window, step], is_anywhere and step == 0, position)
            route_positions[window, step] = position
