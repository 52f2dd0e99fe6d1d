"""Recipes of the vector networks that are new in l5kit: motion tokens, the query-centric model, route planners."""

import dataclasses
from dataclasses import dataclass, field
from typing import Final, Self

from torch import nn

from l5kit.configs.networks import MotionTokenParams, QueryCentricParams, RoutePlannerParams
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.sample_batch import collate
from l5kit.errors import ConfigError
from l5kit.planning.vectorized.route_features import RouteInputs
from l5kit.planning.vectorized.route_model import NUM_POOLING_HEADS, RoutePlannerModel
from l5kit.prediction.vectorized.motion_tokens_fitting import fit_vocabulary
from l5kit.prediction.vectorized.motion_tokens_matching import TokenTimes
from l5kit.prediction.vectorized.motion_tokens_model import MotionTokenModel
from l5kit.prediction.vectorized.query_centric_model import QueryCentricModel
from l5kit.workflows.networks import VectorRecipe
from l5kit.workflows.samples import spread_indices

_MOST_SAMPLES: Final = 4000
_BATCH_SIZE: Final = 100
_SAME: Final = 1e-6

_LINEAR_FROM = 0.1
"""Error above which the default loss is linear, in metres and radians."""


@dataclass(frozen=True)
class MotionTokenRecipe(VectorRecipe):
    """A motion token model.

    Attributes:
        params: The whole training.
        sizes: Sizes of a sample.
        model: Parameters shared with other vector networks.
        network: Its further parameters.
        is_fitted_later: Whether tokens come with the weights, so that none are fitted.
        times: Duration and number of tokens.

    Raises:
        ConfigError: Tokens do not fit the steps, or there is a criterion.
    """

    own_params = MotionTokenParams
    network: MotionTokenParams
    is_fitted_later: bool = False
    times: TokenTimes = field(init=False)

    def __post_init__(self) -> None:
        if self.params.criterion is not None:
            raise ConfigError(
                "model_params.criterion: motion_tokens learns tokens by their cross entropy; leave it out"
            )
        # duration of tokens, in past and future steps
        params, num_steps, key = self.params, self.network.token_num_steps, "model_params.token_num_steps"
        if params.future_num_frames % num_steps:
            raise ConfigError(
                f"{key}: tokens of {num_steps} steps do not fill the {params.future_num_frames} steps of "
                "future_num_frames; give a divisor of these"
            )
        # tokens have the same duration in past and future, though steps may differ
        token_s = num_steps * params.step_time_s
        num_past_steps = round(token_s / params.past_step_time_s)
        if abs(num_past_steps * params.past_step_time_s - token_s) > _SAME or num_past_steps == 0:
            raise ConfigError(
                f"{key}: tokens of {token_s:g} s are no multiple of the {params.past_step_time_s:g} s between two past "
                "frames"
            )
        num_history = self.sizes.history_num_frames_agents
        num_past_tokens = num_history // num_past_steps
        if num_past_tokens == 0:
            raise ConfigError(
                f"{key}: tokens of {num_past_steps} past frames are longer than the {num_history} of "
                "history_num_frames_agents"
            )
        times = TokenTimes(num_steps, num_past_steps, num_past_tokens, params.future_num_frames // num_steps)
        object.__setattr__(self, "times", times)

    def from_scratch(self) -> Self:
        """Return a recipe whose tokens come with the weights."""
        return dataclasses.replace(self, is_fitted_later=True)

    def build(self, samples: BaseEgoDataset | None) -> nn.Module:
        """Return the network; without samples, its tokens must be set later."""
        network = self.network
        built = MotionTokenModel(
            self.times,
            num_tokens=network.num_tokens,
            base=self.params.residual_to or "none",
            dim=network.dim_tokens,
            num_layers=network.num_token_layers,
            num_heads=network.num_token_heads,
            num_pieces=network.num_map_pieces,
            agents_radius_m=network.agents_radius_m,
            dropout=network.token_dropout,
            token_noise_m=network.token_noise_m,
            num_rollouts=network.num_rollouts,
            temperature=network.temperature,
            seed=network.sampling_seed,
            **self._hidden(),
        )
        if samples is not None and not self.is_fitted_later:
            # fit the tokens to batches of samples spread evenly over the log
            rows = spread_indices(len(samples), _MOST_SAMPLES).tolist()
            parts = (rows[first : first + _BATCH_SIZE] for first in range(0, len(rows), _BATCH_SIZE))
            batches = (collate(samples.__getitems__(part)) for part in parts)
            fit_vocabulary(built.tokeniser, batches, self.times, seed=self.params.run.seed)
        return built


@dataclass(frozen=True)
class QueryCentricRecipe(VectorRecipe):
    """A query-centric model.

    Attributes:
        params: The whole training.
        sizes: Sizes of a sample.
        model: Parameters shared with other vector networks.
        network: Its further parameters.

    Raises:
        ConfigError: Heads do not divide the features, or there is a criterion that the loss does not use.
    """

    own_params = QueryCentricParams
    network: QueryCentricParams

    def __post_init__(self) -> None:
        network = self.network
        if network.dim_queries % network.num_query_heads:
            raise ConfigError(
                f"model_params.dim_queries: expected a multiple of the {network.num_query_heads} heads of "
                f"num_query_heads, got {network.dim_queries}"
            )
        if network.mode_loss == "mixture" and self.params.criterion is not None:
            raise ConfigError(
                "model_params.criterion: the loss of a mixture is its likelihood; leave it out, or set mode_loss to "
                "'winner'"
            )

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
            **self._hidden(),
        )


@dataclass(frozen=True)
class RoutePlannerRecipe(VectorRecipe):
    """A route planner.

    Attributes:
        params: The whole training.
        sizes: Sizes of a sample.
        model: Parameters shared with other vector networks.
        network: Its further parameters.

    Raises:
        ConfigError: The heads of attention do not divide the features of elements.
    """

    own_params = RoutePlannerParams
    network: RoutePlannerParams

    def __post_init__(self) -> None:
        dim_features = self.model.dim_features
        if dim_features % (2 * NUM_POOLING_HEADS):
            raise ConfigError(
                f"model_params.dim_features: expected a multiple of {2 * NUM_POOLING_HEADS}, got {dim_features}"
            )

    @property
    def sees_past(self) -> bool:
        """Whether the network sees the past of the AV, not only its speed."""
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
