"""Digest of a dataset: one SHA-256 that identifies its data, wherever it is stored.

It is the SHA-256 (hexadecimal) of one line for each file, ``PATH<tab>SIZE<tab>SHA256<newline>`` in UTF-8: the path
relative to the digested location, with ``/`` between its parts, the size in bytes as a decimal number, and the SHA-256
of the content in 64 lower-case hexadecimal digits. Lines are sorted by the bytes of their paths. A folder and a zip
file with the same files have the same digest.

Files are read in blocks by several threads, and checked for changes made in the meantime.

Masks of agents stored with a dataset (``agents_mask`` in a zarr group) are excluded: they are computed from the other
data, so storing one does not change the digest.

Digests are cached in the user's cache folder, so that 100 GB are not read again for each run. A cached digest is valid
only while every file is unchanged: the list of paths, with size, modification time, status change time and inode of
each. The status change time cannot be set by a user, so a modified file is noticed even if its modification time was
restored. Clocks of file systems tick in steps; therefore no digest is cached if a file was written to within the two
seconds before it was read. For files on a server, the reported ETags, checksums and times are compared; without any,
no digest is cached.
"""

import hashlib
import itertools
import json
import os
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

from l5kit._files import write_json
from l5kit._types import Int64Array
from l5kit.data.digests.file_trees import FileTree, ListedFile, open_tree
from l5kit.data.jobs.own_threads import own_threads
from l5kit.data.jobs.scene_jobs import KeptWorkers, Workers, count_workers, map_scenes
from l5kit.data.layout import GROUP_FILES
from l5kit.data.progress import Progress
from l5kit.data.stores.remote_files import is_passing, unreachable
from l5kit.data.stores.store import whole_path_of
from l5kit.data.user_cache import cache_folder, key_of
from l5kit.errors import CorruptedDataError, DataChangedError, L5KitError

_BLOCK_BYTES: Final = 2**20
_AHEAD: Final = 16
"""Files queued per thread, so that no thread is idle while results are collected."""

_MASKS: Final = "agents_mask"

_CACHE_VERSION: Final = 1


def hash_files(
    tree: FileTree, files: Sequence[ListedFile], *, workers: int = 0, progress: Progress | None = None
) -> Generator[tuple[ListedFile, str | Exception]]:
    """Yield files with their SHA-256 (64 hexadecimal digits) as they are completed, in any order.

    If reading a file fails, its error is yielded instead of the SHA-256: a :class:`~l5kit.errors.DataChangedError` if
    size or version changed during reading. Running threads end soon after the iterator is closed.

    Args:
        tree: Location of the files.
        files: A subset of the files that it lists.
        workers: Number of threads; 0 for one per core.
        progress: Called with the bytes done and their total, by one thread at a time.
    """
    hashing = _Hashing(tree, sum(file.size for file in files), progress)
    num_workers = min(count_workers(workers), len(files))
    if num_workers <= 1:
        yield from ((file, hashing.result_of(file)) for file in files)
        return
    waiting, running = iter(files), dict[Future[str | Exception], ListedFile]()
    with own_threads(num_workers, name="l5kit files") as threads:
        try:
            while True:
                # keep enough files queued that no thread is idle while results are collected
                for file in itertools.islice(waiting, _AHEAD * num_workers - len(running)):
                    running[threads.submit(hashing.result_of, file)] = file
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        finally:
            hashing.stopped.set()


def hash_by_jobs(
    path: str | os.PathLike[str],
    files: Sequence[ListedFile],
    workers: Workers,
    *,
    progress: Progress | None = None,
) -> Generator[tuple[ListedFile, str | Exception]]:
    """Yield files in order with their SHA-256, computed by the workers of an engine; the first error is raised.

    Args:
        path: Location of the files, visible to all workers.
        files: The files to read.
        workers: An executor, optionally with a job folder.
        progress: Called with the bytes done and their total.
    """
    if isinstance(workers, KeptWorkers):
        listing = hashlib.sha256(repr([vars(file) for file in files]).encode()).hexdigest()
        workers.job.require_same("listing", {"files": len(files), "sha256": listing})
    num_bytes, num_done = sum(file.size for file in files), 0

    def listed(indices: Int64Array) -> list[ListedFile]:
        return [files[index] for index in indices.tolist()]

    job = _HashFiles(whole_path_of(path))
    results = map_scenes(job, range(len(files)), workers, unit="file", brief=listed)
    with closing(results):
        for file, result in zip(files, itertools.chain.from_iterable(results), strict=True):
            yield file, result
            num_done += file.size
            if progress is not None:
                progress(num_done, num_bytes)


@dataclass(frozen=True)
class _HashFiles:
    """The SHA-256 of some files of a tree; the indices are only used in messages."""

    path: str

    def __call__(self, indices: Int64Array, files: Sequence[ListedFile]) -> list[str]:  # noqa: ARG002
        hashing = _Hashing(open_tree(self.path), sum(file.size for file in files), None)
        return [with_digest(file, hashing.result_of(file)).sha256 for file in files]


