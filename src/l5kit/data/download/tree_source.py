"""Files of folders and buckets, through fsspec: what there is, and the bytes of each."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import fsspec

from l5kit._types import JsonObject
from l5kit.data.download.addresses import Address
from l5kit.data.download.replies import InterruptedReplyError, Reply
from l5kit.data.stores.file_listing import FileSystem, find_files
from l5kit.errors import DownloadError, L5KitError, MissingDependencyError, install_command

_BLOCK_BYTES = 1 << 23
_VERSION_FIELDS = (
    "ETag",
    "etag",
    "VersionId",
    "generation",
    "md5Hash",
    "mtime",
    "LastModified",
    "last_modified",
    "created",
)
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ImportError, TypeError, L5KitError)


@dataclass(frozen=True)
class TreeFile:
    """One file of a folder or bucket, a :class:`~l5kit.data.download.replies.FileSource`.

    Attributes:
        file_system: Of fsspec.
        path: Of the file in it.
        relative: Its path in the folder, with slashes.
        name: For messages.
        size: Bytes.
        version: Text that changes when the file does.
    """

    file_system: FileSystem
    path: str
    relative: str
    name: str
    size: int
    version: str

    @contextmanager
    def open_from(self, start: int, validator: str | None) -> Iterator[Reply]:
        """Give the bytes from ``start`` on; see :class:`~l5kit.data.download.replies.FileSource`."""
        first = start if validator == self.version else 0
        yield Reply(first, self.size, self.version, self._blocks(first))

    def _blocks(self, start: int) -> Iterator[bytes]:
        while start < self.size:
            end = min(start + _BLOCK_BYTES, self.size)
            block: bytes = _request(self.file_system.cat_file, self.path, start=start, end=end, called=self.name)
            if not block:
                return
            yield block
            start += len(block)


@dataclass(frozen=True)
class ListedTree:
    """What there is at the address of a folder or bucket.

    Attributes:
        files: In the order of their paths.
        is_file: Whether the address names one file.
        identity: Digest of paths, sizes and versions: another one, other files.
    """

    files: tuple[TreeFile, ...]
    is_file: bool
    identity: str


def list_tree(address: Address) -> ListedTree:
    """Return the files of a folder or bucket.

    Raises:
        DownloadError: There is nothing, or it cannot be listed.
        MissingDependencyError: fsspec needs a library for this kind of address.
    """
    if address.local_path is not None:
        file_system, root = fsspec.filesystem("file"), str(address.local_path)
    else:
        try:
            file_system, root = fsspec.core.url_to_fs(address.text)
        except ImportError as error:
            raise MissingDependencyError(f"{address.name}: {error}; {install_command('remote')}") from error
        except (ValueError, OSError) as error:
            raise DownloadError(f"{address.name} cannot be reached: {error}") from error
        root = str(root)
    file_system.invalidate_cache()
    infos: dict[str, JsonObject] = _request(partial(find_files, file_system), root, called=address.name)
    # the address itself may name one file, with or without a slash behind it
    is_file = list(infos) == [root] or list(infos) == [root.rstrip("/")]
    files = []
    for path, info in sorted(infos.items()):
        relative = path.rpartition("/")[2] if is_file else path[len(root.rstrip("/")) :].lstrip("/")
        if info.get("type") == "directory" or not relative or path.endswith("/"):
            continue
        name = f"{address.name.rstrip('/')}/{relative}" if not is_file else address.name
        version = "|".join(str(info[field]) for field in _VERSION_FIELDS if info.get(field) is not None)
        files.append(TreeFile(file_system, path, relative, name, int(info["size"] or 0), version))
    if not files:
        raise DownloadError(f"there is nothing at {address.name}; check it for spelling")
    rows = "".join(f"{file.relative}\0{file.size}\0{file.version}\n" for file in files)
    return ListedTree(tuple(files), is_file, hashlib.sha256(rows.encode("utf-8", "surrogatepass")).hexdigest())


def _request(ask: Any, path: str, *, called: str, **options: object) -> Any:
    """Return what a file system answers; libraries behind fsspec have errors of their own, which are one here.

    Raises:
        InterruptedReplyError: Asking again may help.
        DownloadError: It does not.
    """
    try:
        return ask(path, **options)
    except _FINAL as error:
        raise DownloadError(f"{called} cannot be read: {type(error).__name__}: {error}") from error
    except Exception as error:
        raise InterruptedReplyError(f"{called}: {type(error).__name__}: {error}") from error
