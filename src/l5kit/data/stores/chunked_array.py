"""Arrays of records that read and decode whole chunks once, and keep them in a cache.

One access through zarr-python 3 costs about a millisecond, whatever its size. :class:`ChunkedArray` therefore reads a
whole chunk on first use and keeps it decoded, in a cache bounded in bytes. If an array fits into the cache as a whole,
its chunks are decoded into one contiguous array, so that ranges across chunks need no copy.
"""

import copy
import hashlib
import os
import pickle
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from zarr.core.sync import sync
from zarr.storage import LocalStore

from l5kit._types import DType, Int64Array, NumericArray, PickledState, Records
from l5kit.data.record_bytes import as_record_type
from l5kit.data.record_sequence import RecordSequence, require_within
from l5kit.data.stores.chunk_files import (
    ChunkCache,
    decode_file,
    decode_local_chunk,
    fetch_files,
    is_decoded_here,
    is_remote,
    with_checked_lengths,
)
from l5kit.data.stores.consolidated import drop_consolidated
from l5kit.data.stores.store import (
    ZarrArray,
    chunk_indices,
    describe_file,
    is_folder,
    is_process_memory,
    location_of,
)
from l5kit.data.stores.store_signature import store_signature
from l5kit.errors import (
    CorruptedDataError,
    IndexOutOfRangeError,
    InvalidArgumentError,
    ReadOnlyDatasetError,
    UnpicklableStoreError,
    UnreachableDataError,
)

NUM_READ_AHEAD = 32
"""Largest number of chunks requested before the first of them is used."""


