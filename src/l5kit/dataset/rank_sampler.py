"""Rank sampler: scenes, sample order and random numbers of each process of distributed training."""

import os
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from l5kit._types import Float64Array, Int64Array, NumericArray
from l5kit.dataset.scene_order import SceneOrder, SceneRanges
from l5kit.dataset.torch_parts import Sampler, is_torch_missing, require_torch
from l5kit.errors import InvalidArgumentError
from l5kit.random.seeding import mix_seeds

if TYPE_CHECKING:
    import torch

ShuffleBy = Literal["samples", "scenes"]
"""Kind of a shuffle: of all samples at once, or by blocks of scenes in bounded memory."""

MOST_SHUFFLED_AS_WHOLE: Final = 1 << 23
"""Maximum number of samples that are shuffled at once by default; their order takes 32 MiB."""

_INDICES_AT_ONCE = 65_536
_SUBSET_STREAM = 3


class RankSampler(Sampler[int]):
    """Sampler of one of several processes: its share of the samples, in the order of an epoch.

    The shares of the processes are disjoint. Unlike torch's ``DistributedSampler`` it never repeats samples: without
    ``drop_last`` each sample is used once, so metrics over all processes are correct, and some processes may have one
    sample more than others. With ``drop_last`` all have the same number, and up to ``world_size - 1`` samples of an
    epoch are dropped.

    A shuffle by scenes is computed position by position (:mod:`l5kit.dataset.scene_order`): no process computes the
    whole order, and iteration can start anywhere.

    Args:
        num_samples: Number of samples.
        shuffle: Whether each epoch has a different order; the same in all processes.
        seed: Seed of the order, with the epoch; the same in all processes.
        drop_last: Whether all processes get the same number of samples.
        rank: Rank of this process; None for that of torch.distributed, or of ``RANK`` in the environment.
        world_size: Number of processes; None for that of torch.distributed, or of ``WORLD_SIZE`` in the environment.
        shuffle_by: ``samples`` to shuffle all samples at once, ``scenes`` to shuffle by blocks of scenes; None for the
            former up to :data:`MOST_SHUFFLED_AS_WHOLE` samples, for the latter beyond.
        scenes: Samples of the scenes to use; other samples are skipped. None to treat runs of successive samples as
            scenes.
        scene_weights: Relative frequency of the samples of each scene, (S,); requires a shuffle by scenes. The length
            of an epoch does not change. None for every sample once.

    Raises:
        InvalidArgumentError: ``rank`` is not in [0, world_size), or only one of the two is given; ``scenes`` has a
            different number of samples; ``scene_weights`` do not fit the scenes, or ``shuffle`` is false.
    """

    def __init__(
        self,
        num_samples: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        shuffle_by: ShuffleBy | None = None,
        scenes: SceneRanges | None = None,
        scene_weights: Float64Array | None = None,
    ) -> None:
        if scenes is not None and scenes.num_samples != num_samples:
            raise InvalidArgumentError(f"num_samples is {num_samples}, but scenes have {scenes.num_samples} samples")
        if shuffle_by not in (None, "samples", "scenes"):
            raise InvalidArgumentError(f"shuffle_by must be 'samples', 'scenes' or None, got {shuffle_by!r}")
        if scene_weights is not None and (not shuffle or shuffle_by == "samples"):
            raise InvalidArgumentError(
                f"scene_weights need a shuffle by scenes, but shuffle is {shuffle} and shuffle_by is {shuffle_by!r}"
            )
        self.num_samples = num_samples
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.rank, self.world_size = process_rank(rank, world_size)
        self.epoch = 0
        by_weights = scene_weights is not None
        self._is_by_scenes = by_weights or is_shuffled_by_scenes(num_samples, shuffle=shuffle, shuffle_by=shuffle_by)
        self._scenes = scenes
        self._weights = scene_weights
        if self._is_by_scenes:
            self._order_by_scenes()  # refuses weights that do not fit

    def set_epoch(self, epoch: int) -> None:
        """Use the order of an epoch from now on."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Return the number of samples of this process."""
        if self.drop_last:
            return self.num_samples // self.world_size
        return len(range(self.rank, self.num_samples, self.world_size))

    def __iter__(self) -> Iterator[int]:
        return self.iterate_from(0)

    def iterate_from(self, first: int) -> Iterator[int]:
        """Yield the indices of this process in the epoch, skipping the first ones without computing them.

        Args:
            first: Number of indices to skip.
        """
        # the samples scene by scene, and a permutation of their positions; None for the order of the dataset
        source: SceneRanges | SceneOrder | None = self._scenes
        order: NumericArray | None = None
        if self._is_by_scenes:
            source = self._order_by_scenes()
        elif self.shuffle:
            order = np.arange(self.num_samples, dtype=np.min_scalar_type(max(self.num_samples - 1, 0)))
            np.random.default_rng(mix_seeds(self.seed, self.epoch)).shuffle(order)
        for start in range(first, len(self), _INDICES_AT_ONCE):
            ordinals = np.arange(start, min(start + _INDICES_AT_ONCE, len(self)), dtype=np.int64)
            positions = self.rank + self.world_size * ordinals
            if order is not None:
                positions = order[positions].astype(np.int64)
            yield from (positions if source is None else source.samples_at(positions)).tolist()

    def _order_by_scenes(self) -> SceneOrder:
        scenes = SceneRanges.of_runs(self.num_samples) if self._scenes is None else self._scenes
        return SceneOrder.of_epoch(scenes, seed=self.seed, epoch=self.epoch, weights=self._weights)


