"""Kinematic baselines: agents keep their current motion. A minimum bar for every model.

The motion is a constant velocity, or a least-squares fit to the past. TorchScript can compile the functions.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

import torch

Baseline: TypeAlias = Literal["constant_velocity", "ctrv", "ctra"]

BASELINES: Final[tuple[Baseline, ...]] = ("constant_velocity", "ctrv", "ctra")
"""Constant velocity, constant turn rate and velocity, constant turn rate and acceleration."""

BASELINE_TITLES: Final[dict[str, str]] = {"constant_velocity": "constant velocity", "ctrv": "CTRV", "ctra": "CTRA"}
"""Names for display."""


class MotionFit(NamedTuple):
    """Current motion of agents.

    Attributes:
        speed_mps: Speed along the heading, below 0 for agents that reverse, (...,).
        acceleration_mps2: Change of the speed per second, (...,).
        yaw_rad: Heading, (...,).
        yaw_rate_rad_s: Change of the heading per second, (...,).
    """

    speed_mps: torch.Tensor
    acceleration_mps2: torch.Tensor
    yaw_rad: torch.Tensor
    yaw_rate_rad_s: torch.Tensor


def fit_motion(
    positions: torch.Tensor, yaws: torch.Tensor, is_known: torch.Tensor, step_time_s: float, with_acceleration: bool
) -> MotionFit:
    """Return the motions that fit the past best in the least-squares sense.

    The heading is linear in time through the current yaw. The distance along the headings ends at the current position
    and is linear in time, or a parabola if the speed may change. Agents whose current position or all earlier positions
    are unknown stand still; with a single known earlier position the speed is constant.

    Args:
        positions: Past positions in metres, the current one first, (..., H + 1, 2), H >= 1.
        yaws: Headings at these positions in radians, (..., H + 1).
        is_known: Mask of known positions, bool (..., H + 1).
        step_time_s: Seconds between two steps.
        with_acceleration: Whether to fit an acceleration.
    """
    steps = -torch.arange(positions.shape[-2], device=positions.device).to(positions.dtype)  # sums of these are exact
    weights = (is_known & is_known[..., :1]).to(positions.dtype)
    turns_rad = yaws - yaws[..., :1]
    turns_rad = torch.atan2(torch.sin(turns_rad), torch.cos(turns_rad))
    squares = _sum(weights * steps**2)
    turn_rad = _ratio(_sum(weights * steps * turns_rad), squares)  # per step

    # Signed distances from the current position to earlier ones, negative backwards. They are arcs of circles: a chord
    # lies along the heading midway and is sinc of half the turn as long as the arc.
    headings_rad = yaws[..., :1] + turn_rad.unsqueeze(-1) * steps
    half_turns = 0.5 * (headings_rad - headings_rad[..., :1])
    middle = headings_rad[..., :1] + half_turns
    offsets = positions - positions[..., :1, :]
    chords_m = offsets[..., 0] * torch.cos(middle) + offsets[..., 1] * torch.sin(middle)
    distances_m = chords_m / torch.sinc(half_turns / torch.pi).clamp(min=0.5)

    first = _sum(weights * steps * distances_m)
    step_m = _ratio(first, squares)  # per step
    growth_m = torch.zeros_like(step_m)  # from step to step
    if with_acceleration:
        cubes, fourths = _sum(weights * steps**3), _sum(weights * steps**4)
        second = _sum(weights * steps**2 * distances_m)
        # s = v t + w t^2: solve the normal equations by Cramer's rule; the growth is 2 w
        determinant = squares * fourths - cubes * cubes
        is_curve = _sum(weights[..., 1:]) > 1.5  # a single earlier position determines no parabola
        step_m = torch.where(is_curve, _ratio(first * fourths - second * cubes, determinant), step_m)
        growth_m = torch.where(is_curve, 2.0 * _ratio(second * squares - first * cubes, determinant), growth_m)
    return MotionFit(step_m / step_time_s, growth_m / step_time_s**2, yaws[..., 0], turn_rad / step_time_s)


def displacements_of_motion(motion: MotionFit, num_steps: int, step_time_s: float) -> torch.Tensor:
    """Return the displacements of motions, (..., num_steps, 2) in metres from the current positions.

    Each step follows the heading at its middle. A braking agent stops when its speed reaches 0.

    Args:
        motion: Shapes (...,).
        num_steps: Steps ahead; the first is one step from now.
        step_time_s: Seconds between two steps.
    """
    steps = torch.arange(1, num_steps + 1, device=motion.speed_mps.device).to(motion.speed_mps.dtype)
    times_s = (steps * step_time_s).expand(motion.speed_mps.shape + steps.shape)
    speed_mps, acceleration_mps2 = motion.speed_mps.unsqueeze(-1), motion.acceleration_mps2.unsqueeze(-1)
    is_braking = speed_mps * acceleration_mps2 < 0
    stop_s = torch.where(is_braking, -speed_mps / acceleration_mps2, torch.full_like(speed_mps, torch.inf))
    moving_s = torch.minimum(times_s, stop_s)
    distances_m = speed_mps * moving_s + 0.5 * acceleration_mps2 * moving_s * moving_s
    pieces_m = torch.diff(distances_m, dim=-1, prepend=torch.zeros_like(distances_m[..., :1]))
    yaws = motion.yaw_rad.unsqueeze(-1) + motion.yaw_rate_rad_s.unsqueeze(-1) * (times_s - 0.5 * step_time_s)
    return torch.stack([pieces_m * torch.cos(yaws), pieces_m * torch.sin(yaws)], dim=-1).cumsum(dim=-2)


def _sum(values: torch.Tensor) -> torch.Tensor:
    return values.sum(dim=-1)


def _ratio(numerator: torch.Tensor, denominator: torch.Tensor) -> torch.Tensor:
    """Return the ratio, 0 where the denominator is 0."""
    is_zero = denominator == 0
    return torch.where(is_zero, torch.zeros_like(numerator), numerator / torch.where(is_zero, 1.0, denominator))


def current_velocities(positions: torch.Tensor, is_known: torch.Tensor, step_time_s: float) -> torch.Tensor:
    """Return velocities (..., 2) in m/s between the nearest known earlier position and the current one.

    A velocity is 0 if the current position or all earlier positions are unknown.

    Args:
        positions: Past positions in metres, the current one first, (..., H + 1, 2), H >= 1.
        is_known: Mask of known positions, bool (..., H + 1).
        step_time_s: Seconds between two steps.
    """
    earlier = is_known[..., 1:]
    steps_back = earlier.to(torch.int64).argmax(dim=-1) + 1  # nearest known position
    indices = steps_back.unsqueeze(-1).unsqueeze(-1).expand(positions[..., :1, :].shape)
    displacement_m = positions[..., 0, :] - positions.gather(-2, indices).squeeze(-2)
    velocities_mps = displacement_m / (steps_back.unsqueeze(-1) * step_time_s)
    is_moving = (earlier.any(dim=-1) & is_known[..., 0]).unsqueeze(-1)
    return torch.where(is_moving, velocities_mps, torch.zeros_like(velocities_mps))


def displacements_at_constant_velocity(
    velocities_mps: torch.Tensor, num_steps: int, step_time_s: float
) -> torch.Tensor:
    """Return displacements at constant velocity, (..., num_steps, 2) in metres from the current positions.

    Args:
        velocities_mps: Shape (..., 2).
        num_steps: Steps ahead; the first is one step from now.
        step_time_s: Seconds between two steps.
    """
    steps = torch.arange(1, num_steps + 1, device=velocities_mps.device).to(velocities_mps.dtype)
    return velocities_mps.unsqueeze(-2) * (steps * step_time_s).unsqueeze(-1)


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
    """Return displacements of a baseline, (..., num_steps, 2) in metres from the current positions.

    Constant velocity uses the current position and the nearest known earlier one. The other baselines are fitted to
    the whole past, see :func:`l5kit.kinematic.baselines.fit_motion`.

    Args:
        baseline: One of ``BASELINES``.
        positions: Past positions in metres, the current one first, (..., H + 1, 2), H >= 1.
        yaws: Headings at these positions in radians, (..., H + 1).
        is_known: Mask of known positions, bool (..., H + 1).
        num_steps: Steps ahead; the first is one step from now.
        step_time_s: Seconds between two future steps.
        past_step_time_s: Seconds between two past steps.
    """
    if baseline == "constant_velocity":
        velocities_mps = current_velocities(positions, is_known, past_step_time_s)
        return displacements_at_constant_velocity(velocities_mps, num_steps, step_time_s)
    motion = fit_motion(positions, yaws, is_known, past_step_time_s, baseline == "ctra")
    return displacements_of_motion(motion, num_steps, step_time_s)