class _Hashing:
    """State of a pass over files: the tree, the progress, and whether to stop."""

    def __init__(self, tree: FileTree, num_bytes: int, progress: Progress | None) -> None:
        self.stopped = threading.Event()
        self._tree = tree
        self._num_bytes = num_bytes
        self._num_done = 0
        self._progress = progress
        self._lock = threading.Lock()

    def result_of(self, file: ListedFile) -> str | Exception:
        """Return the SHA-256 of a file, or the error from reading it."""
        digest, size = hashlib.sha256(), 0
        try:
            with self._tree.open_file(file.path) as stream:
                while (block := stream.read(_BLOCK_BYTES)) and not self.stopped.is_set():
                    digest.update(block)
                    size += len(block)
                    if self._progress is not None:
                        with self._lock:  # one thread at a time
                            self._num_done += len(block)
                            self._progress(self._num_done, self._num_bytes)
            # the result counts only if the file is unchanged since it was listed
            if size != file.size or self._tree.look_again(file) != file:
                return DataChangedError(
                    f"{self._where(file)} was written to while the files were read; start again when nothing writes to "
                    "it"
                )
            return digest.hexdigest()
        except FileNotFoundError:
            return DataChangedError(f"{self._where(file)} has vanished while the files were read")
        except (L5KitError, OSError) as error:
            return error
        except Exception as error:  # any error of a file system or a damaged zip file
            if is_passing(error):
                return unreachable(self._where(file), error, attempts=1, seconds=0.0)
            return CorruptedDataError(f"{self._where(file)} cannot be read: {error}; take another copy of it")

    def _where(self, file: ListedFile) -> str:
        return f"{self._tree.location}: {file.path}"


@dataclass(frozen=True)
class FileDigest:
    """A file of a dataset and its content.

    Attributes:
        path: Relative path, its parts separated by ``/``.
        size: Bytes.
        sha256: SHA-256 of the content, 64 lower-case hexadecimal digits.
    """

    path: str
    size: int
    sha256: str


class _WithPath(Protocol):
    @property
    def path(self) -> str: ...


AFile = TypeVar("AFile", bound=_WithPath)


def dataset_digest(
    path: str | os.PathLike[str], *, cache: bool = False, workers: int = 0, progress: Progress | None = None
) -> str:
    """Return the digest of a dataset, a map, or a folder with both; see the module for its definition.

    Args:
        path: A folder, such as a zarr or a whole data folder; a zip file, for its content; another file; or a URL.
        cache: Use the cached digest if no file has changed since: path, size, times and inode of each are compared,
            and for files on a server its metadata. The cache is in the user's cache folder.
        workers: Number of reading threads; 0 for one per core. The digest does not depend on it.
        progress: Called with the bytes done and their total, by one thread at a time.

    Raises:
        DatasetNotFoundError: There are no files.
        InvalidArgumentError: A file has an odd name, or a link leads out of the folder.
        DataChangedError: A file was written to while it was read.
        CorruptedDataError: A zip file is damaged.
        OSError: A file cannot be read.
    """
    tree, start_ns = open_tree(path), time.time_ns()
    files = without_masks(tree.list_files())

    # use the cached digest if it is valid and the files are unchanged
    if cache:
        content: object = None
        with suppress(OSError, ValueError, RecursionError):
            content = json.loads(_file_of(tree.location).read_text("utf-8"))
        if isinstance(content, dict) and content.get("state") == _state_of(tree.location, files):
            kept = content.get("digest")
            if isinstance(kept, str) and len(kept) == 64:
                return kept
    hashed = hash_files(tree, files, workers=workers, progress=progress)
    with closing(hashed):
        digest = digest_of(with_digest(file, sha256) for file, sha256 in hashed)

    # cache it if the cache folder is writable and no file was being modified when the files were listed
    if cache and all(each.is_settled(start_ns) for each in files):
        facts = {"location": tree.location, "state": _state_of(tree.location, files), "digest": digest}
        file = _file_of(tree.location)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, facts)
    return digest


def with_digest(file: ListedFile, sha256: str | Exception) -> FileDigest:
    """Return a file with its digest; an error in place of the SHA-256 is raised."""
    if isinstance(sha256, Exception):
        raise sha256
    return FileDigest(file.path, file.size, sha256)


def digest_of(files: Iterable[FileDigest]) -> str:
    """Return the digest of a dataset with these files, in any order; see the module for its definition."""
    digest = hashlib.sha256()
    for file in sorted(without_masks(files), key=lambda file: file.path.encode()):
        digest.update(f"{file.path}\t{file.size}\t{file.sha256}\n".encode())
    return digest.hexdigest()


def without_masks(files: Iterable[AFile]) -> list[AFile]:
    """Return the files of a dataset in order, except those of stored agents masks."""
    all_files, kept = list(files), list[AFile]()
    groups = {folder for folder, _, name in (file.path.rpartition("/") for file in all_files) if name in GROUP_FILES}
    for file in all_files:
        # masks are in a folder of that name in a zarr group, at any depth
        parts = file.path.split("/")
        if not any(part == _MASKS and "/".join(parts[:depth]) in groups for depth, part in enumerate(parts[:-1])):
            kept.append(file)
    return kept


def _file_of(location: str) -> Path:
    """Return the cache file for the digest of a location, whose links are resolved."""
    return cache_folder() / "digests" / f"{key_of(location, 32)}.json"


def _state_of(location: str, files: Sequence[ListedFile]) -> str:
    """Return a text that changes when a file is added, removed or modified."""
    lines = (f"{file.path}\t{file.size}\t{file.version}\n" for file in files)
    return key_of(f"{_CACHE_VERSION}\t{location}\n{''.join(lines)}", 64)
