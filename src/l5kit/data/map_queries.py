"""Questions about the road network of a map: elements of a kind, neighbours, speed limits, lanes near a point."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from l5kit._types import Float64Array, Int64Array
from l5kit.data.map_content import MapContent, decode_reference
from l5kit.data.map_wire import KIND_TRAFFIC_CONTROL
from l5kit.data.proto.road_network_pb2 import (
    AnnotatedShape,
    MapElement,
    RoadNetworkSegment,
    TrafficControlElement,
)
from l5kit.errors import InvalidArgumentError

KIND_ANNOTATED_SHAPE = 8
_KIND_ALIASES = {"crosswalk": "pedestrian_crosswalk"}


def _members(message: Any, oneof: str) -> dict[str, int]:
    """Return name and field number of the members of a oneof."""
    return {member.name: member.number for member in message.DESCRIPTOR.oneofs_by_name[oneof].fields}


def select_elements(content: MapContent, kind: str) -> Iterator[MapElement]:
    """Return an iterator over the elements of one kind, in file order.

    Args:
        content: The map.
        kind: A member of ``MapElement.Element``, ``TrafficControlElement.Type`` or ``AnnotatedShape.Type``, or
            ``crosswalk``.

    Raises:
        InvalidArgumentError: There is no such kind.
    """
    element_kinds, control_kinds = _members(MapElement.Element, "element"), _members(TrafficControlElement, "Type")
    shape_kinds = _members(AnnotatedShape, "Type")
    name = _KIND_ALIASES.get(kind, kind)
    scan, elements = content.scan, content.fragment.elements
    if name in element_kinds:
        selected = np.flatnonzero(scan.kinds == element_kinds[name])
    elif name in control_kinds:
        selected = np.flatnonzero((scan.kinds == KIND_TRAFFIC_CONTROL) & (scan.control_kinds == control_kinds[name]))
    elif name in shape_kinds:
        shapes = np.flatnonzero(scan.kinds == KIND_ANNOTATED_SHAPE)
        selected = np.array(
            [i for i in shapes.tolist() if elements[i].element.annotated_shape.HasField(name)],
            dtype=np.int64,
        )
    else:
        allowed = [*element_kinds, *_KIND_ALIASES, *control_kinds, *shape_kinds]
        raise InvalidArgumentError(f"kind must be one of {', '.join(allowed)}, got {kind!r}")
    return (elements[i] for i in selected.tolist())


class LaneNetwork:
    """Which lane leads where, and how fast one may go there.

    Args:
        content: The map.
        path: Its file, for error texts.
    """

    def __init__(self, content: MapContent, path: str):
        self._content = content
        self._path = path

    def _named_by(self, lane_id: str, element_id: bytes) -> str:
        return decode_reference(element_id, f"map file {self._path}: lane {lane_id!r}")

    @cached_property
    def _behind(self) -> dict[str, list[str]]:
        """Ids of the lanes behind each lane, in file order."""
        behind: dict[str, dict[str, None]] = {}
        for lane, element in enumerate(self._content.lanes.tolist()):
            lane_id = self._content.ids[element]
            if self._content.lane_of_id[lane_id] == lane:
                for ahead_id in self.ahead(lane_id):
                    behind.setdefault(ahead_id, {})[lane_id] = None
        return {lane_id: list(lanes) for lane_id, lanes in behind.items()}

    def ahead(self, lane_id: str) -> list[str]:
        """Return the ids of the successors of a lane, none for an unknown lane."""
        lane = self._content.find_lane(lane_id)
        return [] if lane is None else [self._named_by(lane_id, ahead.id) for ahead in lane.lanes_ahead]

    def behind(self, lane_id: str) -> list[str]:
        """Return the ids of the predecessors of a lane."""
        return list(self._behind.get(lane_id, []))

    def speed_limit_mps(self, lane_id: str) -> float | None:
        """Return the speed limit of a lane in metres per second, None where the map does not say.

        A lane of a segment has the limit of its direction; a lane of a junction the lowest known limit of the lanes of
        segments that it leads to or comes from.
        """
        if not self._is_in_junction(lane_id):
            return self._segment_limit_mps(lane_id)
        connected = self._connected_outside(lane_id, self.ahead) | self._connected_outside(lane_id, self.behind)
        limits_mps = [self._segment_limit_mps(connected_id) for connected_id in connected]
        return min((limit for limit in limits_mps if limit is not None), default=None)

    def _parent(self, lane_id: str) -> Any:
        """Return the segment or junction of a lane as ``MapElement.Element``, None if the map does not hold it."""
        lane = self._content.find_lane(lane_id)
        parent_id = b"" if lane is None else lane.parent_segment_or_junction.id
        if not parent_id:
            return None
        position = self._content.ids_to_el.get(self._named_by(lane_id, parent_id))
        return None if position is None else self._content.fragment.elements[position].element

    def _is_in_junction(self, lane_id: str) -> bool:
        parent = self._parent(lane_id)
        return parent is not None and parent.HasField("junction")

    def _connected_outside(self, lane_id: str, neighbours: Any) -> set[str]:
        """Return the lanes outside of junctions that are first met in one direction."""
        found, seen, open_ids = set(), {lane_id}, [lane_id]
        while open_ids:
            for neighbour in neighbours(open_ids.pop()):
                if neighbour in seen:
                    continue
                seen.add(neighbour)
                if self._is_in_junction(neighbour):
                    open_ids.append(neighbour)
                else:
                    found.add(neighbour)
        return found

    def _segment_limit_mps(self, lane_id: str) -> float | None:
        """Return the limit that the segment of a lane has in the lane's direction."""
        parent, lane = self._parent(lane_id), self._content.find_lane(lane_id)
        if parent is None or lane is None or not parent.HasField("segment"):
            return None
        segment = parent.segment
        limit_mps = segment.speed_limit_meters_per_second
        if lane.orientation_in_parent_segment == RoadNetworkSegment.ONE_WAY_BACKWARD:
            limit_mps = segment.backward_direction_speed_limit_meters_per_second or limit_mps
        return float(limit_mps) if limit_mps > 0 else None


