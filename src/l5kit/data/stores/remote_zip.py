"""zarr store on a zip file of a remote service: its directory is read once, each file with one range request.

fsspec's zip file system reads one file at a time, through a file object that seeks. Here the directory is read from
the end of the file, and many files are requested at the same time, with one request each; checksums are verified, and
a replaced zip file is noticed.
"""

import asyncio
import hashlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.sync import sync

from l5kit._types import PickledState
from l5kit.data.stores.remote_files import RemoteFiles, version_of
from l5kit.data.stores.remote_reading import RemoteReading
from l5kit.data.stores.remote_store import bounds_of
from l5kit.errors import CorruptedDataError, DatasetNotFoundError, InvalidArgumentError, ReadOnlyDatasetError

TAIL_NUM_BYTES = 2**18
"""Bytes of a zip file that are read first; a directory of 4,000 files fits into them."""

_END_MARK = b"PK\5\6"
_END_FORMAT = "<4s4H2LH"
_END64_FORMAT = "<4sQ2H2L4Q"
_LOCATOR64_FORMAT = "<4sLQL"
_LOCATOR64_MARK, _END64_MARK = b"PK\6\7", b"PK\6\6"
_HEADER_FORMAT = "<4s5H3L2H"
_HEADER_MARK = b"PK\3\4"
_HEADER_NUM_BYTES = struct.calcsize(_HEADER_FORMAT)
_MAX_HEADER_NUM_BYTES = _HEADER_NUM_BYTES + 2 * 0xFFFF

StoreState = list[tuple[object, ...]]
"""Identifies one state of a store."""

_CHAINED = "zip::"


@dataclass(frozen=True)
class ZipMember:
    """One file in a zip file.

    Attributes:
        name: Its name.
        start: First byte of its header.
        stop: Upper bound of the end of its bytes: the start of the next member or of the directory.
        num_stored_bytes: Size as stored.
        is_deflated: Whether it is compressed; otherwise its bytes are stored unchanged.
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


@dataclass(frozen=True)
class ZipEnd:
    """Position of the directory of a zip file.

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
        """Return the position of the directory, from the last bytes of a zip file.

        Raises:
            CorruptedDataError: These are not the last bytes of a zip file.
        """
        # the end record has the position of the directory; only a comment may follow it
        position = tail.rfind(_END_MARK)
        if position < 0 or len(tail) - position < struct.calcsize(_END_FORMAT):
            raise _not_a_zip(url)
        _, _, _, _, _, num_bytes, start, _ = struct.unpack_from(_END_FORMAT, tail, position)
        records = 0
        locator = position - struct.calcsize(_LOCATOR64_FORMAT)
        # for large zip files a preceding record has 64-bit numbers, and a locator between both points to it
        end64 = locator - struct.calcsize(_END64_FORMAT)
        if end64 >= 0 and tail[locator : locator + 4] == _LOCATOR64_MARK and tail[end64 : end64 + 4] == _END64_MARK:
            *_, num_bytes, start = struct.unpack_from(_END64_FORMAT, tail, end64)
            records = position - end64
        return cls(start, num_bytes, start + num_bytes + records + len(tail) - position)


def read_members(end: ZipEnd, tail: bytes, *, url: str) -> dict[str, ZipMember]:
    """Return the files of a zip file by their names.

    Args:
        end: Position of its directory.
        tail: The end of the zip file, at least from the directory on.
        url: The zip file, for messages.

    Raises:
        CorruptedDataError: The directory is damaged, or contains files that are encrypted or use a compression other
            than deflate.
    """
    try:
        with zipfile.ZipFile(_TailFile(tail, end.size)) as archive:
            infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError) as error:
        raise _not_a_zip(url) from error
    # a header may be longer than the directory says, but a file ends before the next one starts
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
    """A file of which only the end is available."""

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


def _not_a_zip(url: str) -> CorruptedDataError:
    return CorruptedDataError(
        f"{url} is not a readable zip file: its end has no directory; check the URL, and that the file is whole"
    )


