"""Fast store: the decoded arrays of a dataset as files in the cache folder, memory-mapped by all processes.

The files of a source are in ``CACHE/decoded/NAME-KEY/DIGEST/``: one ``.npy`` file per array, and a manifest. KEY
stands for the path of the source, DIGEST for its state, so a source that has changed has no files until they are
rebuilt. A folder gets its final name when it is complete; until then its name starts with a dot.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr

from l5kit._files import placed_when_complete, remove_whole, sync_folder
from l5kit.data.layout import ARRAYS
from l5kit.data.progress import Progress, show_progress
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.data.stores.npy_files import MappedArray, npy_header
from l5kit.data.stores.store import location_of, read_file
from l5kit.data.user_cache import CACHE_DIR_ENV_KEY, cache_folder, hold_lock, key_of
from l5kit.errors import CorruptedDataError, InvalidArgumentError

MANIFEST_NAME = "store.json"

_FOLDER_NAME = "decoded"
_FORMAT_VERSION = 1
_OWN = re.compile(r"(?:\.[0-9a-f]{32}\.[0-9a-f]+\.part|[0-9a-f]{32})")
"""Names of the folders of stores, and of leftovers of killed builders; other folders are not removed."""

_METADATA_FILES = (".zgroup", ".zattrs", *(f"{key}/.zarray" for key in ARRAYS))
_COLUMNS_METADATA_FILES = ("zarr.json", *(f"{key}/zarr.json" for key in ARRAYS))
_SPARE_BYTES = 16 * 2**20
"""Free disk space that remains after building."""


@dataclass(frozen=True)
class DecodedSource:
    """The arrays of an opened dataset, as the source of decoded files.

    Attributes:
        root: Its zarr group.
        arrays: The array for each name on disk; arrays that the dataset lacks are omitted.
        location: Absolute path without links, or URL.
        signatures: Result of :meth:`ChunkedArray.signature` for each array.
        digest: Digest of its metadata, and of names, sizes and modification times of its chunks.
    """

    root: zarr.Group
    arrays: Mapping[str, ChunkedArray]
    location: str
    signatures: Mapping[str, object]
    digest: str

    @classmethod
    def of(cls, root: zarr.Group, arrays: Mapping[str, ChunkedArray]) -> "DecodedSource":
        """Return an opened dataset as a source.

        Raises:
            InvalidArgumentError: Changes of the dataset cannot be detected, as it is in the memory of this process, or
                on a service that reports neither times nor checksums.
        """
        location = location_of(root.store)
        signatures = {key: array.signature() for key, array in arrays.items()}
        if location is None or None in signatures.values():
            raise InvalidArgumentError(
                f"the dataset on {root.store} cannot have decoded files: it lies in the memory of this process, or its "
                "service reports neither times nor checksums, so outdated files cannot be detected; "
                "save() it to a folder and open that"
            )
        return cls(root, arrays, location, signatures, _digest_of(root, arrays, signatures))

    @property
    def num_bytes(self) -> int:
        """Total size of the decoded files."""
        return sum(len(npy_header(array.dtype, array.shape)) + array.nbytes for array in self.arrays.values())


@dataclass(frozen=True)
class DecodedStore:
    """The decoded files of a dataset.

    Attributes:
        folder: Their folder.
        source: Path or URL of the dataset.
        digest: See :class:`DecodedSource`.
        num_bytes: Their total size.
        build_seconds: Duration of the build.
        last_used: Time at which a process last opened them, in seconds since 1970.
    """

    folder: Path
    source: str
    digest: str
    num_bytes: int
    build_seconds: float
    last_used: float


def store_folder(source_location: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder for the decoded files of a dataset in all its states; it may not exist.

    Args:
        source_location: Absolute path without links, or URL of the dataset.
        folder: Cache folder; None for the user's cache folder.
    """
    name = re.sub(r"[^\w.-]", "_", os.path.basename(source_location.rstrip("/\\")))[:64].lstrip(".")
    return stores_folder(folder) / f"{name}-{key_of(source_location)}"


