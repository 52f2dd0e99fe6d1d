"""Batch loaders: batches of samples in a given order, made on request or by threads."""

import itertools
import queue
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np

from l5kit._overriding import overrides
from l5kit.data.jobs.own_threads import own_threads
from l5kit.dataset.rank_sampler import RankSampler
from l5kit.dataset.reseeding import BatchMaker, BatchOrder, CollateFn
from l5kit.dataset.sample_batch import allocate_pinned
from l5kit.errors import InvalidArgumentError
from l5kit.random.seeding import mix_seeds

if TYPE_CHECKING:
    import torch

_Made = TypeVar("_Made")


class IndexedSamples(Protocol):
    """A dataset with a length and samples by index, of this package, of torch or of a user."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def __getitem__(self, index: int, /) -> object:
        """Return a sample."""


@dataclass(frozen=True)
class BatchPlan:
    """Plan of the samples and random numbers of the batches of each epoch.

    Attributes:
        sampler: Yields the indices of an epoch.
        batch_size: Samples in a batch.
        drop_last: Whether to drop an incomplete last batch.
        seed: Seed of the random numbers, with the epoch, the rank and the index of a batch.
        rank: Rank of this process.
    """

    sampler: Iterable[int]
    batch_size: int
    drop_last: bool
    seed: int
    rank: int

    def __len__(self) -> int:
        """Return the number of batches of an epoch.

        Raises:
            TypeError: The sampler has no length.
        """
        num_samples = length_of(self.sampler)
        return num_samples // self.batch_size if self.drop_last else -(-num_samples // self.batch_size)

    def orders(self, epoch: int, *, first: int = 0) -> Iterator[BatchOrder]:
        """Yield the orders of the batches of an epoch.

        Args:
            epoch: The epoch.
            first: Index of the first batch.
        """
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)
        if isinstance(self.sampler, RankSampler) and not overrides(self.sampler, "__iter__", base=RankSampler):
            indices = self.sampler.iterate_from(first * self.batch_size)
        else:
            indices = itertools.islice(self.sampler, first * self.batch_size, None)
        for number in itertools.count(first):
            chosen = list(itertools.islice(indices, self.batch_size))
            if not chosen or (self.drop_last and len(chosen) < self.batch_size):
                return
            yield BatchOrder(chosen, mix_seeds(self.seed, epoch, self.rank, number))


@dataclass(frozen=True)
class BatchSource:
    """Dataset of batches, and options for making them.

    Attributes:
        dataset: The samples.
        collate_fn: Makes a batch from a list of samples.
        pin_memory: Whether tensors are returned in pinned memory.
        prefetch: Batches that each thread or worker makes ahead of use.
    """

    dataset: IndexedSamples
    collate_fn: CollateFn
    pin_memory: bool
    prefetch: int


class BatchLoader(ABC):
    """Batches of a dataset, one iteration per epoch; :func:`l5kit.dataset.loader` makes one.

    Several iterations may run at the same time.

    Args:
        plan: Plan of the batches.
        source: Dataset of the batches.
    """

    def __init__(self, plan: BatchPlan, source: BatchSource) -> None:
        self._plan = plan
        self._source = source
        self._epoch = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.batch_size} samples a batch of {self.dataset!r}>"

    @property
    def dataset(self) -> IndexedSamples:
        """The dataset."""
        return self._source.dataset

    @property
    def batch_size(self) -> int:
        """Samples in a batch."""
        return self._plan.batch_size

    @property
    def sampler(self) -> Iterable[int]:
        """Sampler of the indices of an epoch."""
        return self._plan.sampler

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; later ones continue from there.

        Args:
            epoch: At least 0.

        Raises:
            InvalidArgumentError: ``epoch`` is negative.
        """
        require_at_least(epoch=(epoch, 0))
        self._epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return len(self._plan)

    def __iter__(self) -> Iterator[Any]:
        """Return the batches of the next epoch.

        Raises:
            IndexError: The sampler gave an index outside the dataset.
            SampleError: A sample of the current batch cannot be made.
        """
        epoch, self._epoch = self._epoch, self._epoch + 1
        return self.make_batches(self._plan.orders(epoch))

    @abstractmethod
    def make_batches(self, orders: Iterator[BatchOrder]) -> Iterator[object]:
        """Yield the batches of orders, in sequence, independent of the current epoch."""


def run_ahead(
    make: Callable[[BatchOrder], _Made], orders: Iterator[BatchOrder], *, num_threads: int, num_ahead: int
) -> Generator[_Made, None, None]:
    """Yield the batches of orders made by threads, in sequence; closing the generator ends the threads."""
    pending: deque[Future[_Made]] = deque()
    with own_threads(num_threads, name="l5kit-loader") as threads:
        for order in orders:
            pending.append(threads.submit(make, order))
            if len(pending) > num_ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def length_of(sized: object) -> int:
    """Return the length of a dataset or a sampler.

    Raises:
        InvalidArgumentError: It has none.
    """
    if not isinstance(sized, Sized):
        raise InvalidArgumentError(f"{sized!r} has no length; pass a dataset or a sampler that has one")
    return len(sized)


def require_at_least(**values: tuple[int, int]) -> None:
    """Refuse arguments that are not whole numbers or are below a minimum, given as ``name=(value, minimum)``.

    Raises:
        InvalidArgumentError: There is one.
    """
    for name, (value, least) in values.items():
        if not isinstance(value, (int, np.integer)) or value < least:
            raise InvalidArgumentError(f"{name} is {value!r}; it must be a whole number of at least {least}")


class ThreadLoader(BatchLoader):
    """Batches made by threads of this process.

    Args:
        plan: Plan of the batches.
        source: Dataset of the batches.
        num_threads: Number of threads; 0 to make each batch on request.

    Raises:
        InvalidArgumentError: Several threads would draw from one perturbation.
    """

    _instead_of_threads: ClassVar[str] = "threads=1, or num_workers"

    def __init__(self, plan: BatchPlan, source: BatchSource, *, num_threads: int) -> None:
        super().__init__(plan, source)
        self.num_threads = num_threads
        if num_threads > 1 and self._new_maker().reseeds_shared:
            raise InvalidArgumentError(
                f"threads is {num_threads}, but {source.dataset!r} has a custom sample function with a "
                f"perturbation, which threads would share; pass {self._instead_of_threads}"
            )

    def _new_maker(self) -> BatchMaker:
        new_memory = allocate_pinned if self._source.pin_memory else None
        return BatchMaker(self._source.dataset, self._source.collate_fn, new_memory=new_memory)

    def make_batches(self, orders: Iterator[BatchOrder]) -> Iterator[object]:
        """Yield the batches of orders; see :class:`BatchLoader`."""
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
        """Yield the batches that threads make of orders ahead of use, each thread with its own maker."""
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
    """Return a batch with its tensors in pinned memory; tensors that are pinned or on a device are not copied."""
    return with_tensors(batch, lambda tensor: tensor.pin_memory() if tensor.device.type == "cpu" else tensor)


def with_tensors(value: object, change: "Callable[[torch.Tensor], torch.Tensor]") -> object:
    """Return a value with a function applied to each tensor, including those in dictionaries, lists and tuples."""
    import torch

    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: with_tensors(part, change) for key, part in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(with_tensors(part, change) for part in value)
    return value
