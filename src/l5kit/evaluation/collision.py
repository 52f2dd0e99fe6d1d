"""Collisions of the AV's box with the boxes of agents, seen from above."""

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, Float64Array, NumericArray
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.box import compute_box_corners, compute_box_sides, within_range

_AGENT_FIELDS = ("centroid", "extent", "yaw", "track_id")


class CollisionType(IntEnum):
    """The side of the AV that an agent touches most."""

    FRONT = 0
    REAR = 1
    SIDE = 2


_TYPE_OF_SIDE = (CollisionType.FRONT, CollisionType.REAR, CollisionType.SIDE, CollisionType.SIDE)
"""Types of the front, rear, right and left side, as :func:`compute_box_sides` orders them."""


def detect_collision(
    pred_centroid: ArrayLike, pred_yaw: float, pred_extent: ArrayLike, target_agents: Any
) -> tuple[CollisionType, Any] | None:
    """Return how and with which agent the AV collides; None if it does not.

    The first agent, in the order of the array, whose box shares a point with that of the AV decides. The type is that
    of the side of the AV of which most lies inside the agent's box, the first of front, rear and flanks when equal.
    Agents without size or with a negative probability are not looked at: that is how simulations hide agents.

    Args:
        pred_centroid: World position of the AV in metres, (2,).
        pred_yaw: World heading of the AV in radians.
        pred_extent: Length and width of the AV in metres, (>= 2,).
        target_agents: Agents, (N,), structured with ``centroid``, ``extent``, ``yaw`` and ``track_id``.

    Returns:
        The type and the agent's track id, in the type of its field.

    Raises:
        InvalidArgumentError: A shape or field is not as above.
    """
    centroid_m, extent_m = np.asarray(pred_centroid, np.float64), np.asarray(pred_extent, np.float64)
    _require_pose(centroid_m, extent_m)
    _require_agents(target_agents)
    is_near = within_range(centroid_m, extent_m, target_agents["centroid"], target_agents["extent"])
    near = target_agents[is_near & ~_is_hidden(target_agents)]
    if len(near) == 0:
        return None
    ego_corners_m = compute_box_corners(centroid_m, np.float64(pred_yaw), extent_m)
    touched = np.flatnonzero(_boxes_touch(ego_corners_m, _corners_of(near)))
    if len(touched) == 0:
        return None
    agent = near[touched[0]]
    lengths_m = _lengths_inside(compute_box_sides(ego_corners_m), agent)
    return _TYPE_OF_SIDE[int(np.argmax(lengths_m))], agent["track_id"]


def _require_pose(centroid_m: Float64Array, extent_m: Float64Array) -> None:
    if centroid_m.shape != (2,):
        raise InvalidArgumentError(f"pred_centroid has shape {centroid_m.shape}; pass x and y, shape (2,)")
    if extent_m.ndim != 1 or len(extent_m) < 2:
        raise InvalidArgumentError(f"pred_extent has shape {extent_m.shape}; pass length and width, shape (>= 2,)")


def _require_agents(agents: Any) -> None:
    names = getattr(getattr(agents, "dtype", None), "names", None) or ()
    missing = [name for name in _AGENT_FIELDS if name not in names]
    if missing or agents.ndim != 1:
        raise InvalidArgumentError(
            f"target_agents must be a structured array of shape (N,) with the fields {', '.join(_AGENT_FIELDS)}, got "
            f"{type(agents).__name__}" + (f" without {', '.join(missing)}" if missing else f" of shape {agents.shape}")
        )


def _is_hidden(agents: Any) -> BoolArray:
    """Return which agents (N,) a simulation has hidden."""
    is_hidden: BoolArray = (agents["extent"][:, :2] == 0).all(axis=1)
    if "label_probabilities" in agents.dtype.names:
        is_hidden |= (agents["label_probabilities"] < 0).any(axis=1)
    return is_hidden


def _corners_of(agents: Any) -> Float64Array:
    """Return the corners (N, 4, 2) of the boxes of agents."""
    return compute_box_corners(agents["centroid"], np.asarray(agents["yaw"], np.float64), agents["extent"])


def _boxes_touch(ego_corners_m: Float64Array, agent_corners_m: Float64Array) -> BoolArray:
    """Return which boxes (N, 4, 2) share a point with the box (4, 2), by the separating axis theorem.

    Boxes of zero length or width have an edge without direction, for which the axis of the other edge stands in.
    """
    ego = np.broadcast_to(ego_corners_m, agent_corners_m.shape)
    edges = np.concatenate([_edges(ego), _edges(agent_corners_m)], axis=1)  # (N, 4, 2)
    ego_along = np.einsum("nac,nkc->nak", edges, ego)
    agents_along = np.einsum("nac,nkc->nak", edges, agent_corners_m)
    is_apart = (ego_along.max(-1) < agents_along.min(-1)) | (agents_along.max(-1) < ego_along.min(-1))
    touch: BoolArray = ~is_apart.any(axis=1)
    return touch


def _edges(corners_m: Float64Array) -> Float64Array:
    """Return the two directions of the edges of boxes (N, 4, 2), (N, 2, 2)."""
    edges = np.stack([corners_m[:, 3] - corners_m[:, 0], corners_m[:, 1] - corners_m[:, 0]], axis=1)
    turned = np.stack([-edges[:, ::-1, 1], edges[:, ::-1, 0]], axis=-1)
    return np.where((edges == 0).all(axis=-1, keepdims=True), turned, edges)


def _lengths_inside(segments_m: Float64Array, agent: NumericArray) -> Float64Array:
    """Return how much of segments (S, 2, 2), in metres, lies in the box of an agent, by clipping (Liang and Barsky)."""
    cos, sin = np.cos(np.float64(agent["yaw"])), np.sin(np.float64(agent["yaw"]))
    agent_from_world = np.array([[cos, sin], [-sin, cos]])
    segments = (segments_m - agent["centroid"]) @ agent_from_world.T
    half = 0.5 * np.asarray(agent["extent"], np.float64)[:2]
    start, step = segments[:, 0], segments[:, 1] - segments[:, 0]
    enters, leaves = np.zeros(len(segments)), np.ones(len(segments))
    for axis in range(2):
        with np.errstate(divide="ignore", invalid="ignore"):
            cuts = (np.array([-half[axis], half[axis]]) - start[:, axis, None]) / step[:, axis, None]
        is_along = step[:, axis] == 0  # parallel to this pair of sides: all of it is between them, or nothing
        is_between = np.abs(start[:, axis]) <= half[axis]
        enters = np.where(is_along, np.where(is_between, enters, 1.0), np.maximum(enters, np.min(cuts, axis=1)))
        leaves = np.where(is_along, leaves, np.minimum(leaves, np.max(cuts, axis=1)))
    lengths: Float64Array = np.clip(leaves - enters, 0.0, None) * np.linalg.norm(step, axis=1)
    return lengths
