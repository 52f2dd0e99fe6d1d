"""Drivable areas of a map besides its lanes, crosswalks and junctions, if the source of the map has any."""

from collections.abc import Iterator, Sequence

import numpy as np
from pymap3d.ecef import geodetic2ecef

from l5kit._types import Float64Array
from l5kit.data.map.api import MapAPI
from l5kit.data.proto.road_network_pb2 import GeoLocation
from l5kit.geometry.trapezoids import cut_into_trapezoids

_FEWEST_CORNERS = 3
_MOST_CORNERS = 32
"""Polygons with more corners, such as that of a whole town, are cut: point queries visit every corner of a polygon."""


def read_drivable_polygons(map_api: MapAPI) -> Iterator[list[Float64Array]]:
    """Yield the polygons of all shapes of kind ``drivable_surface_prior``, in file order.

    Args:
        map_api: The map.

    Yields:
        The outline of a polygon, then its holes: world x and y of the corners of each, float64 (n, 2), n at least 3.
        Rings with fewer corners, and polygons with such an outline, are skipped.
    """
    for element in map_api.get_elements_of_kind("drivable_surface_prior"):
        for polygon in element.element.annotated_shape.multipolygon.polygons:
            outline, *holes = [
                _as_world(ring.shell_vertices, map_api.ecef_to_world) for ring in (polygon, *polygon.holes)
            ]
            if len(outline) >= _FEWEST_CORNERS:
                yield [outline, *(hole for hole in holes if len(hole) >= _FEWEST_CORNERS)]


def drivable_areas_of(map_api: MapAPI) -> list[Float64Array]:
    """Return the drivable areas of a map as polygons without holes and with few corners, world x and y, (n, 2) each.

    Polygons with holes or many corners are cut into trapezoids.

    Args:
        map_api: The map.
    """
    areas: list[Float64Array] = []
    for rings in read_drivable_polygons(map_api):
        is_small = len(rings) == 1 and len(rings[0]) <= _MOST_CORNERS
        areas += rings if is_small else cut_into_trapezoids(rings)
    return areas


def _as_world(vertices: Sequence[GeoLocation], ecef_to_world: Float64Array) -> Float64Array:
    """Return world x and y of geodetic vertices, (n, 2); vertices without an altitude are at height 0."""
    geodetic = np.array([(v.lat_e7 / 1e7, v.lng_e7 / 1e7, v.altitude_cm / 100.0) for v in vertices]).reshape(-1, 3)
    if len(geodetic) == 0:
        return np.zeros((0, 2))
    ecef_m = np.stack([np.atleast_1d(axis) for axis in geodetic2ecef(*geodetic.T)], axis=-1)
    world_m: Float64Array = (ecef_m @ ecef_to_world[:3, :3].T + ecef_to_world[:3, 3])[:, :2]
    return world_m
