"""Layers of the motion token model: attention with relative poses over time, to the map, and between agents."""

import math
from typing import Final, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.errors import InvalidArgumentError
from l5kit.prediction.vectorized.plane_poses import relative_to

POSE_FEATURES: Final = 8
"""Number of features returned by :func:`pose_features`."""

_FAR_M: Final = 20.0
_NEAR_M: Final = 4.0


class AgentStates(NamedTuple):
    """Agents at Q steps."""

    features: torch.Tensor  # (B, A, Q, D)
    poses: torch.Tensor  # (B, A, Q, 3): metres and radians
    is_known: torch.Tensor  # bool, (B, A, Q)


class PastStates(NamedTuple):
    """Cached state of earlier steps, which later steps attend to."""

    inputs: list[torch.Tensor]  # (B, A, P, D) for each layer
    poses: torch.Tensor  # (B, A, P, 3)
    is_known: torch.Tensor  # bool, (B, A, P)


class Road(NamedTuple):
    """Map as S pieces of polylines."""

    features: torch.Tensor  # (B, S, D)
    poses: torch.Tensor  # (B, S, 3): frames of the pieces
    is_known: torch.Tensor  # bool, (B, S)


def pose_features(start: torch.Tensor, end: torch.Tensor, steps: torch.Tensor | float = 0.0) -> torch.Tensor:
    """Return features of relative poses, with values around one; they do not depend on the common frame.

    Args:
        start: Reference poses, shape (..., 3).
        end: Poses relative to these, in a shape that broadcasts.
        steps: Number of steps from ``start`` to ``end``, in a shape (...) that broadcasts.

    Returns:
        Shape (..., POSE_FEATURES).
    """
    seen = relative_to(start, end)
    x, y, yaw = seen.unbind(dim=-1)
    distance = torch.sqrt(x * x + y * y + 1e-6)
    time = torch.zeros_like(x) + steps
    columns = (x / _FAR_M, y / _FAR_M, torch.tanh(x / _NEAR_M), torch.tanh(y / _NEAR_M))
    return torch.stack((*columns, torch.log1p(distance), torch.cos(yaw), torch.sin(yaw), time / 4), dim=-1)


