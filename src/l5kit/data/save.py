"""Write the arrays of a dataset to a new place, complete or not at all."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from zarr.abc.store import Store
from zarr.storage import LocalStore, ZipStore

from l5kit._files import clear_leftovers, placed_when_complete
from l5kit.data.layout import create_array, create_group
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import TL_FACE_ARRAY_KEY
from l5kit.errors import InvalidArgumentError

Progress = Callable[[int, int], None]
"""Called with the number of steps that are done and their total."""


def save_arrays(arrays: Mapping[str, Any], path: Path, *, overwrite: bool, progress: Progress | None = None) -> None:
    """Write arrays as a dataset to a folder, or to a zip file if the name of ``path`` ends in ``.zip``.

    The dataset is written under a temporary name beside ``path`` and renamed when it is complete.

    Args:
        arrays: For each name on disk, the records.
        path: Where to write to.
        overwrite: Replace what is there.
        progress: Called with the number of rows written and their total.

    Raises:
        CorruptedDataError: Rows to be written cannot be read, or (faces excepted) their file is missing.
        FileExistsError: There is something, and ``overwrite`` is False.
        InvalidArgumentError: What is there is no dataset.
    """
    as_zip = path.name.endswith(".zip")
    clear_leftovers(path)
    _require_free(path, as_zip=as_zip, overwrite=overwrite)
    with placed_when_complete(path) as complete:
        store: Store = ZipStore(complete, mode="w") if as_zip else LocalStore(complete)
        try:
            _write(store, arrays, progress)
        finally:
            store.close()


def _write(store: Store, arrays: Mapping[str, Any], progress: Progress | None) -> None:
    """Write every chunk of every array once."""
    group = create_group(store, "w-")
    num_done, num_rows = 0, sum(len(records) for records in arrays.values())
    for key, records in arrays.items():
        array = create_array(group, key, len(records), dtype=np.dtype(records.dtype))
        step = array.chunks[0]
        for start in range(0, len(records), step):
            stop = min(start + step, len(records))
            array[start:stop] = rows_of(records, slice(start, stop), strict=key != TL_FACE_ARRAY_KEY)
            num_done += stop - start
            if progress is not None:
                progress(num_done, num_rows)


def _require_free(path: Path, *, as_zip: bool, overwrite: bool) -> None:
    if not path.exists():
        return
    if not overwrite:
        raise FileExistsError(f"{path} exists; choose another path or pass overwrite=True")
    replaceable = path.is_file() if as_zip else (path / ".zgroup").is_file() or not any(path.iterdir())
    if not replaceable:
        raise InvalidArgumentError(f"{path} is no dataset, so it is not replaced; choose another path")
