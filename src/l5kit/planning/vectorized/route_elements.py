"""Route of a scene as elements of the vector models: its polylines, and positions along it."""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.planning.vectorized.global_graph import MLP
from l5kit.planning.vectorized.route_features import (
    NUM_POINT_FEATURES,
    NUM_POSITION_FEATURES,
    position_features,
    require_route,
    route_point_features,
)

_NUM_ELEMENTS = 2
"""Elements of a route: the route and the goal."""

_DIM_HIDDEN = 64


class RouteElements(NamedTuple):
    """The routes of a batch of scenes with A other agents; the target is the first agent.

    It is a named tuple because TorchScript does not support dataclasses.
    """

    polylines: (
        torch.Tensor
    )  # (B, 2, R, 3): x, y and 0 of the points of the route, and of the goal, which is the first of R points
    available: torch.Tensor  # bool, (B, 2, R); unavailable points come last
    features: torch.Tensor  # (B, R, NUM_POINT_FEATURES): further features of the points of the route
    edges_m: torch.Tensor  # (B, R, 2): from the route to the left and right edge of the lane
    sizes_m: torch.Tensor  # (B, 1 + A, 2): length and width
    positions: torch.Tensor  # (B, 1 + A, 6): along the route, like ``all_other_agents_route_places`` of samples
    has_position: torch.Tensor  # bool, (B, 1 + A)


def collect_route(data_batch: dict[str, torch.Tensor]) -> RouteElements:
    """Return the routes of a batch of samples of the vectorised datasets.

    Args:
        data_batch: The samples, with the keys of ``model_params.route``.

    Raises:
        InvalidArgumentError: There is no route in the batch.
    """
    require_route(data_batch)
    xy, goal = data_batch["route_polyline"][..., :2], data_batch["goal_position"]
    behind_goal = xy.shape[1] - 1
    points = torch.stack((xy, F.pad(goal.unsqueeze(1), [0, 0, 0, behind_goal])), dim=1)
    has_goal = F.pad(data_batch["goal_availability"].unsqueeze(1), [0, behind_goal])
    sizes = (
        data_batch["extent"][:, :2].unsqueeze(1).to(xy.dtype),
        data_batch["all_other_agents_history_extents"][:, :, 0].to(xy.dtype),
    )
    positions = (data_batch["agent_route_place"].unsqueeze(1), data_batch["all_other_agents_route_places"])
    has_position = (
        data_batch["agent_route_availability"].unsqueeze(1),
        data_batch["all_other_agents_route_availability"],
    )
    available = torch.stack((data_batch["route_availability"], has_goal), dim=1)
    points = torch.where(available.unsqueeze(-1), points, torch.zeros_like(points))
    return RouteElements(
        F.pad(points, [0, 1]),
        available,
        route_point_features(data_batch),
        data_batch["route_widths"],
        torch.cat(sizes, dim=1),
        torch.cat(positions, dim=1),
        torch.cat(has_position, dim=1),
    )


