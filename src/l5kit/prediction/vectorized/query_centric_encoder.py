"""Encoder of the query-centric model: each agent and polyline in its own frame, with factorised attention.

The attention, which the decoder uses as well, takes the pose of each key relative to each query.
"""

import math
from typing import Final, NamedTuple

import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.planning.motion_embedding import MotionEmbedding
from l5kit.prediction.vectorized.plane_poses import seen_from

_NUM_LIGHT_STATES: Final = 5
_CROSSWALK, _BOUNDARY = _NUM_LIGHT_STATES, _NUM_LIGHT_STATES + 1
_NUM_LABELS: Final = 18
_NUM_WAVES: Final = 4
_LONGEST_WAVE_M: Final = 200.0


class Context(NamedTuple):
    """Encoded batch of scenes."""

    agents: torch.Tensor  # (B, A, D)
    agents_there: torch.Tensor  # bool, (B, A)
    agent_poses: torch.Tensor  # (B, A, 3), in the frame of the batch
    elements: torch.Tensor  # (B, A + S, D), agents and map elements to attend to
    relations: torch.Tensor  # (B, A, A + S, D)
    elements_seen: torch.Tensor  # bool, (B, A, A + S)


class RelativeAttention(nn.Module):
    """Residual attention of queries to keys, followed by a residual feed-forward network.

    Features of each pair of elements are added to its key and value. Queries without keys only pass through the
    feed-forward network.

    Args:
        dim: Features of an element.
        num_heads: Heads; a divisor of ``dim``.
        has_relations: Whether pairs have features.
        dropout: Dropout probability in training.

    Raises:
        InvalidArgumentError: ``num_heads`` does not divide ``dim``.
    """

    def __init__(self, dim: int, num_heads: int, *, has_relations: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        if dim % num_heads:
            raise InvalidArgumentError(f"num_heads is {num_heads}; it must divide dim, which is {dim}")
        self.num_heads, self.has_relations = num_heads, has_relations
        self.scale = 1 / math.sqrt(dim // num_heads)
        self.norm_queries, self.norm_keys, self.norm = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.queries, self.values = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.keys = nn.Linear(dim, dim, bias=False)  # a bias shared by all keys has no effect
        self.relations = nn.Linear(dim, 2 * dim, bias=False) if has_relations else nn.Identity()
        self.out = nn.Linear(dim, dim)
        self.feed_forward = nn.Sequential(
            nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * dim, dim)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, queries: torch.Tensor, keys: torch.Tensor, relations: torch.Tensor | None, is_seen: torch.Tensor
    ) -> torch.Tensor:
        """Return the updated queries.

        Args:
            queries: Shape (N, Q, M, dim): M of them at each of Q positions.
            keys: Shape (N, K, dim).
            relations: Features of each key relative to each position, shape (N, Q, K, dim); None for a layer without
                relations.
            is_seen: Mask of the keys, bool, shape (N, Q, K) or (N, 1, K).

        Returns:
            Shape (N, Q, M, dim).
        """
        normed = self.norm_keys(keys)
        key, value = self.keys(normed).unsqueeze(1), self.values(normed).unsqueeze(1)
        if self.has_relations and relations is not None:
            key_offsets, value_offsets = self.relations(relations).chunk(2, dim=-1)
            key, value = key + key_offsets, value + value_offsets
        query = self.queries(self.norm_queries(queries)).unflatten(-1, (self.num_heads, -1))
        key, value = key.unflatten(-1, (self.num_heads, -1)), value.unflatten(-1, (self.num_heads, -1))
        key, value = key.expand(-1, queries.shape[1], -1, -1, -1), value.expand(-1, queries.shape[1], -1, -1, -1)
        seen = is_seen[:, :, None, None]
        # a large negative number instead of infinity, so that a query without keys gets zeros instead of NaN
        scores = torch.einsum("nqmhd,nqkhd->nqmhk", query, key).float() * self.scale
        weights = scores.masked_fill(~seen, -1e9).softmax(dim=-1) * seen
        attended = torch.einsum("nqmhk,nqkhd->nqmhd", weights.to(value.dtype), value).flatten(-2)
        queries = queries + self.dropout(self.out(attended)) * is_seen.any(dim=-1)[:, :, None, None]
        added: torch.Tensor = self.feed_forward(self.norm(queries))
        result: torch.Tensor = queries + self.dropout(added)
        return result


class RelationEmbedding(nn.Module):
    """Embedding of relative poses of elements.

    Args:
        dim: Features of a pair.
        num_waves: Number of waves that encode lengths.
    """

    def __init__(self, dim: int, num_waves: int = 6) -> None:
        super().__init__()
        self.num_waves = num_waves
        self.layers = nn.Sequential(nn.Linear(3 * (2 * num_waves + 1) + 2, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Return features (B, Q, K, dim) for poses x, y, yaw of shapes (B, Q, 3) and (B, K, 3)."""
        # pose of each key relative to each query: x ahead and y to the left, cosine and sine of the turn, (B, Q, K, 4)
        queries, keys = queries.unsqueeze(2), keys.unsqueeze(1)
        turn = keys[..., 2] - queries[..., 2]
        xy = seen_from(queries, keys[..., :2])
        relative = torch.cat((xy, torch.cos(turn).unsqueeze(-1), torch.sin(turn).unsqueeze(-1)), dim=-1)
        distance = torch.sqrt((relative[..., :2] ** 2).sum(dim=-1, keepdim=True) + 1e-6)
        lengths = fourier_features(torch.cat((relative[..., :2], distance), dim=-1), self.num_waves)
        embedded: torch.Tensor = self.layers(torch.cat((lengths, relative[..., 2:]), dim=-1))
        return embedded


class HistoryEncoder(nn.Module):
    """Encoder of the past of each agent relative to its newest pose, by attention over time.

    Args:
        dim: Features of an agent.
        num_heads: Heads of the attention.
        num_steps: Largest number of past frames, including the current one.
        dropout: Dropout probability in training.
        motion_step_time_s: Seconds between past steps, to embed speeds, accelerations and turn rates; None to omit
            them.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        num_steps: int,
        dropout: float = 0.0,
        motion_step_time_s: float | None = None,
    ) -> None:
        super().__init__()
        self.motion: MotionEmbedding | None = None
        if motion_step_time_s is not None:
            self.motion = MotionEmbedding(dim, motion_step_time_s)
        self.points = nn.Sequential(nn.Linear(2 * (2 * _NUM_WAVES + 1) + 5, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.time = nn.Embedding(num_steps, dim)
        self.labels = nn.Embedding(_NUM_LABELS, dim)
        self.between = RelativeAttention(dim, num_heads, has_relations=False, dropout=dropout)
        self.pool = RelativeAttention(dim, num_heads, has_relations=False, dropout=dropout)

    def forward(
        self, positions: torch.Tensor, yaws: torch.Tensor, is_known: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return features (B, A, D), poses (B, A, 3) and a mask of the agents, bool (B, A).

        Args:
            positions: Past positions in metres, the current one first, shape (B, A, H, 2).
            yaws: Headings in radians, shape (B, A, H).
            is_known: Mask of the known ones, bool, shape (B, A, H).
            labels: Labels of the agents, int64, shape (B, A).
        """
        # newest known pose of each agent, as argmax returns the first maximum; zeros without any
        newest = is_known.int().argmax(dim=-1, keepdim=True)
        poses = torch.cat((positions, yaws.unsqueeze(-1)), dim=-1)
        poses = poses.gather(2, newest.unsqueeze(-1).expand(-1, -1, -1, 3)).squeeze(2)
        is_there = is_known.any(dim=-1)
        poses = torch.where(is_there.unsqueeze(-1), poses, torch.zeros_like(poses))

        # positions, steps and turns relative to that pose
        xy = seen_from(poses.unsqueeze(2), positions) * is_known.unsqueeze(-1)
        turn = (yaws - poses[..., 2:]) * is_known
        step = torch.zeros_like(xy)
        step[:, :, 1:] = (xy[:, :, :-1] - xy[:, :, 1:]) * (is_known[:, :, :-1] & is_known[:, :, 1:]).unsqueeze(-1)
        age = torch.arange(xy.shape[2], device=xy.device)
        rest = torch.stack((torch.cos(turn), torch.sin(turn), (age / 10.0).expand_as(turn)), dim=-1)
        points = self.points(torch.cat((fourier_features(xy, _NUM_WAVES), step, rest), dim=-1)) + self.time(age)
        points, seen = points.flatten(0, 1), is_known.flatten(0, 1).unsqueeze(1)
        points = self.between(points.unsqueeze(2), points, None, seen).squeeze(2)
        agents = self.labels(labels.clamp(0, _NUM_LABELS - 1))
        agents = self.pool(agents.reshape(-1, 1, 1, agents.shape[-1]), points, None, seen)
        agents = agents.reshape(is_there.shape[0], is_there.shape[1], -1)
        if self.motion is not None:
            agents = agents + self.motion(xy, turn, is_known)
        return agents, poses, is_there


class MapEncoder(nn.Module):
    """Encoder of lanes with the state of their lights, crosswalks and lane boundaries, each in its own frame.

    Args:
        dim: Features of a polyline.
        with_boundaries: Whether lane boundaries are used.
    """

    def __init__(self, dim: int, *, with_boundaries: bool = True) -> None:
        super().__init__()
        self.with_boundaries = with_boundaries
        self.points = nn.Sequential(nn.Linear(2 * (2 * _NUM_WAVES + 1), dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())
        self.kinds = nn.Embedding(_NUM_LIGHT_STATES + 2, dim)
        self.out = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return features (B, S, D), poses (B, S, 3) and a mask of the polylines, bool (B, S).

        Args:
            batch: ``lanes_mid`` (B, L, P, 3), whose third value is the state of a light, ``crosswalks`` (B, X, P', 3),
                and with boundaries ``lanes`` (B, Lb, P'', 3), each with its availabilities.
        """
        lanes, known = batch["lanes_mid"], batch["lanes_mid_availabilities"] > 0
        # the light state of a lane is the largest value at its known points, as missing points are 0
        states = torch.where(known, lanes[..., 2], torch.zeros_like(lanes[..., 2])).amax(dim=-1)
        parts = [
            self._embed(lanes, known, states.long().clamp(0, _NUM_LIGHT_STATES - 1)),
            self._embed_kind(batch["crosswalks"], batch["crosswalks_availabilities"], _CROSSWALK),
        ]
        if self.with_boundaries:
            parts.append(self._embed_kind(batch["lanes"], batch["lanes_availabilities"], _BOUNDARY))
        return (
            torch.cat([part[0] for part in parts], dim=1),
            torch.cat([part[1] for part in parts], dim=1),
            torch.cat([part[2] for part in parts], dim=1),
        )

    def _embed_kind(
        self, polylines: torch.Tensor, known: torch.Tensor, kind: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        kinds = torch.full(polylines.shape[:2], kind, dtype=torch.int64, device=polylines.device)
        return self._embed(polylines, known > 0, kinds)

    def _embed(
        self, polylines: torch.Tensor, known: torch.Tensor, kinds: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        points = torch.where(known.unsqueeze(-1), polylines[..., :2], torch.zeros_like(polylines[..., :2])).float()
        # The pose of a polyline is at the middle one of its known points, which need not be contiguous, with the
        # heading from the first point to it. The last point would not do, as polygons end where they begin.
        rank, num_points = known.int().cumsum(dim=-1), known.int().sum(dim=-1, keepdim=True)
        first = known.int().argmax(dim=-1, keepdim=True)
        middle = (known & (rank == num_points // 2 + 1)).int().argmax(dim=-1, keepdim=True)
        start = points.gather(2, first.unsqueeze(-1).expand(-1, -1, -1, 2)).squeeze(2)
        origin = points.gather(2, middle.unsqueeze(-1).expand(-1, -1, -1, 2)).squeeze(2)
        direction = origin - start
        poses = torch.cat((origin, torch.atan2(direction[..., 1], direction[..., 0]).unsqueeze(-1)), dim=-1)
        # a single point has no direction
        is_there = num_points.squeeze(-1) > 1
        poses = torch.where(is_there.unsqueeze(-1), poses, torch.zeros_like(poses))

        features = self.points(fourier_features(seen_from(poses.unsqueeze(2), points), _NUM_WAVES))
        pooled = (features * known.unsqueeze(-1)).amax(dim=2)  # features are non-negative
        embedded: torch.Tensor = self.out(torch.cat((pooled, self.kinds(kinds)), dim=-1))
        return embedded, poses, is_there


class SceneEncoder(nn.Module):
    """Scene encoder: embeds agents by their past, then alternates attention to the map and between agents.

    Args:
        dim: Features of an element.
        num_heads: Heads of the attention.
        num_layers: Rounds.
        num_steps: Largest number of past frames, including the current one.
        dropout: Dropout probability in training.
        motion_step_time_s: Seconds between past steps, to embed speeds, accelerations and turn rates; None to omit
            them.
        with_agents: Whether agents attend to each other.
        with_map: Whether agents attend to the map.
        with_boundaries: Whether lane boundaries are used.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        num_layers: int,
        *,
        num_steps: int,
        dropout: float = 0.0,
        motion_step_time_s: float | None = None,
        with_agents: bool = True,
        with_map: bool = True,
        with_boundaries: bool = True,
    ) -> None:
        super().__init__()
        self.with_agents, self.with_map = with_agents, with_map
        self.history = HistoryEncoder(
            dim, num_heads, num_steps=num_steps, dropout=dropout, motion_step_time_s=motion_step_time_s
        )
        self.map = MapEncoder(dim, with_boundaries=with_boundaries)
        self.relations_map, self.relations_agents = RelationEmbedding(dim), RelationEmbedding(dim)
        layers = [RelativeAttention(dim, num_heads, dropout=dropout) for _ in range(2 * num_layers)]
        self.to_map, self.to_agents = nn.ModuleList(layers[:num_layers]), nn.ModuleList(layers[num_layers:])

    def forward(self, batch: dict[str, torch.Tensor]) -> Context:
        """Return the encoded scenes of a batch with the keys of :class:`QueryCentricModel`."""
        known = batch["all_other_agents_history_availability"] > 0
        positions = batch["all_other_agents_history_positions"].float()
        yaws = batch["all_other_agents_history_yaws"][..., 0].float()
        positions = torch.where(known.unsqueeze(-1), positions, torch.zeros_like(positions))
        yaws = torch.where(known, yaws, torch.zeros_like(yaws))
        agents, poses, is_there = self.history(positions, yaws, known, batch["all_other_agents_types"].long())
        roads, road_poses, road_there = self.map(batch)
        relations_map = self.relations_map(poses, road_poses)
        relations_agents = self.relations_agents(poses, poses)
        others = ~torch.eye(agents.shape[1], dtype=torch.bool, device=agents.device)
        sees_agents = is_there.unsqueeze(1) & others & self.with_agents
        sees_map = (road_there.unsqueeze(1) & self.with_map).expand(-1, agents.shape[1], -1)
        for to_map, to_agents in zip(self.to_map, self.to_agents, strict=True):
            agents = to_map(agents.unsqueeze(2), roads, relations_map, sees_map).squeeze(2)
            agents = to_agents(agents.unsqueeze(2), agents, relations_agents, sees_agents).squeeze(2)
        return Context(
            agents,
            is_there,
            poses,
            torch.cat((agents, roads), dim=1),
            torch.cat((relations_agents, relations_map), dim=2),
            torch.cat((sees_agents, sees_map), dim=2),
        )


def fourier_features(values: torch.Tensor, num_waves: int) -> torch.Tensor:
    """Return cosines and sines of lengths, for waves of halving length.

    Args:
        values: In metres, shape (..., F).
        num_waves: Number of waves W; the longest one has 200 m.

    Returns:
        Shape (..., F * (2 * W + 1)): the values in units of 10 m, then cosines, then sines.
    """
    waves = torch.arange(num_waves, device=values.device, dtype=values.dtype)
    angles = (values.unsqueeze(-1) * (2 * torch.pi / _LONGEST_WAVE_M * torch.exp2(waves))).flatten(-2)
    return torch.cat((values / 10, torch.cos(angles), torch.sin(angles)), dim=-1)
