"""Order of the samples of an epoch by blocks of scenes, computed position by position."""

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from l5kit._types import Float64Array, Int64Array, UInt64Array
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.joined import JoinedDataset
from l5kit.dataset.sample_indices import within_runs
from l5kit.errors import InvalidArgumentError
from l5kit.random.seeding import mix_seeds

_NUM_ROUNDS: Final = 8
_ROUND_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def permuted(indices: Int64Array, sizes: Int64Array, keys: UInt64Array) -> Int64Array:
    """Return the image of each number under a pseudorandom permutation of the numbers below its size.

    The key selects the permutation. It is an alternating Feistel network on a rectangle that holds the size, with cycle
    walking (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002), and the mixing function of SplitMix64
    (Steele, Lea and Flood, 2014). Two numbers with the same size and key never have the same image.

    Args:
        indices: From 0, below their sizes, (N,).
        sizes: At least 1 and below 2**52, (N,).
        keys: uint64, (N,).
    """
    images = np.array(indices, dtype=np.int64)
    # the smallest near-square rectangle that holds the numbers below each size
    widths = np.ceil(np.sqrt(sizes)).astype(np.int64)
    heights = -(-sizes // widths)
    walking = np.arange(len(images))
    while len(walking):
        wide, high = widths[walking].astype(np.uint64), heights[walking].astype(np.uint64)
        rows, columns = np.divmod(images[walking], widths[walking])
        rows, columns = rows.astype(np.uint64), columns.astype(np.uint64)

        # Feistel network on row and column: each round shifts one of them by a hash of the other, which is invertible
        round_keys = keys[walking].astype(np.uint64)
        for number in range(_NUM_ROUNDS):
            round_keys = round_keys + _ROUND_STEP
            if number % 2:
                rows = (rows + _mixed(columns ^ round_keys) % high) % high
            else:
                columns = (columns + _mixed(rows ^ round_keys) % wide) % wide

        # cycle walking: numbers beyond the size are permuted again until they are below it
        images[walking] = (rows * wide + columns).astype(np.int64)
        walking = walking[images[walking] >= sizes[walking]]
    return images


def _mixed(values: UInt64Array) -> UInt64Array:
    """Return 64-bit hashes in which each bit of a value changes about half of the bits."""
    first, second = _MULTIPLIERS
    values = (values ^ (values >> np.uint64(30))) * first
    values = (values ^ (values >> np.uint64(27))) * second
    return values ^ (values >> np.uint64(31))


SCENES_PER_BLOCK: Final = 8
"""Successive scenes that stay together in a shuffle by scenes."""

SCENES_PER_WINDOW: Final = 512
"""Scenes whose samples are shuffled together."""

_SAMPLES_PER_RUN: Final = 1024
"""Successive samples that count as a scene if the scenes are unknown."""

_SCENE_STEP: Final = np.uint64(0xD1B54A32D192ED03)


@dataclass(frozen=True, eq=False)
class SceneRanges:
    """The samples of S scenes of a dataset, contiguous for each scene.

    Attributes:
        starts: First sample of each scene, an index of the dataset, int64 (S,).
        ends: Cumulative number of samples up to and including each scene, int64 (S,).

    Raises:
        InvalidArgumentError: The shapes differ.
    """

    starts: Int64Array
    ends: Int64Array

    def __post_init__(self) -> None:
        if self.starts.shape != self.ends.shape or self.starts.ndim != 1:
            raise InvalidArgumentError(
                f"starts and ends must have one value for each scene, got {self.starts.shape} and {self.ends.shape}"
            )

    @classmethod
    def of(cls, dataset: Any) -> Self:
        """Return the scenes of a dataset, or runs of successive samples if its scenes are unknown.

        Args:
            dataset: Anything with a length.
        """
        known = cls.known_of(dataset)
        return cls.of_runs(len(dataset)) if known is None else known

    @classmethod
    def known_of(cls, dataset: Any) -> Self | None:
        """Return the scenes of a dataset; None for a dataset of another package, or of a damaged log.

        Args:
            dataset: Anything with a length.
        """
        bounds = dataset.scene_starts() if isinstance(dataset, (BaseEgoDataset, JoinedDataset)) else None
        if bounds is None or bounds[0] != 0 or bounds[-1] != len(dataset) or (np.diff(bounds) < 0).any():
            return None
        return cls(bounds[:-1], bounds[1:])

    @classmethod
    def of_runs(cls, num_samples: int, length: int = _SAMPLES_PER_RUN) -> Self:
        """Return runs of successive samples of equal length; the last one may be shorter."""
        starts = np.arange(0, num_samples, length, dtype=np.int64)
        return cls(starts, np.minimum(starts + length, num_samples))

    def __len__(self) -> int:
        """Return the number of scenes."""
        return len(self.starts)

    @property
    def num_samples(self) -> int:
        """Number of samples of all scenes."""
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def counts(self) -> Int64Array:
        """Number of samples of each scene, (S,)."""
        return np.diff(self.ends, prepend=0)

    def chosen(self, scenes: Int64Array) -> "SceneRanges":
        """Return some of the scenes, by their indices here."""
        return SceneRanges(self.starts[scenes], np.cumsum(self.counts[scenes]))

    def samples_at(self, positions: Int64Array) -> Int64Array:
        """Return the dataset indices of samples (N,) from their positions among all samples of these scenes."""
        scenes, offsets = within_runs(self.ends, positions)
        samples: Int64Array = self.starts[scenes] + offsets
        return samples


@dataclass(frozen=True, eq=False)
class SceneOrder:
    """The order of an epoch, by the positions of its samples.

    Attributes:
        ranges: The scenes, in the order of the dataset.
        scenes: The scenes in the order of the epoch, (S,).
        ends: End position of each of these, (S,).
        window_ends: End position of each window, (W,).
        key: Key of the order within windows and scenes.
        is_weighted: Whether scenes may have more or fewer positions than samples.
    """

    ranges: SceneRanges
    scenes: Int64Array
    ends: Int64Array
    window_ends: Int64Array
    key: int
    is_weighted: bool = False

    @classmethod
    def of_epoch(
        cls,
        ranges: SceneRanges,
        *,
        seed: int,
        epoch: int,
        weights: Float64Array | None = None,
        scenes_per_block: int = SCENES_PER_BLOCK,
        scenes_per_window: int = SCENES_PER_WINDOW,
    ) -> Self:
        """Return the order of an epoch; equal arguments give equal orders.

        Weights do not change the length of an epoch: a scene of twice the weight has twice the positions for each of
            its samples. The numbers of uses of two samples of a scene differ by at most one; the extra ones change each
            epoch.

        Args:
            ranges: The scenes.
            seed: At least 0.
            epoch: At least 0.
            weights: Weight of each scene, not negative and not all 0, (S,); None for equal weights.
            scenes_per_block: See :data:`SCENES_PER_BLOCK`.
            scenes_per_window: See :data:`SCENES_PER_WINDOW`; a multiple of the former.
        """
        random = np.random.default_rng(mix_seeds(seed, epoch, 1))
        num_blocks = -(-len(ranges) // scenes_per_block)
        blocks = random.permutation(num_blocks) * scenes_per_block
        scenes = (blocks[:, None] + np.arange(scenes_per_block)).reshape(-1)
        scenes = scenes[scenes < len(ranges)]
        counts = ranges.counts
        if weights is not None:
            if weights.shape != (len(ranges),) or not (np.isfinite(weights) & (weights >= 0)).all():
                raise InvalidArgumentError(
                    f"scene_weights must be {len(ranges)} finite numbers of at least 0, got {weights.dtype} "
                    f"{weights.shape}"
                )
            # relative to the largest weight, as sums of huge or tiny weights overflow or vanish
            drawn = np.where(ranges.counts > 0, weights, 0.0)
            shares = drawn / (drawn.max(initial=0.0) or 1.0) * ranges.counts
            total = shares.sum()
            if total == 0:
                raise InvalidArgumentError(
                    "scene_weights are 0 for all scenes that have samples; give at least one of them a positive weight"
                )

            # Round ends instead of counts, so that counts add up to the number of samples. The last scene with samples
            # takes the remainder.
            rounding = float(random.random())
            rounded = np.floor(np.cumsum(shares) * (ranges.num_samples / total) + rounding).astype(np.int64)
            rounded = np.minimum(rounded, ranges.num_samples)
            rounded[int(np.flatnonzero(shares)[-1]) :] = ranges.num_samples
            counts = np.diff(rounded, prepend=0)
        ends = np.cumsum(counts[scenes])
        last = np.append(np.arange(scenes_per_window, len(scenes), scenes_per_window), len(scenes)) - 1
        return cls(ranges, scenes, ends, ends[last[last >= 0]], mix_seeds(seed, epoch, 2), weights is not None)

    def samples_at(self, positions: Int64Array) -> Int64Array:
        """Return the samples at positions (N,) of the epoch, as indices of the dataset."""
        # shuffle each window of scenes as a whole, by a permutation keyed by its index
        windows, offsets = within_runs(self.window_ends, positions)
        starts = positions - offsets
        keys = np.uint64(self.key) + windows.astype(np.uint64) * _SCENE_STEP
        shuffled = starts + permuted(offsets, self.window_ends[windows] - starts, keys)

        # the scene of the position, and the position within it
        rows, offsets = within_runs(self.ends, shuffled)
        scenes = self.scenes[rows]

        # with weights, a scene may have fewer or more positions than samples, so its samples are permuted, too
        if self.is_weighted:
            counts = self.ranges.counts[scenes]
            keys = np.uint64(self.key) ^ (scenes.astype(np.uint64) + np.uint64(1)) * _SCENE_STEP
            offsets = permuted(offsets % counts, counts, keys)
        samples: Int64Array = self.ranges.starts[scenes] + offsets
        return samples
