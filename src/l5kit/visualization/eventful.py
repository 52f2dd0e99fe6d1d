"""Choice of samples worth looking at: those in which the AV or agent goes far and turns."""

import numpy as np

from l5kit._types import Int64Array
from l5kit.dataset.ego import EgoDataset

_CANDIDATES_PER_CHOICE = 24
_MARGIN_OF_PART = 0.1
"""Left out at both ends of each part, so that the choices of neighbours differ."""
_TURN_WEIGHT_PER_RAD = 4.0


def eventful_indices(dataset: EgoDataset, count: int) -> Int64Array:
    """Return one index out of each of ``count`` equal parts of a dataset, ascending.

    In each part a few evenly spread samples are compared, by the length of the target trajectory (metres) times one
    plus four times its change of heading (radians). Fewer are returned for a dataset with fewer samples.

    Args:
        dataset: Any raster dataset; one with ``rasterizer=None`` is fast here.
        count: Number of parts.
    """
    bounds = np.unique(np.linspace(0, len(dataset), count + 1).astype(np.int64))
    chosen = []
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        margin = int(_MARGIN_OF_PART * (end - start))
        candidates = np.unique(np.linspace(start + margin, end - 1 - margin, _CANDIDATES_PER_CHOICE).astype(np.int64))
        scores = np.zeros(len(candidates))
        for row, index in enumerate(candidates.tolist()):
            sample = dataset[index]
            is_known = np.asarray(sample["target_availabilities"]) > 0
            if is_known.any():  # a target trajectory starts where the AV or agent is, at the origin of its own frame
                positions_m = np.vstack([np.zeros((1, 2)), np.asarray(sample["target_positions"])[is_known]])
                length_m = float(np.linalg.norm(np.diff(positions_m, axis=0), axis=1).sum())
                turn_rad = float(np.abs(np.asarray(sample["target_yaws"])[is_known]).max())
                scores[row] = length_m * (1.0 + _TURN_WEIGHT_PER_RAD * turn_rad)
        chosen.append(int(candidates[int(np.argmax(scores))]))
    return np.array(chosen, dtype=np.int64)
