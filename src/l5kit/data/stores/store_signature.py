"""Signatures of stores, which identify a state of the files of a dataset."""

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
    """Return name, size and modification time of every file of some arrays, sorted; None if they are unknown.

    They are unknown for process memory, and for services that report neither times nor checksums.

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

    # Reported version of each file: time, ETag or checksum. Files that cannot be enumerated, such as those of a columns
    # export on a web server, have none.
    versions = [(name, version_of(info)) for name, info in sync(_remote_files(store, keys)).items()]
    if not versions or not all(version for _, version in versions):
        return None
    return sorted((name, *version) for name, version in versions)


async def _remote_files(store: RemoteStore, keys: tuple[str, ...]) -> dict[str, FileInfo]:
    """Return what a service reports about the files of some arrays, by name."""
    listed: dict[str, FileInfo] = {}
    if not store.files.is_http:
        for key in keys:
            listed |= await store.files.find(store.path_of_key(key))
        return listed

    # Listings of web servers, if any, contain no versions: request all files that should exist according to the
    # metadata of the arrays, at the same time.
    names: list[str] = []
    for key in keys:
        content = await store.files.read_if_allowed(store.path_of_key(f"{key}/.zarray"))
        if content is not None:
            metadata = json.loads(content)
            num_chunks = -(-int(metadata["shape"][0]) // int(metadata["chunks"][0]))
            names += [f"{key}/.zarray", *(f"{key}/{number}" for number in range(num_chunks))]
    infos = await asyncio.gather(*(store.files.info(store.path_of_key(name)) for name in names))
    return {name: info for name, info in zip(names, infos, strict=True) if info is not None}
