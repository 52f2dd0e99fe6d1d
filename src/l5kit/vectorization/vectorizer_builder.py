"""Vectorizer builder: the vectorizer that a configuration describes."""

from l5kit._types import Config
from l5kit.data.local_data_manager import DataManager
from l5kit.data.map.opened import maps_of_cfg
from l5kit.vectorization.many_maps_vectorizer import ManyMapsVectorizer
from l5kit.vectorization.vectorizer import Vectorizer


def build_vectorizer(cfg: Config, data_manager: DataManager) -> Vectorizer:
    """Return a vectorizer over the map of a configuration, or over the many maps of an index.

    Args:
        cfg: Sections ``raster_params``, ``model_params`` and ``data_generation_params``.
        data_manager: Finds the map and meta.json.

    Raises:
        ConfigError: A needed key, or a matrix of meta.json, is missing or of the wrong type.
        FileNotFoundError: A file is missing.
        TypeError: ``data_manager`` is something else, such as the path of a folder.
    """
    maps = maps_of_cfg(data_manager, cfg)
    return Vectorizer(cfg, maps.map_of([0])) if maps.is_single else ManyMapsVectorizer(cfg, maps)