def stores_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder with all stores of a cache folder; it may not exist."""
    return (cache_folder() if folder is None else Path(folder)).absolute() / _FOLDER_NAME


def read_store(folder: Path) -> DecodedStore | None:
    """Return the store in a folder, from its manifest; None if there is none."""
    try:
        file = folder / MANIFEST_NAME
        manifest, last_used = json.loads(file.read_text("utf-8")), file.stat().st_mtime
        if manifest["version"] != _FORMAT_VERSION:
            return None
        facts = (str(manifest["source"]), str(manifest["digest"]), int(manifest["num_bytes"]))
        return DecodedStore(folder, *facts, build_seconds=float(manifest["build_seconds"]), last_used=last_used)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def map_store(
    source: DecodedSource, folder: str | os.PathLike[str] | None = None
) -> tuple[DecodedStore, dict[str, MappedArray]] | None:
    """Return the store of the current state of a dataset, and its memory-mapped arrays; None if there is none.

    Args:
        source: The dataset.
        folder: Cache folder; None for the user's cache folder.
    """
    store = read_store(_folder_of(source, folder))
    if store is None or (store.source, store.digest) != (source.location, source.digest):
        return None
    try:
        arrays = {key: _map_array(store, source, key) for key in source.arrays}
    except CorruptedDataError:
        return None
    with suppress(OSError):  # another user's folder, or a read-only disk
        os.utime(store.folder / MANIFEST_NAME)
    return store, arrays


def map_or_build(
    source: DecodedSource, folder: str | os.PathLike[str] | None = None, *, show_bar: bool = False
) -> dict[str, MappedArray]:
    """Return the decoded arrays of a dataset, memory-mapped and built if needed; see :func:`build_store`."""
    mapped = map_store(source, folder)
    if mapped is not None:
        return mapped[1]
    with show_progress(f"Decoding {os.path.basename(source.location)}", visible=show_bar) as progress:
        store, _ = build_store(source, folder, progress=progress)
    return {key: _map_array(store, source, key) for key in source.arrays}


def build_store(
    source: DecodedSource, folder: str | os.PathLike[str] | None = None, *, progress: Progress | None = None
) -> tuple[DecodedStore, bool]:
    """Return the store of a dataset and whether it was built by this call; other processes wait for the build.

    Files of older states of the dataset and leftovers of killed builders are removed.

    Args:
        source: The dataset. One chunk of it at a time is held in memory.
        folder: Cache folder; None for the user's cache folder.
        progress: Called with the number of rows decoded and their total.

    Raises:
        CorruptedDataError: A chunk of the dataset is damaged or missing, or it changed during the build.
        OSError: The folder cannot be written to, or its disk is full.
    """
    target = _folder_of(source, folder)
    mapped = map_store(source, folder)
    if mapped is not None:
        return mapped[0], False
    with hold_lock(lock_of(target.parent)) as problem:
        if problem:
            raise OSError(_failure_text(source, target, f"the folder cannot be written to: {problem}"))
        mapped = map_store(source, folder)
        if mapped is not None:
            return mapped[0], False
        try:
            return _build(source, target, progress), True
        except CorruptedDataError:
            raise
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
            raise OSError(_failure_text(source, target, reason)) from error


def lock_of(folder: Path) -> Path:
    """Return the lock file that is held while the decoded files of a dataset are changed."""
    return folder.with_name(f"{folder.name}.lock")


def clear(root: Path, *, keep: Container[str] = ()) -> int:
    """Remove decoded files of a dataset and leftovers of killed builders; the caller must hold the lock.

    Memory-mapped files stay until their process ends: on Linux and macOS without a name, on Windows in their folder,
    which the next call removes.

    Args:
        root: Folder for the decoded files of the dataset in all its states.
        keep: Names of the folders (digests of states) to keep.

    Returns:
        Size of the complete stores that were removed, in bytes.
    """
    num_bytes = 0
    for folder in list(root.iterdir()) if root.is_dir() else []:
        if folder.name in keep or not _OWN.fullmatch(folder.name):
            continue
        store = read_store(folder)
        try:
            if folder.name.startswith("."):  # leftover of a killed builder
                shutil.rmtree(folder, ignore_errors=True)
            else:
                remove_whole(folder)
        except OSError:  # in use, on Windows
            continue
        num_bytes += 0 if store is None else store.num_bytes
    with suppress(OSError):
        root.rmdir()
    return num_bytes


def _folder_of(source: DecodedSource, folder: str | os.PathLike[str] | None) -> Path:
    return store_folder(source.location, folder) / source.digest[:32]


def _failure_text(source: DecodedSource, target: Path, reason: str) -> str:
    return (
        f"the decoded files of {source.location!r} ({source.num_bytes / 1e6:,.0f} MB) cannot be kept in "
        f"{target.parent} ({reason}); set {CACHE_DIR_ENV_KEY} to a folder with space, or name one "
        "(cache_folder=, or --folder of l5kit cache)"
    )


def _map_array(store: DecodedStore, source: DecodedSource, key: str) -> MappedArray:
    file, array = store.folder / f"{key}.npy", source.arrays[key]
    return MappedArray(file, dtype=array.dtype, length=len(array), name=array.name, signature=source.signatures[key])


def _build(source: DecodedSource, target: Path, progress: Progress | None) -> DecodedStore:
    """Build a store under a temporary name and rename it; the caller must hold the lock."""
    clear(target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    # report a full disk before writing the first byte, not after an hour
    free = shutil.disk_usage(target.parent).free
    if source.num_bytes + _SPARE_BYTES > free:
        raise OSError(f"only {free / 1e6:,.0f} MB are free there")
    with placed_when_complete(target, is_synced=True) as unfinished:
        unfinished.mkdir()
        started = time.perf_counter()
        _write_arrays(source, unfinished, progress)
        signatures = {key: array.signature() for key, array in source.arrays.items()}
        if _digest_of(source.root, source.arrays, signatures) != source.digest:
            raise CorruptedDataError(f"the dataset {source.location!r} changed while it was decoded; open it again")

        # the manifest is written last, and everything is synced to disk before the folder is renamed
        manifest = {
            "version": _FORMAT_VERSION,
            "source": source.location,
            "digest": source.digest,
            "num_bytes": source.num_bytes,
            "build_seconds": time.perf_counter() - started,
            "rows": {key: len(array) for key, array in source.arrays.items()},
        }
        with (unfinished / MANIFEST_NAME).open("w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(unfinished)
    store = read_store(target)
    if store is None:
        raise OSError(f"the manifest in {target} cannot be read back")
    return store


def _write_arrays(source: DecodedSource, folder: Path, progress: Progress | None) -> None:
    num_done, num_rows = 0, sum(map(len, source.arrays.values()))
    for key, array in source.arrays.items():
        uncached = array.uncached()
        with (folder / f"{key}.npy").open("wb") as file:
            file.write(npy_header(array.dtype, array.shape))
            step = array.chunks[0]
            for start in range(0, len(array), step):
                rows = uncached.rows(start, min(start + step, len(array)), strict=True)
                file.write(np.ascontiguousarray(rows).view(np.uint8).data)
                num_done += len(rows)
                if progress is not None:
                    progress(num_done, num_rows)
            file.flush()
            os.fsync(file.fileno())


def _digest_of(root: zarr.Group, arrays: Mapping[str, ChunkedArray], signatures: Mapping[str, object]) -> str:
    """Return a digest of the state of a dataset on disk, and of the format of the decoded files."""
    files = _COLUMNS_METADATA_FILES if root.metadata.zarr_format == 3 else _METADATA_FILES
    metadata = [(key, read_file(root.store, key)) for key in files]
    headers = [npy_header(array.dtype, array.shape) for array in arrays.values()]
    return hashlib.sha256(repr((_FORMAT_VERSION, metadata, headers, sorted(signatures.items()))).encode()).hexdigest()
