"""Compilation of networks by ``torch.compile``, in place, so that their weights keep their names."""

from torch import nn

from l5kit.configs.texts import did_you_mean
from l5kit.errors import ConfigError


def compile_network(network: nn.Module, backend: str) -> None:
    """Let a network be compiled when it is called first, and again for inputs of other shapes.

    Args:
        network: The network.
        backend: Who compiles, by torch's names.

    Raises:
        ConfigError: torch has no such backend.
    """
    from torch import _dynamo  # here, since it takes a second

    names = sorted(_dynamo.list_backends(exclude_tags=()))
    if backend not in names:
        raise ConfigError(
            f"train_params.compile_backend: expected one of {', '.join(names)}, "
            f"got {backend!r}{did_you_mean(backend, names)}"
        )
    network.compile(backend=backend)
