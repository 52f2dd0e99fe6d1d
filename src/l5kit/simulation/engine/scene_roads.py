"""The road map of scenes that are simulated together: that of the dataset, or one of the maps that they are on."""

from collections.abc import Sequence
from typing import Final

from l5kit._types import Int64Array, Log
from l5kit.data.kept import Kept
from l5kit.data.map.scene_maps import SceneMaps
from l5kit.simulation.engine.scene_batch import RoadMap

_MOST_KEPT: Final = 4
"""Road maps that are kept: those of the blocks that threads work on."""


class SceneRoads:
    """Gives the road map of scenes; several threads may ask at once.

    Args:
        maps: The maps of the dataset.

    Attributes:
        maps: As above.
    """

    def __init__(self, maps: SceneMaps) -> None:
        self.maps = maps
        self._kept: Kept[RoadMap] = Kept(_MOST_KEPT)

    def of_scenes(self, log: Log, scenes: Sequence[int] | Int64Array) -> RoadMap:
        """Return one road map with the maps of some scenes of a log.

        Args:
            log: The log.
            scenes: Indices of its scenes, at least one.

        Raises:
            InvalidArgumentError: They are on more maps than are taken at once.
            CorruptedDataError: A map cannot be read.
        """
        rows = tuple(sorted(set(self.maps.rows_of_scenes(log, scenes).tolist())))
        return self._kept.get(rows, lambda: RoadMap(self.maps.map_of(rows)))
