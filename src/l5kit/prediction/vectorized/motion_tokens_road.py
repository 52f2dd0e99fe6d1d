"""Road encoder of the motion token model: map polylines cut into pieces, each in its own frame."""

from typing import Final

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.prediction.vectorized.motion_tokens_layers import Road
from l5kit.prediction.vectorized.plane_poses import seen_from

_PIECE_POINTS: Final = 4
_NUM_LIGHT_STATES: Final = 5
_CROSSWALK, _BOUNDARY = _NUM_LIGHT_STATES, _NUM_LIGHT_STATES + 1
_SCALE_M: Final = 5.0


class RoadEncoder(nn.Module):
    """Encoder of lanes with the state of their lights, crosswalks and lane boundaries.

    Each polyline is cut into pieces of four points that share their ends. The frame of a piece is at its first point
    and points to its last one.

    Args:
        dim: Features of a piece.
        with_map: Whether the map is used at all.
        with_boundaries: Whether lane boundaries are used.
    """

    def __init__(self, dim: int, *, with_map: bool = True, with_boundaries: bool = True) -> None:
        super().__init__()
        self.with_map, self.with_boundaries = with_map, with_boundaries
        self.points = nn.Sequential(nn.Linear(3 * _PIECE_POINTS, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.kinds = nn.Embedding(_NUM_LIGHT_STATES + 2, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, batch: dict[str, torch.Tensor]) -> Road:
        """Return the pieces of the map.

        Args:
            batch: ``lanes_mid`` (B, L, P, 3), whose third value is the state of a light, ``crosswalks`` (B, X, P', 3)
                and, with boundaries, ``lanes`` (B, Lb, P'', 3), each with its availabilities.
        """
        lanes = batch["lanes_mid"]
        parts = [
            _pieces(lanes, batch["lanes_mid_availabilities"], lanes[..., 2].long().clamp(0, _NUM_LIGHT_STATES - 1)),
            _pieces(batch["crosswalks"], batch["crosswalks_availabilities"], _CROSSWALK),
        ]
        if self.with_boundaries:
            parts.append(_pieces(batch["lanes"], batch["lanes_availabilities"], _BOUNDARY))
        points, is_there, kinds = (torch.cat(column, dim=1) for column in zip(*parts, strict=True))
        is_known = (is_there.sum(dim=-1) > 1) & is_there[..., 0] & self.with_map

        # the frames of pieces, (B, S, 3), for points (B, S, 4, 2)
        first = points[..., 0, :]
        last = is_there.int() * torch.arange(1, points.shape[-2] + 1, device=points.device)
        end = points.gather(-2, last.argmax(dim=-1)[..., None, None].expand(*last.shape[:-1], 1, 2)).squeeze(-2)
        direction = end - first
        poses = torch.cat((first, torch.atan2(direction[..., 1], direction[..., 0]).unsqueeze(-1)), dim=-1)
        xy = seen_from(poses.unsqueeze(-2), points) / _SCALE_M
        seen = torch.cat((xy, torch.ones_like(xy[..., :1])), dim=-1) * is_there.unsqueeze(-1)
        features = self.norm(self.points(seen.flatten(-2)) + self.kinds(kinds))
        return Road(features, poses * is_known.unsqueeze(-1), is_known)


def _pieces(
    polylines: torch.Tensor, available: torch.Tensor, kind: torch.Tensor | int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the pieces of polylines (B, N, P, 3): points (B, S, 4, 2), their mask (B, S, 4), and kinds (B, S).

    Args:
        polylines: x, y and a third value.
        available: Mask of the points, (B, N, P).
        kind: Kind of all of them, or of each point, int64 (B, N, P).
    """
    # pieces share their ends, so the stride is one point less; the last piece is padded with masked points
    stride, num_points = _PIECE_POINTS - 1, polylines.shape[2]
    num_pieces = max(-(-(num_points - 1) // stride), 1)
    missing = max(num_pieces * stride + 1 - num_points, 0)
    is_there = F.pad(available > 0, [0, missing]).unfold(2, _PIECE_POINTS, stride)
    points = F.pad(polylines[..., :2].float(), [0, 0, 0, missing]).unfold(2, _PIECE_POINTS, stride)
    if isinstance(kind, int):
        kinds = torch.full(is_there.shape[:3], kind, dtype=torch.int64, device=polylines.device)
    else:
        kinds = kind[:, :, ::stride][:, :, :num_pieces]
    return points.transpose(3, 4).flatten(1, 2), is_there.flatten(1, 2), kinds.flatten(1, 2)
