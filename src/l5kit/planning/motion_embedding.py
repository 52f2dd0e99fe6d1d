"""Motion embedding: speed, acceleration and turn rate of agents, as features of networks."""

from typing import Final

import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.kinematic.baselines import fit_motion
from l5kit.planning.vectorized.global_graph import MLP

_SPEED_MPS, _ACCELERATION_MPS2, _YAW_RATE_RAD_S = 5.0, 1.0, 0.2
"""Units of the features."""

_MAX_FEATURE = 8.0
"""Bound of the features, which noise may make large."""

_NUM_FEATURES = 6
_DIM_HIDDEN = 64

DIM_IMAGE: Final = 256
"""Number of raster features for the head."""

_DIM_MOTION = 64
"""Number of motion features, in addition to those of a raster."""


class MotionEmbedding(nn.Module):
    """Embedding of the current motion of agents, fitted to their past.

    For new trainings; L5Kit 1.5 has no equivalent. Its networks see the past as points some metres apart, in which an
    acceleration changes positions by centimetres, and rasters do not show it at all.

    Args:
        dim: Features of the embedding.
        past_step_time_s: Time between two past steps, seconds.

    Raises:
        InvalidArgumentError: The time is not above 0.
    """

    def __init__(self, dim: int, past_step_time_s: float) -> None:
        super().__init__()
        if not past_step_time_s > 0:
            raise InvalidArgumentError(f"past_step_time_s is {past_step_time_s!r}; give the seconds of a past step")
        self.past_step_time_s = float(past_step_time_s)
        self.layers = MLP(_NUM_FEATURES, _DIM_HIDDEN, dim, num_layers=2)
        self.norm = nn.LayerNorm(dim)
        self.speed_mps, self.acceleration_mps2, self.yaw_rate_rad_s = _SPEED_MPS, _ACCELERATION_MPS2, _YAW_RATE_RAD_S
        self.max_feature = _MAX_FEATURE

    def forward(self, positions: torch.Tensor, yaws: torch.Tensor, is_known: torch.Tensor) -> torch.Tensor:
        """Return embeddings of shape (..., dim).

        Args:
            positions: Past positions in metres, the current one first, (..., H + 1, 2), H >= 1.
            yaws: Headings at these in radians, (..., H + 1).
            is_known: Mask of the known ones, bool (..., H + 1).
        """
        motion = fit_motion(positions, yaws, is_known, self.past_step_time_s, True)
        speed = motion.speed_mps / self.speed_mps
        acceleration = motion.acceleration_mps2 / self.acceleration_mps2
        turn = motion.yaw_rate_rad_s / self.yaw_rate_rad_s
        moves = (motion.speed_mps.abs() > 0.1).to(speed.dtype)
        known = is_known.to(speed.dtype).mean(dim=-1)
        features = torch.stack([speed, acceleration, turn, speed * speed, moves, known], dim=-1)
        embeddings: torch.Tensor = self.norm(self.layers(features.clamp(-self.max_feature, self.max_feature)))
        return embeddings


class MotionHead(nn.Module):
    """Head that predicts from the features of a raster and the current motion of its agent.

    Args:
        num_outputs: Number of predicted values.
        past_step_time_s: Time between two past steps, seconds.
    """

    def __init__(self, num_outputs: int, past_step_time_s: float) -> None:
        super().__init__()
        self.motion = MotionEmbedding(_DIM_MOTION, past_step_time_s)
        self.layers = MLP(DIM_IMAGE + _DIM_MOTION, DIM_IMAGE, num_outputs, num_layers=3)

    def forward(self, image_features: torch.Tensor, data_batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return values of shape (B, num_outputs).

        Args:
            image_features: Shape (B, DIM_IMAGE).
            data_batch: The batch, with ``history_positions`` (B, H + 1, 2) in metres, ``history_yaws`` (B, H + 1, 1) in
                radians and ``history_availabilities`` (B, H + 1), H >= 1.
        """
        motion = self.motion(
            data_batch["history_positions"],
            data_batch["history_yaws"][..., 0],
            data_batch["history_availabilities"] > 0,
        )
        outputs: torch.Tensor = self.layers(torch.cat((image_features.relu(), motion), dim=-1))
        return outputs
