"""Columns layout: the fields of records stored as separate plain arrays of zarr 3, readable by any zarr library.

The group of an array of records contains an array for each field; its first axis is the rows, followed by the axes of
the field. Texts are stored as code points, padded with zeros, along an additional axis.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import zarr
from numpy.typing import DTypeLike
from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import LocalStore, StorePath

from l5kit._types import DType, NumericArray, RecordArray
from l5kit.data.layout import MAX_BYTES, MAX_CHUNK_BYTES, MAX_LOST_FILES, check_fields
from l5kit.data.record_bytes import as_record_type
from l5kit.data.stores.chunk_files import ChunkCache
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.data.stores.store import ZarrArray, collected, describe_file, location_of, which_exist
from l5kit.data.stores.store_signature import store_signature
from l5kit.errors import (
    CorruptedDataError,
    DatasetFormatError,
    InvalidArgumentError,
    ReadOnlyDatasetError,
    UnreachableDataError,
)

LAYOUT_KEY = "l5kit_layout"
"""Attribute that marks a zarr 3 group as a dataset in this layout."""

SOURCE_KEY = "l5kit_source"
"""Attribute with the dataset from which a group was exported."""

LAYOUT_NAME = "columns"
LAYOUT_VERSION = 1

FIELDS_KEY = "l5kit_fields"
"""Attribute of the group of an array: name, type and shape of each field, in the order of the records."""


def require_columns(root: zarr.Group, location: str) -> None:
    """Refuse a zarr 3 group that is not a dataset, or that has a later version of the layout.

    Raises:
        DatasetFormatError: It is such a group.
    """
    mark: Any = root.attrs.get(LAYOUT_KEY)
    if not isinstance(mark, Mapping) or mark.get("name") != LAYOUT_NAME:
        raise DatasetFormatError(
            f"{location} is a group of zarr 3, but not a dataset: datasets use zarr 2, or were written by "
            f"`l5kit export --layout columns` with the attribute {LAYOUT_KEY!r}"
        )
    version = mark.get("version")
    if version != LAYOUT_VERSION:
        raise DatasetFormatError(
            f"{location} has version {version!r} of the columns layout; this l5kit knows {LAYOUT_VERSION}: update it, "
            "or export the dataset again"
        )


def plain_type(field: DType) -> tuple[DType, tuple[int, ...]]:
    """Return the type and shape in which a value of a field is stored.

    Args:
        field: Type of the field, with its shape.

    Raises:
        InvalidArgumentError: Plain arrays do not support the kind of field.
    """
    base, shape = field.base, field.shape
    if base.kind == "U":
        return np.dtype("<u4"), (*shape, base.itemsize // 4)
    if base.kind == "S":
        return np.dtype("u1"), (*shape, base.itemsize)
    if base.kind not in "biuf" or base.itemsize > np.dtype(np.uint64).itemsize:
        raise InvalidArgumentError(f"fields must be numbers or texts to be stored as plain arrays, got {field}")
    return base.newbyteorder("<"), shape


class StoredColumns:
    """One array of records of a dataset in the columns layout, with the interface of a zarr array.

    Args:
        group: Its group.
        file: Path of the metadata of the group, for messages.

    Attributes:
        dtype: Type of the records.
        shape: Number of rows, as a tuple.
        chunks: Rows per chunk, as a tuple; the same for all fields.

    Raises:
        DatasetFormatError: The group is not in this layout, or its parts are inconsistent.
    """

    ndim = 1
    read_only = True

    def __init__(self, group: zarr.Group, file: str) -> None:
        self.store_path: StorePath = group.store_path
        self.path = str(group.path)
        # record type, from the attributes of the group
        fields: Any = group.attrs.get(FIELDS_KEY)
        try:
            dtype: DType = np.dtype([(str(name), kind, tuple(shape)) for name, kind, shape in fields])
            if not dtype.names:
                raise ValueError("no fields")
            for name in dtype.names:
                plain_type(dtype[name])
        except (TypeError, ValueError) as error:
            raise DatasetFormatError(
                f"{file}: the attribute {FIELDS_KEY!r} must list name, type and shape of each field, got {fields!r} "
                f"({error}); export the dataset again"
            ) from error
        self.dtype = dtype
        self._arrays: dict[str, ZarrArray] = {}
        for name in self.dtype.names or ():
            self._arrays[name] = _open_field(group, name, self.dtype[name], file)
        first = next(iter(self._arrays.values()))
        self.shape = (int(first.shape[0]),)
        self.chunks = (int(first.chunks[0]),)
        for name, array in self._arrays.items():
            if (array.shape[0], array.chunks[0]) != (first.shape[0], first.chunks[0]):
                raise DatasetFormatError(
                    f"{file}: field {name!r} has {array.shape[0]} rows in chunks of {array.chunks[0]}, the first has "
                    f"{first.shape[0]} in chunks of {first.chunks[0]}; the export is damaged, export the dataset again"
                )

    @classmethod
    def open(cls, group: object, key: str, file: str) -> "StoredColumns":
        """Return one of the arrays of a dataset, after checking its fields against the format.

        Args:
            group: Member ``key`` of the group of the dataset.
            key: Name of the array.
            file: Path of its metadata, for messages.

        Raises:
            DatasetFormatError: It is something else, or longer than its files allow.
        """
        if not isinstance(group, zarr.Group):
            raise DatasetFormatError(f"{file} must describe a group of arrays, got {group!r}; export the dataset again")
        columns = cls(group, file)
        check_fields(columns.dtype, key, file)
        columns.check_size(file)
        return columns

    @property
    def store(self) -> Store:
        """The store of the files."""
        return self.store_path.store

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(self._arrays)

    def __getitem__(self, rows: slice) -> RecordArray:
        """Return the records in a range of rows."""
        start, stop, _ = rows.indices(self.shape[0])
        records = np.empty(max(stop - start, 0), dtype=self.dtype)
        for name in self.names:
            self.read_field(name, start, stop, records)
        return records

    def read_field(self, name: str, start: int, stop: int, records: RecordArray) -> bool:
        """Read a field of rows [start, stop) into records, and return whether any bit of it is set."""
        values = np.ascontiguousarray(self._arrays[name][start:stop])
        field = self.dtype[name]
        records[name] = values.view(field.base.newbyteorder("<")).reshape(len(records), *field.shape)
        return bool(values.view(np.uint8).any())

    def shard_key(self, name: str, row: int) -> str:
        """Return the store key of the file with a field of a row."""
        array = self._arrays[name]
        metadata: Any = array.metadata
        zeros = (0 for _ in array.shape[1:])  # a single chunk along the axes of a value
        return f"{array.store_path.path}/{metadata.encode_chunk_key((row // _rows_per_shard(array), *zeros))}"

    def missing_key(self, row: int) -> str | None:
        """Return the key of the first missing file of a row; None if all exist."""
        keys = (self.shard_key(name, row) for name in self.names)
        return next((key for key in keys if not sync(self.store.exists(key))), None)

    def present_chunks(self) -> list[int]:
        """Return the indices of the chunks whose files all exist, ascending."""
        length, chunk_length = self.shape[0], self.chunks[0]
        is_there = np.ones(-(-length // chunk_length), dtype=np.bool_)
        for name, array in self._arrays.items():
            rows_per_shard = _rows_per_shard(array)
            keys = [self.shard_key(name, row) for row in range(0, length, rows_per_shard)]
            for start, exists in zip(range(0, length, rows_per_shard), which_exist(self.store, keys), strict=True):
                is_there[start // chunk_length : (start + rows_per_shard) // chunk_length] &= exists
        return np.flatnonzero(is_there).tolist()

    def signature(self) -> list[tuple[object, ...]] | None:
        """Return name, size and modification time of the files of all fields; None if they are unknown."""
        keys: tuple[str, ...] = (self.path,)
        if isinstance(self.store, LocalStore):
            root = Path(self.store.root)
            folders = (folder for folder, _, _ in os.walk(root / self.path))
            keys = tuple(sorted(Path(folder).relative_to(root).as_posix() for folder in folders))
        return None if location_of(self.store) is None else store_signature(self.store, keys)

    def check_size(self, file: str) -> None:
        """Refuse lengths that do not match the files, like :func:`l5kit.data.layout.check_size`.

        Raises:
            DatasetFormatError: The length or the chunks are too large.
        """
        advice = "the metadata is damaged, or files were lost: export the dataset again"
        length, row_bytes = self.shape[0], self.dtype.itemsize
        if length * row_bytes >= MAX_BYTES or self.chunks[0] * row_bytes > MAX_CHUNK_BYTES:
            raise DatasetFormatError(
                f"{file} declares {length} rows in chunks of {self.chunks[0]}, more than a machine can hold; {advice}"
            )
        array = self._arrays[self.names[0]]
        num_shards = -(-length // _rows_per_shard(array))
        if num_shards <= MAX_LOST_FILES or sync(self.store.exists(self.shard_key(self.names[0], length - 1))):
            return

        # the last file is missing: either some files were lost, or the length is far too large
        num_present = len(set(collected(array.store.list_prefix(f"{array.store_path.path}/")))) - 1
        if num_shards > num_present + max(MAX_LOST_FILES, num_present):
            raise DatasetFormatError(
                f"{file} declares {length} rows in {num_shards} files, but there are {num_present}; {advice}"
            )


def _open_field(group: zarr.Group, name: str, field: DType, file: str) -> ZarrArray:
    try:
        array: Any = group.get(name)
    except UnreachableDataError:
        raise
    except Exception as error:  # any error of zarr and its parsers for damaged metadata
        field_file = describe_file(group.store, f"{group.path}/{name}/zarr.json")
        raise DatasetFormatError(
            f"{field_file} cannot be read ({type(error).__name__}: {error}); export the dataset again"
        ) from error
    stored, shape = plain_type(field)
    if not isinstance(array, zarr.Array):
        raise DatasetFormatError(f"{file}: the array of field {name!r} is missing; export the dataset again")
    is_whole = array.shape[1:] == shape and array.chunks[1:] == shape
    if array.dtype != stored or array.ndim != 1 + len(shape) or not is_whole or array.chunks[0] < 1:
        raise DatasetFormatError(
            f"{file}: the array of field {name!r} must be of {stored} and have rows of shape {shape} in whole chunks, "
            f"got {array.dtype} of shape {array.shape} in chunks {array.chunks}; export the dataset again"
        )
    return array


def _rows_per_shard(array: ZarrArray) -> int:
    """Return the number of rows of a field per file."""
    return int((array.shards or array.chunks)[0])


class ColumnsArray(ChunkedArray):
    """One array of a dataset in the columns layout; it reads like any other, but cannot be written to.

    Chunks of records are assembled from the chunks of all fields and kept decoded, so that reading further rows of a
    chunk costs the same as in other datasets.

    Args:
        columns: The arrays of its fields, in place of the single zarr array of other datasets.
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
        """Return the same array with a separate cache that keeps only the chunk in use."""
        return ColumnsArray(self.columns, ChunkCache(0), dtype=self.dtype)

    def passing_rows(self, start: int, stop: int) -> NumericArray:
        """Return rows [start, stop) for a pass over all rows, without caching; see the base class."""
        is_decoded = self._joined is not None and self._joined.is_complete
        return (self if is_decoded else self.uncached()).rows(start, stop, strict=True)

    def present_chunks(self) -> list[int]:
        """Return the indices of the chunks whose files all exist, ascending."""
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
            except Exception as error:  # any error of zarr, a codec or the store for damaged files
                file = describe_file(columns.store, columns.shard_key(name, start))
                raise CorruptedDataError(
                    f"{file} cannot be read or decoded ({type(error).__name__}: {error}); export the dataset again"
                ) from error
        if is_zero and not self.has_chunk_file(index):
            self._missing.add(index)
        chunk = as_record_type(stored, self.dtype)
        chunk.setflags(write=False)
        return chunk

    def _writable(self) -> NoReturn:
        raise ReadOnlyDatasetError(
            f"{describe_file(self.columns.store, self.name)} is an export in columns, which is read-only; save() the "
            "dataset to a folder and open that with mode='r+'"
        )
