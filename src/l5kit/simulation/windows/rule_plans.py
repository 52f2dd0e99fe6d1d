"""Plans of the rule planner from the states of windows, with whose progress plans are compared."""

import numpy as np

from l5kit._types import Float64Array
from l5kit.simulation.drivers.rule_planner import RulePlanner
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.agent_rows import read_agents
from l5kit.simulation.engine.driven_scenes import DrivenScenes
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.vehicle_models import VehicleStates
from l5kit.simulation.windows.drive_windows import WindowStarts
from l5kit.simulation.windows.plan_rollouts import plans_from_now


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
