"""Loader: batches made ahead of use by threads of this process, or by other processes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.context import BaseContext

import numpy as np

from l5kit._types import Float64Array
from l5kit.dataset.batch_loader import (
    BatchLoader,
    BatchPlan,
    BatchSource,
    IndexedSamples,
    ThreadLoader,
    length_of,
    pinned,
    require_at_least,
)
from l5kit.dataset.rank_sampler import SceneChoice, ShuffleBy, process_rank
from l5kit.dataset.reseeding import BatchMaker, BatchOrder, CollateFn
from l5kit.dataset.sample_batch import collate
from l5kit.dataset.torch_parts import Dataset, Sampler, require_torch
from l5kit.errors import InvalidArgumentError

StartContext = BaseContext | str
"""Start method of worker processes, as in :mod:`multiprocessing`."""


def loader(
    dataset: IndexedSamples,
    batch_size: int,
    *,
    num_workers: int = 0,
    threads: int = 1,
    shuffle: bool = False,
    shuffle_by: ShuffleBy | None = None,
    fraction: float = 1.0,
    subset_seed: int = 0,
    scene_weights: Float64Array | None = None,
    seed: int = 0,
    drop_last: bool = False,
    sampler: Iterable[int] | None = None,
    collate_fn: CollateFn = collate,
    pin_memory: bool | None = None,
    prefetch: int = 2,
    rank: int | None = None,
    world_size: int | None = None,
    multiprocessing_context: StartContext | None = None,
    device: object = None,
) -> BatchLoader:
    """Return a loader of batches that are made ahead of use; each iteration over it is an epoch.

    Batches come in the order of the samples and are bitwise equal for any number of threads and workers: the random
    numbers of a perturbation depend only on ``seed``, epoch, rank and the index of the batch. In distributed training,
    each process gets different samples and random numbers::

        for batch in loader(AgentDataset(cfg, log, rasterizer), 32, threads=2, shuffle=True, drop_last=True):
            loss = model(batch["image"])

    Args:
        dataset: A dataset of this package, a ``Subset`` or ``ConcatDataset`` of torch around it, or any other with a
            length and samples by index.
        batch_size: Samples in a batch.
        num_workers: Processes that make batches; 0 for threads of this process.
        threads: Threads that make batches; 0 to make each on request. Cannot be combined with ``num_workers``.
        shuffle: Whether each epoch has a different order.
        shuffle_by: ``samples`` to shuffle all samples at once, ``scenes`` to shuffle by blocks of scenes, with bounded
            memory and local reads; None for the latter if there are more than 2**23 samples.
        fraction: Share of the scenes to use, the same in every epoch, above 0 and at most 1.
        subset_seed: Seed of their selection; the scenes of a smaller fraction are a subset of those of a larger one.
        scene_weights: Relative frequency of the samples of each scene of the dataset, (S,); requires ``shuffle``, which
            is then by scenes. The length of an epoch does not change. None for every sample once.
        seed: Seed of the orders and of the random numbers of perturbations; the same in all processes.
        drop_last: Whether to drop samples so that all batches have ``batch_size`` samples and all processes of
            distributed training have the same number of batches, as their synchronisation requires. Otherwise every
            sample is used exactly once.
        sampler: Yields the indices of this process; replaces ``shuffle``. Its ``set_epoch``, if any, is called.
        collate_fn: Makes a batch from a list of samples.
        pin_memory: Whether tensors are in pinned memory; None if CUDA is available.
        prefetch: Batches that each thread or worker makes ahead of use, which bounds the memory.
        rank: Rank of this process in distributed training; None for that of torch.distributed, or of ``RANK`` in the
            environment.
        world_size: Number of processes; None for that of torch.distributed, or of ``WORLD_SIZE`` in the environment.
        multiprocessing_context: Start method of workers, such as ``"spawn"``; None for Python's default.
        device: Device of the tensors of batches: ``cuda``, the current GPU of torch; None or ``cpu`` for host memory. A
            GPU makes the batches itself if it can (:func:`l5kit.dataset.device_samples.makes_on_device`), requested by
            one or more threads; otherwise they are made on the host and sent ahead of use. The results are equal.

    Raises:
        InvalidArgumentError: A value is out of its range, two of them exclude each other, or the device does not exist.
        MissingDependencyError: torch is not installed; or ``device`` is a GPU that torch does not see, or numba-cuda is
            missing.
    """
    require_torch("a loader of batches")
    import torch

    require_at_least(batch_size=(batch_size, 1), num_workers=(num_workers, 0), threads=(threads, 0))
    require_at_least(prefetch=(prefetch, 1), seed=(seed, 0))
    rank, world_size = process_rank(rank, world_size)
    if sampler is None:
        length_of(dataset)
        weights = None if scene_weights is None else np.asarray(scene_weights, np.float64)
        choice = SceneChoice(shuffle_by=shuffle_by, fraction=fraction, subset_seed=subset_seed, weights=weights)
        sampler = choice.sampler_of(
            dataset, shuffle=shuffle, seed=seed, drop_last=drop_last, rank=rank, world_size=world_size
        )
    elif shuffle:
        raise InvalidArgumentError("shuffle is True and a sampler is given, which decides the order; pass one of them")
    elif fraction != 1 or scene_weights is not None:
        given = "scene_weights" if fraction == 1 else f"fraction {fraction}"
        raise InvalidArgumentError(f"{given} and a sampler are given, which decides what is drawn; pass one of them")
    if pin_memory is None:
        pin_memory = torch.cuda.is_available()
    if num_workers > 0 and threads > 1:
        raise InvalidArgumentError(f"threads is {threads} and num_workers is {num_workers}; pass only one of them")
    plan = BatchPlan(sampler, batch_size, drop_last=drop_last, seed=seed, rank=rank)
    source = BatchSource(dataset, collate_fn, pin_memory=pin_memory, prefetch=prefetch)
    makers = BatchMakers(threads, num_workers, multiprocessing_context)
    return new_loader(plan, source, makers, device=device)


@dataclass(frozen=True)
class BatchMakers:
    """Threads or processes that make batches.

    Attributes:
        num_threads: Threads of this process, without workers.
        num_workers: Processes; 0 for threads.
        multiprocessing_context: Start method of processes; None for Python's default.
    """

    num_threads: int
    num_workers: int = 0
    multiprocessing_context: StartContext | None = None


def new_loader(plan: BatchPlan, source: BatchSource, makers: BatchMakers, *, device: object = None) -> BatchLoader:
    """Return the batches of a plan.

    Args:
        plan: Plan of the batches.
        source: Dataset of the batches.
        makers: Threads or processes; a device that makes batches itself needs no workers.
        device: Device of their tensors; None for host memory.

    Raises:
        InvalidArgumentError: The device does not exist, or it makes the batches itself and there are workers.
        MissingDependencyError: It is a GPU that cannot be used.
    """
    if device is not None and str(device) != "cpu":
        from l5kit.dataset.device_samples import BackendLoader, SendingLoader, can_load_on_device
        from l5kit.device.opening import open_backend

        # batches that a device cannot make are made here and sent ahead of use
        backend = open_backend(device)
        if not can_load_on_device(source):
            return SendingLoader(new_loader(plan, source, makers), plan, source, backend=backend)
        if makers.num_workers > 0:
            raise InvalidArgumentError(
                f"num_workers is {makers.num_workers}, but {backend.device} makes these batches itself; leave it out, "
                "and pass threads to request more of them at once"
            )
        return BackendLoader(plan, source, backend=backend, num_threads=makers.num_threads)
    if makers.num_workers == 0:
        return ThreadLoader(plan, source, num_threads=makers.num_threads)
    return WorkerLoader(
        plan, source, num_workers=makers.num_workers, multiprocessing_context=makers.multiprocessing_context
    )


class WorkerLoader(BatchLoader):
    """Batches made by other processes, which live as long as this object.

    Args:
        plan: Plan of the batches.
        source: Dataset of the batches.
        num_workers: Number of processes.
        multiprocessing_context: Their start method; None for Python's default.
    """

    def __init__(
        self,
        plan: BatchPlan,
        source: BatchSource,
        *,
        num_workers: int,
        multiprocessing_context: StartContext | None,
    ) -> None:
        super().__init__(plan, source)
        self.num_workers = num_workers
        self._multiprocessing_context = multiprocessing_context
        self._idle: list[_Workers] = []

    def make_batches(self, orders: Iterator[BatchOrder]) -> Iterator[object]:
        """Yield the batches of orders; see :class:`BatchLoader`."""
        if self._idle:
            workers = self._idle.pop()
        else:
            context = self._multiprocessing_context
            workers = _Workers(self._source, num_workers=self.num_workers, multiprocessing_context=context)
        is_usable = False
        try:
            for batch in workers.run(orders):
                yield pinned(batch) if self._source.pin_memory else batch
            is_usable = True
        except GeneratorExit:  # on early exit, the workers drop pending orders
            is_usable = True
            raise
        finally:
            if is_usable and not self._idle:
                self._idle.append(workers)
            else:
                workers.stop()

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_idle": []}


class _Workers:
    """Processes that make the batches of successive epochs."""

    def __init__(self, source: BatchSource, *, num_workers: int, multiprocessing_context: StartContext | None) -> None:
        from torch.utils.data import DataLoader

        self._orders = _Orders()
        self._running: Iterator[object] | None = None
        self._batches: DataLoader[object] = DataLoader(
            _BatchesInWorker(source.dataset, source.collate_fn),
            batch_size=None,
            sampler=self._orders,
            collate_fn=_as_it_is,
            num_workers=num_workers,
            prefetch_factor=source.prefetch,
            persistent_workers=True,
            pin_memory=source.pin_memory,
            multiprocessing_context=multiprocessing_context,
        )

    def run(self, orders: Iterator[BatchOrder]) -> Iterator[object]:
        """Return the batches that workers send for orders, in sequence."""
        self._orders.current = orders
        self._running = iter(self._batches)
        return self._running

    def stop(self) -> None:
        """End the processes now; the traceback of an error would keep them alive until garbage collection."""
        shut_down = getattr(self._running, "_shutdown_workers", None)
        if shut_down is not None:
            shut_down()


class _Orders(Sampler[BatchOrder]):
    """Sampler that passes the orders of the current epoch to the workers."""

    def __init__(self) -> None:
        self.current: Iterator[BatchOrder] = iter(())

    def __iter__(self) -> Iterator[BatchOrder]:
        return self.current


class _BatchesInWorker(Dataset[object]):
    """Dataset of a worker process: its batches, by order."""

    def __init__(self, dataset: IndexedSamples, collate_fn: CollateFn) -> None:
        self._dataset = dataset
        self._collate_fn = collate_fn
        self._maker: BatchMaker | None = None

    def __getitem__(self, order: BatchOrder) -> object:
        if self._maker is None:
            self._maker = BatchMaker(self._dataset, self._collate_fn)
        return self._maker(order)


def _as_it_is(batch: object) -> object:
    return batch
