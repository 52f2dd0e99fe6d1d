"""Registry of finished downloads in the user's cache folder, so that they are not repeated."""

import json
import os
from contextlib import suppress
from pathlib import Path, PurePosixPath

from l5kit._files import placed_when_complete
from l5kit.data.download.addresses import Address
from l5kit.data.download.published_layout import PlacedPart
from l5kit.data.user_cache import cache_folder, key_of

_MASKS = "agents_mask"


def recall_paths(address: Address, folder: Path, version: str) -> list[PurePosixPath] | None:
    """Return the paths of an earlier download of an address if all files are unmodified; else None.

    Args:
        address: The address.
        folder: The data folder.
        version: Current version of the source, such as its digest; after a change, the download is repeated.
    """
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        facts = json.loads(_file_of(address, folder).read_text("utf-8"))
        if facts["version"] != version or not facts["places"]:
            return None
        states = {PurePosixPath(path): state for path, state in facts["places"].items()}
        if all(_state_of(folder / path) == state for path, state in states.items()):
            return list(states)
    return None


def remember_paths(address: Address, folder: Path, version: str, parts: list[PlacedPart]) -> None:
    """Record the paths of the parts of an address; do nothing if the cache folder is not writable."""
    states = {str(part.path): _state_of(folder / part.path) for part in parts}
    facts = {"address": address.name, "folder": os.path.realpath(folder), "version": version, "places": states}
    with suppress(OSError), placed_when_complete(_file_of(address, folder)) as file:
        file.write_text(json.dumps(facts, indent=2), "utf-8")


def _file_of(address: Address, folder: Path) -> Path:
    key = key_of(f"{os.path.realpath(folder)}\0{address.identity}", 64)
    return cache_folder() / "downloads" / f"{key}.json"


def _state_of(root: Path) -> list[int]:
    """Return number, bytes and newest time (ns) of the files below a path, without agents masks stored since."""
    files = [root] if root.is_file() else [path for path in root.rglob("*") if path.is_file()]
    stats = [path.stat() for path in files if path == root or path.relative_to(root).parts[0] != _MASKS]
    return [len(stats), sum(stat.st_size for stat in stats), max((stat.st_mtime_ns for stat in stats), default=0)]
