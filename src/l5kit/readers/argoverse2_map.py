"""Maps of Argoverse 2, a JSON file per scenario or log: lanes with boundaries, crosswalks and drivable areas."""

import json
from pathlib import Path
from typing import Final

import numpy as np
from scipy.spatial import cKDTree

from l5kit._types import Float64Array, JsonObject
from l5kit.configs.texts import require_regular_file
from l5kit.data.map.geometry import resample_lanes
from l5kit.readers.reader import SourceDataError, naming_source
from l5kit.readers.source_map import SourceArea, SourceLane, SourceMap, is_line, open_outline

_ELEMENTS: Final = ("lane_segments", "pedestrian_crossings", "drivable_areas")
_BOUNDARIES: Final = ("left_lane_boundary", "right_lane_boundary")
_LANE_KINDS: Final = {"VEHICLE": "vehicle", "BUS": "bus", "BIKE": "bike"}
_KINDS_OF_LANE: Final = {
    "is_intersection": bool,
    "lane_type": str,
    "left_lane_mark_type": str,
    "right_lane_mark_type": str,
    "predecessors": list,
    "successors": list,
}
_NOT_CROSSED: Final = {"SOLID_WHITE", "SOLID_YELLOW", "SOLID_BLUE", "DOUBLE_SOLID_WHITE", "DOUBLE_SOLID_YELLOW"}


def read_elements(source: Path, file: str) -> JsonObject:
    """Return the content of a map file.

    Args:
        source: The folder of the dataset.
        file: The file, relative to the folder.

    Raises:
        SourceDataError: It is missing, damaged, or no map.
    """
    try:
        require_regular_file(source / file, called="map file")
        content = json.loads((source / file).read_bytes(), object_pairs_hook=_object_of)
    except FileNotFoundError as error:
        raise SourceDataError(file, "", "there is no such file, the map next to the scenario") from error
    except (ValueError, RecursionError) as error:
        raise SourceDataError(file, "", f"it cannot be read as JSON: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(content.get(name), dict) for name in _ELEMENTS):
        raise SourceDataError(file, "", f"it must have {', '.join(_ELEMENTS)}; it is no map, or of an unknown version")
    return content


def map_of(file: str, elements: JsonObject, city: str, remarks: list[str]) -> SourceMap:
    """Return a map; lanes and areas without geometry are dropped, with a remark.

    Args:
        file: Its file, for errors.
        elements: From :func:`read_elements`.
        city: Name of the map.
        remarks: List to which remarks on dropped elements are added.

    Raises:
        SourceDataError: An element holds impossible values; the message names it.
    """
    segments: JsonObject = elements["lane_segments"]
    lines = {}
    for key, segment in segments.items():
        with naming_source(file, f"lane segment {key}"):
            # Maps of sensor logs lack centre lines. They are computed as the middle of the boundaries, which may have
            # different numbers of points and are matched by arc length.
            sides_m = [_line_of(segment[name]) for name in _BOUNDARIES]
            centre = segment.get("centerline")
            centre_m = np.zeros((0, 3)) if centre is None else _line_of(centre)
            if centre is None and all(map(is_line, sides_m)):
                counts = [len(side_m) for side_m in sides_m]
                centre_m = resample_lanes(np.concatenate(sides_m), np.cumsum([0, *counts]), max(counts))[2][0]
            lines[key] = [centre_m, *sides_m]
    lanes = []
    for key in segments:
        if not all(is_line(line) for line in lines[key]):
            remarks.append(f"Lane segment {key} has no geometry and is left out.")
            continue
        with naming_source(file, f"lane segment {key}"):
            lanes.append(_lane_of(key, segments, lines))
    areas = []
    for name in _ELEMENTS[1:]:
        for key, element in elements[name].items():
            with naming_source(file, f"{name} {key}"):
                # a crosswalk is given by two parallel edges, an area by its corners
                if "edge1" in element:
                    corners_m = np.concatenate([_line_of(element["edge1"]), _line_of(element["edge2"])[::-1]])
                else:
                    corners_m = _line_of(element["area_boundary"])
                if (outline_m := open_outline(corners_m)) is None:
                    remarks.append(f"{name} {key} has no geometry and is left out.")
                    continue
                areas.append(SourceArea(key, "crosswalk" if "edge1" in element else "drivable_area", outline_m))
    return SourceMap(city, tuple(lanes), tuple(areas))


def heights_at(points_m: Float64Array, source_map: SourceMap) -> Float64Array:
    """Return the height of the lane boundary nearest to each point; 0 without lanes."""
    lines = [line for lane in source_map.lanes for line in (lane.left_m, lane.right_m) if line is not None]
    if not lines:
        return np.zeros(len(points_m))
    corners_m = np.concatenate(lines)
    nearest = cKDTree(corners_m[:, :2]).query(np.where(np.isfinite(points_m), points_m, 0.0))[1]
    heights_m: Float64Array = corners_m[nearest, 2]
    return heights_m


def _object_of(pairs: list[tuple[str, object]]) -> JsonObject:
    """Return an object of a JSON file; repeated keys are refused, as one value would be lost silently."""
    content = dict(pairs)
    if len(content) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r:.80} is repeated in one object; copy the file again")
    return content


def _lane_of(key: str, segments: JsonObject, lines: dict[str, list[Float64Array]]) -> SourceLane:
    """Return the lane of a segment, with types and values checked."""
    segment = segments[key]
    centre_m, left_m, right_m = lines[key]
    for name, kind in _KINDS_OF_LANE.items():
        if not isinstance(segment[name], kind):
            raise TypeError(f"{name} must be a {kind.__name__}, got {segment[name]!r:.80}")
    if str(segment["id"]) != key:
        raise ValueError(f"id must be its key, {key}, got {segment['id']!r:.80}")
    if segment["lane_type"] not in _LANE_KINDS:
        raise ValueError(f"lane_type must be one of {', '.join(_LANE_KINDS)}, got {segment['lane_type']!r}")
    # centre lines without heights (all 0) get the mean height of the boundaries
    if not centre_m[:, 2].any():
        centre_m = np.column_stack(
            [centre_m[:, :2], np.full(len(centre_m), (left_m[:, 2].mean() + right_m[:, 2].mean()) / 2)]
        )
    return SourceLane(
        lane_id=key,
        centre_m=centre_m,
        left_m=left_m,
        right_m=right_m,
        successors=tuple(map(str, segment["successors"])),
        predecessors=tuple(map(str, segment["predecessors"])),
        left_neighbour=_change_of(key, "left", segments),
        right_neighbour=_change_of(key, "right", segments),
        kind=_LANE_KINDS[segment["lane_type"]],
        is_in_junction=bool(segment["is_intersection"]),
    )


def _change_of(key: str, side: str, segments: JsonObject) -> str | None:
    """Return the adjacent lane to change to; a neighbour that does not name this lane in return runs against it."""
    segment = segments[key]
    other = str(segment[f"{side}_neighbor_id"])
    back = "right" if side == "left" else "left"
    if other not in segments or str(segments[other][f"{back}_neighbor_id"]) != key:
        return None
    return None if segment[f"{side}_lane_mark_type"] in _NOT_CROSSED else other


def _line_of(points: list[dict[str, float]]) -> Float64Array:
    return np.array([(point["x"], point["y"], point["z"]) for point in points], np.float64).reshape(-1, 3)
