"""Digest of a dataset: one SHA-256 that tells what data it is, wherever it lies.

It is the SHA-256 (hexadecimal) of one line for each file, ``PATH<tab>SIZE<tab>SHA256<newline>`` in UTF-8: the path
relative to the place that is digested, with ``/`` between its parts, the size in bytes as a decimal number, and the
SHA-256 of the content in 64 lower-case hexadecimal digits. Lines are sorted by the bytes of their paths. A folder and a
zip file with the same files in it have the same digest.

Files are read by threads in blocks, with a look at whether they change meanwhile.

Masks of agents that were stored with a dataset (``agents_mask`` in a zarr group) do not count: they are computed from
the rest, so that the data is the same before and after one was stored.

A digest that was found before is kept in the user's cache folder, so that 100 GB are not read anew for each run.
It counts only while every file is as it was: the list of paths, with size, modification time, time of the last
change of the status, and inode of each. The second of these times cannot be set by anybody, so that a file that was
written to is noticed even where its modification time was put back. Clocks of file systems tick in steps; therefore no
digest is kept of files that were written to within the two seconds before they were read. Of files on a server the
ETags, checksums and times count that it tells; where it tells none, no digest is kept.
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
"""Files that wait for each thread, so that none is idle while results are taken."""

_MASKS: Final = "agents_mask"

_CACHE_VERSION: Final = 1


def hash_files(
    tree: FileTree, files: Sequence[ListedFile], *, workers: int = 0, progress: Progress | None = None
) -> Generator[tuple[ListedFile, str | Exception]]:
    """Yield files with their SHA-256 (64 hexadecimal digits), as they are done, in any order.

    In place of its SHA-256 comes the error that a file raises, a :class:`~l5kit.errors.DataChangedError` where its size
    or version differs before and after it was read. Threads that are at work end soon after the iterator is closed.

    Args:
        tree: Where the files lie.
        files: Some of those that it lists.
        workers: Threads; 0 for one on each core.
        progress: Called with the bytes that are done and their total, by one thread at a time.
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
                # so many are handed over that no thread is idle while results are taken
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
    """Yield files with their SHA-256, in their order, by the workers of an engine; the first error comes up.

    Args:
        path: Where the files lie, which all workers see.
        files: Those to read.
        workers: An executor, also with a job folder.
        progress: Called with the bytes that are done and their total.
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
    """The SHA-256 of some files of a tree; their numbers are for messages."""

    path: str

    def __call__(self, indices: Int64Array, files: Sequence[ListedFile]) -> list[str]:  # noqa: ARG002
        hashing = _Hashing(open_tree(self.path), sum(file.size for file in files), None)
        return [with_digest(file, hashing.result_of(file)).sha256 for file in files]


class _Hashing:
    """A run through files: what it reads, how far it is, and whether it is to end."""

    def __init__(self, tree: FileTree, num_bytes: int, progress: Progress | None) -> None:
        self.stopped = threading.Event()
        self._tree = tree
        self._num_bytes = num_bytes
        self._num_done = 0
        self._progress = progress
        self._lock = threading.Lock()

    def result_of(self, file: ListedFile) -> str | Exception:
        """Return the SHA-256 of a file, or the error that it raises."""
        digest, size = hashlib.sha256(), 0
        try:
            with self._tree.open_file(file.path) as stream:
                while (block := stream.read(_BLOCK_BYTES)) and not self.stopped.is_set():
                    digest.update(block)
                    size += len(block)
                    if self._progress is not None:
                        with self._lock:  # by one thread at a time
                            self._num_done += len(block)
                            self._progress(self._num_done, self._num_bytes)
            # what was read counts only if nobody has written to the file since it was listed
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
        except Exception as error:  # whatever a file system or a damaged zip file raises
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
    """Return the digest of a dataset, a map, or a folder with both; the module says how it is made.

    Args:
        path: A folder, such as a zarr or a whole data folder; a zip file, for what is in it; another file; or a URL.
        cache: Take the digest that was found before, if no file has changed since: path, size, times and inode of
            each are compared, and of files on a server its metadata. It is kept in the user's cache folder.
        workers: Threads that read; 0 for one on each core. The digest is the same for any number.
        progress: Called with the bytes that are done and their total, by one thread at a time.

    Raises:
        DatasetNotFoundError: There is nothing.
        InvalidArgumentError: A file has an odd name, or a link leads out of the folder.
        DataChangedError: A file was written to while it was read.
        CorruptedDataError: A zip file is damaged.
        OSError: A file cannot be read.
    """
    tree, start_ns = open_tree(path), time.time_ns()
    files = without_masks(tree.list_files())

    # A digest that was kept of files as they are; whatever else lies in its place is none.
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

    # It is kept, if the cache folder can be written to and no file was about when they were listed.
    if cache and all(each.is_settled(start_ns) for each in files):
        facts = {"location": tree.location, "state": _state_of(tree.location, files), "digest": digest}
        file = _file_of(tree.location)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, facts)
    return digest


def with_digest(file: ListedFile, sha256: str | Exception) -> FileDigest:
    """Return a file and its content; an error in place of its SHA-256 is raised."""
    if isinstance(sha256, Exception):
        raise sha256
    return FileDigest(file.path, file.size, sha256)


def digest_of(files: Iterable[FileDigest]) -> str:
    """Return the digest of a dataset with these files, in any order; the module says how it is made."""
    digest = hashlib.sha256()
    for file in sorted(without_masks(files), key=lambda file: file.path.encode()):
        digest.update(f"{file.path}\t{file.size}\t{file.sha256}\n".encode())
    return digest.hexdigest()


def without_masks(files: Iterable[AFile]) -> list[AFile]:
    """Return the files of a dataset that are of no stored agents mask, in their order."""
    all_files, kept = list(files), list[AFile]()
    groups = {folder for folder, _, name in (file.path.rpartition("/") for file in all_files) if name in GROUP_FILES}
    for file in all_files:
        # masks lie in a folder of that name in a zarr group, at any depth
        parts = file.path.split("/")
        if not any(part == _MASKS and "/".join(parts[:depth]) in groups for depth, part in enumerate(parts[:-1])):
            kept.append(file)
    return kept


def _file_of(location: str) -> Path:
    """Return where the digest of files is kept that lie at a place, with links resolved."""
    return cache_folder() / "digests" / f"{key_of(location, 32)}.json"


def _state_of(location: str, files: Sequence[ListedFile]) -> str:
    """Return a text that is another once a file was added, removed or written to."""
    lines = (f"{file.path}\t{file.size}\t{file.version}\n" for file in files)
    return key_of(f"{_CACHE_VERSION}\t{location}\n{''.join(lines)}", 64)
