"""Split of a dataset by scenes, for training and validation."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from l5kit.data.scene_view import view_of_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

_TOLERANCE = 1e-9


def split_scenes(dataset: ChunkedDataset, fractions: Sequence[float], *, seed: int = 0) -> list[ChunkedDataset]:
    """Return views of disjoint, randomly chosen scenes of a dataset, without copying it.

    Args:
        dataset: Opened dataset.
        fractions: Share of the scenes in each view, such as ``(0.9, 0.1)``; each above 0, together at most 1.
        seed: Decides which scenes; the same seed, fractions and number of scenes give the same views.

    Returns:
        One view for each fraction, with its scenes in the order of the dataset. If the fractions add up to 1, every
        scene is in one of them.

    Raises:
        InvalidArgumentError: A fraction is not above 0, they add up to more than 1, or a view would have no scene.
    """
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.ndim != 1 or len(shares) == 0 or not (shares > 0).all() or shares.sum() > 1 + _TOLERANCE:
        raise InvalidArgumentError(f"fractions must be above 0 and add up to at most 1, got {fractions!r}")
    num_scenes = len(dataset.scenes)
    bounds = np.concatenate(([0], np.floor(np.cumsum(shares) * num_scenes + 0.5))).astype(np.int64)
    if not (np.diff(bounds) > 0).all():
        raise InvalidArgumentError(
            f"fractions {fractions!r} of {num_scenes} scenes give {np.diff(bounds).tolist()} scenes; "
            "each must be at least one: use larger fractions or more scenes"
        )
    order = np.random.default_rng(seed).permutation(num_scenes)
    return [view_of_scenes(dataset, np.sort(order[start:stop])) for start, stop in pairwise(bounds)]
