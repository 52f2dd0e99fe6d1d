"""Writing of joined maps of another dataset to a semantic map in the world frame, and of other areas to JSON."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, JsonObject
from l5kit.data.map.builder import MapBuilder
from l5kit.readers.joined_map import JoinedMap
from l5kit.readers.lane_groups import group_lanes, with_junctions
from l5kit.readers.scene_conversion import FACE_COLORS, face_id, light_id
from l5kit.readers.source_map import DRIVABLE_KINDS, SourceLane, SourceMap

WORLD_TO_ECEF = np.array([[0.0, 0.0, 1.0, 6378137.0], [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
"""World frame of imported datasets: at latitude 0, longitude 0, x east, y north, z up, whatever the real location."""
WORLD_TO_ECEF.setflags(write=False)

USUAL_WIDTHS_M = {"vehicle": 3.5, "bus": 3.5, "bike": 1.5}
"""Default width of a lane of each kind, for unknown boundaries."""

_ACCESS = {"vehicle": "UNKNOWN", "bus": "ONLY_BUS", "bike": "ONLY_BIKE"}
_STRAIGHT_RAD, _SHARP_RAD, _U_TURN_RAD = np.radians([30.0, 110.0, 150.0])


def add_map(builder: MapBuilder, joined: JoinedMap, offset_m: Float64Array) -> None:
    """Add a map to the semantic map; ids become ``MAP/ID``, and ids of lights are hashed to fit into records.

    Args:
        builder: The semantic map.
        joined: The map.
        offset_m: Offset of its x and y, (2,).
    """
    _MapWriter(builder, joined, np.append(offset_m, 0.0)).write()


def add_roads(
    builder: MapBuilder,
    lanes: Mapping[str, SourceLane],
    followers: Mapping[str, Sequence[str]],
    *,
    offset_m: Float64Array,
    name_of: Callable[[str, str], str],
    add_lane: Callable[[str, str], None],
) -> None:
    """Add lanes to the semantic map, grouped into roads and junctions.

    Args:
        builder: The semantic map.
        lanes: The lanes by their ids.
        followers: The successors of each lane.
        offset_m: Offset of the centre lines of roads, (3,).
        name_of: Returns the id on the semantic map of a ``lane``, or of the ``segment`` or ``junction`` with a given
            first lane.
        add_lane: Adds a lane to a segment or junction, by the ids of both.
    """
    # The geometry of a road is that of its leftmost lane; junctions have none. One call for all lines is faster.
    groups = group_lanes(lanes, followers)
    roads = [group.lanes[0] for group in groups if not group.is_junction]
    courses = builder.geodetic_lines([lanes[lane_id].centre_m + offset_m for lane_id in roads])
    course_of = dict(zip(roads, courses, strict=True))
    for group in groups:
        parent = name_of("junction" if group.is_junction else "segment", group.lanes[0])
        for lane_id in group.lanes:
            add_lane(lane_id, parent)
        names = [name_of("lane", lane_id) for lane_id in group.lanes]
        if group.is_junction:
            builder.add_junction(parent, lanes=names)
            continue
        builder.add_segment(
            parent,
            course_of[group.lanes[0]],
            lanes=names,
            speed_limit_mps=lanes[group.lanes[0]].speed_limit_mps or 0.0,  # the same for all lanes of a road
            travel_direction="ONE_WAY_FORWARD",
        )


def areas_as_json(joined: JoinedMap, offset_m: Float64Array) -> list[JsonObject]:
    """Return the areas of a map, with corners in world metres."""
    offset = np.append(offset_m, 0.0)
    return [
        {
            "id": _name_on(joined.name, area.area_id),
            "kind": area.kind,
            "outline_m": np.round(area.outline_m + offset, 3).tolist(),
            **({"holes_m": [np.round(hole + offset, 3).tolist() for hole in area.holes_m]} if area.holes_m else {}),
        }
        for area in joined.areas.values()
    ]


def least_bytes_of(source_map: SourceMap) -> int:
    """Return a lower bound of the bytes of a map in the semantic map, from its known boundaries.

    Protobuf encodes the steps of a line in centimetres as varints of 7 bits per byte, with one bit for the sign.
    """
    lines = [line for lane in source_map.lanes for line in (lane.left_m, lane.right_m) if line is not None]
    if not lines:
        return 0
    steps_cm = np.abs(np.diff(np.concatenate(lines), axis=0)) * 100.0 - 1.0  # positions are rounded
    firsts = np.cumsum([len(line) for line in lines])[:-1] - 1
    steps_cm[firsts] = 0.0  # from one line to the next
    return int(steps_cm.size + sum(np.count_nonzero(2.0 * steps_cm >= 128.0**size) for size in (1, 2, 3, 4)))


def boundaries_of(lane: SourceLane) -> tuple[Float64Array, Float64Array]:
    """Return the left and right boundary of a lane; an unknown one is placed half a default width beside the centre."""
    if lane.left_m is not None and lane.right_m is not None:
        return lane.left_m, lane.right_m
    points_m = without_repeats(lane.centre_m)
    to_left_m = USUAL_WIDTHS_M[lane.kind] / 2 * directions_left(points_m)
    left_m = points_m + to_left_m if lane.left_m is None else lane.left_m
    right_m = points_m - to_left_m if lane.right_m is None else lane.right_m
    return left_m, right_m


def turn_of(lane: SourceLane) -> str:
    """Return the name of the ``Lane.TurnType`` of a lane in a junction, by the total turn of its centre line."""
    # turns are summed from step to step, so that the total may exceed half a circle
    steps_m = np.diff(without_repeats(lane.centre_m)[:, :2], axis=0)
    turn_rad = float(np.diff(np.unwrap(np.arctan2(steps_m[:, 1], steps_m[:, 0]))).sum())
    if abs(turn_rad) < _STRAIGHT_RAD:
        return "THROUGH"
    if turn_rad > _U_TURN_RAD:
        return "U_TURN"
    side = "LEFT" if turn_rad > 0 else "RIGHT"
    return f"SHARP_{side}" if abs(turn_rad) > _SHARP_RAD else side


def _name_on(*parts: str) -> str:
    """Return the id of an element of a map; slashes in source names are escaped, so that ids stay unique."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


