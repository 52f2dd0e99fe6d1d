"""SafePathNet: several trajectories for each agent of a scene, from vectors."""

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.errors import UnsupportedValueError
from l5kit.planning.losses import missing_criterion
from l5kit.planning.vectorized.common import build_matrix, transform_xy
from l5kit.planning.vectorized.elements import collect_elements
from l5kit.planning.vectorized.polyline_model import PolylineModel
from l5kit.planning.vectorized.route_elements import RouteElements
from l5kit.prediction.vectorized.safepathnet import MultimodalDecoder, TrajectoryMatcher

_NUM_EGO_TRAJECTORIES = 10
_POSITION_SCALE_M = 125.0
_YAW_SCALE_RAD = math.pi
_YAW_RESIDUALS = ("doubled", "single")


class _AgentPoses(NamedTuple):
    """Poses of the agents at the current frame."""

    positions: torch.Tensor  # (B, A, 2), metres, ego frame
    yaws: torch.Tensor  # (B, A, 1), radians, ego frame
    available: torch.Tensor  # bool, (B, A)


class SafePathNetModel(PolylineModel):
    """Network that predicts several trajectories of each agent, with their logits.

    The samples must contain the ego twice, as the centre of the scene and as the first of the other agents: use
    ``EgoAgentDatasetVectorized``. In train mode ``forward`` returns the losses, in eval mode the trajectories.

    Args:
        history_num_frames_ego: Past frames of the ego; kept as an attribute only, as samples are already cut to them.
        history_num_frames_agents: Past frames of the agents, likewise.
        num_timesteps: Steps T to predict.
        weights_scaling: Weights of the errors of x, y and yaw, used with ``apply_weights_scaling`` only.
        criterion: Element-wise loss, such as ``torch.nn.L1Loss(reduction="none")``; None for a model that is not
            trained.
        disable_other_agents: Do not attend to agents; each still gets its own trajectories.
        disable_map: Mask lanes, crosswalks and boundaries.
        disable_lane_boundaries: Drop lane boundaries.
        agent_num_trajectories: Trajectories K of each agent.
        max_num_agents: Largest number of agents that get trajectories, ``data_generation_params.other_agents_num``.
        cost_prob_coeff: Weight of the probabilities in the loss.
        yaw_residual: ``doubled`` treats yaws like L5Kit 1.5, as its weights require: twice the yaw in the ego frame is
            learned, and doubled again. ``single``, for new trainings, learns the yaw relative to the current frame.
        apply_weights_scaling: Weight the errors by ``weights_scaling``; L5Kit 1.5 does not.
        use_agent_labels: Embed cars, cyclists and pedestrians differently, for new trainings; L5Kit 1.5 does not.
        agents_in_own_frame: Also embed the past of other agents relative to their own poses, for new trainings; L5Kit
            1.5 does not.
        motion_step_time_s: Seconds between past steps, to also embed speeds, accelerations and turn rates of agents,
            for new trainings; None to omit them, like L5Kit 1.5.
        use_route: Also embed the route, the goal and the positions of agents on the route, for new trainings; L5Kit 1.5
            has no routes. Samples need the keys of ``model_params.route``.
        normalize_targets: Divide targets by the usual displacement of a car, for new trainings; L5Kit 1.5 does not.
        position_scale_m: Unit of learned positions; that of L5Kit 1.5 and its weights is 125 m.
        dropout: Dropout probability in training.
        dim_local: Features of a point and of a polyline.
        dim_global: Features inside the transformer.
        dim_feedforward: Features inside its feed-forward networks.
        nhead: Attention heads.
        num_local_layers: Layers of the graph within a polyline.
        num_encoder_layers: Layers of the encoder.
        num_decoder_layers: Layers of the decoder.

    Raises:
        InvalidArgumentError: A count is below 1, or ``weights_scaling`` does not have three values per step.
        UnsupportedValueError: There is no such ``yaw_residual``.
    """

    def __init__(
        self,
        history_num_frames_ego: int,
        history_num_frames_agents: int,
        num_timesteps: int,
        weights_scaling: list[float],
        criterion: nn.Module | None,
        disable_other_agents: bool,
        disable_map: bool,
        disable_lane_boundaries: bool,
        agent_num_trajectories: int,
        max_num_agents: int = 30,
        cost_prob_coeff: float = 0.01,
        *,
        yaw_residual: str = "doubled",
        apply_weights_scaling: bool = False,
        use_agent_labels: bool = False,
        agents_in_own_frame: bool = False,
        motion_step_time_s: float | None = None,
        use_route: bool = False,
        normalize_targets: bool = False,
        position_scale_m: float = _POSITION_SCALE_M,
        dropout: float = 0.1,
        dim_local: int = 128,
        dim_global: int = 256,
        dim_feedforward: int = 1024,
        nhead: int = 8,
        num_local_layers: int = 3,
        num_encoder_layers: int = 3,
        num_decoder_layers: int = 3,
    ) -> None:
        if yaw_residual not in _YAW_RESIDUALS:
            raise UnsupportedValueError(
                f"yaw_residual is {yaw_residual!r}; allowed are 'doubled' for weights of L5Kit 1.5 and 'single'"
            )
        super().__init__(
            num_steps=num_timesteps,
            weights_scaling=weights_scaling,
            criterion=criterion,
            dim_local=dim_local,
            dim_global=dim_global,
            num_local_layers=num_local_layers,
            normalize_targets=normalize_targets,
            use_agent_labels=use_agent_labels,
            agents_in_own_frame=agents_in_own_frame,
            motion_step_time_s=motion_step_time_s,
            use_route=use_route,
            disable_other_agents=disable_other_agents,
            disable_map=disable_map,
            disable_lane_boundaries=disable_lane_boundaries,
        )
        self.history_num_frames_ego = history_num_frames_ego
        self.history_num_frames_agents = history_num_frames_agents
        self.num_timesteps = num_timesteps
        self.max_num_agents = max_num_agents
        self.cost_prob_coeff = float(cost_prob_coeff)
        self.yaw_is_doubled = yaw_residual == "doubled"
        self.apply_weights_scaling = apply_weights_scaling
        self.position_scale_m = float(position_scale_m)
        self.yaw_scale_rad = _YAW_SCALE_RAD
        self.eps = float(torch.finfo(torch.float32).eps)
        self.trajectory_matcher = TrajectoryMatcher(cost_prob_coeff)
        self.global_head = MultimodalDecoder(
            dim_in=dim_local,
            projection_dim=dim_global,
            nhead=nhead,
            dim_feedforward=dim_feedforward,
            num_layers=num_encoder_layers,
            num_decode_layers=num_decoder_layers,
            dropout=dropout,
            future_num_frames=num_timesteps,
            agent_future_num_frames=num_timesteps,
            num_trajectories=_NUM_EGO_TRAJECTORIES,
            agent_num_trajectories=agent_num_trajectories,
            max_num_agents=max_num_agents,
        )

    def model_call(
        self,
        agents_polys: torch.Tensor,
        static_polys: torch.Tensor,
        agents_avail: torch.Tensor,
        static_avail: torch.Tensor,
        type_embedding: torch.Tensor,
        lane_bdry_len: int,
        route: RouteElements | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the outputs of the network for polylines.

        Args:
            agents_polys: The ego and the agents, shape (B, 1 + A, P, 3).
            static_polys: The map, shape (B, S, P', 3).
            agents_avail: True for points that are available, shape (B, 1 + A, P).
            static_avail: Likewise, shape (B, S, P').
            type_embedding: Type embedding of each element, always including boundaries, shape (B, N, dim_global).
            lane_bdry_len: Number of boundaries Lb among the types.
            route: Route and goal, which become two more elements at the end.

        Returns:
            Scaled trajectories (B, A, K, T, 3) and their logits (B, A, K).
        """
        if self.disable_map:
            static_avail = torch.zeros_like(static_avail)
        if self.disable_lane_boundaries:
            type_embedding = type_embedding[:, : type_embedding.shape[1] - lane_bdry_len]
        embeddings, unavailable = self.embed_elements(agents_polys, static_polys, agents_avail, static_avail, route)
        if self.route_embedding is not None and route is not None:
            type_embedding = torch.cat((type_embedding, self.route_embedding.types_of(embeddings.shape[0])), dim=1)
        ignored = unavailable
        if self.disable_other_agents:
            element = torch.arange(unavailable.shape[1], device=unavailable.device)
            ignored = unavailable | ((element > 0) & (element < agents_polys.shape[1]))
        trajectories, logits = self.global_head(embeddings, type_embedding, ignored, unavailable)
        return trajectories, logits

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the losses in train mode, the trajectories in eval mode; the batch is not changed.

        Args:
            data_batch: A batch of samples of ``EgoAgentDatasetVectorized``; see :func:`collect_elements` and
                :class:`VectorizedEmbedding`. Also ``all_other_agents_history_positions`` (B, A, Hn, 2) in metres,
                ``all_other_agents_history_yaws`` (B, A, Hn, 1) in radians and ``all_other_agents_history_availability``
                (B, A, Hn), newest first and in the ego frame. In train mode ``all_other_agents_future_positions``
                (B, A, T, 2), ``all_other_agents_future_yaws`` (B, A, T, 1) and ``all_other_agents_future_availability``
                (B, A, T) too.

        Returns:
            In train mode the scalars ``loss``, ``loss/agents_traj`` and ``loss/agents_traj_prob``. In eval mode
            ``agent_positions`` (B, A, T, 2) and ``agent_yaws`` (B, A, T, 1) of the likeliest trajectories,
            ``all_agent_positions`` (B, A, K, T, 2), ``all_agent_yaws`` (B, A, K, T, 1) and ``agent_traj_logits``
            (B, A, K), positions and yaws in the ego frame.

        Raises:
            NotImplementedError: In train mode without a criterion.
        """
        elements = collect_elements(data_batch, not self.disable_lane_boundaries)
        types, route = self.type_embedding(data_batch), self.route_of(data_batch)
        trajectories, logits = self.call_with(elements, types, data_batch["lanes"].shape[1], route)
        # the batch may have more or fewer agents than get trajectories, and map elements follow them
        num_agents = min(data_batch["all_other_agents_history_positions"].shape[1], logits.shape[1])
        trajectories, logits = trajectories[:, :num_agents], logits[:, :num_agents]
        poses = _AgentPoses(
            data_batch["all_other_agents_history_positions"][:, :num_agents, 0],
            data_batch["all_other_agents_history_yaws"][:, :num_agents, 0],
            data_batch["all_other_agents_history_availability"][:, :num_agents, 0].to(torch.bool),
        )
        if not self.training:
            return self._predictions(trajectories.to(self.xy_scale.dtype), logits, poses)
        return self._losses(data_batch, trajectories, logits, poses)

    def _losses(
        self, data_batch: dict[str, torch.Tensor], trajectories: torch.Tensor, logits: torch.Tensor, poses: _AgentPoses
    ) -> dict[str, torch.Tensor]:
        if self.criterion is None:
            raise NotImplementedError(missing_criterion("SafePathNetModel"))
        num_agents = logits.shape[1]
        available = data_batch["all_other_agents_future_availability"][:, :num_agents].to(trajectories.dtype)

        # scaled targets of the agents, each in its own frame, (B, A, T, 3)
        _, agent_from_ego = build_matrix(poses.positions, poses.yaws.squeeze(-1))
        xy = transform_xy(data_batch["all_other_agents_future_positions"][:, :num_agents], agent_from_ego.unsqueeze(2))
        yaws = data_batch["all_other_agents_future_yaws"][:, :num_agents]
        if self.yaw_is_doubled:
            relative_yaws = yaws + yaws
        else:
            difference = yaws - poses.yaws.unsqueeze(2)
            relative_yaws = torch.atan2(torch.sin(difference), torch.cos(difference))
        targets = torch.cat((xy / (self.position_scale_m * self.xy_scale), relative_yaws / self.yaw_scale_rad), dim=-1)
        targets = targets.unsqueeze(2).expand_as(trajectories)

        # the trajectory with the least mean cost over known steps is the best one of each agent; the loss sums its
        # errors
        errors = self.criterion(trajectories, targets) * available[:, :, None, :, None]
        if self.apply_weights_scaling:
            errors = errors * self.weights_scaling
        cost = errors.sum(dim=(3, 4))  # (B, A, K)
        num_available = available.sum(dim=2)  # (B, A)
        is_any = num_available > 0
        mean_cost = is_any.unsqueeze(-1) * cost / (num_available.unsqueeze(-1) + self.eps)
        best = self.trajectory_matcher(mean_cost, logits)
        best_cost = cost.gather(2, best.unsqueeze(-1)).squeeze(-1)
        trajectories_loss = (is_any * best_cost).sum() / (num_available.sum() + self.eps)
        surprise = F.cross_entropy(logits.flatten(0, 1), best.flatten(), reduction="none")
        probabilities_loss = (surprise * is_any.flatten()).sum() / is_any.sum().clamp(min=1)
        return {
            "loss": trajectories_loss + self.cost_prob_coeff * probabilities_loss,
            "loss/agents_traj": trajectories_loss,
            "loss/agents_traj_prob": probabilities_loss,
        }

    def _predictions(
        self, trajectories: torch.Tensor, logits: torch.Tensor, poses: _AgentPoses
    ) -> dict[str, torch.Tensor]:
        # missing agents stay at the origin of the ego frame
        xy = trajectories[..., :2] * (self.position_scale_m * self.xy_scale)
        present = poses.available[:, :, None, None, None]
        relative_yaws = trajectories[..., 2:3] * self.yaw_scale_rad * present
        ego_from_agent, _ = build_matrix(poses.positions, poses.yaws.squeeze(-1))
        positions = transform_xy(xy * present, ego_from_agent[:, :, None, None])
        yaws = relative_yaws + (relative_yaws if self.yaw_is_doubled else poses.yaws[:, :, None, None])
        likeliest = logits.argmax(dim=-1)[:, :, None, None, None].expand(-1, -1, 1, xy.shape[3], 2)
        return {
            "agent_positions": positions.gather(2, likeliest).squeeze(2),
            "agent_yaws": yaws.gather(2, likeliest[..., :1]).squeeze(2),
            "all_agent_positions": positions,
            "all_agent_yaws": yaws,
            "agent_traj_logits": logits,
        }
