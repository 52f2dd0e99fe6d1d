"""Query-centric model: several trajectories for each agent or scene, with every element in its own frame."""

from typing import Literal, get_args

import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.kinematic.baselines import Baseline, baseline_displacements
from l5kit.planning.kinematic_residual import LEAST_UNIT_M, UNIT_PER_METRE, units_of_steps
from l5kit.prediction.vectorized.plane_poses import compose, seen_from
from l5kit.prediction.vectorized.query_centric_decoder import ModeDecoder, Motions
from l5kit.prediction.vectorized.query_centric_encoder import Context, SceneEncoder

ModeLoss = Literal["winner", "mixture"]
"""How several modes are compared with the truth."""

_SCALES_WEIGHT = 0.1
_LOG_SCALE_RANGE = (-5.0, 5.0)


class QueryCentricModel(nn.Module):
    """Network that predicts several trajectories of each agent, or of each scene as a whole, with their probabilities.

    It follows QCNet (Zhou et al., CVPR 2023) and Wayformer (Nayakanti et al., 2022): each agent and polyline is
    embedded in its own frame, and attention uses relative poses, so rotating or shifting the whole scene changes
    nothing in the frames of the agents. The samples are those of ``EgoAgentDatasetVectorized``.

    Args:
        num_steps: Steps T to predict.
        history_num_frames: Past frames of the agents, without the current one.
        num_modes: Trajectories K.
        joint: Whether modes belong to whole scenes, with one probability each.
        dim: Features of an element.
        num_heads: Heads of the attention; a divisor of ``dim``.
        num_layers: Rounds of the encoder.
        dropout: Dropout probability in training.
        mode_loss: ``winner`` for the error of the mode nearest to the truth, and its cross entropy; scales are learned
            separately, without gradients to positions. ``mixture`` for the negative log-likelihood of a mixture of
            Laplace distributions, in which all modes share the truth.
        modes_weight: Weight of that cross entropy in the loss.
        criterion: Element-wise error of positions, for proposals and for the winner; smooth L1 by default.
        residual_to: Kinematic baseline that trajectories are differences to, or None.
        residual_unit_m: Unit of these differences at the last step in metres; None for one that grows with the
            distance.
        motion_features: Add speeds, accelerations and turn rates, fitted to the past.
        step_time_s: Seconds between two future steps.
        past_step_time_s: Seconds between two past steps.
        disable_other_agents: Do not let agents attend to each other.
        disable_map: Mask lanes, crosswalks and boundaries.
        disable_lane_boundaries: Drop lane boundaries.

    Raises:
        InvalidArgumentError: There are no modes, the heads do not divide ``dim``, the unit is not above 0, or there is
            no such ``mode_loss``.
    """

    def __init__(
        self,
        num_steps: int,
        history_num_frames: int,
        *,
        num_modes: int = 6,
        joint: bool = False,
        dim: int = 128,
        num_heads: int = 8,
        num_layers: int = 2,
        dropout: float = 0.1,
        mode_loss: ModeLoss = "winner",
        modes_weight: float = 0.1,
        criterion: nn.Module | None = None,
        residual_to: Baseline | None = None,
        residual_unit_m: float | None = None,
        motion_features: bool = False,
        step_time_s: float = 0.1,
        past_step_time_s: float = 0.1,
        disable_other_agents: bool = False,
        disable_map: bool = False,
        disable_lane_boundaries: bool = False,
    ) -> None:
        super().__init__()
        if num_modes < 1:
            raise InvalidArgumentError(f"num_modes is {num_modes}; give at least 1")
        if mode_loss not in get_args(ModeLoss):
            raise InvalidArgumentError(f"mode_loss is {mode_loss!r}; it must be 'winner' or 'mixture'")
        if residual_unit_m is not None and not residual_unit_m > 0:
            raise InvalidArgumentError(f"residual_unit_m is {residual_unit_m!r}; give metres above 0, or None")
        self.num_steps, self.joint, self.modes_weight = num_steps, joint, float(modes_weight)
        self.mode_loss: ModeLoss = mode_loss
        self.criterion = nn.SmoothL1Loss(reduction="none") if criterion is None else criterion
        self.residual_unit_m = residual_unit_m
        self.residual_to: str | None = residual_to
        self.step_time_s, self.past_step_time_s = float(step_time_s), float(past_step_time_s)
        self.encoder = SceneEncoder(
            dim,
            num_heads,
            num_layers,
            num_steps=history_num_frames + 1,
            dropout=dropout,
            motion_step_time_s=past_step_time_s if motion_features else None,
            with_agents=not disable_other_agents,
            with_map=not disable_map,
            with_boundaries=not disable_lane_boundaries,
        )
        self.decoder = ModeDecoder(
            dim,
            num_heads,
            num_modes,
            num_steps=num_steps,
            joint=joint,
            dropout=dropout,
            with_agents=not disable_other_agents,
        )

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the losses in train mode, the trajectories in eval mode; the batch is not changed.

        Args:
            data_batch: ``all_other_agents_history_positions`` (B, A, H, 2) in metres, ``_yaws`` (B, A, H, 1) in radians
                and ``_availability`` (B, A, H), newest first, with the AV among the agents, ``all_other_agents_types``
                (B, A), and the map: ``lanes_mid`` (B, L, P, 3), ``crosswalks`` (B, X, P', 3), ``lanes`` (B, Lb, P'', 3)
                with their availabilities, all in the frame of the AV. In train mode also
                ``all_other_agents_future_positions`` (B, A, T, 2), ``_yaws`` (B, A, T, 1), ``_availability`` (B, A, T).

        Returns:
            In train mode the scalars ``loss``, ``loss/proposals``, ``loss/trajectories``, ``loss/yaws``,
            ``loss/scales`` and ``loss/modes``; with ``mixture``, ``loss/trajectories`` includes the latter two.
            In eval mode ``agent_positions`` (B, A, T, 2) and ``agent_yaws`` (B, A, T, 1) of the
            likeliest modes, ``all_agent_positions`` (B, A, K, T, 2), ``all_agent_yaws`` (B, A, K, T, 1) and
            ``agent_traj_logits`` (B, A, K) in the frame of the AV, ``all_agent_scales`` (B, A, K, T, 2), the scales of
            Laplace distributions along and across the agent's own frame in metres, and with joint modes
            ``scene_logits`` (B, K).
        """
        context: Context = self.encoder(data_batch)
        motions: Motions = self.decoder(context)

        # baseline in the frames of the agents, (B, A, T, 2), from the known past
        known = data_batch["all_other_agents_history_availability"] > 0
        past = seen_from(context.agent_poses.unsqueeze(2), data_batch["all_other_agents_history_positions"].float())
        turns = data_batch["all_other_agents_history_yaws"][..., 0].float() - context.agent_poses[..., 2:]
        past = torch.where(known.unsqueeze(-1), past, torch.zeros_like(past))
        baseline = torch.zeros_like(past[:, :, :1]).expand(-1, -1, self.num_steps, -1)
        if past.shape[2] > 1:
            baseline = baseline_displacements(
                "constant_velocity" if self.residual_to is None else self.residual_to,
                past,
                torch.where(known, turns, torch.zeros_like(turns)),
                known,
                num_steps=self.num_steps,
                step_time_s=self.step_time_s,
                past_step_time_s=self.past_step_time_s,
            )

        # Units of the predicted differences, (B, A, T, 1). Without a baseline, the units are the distances of constant
        # velocity, and whole displacements are predicted.
        least_m, per_metre = LEAST_UNIT_M, UNIT_PER_METRE
        if self.residual_to is None:
            per_metre = 1.0
        elif self.residual_unit_m is not None:
            least_m, per_metre = self.residual_unit_m, 0.0
        units = units_of_steps(baseline, num_steps=self.num_steps, least_m=least_m, per_metre=per_metre)
        if self.residual_to is None:
            baseline = torch.zeros_like(baseline)
        if self.training:
            return self._losses(data_batch, context, motions, baseline, units)
        return self._predictions(context, motions, baseline, units)

    def _losses(
        self,
        data_batch: dict[str, torch.Tensor],
        context: Context,
        motions: Motions,
        baseline: torch.Tensor,
        units: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        known = (data_batch["all_other_agents_future_availability"] > 0) & context.agents_there.unsqueeze(-1)
        future = seen_from(context.agent_poses.unsqueeze(2), data_batch["all_other_agents_future_positions"].float())
        turns = data_batch["all_other_agents_future_yaws"][..., 0].float() - context.agent_poses[..., 2:]
        future = torch.where(known.unsqueeze(-1), future, torch.zeros_like(future))
        turns = torch.where(known, turns, torch.zeros_like(turns))
        targets = torch.where(known.unsqueeze(-1), (future - baseline) / units, torch.zeros_like(future))
        # the mode nearest in metres wins and is trained; the choice has no gradient
        away = motions.refined[..., :2].detach() - targets.unsqueeze(2)
        distances = torch.linalg.vector_norm(away * units.unsqueeze(2), dim=[-1])
        winner = winners(distances, known, joint=self.joint)
        proposed, refined = of_winners(motions.proposed, winner), of_winners(motions.refined, winner)
        proposals_loss = _mean_over(self.criterion(proposed[..., :2], targets).sum(dim=-1), known)
        yaws_loss = _mean_over(1 - torch.cos(refined[..., 4] - turns) + 1 - torch.cos(proposed[..., 4] - turns), known)
        losses = {"loss/proposals": proposals_loss, "loss/yaws": yaws_loss}
        if self.mode_loss == "mixture":
            errors = motions.refined[..., :2] - targets.unsqueeze(2)
            surprise = laplace_nll(errors, motions.refined[..., 2:4]).sum(dim=-1)
            trajectories_loss = mixture_nll(surprise, motions.logits, known, joint=self.joint)
            return {
                "loss": trajectories_loss + proposals_loss + yaws_loss,
                "loss/trajectories": trajectories_loss,
                **losses,
            }
        refined_loss = _mean_over(self.criterion(refined[..., :2], targets).sum(dim=-1), known)
        # scales learn from the errors, but do not change them
        scaled = laplace_nll((refined[..., :2] - targets).detach(), refined[..., 2:4])
        scales_loss = _mean_over(scaled.sum(dim=-1), known)
        modes_loss = mode_surprise(motions.logits, winner, known.any(dim=-1), joint=self.joint)
        loss = proposals_loss + refined_loss + yaws_loss + _SCALES_WEIGHT * scales_loss + self.modes_weight * modes_loss
        return {
            "loss": loss,
            "loss/trajectories": refined_loss,
            "loss/scales": scales_loss,
            "loss/modes": modes_loss,
            **losses,
        }

    def _predictions(
        self, context: Context, motions: Motions, baseline: torch.Tensor, units: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        is_there = context.agents_there[:, :, None, None, None]
        own = (baseline.unsqueeze(2) + motions.refined[..., :2] * units.unsqueeze(2)) * is_there
        # from the frames of the agents to that of the AV
        moves = torch.cat((own, motions.refined[..., 4:] * is_there), dim=-1)
        predicted = compose(context.agent_poses[:, :, None, None], moves)
        positions, yaws = predicted[..., :2], predicted[..., 2:]
        likeliest = motions.logits.argmax(dim=-1)
        outputs = {
            "agent_positions": of_winners(positions, likeliest),
            "agent_yaws": of_winners(yaws, likeliest),
            "all_agent_positions": positions,
            "all_agent_yaws": yaws,
            "agent_traj_logits": motions.logits,
            "all_agent_scales": torch.exp(motions.refined[..., 2:4].clamp(-5.0, 5.0)) * units.unsqueeze(2) * is_there,
        }
        if self.joint:
            outputs["scene_logits"] = motions.logits[:, 0]
        return outputs


def _mean_over(values: torch.Tensor, is_known: torch.Tensor) -> torch.Tensor:
    """Return the mean of values (B, A, T) over known steps."""
    return torch.where(is_known, values, torch.zeros_like(values)).sum() / is_known.sum().clamp(min=1)


def winners(distances: torch.Tensor, is_known: torch.Tensor, *, joint: bool) -> torch.Tensor:
    """Return the mode nearest to the truth for each agent, without gradient.

    Args:
        distances: Distances from the truth, shape (B, A, K, T).
        is_known: Mask of the steps with known truth, bool, shape (B, A, T).
        joint: Whether one mode wins for all agents of a scene: the one with the least sum of their mean distances.

    Returns:
        int64, shape (B, A).
    """
    known = is_known.unsqueeze(2)
    sums = torch.where(known, distances.detach(), torch.zeros_like(distances)).sum(dim=-1)
    costs = sums / known.sum(dim=-1).clamp(min=1)
    if joint:
        costs = costs.sum(dim=1, keepdim=True).expand_as(costs)  # agents without truth add 0
    return costs.argmin(dim=-1)


def of_winners(values: torch.Tensor, winner: torch.Tensor) -> torch.Tensor:
    """Return the values of the winning modes, shape (B, A, T, F), from values (B, A, K, T, F)."""
    index = winner[:, :, None, None, None].expand(-1, -1, 1, values.shape[3], values.shape[4])
    return values.gather(2, index).squeeze(2)


def laplace_nll(errors: torch.Tensor, log_scales: torch.Tensor) -> torch.Tensor:
    """Return negative log-likelihoods of Laplace distributions: ln(2 b) + |error| / b.

    Args:
        errors: Errors, any shape.
        log_scales: Logarithms of the scales b, same shape; clamped to -5 to 5.
    """
    log_scales = log_scales.clamp(_LOG_SCALE_RANGE[0], _LOG_SCALE_RANGE[1])
    return errors.abs() * torch.exp(-log_scales) + log_scales + 0.6931471805599453


def mixture_nll(surprise: torch.Tensor, logits: torch.Tensor, is_known: torch.Tensor, *, joint: bool) -> torch.Tensor:
    """Return the negative log-likelihood of mixtures per known step, a scalar.

    Args:
        surprise: Negative log-likelihoods of each step in each mode, shape (B, A, K, T).
        logits: Logits of the modes, shape (B, A, K).
        is_known: Mask of the steps with known truth, bool, shape (B, A, T).
        joint: Whether all agents of a scene share one mode.
    """
    # -ln of the sum over modes of p exp(-surprise), for the likelihood of a whole trajectory, or of a whole scene
    mode_losses = torch.where(is_known.unsqueeze(2), surprise, torch.zeros_like(surprise)).sum(dim=-1)
    log_probabilities = logits.log_softmax(dim=-1)
    if joint:
        mode_losses, log_probabilities = mode_losses.sum(dim=1), log_probabilities[:, 0]
    mixture_losses = -torch.logsumexp(log_probabilities - mode_losses, dim=-1)  # 0 without known steps
    return mixture_losses.sum() / is_known.sum().clamp(min=1)


def mode_surprise(logits: torch.Tensor, winner: torch.Tensor, is_any: torch.Tensor, *, joint: bool) -> torch.Tensor:
    """Return the mean cross entropy of the winning modes, a scalar.

    Args:
        logits: Logits of the modes, shape (B, A, K).
        winner: Winning modes, int64, shape (B, A).
        is_any: Agents with a known step, bool, shape (B, A).
        joint: Whether each scene counts once, instead of each agent.
    """
    surprise = -logits.log_softmax(dim=-1).gather(2, winner.unsqueeze(-1)).squeeze(-1)
    if joint:
        surprise, is_any = surprise[:, 0], is_any.any(dim=1)
    return (surprise * is_any).sum() / is_any.sum().clamp(min=1)
