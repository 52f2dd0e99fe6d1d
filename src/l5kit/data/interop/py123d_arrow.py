"""Arrow IPC files of py123d, with a msgpack dictionary in their schema."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from l5kit._types import Int64Array, JsonObject, NumericArray

if TYPE_CHECKING:
    import pyarrow as pa

DATASET: Final = "l5kit"
"""Name of the dataset in py123d."""

VERSION: Final = "0.7.0"
"""Version of py123d that defines the format of these files."""


def pack(content: Mapping[str, object]) -> bytes:
    """Return a dictionary in msgpack; arrays become dictionaries with the keys that py123d expects."""
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
    """Write an uncompressed Arrow IPC file, whose columns can be read in place.

    Args:
        file: The file, in an existing folder.
        columns: Columns of the same length.
        metadata: Metadata for py123d.
        own: Further metadata of l5kit, which py123d ignores; None for none.
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
    """Return consecutive lists of values.

    Args:
        starts: Start of each list, and the end of the last one, (N + 1,).
        values: All values.
    """
    import pyarrow as pa

    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), values)
