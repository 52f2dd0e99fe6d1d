"""Recipe of the query-centric model: its parameters, and how it is built of them."""

from dataclasses import dataclass
from typing import Self

from torch import nn

from l5kit._types import Config
from l5kit.configs.networks import QueryCentricParams, VectorModelParams
from l5kit.configs.parameters import VectorizerParams
from l5kit.configs.training import TrainingParams
from l5kit.dataset.base import BaseEgoDataset
from l5kit.errors import ConfigError
from l5kit.prediction.vectorized.query_centric_model import QueryCentricModel
from l5kit.workflows.networks import VectorRecipe


@dataclass(frozen=True)
class QueryCentricRecipe(VectorRecipe):
    """A query-centric model.

    Attributes:
        params: The whole training.
        sizes: Sizes of a sample.
        model: What it has in common with other networks on vectors.
        network: What it has of its own.
    """

    network: QueryCentricParams

    @classmethod
    def from_cfg(cls, cfg: Config, params: TrainingParams) -> Self:
        """Read ``model_params`` and ``data_generation_params``.

        Raises:
            ConfigError: Heads do not divide the features, or there is a criterion that the loss has no use for.
        """
        sizes, model = VectorizerParams.from_cfg(cfg), VectorModelParams.from_cfg(cfg)
        network = QueryCentricParams.from_cfg(cfg)
        if network.dim_queries % network.num_query_heads:
            raise ConfigError(
                f"model_params.dim_queries: expected a multiple of the {network.num_query_heads} heads of "
                f"num_query_heads, got {network.dim_queries}"
            )
        if network.mode_loss == "mixture" and params.criterion is not None:
            raise ConfigError(
                "model_params.criterion: the loss of a mixture is its likelihood; leave it out, or set mode_loss to "
                "'winner'"
            )
        return cls(params, sizes, model, network)

    def build(self, samples: BaseEgoDataset | None) -> nn.Module:  # noqa: ARG002
        """Return the network."""
        network, model, params = self.network, self.model, self.params
        return QueryCentricModel(
            params.future_num_frames,
            max(self.sizes.history_num_frames_ego, self.sizes.history_num_frames_agents),
            num_modes=network.num_modes,
            joint=network.joint_modes,
            mode_loss=network.mode_loss,
            modes_weight=network.modes_weight,
            criterion=self._criterion("smooth_l1"),
            dim=network.dim_queries,
            num_heads=network.num_query_heads,
            num_layers=network.num_query_layers,
            dropout=network.query_dropout,
            residual_to=params.residual_to,
            residual_unit_m=params.residual_unit_m,
            motion_features=model.motion_features,
            step_time_s=params.step_time_s,
            past_step_time_s=params.past_step_time_s,
            disable_other_agents=model.disable_other_agents,
            disable_map=model.disable_map,
            disable_lane_boundaries=model.disable_lane_boundaries,
        )
