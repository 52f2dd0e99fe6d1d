"""Sharded networks, of which each device has a part of the weights (FSDP2 of torch)."""

from torch import nn

from l5kit.errors import ConfigError


def require_parts(model: nn.Module) -> None:
    """Refuse a network with weights that cannot be sharded.

    Raises:
        ConfigError: A weight has no axes.
    """
    scalars = [name for name, value in model.named_parameters() if value.ndim == 0]
    if scalars:
        raise ConfigError(
            f"train_params.strategy: 'fsdp' parts no weights without axes, here {', '.join(scalars)}; give them the "
            "shape (1,), or take 'ddp'"
        )


def is_sharded(model: nn.Module) -> bool:
    """Return whether the weights of a network are sharded, also while they are gathered."""
    return any(base.__name__ == "FSDPModule" for base in type(model).__bases__)
