"""Network recipes of the workflows: checked parameters of one kind of network, and its construction."""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self, TypedDict

import torch
from torch import nn

from l5kit._types import Config, JsonObject
from l5kit._warning import warn_caller
from l5kit.configs.class_path import describe_error
from l5kit.configs.networks import BackboneParams, SafePathNetParams, UnrollParams, VectorModelParams
from l5kit.configs.parameters import VectorizerParams
from l5kit.configs.reading import Params
from l5kit.configs.training import TrainingParams
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.ego import EgoDataset
from l5kit.errors import ConfigError
from l5kit.planning.rasterized.model import RasterizedPlanningModel
from l5kit.planning.vectorized.closed_loop_model import VectorizedUnrollModel
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from l5kit.prediction.rasterized.motion_model import RasterizedMotionModel
from l5kit.prediction.vectorized.safepathnet_model import SafePathNetModel
from l5kit.rasterization.rasterizer import WindowRasterizer


@dataclass(frozen=True)
class NetworkRecipe(ABC):
    """Base of the recipes.

    Attributes:
        params: Parameters of the training.
    """

    params: TrainingParams

    @classmethod
    @abstractmethod
    def from_cfg(cls, cfg: Config, params: TrainingParams) -> Self:
        """Read and check the parameters of the network, in addition to those of the training.

        Raises:
            ConfigError: A key is missing or of the wrong type.
        """

    @abstractmethod
    def build(self, samples: BaseEgoDataset | None) -> nn.Module:
        """Return the network for some samples, with weights drawn from torch's global generator.

        Args:
            samples: Samples of the training or prediction; None if there are none, which vector networks allow.

        Raises:
            FileNotFoundError: Requested ImageNet weights are missing.
        """

    def from_scratch(self) -> Self:
        """Return a recipe without pretrained weights, as all weights will be loaded."""
        return self

    @property
    def sees_past(self) -> bool:
        """Whether the network sees the past of the AV, not only its speed."""
        return True

    def _criterion(self, usual: str) -> nn.Module:
        """Return the element-wise error of the loss, that of L5Kit 1.5 unless it is configured.

        A class named by ``model_params.criterion`` may have a parameter ``reduction``, which is set to ``"none"``; its
        code is run.

        Raises:
            ConfigError: The class cannot be imported or created, is not a module, or does not return element-wise
                errors.
        """
        criteria: dict[str, type[nn.Module]] = {"l1": nn.L1Loss, "mse": nn.MSELoss, "smooth_l1": nn.SmoothL1Loss}
        if not isinstance(self.params.criterion, dict):
            return criteria[self.params.criterion or usual](reduction="none")
        named = self.params.own_criterion
        if named is None:
            raise ConfigError("model_params.criterion: it does not name a class")
        criterion = named.make(nn.Module, {"reduction": "none"})

        # try it once: a criterion that takes the mean itself would count unavailable steps
        values = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)
        try:
            with torch.no_grad():
                errors = criterion(values, values.flip(0))
        except (Exception, SystemExit) as error:  # report the key, whatever a user class raises
            raise ConfigError(
                f"{named.key}: {named.class_path} fails for two tensors (2, 3): {describe_error(error)}"
            ) from error
        if not isinstance(errors, torch.Tensor) or errors.shape != values.shape:
            got = tuple(errors.shape) if isinstance(errors, torch.Tensor) else type(errors).__name__
            raise ConfigError(
                f"{named.key}: {named.class_path} gives {got} for two tensors (2, 3); it must give the error of each "
                "value, as with reduction='none'"
            )
        return criterion


