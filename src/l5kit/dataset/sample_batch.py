"""Batches of samples in arrays with one row for each sample, and the memory of their rasters."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import Column, NumericArray, Sample
from l5kit.data.display import html_columns
from l5kit.dataset.torch_parts import get_worker_info, require_torch
from l5kit.errors import InvalidArgumentError
from l5kit.rasterization.painter import recycled_memory
from l5kit.sampling.sample_keys import ALIASES, PYTHON_SCALARS

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Memory:
    """An uninitialized array, and the tensor that owns its memory, if any."""

    array: NumericArray
    tensor: "torch.Tensor | None" = None


class Allocator(Protocol):
    """Allocator of memory for exclusive use."""

    def __call__(self, shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
        """Return an uninitialized array."""


def allocate_shared(shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
    """Return memory that a worker process can send without a copy; ordinary memory if no shared memory is left."""
    from l5kit.dataset.worker_memory import new_shared

    array = new_shared(shape, dtype)
    return Memory(recycled_memory.empty(shape, dtype) if array is None else array)


def allocate_pinned(shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
    """Return pinned memory."""
    require_torch("memory that CUDA reads")
    import torch

    tensor = torch.empty(shape, dtype=torch.from_numpy(np.empty(0, dtype)).dtype, pin_memory=True)
    return Memory(tensor.numpy(), tensor)


def default_allocator() -> Allocator | None:
    """Return an allocator of shared memory in a worker of a DataLoader; otherwise None, as samplers recycle memory."""
    return None if get_worker_info() is None else allocate_shared


class SampleBatch(list[Sample]):
    """The samples of a batch: dictionaries whose values are views of the arrays of the batch.

    Args:
        columns: One array for each key of a sample, (B, ...); or a tensor, which may lie on a device.
        tensors: Tensors that own the memory of some of the arrays.

    Attributes:
        columns: One array for each key of a sample, (B, ...).
        tensors: Tensors that own the memory of some of the arrays.
    """

    def __init__(self, columns: dict[str, Column], tensors: "dict[str, torch.Tensor] | None" = None) -> None:
        values = {key: _values_of(key, column) for key, column in columns.items()}
        if "frame_index" in values and "scene_index" in values:
            # frame indices have the types of single items: Python's in the first scene, NumPy's in the others
            values["frame_index"] = [
                int(frame) if scene == 0 else frame
                for frame, scene in zip(values["frame_index"], values["scene_index"], strict=True)
            ]
        # two names of one key hold the same objects
        of_keys = [values[ALIASES.get(key, key)] for key in values]
        super().__init__(dict(zip(values, sample, strict=True)) for sample in zip(*of_keys, strict=True))
        self.columns = columns
        self.tensors = tensors or {}
        self._handed_out = [tuple(sample.values()) for sample in self]

    @property
    def is_untouched(self) -> bool:
        """Whether the list and its samples are unchanged; values of arrays may have been modified."""
        return len(self) == len(self._handed_out) and all(
            len(sample) == len(values) and all(map(operator.is_, sample.values(), values))
            for sample, values in zip(self, self._handed_out, strict=True)
        )

    def _repr_html_(self) -> str:
        """Return a table of the columns for notebooks."""
        return html_columns(f"{len(self)} samples", self.columns)

    def __reduce__(self) -> tuple[type[list[Sample]], tuple[list[Sample]]]:
        return list, (list(self),)


def _values_of(key: str, column: Column) -> list[Any]:
    """Return the values of a column in single samples: views, also of tensors, or Python numbers."""
    if key in PYTHON_SCALARS and isinstance(column, np.ndarray):
        scalars: list[Any] = column.tolist()
        return scalars
    return list(column)


def reuse_images(out: SampleBatch) -> Allocator:
    """Return an allocator that reuses the memory of the rasters of a batch for another one of at most its size.

    Raises:
        InvalidArgumentError: ``out`` is not a batch with rasters.
    """
    if not isinstance(out, SampleBatch) or "image" not in out.columns:
        raise InvalidArgumentError(
            f"out must be a batch with rasters that __getitems__ returned, got {type(out).__name__}"
        )

    def allocate(shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
        images = out.columns["image"]
        if not isinstance(images, np.ndarray):
            raise InvalidArgumentError(
                f"out holds rasters in a tensor, {type(images).__name__} of {images.dtype}, and this dataset draws "
                "NumPy arrays; pass a batch of this dataset"
            )
        if images.shape[1:] != shape[1:] or len(images) < shape[0] or images.dtype != dtype:
            raise InvalidArgumentError(
                f"out holds rasters of shape {images.shape} and type {images.dtype}; this batch needs {shape} and "
                f"{np.dtype(dtype)}: pass a batch of this dataset that is at least as large"
            )
        tensor = out.tensors.get("image")
        return Memory(images[: shape[0]], None if tensor is None else tensor[: shape[0]])

    return allocate


def tensors_of(
    columns: Mapping[str, Column], tensors: "Mapping[str, torch.Tensor] | None" = None
) -> "dict[str, torch.Tensor]":
    """Return columns as tensors that share their memory; the second of two names of one column gets a copy.

    Args:
        columns: Arrays, or tensors on any device, which are returned unchanged.
        tensors: Tensors that own the memory of some of the arrays.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    require_torch("a batch of tensors")
    import torch

    given = tensors or {}
    batch: dict[str, Any] = {
        key: given.get(key, torch.from_numpy(column)) if isinstance(column, np.ndarray) else column
        for key, column in columns.items()
    }
    for alias in ALIASES.keys() & batch.keys():
        batch[alias] = batch[alias].clone()  # in-place changes of one of two keys must not affect the other
    return batch


def collate(samples: Sequence[object]) -> Any:
    """Return samples as one dictionary of tensors, (B, ...), like torch's ``default_collate``.

    Samples that a dataset made as a batch are not copied: the tensors share their memory. Rasters drawn on a device
        stay there. In a worker of a ``DataLoader``, host tensors are of a subclass that is sent to the requesting
        process without a copy and arrives there as plain tensors.

    Args:
        samples: Samples with the same keys, or anything else that ``default_collate`` takes.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    require_torch("a batch of tensors")
    from torch.utils.data import default_collate

    from l5kit.dataset.worker_memory import WorkerTensor

    if not isinstance(samples, SampleBatch) or not samples.is_untouched:
        return default_collate(list(samples))
    batch = tensors_of(samples.columns, samples.tensors)
    if get_worker_info() is None:
        return batch
    return {key: WorkerTensor.of(value) if value.device.type == "cpu" else value for key, value in batch.items()}
