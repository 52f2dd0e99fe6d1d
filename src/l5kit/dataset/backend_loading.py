"""Loaders for a backend: batches that are made there, or made on the processor and sent ahead of use."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Subset

from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.batch_loader import BatchLoader, BatchPlan, BatchSource
from l5kit.dataset.device_samples import DeviceSamples, joined, makes_on_device
from l5kit.dataset.joined import JoinedDataset
from l5kit.dataset.reseeding import BatchMaker, BatchOrder
from l5kit.dataset.sample_batch import collate
from l5kit.dataset.thread_loader import ThreadLoader
from l5kit.device.backend import Backend

__all__ = ["BackendLoader", "SendingLoader", "can_load_on_device"]

Batch = dict[str, torch.Tensor]


def can_load_on_device(source: BatchSource) -> bool:
    """Return whether a device can make the batches of a source; see :class:`BackendLoader`."""
    return source.collate_fn is collate and _can_make(source.dataset)


class BackendLoader(ThreadLoader):
    """Batches that are made on a backend, from a log that lies there or from the records that they need.

    They are those that the processor makes, in the same order, with the same random numbers. Datasets may be those of
    which :func:`~l5kit.dataset.device_samples.makes_on_device` is true, a ``Subset`` of torch or a ``JoinedDataset`` of
    them.

    Args:
        plan: Which batches.
        source: What they are made of.
        backend: The backend.
        num_threads: Threads that ask the device for batches, each in a stream of its own; with 0 each batch is made
            when it is asked for.

    Raises:
        InvalidArgumentError: Several threads would draw from one perturbation.
    """

    _instead_of_threads = "threads=1"

    def __init__(self, plan: BatchPlan, source: BatchSource, *, backend: Backend, num_threads: int) -> None:
        super().__init__(plan, source, num_threads=num_threads)
        self._backend = backend
        self._samples = _assemble(source.dataset, backend, num_threads)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what lies on the device, where it is put again by who receives this."""
        return {name: value for name, value in vars(self).items() if name != "_samples"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._samples = _assemble(self._source.dataset, self._backend, self.num_threads)

    def _new_maker(self) -> BatchMaker:
        return BatchMaker(self._source.dataset, self._source.collate_fn)

    def _make(self, maker: BatchMaker, order: BatchOrder) -> Batch:
        maker.reseed(order)
        return self._samples.make(maker.dataset, list(order.indices))

    def _make_batches(self, orders: Iterator[BatchOrder]) -> Iterator[object]:
        if self.num_threads == 0:
            return super()._make_batches(orders)
        return self._hand_over(self._run_ahead(self._make_ahead, orders))

    def _make_ahead(self, maker: BatchMaker, order: BatchOrder) -> Callable[[], Batch]:
        return self._backend.make_ahead(lambda: self._make(maker, order))

    def _hand_over(self, ahead: Generator[Callable[[], Batch], None, None]) -> Iterator[Batch]:
        """Yield batches; whoever leaves early waits for those that are being made, as their log may leave with it."""
        try:
            with closing(ahead):
                for hand_over in ahead:
                    yield hand_over()
        finally:
            self._backend.wait()


class SendingLoader(BatchLoader):
    """Batches that are made on the processor, and sent to a device one ahead of use, beside what runs there.

    Args:
        loader: Makes them, best in pinned memory.
        plan: Which batches, those of the loader.
        source: What they are made of.
        backend: The device.
    """

    def __init__(self, loader: BatchLoader, plan: BatchPlan, source: BatchSource, *, backend: Backend) -> None:
        super().__init__(plan, source)
        self._loader, self._backend = loader, backend

    def _make_batches(self, orders: Iterator[BatchOrder]) -> Iterator[object]:
        ahead: deque[Callable[[], object]] = deque()
        for batch in self._loader.make_batches(orders):
            ahead.append(self._backend.make_ahead(lambda batch=batch: _sent(batch, self._backend.device)))  # type: ignore[misc]
            if len(ahead) > 1:
                yield ahead.popleft()()
        while ahead:
            yield ahead.popleft()()


def _sent(value: Any, device: str) -> Any:
    """Return tensors, in lists, tuples and dictionaries too, on a device; anything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, dict):
        return {key: _sent(part, device) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_sent(part, device) for part in value)
    return value


class _Assembly(Protocol):
    """Makes batches of a dataset, or of datasets within it."""

    def make(self, dataset: Any, indices: Sequence[int]) -> Batch:
        """Return samples of a dataset that has the same parts as the one that this was made for."""


class _OfDataset:
    def __init__(self, dataset: BaseEgoDataset, backend: Backend, num_threads: int) -> None:
        self._samples = DeviceSamples(dataset, backend, num_threads=num_threads)

    def make(self, dataset: BaseEgoDataset, indices: Sequence[int]) -> Batch:
        return self._samples.make(indices, dataset)


class _OfSubset:
    def __init__(self, inner: _Assembly) -> None:
        self._inner = inner

    def make(self, dataset: "Subset[Any]", indices: Sequence[int]) -> Batch:
        return self._inner.make(dataset.dataset, [int(dataset.indices[index]) for index in indices])


class _OfJoined:
    def __init__(self, parts: Sequence[_Assembly]) -> None:
        self._parts = parts

    def make(self, dataset: JoinedDataset, indices: Sequence[int]) -> Batch:
        places = np.array([dataset.place_of(index) for index in indices], np.int64).reshape(-1, 2)
        used = np.unique(places[:, 0]).tolist()
        rows = [np.flatnonzero(places[:, 0] == part) for part in used]
        made = [
            self._parts[part].make(dataset.parts[part], places[of_part, 1].tolist())
            for part, of_part in zip(used, rows, strict=True)
        ]
        if len(made) == 1:
            only: Batch = made[0]
            return only
        order = torch.from_numpy(np.argsort(np.concatenate(rows)))
        order = order.to(next(iter(made[0].values())).device)
        return {key: column[order] for key, column in joined(made).items()}


def _can_make(dataset: object) -> bool:
    if type(dataset) is Subset:
        return _can_make(dataset.dataset)
    if type(dataset) is JoinedDataset:
        return all(_can_make(part) for part in dataset.parts)
    return makes_on_device(dataset)


def _assemble(dataset: object, backend: Backend, num_threads: int) -> _Assembly:
    """Return what makes batches of a dataset of which :func:`_can_make` is true, in some threads at the same time."""
    if isinstance(dataset, Subset):
        return _OfSubset(_assemble(dataset.dataset, backend, num_threads))
    if isinstance(dataset, JoinedDataset):
        return _OfJoined([_assemble(part, backend, num_threads) for part in dataset.parts])
    assert isinstance(dataset, BaseEgoDataset)
    return _OfDataset(dataset, backend, num_threads)