@dataclass(frozen=True)
class RasterRecipe(NetworkRecipe):
    """Base of the raster networks.

    Attributes:
        params: Parameters of the training.
        backbone: The network.
    """

    backbone: BackboneParams

    @classmethod
    def from_cfg(cls, cfg: Config, params: TrainingParams) -> Self:
        """Read ``model_params``."""
        return cls(params, BackboneParams.from_cfg(cfg))

    def from_scratch(self) -> Self:
        """Return a recipe without ImageNet weights."""
        return dataclasses.replace(self, backbone=dataclasses.replace(self.backbone, pretrained=False))

    def build(self, samples: BaseEgoDataset | None) -> nn.Module:
        """Return the network, with ImageNet weights if they are requested, or available and not refused."""
        if not isinstance(samples, EgoDataset) or samples.rasterizer is None:
            raise TypeError(f"{samples!r} makes no rasters")
        made = samples.rasterizer
        return self.build_for(made.images_shape(1)[1] if isinstance(made, WindowRasterizer) else made.num_channels())

    def build_for(self, num_channels: int) -> nn.Module:
        """Return the network for rasters of a number of channels; see :meth:`build`."""
        if self.backbone.pretrained is not None or self.backbone.model_architecture in ("simple_cnn", "small_resnet"):
            return self._build(num_channels, pretrained=bool(self.backbone.pretrained))
        try:
            return self._build(num_channels, pretrained=True)
        except FileNotFoundError as error:
            warn_caller(
                f"the training starts from random weights: {error}. Set model_params.pretrained to choose explicitly",
                UserWarning,
            )
            return self._build(num_channels, pretrained=False)

    @property
    def motion_step_time_s(self) -> float | None:
        """Duration of a past step in seconds, for networks that are given the motion of the agent."""
        return self.params.past_step_time_s if self.backbone.motion_features else None

    @abstractmethod
    def _build(self, num_channels: int, *, pretrained: bool) -> nn.Module:
        """Return the network for rasters of a number of channels."""


@dataclass(frozen=True)
class RasterPlannerRecipe(RasterRecipe):
    """A planner on rasters."""

    def _build(self, num_channels: int, *, pretrained: bool) -> nn.Module:
        return RasterizedPlanningModel(
            self.backbone.model_architecture,
            num_channels,
            3 * self.params.future_num_frames,
            list(self.backbone.weights_scaling),
            self._criterion("mse"),
            pretrained,
            weights_file=self.backbone.weights_file,
            motion_step_time_s=self.motion_step_time_s,
            average_available_only=self.backbone.average_available_only,
        )


@dataclass(frozen=True)
class MotionRecipe(RasterRecipe):
    """A prediction of agents on rasters, of one or several trajectories."""

    def _build(self, num_channels: int, *, pretrained: bool) -> nn.Module:
        criterion = self.params.criterion
        return RasterizedMotionModel(
            self.backbone.model_architecture,
            num_channels,
            self.params.future_num_frames,
            num_modes=self.backbone.num_modes if self.params.workflow == "agent_motion_multimodal" else 1,
            pretrained=pretrained,
            weights_file=self.backbone.weights_file,
            motion_step_time_s=self.motion_step_time_s,
            criterion=None if criterion is None else self._criterion("l1"),
        )


class _Hidden(TypedDict):
    """Inputs that a vector network leaves out."""

    disable_other_agents: bool
    disable_map: bool
    disable_lane_boundaries: bool


class _VectorArguments(_Hidden):
    """Common arguments of the vector networks of L5Kit 1.5."""

    history_num_frames_ego: int
    history_num_frames_agents: int
    weights_scaling: list[float]
    criterion: nn.Module
    use_agent_labels: bool
    agents_in_own_frame: bool
    motion_step_time_s: float | None
    use_route: bool


