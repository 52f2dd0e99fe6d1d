"""Raster planning model with several trajectories."""

import os

import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.planning.losses import losses_of_winners, missing_criterion, mode_costs, mode_outputs
from l5kit.planning.rasterized.model import RasterizedPlanningModel


class RasterizedMultiModalPlanningModel(RasterizedPlanningModel):
    """Raster model that predicts several trajectories of the agent of interest, with probabilities.

    The loss trains the trajectory nearest to the target, and a classifier that should pick it.

    Args:
        model_arch: ``resnet18``, ``resnet34``, ``resnet50``, ``simple_cnn`` or ``small_resnet``.
        num_input_channels: Channels of the raster.
        future_num_frames: Steps T to predict.
        num_outputs: Values per step: 3, for x, y and yaw.
        num_modes: Trajectories M.
        weights_scaling: Weights of the errors of x, y and yaw in the loss.
        criterion: Element-wise loss, such as ``torch.nn.MSELoss(reduction="none")``; None for a model that only
            predicts.
        pretrained: Start a ResNet from ImageNet weights; see :func:`build_backbone`.
        coef_alpha: Weight of the classifier's cross entropy in the loss.
        weights_file: File with ImageNet weights, instead of that in the cache folder of torch hub.
        average_available_only: Average errors over available steps, instead of over all as L5Kit 1.5 does.
        motion_step_time_s: Duration of past steps, to also use speed, acceleration and turn rate of the agent as
            inputs, for new trainings; None to disable it, as in L5Kit 1.5.

    Raises:
        UnsupportedValueError: There is no such ``model_arch``.
        InvalidArgumentError: A count is below 1, or ``num_outputs`` or ``weights_scaling`` do not fit three values a
            step.
        FileNotFoundError: ``pretrained``, and there is no file with ImageNet weights.
    """

    _targets_per_step = 1  # disables the check of the base class, as the constructor checks its own arguments

    def __init__(
        self,
        model_arch: str,
        num_input_channels: int,
        future_num_frames: int,
        num_outputs: int,
        num_modes: int,
        weights_scaling: list[float],
        criterion: nn.Module | None,
        pretrained: bool = True,
        coef_alpha: float = 0.5,
        *,
        weights_file: str | os.PathLike[str] | None = None,
        average_available_only: bool = False,
        motion_step_time_s: float | None = None,
    ) -> None:
        if future_num_frames < 1 or num_modes < 1 or num_outputs != 3:
            raise InvalidArgumentError(
                f"future_num_frames is {future_num_frames}, num_modes {num_modes} and num_outputs {num_outputs}; give"
                " at least one step and one mode, and 3 outputs (x, y and yaw)"
            )
        super().__init__(
            model_arch,
            num_input_channels,
            (future_num_frames * num_outputs + 1) * num_modes,
            weights_scaling,
            criterion,
            pretrained,
            weights_file=weights_file,
            average_available_only=average_available_only,
            motion_step_time_s=motion_step_time_s,
        )
        self.num_modes = num_modes
        self.num_timestamps = future_num_frames
        self.num_outputs = num_outputs
        self.coef_alpha = coef_alpha

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the loss in train mode, the trajectories in eval mode.

        Args:
            data_batch: As for :meth:`RasterizedPlanningModel.forward`.

        Returns:
            In train mode ``loss``, a scalar. In eval mode ``positions`` (B, T, 2) and ``yaws`` (B, T, 1) of the
            likeliest mode, ``positions_all`` (B, M, T, 2), ``yaws_all`` (B, M, T, 1) and ``mode_logits`` (B, M), whose
            softmax is the probability of each mode. Everything is in the agent frame.

        Raises:
            NotImplementedError: In train mode without a criterion.
        """
        outputs = self._values(data_batch)
        logits = outputs[:, -self.num_modes :]
        shape = (-1, self.num_modes, self.num_timestamps, self.num_outputs)
        trajectories = outputs[:, : -self.num_modes].reshape(shape)
        if not self.training:
            return mode_outputs(trajectories, logits)
        if self.criterion is None:
            raise NotImplementedError(missing_criterion("RasterizedMultiModalPlanningModel"))
        targets = torch.cat((data_batch["target_positions"], data_batch["target_yaws"]), dim=-1)
        available = (data_batch["target_availabilities"] > 0.5).to(targets.dtype)
        weights = (available.unsqueeze(-1) * self.weights_scaling).unsqueeze(1)  # (B, 1, T, O)
        errors: torch.Tensor = self.criterion(trajectories, targets.unsqueeze(1).expand_as(trajectories)) * weights
        losses = losses_of_winners(mode_costs(errors, available, self.average_available_only), logits)
        return {"loss": losses.trajectories + self.coef_alpha * losses.modes}
