"""Vectorizer builder: the vectorizer of a configuration, for one map or many."""

import numpy as np

from l5kit._types import Config, Int64Array, NumericArray
from l5kit.configs.parameters import VectorizerParams
from l5kit.data.index.windows import Targets, Windows
from l5kit.data.kept import Kept
from l5kit.data.local_data_manager import DataManager
from l5kit.data.map.map_folder import refuse_routes
from l5kit.data.map.opened import SceneMaps, maps_of_cfg
from l5kit.vectorization.vector_map import VectorMap
from l5kit.vectorization.vectorizer import Vectorizer

_MOST_KEPT = 64
"""Number of maps whose polylines are cached."""


class ManyMapsVectorizer(Vectorizer):
    """Vectorizer for many maps: lanes and crosswalks come from the map at each target.

    Only the polylines of the most recently used maps are kept, so memory does not grow with the number of maps. It runs
    on the host, and samples have no routes.

    Args:
        cfg: Configuration with ``model_params`` and ``data_generation_params``.
        maps: The maps.

    Raises:
        ConfigError: A key of the configuration is missing or of the wrong type, or samples have routes.

    Attributes:
        maps: The maps.
        mapAPI: The first map.
    """

    def __init__(self, cfg: Config, maps: SceneMaps) -> None:
        if VectorizerParams.from_cfg(cfg).has_route:
            refuse_routes(len(maps))
        self.maps = maps
        self._polylines: Kept[VectorMap] = Kept(_MOST_KEPT)
        super().__init__(cfg, maps.map_of([0]))

    def __repr__(self) -> str:
        """Return the number of agents of samples, and the maps."""
        return f"<{type(self).__name__}: {self.other_agents_num} agents, {self.maps!r}>"

    def _map_columns(
        self,
        windows: Windows,
        targets: Targets,
        lane_rows: Int64Array,  # noqa: ARG002 only samples with routes need rows of lanes
    ) -> dict[str, NumericArray]:
        """Return the columns of the map around each target, from its own map."""
        columns: dict[str, NumericArray] = self._map.polylines(np.zeros, len(targets))._asdict()
        rows = self.maps.rows_at(targets.centroids_m)
        for row in np.unique(rows).tolist():
            here = np.flatnonzero(rows == row)
            around = self._on_map(row).columns(targets.taken(here), windows.tl_faces.taken(here))
            for key, column in around.items():
                columns[key][here] = column
        return columns

    def _on_map(self, row: int) -> VectorMap:
        """Return the polylines of a map."""
        return self._polylines.get(row, lambda: VectorMap.build(self.maps.map_of([row]).arrays, self._lane_params))


def build_vectorizer(cfg: Config, data_manager: DataManager) -> Vectorizer:
    """Return a vectorizer for the map of a configuration, or for the many maps of an index.

    Args:
        cfg: Sections ``raster_params``, ``model_params`` and ``data_generation_params``.
        data_manager: Finds the map and meta.json.

    Raises:
        ConfigError: A required key, or a matrix of meta.json, is missing or of the wrong type.
        FileNotFoundError: A file is missing.
        TypeError: ``data_manager`` is not a data manager, for example the path of a folder.
    """
    maps = maps_of_cfg(data_manager, cfg)
    return Vectorizer(cfg, maps.map_of([0])) if maps.is_single else ManyMapsVectorizer(cfg, maps)
