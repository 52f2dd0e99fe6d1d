"""Read-ahead of remote arrays: the chunks that a sample or a batch needs are asked for at the same time."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from l5kit._types import Int64Array, Records
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.data.stores.remote_chunks import NUM_READ_AHEAD, fetch_files, is_decoded_here


class RowRanges(NamedTuple):
    """Ranges of rows of an array, within it: first row and end row of each, of any shape."""

    array: Records
    starts: Int64Array
    stops: Int64Array


def read_ahead(wanted: Sequence[RowRanges]) -> None:
    """Read the chunks of ranges of rows of several arrays, so that they are kept when the rows are asked for.

    Nothing happens for arrays that are not remote, for chunks that are kept, and where there would be no room.

    Args:
        wanted: The ranges of each array.

    Raises:
        CorruptedDataError: A chunk cannot be decoded.
        UnreachableDataError: The service refuses, or does not answer.
    """
    chunks: list[tuple[ChunkedArray, int]] = []
    for array, starts, stops in wanted:
        if isinstance(array, ChunkedArray) and is_decoded_here(array.zarr_array):
            unread = array.unread_of(array.chunks_of(np.ravel(starts), np.ravel(stops)))
            num_bytes = len(unread) * array.chunks[0] * array.dtype.itemsize
            if 2 * num_bytes <= array.bytes_to_keep or array.is_kept_whole:
                chunks += [(array, index) for index in unread]
    for start in range(0, len(chunks) if len(chunks) > 1 else 0, NUM_READ_AHEAD):
        together = chunks[start : start + NUM_READ_AHEAD]
        contents = fetch_files([(array.zarr_array, index) for array, index in together])
        for (array, index), content in zip(together, contents, strict=True):
            array.keep(index, content)
