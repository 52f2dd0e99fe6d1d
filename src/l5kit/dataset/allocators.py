"""Memory for the pictures of batches: of this process, shared with others, or within the reach of CUDA."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import NumericArray
from l5kit.dataset.torch_parts import get_worker_info, require_torch
from l5kit.rasterization.picture_memory import recycled_memory

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Memory:
    """An array with undefined content, and the tensor that owns its memory, if one does."""

    array: NumericArray
    tensor: "torch.Tensor | None" = None


class Allocator(Protocol):
    """Gives memory that nobody else uses."""

    def __call__(self, shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
        """Return an array with undefined content."""


def allocate_recycled(shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
    """Return memory of batches and pictures that nobody refers to any more, or new memory."""
    return Memory(recycled_memory.empty(shape, dtype))


def allocate_shared(shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
    """Return memory of a worker process that its batches travel in without a copy, while there is shared memory."""
    from l5kit.dataset.worker_memory import new_shared

    array = new_shared(shape, dtype)
    return allocate_recycled(shape, dtype) if array is None else Memory(array)


def allocate_pinned(shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
    """Return memory that CUDA can read while the processor goes on."""
    require_torch("memory that CUDA reads")
    import torch

    tensor = torch.empty(shape, dtype=torch.from_numpy(np.empty(0, dtype)).dtype, pin_memory=True)
    return Memory(tensor.numpy(), tensor)


def default_allocator() -> Allocator:
    """Return what suits this process: shared memory in a worker of a DataLoader, else recycled memory."""
    return allocate_recycled if get_worker_info() is None else allocate_shared
