"""Store of a dataset: a folder, a zip file, memory, or a location accessed by fsspec.

A location is a path, a URL such as ``s3://bucket/train.zarr``, or a zarr store object.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.request import url2pathname

import zarr
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ZipStore

from l5kit.configs.texts import require_regular_file
from l5kit.data.stores.remote_files import RemoteFiles
from l5kit.data.stores.remote_reading import RemoteReading
from l5kit.data.stores.remote_store import RemoteStore
from l5kit.data.stores.remote_zip import RemoteZipStore
from l5kit.data.unpack_limits import USUAL_LIMITS
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError, without_secrets

_T = TypeVar("_T")
StoreLocation = str | os.PathLike[str] | Store

ZarrArray: TypeAlias = "zarr.Array[Any]"
"""A zarr array of any metadata version."""

_METADATA_FILES = (".zgroup", ".zattrs", ".zarray", "zarr.json")
_FILE_URL = "file://"
_URL_AS_PATH = re.compile(r"(?:[a-z]+::)?[A-Za-z][A-Za-z0-9+.-]+:/(?=[^/])")
"""Beginning of a URL that was converted to a path: pathlib removes one of its slashes."""


@dataclass(frozen=True)
class RemoteAccess:
    """Access to the service of a URL.

    Attributes:
        storage_options: Options of the file system of fsspec.
        reading: Timeouts and retries; None for those from the environment.
    """

    storage_options: Mapping[str, object] | None = None
    reading: RemoteReading | None = None


def is_url(location: object) -> bool:
    """Return whether a location is a URL that fsspec handles."""
    return isinstance(location, str) and "://" in location


def is_zip(location: object) -> bool:
    """Return whether a location is a zip file, by its name."""
    return isinstance(location, (str, os.PathLike)) and not is_url(location) and str(location).endswith(".zip")


def is_remote_zip(location: object) -> bool:
    """Return whether a location is the URL of a zip file, by its name or a leading ``zip::``."""
    return (
        isinstance(location, str) and is_url(location) and (location.endswith(".zip") or location.startswith("zip::"))
    )


def path_of(location: StoreLocation) -> str:
    """Return the path or URL of a location; the empty string for a store without one.

    A ``file://`` URL gives the path of the file. A path object constructed from a URL gives the URL.

    Raises:
        InvalidArgumentError: The location is not a string, path object or store.
    """
    if not isinstance(location, Store):
        path = os.fspath(location) if isinstance(location, (str, os.PathLike)) else None
        if not isinstance(path, str):
            raise InvalidArgumentError(
                f"path must be text, a path object or a zarr store, got {location!r} of type {type(location).__name__}"
                + ("; os.fsdecode() turns bytes into text" if isinstance(location, bytes) else "")
            )
        if isinstance(location, os.PathLike) and (start := _URL_AS_PATH.match(path)) and not os.path.exists(path):
            path = f"{start[0]}{'//' if start[0] == 'file:/' else '/'}{path[start.end() :]}"
        return url2pathname(path.removeprefix(_FILE_URL)) if path.startswith(_FILE_URL) else path
    if isinstance(location, LocalStore):
        return str(location.root)
    if isinstance(location, ZipStore):
        return str(location.path)
    return ""


def whole_path_of(path: str | os.PathLike[str]) -> str:
    """Return a path made absolute, or the URL that it was constructed from."""
    text = path_of(path)
    return text if is_url(text) else os.path.abspath(text)


def file_name_of(path: str | os.PathLike[str]) -> str:
    """Return the last part of a path, or of the URL that it was constructed from, without its query (signatures)."""
    return Path(without_secrets(path_of(path))).name


def open_store(location: StoreLocation, *, writable: bool, remote: RemoteAccess | None = None) -> Store:
    """Return a zarr store on an existing location.

    Args:
        location: Path, URL or store.
        writable: Whether it will be written to.
        remote: Access to the service of a URL.

    Raises:
        DatasetNotFoundError: There is no such path.
        InvalidArgumentError: A zip file cannot be written to, metadata is a pipe or device, or fsspec does not know the
            kind of URL.
        MissingDependencyError: fsspec needs a library for this kind of URL.
        UnreachableDataError: The service of a zip file refuses the request, or does not answer.
    """
    remote = remote or RemoteAccess()
    if isinstance(location, Store):
        if type(location) is not FsspecStore:
            return location
        # wrap a zarr store on a service in our own, which retries transient failures
        files = RemoteFiles(location.fs, remote.reading or RemoteReading.from_environment())
        return RemoteStore(files, location.path, read_only=location.read_only)
    path = os.fspath(location)
    if is_url(path):
        return _open_url(path, remote, writable=writable)
    if not os.path.exists(path):
        raise DatasetNotFoundError(f"no dataset at {path!r}: this path does not exist; check the spelling")
    whole = os.path.abspath(path)  # valid in processes with another working directory
    if os.path.isfile(path):
        if writable:
            raise _read_only_error(whole)
        try:
            store = ZipStore(whole, mode="r")
            store._sync_open()
            USUAL_LIMITS.require_readable(store._zf)
        except Exception as error:  # any error of zipfile for a damaged file
            raise DatasetNotFoundError(
                f"no dataset at {whole!r}: this file is not a readable zip file ({error})"
            ) from error
        return store

    # zarr would block on metadata that is a pipe; chunk files are checked when they are read
    with os.scandir(whole) as entries:
        folders = [whole, *(entry.path for entry in entries if entry.is_dir())]
    for folder in folders:
        for name in _METADATA_FILES:
            require_regular_file(os.path.join(folder, name), called="metadata file")
    return LocalStore(whole, read_only=not writable)


def create_store(location: StoreLocation, *, remote: RemoteAccess | None = None) -> Store:
    """Return a writable zarr store for a new dataset.

    Args:
        location: Path, URL or store.
        remote: Access to the service of a URL.

    Raises:
        InvalidArgumentError: The location is a zip file, or a folder with anything other than a zarr group, which would
            be lost.
    """
    if isinstance(location, Store):
        return location
    path = os.fspath(location)
    if is_zip(path) or is_remote_zip(path):
        raise InvalidArgumentError(
            f"cannot initialize {path!r}: a zip file is written whole. "
            "Initialize a folder or MemoryStore(), fill it and call save() with the path of the zip file."
        )
    if is_url(path):
        return _open_url(path, remote or RemoteAccess(), writable=True)
    if path == "":
        raise InvalidArgumentError("cannot initialize a dataset without a path; pass the path of a folder")

    # zarr would wipe the folder, so it must be empty or a zarr group
    folder = Path(path)
    if folder.is_file():
        raise InvalidArgumentError(f"cannot initialize {folder}: this is a file; choose the path of a new folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / ".zgroup").is_file():
        raise InvalidArgumentError(
            f"cannot initialize {folder}: the folder is not empty and holds no zarr group, and its files would be "
            "lost; choose another path"
        )
    return LocalStore(path)


def is_process_memory(store: Store) -> bool:
    """Return whether a store is in the memory of this process, inaccessible to others."""
    if isinstance(store, (FsspecStore, RemoteZipStore)):
        # the file system inside zarr's asynchronous wrapper knows its protocol
        fs = store.fs if isinstance(store, FsspecStore) else store.files.fs
        protocol = getattr(fs, "sync_fs", fs).protocol
        return "memory" in ((protocol,) if isinstance(protocol, str) else protocol)
    return isinstance(store, MemoryStore)


def location_of(store: Store) -> str | None:
    """Return a canonical location of a store; None for process memory and unknown stores.

    Paths are absolute and without links.
    """
    if isinstance(store, LocalStore):
        return os.path.realpath(store.root)
    if isinstance(store, ZipStore):
        return os.path.realpath(store.path)
    if is_process_memory(store):
        return None
    if isinstance(store, FsspecStore):
        file_system = getattr(store.fs, "sync_fs", store.fs)
        return str(file_system.unstrip_protocol(store.path))
    return store.url if isinstance(store, RemoteZipStore) else None


def describe_file(store: Store, key: str) -> str:
    """Return the path of a file inside a store, for messages."""
    if isinstance(store, LocalStore):
        return str(store.root / key)
    if isinstance(store, RemoteStore):
        return store.files.url_of(store.path_of_key(key))
    if isinstance(store, RemoteZipStore):
        return f"{store.url}/{key}"
    if isinstance(store, (ZipStore, FsspecStore)):
        return f"{store.path}/{key}"
    return f"{type(store).__name__}/{key}"


def _open_url(url: str, remote: RemoteAccess, *, writable: bool) -> Store:
    reading = remote.reading or RemoteReading.from_environment()
    if not is_remote_zip(url):
        return RemoteStore.at(url, reading, remote.storage_options, read_only=not writable)
    if writable:
        raise _read_only_error(url)
    return RemoteZipStore.at(url, reading, remote.storage_options)


def _read_only_error(path: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"cannot open {path!r} for writing: a zip file is read and written whole. "
        "Copy it with save() to a folder, or open it with mode='r'."
    )


def chunk_indices(store: Store, key: str, candidates: Sequence[int]) -> list[int]:
    """Return the indices of the chunks of a one-dimensional array whose files exist, ascending.

    Args:
        store: The store.
        key: Name of the array.
        candidates: Chunks to request one by one on a web server, which may not list files.
    """
    if isinstance(store, RemoteStore) and store.files.is_http:
        are_there = which_exist(store, [f"{key}/{index}" for index in candidates])
        return [index for index, is_there in zip(candidates, are_there, strict=True) if is_there]

    # ignore other files next to the chunks; names such as 007 are not chunks
    names = collected(store.list_dir(key))
    return sorted(int(name) for name in names if name.isascii() and name.isdigit() and name == str(int(name)))


def group_inside_zip(store: Store) -> str | None:
    """Return the folder of a zarr group inside a zip file, or None if there is none."""
    if not isinstance(store, (ZipStore, RemoteZipStore)):
        return None

    folders = [name.rpartition("/")[0] for name in collected(store.list()) if name.endswith(("/.zgroup", "/zarr.json"))]
    return min(folders, key=len, default=None)


def is_folder(store: Store, key: str) -> bool:
    """Return whether there is a folder in place of a file of a store, which zarr treats as a missing file.

    Args:
        store: The store.
        key: Path of the file inside it.
    """
    if isinstance(store, LocalStore):
        return (Path(store.root) / key).is_dir()
    return bool(collected(store.list_prefix(f"{key}/")))


def read_file(store: Store, key: str) -> bytes | None:
    """Return the content of a file of a store; None if there is none."""
    content = sync(store.get(key, default_buffer_prototype()))
    return None if content is None else content.to_bytes()


def collected(names: AsyncIterator[str]) -> list[str]:
    """Return the names that a store lists."""

    async def collect() -> list[str]:
        return [name async for name in names]

    return sync(collect())


def which_exist(store: Store, keys: Sequence[str]) -> list[bool]:
    """Return whether each file exists, by concurrent requests: web servers may not list files."""
    return sync(answers_of(store.exists(key) for key in keys))


async def answers_of(questions: Iterable[Awaitable[_T]]) -> list[_T]:
    """Return the results of concurrent requests to a service, in order."""
    return await asyncio.gather(*questions)
