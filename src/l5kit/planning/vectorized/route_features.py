"""Input features of the route planner: target, route, other agents and lanes."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import torch

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.box import REAR_AXLE_SHARE
from l5kit.kinematic.baselines import current_velocities

_FAR_M, _NEAR_M, _LENGTH_M, _WIDTH_M = 30.0, 5.0, 5.0, 2.0
_SPEED_MPS, _BRAKING_MPS2, _HEADWAY_S = 10.0, 3.0, 2.0
"""Units of the features: distances along and across routes, sizes of boxes, speeds, decelerations, times."""

_MAX_FEATURE = 5.0
"""Bound of the features of agents, which noise and large distances may exceed."""

_STATIONARY_MPS = 0.1
_NUM_LIGHTS = 5
"""States of a light in samples: unknown, green, yellow, red, no light."""

_AGENT_LABELS = tuple(
    PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"] for name in ("CAR", "CYCLIST", "PEDESTRIAN")
)
_OF_TARGET, _OF_TARGET_ON_ROUTE, _OF_ROUTE_POINT = 5, 12, 15
_OF_GAP = 5
_OF_AGENT, _OF_AGENT_ON_ROUTE, _OF_LANE, _OF_LANE_ON_ROUTE, _OF_LANE_POINT = 12, 9 + _OF_GAP, 6, 2, 3
"""Number of features of each kind of element; features on the route are additional, and include the gap to the
target."""

NUM_POINT_FEATURES: Final = _OF_ROUTE_POINT - 4
"""Features of a point of a route in addition to its position and heading."""

NUM_POSITION_FEATURES: Final = _OF_AGENT_ON_ROUTE
"""Features of a box along a route."""


class RouteFeatures(NamedTuple):
    """Features of B samples for the route planner, scaled to about 1; 0 for absent elements.

    Attributes:
        speeds_mps: Current forward speeds of the targets, at least 0, (B,).
        rear_axles_m: Distances of their centres from their rear axles, (B,).
        target: The target, its past, its route and its leader there, (B, F).
        agents: Other agents, (B, A, F).
        agents_there: Mask of agents in the current frame, bool (B, A).
        lanes: Lanes, (B, L, F).
        lanes_there: Mask of lanes with a known point, bool (B, L).
    """

    speeds_mps: torch.Tensor
    rear_axles_m: torch.Tensor
    target: torch.Tensor
    agents: torch.Tensor
    agents_there: torch.Tensor
    lanes: torch.Tensor
    lanes_there: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class RouteInputs:
    """Selection of the input features of the route planner, and their computation from a batch.

    Attributes:
        past_step_time_s: Seconds between two past steps.
        num_past: Past steps of the target in addition to its speed; 0 for none.
        num_lane_points: Points of a lane.
        num_route_points: Points of the route.
        with_route: Whether samples have a route.
        agents_along_route: Whether agents are also described by their positions along it.
    """

    past_step_time_s: float
    num_past: int = 0
    num_lane_points: int
    num_route_points: int
    with_route: bool = True
    agents_along_route: bool = True

    @property
    def num_of_target(self) -> int:
        """Features of the target."""
        of_route = _OF_TARGET_ON_ROUTE + _OF_ROUTE_POINT * self.num_route_points
        of_leader = _OF_AGENT_ON_ROUTE if self.agents_along_route else 0
        return _OF_TARGET + 4 * self.num_past + (of_route + of_leader if self.with_route else 0)

    @property
    def num_of_agent(self) -> int:
        """Features of an agent."""
        return _OF_AGENT + (_OF_AGENT_ON_ROUTE if self.with_route and self.agents_along_route else 0)

    @property
    def num_of_lane(self) -> int:
        """Features of a lane."""
        return _OF_LANE + _OF_LANE_POINT * self.num_lane_points + (_OF_LANE_ON_ROUTE if self.with_route else 0)

    def features_of(self, batch: dict[str, torch.Tensor], *, with_agents: bool = True) -> RouteFeatures:
        """Return the features of a batch of vector samples.

        The speed is that of the last past step, as in closed loop; ``speed`` of samples may be that of the next step.

        Args:
            batch: Samples of the vectorised datasets, with the keys of ``model_params.route`` if ``with_route``.
            with_agents: Whether to include other agents; otherwise all are masked.

        Raises:
            InvalidArgumentError: The batch has no route, or routes with a different number of points.
        """
        past_m, past_known = batch["history_positions"], batch["history_availabilities"] > 0
        speeds_mps = current_velocities(past_m, past_known, self.past_step_time_s)[..., 0].clamp(min=0.0)
        sizes_m = batch["extent"].to(past_m.dtype)
        of_target = [
            torch.stack(
                (
                    speeds_mps / _SPEED_MPS,
                    (speeds_mps < _STATIONARY_MPS).to(past_m.dtype),
                    past_known[:, 1:].any(dim=1).to(past_m.dtype),  # whether its speed is known
                    sizes_m[:, 0] / _LENGTH_M,
                    sizes_m[:, 1] / _WIDTH_M,
                ),
                dim=-1,
            )
        ]
        if self.num_past:
            # past poses, without the current one, which is the origin
            shown = slice(1, self.num_past + 1)
            known = past_known[:, shown, None]
            poses = torch.cat((past_m[:, shown] / _NEAR_M, batch["history_yaws"][:, shown], known), dim=-1)
            of_target.append(_masked(poses, known).flatten(1))
        if self.with_route:
            of_target.append(self._route_of(batch))
        agents, agents_there = self._agents_of(batch, speeds_mps)
        if not with_agents:
            agents_there = torch.zeros_like(agents_there)
        if self.with_route and self.agents_along_route:
            # Repeat the features of the nearest agent ahead in the corridor of the route, or 0 without one. It
            # determines how to follow, and need not be found among all agents this way.
            positions, features = batch["all_other_agents_route_places"], agents[..., -NUM_POSITION_FEATURES:]
            leads = agents_there & batch["all_other_agents_route_availability"]
            leads = leads & (positions[..., 5] > 0) & (positions[..., 0] > 0)
            if leads.shape[1] == 0:  # argmin needs at least one agent
                leader = features.sum(dim=1)
            else:
                ahead_m = torch.where(leads, positions[..., 0], torch.full_like(positions[..., 0], torch.inf))
                leader = features[torch.arange(features.shape[0], device=features.device), ahead_m.argmin(dim=1)]
                leader = _masked(leader, leads.any(dim=1, keepdim=True))
            of_target.append(leader)
        lanes, lanes_there = self._lanes_of(batch)
        return RouteFeatures(
            speeds_mps,
            sizes_m[:, 0] * REAR_AXLE_SHARE,
            torch.cat(of_target, dim=-1),
            agents,
            agents_there,
            lanes,
            lanes_there,
        )

    def _route_of(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the features of the route and of the target's position on it, (B, F)."""
        require_route(batch)
        poses = batch["route_polyline"]
        if poses.shape[1] != self.num_route_points:
            raise InvalidArgumentError(
                f"the batch has routes of {poses.shape[1]} points; the network was made for {self.num_route_points}"
            )
        known = batch["route_availability"].unsqueeze(-1)
        points = torch.cat(
            (
                poses[..., :2] / _FAR_M,
                poses[..., 2:].cos(),
                poses[..., 2:].sin(),
                route_point_features(batch),
            ),
            dim=-1,
        )
        position, has_position = batch["agent_route_place"], batch["agent_route_availability"].unsqueeze(-1)
        # omit its own speeds along and across the route, which would reveal how it turns
        own = torch.stack(
            (position[:, 1] / _NEAR_M, position[:, 4].cos(), position[:, 4].sin(), position[:, 5]), dim=-1
        )
        has_goal = batch["goal_availability"].unsqueeze(-1)
        parts = (
            _masked(points, known).flatten(1),
            _masked(torch.cat((own, batch["route_gaps"] / _FAR_M, has_position), dim=-1), has_position),
            _masked(torch.cat((batch["goal_position"] / _FAR_M, has_goal), dim=-1), has_goal),
            _masked(batch["route_gaps"] / _SPEED_MPS, has_position).clamp(max=1.0),  # finer resolution of small gaps
        )
        return torch.cat(parts, dim=-1)

    def _agents_of(self, batch: dict[str, torch.Tensor], speeds_mps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the features of other agents, (B, A, F), and the mask of present ones, (B, A)."""
        past_m, known = batch["all_other_agents_history_positions"], batch["all_other_agents_history_availability"] > 0
        velocities_mps = current_velocities(past_m, known, self.past_step_time_s)
        yaws, sizes_m = (
            batch["all_other_agents_history_yaws"][:, :, 0],
            batch["all_other_agents_history_extents"][:, :, 0],
        )
        labels = torch.tensor(_AGENT_LABELS, device=past_m.device)
        own_mps = speeds_mps[:, None, None].expand_as(yaws)
        parts = [
            past_m[:, :, 0] / _FAR_M,
            yaws.cos(),
            yaws.sin(),
            velocities_mps / _SPEED_MPS,
            own_mps / _SPEED_MPS,
            sizes_m[..., :1] / _LENGTH_M,
            sizes_m[..., 1:] / _WIDTH_M,
            batch["all_other_agents_types"].unsqueeze(-1) == labels,
        ]
        if self.with_route and self.agents_along_route:
            positions, has_position = (
                batch["all_other_agents_route_places"],
                batch["all_other_agents_route_availability"],
            )
            own_sizes_m = batch["extent"][:, None, :2].to(past_m.dtype)
            parts.append(position_features(positions, has_position, sizes_m, own_mps, own_sizes_m))
        there = known[:, :, 0]
        features = torch.cat([part.to(past_m.dtype) for part in parts], dim=-1)
        return _masked(features, there.unsqueeze(-1)).clamp(-_MAX_FEATURE, _MAX_FEATURE), there

    def _lanes_of(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the features of lanes, (B, L, F), and the mask of present ones, (B, L)."""
        points, known = batch["lanes_mid"], batch["lanes_mid_availabilities"] > 0
        there = known.any(dim=-1)
        is_known = known.unsqueeze(-1)
        parts = [
            _masked(torch.cat((points[..., :2] / _FAR_M, is_known), dim=-1), is_known).flatten(2),
            _one_hot(points[:, :, 0, 2].long()),
            there.unsqueeze(-1),
        ]
        if self.with_route:
            parts += [batch["lane_limits"].unsqueeze(-1) / _SPEED_MPS, batch["lane_on_route"].unsqueeze(-1)]
        return _masked(torch.cat([part.to(points.dtype) for part in parts], dim=-1), there.unsqueeze(-1)), there


def require_route(batch: dict[str, torch.Tensor]) -> None:
    """Refuse a batch without a route.

    Raises:
        InvalidArgumentError: There is none.
    """
    if "route_polyline" not in batch:
        raise InvalidArgumentError(
            "the batch has no 'route_polyline'; make the samples with model_params.route: true, or take a network "
            "without a route"
        )


# TorchScript, to which the following functions are compiled, has no globals, so units are default arguments
def route_point_features(
    batch: dict[str, torch.Tensor], speed_mps: float = _SPEED_MPS, near_m: float = _NEAR_M
) -> torch.Tensor:
    """Return limits, lights and other features of the points of routes, (B, R, NUM_POINT_FEATURES), 0 if absent.

    Args:
        batch: Samples with a route.
        speed_mps: Unit of speeds.
        near_m: Unit of widths.
    """
    known = batch["route_availability"].unsqueeze(-1)
    features = (
        batch["route_limits"].unsqueeze(-1) / speed_mps,
        batch["route_bend_speeds"].unsqueeze(-1) / speed_mps,
        batch["route_in_junction"].unsqueeze(-1),
        batch["route_widths"] / near_m,
        known,
        _one_hot(batch["route_lights"]),
    )
    return _masked(torch.cat(features, dim=-1), known)


def position_features(
    positions: torch.Tensor,
    has_position: torch.Tensor,
    sizes_m: torch.Tensor,
    own_mps: torch.Tensor,
    own_sizes_m: torch.Tensor,
    far_m: float = _FAR_M,
    near_m: float = _NEAR_M,
    width_m: float = _WIDTH_M,
    speed_mps: float = _SPEED_MPS,
    braking_mps2: float = _BRAKING_MPS2,
    headway_s: float = _HEADWAY_S,
) -> torch.Tensor:
    """Return features of boxes along a route, (B, A, NUM_POSITION_FEATURES), 0 for boxes without a position on it.

    The last ones describe the gap between bumpers, on which following and stopping depend: with distances of centres
    only, the target stops one or two metres too late.

    Args:
        positions: As ``all_other_agents_route_places`` of samples, (B, A, 6).
        has_position: bool (B, A).
        sizes_m: Length and width of the boxes, (B, A, 2).
        own_mps: Speed of the target, broadcastable to (B, A, 1).
        own_sizes_m: Length and width of the target, broadcastable to (B, A, 2).
        far_m: Unit of distances along the route, metres.
        near_m: Unit of distances across the route, metres.
        width_m: Unit of the lateral gap between two boxes, metres.
        speed_mps: Unit of speeds.
        braking_mps2: Unit of decelerations.
        headway_s: Unit of times.
    """
    known = has_position.unsqueeze(-1)
    cos, sin = positions[..., 4:5].cos(), positions[..., 4:5].sin()
    # half extents of boxes along and across the route, by their heading
    lengths_m, widths_m = sizes_m[..., :1], sizes_m[..., 1:2]
    along_m = 0.5 * (cos.abs() * lengths_m + sin.abs() * widths_m + own_sizes_m[..., :1])
    across_m = 0.5 * (sin.abs() * lengths_m + cos.abs() * widths_m + own_sizes_m[..., 1:2])
    gaps_m = positions[..., :1].abs() - along_m
    closing_mps = (own_mps - positions[..., 2:3]) * positions[..., :1].sign()
    short_m = gaps_m.clamp(min=1.0)
    needed_mps2 = 0.5 * closing_mps.clamp(min=0.0).square() / short_m  # deceleration that avoids contact
    features = (
        positions[..., :1] / far_m,
        positions[..., 1:2] / near_m,
        positions[..., 2:4] / speed_mps,
        (positions[..., 2:3] - own_mps) / speed_mps,
        cos,
        sin,
        positions[..., 5:],
        known,
        (0.5 * gaps_m / near_m).clamp(-1.0, 1.0),
        (closing_mps / short_m).clamp(-1.0, 2.0),  # inverse time to collision, 1/s
        (needed_mps2 / braking_mps2).clamp(max=2.0),
        (short_m / own_mps.clamp(min=1.0) / headway_s).clamp(max=2.0),
        ((positions[..., 1:2].abs() - across_m) / width_m).clamp(-1.0, 2.0),
    )
    return _masked(torch.cat(features, dim=-1), known)


def _one_hot(lights: torch.Tensor, num_lights: int = _NUM_LIGHTS) -> torch.Tensor:
    """Return the states of lights as one-hot flags, (..., 5), all False for unknown values."""
    return lights.unsqueeze(-1) == torch.arange(num_lights, device=lights.device)


def _masked(values: torch.Tensor, is_there: torch.Tensor) -> torch.Tensor:
    """Return values where the mask is True and 0 elsewhere, even for values that are not finite."""
    return torch.where(is_there, values, torch.zeros_like(values))