@dataclass(frozen=True)
class LaneLocator:
    """Finds the lanes near a point, by the distance to their areas in the xy plane.

    Attributes:
        points: Vertices of all boundaries, world coordinates in metres, float64 (total, 3).
        offsets: Start of each boundary; lane k has boundaries 2 k (left) and 2 k + 1 (right), int64 (2 K + 1,).
        lanes: The lanes looked at, int64 (N,).
        bounds: Their bounds, float64 (N, 2, 2).
        midlines: Their midlines, float64 (N, P, 3).
    """

    points: Float64Array
    offsets: Int64Array
    lanes: Int64Array
    bounds: Float64Array
    midlines: Float64Array

    def __post_init__(self) -> None:
        """Check that there is one row per lane."""
        shapes = (self.lanes.shape, self.bounds.shape, self.midlines.shape)
        if len({shape[0] for shape in shapes}) != 1:
            raise InvalidArgumentError(f"lanes, bounds and midlines must have one row per lane, got {shapes}")

    def _box_distances_m(self, point_m: Float64Array) -> Float64Array:
        """Return the distance from a point to the bounds of each lane, 0 inside, float64 (N,)."""
        outside = np.maximum(np.maximum(self.bounds[:, 0] - point_m, point_m - self.bounds[:, 1]), 0.0)
        return np.hypot(outside[:, 0], outside[:, 1])

    def nearest(self, point_m: Float64Array) -> tuple[int, float]:
        """Return the row of the nearest of at least one lane, and its distance in metres."""
        box_distances_m = self._box_distances_m(point_m)
        order = np.argsort(box_distances_m, kind="stable")
        row, distance_m = _nearest_lane(
            self.points, self.offsets, self.lanes, self.midlines, order, box_distances_m[order], point_m
        )
        return int(row), float(distance_m)

    def within(self, point_m: Float64Array, radius_m: float) -> Int64Array:
        """Return the rows of the lanes within a distance, ordered by distance to the area, then to the midline."""
        rows = np.flatnonzero(self._box_distances_m(point_m) <= radius_m)
        area_m, midline_m = _lane_distances(self.points, self.offsets, self.lanes, self.midlines, rows, point_m)
        order = np.lexsort((midline_m, area_m))
        return rows[order[area_m[order] <= radius_m]]


