"""Going on as fast, and in the same direction, as now.

The functions can be compiled by TorchScript.
"""

import torch


def current_velocities(positions: torch.Tensor, is_known: torch.Tensor, step_time_s: float) -> torch.Tensor:
    """Return velocities (..., 2) in m/s: from the nearest known earlier position to this one, over the time between.

    A velocity is 0 where no earlier position, or not the current one, is known.

    Args:
        positions: Past positions in metres, the current one first, (..., H + 1, 2), H >= 1.
        is_known: Where they are known, bool (..., H + 1).
        step_time_s: Seconds between two steps.
    """
    earlier = is_known[..., 1:]
    steps_back = earlier.to(torch.int64).argmax(dim=-1) + 1  # the first that is known
    indices = steps_back.unsqueeze(-1).unsqueeze(-1).expand(positions[..., :1, :].shape)
    displacement_m = positions[..., 0, :] - positions.gather(-2, indices).squeeze(-2)
    velocities_mps = displacement_m / (steps_back.unsqueeze(-1) * step_time_s)
    is_moving = (earlier.any(dim=-1) & is_known[..., 0]).unsqueeze(-1)
    return torch.where(is_moving, velocities_mps, torch.zeros_like(velocities_mps))


def displacements_at_constant_velocity(
    velocities_mps: torch.Tensor, num_steps: int, step_time_s: float
) -> torch.Tensor:
    """Return how far agents get at their velocities, (..., num_steps, 2) in metres from where they are now.

    Args:
        velocities_mps: Shape (..., 2).
        num_steps: Steps ahead; the first is one step from now.
        step_time_s: Seconds between two steps.
    """
    steps = torch.arange(1, num_steps + 1, device=velocities_mps.device).to(velocities_mps.dtype)
    return velocities_mps.unsqueeze(-2) * (steps * step_time_s).unsqueeze(-1)
