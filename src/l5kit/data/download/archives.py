"""Unpacking of archives (tar, zip) without path traversal, links or decompression bombs.

Names of entries, as of objects in buckets, must be valid on every system.
"""

import bz2
import errno
import gzip
import io
import lzma
import re
import stat
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from l5kit.data.download.fetching import require_space
from l5kit.data.progress import Progress
from l5kit.data.unpack_limits import USUAL_LIMITS, UnpackLimits
from l5kit.errors import CorruptedDataError, DownloadError, L5KitError

_BLOCK_BYTES = 1 << 20
_MAX_READ_BYTES = 1 << 26
"""Limit on a single read of an archive header, whose declared name lengths may be arbitrarily large."""

_ENCRYPTED = 1
_COMPRESSED: dict[bytes, Callable[[IO[bytes]], "_Bytes"]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_UNSUPPORTED = {b"\x04\x22\x4d\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!": "rar"}
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_MAX_PART_BYTES = 255
_MAX_PARTS = 64
_CLUTTER = re.compile(r"(.*/)?(__MACOSX(/.*)?|\._[^/]*|\.DS_Store)", re.DOTALL)
"""Files that macOS adds to archives."""

_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
)


class EntryNames:
    """The entry names of an archive so far.

    Refused are names that leave the folder or are not portable, two names that are equal on some file system, repeated
    files, and names that are both file and folder.

    Args:
        called: The archive, for messages.
    """

    def __init__(self, called: str) -> None:
        self._called = called
        self._entries: dict[str, tuple[str, bool]] = {}

    def add(self, name: str, *, is_folder: bool = False) -> PurePosixPath | None:
        """Return the path of an entry in the folder; None for the folder itself and for files that no dataset needs.

        Args:
            name: Name in the archive, with slashes.
            is_folder: Whether the entry is a folder, which may occur more than once.

        Raises:
            DownloadError: The name is refused.
        """
        if _CLUTTER.fullmatch(name.rstrip("/")):
            return None
        parts = [part for part in name.split("/") if part not in ("", ".")]

        # names must be inside the folder and valid on every system
        if name.startswith("/") or ".." in parts:
            raise self._refused(name, "leaves the folder")
        if _FORBIDDEN.search(name) or any(_DEVICES.fullmatch(part) or part[-1] in " ." for part in parts):
            raise self._refused(name, "is not a name on every system")
        try:
            is_long = any(len(part.encode("utf-8")) > _MAX_PART_BYTES for part in parts)
        except UnicodeEncodeError:
            raise self._refused(name, "is not text") from None
        if is_long or len(parts) > _MAX_PARTS:
            raise self._refused(name, "is too long")
        if not parts:
            return None

        # enter parent folders as well, so that none of them is a file elsewhere
        for end in range(1, len(parts)):
            self._enter("/".join(parts[:end]), name, is_folder=True)
        is_new = self._enter("/".join(parts), name, is_folder=is_folder)
        if not (is_new or is_folder):
            raise self._refused(name, "occurs twice")
        return PurePosixPath(*parts)

    def _enter(self, path: str, name: str, *, is_folder: bool) -> bool:
        """Record a path; return whether it is new."""
        key = unicodedata.normalize("NFC", path).casefold()
        num_before = len(self._entries)
        known = self._entries.setdefault(key, (path, is_folder))
        if known[0] != path:
            raise self._refused(name, f"and {known[0]!r:.120} are one name on some systems")
        if known[1] != is_folder:
            raise self._refused(name, "is both a file and a folder")
        return len(self._entries) > num_before

    def _refused(self, name: str, problem: str) -> DownloadError:
        return DownloadError(f"{self._called}: the entry {name!r:.120} {problem}; nothing of the archive is used")


class _Bytes(Protocol):
    """Bytes that are read sequentially."""

    def read(self, size: int, /) -> bytes: ...


