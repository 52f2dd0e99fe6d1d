"""Management of the fast stores in a cache folder: build one for a path, list them, remove and prune them."""

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from l5kit.data.layout import ARRAYS
from l5kit.data.progress import Progress
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.data.stores.decoded_store import (
    DecodedSource,
    DecodedStore,
    build_store,
    clear,
    lock_of,
    read_store,
    store_folder,
    stores_folder,
)
from l5kit.data.stores.store import StoreLocation, is_url, path_of
from l5kit.data.user_cache import hold_lock
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import DatasetNotFoundError, L5KitError, MissingDependencyError

StoreState = Literal["current", "changed", "gone", "unknown"]
"""State of the source of a store: unchanged, changed since, deleted, or unreachable."""


@dataclass(frozen=True)
class ListedStore:
    """A store of a cache folder, and the state of its source."""

    store: DecodedStore
    state: StoreState


def build_decoded_store(
    path: StoreLocation, *, cache_folder: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> tuple[DecodedStore, bool]:
    """Return the decoded files of the dataset at a path, built if needed, and whether they were built by this call.

    ``ChunkedDataset(path).open(cached="mmap")`` reads from them, and builds them too; this function reports problems as
    errors.

    Args:
        path: Any location accepted by :class:`~l5kit.data.zarr_dataset.ChunkedDataset`.
        cache_folder: Folder for them; None for the user's cache folder, or ``L5KIT_CACHE_DIR``.
        progress: Called with the number of rows decoded and their total.

    Raises:
        CorruptedDataError: A chunk of the dataset is damaged or missing.
        DatasetNotFoundError: There is no dataset at the path.
        InvalidArgumentError: The dataset lies in memory, where changes cannot be detected.
        OSError: The folder cannot be written to, or its disk is full.
    """
    return build_store(_source_at(path), cache_folder, progress=progress)


def list_stores(cache_folder: str | os.PathLike[str] | None = None) -> list[ListedStore]:
    """Return all stores of a cache folder, the most recently used first.

    Args:
        cache_folder: The folder; None for the user's cache folder, or ``L5KIT_CACHE_DIR``.
    """
    stores = [store for folder in _dataset_folders(cache_folder) for store in _stores_in(folder)]
    stores.sort(key=lambda store: store.last_used, reverse=True)
    return [ListedStore(store, _state_of(store)) for store in stores]


def remove_store(path: StoreLocation, *, cache_folder: str | os.PathLike[str] | None = None) -> list[DecodedStore]:
    """Remove the decoded files of the dataset that is, or was, at a path, and return the removed stores.

    Processes that have the files open can continue to read them.

    Args:
        path: Path or URL of the dataset.
        cache_folder: Folder with the files; None for the user's cache folder, or ``L5KIT_CACHE_DIR``.

    Raises:
        DatasetNotFoundError: There are none.
        OSError: They are being built right now, or cannot be removed.
    """
    text = path_of(path)
    folder = store_folder(text if is_url(text) else os.path.realpath(text), cache_folder)
    stores = _stores_in(folder)
    if not stores:
        raise DatasetNotFoundError(
            f"there are no decoded files of {text!r} in {folder.parent}; l5kit cache --list shows all decoded files"
        )
    with hold_lock(lock_of(folder), wait=False) as problem:
        if problem:
            raise OSError(f"the decoded files of {text!r} cannot be removed now: {problem}")
        clear(folder)
    left = _stores_in(folder)
    if left:
        raise OSError(
            f"the decoded files in {left[0].folder} are in use and cannot be removed; stop the processes that read them"
        )
    return stores


def prune_stores(cache_folder: str | os.PathLike[str] | None = None) -> list[ListedStore]:
    """Remove stores whose source was deleted or has changed, and leftovers of killed builders; return those stores.

    Stores with an unreachable source, and stores that are being built, stay.

    Args:
        cache_folder: The folder; None for the user's cache folder, or ``L5KIT_CACHE_DIR``.
    """
    removed: list[ListedStore] = []
    for folder in _dataset_folders(cache_folder):
        with hold_lock(lock_of(folder), wait=False) as problem:
            if problem:
                continue
            listed = [ListedStore(store, _state_of(store)) for store in _stores_in(folder)]
            useful = {item.store.folder.name for item in listed if item.state in ("current", "unknown")}
            clear(folder, keep=useful)
            removed += [item for item in listed if not item.store.folder.exists()]
    return removed


def _source_at(path: StoreLocation) -> DecodedSource:
    dataset = ChunkedDataset(path).open(cached=False)
    arrays = {key: getattr(dataset, attribute) for key, (attribute, _, _) in ARRAYS.items()}
    chunked = {key: array for key, array in arrays.items() if isinstance(array, ChunkedArray)}
    return DecodedSource.of(dataset.root, chunked)


def _dataset_folders(cache_folder: str | os.PathLike[str] | None) -> list[Path]:
    folder = stores_folder(cache_folder)
    return sorted(entry for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def _stores_in(folder: Path) -> list[DecodedStore]:
    folders = [entry for entry in folder.iterdir() if not entry.name.startswith(".")] if folder.is_dir() else []
    return [store for store in map(read_store, sorted(folders)) if store is not None]


def _state_of(store: DecodedStore) -> StoreState:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the dataset, which is not used here
            return "current" if _source_at(store.source).digest == store.digest else "changed"
    except DatasetNotFoundError:
        return "gone"
    except MissingDependencyError:
        return "unknown"
    except L5KitError:
        return "changed"  # the source is no longer a dataset
    except Exception:  # any error of an unreachable service
        return "unknown"
