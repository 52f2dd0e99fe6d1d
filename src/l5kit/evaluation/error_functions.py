"""Errors between predicted and true values, as tensors."""

from collections.abc import Callable

import torch

from l5kit.errors import InvalidArgumentError

ErrorFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes predicted and true values and returns errors."""


def l2_error(pred: torch.Tensor, gt: torch.Tensor) -> torch.Tensor:
    """Return the Euclidean distance along the last axis.

    Args:
        pred: Predicted values, (..., C).
        gt: True values, broadcast against ``pred``.

    Returns:
        Distances, (...).
    """
    distances: torch.Tensor = torch.linalg.vector_norm(pred - gt, dim=-1)
    return distances


def closest_angle_error(angle_a: torch.Tensor, angle_b: torch.Tensor) -> torch.Tensor:
    """Return the unsigned angle between directions, in [0, pi] radians.

    With w = fmod(angle_b - angle_a, 2 pi) it is abs(fmod(2 w, 2 pi) - w).

    Args:
        angle_a: Angles in radians, any shape.
        angle_b: Angles in radians, the same shape.

    Raises:
        InvalidArgumentError: The shapes differ.
    """
    if angle_a.shape != angle_b.shape:
        raise InvalidArgumentError(
            f"angle_b has shape {tuple(angle_b.shape)}, but angle_a has {tuple(angle_a.shape)}; pass equal shapes"
        )
    turn = 2 * torch.pi
    wrapped = torch.fmod(angle_b - angle_a, turn)
    return torch.abs(torch.fmod(2 * wrapped, turn) - wrapped)
