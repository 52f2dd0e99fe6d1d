"""Kinematic baselines: where agents get to if they go on as they do now; every model has to beat them.

:func:`baseline_displacements` can be compiled by TorchScript.
"""

from typing import Final, Literal, TypeAlias

import torch

from l5kit.kinematic.constant_velocity import current_velocities, displacements_at_constant_velocity
from l5kit.kinematic.motion_fit import displacements_of_motion, fit_motion

Baseline: TypeAlias = Literal["constant_velocity", "ctrv", "ctra"]

BASELINES: Final[tuple[Baseline, ...]] = ("constant_velocity", "ctrv", "ctra")
"""Constant velocity, constant turn rate and velocity, constant turn rate and acceleration."""

BASELINE_TITLES: Final[dict[str, str]] = {"constant_velocity": "constant velocity", "ctrv": "CTRV", "ctra": "CTRA"}
"""What people read."""


def baseline_displacements(
    baseline: str,
    positions: torch.Tensor,
    yaws: torch.Tensor,
    is_known: torch.Tensor,
    *,
    num_steps: int,
    step_time_s: float,
    past_step_time_s: float,
) -> torch.Tensor:
    """Return how far agents get, (..., num_steps, 2) in metres from where they are now.

    Constant velocity is that between the current position and the nearest earlier one that is known. The others are
    fitted to the whole past, see :func:`l5kit.kinematic.motion_fit.fit_motion`.

    Args:
        baseline: One of ``BASELINES``.
        positions: Past positions in metres, the current one first, (..., H + 1, 2), H >= 1.
        yaws: Headings at these in radians, (..., H + 1).
        is_known: Where they are known, bool (..., H + 1).
        num_steps: Steps ahead; the first is one step from now.
        step_time_s: Seconds between two steps ahead.
        past_step_time_s: Seconds between two past ones.
    """
    if baseline == "constant_velocity":
        velocities_mps = current_velocities(positions, is_known, past_step_time_s)
        return displacements_at_constant_velocity(velocities_mps, num_steps, step_time_s)
    motion = fit_motion(positions, yaws, is_known, past_step_time_s, baseline == "ctra")
    return displacements_of_motion(motion, num_steps, step_time_s)
