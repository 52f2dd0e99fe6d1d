"""Digest of a dataset: one SHA-256 that tells what data it is, wherever it lies.

It is the SHA-256 (hexadecimal) of one line for each file, ``PATH<tab>SIZE<tab>SHA256<newline>`` in UTF-8: the path
relative to the place that is digested, with ``/`` between its parts, the size in bytes as a decimal number, and the
SHA-256 of the content in 64 lower-case hexadecimal digits. Lines are sorted by the bytes of their paths. A folder and a
zip file with the same files in it have the same digest.

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
import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

from l5kit._files import write_json
from l5kit.data.file_hashing import hash_files
from l5kit.data.file_trees import ListedFile, open_tree
from l5kit.data.log_names import GROUP_FILES
from l5kit.data.progress import Progress
from l5kit.data.user_cache import cache_folder

_MASKS: Final = "agents_mask"
_CACHE_VERSION: Final = 1


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
            each are compared, and of files on a server what that tells of them. It is kept in the user's cache folder.
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
    all_files = list(files)
    groups = {folder for folder, _, name in (file.path.rpartition("/") for file in all_files) if name in GROUP_FILES}
    return [file for file in all_files if not _is_of_mask(file.path, groups)]


def _is_of_mask(path: str, groups: set[str]) -> bool:
    """Return whether a file lies in the folder of masks of one of some zarr groups."""
    parts = path.split("/")
    return any(part == _MASKS and "/".join(parts[:number]) in groups for number, part in enumerate(parts[:-1]))


def _file_of(location: str) -> Path:
    """Return where the digest of files is kept that lie at a place, with links resolved."""
    return cache_folder() / "digests" / f"{_sha256(location)[:32]}.json"


def _state_of(location: str, files: Sequence[ListedFile]) -> str:
    """Return a text that is another once a file was added, removed or written to."""
    lines = (f"{file.path}\t{file.size}\t{file.version}\n" for file in files)
    return _sha256(f"{_CACHE_VERSION}\t{location}\n{''.join(lines)}")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
