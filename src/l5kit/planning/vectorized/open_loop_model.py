"""Vector planning model trained in open loop."""

import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.planning.losses import mean_over_steps, missing_criterion
from l5kit.planning.vectorized.elements import collect_elements
from l5kit.planning.vectorized.global_graph import MultiheadAttentionGlobalHead
from l5kit.planning.vectorized.polyline_model import PolylineModel
from l5kit.planning.vectorized.route_elements import RouteElements

_DIM = 256
_NUM_LOCAL_LAYERS = 3


class VectorizedModel(PolylineModel):
    """Vector model that predicts one trajectory of the agent of interest from the polylines around it.

    In train mode ``forward`` returns the loss, in eval mode the trajectory.

    Args:
        history_num_frames_ego: Past frames of the agent of interest; the samples already have at most that many.
        history_num_frames_agents: Past frames of the other agents; the samples already have at most that many.
        num_targets: Values to predict, 3 (x, y, yaw) for each future step.
        weights_scaling: Weights of the errors of x, y and yaw in the loss.
        criterion: Element-wise loss, such as ``torch.nn.L1Loss(reduction="none")``; None for a model that only
            predicts.
        global_head_dropout: Probability with which attention to an element is dropped in training.
        disable_other_agents: Ignore other agents.
        disable_map: Ignore lanes, crosswalks and boundaries.
        disable_lane_boundaries: Ignore lane boundaries.
        use_agent_labels: Embed cars, cyclists and pedestrians separately, for new trainings; L5Kit 1.5 does not.
        agents_in_own_frame: Also embed the past of other agents in their own frames, for new trainings; L5Kit 1.5 does
            not.
        motion_step_time_s: Duration of past steps, to also embed speeds, accelerations and turn rates of agents, for
            new trainings; None to disable it, as in L5Kit 1.5.
        use_route: Also embed the route, the goal and the positions of agents on the route, for new trainings; L5Kit 1.5
            does not. Samples need the keys of ``model_params.route``.
        average_available_only: Average the loss over available steps, instead of over all as L5Kit 1.5 does.
        dim_features: Features of an element; weights of L5Kit 1.5 have 256.
        normalize_targets: Divide targets by the typical distance of a car.

    Raises:
        InvalidArgumentError: ``num_targets`` or ``weights_scaling`` do not fit three values a step.
    """

    def __init__(
        self,
        history_num_frames_ego: int,
        history_num_frames_agents: int,
        num_targets: int,
        weights_scaling: list[float],
        criterion: nn.Module | None,
        global_head_dropout: float,
        disable_other_agents: bool,
        disable_map: bool,
        disable_lane_boundaries: bool,
        *,
        use_agent_labels: bool = False,
        agents_in_own_frame: bool = False,
        motion_step_time_s: float | None = None,
        use_route: bool = False,
        average_available_only: bool = False,
        dim_features: int = _DIM,
        normalize_targets: bool = True,
    ) -> None:
        num_outputs = max(len(weights_scaling), 1)
        if num_targets % num_outputs:
            raise InvalidArgumentError(
                f"num_targets is {num_targets}; give three times the future steps, because a step has x, y and yaw"
            )
        super().__init__(
            num_steps=num_targets // num_outputs,
            weights_scaling=weights_scaling,
            criterion=criterion,
            dim_local=dim_features,
            dim_global=dim_features,
            num_local_layers=_NUM_LOCAL_LAYERS,
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
        self.average_available_only = average_available_only
        self.global_head = MultiheadAttentionGlobalHead(
            dim_features, num_targets // num_outputs, num_outputs, dropout=global_head_dropout
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
            agents_polys: The agent of interest and the others, shape (B, 1 + A, P, 3).
            static_polys: The map, shape (B, S, P', 3).
            agents_avail: True for points that are available, shape (B, 1 + A, P).
            static_avail: Likewise, shape (B, S, P').
            type_embedding: Type of each element, including boundaries when these are disabled, shape (N, B, 256).
            lane_bdry_len: Boundaries Lb among the types.
            route: The route and the goal, which become two more elements at the end.

        Returns:
            Scaled outputs (B, T, O), and the attention to each element, (B, 1, 1 + A + S).
        """
        if self.disable_other_agents:
            of_others = torch.zeros_like(agents_avail[:, 1:])
            agents_avail = torch.cat((agents_avail[:, :1], of_others), dim=1)
        if self.disable_map:
            static_avail = torch.zeros_like(static_avail)
        if self.disable_lane_boundaries:
            type_embedding = type_embedding[: type_embedding.shape[0] - lane_bdry_len]
        embeddings, invalid = self.embed_elements(agents_polys, static_polys, agents_avail, static_avail, route)
        own: torch.Tensor | None = None
        if self.motion_embedding is not None:
            own = embeddings[:, 0]
        if self.route_embedding is not None and route is not None:
            types_of_route = self.route_embedding.types_of(embeddings.shape[0]).transpose(0, 1)
            type_embedding = torch.cat((type_embedding, types_of_route), dim=0)
            # in addition to the attention, which is shared among all elements, so that the route is always fully seen
            own = embeddings[:, 0] + embeddings[:, -types_of_route.shape[0] :].sum(dim=1)
        outputs, attention = self.global_head(embeddings.transpose(0, 1), type_embedding, invalid, own)
        return outputs, attention

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the loss in train mode, the trajectory in eval mode; the batch is not changed.

        Args:
            data_batch: A batch of samples of a vectorised dataset; see :func:`collect_elements` and
                :class:`VectorizedEmbedding`. In train mode also ``target_positions`` (B, T, 2) in metres,
                ``target_yaws`` (B, T, 1) in radians and ``target_availabilities`` (B, T).

        Returns:
            In train mode ``loss``, a scalar. In eval mode ``positions`` (B, T, 2) and ``yaws`` (B, T, 1), in the agent
            frame, and ``attention_weights`` (B, 1, N) over the elements.

        Raises:
            NotImplementedError: In train mode without a criterion.
        """
        elements = collect_elements(data_batch, not self.disable_lane_boundaries)
        types = self.type_embedding(data_batch).transpose(0, 1)
        route = self.route_of(data_batch)
        outputs, attention = self.call_with(elements, types, data_batch["lanes"].shape[1], route)
        if not self.training:
            positions = outputs[..., :2] * self.xy_scale
            return {"positions": positions, "yaws": outputs[..., 2:3], "attention_weights": attention}
        if self.criterion is None:
            raise NotImplementedError(missing_criterion("VectorizedModel"))
        targets = torch.cat((data_batch["target_positions"] / self.xy_scale, data_batch["target_yaws"]), dim=-1)
        available = data_batch["target_availabilities"]
        errors = self.criterion(outputs, targets) * (available.unsqueeze(-1) * self.weights_scaling)
        return {"loss": mean_over_steps(errors, available, self.average_available_only)}
