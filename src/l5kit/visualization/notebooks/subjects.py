"""Subjects of pictures: the log of a dataset or path, and the files of its map."""

import os
import re
from pathlib import Path
from typing import Final

from l5kit.data.dataset_files import DatasetFiles, find_dataset_files
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_MAP: Final = (
    ("semantic_map/semantic_map.pb", "semantic_map.pb", "maps/index.json"),
    ("meta.json",),
    ("aerial_map/aerial_map.png",),
)


def log_of(subject: object) -> ChunkedDataset:
    """Return the opened log of a dataset of any kind, or of a path.

    Raises:
        InvalidArgumentError: The subject is none of these, or was not opened.
        DatasetNotFoundError: There is no dataset at the path.
    """
    if isinstance(subject, (str, os.PathLike)):
        return ChunkedDataset(find_dataset_files(subject).dataset).open()
    log = subject if isinstance(subject, ChunkedDataset) else getattr(subject, "dataset", None)
    if not isinstance(log, ChunkedDataset):
        raise InvalidArgumentError(
            f"dataset is a {type(subject).__name__}; pass a ChunkedDataset, a dataset of samples, or the path of one"
        )
    if len(log.scenes) == 0 and log.path and not hasattr(log, "root"):
        raise InvalidArgumentError(f"dataset {log.path!r} was not opened; call open() first")
    return log


def files_of(log: ChunkedDataset, data_folder: str | os.PathLike[str] | None) -> DatasetFiles:
    """Return the paths of the map, the aerial picture and meta.json of a log.

    Args:
        log: The log; nothing is found for a log in memory or on a server.
        data_folder: The folder that holds them in the published layout; None to search in and near the log.

    Raises:
        FileNotFoundError: ``data_folder`` does not exist.
        InvalidArgumentError: There are several candidates for one of the files.
    """
    if data_folder is not None:
        folder = Path(data_folder)
        if not folder.is_dir():
            raise FileNotFoundError(
                f"data_folder {str(folder)!r} does not exist; give the folder of the map and meta.json"
            )
        files = (next((folder / name for name in names if (folder / name).is_file()), None) for names in _MAP)
        semantic_map, meta, aerial = files
        return DatasetFiles(Path(log.path or "log in memory"), semantic_map, meta, aerial, ())
    if log.path and not _URL.match(log.path) and Path(log.path).exists():
        return find_dataset_files(log.path)
    note = "the log is in memory or on a server, so no map was found next to it; set data_folder to use one"
    return DatasetFiles(Path(log.path or "log in memory"), None, None, None, (note,))
