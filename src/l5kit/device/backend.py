"""Backend: runs kernels on a device, and holds the arrays that they read and write.

A *kernel* is a numba function, ``kernel(item, arguments)``, that does the work of one item: a window, a row of a
raster, a vehicle. It takes a tuple of arrays and numbers, allocates nothing, and writes nothing that another item
reads. So one source runs everywhere: :class:`~l5kit.device.processor.ProcessorBackend` calls it in a loop,
:class:`~l5kit.device.cuda.CudaBackend` runs one GPU thread for each item.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import NumericArray, RecordArray

if TYPE_CHECKING:
    import torch

KernelArguments: TypeAlias = tuple[Any, ...]
"""Arguments of a kernel, in the order of its docstring; numba derives their types from the call."""

Kernel = Callable[[int, KernelArguments], None]
"""A function compiled by ``numba.njit`` that does one item; takes the item index, and the arguments as one tuple."""

_Made = TypeVar("_Made")
_Parts = TypeVar("_Parts")

DeviceArray = Any
"""An array of a backend, as passed to kernels: a NumPy array on the CPU, a numba-cuda array on a GPU."""


class Backend(ABC):
    """Interface for running kernels on one device; it is thread-safe.

    Attributes:
        device: Name of the device in torch: ``cpu`` or ``cuda:0``.
        is_serial: Whether items run in host memory, one after the other in each of few threads. Callers then run
            several kernels for one item before the next.
    """

    device: str
    is_serial: bool

    @abstractmethod
    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> DeviceArray:
        """Return a C-contiguous array of numbers or records with undefined content."""

    @abstractmethod
    def full(self, shape: int | tuple[int, ...], value: float, dtype: DTypeLike = np.float64) -> DeviceArray:
        """Return a C-contiguous array filled with one number."""

    @abstractmethod
    def upload(self, arrays: Sequence[NumericArray | RecordArray]) -> list[DeviceArray]:
        """Return copies of arrays on the device, sent in one transfer, which is much faster than several.

        The copies are C-contiguous, and do not change with the given arrays.
        """

    @abstractmethod
    def put(self, array: DeviceArray, first: int, rows: NumericArray | RecordArray) -> None:
        """Write rows of the same dtype into an array, from its row ``first`` on."""

    @abstractmethod
    def tensor(self, array: DeviceArray) -> "torch.Tensor":
        """Return a torch tensor that shares the memory of an array of numbers."""

    @abstractmethod
    def array(self, tensor: "torch.Tensor") -> DeviceArray:
        """Return an array that shares the memory of a torch tensor on this device."""

    @abstractmethod
    def view(self, array: DeviceArray, dtype: DTypeLike) -> DeviceArray:
        """Return the memory of an array as a flat array of another dtype, whose size must divide it."""

    @abstractmethod
    def run(self, kernel: Kernel, num_items: int, *arguments: Any) -> None:
        """Run a kernel for the items 0 to ``num_items - 1``; all later runs and requests see its results.

        Args:
            kernel: The kernel.
            num_items: Number of items; 0 does nothing.
            *arguments: Arrays of this backend, numbers, and tuples of them.
        """

    @abstractmethod
    def rows_at_once(self, num_items: int) -> int:
        """Return the number of scratch rows for kernels on ``num_items``; item n uses row n modulo this number."""

    @abstractmethod
    def make_ahead(self, make: Callable[[], _Made]) -> Callable[[], _Made]:
        """Make tensors concurrently with other work on the device, in a stream of their own.

        Args:
            make: Makes tensors, or lists, tuples and dictionaries of them, with kernels or torch.

        Returns:
            Function that returns the tensors: work requested after its call waits for them, the calling thread does
            not.
        """

    @abstractmethod
    def free_bytes(self) -> int:
        """Return how many bytes of device memory are free for new arrays."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until all requested work is done."""

    def upload_one(self, array: NumericArray | RecordArray) -> DeviceArray:
        """Return a copy of one array on the device."""
        return self.upload([array])[0]

    def shared(self, parts: _Parts) -> _Parts:
        """Return tuples whose arrays kernels of this device can read: the same on the CPU, else copies."""
        return parts if self.is_serial else self.upload_tuple(parts)

    def upload_tuple(self, parts: _Parts) -> _Parts:
        """Return tuples with their arrays copied to the device in one transfer; other values stay."""
        sent = iter(self.upload(list(_arrays_in(parts))))
        copied: _Parts = _with_arrays(parts, sent)
        return copied

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> DeviceArray:
        """Return a C-contiguous array of zeros."""
        return self.full(shape, 0, dtype)


def _arrays_in(parts: Any) -> Iterator[NumericArray]:
    """Yield the arrays in nested tuples, in order."""
    if isinstance(parts, np.ndarray):
        yield parts
    elif isinstance(parts, tuple):
        for part in parts:
            yield from _arrays_in(part)


def _with_arrays(parts: Any, arrays: Iterator[DeviceArray]) -> Any:
    """Return nested tuples of the same types with their arrays replaced in order."""
    if isinstance(parts, np.ndarray):
        return next(arrays)
    if not isinstance(parts, tuple):
        return parts
    replaced = [_with_arrays(part, arrays) for part in parts]
    make = getattr(parts, "_make", tuple)
    return make(replaced)


def plain_tuples(argument: Any) -> Any:
    """Return an argument of a kernel with named tuples replaced by plain ones, which suffice on a GPU."""
    return tuple(map(plain_tuples, argument)) if isinstance(argument, tuple) else argument
