"""Helpers of the datasets: conversion of text to tensors, and transfer of batches to devices."""

from typing import TYPE_CHECKING

import numpy as np

from l5kit._types import NumericArray, UInt8Array
from l5kit.data import filter as selection
from l5kit.dataset.torch_parts import require_torch
from l5kit.errors import InvalidArgumentError

if TYPE_CHECKING:
    import torch

AGENT_MIN_FRAME_HISTORY = selection.AGENT_MIN_FRAME_HISTORY
"""Past frames in which an agent must have been valid, by default."""

AGENT_MIN_FRAME_FUTURE = selection.AGENT_MIN_FRAME_FUTURE
"""Future frames in which an agent must stay valid, by default."""

kMaxStrLength = 70  # noqa: N816 - a name of L5Kit 1.x
"""Bytes of an encoded text."""


def encode_fixed_length(string: str, max_length: int = kMaxStrLength) -> UInt8Array:
    """Return a text as UTF-8 bytes, (max_length,) uint8, padded with zeros; ASCII bytes are the characters.

    Raises:
        InvalidArgumentError: The text takes more than ``max_length`` bytes, or is invalid: it holds a NUL or an
            unpaired surrogate.
    """
    try:
        content = string.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"string must be text, got {string!r} ({error.reason})") from error
    if len(content) > max_length or 0 in content:
        raise InvalidArgumentError(
            f"string must have at most {max_length} bytes of UTF-8 and no NUL, got {string!r} of {len(content)}"
        )
    encoded = np.zeros(max_length, dtype=np.uint8)
    encoded[: len(content)] = np.frombuffer(content, dtype=np.uint8)
    return encoded


def convert_str_to_fixed_length_tensor(string: str, max_length: int = kMaxStrLength) -> "torch.Tensor":
    """Return a text as a tensor of ASCII bytes, (max_length,) uint8, padded with zeros.

    Raises:
        InvalidArgumentError: The text takes more than ``max_length`` bytes, or holds a NUL.
        UnicodeEncodeError: The text is not ASCII (a ``ValueError``).
    """
    require_torch("a tensor")
    import torch

    string.encode("ascii")
    return torch.from_numpy(encode_fixed_length(string, max_length))


def move_to_device(data: "dict[str, torch.Tensor]", device: "torch.device") -> "dict[str, torch.Tensor]":
    """Return a new dict with every tensor on ``device``, including those in nested dicts."""
    return {
        key: move_to_device(value, device) if isinstance(value, dict) else value.to(device)
        for key, value in data.items()
    }


def move_to_numpy(data: "dict[str, torch.Tensor]") -> dict[str, NumericArray]:
    """Return a new dict with every tensor as a NumPy array."""
    return {key: value.cpu().numpy() for key, value in data.items()}
