"""Opened maps of the scenes of a dataset: one for all scenes, or one of many for each, read on demand."""

import os
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from l5kit._types import Config, Float64Array, Int64Array, Log, NumericArray
from l5kit.configs.config import load_matrix, load_metadata
from l5kit.configs.parameters import MapKeys
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.kept import Kept
from l5kit.data.local_data_manager import DataManager, require_data_manager
from l5kit.data.map.api import MapAPI, find_map
from l5kit.data.map.map_folder import INDEX_FILE, MapIndex, is_map_index
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.stores.store import path_of
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError

MOST_MAPS_AT_ONCE: Final = 256
"""Most maps that are merged into one for scenes handled together; merged maps take as much memory as one large map."""

_MOST_KEPT: Final = 32
"""Maps kept in memory; a map of Waymo Open Motion takes about 4 MB."""

_MOST_UNIONS_KEPT: Final = 2


class SceneMaps:
    """The maps of a dataset, looked up by position or by scene; thread-safe.

    Maps of a folder lie apart in one world, so the position of the AV identifies the map of a scene. Scenes that are
    handled together get one map with the elements of all their maps, which do not interfere as they are far apart.

    Args:
        index: The maps of a folder; None for a single map.
        world_to_ecef: Transform from world to ECEF coordinates, shape (4, 4).
        single: The map of all scenes, if there is no index.
        most_kept: Number of maps of a folder that stay in memory.

    Raises:
        InvalidArgumentError: Both an index and a single map are given, or neither.
    """

    def __init__(
        self,
        index: MapIndex | None,
        world_to_ecef: NumericArray,
        *,
        single: MapAPI | None = None,
        most_kept: int = _MOST_KEPT,
    ) -> None:
        if (index is None) == (single is None):
            raise InvalidArgumentError("SceneMaps takes either an index of many maps or a single map")
        self._index, self._single = index, single
        self._world_to_ecef = np.array(world_to_ecef, np.float64)
        self._kept: Kept[MapAPI] = Kept(most_kept)
        self._unions: Kept[MapAPI] = Kept(_MOST_UNIONS_KEPT)

    def __repr__(self) -> str:
        """Return the number of maps, and their location."""
        where = self._single if self._index is None else self._index.folder
        return f"<{type(self).__name__}: {len(self)} maps, {where!r}>"

    def __len__(self) -> int:
        """Return the number of maps."""
        return 1 if self._index is None else len(self._index)

    @property
    def is_single(self) -> bool:
        """Whether all scenes have one map."""
        return self._index is None

    @property
    def path(self) -> str:
        """The file of the single map, or of the index of many."""
        if self._index is None:
            assert self._single is not None
            return self._single.protobuf_map_path
        return str(self._index.folder / INDEX_FILE)

    def rows_at(self, points_m: Float64Array) -> Int64Array:
        """Return the row of the map at each point (B, 2) of the world, (B,)."""
        return np.zeros(len(points_m), np.int64) if self._index is None else self._index.rows_at(points_m)

    def rows_of_scenes(self, log: Log, scenes: Sequence[int] | Int64Array) -> Int64Array:
        """Return the row of the map of each scene of a log, by the first position of its AV.

        Args:
            log: The log.
            scenes: Indices of its scenes, (S,).

        Raises:
            IndexOutOfRangeError: There are many maps, and a scene does not exist.
        """
        if self._index is None:
            return np.zeros(len(scenes), np.int64)
        num_scenes = len(log.scenes)
        if (missing := next((scene for scene in scenes if not 0 <= scene < num_scenes), None)) is not None:
            raise IndexOutOfRangeError(f"scene {missing} does not exist: the log has {num_scenes} scenes")
        firsts = [int(log.scenes[int(scene)][FRAME_INTERVAL][0]) for scene in scenes]
        starts_m = [log.frames[first]["ego_translation"][:2] for first in firsts]
        return self.rows_at(np.array(starts_m, np.float64).reshape(-1, 2))

    def name_of(self, row: int) -> str:
        """Return the name of a map; empty if there is a single one."""
        return "" if self._index is None else self._index.names[row]

    def path_of(self, row: int) -> str:
        """Return the file of a map, after checking its content against the index.

        Raises:
            CorruptedDataError: It is missing, or has changed since the index was written.
        """
        if self._index is None:
            assert self._single is not None
            return self._single.protobuf_map_path
        return self._index.path_of(row)

    def map_of(self, rows: Iterable[int]) -> MapAPI:
        """Return one map with the elements of some maps, without duplicates.

        Args:
            rows: Their rows, at least one.

        Raises:
            InvalidArgumentError: There are none, or more than :data:`MOST_MAPS_AT_ONCE`.
            CorruptedDataError: The file of a map is missing, damaged or changed.
        """
        wanted = tuple(sorted(set(map(int, rows))))
        if not 0 < len(wanted) <= MOST_MAPS_AT_ONCE:
            raise InvalidArgumentError(
                f"{len(wanted)} maps are needed at once, allowed are 1 to {MOST_MAPS_AT_ONCE}; take fewer scenes of "
                "different maps together"
            )
        if self._index is None:
            assert self._single is not None
            return self._single
        index = self._index

        def read() -> MapAPI:
            first, *more = [index.path_of(row) for row in wanted]
            return MapAPI(first, self._world_to_ecef, more_paths=more)

        kept = self._kept if len(wanted) == 1 else self._unions
        return kept.get(wanted, read)

    def at(self, points_m: Float64Array) -> MapAPI:
        """Return one map that covers points (B, 2) of the world; see :meth:`map_of`."""
        return self.map_of(self.rows_at(points_m))

    def of_scenes(self, log: Log, scenes: Sequence[int] | Int64Array) -> MapAPI:
        """Return one map that covers some scenes of a log; see :meth:`map_of`."""
        return self.map_of(self.rows_of_scenes(log, scenes))


