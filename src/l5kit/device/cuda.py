"""CUDA backend: kernels on an NVIDIA GPU by numba-cuda, with arrays in torch memory."""

import functools
import itertools
import math
import queue
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numba.cuda
import numba_cuda  # noqa: F401 - replaces the CUDA target of numba, which is too old
import numpy as np
import torch
from numba.cuda.cudadrv import nvvm
from numpy.typing import DTypeLike

from l5kit._types import NumericArray, RecordArray
from l5kit.device.backend import Backend, DeviceArray, Kernel, KernelArguments, plain_tuples

_Made = TypeVar("_Made")

cuda: Any = numba.cuda

_THREADS_PER_BLOCK = 64
"""Small enough for uneven work among the threads of a block, large enough to fill a multiprocessor."""

_ALIGNMENT = 256
"""Alignment in bytes of arrays that are sent together, as for separate allocations."""


class CudaBackend(Backend):
    """Backend that runs kernels on one GPU, in the current torch stream of the calling thread.

    Args:
        device: ``cuda``, or ``cuda:N``; it must be the current device of torch.
    """

    is_serial = False

    def __init__(self, device: str) -> None:
        torch_device = torch.device(device)
        index = torch.cuda.current_device() if torch_device.index is None else torch_device.index
        self.device = f"cuda:{index}"
        self._index = index

    def __reduce__(self) -> tuple[object, ...]:
        """Return the constructor and device name, so that unpickling opens the device anew."""
        return type(self), (self.device,)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> DeviceArray:
        """Return an array with undefined content."""
        shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        dtype = np.dtype(dtype)
        num_bytes = dtype.itemsize * math.prod(shape)
        return _as_array(torch.empty(max(num_bytes, 1), dtype=torch.uint8, device=self.device), 0, shape, dtype)

    def full(self, shape: int | tuple[int, ...], value: float, dtype: DTypeLike = np.float64) -> DeviceArray:
        """Return an array filled with one number."""
        array = self.empty(shape, dtype)
        self.tensor(array).fill_(value)
        return array

    def upload(self, arrays: Sequence[NumericArray | RecordArray]) -> list[DeviceArray]:
        """Return copies of arrays on the device; the calling thread does not wait for the transfer."""
        # one allocation and one transfer for all of them
        starts, end = [], 0
        for array in arrays:
            starts.append(end)
            end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        memory = _pinned(arrays, starts, end).to(self.device, non_blocking=True)
        return [_as_array(memory, at, array.shape, array.dtype) for at, array in zip(starts, arrays, strict=True)]

    def put(self, array: DeviceArray, first: int, rows: NumericArray | RecordArray) -> None:
        """Write rows into an array from its row ``first`` on; the calling thread does not wait for the transfer."""
        memory, start, dtype = array.l5kit_memory
        begin = start + first * dtype.itemsize * math.prod(array.shape[1:])
        memory[begin : begin + rows.nbytes].copy_(_pinned([rows], [0], rows.nbytes), non_blocking=True)

    def tensor(self, array: DeviceArray) -> torch.Tensor:
        """Return a tensor that shares the memory of an array; uint64 becomes int64."""
        memory, start, dtype = array.l5kit_memory
        num_bytes = dtype.itemsize * math.prod(array.shape)
        flat: torch.Tensor = memory[start : start + num_bytes].view(_TORCH_TYPES[dtype])
        return flat.reshape(array.shape)

    def array(self, tensor: torch.Tensor) -> DeviceArray:
        """Return an array that shares the memory of a C-contiguous tensor."""
        dtype = next(numpy_type for numpy_type, torch_type in _TORCH_TYPES.items() if torch_type == tensor.dtype)
        memory = tensor.contiguous().reshape(-1).view(torch.uint8)
        return _as_array(memory, 0, tuple(tensor.shape), dtype)

    def view(self, array: DeviceArray, dtype: DTypeLike) -> DeviceArray:
        """Return the memory of an array as a flat array of another dtype."""
        memory, start, own = array.l5kit_memory
        num_bytes = own.itemsize * math.prod(array.shape)
        return _as_array(memory, start, (num_bytes // np.dtype(dtype).itemsize,), np.dtype(dtype))

    def run(self, kernel: Kernel, num_items: int, *arguments: Any) -> None:
        """Run a kernel in the current torch stream; the calling thread does not wait for it."""
        if num_items <= 0:
            return
        num_blocks = -(-num_items // _THREADS_PER_BLOCK)
        with torch.cuda.device(self._index), exact_arithmetic():
            stream = _stream_of(torch.cuda.current_stream().cuda_stream)
            launcher_of(kernel)[num_blocks, _THREADS_PER_BLOCK, stream](num_items, plain_tuples(arguments))

    def rows_at_once(self, num_items: int) -> int:
        """Return a row for each item, as all items may run at the same time."""
        return num_items

    def make_ahead(self, make: Callable[[], _Made]) -> Callable[[], _Made]:
        """Make tensors in a stream without other work."""
        # An idle stream, or a new one. It is idle again once all work is requested, as later work in it waits.
        idle = _IDLE_STREAMS[self._index]
        try:
            stream = idle.get_nowait()
        except queue.Empty:
            new: Any = torch.cuda.Stream
            stream = new(self._index)
        try:
            # set the device first: leaving the stream context would otherwise create a context on the first GPU
            with torch.cuda.device(self._index), torch.cuda.stream(stream):
                made = make()
                is_made = stream.record_event()
        finally:
            idle.put(stream)

        def hand_over() -> _Made:
            current = torch.cuda.current_stream(self._index)
            current.wait_event(is_made)
            for tensor in _tensors_in(made):
                tensor.record_stream(current)  # keeps the memory until the work requested from now on is done
            return made

        return hand_over

    def free_bytes(self) -> int:
        """Return how many bytes of GPU memory are free, including those that torch has reserved but not used."""
        free, _ = torch.cuda.mem_get_info(self._index)
        kept: int = torch.cuda.memory_reserved(self._index) - torch.cuda.memory_allocated(self._index)
        return free + kept

    def wait(self) -> None:
        """Wait until all requested work is done."""
        torch.cuda.synchronize(self._index)


_TORCH_TYPES: dict[np.dtype[Any], torch.dtype] = {
    np.dtype(np.float64): torch.float64,
    np.dtype(np.float32): torch.float32,
    np.dtype(np.int64): torch.int64,
    np.dtype(np.int32): torch.int32,
    np.dtype(np.int16): torch.int16,
    np.dtype(np.int8): torch.int8,
    np.dtype(np.uint8): torch.uint8,
    np.dtype(np.bool_): torch.bool,
    np.dtype(np.uint64): torch.int64,
}


_IDLE_STREAMS: defaultdict[int, "queue.LifoQueue[torch.cuda.Stream]"] = defaultdict(queue.LifoQueue)
"""Idle streams of each GPU, for all loaders and threads.

Memory released in a stream is reused in that stream only, so new streams would take new memory.
"""


def _pinned(arrays: Sequence[NumericArray | RecordArray], starts: Sequence[int], end: int) -> torch.Tensor:
    """Return arrays as bytes at given offsets in pinned memory, from which CUDA copies asynchronously."""
    pinned = torch.empty(max(end, 1), dtype=torch.uint8, pin_memory=True)
    content = pinned.numpy()
    for start, array in zip(starts, arrays, strict=True):
        content[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return pinned[:end] if end else pinned


def _tensors_in(value: object) -> Iterator[torch.Tensor]:
    """Yield the GPU tensors in nested lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor) and value.is_cuda:
        yield value
    elif isinstance(value, dict):
        yield from itertools.chain.from_iterable(map(_tensors_in, value.values()))
    elif isinstance(value, list | tuple):
        yield from itertools.chain.from_iterable(map(_tensors_in, value))


def _as_array(memory: torch.Tensor, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
    """Return an array in a tensor of bytes, which it keeps alive."""
    # the interface of numba-cuda supports neither empty arrays nor records; records are passed as bytes
    if math.prod(shape) == 0:
        array: Any = cuda.device_array(shape, dtype)
    else:
        is_plain = dtype.names is None
        interface = {
            "shape": shape if is_plain else (math.prod(shape) * dtype.itemsize,),
            "typestr": dtype.str if is_plain else "|u1",
            "data": (memory.data_ptr() + start, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }
        array = cuda.from_cuda_array_interface(interface, owner=memory, sync=False)
        array = array if is_plain else array.view(dtype).reshape(shape)
    array.l5kit_memory = (memory, start, dtype)
    return array


@functools.lru_cache(maxsize=64)
def _stream_of(handle: int) -> Any:
    """Return a torch stream as a numba-cuda stream."""
    return cuda.external_stream(handle) if handle else cuda.default_stream()


@functools.cache
def launcher_of(kernel: Kernel) -> Any:
    """Return a launchable function that runs a kernel with one thread for each item."""

    def launch(num_items: int, arguments: KernelArguments) -> None:
        item: Any = np.int64(cuda.grid(1))
        if item < num_items:
            kernel(item, arguments)

    launch.__name__ = launch.__qualname__ = f"l5kit_{getattr(kernel, '__name__', 'kernel').lstrip('_')}"
    return cuda.jit(launch, lto=False)  # link-time optimization would contract products and sums again


warnings.filterwarnings("ignore", message="Grid size .* will likely result in GPU under-utilization")
"""Small workloads have few threads; the warning does not help users."""

_compiling = threading.local()
_nvvm: Any = nvvm
_compile_ir: Callable[..., Any] = _nvvm.compile_ir


def _compile_without_contraction(modules: Any, **options: Any) -> Any:
    if getattr(_compiling, "is_exact", False):
        options["fma"] = False
    return _compile_ir(modules, **options)


_nvvm.compile_ir = _compile_without_contraction
"""Kernels of this module round each product and each sum, like the CPU, so that both give the same bits.

The compiler would contract them to fused multiply-adds, and numba-cuda has no option against that. Kernels of others
are compiled as usual.
"""


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Compile kernels in this block without contracting products and sums."""
    _compiling.is_exact = True
    try:
        yield
    finally:
        _compiling.is_exact = False
