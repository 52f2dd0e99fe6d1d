"""Windows of driven scenes: start frames, driven motion, and rolled out plans."""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.evaluation.driving.ego_states import EgoBody, EgoStates
from l5kit.evaluation.epdms.plan_windows import STEP_S, EpdmsParams
from l5kit.simulation.drivers import proposal_scores as proposals
from l5kit.simulation.drivers.rule_planner import RulePlanner
from l5kit.simulation.engine.actions import Actions, reaching_plans
from l5kit.simulation.engine.agent_rows import read_agents
from l5kit.simulation.engine.driven_scenes import DrivenScenes, ScoredDrives
from l5kit.simulation.engine.starting import states_of_poses
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.trajectory_tracker import TrajectoryTracker
from l5kit.simulation.vehicle_models import VehicleStates

MOTION_ARRAYS: Final = ("positions_m", "yaws_rad", "speeds_mps", "accelerations_mps2")
"""The arrays of :class:`EgoStates` that describe the motion of an AV."""


@dataclass(frozen=True, eq=False)
class WindowStarts:
    """Starts of W windows of S scenes of one length, scene by scene, ascending in each.

    Attributes:
        rows: Scene of each window, of S, (W,).
        scenes: The same as an index in the batch, (W,).
        frames: First frame, counted from the start of the simulation, (W,).
        scene_frames: The same, counted in the logged scene, (W,).
        following: Window of the same scene one stride later, -1 for none, (W,).
    """

    rows: Int64Array
    scenes: Int64Array
    frames: Int64Array
    scene_frames: Int64Array
    following: Int64Array

    def __len__(self) -> int:
        return len(self.rows)


def find_window_starts(driven: DrivenScenes, drives: ScoredDrives, params: EpdmsParams) -> WindowStarts:
    """Return all windows of scenes with a complete past and future, one per stride from the start on."""
    num_frames = drives.details.states.is_there.shape[1]
    # the last window ends with the last frame; frames before the simulation may be used as past
    grid = np.arange(0, max(num_frames - params.num_steps, 0), params.num_between)
    starts = driven.batch.starts[drives.scenes]
    rows, columns = np.nonzero(starts[:, None] + grid >= params.num_past)
    frames = grid[columns]
    is_last = np.append(np.diff(rows) != 0, True)[: len(rows)]
    following = np.where(is_last, -1, np.arange(1, len(rows) + 1))
    return WindowStarts(rows, drives.scenes[rows], frames, starts[rows] + frames, following)


def driven_in_all_frames(driven: DrivenScenes, drives: ScoredDrives) -> EgoStates:
    """Return the AV in all frames of S scenes up to the end of the simulation, as logged before its start, (S, any)."""
    states, logged = drives.details.states, driven.batch.logged_motion
    starts, num_frames = driven.batch.starts[drives.scenes], states.is_there.shape[1]
    end = int((starts + num_frames).max())
    arrays = {name: getattr(logged, name)[drives.scenes, :end] for name in ("timestamps_s", *MOTION_ARRAYS)}
    # as driven from the start on
    frames = starts[:, None] + np.arange(num_frames)
    for name in MOTION_ARRAYS:
        arrays[name][np.arange(len(starts))[:, None], frames] = getattr(states, name)
    return replace(logged, is_there=np.arange(end) < (starts + num_frames)[:, None], **arrays)


def present_states(driven: DrivenScenes, whole: EgoStates, window_starts: WindowStarts) -> VehicleStates:
    """Return the AVs in the first frames of windows, with the state of the vehicle model if there is one.

    Args:
        driven: The scenes.
        whole: The AVs in all frames, as :func:`driven_in_all_frames` returns them.
        window_starts: The windows.
    """
    length_m = float(driven.batch.facts.ego_extent_m[0])
    states, _ = states_of_poses(whole, window_starts.rows, window_starts.scene_frames, length_m=length_m)
    if driven.motion is None:
        return states
    return replace(
        states,
        speeds_mps=np.copysign(driven.motion.speeds_mps[window_starts.scenes, window_starts.frames], states.speeds_mps),
        accelerations_mps2=driven.motion.accelerations_mps2[window_starts.scenes, window_starts.frames, 0],
        steering_rad=driven.motion.steering_rad[window_starts.scenes, window_starts.frames],
    )


def with_even_times(states: EgoStates, first: int) -> EgoStates:
    """Return states with times in steps of a window, where 0 is the present; ``first`` is the first step."""
    times_s: Float64Array = STEP_S * np.arange(first, first + states.is_there.shape[1])
    return replace(states, timestamps_s=np.broadcast_to(times_s, states.is_there.shape).copy())


