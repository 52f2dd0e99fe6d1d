"""Small helpers of the datasets: text as tensors, batches to devices."""

from typing import Any

import numpy as np
import torch

from l5kit._types import UInt8Array
from l5kit.errors import InvalidArgumentError

AGENT_MIN_FRAME_HISTORY = 10
"""Past frames in which an agent must have been valid, by default."""

AGENT_MIN_FRAME_FUTURE = 1
"""Future frames in which an agent must stay valid, by default."""

kMaxStrLength = 70  # noqa: N816 - a name of L5Kit 1.x
"""Bytes of an encoded text."""


def encode_fixed_length(string: str, max_length: int = kMaxStrLength) -> UInt8Array:
    """Return a text as ASCII bytes, (max_length,) uint8, padded with zeros.

    Raises:
        InvalidArgumentError: The text is longer than ``max_length`` or holds a NUL.
        UnicodeEncodeError: The text is not ASCII.
    """
    if len(string) > max_length or "\0" in string:
        raise InvalidArgumentError(
            f"string must have at most {max_length} characters and no NUL, got {string!r} of {len(string)}"
        )
    encoded = np.zeros(max_length, dtype=np.uint8)
    encoded[: len(string)] = np.frombuffer(string.encode("ascii"), dtype=np.uint8)
    return encoded


def convert_str_to_fixed_length_tensor(string: str, max_length: int = kMaxStrLength) -> torch.Tensor:
    """Return a text as a tensor of ASCII bytes, (max_length,) uint8; see :func:`encode_fixed_length`."""
    return torch.from_numpy(encode_fixed_length(string, max_length))


def move_to_device(data: dict[str, torch.Tensor], device: torch.device) -> dict[str, torch.Tensor]:
    """Return a new dict with every tensor on ``device``."""
    return {key: value.to(device) for key, value in data.items()}


def move_to_numpy(data: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Return a new dict with every tensor as a NumPy array."""
    return {key: value.cpu().numpy() for key, value in data.items()}