def is_shuffled_by_scenes(num_samples: int, *, shuffle: bool, shuffle_by: ShuffleBy | None = None) -> bool:
    """Return whether an order is by scenes; a :class:`RankSampler` then needs the scenes."""
    return shuffle and (shuffle_by == "scenes" if shuffle_by else num_samples > MOST_SHUFFLED_AS_WHOLE)


def rank_generator(seed: int, *, rank: int | None = None, world_size: int | None = None) -> "torch.Generator":
    """Return a generator for torch's ``DataLoader`` that gives each process different random numbers, reproducibly.

    Each worker of a ``DataLoader`` seeds Python's, NumPy's and torch's generators, and the perturbation of a dataset of
    this package, from the generator of the loader. If all processes use the same seed of torch, as equal initial
    weights require, their perturbations would be equal, too; this generator prevents that. It needs ``num_workers`` of
    at least 1, and a
    sampler with its own seed, such as :class:`RankSampler`::

        DataLoader(dataset, batch_size, num_workers=4, sampler=RankSampler(len(dataset)), generator=rank_generator(1))

    Args:
        seed: The same for all processes.
        rank: Rank of this process; None as in :class:`RankSampler`.
        world_size: Number of processes; None as in :class:`RankSampler`.

    Raises:
        InvalidArgumentError: ``rank`` is not in [0, world_size), or only one of the two is given.
        MissingDependencyError: torch is not installed.
    """
    require_torch("a generator for DataLoader")
    import torch

    generator = torch.Generator()
    generator.manual_seed(mix_seeds(seed, process_rank(rank, world_size)[0]))
    return generator


