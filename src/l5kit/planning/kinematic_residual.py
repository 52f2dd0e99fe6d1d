"""Kinematic residual networks: predictions of the difference between trajectories and a kinematic baseline."""

from typing import Final

import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.kinematic.baselines import Baseline, baseline_displacements

_FIRST_OUTPUTS = 0.01
"""Factor on the initial weights of the last layer."""

LEAST_UNIT_M: Final = 0.5
"""Unit of differences at the last step, for stationary agents."""

UNIT_PER_METRE: Final = 0.1
"""Growth of the unit at the last step for each metre that the baseline moves."""


class KinematicResidual(nn.Module):
    """Wrapper of a network that learns the difference to a kinematic baseline.

    For new trainings; L5Kit 1.5 has no equivalent. It suits every network that predicts all positions at once, from
    rasters or vectors. A new network starts near the baseline, as its last linear layer starts with small weights.
    Differences are learned in units that grow with time, as possible deviations do. The unit at the last step is given,
    or grows with speed: half a metre plus a tenth of the baseline's distance. Units of earlier steps are proportional
    to time. With one unit for all agents, errors of fast agents dominate the loss, which gives smaller mean errors in
    metres. Yaws are not changed.

    Args:
        model: The network.
        num_steps: Number of predicted steps, T.
        baseline: The kinematic baseline.
        step_time_s: Time between two predicted steps, seconds.
        past_step_time_s: Time between two past steps, seconds.
        of_all_agents: Whether it predicts all agents of a sample, like SafePathNet, instead of the agent of interest.
        unit_m: Unit at the last step in metres; None for one that grows with the distance.

    Raises:
        InvalidArgumentError: The unit is not above 0.
    """

    def __init__(
        self,
        model: nn.Module,
        num_steps: int,
        *,
        baseline: Baseline,
        step_time_s: float,
        past_step_time_s: float,
        of_all_agents: bool = False,
        unit_m: float | None = None,
    ) -> None:
        super().__init__()
        if unit_m is not None and not unit_m > 0:
            raise InvalidArgumentError(f"unit_m is {unit_m!r}; give metres above 0, or None")

        # scale the last layer, if it is linear, so that outputs start near 0
        layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
        if layers:
            with torch.no_grad():
                layers[-1].weight.mul_(_FIRST_OUTPUTS)
                if layers[-1].bias is not None:
                    layers[-1].bias.mul_(_FIRST_OUTPUTS)
        self.residual = model
        self.num_steps = num_steps
        self.step_time_s = float(step_time_s)
        self.past_step_time_s = float(past_step_time_s)
        self.baseline: str = baseline
        self.least_unit_m = LEAST_UNIT_M if unit_m is None else float(unit_m)
        self.unit_per_metre = UNIT_PER_METRE if unit_m is None else 0.0
        self.past_key = "all_other_agents_history_positions" if of_all_agents else "history_positions"
        self.yaw_key = "all_other_agents_history_yaws" if of_all_agents else "history_yaws"
        self.known_key = "all_other_agents_history_availability" if of_all_agents else "history_availabilities"
        self.target_key = "all_other_agents_future_positions" if of_all_agents else "target_positions"
        self.likeliest_key = "agent_positions" if of_all_agents else "positions"
        self.all_key = "all_agent_positions" if of_all_agents else "positions_all"

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the losses in train mode, the trajectories in eval mode; the batch is not changed.

        Args:
            data_batch: Inputs of the network, with the past: ``history_positions`` (B, H + 1, 2) in metres, the current
                one first, and ``history_availabilities`` (B, H + 1), H >= 1; for all agents
                ``all_other_agents_history_positions`` (B, A, H + 1, 2) and ``all_other_agents_history_availability``
                (B, A, H + 1). For a fitted baseline also the yaws there, ``history_yaws`` (B, H + 1, 1) or
                ``all_other_agents_history_yaws`` (B, A, H + 1, 1).

        Returns:
            Outputs of the network, with the displacements of the baseline added to ``positions`` (B, T, 2) and
            ``positions_all`` (B, M, T, 2), or to ``agent_positions`` (B, A, T, 2) and ``all_agent_positions``
            (B, A, K, T, 2).
        """
        past_m, is_known = data_batch[self.past_key], data_batch[self.known_key] > 0
        now_m = past_m[..., :1, :]
        yaws = past_m[..., 0] if self.baseline == "constant_velocity" else data_batch[self.yaw_key][..., 0]
        baseline_m = baseline_displacements(
            self.baseline,
            past_m,
            yaws,
            is_known,
            num_steps=self.num_steps,
            step_time_s=self.step_time_s,
            past_step_time_s=self.past_step_time_s,
        )
        unit_m = units_of_steps(
            baseline_m, num_steps=self.num_steps, least_m=self.least_unit_m, per_metre=self.unit_per_metre
        )
        # the network gets and returns the differences to the baseline, in units, as if they were displacements
        batch = data_batch.copy()
        if self.training:
            batch[self.target_key] = now_m + (batch[self.target_key] - now_m - baseline_m) / unit_m
        outputs: dict[str, torch.Tensor] = self.residual(batch)
        if self.likeliest_key in outputs:
            num_agents = outputs[self.likeliest_key].shape[1]  # SafePathNet may omit the last ones
            now_m, baseline_m, unit_m = now_m[:, :num_agents], baseline_m[:, :num_agents], unit_m[:, :num_agents]
            outputs[self.likeliest_key] = now_m + baseline_m + (outputs[self.likeliest_key] - now_m) * unit_m
        if self.all_key in outputs:
            now_m, baseline_m, unit_m = now_m.unsqueeze(-3), baseline_m.unsqueeze(-3), unit_m.unsqueeze(-3)
            outputs[self.all_key] = now_m + baseline_m + (outputs[self.all_key] - now_m) * unit_m
        return outputs


def units_of_steps(baseline_m: torch.Tensor, *, num_steps: int, least_m: float, per_metre: float) -> torch.Tensor:
    """Return the unit of differences to a baseline at each step, metres, (..., T, 1).

    Deviations from a baseline grow with time and with its distance, so that differences in units do not.

    Args:
        baseline_m: Displacements, (..., T, 2).
        num_steps: T.
        least_m: Unit at the last step, for stationary agents.
        per_metre: Its growth for each metre that the baseline moves.
    """
    time = torch.arange(1, num_steps + 1, device=baseline_m.device).to(baseline_m.dtype) / num_steps
    distance_m = torch.linalg.vector_norm(baseline_m[..., -1:, :], dim=[-1], keepdim=True)
    last_m: torch.Tensor = least_m + per_metre * distance_m
    return time.unsqueeze(-1) * last_m
