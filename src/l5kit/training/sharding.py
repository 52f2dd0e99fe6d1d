"""Networks of which each device has a part of the weights (FSDP2 of torch): sharded, gathered and loaded."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from l5kit.errors import ConfigError, MissingDependencyError
from l5kit.planning.checkpoint import Checkpoint

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def require_parts(model: nn.Module) -> None:
    """Refuse a network with weights that cannot be parted.

    Raises:
        ConfigError: A weight has no axes.
    """
    scalars = [name for name, value in model.named_parameters() if value.ndim == 0]
    if scalars:
        raise ConfigError(
            f"train_params.strategy: 'fsdp' parts no weights without axes, here {', '.join(scalars)}; give them the "
            "shape (1,), or take 'ddp'"
        )


def shard_weights(model: nn.Module, mesh: "DeviceMesh") -> None:
    """Give each device its part of the weights of a network, which are gathered when it is called.

    Args:
        model: The network, with the same weights in all processes.
        mesh: The devices.

    Raises:
        MissingDependencyError: torch is too old.
    """
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise MissingDependencyError(
            "train_params.strategy is 'fsdp', which needs torch 2.6 or later: pip install -U torch, or take 'ddp'"
        ) from error
    fully_shard(model, mesh=mesh)


def whole_weights(model: nn.Module) -> Mapping[str, torch.Tensor] | None:
    """Return all weights of a network of which each device has a part, on the CPU; to be called in all processes.

    Returns:
        Nothing in it but in the main process; None for a network that each device has all of.
    """
    if not _is_sharded(model):
        return None
    whole: dict[str, torch.Tensor] = {}
    for name, value in model.state_dict().items():
        gathered = value.full_tensor() if hasattr(value, "full_tensor") else value
        if torch.distributed.get_rank() == 0:
            whole[name] = gathered.detach().cpu().clone()
    return whole


def load_stored_weights(model: nn.Module, stored: Checkpoint) -> None:
    """Load all weights of a file into a network, whoever has which part of them; to be called in all processes."""
    if not _is_sharded(model):
        stored.load_into(model)
        return
    from torch.distributed.checkpoint import state_dict

    values: dict[str, Any] = dict(stored.state_dict)
    state_dict.set_model_state_dict(model, values, options=state_dict.StateDictOptions(full_state_dict=True))


def _is_sharded(model: nn.Module) -> bool:
    """Return whether :func:`shard_weights` had the network; its weights tell no more while they are gathered."""
    return any(base.__name__ == "FSDPModule" for base in type(model).__bases__)
