"""Saving of a dataset to a new place, atomically."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
from zarr.abc.store import Store
from zarr.storage import LocalStore, ZipStore

from l5kit._files import clear_leftovers, placed_when_complete
from l5kit._types import Int64Array, RecordArray, Records
from l5kit.data.jobs.owned_outputs import DATASET, require_own_folder
from l5kit.data.jobs.scene_jobs import Workers, map_scenes, without_job
from l5kit.data.layout import create_array, create_group
from l5kit.data.log_facts import LogFacts
from l5kit.data.progress import Progress
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import TL_FACE_ARRAY_KEY
from l5kit.data.stores.store import is_url
from l5kit.errors import InvalidArgumentError


def save_arrays(
    arrays: Mapping[str, Records],
    path: Path,
    *,
    overwrite: bool,
    facts: LogFacts | None = None,
    progress: Progress | None = None,
    workers: Workers = 1,
) -> None:
    """Write arrays as a dataset to a folder, or to a zip file if the name of ``path`` ends in ``.zip``.

    The dataset is written under a temporary name beside ``path`` and renamed when it is complete.

    Args:
        arrays: Records of each array, by name on disk.
        path: Target folder or zip file.
        overwrite: Replace an existing dataset.
        facts: Facts of the log; None for those of L5Kit 1.5, which are not written.
        progress: Called with the number of rows written and the total.
        workers: Number of reading threads, or an executor; the files do not depend on it. See
            :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Raises:
        CorruptedDataError: Rows cannot be read, or their file is missing (except of faces).
        FileExistsError: ``path`` exists, at the start or at the end, and ``overwrite`` is False.
        InvalidArgumentError: Something other than a dataset exists at ``path``, at the start or at the end.
    """
    as_zip = path.name.endswith(".zip")
    clear_leftovers(path)
    require_free(path, overwrite=overwrite, as_zip=as_zip)
    with placed_when_complete(path, may_replace=overwrite) as complete:
        store: Store = ZipStore(complete, mode="w") if as_zip else LocalStore(complete)
        try:
            group = create_group(store, "w-", facts)
            num_done, num_rows = 0, sum(len(records) for records in arrays.values())
            for key, records in arrays.items():
                # each chunk once and in order, since a zip file cannot replace entries
                array = create_array(group, key, len(records), dtype=np.dtype(records.dtype))
                job = _ChunkOfRows(records, array.chunks[0], strict=key != TL_FACE_ARRAY_KEY)
                chunks = range(-(-len(records) // job.chunk_length))
                with map_scenes(job, chunks, without_job(workers), block_size=1, unit="chunk") as parts:
                    for start, rows in parts:
                        array[start : start + len(rows)] = rows
                        num_done += len(rows)
                        if progress is not None:
                            progress(num_done, num_rows)
        finally:
            store.close()
        require_free(path, overwrite=overwrite, as_zip=as_zip)


@dataclass(frozen=True)
class _ChunkOfRows:
    """Function that returns the first row and the rows of a chunk of an array, by chunk number."""

    records: Records
    chunk_length: int
    strict: bool

    def __call__(self, number: Int64Array) -> tuple[int, RecordArray]:
        start = int(number[0]) * self.chunk_length
        stop = min(start + self.chunk_length, len(self.records))
        return start, rows_of(self.records, slice(start, stop), strict=self.strict)


def require_free(path: Path, *, overwrite: bool, as_zip: bool = False) -> None:
    """Refuse an existing path; with ``overwrite``, only if it is something other than a dataset.

    Raises:
        FileExistsError: The path exists, and ``overwrite`` is False.
        InvalidArgumentError: The path is not a dataset, or contains other files; the message names one.
    """
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise FileExistsError(f"{path} exists; choose another path or pass overwrite=True")
    if not as_zip:
        require_own_folder(path, DATASET, argument="path")
        return

    # a zip file of a dataset contains a log and nothing else; an empty file may be replaced
    try:
        with ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
        is_replaceable = ".zgroup" in names and all(re.fullmatch(DATASET.paths, name) for name in names)
    except (OSError, BadZipFile):
        is_replaceable = path.is_file() and path.stat().st_size == 0
    if not is_replaceable:
        raise InvalidArgumentError(f"{path} is no zip file of a dataset, so it is not replaced; choose another path")


def require_local(argument: str, path: str | os.PathLike[str]) -> None:
    """Refuse a URL, which ``Path`` would turn into a local folder name.

    Raises:
        InvalidArgumentError: ``path`` is a URL.
    """
    if is_url(path):
        raise InvalidArgumentError(
            f"{argument} is the URL {path!r}; only local folders and zip files are written complete or not at all; "
            "write to one and copy it, or initialize() a dataset at the URL and fill it"
        )
