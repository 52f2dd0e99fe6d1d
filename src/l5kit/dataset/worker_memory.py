"""Shared memory into which worker processes draw batches, reused once it is no longer referenced.

Fresh shared memory costs more than drawing into it: the worker clears and maps each page, the receiving process maps it
again, and it is released. So a worker keeps its blocks. A block begins with a page of states, one for each part that
was sent. A process that receives a part holds a lease on it; when the last tensor, view or array of the part is gone,
the lease marks the state as free, and the worker may draw there again. The worker checks the states whenever it needs
memory; no process waits for another.
"""

import contextlib
import copy
import ctypes
import math
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, Self, SupportsIndex

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch.multiprocessing import get_sharing_strategy

from l5kit._types import NumericArray, UInt8Array

_STATE_BYTES = 4096
"""Size of the states of a block: one page, so that the rasters after it are page-aligned."""

_SENT, _GIVEN_BACK, _LOST = 1, 2, 3
"""States of a part; a lost part was in use when a process forked, and the child may still read it."""

_MAX_FREE_BLOCKS = 4
"""Number of batches in flight of a worker of torch's loader with its default prefetch of two."""

_BYTES_SENT_AS_THEY_ARE = 1 << 20
"""Size up to which tensors are sent by value, as a segment of shared memory for each would take longer."""

_MAPPINGS_KEPT_S = 5.0


class ForkCount:
    """Counter of the forks of this process.

    Attributes:
        value: A number that differs after a fork, in both processes.
    """

    def __init__(self) -> None:
        self.value = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._count)

    def _count(self) -> None:
        self.value += 1


_forks = ForkCount()


class SharedBlock:
    """Shared memory of a worker, reused for one batch after the other.

    Args:
        num_bytes: Its size.

    Attributes:
        memory: The states, followed by the memory for a batch, uint8 (4096 + num_bytes,).
        strategy: Sharing strategy of torch.

    Raises:
        RuntimeError: No shared memory is left.
    """

    def __init__(self, num_bytes: int) -> None:
        self.strategy = get_sharing_strategy()  # type: ignore[no-untyped-call]
        self.memory = torch.empty(_STATE_BYTES + num_bytes, dtype=torch.uint8)
        self.memory.share_memory_()  # type: ignore[no-untyped-call]
        self._bytes: UInt8Array = self.memory.numpy()
        self._states = self._bytes[:_STATE_BYTES]
        self._num_sent = 0
        self._is_leased = False
        self._is_lost = False

    @property
    def num_bytes(self) -> int:
        """Size without the states."""
        return len(self._bytes) - _STATE_BYTES

    @property
    def is_free(self) -> bool:
        """Whether the memory is no longer referenced."""
        return not self._is_leased and not self.is_lost and bool((self._sent_states == _GIVEN_BACK).all())

    @property
    def is_lost(self) -> bool:
        """Whether the memory must not be reused."""
        return self._is_lost or bool((self._sent_states == _LOST).any())

    def lease(self, shape: tuple[int, ...], dtype: DTypeLike) -> NumericArray:
        """Return an array at the start of the memory, and hold the block until the array and all its views are gone."""
        self._num_sent, self._is_leased = 0, True
        lease: Any = (ctypes.c_char * self.num_bytes).from_buffer(self._bytes.data, _STATE_BYTES)
        num_forks = _forks.value

        def end_lease() -> None:
            self._is_lost |= num_forks != _forks.value
            self._is_leased = False

        weakref.finalize(lease, end_lease).atexit = False
        return np.ndarray(shape, dtype, buffer=lease)

    def offset_of(self, array: NumericArray) -> int | None:
        """Return the offset of an array in the memory, in bytes; None if the array is elsewhere."""
        offset = _address_of(array) - _address_of(self._bytes) - _STATE_BYTES
        return offset if 0 <= offset < self.num_bytes else None

    def new_ticket(self) -> int | None:
        """Return the index of the state for the next part; None if all are used."""
        if self._num_sent == _STATE_BYTES:
            return None
        ticket, self._num_sent = self._num_sent, self._num_sent + 1
        self._states[ticket] = _SENT
        return ticket

    @property
    def _sent_states(self) -> UInt8Array:
        return self._states[: self._num_sent]


