"""Batches of a training: an endless sequence for its steps, which can start anywhere, and those of evaluations."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.utils.data import Subset

from l5kit.configs.runs import LoaderParams
from l5kit.dataset.batch_loader import BatchLoader, BatchPlan, BatchSource, IndexedSamples
from l5kit.dataset.loading import BatchMakers, new_loader
from l5kit.dataset.loading import loader as make_loader
from l5kit.dataset.rank_sampler import SceneChoice, process_rank
from l5kit.dataset.reseeding import BatchOrder
from l5kit.dataset.sample_batch import collate
from l5kit.errors import ConfigError
from l5kit.workflows.samples import spread_indices
from l5kit.workflows.scenarios import choice_of
from l5kit.workflows.workflow import Samples

_PREFETCH = 2


def steps_per_epoch(num_samples: int, loader: LoaderParams, *, world_size: int, batches_per_step: int = 1) -> int:
    """Return the number of whole steps of an epoch.

    Args:
        num_samples: Samples of an epoch.
        loader: Parameters of the loader.
        world_size: Number of processes.
        batches_per_step: Batches of a step in each process.

    Raises:
        ConfigError: There is not even one step.
    """
    # whole steps only, the same number in all processes; the rest of an epoch is dropped
    num_steps = num_samples // world_size // loader.batch_size // batches_per_step
    if num_steps == 0:
        accumulated = f", {batches_per_step} times a step," if batches_per_step > 1 else ""
        raise ConfigError(
            f"train_data_loader.batch_size is {loader.batch_size}{accumulated} on {world_size} devices, but "
            f"{loader.key} gives only {num_samples} samples; take smaller batches or more data"
        )
    return num_steps


@dataclass(frozen=True)
class _PlanFromStep(BatchPlan):
    """Plan of the batches of epochs of a fixed length, starting at a given batch."""

    batches_per_epoch: int = 1
    first_batch: int = 0

    def orders(self, epoch: int, *, first: int = 0) -> Iterator[BatchOrder]:
        """Yield the orders of the batches of an epoch, from the first remaining one on."""
        # the epoch in which a training resumes lacks the batches that were used; later epochs are complete
        num_passed = min(max(self.first_batch - epoch * self.batches_per_epoch, 0), self.batches_per_epoch)
        num_left = self.batches_per_epoch - num_passed
        return itertools.islice(super().orders(epoch, first=first + num_passed), num_left)


class StepBatches:
    """Batches of all steps of a training, epoch after epoch; an iteration starts at the loaded step.

    The content of batches depends only on seed, rank and step. The order of samples is that of
    :func:`l5kit.dataset.loader` with ``drop_last=True``.

    Args:
        dataset: Dataset of the samples.
        loader: Batch size, order and threads.
        seed: Seed of the order and the perturbations.
        num_steps: Steps of the whole training.
        steps_per_epoch: Steps of an epoch.
        batches_per_step: Batches of a step in each process.
        choice: Choice and weights of scenes; None for that of the loader, without weights.
        pin_memory: Whether tensors are in pinned memory, for faster copies to CUDA.
        device: Device on which batches are built and stored if the loader has ``on_device``; None for the processor.

    Attributes:
        waited_s: Total seconds that iterations have waited for batches.
    """

    def __init__(
        self,
        dataset: IndexedSamples,
        loader: LoaderParams,
        *,
        seed: int,
        num_steps: int,
        steps_per_epoch: int,
        batches_per_step: int = 1,
        choice: SceneChoice | None = None,
        pin_memory: bool,
        device: str | None = None,
    ) -> None:
        self._dataset = dataset
        self._loader = loader
        self._choice = choice or choice_of(loader)
        self._seed = seed
        self._num_batches = num_steps * batches_per_step
        self._batches_per_epoch = steps_per_epoch * batches_per_step
        self._pin_memory = pin_memory
        self._device = device if loader.on_device else None
        self._next_batch = 0
        self.waited_s = 0.0

    def __len__(self) -> int:
        """Return the number of batches plus one, so that no checkpoint is at the end of an epoch for Lightning.

        Otherwise Lightning marks the epoch finished and refuses to extend the training.
        """
        return self._num_batches + 1

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches, starting at the loaded one."""
        first_batch = self._next_batch
        if first_batch >= self._num_batches:
            return  # a finished training needs no loader
        start_s = time.perf_counter()
        loader = self._new_loader(first_batch)
        loader.set_epoch(first_batch // self._batches_per_epoch)
        batches: Iterator[dict[str, torch.Tensor]] = itertools.chain.from_iterable(itertools.repeat(loader))
        self.waited_s += time.perf_counter() - start_s
        for number in range(first_batch, self._num_batches):
            start_s = time.perf_counter()
            batch = next(batches)
            self.waited_s += time.perf_counter() - start_s
            self._next_batch = number + 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Return the number of the next batch; with one batch in each step that of the step."""
        return {"next_step": self._next_batch}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Set the batch at which the next iteration starts, from :meth:`state_dict`."""
        self._next_batch = state_dict["next_step"]

    def _new_loader(self, first_batch: int) -> BatchLoader:
        """Return the loader of this process, whose rank is only known after the training has started."""
        rank, world_size = process_rank(None, None)
        sampler = self._choice.sampler_of(
            self._dataset,
            shuffle=self._loader.shuffle,
            seed=self._seed,
            drop_last=True,
            rank=rank,
            world_size=world_size,
        )
        plan = _PlanFromStep(
            sampler,
            self._loader.batch_size,
            drop_last=True,
            seed=self._seed,
            rank=rank,
            batches_per_epoch=self._batches_per_epoch,
            first_batch=first_batch,
        )
        source = BatchSource(self._dataset, collate, pin_memory=self._pin_memory, prefetch=_PREFETCH)
        makers = BatchMakers(self._loader.threads, self._loader.num_workers)
        return new_loader(plan, source, makers, device=self._device)


class EvaluationBatches:
    """Batches of an evaluation; the part of this process is chosen when an iteration starts.

    With batches on a device, its data, mainly the log, is kept there until the next evaluation.

    Args:
        samples: The samples.
        loader: Parameters of the loader, with the number of batches, which are spread evenly over all scenes.
        pin_memory: Whether tensors are in pinned memory, for faster copies to CUDA.
        device: As in :class:`StepBatches`.
    """

    def __init__(self, samples: Samples, loader: LoaderParams, *, pin_memory: bool, device: str | None = None) -> None:
        self._samples = samples
        self._loader = loader
        self._pin_memory = pin_memory
        self._device = device if loader.on_device else None
        self._kept: tuple[tuple[int, int], BatchLoader] | None = None

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        """Return the batches of one evaluation."""
        rank_and_size = process_rank(None, None)
        if self._kept is not None and self._kept[0] == rank_and_size:
            batches = self._kept[1]
        else:
            batches = self._new_loader(num_processes=rank_and_size[1])
        # a loader with batches on a device keeps the log there, so that it is not sent again
        if self._device is not None:
            self._kept = rank_and_size, batches
        batches.set_epoch(0)
        return iter(batches)

    def _new_loader(self, *, num_processes: int) -> BatchLoader:
        """Return the loader of this process, one of several."""
        loader = self._loader
        chosen: IndexedSamples = self._samples
        if loader.max_num_batches is not None:
            # spread over all scenes, as the first samples would be from only a few
            most = loader.max_num_batches * loader.batch_size * num_processes
            chosen = Subset(self._samples, spread_indices(len(chosen), most).tolist())
        return make_loader(
            chosen,
            loader.batch_size,
            num_workers=loader.num_workers,
            threads=1 if loader.num_workers else loader.threads,
            pin_memory=self._pin_memory,
            device=self._device,
        )
