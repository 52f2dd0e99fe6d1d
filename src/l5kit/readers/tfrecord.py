"""TFRecord files: consecutive records of bytes, with checksums of lengths and contents.

A record is its length (8 bytes, little-endian), a masked CRC-32C of the length (4), the content and a masked CRC-32C
of the content (4). There is no index, so finding a record means reading the lengths before it.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

import google_crc32c
import numpy as np

from l5kit.errors import CorruptedDataError

_LENGTH_SIZE, _CRC_SIZE = 8, 4
_HEAD_SIZE = _LENGTH_SIZE + _CRC_SIZE
_CRC_MASK = 0xA282EAD8
_SEARCHED_AT_ONCE = 1 << 22
_SEARCHED_TIMES = 4
"""Search budget: how many times the bytes of a file may be checked when searching for records after damage."""

_GZIP_START = b"\x1f\x8b"


@dataclass(frozen=True)
class RecordSpan:
    """Location of a record in its file.

    Attributes:
        number: Its index in the file; after damage, counting only the records that could be identified.
        start: First byte of the record, where its length begins.
        length: Bytes of its content.
    """

    number: int
    start: int
    length: int

    @property
    def end(self) -> int:
        """Byte after the record."""
        return self.start + _HEAD_SIZE + self.length + _CRC_SIZE


@dataclass(frozen=True)
class RecordDamage:
    """A stretch of a file without an intact record.

    Attributes:
        number: Index of the first record that is lost there.
        start: First byte of the stretch.
        problem: What is wrong.
    """

    number: int
    start: int
    problem: str


Listed: TypeAlias = RecordSpan | RecordDamage


def masked_crc32c(data: bytes) -> int:
    """Return the checksum of TFRecord files: CRC-32C, rotated by 15 bits, plus a constant."""
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _CRC_MASK) & 0xFFFFFFFF


def list_records(path: str | os.PathLike[str]) -> Iterator[Listed]:
    """Iterate over the records of a file and its damaged stretches, reading only lengths.

    After a wrong length the next record is searched for by its checksums, and the iteration continues there. The search
    is limited, in case a file is full of valid lengths with invalid contents.

    Args:
        path: The file.

    Yields:
        A location for each record, in the order of the file, and a damage for each stretch without records. Contents
        are not checked here, but by :func:`read_record`.

    Raises:
        FileNotFoundError: There is no such file.
    """
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        number, start = 0, 0
        search = _Search(_SEARCHED_TIMES * size)
        while start < size:
            record, problem = _record_at(file, number, start, size)
            if record is None:
                yield RecordDamage(number, start, problem)
                start = search.next_start(file, start + 1, size)
            else:
                yield record
                start = record.end
            number += 1


def read_record(path: str | os.PathLike[str], record: RecordSpan) -> bytes:
    """Return the content of a record.

    Args:
        path: The file.
        record: Location of the record, from :func:`list_records`.

    Raises:
        CorruptedDataError: Length or content do not match their checksums, or the file ends early; the message has the
            byte but not the file.
        FileNotFoundError: There is no such file.
    """
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        current, problem = _record_at(file, record.number, record.start, size)
        if current is None:
            raise _damaged(record.start, problem)
        if current.length != record.length:
            problem = f"it has {current.length} bytes and had {record.length} before; the file was changed meanwhile"
            raise _damaged(record.start, problem)
        content = _content_of(file, record)
    if content is None:
        raise _damaged(record.start, "its content does not fit its checksum")
    return content


def _damaged(start: int, problem: str) -> CorruptedDataError:
    return CorruptedDataError(f"the record at byte {start} is damaged: {problem}; fetch the file again")


def _record_at(file: BinaryIO, number: int, start: int, size: int) -> tuple[RecordSpan | None, str]:
    """Return the record that starts at a byte, or None and the problem; leave the file after its header."""
    file.seek(start)
    head = file.read(_HEAD_SIZE)
    if size == 0:
        return None, "the file is empty"
    if start == 0 and head.startswith(_GZIP_START):
        return None, "the file is compressed by gzip; unpack it (gunzip) first"
    if len(head) < _HEAD_SIZE:
        return None, f"the file ends within the length of the record, {len(head)} bytes after its start"
    length = int.from_bytes(head[:_LENGTH_SIZE], "little")
    if masked_crc32c(head[:_LENGTH_SIZE]) != int.from_bytes(head[_LENGTH_SIZE:], "little"):
        return None, f"its length, {length}, does not fit its checksum"
    record = RecordSpan(number, start, length)
    if record.end > size:
        return None, f"the file ends {record.end - size} bytes before the record does"
    return record, ""


def _content_of(file: BinaryIO, record: RecordSpan) -> bytes | None:
    """Return the content of a record, or None if it does not match its checksum."""
    file.seek(record.start + _HEAD_SIZE)
    content, crc = file.read(record.length), file.read(_CRC_SIZE)
    return content if masked_crc32c(content) == int.from_bytes(crc, "little") else None


@dataclass
class _Search:
    """Search for records after damage in one file, limited even if everything looks like a record.

    Attributes:
        bytes_left: Bytes of contents that may still be checked against their checksums.
    """

    bytes_left: int

    def next_start(self, file: BinaryIO, start: int, size: int) -> int:
        """Return the start of the next record with valid checksums, from a byte on, or the size of the file."""
        for block in range(start, size, _SEARCHED_AT_ONCE):
            file.seek(block)
            data = file.read(_SEARCHED_AT_ONCE + _HEAD_SIZE - 1)

            # The upper half of a length is zero for all records below 4 GB. Such offsets are found vectorized, and few
            # of them have a valid checksum.
            is_zero = np.frombuffer(data, np.uint8) == 0
            num_offsets = max(len(data) - _HEAD_SIZE + 1, 0)
            fits = np.ones(num_offsets, np.bool_)
            for byte in range(_LENGTH_SIZE // 2, _LENGTH_SIZE):
                fits &= is_zero[byte : byte + num_offsets]
            for offset in np.flatnonzero(fits).tolist():
                length, crc = data[offset : offset + _LENGTH_SIZE], data[offset + _LENGTH_SIZE : offset + _HEAD_SIZE]
                if masked_crc32c(length) != int.from_bytes(crc, "little"):
                    continue
                record, _ = _record_at(file, 0, block + offset, size)
                if record is None:
                    continue
                self.bytes_left -= record.length
                if self.bytes_left < 0:
                    return size
                if _content_of(file, record) is not None:
                    return record.start
        return size
