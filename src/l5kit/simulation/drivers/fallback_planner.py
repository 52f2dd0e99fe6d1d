"""Planner with a fallback: any planner drives as long as its plan has no fault, and rules drive else."""

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from l5kit._types import BoolArray
from l5kit.data.read_only_views import behind_view
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.drivers.rule_planner import RulePlanner
from l5kit.simulation.engine.actions import Actions, Controls, reaching_plans
from l5kit.simulation.engine.asking import ask
from l5kit.simulation.engine.traffic_state import Driver, TrafficState

_MEMORY: Final = "planner with a fallback"


@dataclass(frozen=True)
class FallbackPlanner:
    """Planner of AVs that lets another one drive as long as its plans have no fault by the scores of rules.

    In each step the plan is rolled out for 4 s as :class:`RulePlanner` rolls out its own: where it collides at fault,
    leaves the road, has a road user ahead within the time to collision or passes a red line, the plan of the rules is
    driven. A tracker goes some metres beyond the end of a plan that stops, so that late stops are overruled, too. The
    rules also drive where an AV hardly moves for ten frames (below 1 m/s), its plans take it less than half as far as
    theirs would in 4 s, and these have no fault: they start it, and drive on until the plans of the planner go farther.
    A plan that ends before is scored as if it went on with the speed and turn of its end, as trackers do.

    Actions say for each AV which of both drives (``is_fallback``), and are plans in steps of 0.1 s up to 4 s ahead.
    Errors of the planner stay errors, and plans that are not finite are left to the engine, as without a fallback.

    Attributes:
        planner: Drives AVs; it has a memory of its own.
        rules: Judges its plans, and drives else.
        controls: How the actions of a planner that gives controls become poses; None for one that plans poses. Controls
            count as a plan to hold them (:meth:`Controls.plan`) and then to keep speed and turn.
    """

    planner: Driver
    rules: RulePlanner = field(default_factory=RulePlanner)
    controls: Controls | None = None

    def drive(self, state: TrafficState) -> Actions:
        """Return the plan of each AV: world poses in steps of 0.1 s from 0.1 to 4 s ahead, (R, 40, 3).

        Raises:
            InvalidArgumentError: It is used for agents, the planner gives controls without their model, or its plans
                end before 0.1 s.
        """
        state = behind_view(state)
        if state.actors is not None:
            raise InvalidArgumentError("FallbackPlanner drives AVs only; agents can have an IntelligentDriver")
        actions = ask(self.planner, replace(state, memory=state.memory.setdefault(_MEMORY, {})))
        if not actions.is_plan:
            # rules judge poses only: where the controls lead that are held
            if self.controls is None:
                raise InvalidArgumentError(
                    f"planner {type(self.planner).__name__} gives controls {actions.values.shape}; say with controls "
                    "of which vehicle model, or plan poses (K, T, 3)"
                )
            actions = self.controls.plan(state.ego, actions, step_time_s=state.step_time_s)
        # what is not finite is judged as if it stood, and told to the engine afterwards
        is_broken: BoolArray = np.any(~np.isfinite(actions.values), axis=(1, 2))
        now = state.ego.poses[:, None]
        values = np.where(is_broken[:, None, None], now, actions.values)
        times_s = self.rules.times_s
        given = reaching_plans(now, Actions(values, actions.times_of(state.step_time_s)), times_s)
        plans, is_fallback = self.rules.overrule(state, given)
        plans[is_broken], is_fallback[is_broken] = np.nan, False
        return Actions(plans, times_s[1 : plans.shape[1] + 1], is_fallback)
