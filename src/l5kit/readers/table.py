"""Reader of users' own logs: tables with a row per track and time, or MCAP files, and a column map in YAML."""

import os
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np

from l5kit._types import Int64Array, PickledState
from l5kit.errors import DatasetNotFoundError
from l5kit.readers.geojson_map import read_geojson
from l5kit.readers.reader import SceneRef, SourceInfo, naming_source, require_source_folder
from l5kit.readers.source_map import SourceMap
from l5kit.readers.source_scene import SourceScene
from l5kit.readers.table_columns import NO_AV, read_columns
from l5kit.readers.table_rows import MCAP_SUFFIXES, SUFFIXES, TableRows, read_rows
from l5kit.readers.table_scene import scene_of_rows

COLUMNS_FILE: Final = "columns.yaml"
"""Default name of the column map, in the folder of the tables."""

_SPLITS: Final = ("train", "val", "test")
_MAP_NAME: Final = "map"
_MOST_PIECES: Final = 100_000


class TableReader:
    """Reader of tables with one or several scenes each; a :class:`~l5kit.readers.reader.Reader`.

    Args:
        source: The folder of the tables; subfolders ``train``, ``val`` and ``test`` become splits.
        columns: The column map; None for ``columns.yaml`` in the folder.

    Attributes:
        source: The folder.

    Raises:
        ConfigError: The column map is invalid.
        DatasetNotFoundError: The folder or the column map does not exist.
    """

    def __init__(self, source: str | os.PathLike[str], columns: str | os.PathLike[str] | None = None) -> None:
        self.source = Path(source)
        require_source_folder(self.source, called="tables")
        self._columns_file = (self.source / COLUMNS_FILE if columns is None else Path(columns)).absolute()
        if not self._columns_file.exists():
            raise DatasetNotFoundError(
                f"there is no column map {str(self._columns_file)!r}with the meaning of the columns of the tables; "
                "write one (docs/own_logs.md), and name it with --columns"
            )
        self._columns = read_columns(self._columns_file)
        self._last_read: tuple[str, TableRows] | None = None

    def __getstate__(self) -> PickledState:
        """Return the state without cached rows and map."""
        left_out = ("_last_read", "_map")
        return {name: value for name, value in vars(self).items() if name not in left_out} | {"_last_read": None}

    @cached_property
    def info(self) -> SourceInfo:
        """Facts that hold for all scenes."""
        columns, names = self._columns, self._columns.names
        missing = ["Traffic lights."]
        if columns.map_file is None:
            missing.append("A map: planners, vectors and scores that need lanes do not work.")
        has_no_height = "length" in names and "height" not in names
        made_up = (
            (columns.av == NO_AV, "The AV: the vehicle that is seen the longest in each scene."),
            (
                "heading" not in names,
                "Headings: the direction of motion, held while a track is slower than 0.5 m/s.",
            ),
            ("velocity_x" not in names, "Velocities: differences of positions."),
            ("length" not in names, "Sizes: defaults of the class, or those of sizes: in the column map."),
            (has_no_height, "Heights: defaults of the class, or those of sizes: in the column map."),
            ("class" not in names, "Classes: all are cars."),
            (columns.step_s is not None, f"Rows every {columns.step_s or 0:g} s, between those of the tables."),
            (
                columns.map_file is not None,
                "Boundaries of lanes: half of their width, or of a default width, beside their centre line.",
            ),
        )
        return SourceInfo(
            dataset=columns.dataset,
            version="not told",
            licence=columns.licence,
            step_time_s=columns.step_s or self._step_time_s(),
            label_mapping=columns.label_mapping,
            missing=tuple(missing),
            made_up=tuple(text for is_so, text in made_up if is_so),
        )

    def list_scenes(self) -> list[SceneRef]:
        """Return the locations of the scenes; files with several scenes are read once for this.

        Raises:
            DatasetNotFoundError: There are no tables.
        """
        columns, refs = self._columns, []
        others = tuple(str(each) for each in (self._columns_file, columns.map_file) if each is not None)
        for file in self._files:
            path = PurePosixPath(file)
            split = path.parts[0] if len(path.parts) > 1 and path.parts[0] in _SPLITS else "sample"
            stem = path.with_suffix("").as_posix()
            if "scene" not in columns.names and columns.scene_s is None:
                refs.append(SceneRef(split, stem, file, others=others))
                continue
            try:
                rows = self._rows_of(file)
            except (ValueError, TypeError):  # reported by read
                refs.append(SceneRef(split, stem, file, others=others))
                continue
            # Each value of the scene column is a scene, which may be cut into pieces.
            for scene, scene_name in enumerate(rows.scene_names):
                name, record = (f"{stem}/{scene_name}", f"scene {scene_name!r}") if scene_name else (stem, "")
                try:
                    num_pieces = len(self._pieces_of(rows, scene)) if columns.scene_s is not None else 0
                except ValueError:  # reported when its first piece is read
                    refs.append(SceneRef(split, name, file, record, (scene, 0), others))
                    continue
                if not num_pieces:
                    refs.append(SceneRef(split, name, file, record, (scene, -1), others))
                for piece in range(num_pieces):
                    record_of_piece = ", ".join(filter(None, (record, f"piece {piece}")))
                    refs.append(SceneRef(split, f"{name}/{piece:04d}", file, record_of_piece, (scene, piece), others))
        return sorted(refs)

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a scene with its map.

        Raises:
            SourceDataError: The table or the map cannot be read, or holds impossible values.
        """
        source_map, remarks = self._map
        with naming_source(ref.file, ref.record):
            rows = self._rows_of(ref.file)
            scene, piece = ref.key if ref.key else (0, -1)
            chosen = self._pieces_of(rows, scene)[piece] if piece >= 0 else np.flatnonzero(rows.scenes == scene)
            return scene_of_rows(
                ref.name, rows, chosen, columns=self._columns, source_map=source_map, remarks=list(remarks)
            )

    @cached_property
    def _files(self) -> list[str]:
        """Tables of the folder, sorted."""
        suffixes = SUFFIXES if self._columns.mcap is None else MCAP_SUFFIXES
        files = sorted(
            path.relative_to(self.source).as_posix()
            for path in self.source.rglob("*")
            if path.suffix in suffixes and path.is_file()
        )
        if not files:
            raise DatasetNotFoundError(
                f"there are no tables in {str(self.source)!r}: no file in it or in folders within ends in "
                f"{' or '.join(suffixes)}"
            )
        return files

    @cached_property
    def _map(self) -> tuple[SourceMap, list[str]]:
        """The map, and remarks from reading it."""
        columns = self._columns
        if columns.map_file is None:
            return SourceMap(_MAP_NAME), []
        return read_geojson(columns.map_file, name=_MAP_NAME, origin=columns.map_origin)

    def _rows_of(self, file: str) -> TableRows:
        """Return the rows of a file; those of the last file are cached, as it may have many scenes."""
        last = self._last_read
        if last is None or last[0] != file:
            last = file, read_rows(self.source / file, self._columns)
            self._last_read = last
        return last[1]

    def _pieces_of(self, rows: TableRows, scene: int) -> list[Int64Array]:
        """Return the rows of each non-empty piece of ``scene_seconds`` of a scene."""
        chosen = np.flatnonzero(rows.scenes == scene)
        length_ns = round((self._columns.scene_s or 0.0) * 1e9)
        times_ns = rows.times_ns[chosen]
        pieces = (times_ns - times_ns.min()) // length_ns
        if pieces.max() >= _MOST_PIECES:
            raise ValueError(f"it has {pieces.max() + 1} pieces of scene_seconds, more than {_MOST_PIECES}")
        return [chosen[pieces == piece] for piece in np.unique(pieces)]

    def _step_time_s(self) -> float:
        """Return the median step of the first readable table's first scene, rounded to milliseconds."""
        for file in self._files[:10]:
            try:
                rows = self._rows_of(file)
            except (ValueError, TypeError):  # reported by read
                continue
            times_ns = np.unique(rows.times_ns[rows.scenes == 0])
            if len(times_ns) < 2:
                break
            return max(round(float(np.median(np.diff(times_ns))) / 1e9, 3), 1e-3)
        return 0.1