def kept_plans_of(
    driven: DrivenScenes, window_starts: WindowStarts, present: VehicleStates, num_steps: int
) -> tuple[Float64Array, Float64Array]:
    """Return the plans of windows in steps from now on, (W, num_steps + 1, 3), and the planned share of each, (W,).

    Shorter plans are extrapolated with their final speed and turn. Without a plan, the AV stays where it is and the
    share is 0.

    Args:
        driven: The scenes.
        window_starts: The windows.
        present: The AVs in their first frames.
        num_steps: Steps of a window.
    """
    plans = np.repeat(present.poses[:, None], num_steps + 1, axis=1)
    planned = np.zeros(len(window_starts))
    if driven.plans is None or driven.plan_times_s is None:
        return plans, planned
    kept = driven.plans[window_starts.scenes, window_starts.frames].astype(np.float64)
    is_known: BoolArray = np.all(np.isfinite(kept), axis=-1)
    # plans are grouped by their known times, which are mostly the same for all
    kinds, kind_of = np.unique(is_known, axis=0, return_inverse=True)
    for number, kind in enumerate(kinds):
        if kind.any():
            members, times_s = np.flatnonzero(kind_of.reshape(-1) == number), driven.plan_times_s[kind]
            actions = Actions(np.ascontiguousarray(kept[members][:, kind]), times_s)
            plans[members] = plans_from_now(present.taken(members), actions, num_steps)
            planned[members] = min(float(times_s[-1]) / (STEP_S * num_steps), 1.0)
    return plans, planned


def plans_from_now(present: VehicleStates, actions: Actions, num_steps: int) -> Float64Array:
    """Return plans of K AVs in steps from now on, (K, num_steps + 1, 3), for roll-outs of windows."""
    return reaching_plans(present.poses[:, None], actions, STEP_S * np.arange(num_steps + 1.0))


def follow_plans(plans: Float64Array, present: VehicleStates, body: EgoBody) -> EgoStates:
    """Return the states of W AVs that follow plans with the tracker, (W, T + 1).

    Args:
        plans: World poses of the centres in steps from now on, (W, T + 1, 3).
        present: Current states of the AVs.
        body: Their box.
    """
    # initial states, with lateral accelerations derived from the steering, as for all later ones
    tracking = _tracking(plans.shape[1] - 1)
    states = np.empty((*plans.shape[:2], proposals.NUM_STATE_COLUMNS))
    wheel_base_m = tracking.vehicle[1] * body.length_m
    across_mps2 = present.speeds_mps**2 * np.tan(present.steering_rad) / wheel_base_m
    states[:, 0] = np.column_stack([present.positions_m, *present.motions, across_mps2])
    proposals.roll_out(plans, body.length_m, tracking, states)
    times_s = np.broadcast_to(STEP_S * np.arange(states.shape[1]), states.shape[:2])
    return EgoStates(
        timestamps_s=times_s.copy(),
        is_there=np.ones(states.shape[:2], np.bool_),
        positions_m=np.stack([states[..., proposals.X], states[..., proposals.Y]], axis=-1),
        yaws_rad=states[..., proposals.YAW].copy(),
        speeds_mps=np.abs(states[..., proposals.SPEED]),
        accelerations_mps2=np.stack([states[..., proposals.ACCELERATION], states[..., proposals.ACROSS]], axis=-1),
        body=body,
    )


@cache
def _tracking(num_steps: int) -> proposals.Tracking:
    """Return the tracker and its bicycle for plans of ``num_steps`` steps."""
    tracker = TrajectoryTracker()
    if not math.isclose(tracker.params.step_time_s, STEP_S):
        raise AssertionError("the tracker reads plans in other steps than windows have")
    return proposals.tracking_of(tracker, num_steps)


def plan_by_rules(
    driven: DrivenScenes, window_starts: WindowStarts, present: VehicleStates, *, rules: RulePlanner, num_steps: int
) -> Float64Array:
    """Return the plans of the rule planner in the first frame of each window, as if it started there.

    Windows are planned independently; those with the same start frame in several scenes are planned together.

    Args:
        driven: The scenes, with the other road users as driven.
        window_starts: The windows.
        present: The AVs in their first frames.
        rules: The planner.
        num_steps: Steps of a window.

    Returns:
        World poses in steps from now on, (W, num_steps + 1, 3).
    """
    plans = np.empty((len(window_starts), num_steps + 1, 3))
    memory: dict[str, object] = {}
    for frame in np.unique(window_starts.frames).tolist():
        # drivers see one frame of each scene at a time
        windows = np.flatnonzero(window_starts.frames == frame)
        scenes, now = window_starts.scenes[windows], window_starts.scene_frames[windows]
        egos, buffer, batch = present.taken(windows), driven.buffer, driven.batch
        records = buffer.frames[buffer.scene_starts[scenes] + now]
        state = TrafficState(
            batch=batch,
            scenes=scenes,
            frame_indices=now,
            step_time_s=batch.facts.step_time_s,
            ego=egos,
            agents=read_agents(buffer.agents, records, batch.tracks, scenes, batch.threshold),
            actors=None,
            actor_states=egos,
            memory=memory,
            buffer=buffer,
        )
        planned = rules.plan_anew(state)
        actions = Actions(planned, rules.times_s[1 : planned.shape[1] + 1])
        plans[windows] = plans_from_now(egos, actions, num_steps)
    return plans