def archive_kind(path: Path, *, called: str) -> str | None:
    """Return ``zip``, ``tar`` or ``packed tar`` by the first bytes of a file; None if it is not an archive.

    Raises:
        DownloadError: It is compressed in a way that Python's standard library does not support.
    """
    with path.open("rb") as file:
        head = file.read(tarfile.BLOCKSIZE)
    # zip files, including empty ones, have magic numbers; a tar starts with a header that has a checksum
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if any(head.startswith(magic) for magic in _COMPRESSED):
        return "packed tar"
    for magic, kind in _UNSUPPORTED.items():
        if head.startswith(magic):
            raise DownloadError(
                f"{called} is compressed with {kind}; unpack it with a suitable tool and give the folder as the address"
            )
    with suppress(tarfile.TarError, UnicodeError):
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        return "tar"
    return None


def unpack(
    archive: Path,
    folder: Path,
    *,
    called: str,
    limits: UnpackLimits = USUAL_LIMITS,
    progress: Progress | None = None,
) -> None:
    """Unpack a tar (plain, gz, bz2, xz) or zip file.

    Files get default permissions, whatever the archive says. Owners and times are ignored.

    Args:
        archive: The file.
        folder: An empty folder. After an error its content is undefined.
        called: The archive, for messages.
        limits: Limits on its content.
        progress: Called with the processed bytes of the archive and their total.

    Raises:
        DownloadError: An entry has a refused name, or is a link or a device; or there are too many bytes or entries
            for the limits or for the disk; or it is not an archive.
        CorruptedDataError: The archive is damaged.
    """
    kind = archive_kind(archive, called=called)
    unpacking = _Unpacking(folder, called, limits.most_bytes(archive), limits.max_entries, EntryNames(called))
    try:
        if kind == "zip":
            _unpack_zip(archive, unpacking, progress)
        elif kind is not None:
            _unpack_tar(archive, unpacking, progress, is_packed=kind != "tar")
        else:
            raise DownloadError(f"{called} is not an archive")
    except _BROKEN as error:
        raise _damaged(called, error) from error
    except L5KitError:
        raise
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # bz2 has no own errors; EINVAL: seek before the file
            raise _damaged(called, error) from error
        raise
    except (ValueError, LookupError, ArithmeticError, struct.error) as error:  # nonsensical numbers
        raise _damaged(called, error) from error


def _damaged(called: str, error: Exception) -> CorruptedDataError:
    return CorruptedDataError(
        f"{called} is damaged, truncated, or packed in an unknown way ({type(error).__name__}: {error}); "
        "download it again"
    )


@dataclass
class _Unpacking:
    """Destination folder of an archive, and the remaining limits."""

    folder: Path
    called: str
    bytes_left: int
    entries_left: int
    names: EntryNames

    def target_of(self, name: str, *, is_folder: bool, size: int) -> Path | None:
        """Return the path for an entry, creating its parent folders; None for an ignored entry."""
        self.entries_left -= 1
        if self.entries_left < 0:
            raise DownloadError(f"{self.called} has more entries than any dataset; nothing of the archive is used")
        self.require_room(size)
        relative = self.names.add(name, is_folder=is_folder)
        if relative is None:
            return None
        self.bytes_left -= size
        target = self.folder / relative
        (target if is_folder else target.parent).mkdir(parents=True, exist_ok=True)
        return target

    def require_room(self, size: int) -> None:
        """Refuse more bytes than an archive may contain, or than fit on the disk."""
        if not 0 <= size <= self.bytes_left:
            raise DownloadError(
                f"{self.called} would expand to many times its size, unlike any dataset; nothing of the archive is used"
            )
        require_space(self.folder, size, called=f"{self.called}, unpacked,")

    def refused(self, name: str, kind: str) -> DownloadError:
        """Return the error for an entry that is not a plain file."""
        return DownloadError(f"{self.called}: the entry {name!r:.120} is {kind}; nothing of the archive is used")


