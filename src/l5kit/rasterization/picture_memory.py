"""Memory for pictures.

Pictures, and batches of them above all, are so large that the operating system would hand out fresh pages for each and
clear them first, which takes as long as drawing them. :class:`RecycledMemory` takes blocks back once nobody refers to
them any more.
"""

import ctypes
import math
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import NumericArray, UInt8Array

_MAX_FREE_BYTES = 1 << 30
"""Enough for the batches that two threads have in flight, lest each epoch begins with fresh pages."""

_MAX_BLACK_BYTES = 1 << 26
"""Enough for the planes of one window for each of many threads."""

_SMALLEST_RECYCLED_BYTES = 1 << 20
"""Smaller arrays are plain ones: for them NumPy and the operating system are quick enough."""


class RecycledMemory:
    """Arrays whose memory is used again after the last reference to them, and to views of them, has gone.

    Args:
        max_free_bytes: Memory that is kept for later; more than that goes back to the operating system.
    """

    _free: list[UInt8Array]
    _black: list[UInt8Array]

    def __init__(self, max_free_bytes: int = _MAX_FREE_BYTES) -> None:
        self.max_free_bytes = max_free_bytes
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NumericArray:
        """Return a C-contiguous array with undefined content."""
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if num_bytes < _SMALLEST_RECYCLED_BYTES:
            return np.empty(shape, dtype)
        block = self._take(num_bytes)
        # an object that goes when the last view has gone
        lease: Any = (ctypes.c_char * num_bytes).from_buffer(block.data)
        weakref.finalize(lease, self._put, block).atexit = False
        return np.frombuffer(lease, np.uint8).view(dtype).reshape(shape)

    @contextmanager
    def black(self, shape: tuple[int, ...]) -> Iterator[UInt8Array]:
        """Lend bytes that are 0, and must be 0 again at the end of the block, so that nobody has to clear them.

        After an exception nobody gets them again.
        """
        num_bytes = math.prod(shape)
        block = self._take_black(num_bytes)
        yield block.reshape(shape)
        with self._lock:
            self._black.append(block)
            while sum(other.nbytes for other in self._black) > _MAX_BLACK_BYTES:
                self._black.pop(0)

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

    def _take_black(self, num_bytes: int) -> UInt8Array:
        with self._lock:
            for place, block in enumerate(self._black):
                if block.nbytes == num_bytes:
                    return self._black.pop(place)
        return np.zeros(num_bytes, np.uint8)

    def _put(self, block: UInt8Array) -> None:
        """Keep a block; the oldest ones go first."""
        with self._lock:
            self._free.append(block)
            while self.num_free_bytes > self.max_free_bytes:
                self._free.pop(0)

    def _forget(self) -> None:
        self._lock = threading.RLock()  # a block may come back while this thread holds it
        self._free = []
        self._black = []


recycled_memory = RecycledMemory()
"""The memory of this process; all pictures share it."""
