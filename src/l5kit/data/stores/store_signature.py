"""Signatures of stores: what tells one state of the files of a dataset from another."""

import asyncio
import json
import os
from pathlib import Path

from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import LocalStore, ZipStore

from l5kit.data.stores.remote_files import version_of
from l5kit.data.stores.remote_reading import FileInfo
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
        entries: list[tuple[object, ...]] = []
        for key in keys:
            folder = Path(store.root) / key
            if folder.is_dir():
                with os.scandir(folder) as files:
                    for file in files:
                        status = file.stat()
                        entries.append((f"{key}/{file.name}", status.st_size, status.st_mtime_ns))
        return sorted(entries)
    if isinstance(store, ZipStore):
        status = os.stat(store.path)
        return [(store.path.name, status.st_size, status.st_mtime_ns)]
    if isinstance(store, RemoteZipStore):
        return sync(store.state())
    if not isinstance(store, RemoteStore):
        return None

    # whatever the service tells about the version of each file: time, ETag or checksum; of files that nobody can name,
    # as those of an export in columns on a web server, nothing does
    versions = [(name, version_of(info)) for name, info in sync(_remote_files(store, keys)).items()]
    if not versions or not all(version for _, version in versions):
        return None
    return sorted((name, *version) for name, version in versions)


async def _remote_files(store: RemoteStore, keys: tuple[str, ...]) -> dict[str, FileInfo]:
    """Return what a service tells of the files of some arrays, by name."""
    listed: dict[str, FileInfo] = {}
    if not store.files.is_http:
        for key in keys:
            listed |= await store.files.find(store.path_of_key(key))
        return listed

    # web servers tell no versions in what they list, if they list at all: each file that the metadata of an array
    # says there should be is asked for, all at once
    names: list[str] = []
    for key in keys:
        content = await store.files.read_if_allowed(store.path_of_key(f"{key}/.zarray"))
        if content is not None:
            metadata = json.loads(content)
            num_chunks = -(-int(metadata["shape"][0]) // int(metadata["chunks"][0]))
            names += [f"{key}/.zarray", *(f"{key}/{number}" for number in range(num_chunks))]
    infos = await asyncio.gather(*(store.files.info(store.path_of_key(name)) for name in names))
    return {name: info for name, info in zip(names, infos, strict=True) if info is not None}