class SharedBlocks:
    """Shared memory of a worker: the blocks in use, and a few free ones."""

    _blocks: list[SharedBlock]
    _too_many_bytes: float

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def __call__(self, shape: tuple[int, ...], dtype: DTypeLike) -> NumericArray | None:
        """Return an uninitialized array for exclusive use.

        Returns None if shared memory is used up, or if the array is small enough to be sent by value.
        """
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if num_bytes <= _BYTES_SENT_AS_THEY_ARE:
            return None
        with self._lock:
            block = self._take(num_bytes) or self._make(num_bytes)
            return None if block is None else block.lease(shape, dtype)

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._blocks)

    def send(self, array: NumericArray) -> tuple[torch.Tensor, int, int] | None:
        """Record that an array is sent to another process; return its block, the index of its state and its offset.

        Returns None if the array must be sent in another way.
        """
        with self._lock:
            for block in self._blocks:
                offset = block.offset_of(array)
                if offset is not None:
                    ticket = block.new_ticket()
                    return None if ticket is None else (block.memory, ticket, offset)
        return None

    def _take(self, num_bytes: int) -> SharedBlock | None:
        """Return a free block, the smallest that is large enough, and drop useless ones."""
        strategy = get_sharing_strategy()  # type: ignore[no-untyped-call]
        self._blocks = [block for block in self._blocks if not block.is_lost and block.strategy == strategy]
        free = sorted((block for block in self._blocks if block.is_free), key=lambda block: block.num_bytes)
        fitting = [block for block in free if block.num_bytes >= num_bytes]
        # if none fits, a new block replaces one that is too small
        useless = free[:1] if not fitting else free[_MAX_FREE_BLOCKS + 1 :]
        self._blocks = [block for block in self._blocks if not any(block is other for other in useless)]
        return fitting[0] if fitting else None

    def _make(self, num_bytes: int) -> SharedBlock | None:
        if num_bytes >= self._too_many_bytes:
            return None
        try:
            block = SharedBlock(num_bytes)
        except RuntimeError as error:  # a retry would clear all remaining memory, only to fail again
            self._too_many_bytes = num_bytes
            warnings.warn(
                f"no shared memory is left for batches of {num_bytes / 1e6:.0f} MB in worker process {os.getpid()}, "
                "which copies them through a pipe from now on; this is slow. Give it more (docker run "
                "--shm-size=8g; in Kubernetes an emptyDir of medium Memory at /dev/shm), make batches or prefetch "
                f"smaller, set raster_params.image_dtype to uint8, or use l5kit.dataset.loader with threads ({error})",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        self._blocks.append(block)
        return block

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._blocks = []
        self._too_many_bytes = math.inf


new_shared = SharedBlocks()


class WorkerTensor(torch.Tensor):
    """Dense tensor in a worker, and dense results computed from it there; other processes receive plain tensors.

    Tensors in a shared block, and views of them, are sent without a copy.
    """

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Self:
        """Return a tensor as one of this class, in the same memory."""
        ForkingPickler.register(cls, _reduce)
        return tensor.as_subclass(cls)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Return the result of a torch function, in this class if it is a dense tensor."""
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            is_dense = type(result) is torch.Tensor and result.layout is torch.strided and result.device.type == "cpu"
            return cls.of(result) if is_dense else result

    def __deepcopy__(self, memo: dict[int, object]) -> "WorkerTensor":
        return WorkerTensor.of(copy.deepcopy(_plain(self), memo))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        """Pickle like a plain tensor; sending to another process uses another path."""
        parts: tuple[object, ...] = _plain(self).__reduce_ex__(protocol)  # type: ignore[no-untyped-call]
        return parts


def _reduce(tensor: WorkerTensor) -> tuple[Callable[..., object], tuple[object, ...]]:
    """Return how another process rebuilds a tensor."""
    if tensor.requires_grad and tensor.is_leaf:
        return torch.Tensor.requires_grad_, (tensor.detach(),)
    plain = _plain(tensor)
    try:
        array = plain.numpy()
    except (TypeError, RuntimeError):  # unsupported dtype in NumPy, or requires a gradient
        return _as_it_is, (plain,)
    if array.nbytes > _BYTES_SENT_AS_THEY_ARE:
        sent = new_shared.send(array)
        if sent is not None:
            return _rebuild, (*sent, array.shape, array.dtype.str, array.strides)
        # outside of blocks: move it to new shared memory, or copy it if none is left
        with contextlib.suppress(RuntimeError):
            plain.share_memory_()  # type: ignore[no-untyped-call]
            return _as_it_is, (plain,)
    return torch.from_numpy, (array,)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor)


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


class Mappings:
    """Cache of the mapped blocks of a process, for later batches in them; unused ones are released.

    Args:
        kept_s: How long unused ones are kept.
    """

    _kept: dict[int, tuple[torch.Tensor, float]]
    _sweeper: threading.Thread | None

    def __init__(self, kept_s: float = _MAPPINGS_KEPT_S) -> None:
        self.kept_s = kept_s
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.clear, after_in_child=self._forget)

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._kept)

    def keep(self, memory: torch.Tensor) -> None:
        """Keep a block for some time."""
        with self._lock:
            self._kept[memory.data_ptr()] = memory, time.monotonic()
            if self._sweeper is None:
                self._is_over = threading.Event()
                self._sweeper = threading.Thread(
                    target=self._sweep, args=(self._is_over,), name="l5kit-mappings", daemon=True
                )
                self._sweeper.start()

    def clear(self) -> None:
        """Release all blocks and end the thread; called before forks, so that children do not hold the memory."""
        with self._lock:
            sweeper, self._sweeper = self._sweeper, None
            dropped, self._kept = self._kept, {}
            self._is_over.set()
        dropped.clear()
        if sweeper is not None:
            sweeper.join()

    def _sweep(self, is_over: threading.Event) -> None:
        while not is_over.wait(self.kept_s / 2):
            with self._lock:
                if is_over.is_set():
                    return
                oldest = time.monotonic() - self.kept_s
                self._kept = {key: entry for key, entry in self._kept.items() if entry[1] > oldest}
                if not self._kept:
                    self._sweeper = None
                    return

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._kept, self._sweeper = {}, None


mappings = Mappings()


def _rebuild(
    memory: torch.Tensor, ticket: int, offset: int, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...]
) -> torch.Tensor:
    """Return a plain tensor of a part of a block; the block is in use until the last reference to the part is gone."""
    block: UInt8Array = memory.numpy()
    lease: Any = (ctypes.c_char * (len(block) - _STATE_BYTES)).from_buffer(block.data, _STATE_BYTES)
    weakref.finalize(lease, _give_back, block[:_STATE_BYTES], ticket, (os.getpid(), _forks.value)).atexit = False
    mappings.keep(memory)
    return torch.from_numpy(np.ndarray(shape, dtype, buffer=lease, offset=offset, strides=strides))


def _give_back(states: UInt8Array, ticket: int, received_at: tuple[int, int]) -> None:
    process, num_forks = received_at
    if process == os.getpid():  # otherwise this is a fork; the receiving process reports itself
        states[ticket] = _GIVEN_BACK if num_forks == _forks.value else _LOST


def _address_of(array: NumericArray) -> int:
    return int(array.__array_interface__["data"][0])
