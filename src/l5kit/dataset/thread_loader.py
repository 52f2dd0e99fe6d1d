"""Thread loader: batches that threads of this process make ahead of use."""

import queue
from collections.abc import Callable, Generator, Iterator
from typing import ClassVar, TypeVar

from l5kit.dataset.allocators import allocate_pinned
from l5kit.dataset.batch_loader import BatchLoader, BatchPlan, BatchSource, run_ahead
from l5kit.dataset.reseeding import BatchMaker, BatchOrder
from l5kit.errors import InvalidArgumentError

__all__ = ["ThreadLoader", "pinned"]

_Made = TypeVar("_Made")


class ThreadLoader(BatchLoader):
    """Batches made by threads of this process.

    Args:
        plan: Which batches.
        source: What they are made of.
        num_threads: How many threads; with 0 each batch is made when it is asked for.

    Raises:
        InvalidArgumentError: Several threads would draw from one perturbation.
    """

    _instead_of_threads: ClassVar[str] = "threads=1, or num_workers"

    def __init__(self, plan: BatchPlan, source: BatchSource, *, num_threads: int) -> None:
        super().__init__(plan, source)
        self.num_threads = num_threads
        if num_threads > 1 and self._new_maker().reseeds_shared:
            raise InvalidArgumentError(
                f"threads is {num_threads}, but {source.dataset!r} makes samples by a function of its own with a "
                f"perturbation, which threads would share; pass {self._instead_of_threads}"
            )

    def _new_maker(self) -> BatchMaker:
        new_memory = allocate_pinned if self._source.pin_memory else None
        return BatchMaker(self._source.dataset, self._source.collate_fn, new_memory=new_memory)

    def _make_batches(self, orders: Iterator[BatchOrder]) -> Iterator[object]:
        if self.num_threads == 0:
            maker = self._new_maker()
            return (self._make(maker, order) for order in orders)
        return self._run_ahead(self._make, orders)

    def _make(self, maker: BatchMaker, order: BatchOrder) -> object:
        """Return a batch."""
        batch = maker(order)
        return pinned(batch) if self._source.pin_memory else batch

    def _run_ahead(
        self, make: Callable[[BatchMaker, BatchOrder], _Made], orders: Iterator[BatchOrder]
    ) -> Generator[_Made, None, None]:
        """Yield what threads make of orders ahead of use, each with a maker of its own."""
        makers: queue.SimpleQueue[BatchMaker] = queue.SimpleQueue()
        for _ in range(self.num_threads):
            makers.put(self._new_maker())

        def make_one(order: BatchOrder) -> _Made:
            maker = makers.get()
            try:
                return make(maker, order)
            finally:
                makers.put(maker)

        num_ahead = self.num_threads * self._source.prefetch
        return run_ahead(make_one, orders, num_threads=self.num_threads, num_ahead=num_ahead)


def pinned(batch: object) -> object:
    """Return a batch with its tensors in pinned memory; those that lie there, or on a device, are not copied."""
    import torch

    if isinstance(batch, torch.Tensor):
        return batch.pin_memory() if batch.device.type == "cpu" else batch
    if isinstance(batch, dict):
        return {key: pinned(value) for key, value in batch.items()}
    if isinstance(batch, list | tuple) and type(batch) in (list, tuple):
        return type(batch)(pinned(value) for value in batch)
    return batch
