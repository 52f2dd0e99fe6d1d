"""Signal plans of intersections, and the states of their lights over time."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from l5kit._types import Float64Array
from l5kit.synthetic.town_plan import NUM_ARMS, TownPlan, unit_along

RED, YELLOW, GREEN = 0, 1, 2
YELLOW_S = 3.5
ALL_RED_S = 1.0
_LEFT_GREEN_S = 6.0
_HEAD_BEFORE_STOP_LINE_M = 1.0


@dataclass(frozen=True)
class SignalHead:
    """A traffic light with a red, a yellow and a green face for one approach.

    ``timing_s`` is (cycle, start of green, end of green, offset); yellow follows green, the rest of the cycle is red.
    """

    node: int
    arm: int
    is_left: bool
    timing_s: tuple[float, float, float, float]
    position_m: Float64Array


def plan_signals(plan: TownPlan, rng: np.random.Generator) -> list[SignalHead]:
    """Return the heads of all signalised intersections; opposite approaches are green together, crossing ones never."""
    heads: list[SignalHead] = []
    for node, control in enumerate(plan.controls):
        if control != "signal":
            continue
        # Phases, for each pair of opposite arms: protected left turns, if any, then all other movements. Each ends with
        # yellow, followed by red for all.
        greens_s = rng.uniform(8.0, 12.0, size=2)
        phases: list[tuple[int, bool, float]] = []
        for axis in (0, 1):
            if plan.has_protected_left[node]:
                phases.append((axis, True, _LEFT_GREEN_S))
            phases.append((axis, False, float(greens_s[axis])))
        cycle_s = sum(green_s + YELLOW_S + ALL_RED_S for _, _, green_s in phases)
        offset_s = float(rng.uniform(0.0, cycle_s))
        start_s = 0.0
        for axis, is_left, green_s in phases:
            timing_s = (cycle_s, start_s, start_s + green_s, offset_s)
            for arm in plan.arms_of(node):
                if arm % 2 != axis or (is_left and plan.arm_road[node, (arm + 3) % NUM_ARMS] < 0):
                    continue
                # a head is on the far side of the intersection, visible from the approach
                along = unit_along(plan.arm_yaw_rad[node, arm] + np.pi)
                position_m = plan.position_m[node] + (plan.setback_m[node] - _HEAD_BEFORE_STOP_LINE_M) * along
                heads.append(SignalHead(node, arm, is_left, timing_s, position_m))
            start_s += green_s + YELLOW_S + ALL_RED_S
    return heads


@njit(nogil=True, cache=True)
def signal_state(timing_s: Float64Array, time_s: float) -> int:
    """Return RED, YELLOW or GREEN for a head's (cycle, start of green, end of green, offset) at a time."""
    phase_s = (time_s + timing_s[3]) % timing_s[0]
    if timing_s[1] <= phase_s < timing_s[2]:
        return GREEN
    if timing_s[2] <= phase_s < timing_s[2] + YELLOW_S:
        return YELLOW
    return RED


@njit(nogil=True, cache=True)
def red_time_left(timing_s: Float64Array, time_s: float) -> float:
    """Return the number of seconds for which a head stays red, 0 if it is not red."""
    if signal_state(timing_s, time_s) != RED:
        return 0.0
    phase_s = (time_s + timing_s[3]) % timing_s[0]
    return float((timing_s[1] - phase_s) % timing_s[0])
