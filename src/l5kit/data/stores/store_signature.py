"""Signatures of stores: what tells one state of the files of a dataset from another."""

import asyncio
import json
import os
from pathlib import Path

from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import LocalStore, ZipStore

from l5kit.data.stores.file_listing import FileInfo
from l5kit.data.stores.remote_files import version_of
from l5kit.data.stores.remote_store import RemoteStore
from l5kit.data.stores.remote_zip import RemoteZipStore
from l5kit.data.stores.store import is_process_memory


def store_signature(store: Store, keys: tuple[str, ...]) -> list[tuple[object, ...]] | None:
    """Return name, size and modification time of every file of some arrays, sorted; None where nothing tells.

    Nothing tells of process memory, and of services that give neither times nor checksums.

    Args:
        store: The store.
        keys: Names of the arrays.
    """
    if is_process_memory(store):
        return None
    if isinstance(store, LocalStore):
        return _folder_signature(Path(store.root), keys)
    if isinstance(store, ZipStore):
        status = os.stat(store.path)
        return [(store.path.name, status.st_size, status.st_mtime_ns)]
    if isinstance(store, RemoteZipStore):
        return sync(store.state())
    return _remote_signature(store, keys) if isinstance(store, RemoteStore) else None


def _folder_signature(root: Path, keys: tuple[str, ...]) -> list[tuple[object, ...]]:
    entries: list[tuple[object, ...]] = []
    for key in keys:
        if (root / key).is_dir():
            with os.scandir(root / key) as files:
                for file in files:
                    status = file.stat()
                    entries.append((f"{key}/{file.name}", status.st_size, status.st_mtime_ns))
    return sorted(entries)


def _remote_signature(store: RemoteStore, keys: tuple[str, ...]) -> list[tuple[object, ...]] | None:
    """Sizes and whatever the service tells about each file's version (time, ETag or checksum); None if nothing."""
    files = sync(_ask_each(store, keys) if store.files.is_http else _list_all(store, keys))
    versions = [(name, version_of(info)) for name, info in files.items()]
    if not all(version for _, version in versions):
        return None
    return sorted((name, *version) for name, version in versions)


async def _list_all(store: RemoteStore, keys: tuple[str, ...]) -> dict[str, FileInfo]:
    infos: dict[str, FileInfo] = {}
    for key in keys:
        infos |= await store.files.find(store.path_of_key(key))
    return infos


async def _ask_each(store: RemoteStore, keys: tuple[str, ...]) -> dict[str, FileInfo]:
    """Ask for every chunk of arrays, since web servers tell no versions in what they list, if they list at all."""
    names = [name for key in keys for name in await _names_of(store, key)]
    paths = [store.path_of_key(name) for name in names]
    infos = await asyncio.gather(*(store.files.info(path) for path in paths))
    return {name: info for name, info in zip(names, infos, strict=True) if info is not None}


async def _names_of(store: RemoteStore, key: str) -> list[str]:
    """Return the names of the files that an array should have, by its metadata; none if there is no such array."""
    content = await store.files.read_metadata(store.path_of_key(f"{key}/.zarray"))
    if content is None:
        return []
    metadata = json.loads(content)
    num_chunks = -(-int(metadata["shape"][0]) // int(metadata["chunks"][0]))
    return [f"{key}/.zarray", *(f"{key}/{number}" for number in range(num_chunks))]
