"""Scene choice: which scenes of a dataset are drawn, how often, and by which kind of shuffle."""

from collections.abc import Sized
from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.dataset.rank_sampler import RankSampler, ShuffleBy, is_shuffled_by_scenes
from l5kit.dataset.scene_order import SceneRanges
from l5kit.errors import InvalidArgumentError
from l5kit.random.seeding import mix_seeds

_SUBSET_STREAM = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class SceneChoice:
    """What is drawn of a dataset.

    Attributes:
        shuffle_by: How orders are drawn; see :class:`~l5kit.dataset.rank_sampler.RankSampler`.
        fraction: Share of the scenes that is taken, the same in every epoch, above 0 and at most 1.
        subset_seed: Decides which ones; the scenes of a smaller fraction are among those of a larger one.
        weights: How often the samples of each scene are drawn, relative to others, for all S scenes of the dataset,
            (S,); None for every sample once.

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
        """Return how many samples an epoch has.

        Raises:
            InvalidArgumentError: A fraction is asked for of a dataset whose scenes nobody knows.
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
        """Return what gives the samples of a process.

        Args:
            dataset: Gives the samples.
            shuffle: As for :class:`~l5kit.dataset.rank_sampler.RankSampler`, like what follows.
            seed: Decides the orders.
            drop_last: Whether all processes get the same number of samples.
            rank: This process.
            world_size: Number of processes.

        Raises:
            InvalidArgumentError: Weights do not fit the scenes, or need a shuffle; or a fraction or weights are asked
                for of a dataset whose scenes nobody knows.
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
        """Return the scenes that are taken, and their weights."""
        known = SceneRanges.known_of(dataset)
        if known is None:
            requested = "scene_weights need" if self.fraction == 1 else f"a fraction of {self.fraction} needs"
            raise InvalidArgumentError(
                f"{requested} the scenes of the samples, which only datasets of this package over a log that is not "
                f"damaged tell, got {type(dataset).__name__}; choose samples by a torch.utils.data.Subset, or see what "
                "l5kit validate says of the log"
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
    """Return the scenes of a random share of all, ascending, (n,): n is the nearest number, and at least 1.

    With the same seed the scenes of a smaller fraction are among those of a larger one.

    Args:
        num_scenes: How many there are.
        fraction: Above 0 and at most 1.
        seed: Decides which ones, at least 0.
    """
    num_chosen = min(max(round(fraction * num_scenes), 1), num_scenes)
    order = np.random.default_rng(mix_seeds(seed, _SUBSET_STREAM)).permutation(num_scenes)
    return np.sort(order[:num_chosen])
