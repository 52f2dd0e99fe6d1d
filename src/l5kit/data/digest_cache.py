"""Digests of datasets that were found before, in the user's cache folder: 100 GB are not read anew for each run.

A digest counts only while every file is as it was: the list of paths, with size, modification time, time of the last
change of the status, and inode of each. The second of these times cannot be set by anybody, so that a file that was
written to is noticed even where its modification time was put back. Clocks of file systems tick in steps; therefore no
digest is kept of files that were written to within the two seconds before they were read. Of files on a server the
ETags, checksums and times count that it tells; where it tells none, no digest is kept.
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from l5kit._files import write_json
from l5kit.data.file_trees import ListedFile
from l5kit.data.user_cache import cache_folder

_VERSION: Final = 1


def kept_digest(location: str, files: Sequence[ListedFile]) -> str | None:
    """Return the digest that was kept of files as they are; None if there is none.

    Args:
        location: Where they lie, with links resolved.
        files: The files, sorted.
    """
    try:
        content = json.loads(_file_of(location).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("state") != _state_of(location, files):
        return None
    digest = content.get("digest")
    return digest if isinstance(digest, str) and len(digest) == 64 else None


def keep_digest(location: str, files: Sequence[ListedFile], digest: str, *, start_ns: int) -> None:
    """Keep a digest, if there is a place for it and nothing tells against it.

    Args:
        location: Where the files lie, with links resolved.
        files: The files as they were listed before they were read, sorted.
        digest: Their digest.
        start_ns: Time at which they were listed, in ns since 1970.
    """
    if not all(file.is_settled(start_ns) for file in files):
        return
    file = _file_of(location)
    content = {"location": location, "state": _state_of(location, files), "digest": digest}
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, content)


def _file_of(location: str) -> Path:
    return cache_folder() / "digests" / f"{_sha256(location)[:32]}.json"


def _state_of(location: str, files: Sequence[ListedFile]) -> str:
    """Return a text that is another once a file was added, removed or written to."""
    lines = (f"{file.path}\t{file.size}\t{file.version}\n" for file in files)
    return _sha256(f"{_VERSION}\t{location}\n{''.join(lines)}")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
