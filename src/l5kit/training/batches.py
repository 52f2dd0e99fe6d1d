"""Which samples evaluations take, and what networks get of a batch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from l5kit._types import Int64Array

__all__ = ["network_inputs", "spread_indices", "tensors_on"]

_TRUTH_PREFIXES = ("target_", "all_other_agents_future_")
"""Keys of a batch that a model does not get in evaluations."""


def network_inputs(batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return what a network gets of a batch in evaluations: nothing of the future, of the target or of others."""
    return {key: value for key, value in batch.items() if not key.startswith(_TRUTH_PREFIXES)}


def tensors_on(device: torch.device, batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors of a batch on a device, in float32 where that knows no float64."""
    tensors = {key: value for key, value in batch.items() if isinstance(value, torch.Tensor)}
    if device.type == "mps":
        tensors = {key: value.float() if value.dtype == torch.float64 else value for key, value in tensors.items()}
    return {key: value.to(device, non_blocking=True) for key, value in tensors.items()}


def spread_indices(num_samples: int, most: int | None) -> Int64Array:
    """Return the indices of at most so many samples, evenly spread over all; None for all of them.

    Each is from the middle of its part of the log, so that first frames, which have no past, are not taken too often.
    """
    num_taken = num_samples if most is None else min(most, num_samples)
    return (2 * np.arange(num_taken) + 1) * num_samples // (2 * max(num_taken, 1))
