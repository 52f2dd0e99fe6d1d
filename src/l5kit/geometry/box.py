"""Boxes of vehicles seen from above: corners and a quick range test.

A box has a centroid, a yaw and an extent: length along the heading, width across it; further columns are ignored.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, Float64Array, NumericArray
from l5kit.errors import InvalidArgumentError

REAR_AXLE_SHARE: Final = 0.2823
"""Distance from the rear axle of a typical car to its centre, over its length; section 0 of the score definition."""

_CORNER_SIGNS = ((-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, -1.0))
"""Signs of half length and half width: rear right, rear left, front left, front right."""


def compute_box_corners(centroids_m: ArrayLike, yaws_rad: ArrayLike, extents_m: ArrayLike) -> Float64Array:
    """Return the four corners of each box: rear right, rear left, front left, front right.

    Sine and cosine are taken in the dtype of ``yaws_rad`` (in float32 for the yaw of agent records), everything else is
    computed in float64.

    Args:
        centroids_m: Positions of the centres in metres, shape (..., 2).
        yaws_rad: Headings in radians, shape (...).
        extents_m: Length and width in metres, shape (..., >= 2); further columns are ignored.

    Returns:
        Corners in metres, shape (..., 4, 2), in the frame of ``centroids_m``.

    Raises:
        InvalidArgumentError: The shapes do not match those above.
    """
    centroids, yaws, extents = np.asarray(centroids_m, dtype=np.float64), np.asarray(yaws_rad), np.asarray(extents_m)
    _check_box_shapes(centroids, yaws, extents)
    cos, sin = np.cos(yaws).astype(np.float64)[..., None], np.sin(yaws).astype(np.float64)[..., None]
    half_extents = 0.5 * extents[..., None, :2].astype(np.float64)
    offsets = half_extents * np.array(_CORNER_SIGNS)  # (..., 4, 2), in the frame of the box
    along, across = offsets[..., 0], offsets[..., 1]
    corners = np.empty((*yaws.shape, 4, 2))
    corners[..., 0] = cos * along - sin * across + centroids[..., None, 0]
    corners[..., 1] = sin * along + cos * across + centroids[..., None, 1]
    return corners


def compute_box_outline(centroids_m: ArrayLike, yaws_rad: ArrayLike, extents_m: ArrayLike) -> Float64Array:
    """Return the four corners of each box clockwise: front left, front right, rear right, rear left.

    Collision checks use this outline. It is computed in the dtypes of the arguments, from left to right: centroid, plus
    or minus half the length along the heading, plus or minus half the width across.

    Args:
        centroids_m: Positions of the centres in metres, shape (..., 2).
        yaws_rad: Headings in radians, shape (...).
        extents_m: Length and width in metres, shape (..., >= 2); further columns are ignored.

    Returns:
        Corners in metres, shape (..., 4, 2), in the frame of ``centroids_m``.

    Raises:
        InvalidArgumentError: The shapes do not match those above.
    """
    centroids, yaws, extents = np.asarray(centroids_m), np.asarray(yaws_rad), np.asarray(extents_m)
    _check_box_shapes(centroids, yaws, extents)
    cos, sin = np.cos(yaws), np.sin(yaws)
    half_extents = extents[..., :2, None] / 2
    along = half_extents[..., 0, :] * np.stack([cos, sin], axis=-1)
    across = half_extents[..., 1, :] * np.stack([-sin, cos], axis=-1)
    front, rear = centroids + along, centroids - along
    corners: Float64Array = np.stack([front + across, front - across, rear - across, rear + across], axis=-2)
    return corners.astype(np.float64)


def within_range(
    ego_centroid_m: ArrayLike, ego_extent_m: ArrayLike, agent_centroids_m: ArrayLike, agent_extents_m: ArrayLike
) -> BoolArray:
    """Return which agents are close enough for their box to touch the box of the ego, for any headings.

    An agent is in range when the distance of the centroids is strictly below half the sum of the two box diagonals,
    each computed in the dtype of its argument.

    Args:
        ego_centroid_m: Position of the ego in metres, shape (2,), or one for each agent, shape (N, 2).
        ego_extent_m: Length and width of the ego in metres, shape (>= 2,) or (N, >= 2).
        agent_centroids_m: Positions of the agents in metres, shape (N, 2).
        agent_extents_m: Lengths and widths of the agents in metres, shape (N, >= 2).

    Returns:
        Shape (N,).

    Raises:
        InvalidArgumentError: The shapes do not match those above.
    """
    ego_centroid, ego_extent = np.asarray(ego_centroid_m), np.asarray(ego_extent_m)
    agent_centroids, agent_extents = np.asarray(agent_centroids_m), np.asarray(agent_extents_m)
    num_agents = len(agent_centroids) if agent_centroids.ndim else 0
    if agent_centroids.shape != (num_agents, 2):
        raise InvalidArgumentError(f"agent_centroids_m has shape {agent_centroids.shape}; pass shape (N, 2)")
    if agent_extents.ndim != 2 or len(agent_extents) != num_agents or agent_extents.shape[1] < 2:
        raise InvalidArgumentError(
            f"agent_extents_m has shape {agent_extents.shape}; for {num_agents} agents pass ({num_agents}, >= 2)"
        )
    if ego_centroid.shape not in ((2,), (num_agents, 2)):
        raise InvalidArgumentError(
            f"ego_centroid_m has shape {ego_centroid.shape}; pass (2,), or ({num_agents}, 2) like the agents"
        )
    if ego_extent.ndim == 0 or ego_extent.shape[:-1] not in ((), (num_agents,)) or ego_extent.shape[-1] < 2:
        raise InvalidArgumentError(
            f"ego_extent_m has shape {ego_extent.shape}; pass (>= 2,), or ({num_agents}, >= 2) like the agents"
        )

    # boxes that touch are at most the sum of both half diagonals apart, for any headings
    distances_m = np.linalg.norm(ego_centroid - agent_centroids, axis=-1)
    diagonals_m = np.linalg.norm(ego_extent[..., :2], axis=-1) + np.linalg.norm(agent_extents[:, :2], axis=-1)
    in_range: BoolArray = distances_m < 0.5 * diagonals_m
    return in_range


def _check_box_shapes(centroids: NumericArray, yaws: NumericArray, extents: NumericArray) -> None:
    if centroids.shape != (*yaws.shape, 2):
        raise InvalidArgumentError(
            f"centroids_m has shape {centroids.shape}, but yaws_rad of shape {yaws.shape} needs {(*yaws.shape, 2)}"
        )
    if extents.shape[:-1] != yaws.shape or extents.ndim == 0 or extents.shape[-1] < 2:
        raise InvalidArgumentError(
            f"extents_m has shape {extents.shape}, but yaws_rad of shape {yaws.shape} needs that shape"
            " followed by at least length and width"
        )
