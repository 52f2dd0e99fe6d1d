"""Sharding of weights over devices (FSDP2 of torch): which networks support it, and which are sharded."""

from torch import nn

from l5kit.errors import ConfigError


def require_parts(model: nn.Module) -> None:
    """Raise if weights of a network cannot be sharded.

    Raises:
        ConfigError: A weight is a scalar, without axes.
    """
    scalars = [name for name, value in model.named_parameters() if value.ndim == 0]
    if scalars:
        raise ConfigError(
            f"train_params.strategy: 'fsdp' cannot shard weights without axes, here {', '.join(scalars)}; give them "
            "the shape (1,), or use 'ddp'"
        )


def is_sharded(model: nn.Module) -> bool:
    """Return whether the weights of a network are sharded over devices, also while they are gathered."""
    return any(base.__name__ == "FSDPModule" for base in type(model).__bases__)
