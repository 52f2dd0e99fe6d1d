"""Repeated protobuf messages of a few numbers, such as states of a track or points of a line, read as arrays.

Protobuf creates an object for each message, and Python looks up each number in it; a scenario has tens of thousands of
them. One compiled pass over the bytes takes less time than the look-ups of a single track.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array, UInt8Array, UInt64Array
from l5kit.errors import CorruptedDataError

BOOL, DOUBLE, FLOAT = 0, 1, 5
"""Wire types of the supported number types."""

_BYTES = 2
_LARGEST_FIELD = 16


@dataclass(frozen=True)
class RowSchema:
    """Schema of the messages in a repeated field of parent messages.

    Attributes:
        repeated_number: Number of the repeated field.
        columns: Number and type, one of :data:`BOOL`, :data:`DOUBLE` and :data:`FLOAT`, of each field of the messages
            that becomes a column; other fields are skipped.
    """

    repeated_number: int
    columns: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class MessageRows:
    """The messages of K parents as N rows, grouped by parent.

    Attributes:
        values: One column per column of the schema, 0 for missing fields, float64, (N, C).
        starts: First row of each parent, and the end of the last one, int64, (K + 1,).
    """

    values: Float64Array
    starts: Int64Array

    @property
    def counts(self) -> Int64Array:
        """Number of rows of each parent, (K,)."""
        return np.diff(self.starts)


def read_rows(parents: Sequence[bytes], schema: RowSchema, *, what: str) -> MessageRows:
    """Read the messages of a repeated field of serialized parents.

    Args:
        parents: Serialized messages.
        schema: Schema of the repeated field.
        what: Description of a parent, for the error.

    Raises:
        CorruptedDataError: The bytes of a parent are no valid message; it is named by its index.
    """
    # All parents are concatenated into one array of bytes, which is read twice: to count the rows, and to fill them.
    ends = np.cumsum([0, *map(len, parents)], dtype=np.int64)
    data = np.frombuffer(b"".join(parents), np.uint8)
    counts = np.zeros(len(parents), np.int64)
    wrong = _count_messages(data, ends, schema.repeated_number, counts)
    starts = np.concatenate([[0], np.cumsum(counts)])
    bits = np.zeros((int(starts[-1]), len(schema.columns)), np.uint64)
    table = np.full((_LARGEST_FIELD, 2), -1, np.int64)  # column and wire type of each field number, -1 for none
    for column, (number, wire_type) in enumerate(schema.columns):
        table[number] = column, wire_type
    if wrong < 0:
        wrong = _fill_rows(data, ends, schema.repeated_number, table, bits)
    if wrong >= 0:
        raise CorruptedDataError(f"{what} {wrong} is no message as protobuf writes it: its bytes are damaged")

    # the rows hold the bits of the numbers; those of a float are in the lower half
    values = np.empty(bits.shape)
    for column, (_, wire_type) in enumerate(schema.columns):
        read = bits[:, column]
        if wire_type == FLOAT:
            with np.errstate(invalid="ignore"):  # signalling NaN
                values[:, column] = read.astype(np.uint32).view(np.float32)
        else:
            values[:, column] = read != 0 if wire_type == BOOL else read.copy().view(np.float64)
    return MessageRows(values, starts)


@kernel_jit
def _read_varint(data: UInt8Array, position: int, end: int) -> tuple[np.uint64, int]:
    """Return the varint that starts at a byte, and the position after it; -1 if it does not end in time."""
    # Seven bits per byte, lowest first; the highest bit of a byte means that more follow, up to ten bytes.
    value = np.uint64(0)
    for index in range(10):
        if position + index >= end:
            break
        byte = data[position + index]
        value |= np.uint64(byte & 0x7F) << np.uint64(7 * index)
        if byte < 0x80:
            return value, position + index + 1
    return value, -1


@kernel_jit
def _next_field(data: UInt8Array, position: int, end: int) -> tuple[int, int, int, int]:
    """Return number, wire type, start and end of the content of the field at a byte; the end is -1 for invalid data.

    The content of a length-delimited field starts after its length. Groups are not used by these messages and are
    invalid.
    """
    # The lowest three bits of a tag are the wire type, the rest is the field number.
    tag, start = _read_varint(data, position, end)
    number, wire_type = int(tag >> np.uint64(3)), int(tag & np.uint64(7))
    if start < 0 or number <= 0:
        return number, wire_type, start, -1
    stop = -1
    if wire_type == BOOL:
        _, stop = _read_varint(data, start, end)
    elif wire_type == DOUBLE:
        stop = start + 8
    elif wire_type == FLOAT:
        stop = start + 4
    elif wire_type == _BYTES:
        length, start = _read_varint(data, start, end)
        if start >= 0 and length <= np.uint64(end - start):
            stop = start + int(length)
    return number, wire_type, start, stop if stop <= end else -1


@kernel_jit
def _count_messages(data: UInt8Array, ends: Int64Array, repeated_number: int, counts: Int64Array) -> int:
    """Write the number of messages in the repeated field of each parent; return the first invalid parent, or -1."""
    for parent in range(len(counts)):
        position = ends[parent]
        while position < ends[parent + 1]:
            number, wire_type, _, position = _next_field(data, position, ends[parent + 1])
            if position < 0:
                return parent
            if number == repeated_number and wire_type == _BYTES:
                counts[parent] += 1
    return -1


@kernel_jit
def _fill_rows(data: UInt8Array, ends: Int64Array, repeated_number: int, table: Int64Array, bits: UInt64Array) -> int:
    """Write the bits of the fields of all messages to rows; return the first invalid parent, or -1."""
    row = 0
    for parent in range(len(ends) - 1):
        position = ends[parent]
        while position < ends[parent + 1]:
            number, wire_type, start, position = _next_field(data, position, ends[parent + 1])
            if number != repeated_number or wire_type != _BYTES:
                continue
            # fields of one message; if a number is repeated, the last one takes precedence
            at = start
            while at < position:
                number, wire_type, begin, at = _next_field(data, at, position)
                if at < 0:
                    return parent
                if number >= len(table) or table[number, 1] != wire_type:
                    continue
                if wire_type == BOOL:
                    bits[row, table[number, 0]], _ = _read_varint(data, begin, position)
                    continue
                value = np.uint64(0)  # four or eight bytes, little-endian
                first = np.uint64(begin)  # unsigned, so that the compiler adds no wrap-around check
                for index in range(np.uint64(8 if wire_type == DOUBLE else 4)):
                    value |= np.uint64(data[first + index]) << (np.uint64(8) * index)
                bits[row, table[number, 0]] = value
            row += 1
    return -1
