"""Damage to the chunk files of a log."""

import numpy as np

from attack.record_files import ArrayFiles
from attack.target import Kinds, Target, cut, flip_bits

CHUNKS = Kinds("chunks")
_HEADER_BYTES = 16
_HEADER_FIELDS = {
    "version": slice(0, 1),
    "format version": slice(1, 2),
    "flags": slice(2, 3),
    "typesize": slice(3, 4),
    "nbytes": slice(4, 8),
    "blocksize": slice(8, 12),
    "cbytes": slice(12, 16),
}


def _chunk(target: Target) -> tuple[ArrayFiles, int]:
    array = target.array(target.key())
    return array, target.integer(0, array.num_chunks - 1)


def _name(array: ArrayFiles, index: int) -> str:
    return f"{array.key}/{index}"


@CHUNKS("truncated", weight=3)
def truncated(target: Target) -> str:
    array, index = _chunk(target)
    content = array.chunk(index).read_bytes()
    kept = cut(content, target.rng)
    array.chunk(index).write_bytes(kept)
    return f"chunk {_name(array, index)} is cut from {len(content)} to {len(kept)} bytes"


@CHUNKS("flipped bits", weight=4)
def flipped_bits(target: Target) -> str:
    array, index = _chunk(target)
    count = int(target.pick([1, 1, 2, 8, 64]))
    content = flip_bits(array.chunk(index).read_bytes(), target.rng, count, first=_HEADER_BYTES)
    array.chunk(index).write_bytes(content)
    return f"{count} bits behind the header of chunk {_name(array, index)} are turned"


@CHUNKS("header", weight=4)
def header(target: Target) -> str:
    array, index = _chunk(target)
    content = bytearray(array.chunk(index).read_bytes())
    field = str(target.pick(_HEADER_FIELDS))
    place = _HEADER_FIELDS[field]
    width = place.stop - place.start
    value = int(target.pick([0, 1, 127, 128, 255, 2**31 - 1, 2**31, 2**32 - 1, target.integer(0, 2**32 - 1)]))
    content[place] = (value % 256**width).to_bytes(width, "little")
    array.chunk(index).write_bytes(bytes(content))
    return f"the blosc header of chunk {_name(array, index)} says {field} {value % 256**width}"


@CHUNKS("missing", weight=3)
def missing(target: Target) -> str:
    array, index = _chunk(target)
    array.chunk(index).unlink()
    return f"chunk {_name(array, index)} is missing"


@CHUNKS("all missing")
def all_missing(target: Target) -> str:
    array = target.array(target.key())
    for index in range(array.num_chunks):
        array.chunk(index).unlink()
    return f"all chunks of {array.key} are missing"


@CHUNKS("swapped", weight=2)
def swapped(target: Target) -> str:
    array, index = _chunk(target)
    other = target.integer(0, array.num_chunks - 1)
    first, second = array.chunk(index).read_bytes(), array.chunk(other).read_bytes()
    array.chunk(index).write_bytes(second)
    array.chunk(other).write_bytes(first)
    return f"chunks {index} and {other} of {array.key} are swapped"


@CHUNKS("of another array")
def of_another_array(target: Target) -> str:
    array, index = _chunk(target)
    other, other_index = _chunk(target)
    array.chunk(index).write_bytes(other.chunk(other_index).read_bytes())
    return f"chunk {_name(array, index)} holds the bytes of {_name(other, other_index)}"


@CHUNKS("zeroed records", weight=2)
def zeroed_records(target: Target) -> str:
    array, index = _chunk(target)
    array.chunk(index).write_bytes(array.encode(np.zeros(array.chunk_length, array.dtype)))
    return f"chunk {_name(array, index)} holds records of zeros"


@CHUNKS("zeroed file")
def zeroed_file(target: Target) -> str:
    array, index = _chunk(target)
    size = array.chunk(index).stat().st_size
    array.chunk(index).write_bytes(bytes(size))
    return f"the {size} bytes of chunk {_name(array, index)} are zeros"


@CHUNKS("random bytes", weight=2)
def random_bytes(target: Target) -> str:
    array, index = _chunk(target)
    size = int(target.pick([1, 15, 16, 17, 300, array.chunk(index).stat().st_size]))
    array.chunk(index).write_bytes(target.rng.bytes(size))
    return f"chunk {_name(array, index)} holds {size} random bytes"


@CHUNKS("other length", weight=2)
def other_length(target: Target) -> str:
    array, index = _chunk(target)
    rows = np.zeros(array.chunk_length, array.dtype)
    rows[: len(array.read())] = array.read()[index * array.chunk_length :][: array.chunk_length].copy().repeat(1)[:1]
    num_bytes = int(target.pick([0, 1, array.dtype.itemsize, array.chunk_length * array.dtype.itemsize // 2]))
    more = bool(target.rng.integers(2))
    content = rows.view(np.uint8).tobytes()
    content = content + content[:num_bytes] if more else content[: len(content) - num_bytes]
    array.chunk(index).write_bytes(array.encode(np.frombuffer(content or b"\0", np.uint8)))
    return f"chunk {_name(array, index)} holds {num_bytes} bytes {'more' if more else 'less'} than its rows"


@CHUNKS("trailing bytes")
def trailing_bytes(target: Target) -> str:
    array, index = _chunk(target)
    with array.chunk(index).open("ab") as file:
        file.write(target.rng.bytes(int(target.pick([1, 16, 4096]))))
    return f"chunk {_name(array, index)} has random bytes behind its end"


@CHUNKS("folder")
def folder(target: Target) -> str:
    array, index = _chunk(target)
    array.chunk(index).unlink()
    array.chunk(index).mkdir()
    return f"chunk {_name(array, index)} is a folder"
