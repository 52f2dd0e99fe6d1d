"""Tensors of torch from outside as kernels of a device take them, checked."""

import torch

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
