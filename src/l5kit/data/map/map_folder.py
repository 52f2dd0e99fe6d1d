"""Folder with many maps of one dataset: an index with bounds and digests, and a file for each map.

All maps lie in one world without overlapping, so a position identifies its map. Records, which do not name a map, stay
unchanged, and logs that are cut, joined or resimulated keep their maps.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.configs.texts import read_text
from l5kit.data.array_shapes import ReadOnlyArrays
from l5kit.data.map.bounds_grid import BoundsGrid
from l5kit.errors import ConfigError, CorruptedDataError

MAPS_FOLDER: Final = "maps"
"""Folder of the maps in a dataset folder."""

INDEX_FILE: Final = "index.json"
"""Name of the index in it."""

_FORMAT: Final = "l5kit maps"
_VERSION: Final = 1
_FILES_PER_FOLDER: Final = 1000


class _MapEntry(msgspec.Struct, frozen=True):
    name: str
    file: str
    bounds_m: tuple[tuple[float, float], tuple[float, float]]
    sha256: str


class _IndexContent(msgspec.Struct, frozen=True):
    format: str
    version: int
    maps: list[_MapEntry]


def is_map_index(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is an index of maps, by its name."""
    return os.path.basename(path) == INDEX_FILE


def refuse_routes(num_maps: int) -> NoReturn:
    """Refuse samples with routes if there are many maps, as a route consists of lanes of one map.

    Args:
        num_maps: Number of maps.

    Raises:
        ConfigError: Always.
    """
    raise ConfigError(
        f"model_params.route: samples with routes need one map for all scenes, but there are {num_maps}; remove this "
        "key, or import with one map (--maps one)"
    )


@dataclass(frozen=True, eq=False)
class MapIndex(ReadOnlyArrays):
    """The N maps of a folder.

    Attributes:
        folder: Folder of the index.
        names: Name of each map.
        files: The file of each, relative to the folder.
        digests: SHA-256 of each file.
        bounds_m: [[x_min, y_min], [x_max, y_max]] of each map and of the agents on it, in the world; bounds do not
            overlap, float64 (N, 2, 2), read-only.
    """

    folder: Path
    names: tuple[str, ...]
    files: tuple[str, ...]
    digests: tuple[str, ...]
    bounds_m: Float64Array

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "MapIndex":
        """Return the index in a file.

        Raises:
            FileNotFoundError: There is no such file.
            CorruptedDataError: It is not an index of maps, has another version, has no map, names a file outside of its
                folder, or two maps overlap.
        """
        text = read_text(Path(path), called="index of maps")
        try:
            content = msgspec.json.decode(text, type=_IndexContent)
        except msgspec.DecodeError as error:
            raise CorruptedDataError(f"{os.fspath(path)} is not an index of maps: {error}; copy it again") from error
        if (content.format, content.version) != (_FORMAT, _VERSION):
            raise CorruptedDataError(
                f"{os.fspath(path)} is {content.format!r} of version {content.version}, must be {_FORMAT!r} of version "
                f"{_VERSION}; a newer l5kit may read it"
            )
        folder, entries = Path(os.path.abspath(path)).parent, content.maps
        for entry in entries:
            if os.path.isabs(entry.file) or ".." in Path(entry.file).parts:
                raise CorruptedDataError(f"{os.fspath(path)}: map {entry.name!r} is outside its folder: {entry.file!r}")
        bounds_m = np.array([entry.bounds_m for entry in entries], np.float64).reshape(-1, 2, 2)
        index = cls(
            folder,
            tuple(entry.name for entry in entries),
            tuple(entry.file for entry in entries),
            tuple(entry.sha256 for entry in entries),
            bounds_m,
        )
        _require_apart(index, os.fspath(path))
        return index

    def __len__(self) -> int:
        """Return N."""
        return len(self.names)

    def rows_at(self, points_m: Float64Array) -> Int64Array:
        """Return the map at each point, or the nearest one; points that are not finite get the first map.

        Args:
            points_m: World x and y, (B, 2).

        Returns:
            Rows of the index, int64 (B,).
        """
        rows = np.zeros(len(points_m), np.int64)
        near, starts = self._grid.find_near(np.ascontiguousarray(points_m, np.float64))
        counts = np.diff(starts)
        # bounds of maps do not overlap, so there is at most one map around a point
        rows[counts > 0] = near[starts[:-1][counts > 0]]
        for lost in np.flatnonzero((counts == 0) & np.isfinite(points_m).all(axis=1)).tolist():
            low_m, high_m = self.bounds_m[:, 0] - points_m[lost], points_m[lost] - self.bounds_m[:, 1]
            outside_m = np.maximum(np.maximum(low_m, high_m), 0.0)
            rows[lost] = int(np.argmin(np.hypot(outside_m[:, 0], outside_m[:, 1])))
        return rows

    def path_of(self, row: int) -> str:
        """Return the file of a map, after checking its content against the index.

        Raises:
            CorruptedDataError: It is missing, or has changed since the index was written.
        """
        path = self.folder / self.files[row]
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except FileNotFoundError as error:
            raise CorruptedDataError(
                f"map {self.names[row]!r} is missing: there is no file {path}; copy the whole folder {self.folder}"
            ) from error
        if digest != self.digests[row]:
            raise CorruptedDataError(
                f"map {self.names[row]!r} has changed since its index was written: {path} has another digest; copy the "
                "folder again"
            )
        return str(path)

    @cached_property
    def _grid(self) -> BoundsGrid:
        return BoundsGrid.build(self.bounds_m, 0.0)


