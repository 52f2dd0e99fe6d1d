"""Inputs of networks in evaluations and simulations: the visible part of a batch, device, and eval mode."""

import warnings
from collections.abc import Mapping

import torch
from torch import nn

from l5kit.errors import InvalidArgumentError

_TRUTH_PREFIXES = ("target_", "all_other_agents_future_", "future_")
_TRUTH_KEYS = ("speed",)
"""Keys that a model does not see in evaluations; ``speed`` of vector samples is that of the next step."""


def network_inputs(batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the inputs of a network in evaluations: without the future of the target and of other agents."""
    return {
        key: value for key, value in batch.items() if not key.startswith(_TRUTH_PREFIXES) and key not in _TRUTH_KEYS
    }


def warn_of_training(name: str, model: nn.Module, *, stacklevel: int) -> None:
    """Warn of a driving model with weights in training mode; its mode is not changed.

    Args:
        name: Name of the argument.
        model: The model.
        stacklevel: Level of the line that the ``RuntimeWarning`` names, 2 for the caller.
    """
    if model.training and any(True for _ in model.parameters()):
        warnings.warn(
            f"{name} is in training mode, in which dropout and batch norm make it drive differently each time; call "
            f"{name}.eval() before",
            RuntimeWarning,
            stacklevel=stacklevel,
        )


def find_device(requested: str | torch.device) -> torch.device:
    """Return a device; ``auto`` is CUDA if available, otherwise the CPU.

    Raises:
        InvalidArgumentError: There is no such device, or CUDA is not available.
    """
    has_cuda = torch.cuda.is_available()
    if requested == "auto":
        return torch.device("cuda" if has_cuda else "cpu")
    try:
        device = torch.device(requested)
    except (RuntimeError, TypeError) as error:
        raise InvalidArgumentError(
            f"device is {requested!r}, which torch does not know; take 'auto' or 'cpu'"
        ) from error
    if device.type == "cuda" and not has_cuda:
        raise InvalidArgumentError(f"device is {str(requested)!r}, and torch finds no CUDA; take 'auto' or 'cpu'")
    return device


def tensors_on(device: torch.device, batch: Mapping[str, object]) -> dict[str, torch.Tensor]:
    """Return the tensors of a batch on a device, as float32 if it does not support float64."""
    tensors = {key: value for key, value in batch.items() if isinstance(value, torch.Tensor)}
    if device.type == "mps":
        tensors = {key: value.float() if value.dtype == torch.float64 else value for key, value in tensors.items()}
    return {key: value.to(device, non_blocking=True) for key, value in tensors.items()}
