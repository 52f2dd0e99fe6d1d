"""Reseeding of perturbations: random numbers that depend on the batch only, not on the thread or process making it."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from l5kit._overriding import overrides
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.sample_batch import Allocator
from l5kit.dataset.torch_parts import Dataset
from l5kit.kinematic.perturbation import Perturbation
from l5kit.random.random_generator import RandomGenerator
from l5kit.random.seeding import mix_seeds

CollateFn = Callable[[list[Any]], Any]
"""Function that makes a batch, of any kind, from a list of samples."""


class IndexedItems(Protocol):
    """A dataset with samples by index; it may have no length."""

    def __getitem__(self, index: int, /) -> object:
        """Return a sample."""


@dataclass(frozen=True)
class BatchOrder:
    """Order of a batch: its samples and seed.

    Attributes:
        indices: Its samples.
        seed: Seed of its random numbers.
    """

    indices: Sequence[int]
    seed: int


class BatchMaker:
    """Maker of batches that shares the data of a dataset with other makers, but has its own perturbations.

    Perturbations of the dataset, and of datasets within it, are copied if they can be reseeded; all others are shared,
    as are those that a custom sample function may hold.

    Args:
        dataset: A dataset of this package, or any other; datasets in its attributes, also in lists, tuples and
            dictionaries, as in torch's ``Subset`` and ``ConcatDataset``, are found.
        collate_fn: Makes a batch from a list of samples.
        new_memory: Allocates the memory of rasters; None for the default of the process.

    Attributes:
        reseeds_shared: Whether a perturbation that other makers share is reseeded.
    """

    def __init__(self, dataset: IndexedItems, collate_fn: CollateFn, *, new_memory: Allocator | None = None) -> None:
        self._perturbations: dict[int, Perturbation] = {}
        self._owned: dict[int, IndexedItems] = {}
        self._collate = collate_fn
        self.reseeds_shared = False
        self._dataset = self._own(dataset, new_memory)

    def __call__(self, order: BatchOrder) -> object:
        """Return a batch.

        Raises:
            IndexError: There is no such sample.
            SampleError: A sample cannot be made.
        """
        self.reseed(order)
        make_samples = getattr(self._dataset, "__getitems__", None)
        if make_samples is None:
            return self._collate([self._dataset[index] for index in order.indices])
        return self._collate(make_samples(order.indices))

    @property
    def dataset(self) -> IndexedItems:
        """The dataset, with its own perturbations."""
        return self._dataset

    def reseed(self, order: BatchOrder) -> None:
        """Seed the perturbations for a batch."""
        for number, perturbation in enumerate(self._perturbations.values()):
            perturbation.reseed(mix_seeds(order.seed, number))

    def _own(self, dataset: IndexedItems, new_memory: Allocator | None) -> IndexedItems:
        """Return a dataset with its own perturbations; the same object if it has none."""
        if id(dataset) in self._owned:
            return self._owned[id(dataset)]
        self._owned[id(dataset)] = dataset  # placeholder for a dataset that refers to itself
        if isinstance(dataset, BaseEgoDataset):
            own: IndexedItems = dataset.with_draws(self._own_perturbation(dataset), new_memory=new_memory)
        else:
            # datasets of other packages are copied if a dataset in one of their attributes was replaced
            attributes = getattr(dataset, "__dict__", {})
            inner = {name: self._own_parts(value, new_memory) for name, value in attributes.items()}
            own = dataset
            if any(value is not attributes[name] for name, value in inner.items()):
                own = copy.copy(dataset)
                vars(own).update(inner)
        self._owned[id(dataset)] = own
        return own

    def _own_parts(self, value: Any, new_memory: Allocator | None) -> object:
        """Return the value of an attribute, with datasets replaced."""
        if isinstance(value, Dataset):
            return self._own(value, new_memory)
        if type(value) in (list, tuple) and value and all(isinstance(part, Dataset) for part in value):
            return type(value)(self._own_parts(part, new_memory) for part in value)
        if type(value) is dict and value and all(isinstance(part, Dataset) for part in value.values()):
            return {key: self._own_parts(part, new_memory) for key, part in value.items()}
        return value

    def _own_perturbation(self, dataset: BaseEgoDataset) -> Perturbation | None:
        perturbation = dataset.perturbation
        if perturbation is None or not can_be_reseeded(perturbation):
            return perturbation
        if not dataset.hands_on_perturbation:
            self.reseeds_shared = True
            return self._perturbations.setdefault(id(perturbation), perturbation)
        if id(perturbation) not in self._perturbations:
            # share sources of random numbers that cannot be reseeded, so that copies do not draw the same numbers
            parts = getattr(perturbation, "__dict__", {}).values()
            shared = {id(part): part for part in parts if callable(part) and not can_be_reseeded(part)}
            self._perturbations[id(perturbation)] = copy.deepcopy(perturbation, shared)
        return self._perturbations[id(perturbation)]


def can_be_reseeded(drawing: object) -> bool:
    """Return whether an object with random numbers accepts a seed."""
    if not callable(getattr(type(drawing), "reseed", None)):
        return False
    return all(overrides(drawing, "reseed", base=base) for base in (Perturbation, RandomGenerator))
