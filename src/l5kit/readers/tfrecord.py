"""TFRecord files: records of bytes one after the other, each with checksums of its length and of its content.

A record is its length (8 bytes, little-endian), a masked CRC-32C of these bytes (4), the content and a masked CRC-32C
of it (4). A file has no index: whoever wants a record walks over the lengths before it.
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
"""So often as many bytes as a file has are compared in the search for records in it."""

_GZIP_START = b"\x1f\x8b"


@dataclass(frozen=True)
class RecordSpan:
    """Where a record lies in its file.

    Attributes:
        number: Its number in the file, from 0 on; behind damage, as far as records could be told apart there.
        start: First byte of the record, which is that of its length.
        length: Bytes of its content.
    """

    number: int
    start: int
    length: int

    @property
    def end(self) -> int:
        """Byte behind the record."""
        return self.start + _HEAD_SIZE + self.length + _CRC_SIZE


@dataclass(frozen=True)
class RecordDamage:
    """A stretch of a file that holds no whole record.

    Attributes:
        number: Number of the first record that is lost there.
        start: First byte of the stretch.
        problem: What is wrong.
    """

    number: int
    start: int
    problem: str


Listed: TypeAlias = RecordSpan | RecordDamage


def masked_crc32c(data: bytes) -> int:
    """Return the checksum of bytes as TFRecord files have it: CRC-32C, turned by 15 bits, plus a constant."""
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _CRC_MASK) & 0xFFFFFFFF


def list_records(path: str | os.PathLike[str]) -> Iterator[Listed]:
    """Walk over the records of a file, of which only lengths are read, and over what is damaged.

    Behind a length that is wrong the next record is searched for by its checksums, and the walk goes on there. The
    search is given up in a file that is full of lengths whose contents are none.

    Args:
        path: The file.

    Yields:
        A place for each record, in the order of the file, and a damage for each stretch in which there is none.
        Contents are not looked at: :func:`read_record` checks them.

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
        record: Where the record is, from :func:`list_records`.

    Raises:
        CorruptedDataError: Length or content do not fit their checksums, or the file ends before; the message names the
            byte, and whoever asks knows the file.
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
    """Return the record that starts at a byte, or None and what is wrong; the file is then behind its head."""
    file.seek(start)
    head = file.read(_HEAD_SIZE)
    if size == 0:
        return None, "the file is empty"
    if start == 0 and head.startswith(_GZIP_START):
        return None, "the file is compressed by gzip; unpack it (gunzip) before"
    if len(head) < _HEAD_SIZE:
        return None, f"the file ends within the length of the record, {len(head)} bytes behind its start"
    length = int.from_bytes(head[:_LENGTH_SIZE], "little")
    if masked_crc32c(head[:_LENGTH_SIZE]) != int.from_bytes(head[_LENGTH_SIZE:], "little"):
        return None, f"its length, {length}, does not fit its checksum"
    record = RecordSpan(number, start, length)
    if record.end > size:
        return None, f"the file ends {record.end - size} bytes before the record does"
    return record, ""


def _content_of(file: BinaryIO, record: RecordSpan) -> bytes | None:
    """Return the content of a record; None where it does not fit its checksum."""
    file.seek(record.start + _HEAD_SIZE)
    content, crc = file.read(record.length), file.read(_CRC_SIZE)
    return content if masked_crc32c(content) == int.from_bytes(crc, "little") else None


@dataclass
class _Search:
    """The search for records behind damage in one file, which ends at some time also where all looks like records.

    Attributes:
        bytes_left: How many bytes of contents may still be compared with their checksums.
    """

    bytes_left: int

    def next_start(self, file: BinaryIO, start: int, size: int) -> int:
        """Return where the next record starts whose checksums fit, from a byte on, or the size of the file."""
        for block in range(start, size, _SEARCHED_AT_ONCE):
            file.seek(block)
            data = file.read(_SEARCHED_AT_ONCE + _HEAD_SIZE - 1)

            # A length may start where its upper half is zero, as that of each record below 4 GB is; these are found at
            # once, and few of them have a checksum that fits.
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
