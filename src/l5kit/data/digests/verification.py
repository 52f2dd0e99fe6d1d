"""Verification of a dataset against its manifest, which can be resumed after an interruption.

Progress is noted in a journal in the user's cache folder, never next to the data: the SHA-256 of each file together
with its size, times and inode. An entry is valid only while these are unchanged. The journal is removed when a
verification completes.
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
    """Result of a verification.

    Attributes:
        differences: Files that are missing, changed or extra.
        unreadable: Files that could not be read, and why, by path.
        num_known: Files that an earlier, interrupted verification had already read.
    """

    differences: ManifestDifferences
    unreadable: Mapping[str, str]
    num_known: int

    @property
    def is_equal(self) -> bool:
        """Whether the dataset matches the manifest."""
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
    """Compare the files at a location with a manifest.

    Every file of the manifest is read, except those that are missing or have another size.

    Args:
        path: The original of the manifest, or a copy: a folder, a zip file, another file, or a URL.
        manifest: The reference.
        fresh: Read all files, including those read by an interrupted verification.
        workers: Number of reading threads; 0 for one per core.
        progress: Called with the bytes done and their total, by one thread at a time.
        tell: Called if an interrupted verification is resumed, with the number of files already read and of all files.

    Raises:
        DatasetNotFoundError: There are no files.
        InvalidArgumentError: A file has an odd name, or a link leads out of the folder.
    """
    tree, start_ns = open_tree(path), time.time_ns()
    listed = tree.list_files()
    present = {file.path: file for file in listed}
    # missing files and files of another size differ without being read
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
                    # do not note a file that was modified just now: a further change may not alter its times
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
    """Journal of the files that were read."""

    def __init__(self, path: Path | None, *, fresh: bool) -> None:
        self.has_ended = False
        self._path = path
        self._lines: list[dict[str, object]] = []
        self._file: TextIO | None = None
        if path is not None:
            # the last line may be incomplete if a process was killed
            if not fresh:
                with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
                    for text in file:
                        with suppress(ValueError, RecursionError):
                            line = json.loads(text)
                            if isinstance(line, dict):
                                self._lines.append(line)
            with suppress(OSError):  # without a file, nothing is noted
                self._file = path.open("w" if fresh else "a", encoding="utf-8", buffering=1)
                self._file.write("\n")  # the previous line may be incomplete

    def known(self, files: Iterable[ListedFile]) -> dict[str, str]:
        """Return the SHA-256 of those files that are unchanged since they were noted, by path."""
        noted = {str(line["state"]): str(line["sha256"]) for line in self._lines if {"state", "sha256"} <= line.keys()}
        return {file.path: noted[state] for file in files if (state := _state_of(file)) in noted}

    def note(self, file: ListedFile, sha256: str) -> None:
        """Note a file that was read."""
        if self._file is not None:
            try:
                self._file.write(json.dumps({"state": _state_of(file), "sha256": sha256}) + "\n")
            except OSError:  # a full disk does not stop the verification
                self.close()

    def end(self) -> None:
        """Delete the journal, as the verification is complete."""
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
    """Provide the journal of a location and a manifest; one without a file if another process writes to it."""
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
