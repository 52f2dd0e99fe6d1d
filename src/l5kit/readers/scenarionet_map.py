"""Map and lights of a ScenarioNet scenario: lanes, areas and signs in metres, and states of lights."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.readers.map_writing import without_repeats
from l5kit.readers.nuscenes_lanes import sides_of_lane
from l5kit.readers.source_fields import SourceFields, as_floats
from l5kit.readers.source_map import (
    MPS_OF_KMH,
    MPS_OF_MPH,
    SourceArea,
    SourceLane,
    SourceMap,
    SourceSign,
    is_line,
    open_outline,
    with_heights,
)
from l5kit.readers.source_scene import LightState, SourceLights
from l5kit.readers.womd_boundaries import LEFT, RIGHT, Polylines, find_boundaries
from l5kit.readers.womd_map import lines_or_none, longest_beside

_KINDS_OF_LANE: Final = {"LANE_BIKE_LANE": "bike", "LANE_BUS_LANE": "bus"}
_JUNCTION_LANE: Final = "LANE_SURFACE_UNSTRUCTURE"
_AREA_KINDS: Final = {
    "CROSSWALK": "crosswalk",
    "SPEED_BUMP": "speed_bump",
    "DRIVEWAY": "driveway",
    "BOUNDARY_SIDEWALK": "walkway",
    _JUNCTION_LANE: "drivable_area",
}
"""Kinds of features with a polygon and without a centre line."""

_LINE_TYPES: Final = ("ROAD_LINE", "ROAD_EDGE", "BOUNDARY_LINE", "BOUNDARY_MEDIAN")
_MOST_NAMED: Final = 20
_MOST_POINTS: Final = 1_000_000_000
_STATES: Final = {
    "GO": LightState.GREEN,
    "GREEN": LightState.GREEN,
    "STOP": LightState.RED,
    "RED": LightState.RED,
    "CAUTION": LightState.YELLOW,
    "YELLOW": LightState.YELLOW,
}
"""Light state by the last word of a state, such as that of ``LANE_STATE_ARROW_STOP`` or ``TRAFFIC_LIGHT_RED``."""


def read_map(features: SourceFields, name: str, shift_m: Float64Array, remarks: list[str]) -> SourceMap:
    """Read the features of a map.

    Args:
        features: ``map_features`` of a scenario.
        name: Name for the map.
        shift_m: Offset added to all positions, x, y and z, (3,).
        remarks: List to which remarks on dropped features are added.

    Raises:
        TypeError: A value has another type.
        ValueError: A value is missing, or has another shape.
    """
    lanes: dict[str, tuple[SourceFields, Float64Array]] = {}
    lines: dict[str, Float64Array] = {}
    areas: list[SourceArea] = []
    signs: list[SourceSign] = []
    left_out: list[str] = []
    for feature_id, feature in features.items():
        kind = feature.text("type")
        if kind.startswith("LANE") and feature.has("polyline"):
            line_m = _points_of(feature, "polyline", shift_m)
            if is_line(line_m):
                lanes[feature_id] = feature, line_m
                continue
        elif kind.startswith(_LINE_TYPES):
            if feature.has("polyline"):
                lines[feature_id] = _points_of(feature, "polyline", shift_m)
            continue
        elif kind in _AREA_KINDS and feature.has("polygon"):
            if (outline_m := open_outline(_points_of(feature, "polygon", shift_m))) is not None:
                areas.append(SourceArea(feature_id, _AREA_KINDS[kind], outline_m))
                continue
        elif kind == "STOP_SIGN" and feature.has("position"):
            position_m = feature.floats("position", None)
            if len(position_m) in (2, 3) and np.isfinite(position_m).all():
                signs.append(SourceSign(feature_id, with_heights(position_m[None])[0] + shift_m, feature.names("lane")))
                continue
        elif kind not in _AREA_KINDS and kind != "STOP_SIGN" and not kind.startswith("LANE"):
            continue  # not representable in logs, such as guard rails
        left_out.append(feature_id)
    if left_out:
        more = f" and {len(left_out) - _MOST_NAMED} more" if len(left_out) > _MOST_NAMED else ""
        remarks.append(f"Map features without geometry are left out: {', '.join(left_out[:_MOST_NAMED])}{more}.")
    return SourceMap(name, _lanes_of(lanes, lines, shift_m), tuple(areas), tuple(signs))


def read_lights(
    states: SourceFields, lanes: Mapping[str, SourceLane], num_steps: int, shift_m: Float64Array
) -> SourceLights:
    """Return the lights of the lanes of a map, ordered by lane id.

    A light without a stop point is placed where its lane begins, as signals of these sets control entry to a lane.

    Args:
        states: ``dynamic_map_states`` of a scenario.
        lanes: The lanes of its map by their ids.
        num_steps: Number of steps.
        shift_m: Offset added to all positions, (3,).

    Raises:
        TypeError: A value has another type.
        ValueError: The number of states differs from the number of steps.
    """
    shown: dict[str, tuple[list[int], Float64Array]] = {}
    for key, light in states.items():
        lane = str(light.values.get("lane", key))
        if lane not in lanes or lane in shown:
            continue
        state = light.fields("state")
        given = state.at("object_state")
        if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str | bytes) or len(given) != num_steps:
            raise ValueError(f"{state.path}.object_state must be a list of {num_steps} states, one for each step")
        point_m = lanes[lane].centre_m[0]
        if light.has("stop_point"):
            stop_m = as_floats(light.at("stop_point"), f"{light.path}.stop_point").reshape(-1)
            if len(stop_m) in (2, 3) and np.isfinite(stop_m).all():
                point_m = with_heights(stop_m[None])[0] + shift_m
        meanings = {
            each: LightState.ABSENT
            if each is None
            else _STATES.get(str(each).rpartition("_")[2].upper(), LightState.UNKNOWN)
            for each in set(given)
        }
        shown[lane] = [meanings[each] for each in given], point_m
    names = sorted(shown)
    if not names:
        return SourceLights.none(num_steps)
    return SourceLights(
        tuple(names),
        np.array([shown[name][0] for name in names], np.uint8),
        np.array([shown[name][1] for name in names]),
    )


def _points_of(feature: SourceFields, key: str, shift_m: Float64Array) -> Float64Array:
    """Return the points of a line or polygon in the frame of the map, (n, 3), possibly empty."""
    points_m = as_floats(feature.at(key), f"{feature.path}.{key}")
    if not points_m.size:
        return np.zeros((0, 3))
    if points_m.ndim != 2 or points_m.shape[1] not in (2, 3):
        raise ValueError(f"{feature.path}.{key} must have the shape (points, 2 or 3), got {points_m.shape}")
    return with_heights(points_m) + shift_m


def _lanes_of(
    lanes: Mapping[str, tuple[SourceFields, Float64Array]], lines: Mapping[str, Float64Array], shift_m: Float64Array
) -> tuple[SourceLane, ...]:
    """Return lanes with boundaries from painted lines and road edges, or else from their polygon."""
    starts = np.cumsum([0, *(len(line_m) for _, line_m in lanes.values())])
    centres = Polylines(np.concatenate([np.zeros((0, 3)), *(line_m for _, line_m in lanes.values())]), starts)
    line_starts = np.cumsum([0, *map(len, lines.values())])
    painted = Polylines(np.concatenate([np.zeros((0, 3)), *lines.values()]), line_starts)
    boundaries_m = find_boundaries(centres, painted, _stretches_of(lanes, lines))
    lefts_m, rights_m = (lines_or_none(Polylines(side_m, starts)) for side_m in boundaries_m)
    made = []
    for row, (lane_id, (feature, centre_m)) in enumerate(lanes.items()):
        kind = feature.text("type")
        left_m, right_m = lefts_m[row], rights_m[row]
        polygon_m = None
        if left_m is None and right_m is None and feature.has("polygon"):
            polygon_m = open_outline(_points_of(feature, "polygon", shift_m))
        if polygon_m is not None:
            # polygons may have no heights, so their sides get the mean height of the lane
            height_m = centre_m[:, 2].mean()
            sides_m = (
                None if side is None else np.column_stack([side, np.full(len(side), height_m)])
                for side in sides_of_lane(without_repeats(centre_m)[:, :2], polygon_m[:, :2])
            )
            left_m, right_m = (side_m if is_line(side_m) else None for side_m in sides_m)
        limit_mps = None  # km/h takes precedence, 0 means none
        for key, unit_mps in (("speed_limit_mph", MPS_OF_MPH), ("speed_limit_kmh", MPS_OF_KMH)):
            limit = feature.number(key)
            limit_mps = limit * unit_mps if limit is not None and limit > 0 else limit_mps
        made.append(
            SourceLane(
                lane_id=lane_id,
                centre_m=centre_m,
                left_m=left_m,
                right_m=right_m,
                successors=feature.names("exit_lanes"),
                predecessors=feature.names("entry_lanes"),
                left_neighbour=_neighbour_of(feature, "left_neighbor", lanes),
                right_neighbour=_neighbour_of(feature, "right_neighbor", lanes),
                speed_limit_mps=limit_mps,
                kind=_KINDS_OF_LANE.get(kind, "vehicle"),
                is_in_junction=True if kind == _JUNCTION_LANE or feature.values.get("interpolating") is True else None,
            )
        )
    return tuple(made)


def _stretches_of(
    lanes: Mapping[str, tuple[SourceFields, Float64Array]], lines: Mapping[str, Float64Array]
) -> Int64Array:
    """Return lane, side, first and last point, and line of each stretch with a known boundary, (S, 5)."""
    rows = {name: row for row, name in enumerate(lines)}
    stretches = []
    for lane, (feature, _) in enumerate(lanes.values()):
        for side, key in ((LEFT, "left_boundaries"), (RIGHT, "right_boundaries")):
            for boundary in _dictionaries_in(feature, key):
                line = rows.get(str(boundary.get("boundary_feature_id")))
                first, last = boundary.get("lane_start_index"), boundary.get("lane_end_index")
                if line is not None and _is_index(first) and _is_index(last):
                    stretches.append((lane, side, first, last, line))
    return np.array(stretches, np.int64).reshape(-1, 5)


def _is_index(value: object) -> TypeGuard[int]:
    """Return whether a value can be an index of a point."""
    return isinstance(value, int) and 0 <= value < _MOST_POINTS


def _dictionaries_in(feature: SourceFields, key: str) -> list[dict[str, object]]:
    """Return the dictionaries in a list; empty for anything else."""
    values = feature.values.get(key)
    if not isinstance(values, list | tuple):
        return []
    return [each for each in values if isinstance(each, dict)]


def _neighbour_of(feature: SourceFields, key: str, lanes: Mapping[str, object]) -> str | None:
    """Return the adjacent lane, the one along most points if the source specifies these."""
    neighbours = _dictionaries_in(feature, key)
    if not neighbours:
        value = feature.values.get(key)
        names = (str(value),) if isinstance(value, str | int) else feature.names(key)
        return next((name for name in names if name in lanes), None)
    beside = []
    for each in neighbours:
        first, last = each.get("self_start_index"), each.get("self_end_index")
        length = last - first if _is_index(first) and _is_index(last) else 0
        beside.append((length, str(each.get("feature_id"))))
    return longest_beside(beside, lanes)
