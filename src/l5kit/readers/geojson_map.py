"""Maps in GeoJSON: lanes are lines, crosswalks and other areas polygons, stop signs points."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from pymap3d import geodetic2enu
from scipy.spatial import cKDTree

from l5kit._types import Float64Array
from l5kit.configs.texts import parse_json, require_regular_file
from l5kit.readers.map_writing import directions_left, without_repeats
from l5kit.readers.reader import naming_source
from l5kit.readers.source_fields import SourceFields, as_floats
from l5kit.readers.source_map import (
    AREA_KINDS,
    MPS_OF_KMH,
    SourceArea,
    SourceLane,
    SourceMap,
    SourceSign,
    is_line,
    open_outline,
    with_heights,
)

_MOST_BYTES: Final = 1 << 30
_MEETS_M: Final = 0.5
"""Maximum distance from the end of a lane to the start of its successor, if no lane names successors."""

_LANE, _SIGN = "lane", "stop_sign"
_KINDS: Final = {"LineString": (_LANE,), "Polygon": AREA_KINDS, "Point": (_SIGN,)}


def read_geojson(file: Path, *, name: str, origin: tuple[float, float] | None) -> tuple[SourceMap, list[str]]:
    """Read a map, and return it with remarks from reading, one sentence each.

    A feature has the property ``kind``: ``lane`` (the default for lines, in driving direction), one of
    :data:`~l5kit.readers.source_map.AREA_KINDS` for polygons, ``stop_sign`` for points. Lanes may have ``width`` (m),
    ``speed_limit_kmh``, ``successors``, ``left`` and ``right`` (ids of lanes), ``junction`` and ``lane_kind``; signs
    have ``lanes``.

    Args:
        file: The file, a FeatureCollection.
        name: Name for the map.
        origin: Latitude and longitude of x = y = 0 in degrees, if coordinates are longitude and latitude; None if they
            are x and y in metres.

    Raises:
        SourceDataError: It cannot be read, or a feature is invalid; the message names it.
    """
    with naming_source(file.name):
        try:
            require_regular_file(file, called="map file")
            if file.stat().st_size > _MOST_BYTES:
                raise ValueError(f"it has {file.stat().st_size} bytes, but a map has {_MOST_BYTES} at most")
            content = SourceFields.of(parse_json(file.read_text("utf-8-sig"), called="the map"))
        except FileNotFoundError as error:
            raise ValueError("there is no such file, the map that the columns file names") from error
        except IsADirectoryError as error:
            raise ValueError("this is a folder, and must be a file") from error
        features = content.at("features")
        if not isinstance(features, list):
            raise TypeError(f"features must be a list, as in a FeatureCollection, got {type(features).__name__}")
    lanes: dict[str, SourceLane] = {}
    areas: list[SourceArea] = []
    signs: list[SourceSign] = []
    for number, each in enumerate(features):
        with naming_source(file.name, f"feature {number}"):
            feature = SourceFields.of(each, "the feature")
            given = feature.values.get("properties")
            properties = SourceFields.of({} if given is None else given, "properties")
            feature_id = str(properties.values.get("id", feature.values.get("id", number)))
            geometry = feature.fields("geometry")
            shape = geometry.text("type")
            if shape not in _KINDS:
                raise ValueError(f"geometry.type must be one of {', '.join(_KINDS)}, got {shape!r:.80}")
            kind = properties.text("kind", _LANE if shape == "LineString" else _SIGN if shape == "Point" else "")
            if kind not in _KINDS[shape]:
                raise ValueError(f"kind of a {shape} must be one of {', '.join(_KINDS[shape])}, got {kind!r:.80}")
            points_m = _points_of(geometry.at("coordinates"), shape, origin)
            if kind == _LANE:
                if feature_id in lanes:
                    raise ValueError(f"there are two lanes with the id {feature_id!r}")
                lanes[feature_id] = _lane_of(feature_id, points_m, properties)
            elif kind == _SIGN:
                signs.append(SourceSign(feature_id, points_m[0], properties.names("lanes")))
            else:
                outline_m = open_outline(points_m)
                areas.append(SourceArea(feature_id, kind, points_m if outline_m is None else outline_m))
    remarks = []
    if len(lanes) > 1 and not any(lane.successors or lane.predecessors for lane in lanes.values()):
        lanes = _with_successors(lanes)
        remarks.append(f"Lanes of the map follow each other where one begins within {_MEETS_M:g} m of another's end.")
    with naming_source(file.name):
        return SourceMap(name, tuple(lanes.values()), tuple(areas), tuple(signs)), remarks


def _points_of(coordinates: object, shape: str, origin: tuple[float, float] | None) -> Float64Array:
    """Return the points of a geometry in metres, (n, 3)."""
    if shape == "Polygon":
        if not isinstance(coordinates, list) or not coordinates:
            raise TypeError("coordinates of a Polygon must be a list of rings")
        coordinates = coordinates[0]  # the outer ring
    points = as_floats([coordinates] if shape == "Point" else coordinates, "coordinates")
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ValueError(f"coordinates must be points of 2 or 3 numbers, got the shape {points.shape}")
    points = with_heights(points)
    if origin is None:
        return points
    if (np.abs(points[:, 1]) > 90).any() or (np.abs(points[:, 0]) > 360).any():
        raise ValueError("coordinates must be longitude and latitude in degrees, as map_origin is given; they are not")
    # The plane is tangent at the origin, x east and y north; heights are kept.
    east_m, north_m, _ = geodetic2enu(points[:, 1], points[:, 0], np.zeros(len(points)), *origin, 0.0)
    return np.column_stack([east_m, north_m, points[:, 2]])


def _lane_of(lane_id: str, points_m: Float64Array, properties: SourceFields) -> SourceLane:
    """Return the lane of a line, with boundaries at half its width if it has one."""
    if not is_line(points_m):
        raise ValueError(f"lane {lane_id!r} must have two points apart at least")
    centre_m = without_repeats(points_m)
    width_m, limit_kmh = properties.number("width"), properties.number("speed_limit_kmh")
    left_m = right_m = None
    if width_m is not None:
        if not 0.5 <= width_m <= 50:
            raise ValueError(f"width of lane {lane_id!r} must be from 0.5 to 50 m, got {width_m:g}")
        to_left_m = width_m / 2 * directions_left(centre_m)
        left_m, right_m = centre_m + to_left_m, centre_m - to_left_m
    is_in_junction = properties.values.get("junction")
    return SourceLane(
        lane_id=lane_id,
        centre_m=centre_m,
        left_m=left_m,
        right_m=right_m,
        successors=properties.names("successors"),
        left_neighbour=properties.name_or_none("left"),
        right_neighbour=properties.name_or_none("right"),
        speed_limit_mps=None if limit_kmh is None else limit_kmh * MPS_OF_KMH,
        kind=properties.text("lane_kind", "vehicle"),
        is_in_junction=is_in_junction if isinstance(is_in_junction, bool) else None,
    )


def _with_successors(lanes: Mapping[str, SourceLane]) -> dict[str, SourceLane]:
    """Return lanes with the lanes that start at their end as successors."""
    starts_m, ends_m = (np.array([lane.centre_m[end, :2] for lane in lanes.values()]) for end in (0, -1))
    near, names = cKDTree(starts_m).query_ball_point(ends_m, _MEETS_M, return_sorted=True), list(lanes)
    return {
        lane_id: replace(lane, successors=tuple(names[row] for row in rows if names[row] != lane_id))
        for (lane_id, lane), rows in zip(lanes.items(), near, strict=True)
    }
