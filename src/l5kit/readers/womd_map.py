"""Maps of scenarios of the Waymo Open Motion Dataset: lanes with boundaries, areas and stop signs."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.readers.source_bounds import FURTHEST_FROM_AV_M
from l5kit.readers.source_map import MPS_OF_MPH, SourceArea, SourceLane, SourceMap, SourceSign, is_line, open_outline
from l5kit.readers.womd_boundaries import LEFT, RIGHT, Polylines, find_boundaries
from l5kit.readers.womd_rows import DOUBLE, MessageRows, RowSchema, read_rows
from l5kit.readers.womd_scenario_pb2 import LaneCenter, LaneNeighbor, MapFeature, Scenario

_BIKE_LANE: Final = 3
_POINT_COLUMNS: Final = ((1, DOUBLE), (2, DOUBLE), (3, DOUBLE))
_POINTS_OF_LANE = RowSchema(8, _POINT_COLUMNS)
_POINTS_OF_LINE = RowSchema(2, _POINT_COLUMNS)
_POINTS_OF_AREA = RowSchema(1, _POINT_COLUMNS)
_LINE_KINDS: Final = ("road_line", "road_edge")
_AREA_KINDS: Final = ("crosswalk", "speed_bump", "driveway")


@dataclass(frozen=True)
class _Lanes:
    """L lanes of a map that have a centre line: their ids, messages and lines."""

    ids: Sequence[str]
    messages: Sequence[LaneCenter]
    lines: Polylines


def read_map(scenario: Scenario, name: str, around_m: Float64Array, remarks: list[str]) -> SourceMap:
    """Read the map of a scenario.

    Args:
        scenario: The scenario.
        name: Name for the map.
        around_m: x, y and z of the AV, (3,): points that are not finite or more than
            :data:`~l5kit.readers.source_bounds.FURTHEST_FROM_AV_M` away are damaged.
        remarks: List to which remarks on dropped elements are added.

    Raises:
        CorruptedDataError: A feature is damaged.
        google.protobuf.message.DecodeError: A feature is no valid message.
        InvalidArgumentError: Two features of one kind have the same id.
    """
    features: dict[str | None, list[MapFeature]] = {}
    for feature in scenario.map_features:
        features.setdefault(feature.WhichOneof("feature_data"), []).append(feature)
    lanes = _read_lanes(features.get("lane", []), around_m, remarks)

    # areas with at least three corners, and stop signs with a position
    areas = []
    for kind in _AREA_KINDS:
        of_kind, left_out = features.get(kind, []), []
        rows = _read_points([getattr(feature, kind) for feature in of_kind], _POINTS_OF_AREA, around_m, what=kind)
        for row, feature in enumerate(of_kind):
            if (outline_m := open_outline(rows.values[rows.starts[row] : rows.starts[row + 1]])) is not None:
                areas.append(SourceArea(str(feature.id), kind, outline_m))
            else:
                left_out.append(feature.id)
        _note_left_out(f"{kind} areas with less than three corners", left_out, remarks)
    signs, without_position = [], []
    for feature in features.get("stop_sign", []):
        point = feature.stop_sign.position
        position_m = np.array([point.x, point.y, point.z])
        if feature.stop_sign.HasField("position") and (np.abs(position_m - around_m) <= FURTHEST_FROM_AV_M).all():
            signs.append(SourceSign(str(feature.id), position_m, tuple(map(str, feature.stop_sign.lane))))
        else:
            without_position.append(feature.id)
    _note_left_out("stop signs without a position", without_position, remarks)

    # Painted lines and road edges, and the stretches of lanes bounded by them: lane, side, first and last point, and
    # line of each, (S, 5).
    marks = [feature for kind in _LINE_KINDS for feature in features.get(kind, [])]
    serialized = [feature.road_line or feature.road_edge for feature in marks]
    points = _read_points(serialized, _POINTS_OF_LINE, around_m, what="road line or edge")
    line_rows = {feature.id: row for row, feature in enumerate(marks)}
    stretches = [
        (row, side, boundary.lane_start_index, boundary.lane_end_index, line_rows.get(boundary.boundary_feature_id, -1))
        for row, lane in enumerate(lanes.messages)
        for side, boundaries in ((LEFT, lane.left_boundaries), (RIGHT, lane.right_boundaries))
        for boundary in boundaries
    ]
    table = np.array(stretches, np.int64).reshape(-1, 5)
    boundaries_m = find_boundaries(lanes.lines, Polylines(points.values, points.starts), table[table[:, 4] >= 0])
    return SourceMap(name, _to_source(lanes, boundaries_m), tuple(areas), tuple(signs))


def _read_points(parents: Sequence[bytes], schema: RowSchema, around_m: Float64Array, *, what: str) -> MessageRows:
    """Return points of lines, with NaN for damaged ones."""
    rows = read_rows(parents, schema, what=what)
    is_near = (np.abs(rows.values - around_m) <= FURTHEST_FROM_AV_M).all(axis=1, keepdims=True)
    return MessageRows(np.where(is_near, rows.values, np.nan), rows.starts)


def _read_lanes(features: Sequence[MapFeature], around_m: Float64Array, remarks: list[str]) -> _Lanes:
    """Return the lanes that have a line with two distinct points."""
    serialized = [feature.lane for feature in features]
    rows = _read_points(serialized, _POINTS_OF_LANE, around_m, what="lane")
    has_line = _are_lines(Polylines(rows.values, rows.starts))
    kept = np.flatnonzero(has_line).tolist()
    _note_left_out(
        "lanes without a centre line", [features[row].id for row in np.flatnonzero(~has_line).tolist()], remarks
    )
    starts = np.concatenate([[0], np.cumsum(rows.counts[has_line])])
    return _Lanes(
        ids=[str(features[row].id) for row in kept],
        messages=[LaneCenter.FromString(serialized[row]) for row in kept],
        lines=Polylines(rows.values[np.repeat(has_line, rows.counts)], starts),
    )


def _are_lines(lines: Polylines) -> BoolArray:
    """Return which lines are valid for lanes, (K,); vectorized except for lines whose ends coincide."""
    are_lines = np.zeros(len(lines.starts) - 1, np.bool_)
    rows = np.flatnonzero(np.diff(lines.starts) > 1)
    if not len(rows):
        return are_lines
    # a line has an invalid point if the running count of these differs between its ends
    first, end = lines.starts[rows], lines.starts[rows + 1]
    num_wrong = np.concatenate([[0], np.cumsum(~np.isfinite(lines.points_m).all(axis=1))])
    is_finite = num_wrong[end] == num_wrong[first]
    ends_m = np.abs(lines.points_m[end - 1] - lines.points_m[first]).max(axis=1)
    are_lines[rows] = is_finite & (ends_m > 0.1)
    for row in rows[is_finite & (ends_m <= 0.1)].tolist():  # a ring, or all points in one place
        are_lines[row] = is_line(lines.line(row))
    return are_lines


def _to_source(lanes: _Lanes, boundaries_m: Float64Array) -> tuple[SourceLane, ...]:
    known = set(lanes.ids)
    left_m, right_m = (lines_or_none(Polylines(side_m, lanes.lines.starts)) for side_m in boundaries_m)
    return tuple(
        SourceLane(
            lane_id=lane_id,
            centre_m=lanes.lines.line(row),
            left_m=left_m[row],
            right_m=right_m[row],
            successors=tuple(map(str, lane.exit_lanes)),
            predecessors=tuple(map(str, lane.entry_lanes)),
            left_neighbour=_neighbour(lane.left_neighbors, known),
            right_neighbour=_neighbour(lane.right_neighbors, known),
            speed_limit_mps=lane.speed_limit_mph * MPS_OF_MPH if 0 < lane.speed_limit_mph < np.inf else None,
            kind="bike" if lane.type == _BIKE_LANE else "vehicle",
            is_in_junction=lane.interpolating or None,  # most files leave it unset even in intersections
        )
        for row, (lane_id, lane) in enumerate(zip(lanes.ids, lanes.messages, strict=True))
    )


def lines_or_none(boundaries: Polylines) -> list[Float64Array | None]:
    """Return the boundaries of a side, None where unknown or all points coincide."""
    return [boundaries.line(row) if is_one else None for row, is_one in enumerate(_are_lines(boundaries).tolist())]


def _neighbour(neighbours: Iterable[LaneNeighbor], known: set[str]) -> str | None:
    """Return the lane of the map that is adjacent along most points, or None."""
    beside = ((each.self_end_index - each.self_start_index, str(each.feature_id)) for each in neighbours)
    return longest_beside(beside, known)


def longest_beside(lanes: Iterable[tuple[int, str]], known: Container[str]) -> str | None:
    """Return the known lane that is adjacent along most points of another, or None."""
    _, lane = max((each for each in lanes if each[1] in known), default=(0, None))
    return lane


def _note_left_out(what: str, ids: Sequence[int], remarks: list[str]) -> None:
    if ids:
        remarks.append(f"{what} are left out: {', '.join(map(str, ids))}")
