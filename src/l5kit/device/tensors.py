"""Torch tensors for kernels of a device: validated inputs, and small asynchronous copies to the host."""

from typing import Any

import torch

from l5kit._types import NumericArray
from l5kit.device.backend import Backend, DeviceArray
from l5kit.errors import InvalidArgumentError


def as_device_array(
    name: str, tensor: torch.Tensor, shape: tuple[int, ...], backend: Backend, *, dtype: torch.dtype = torch.float64
) -> DeviceArray:
    """Return a tensor as a device array for kernels.

    Args:
        name: Name of the tensor in error messages.
        tensor: The tensor.
        shape: Required shape.
        backend: Backend of the required device.
        dtype: Required dtype.

    Raises:
        InvalidArgumentError: The shape, dtype or device is wrong.
    """
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or str(tensor.device) != backend.device:
        raise InvalidArgumentError(
            f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}; pass {dtype} of shape "
            f"{shape} on {backend.device}"
        )
    return backend.array(tensor.contiguous())


class HostCopy:
    """Copy of a tensor that is started now and read later, without waiting for work requested in between.

    Args:
        tensor: Tensor to copy; always from the same memory.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        # pinned memory for an asynchronous copy, and an event that marks its end
        self._copy = torch.zeros(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        self._is_made: Any = torch.cuda.Event() if tensor.is_cuda else None  # type: ignore[no-untyped-call]

    def begin(self) -> None:
        """Start a copy of the tensor as of all work requested so far."""
        self._copy.copy_(self._tensor, non_blocking=True)
        if self._is_made is not None:
            self._is_made.record(torch.cuda.current_stream(self._tensor.device))

    def read(self) -> NumericArray:
        """Wait for the copy and return it; the next copy reuses its memory."""
        if self._is_made is not None:
            self._is_made.synchronize()
        array: NumericArray = self._copy.numpy()
        return array
