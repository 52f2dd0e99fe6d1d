"""Receipts: what a folder was written with, so that damage is found before anybody takes it for whole."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from l5kit._types import JsonObject

__all__ = ["digest_of_json", "find_damage", "read_receipt", "write_receipt"]

_SHA256 = "sha256"
_FILES = "files"


def write_receipt(folder: Path, name: str, content: JsonObject) -> None:
    """Write what is known of a folder as JSON into it, with the SHA-256 of each of its files and of the receipt.

    Args:
        folder: The folder, which has all its other files.
        name: Name of the receipt.
        content: What else it tells.
    """
    whole: JsonObject = {**content, _FILES: _digests_in(folder, name)}
    whole[_SHA256] = digest_of_json(whole)
    (folder / name).write_text(json.dumps(whole, allow_nan=False), "utf-8")


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
        content = read_receipt(folder, name)
        if content.pop(_SHA256) != digest_of_json(content):
            return f"{name} is not what was written"
        written, found = content[_FILES], _digests_in(folder, name)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{name} cannot be read ({type(error).__name__})"
    for fact, value in (expected or {}).items():
        if content.get(fact) != value:
            return f"it is another part: {fact} is {content.get(fact)!r:.80} and not {value!r}"
    changed = [file for file in sorted({*written, *found}) if written.get(file) != found.get(file)]
    return f"{changed[0]} is not what was written" if changed else None


def _digests_in(folder: Path, receipt: str) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder, but for the receipt, by its path in it."""
    digests = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / receipt:
            with path.open("rb") as file:
                digests[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, _SHA256).hexdigest()
    return digests


def digest_of_json(content: Mapping[str, object]) -> str:
    """Return the SHA-256 of what JSON holds."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
