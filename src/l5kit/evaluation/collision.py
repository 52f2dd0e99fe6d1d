"""Collisions of the AV's box with the boxes of agents, seen from above."""

from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, Float64Array, RecordArray
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.box import compute_box_outline, within_range
from l5kit.geometry.box_contact import boxes_touch, lengths_inside

_AGENT_FIELDS = ("centroid", "extent", "yaw", "track_id")


class CollisionType(IntEnum):
    """The side of the AV that an agent touches most."""

    FRONT = 0
    REAR = 1
    SIDE = 2


SIDE_CORNERS = ((0, 1), (2, 3), (0, 3), (1, 2))
"""Start and end corner of the front, rear, left and right side, as :func:`compute_box_outline` orders the corners."""

TYPE_OF_SIDE = (CollisionType.FRONT, CollisionType.REAR, CollisionType.SIDE, CollisionType.SIDE)
"""Types of the front, rear, left and right side."""


def detect_collision(
    pred_centroid: ArrayLike, pred_yaw: ArrayLike, pred_extent: ArrayLike, target_agents: RecordArray
) -> tuple[CollisionType, np.integer] | None:
    """Return the type of the AV's collision and the track id of the agent; None without a collision.

    The first agent in the order of the array whose box shares a point with that of the AV decides. The type is that of
    the AV's side with the longest part inside or on the edge of the agent's box; ties go to front, rear, then flanks.
    Agents without size or with a negative probability are skipped: that is how simulations hide agents.

    Boxes that touch, and edges that coincide, are decided by their corners as :func:`compute_box_outline` rounds them,
    without further rounding. This is what L5Kit 1.5 decides with Shapely, up to the rounding of its intersections.

    Args:
        pred_centroid: World position of the AV in metres, (2,).
        pred_yaw: World heading of the AV in radians, a number or shape (1,).
        pred_extent: Length and width of the AV in metres, (>= 2,).
        target_agents: Agents, (N,), structured with ``centroid``, ``extent``, ``yaw`` and ``track_id``.

    Returns:
        The type and the agent's track id, in the type of its field.

    Raises:
        InvalidArgumentError: A shape or field is wrong, or a heading or extent is not finite.
    """
    centroid_m, yaw_rad, extent_m = np.asarray(pred_centroid), np.asarray(pred_yaw), np.asarray(pred_extent)
    if centroid_m.shape != (2,):
        raise InvalidArgumentError(f"pred_centroid has shape {centroid_m.shape}; pass x and y, shape (2,)")
    if yaw_rad.shape not in ((), (1,)):
        raise InvalidArgumentError(f"pred_yaw has shape {yaw_rad.shape}; pass one heading, a number or shape (1,)")
    if extent_m.ndim != 1 or len(extent_m) < 2:
        raise InvalidArgumentError(f"pred_extent has shape {extent_m.shape}; pass length and width, shape (>= 2,)")
    for name, values in (("pred_centroid", centroid_m), ("pred_yaw", yaw_rad), ("pred_extent", extent_m[:2])):
        if not np.isfinite(values).all():
            raise InvalidArgumentError(f"{name} is {values.tolist()}; pass finite numbers")
    require_agents(target_agents)
    is_near = within_range(centroid_m, extent_m, target_agents["centroid"], target_agents["extent"])
    near = target_agents[is_near & ~is_hidden(target_agents)]
    if len(near) == 0:
        return None
    ego_m = compute_box_outline(centroid_m, yaw_rad.reshape(()), extent_m)
    agents_m = compute_box_outline(near["centroid"], near["yaw"], near["extent"])
    require_finite(near, agents_m)
    touched = np.flatnonzero(boxes_touch(ego_m, agents_m))
    if len(touched) == 0:
        return None
    lengths_m = lengths_inside(ego_m[np.array(SIDE_CORNERS)], agents_m[touched[0]])
    return TYPE_OF_SIDE[int(np.argmax(lengths_m))], near["track_id"][touched[0]]


def require_agents(agents: RecordArray) -> None:
    """Require a structured array (N,) with the fields needed for collisions."""
    names = getattr(getattr(agents, "dtype", None), "names", None) or ()
    missing = [name for name in _AGENT_FIELDS if name not in names]
    if missing or agents.ndim != 1:
        raise InvalidArgumentError(
            f"target_agents must be a structured array of shape (N,) with the fields {', '.join(_AGENT_FIELDS)}, got "
            f"{type(agents).__name__}" + (f" without {', '.join(missing)}" if missing else f" of shape {agents.shape}")
        )


def is_hidden(agents: RecordArray) -> BoolArray:
    """Return which agents (N,) are hidden by a simulation."""
    is_hidden: BoolArray = (agents["extent"][:, :2] == 0).all(axis=1)
    if "label_probabilities" in (agents.dtype.names or ()):
        is_hidden |= (agents["label_probabilities"] < 0).any(axis=1)
    return is_hidden


def require_finite(agents: RecordArray, corners_m: Float64Array) -> None:
    """Refuse agents (N,) with corners (N, 4, 2) that are not finite."""
    is_broken = ~np.isfinite(corners_m).all(axis=(1, 2))
    if is_broken.any():
        agent = agents[is_broken][0]
        raise InvalidArgumentError(
            f"track {agent['track_id']} of target_agents has the yaw {agent['yaw']} and the extent "
            f"{agent['extent'].tolist()}; headings and extents must be finite"
        )
