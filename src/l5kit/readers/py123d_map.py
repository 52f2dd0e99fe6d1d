"""Maps of py123d: lanes with connectivity and limits, areas and stop signs."""

from pathlib import Path
from typing import Final

import numpy as np

from l5kit._types import Float64Array
from l5kit.readers.city_map import CityMap
from l5kit.readers.py123d_arrow import open_arrow, unpack
from l5kit.readers.reader import naming_source
from l5kit.readers.source_fields import SourceFields
from l5kit.readers.source_map import (
    SourceArea,
    SourceLane,
    SourceMap,
    SourceSign,
    is_line,
    with_heights,
    without_last_repeated,
)

_LANE, _LANE_GROUP, _INTERSECTION, _STOP_ZONE = 0, 1, 2, 7
_KIND_OF_LAYER: Final = {
    _INTERSECTION: "drivable_area",
    3: "crosswalk",
    4: "walkway",
    5: "carpark",
    6: "drivable_area",
    10: "speed_bump",
}
_LINES: Final = (8, 9)
"""Road edges and road lines, which logs have no room for."""

_KIND_OF_LANE: Final = {3: "bike", 4: "bus"}
_STOP_SIGN: Final = 2
_FEWEST_CORNERS: Final = 3


def read_py123d_map(path: Path, *, file: str, name: str) -> CityMap:
    """Read a map.

    Args:
        path: The file.
        file: What it is called in errors.
        name: What the map is to be called.

    Raises:
        SourceDataError: It cannot be read, or tells what cannot be; the message names the object.
    """
    with naming_source(file):
        opened = open_arrow(path)
        ids = opened.numeric("object_id")
        layers = opened.numeric("map_layer")
        features = opened.column("features")
        if len(set(zip(layers.tolist(), ids.tolist(), strict=True))) < len(ids):
            raise ValueError("two objects of a layer have one object_id")
    objects = []
    for row, (object_id, layer) in enumerate(zip(ids.tolist(), layers.tolist(), strict=True)):
        if layer not in _LINES:
            with naming_source(file, f"object {object_id} of layer {layer}"):
                objects.append((layer, str(object_id), unpack(features[row].as_py() or b"", "features")))
    # A lane lies in an intersection where its group does; where no group does, nothing is known of any lane.
    intersections = {
        group: feature.values.get("intersection_id") for layer, group, feature in objects if layer == _LANE_GROUP
    }
    has_intersections = any(intersection is not None for intersection in intersections.values())
    lanes, areas, signs = [], [], []
    left_out: list[tuple[str, Float64Array]] = []
    for layer, object_id, feature in objects:
        with naming_source(file, f"object {object_id} of layer {layer}"):
            if layer == _LANE:
                group = str(feature.values.get("lane_group_id"))
                is_inside = intersections.get(group) is not None if has_intersections else None
                lane = _lane_of(object_id, feature, is_in_junction=is_inside)
                if lane is None:
                    text = f"Lane {object_id} of the map has no geometry and is left out."
                    left_out.append((text, np.full((2, 2), np.nan)))
                else:
                    lanes.append(lane)
            elif layer == _STOP_ZONE:
                if feature.values.get("stop_zone_type") == _STOP_SIGN:
                    outline_m = _line_of(feature, "outline")
                    signs.append(SourceSign(object_id, outline_m.mean(axis=0), feature.names("lane_ids")))
            elif layer in _KIND_OF_LAYER:
                # Intersections and drivable areas become areas of one kind, and may have the same ids.
                area_id = object_id if layer != _INTERSECTION else f"intersection {object_id}"
                corners_m = without_last_repeated(_line_of(feature, "outline"), fewest=1)
                if len(corners_m) >= _FEWEST_CORNERS and is_line(corners_m):
                    areas.append(SourceArea(area_id, _KIND_OF_LAYER[layer], corners_m))
    with naming_source(file):
        return CityMap.of(SourceMap(name, tuple(lanes), tuple(areas), tuple(signs)), left_out)


def _lane_of(lane_id: str, feature: SourceFields, *, is_in_junction: bool | None) -> SourceLane | None:
    """Return a lane; None where it has no line."""
    left_m, right_m = _line_of(feature, "left_boundary"), _line_of(feature, "right_boundary")
    centre_m = _line_of(feature, "centerline")
    if not all(map(is_line, (left_m, right_m, centre_m))):
        return None
    limit_mps, kind = feature.number("speed_limit_mps"), feature.values.get("lane_type")
    return SourceLane(
        lane_id=lane_id,
        centre_m=centre_m,
        left_m=left_m,
        right_m=right_m,
        successors=feature.names("successor_ids"),
        predecessors=feature.names("predecessor_ids"),
        left_neighbour=feature.name_or_none("left_lane_id"),
        right_neighbour=feature.name_or_none("right_lane_id"),
        speed_limit_mps=limit_mps if limit_mps is not None and limit_mps > 0 else None,
        kind=_KIND_OF_LANE.get(kind, "vehicle") if isinstance(kind, int) else "vehicle",
        is_in_junction=is_in_junction,
    )


def _line_of(feature: SourceFields, key: str) -> Float64Array:
    """Return the points of a line, (n, 3); those without a height have 0."""
    points_m = feature.floats(key, None, None)
    if points_m.shape[1] not in (2, 3):
        raise ValueError(f"{feature.path}.{key} must have 2 or 3 columns, got {points_m.shape[1]}")
    return with_heights(points_m)
