"""Plans at even times of any length: those that end before go on with the speed and turn of their end."""

from typing import Final

import numpy as np

from l5kit._types import Float64Array
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.angle import angular_distance
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.kept_plans import plans_at

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
