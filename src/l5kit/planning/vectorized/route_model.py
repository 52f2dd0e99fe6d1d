"""Route planner: small networks for the target with its route, agents and lanes, and a decoder."""

from typing import Final, Literal

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.errors import InvalidArgumentError
from l5kit.planning.losses import losses_of_winners, missing_criterion, mode_costs, mode_outputs
from l5kit.planning.vectorized.global_graph import MLP
from l5kit.planning.vectorized.route_features import RouteInputs
from l5kit.planning.vectorized.trajectory_decoder import DecoderKind, TrajectoryDecoder

PoolingKind = Literal["max", "attention"]
"""``max`` for the maximum of each feature, ``attention`` for a mean with weights that depend on the target."""

NUM_POOLING_HEADS: Final = 4
"""Heads of the attention, which must divide the features of an element."""


class RoutePlannerModel(nn.Module):
    """Planner of several trajectories along a route, with probabilities.

    New in 2.0. Small networks embed the target with its route, each other agent and each lane; the embeddings of agents
    and of lanes are pooled, and a decoder makes trajectories of all three. In train mode ``forward`` returns the
    losses, in eval mode the trajectories. Results depend neither on absent elements nor on the order of present ones.

    Args:
        inputs: Its features.
        num_steps: Steps T to plan.
        step_time_s: Duration of a step, seconds.
        num_modes: Trajectories M.
        decoder: Kind of the decoder; see :class:`TrajectoryDecoder`.
        pooling: Kind of the pooling; see :class:`ElementPooling`.
        dim_features: Features of a scene; elements have half as many.
        weights_scaling: Weights of the errors of x, y and yaw in the loss.
        modes_weight: Weight of the cross entropy of modes in the loss.
        loss_decay_s: Time after which the weight of a step in the loss has decayed to 1/e; None for equal weights.
        criterion: Element-wise loss; None for a model that only predicts.
        disable_other_agents: Ignore other agents.
        disable_map: Ignore lanes, but not the route.

    Raises:
        InvalidArgumentError: A count is below 1, there are not three weights, ``loss_decay_s`` is not above 0, or the
            heads of attention do not divide the features of an element.
    """

    weights_scaling: torch.Tensor
    step_weights: torch.Tensor

    def __init__(
        self,
        inputs: RouteInputs,
        *,
        num_steps: int,
        step_time_s: float,
        num_modes: int = 3,
        decoder: DecoderKind = "kinematic",
        pooling: PoolingKind = "max",
        dim_features: int = 256,
        weights_scaling: tuple[float, float, float] = (1.0, 1.0, 5.0),
        modes_weight: float = 0.1,
        loss_decay_s: float | None = None,
        criterion: nn.Module | None = None,
        disable_other_agents: bool = False,
        disable_map: bool = False,
    ) -> None:
        super().__init__()
        dim_elements = dim_features // 2
        if num_steps < 1 or num_modes < 1:
            raise InvalidArgumentError(f"num_steps is {num_steps} and num_modes {num_modes}; give at least one of each")
        if dim_elements < 1 or (pooling == "attention" and dim_elements % NUM_POOLING_HEADS):
            raise InvalidArgumentError(
                f"dim_features is {dim_features}; give at least 2, for attention a multiple of {2 * NUM_POOLING_HEADS}"
            )
        if len(weights_scaling) != 3:
            raise InvalidArgumentError(f"weights_scaling is {weights_scaling}; give three weights, for x, y and yaw")
        if loss_decay_s is not None and not loss_decay_s > 0:
            raise InvalidArgumentError(f"loss_decay_s is {loss_decay_s}; give seconds above 0, or None")
        self.inputs, self.criterion, self.modes_weight = inputs, criterion, float(modes_weight)
        self.disable_other_agents, self.disable_map = disable_other_agents, disable_map
        self.register_buffer("weights_scaling", torch.tensor(weights_scaling, dtype=torch.float32))
        decay = 0.0 if loss_decay_s is None else step_time_s / loss_decay_s
        weights = torch.exp(-decay * torch.arange(1.0, num_steps + 1))
        self.register_buffer("step_weights", weights / weights.mean(), persistent=False)
        self.target = MLP(inputs.num_of_target, dim_features, dim_features, num_layers=2)
        self.agents = ElementPooling(inputs.num_of_agent, dim_elements, dim_target=dim_features, kind=pooling)
        self.lanes = ElementPooling(inputs.num_of_lane, dim_elements, dim_target=dim_features, kind=pooling)
        self.body = MLP(dim_features + 2 * dim_elements, dim_features, dim_features, num_layers=3)
        self.decoder = TrajectoryDecoder(
            dim_features, num_modes, num_steps=num_steps, step_time_s=step_time_s, kind=decoder
        )

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the losses in train mode, the trajectories in eval mode; the batch is not changed.

        Args:
            data_batch: Inputs of :meth:`RouteInputs.features_of`. In train mode also ``target_positions`` (B, T, 2) in
                metres, ``target_yaws`` (B, T, 1) in radians and ``target_availabilities`` (B, T).

        Returns:
            In train mode the scalars ``loss``, ``loss/trajectories`` and ``loss/modes``, over samples with a known
            step. In eval mode ``positions`` (B, T, 2) and ``yaws`` (B, T, 1) of the likeliest mode, ``positions_all``
            (B, M, T, 2), ``yaws_all`` (B, M, T, 1) and ``mode_logits`` (B, M), in the frame of the target.

        Raises:
            InvalidArgumentError: The batch has no route, or routes with a different number of points.
            NotImplementedError: In train mode without a criterion.
        """
        features = self.inputs.features_of(data_batch, with_agents=not self.disable_other_agents)
        lanes_there = torch.zeros_like(features.lanes_there) if self.disable_map else features.lanes_there
        target = F.relu(self.target(features.target))
        scene = torch.cat(
            (
                target,
                self.agents(features.agents, features.agents_there, target),
                self.lanes(features.lanes, lanes_there, target),
            ),
            dim=-1,
        )
        trajectories, logits = self.decoder(F.relu(self.body(scene)), features.speeds_mps, features.rear_axles_m)
        if not self.training:
            return mode_outputs(trajectories, logits)
        if self.criterion is None:
            raise NotImplementedError(missing_criterion("RoutePlannerModel"))
        available = (data_batch["target_availabilities"] > 0).to(trajectories.dtype)
        # the equivalent true yaw nearest to the planned one, which may turn by more than half a circle
        turns = data_batch["target_yaws"].unsqueeze(1) - trajectories[..., 2:].detach()
        yaws = trajectories[..., 2:].detach() + torch.atan2(turns.sin(), turns.cos())
        positions = data_batch["target_positions"].unsqueeze(1).expand_as(trajectories[..., :2])
        errors = self.criterion(trajectories, torch.cat((positions, yaws), dim=-1))
        weights = (available * self.step_weights).unsqueeze(-1) * self.weights_scaling
        weighted = errors * weights.unsqueeze(1)
        costs = mode_costs(weighted, available, available_only=True)
        losses = losses_of_winners(costs, logits.float(), available.any(dim=1))
        return {
            "loss": losses.trajectories + self.modes_weight * losses.modes,
            "loss/trajectories": losses.trajectories,
            "loss/modes": losses.modes,
        }


class ElementPooling(nn.Module):
    """Embedding of elements one by one, and pooling of those present, independent of their order.

    Args:
        num_features: Input features of an element.
        dim: Features of the embedding.
        dim_target: Features of the target, which guide the attention.
        kind: Kind of the pooling.
    """

    def __init__(self, num_features: int, dim: int, *, dim_target: int, kind: PoolingKind) -> None:
        super().__init__()
        self.embed = MLP(num_features, max(dim // 2, 1), dim, num_layers=3)
        self.query: nn.Linear | None = None
        self.attention: nn.MultiheadAttention | None = None
        if kind == "attention":
            self.query = nn.Linear(dim_target, dim)
            # an added zero element is the result for an empty set
            self.attention = nn.MultiheadAttention(dim, NUM_POOLING_HEADS, batch_first=True, add_zero_attn=True)

    def forward(self, features: torch.Tensor, is_there: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return embeddings (B, dim); those of a sample without elements do not depend on the features.

        Args:
            features: Features of each element, (B, N, num_features).
            is_there: Mask of present elements, bool (B, N).
            target: Features of the target, (B, dim_target).
        """
        elements = F.relu(self.embed(features))
        if self.attention is None or self.query is None:
            if elements.shape[1] == 0:
                return elements.sum(dim=1)
            # embeddings are at least 0, the value of absent elements
            return (elements * is_there.unsqueeze(-1)).max(dim=1).values
        query = self.query(target).unsqueeze(1)
        pooled, _ = self.attention(query, elements, elements, key_padding_mask=~is_there, need_weights=False)
        return F.relu(query + pooled).squeeze(1)
