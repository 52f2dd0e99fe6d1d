"""Arrays of records whose fields are stored as plain arrays, with the decoded chunks kept like those of other sets."""

from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import NumericArray
from l5kit.data.record_bytes import as_record_type
from l5kit.data.stores.chunk_cache import ChunkCache
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.data.stores.store import describe_file
from l5kit.data.stores.stored_columns import StoredColumns
from l5kit.errors import CorruptedDataError, ReadOnlyDatasetError, UnreachableDataError


class ColumnsArray(ChunkedArray):
    """One array of a dataset in the columns layout: it reads like any other, and cannot be written to.

    A chunk of records is put together of the chunks of all fields and kept decoded, so that further rows of it cost
    what they do in other datasets.

    Args:
        columns: The arrays of its fields, which stand for the one array of zarr that other datasets have.
        cache: Cache for decoded chunks.
        dtype: Record type to present; None for the one stored.
    """

    def __init__(self, columns: StoredColumns, cache: ChunkCache, *, dtype: DTypeLike | None = None) -> None:
        as_zarr: Any = columns
        super().__init__(as_zarr, cache, dtype=dtype)

    @property
    def columns(self) -> StoredColumns:
        """The arrays of the fields."""
        columns: Any = self.zarr_array
        opened: StoredColumns = columns
        return opened

    def uncached(self) -> "ColumnsArray":
        """Return the same array with a cache of its own that keeps nothing but the chunk in use."""
        return ColumnsArray(self.columns, ChunkCache(0), dtype=self.dtype)

    def passing_rows(self, start: int, stop: int) -> NumericArray:
        """Return rows [start, stop) for a pass over all of them, which keeps nothing; see the base class."""
        is_decoded = self._joined is not None and self._joined.is_complete
        return (self if is_decoded else self.uncached()).rows(start, stop, strict=True)

    def present_chunks(self) -> list[int]:
        """Return the numbers of the chunks whose files are all there, ascending."""
        return self.columns.present_chunks()

    def chunk_file(self, index: int) -> str:
        """Return the path of the first missing file of a chunk, or of the folder of all its files, for messages."""
        key = self.columns.missing_key(index * self._chunk_length)
        return describe_file(self.columns.store, key or self.columns.path)

    def has_chunk_file(self, index: int) -> bool:
        """Return whether the files of all fields of a chunk exist."""
        return self.columns.missing_key(index * self._chunk_length) is None

    def _state_of_files(self) -> list[tuple[object, ...]] | None:
        return self.columns.signature()

    def _read_chunk(self, index: int) -> NumericArray:
        start = index * self._chunk_length
        columns = self.columns
        stored = np.empty(min(self._chunk_length, self._length - start), dtype=columns.dtype)
        is_zero = False
        for name in columns.names:
            try:
                is_zero |= not columns.read_field(name, start, start + len(stored), stored)
            except UnreachableDataError:
                raise
            except Exception as error:  # whatever damaged files make zarr, its codecs and the store raise
                file = describe_file(columns.store, columns.shard_key(name, start))
                raise CorruptedDataError(
                    f"{file} cannot be read or decoded ({type(error).__name__}: {error}); export the dataset anew"
                ) from error
        if is_zero and not self.has_chunk_file(index):
            self._missing.add(index)
        chunk = as_record_type(stored, self.dtype)
        chunk.setflags(write=False)
        return chunk

    def _writable(self) -> NoReturn:
        raise ReadOnlyDatasetError(
            f"{describe_file(self.columns.store, self.name)} is an export in columns, which is only read; save() the "
            "dataset to a folder and open that with mode='r+'"
        )
