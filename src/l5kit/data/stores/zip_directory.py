"""The directory of a zip file, read from its end, so that each member can be had with one range of bytes."""

import io
import struct
import zipfile
import zlib
from dataclasses import dataclass

from l5kit.errors import CorruptedDataError

TAIL_NUM_BYTES = 2**18
"""What is read first of a zip file; the directory of 4,000 files fits into it."""

_END_MARK = b"PK\5\6"
_END_FORMAT = "<4s4H2LH"
_END64_FORMAT = "<4sQ2H2L4Q"
_LOCATOR64_FORMAT = "<4sLQL"
_LOCATOR64_MARK, _END64_MARK = b"PK\6\7", b"PK\6\6"
_HEADER_FORMAT = "<4s5H3L2H"
_HEADER_MARK = b"PK\3\4"
_HEADER_NUM_BYTES = struct.calcsize(_HEADER_FORMAT)
_MAX_HEADER_NUM_BYTES = _HEADER_NUM_BYTES + 2 * 0xFFFF


@dataclass(frozen=True)
class ZipMember:
    """One file in a zip file.

    Attributes:
        name: Its name.
        start: First byte of its header.
        stop: End of its bytes at the latest: the next member, or the directory, starts there.
        num_stored_bytes: Size as stored.
        is_deflated: Whether it is compressed; else its bytes stand there as they are.
        crc: Checksum of its content.
        num_bytes: Size of its content.
    """

    name: str
    start: int
    stop: int
    num_stored_bytes: int
    is_deflated: bool
    crc: int
    num_bytes: int

    def content_of(self, stored: bytes, *, url: str) -> bytes:
        """Return the content of the file.

        Args:
            stored: Bytes [start, stop) of the zip file.
            url: The zip file, for messages.

        Raises:
            CorruptedDataError: They are cut short, or not those that the directory tells of.
        """
        content = b""
        if stored[:4] == _HEADER_MARK and len(stored) >= _HEADER_NUM_BYTES:
            *_, name_length, extra_length = struct.unpack_from(_HEADER_FORMAT, stored)
            start = _HEADER_NUM_BYTES + name_length + extra_length
            content = stored[start : start + self.num_stored_bytes]
            try:
                if self.is_deflated:  # into no more than the directory tells
                    content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, self.num_bytes + 1)
            except zlib.error:
                content = b""
        if zlib.crc32(content) != self.crc:
            raise CorruptedDataError(
                f"{self.name!r} in {url} is damaged, or the zip file was replaced after it was opened; open the "
                "dataset again, and if that does not help restore the file from its source"
            )
        return content


@dataclass(frozen=True)
class ZipEnd:
    """Where the directory of a zip file is.

    Attributes:
        start: Its first byte.
        num_bytes: Its size.
        size: Size of the zip file.
    """

    start: int
    num_bytes: int
    size: int

    @classmethod
    def of(cls, tail: bytes, *, url: str) -> "ZipEnd":
        """Return what the last bytes of a zip file tell.

        Raises:
            CorruptedDataError: This is not the end of a zip file.
        """
        # the record at the end tells where the directory is; behind it stands nothing but a comment
        position = tail.rfind(_END_MARK)
        if position < 0 or len(tail) - position < struct.calcsize(_END_FORMAT):
            raise _no_zip(url)
        _, _, _, _, _, num_bytes, start, _ = struct.unpack_from(_END_FORMAT, tail, position)
        records = 0
        locator = position - struct.calcsize(_LOCATOR64_FORMAT)
        # a large zip file has larger numbers in a record before it, to which a locator between both leads
        end64 = locator - struct.calcsize(_END64_FORMAT)
        if end64 >= 0 and tail[locator : locator + 4] == _LOCATOR64_MARK and tail[end64 : end64 + 4] == _END64_MARK:
            *_, num_bytes, start = struct.unpack_from(_END64_FORMAT, tail, end64)
            records = position - end64
        return cls(start, num_bytes, start + num_bytes + records + len(tail) - position)


def read_members(end: ZipEnd, tail: bytes, *, url: str) -> dict[str, ZipMember]:
    """Return the files of a zip file by their names.

    Args:
        end: Where its directory is.
        tail: The end of the zip file, from the directory on at least.
        url: The zip file, for messages.

    Raises:
        CorruptedDataError: The directory is damaged, or has files that are encrypted or compressed by other methods
            than deflate.
    """
    try:
        with zipfile.ZipFile(_TailFile(tail, end.size)) as archive:
            infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError) as error:
        raise _no_zip(url) from error
    # a header may be longer than the directory tells, but a file ends before the next one starts
    starts = [info.header_offset for info in infos] + [end.start]
    members = {}
    for info, next_start in zip(infos, starts[1:], strict=True):
        if info.filename.endswith("/") or not info.filename:
            continue
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise CorruptedDataError(
                f"{info.filename!r} in {url} is encrypted, or compressed by another method than deflate; "
                "copy the zip file to this machine and unpack it"
            )
        stop = min(next_start, info.header_offset + _MAX_HEADER_NUM_BYTES + info.compress_size)
        is_deflated = info.compress_type == zipfile.ZIP_DEFLATED
        members[info.filename] = ZipMember(
            info.filename, info.header_offset, stop, info.compress_size, is_deflated, info.CRC, info.file_size
        )
    return members


class _TailFile(io.RawIOBase):
    """A file of which only the end is there."""

    def __init__(self, tail: bytes, size: int) -> None:
        self._tail, self._start, self._size, self._position = tail, size - len(tail), size, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        low = self._position - self._start
        if low < 0:
            raise ValueError("the zip file refers to bytes before its directory")
        content = self._tail[low : None if size < 0 else low + size]
        self._position += len(content)
        return content


def _no_zip(url: str) -> CorruptedDataError:
    return CorruptedDataError(
        f"{url} is not a readable zip file: its end has no directory; check the URL, and that the file is whole"
    )
