"""One chunk of an array in a local folder, read and decoded by the thread that asks for it.

zarr hands each chunk to a thread of its own and from there to others; for the files of a local folder that costs more
than decoding does, and keeps several threads from reading at the same time.
"""

import os

import numpy as np
from zarr.storage import LocalStore

from l5kit._types import NumericArray
from l5kit.configs.texts import require_regular_file
from l5kit.data.stores.checked_blosc import CheckedBlosc
from l5kit.data.stores.store import ZarrArray

_NOT_WAITING = getattr(os, "O_NONBLOCK", 0)
"""With this flag a pipe in the place of a file is empty, and not waited for until somebody writes to it."""


def decode_local_chunk(array: ZarrArray, index: int) -> NumericArray | None:
    """Return all rows of a chunk as they are stored, (chunk length, ...); None where zarr has to be asked.

    That is for other stores and codecs, and for files that are missing or damaged, of which zarr tells what is wrong.

    Args:
        array: A zarr array from :func:`~l5kit.data.stores.checked_blosc.with_checked_lengths`, whose chunks hold whole
            rows.
        index: Number of the chunk.
    """
    store, metadata = array.store_path.store, array.metadata
    if array.ndim > 1 and (getattr(metadata, "order", "") != "C" or array.chunks[1:] != array.shape[1:]):
        return None
    key = getattr(metadata, "dimension_separator", ".").join([str(index)] + ["0"] * (array.ndim - 1))
    codec = getattr(metadata, "compressor", None)
    if type(store) is not LocalStore or not isinstance(codec, CheckedBlosc) or getattr(metadata, "filters", None):
        return None
    file_path = store.root / array.store_path.path / key
    try:
        with open(file_path, "rb", opener=lambda path, flags: os.open(path, flags | _NOT_WAITING)) as file:
            decoded = codec.decode(file.read())
        rows: NumericArray = np.frombuffer(decoded, dtype=array.dtype).reshape(-1, *array.chunks[1:])
    except Exception:  # whatever the file system and the codec make of damaged files: zarr meets it again, and says so
        require_regular_file(file_path, called="chunk file")  # for a pipe zarr would wait
        return None
    return rows if len(rows) == array.chunks[0] else None
