"""What files of py123d have in common: Arrow IPC files with a dictionary in msgpack in their schema."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from l5kit._types import Int64Array, JsonObject, NumericArray

if TYPE_CHECKING:
    import pyarrow as pa

DATASET: Final = "l5kit"
"""What py123d calls the dataset."""

VERSION: Final = "0.7.0"
"""Version of py123d whose files these are."""


def pack(content: Mapping[str, object]) -> bytes:
    """Return a dictionary in msgpack; arrays are dictionaries with the keys that py123d knows them by."""
    packed: dict[str, object] = {}
    for key, value in content.items():
        packed[key] = value
        if isinstance(value, np.ndarray):
            data, shape = np.ascontiguousarray(value).tobytes(), list(value.shape)
            packed[key] = {b"__ndarray__": True, b"dtype": value.dtype.str, b"shape": shape, b"data": data}
    return msgspec.msgpack.encode(packed)


def write_arrow(
    file: Path, columns: Mapping[str, "pa.Array"], metadata: JsonObject, own: JsonObject | None = None
) -> None:
    """Write a file of the Arrow IPC format, not compressed, so that its columns are read where they lie.

    Args:
        file: The file, in a folder that is there.
        columns: Columns of the same length.
        metadata: What is told of them.
        own: What l5kit tells beside, which py123d has no room for and passes over; None for nothing.
    """
    import pyarrow as pa

    schema_metadata = {b"metadata": pack(metadata)} | ({} if own is None else {b"l5kit": pack(own)})
    table = pa.table(dict(columns)).replace_schema_metadata(schema_metadata)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def fixed_lists(values: NumericArray) -> "pa.Array":
    """Return the rows of an array (N, K) as lists of K."""
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def lists_of(starts: Int64Array, values: "pa.Array") -> "pa.Array":
    """Return lists of values that follow one another.

    Args:
        starts: First value of each list, and the end of the last, (N + 1,).
        values: All values.
    """
    import pyarrow as pa

    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), values)
