"""Track ids as samples hold them: the records have more of them than int64 has."""

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Int64Array
from l5kit.errors import CorruptedDataError

__all__ = ["NUM_TRACK_IDS", "as_sample_track_id", "as_sample_track_ids"]

NUM_TRACK_IDS = 2**63
"""Ids from this one on cannot be told in a sample."""


def as_sample_track_id(track_id: int) -> np.int64:
    """Return the id of one track as samples hold it; see :func:`as_sample_track_ids`."""
    return np.int64(track_id) if 0 <= track_id < NUM_TRACK_IDS else as_sample_track_ids([track_id])[0]


def as_sample_track_ids(track_ids: ArrayLike) -> Int64Array:
    """Return track ids of agent rows as int64.

    Raises:
        CorruptedDataError: One is negative, or 2**63 or more; no recording has that many tracks.
    """
    ids = np.asarray(track_ids)
    wrong = (ids < 0) | (ids >= NUM_TRACK_IDS)
    if wrong.any():
        raise CorruptedDataError(
            f"an agent has track_id {ids[wrong].flat[0]}, but samples hold ids from 0 to 2**63 - 1; "
            "run l5kit validate on the dataset and restore it from its source"
        )
    return ids.astype(np.int64)
