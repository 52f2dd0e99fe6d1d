"""The semantic map that belongs to a dataset."""

import os

from l5kit.configs.config import load_matrix, load_metadata
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.map.api import MapAPI


def open_map(files: DatasetFiles) -> MapAPI | None:
    """Return the semantic map of a dataset; None without a map or without a meta.json, which places it in the world.

    Raises:
        ConfigError: meta.json has no matrix ``world_to_ecef``.
        CorruptedDataError: The map cannot be read.
    """
    if files.semantic_map is None or files.meta is None:
        return None
    meta = os.fspath(files.meta)
    return MapAPI(os.fspath(files.semantic_map), load_matrix(load_metadata(meta), "world_to_ecef", path=meta))
