"""Policy weights as arrays: a reader of torch files that needs no torch and runs no code from them."""

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from l5kit._types import Float32Array, UInt8Array

_CONTENT: Final = "/data.pkl"
_MARK_OF_FOLDER: Final = 0x10
"""Attribute of archive members that torch treats as folders and does not read."""


def read_arrays(content: bytes) -> object:
    """Return the content of a ``torch.save`` file, with tensors as arrays.

    Tensors become float32 arrays of their shapes. Tensors of other dtypes, without values, or larger than their storage
    become None.

    Args:
        content: Bytes of the file, an archive of torch.

    Raises:
        zipfile.BadZipFile: It is not a torch archive.
        pickle.UnpicklingError: It holds objects other than dicts, strings, numbers and tensors.
        ValueError: A tensor has an impossible shape. Damaged bytes may raise other errors of :mod:`pickle`.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if name.endswith(_CONTENT) and name.count("/") == 1]
        if len(names) != 1:
            raise zipfile.BadZipFile("it has no data.pkl, or several")
        return _Reader(archive, folder=names[0].removesuffix(_CONTENT)).load()


@dataclass(frozen=True)
class _Storage:
    """Storage of tensors; ``values`` is None if it is not float32 in host memory."""

    values: Float32Array | None


class _Reader(pickle.Unpickler):
    """Unpickler of torch archives that calls nothing but the functions of :meth:`find_class`."""

    def __init__(self, archive: zipfile.ZipFile, *, folder: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{folder}{_CONTENT}")))
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str, /) -> Any:
        """Return one of the few functions that rebuild tensors, or the name of a storage type."""
        known: dict[tuple[str, str], Callable[..., object]] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
        }
        if module == "torch" and name.endswith("Storage"):
            return name
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"it holds {module}.{name}, which is not a weight")
        return known[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage of a tensor."""
        _, kind, key, device, _ = pid
        if kind != "FloatStorage" or device != "cpu":
            return _Storage(None)
        part = self._archive.getinfo(f"{self._folder}/data/{key}")
        if part.external_attr & _MARK_OF_FOLDER:
            return _Storage(None)
        content: UInt8Array = np.frombuffer(self._archive.read(part), np.uint8)
        return _Storage(content[: len(content) // 4 * 4].view("<f4"))


def _rebuild(
    storage: object, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object
) -> Float32Array | None:
    """Return a tensor as a new array; None if its values are not in the file."""
    values = storage.values if isinstance(storage, _Storage) else None
    whole = [offset, *shape, *strides]
    if not all(isinstance(value, int) and value >= 0 for value in whole) or len(shape) != len(strides):
        raise ValueError(f"a tensor of shape {shape} with strides {strides}")
    if values is None:
        return None
    # The last element must be in the storage. Sizes are exact Python integers, so that they cannot overflow.
    size = int(np.prod([1, *shape], dtype=object))
    last = offset + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    if size > len(values) or (size > 0 and last >= len(values)):
        return None
    steps = [4 * stride for stride in strides]
    view = np.lib.stride_tricks.as_strided(values[offset:], shape, steps) if size else np.zeros(shape, np.float32)
    return np.array(view, np.float32)
