"""Memory of finished downloads, in the user's cache folder: what is there already is not downloaded again."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path, PurePosixPath

from l5kit._files import placed_when_complete
from l5kit.data.download.addresses import Address
from l5kit.data.download.published_layout import PlacedPart
from l5kit.data.user_cache import cache_folder

__all__ = ["recall_places", "remember_places"]

_MASKS = "agents_mask"


def recall_places(address: Address, folder: Path, version: str) -> list[PurePosixPath] | None:
    """Return the places to which an address was downloaded before, if everything is still there; else None.

    Args:
        address: The address.
        folder: The data folder.
        version: What is known of the files there now, such as their digest; another one, another download.
    """
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        facts = json.loads(_file_of(address, folder).read_text("utf-8"))
        if facts["version"] != version or not facts["places"]:
            return None
        places = {PurePosixPath(place): sizes for place, sizes in facts["places"].items()}
        if all(_sizes(folder / place) == sizes for place, sizes in places.items()):
            return list(places)
    return None


def remember_places(address: Address, folder: Path, version: str, parts: list[PlacedPart]) -> None:
    """Write down where the parts of an address are; nothing happens where the cache folder cannot be written to."""
    places = {str(part.place): _sizes(folder / part.place) for part in parts}
    facts = {"address": address.name, "folder": os.path.realpath(folder), "version": version, "places": places}
    with suppress(OSError), placed_when_complete(_file_of(address, folder)) as file:
        file.write_text(json.dumps(facts, indent=2), "utf-8")


def _file_of(address: Address, folder: Path) -> Path:
    key = hashlib.sha256(f"{os.path.realpath(folder)}\0{address.identity}".encode("utf-8", "surrogatepass")).hexdigest()
    return cache_folder() / "downloads" / f"{key}.json"


def _sizes(place: Path) -> list[int]:
    """Return the number of files at a place, and their bytes, without agents masks that were stored since."""
    if place.is_file():
        return [1, place.stat().st_size]
    files = (path for path in place.rglob("*") if path.is_file())
    sizes = [path.stat().st_size for path in files if path.relative_to(place).parts[0] != _MASKS]
    return [len(sizes), sum(sizes)]