def _write(target: Path, content: "_Bytes", size: int) -> None:
    """Write a file whose size the archive declares."""
    # another size than declared means damage, or a bomb that declares a small size
    left = size
    with target.open("xb") as file:
        while left and (block := content.read(min(_BLOCK_BYTES, left))):
            file.write(block)
            left -= len(block)
        if left or content.read(1):
            raise EOFError(f"{target.name} does not have the {size} bytes that the archive declares")


def _unpack_zip(archive: Path, unpacking: _Unpacking, progress: Progress | None) -> None:
    done, total = 0, archive.stat().st_size
    with zipfile.ZipFile(archive) as opened:
        infos = opened.infolist()
        unpacking.require_room(sum(info.file_size for info in infos))  # before writing anything
        for info in infos:
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise unpacking.refused(info.filename, "a link or a device")
            if info.flag_bits & _ENCRYPTED:
                raise unpacking.refused(info.filename, "encrypted")
            is_folder = info.filename.endswith("/")  # is_dir() fails for an empty name
            target = unpacking.target_of(info.orig_filename, is_folder=is_folder, size=info.file_size)
            if target is not None and not is_folder:
                with opened.open(info) as content:
                    _write(target, content, info.file_size)
            done += info.compress_size
            if progress is not None:
                progress(min(done, total), total)


def _unpack_tar(archive: Path, unpacking: _Unpacking, progress: Progress | None, *, is_packed: bool) -> None:
    total = archive.stat().st_size
    with archive.open("rb") as file:
        # the first bytes identify the compression, whatever the name says
        content_of_file: _Bytes = file
        if is_packed:
            head = file.read(8)
            file.seek(0)
            (unpack_file,) = (opener for magic, opener in _COMPRESSED.items() if head.startswith(magic))
            content_of_file = unpack_file(file)
        stream = _ForwardStream(content_of_file, unpacking)
        with tarfile.open(fileobj=stream, mode="r:") as opened:
            while (member := opened.next()) is not None:
                vars(opened)["members"] = []  # otherwise it keeps all members

                # only plain files and folders: links may lead outside, and sparse files hide their size
                if member.issym() or member.islnk():
                    raise unpacking.refused(member.name, "a link")
                if not (member.isreg() or member.isdir()) or member.issparse():
                    raise unpacking.refused(member.name, "a device, or a file with holes")
                target = unpacking.target_of(member.name, is_folder=member.isdir(), size=member.size)
                if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later: an additional check
                    tarfile.data_filter(member, str(unpacking.folder))
                content = opened.extractfile(member)
                if target is not None and content is not None:
                    _write(target, content, member.size)
                if progress is not None:
                    progress(min(file.tell(), total), total)
        stream.require_end()


class _ForwardStream(io.RawIOBase):
    """The bytes of a tar file, read sequentially and limited to the allowed size."""

    def __init__(self, content: "_Bytes", unpacking: _Unpacking) -> None:
        self._content = content
        self._unpacking = unpacking
        self._most_bytes = unpacking.bytes_left
        self._position = 0
        self._last = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        if not 0 <= size <= _MAX_READ_BYTES:
            raise tarfile.ReadError(f"a header of {size} bytes")
        self._last = self._content.read(size)
        self._position += len(self._last)
        if self._position > self._most_bytes:
            self._unpacking.require_room(self._most_bytes + 1)
        return self._last

    def tell(self) -> int:
        """Return the number of bytes read."""
        return self._position

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Skip bytes; never seek back."""
        if whence or offset < self._position:
            raise tarfile.ReadError("the archive refers to an earlier position")
        while self._position < offset and self.read(min(offset - self._position, _BLOCK_BYTES)):
            pass
        return self._position

    def require_end(self) -> None:
        """Refuse an archive without the empty block that ends a tar file; read the padding."""
        if self._last != bytes(tarfile.BLOCKSIZE):
            raise EOFError("the end of the archive is missing")
        while self.read(_BLOCK_BYTES):
            pass
