"""CPU backend: kernels in a loop on NumPy arrays.

It runs the same kernels on the same data as the GPU backend, for machines without a GPU and for tests.
"""

import functools
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache, NullCache
from numpy.typing import DTypeLike

from l5kit._types import NumericArray, RecordArray
from l5kit.device.backend import Backend, Kernel, KernelArguments
from l5kit.device.kernels import uncounted

if TYPE_CHECKING:
    import torch

_LEAST_ITEMS: Final = 64
"""Items per thread below which handing them to threads takes longer than the work."""

_Made = TypeVar("_Made")

Loop: TypeAlias = Callable[..., None]
"""A compiled loop over items ``first``, ``first + step``, ... below ``num_items``; kernel arguments follow these."""


class ProcessorBackend(Backend):
    """Backend that runs kernels on the CPU, one item after the other, in one or several threads.

    Args:
        num_threads: Number of threads, including the calling one. Results do not depend on it.
    """

    device = "cpu"
    is_serial = True

    def __init__(self, num_threads: int = 1) -> None:
        self.num_threads = num_threads
        self._threads: ThreadPoolExecutor | None = None
        self._process = 0

    def __reduce__(self) -> tuple[object, ...]:
        """Return the constructor and number of threads; unpickling opens new threads."""
        return type(self), (self.num_threads,)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NumericArray:
        """Return an array with undefined content."""
        return np.empty(shape, dtype)

    def full(self, shape: int | tuple[int, ...], value: float, dtype: DTypeLike = np.float64) -> NumericArray:
        """Return an array filled with one number."""
        return np.full(shape, value, dtype)

    def upload(self, arrays: Sequence[NumericArray | RecordArray]) -> list[NumericArray]:
        """Return copies of arrays."""
        return [np.array(array, order="C") for array in arrays]

    def put(self, array: NumericArray, first: int, rows: NumericArray | RecordArray) -> None:
        """Write rows into an array from its row ``first`` on."""
        array[first : first + len(rows)] = rows

    def tensor(self, array: NumericArray) -> "torch.Tensor":
        """Return a tensor that shares the memory of an array."""
        import torch

        return torch.from_numpy(array)

    def array(self, tensor: "torch.Tensor") -> NumericArray:
        """Return an array that shares the memory of a tensor."""
        shared: NumericArray = tensor.numpy()
        return shared

    def view(self, array: NumericArray, dtype: DTypeLike) -> NumericArray:
        """Return the memory of an array as a flat array of another dtype."""
        return array.reshape(-1).view(dtype)

    def run(self, kernel: Kernel, num_items: int, *arguments: Any) -> None:
        """Run a kernel for the items 0 to ``num_items - 1``."""
        if num_items > 0:
            self.run_loop(_loop_of(kernel), num_items, arguments)

    def run_loop(self, loop: Loop, num_items: int, *arguments: Any) -> None:
        """Run a compiled loop over items in all threads; items are interleaved, so each thread has one scratch row."""
        step = self.num_threads
        if step == 1 or num_items < step * _LEAST_ITEMS:
            loop(0, 1, num_items, *arguments)
            return
        # open the other threads, also in a forked process, which does not inherit them
        if self._threads is None or self._process != os.getpid():
            self._threads = ThreadPoolExecutor(step - 1, thread_name_prefix="l5kit kernels")
            self._process = os.getpid()
        threads = self._threads
        running = [threads.submit(loop, first, step, num_items, *arguments) for first in range(1, step)]
        try:
            loop(0, step, num_items, *arguments)
        finally:
            wait(running)  # also after Ctrl-C: no thread writes after this returns
        for future in running:
            future.result()

    def rows_at_once(self, num_items: int) -> int:  # noqa: ARG002 -- depends on the threads only
        """Return the number of threads, as each thread uses one row."""
        return self.num_threads

    def make_ahead(self, make: Callable[[], _Made]) -> Callable[[], _Made]:
        """Make the tensors immediately."""
        made = make()
        return lambda: made

    def free_bytes(self) -> int:
        """Return the largest integer: CPU memory is not tracked here."""
        return sys.maxsize

    def wait(self) -> None:
        """Return immediately: nothing runs in the background."""


@functools.cache
def _loop_of(kernel: Kernel) -> Loop:
    """Return the loop over the items of a kernel; it is cached on disk next to the kernel if that is."""
    dispatcher, disk_cache = cast("Any", kernel), cast("Callable[[Any], Any]", FunctionCache)

    @njit(nogil=True, error_model="numpy")
    def loop(first: int, step: int, num_items: int, arguments: KernelArguments) -> None:
        arguments = uncounted(arguments)
        for item in range(first, num_items, step):
            kernel(item, arguments)

    # numba does not cache closures over a kernel on disk, so the loop is cached under the name of the kernel
    if not isinstance(dispatcher._cache, NullCache):
        source = dispatcher.py_func
        named = FunctionType(source.__code__, {})
        named.__qualname__ = f"{source.__qualname__}_of_all"
        cast("Any", loop)._cache = disk_cache(named)
    compiled: Loop = loop
    return compiled
