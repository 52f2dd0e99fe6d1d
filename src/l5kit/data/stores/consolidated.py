"""Consolidated metadata: copies of the metadata of all arrays in one file, which saves requests to a service.

Only writers can keep the copies up to date. Writers here delete them before they change the metadata, and only stores
that need a request per file read them.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import zarr
from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import LocalStore

from l5kit._types import JsonObject
from l5kit.data.stores.store import read_file

_FILE_NAMES = {2: ".zmetadata", 3: "zarr.json"}
"""The file with the copies, by version of zarr."""

_LAYOUT_KEYS = ("shape", "chunks", "dtype", "compressor", "filters", "order", "chunk_grid", "data_type", "codecs")
"""Metadata of an array that determines where its values are; other keys have several equivalent spellings."""


def drop_consolidated(store: Store, group_path: str = "") -> None:
    """Remove the consolidated metadata of a zarr 2 group, if it has any; writers call this before changing metadata.

    Args:
        store: A writable store.
        group_path: Path of the group inside it.
    """
    key = f"{group_path}/{_FILE_NAMES[2]}".lstrip("/")
    if sync(store.exists(key)):
        sync(store.delete(key))


def find_stale_metadata(root: zarr.Group, names: Iterable[str]) -> list[str]:
    """Return the metadata files that differ from their copy in the consolidated metadata of a group, sorted.

    Args:
        root: The root group of a store.
        names: Members that are checked even if the store cannot list them.

    Returns:
        Keys inside the store (``agents/.zarray``); the file of the consolidated metadata itself if it is damaged.
    """
    version, store = root.metadata.zarr_format, root.store
    file_name = _FILE_NAMES[version]

    # copies by file: zarr 2 has a separate file for them, zarr 3 stores them in the metadata of the group
    try:
        content = _read_json(store, file_name)
        copies: JsonObject | None = None
        if content is not None and version == 2:
            copies = dict(content["metadata"].items())
        elif content is not None:
            inside = content.get("consolidated_metadata")
            copies = inside and {f"{name}/zarr.json": copy for name, copy in inside["metadata"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):  # not JSON, or not as written by zarr
        return [file_name]
    if copies is None:
        return []

    # files without a copy would be missing for readers that use only the copies
    layout_file = ".zarray" if version == 2 else "zarr.json"
    keys = {*copies, *(f"{name}/{layout_file}" for name in names)}
    if isinstance(store, LocalStore):
        folder = Path(store.root)
        keys |= {file.relative_to(folder).as_posix() for file in folder.glob(f"*/**/{layout_file}")}

    stale = []
    for key in sorted(keys):
        try:
            stored = _read_json(store, key)
        except ValueError:
            continue  # the file itself is damaged, which opening it reports
        if _essence(key, copies.get(key)) != _essence(key, stored):
            stale.append(key)
    return stale


def _read_json(store: Store, key: str) -> Any:
    """Return the content of a metadata file, None if it is missing; raise a ValueError if it is not JSON."""
    content = read_file(store, key)
    return None if content is None else json.loads(content)


def _essence(key: str, content: object) -> object:
    """Return the part of a metadata file that must be equal in its copy."""
    if key.endswith(".zattrs"):
        return content or {}  # a missing file is equivalent to an empty one
    if not isinstance(content, dict):
        return None
    return {name: content.get(name) for name in _LAYOUT_KEYS} | {"attributes": content.get("attributes") or {}}
