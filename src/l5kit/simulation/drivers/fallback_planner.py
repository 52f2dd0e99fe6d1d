"""Planner with a fallback: drives the plan of any planner if it passes the rules, else a rule-based plan."""

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
    """Planner of AVs that checks the plans of another planner, and replaces faulty ones by rule-based plans.

    In each step the plan is rolled out for 4 s like the proposals of :class:`RulePlanner`. If it collides at fault,
    leaves the road, has a road user ahead within the time to collision or passes a red line, the rule-based plan is
    driven. A tracker overshoots the end of a stopping plan by some metres, so late stops are overruled, too. The rules
    also take over if an AV hardly moves for ten frames (below 1 m/s), its plan covers less than half the distance of
    the rule-based one in 4 s, and the latter has no fault: they start the AV, and drive until plans of the planner go
    farther. A plan shorter than 4 s is scored as if it continued with its final speed and turn rate, as trackers do.

    The actions state for each AV which of the two drives (``is_fallback``), and are plans in steps of 0.1 s up to 4 s
    ahead. Errors of the planner are not caught, and plans that are not finite are passed on to the engine, as without a
    fallback.

    Attributes:
        planner: Driver of AVs; it has a separate memory.
        rules: Checks its plans, and provides the fallback.
        controls: Conversion of actions into poses for a planner of controls; None for one that plans poses. Controls
            count as a plan to hold them (:meth:`Controls.plan`) and then to keep speed and turn rate.
    """

    planner: Driver
    rules: RulePlanner = field(default_factory=RulePlanner)
    controls: Controls | None = None

    def drive(self, state: TrafficState) -> Actions:
        """Return the plan of each AV: world poses in steps of 0.1 s from 0.1 to 4 s ahead, (R, 40, 3).

        Raises:
            InvalidArgumentError: The driver is used for agents, the planner gives controls but ``controls`` is None, or
                its plans end before 0.1 s.
        """
        state = behind_view(state)
        if state.actors is not None:
            raise InvalidArgumentError("FallbackPlanner drives AVs only; agents can have an IntelligentDriver")
        actions = ask(self.planner, replace(state, memory=state.memory.setdefault(_MEMORY, {})))
        if not actions.is_plan:
            # the rules check poses only, so controls are rolled out as held
            if self.controls is None:
                raise InvalidArgumentError(
                    f"planner {type(self.planner).__name__} gives controls {actions.values.shape}; pass controls with "
                    "their vehicle model, or plan poses (K, T, 3)"
                )
            actions = self.controls.plan(state.ego, actions, step_time_s=state.step_time_s)
        # plans that are not finite are checked as if standing, and passed on to the engine afterwards
        is_broken: BoolArray = np.any(~np.isfinite(actions.values), axis=(1, 2))
        now = state.ego.poses[:, None]
        values = np.where(is_broken[:, None, None], now, actions.values)
        times_s = self.rules.times_s
        given = reaching_plans(now, Actions(values, actions.times_of(state.step_time_s)), times_s)
        plans, is_fallback = self.rules.overrule(state, given)
        plans[is_broken], is_fallback[is_broken] = np.nan, False
        return Actions(plans, times_s[1 : plans.shape[1] + 1], is_fallback)
