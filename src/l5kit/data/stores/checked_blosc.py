"""Blosc that looks at the length of a chunk before it decodes it.

A Blosc chunk says in its header how long it is, and the library believes it: of a file that was cut short it decodes
what lies behind it in memory, which is an error most of the time, and once in a while wrong records.
"""

from dataclasses import replace
from typing import Any

import numcodecs
import numpy as np
import zarr
from numcodecs.compat import ensure_contiguous_ndarray

from l5kit._types import NumericArray

_HEADER_NUM_BYTES = 16
_STORED_NUM_BYTES = slice(12, 16)
"""Where the header has the number of bytes of the chunk, in little endian."""


class CheckedBlosc(numcodecs.Blosc):  # type: ignore[misc]
    """The codec ``blosc``, which refuses chunks that are shorter than they say."""

    def decode(self, buf: object, out: object = None) -> bytes | NumericArray:
        """Return the decoded bytes of a chunk.

        Raises:
            ValueError: The chunk is cut short.
        """
        chunk = ensure_contiguous_ndarray(buf).view(np.uint8)
        said = int.from_bytes(chunk[_STORED_NUM_BYTES].tobytes(), "little")
        if len(chunk) < max(said, _HEADER_NUM_BYTES):
            raise ValueError(f"it has {len(chunk)} bytes, but should have {max(said, _HEADER_NUM_BYTES)}")
        decoded: bytes | NumericArray = super().decode(buf, out)
        return decoded


def with_checked_lengths(array: Any, **config: bool) -> Any:
    """Return a zarr array of which :class:`CheckedBlosc` decodes the chunks if Blosc compressed them.

    Args:
        array: A zarr array; what only reads like one is returned as it is.
        **config: How it is read and written, as zarr names it.
    """
    if not isinstance(array, zarr.Array):
        return array
    metadata: Any = array.metadata
    compressor = getattr(metadata, "compressor", None)
    if isinstance(compressor, numcodecs.Blosc):
        kept = {key: value for key, value in compressor.get_config().items() if key != "id"}
        metadata = replace(metadata, compressor=CheckedBlosc(**kept))
    settings: Any = config or None
    return zarr.Array(zarr.AsyncArray(metadata=metadata, store_path=array.store_path, config=settings))