@dataclass(frozen=True, eq=False)
class _MapWriter:
    builder: MapBuilder
    joined: JoinedMap
    offset_m: Float64Array

    def write(self) -> None:
        # either lane of a pair may name the other as its follower; lanes that are not in the map are dropped
        known = self.joined.lanes
        followers = {name: [after for after in lane.successors if after in known] for name, lane in known.items()}
        for name, lane in known.items():
            for before in lane.predecessors:
                if before in followers and name not in followers[before]:
                    followers[before].append(name)
        signs_of = defaultdict(list)
        for sign in self.joined.signs.values():
            for lane_id in sign.lane_ids:
                signs_of[lane_id].append(self._name("sign", sign.sign_id))

        lanes = with_junctions(known, followers)

        def add_lane(lane_id: str, parent: str) -> None:
            lane = lanes[lane_id]
            left_m, right_m = boundaries_of(lane)
            self.builder.add_lane(
                self._name("lane", lane_id),
                left_m + self.offset_m,
                right_m + self.offset_m,
                lanes_ahead=[self._name("lane", after) for after in followers[lane_id]],
                change_left=self._neighbour(lane.left_neighbour),
                change_right=self._neighbour(lane.right_neighbour),
                traffic_controls=[*self._light_parts(lane_id), *signs_of[lane_id]],
                parent=parent,
                turn_type=turn_of(lane) if lane.is_in_junction else "THROUGH",
                access=_ACCESS[lane.kind],
            )

        add_roads(self.builder, lanes, followers, offset_m=self.offset_m, name_of=self._name, add_lane=add_lane)
        self._add_controls()

    def _name(self, kind: str, element_id: str) -> str:
        """Return the id of an element; all kinds except lanes add their kind, so that ids are unique over all kinds."""
        return (
            _name_on(self.joined.name, element_id) if kind == "lane" else _name_on(self.joined.name, kind, element_id)
        )

    def _neighbour(self, lane_id: str | None) -> str | None:
        return self._name("lane", lane_id) if lane_id in self.joined.lanes and lane_id is not None else None

    def _light_parts(self, lane_id: str) -> list[str]:
        if lane_id not in self.joined.lights:
            return []
        name = self.joined.name
        return [light_id(name, lane_id), *(face_id(name, lane_id, color) for color in FACE_COLORS.values())]

    def _add_controls(self) -> None:
        for lane_id, position_m in self.joined.lights.items():
            lane = self.joined.lanes.get(lane_id)
            if lane is None:
                continue
            light, *faces = self._light_parts(lane_id)
            point_m = lane.centre_m[-1] if position_m is None else position_m
            self.builder.add_traffic_light(light, point_m + self.offset_m, faces=faces)
            for face, color in zip(faces, FACE_COLORS.values(), strict=True):
                self.builder.add_traffic_light_face(face, kind=f"signal_{color}_face")
        for area in self.joined.areas.values():
            outline_m = area.outline_m + self.offset_m
            if area.kind == "crosswalk":
                self.builder.add_crosswalk(self._name("crosswalk", area.area_id), outline_m)
            elif area.kind == "speed_bump":
                name = self._name("speed_bump", area.area_id)
                self.builder.add_traffic_control(name, "speed_bump", outline_m, geometry_type="POLYGON")
            elif area.kind in DRIVABLE_KINDS:
                holes_m = [hole + self.offset_m for hole in area.holes_m]
                self.builder.add_drivable_area(self._name(area.kind, area.area_id), outline_m, holes=holes_m)
        for sign in self.joined.signs.values():
            point_m = sign.position_m + self.offset_m
            self.builder.add_traffic_control(self._name("sign", sign.sign_id), "stop_sign", point_m)


def directions_left(points_m: Float64Array) -> Float64Array:
    """Return the left normals at the points of a line without repeats, horizontal and of length 1, (n, 3)."""
    # The direction at a point is the sum of the unit vectors of the steps before and after it; they cancel out where
    # the line reverses, which gives a zero vector.
    steps_m = points_m[1:, :2] - points_m[:-1, :2]
    steps_m /= _lengths(steps_m)[:, None]
    along = np.concatenate([steps_m[:1], steps_m[:-1] + steps_m[1:], steps_m[-1:]])
    along /= np.maximum(_lengths(along), 1e-9)[:, None]
    left = np.zeros((len(along), 3))
    left[:, 0] = -along[:, 1]
    left[:, 1] = along[:, 0]
    return left


def without_repeats(line_m: Float64Array) -> Float64Array:
    """Return a line without consecutive points that coincide in plan view."""
    is_apart = _lengths(line_m[1:, :2] - line_m[:-1, :2]) > 1e-6
    if is_apart.all():
        return line_m
    kept_m: Float64Array = line_m[np.concatenate([[True], is_apart])]
    return kept_m


def _lengths(steps_m: Float64Array) -> Float64Array:
    """Return the lengths of steps (n, 2), for a few steps several times as fast as ``np.linalg.norm``."""
    squares = steps_m * steps_m
    lengths_m: Float64Array = np.sqrt(squares[:, 0] + squares[:, 1])
    return lengths_m
