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
        Shape (...).
    """
    distances: torch.Tensor = torch.linalg.vector_norm(pred - gt, dim=-1)
    return distances


def closest_angle_error(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the unsigned angle between directions, in [0, pi] radians.

    With w = fmod(b - a, 2 pi) it is abs(fmod(2 w, 2 pi) - w).

    Args:
        a: Angles in radians, any shape.
        b: Angles in radians, the same shape.

    Raises:
        InvalidArgumentError: The shapes differ.
    """
    if a.shape != b.shape:
        raise InvalidArgumentError(f"b has shape {tuple(b.shape)}, but a has {tuple(a.shape)}; pass equal shapes")
    turn = 2 * torch.pi
    wrapped = torch.fmod(b - a, turn)
    return torch.abs(torch.fmod(2 * wrapped, turn) - wrapped)
