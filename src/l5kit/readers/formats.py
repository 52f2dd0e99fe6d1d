"""The formats that l5kit imports, by name; the reader of a format is imported only when it is asked for."""

import os
from enum import StrEnum
from pathlib import Path

from l5kit.errors import MissingDependencyError, install_command
from l5kit.readers.reader import Reader

__all__ = ["SourceFormat", "guess_format", "open_reader"]


class SourceFormat(StrEnum):
    """Formats of other datasets."""

    ARGOVERSE2 = "argoverse2"
    NUSCENES = "nuscenes"
    WOMD = "womd"


def open_reader(source_format: SourceFormat | str, source: str | os.PathLike[str]) -> Reader:
    """Return the reader of a dataset in another format.

    Args:
        source_format: Its format.
        source: Its folder; workers elsewhere look for it under its whole path.

    Raises:
        MissingDependencyError: A library is needed that is not installed.
        ValueError: There is no such format.
    """
    try:
        return _READERS[SourceFormat(source_format)](Path(source).absolute())
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("l5kit"):
            raise
        raise MissingDependencyError(
            f"reading {source_format} needs {error.name}, which is not installed: {install_command('import')}"
        ) from error


def guess_format(source: str | os.PathLike[str]) -> SourceFormat | None:
    """Return the format that a folder seems to be in, by the names of files in it and a few folders down."""
    for pattern in ("", "*/", "*/*/"):
        for source_format, name in _NAMES.items():
            if next(Path(source).glob(pattern + name), None) is not None:
                return source_format
    return None


def _open_argoverse2(source: Path) -> Reader:
    from l5kit.readers.argoverse2 import Argoverse2Reader

    return Argoverse2Reader(source)


def _open_nuscenes(source: Path) -> Reader:
    from l5kit.readers.nuscenes import NuscenesReader

    return NuscenesReader(source)


def _open_womd(source: Path) -> Reader:
    from l5kit.readers.womd import WomdReader

    return WomdReader(source)


_READERS = {
    SourceFormat.ARGOVERSE2: _open_argoverse2,
    SourceFormat.NUSCENES: _open_nuscenes,
    SourceFormat.WOMD: _open_womd,
}

_NAMES = {
    SourceFormat.ARGOVERSE2: "scenario_*.parquet",
    SourceFormat.NUSCENES: "sample_annotation.json",
    SourceFormat.WOMD: "*.tfrecord*",
}
"""Names of files that no other format has."""
