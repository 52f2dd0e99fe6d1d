"""Scores of windows of driven scenes: their plans are rolled out and scored together."""

from dataclasses import replace

import numpy as np

from l5kit._types import Int64Array
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.road_users import RoadUsers
from l5kit.evaluation.driving.scene_score import WindowScores
from l5kit.evaluation.driving.scene_states import read_road_users
from l5kit.evaluation.epdms.details import WindowDetails
from l5kit.evaluation.epdms.plan_windows import EpdmsParams, PlanWindows, WindowRoutes, bounds_of_meetings
from l5kit.evaluation.epdms.terms import TERMS, score_windows
from l5kit.lanes.lane_paths import make_lane_paths
from l5kit.lanes.path_positions import follow_tracks
from l5kit.lanes.route_map import mark_route_lanes
from l5kit.simulation.drivers.rule_planner import RulePlanner
from l5kit.simulation.engine.driven_scenes import DrivenScenes, ScoredDrives
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.starting import logged_states
from l5kit.simulation.lanes.track_poses import poses_of_avs
from l5kit.simulation.windows.drive_windows import (
    MOTION_ARRAYS,
    WindowStarts,
    driven_in_all_frames,
    find_window_starts,
    follow_plans,
    kept_plans_of,
    plan_by_rules,
    present_states,
    with_even_times,
)


def score_windows_of(
    driven: DrivenScenes,
    drives: ScoredDrives,
    *,
    params: EpdmsParams | None = None,
    rules: RulePlanner | None = None,
) -> WindowScores:
    """Return the scores of the windows of scenes that were driven to their end.

    A window is the plan of a frame, followed by tracker and bicycle, among the other road users as simulated; without a
    plan it is the motion as driven.

    Args:
        driven: The scenes, with plans. Their frames are 0.1 s apart.
        drives: The scenes to score, all of one length, with the true boxes of others.
        params: Selection of windows, and thresholds; those of NAVSIM v2 by default.
        rules: Rule planner whose progress is the reference; None if the plans are its own.
    """
    params = EpdmsParams() if params is None else params
    window_starts = find_window_starts(driven, drives, params)
    if len(window_starts) == 0:
        none, rows = np.zeros(0), np.zeros(0, np.int64)
        return WindowScores(rows, rows, none, none, {term.name: none for term in TERMS})
    # common to all compared motions: other road users, past, routes
    body, num_steps = driven.batch.body, params.num_steps
    whole = driven_in_all_frames(driven, drives)
    present = present_states(driven, whole, window_starts)
    around = _Surroundings(
        params,
        window_starts,
        drives.details.road_users,
        past=whole.windows(window_starts.rows, window_starts.scene_frames - params.num_past, params.num_past),
        driven=drives.details.states,
        scenes=drives.scenes,
        routes=driven.batch.once(_routes_of),
    )
    # motion by the plan, or as driven if there is none
    plans, planned = kept_plans_of(driven, window_starts, present, num_steps)
    as_driven = with_even_times(whole.windows(window_starts.rows, window_starts.scene_frames, num_steps + 1), 0)
    states, has_plan = follow_plans(plans, present, body), planned > 0
    arrays = {}
    for name in MOTION_ARRAYS:
        values = getattr(states, name)
        is_planned = has_plan.reshape(-1, *[1] * (values.ndim - 1))
        arrays[name] = np.where(is_planned, values, getattr(as_driven, name))
    states = replace(states, **arrays)
    # plans of the rule planner from the same states
    compared = None
    if rules is not None:
        rule_plans = plan_by_rules(driven, window_starts, present, rules=rules, num_steps=num_steps)
        compared = around.details_of(follow_plans(rule_plans, present, body))
    return score_windows(
        around.details_of(states),
        rules=compared,
        human=_details_of_log(driven, drives, around),
        scenes=window_starts.rows,
        frames=window_starts.frames,
        planned=planned,
    )


