"""Raster planning model."""

import os

import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.planning.losses import mean_over_steps, missing_criterion
from l5kit.planning.motion_embedding import DIM_IMAGE, MotionHead
from l5kit.planning.rasterized.backbones import build_backbone
from l5kit.rasterization.rasterizer import one_picture

_VALUES_PER_STEP = 3
"""x, y and yaw."""


class RasterizedPlanningModel(nn.Module):
    """Raster model that predicts one trajectory of the agent of interest.

    In train mode ``forward`` returns the loss, in eval mode the trajectory.

    Args:
        model_arch: ``resnet18``, ``resnet34``, ``resnet50``, ``simple_cnn`` or ``small_resnet``.
        num_input_channels: Channels of the raster.
        num_targets: Values to predict, 3 (x, y, yaw) for each future step.
        weights_scaling: Weights of the errors of x, y and yaw in the loss.
        criterion: Element-wise loss, such as ``torch.nn.MSELoss(reduction="none")``; None for a model that only
            predicts.
        pretrained: Start a ResNet from ImageNet weights; see :func:`build_backbone`.
        weights_file: File with these weights, instead of that in the cache folder of torch hub.
        average_available_only: Average the loss over available steps, instead of over all as L5Kit 1.5 does.
        motion_step_time_s: Duration of past steps, to also use speed, acceleration and turn rate of the agent as
            inputs, for new trainings; None to disable it, as in L5Kit 1.5.

    Raises:
        UnsupportedValueError: There is no such ``model_arch``.
        InvalidArgumentError: ``num_targets`` or ``weights_scaling`` do not fit three values a step.
        FileNotFoundError: ``pretrained``, and there is no file with ImageNet weights.
    """

    weights_scaling: torch.Tensor

    _targets_per_step = _VALUES_PER_STEP

    def __init__(
        self,
        model_arch: str,
        num_input_channels: int,
        num_targets: int,
        weights_scaling: list[float],
        criterion: nn.Module | None,
        pretrained: bool = True,
        *,
        weights_file: str | os.PathLike[str] | None = None,
        average_available_only: bool = False,
        motion_step_time_s: float | None = None,
    ) -> None:
        super().__init__()
        if num_targets < self._targets_per_step or num_targets % self._targets_per_step:
            raise InvalidArgumentError(
                f"num_targets is {num_targets}; give three times the future steps, because a step has x, y and yaw"
            )
        if len(weights_scaling) != _VALUES_PER_STEP:
            raise InvalidArgumentError(f"weights_scaling is {weights_scaling}; give three weights, for x, y and yaw")
        self.model_arch = model_arch
        self.num_input_channels = num_input_channels
        self.num_targets = num_targets
        self.register_buffer("weights_scaling", torch.tensor(weights_scaling, dtype=torch.float32))
        self.pretrained = pretrained
        self.criterion = criterion
        self.average_available_only = average_available_only
        num_features = num_targets if motion_step_time_s is None else DIM_IMAGE
        self.model = build_backbone(
            model_arch, num_input_channels, num_features, pretrained=pretrained, weights_file=weights_file
        )
        self.motion_head: MotionHead | None = None
        if motion_step_time_s is not None:
            self.motion_head = MotionHead(num_targets, motion_step_time_s)

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the loss in train mode, the trajectory in eval mode.

        Args:
            data_batch: ``image``, shape (B, C, H, W), float32 from 0 to 1 or uint8. For a network with motion inputs
                also the keys of :meth:`MotionHead.forward`. In train mode also ``target_positions`` (B, T, 2) in metres
                and ``target_yaws`` (B, T, 1) in radians, both in the agent frame, and ``target_availabilities`` (B, T).

        Returns:
            In train mode ``loss``, a scalar. In eval mode ``positions`` (B, T, 2) and ``yaws`` (B, T, 1), in the agent
            frame.

        Raises:
            NotImplementedError: In train mode without a criterion.
        """
        outputs = self._values(data_batch).view(data_batch["image"].shape[0], -1, 3)
        if not self.training:
            return {"positions": outputs[..., :2], "yaws": outputs[..., 2:3]}
        if self.criterion is None:
            raise NotImplementedError(missing_criterion("RasterizedPlanningModel"))
        targets = torch.cat((data_batch["target_positions"], data_batch["target_yaws"]), dim=-1)
        available = data_batch["target_availabilities"]
        errors = self.criterion(outputs, targets) * (available.unsqueeze(-1) * self.weights_scaling)
        return {"loss": mean_over_steps(errors, available, self.average_available_only)}

    def _values(self, data_batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the outputs of the network for a batch, (B, num_targets)."""
        values: torch.Tensor = self.model(as_float(data_batch["image"]))
        return values if self.motion_head is None else self.motion_head(values, data_batch)


def as_float(image: torch.Tensor) -> torch.Tensor:
    """Return rasters as floats from 0 to 1, including those made with ``raster_params.image_dtype: uint8``.

    Raises:
        InvalidArgumentError: There are several rasters.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        one_picture(image)
    if image.dtype == torch.uint8:
        return image.float() / 255.0
    return image
