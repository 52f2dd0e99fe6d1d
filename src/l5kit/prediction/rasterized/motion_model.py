"""Motion prediction baseline of the competition: future positions of an agent from its raster."""

import os

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.errors import InvalidArgumentError
from l5kit.planning.motion_embedding import DIM_IMAGE, MotionHead
from l5kit.planning.rasterized.backbones import build_backbone
from l5kit.planning.rasterized.model import as_float


class RasterizedMotionModel(nn.Module):
    """Network that predicts one or several trajectories of an agent from its raster, positions only.

    In train mode ``forward`` returns the loss, in eval mode the trajectories. With one mode the loss is that of the
    competition baseline, the mean squared error of positions, with 0 for unavailable steps. With several modes it is
    the negative log-likelihood used by the competition score, averaged over the batch. Another criterion replaces the
    squared error in both: :class:`torch.nn.L1Loss` makes the likelihood that of a mixture of Laplace distributions with
    a scale of 1, up to a constant.

    Args:
        model_arch: ``resnet18``, ``resnet34``, ``resnet50``, ``simple_cnn`` or ``small_resnet``.
        num_input_channels: Channels of the raster.
        future_num_frames: Steps T to predict.
        num_modes: Number of trajectories M.
        pretrained: Start a ResNet from ImageNet weights.
        weights_file: File with these weights, instead of the one in the torch hub cache.
        motion_step_time_s: Seconds between past steps, to feed speed, acceleration and turn rate of the agent to the
            network; for new trainings. None for a network without them, like L5Kit 1.5.
        criterion: Element-wise loss; None for the squared error, half of it with several modes.

    Raises:
        UnsupportedValueError: There is no such ``model_arch``.
        InvalidArgumentError: A count is below 1.
        FileNotFoundError: ``pretrained`` is set, but there is no file with ImageNet weights.
    """

    def __init__(
        self,
        model_arch: str,
        num_input_channels: int,
        future_num_frames: int,
        *,
        num_modes: int = 1,
        pretrained: bool = True,
        weights_file: str | os.PathLike[str] | None = None,
        motion_step_time_s: float | None = None,
        criterion: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if future_num_frames < 1 or num_modes < 1:
            raise InvalidArgumentError(
                f"future_num_frames is {future_num_frames} and num_modes {num_modes}; give at least one of each"
            )
        self.criterion = criterion if criterion is not None else nn.MSELoss(reduction="none")
        self.error_weight = 0.5 if criterion is None and num_modes > 1 else 1.0
        self.future_num_frames = future_num_frames
        self.num_modes = num_modes
        num_outputs = 2 * future_num_frames * num_modes + (num_modes if num_modes > 1 else 0)
        num_features = num_outputs if motion_step_time_s is None else DIM_IMAGE
        self.model = build_backbone(
            model_arch, num_input_channels, num_features, pretrained=pretrained, weights_file=weights_file
        )
        self.motion_head: MotionHead | None = None
        if motion_step_time_s is not None:
            self.motion_head = MotionHead(num_outputs, motion_step_time_s)

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the loss in train mode, the trajectories in eval mode.

        Args:
            data_batch: ``image``, shape (B, C, H, W), float32 from 0 to 1 or uint8. With ``motion_step_time_s`` also
                the inputs of :meth:`MotionHead.forward`. In train mode also ``target_positions`` (B, T, 2) in metres
                and ``target_availabilities`` (B, T).

        Returns:
            In train mode ``loss``, a scalar. In eval mode ``positions`` (B, T, 2) of the likeliest mode,
            ``positions_all`` (B, M, T, 2) and ``mode_logits`` (B, M), whose softmax is the probability of each mode.
            Metres in the agent frame.
        """
        outputs = self.model(as_float(data_batch["image"]))
        if self.motion_head is not None:
            outputs = self.motion_head(outputs, data_batch)
        num_values = 2 * self.future_num_frames * self.num_modes
        positions_m = outputs[:, :num_values].reshape(-1, self.num_modes, self.future_num_frames, 2)
        logits = outputs[:, num_values:] if self.num_modes > 1 else torch.zeros_like(outputs[:, :1])
        if not self.training:
            likeliest = logits.argmax(dim=-1)
            rows = torch.arange(likeliest.shape[0], device=likeliest.device)
            return {"positions": positions_m[rows, likeliest], "positions_all": positions_m, "mode_logits": logits}
        available = (data_batch["target_availabilities"] > 0).to(positions_m.dtype)
        targets_m = data_batch["target_positions"].unsqueeze(1).expand_as(positions_m)
        known = available[:, None, :, None]
        errors: torch.Tensor = self.error_weight * self.criterion(positions_m, targets_m) * known
        if self.num_modes == 1:
            return {"loss": errors.mean()}
        # errors are negative log-likelihoods of each value (half the squared error for that of the competition): this
        # is the mean of l5kit.evaluation.metrics.neg_multi_log_likelihood, computed from logits
        log_likelihoods = F.log_softmax(logits, dim=-1) - errors.sum(dim=(-2, -1))
        return {"loss": -torch.logsumexp(log_likelihoods, dim=-1).mean()}
