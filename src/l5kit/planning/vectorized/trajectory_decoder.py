"""Decoders of trajectories: from features of a scene to poses, through accelerations and curvatures or directly."""

from typing import Final, Literal

import torch
from torch import nn

from l5kit.kinematic.baselines import displacements_at_constant_velocity

DecoderKind = Literal["kinematic", "poses"]
"""``kinematic`` for integrated accelerations and curvatures, ``poses`` for poses in one go."""

MAX_ACCELERATION_MPS2: Final = 6.0
"""Bound of accelerations and braking: the grip of tyres in an emergency."""

MAX_CURVATURE_PER_M: Final = 0.3
"""Bound of curvatures of the rear axle: a turning circle slightly smaller than that of cars."""

_ACCELERATION_UNIT_MPS2, _CURVATURE_UNIT_PER_M = 3.0, 0.2
_POSITION_UNIT_M = 10.0
"""Units in which controls and poses are learned."""

_FIRST_OUTPUTS = 0.1
"""Factor on the initial weights of the last layer, so that new networks start near constant velocity."""


class TrajectoryDecoder(nn.Module):
    """Decoder of several trajectories and their logits from the features of a scene.

    Args:
        dim: Features of a scene.
        num_modes: Trajectories M.
        num_steps: Steps T of each.
        step_time_s: Duration of a step, seconds.
        kind: Kind of the decoder.
    """

    def __init__(self, dim: int, num_modes: int, *, num_steps: int, step_time_s: float, kind: DecoderKind) -> None:
        super().__init__()
        self.num_modes, self.num_steps, self.step_time_s = num_modes, num_steps, float(step_time_s)
        self.kind: str = kind
        num_values = num_modes * num_steps * (2 if kind == "kinematic" else 3)
        # its name identifies the kind in a file of weights
        self.heads = nn.ModuleDict(
            {
                "controls" if kind == "kinematic" else "poses": nn.Linear(dim, num_values),
                "modes": nn.Linear(dim, num_modes),
            }
        )
        with torch.no_grad():
            for head in self.heads.values():
                head.weight.mul_(_FIRST_OUTPUTS)  # type: ignore[operator]
                head.bias.zero_()  # type: ignore[operator]

    def forward(
        self, features: torch.Tensor, speeds_mps: torch.Tensor, rear_axles_m: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return trajectories (B, M, T, 3): x, y and yaw in the frame of the target; and logits (B, M).

        Args:
            features: Shape (B, dim).
            speeds_mps: Current forward speeds, (B,).
            rear_axles_m: Distances of the centres from the rear axles, (B,).
        """
        logits = self.heads["modes"](features)
        if self.kind == "kinematic":
            values = self.heads["controls"](features).to(speeds_mps.dtype)  # positions need full precision
            values = values.view(-1, self.num_modes, self.num_steps, 2)
            accelerations = _limited(values[..., 0], _ACCELERATION_UNIT_MPS2, MAX_ACCELERATION_MPS2)
            curvatures = _limited(values[..., 1], _CURVATURE_UNIT_PER_M, MAX_CURVATURE_PER_M)
            own = speeds_mps.unsqueeze(1), rear_axles_m.unsqueeze(1)
            return poses_of_controls(accelerations, curvatures, *own, step_time_s=self.step_time_s), logits
        values = self.heads["poses"](features).to(speeds_mps.dtype)
        values = values.view(-1, self.num_modes, self.num_steps, 3)
        velocities_mps = torch.stack((speeds_mps, torch.zeros_like(speeds_mps)), dim=-1)
        baseline_m = displacements_at_constant_velocity(velocities_mps, self.num_steps, self.step_time_s).unsqueeze(1)
        return torch.cat((baseline_m + values[..., :2] * _POSITION_UNIT_M, values[..., 2:]), dim=-1), logits


def poses_of_controls(
    accelerations_mps2: torch.Tensor,
    curvatures_per_m: torch.Tensor,
    speeds_mps: torch.Tensor,
    rear_axles_m: torch.Tensor,
    *,
    step_time_s: float,
) -> torch.Tensor:
    """Return x, y and yaw of the centre of a kinematic bicycle after each step, (..., T, 3).

    It starts at the origin, heading along x, and never reverses. In each step the rear axle moves with the mean of the
    speeds at both ends of the step, along the heading at its middle.

    Args:
        accelerations_mps2: Acceleration in each step, (..., T).
        curvatures_per_m: Curvature of the path of the rear axle in each step, positive to the left, (..., T).
        speeds_mps: Current speeds along the heading, at least 0, (...), or with axes of length 1.
        rear_axles_m: Distance of the centre from the rear axle, of the same shape.
        step_time_s: Duration of a step, seconds.
    """
    now_mps, rear_axles_m = speeds_mps.unsqueeze(-1), rear_axles_m.unsqueeze(-1)
    unbound_mps = now_mps + (accelerations_mps2 * step_time_s).cumsum(dim=-1)
    # max(v + a dt, 0) over all steps at once: subtract the running minimum where it is below 0
    ends_mps = unbound_mps - unbound_mps.cummin(dim=-1).values.clamp(max=0.0)
    starts_mps = torch.cat((now_mps.expand_as(ends_mps[..., :1]), ends_mps[..., :-1]), dim=-1)
    distances_m = 0.5 * (starts_mps + ends_mps) * step_time_s

    turns_rad = distances_m * curvatures_per_m
    yaws_rad = turns_rad.cumsum(dim=-1)
    midway_rad = yaws_rad - 0.5 * turns_rad
    # the rear axle starts behind the origin; the centre stays ahead of it along the heading
    x_m = (distances_m * midway_rad.cos()).cumsum(dim=-1) + rear_axles_m * (yaws_rad.cos() - 1.0)
    y_m = (distances_m * midway_rad.sin()).cumsum(dim=-1) + rear_axles_m * yaws_rad.sin()
    return torch.stack((x_m, y_m, yaws_rad), dim=-1)


def _limited(values: torch.Tensor, unit: float, limit: float) -> torch.Tensor:
    """Return values in a unit, softly bounded by a limit on both sides of 0."""
    return limit * torch.tanh(values * (unit / limit))