class RemoteZipStore(Store):
    """A read-only zip file accessed by fsspec.

    A pickled store holds the location of the file; its directory is read again on first use.

    Args:
        files: The service with the file.
        path: Path of the file on the service.
        digest: Expected digest of the directory; another one is an error. None for any.
    """

    supports_writes = False
    supports_partial_writes = False  # required by zarr 3.1.0, not by later versions
    supports_deletes = False
    supports_listing = True

    def __init__(self, files: RemoteFiles, path: str, *, digest: str | None = None) -> None:
        super().__init__(read_only=True)
        self.files = files
        self.path = path
        self._digest = digest
        self._members: dict[str, ZipMember] | None = None
        self._reading = asyncio.Lock()
        self._process = os.getpid()
        self._is_open = True

    @classmethod
    def at(cls, url: str, reading: RemoteReading, storage_options: Mapping[str, object] | None = None) -> Self:
        """Return the store on the zip file at a URL, which may start with ``zip::``; its directory is read.

        Raises:
            CorruptedDataError: It is not a zip file.
            DatasetNotFoundError: There is no such file.
            InvalidArgumentError: fsspec does not know the kind of URL, or an option; or the service does not support
                range requests.
            MissingDependencyError: fsspec needs a library for it.
            UnreachableDataError: The service refuses the request, or does not answer.
        """
        files, path = RemoteFiles.at(url.removeprefix(_CHAINED), reading, storage_options)
        store = cls(files, path)
        sync(store.members())
        return store

    @property
    def url(self) -> str:
        """URL of the zip file."""
        return self.files.url_of(self.path)

    async def members(self) -> dict[str, ZipMember]:
        """Return the files by name; the first call reads the directory."""
        if self._members is None:
            if os.getpid() != self._process:  # forked, perhaps while the lock was held
                self._reading, self._process = asyncio.Lock(), os.getpid()
            async with self._reading:
                if self._members is None:
                    self._members = await self._read_directory()
        return self._members

    async def _read_directory(self) -> dict[str, ZipMember]:
        # the directory is at the end of the file, and usually fits into the bytes that are read first
        tail = await self.files.read(self.path, -TAIL_NUM_BYTES)
        if tail is None:
            raise DatasetNotFoundError(f"no dataset at {self.url!r}: there is no such file; check the URL")
        if len(tail) > TAIL_NUM_BYTES:
            raise self._no_range_requests()
        end = ZipEnd.of(tail, url=self.url)
        start = end.size - len(tail)
        if end.start < start:
            missing = await self.files.read(self.path, end.start, start)
            if missing is None or len(missing) != start - end.start:
                raise self._no_range_requests()
            tail = missing + tail
        # digest of the directory only, without other bytes read with it: it contains a checksum of each file
        digest = hashlib.sha256(tail[-(end.size - end.start) :]).hexdigest()
        if self._digest not in (None, digest):
            raise CorruptedDataError(
                f"the zip file {self.url} was replaced after it was opened; open the dataset again"
            )
        self._digest = digest
        return read_members(end, tail, url=self.url)

    def _no_range_requests(self) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"cannot read {self.url!r} piece by piece: the service does not support range requests; "
            "copy the zip file to this machine, or put the dataset there as a folder"
        )

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return the content of a file, or part of it; None if there is none."""
        member = (await self.members()).get(key)
        if member is None:
            return None
        stored = await self.files.read(self.path, member.start, member.stop)
        if stored is None:
            raise CorruptedDataError(f"the zip file {self.url} no longer exists, and its file {key!r} cannot be read")

        # the content begins after the header; truncated or replaced bytes have another checksum
        content = b""
        if stored[:4] == _HEADER_MARK and len(stored) >= _HEADER_NUM_BYTES:
            *_, name_length, extra_length = struct.unpack_from(_HEADER_FORMAT, stored)
            first = _HEADER_NUM_BYTES + name_length + extra_length
            content = stored[first : first + member.num_stored_bytes]
            try:
                if member.is_deflated:  # no more than the size in the directory
                    content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, member.num_bytes + 1)
            except zlib.error:
                content = b""
        if zlib.crc32(content) != member.crc:
            raise CorruptedDataError(
                f"{member.name!r} in {self.url} is damaged, or the zip file was replaced after it was opened; open the "
                "dataset again, and if that does not help restore the file from its source"
            )
        start, stop = bounds_of(byte_range)
        return prototype.buffer.from_bytes(content[start:stop])

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return several files, or parts of them."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Return whether a file exists."""
        return key in await self.members()

    async def list(self) -> AsyncIterator[str]:
        """Yield the names of all files."""
        for name in await self.members():
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names of all files that begin with a prefix."""
        for name in await self.members():
            if name.startswith(prefix):
                yield name

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names of the entries of a folder."""
        below = f"{prefix.rstrip('/')}/" if prefix else ""
        names = (name.removeprefix(below) for name in await self.members() if name.startswith(below))
        for name in dict.fromkeys(name.split("/", 1)[0] for name in names):
            yield name

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse to write.

        Raises:
            ReadOnlyDatasetError: Always.
        """
        raise self._read_only_error(key, value)

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, object]]) -> None:
        """Refuse to write; see :meth:`set`. Needed only by zarr 3.1.0."""
        raise self._read_only_error(next((key for key, *_ in key_start_values), ""))

    async def delete(self, key: str) -> None:
        """Refuse to remove a file; see :meth:`set`."""
        raise self._read_only_error(key)

    def _read_only_error(self, key: str, value: Buffer | None = None) -> ReadOnlyDatasetError:
        size = "" if value is None else f" ({len(value)} bytes)"
        return ReadOnlyDatasetError(f"{key!r}{size} cannot be changed in {self.url}: a zip file is written whole")

    async def state(self) -> StoreState:
        """Return the current state of the file: its version, or a digest of its directory if there is none."""
        await self.members()
        info = await self.files.info(self.path)
        version = version_of(info or {})
        if not version:
            self._members = None
            await self.members()
        return [(self.path, self._digest, *version)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteZipStore) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    def __getstate__(self) -> dict[str, object]:
        return {"files": self.files, "path": self.path, "digest": self._digest}

    def __setstate__(self, state: PickledState) -> None:
        self.__init__(**state)  # type: ignore[misc]