class _Surroundings:
    """Surroundings of the AVs of W windows, independent of their motion.

    Args:
        params: The thresholds.
        window_starts: The windows.
        road_users: Other road users in all frames of the scenes.
        past: The AVs in the frames before the windows, (W, P).
        driven: The AVs in all frames of the S scenes, (S, F).
        scenes: Indices of the scenes in the batch, (S,).
        routes: Map and routes; None without a map.
    """

    def __init__(
        self,
        params: EpdmsParams,
        window_starts: WindowStarts,
        road_users: RoadUsers,
        *,
        past: EgoStates,
        driven: EgoStates,
        scenes: Int64Array,
        routes: WindowRoutes | None,
    ) -> None:
        self.params, self.window_starts, self.road_users, self.routes = params, window_starts, road_users, routes
        self._past = with_even_times(past, -params.num_past)
        self._first_frames = window_starts.rows * driven.is_there.shape[1] + window_starts.frames

        # arc lengths of the AVs on their routes, tracked through all frames, as routes may cross themselves
        shape, arcs_m = driven.is_there.shape, np.zeros(driven.is_there.shape)
        if routes is not None:
            counts = np.zeros(len(routes.paths), np.int64)
            counts[scenes] = shape[1]
            poses = np.concatenate([driven.positions_m, driven.yaws_rad[..., None]], axis=-1).reshape(-1, 3)
            paths, starts = routes.paths, np.concatenate([[0], np.cumsum(counts)])
            arcs_m = follow_tracks(paths.starts, paths.points_m, starts, poses).reshape(shape)
        self._arcs_m = arcs_m[window_starts.rows, window_starts.frames]

    def details_of(self, states: EgoStates) -> WindowDetails:
        """Return the windows for given states of the AVs, (W, T)."""
        window_starts, ahead_s = self.window_starts, max(self.params.looks_s)
        bounds_m = bounds_of_meetings(states, ahead_s)
        windows = PlanWindows(
            states=states,
            past=self._past,
            road_users=self.road_users.windows(self._first_frames, states.is_there.shape[1], bounds_m),
            scenes=window_starts.scenes,
            frames=window_starts.scene_frames,
            arcs_m=self._arcs_m,
            following=window_starts.following,
        )
        return WindowDetails(windows, self.routes, self.params)


def _details_of_log(driven: DrivenScenes, drives: ScoredDrives, around: _Surroundings) -> WindowDetails:
    """Return the windows in which the AVs follow the log with the same tracker, among the logged other road users."""
    batch, window_starts, params = driven.batch, around.window_starts, around.params
    logged, num_steps = batch.logged_motion, params.num_steps
    scenes, frames = window_starts.scenes, window_starts.scene_frames
    planned = logged.windows(scenes, frames, num_steps + 1)
    plans = np.concatenate([planned.positions_m, planned.yaws_rad[..., None]], axis=-1)
    present, _ = logged_states(batch, scenes, frames)

    # logged boxes of the others; the simulated ones are the same if no driver moved any of them
    road_users = drives.details.road_users
    was_driven = np.isin(drives.scenes, batch.tracks.scenes_of_tracks[driven.was_driven])
    if was_driven.any():
        flags = zip(drives.scenes.tolist(), was_driven.tolist(), drives.arrays, strict=True)
        arrays = [batch.arrays[scene] if was_moved else seen for scene, was_moved, seen in flags]
        road_users = read_road_users(arrays, threshold=batch.threshold)
    around_log = _Surroundings(
        params,
        window_starts,
        road_users,
        past=logged.windows(scenes, frames - params.num_past, params.num_past),
        driven=drives.details.expert,
        scenes=drives.scenes,
        routes=around.routes,
    )
    return around_log.details_of(follow_plans(plans, present, batch.body))


def _routes_of(batch: SceneBatch) -> WindowRoutes | None:
    """Return the routes of the AVs of a batch along their logged lanes; None without a map."""
    driving_map = batch.driving_map
    if batch.road is None or driving_map is None or driving_map.num_lanes == 0:
        return None
    paths = make_lane_paths(poses_of_avs(batch), driving_map)
    return WindowRoutes(driving_map, paths, mark_route_lanes(paths, driving_map), batch.colors)
