"""Track ids in records (uint64) and in samples (int64, a smaller range)."""

import numpy as np
from numpy.typing import ArrayLike

from l5kit._kernels import kernel_jit
from l5kit._types import Int64Array, NumericArray, UInt64Array
from l5kit.data.array_shapes import as_kernel_array
from l5kit.errors import CorruptedDataError, InvalidArgumentError

EGO_TRACK_ID = -1
"""Track id of the AV in samples and predictions."""

NUM_TRACK_IDS = 2**63
"""Samples cannot represent ids from this value on."""

_LEAST_SLOTS = 1024
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: products differ in their highest bits


def as_record_track_ids(name: str, track_ids: ArrayLike) -> UInt64Array:
    """Return track ids in the type of records, uint64; arrays of that type are returned unchanged.

    Args:
        name: Name of the argument, for the error.
        track_ids: Whole numbers from 0 to 2**64 - 1, of any numeric type.

    Raises:
        InvalidArgumentError: A value is not such a number.
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
    """Return one track id in the type of samples; see :func:`as_sample_track_ids`."""
    return np.int64(track_id) if 0 <= track_id < NUM_TRACK_IDS else as_sample_track_ids([track_id])[0]


def as_sample_track_ids(track_ids: ArrayLike) -> Int64Array:
    """Return track ids of agent rows as int64.

    Raises:
        CorruptedDataError: An id is negative or at least 2**63; no recording has that many tracks.
    """
    ids = np.asarray(track_ids)
    wrong = (ids < 0) | (ids >= NUM_TRACK_IDS)
    if wrong.any():
        raise CorruptedDataError(
            f"an agent has track_id {ids[wrong].flat[0]}, but samples hold ids from 0 to 2**63 - 1; "
            "run l5kit validate on the dataset and restore it from its source"
        )
    return ids.astype(np.int64)


def number_tracks(track_ids: NumericArray) -> tuple[UInt64Array, Int64Array]:
    """Return the unique track ids, ascending, and for each of N rows the index of its id, int64 (N,).

    Same result as ``numpy.unique`` with ``return_inverse``, without sorting the rows.

    Args:
        track_ids: Track ids of records, uint64 (N,).

    Raises:
        InvalidArgumentError: Wrong dtype or shape.
    """
    if track_ids.dtype != np.uint64 or track_ids.ndim != 1:
        raise InvalidArgumentError(f"track_ids must be uint64 (N,), got {track_ids.dtype} of {track_ids.shape}")
    ids = as_kernel_array(track_ids)
    indices = np.empty(len(ids), np.int64)
    num_slots, num_unique = _LEAST_SLOTS, -1
    # try a hash table for few tracks first, and an eight times larger one while it is too small
    while num_unique < 0:
        unique, slots = np.empty(num_slots // 2, np.uint64), np.full(num_slots, -1, np.int64)
        num_unique = _number_rows(ids, unique, slots, indices)
        num_slots *= 8
    unique = unique[:num_unique]
    order = np.argsort(unique)
    ranks = np.empty(num_unique, np.int64)
    ranks[order] = np.arange(num_unique)
    return unique[order], ranks[indices]


@kernel_jit
def _number_rows(ids: UInt64Array, unique: UInt64Array, slots: Int64Array, indices: Int64Array) -> int:
    """Write the unique ids in order of appearance, and the index of each row; return their number, or -1 if full."""
    shift = np.uint64(64)
    size = len(slots)
    while size > 1:
        shift -= np.uint64(1)
        size >>= 1
    num_unique = 0
    for row in range(len(ids)):
        slot = np.int64((ids[row] * _SPREAD) >> shift)
        while slots[slot] >= 0 and unique[slots[slot]] != ids[row]:
            slot = (slot + 1) & (len(slots) - 1)
        if slots[slot] < 0:
            if num_unique == len(unique):
                return -1
            slots[slot] = num_unique
            unique[num_unique] = ids[row]
            num_unique += 1
        indices[row] = slots[slot]
    return num_unique
