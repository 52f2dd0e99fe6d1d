"""Kept plans: what drivers planned in each step of a batch of scenes, and plans brought to other times."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import Float64Array, FloatArray, Int64Array
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.angle import angular_distance
from l5kit.geometry.transform import round_world
from l5kit.simulation.engine.actions import Actions

_SAME_S = 1e-9


@dataclass(frozen=True, eq=False)
class _Step:
    """Plans (K, T, 3) that some scenes had in some frames, (K,) each, and their times (T,)."""

    scenes: Int64Array
    frames: Int64Array
    times_s: Float64Array
    poses: FloatArray


class KeptPlans:
    """The plans of S scenes of up to F frames, whose lengths and times may differ.

    Args:
        shape: S and F.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._shape = shape
        self._steps: list[_Step] = []

    def keep(self, scenes: Int64Array, frames: Int64Array, actions: Actions, step_time_s: float) -> None:
        """Keep the plans of scenes (K,) in frames (K,); controls are none."""
        if actions.is_plan and len(actions):
            times_s = actions.times_of(step_time_s).copy()
            self._steps.append(_Step(scenes, frames, times_s, round_world(actions.values)))

    def joined(self) -> tuple[FloatArray | None, Float64Array | None]:
        """Return all plans, (S, F, T, 3), and the times of all of them, (T,); None where there are none.

        Plans of other times are brought to these; see :func:`plans_at`. They are float32, or float64 where some are
        beyond what float32 holds.
        """
        if not self._steps:
            return None, None
        times_s = join_times([step.times_s for step in self._steps])
        dtype = np.result_type(*(step.poses for step in self._steps))
        plans = np.full((*self._shape, len(times_s), 3), np.nan, dtype)
        for step in self._steps:
            plans[step.scenes, step.frames] = plans_at(times_s, step.poses, step.times_s)
        return plans, times_s


def join_times(parts: Sequence[Float64Array]) -> Float64Array:
    """Return the times of several plans, each of them once, rising; none where there are no plans."""
    longest = max(parts, key=len, default=np.zeros(0))
    kinds = {part.tobytes(): part for part in parts}.values()
    # plans that differ in their length alone, as those of one planner do, need no other times than the longest has
    if all(_begins_with(longest, part) for part in kinds):
        return longest
    times_s = np.sort(np.concatenate(list(kinds)))
    each_once: Float64Array = times_s[np.concatenate([[True], np.diff(times_s) > _SAME_S])]
    return each_once


def plans_at(times_s: Float64Array, plans: FloatArray, their_times_s: Float64Array) -> FloatArray:
    """Return plans at other times, (K, len(times_s), 3); those that they have are copied.

    Others are interpolated, headings the short way round, and are NaN before the first and behind the last time.

    Args:
        times_s: Rising.
        plans: World poses, NaN where there are none, (K, T, 3).
        their_times_s: Rising, at least one, (T,).
    """
    at = np.full((len(plans), len(times_s), 3), np.nan, plans.dtype)
    if _begins_with(times_s, their_times_s):
        at[:, : len(their_times_s)] = plans
        return at
    after = np.minimum(np.searchsorted(their_times_s, times_s - _SAME_S), len(their_times_s) - 1)
    is_own = np.abs(their_times_s[after] - times_s) <= _SAME_S
    at[:, is_own] = plans[:, after[is_own]]
    between = ~is_own & (times_s > their_times_s[0]) & (times_s < their_times_s[-1])

    # in float64, as float32 would lose the small steps of large world coordinates
    ends, starts = after[between], after[between] - 1
    parts = (times_s[between] - their_times_s[starts]) / (their_times_s[ends] - their_times_s[starts])
    before = plans[:, starts].astype(np.float64)
    changes = plans[:, ends] - before
    changes[..., 2] = angular_distance(changes[..., 2], 0.0)
    at[:, between] = before + parts[:, None] * changes
    return at


def _begins_with(times_s: Float64Array, others_s: Float64Array) -> bool:
    """Return whether times are others, and maybe more behind them."""
    return len(others_s) <= len(times_s) and np.allclose(others_s, times_s[: len(others_s)], rtol=0, atol=_SAME_S)


_TURN_STEPS: Final = 5
"""Steps at the end of a plan whose mean speed and turn it goes on with."""


def reaching_plans(now: Float64Array, plan: Actions, times_s: Float64Array) -> Float64Array:
    """Return plans at times in even steps from 0 on, (R, N + 1, 3), which go on behind their end as they ended.

    Args:
        now: Poses of now, (R, 1, 3).
        plan: The plans.
        times_s: The times, (N + 1,).

    Raises:
        InvalidArgumentError: The plans end before the first step.
    """
    own_s, poses = plan.times_of(float(times_s[1])), plan.values
    if own_s[0] > 0:
        own_s, poses = np.concatenate([[0.0], own_s]), np.concatenate([now, poses], axis=1)

    # steps that the plan reaches itself
    last = int(np.searchsorted(times_s, own_s[-1] * (1 + 1e-9), side="right")) - 1
    if last < 1:
        raise InvalidArgumentError(
            f"times_s of plans end at {own_s[-1]} s; they must reach {times_s[1]} s from now or later"
        )
    reaching = np.empty((len(poses), len(times_s), 3))
    reaching[:, : last + 1] = plans_at(times_s[: last + 1], poses, own_s)

    # the chord of the last steps, turned on by as much in each step
    num_steps = min(last, _TURN_STEPS)
    begin, end = reaching[:, last - num_steps], reaching[:, last]
    turn_rad = angular_distance(end[:, 2], begin[:, 2]) / num_steps
    middle_rad = begin[:, 2] + 0.5 * num_steps * turn_rad
    chord_m = (
        (end[:, 0] - begin[:, 0]) * np.cos(middle_rad) + (end[:, 1] - begin[:, 1]) * np.sin(middle_rad)
    ) / num_steps
    steps = np.arange(1, len(times_s) - last)
    headings_rad = end[:, 2, None] + turn_rad[:, None] * steps
    between_rad = headings_rad - 0.5 * turn_rad[:, None]
    reaching[:, last + 1 :, 0] = end[:, 0, None] + np.cumsum(chord_m[:, None] * np.cos(between_rad), axis=1)
    reaching[:, last + 1 :, 1] = end[:, 1, None] + np.cumsum(chord_m[:, None] * np.sin(between_rad), axis=1)
    reaching[:, last + 1 :, 2] = headings_rad
    return reaching
