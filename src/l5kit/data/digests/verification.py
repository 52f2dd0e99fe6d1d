"""Verification of a dataset against its manifest, which goes on where it was stopped.

What was read is noted in a journal in the user's cache folder, never beside the data: the SHA-256 of each file with its
size, times and inode as they were. A line counts only while these are the same. The journal goes when a verification
comes to its end.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from l5kit.data.digests.digest import hash_files, without_masks
from l5kit.data.digests.file_trees import FileTree, ListedFile, open_tree
from l5kit.data.digests.manifest import Manifest, ManifestDifferences
from l5kit.data.progress import Progress, progress_of_part
from l5kit.data.user_cache import cache_folder, hold_lock, key_of

_FOLDER: Final = "verifications"


@dataclass(frozen=True)
class Verification:
    """What came out of a verification.

    Attributes:
        differences: Files that are missing, changed or extra.
        unreadable: Files that could not be read, and why, by path.
        num_known: Files that an earlier verification, which was stopped, had read already.
    """

    differences: ManifestDifferences
    unreadable: Mapping[str, str]
    num_known: int

    @property
    def is_equal(self) -> bool:
        """Whether the dataset is that of the manifest."""
        return not self.differences and not self.unreadable


def verify(
    path: str | os.PathLike[str],
    manifest: Manifest,
    *,
    fresh: bool = False,
    workers: int = 0,
    progress: Progress | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> Verification:
    """Compare what lies at a place with its manifest.

    Every file of the manifest is read, except those that are missing or have another size.

    Args:
        path: What the manifest was made of, or a copy: a folder, a zip file, another file, or a URL.
        manifest: How it should be.
        fresh: Read all files, also those that a verification that was stopped has read.
        workers: Threads that read; 0 for one on each core.
        progress: Called with the bytes that are done and their total, by one thread at a time.
        tell: Called where a verification goes on that was stopped, with the files that it had read and all of them.

    Raises:
        DatasetNotFoundError: There is nothing.
        InvalidArgumentError: A file has an odd name, or a link leads out of the folder.
    """
    tree, start_ns = open_tree(path), time.time_ns()
    listed = tree.list_files()
    present = {file.path: file for file in listed}
    # what is missing or has another size need not be read to differ
    pairs = ((file, present.get(file.path)) for file in manifest.files)
    to_read = [there for file, there in pairs if there is not None and there.size == file.size]
    with _journal(tree, manifest, fresh=fresh) as journal:
        hashes = journal.known(to_read)
        if hashes and tell is not None:
            tell(len(hashes), len(manifest.files))
        num_known, unreadable = len(hashes), {}
        left = [file for file in to_read if file.path not in hashes]
        num_bytes, bytes_left = (sum(file.size for file in files) for files in (to_read, left))
        of_all = progress_of_part(progress, num_bytes - bytes_left, num_bytes)
        with closing(hash_files(tree, left, workers=workers, progress=of_all)) as hashed:
            for file, sha256 in hashed:
                if isinstance(sha256, Exception):
                    unreadable[file.path] = str(sha256)
                else:
                    hashes[file.path] = sha256
                    # one that was written to just now is not noted: it may change again within the grain of its times
                    if file.is_settled(start_ns):
                        journal.note(file, sha256)
        journal.end()
    wanted = {file.path for file in manifest.files}
    differences = ManifestDifferences(
        missing=tuple(file.path for file in manifest.files if file.path not in present),
        changed=tuple(
            file.path
            for file in manifest.files
            if file.path in present and file.path not in unreadable and hashes.get(file.path) != file.sha256
        ),
        extra=tuple(file.path for file in without_masks(listed) if file.path not in wanted),
    )
    return Verification(differences, dict(sorted(unreadable.items())), num_known)


class _Journal:
    """Notes of the files that were read."""

    def __init__(self, path: Path | None, *, fresh: bool) -> None:
        self.has_ended = False
        self._path = path
        self._lines: list[dict[str, object]] = []
        self._file: TextIO | None = None
        if path is not None:
            # the last line of a process that was killed may be half of one
            if not fresh:
                with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
                    for text in file:
                        with suppress(ValueError, RecursionError):
                            line = json.loads(text)
                            if isinstance(line, dict):
                                self._lines.append(line)
            with suppress(OSError):  # nothing can be kept then
                self._file = path.open("w" if fresh else "a", encoding="utf-8", buffering=1)
                self._file.write("\n")  # the line before may be half of one

    def known(self, files: Iterable[ListedFile]) -> dict[str, str]:
        """Return the SHA-256 of those files that are as they were when they were noted, by path."""
        noted = {str(line["state"]): str(line["sha256"]) for line in self._lines if {"state", "sha256"} <= line.keys()}
        return {file.path: noted[state] for file in files if (state := _state_of(file)) in noted}

    def note(self, file: ListedFile, sha256: str) -> None:
        """Note a file that was read."""
        if self._file is not None:
            try:
                self._file.write(json.dumps({"state": _state_of(file), "sha256": sha256}) + "\n")
            except OSError:  # a full disk keeps nobody from verifying
                self.close()

    def end(self) -> None:
        """Forget everything, as the verification has come to its end."""
        self.close()
        self.has_ended = True
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None


@contextmanager
def _journal(tree: FileTree, manifest: Manifest, *, fresh: bool) -> Iterator[_Journal]:
    """Hand out the journal of a place and a manifest; an empty one where another process writes to it."""
    name = key_of(f"{manifest.digest}\t{tree.location}", 32)
    path = cache_folder() / _FOLDER / f"{name}.jsonl"
    with hold_lock(path.with_suffix(".lock"), wait=False) as problem:
        journal = _Journal(None if problem else path, fresh=fresh)
        try:
            yield journal
        finally:
            journal.close()
    if journal.has_ended:
        with suppress(OSError):
            path.with_suffix(".lock").unlink()


def _state_of(file: ListedFile) -> str:
    return json.dumps([file.path, file.size, *file.version])
