"""Files of py123d, read with pyarrow and msgspec only: memory-mapped tables, and dictionaries with arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from l5kit._types import Float64Array, Int64Array, NumericArray
from l5kit.readers.arrow_columns import read_arrow_table, require_kind
from l5kit.readers.source_fields import SourceFields

_MOST_BYTES: Final = 8 << 30
_ARRAY_KINDS: Final = ("<f8", "<f4", "<i8", "<i4")


@dataclass(frozen=True, eq=False)
class ArrowFile:
    """A file of py123d.

    Attributes:
        table: Its columns, with the modality prefix removed from their names.
        metadata: Its metadata.
        own: Extra metadata in files written by l5kit; else empty.
    """

    table: pa.Table
    metadata: SourceFields
    own: Mapping[object, object]

    def column(self, name: str) -> pa.Array:
        """Return a column as a single array.

        Raises:
            ValueError: There is no such column.
        """
        if name not in self.table.column_names:
            raise ValueError(f"there is no column {name}; there are: {', '.join(self.table.column_names)[:300]}")
        column = self.table.column(name).combine_chunks()
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    def numeric(self, name: str) -> NumericArray:
        """Return a column of numbers without nulls, (N,).

        Raises:
            TypeError: It has another type.
            ValueError: It has nulls, or does not exist.
        """
        return numeric_values(self.column(name), name)

    def lists(self, name: str) -> tuple[Int64Array, pa.Array]:
        """Return the offsets of the lists of a column, including the final end, (N + 1,), and their flattened values.

        Raises:
            TypeError: It has another type.
            ValueError: A list is missing, or there is no such column.
        """
        column = self.column(name)
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            raise TypeError(f"column {name} must hold lists, got {column.type}")
        if column.null_count:
            raise ValueError(f"column {name} has {column.null_count} rows without a list")
        offsets = column.offsets.to_numpy().astype(np.int64)
        return offsets - offsets[0], column.flatten()

    def values_beside(self, other: str, name: str) -> pa.Array:
        """Return the flattened values of a list column whose lists have the same lengths as those of another column.

        Raises:
            TypeError: It has another type.
            ValueError: A list is missing or has another length, or there is no such column.
        """
        starts, values = self.lists(name)
        if not np.array_equal(starts, self.lists(other)[0]):
            raise ValueError(f"lists of {name} have other lengths than those of {other}")
        return values


def open_arrow(path: Path, prefix: str = "") -> ArrowFile:
    """Open a file, memory-mapped as long as its columns are used.

    Args:
        path: The file.
        prefix: Name of the modality that prefixes the names of columns.

    Raises:
        ValueError: It is missing, damaged, or not a py123d file.
    """
    missing = "there is no such file"
    table = read_arrow_table(
        path, called="Arrow file", read_as="an Arrow file", most_bytes=_MOST_BYTES, missing=missing
    )
    metadata = table.schema.metadata or {}
    if b"metadata" not in metadata:
        raise ValueError("its schema has no metadata, so it is no file of py123d, or of an unknown version")
    start = f"{prefix}." if prefix else ""
    table = table.rename_columns([name.removeprefix(start) for name in table.column_names])
    own = unpack(metadata[b"l5kit"]).values if b"l5kit" in metadata else {}
    return ArrowFile(table, unpack(metadata[b"metadata"]), own)


def unpack(content: bytes, name: str = "") -> SourceFields:
    """Decode a msgpack dictionary, with arrays in the encoding of py123d.

    Args:
        content: The bytes.
        name: Description of the content, for errors.

    Raises:
        TypeError: It has another type.
        ValueError: It is damaged.
    """
    try:
        values = msgspec.msgpack.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"{name or 'the metadata'} is damaged as msgpack: {error}") from error
    fields = SourceFields.of(values, name)
    unpacked: dict[object, object] = {}
    for key, value in fields.values.items():
        unpacked[key] = value
        # arrays are encoded as dictionaries of type, shape and bytes
        if not isinstance(value, dict) or b"__ndarray__" not in value:
            continue
        kind, shape, raw = (value.get(part) for part in (b"dtype", b"shape", b"data"))
        if kind not in _ARRAY_KINDS or not isinstance(raw, bytes) or not isinstance(shape, list):
            raise ValueError(f"an array must have one of the types {', '.join(_ARRAY_KINDS)}, got {kind!r:.40}")
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError(f"an array must have a shape of whole numbers, got {shape!r:.80}")
        size = np.dtype(str(kind)).itemsize
        for length in shape:
            size *= length
        if size != len(raw):
            raise ValueError(f"an array of shape {shape!r:.80} and {kind} needs {size} bytes, got {len(raw)}")
        unpacked[key] = np.frombuffer(raw, str(kind)).reshape(shape)
    return SourceFields(unpacked, name)


def numeric_values(column: pa.Array, name: str) -> NumericArray:
    """Return numbers without nulls, (N,).

    Raises:
        TypeError: They have another type.
        ValueError: There are nulls.
    """
    require_kind(column, name, "numbers")
    values: NumericArray = column.to_numpy(zero_copy_only=False)
    return values


def rows_of(column: pa.Array, name: str, size: int) -> Float64Array:
    """Return fixed-size lists without nulls, (N, size).

    Raises:
        TypeError: They have another type.
        ValueError: There are nulls.
    """
    kind = column.type
    if not pa.types.is_fixed_size_list(kind) or kind.list_size != size:
        raise TypeError(f"column {name} must hold lists of {size} numbers, got {kind}")
    if column.null_count:
        raise ValueError(f"column {name} has {column.null_count} rows without values")
    values = numeric_values(column.flatten(), name)
    rows: Float64Array = values.astype(np.float64, copy=False).reshape(-1, size)
    return rows
