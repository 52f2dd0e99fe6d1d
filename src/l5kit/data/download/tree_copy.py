"""Copy of a folder or bucket through fsspec: a listing, and threads that fetch missing files."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any

import fsspec

from l5kit._types import JsonObject
from l5kit.data.download.addresses import Address
from l5kit.data.download.archives import EntryNames
from l5kit.data.download.fetching import Expected, InterruptedReplyError, Reply, Retries, fetch_file, require_space
from l5kit.data.jobs.scene_jobs import count_workers
from l5kit.data.progress import Progress
from l5kit.data.stores.remote_reading import FileSystem, find_files
from l5kit.data.user_cache import key_of
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
    """One file of a folder or bucket, a :class:`~l5kit.data.download.fetching.FileSource`.

    Attributes:
        file_system: File system of fsspec.
        path: Its path on the file system.
        relative: Its path relative to the folder, with slashes.
        name: Name for messages.
        size: Size in bytes.
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
        """Provide the bytes from ``start`` on; see :class:`~l5kit.data.download.fetching.FileSource`."""
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
    """The files at the address of a folder or bucket.

    Attributes:
        files: The files in the order of their paths.
        is_file: Whether the address is a single file.
        identity: Digest of paths, sizes and versions; it changes with the files.
    """

    files: tuple[TreeFile, ...]
    is_file: bool
    identity: str


def list_tree(address: Address, retries: Retries) -> ListedTree:
    """Return the files of a folder or bucket, retrying when the connection breaks.

    Args:
        address: The folder or bucket.
        retries: Number and delays of retries.

    Raises:
        DownloadError: There are no files, or they cannot be listed.
        MissingDependencyError: fsspec needs a library for this kind of address.
    """
    infos: dict[str, JsonObject] | None = None
    num_failed = 0
    while infos is None:
        # reconnect each time: file systems with a connection, such as FTP, do not repair it
        if address.local_path is not None:
            file_system, root = fsspec.filesystem("file"), str(address.local_path)
        else:
            try:
                file_system, root = fsspec.core.url_to_fs(address.text)
            except ImportError as error:
                raise MissingDependencyError(f"{address.name}: {error}; {install_command('remote')}") from error
            except (ValueError, OSError) as error:
                raise DownloadError(f"{address.name} cannot be reached: {error}") from error
        file_system.invalidate_cache()
        try:
            infos = _request(partial(find_files, file_system), root, called=address.name)
        except InterruptedReplyError as error:
            num_failed += 1
            retries.wait(num_failed, error)

    # the address may be a single file, with or without a trailing slash
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
        raise DownloadError(f"there is nothing at {address.name}; check the spelling")
    rows = "".join(f"{file.relative}\0{file.size}\0{file.version}\n" for file in files)
    return ListedTree(tuple(files), is_file, key_of(rows, 64))


def _request(ask: Any, path: str, *, called: str, **options: object) -> Any:
    """Return the answer of a file system; errors of the libraries behind fsspec are converted.

    Raises:
        InterruptedReplyError: A retry may help.
        DownloadError: A retry does not help.
    """
    try:
        return ask(path, **options)
    except _FINAL as error:
        raise DownloadError(f"{called} cannot be read: {type(error).__name__}: {error}") from error
    except Exception as error:
        raise InterruptedReplyError(f"{called}: {type(error).__name__}: {error}") from error


def copy_tree(
    tree: ListedTree, folder: Path, *, address: Address, retries: Retries, workers: int, progress: Progress
) -> None:
    """Copy files to a folder; files that exist there from an earlier call are not copied again.

    Args:
        tree: The files.
        folder: Destination for these files only; after a change at the address, another folder is used.
        address: Address of the files.
        retries: Number and delays of retries, per file.
        workers: Number of threads.
        progress: Called with the received bytes and their total.

    Raises:
        DownloadError: A file is not available, or has a name that leaves the folder; or the disk is full.
    """
    names = EntryNames(address.name)
    placed = [(file, names.add(file.relative)) for file in tree.files]
    targets = {folder / relative: file for file, relative in placed if relative is not None}
    left = {target: file for target, file in targets.items() if not target.exists()}
    require_space(folder, sum(file.size for file in left.values()), called=address.name)
    for parent in {target.parent for target in left}:
        parent.mkdir(parents=True, exist_ok=True)
    num_bytes = sum(file.size for file in targets.values())
    count = _ByteCount(num_bytes - sum(file.size for file in left.values()), num_bytes, progress)
    expected = address.expected if tree.is_file else Expected()

    # the first error stops all threads, as does Ctrl-C, even while they wait for a retry
    if retries.sleep is time.sleep:
        retries = replace(retries, sleep=count.stop.wait)

    def copy(target: Path, file: TreeFile) -> None:
        identity = f"{file.relative}\0{file.version}"
        fetch_file(file, target, identity=identity, expected=expected, retries=retries, advance=count.of_one_file())

    pool = ThreadPoolExecutor(max_workers=count_workers(workers), thread_name_prefix="l5kit-download")
    try:
        for copied in as_completed([pool.submit(copy, target, file) for target, file in left.items()]):
            copied.result()
    except OSError as error:
        raise error if isinstance(error, DownloadError) else DownloadError(str(error)) from error
    finally:
        count.stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


class _ByteCount:
    """Number of received bytes, counted by several threads, with a stop signal."""

    def __init__(self, done: int, total: int, progress: Progress) -> None:
        self.stop = Event()
        self._done, self._total, self._progress = done, total, progress
        self._lock = Lock()
        progress(done, total)

    def of_one_file(self) -> Callable[[int, int | None], None]:
        """Return a callback for the received bytes of one file."""
        before = 0

        def advance(done: int, _: int | None) -> None:
            nonlocal before
            if self.stop.is_set():
                raise CancelledError
            with self._lock:
                self._done += done - before
                before = done
                self._progress(self._done, self._total)

        return advance