class RelativeAttention(nn.Module):
    """Attention in which keys and values depend on the pose of the source relative to the query.

    Besides its sources, each query has a zero key without a value. So the result is finite for any mask, and 0 without
    sources.

    Args:
        dim: Features of queries, sources and the result.
        num_heads: Heads; ``dim`` is a multiple of it.
        edge_dim: Features of an edge, which is a pair of query and source.
    """

    def __init__(self, dim: int, num_heads: int, edge_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(dim, dim)
        self.edge_query = nn.Linear(dim, num_heads * edge_dim)
        self.source = nn.Linear(dim, 2 * dim)
        self.result = nn.Linear(dim, dim, bias=False)
        self.edge_result = nn.Linear(num_heads * edge_dim, dim, bias=False)

    def forward(
        self,
        queries: torch.Tensor,
        sources: torch.Tensor,
        edges: torch.Tensor,
        is_seen: torch.Tensor,
        chosen: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the attended features of the queries.

        Args:
            queries: Shape (..., Q, D).
            sources: Shape (..., S, D).
            edges: Features of each query and source, shape (..., Q, S, E).
            is_seen: Mask of the sources that a query attends to, bool, shape (..., Q, S).
            chosen: Sources that each query attends to, int64, shape (N, Q, K), for queries (N, Q, D) and sources
                (N, S, D); K then replaces S in ``edges`` and ``is_seen``. None for all.

        Returns:
            Shape (..., Q, D).
        """
        heads = (self.num_heads, -1)
        keys, values = self.source(sources).chunk(2, dim=-1)
        keys, values = keys.unflatten(-1, heads), values.unflatten(-1, heads)  # (..., S, H, d)
        by_head = self.query(queries).unflatten(-1, heads)
        edge_scores = self.edge_query(queries).unflatten(-1, heads) @ edges.transpose(-1, -2)

        # Dot products of queries and keys, (..., Q, H, S). With all sources these are matrix products for each head; if
        # each query has its own sources, (N, Q, K, H, d), there is no common matrix.
        if chosen is None:
            by_keys = by_head.transpose(-2, -3) @ keys.transpose(-2, -3).transpose(-1, -2)
            products = by_keys.transpose(-2, -3)
        else:
            rows = torch.arange(keys.shape[0], device=keys.device)[:, None, None]
            keys, values = keys[rows, chosen], values[rows, chosen]
            products = (by_head.unsqueeze(-3) * keys).sum(dim=-1).transpose(-1, -2)
        scores = (edge_scores + products) / math.sqrt(by_head.shape[-1])

        # the zero key after the sources takes the rest of the weights, and has no value
        scores = scores.masked_fill(~is_seen.unsqueeze(-2), -torch.inf)
        weights = F.pad(scores, [0, 1]).softmax(dim=-1)[..., :-1]
        if chosen is None:
            attended = (weights.transpose(-2, -3) @ values.transpose(-2, -3)).transpose(-2, -3)
        else:
            attended = (weights.transpose(-1, -2).unsqueeze(-1) * values).sum(dim=-3)
        result: torch.Tensor = self.result(attended.flatten(-2)) + self.edge_result((weights @ edges).flatten(-2))
        return result


class _Seen(NamedTuple):
    """Attention masks and edge features of Q steps."""

    time_edges: torch.Tensor  # (B, A, Q, P, E): to all steps so far
    is_past: torch.Tensor  # bool, (B, A, Q, P)
    map_edges: torch.Tensor  # (B, A * Q, K, E): to the nearest map pieces
    is_piece: torch.Tensor  # bool, (B, A * Q, K)
    pieces: torch.Tensor  # int64, (B, A * Q, K)
    agent_edges: torch.Tensor  # (B, Q, A, A, E): between agents
    is_other: torch.Tensor  # bool, (B, Q, A, A)


class _Layer(nn.Module):
    """One round: attention over time, to the map and between agents, then a feed-forward network, all residual."""

    def __init__(self, dim: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        edge_dim = _edge_dim(dim)
        self.over_time = RelativeAttention(dim, num_heads, edge_dim)
        self.to_map = RelativeAttention(dim, num_heads, edge_dim)
        self.to_agents = RelativeAttention(dim, num_heads, edge_dim)
        self.time_norm, self.map_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.agents_norm, self.own_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)
        self.own = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))

    def forward(
        self, features: torch.Tensor, before: torch.Tensor, road: torch.Tensor, seen: _Seen
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features (B, A, Q, D) after the round, and the inputs of its attention over time, (B, A, P, D)."""
        own = self.time_norm(features)
        steps = torch.cat((before, own), dim=2)
        features = features + self.dropout(self.over_time(own, steps, seen.time_edges, seen.is_past))
        by_agent = self.map_norm(features).flatten(1, 2)
        attended = self.to_map(by_agent, road, seen.map_edges, seen.is_piece, seen.pieces)
        features = features + self.dropout(attended.reshape(features.shape))
        at_steps = self.agents_norm(features).transpose(1, 2)
        attended = self.to_agents(at_steps, at_steps, seen.agent_edges, seen.is_other).transpose(1, 2)
        features = features + self.dropout(attended)
        return features + self.dropout(self.own(self.own_norm(features))), steps


class FactorisedDecoder(nn.Module):
    """Decoder in which agents attend to their own past, to the map and to other agents of the same step.

    No step attends to a later one, so steps can be added one by one. The inputs are relative poses only, so the result
    does not change if the whole scene is rotated or shifted.

    Args:
        dim: Features.
        num_layers: Rounds.
        num_heads: Heads of the attention.
        num_pieces: Number of nearest map pieces that an agent attends to.
        agents_radius_m: Agents attend to others within this distance.
        dropout: Dropout probability in training.

    Raises:
        InvalidArgumentError: ``dim`` is not a multiple of ``num_heads``.
    """

    def __init__(
        self,
        dim: int,
        num_layers: int,
        num_heads: int,
        *,
        num_pieces: int,
        agents_radius_m: float,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if dim % num_heads:
            raise InvalidArgumentError(f"dim is {dim} and num_heads {num_heads}; dim must be a multiple of num_heads")
        self.num_pieces, self.agents_radius_m = num_pieces, float(agents_radius_m)
        self.layers = nn.ModuleList(_Layer(dim, num_heads, dropout) for _ in range(num_layers))
        self.time_edges = _edge_network(dim)
        self.map_edges = _edge_network(dim)
        self.agent_edges = _edge_network(dim)
        self.norm = nn.LayerNorm(dim)

    def forward(
        self, states: AgentStates, road: Road, past: PastStates | None = None
    ) -> tuple[torch.Tensor, PastStates]:
        """Return features of the agents at each of Q steps, and the cached state for later steps.

        Args:
            states: The agents at these steps.
            road: The map.
            past: Cached state of the earlier steps; None for the first ones.

        Returns:
            Shape (B, A, Q, D), and the cached state of all steps so far.
        """
        if past is None:
            nothing = states.features[:, :, :0]
            past = PastStates([nothing] * len(self.layers), states.poses[:, :, :0], states.is_known[:, :, :0])
        poses = torch.cat((past.poses, states.poses), dim=2)
        is_known = torch.cat((past.is_known, states.is_known), dim=2)

        # masks and edges are computed in a separate function, so that its temporaries, above all distances to all map
        # pieces, are freed before the layers run
        seen = self._see(states, poses, is_known, road)
        features, kept = states.features, []
        for layer, before in zip(self.layers, past.inputs, strict=True):
            features, steps = layer(features, before, road.features, seen)
            kept.append(steps)
        known: torch.Tensor = self.norm(features)
        return known, PastStates(kept, poses, is_known)

    def _see(self, states: AgentStates, all_poses: torch.Tensor, is_known: torch.Tensor, road: Road) -> _Seen:
        """Return masks and edges of steps, given all poses so far (B, A, P, 3) and whether they are known (B, A, P)."""
        # to all steps so far: a step attends to the known ones up to itself
        steps = torch.arange(all_poses.shape[2], device=all_poses.device)
        ago = (steps[all_poses.shape[2] - states.poses.shape[2] :, None] - steps).to(states.poses.dtype)
        time_edges = self.time_edges(pose_features(states.poses.unsqueeze(3), all_poses.unsqueeze(2), ago))
        is_past = is_known.unsqueeze(2) & (ago >= 0)

        # To the nearest map pieces, chosen by squared distance. Missing pieces come last, and are masked.
        own, pieces = states.poses.flatten(1, 2), road.poses
        distances = ((own[:, :, None, :2] - pieces[:, None, :, :2]) ** 2).sum(dim=-1)
        distances = distances.masked_fill(~road.is_known.unsqueeze(1), torch.inf)
        nearest = distances.topk(min(self.num_pieces, pieces.shape[1]), dim=-1, largest=False)
        rows = torch.arange(pieces.shape[0], device=own.device)[:, None, None]
        map_edges = self.map_edges(pose_features(own.unsqueeze(2), pieces[rows, nearest.indices]))
        is_piece = torch.isfinite(nearest.values)

        # between the known agents of a step within the radius
        at_steps, is_there = states.poses.transpose(1, 2), states.is_known.transpose(1, 2)
        away = at_steps[:, :, :, None, :2] - at_steps[:, :, None, :, :2]
        is_near = (away**2).sum(dim=-1) < self.agents_radius_m**2
        is_other = ~torch.eye(at_steps.shape[2], dtype=torch.bool, device=at_steps.device)
        agent_edges = self.agent_edges(pose_features(at_steps.unsqueeze(3), at_steps.unsqueeze(2)))
        is_other = is_there.unsqueeze(2) & is_near & is_other
        return _Seen(time_edges, is_past, map_edges, is_piece, nearest.indices, agent_edges, is_other)


def _edge_dim(dim: int) -> int:
    """Return the number of features of an edge."""
    return max(dim // 2, 1)


def _edge_network(dim: int) -> nn.Module:
    """Return the layers from pose features to edges."""
    edge_dim = _edge_dim(dim)
    return nn.Sequential(nn.Linear(POSE_FEATURES, edge_dim), nn.ReLU(), nn.Linear(edge_dim, edge_dim), nn.ReLU())
