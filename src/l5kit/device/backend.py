"""Backend: what runs kernels on a device, and holds the arrays that they read and write.

A *kernel* is a function of numba, ``kernel(item, arguments)``, that does the work of one item: a window, a row of a
picture, a vehicle. It takes a tuple of arrays and numbers, allocates nothing, and writes nothing that another item
reads. So one source runs everywhere: :class:`~l5kit.device.processor.ProcessorBackend` calls it in a loop,
:class:`~l5kit.device.cuda.CudaBackend` gives each item a thread of a GPU.
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
"""Arguments of a kernel, in the order that its docstring gives; numba types them by what it is called with."""

Kernel = Callable[[int, KernelArguments], None]
"""A function compiled by ``numba.njit`` that does one item: its number, and the arguments as one tuple."""

_Made = TypeVar("_Made")
_Parts = TypeVar("_Parts")

DeviceArray = Any
"""An array of a backend, as kernels take it: of NumPy on the processor, of numba-cuda on a GPU."""


class Backend(ABC):
    """Runs kernels on one device; several threads may use it at once.

    Attributes:
        device: Its name, as torch says it: ``cpu`` or ``cuda:0``.
        is_serial: Whether items run in memory of the processor, one after the other in each of few threads. Who asks
            for this runs several kernels for one item before the next.
    """

    device: str
    is_serial: bool

    @abstractmethod
    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> DeviceArray:
        """Return a C-contiguous array with undefined content, of numbers or of records."""

    @abstractmethod
    def full(self, shape: int | tuple[int, ...], value: float, dtype: DTypeLike = np.float64) -> DeviceArray:
        """Return a C-contiguous array of numbers that are all the same."""

    @abstractmethod
    def upload(self, arrays: Sequence[NumericArray | RecordArray]) -> list[DeviceArray]:
        """Return copies of arrays on the device, sent together, which is much faster than one by one.

        Whatever is done to the given arrays afterwards does not reach the copies, which are C-contiguous.
        """

    @abstractmethod
    def put(self, array: DeviceArray, first: int, rows: NumericArray | RecordArray) -> None:
        """Write rows of the same type into an array from its row ``first`` on."""

    @abstractmethod
    def tensor(self, array: DeviceArray) -> "torch.Tensor":
        """Return a tensor of torch that shares the memory of an array of numbers."""

    @abstractmethod
    def array(self, tensor: "torch.Tensor") -> DeviceArray:
        """Return an array that shares the memory of a tensor of torch, which lies on this device."""

    @abstractmethod
    def view(self, array: DeviceArray, dtype: DTypeLike) -> DeviceArray:
        """Return the memory of an array as one axis of numbers of another type, whose size divides it."""

    @abstractmethod
    def run(self, kernel: Kernel, num_items: int, *arguments: Any) -> None:
        """Run a kernel for the items from 0 on; what it writes is there for all that is run or requested later.

        Args:
            kernel: What does one item.
            num_items: How many items, 0 for nothing to do.
            *arguments: Arrays of this backend, numbers, and tuples of them.
        """

    @abstractmethod
    def rows_at_once(self, num_items: int) -> int:
        """Return how many rows of room kernels need for so many items; item n has the row n modulo this number."""

    @abstractmethod
    def make_ahead(self, make: Callable[[], _Made]) -> Callable[[], _Made]:
        """Make tensors beside what else runs on the device, in an order of their own.

        Args:
            make: Makes them, as tensors and lists, tuples and dictionaries of them, by kernels or by torch.

        Returns:
            What hands them over: what is requested after it is called waits for them. The calling thread does not.
        """

    @abstractmethod
    def free_bytes(self) -> int:
        """Return how much memory of the device is free for new arrays."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until everything that was requested is done."""

    def upload_one(self, array: NumericArray | RecordArray) -> DeviceArray:
        """Return a copy of one array on the device."""
        return self.upload([array])[0]

    def shared(self, parts: _Parts) -> _Parts:
        """Return tuples whose arrays kernels of this device read: copies, sent together, or those of the processor."""
        return parts if self.is_serial else self.upload_tuple(parts)

    def upload_tuple(self, parts: _Parts) -> _Parts:
        """Return tuples with copies of their arrays on the device, sent together; what else is in them stays."""
        sent = iter(self.upload(list(_arrays_in(parts))))
        copied: _Parts = _with_arrays(parts, sent)
        return copied

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> DeviceArray:
        """Return a C-contiguous array of zeros."""
        return self.full(shape, 0, dtype)


def _arrays_in(parts: Any) -> Iterator[NumericArray]:
    """Give the arrays in nested tuples, one after the other."""
    if isinstance(parts, np.ndarray):
        yield parts
    elif isinstance(parts, tuple):
        for part in parts:
            yield from _arrays_in(part)


def _with_arrays(parts: Any, arrays: Iterator[DeviceArray]) -> Any:
    """Return nested tuples of the same types with other arrays, in the same order."""
    if isinstance(parts, np.ndarray):
        return next(arrays)
    if not isinstance(parts, tuple):
        return parts
    replaced = [_with_arrays(part, arrays) for part in parts]
    make = getattr(parts, "_make", tuple)
    return make(replaced)


def plain_tuples(argument: Any) -> Any:
    """Return an argument of a kernel with plain tuples in place of named ones, which no GPU need know."""
    return tuple(map(plain_tuples, argument)) if isinstance(argument, tuple) else argument
