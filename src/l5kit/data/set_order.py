"""Set order: iteration order of a Python set of track ids, used for other agents in vector samples.

L5Kit 1.5 collected the ids of other agents in a ``set`` of ``np.uint64``. The order of such a set depends only on the
ids and their insertion order: ids are their own hashes, and these kernels reproduce CPython's hash table
(``Objects/setobject.c``, unchanged since Python 3.7).
"""

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import NumericArray

_SMALLEST_TABLE = 8
_LINEAR_PROBES = 9
_PERTURB_SHIFT = np.uint64(5)
_HASH_MODULUS = np.uint64((1 << 61) - 1)
_MANY = 50_000


@kernel_jit
def set_table_size(num_ids: int) -> int:
    """Return the final table size of a set of ``num_ids`` ids."""
    size = _SMALLEST_TABLE
    for num_used in range(1, num_ids + 1):
        if _is_full(num_used, size):
            size = _grown_size(num_used)
    return size


@kernel_jit
def sort_as_set(ids: NumericArray, rows: NumericArray, tables: NumericArray) -> None:
    """Sort rows (N,) of ids in the order of a set filled with the ids of these rows in sequence.

    Args:
        ids: Ids, unique and not negative at ``rows``.
        rows: Rows to sort in place.
        tables: Memory for two tables, signed integers, at least twice :func:`set_table_size` of N.
    """
    middle = len(tables) // 2
    table, size, is_first = tables[:_SMALLEST_TABLE], _SMALLEST_TABLE, True
    table[:] = -1
    for i in range(len(rows)):
        _insert(table, ids, rows[i])
        if _is_full(i + 1, size):
            size, is_first = _grown_size(i + 1), not is_first
            larger = tables[:size] if is_first else tables[middle : middle + size]
            larger[:] = -1
            for slot in range(len(table)):
                if table[slot] >= 0:
                    _insert(larger, ids, table[slot])
            table = larger
    end = 0
    for slot in range(size):
        if table[slot] >= 0:
            rows[end] = table[slot]
            end += 1


@kernel_jit
def _is_full(num_used: int, size: int) -> bool:
    """Return whether a table with ``num_used`` ids has to grow."""
    return num_used * 5 >= (size - 1) * 3


@kernel_jit
def _grown_size(num_used: int) -> int:
    """Return the size of the table that replaces a full one."""
    num_wanted = num_used * 2 if num_used > _MANY else num_used * 4
    size = _SMALLEST_TABLE
    while size <= num_wanted:
        size *= 2
    return size


@kernel_jit
def _insert(table: NumericArray, ids: NumericArray, row: int) -> None:
    """Insert a row at the first free slot for its id."""
    mask = np.uint64(len(table) - 1)
    perturb = np.uint64(ids[row]) % _HASH_MODULUS
    slot = perturb & mask
    while True:
        num_probes = _LINEAR_PROBES if slot + np.uint64(_LINEAR_PROBES) <= mask else 0
        for probe in range(num_probes + 1):
            if table[slot + np.uint64(probe)] < 0:
                table[slot + np.uint64(probe)] = row
                return
        perturb >>= _PERTURB_SHIFT
        slot = (slot * np.uint64(5) + np.uint64(1) + perturb) & mask
