"""Padding and transforms of polylines, and the scale of the targets.

All functions can be scripted and compiled, and work on the device of their arguments.
"""

import torch
from torch.nn import functional as F

from l5kit.errors import InvalidArgumentError, TensorSizeError


def pad_points(polylines: torch.Tensor, pad_to: int) -> torch.Tensor:
    """Return polylines padded with zeros after their last point.

    Args:
        polylines: Shape (B, N, P, F).
        pad_to: Number of points, at least P.

    Returns:
        Shape (B, N, pad_to, F).

    Raises:
        TensorSizeError: ``pad_to`` is less than P.
    """
    return F.pad(polylines, [0, 0, 0, _num_padded(polylines.shape[2], pad_to)])


def pad_avail(avails: torch.Tensor, pad_to: int) -> torch.Tensor:
    """Return availabilities padded with zeros (False) after the last point.

    Args:
        avails: Shape (B, N, P).
        pad_to: Number of points, at least P.

    Returns:
        Shape (B, N, pad_to).

    Raises:
        TensorSizeError: ``pad_to`` is less than P.
    """
    return F.pad(avails, [0, _num_padded(avails.shape[2], pad_to)])


def _num_padded(num_points: int, pad_to: int) -> int:
    if num_points > pad_to:
        raise TensorSizeError(f"pad_to is {pad_to}, but there are {num_points} points; pass at least as many")
    return pad_to - num_points


def build_matrix(translation: torch.Tensor, angle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the matrices of a turn followed by a shift, and their inverses, in the dtype of ``translation``.

    Whole numbers become those of ``angle``.

    Args:
        translation: Shift in metres, shape (..., 2).
        angle: Turn in radians, shape (...).

    Returns:
        Both of shape (..., 3, 3).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """
    if translation.shape[:-1] != angle.shape or translation.shape[-1] != 2:
        raise InvalidArgumentError(
            f"translation has shape {translation.shape} and angle {angle.shape}; pass (..., 2) and (...)"
        )
    cos, sin = torch.cos(angle), torch.sin(angle)
    rotation = torch.stack((torch.stack((cos, -sin), dim=-1), torch.stack((sin, cos), dim=-1)), dim=-2)
    if translation.is_floating_point():
        rotation = rotation.to(translation.dtype)
    else:
        translation = translation.to(rotation.dtype)
    turned_back = (rotation * translation.unsqueeze(-1)).sum(dim=-2)  # the inverse rotation of the shift
    return _homogeneous(rotation, translation), _homogeneous(rotation.transpose(-1, -2), -turned_back)


def _homogeneous(rotation: torch.Tensor, translation: torch.Tensor) -> torch.Tensor:
    """Return matrices (..., 3, 3) of rotations (..., 2, 2) and shifts (..., 2)."""
    top = torch.cat((rotation, translation.unsqueeze(-1)), dim=-1)
    last_row = torch.cat((torch.zeros_like(top[..., :1, :2]), torch.ones_like(top[..., :1, 2:])), dim=-1)
    return torch.cat((top, last_row), dim=-2)


def compose(outer: torch.Tensor, inner: torch.Tensor) -> torch.Tensor:
    """Return matrix products in full precision also under autocast, as half precision has steps of centimetres at 50 m.

    Args:
        outer: Shape (..., 3, 3).
        inner: Shape (..., 3, 3).

    Returns:
        Shape (..., 3, 3).
    """
    return (outer.unsqueeze(-1) * inner.unsqueeze(-3)).sum(dim=-2)


def transform_xy(xy: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Return points transformed by matrices, in full precision also under autocast.

    Args:
        xy: Points in metres, shape (..., 2).
        matrix: Shape (..., 3, 3), with the leading axes of ``xy`` or axes that broadcast with them.

    Returns:
        Shape (..., 2).
    """
    x, y = xy[..., 0], xy[..., 1]
    moved_x = matrix[..., 0, 0] * x + matrix[..., 0, 1] * y + matrix[..., 0, 2]
    moved_y = matrix[..., 1, 0] * x + matrix[..., 1, 1] * y + matrix[..., 1, 2]
    return torch.stack((moved_x, moved_y), dim=-1)


def transform_points(
    element: torch.Tensor, matrix: torch.Tensor, avail: torch.Tensor, yaw: torch.Tensor | None = None
) -> torch.Tensor:
    """Return polylines in another frame, with zeros where they are not available.

    Args:
        element: x, y and a third feature of each point, shape (B, N, P, 3).
        matrix: One matrix for each item of the batch, shape (B, 3, 3).
        avail: Shape (B, N, P).
        yaw: Added to the third feature if given, shape (B, 1) or (B,), in radians.

    Returns:
        Shape (B, N, P, 3).
    """
    xy = transform_xy(element[..., :2], matrix[:, None, None])
    third = element[..., 2:3]
    if yaw is not None:
        third = third + yaw.reshape(-1, 1, 1, 1)
    return torch.cat((xy, third), dim=-1) * avail.unsqueeze(-1)


def build_target_normalization(nsteps: int) -> torch.Tensor:
    """Return the scale of target positions: polynomials of L5Kit 1.5 for the distance of a car after 1, 2, ... steps.

    Args:
        nsteps: Future steps of 0.1 s.

    Returns:
        Scale of x and y in metres for each step, float32, shape (nsteps, 2).
    """
    step = torch.arange(nsteps, dtype=torch.float64)
    x_m = 3.28e-05 * step**3 - 0.0017684 * step**2 + 1.8088969 * step + 2.211737
    y_m = -5.67e-05 * step**3 + 0.0052056 * step**2 + 0.0138343 * step + 0.0588579
    return torch.stack((x_m, y_m), dim=-1).float()
