"""A backend that also compiles each kernel for a GPU, which needs none."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from numba import typeof, types

from l5kit.device.backend import Kernel, plain_tuples
from l5kit.device.processor import ProcessorBackend

COMPUTE_CAPABILITY = (9, 0)
"""Of the GPU that is compiled for: an H100 or H200."""


class CompilingBackend(ProcessorBackend):
    """Runs kernels on the processor as on a GPU, and keeps the assembly of each for one, by its name."""

    is_serial = False

    def __init__(self) -> None:
        super().__init__()
        self.assembly: dict[str, str] = {}
        self._known: set[tuple[Any, Any]] = set()

    def rows_at_once(self, num_items: int) -> int:
        return num_items

    def run(self, kernel: Kernel, num_items: int, *arguments: Any) -> None:
        arguments = plain_tuples(arguments)
        kinds = _of_device(typeof(arguments))
        if num_items > 0 and (kernel, kinds) not in self._known:
            self._known.add((kernel, kinds))
            name = getattr(kernel, "__name__", str(kernel))
            self.assembly[name] = _assembly(kernel, kinds)
        super().run(kernel, num_items, *arguments)


@contextmanager
def compiling_backend() -> Iterator[CompilingBackend]:
    """Give such a backend, or skip where numba-cuda or the compiler is not installed."""
    pytest.importorskip("numba_cuda", reason="numba-cuda (extra gpu) is not installed")
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import nvvm

    try:
        nvvm.NVVM()
    except Exception as error:  # of several kinds
        pytest.skip(f"the compiler of NVIDIA cannot be used here: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=COMPUTE_CAPABILITY))
        yield CompilingBackend()


def _assembly(kernel: Kernel, kinds: Any) -> str:
    """Return what the backend of a GPU would compile."""
    from numba import cuda

    from l5kit.device.cuda import exact_arithmetic, launcher_of

    compiling: Any = cuda
    with exact_arithmetic():
        assembly, _ = compiling.compile_ptx(launcher_of(kernel).py_func, (types.int64, kinds), cc=COMPUTE_CAPABILITY)
    return str(assembly)


def _of_device(kind: Any) -> Any:
    """Return the type of an argument of the processor as one on a GPU."""
    if isinstance(kind, types.BaseTuple):
        return types.Tuple(tuple(map(_of_device, kind)))
    if isinstance(kind, types.Array):
        return types.Array(kind.dtype, kind.ndim, kind.layout, readonly=False, aligned=True)
    return kind