def positions_on_route(
    route: RouteElements, poses: torch.Tensor, velocities_mps: torch.Tensor, is_there: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return positions of vehicles along a route, for states that are not in samples.

    It is differentiable. The first segment extends backwards and the last one forwards beyond the route.

    Args:
        route: The route, in any frame.
        poses: x, y and yaw of the target and other agents in this frame, (B, 1 + A, 3).
        velocities_mps: Their velocities in this frame, (B, 1 + A, 2).
        is_there: Mask of known poses, bool (B, 1 + A).

    Returns:
        Positions (B, 1 + A, 6) and their mask, bool (B, 1 + A), as in :class:`RouteElements`.
    """
    points, has_stretch = route.polylines[:, 0, :, :2], route.available[:, 0, 1:]
    segments = points[:, 1:] - points[:, :-1]
    # replace missing segments, as the gradient of a length of 0 is undefined
    segments = torch.where(has_stretch.unsqueeze(-1), segments, torch.ones_like(segments))
    lengths = torch.sqrt((segments * segments).sum(dim=-1).clamp(min=1e-6))  # (B, R - 1)
    directions = segments / lengths.unsqueeze(-1)

    # the nearest point of each segment: (B, 1 + A, R - 1)
    offsets = poses[..., :2].unsqueeze(2) - points[:, :-1].unsqueeze(1)
    along = (offsets * directions.unsqueeze(1)).sum(dim=-1)
    number = torch.arange(lengths.shape[1], device=lengths.device)
    is_last = number == has_stretch.sum(dim=1, keepdim=True) - 1
    least = torch.zeros_like(lengths).masked_fill(number == 0, -torch.inf)
    along = torch.maximum(along, least.unsqueeze(1))
    along = torch.minimum(along, lengths.masked_fill(is_last, torch.inf).unsqueeze(1))
    gaps = offsets - along.unsqueeze(-1) * directions.unsqueeze(1)
    far = (gaps * gaps).sum(dim=-1).masked_fill(~has_stretch.unsqueeze(1), torch.inf)
    chosen = far.argmin(dim=2, keepdim=True)

    # the position on the chosen segment
    arcs = (torch.cumsum(lengths, dim=1) - lengths).unsqueeze(1) + along
    arc = arcs.gather(2, chosen).squeeze(2)
    pair = chosen.expand(-1, -1, 2)
    offset = offsets.gather(2, chosen.unsqueeze(-1).expand(-1, -1, -1, 2)).squeeze(2)
    ahead, edges = directions.gather(1, pair), route.edges_m.gather(1, pair)
    left = ahead[..., 0] * offset[..., 1] - ahead[..., 1] * offset[..., 0]
    speed_along = (ahead * velocities_mps).sum(dim=-1)
    speed_across = ahead[..., 0] * velocities_mps[..., 1] - ahead[..., 1] * velocities_mps[..., 0]
    turn = poses[..., 2] - torch.atan2(ahead[..., 1], ahead[..., 0])
    cos, sin = torch.cos(turn), torch.sin(turn)
    half = (sin.abs() * route.sizes_m[..., 0] + cos.abs() * route.sizes_m[..., 1]) / 2
    reaches_in = (left - half < edges[..., 0]) & (left + half > -edges[..., 1])
    values = (arc - arc[:, :1], left, speed_along, speed_across, torch.atan2(sin, cos), reaches_in.to(left.dtype))
    return torch.stack(values, dim=-1), is_there & has_stretch.any(dim=1, keepdim=True)


class RouteEmbedding(nn.Module):
    """Embedding of route properties beyond its polyline: limits and lights at its points, and positions of agents.

    For new trainings; L5Kit 1.5 has no routes.

    Args:
        dim_local: Features of a point and of a polyline.
        dim_global: Features of the type of an element.
    """

    def __init__(self, dim_local: int, dim_global: int) -> None:
        super().__init__()
        self.points = nn.Linear(NUM_POINT_FEATURES, dim_local)
        self.types = nn.Embedding(_NUM_ELEMENTS, dim_global)
        self.places = MLP(NUM_POSITION_FEATURES, _DIM_HIDDEN, dim_local, num_layers=2)
        self.norm = nn.LayerNorm(dim_local)

    def forward(self, route: RouteElements) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the embeddings to add to points, (B, 2, R, dim_local), and to agents, (B, 1 + A, dim_local).

        Those of agents without a position along the route are 0.
        """
        of_points = F.pad(self.points(route.features).unsqueeze(1), [0, 0, 0, 0, 0, 1])  # zeros for the goal
        own_mps, own_sizes_m = route.positions[:, :1, 2:3], route.sizes_m[:, :1]
        features = position_features(route.positions, route.has_position, route.sizes_m, own_mps, own_sizes_m)
        of_positions: torch.Tensor = self.norm(self.places(features))
        return of_points, of_positions * route.has_position.unsqueeze(-1)

    def types_of(self, num_items: int) -> torch.Tensor:
        """Return the type embeddings of the elements, (B, 2, dim_global)."""
        return self.types.weight.unsqueeze(0).expand(num_items, -1, -1)
