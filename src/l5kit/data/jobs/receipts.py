"""Receipts: what a folder was written with, so that damage is found before anybody takes it for whole.

A receipt is JSON with what the writer tells, and of each file its size and SHA-256. Parts of jobs are compared file by
file, each read in whole; of a finished output sizes are looked at, which takes no time, and what is small is read.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from l5kit import __version__
from l5kit._files import replaced_when_complete
from l5kit._types import JsonObject

RECEIPT_FILE: Final = "receipt.json"
"""The receipt of a finished output: which command has written it, and of which files it is."""

_SHA256 = "sha256"
_BYTES = "bytes"
_FILES = "files"
_MOST_READ_BYTES = 2**20
"""A file at the top of a finished output that is no larger is read whenever the output is."""


def write_receipt(folder: Path, name: str, content: JsonObject, *, of: Iterable[str] | None = None) -> None:
    """Write what is known of a folder as JSON into it, with size and SHA-256 of its files and that of the receipt.

    Args:
        folder: The folder, which has all its other files.
        name: Name of the receipt.
        content: What else it tells.
        of: Files and folders in it that the receipt is of; None for all, names that are not there are left out.
    """
    files = {path: _facts_of(folder / path) for path in _paths_in(folder, name, of)}
    whole: JsonObject = {**content, _FILES: files}
    whole[_SHA256] = digest_of_json(whole)
    with replaced_when_complete(folder / name, argument="folder") as temporary:
        temporary.write_text(json.dumps(whole, allow_nan=False), "utf-8")


def finish_output(folder: Path, command: str, of: Iterable[str] | None = None) -> None:
    """Write the receipt of an output of a command: where that is, the output is finished.

    Args:
        folder: The folder, which has all its files.
        command: What has written them.
        of: As for :func:`write_receipt`.
    """
    write_receipt(folder, RECEIPT_FILE, {"command": command, "l5kit": __version__}, of=of)


def read_receipt(folder: Path, name: str) -> JsonObject:
    """Return what the receipt of a folder tells; whether it is true is asked of :func:`find_damage`."""
    content: JsonObject = json.loads((folder / name).read_text("utf-8"))
    return content


def find_damage(folder: Path, name: str, *, expected: Mapping[str, object] | None = None) -> str | None:
    """Return what is wrong with a folder, or None where its files are what was written.

    Args:
        folder: The folder.
        name: Name of the receipt.
        expected: What the receipt must tell, such as what the folder is of; a folder may be whole, but another one.
    """
    try:
        content = _checked(folder, name)
        written = content[_FILES]
        present = {path: _facts_of(folder / path) for path in _paths_in(folder, name, None)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return _unreadable(name, error)
    for fact, value in (expected or {}).items():
        if content.get(fact) != value:
            return f"it is another part: {fact} is {content.get(fact)!r:.80} and not {value!r}"
    changed = [file for file in sorted({*written, *present}) if written.get(file) != present.get(file)]
    return f"{changed[0]} is not what was written" if changed else None


def find_loss(folder: Path, *, reads_all: bool = False, needs_receipt: bool = True) -> str | None:
    """Return what a finished output has lost, or None where its files are there as they were written; others may be.

    Args:
        folder: The folder.
        reads_all: Compare the content of every file; else sizes, and the content of small files at the top.
        needs_receipt: Whether a folder without a receipt has lost it; outputs of earlier versions never had one.
    """
    if not (needs_receipt or (folder / RECEIPT_FILE).exists()):
        return None
    try:
        for path, facts in _checked(folder, RECEIPT_FILE)[_FILES].items():
            file = folder / path
            if not file.is_file():
                return f"{path} is missing"
            size = file.stat().st_size
            if size != facts[_BYTES]:
                return f"{path} has {size:,} bytes, and {facts[_BYTES]:,} were written"
            is_read = reads_all or ("/" not in path and size <= _MOST_READ_BYTES)
            if is_read and _facts_of(file) != facts:
                return f"{path} is not what was written"
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return _unreadable(RECEIPT_FILE, error)
    return None


def _checked(folder: Path, name: str) -> JsonObject:
    """Return the content of a receipt that was not changed, without its own digest.

    Raises:
        ValueError: It was changed; other errors where it is none.
    """
    content = read_receipt(folder, name)
    if content.pop(_SHA256) != digest_of_json(content):
        raise ValueError(f"{name} is not what was written")
    return content


def _unreadable(name: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no {name}"
    return str(error) if type(error) is ValueError else f"{name} cannot be read ({type(error).__name__})"


def _paths_in(folder: Path, receipt: str, of: Iterable[str] | None) -> Iterator[str]:
    """Yield the paths of files in a folder, or of some of its entries, but for the receipt, sorted."""
    entries = [folder] if of is None else [folder / each for each in sorted(of)]
    for entry in entries:
        for path in [entry] if entry.is_file() else sorted(entry.rglob("*")):
            if path.is_file() and path != folder / receipt:
                yield path.relative_to(folder).as_posix()


def _facts_of(file: Path) -> JsonObject:
    with file.open("rb") as opened:
        return {_BYTES: file.stat().st_size, _SHA256: hashlib.file_digest(opened, _SHA256).hexdigest()}


def digest_of_json(content: Mapping[str, object]) -> str:
    """Return the SHA-256 of what JSON holds."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
