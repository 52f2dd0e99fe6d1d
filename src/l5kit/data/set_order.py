"""Set order: how a Python set hands out track ids, which is the order of other agents in vector samples.

L5Kit 1.5 collected the ids of other agents in a ``set`` of ``np.uint64``. The order of such a set depends on the ids
and on the order in which they came in alone: they are their own hashes, and CPython's table (``Objects/setobject.c``,
the same since Python 3.7) puts them where these kernels do.
"""

import numpy as np
from numba import njit

from l5kit._types import Int64Array, NumericArray

_SMALLEST_TABLE = 8
_LINEAR_PROBES = 9
_PERTURB_SHIFT = np.uint64(5)
_HASH_MODULUS = np.uint64((1 << 61) - 1)
_MANY = 50_000


@njit(nogil=True, cache=True)
def order_in_set(ids: NumericArray) -> Int64Array:
    """Return the rows of ids (N,), all different and not negative, in the order of a set that was filled with them."""
    table = np.full(_SMALLEST_TABLE, -1, np.int64)
    for row in range(len(ids)):
        _insert(table, ids, row)
        num_used = row + 1
        if num_used * 5 >= (len(table) - 1) * 3:
            table = _grown(table, ids, num_used * 2 if num_used > _MANY else num_used * 4)
    order = np.empty(len(ids), np.int64)
    end = 0
    for entry in table:
        if entry >= 0:
            order[end] = entry
            end += 1
    return order


@njit(nogil=True, cache=True)
def _grown(table: Int64Array, ids: NumericArray, num_wanted: int) -> Int64Array:
    """Return a table of more than the wanted entries with the rows of another, put in in its order."""
    size = _SMALLEST_TABLE
    while size <= num_wanted:
        size *= 2
    larger = np.full(size, -1, np.int64)
    for entry in table:
        if entry >= 0:
            _insert(larger, ids, entry)
    return larger


@njit(nogil=True, cache=True)
def _insert(table: Int64Array, ids: NumericArray, row: int) -> None:
    """Put a row into the table at the first free place of its id."""
    mask = np.uint64(len(table) - 1)
    perturb = np.uint64(ids[row]) % _HASH_MODULUS
    place = perturb & mask
    while True:
        num_probes = _LINEAR_PROBES if place + np.uint64(_LINEAR_PROBES) <= mask else 0
        for probe in range(num_probes + 1):
            if table[place + np.uint64(probe)] < 0:
                table[place + np.uint64(probe)] = row
                return
        perturb >>= _PERTURB_SHIFT
        place = (place * np.uint64(5) + np.uint64(1) + perturb) & mask