@dataclass(frozen=True)
class VectorRecipe(NetworkRecipe):
    """Base of the vector networks; a subclass with further parameters sets ``own_params`` and has them as ``network``.

    Attributes:
        params: Parameters of the training.
        sizes: Sizes of a sample.
        model: Parameters shared with other vector networks.
    """

    own_params: ClassVar[type[Params] | None] = None
    """Class of the further parameters."""

    sizes: VectorizerParams
    model: VectorModelParams

    @classmethod
    def from_cfg(cls, cfg: Config, params: TrainingParams) -> Self:
        """Read ``model_params`` and ``data_generation_params``.

        Raises:
            ConfigError: A key is missing or of the wrong type, or two of them exclude each other.
        """
        own: tuple[Params, ...] = () if cls.own_params is None else (cls.own_params.from_cfg(cfg),)
        return cls(params, VectorizerParams.from_cfg(cfg), VectorModelParams.from_cfg(cfg), *own)

    def _hidden(self) -> _Hidden:
        return {
            "disable_other_agents": self.model.disable_other_agents,
            "disable_map": self.model.disable_map,
            "disable_lane_boundaries": self.model.disable_lane_boundaries,
        }

    def _arguments(self) -> _VectorArguments:
        return {
            "history_num_frames_ego": self.sizes.history_num_frames_ego,
            "history_num_frames_agents": self.sizes.history_num_frames_agents,
            "weights_scaling": list(self.model.weights_scaling),
            "criterion": self._criterion("l1"),
            **self._hidden(),
            "use_agent_labels": self.model.use_agent_labels,
            "agents_in_own_frame": self.model.agents_in_own_frame,
            "motion_step_time_s": self.params.past_step_time_s if self.model.motion_features else None,
            "use_route": self.sizes.has_route,
        }


@dataclass(frozen=True)
class VectorPlannerRecipe(VectorRecipe):
    """A vector planner that is trained in open loop."""

    def build(self, samples: BaseEgoDataset | None) -> nn.Module:  # noqa: ARG002
        """Return the network."""
        return VectorizedModel(
            **self._arguments(),
            num_targets=3 * self.params.future_num_frames,
            global_head_dropout=self.model.global_head_dropout,
            average_available_only=self.model.average_available_only,
            dim_features=self.model.dim_features,
            normalize_targets=self.params.residual_to is None,  # the residual has its own units
        )


@dataclass(frozen=True)
class UrbanDriverRecipe(VectorRecipe):
    """Urban Driver, which is unrolled in training, and drives without the futures of other agents in evaluations.

    Attributes:
        params: Parameters of the training.
        sizes: Sizes of a sample.
        model: Parameters shared with other vector networks.
        network: Parameters of the unrolling.
    """

    own_params = UnrollParams
    network: UnrollParams

    def build(self, samples: BaseEgoDataset | None) -> nn.Module:  # noqa: ARG002
        """Return the network."""
        return VectorizedUnrollModel(
            **self._arguments(),
            num_targets=3,
            global_head_dropout=self.model.global_head_dropout,
            detach_unroll=self.network.detach_unroll,
            warmup_num_frames=self.network.warmup_num_frames,
            discount_factor=self.network.discount_factor,
            average_available_only=self.model.average_available_only,
            dim_features=self.model.dim_features,
            velocity_residual=self.params.residual_to == "constant_velocity",
            motion_residual=None if self.params.residual_to == "constant_velocity" else self.params.residual_to,
            past_step_time_s=self.params.past_step_time_s,
            step_time_s=self.params.step_time_s,
            num_unroll_steps=self.params.future_num_frames,
        )


@dataclass(frozen=True)
class SafePathNetRecipe(VectorRecipe):
    """SafePathNet, which predicts several trajectories of all agents together.

    Attributes:
        params: Parameters of the training.
        sizes: Sizes of a sample.
        model: Parameters shared with other vector networks.
        network: Its further parameters.
    """

    own_params = SafePathNetParams
    network: SafePathNetParams

    def build(self, samples: BaseEgoDataset | None) -> nn.Module:  # noqa: ARG002
        """Return the network."""
        options: JsonObject = dict(self.network.options)
        return SafePathNetModel(
            **self._arguments(),
            num_timesteps=self.params.future_num_frames,
            agent_num_trajectories=self.network.agent_num_trajectories,
            max_num_agents=self.sizes.other_agents_num,
            cost_prob_coeff=self.network.cost_prob_coeff,
            **options,
        )
