"""Chunk bounds: where arrays of a dataset can be cut so that no chunk of their files is read for two parts."""

from itertools import pairwise

import numpy as np

from l5kit._types import Int64Array, NumericArray, Records
from l5kit.data.record_sequence import ROWS_PER_BLOCK, RecordSequence, rows_of
from l5kit.data.record_view import RecordView
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.errors import InvalidArgumentError


def require_records(records: Records) -> None:
    """Refuse what is no array of a dataset.

    Raises:
        InvalidArgumentError: It is something else.
    """
    is_records = isinstance(records, RecordSequence) or (isinstance(records, np.ndarray) and records.ndim == 1)
    if not is_records or records.dtype.names is None:
        raise InvalidArgumentError(
            f"records must be an array of an opened dataset, such as dataset.agents, got {type(records).__name__}"
        )


class PartsOfRecords:
    """The rows of an array of a dataset, read part by part, by threads or, pickled, by other processes.

    Nothing that was read is kept, except for the last chunk of a file. A file that is missing is an error.

    Args:
        records: Array of an opened dataset, also of a view, or NumPy array.
        chunks_at_once: Chunks of its files in one part.

    Attributes:
        lengths: Rows of each part, one part at least, which ends where a chunk of the files does. Parts of scenes that
            lie apart in the files are taken together while they are no longer than a chunk.

    Raises:
        InvalidArgumentError: ``records`` are none, or ``chunks_at_once`` is less than 1.
    """

    ndim = 1

    def __init__(self, records: Records, *, chunks_at_once: int = 1) -> None:
        require_records(records)
        if chunks_at_once < 1:
            raise InvalidArgumentError(f"chunks_at_once must be 1 or more, got {chunks_at_once}")
        self.dtype = records.dtype
        self.shape = (len(records),)
        self.lengths = _lengths_of_parts(records, chunks_at_once)
        self._records = _uncached(records)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def starts(self) -> list[int]:
        """First row of each part."""
        return [0, *np.cumsum(self.lengths[:-1]).tolist()]

    def __getitem__(self, index: slice | tuple[slice, ...]) -> NumericArray:
        """Return rows; an array that must not be written to.

        Raises:
            CorruptedDataError: They cannot be read.
        """
        rows = index[0] if isinstance(index, tuple) else index
        start, stop, step = rows.indices(len(self))
        if step > 0:
            return rows_of(self._records, slice(start, max(start, stop)), strict=True)[::step]
        return rows_of(self._records, slice(0, len(self)), strict=True)[rows]


def _lengths_of_parts(records: Records, chunks_at_once: int) -> tuple[int, ...]:
    if not isinstance(records, RecordView):
        lengths: list[int] = np.diff(_cuts(0, len(records), _chunk_length(records) * chunks_at_once)).tolist()
        return tuple(lengths) or (0,)

    # each range of a view is cut where the chunks of its source end, and neighbours that are short together are joined
    segments, lengths = records.segments, []
    longest = max((_chunk_length(source) * chunks_at_once for source in records.sources), default=1)
    for source, start, stop in zip(segments.source, segments.start, segments.stop, strict=True):
        chunk_length = _chunk_length(records.sources[source]) * chunks_at_once
        for low, high in pairwise(_cuts(int(start), int(stop), chunk_length).tolist()):
            if lengths and lengths[-1] + high - low <= longest:
                lengths[-1] += high - low
            else:
                lengths.append(high - low)
    return tuple(lengths) or (0,)


def _cuts(start: int, stop: int, chunk_length: int) -> Int64Array:
    """Return start, the multiples of a length within, and stop; only stop where there are no rows."""
    # the first multiple behind the start, by rounding start + 1 up
    inside = np.arange(-(-(start + 1) // chunk_length) * chunk_length, stop, chunk_length, dtype=np.int64)
    return np.unique(np.concatenate(([start], inside, [stop])))


def _chunk_length(records: Records) -> int:
    """Return how many rows are read together, whatever is asked for."""
    if isinstance(records, ChunkedArray):
        return records.chunks[0]
    if isinstance(records, RecordView):
        return max((_chunk_length(source) for source in records.sources), default=ROWS_PER_BLOCK)
    return ROWS_PER_BLOCK


def _uncached(records: Records) -> Records:
    """Return the same rows by way of arrays that keep nothing."""
    if isinstance(records, ChunkedArray):
        return records.uncached()
    if isinstance(records, RecordView):
        return RecordView([_uncached(source) for source in records.sources], records.segments, dtype=records.dtype)
    return records
