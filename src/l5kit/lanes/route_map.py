"""Route map: what routes tell of the lanes of a map, beside where these lead."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.data.map.api import MapAPI
from l5kit.lanes.driving_map import DrivingMap, build_driving_map
from l5kit.lanes.lane_paths import UNKNOWN_LIMIT_MPS

__all__ = ["RouteMap", "build_route_map"]


@dataclass(frozen=True, eq=False)
class RouteMap(ReadOnlyArrays):
    """The L lanes of a map as routes and lane graphs of samples tell of them.

    Attributes:
        driving: Centre lines, order and areas.
        half_widths_m: Half of the distance between the boundaries at each point of the centre lines, float64 (L, P).
        limits_mps: Speed limits, :data:`~l5kit.lanes.lane_paths.UNKNOWN_LIMIT_MPS` where the map does not say, float64
            (L,).
        has_light: Which lanes a traffic light controls, bool (L,).
        side_rows: The lanes that one may change to on the left and on the right, -1 for none, int64 (L, 2).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    driving: DrivingMap
    half_widths_m: Float64Array
    limits_mps: Float64Array
    has_light: BoolArray
    side_rows: Int64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        size = self.driving.num_lanes
        require_shapes(self, half_widths_m=self.driving.arc_lengths_m.shape, limits_mps=(size,))
        require_shapes(self, has_light=(size,), side_rows=(size, 2))


def build_route_map(map_api: MapAPI) -> RouteMap:
    """Return what routes need of a map; build it once and keep it.

    Args:
        map_api: The map. All its messages are read.
    """
    driving, network = build_driving_map(map_api), map_api.network
    size, num_points = driving.arc_lengths_m.shape
    lines = map_api.arrays.resampled(num_points)
    apart_m = np.linalg.norm(lines.xyz_left[..., :2] - lines.xyz_right[..., :2], axis=-1)
    sides = np.stack([network.left_rows[:size], network.right_rows[:size]], axis=-1)
    limits_mps = driving.speed_limits_mps
    return RouteMap(
        driving=driving,
        half_widths_m=0.5 * apart_m,
        limits_mps=np.where(limits_mps > 0, limits_mps, UNKNOWN_LIMIT_MPS),
        has_light=map_api.arrays.has_light.copy(),
        side_rows=np.where(sides < size, sides, -1),
    )
