"""SHA-256 of the files of a tree, read by threads in blocks, with a look at whether they change meanwhile."""

import hashlib
import itertools
import os
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from l5kit._types import Int64Array
from l5kit.data.file_trees import FileTree, ListedFile, open_tree
from l5kit.data.own_threads import own_threads
from l5kit.data.progress import Progress
from l5kit.data.scene_jobs import KeptWorkers, Workers, count_workers, map_scenes
from l5kit.data.stores.remote_failures import is_passing, unreachable
from l5kit.data.stores.store import whole_path_of
from l5kit.errors import CorruptedDataError, DataChangedError, L5KitError

_BLOCK_BYTES: Final = 2**20
_AHEAD: Final = 16
"""Files that wait for each thread, so that none is idle while results are taken."""


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
    with own_threads(num_workers, name="l5kit files") as threads:
        try:
            yield from _by_threads(hashing, files, threads, _AHEAD * num_workers)
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
        return [self._hash(hashing, file) for file in files]

    def _hash(self, hashing: "_Hashing", file: ListedFile) -> str:
        result = hashing.result_of(file)
        if isinstance(result, Exception):
            raise result
        return result


def _by_threads(
    hashing: "_Hashing", files: Sequence[ListedFile], threads: ThreadPoolExecutor, num_ahead: int
) -> Generator[tuple[ListedFile, str | Exception]]:
    waiting = iter(files)
    running: dict[Future[str | Exception], ListedFile] = {}
    while True:
        for file in waiting:
            running[threads.submit(hashing.result_of, file)] = file
            if len(running) >= num_ahead:
                break
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            yield running.pop(future), future.result()


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
        try:
            return self._hash(file)
        except FileNotFoundError:
            return DataChangedError(f"{self._where(file)} has vanished while the files were read")
        except (L5KitError, OSError) as error:
            return error
        except Exception as error:  # whatever a file system or a damaged zip file raises
            if is_passing(error):
                return unreachable(self._where(file), error, attempts=1, seconds=0.0)
            return CorruptedDataError(f"{self._where(file)} cannot be read: {error}; take another copy of it")

    def _hash(self, file: ListedFile) -> str:
        digest, size = hashlib.sha256(), 0
        with self._tree.open_file(file.path) as stream:
            while (block := stream.read(_BLOCK_BYTES)) and not self.stopped.is_set():
                digest.update(block)
                size += len(block)
                self._tell(len(block))
        if size != file.size or self._tree.look_again(file) != file:
            raise DataChangedError(
                f"{self._where(file)} was written to while the files were read; start again when nothing writes to it"
            )
        return digest.hexdigest()

    def _where(self, file: ListedFile) -> str:
        return f"{self._tree.location}: {file.path}"

    def _tell(self, num_bytes: int) -> None:
        if self._progress is not None:
            with self._lock:
                self._num_done += num_bytes
                self._progress(self._num_done, self._num_bytes)
