"""Packing of arrays and facts into bytes that the page reads without copying.

The bytes are ``L5KV``, the length of the header (uint32, little-endian), the header (JSON, padded with spaces), and the
arrays, little-endian, each at a multiple of 8. The header has the name, type, shape and offset of each array.
"""

import json
from collections.abc import Mapping
from typing import Final

from l5kit._types import NumericArray
from l5kit.errors import UnsupportedValueError

MAGIC: Final = b"L5KV"
_ALIGNMENT: Final = 8
_TYPES: Final = ("float64", "float32", "uint32", "int32", "uint16", "uint8")
_PREFIX_BYTES: Final = len(MAGIC) + 4


def pack_arrays(facts: Mapping[str, object], arrays: Mapping[str, NumericArray]) -> bytes:
    """Return facts and arrays as bytes.

    Args:
        facts: JSON values; numbers must be finite.
        arrays: Arrays of float64, float32, uint32, int32, uint16 or uint8, by name.

    Raises:
        UnsupportedValueError: An array has another type.
        ValueError: A fact is not finite.
    """
    entries, parts, offset = [], [], 0
    for name, array in arrays.items():
        if array.dtype.name not in _TYPES:
            raise UnsupportedValueError(f"array {name!r} is {array.dtype}; allowed are {', '.join(_TYPES)}")
        content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        entries.append({"name": name, "dtype": array.dtype.name, "shape": list(array.shape), "offset": offset})
        parts.append(_padded(content, b"\0"))
        offset += len(parts[-1])
    header = json.dumps({"facts": dict(facts), "arrays": entries}, allow_nan=False).encode("ascii")
    # pad with spaces so that the first array starts at a multiple of 8
    header = _padded(header, b" ", before=_PREFIX_BYTES)
    return b"".join([MAGIC, len(header).to_bytes(4, "little"), header, *parts])


def _padded(content: bytes, filler: bytes, *, before: int = 0) -> bytes:
    return content + filler * (-(before + len(content)) % _ALIGNMENT)
