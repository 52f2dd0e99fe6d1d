"""Polygons of lanes, in the colours of their lights, and of crosswalks around a point."""

from l5kit._types import NumericArray, RecordArray
from l5kit.data.map.lane_lights import LIGHT_COLORS
from l5kit.data.map.map_arrays import MapArrays
from l5kit.rasterization.semantic_rasterizer import indices_in_bounds
from l5kit.visualization.controlled_lanes import ControlledLanes
from l5kit.visualization.visualizer.common import (
    HALF_SIDE_M,
    CWVisualization,
    LaneVisualization,
    MapLaneVisualization,
)

LIGHT_TONES = {"GREEN": "#33CC33", "RED": "#FF3300", "YELLOW": "#FFFF66"}
"""Tones of lanes by the colour of their light."""

_LANE_COLOR = "gray"
_CROSSWALK_COLOR = "yellow"


class MapLayers:
    """Map elements of a page; a lane in several frames is built once per colour and shared.

    Args:
        arrays: The map.
    """

    def __init__(self, arrays: MapArrays) -> None:
        self._arrays = arrays
        self._controlled = ControlledLanes(arrays)
        self._lanes: dict[tuple[int, str], LaneVisualization] = {}

    def lanes_around(self, center_m: NumericArray, tl_faces: RecordArray) -> list[LaneVisualization]:
        """Return lanes with bounds touching the square around a point: left boundary, then reversed right boundary.

        Args:
            center_m: World x and y, shape (2,).
            tl_faces: Faces of the frame, records of ``TL_FACE_DTYPE``. Lanes are gray, or have the colour of the active
                face that controls them; red has priority over yellow, and yellow over green.
        """
        ranks = self._controlled.ranks_by_lane(tl_faces)
        tones = {lane: LIGHT_TONES[LIGHT_COLORS[rank]] for lane, rank in ranks.items()}
        lanes = []
        for row in indices_in_bounds(center_m, self._arrays.lane_bounds_m, HALF_SIDE_M).tolist():
            key = (row, tones.get(row, _LANE_COLOR))
            if key not in self._lanes:
                left_m, right_m = self._arrays.left_line(row), self._arrays.right_line(row)
                self._lanes[key] = MapLaneVisualization.of_boundaries(left_m, right_m, key[1])
            lanes.append(self._lanes[key])
        return lanes

    def crosswalks_around(self, center_m: NumericArray) -> list[CWVisualization]:
        """Return the crosswalks around a point (2,), selected as by :meth:`lanes_around`."""
        rows = indices_in_bounds(center_m, self._arrays.crosswalk_bounds_m, HALF_SIDE_M).tolist()
        polygons = map(self._arrays.crosswalk_lines.line, rows)
        return [CWVisualization(polygon[:, 0], polygon[:, 1], _CROSSWALK_COLOR) for polygon in polygons]