def process_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return rank and number of processes; None asks torch.distributed and the environment.

    Raises:
        InvalidArgumentError: ``rank`` is not in [0, world_size), or only one of the two is given.
    """
    if (rank is None) != (world_size is None):
        raise InvalidArgumentError(f"rank is {rank} and world_size is {world_size}; pass both of them, or none")
    if rank is None or world_size is None:
        distributed = None
        if not is_torch_missing:
            import torch

            distributed = torch.distributed
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            rank, world_size = distributed.get_rank(), distributed.get_world_size()
        elif "RANK" in os.environ and "WORLD_SIZE" in os.environ:  # set by torchrun
            rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        else:
            rank, world_size = 0, 1
    if not 0 <= rank < world_size:
        raise InvalidArgumentError(f"rank is {rank}; among {world_size} processes it must be from 0 to world_size - 1")
    return rank, world_size


@dataclass(frozen=True, kw_only=True, eq=False)
class SceneChoice:
    """Scenes to draw from a dataset.

    Attributes:
        shuffle_by: Kind of the shuffle; see :class:`RankSampler`.
        fraction: Share of the scenes to use, the same in every epoch, above 0 and at most 1.
        subset_seed: Seed of their selection; the scenes of a smaller fraction are a subset of those of a larger one.
        weights: Relative frequency of the samples of each scene, for all S scenes of the dataset, (S,); None for every
            sample once.

    Raises:
        InvalidArgumentError: A value is out of its range.
    """

    shuffle_by: ShuffleBy | None = None
    fraction: float = 1.0
    subset_seed: int = 0
    weights: Float64Array | None = None

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise InvalidArgumentError(f"fraction must be above 0 and at most 1, got {self.fraction}")
        if self.subset_seed < 0:
            raise InvalidArgumentError(f"subset_seed must be at least 0, got {self.subset_seed}")

    def num_samples_of(self, dataset: Sized) -> int:
        """Return the number of samples of an epoch.

        Raises:
            InvalidArgumentError: A fraction is requested for a dataset with unknown scenes.
        """
        return len(dataset) if self.fraction == 1 else self._ranges_of(dataset)[0].num_samples

    def sampler_of(
        self,
        dataset: Sized,
        *,
        shuffle: bool,
        seed: int,
        drop_last: bool,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> RankSampler:
        """Return the sampler of a process.

        Args:
            dataset: The samples.
            shuffle: As for :class:`RankSampler`; so are the following arguments.
            seed: Seed of the orders.
            drop_last: Whether all processes get the same number of samples.
            rank: Rank of this process.
            world_size: Number of processes.

        Raises:
            InvalidArgumentError: Weights do not fit the scenes, or need a shuffle; or a fraction or weights are
                requested for a dataset with unknown scenes.
        """
        scenes, weights = None, self.weights
        if self.fraction < 1 or weights is not None:
            scenes, weights = self._ranges_of(dataset)
        elif is_shuffled_by_scenes(len(dataset), shuffle=shuffle, shuffle_by=self.shuffle_by):
            scenes = SceneRanges.of(dataset)
        return RankSampler(
            len(dataset) if scenes is None else scenes.num_samples,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            rank=rank,
            world_size=world_size,
            shuffle_by=self.shuffle_by,
            scenes=scenes,
            scene_weights=weights,
        )

    def _ranges_of(self, dataset: Sized) -> tuple[SceneRanges, Float64Array | None]:
        """Return the selected scenes, and their weights."""
        known = SceneRanges.known_of(dataset)
        if known is None:
            requested = "scene_weights need" if self.fraction == 1 else f"a fraction of {self.fraction} needs"
            raise InvalidArgumentError(
                f"{requested} the scenes of the samples, which are known only for datasets of this package over an "
                f"undamaged log, got {type(dataset).__name__}; choose samples by a torch.utils.data.Subset, or check "
                "the log with l5kit validate"
            )
        if self.weights is not None and self.weights.shape != (len(known),):
            raise InvalidArgumentError(
                f"scene_weights must be {len(known)} numbers, one for each scene, got shape {self.weights.shape}"
            )
        if self.fraction == 1:
            return known, self.weights
        chosen = choose_scenes(len(known), self.fraction, seed=self.subset_seed)
        return known.chosen(chosen), None if self.weights is None else self.weights[chosen]


def choose_scenes(num_scenes: int, fraction: float, *, seed: int) -> Int64Array:
    """Return a random share of the scenes, ascending, (n,); n is rounded, and at least 1.

    With the same seed, the scenes of a smaller fraction are a subset of those of a larger one.

    Args:
        num_scenes: Number of scenes.
        fraction: Above 0 and at most 1.
        seed: Seed of the selection, at least 0.
    """
    num_chosen = min(max(round(fraction * num_scenes), 1), num_scenes)
    order = np.random.default_rng(mix_seeds(seed, _SUBSET_STREAM)).permutation(num_scenes)
    return np.sort(order[:num_chosen])
