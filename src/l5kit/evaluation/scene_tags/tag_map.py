"""Map of tags: lanes and lights for the tags that need a map."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from l5kit._types import BoolArray, Int64Array, Log, RecordArray
from l5kit.data.index.windows import WindowRows
from l5kit.data.kept import Kept
from l5kit.data.map.api import MapAPI
from l5kit.data.map.lane_lights import LIGHT_COLORS, LaneLights
from l5kit.data.map.opened import SceneMaps
from l5kit.lanes.driving_map import DrivingMap, build_driving_map

_MOST_KEPT = 8
"""Number of cached maps; successive scenes often share a map."""

_RED = LIGHT_COLORS.index("RED") + 1


@dataclass(frozen=True, eq=False)
class TagMap:
    """Lanes of a map and their lights; create it once and reuse it.

    Attributes:
        driving_map: The L lanes.
        lights: The faces with a colour.
        has_light: Lanes controlled by a traffic light or a coloured face, and lanes of junctions that follow such a
            lane, bool (L,).
    """

    driving_map: DrivingMap
    lights: LaneLights
    has_light: BoolArray

    @classmethod
    def of(cls, map_api: MapAPI) -> Self:
        """Return the lanes and lights of a map, reading all its elements."""
        arrays = map_api.arrays
        driving_map = build_driving_map(map_api)
        has_light: BoolArray = arrays.has_light.copy()
        has_light[arrays.lights.lane_rows] = True
        for lane in np.flatnonzero(has_light).tolist():
            ahead = driving_map.ahead_of(lane)
            has_light[ahead[driving_map.is_in_junction[ahead]]] = True
        return cls(driving_map, arrays.lights, has_light)

    def red_lanes(self, intervals: Int64Array, faces: RecordArray) -> list[Int64Array]:
        """Return the lanes with an active red face in each frame.

        Args:
            intervals: Rows of ``faces`` of each frame, (F, 2).
            faces: ``TL_FACE_DTYPE``, (any,).
        """
        none = np.zeros(0, np.int64)
        if len(self.lights.ranks) == 0 or len(faces) == 0:
            return [none] * len(intervals)
        active, starts = self.lights.find_active(WindowRows([faces], intervals[:, :1].copy(), intervals[:, 1:].copy()))
        return [
            np.concatenate(
                [none, *(self.lights.lanes_of(face) for face in faces_on if self.lights.ranks[face] == _RED)]
            )
            for faces_on in np.split(active, starts[1:-1])
        ]


class SceneTagMaps:
    """Lanes and lights of the many maps of a log, by scene; thread-safe.

    Args:
        maps: The maps.
    """

    def __init__(self, maps: SceneMaps) -> None:
        self._maps = maps
        self._kept: Kept[TagMap] = Kept(_MOST_KEPT)

    def of_scene(self, log: Log, scene: int) -> TagMap:
        """Return the lanes and lights of the map of a scene.

        Raises:
            CorruptedDataError: Scene or map cannot be read.
        """
        (row,) = self._maps.rows_of_scenes(log, [scene]).tolist()
        return self._kept.get(row, lambda: TagMap.of(self._maps.map_of([row])))


def as_tag_map(maps: "MapAPI | SceneMaps | TagMap | SceneTagMaps | None") -> TagMap | SceneTagMaps | None:
    """Return the lanes and lights of a map, or of the maps of a log."""
    if isinstance(maps, SceneMaps):
        return TagMap.of(maps.map_of([0])) if maps.is_single else SceneTagMaps(maps)
    return TagMap.of(maps) if isinstance(maps, MapAPI) else maps
