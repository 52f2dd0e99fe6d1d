"""Checksums of the files of a dataset: the format itself has none, so flipped bits could go unnoticed."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from zarr.abc.store import Store
from zarr.core.sync import sync

from l5kit._types import Int64Array, Log
from l5kit.data.checks.finding import Finding, FindingList
from l5kit.data.jobs.scene_jobs import Workers, map_scenes
from l5kit.data.layout import ARRAYS
from l5kit.data.progress import Progress
from l5kit.data.stores.store import collected, describe_file, read_file
from l5kit.data.views import RecordView
from l5kit.errors import InvalidArgumentError

_METADATA_FILES = (".zgroup", ".zattrs", "zarr.json")


def compute_checksums(dataset: Log, *, workers: Workers = 1, progress: Progress | None = None) -> dict[str, str]:
    """Return the SHA-256 digest (hexadecimal) of every file of a dataset's arrays and metadata.

    Args:
        dataset: Opened :class:`~l5kit.data.zarr_dataset.ChunkedDataset`.
        workers: Number of threads, or an executor; see :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.
        progress: Called with the number of files done and their total.

    Returns:
        The digest of each file, by its key inside the dataset (``agents/0``). A stored agents mask is excluded.

    Raises:
        InvalidArgumentError: The dataset is in NumPy arrays or is a view, so it has no files.
    """
    store = _store_of(dataset)
    return _digests(store, _list_files(store), workers, progress)


def compare_checksums(
    dataset: Log, checksums: Mapping[str, str], findings: FindingList, *, workers: Workers = 1
) -> None:
    """Add a finding for each file that is missing, new or differs from a digest of :func:`compute_checksums`."""
    store = _store_of(dataset)
    present = _list_files(store)
    digests = _digests(store, [key for key in present if key in checksums], workers)
    for key in sorted({*present, *checksums}):
        if key not in checksums:
            problem = "is not in the list of digests"
        elif key not in present:
            problem = "is in the list of digests, but missing"
        elif digests[key] != checksums[key].lower():
            problem = "differs from its digest; restore it from the source of the dataset"
        else:
            continue
        file = describe_file(store, key)
        findings.add(Finding(severity="error", check="checksum", message=f"file {key} {problem}", file=file))


def _store_of(dataset: Log) -> Store:
    root = getattr(dataset, "root", None)
    if root is None or isinstance(dataset.frames, RecordView):
        raise InvalidArgumentError(
            "checksums need files, and this dataset has none of its own (arrays in memory, or a view); "
            "open a dataset on disk"
        )
    store: Store = root.store
    return store


def _list_files(store: Store) -> list[str]:
    keys = [key for key in _METADATA_FILES if sync(store.exists(key))]
    for name in ARRAYS:
        keys += collected(store.list_prefix(f"{name}/"))
    return sorted(keys)


def _digests(store: Store, keys: list[str], workers: Workers, progress: Progress | None = None) -> dict[str, str]:
    job = _DigestsOfFiles(store, tuple(keys))
    parts = map_scenes(job, range(len(keys)), workers, unit="file", progress=progress)
    return dict(zip(keys, (digest for part in parts for digest in part), strict=True))


@dataclass(frozen=True)
class _DigestsOfFiles:
    """The SHA-256 digests of some files of a store, by their indices."""

    store: Store
    keys: tuple[str, ...]

    def __call__(self, indices: Int64Array) -> list[str]:
        contents = (read_file(self.store, self.keys[index]) for index in indices.tolist())
        return [hashlib.sha256(content or b"").hexdigest() for content in contents]
