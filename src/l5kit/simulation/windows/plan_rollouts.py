"""Plans of windows: those of drivers and of the rule planner, and where tracker and bicycle take AVs by them."""

import math
from functools import cache

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.evaluation.driving.ego_states import EgoBody, EgoStates
from l5kit.evaluation.epdms.plan_windows import STEP_S
from l5kit.simulation.drivers import proposal_rollout as rollout
from l5kit.simulation.drivers.proposal_rollout import Tracking, roll_out, tracking_of
from l5kit.simulation.drivers.rule_planner import RulePlanner
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.agent_rows import read_agents
from l5kit.simulation.engine.driven_scenes import DrivenScenes
from l5kit.simulation.engine.kept_plans import reaching_plans
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.trajectory_tracker import TrajectoryTracker
from l5kit.simulation.vehicle_models import VehicleStates
from l5kit.simulation.windows.drive_windows import WindowStarts


def kept_plans_of(
    driven: DrivenScenes, window_starts: WindowStarts, present: VehicleStates, num_steps: int
) -> tuple[Float64Array, Float64Array]:
    """Return the plans of windows in steps from now on, (W, num_steps + 1, 3), and which part is planned, (W,).

    One that ends before goes on with the speed and turn of its end. Where there is none, the AV stays where it is and
    the part is 0.

    Args:
        driven: The scenes.
        window_starts: The windows.
        present: The AVs in their first frames.
        num_steps: Steps of a window.
    """
    plans = np.repeat(_poses_of(present)[:, None], num_steps + 1, axis=1)
    planned = np.zeros(len(window_starts))
    if driven.plans is None or driven.plan_times_s is None:
        return plans, planned
    kept = driven.plans[window_starts.scenes, window_starts.frames].astype(np.float64)
    is_known: BoolArray = np.all(np.isfinite(kept), axis=-1)
    # plans of one kind have the same times, which most often all have
    kinds, kind_of = np.unique(is_known, axis=0, return_inverse=True)
    for number, kind in enumerate(kinds):
        if kind.any():
            of_kind, times_s = np.flatnonzero(kind_of.reshape(-1) == number), driven.plan_times_s[kind]
            actions = Actions(np.ascontiguousarray(kept[of_kind][:, kind]), times_s)
            plans[of_kind] = plans_from_now(present.taken(of_kind), actions, num_steps)
            planned[of_kind] = min(float(times_s[-1]) / (STEP_S * num_steps), 1.0)
    return plans, planned


def plans_from_now(present: VehicleStates, actions: Actions, num_steps: int) -> Float64Array:
    """Return plans of K AVs in steps from now on, (K, num_steps + 1, 3), as windows are rolled out by."""
    return reaching_plans(_poses_of(present)[:, None], actions, STEP_S * np.arange(num_steps + 1.0))


def follow_plans(plans: Float64Array, present: VehicleStates, body: EgoBody) -> EgoStates:
    """Return the states of W AVs that follow plans behind the tracker, (W, T + 1).

    Args:
        plans: World poses of the centres in steps from now on, (W, T + 1, 3).
        present: The AVs now.
        body: Their box.
    """
    # the first states, whose sideways acceleration follows from the steering, as that of all others does
    tracking = _tracking(plans.shape[1] - 1)
    states = np.empty((*plans.shape[:2], rollout.NUM_COLUMNS))
    wheel_base_m = tracking.vehicle[1] * body.length_m
    across_mps2 = present.speeds_mps**2 * np.tan(present.steering_rad) / wheel_base_m
    motion = (present.speeds_mps, present.accelerations_mps2, present.steering_rad, across_mps2)
    states[:, 0] = np.column_stack([_poses_of(present), *motion])
    roll_out(plans, body.length_m, tracking, states)
    times_s = np.broadcast_to(STEP_S * np.arange(states.shape[1]), states.shape[:2])
    return EgoStates(
        timestamps_s=times_s.copy(),
        is_there=np.ones(states.shape[:2], np.bool_),
        positions_m=np.stack([states[..., rollout.X], states[..., rollout.Y]], axis=-1),
        yaws_rad=states[..., rollout.YAW].copy(),
        speeds_mps=np.abs(states[..., rollout.SPEED]),
        accelerations_mps2=np.stack([states[..., rollout.ACCELERATION], states[..., rollout.ACROSS]], axis=-1),
        body=body,
    )


@cache
def _tracking(num_steps: int) -> Tracking:
    """Return the tracker and its bicycle for plans of some steps."""
    tracker = TrajectoryTracker()
    if not math.isclose(tracker.params.step_time_s, STEP_S):
        raise AssertionError("the tracker reads plans in other steps than windows have")
    return tracking_of(tracker, num_steps)


def _poses_of(present: VehicleStates) -> Float64Array:
    """Return the poses of AVs, (K, 3)."""
    return np.column_stack([present.positions_m, present.yaws_rad])


def plan_by_rules(
    driven: DrivenScenes, window_starts: WindowStarts, present: VehicleStates, *, rules: RulePlanner, num_steps: int
) -> Float64Array:
    """Return what the rule planner plans in the first frame of each window, as if it drove from there on.

    Each window is planned by itself; those that begin in the same frame of several scenes are planned together.

    Args:
        driven: The scenes, with the others as they were driven.
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
        # the drivers of simulations see one frame of each scene at a time
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