def open_map(files: DatasetFiles, *, what: str = "this") -> MapAPI | None:
    """Return the semantic map of a dataset; None without a map or without meta.json, which georeferences it.

    Args:
        files: Files of the dataset.
        what: The user of the map, for the error if there are many.

    Raises:
        ConfigError: meta.json has no matrix ``world_to_ecef``.
        CorruptedDataError: The map cannot be read.
        InvalidArgumentError: The dataset has many maps.
    """
    maps = open_maps(files)
    if maps is not None and not maps.is_single:
        raise InvalidArgumentError(
            f"{what} needs one map for all scenes, but {path_of(files.dataset)} has {len(maps)} maps; import fewer "
            "scenes, or with one map (--maps one), or name the file of one of them (--map)"
        )
    return None if maps is None else maps.map_of([0])


def open_maps(files: DatasetFiles) -> SceneMaps | None:
    """Return the maps of the scenes of a dataset; None without a map or without meta.json.

    Raises:
        ConfigError: meta.json has no matrix ``world_to_ecef``.
        CorruptedDataError: The map, or the index of many, cannot be read.
    """
    if files.semantic_map is None or files.meta is None:
        return None
    meta = os.fspath(files.meta)
    return maps_at(os.fspath(files.semantic_map), load_matrix(load_metadata(meta), "world_to_ecef", path=meta))


def maps_of_cfg(data_manager: DataManager, cfg: Config) -> SceneMaps:
    """Return the map, or the maps of the index, that a configuration names.

    Args:
        data_manager: Finds the files of ``raster_params.semantic_map_key`` and ``.dataset_meta_key``.
        cfg: The configuration.

    Raises:
        TypeError: ``data_manager`` is something else, such as the path of a folder.
        ConfigError: A key or the matrix ``world_to_ecef`` is missing.
        FileNotFoundError: A file is missing.
        CorruptedDataError: A file cannot be read.
    """
    require_data_manager(data_manager)
    return maps_at(*find_map(data_manager, MapKeys.from_cfg(cfg)))


def maps_at(path: str, world_to_ecef: Float64Array) -> SceneMaps:
    """Return the maps at a path.

    Args:
        path: A semantic map, or the index of many.
        world_to_ecef: Transform from world to ECEF coordinates, shape (4, 4).

    Raises:
        FileNotFoundError: There is no such file.
        CorruptedDataError: It cannot be read.
    """
    if is_map_index(path):
        return SceneMaps(MapIndex.read(path), world_to_ecef)
    return SceneMaps(None, np.asarray(world_to_ecef), single=MapAPI(path, world_to_ecef))
