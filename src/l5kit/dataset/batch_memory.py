"""Memory for the pictures of batches.

A batch of pictures is so large that the operating system would hand out fresh pages for each and clear them first,
which takes as long as drawing them. :class:`RecycledMemory` takes blocks back once nobody refers to them any more.
"""

import ctypes
import math
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch.utils.data import get_worker_info

from l5kit._types import NumericArray, UInt8Array

_MAX_FREE_BYTES = 1 << 30
"""Enough for the batches that two threads have in flight, lest each epoch begins with fresh pages."""

_SMALLEST_RECYCLED_BYTES = 1 << 20


@dataclass(frozen=True)
class Memory:
    """An array with undefined content, and the tensor that owns its memory, if one does."""

    array: NumericArray
    tensor: torch.Tensor | None = None


class Allocator(Protocol):
    """Gives memory that nobody else uses."""

    def __call__(self, shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
        """Return an array with undefined content."""


class RecycledMemory:
    """Arrays whose memory is used again after the last reference to them, and to views of them, has gone.

    Args:
        max_free_bytes: Memory that is kept for later; more than that goes back to the operating system.
    """

    _free: list[UInt8Array]

    def __init__(self, max_free_bytes: int = _MAX_FREE_BYTES) -> None:
        self.max_free_bytes = max_free_bytes
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def __call__(self, shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
        """Return an array with undefined content."""
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if num_bytes < _SMALLEST_RECYCLED_BYTES:
            return Memory(np.empty(shape, dtype))
        block = self._take(num_bytes)
        lease: Any = (ctypes.c_char * num_bytes).from_buffer(
            block.data
        )  # an object that goes when the last view has gone
        weakref.finalize(lease, self._put, block).atexit = False
        return Memory(np.frombuffer(lease, np.uint8).view(dtype).reshape(shape))

    @property
    def num_free_bytes(self) -> int:
        """Memory that is kept for later."""
        return sum(block.nbytes for block in self._free)

    def _take(self, num_bytes: int) -> UInt8Array:
        with self._lock:
            for block in list(self._free):
                if block.nbytes == num_bytes:
                    # by identity: the garbage collector may bring blocks back, and so move this one, at any time
                    self._free = [other for other in self._free if other is not block]
                    return block
        return np.empty(num_bytes, np.uint8)

    def _put(self, block: UInt8Array) -> None:
        """Keep a block; the oldest ones go first."""
        with self._lock:
            self._free.append(block)
            while self.num_free_bytes > self.max_free_bytes:
                self._free.pop(0)

    def _forget(self) -> None:
        self._lock = threading.RLock()  # a block may come back while this thread holds it
        self._free = []


def allocate_shared(shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
    """Return memory that other processes can map, so that tensors in it travel between processes without a copy."""
    tensor: torch.Tensor = torch.from_numpy(np.empty(0, dtype)).new_empty(shape)
    tensor.share_memory_()  # type: ignore[no-untyped-call]
    return Memory(tensor.numpy(), tensor)


def allocate_pinned(shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
    """Return memory that CUDA can read while the processor goes on."""
    tensor = torch.empty(shape, dtype=torch.from_numpy(np.empty(0, dtype)).dtype, pin_memory=True)
    return Memory(tensor.numpy(), tensor)


_recycled = RecycledMemory()


def default_allocator() -> Allocator:
    """Return what suits this process: shared memory in a worker of a DataLoader, else recycled memory."""
    return _recycled if get_worker_info() is None else allocate_shared
