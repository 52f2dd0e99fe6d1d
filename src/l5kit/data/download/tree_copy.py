"""Copy of a folder or bucket by several threads, which goes on with the files that are missing."""

import os
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock

from l5kit.data.download.addresses import Address
from l5kit.data.download.entry_names import EntryNames
from l5kit.data.download.fetching import Expected, Retries, fetch_file, require_space
from l5kit.data.download.replies import InterruptedReplyError
from l5kit.data.download.tree_source import ListedTree, TreeFile, list_tree
from l5kit.data.progress import Progress
from l5kit.errors import DownloadError


def list_patiently(address: Address, retries: Retries) -> ListedTree:
    """Return the files of a folder or bucket, asking again when the connection breaks.

    Raises:
        DownloadError: There is nothing, or it cannot be listed.
    """
    num_failed = 0
    while True:
        try:
            return list_tree(address)
        except InterruptedReplyError as error:
            num_failed += 1
            retries.wait(num_failed, error)


def copy_tree(
    tree: ListedTree, folder: Path, *, address: Address, retries: Retries, workers: int, progress: Progress
) -> None:
    """Copy files to a folder; those that are there already, from an earlier call, are not copied again.

    Args:
        tree: The files.
        folder: Where they go. It is for these files only: what has changed at the address goes elsewhere.
        address: Where they are from.
        retries: How often is tried again, for each file.
        workers: Threads.
        progress: Called with the bytes that are here, and all.

    Raises:
        DownloadError: A file cannot be had, or has a name that leaves the folder; or the disk has no room.
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

    # the first error stops all threads, and so does a Ctrl-C, also while they wait for another try
    if retries.sleep is time.sleep:
        retries = replace(retries, sleep=count.stop.wait)

    def copy(target: Path, file: TreeFile) -> None:
        identity = f"{file.relative}\0{file.version}"
        fetch_file(file, target, identity=identity, expected=expected, retries=retries, advance=count.of_one_file())

    pool = ThreadPoolExecutor(max_workers=workers or os.cpu_count() or 1, thread_name_prefix="l5kit-download")
    try:
        for copied in as_completed([pool.submit(copy, target, file) for target, file in left.items()]):
            copied.result()
    except OSError as error:
        raise error if isinstance(error, DownloadError) else DownloadError(str(error)) from error
    finally:
        count.stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


class _ByteCount:
    """The bytes that are here, counted by several threads, until somebody says stop."""

    def __init__(self, done: int, total: int, progress: Progress) -> None:
        self.stop = Event()
        self._done, self._total, self._progress = done, total, progress
        self._lock = Lock()
        progress(done, total)

    def of_one_file(self) -> Callable[[int, int | None], None]:
        """Return what is told the bytes of one file."""
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
