"""Base of all vector models: embeddings of the elements of a scene from their polylines."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.errors import InvalidArgumentError
from l5kit.planning.motion_embedding import MotionEmbedding
from l5kit.planning.vectorized.common import build_matrix, build_target_normalization, transform_xy
from l5kit.planning.vectorized.elements import SceneElements
from l5kit.planning.vectorized.global_graph import VectorizedEmbedding
from l5kit.planning.vectorized.local_graph import LocalSubGraph, SinusoidalPositionalEmbedding
from l5kit.planning.vectorized.route_elements import RouteElements, RouteEmbedding, collect_route

_NUM_FEATURES = 3
"""x, y and yaw of a point."""

_AGENT_STD = (1.6919, 0.0365, 0.0218)
_OTHER_AGENT_STD = (33.2631, 21.3976, 1.5490)
"""Standard deviations of the features in metres, metres and radians, as L5Kit 1.5 has them."""

_MAX_OWN_FRAME_FEATURE = 30.0
"""Bound of the scaled features of agents in their own frames, such as those of a reversed heading."""


class PolylineModel(nn.Module):
    """Base of vector models that embeds the elements of a scene; subclasses add ``global_head`` and ``model_call``.

    Args:
        num_steps: Steps to predict.
        weights_scaling: Weight of each value of a step in the loss.
        criterion: Element-wise loss; None for a model that only predicts.
        dim_local: Features of a point and of a polyline.
        dim_global: Features of the type of an element, to which the length of the embeddings is scaled.
        num_local_layers: Layers of the graph within a polyline.
        normalize_targets: Divide target positions by the typical distance of a car.
        use_agent_labels: Embed cars, cyclists and pedestrians separately; see :class:`VectorizedEmbedding`.
        agents_in_own_frame: Also embed the past of other agents in their own frames.
        motion_step_time_s: Duration of past steps, to also embed the motion of agents; None to disable it.
        use_route: Also embed the route, the goal and the positions of agents on the route.
        disable_other_agents: Ignore other agents.
        disable_map: Ignore lanes, crosswalks and boundaries.
        disable_lane_boundaries: Ignore lane boundaries.

    Raises:
        InvalidArgumentError: ``weights_scaling`` or ``num_steps`` do not fit steps of x, y and yaw.
    """

    weights_scaling: torch.Tensor
    xy_scale: torch.Tensor
    agent_std: torch.Tensor
    other_agent_std: torch.Tensor

    def __init__(
        self,
        *,
        num_steps: int,
        weights_scaling: list[float],
        criterion: nn.Module | None,
        dim_local: int,
        dim_global: int,
        num_local_layers: int,
        normalize_targets: bool,
        use_agent_labels: bool,
        agents_in_own_frame: bool,
        motion_step_time_s: float | None,
        use_route: bool,
        disable_other_agents: bool,
        disable_map: bool,
        disable_lane_boundaries: bool,
    ) -> None:
        super().__init__()
        if len(weights_scaling) != _NUM_FEATURES:
            raise InvalidArgumentError(f"weights_scaling is {weights_scaling}; give three weights, for x, y and yaw")
        if num_steps < 1:
            raise InvalidArgumentError(f"there are {num_steps} steps to predict; give at least one")
        self.disable_other_agents = disable_other_agents
        self.disable_map = disable_map
        self.disable_lane_boundaries = disable_lane_boundaries
        self.normalize_targets = normalize_targets
        self.agents_in_own_frame = agents_in_own_frame
        self.max_own_frame_feature = _MAX_OWN_FRAME_FEATURE
        self.criterion = criterion
        self.embedding_length = math.sqrt(dim_global)
        scale = build_target_normalization(num_steps) if normalize_targets else torch.ones(num_steps, 2)
        self.register_buffer("weights_scaling", torch.tensor(weights_scaling, dtype=torch.float32))
        self.register_buffer("xy_scale", scale)
        self.register_buffer("agent_std", torch.tensor(_AGENT_STD))
        self.register_buffer("other_agent_std", torch.tensor(_OTHER_AGENT_STD))
        self.input_embed = nn.Linear(_NUM_FEATURES, dim_local)
        self.positional_embedding = SinusoidalPositionalEmbedding(dim_local)
        self.type_embedding = VectorizedEmbedding(dim_global, use_agent_labels=use_agent_labels)
        self.local_subgraph = LocalSubGraph(num_local_layers, dim_local)
        self.motion_embedding: MotionEmbedding | None = None
        if motion_step_time_s is not None:
            self.motion_embedding = MotionEmbedding(dim_local, motion_step_time_s)
        self.route_embedding: RouteEmbedding | None = None
        if use_route:
            self.route_embedding = RouteEmbedding(dim_local, dim_global)

    @property
    def disable_pos_encode(self) -> bool:
        """Whether points are embedded without their index in the polyline: never, as in L5Kit 1.5."""
        return False

    def route_of(self, data_batch: dict[str, torch.Tensor]) -> RouteElements | None:
        """Return the routes of a batch of samples, None for a model without routes.

        Raises:
            InvalidArgumentError: The model needs routes, but the batch has none.
        """
        if self.route_embedding is None:
            return None
        return collect_route(data_batch)

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
        """Return the outputs of the network for polylines; see the subclasses."""
        raise NotImplementedError

    def call_with(
        self, elements: SceneElements, types: torch.Tensor, num_boundaries: int, route: RouteElements | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the result of ``model_call``, which subclasses for L5Kit 1.x define without a route.

        Args:
            elements: The polylines.
            types: Type of each element, including boundaries when these are disabled, as ``model_call`` takes it.
            num_boundaries: Boundaries among the types.
            route: The route, None for a model without routes.
        """
        agents, agents_available = elements.agents, elements.agents_available
        static, static_available = elements.static, elements.static_available
        if route is None:  # two calls, as TorchScript does not support optional arguments here
            return self.model_call(agents, static, agents_available, static_available, types, num_boundaries)
        return self.model_call(agents, static, agents_available, static_available, types, num_boundaries, route)

    def embed_polyline(
        self, features: torch.Tensor, mask: torch.Tensor, more: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one embedding for each polyline.

        Args:
            features: Scaled features of the points, shape (B, N, P, 3).
            mask: True for points that are available, shape (B, N, P).
            more: Added to the embedded points, shape (B, N, P, D).

        Returns:
            Embeddings (B, N, D), zeros for polylines without a point, and True for these polylines, bool (B, N).
        """
        invalid = ~mask.to(torch.bool)
        codes = self.positional_embedding(features).transpose(0, 1)  # (1, P, D)
        points = self.input_embed(features)
        if more is not None:
            points = points + more
        embeddings = self.local_subgraph(points, invalid, codes)
        return embeddings, invalid.all(dim=-1)

    def embed_elements(
        self,
        agents_polys: torch.Tensor,
        static_polys: torch.Tensor,
        agents_avail: torch.Tensor,
        static_avail: torch.Tensor,
        route: RouteElements | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return embeddings of one length for the agents, the first of which is the agent of interest, and the map.

        Args:
            agents_polys: Shape (B, 1 + A, P, 3).
            static_polys: Shape (B, S, P', 3); P' may differ from P.
            agents_avail: True for points that are available, shape (B, 1 + A, P).
            static_avail: Likewise, shape (B, S, P').
            route: The route and the goal, which become two more elements at the end.

        Returns:
            Embeddings (B, 1 + A + S, D), and True for elements to ignore, bool (B, 1 + A + S). The first element is
            never ignored.
        """
        of_positions: torch.Tensor | None = None
        agents = torch.cat((agents_polys[:, :1] / self.agent_std, agents_polys[:, 1:] / self.other_agent_std), dim=1)
        of_agents, invalid_agents = self.embed_polyline(agents, agents_avail)
        of_static, invalid_static = self.embed_polyline(static_polys / self.other_agent_std, static_avail)
        if self.route_embedding is not None and route is not None:
            of_points, of_positions = self.route_embedding(route)
            of_route, invalid_route = self.embed_polyline(
                route.polylines / self.other_agent_std, route.available, of_points
            )
            of_static = torch.cat((of_static, of_route), dim=1)
            invalid_static = torch.cat((invalid_static, invalid_route), dim=1)
        num_static = of_static.shape[1]
        embeddings = F.normalize(torch.cat((of_agents, of_static), dim=1), dim=-1)
        if self.agents_in_own_frame:
            motions = self._embed_motions(agents_polys[:, 1:], agents_avail[:, 1:])
            embeddings = embeddings + F.pad(
                motions, [0, 0, 1, num_static]
            )  # only for other agents, not for the agent of interest or the map
        embeddings = embeddings * self.embedding_length
        if self.motion_embedding is not None:
            states = self.motion_embedding(agents_polys[..., :2], agents_polys[..., 2], agents_avail)
            embeddings = embeddings + F.pad(states, [0, 0, 0, num_static])
        if of_positions is not None:
            embeddings = embeddings + F.pad(of_positions, [0, 0, 0, num_static])
        first = torch.zeros_like(invalid_agents[:, :1])
        return embeddings, torch.cat((first, invalid_agents[:, 1:], invalid_static), dim=1)

    def _embed_motions(self, polylines: torch.Tensor, available: torch.Tensor) -> torch.Tensor:
        """Return embeddings (B, A, D) of length 1 of the past motion of agents, whatever their poses in the scene.

        Args:
            polylines: Poses of the agents, the current one first, (B, A, P, 3).
            available: True for points that are available, (B, A, P).
        """
        _, own_from_scene = build_matrix(polylines[:, :, 0, :2], polylines[:, :, 0, 2])
        xy = transform_xy(polylines[..., :2], own_from_scene.unsqueeze(2))
        turns = polylines[..., 2:3] - polylines[:, :, :1, 2:3]
        turns = torch.atan2(torch.sin(turns), torch.cos(turns))
        features = torch.cat((xy, turns), dim=-1) * available.unsqueeze(-1) / self.agent_std
        features = features.clamp(-self.max_own_frame_feature, self.max_own_frame_feature)
        embeddings, _ = self.embed_polyline(features, available)
        return F.normalize(embeddings, dim=-1)
