"""Blosc that looks at the length of a chunk before it decodes it.

A Blosc chunk says in its header how long it is, and the library believes it: of a file that was cut short it decodes
what lies behind it in memory, which is an error most of the time, and once in a while wrong records.
"""

from typing import Any

import numcodecs
import numpy as np
from numcodecs.compat import ensure_contiguous_ndarray

_HEADER_NUM_BYTES = 16
_STORED_NUM_BYTES = slice(12, 16)
"""Where the header has the number of bytes of the chunk, in little endian."""


class CheckedBlosc(numcodecs.Blosc):  # type: ignore[misc]
    """The codec ``blosc``, which refuses chunks that are shorter than they say."""

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the decoded bytes of a chunk.

        Raises:
            ValueError: The chunk is cut short.
        """
        chunk = ensure_contiguous_ndarray(buf).view(np.uint8)
        said = int.from_bytes(chunk[_STORED_NUM_BYTES].tobytes(), "little")
        if len(chunk) < max(said, _HEADER_NUM_BYTES):
            raise ValueError(f"it has {len(chunk)} bytes, but should have {max(said, _HEADER_NUM_BYTES)}")
        return super().decode(buf, out)


def check_lengths(array: Any) -> None:
    """Make a zarr array of format 2 check the lengths of its chunks, if they are compressed with Blosc."""
    compressor = getattr(array.metadata, "compressor", None)
    if type(compressor) is numcodecs.Blosc:
        compressor.__class__ = CheckedBlosc  # the array and what decodes for it hold this one object


__all__ = ["CheckedBlosc", "check_lengths"]
