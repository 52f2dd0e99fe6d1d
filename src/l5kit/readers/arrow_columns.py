"""Columns of Arrow and Parquet files: size-limited reading and type checks."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from l5kit._types import Int64Array
from l5kit.configs.texts import require_regular_file


def read_arrow_table(path: Path, *, called: str, read_as: str, most_bytes: int, missing: str) -> pa.Table:
    """Return the table of an Arrow file, memory-mapped as long as its columns are used.

    Args:
        path: The file.
        called: Description of the file, for errors, such as ``feather file``.
        read_as: Name of the format, for errors.
        most_bytes: Maximum size; a larger file is refused.
        missing: Message if the file does not exist.

    Raises:
        InvalidArgumentError: It is a pipe or a device.
        ValueError: It is missing, too large or damaged.
    """
    try:
        require_regular_file(path, called=called)
        if path.stat().st_size > most_bytes:
            raise ValueError(f"it has {path.stat().st_size} bytes, more than {most_bytes}")
        options = pa.ipc.IpcReadOptions(use_threads=False)  # threads take longer to start than the file to read
        table = pa.ipc.open_file(pa.memory_map(str(path)), options=options).read_all()
        table.validate(full=True)
    except FileNotFoundError as error:
        raise ValueError(missing) from error
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it cannot be read as {read_as}: {' '.join(str(error).split())[:300]}") from error
    return table


def unpacked_bytes(metadata: pyarrow.parquet.FileMetaData) -> int:
    """Return the uncompressed size of a Parquet file, which may exceed the memory."""
    return sum(metadata.row_group(row).total_byte_size for row in range(metadata.num_row_groups))


def require_kind(column: pa.Array | pa.ChunkedArray, name: str, wanted: str) -> None:
    """Refuse a column of another type, which might be converted to wrong values silently, or with null values.

    Args:
        column: The column.
        name: Its name, for errors.
        wanted: ``text``, ``numbers`` or ``whole numbers``.

    Raises:
        TypeError: It has another type.
        ValueError: It has rows without a value.
    """
    kind = value_type(column)
    is_whole = pa.types.is_integer(kind)
    if wanted == "text":
        is_right = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    else:
        is_right = is_whole or (wanted == "numbers" and pa.types.is_floating(kind))
    if not is_right:
        raise TypeError(f"column {name} must hold {wanted}, got {column.type}")
    num_missing = column.cast(kind).null_count  # decoded first, as nulls inside a dictionary are not counted
    if num_missing:
        raise ValueError(f"column {name} has {num_missing} rows without a value")


def require_columns(table: pa.Table, kinds: Mapping[str, str]) -> None:
    """Refuse a table that lacks a column, or has one of another type; see :func:`require_kind`."""
    missing = [name for name in kinds if name not in table.column_names]
    if missing:
        raise ValueError(f"there is no column {', '.join(missing)}; it is of another dataset or of an unknown version")
    for name, kind in kinds.items():
        require_kind(table.column(name), name, kind)


def codes_of(column: pa.ChunkedArray) -> tuple[Int64Array, list[str]]:
    """Return the code of each row's text, and the texts in order of first appearance."""
    encoded = column.cast(value_type(column)).combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), [str(text) for text in encoded.dictionary.to_pylist()]


def value_type(column: pa.Array | pa.ChunkedArray) -> pa.DataType:
    """Return the value type of a column, decoded from a dictionary type if needed."""
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type
