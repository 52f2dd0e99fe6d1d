"""Tensors of torch beside kernels of a device: those from outside, checked, and small copies to the processor."""

from typing import Any

import torch

from l5kit._types import NumericArray
from l5kit.device.backend import Backend, DeviceArray
from l5kit.errors import InvalidArgumentError


def as_device_array(
    name: str, tensor: torch.Tensor, shape: tuple[int, ...], backend: Backend, *, dtype: torch.dtype = torch.float64
) -> DeviceArray:
    """Return a tensor as kernels take it.

    Args:
        name: What an error calls it.
        tensor: The tensor.
        shape: Which shape it must have.
        backend: On which device it must be.
        dtype: Which type it must have.

    Raises:
        InvalidArgumentError: It has another shape or type, or is on another device.
    """
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or str(tensor.device) != backend.device:
        raise InvalidArgumentError(
            f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}; pass {dtype} of shape "
            f"{shape} on {backend.device}"
        )
    return backend.array(tensor.contiguous())


class HostCopy:
    """Copy of a tensor that is begun now and read later, so that nobody waits for what was requested in between.

    Args:
        tensor: What is copied, always from the same memory.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        # pinned memory, to which a GPU copies by itself, and an event that says when it has
        self._copy = torch.zeros(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        self._is_made: Any = torch.cuda.Event() if tensor.is_cuda else None  # type: ignore[no-untyped-call]

    def begin(self) -> None:
        """Copy the tensor as it will be once all that was requested so far is done."""
        self._copy.copy_(self._tensor, non_blocking=True)
        if self._is_made is not None:
            self._is_made.record(torch.cuda.current_stream(self._tensor.device))

    def read(self) -> NumericArray:
        """Return the copy once it is there, in memory that the next one uses again."""
        if self._is_made is not None:
            self._is_made.synchronize()
        array: NumericArray = self._copy.numpy()
        return array
