"""Recipe of the route planner: its parameters, and how it is built of them."""

from dataclasses import dataclass
from typing import Self

from torch import nn

from l5kit._types import Config
from l5kit.configs.networks import RoutePlannerParams, VectorModelParams
from l5kit.configs.parameters import VectorizerParams
from l5kit.configs.training import TrainingParams
from l5kit.dataset.base import BaseEgoDataset
from l5kit.errors import ConfigError
from l5kit.planning.vectorized.route_features import RouteInputs
from l5kit.planning.vectorized.route_model import NUM_POOLING_HEADS, RoutePlannerModel
from l5kit.workflows.networks import VectorRecipe

_LINEAR_FROM = 0.1
"""Error from which the usual loss is linear, in metres and radians."""


@dataclass(frozen=True)
class RoutePlannerRecipe(VectorRecipe):
    """A route planner.

    Attributes:
        params: The whole training.
        sizes: Sizes of a sample.
        model: What it has in common with other networks on vectors.
        network: What it has of its own.
    """

    network: RoutePlannerParams

    @classmethod
    def from_cfg(cls, cfg: Config, params: TrainingParams) -> Self:
        """Read ``model_params`` and ``data_generation_params``.

        Raises:
            ConfigError: The features of elements cannot be shared by the heads of attention.
        """
        sizes, model = VectorizerParams.from_cfg(cfg), VectorModelParams.from_cfg(cfg)
        network = RoutePlannerParams.from_cfg(cfg)
        if model.dim_features % (2 * NUM_POOLING_HEADS):
            raise ConfigError(
                f"model_params.dim_features: expected a multiple of {2 * NUM_POOLING_HEADS}, got {model.dim_features}"
            )
        return cls(params, sizes, model, network)

    @property
    def sees_past(self) -> bool:
        """Whether the network is given the past of the AV, more than its speed."""
        return self.params.past_dropout_or_usual < 1.0

    def build(self, samples: BaseEgoDataset | None) -> nn.Module:  # noqa: ARG002
        """Return the network."""
        network, model, params = self.network, self.model, self.params
        inputs = RouteInputs(
            past_step_time_s=params.past_step_time_s,
            num_past=self.sizes.history_num_frames if self.sees_past else 0,
            num_lane_points=self.sizes.lanes.max_points_per_lane,
            num_route_points=self.sizes.route.num_points,
            with_route=network.route,
            agents_along_route=network.agents_along_route,
        )
        usual = nn.SmoothL1Loss(reduction="none", beta=_LINEAR_FROM)
        return RoutePlannerModel(
            inputs,
            num_steps=params.future_num_frames,
            step_time_s=params.step_time_s,
            num_modes=network.num_modes,
            decoder=network.decoder,
            pooling=network.pooling,
            dim_features=model.dim_features,
            weights_scaling=model.weights_scaling,
            modes_weight=network.modes_weight,
            loss_decay_s=network.loss_decay_s,
            criterion=usual if params.criterion is None else self._criterion("smooth_l1"),
            disable_other_agents=model.disable_other_agents,
            disable_map=model.disable_map,
        )
