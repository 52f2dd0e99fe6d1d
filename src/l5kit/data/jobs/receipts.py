"""Receipts: records of the content of a folder, so that damage is noticed before the folder is used.

A receipt is JSON with facts from the writer, and the size and SHA-256 of each file. Parts of jobs are compared file by
file, reading each one completely; for a finished output only sizes are compared, which is fast, and small files read.
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
"""Name of the receipt of a finished output: it records the command and the files."""

_SHA256 = "sha256"
_BYTES = "bytes"
_FILES = "files"
_MOST_READ_BYTES = 2**20
"""Top-level files of a finished output up to this size are always read for a comparison."""


def write_receipt(folder: Path, name: str, content: JsonObject, *, of: Iterable[str] | None = None) -> None:
    """Write a receipt into a folder as JSON: facts, size and SHA-256 of its files, and a digest of the receipt.

    Args:
        folder: The folder, with all its other files.
        name: Name of the receipt.
        content: Further facts.
        of: Files and folders in it that the receipt covers; missing names are ignored. None for all.
    """
    files = {path: _facts_of(folder / path) for path in _paths_in(folder, name, of)}
    whole: JsonObject = {**content, _FILES: files}
    whole[_SHA256] = digest_of_json(whole)
    with replaced_when_complete(folder / name, argument="folder") as temporary:
        temporary.write_text(json.dumps(whole, allow_nan=False), "utf-8")


def finish_output(folder: Path, command: str, of: Iterable[str] | None = None) -> None:
    """Write the receipt of an output of a command, which marks the output as finished.

    Args:
        folder: The folder, with all its files.
        command: The command that has written them.
        of: See :func:`write_receipt`.
    """
    write_receipt(folder, RECEIPT_FILE, {"command": command, "l5kit": __version__}, of=of)


def read_receipt(folder: Path, name: str) -> JsonObject:
    """Return the content of the receipt of a folder, unchecked; see :func:`find_damage` for a check."""
    content: JsonObject = json.loads((folder / name).read_text("utf-8"))
    return content


def find_damage(folder: Path, name: str, *, expected: Mapping[str, object] | None = None) -> str | None:
    """Return the damage of a folder, or None if its files are as written.

    Args:
        folder: The folder.
        name: Name of the receipt.
        expected: Facts that the receipt must contain, such as the job; a folder may be intact but of another job.
    """
    try:
        content = _checked(folder, name)
        written = content[_FILES]
        present = {path: _facts_of(folder / path) for path in _paths_in(folder, name, None)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return _unreadable(name, error)
    for fact, value in (expected or {}).items():
        if content.get(fact) != value:
            return f"it is another part: {fact} is {content.get(fact)!r:.80} instead of {value!r}"
    changed = [file for file in sorted({*written, *present}) if written.get(file) != present.get(file)]
    return f"{changed[0]} is not what was written" if changed else None


def find_loss(folder: Path, *, reads_all: bool = False, needs_receipt: bool = True) -> str | None:
    """Return the loss of a finished output, or None if its files exist as written; additional files are allowed.

    Args:
        folder: The folder.
        reads_all: Compare the content of every file; otherwise sizes, and the content of small files at the top.
        needs_receipt: Whether a missing receipt counts as a loss; outputs of earlier versions never had one.
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
                return f"{path} has {size:,} bytes, but {facts[_BYTES]:,} were written"
            is_read = reads_all or ("/" not in path and size <= _MOST_READ_BYTES)
            if is_read and _facts_of(file) != facts:
                return f"{path} is not what was written"
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return _unreadable(RECEIPT_FILE, error)
    return None


def _checked(folder: Path, name: str) -> JsonObject:
    """Return the content of an unmodified receipt, without its own digest.

    Raises:
        ValueError: It was modified; other errors if it is not a receipt.
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
    """Yield the sorted paths of files in a folder, or of some of its entries, except the receipt."""
    entries = [folder] if of is None else [folder / each for each in sorted(of)]
    for entry in entries:
        for path in [entry] if entry.is_file() else sorted(entry.rglob("*")):
            if path.is_file() and path != folder / receipt:
                yield path.relative_to(folder).as_posix()


def _facts_of(file: Path) -> JsonObject:
    with file.open("rb") as opened:
        return {_BYTES: file.stat().st_size, _SHA256: hashlib.file_digest(opened, _SHA256).hexdigest()}


def digest_of_json(content: Mapping[str, object]) -> str:
    """Return the SHA-256 of JSON content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