class JoinedChunks:
    """The decoded chunks of an array in one contiguous array, decoded on demand.

    Args:
        length: Rows of the array.
        dtype: Type of its records.
        chunk_length: Rows of a chunk.

    Attributes:
        rows: All rows, read-only; rows of chunks that were never read are undefined.
    """

    def __init__(self, length: int, dtype: DType, chunk_length: int) -> None:
        self._chunk_length = chunk_length
        self._writable_rows = np.empty(length, dtype=dtype)
        self._is_decoded = np.zeros(-(-length // chunk_length), np.bool_)
        self.is_complete = False
        self.rows = self._writable_rows.view()
        self.rows.setflags(write=False)

    def has(self, index: int) -> bool:
        """Return whether a chunk is decoded."""
        return bool(self._is_decoded[index])

    def chunk(self, index: int, read: Callable[[int], NumericArray]) -> NumericArray:
        """Return the rows of a chunk, reading it if needed; two threads may both read it, with the same result."""
        start = index * self._chunk_length
        if not self._is_decoded[index]:
            decoded = read(index)
            target = self._writable_rows[start : start + len(decoded)]
            # copy as bytes: NumPy copies records field by field, which is several times slower
            target.view(np.uint8)[:] = np.ascontiguousarray(decoded).view(np.uint8)
            self._is_decoded[index] = True
            if self._is_decoded.all():  # if two threads decode the last chunks, one of them sees all set
                self.is_complete = True
        return self.rows[start : start + self._chunk_length]


class ChunkedArray(RecordSequence):
    """One array of a dataset on a store, with decoded chunks kept in a cache.

    Reading and writing follow NumPy and zarr: ``array[3]``, ``array[10:20]`` (a copy), ``array["centroid"]``,
    ``array[mask]``, ``array[5:8] = records``, ``array.append(records)``. It works wherever a duck array does, such as
    in ``dask.array.from_array``. A pickled array holds the location of its files and no data.

    Args:
        array: The zarr array, one-dimensional.
        cache: Cache for decoded chunks.
        dtype: Record type to present; fields that are not stored are zero. None for the stored type.
    """

    def __init__(self, array: ZarrArray, cache: ChunkCache, *, dtype: DTypeLike | None = None) -> None:
        self.dtype = array.dtype if dtype is None else np.dtype(dtype)
        self.name = str(array.path)
        # write chunks of zeros as zarr 2 did, so that a missing file indicates lost data
        self._array: ZarrArray = with_checked_lengths(array, write_empty_chunks=True)
        self._cache = cache
        self._last: tuple[int, NumericArray | None] = (-1, None)
        self._missing: set[int] = set()
        self._length = int(array.shape[0])
        self._chunk_length = int(array.chunks[0])
        self._process = os.getpid()
        # l5kit fetches remote chunks, several at once; zarr-python reads all others
        self.is_decoded_here = is_decoded_here(self._array)

        # rows of a read-only array are kept contiguously if the cache has room for all of them, which is then reserved
        fits = bool(array.read_only) and cache.reserve(self._length * self.dtype.itemsize)
        self._joined = JoinedChunks(self._length, self.dtype, self._chunk_length) if fits else None

    def __len__(self) -> int:
        return self._length

    @property
    def chunks(self) -> tuple[int]:
        """Rows per chunk, as a tuple."""
        return (self._chunk_length,)

    def uncached(self) -> "ChunkedArray":
        """Return the same array with a separate cache that keeps only the chunk in use."""
        return type(self)(self.zarr_array, ChunkCache(0), dtype=self.dtype)

    @property
    def zarr_array(self) -> ZarrArray:
        """The underlying zarr array."""
        if os.getpid() != self._process:
            # a forked process needs its own file handles and connections
            store = self._array.store
            if not isinstance(store, LocalStore) and not is_remote(store) and not is_process_memory(store):
                self._array = pickle.loads(pickle.dumps(self._array))
            self._process = os.getpid()
        return self._array

    def rows(self, start: int, stop: int, *, strict: bool = False) -> NumericArray:
        """Return rows [start, stop) as a read-only array: a view if one chunk contains them; see the base class."""
        if strict and not 0 <= start <= stop <= self._length:
            require_within(self, slice(start, stop))
        joined = self._joined
        if joined is not None and joined.is_complete and not self._missing:
            return joined.rows[start : max(start, stop)]
        if stop <= start:
            return np.empty(0, dtype=self.dtype)
        # contiguous chunks and rows of a single chunk need no copy; other rows are concatenated
        first, last = start // self._chunk_length, (stop - 1) // self._chunk_length
        read = self._reader_of(range(first, last + 1))
        if joined is not None:
            for index in range(first, last + 1):
                self._chunk(index, strict, read)
            return joined.rows[start:stop]
        offset = first * self._chunk_length
        if first == last:
            return self._chunk(first, strict, read)[start - offset : stop - offset]
        rows = np.empty(stop - start, dtype=self.dtype)
        for index in range(first, last + 1):
            offset = index * self._chunk_length
            low, high = max(start, offset), min(stop, offset + self._chunk_length)
            rows[low - start : high - start] = self._chunk(index, strict, read)[low - offset : high - offset]
        rows.setflags(write=False)
        return rows

    def passing_rows(self, start: int, stop: int) -> NumericArray:
        """Return rows [start, stop) for a pass over all rows: chunks are decoded together and not cached.

        Chunks of a remote array are fetched together and cached as usual.

        Args:
            start: First row.
            stop: End row, at most the length.

        Raises:
            CorruptedDataError: A chunk cannot be decoded or its file is missing.
        """
        if (self._joined is not None and self._joined.is_complete) or is_remote(self._array.store):
            return self.rows(start, stop, strict=True)
        try:
            rows = np.asarray(self.zarr_array[start:stop])
        except Exception:  # any error of zarr or the store; reading chunk by chunk names the bad one
            return self.rows(start, stop, strict=True)
        for offset in range(start - start % self._chunk_length, stop, self._chunk_length):
            # zarr returns zeros for a missing chunk file, but chunks of zeros are stored as well: check the file
            chunk = rows[max(offset - start, 0) : offset + self._chunk_length - start]
            if not chunk.view(np.uint8).any():
                self.rows(max(offset, start), max(offset, start) + 1, strict=True)  # raises if the file is missing
        return as_record_type(rows, self.dtype)

    def whole_with(self, starts: Int64Array, stops: Int64Array, *, strict: bool = False) -> NumericArray | None:
        """Return an array in which the given row ranges are decoded; None if the array does not fit into the cache."""
        joined = self._joined
        if joined is None:
            return None
        if not joined.is_complete or (strict and self._missing):
            indices = self.chunks_of(starts, stops)
            read = self._reader_of(indices)
            for index in indices:
                self._chunk(index, strict, read)
        return joined.rows

    def chunks_of(self, starts: Int64Array, stops: Int64Array) -> list[int]:
        """Return the indices of the chunks that contain ranges of rows (B,), ascending."""
        chunks: set[int] = set()
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            chunks.update(range(start // self._chunk_length, -(-stop // self._chunk_length) if stop > start else 0))
        return sorted(chunks)

    def unread_of(self, indices: Sequence[int]) -> list[int]:
        """Return those of the chunks that are not cached and would have to be read."""
        joined, cache = self._joined, self._cache
        if joined is not None:
            return [index for index in indices if not joined.has(index)]
        return [index for index in indices if index != self._last[0] and cache.get((self.name, index)) is None]

    def keep(self, index: int, content: bytes | None) -> None:
        """Decode the content of a chunk file, None if it is missing, and cache it as if it had been read."""
        self._chunk(index, False, lambda _: self._decode_fetched(index, content))

    @property
    def is_kept_whole(self) -> bool:
        """Whether all rows fit into the cache, so that none are ever evicted."""
        return self._joined is not None

    @property
    def bytes_to_keep(self) -> int:
        """Decoded bytes that the shared cache can hold at the same time; 0 if it is off."""
        return self._cache.max_bytes

    def _reader_of(self, indices: Sequence[int]) -> Callable[[int], NumericArray]:
        """Return a reader of chunks requested in this order; for a remote array it reads several at once."""
        if len(indices) < 2 or not self.is_decoded_here:
            return self._read_chunk
        left = iter(self.unread_of(indices))
        last_index, last_chunk = self._last
        held = {} if last_chunk is None else {last_index: last_chunk}

        # fetch a missing chunk together with those needed next, which may be missing as well
        def give(index: int) -> NumericArray:
            if index not in held:
                together = [index]
                for number in left:
                    if number > index:
                        together.append(number)
                    if len(together) == NUM_READ_AHEAD:
                        break
                held.update(zip(together, self._fetch_chunks(together), strict=True))
            return held.pop(index)

        return give

    def _fetch_chunks(self, indices: Sequence[int]) -> list[NumericArray]:
        """Return decoded chunks of a remote array, fetched at the same time."""
        array = self.zarr_array
        contents = fetch_files([(array, index) for index in indices])
        return [self._decode_fetched(index, content) for index, content in zip(indices, contents, strict=True)]

    def _decode_fetched(self, index: int, content: bytes | None) -> NumericArray:
        """Return the rows of a chunk of a remote array, read-only; zeros if its file is missing."""
        num_rows = min(self._chunk_length, self._length - index * self._chunk_length)
        if content is None:
            self._missing.add(index)
            chunk = np.zeros(num_rows, dtype=self.dtype)
        else:
            try:
                stored = decode_file(self._array, content)[:num_rows]
            except Exception as error:  # any error of a codec for damaged bytes
                raise self._damaged(index, error) from error
            chunk = as_record_type(stored, self.dtype)
        chunk.setflags(write=False)
        return chunk

    def _damaged(self, index: int, error: Exception) -> CorruptedDataError:
        return CorruptedDataError(
            f"chunk file {self.chunk_file(index)} cannot be read or decoded ({type(error).__name__}: {error}); "
            "restore it from the source of the dataset"
        )

    def _block_of(self, row: int) -> tuple[int, NumericArray]:
        index = row // self._chunk_length
        return index * self._chunk_length, self._chunk(index, False, self._read_chunk)

    def _chunk(self, index: int, strict: bool, read: Callable[[int], NumericArray]) -> NumericArray:
        """Return the decoded rows of a chunk, read-only."""
        if self._joined is not None:
            chunk = self._joined.chunk(index, read)
        else:
            # check the last chunk first, without the lock of the cache: most rows are near the previous ones
            last_index, last_chunk = self._last
            if last_chunk is None or index != last_index:
                last_chunk = self._cache.get((self.name, index))
                if last_chunk is None:
                    last_chunk = read(index)
                    self._cache.put((self.name, index), last_chunk)
                self._last = (index, last_chunk)
            chunk = last_chunk
        if strict and index in self._missing:
            raise CorruptedDataError(
                f"chunk file {self.chunk_file(index)} is missing, but rows of it are used; "
                "restore it from the source of the dataset (l5kit validate lists all such files)"
            )
        return chunk

    def _read_chunk(self, index: int) -> NumericArray:
        if self.is_decoded_here:
            return self._fetch_chunks([index])[0]
        start = index * self._chunk_length
        stop = min(start + self._chunk_length, self._length)
        array = self.zarr_array
        try:
            decoded = decode_local_chunk(array, index)
            stored = np.asarray(array[start:stop]) if decoded is None else decoded[: stop - start]
        except UnreachableDataError:
            raise
        except Exception as error:
            raise self._damaged(index, error) from error
        if not stored.view(np.uint8).any() and not self.has_chunk_file(index):
            if is_folder(self.zarr_array.store, self._chunk_key(index)):
                raise CorruptedDataError(
                    f"chunk file {self.chunk_file(index)} is a folder; restore the file from the source of the dataset"
                )
            self._missing.add(index)
        chunk = as_record_type(stored, self.dtype)
        chunk.setflags(write=False)
        return chunk

    def present_chunks(self) -> list[int]:
        """Return the indices of the chunks whose files exist, ascending.

        Raises:
            Exception: The files cannot be listed; the type depends on the store.
        """
        array = self.zarr_array
        indices = chunk_indices(array.store, array.store_path.path, range(self.num_chunks))
        return [index for index in indices if index < self.num_chunks]

    def chunk_file(self, index: int) -> str:
        """Return the path of a chunk's file, for messages."""
        array = self.zarr_array
        return describe_file(array.store, f"{self.name}/{index}")

    def has_chunk_file(self, index: int) -> bool:
        """Return whether the file of a chunk exists."""
        return bool(sync(self.zarr_array.store.exists(self._chunk_key(index))))

    def _chunk_key(self, index: int) -> str:
        return f"{self.zarr_array.store_path.path}/{index}".lstrip("/")

    def signature(self) -> object:
        """Return path and a digest of names, sizes and modification times of the files; None if they are unknown."""
        location, files = location_of(self.zarr_array.store), self._state_of_files()
        if location is None or files is None:
            return None
        return f"{location}/{self.name}", hashlib.sha256(repr(files).encode()).hexdigest()

    def _state_of_files(self) -> list[tuple[object, ...]] | None:
        return store_signature(self.zarr_array.store, (self.name,))

    @property
    def num_chunks(self) -> int:
        """Number of chunks needed for the rows."""
        return -(-self._length // self._chunk_length)

    def __setitem__(self, index: object, values: ArrayLike) -> None:
        """Write rows to the store: one row, a slice, or the column of a field.

        Raises:
            IndexOutOfRangeError: There is no such row, or the kind of index is not supported.
            InvalidArgumentError: The values are not records of this array.
            ReadOnlyDatasetError: The dataset was opened for reading.
        """
        array = self._writable()
        if isinstance(index, str):
            rows = self[:]
            rows[index] = values
            index, values = slice(None), rows
        if isinstance(index, (int, np.integer)):
            if not -self._length <= index < self._length:
                raise IndexOutOfRangeError(f"row {index} is out of range for an array of {self._length} rows")
            row = int(index) % self._length
            index = slice(row, row + 1)
        if index is Ellipsis:
            index = slice(None)
        if not isinstance(index, slice) or (index.step or 1) < 1:
            raise IndexOutOfRangeError(f"rows can be written by an integer, a forward slice or a field, got {index!r}")
        start, stop, step = index.indices(self._length)
        array[start:stop:step] = np.broadcast_to(self._as_stored(values), len(range(start, stop, step)))
        self._forget(start, stop)

    def append(self, values: ArrayLike) -> tuple[int]:
        """Add rows at the end and return the new shape.

        Args:
            values: Records with the fields of the array, in any order, or tuples with a value for every field.

        Raises:
            InvalidArgumentError: The values are not such records, or values of a field would be lost.
            ReadOnlyDatasetError: The dataset was opened for reading.
        """
        records = self._as_stored(values).reshape(-1)
        start = self._length
        self.resize(start + len(records))
        if len(records):
            self[start:] = records
        return self.shape

    def resize(self, length: int | tuple[int]) -> None:
        """Change the number of rows; new rows are zero.

        Raises:
            InvalidArgumentError: The length is negative.
            ReadOnlyDatasetError: The dataset was opened for reading.
        """
        new_length = int(length[0]) if isinstance(length, tuple) else int(length)
        if new_length < 0:
            raise InvalidArgumentError(f"length must be 0 or more, got {new_length}")
        array = self._writable()
        drop_consolidated(array.store, array.store_path.path.rpartition("/")[0])
        chunk_end = min(-(-new_length // self._chunk_length) * self._chunk_length, self._length)
        if new_length < chunk_end:  # otherwise stale rows in the last chunk file would reappear when the array grows
            array[new_length:chunk_end] = np.zeros(chunk_end - new_length, dtype=array.dtype)
        array.resize((new_length,))
        self._forget(min(self._length, new_length), max(self._length, new_length))
        self._length = new_length

    def _as_stored(self, values: ArrayLike) -> NumericArray:
        """Return records in the stored type, converted from tuples if needed."""
        fields = list(self._array.dtype.names or ())
        # a record as a tuple, or a (possibly empty) list of tuples; anything else has its own type
        are_tuples = isinstance(values, tuple) or (
            isinstance(values, list) and all(isinstance(row, tuple) for row in values)
        )
        try:
            records = np.asarray(values, dtype=self.dtype if are_tuples else None)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"rows of {self.name!r} must be records with the fields {list(self.dtype.names or ())}, or tuples "
                f"with a value for each: {error}"
            ) from error
        if not set(fields) <= set(records.dtype.names or ()):
            raise InvalidArgumentError(
                f"rows of {self.name!r} must be records with the fields {fields}, got dtype {records.dtype}; "
                "fill an array such as np.zeros(n, dtype=array.dtype)"
            )

        # Refuse fields that are not stored. Fields that are only presented (the face interval of datasets without
        # lights) must be zero, as they are read back as zeros.
        presented = self.dtype.names or ()
        lost = [
            name
            for name in records.dtype.names or ()
            if name not in fields and (name not in presented or records[name].any())
        ]
        if lost:
            raise InvalidArgumentError(
                f"rows of {self.name!r} have the fields {lost}, whose values would be lost: the array stores {fields}; "
                "remove them, or write your records as a new dataset with save()"
            )
        return as_record_type(records, self._array.dtype)

    def _writable(self) -> ZarrArray:
        array = self.zarr_array
        if array.read_only:
            raise ReadOnlyDatasetError(
                f"{describe_file(array.store, self.name)} was opened for reading; "
                "open the dataset with mode='r+' (a zip file cannot be changed: copy it with save() to a folder)"
            )
        return array

    def _forget(self, start: int, stop: int) -> None:
        """Discard the decoded chunks of rows [start, stop), and what is known about their files."""
        self._last = (-1, None)
        if stop > start:
            for index in range(start // self._chunk_length, (stop - 1) // self._chunk_length + 1):
                self._cache.discard((self.name, index))
                self._missing.discard(index)

    def __getstate__(self) -> dict[str, object]:
        if is_process_memory(self._array.store):
            raise UnpicklableStoreError(
                f"the array {self.name!r} lies in the memory of this process and cannot be sent to another. "
                "Use DataLoader workers started by fork (multiprocessing_context='fork'), num_workers=0, "
                "or save() the dataset to a folder and open that."
            )
        return {"array": self._array, "cache": self._cache, "dtype": self.dtype}

    def __setstate__(self, state: PickledState) -> None:
        self.__init__(state["array"], state["cache"], dtype=state["dtype"])  # type: ignore[misc]

    def __deepcopy__(self, memo: dict[int, object]) -> "ChunkedArray":
        return type(self)(self._array, copy.deepcopy(self._cache, memo), dtype=self.dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self._length} rows of {self.dtype.itemsize} bytes>"


class RowRanges(NamedTuple):
    """Ranges of rows within an array: first row and end row of each, of any shape."""

    array: Records
    starts: Int64Array
    stops: Int64Array


def read_ahead(wanted: Sequence[RowRanges]) -> None:
    """Read the chunks of row ranges of several arrays, so that they are cached when the rows are requested.

    Nothing is done for arrays that are not remote, for cached chunks, and if the cache has no room.

    Args:
        wanted: The ranges of each array.

    Raises:
        CorruptedDataError: A chunk cannot be decoded.
        UnreachableDataError: The service refuses the request, or does not answer.
    """
    chunks: list[tuple[ChunkedArray, int]] = []
    for array, starts, stops in wanted:
        if isinstance(array, ChunkedArray) and array.is_decoded_here:
            unread = array.unread_of(array.chunks_of(np.ravel(starts), np.ravel(stops)))
            num_bytes = len(unread) * array.chunks[0] * array.dtype.itemsize
            if 2 * num_bytes <= array.bytes_to_keep or array.is_kept_whole:
                chunks += [(array, index) for index in unread]
    for start in range(0, len(chunks) if len(chunks) > 1 else 0, NUM_READ_AHEAD):
        together = chunks[start : start + NUM_READ_AHEAD]
        contents = fetch_files([(array.zarr_array, index) for array, index in together])
        for (array, index), content in zip(together, contents, strict=True):
            array.keep(index, content)
