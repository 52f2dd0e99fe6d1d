"""Import formats by name, and readers in files of the user, named as ``FILE.py:NAME``.

The module of a reader is imported on demand.
"""

import os
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Final

from l5kit.configs.own_code import is_own, read_own, with_whole_file
from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command
from l5kit.readers.reader import Reader, SceneRef, SourceInfo
from l5kit.readers.source_scene import SourceScene


class SourceFormat(StrEnum):
    """Formats of other datasets, and of maps without scenes."""

    ARGOVERSE2 = "argoverse2"
    ARGOVERSE2_SENSOR = "argoverse2-sensor"
    LANELET2 = "lanelet2"
    NUSCENES = "nuscenes"
    OPENDRIVE = "opendrive"
    PY123D = "py123d"
    SCENARIONET = "scenarionet"
    TABLE = "table"
    WOMD = "womd"


MAP_FORMATS = (SourceFormat.LANELET2, SourceFormat.OPENDRIVE)
"""Formats of maps without scenes, which :func:`~l5kit.readers.map_files.import_map` reads."""

_FORMAT_OF_OPTION = {"joins_windows": SourceFormat.SCENARIONET, "columns": SourceFormat.TABLE}

_NAMES = {
    SourceFormat.ARGOVERSE2: "scenario_*.parquet",
    SourceFormat.ARGOVERSE2_SENSOR: "city_SE3_egovehicle.feather",
    SourceFormat.NUSCENES: "sample_annotation.json",
    SourceFormat.PY123D: "logs/*/*/sync.arrow",
    SourceFormat.SCENARIONET: "sd_*.pkl",
    SourceFormat.WOMD: "*.tfrecord*",
}
"""File names that identify a format."""

_MEMBERS: Final = ("source", "info", "list_scenes", "read")


class MapLayout(StrEnum):
    """Layout of the imported maps."""

    ONE = "one"
    """One semantic map with all maps side by side, which L5Kit 1.5 can read."""
    APART = "apart"
    """A folder with an index and one file per map, loaded on demand."""


@dataclass(frozen=True)
class ReaderOptions:
    """Options of the formats that have any.

    Attributes:
        joins_windows: ``scenarionet``: whether windows cut out of one log become one scene.
        columns: ``table``: YAML file with the meaning of the columns; None for ``columns.yaml`` in the folder.
    """

    joins_windows: bool = False
    columns: Path | None = None


def open_reader(
    source_format: SourceFormat | str,
    source: str | os.PathLike[str],
    options: ReaderOptions = ReaderOptions(),
) -> Reader:
    """Return the reader of a dataset in another format.

    Args:
        source_format: Its format, or ``FILE.py:NAME`` for a reader in a file of the user, whose code is executed.
        source: Its folder; remote workers look for it under its absolute path.
        options: Options of the format.

    Raises:
        InvalidArgumentError: An option belongs to another format, the format is one of maps without scenes, or the file
            of the user has no reader.
        FileNotFoundError: The file of the user does not exist.
        MissingDependencyError: A required library is not installed.
        ValueError: There is no such format.
    """
    if is_own(source_format):
        _require_known(source_format, options)
        return OwnReader(source_format, source)
    known = SourceFormat(source_format)
    _require_known(known, options)
    if known in MAP_FORMATS:
        raise InvalidArgumentError(
            f"source_format is {known.value!r}, a format of maps without scenes; import_map (l5kit import) makes a "
            "folder of it"
        )
    try:
        return _reader_of(known, Path(source).absolute(), options)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("l5kit"):
            raise
        raise MissingDependencyError(
            f"reading {source_format} needs {error.name}, which is not installed: {install_command('import')}"
        ) from error


def _reader_of(source_format: SourceFormat, source: Path, options: ReaderOptions) -> Reader:
    """Return the reader of a dataset; its module and libraries are imported on demand."""
    match source_format:
        case SourceFormat.ARGOVERSE2:
            from l5kit.readers.argoverse2 import Argoverse2Reader

            return Argoverse2Reader(source)
        case SourceFormat.ARGOVERSE2_SENSOR:
            from l5kit.readers.argoverse2_sensor import Argoverse2SensorReader

            return Argoverse2SensorReader(source)
        case SourceFormat.NUSCENES:
            from l5kit.readers.nuscenes import NuscenesReader

            return NuscenesReader(source)
        case SourceFormat.PY123D:
            from l5kit.readers.py123d import Py123dReader

            return Py123dReader(source)
        case SourceFormat.SCENARIONET:
            from l5kit.readers.scenarionet import ScenarionetReader

            return ScenarionetReader(source, joins=options.joins_windows)
        case SourceFormat.TABLE:
            from l5kit.readers.table import TableReader

            return TableReader(source, options.columns)
    from l5kit.readers.womd import WomdReader

    return WomdReader(source)


def guess_format(source: str | os.PathLike[str]) -> SourceFormat | None:
    """Guess the format of a folder by the names of its files, up to two folders down."""
    for pattern in ("", "*/", "*/*/"):
        for source_format, name in _NAMES.items():
            if next(Path(source).glob(pattern + name), None) is not None:
                return source_format
    return None


def _require_known(source_format: str, options: ReaderOptions) -> None:
    """Refuse options that belong to another format."""
    for option in fields(options):
        wanted, value = _FORMAT_OF_OPTION[option.name], getattr(options, option.name)
        if value != option.default and source_format is not wanted:
            shown = str(value) if isinstance(value, Path) else value
            raise InvalidArgumentError(
                f"{option.name} is {shown!r}, but sources in the format {source_format} have no such option; only "
                f"{wanted} has"
            )


class OwnReader:
    """A reader in a file of the user, which workers load again from the file.

    Args:
        reference: ``FILE.py:NAME`` of a class or function that returns a reader for the folder of a source.
        source: The folder.

    Attributes:
        source: The folder.
        code: Identifies the code of the reader.

    Raises:
        FileNotFoundError: There is no such file.
        InvalidArgumentError: The file cannot be loaded, lacks the name, or the name does not return a reader.
    """

    def __init__(self, reference: str, source: str | os.PathLike[str]) -> None:
        self.source, self._reference = Path(source).absolute(), with_whole_file(reference)
        made, self.code = read_own(
            reference, "FORMAT", called="reader", is_one=lambda _: False, arguments=(self.source,)
        )
        missing = [name for name in _MEMBERS if not hasattr(made, name)]
        if missing:
            raise InvalidArgumentError(
                f"FORMAT is {reference!r}, which makes {type(made).__name__}; a reader has {', '.join(_MEMBERS)}, and "
                f"it lacks {', '.join(missing)}; see docs/own_reader.md"
            )
        self._reader: Reader = made  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type["OwnReader"], tuple[str, Path]]:
        """Return the arguments that rebuild it in another process."""
        return type(self), (self._reference, self.source)

    @property
    def info(self) -> SourceInfo:
        """Facts that hold for all scenes."""
        return self._reader.info

    def list_scenes(self) -> list[SceneRef]:
        """Return the scenes of the source."""
        return self._reader.list_scenes()

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a scene."""
        return self._reader.read(ref)
