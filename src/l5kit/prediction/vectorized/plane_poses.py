"""Poses in the plane as rows x, y and yaw: composition, relative poses, and poses along a move."""

import torch


def compose(start: torch.Tensor, move: torch.Tensor) -> torch.Tensor:
    """Return the poses after moves.

    Args:
        start: Poses, metres and radians, shape (..., 3).
        move: Moves as poses relative to these, shape (..., 3).

    Returns:
        Shape (..., 3); yaws are not wrapped.
    """
    cos, sin = torch.cos(start[..., 2]), torch.sin(start[..., 2])
    x = start[..., 0] + cos * move[..., 0] - sin * move[..., 1]
    y = start[..., 1] + sin * move[..., 0] + cos * move[..., 1]
    return torch.stack((x, y, start[..., 2] + move[..., 2]), dim=-1)


def seen_from(poses: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return positions relative to poses.

    Args:
        poses: x, y in metres, yaw in radians, shape (..., 3).
        positions: In metres, shape (..., 2), with leading axes that broadcast with those of the poses.

    Returns:
        x ahead and y to the left in metres, shape (..., 2).
    """
    cos, sin = torch.cos(poses[..., 2]), torch.sin(poses[..., 2])
    x, y = positions[..., 0] - poses[..., 0], positions[..., 1] - poses[..., 1]
    return torch.stack((cos * x + sin * y, cos * y - sin * x), dim=-1)


def relative_to(start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    """Return poses relative to others, the inverse of :func:`compose`.

    Args:
        start: Reference poses, shape (..., 3).
        end: Poses to express relative to these, shape (..., 3).

    Returns:
        Shape (..., 3), yaws from -pi to pi.
    """
    turn = end[..., 2] - start[..., 2]
    turn = torch.atan2(torch.sin(turn), torch.cos(turn))  # wrap to -pi to pi
    return torch.cat((seen_from(start, end[..., :2]), turn.unsqueeze(-1)), dim=-1)


def poses_along_move(move: torch.Tensor, speed_ratio: torch.Tensor, num_steps: int) -> torch.Tensor:
    """Return the poses along a move: along a circle, with constant acceleration.

    Args:
        move: The whole move, shape (..., 3).
        speed_ratio: Speed at the start over the mean speed, 0 to 2, shape (...).
        num_steps: Number of poses, evenly spaced in time; the last one is the end of the move.

    Returns:
        Poses relative to the start, shape (..., num_steps, 3).
    """
    time = torch.arange(1, num_steps + 1, device=move.device).to(move.dtype) / num_steps
    ratio = speed_ratio.unsqueeze(-1)
    # share of the way at each time, r t + (1 - r) t^2: initial speed r, constant acceleration, and 1 at the end
    part = ratio * time + (1 - ratio) * time * time
    half = move[..., 2:3] / 2
    chord_half = half * part  # half of the angle turned so far
    shrink = part * _sinc(chord_half) / _sinc(half)  # chord up to there as a fraction of the whole chord
    turn = chord_half - half
    cos, sin = torch.cos(turn), torch.sin(turn)
    x = shrink * (cos * move[..., :1] - sin * move[..., 1:2])
    y = shrink * (sin * move[..., :1] + cos * move[..., 1:2])
    return torch.stack((x, y, 2 * chord_half), dim=-1)


def _sinc(angle: torch.Tensor) -> torch.Tensor:
    """Return sin(angle) / angle."""
    return torch.sinc(angle / torch.pi)
