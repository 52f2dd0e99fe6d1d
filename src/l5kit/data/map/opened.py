"""The semantic map, or the many maps, that belong to a dataset."""

import os

import numpy as np

from l5kit._types import Config, Float64Array
from l5kit.configs.config import load_matrix, load_metadata
from l5kit.configs.parameters import MapKeys
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.local_data_manager import DataManager, require_data_manager
from l5kit.data.map.api import MapAPI, find_map
from l5kit.data.map.map_folder import MapIndex, is_map_index
from l5kit.data.map.scene_maps import SceneMaps
from l5kit.data.stores.store import path_of
from l5kit.errors import InvalidArgumentError


def open_map(files: DatasetFiles, *, what: str = "this") -> MapAPI | None:
    """Return the semantic map of a dataset; None without a map or without a meta.json, which places it in the world.

    Args:
        files: Where the dataset lies.
        what: What needs the map, for the error where there are many.

    Raises:
        ConfigError: meta.json has no matrix ``world_to_ecef``.
        CorruptedDataError: The map cannot be read.
        InvalidArgumentError: The dataset has many maps.
    """
    maps = open_maps(files)
    if maps is not None and not maps.is_single:
        raise InvalidArgumentError(
            f"{what} takes one map for all scenes, and {path_of(files.dataset)} has {len(maps)} maps; import fewer "
            "scenes, or with one map (--maps one), or name the file of one of them (--map)"
        )
    return None if maps is None else maps.map_of([0])


def open_maps(files: DatasetFiles) -> SceneMaps | None:
    """Return the maps of the scenes of a dataset; None without any or without a meta.json.

    Raises:
        ConfigError: meta.json has no matrix ``world_to_ecef``.
        CorruptedDataError: The map, or the index of many, cannot be read.
    """
    if files.semantic_map is None or files.meta is None:
        return None
    meta = os.fspath(files.meta)
    return maps_at(os.fspath(files.semantic_map), load_matrix(load_metadata(meta), "world_to_ecef", path=meta))


def maps_of_cfg(data_manager: DataManager, cfg: Config) -> SceneMaps:
    """Return the map that a configuration names, or the many maps of the index that it names.

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