@njit(nogil=True, cache=True, error_model="numpy")
def _distance_to_edge(start: Float64Array, end: Float64Array, point: Float64Array) -> Any:
    """Return the distance in the xy plane from a point to the straight edge between two others."""
    edge_x, edge_y = end[0] - start[0], end[1] - start[1]
    x, y = point[0] - start[0], point[1] - start[1]
    squared_length = edge_x * edge_x + edge_y * edge_y
    along = 0.0
    if squared_length > 0:
        along = min(max((x * edge_x + y * edge_y) / squared_length, 0.0), 1.0)
    return np.hypot(x - along * edge_x, y - along * edge_y)


@njit(nogil=True, cache=True, error_model="numpy")
def _distance_to_line(line: Float64Array, point: Float64Array) -> Any:
    """Return the distance in the xy plane from a point to a line of at least one vertex."""
    distance = _distance_to_edge(line[0], line[0], point)
    for i in range(1, len(line)):
        distance = min(distance, _distance_to_edge(line[i - 1], line[i], point))
    return distance


@njit(nogil=True, cache=True, error_model="numpy")
def _crosses(start: Float64Array, end: Float64Array, point: Float64Array) -> Any:
    """Return whether the ray from a point towards +x crosses the edge."""
    if (start[1] > point[1]) == (end[1] > point[1]):
        return False
    crossing_x = start[0] + (point[1] - start[1]) / (end[1] - start[1]) * (end[0] - start[0])
    return point[0] < crossing_x


@njit(nogil=True, cache=True, error_model="numpy")
def _distance_to_area(left: Float64Array, right: Float64Array, point: Float64Array) -> Any:
    """Return the distance to the polygon of the left boundary and the reversed right one, 0 inside."""
    is_inside = _crosses(left[0], right[0], point) != _crosses(left[-1], right[-1], point)
    for line in (left, right):
        for i in range(1, len(line)):
            is_inside = is_inside != _crosses(line[i - 1], line[i], point)
    if is_inside:
        return 0.0
    ends = min(_distance_to_edge(left[0], right[0], point), _distance_to_edge(left[-1], right[-1], point))
    return min(ends, _distance_to_line(left, point), _distance_to_line(right, point))


@njit(nogil=True, cache=True, error_model="numpy")
def _lane_distances(
    points: Float64Array,
    offsets: Int64Array,
    lanes: Int64Array,
    midlines: Float64Array,
    rows: Int64Array,
    point: Float64Array,
) -> tuple[Float64Array, Float64Array]:
    """Return the distances from a point to area and midline of the lanes in the given rows, float64 (n,) each."""
    area, midline = np.empty(len(rows)), np.empty(len(rows))
    for i in range(len(rows)):
        lane = lanes[rows[i]]
        left = points[offsets[2 * lane] : offsets[2 * lane + 1]]
        right = points[offsets[2 * lane + 1] : offsets[2 * lane + 2]]
        area[i] = _distance_to_area(left, right, point)
        midline[i] = _distance_to_line(midlines[rows[i]], point)
    return area, midline


@njit(nogil=True, cache=True, error_model="numpy")
def _nearest_lane(
    points: Float64Array,
    offsets: Int64Array,
    lanes: Int64Array,
    midlines: Float64Array,
    order: Int64Array,
    box_distances: Float64Array,
    point: Float64Array,
) -> tuple[int, float]:
    """Return row and area distance of the nearest lane; ``order`` has the rows by ascending ``box_distances``."""
    best_row, best_area, best_midline = -1, np.inf, np.inf
    for i in range(len(order)):
        if box_distances[i] > best_area:
            break
        area, midline = _lane_distances(points, offsets, lanes, midlines, order[i : i + 1], point)
        if area[0] < best_area or (area[0] == best_area and midline[0] < best_midline):
            best_row, best_area, best_midline = order[i], area[0], midline[0]
    return best_row, best_area
