"""Formats that l5kit imports, by name, and readers of files of the user, named as ``FILE.py:NAME``.

The reader of a format is imported only when it is asked for.
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
"""Names of files that no other format has."""

_MEMBERS: Final = ("source", "info", "list_scenes", "read")


class MapLayout(StrEnum):
    """How the maps of a source are written."""

    ONE = "one"
    """One semantic map with all of them, side by side: what 1.5 reads, too."""
    APART = "apart"
    """A folder with an index and a file for each, which is read when it is needed."""


@dataclass(frozen=True)
class ReaderOptions:
    """How a source is to be read, as far as its format leaves that open.

    Attributes:
        joins_windows: ``scenarionet``: whether windows that were cut out of one log become one scene.
        columns: ``table``: YAML file that tells what columns mean; None for ``columns.yaml`` in the folder.
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
        source_format: Its format, or ``FILE.py:NAME`` for a reader of a file of the user, whose code runs.
        source: Its folder; workers elsewhere look for it under its whole path.
        options: How it is to be read.

    Raises:
        InvalidArgumentError: An option is given that this format does not have, it is a format of maps without scenes,
            or the file of the user has no reader.
        FileNotFoundError: There is no such file of the user.
        MissingDependencyError: A library is needed that is not installed.
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
    """Return the reader of a dataset; each is imported only when it is needed, as are libraries of its own."""
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
    """Return the format that a folder seems to be in, by the names of files in it and a few folders down."""
    for pattern in ("", "*/", "*/*/"):
        for source_format, name in _NAMES.items():
            if next(Path(source).glob(pattern + name), None) is not None:
                return source_format
    return None


def _require_known(source_format: str, options: ReaderOptions) -> None:
    """Refuse options that are given and of another format."""
    for option in fields(options):
        wanted, value = _FORMAT_OF_OPTION[option.name], getattr(options, option.name)
        if value != option.default and source_format is not wanted:
            shown = str(value) if isinstance(value, Path) else value
            raise InvalidArgumentError(
                f"{option.name} is {shown!r}, but sources in the format {source_format} have no such option; only "
                f"{wanted} has"
            )


class OwnReader:
    """A reader of a file of the user, which workers load again from the file.

    Args:
        reference: ``FILE.py:NAME`` of a class or function that makes a reader of the folder of a source.
        source: The folder.

    Attributes:
        source: The folder.
        code: What tells the code of the reader from that of others.

    Raises:
        FileNotFoundError: There is no such file.
        InvalidArgumentError: It cannot be loaded, has no such name, or that makes no reader.
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
        """Return what another process makes it of."""
        return type(self), (self._reference, self.source)

    @property
    def info(self) -> SourceInfo:
        """What holds for all scenes."""
        return self._reader.info

    def list_scenes(self) -> list[SceneRef]:
        """Return the scenes of the source."""
        return self._reader.list_scenes()

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a scene."""
        return self._reader.read(ref)
