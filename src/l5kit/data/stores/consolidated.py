"""Consolidated metadata: copies of the metadata of all arrays in one file, which saves requests to a service.

Nothing keeps the copies up to date but whoever writes. Writers here drop them before they change what they are copies
of, and only stores that take a request for each file are read by them.
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
"""For each version of zarr, the file with the copies."""

_LAYOUT_KEYS = ("shape", "chunks", "dtype", "compressor", "filters", "order", "chunk_grid", "data_type", "codecs")
"""What the metadata of an array says about where its values are; the rest has several spellings of the same."""


def drop_consolidated(store: Store, group_path: str = "") -> None:
    """Remove the consolidated metadata of a group of zarr 2, if it has any; for writers, before they change metadata.

    Args:
        store: A store that can be written to.
        group_path: Path of the group inside it.
    """
    key = f"{group_path}/{_FILE_NAMES[2]}".lstrip("/")
    if sync(store.exists(key)):
        sync(store.delete(key))


def find_stale_metadata(root: zarr.Group, names: Iterable[str]) -> list[str]:
    """Return the files of metadata of which the consolidated metadata of a group is no copy, sorted.

    Args:
        root: The root group of a store.
        names: Members that are looked for in it although the store may be unable to list them.

    Returns:
        Keys inside the store (``agents/.zarray``); the file of the consolidated metadata itself where it is damaged.
    """
    version, store = root.metadata.zarr_format, root.store
    file_name = _FILE_NAMES[version]

    # the copies by their files: in zarr 2 a file holds nothing else, in zarr 3 they stand in the metadata of the group
    try:
        content = _read_json(store, file_name)
        copies: JsonObject | None = None
        if content is not None and version == 2:
            copies = dict(content["metadata"].items())
        elif content is not None:
            inside = content.get("consolidated_metadata")
            copies = inside and {f"{name}/zarr.json": copy for name, copy in inside["metadata"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):  # no JSON, or other JSON than zarr writes
        return [file_name]
    if copies is None:
        return []

    # what is there but in no copy would be missing for whoever reads the copies alone
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
            continue  # the file itself is damaged, which opening it tells
        if _essence(key, copies.get(key)) != _essence(key, stored):
            stale.append(key)
    return stale


def _read_json(store: Store, key: str) -> Any:
    """Return a file of metadata, None if it is missing; a ValueError tells that it holds no JSON."""
    content = read_file(store, key)
    return None if content is None else json.loads(content)


def _essence(key: str, content: object) -> object:
    """Return what of a file of metadata has to be the same in its copy."""
    if key.endswith(".zattrs"):
        return content or {}  # a missing file says the same as an empty one
    if not isinstance(content, dict):
        return None
    return {name: content.get(name) for name in _LAYOUT_KEYS} | {"attributes": content.get("attributes") or {}}
