"""Frames of the query-centric model: poses of agents and polylines, and how each looks from another."""

from typing import Final

import torch
from torch import nn

from l5kit.prediction.vectorized.plane_poses import seen_from

_LONGEST_WAVE_M: Final = 200.0


def newest_poses(
    positions: torch.Tensor, yaws: torch.Tensor, is_known: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the newest known pose of each agent, and whether there is one.

    Args:
        positions: Past positions in metres, the current one first, shape (B, A, H, 2).
        yaws: Headings there in radians, shape (B, A, H).
        is_known: Where they are known, bool, shape (B, A, H).

    Returns:
        Poses x, y, yaw, shape (B, A, 3), zeros where there is none, and bool, shape (B, A).
    """
    newest = is_known.int().argmax(dim=-1, keepdim=True)  # the first of the largest
    poses = torch.cat((positions, yaws.unsqueeze(-1)), dim=-1)
    poses = poses.gather(2, newest.unsqueeze(-1).expand(-1, -1, -1, 3)).squeeze(2)
    is_there = is_known.any(dim=-1)
    return torch.where(is_there.unsqueeze(-1), poses, torch.zeros_like(poses)), is_there


def polyline_poses(points: torch.Tensor, is_known: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pose of each polyline, and whether it has one.

    It lies at the middle point, and looks there from the first. The last point would not do, as polygons end where they
    begin.

    Args:
        points: In metres, shape (B, N, P, 2).
        is_known: Points that there are, bool, shape (B, N, P).

    Returns:
        Poses x, y, yaw, shape (B, N, 3), zeros where there are less than two points, and bool, shape (B, N).
    """
    # the middle one of the points that there are, which need not lie one after the other
    rank, num_points = is_known.int().cumsum(dim=-1), is_known.int().sum(dim=-1, keepdim=True)
    first = is_known.int().argmax(dim=-1, keepdim=True)
    middle = (is_known & (rank == num_points // 2 + 1)).int().argmax(dim=-1, keepdim=True)
    start = points.gather(2, first.unsqueeze(-1).expand(-1, -1, -1, 2)).squeeze(2)
    origin = points.gather(2, middle.unsqueeze(-1).expand(-1, -1, -1, 2)).squeeze(2)
    direction = origin - start
    poses = torch.cat((origin, torch.atan2(direction[..., 1], direction[..., 0]).unsqueeze(-1)), dim=-1)
    is_there = num_points.squeeze(-1) > 1
    return torch.where(is_there.unsqueeze(-1), poses, torch.zeros_like(poses)), is_there


def relative_poses(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Return how each key looks from each query.

    Args:
        queries: Poses x, y, yaw, shape (B, Q, 3).
        keys: Likewise, shape (B, K, 3).

    Returns:
        x ahead and y to the left in metres, cosine and sine of the turn, shape (B, Q, K, 4).
    """
    queries, keys = queries.unsqueeze(2), keys.unsqueeze(1)
    turn = keys[..., 2] - queries[..., 2]
    xy = seen_from(queries, keys[..., :2])
    return torch.cat((xy, torch.cos(turn).unsqueeze(-1), torch.sin(turn).unsqueeze(-1)), dim=-1)


def fourier_features(values: torch.Tensor, num_waves: int) -> torch.Tensor:
    """Return cosines and sines of lengths, each wave half as long as the one before it.

    Args:
        values: In metres, shape (..., F).
        num_waves: Waves W; the longest one has 200 m.

    Returns:
        Shape (..., F * (2 * W + 1)): the values in units of 10 m, then cosines, then sines.
    """
    waves = torch.arange(num_waves, device=values.device, dtype=values.dtype)
    angles = (values.unsqueeze(-1) * (2 * torch.pi / _LONGEST_WAVE_M * torch.exp2(waves))).flatten(-2)
    return torch.cat((values / 10, torch.cos(angles), torch.sin(angles)), dim=-1)


class RelationEmbedding(nn.Module):
    """Embeds how elements look from one another.

    Args:
        dim: Features of a pair.
        num_waves: Waves that lengths are encoded by.
    """

    def __init__(self, dim: int, num_waves: int = 6) -> None:
        super().__init__()
        self.num_waves = num_waves
        self.layers = nn.Sequential(nn.Linear(3 * (2 * num_waves + 1) + 2, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Return features (B, Q, K, dim) for poses x, y, yaw of shapes (B, Q, 3) and (B, K, 3)."""
        relative = relative_poses(queries, keys)
        distance = torch.sqrt((relative[..., :2] ** 2).sum(dim=-1, keepdim=True) + 1e-6)
        lengths = fourier_features(torch.cat((relative[..., :2], distance), dim=-1), self.num_waves)
        embedded: torch.Tensor = self.layers(torch.cat((lengths, relative[..., 2:]), dim=-1))
        return embedded