class MapIndexWriter:
    """Writes maps and their index into a folder, one by one.

    Args:
        folder: The folder, which exists and is empty.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: list[dict[str, object]] = []

    def __len__(self) -> int:
        """Return the number of maps added so far."""
        return len(self._entries)

    def add(self, name: str, bounds_m: Float64Array, save: Callable[[Path], None]) -> None:
        """Add a map.

        Args:
            name: Its name.
            bounds_m: [[x_min, y_min], [x_max, y_max]] of the map and of the agents on it, in the world.
            save: Writes its file.
        """
        number = len(self._entries)
        file = f"{number // _FILES_PER_FOLDER:03d}/{number:06d}.pb"
        path = self._folder / file
        path.parent.mkdir(exist_ok=True)
        save(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        self._entries.append({"name": name, "file": file, "bounds_m": bounds_m.tolist(), "sha256": digest})

    def finish(self) -> None:
        """Write the index, one map per line."""
        head = f'{{"format": {json.dumps(_FORMAT)}, "version": {_VERSION}, "maps": [\n'
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in self._entries)
        (self._folder / INDEX_FILE).write_text(f"{head}{lines}\n]}}\n", "utf-8")


def _require_apart(index: MapIndex, path: str) -> None:
    """Refuse an index without maps or with overlapping maps, as positions would be ambiguous.

    Raises:
        CorruptedDataError: There are no maps, or two overlap.
    """
    bounds_m = index.bounds_m
    if len(bounds_m) == 0 or not np.isfinite(bounds_m).all() or (bounds_m[:, 0] > bounds_m[:, 1]).any():
        raise CorruptedDataError(f"{path} must list maps with finite bounds, lowest values first; copy it again")
    # sweep along x: compare each map with those that begin before it ends
    order = np.argsort(bounds_m[:, 0, 0], kind="stable")
    ordered = bounds_m[order]
    stops = np.searchsorted(ordered[:, 0, 0], ordered[:, 1, 0], side="right")
    for first, stop in enumerate(stops.tolist()):
        beside = ordered[first + 1 : stop]
        # these overlap in x; check y
        meets = (beside[:, 0, 1] <= ordered[first, 1, 1]) & (beside[:, 1, 1] >= ordered[first, 0, 1])
        if meets.any():
            other = order[first + 1 + int(np.argmax(meets))]
            raise CorruptedDataError(
                f"{path}: the bounds of maps {index.names[order[first]]!r} and {index.names[other]!r} meet, so that "
                "a position may be on both; shift one of them away together with its scenes"
            )
