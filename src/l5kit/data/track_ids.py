"""Track ids as records and as samples hold them: the records have more of them than int64 has."""

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Int64Array, UInt64Array
from l5kit.errors import CorruptedDataError, InvalidArgumentError

__all__ = ["NUM_TRACK_IDS", "as_record_track_ids", "as_sample_track_id", "as_sample_track_ids"]

NUM_TRACK_IDS = 2**63
"""Ids from this one on cannot be told in a sample."""


def as_record_track_ids(name: str, track_ids: ArrayLike) -> UInt64Array:
    """Return track ids as records hold them, uint64; those that already are come back as they are.

    Args:
        name: What the caller knows them as, for the error.
        track_ids: Whole numbers from 0 to 2**64 - 1, of any type of numbers.

    Raises:
        InvalidArgumentError: One is none.
    """
    ids = np.asarray(track_ids)
    if ids.dtype == np.uint64:
        return ids
    if ids.dtype.kind == "u":
        return ids.astype(np.uint64)
    if ids.dtype.kind == "i":
        wrong = ids < 0
    elif ids.dtype.kind == "f":
        wrong = ~((ids >= 0) & (ids < 2.0**64) & (ids == np.floor(ids)))
    elif ids.dtype.kind == "O":
        wrong = np.array([not isinstance(track, int) or not 0 <= track < 2**64 for track in ids.flat], np.bool_)
        wrong = wrong.reshape(ids.shape)
    else:
        wrong = np.ones(ids.shape, np.bool_)
    if wrong.any():
        raise InvalidArgumentError(
            f"{name} has {ids[wrong].flat[0]!r}, but the number of a track is a whole one from 0 to 2**64 - 1; number "
            "the tracks from 1 on, for example"
        )
    return ids.astype(np.uint64)


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
