"""User models: their construction, predictions, and a trial before a training."""

import copy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

import torch
from torch import nn

from l5kit._types import Config, JsonObject
from l5kit.configs.parameters import SamplingParams, VectorizerParams
from l5kit.configs.training import TrainingParams
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.joined import JoinedDataset
from l5kit.dataset.sample_batch import collate
from l5kit.errors import ConfigError
from l5kit.planning.network_inputs import network_inputs
from l5kit.planning.own_network import OwnNetwork, own_network_in
from l5kit.rasterization.rasterizer_builder import count_channels
from l5kit.workflows.networks import NetworkRecipe

_PLANS: Final = {"positions": "BT2", "yaws": "BT1"}
_OUTPUTS: Final = MappingProxyType(
    {
        "raster_planner": _PLANS,
        "simnet": _PLANS,
        "vector_planner": _PLANS,
        "agent_motion": {"positions": "BT2"},
        "agent_motion_multimodal": {"positions": "BT2", "positions_all": "BMT2", "mode_logits": "BM"},
        "safepathnet": {
            "agent_positions": "BAT2",
            "agent_yaws": "BAT1",
            "all_agent_positions": "BAMT2",
            "agent_traj_logits": "BAM",
        },
    }
)
"""Predictions of models by workflow, with the axes of each key."""

_OPTIONAL: Final = ("all_agent_positions", "agent_traj_logits")
_OF_VECTORS: Final = ("vector_planner", "safepathnet")


@dataclass(frozen=True)
class OwnModelRecipe(NetworkRecipe):
    """A user model.

    Attributes:
        params: The whole training.
        offered: Arguments that its parameters may request, by name.
    """

    offered: JsonObject = field(default_factory=dict)

    @classmethod
    def from_cfg(cls, cfg: Config, params: TrainingParams) -> Self:
        """Read the arguments offered to the model; only a user rasterizer is imported, for its number of channels."""
        offered: JsonObject = {
            "workflow": params.workflow,
            "future_num_frames": params.future_num_frames,
            "step_time_s": params.step_time_s,
            "past_step_time_s": params.past_step_time_s,
        }
        if params.workflow in _OF_VECTORS:
            sizes = VectorizerParams.from_cfg(cfg)
            for name in ("history_num_frames_ego", "history_num_frames_agents", "other_agents_num"):
                offered[name] = getattr(sizes, name)
        else:
            offered["num_channels"] = count_channels(cfg)
            offered["history_num_frames"] = SamplingParams.from_cfg(cfg).history_num_frames
        return cls(params, offered)

    def build(self, samples: BaseEgoDataset | None) -> nn.Module:  # noqa: ARG002
        """Return the model with its loss; their modules are imported, which runs their code.

        Raises:
            ConfigError: A class cannot be imported or created, or is not a module.
        """
        named, loss = self.params.own.model, self.params.own.loss
        if named is None:
            raise ConfigError("model_params.model: it does not name a class")
        return OwnNetwork(
            named.make(nn.Module, self.offered),
            None if loss is None else loss.make(nn.Module, self.offered),
            outputs=_OUTPUTS[self.params.workflow],
            optional=_OPTIONAL,
            num_steps=self.params.future_num_frames,
            class_path=named.class_path,
        )


def require_outputs(network: nn.Module, samples: BaseEgoDataset | JoinedDataset) -> None:
    """Try a copy of a user model in both modes, on two samples; networks of l5kit are not tried.

    Raises:
        ConfigError: It raises an exception, its outputs are wrong, or its loss is not a number.
    """
    own = own_network_in(network)
    if own is None:
        return
    # the first and the last sample, whose past or future is likely to be unknown
    batch = collate(samples.__getitems__([0, len(samples) - 1]))
    batch = {key: value for key, value in batch.items() if isinstance(value, torch.Tensor)}
    for is_training, inputs in ((False, network_inputs(batch)), (True, batch)):
        tried = copy.deepcopy(network).train(is_training)
        with torch.random.fork_rng(devices=()):
            outputs = tried(dict(inputs))
        if is_training and not outputs["loss"].isfinite().all():
            raise ConfigError(
                f"model_params.{'model' if own.loss is None else 'loss'}: 'loss' is {outputs['loss'].item()} on the "
                "first and the last sample, before any step; for a sample without known future steps, a mean over "
                "known steps must be divided by at least 1"
            )
