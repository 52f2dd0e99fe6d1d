"""Writer of semantic maps: elements are added one by one in world coordinates and saved as a ``MapFragment``."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from pymap3d.ecef import ecef2geodetic, geodetic2ecef

from l5kit._files import replaced_when_complete
from l5kit._types import Float64Array, Int64Array, NumericArray
from l5kit.data.proto.road_network_pb2 import (
    AccessRestriction,
    GeoFrame,
    GeoLocation,
    GlobalId,
    Lane,
    MapElement,
    MapFragment,
    RoadNetworkSegment,
    TrafficControlElement,
)
from l5kit.errors import InvalidArgumentError, MapTooLargeError

_LARGEST_INT32 = 2**31 - 1

MOST_MAP_BYTES = 2**31 - 1
"""Size limit of a protobuf message; a semantic map is a single message."""

_MOST_OVERHEAD = 6
"""Bytes that an element adds to the map beyond its own: tag and length."""

_FieldValue: TypeAlias = Any
"""Value of a message field: a message, a list of messages, a number or text, depending on the schema."""


@dataclass(frozen=True, eq=False)
class GeodeticLine:
    """A line in the form in which the format stores the course of a segment; see :meth:`MapBuilder.geodetic_lines`.

    Attributes:
        locations: Latitude and longitude in 1e-7 degrees and altitude in centimetres, int64, (n, 3).
    """

    locations: Int64Array

    def as_messages(self) -> list[GeoLocation]:
        """Return its vertices as messages."""
        return [
            GeoLocation(lat_e7=lat_e7, lng_e7=lng_e7, altitude_cm=altitude_cm)
            for lat_e7, lng_e7, altitude_cm in self.locations.tolist()
        ]


class MapBuilder:
    """Collects the elements of a semantic map and writes them in the format of the published maps.

    Geometry is given in world coordinates in metres and stored in whole centimetres. Positions are rounded, not the
    differences between them, so lines do not drift, and coordinates read back are within 1 cm. All elements share one
    east-north-up frame at height 0 of the ellipsoid, below the world's origin. As such a frame is rigid, it is exact at
    any distance, and a map that is read and written again keeps its deltas.

    Args:
        world_to_ecef: Transform from world to ECEF coordinates, rotation and shift, shape (4, 4).
        name: Free text stored with the map.

    Raises:
        InvalidArgumentError: ``world_to_ecef`` is not a finite rigid transform.
    """

    def __init__(self, world_to_ecef: NumericArray, *, name: str = ""):
        # A rotation keeps lengths: R R^T = I. Otherwise centimetres of the world would not be centimetres of the frame.
        matrix = np.array(world_to_ecef, dtype=np.float64)
        if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
            raise InvalidArgumentError(f"world_to_ecef must be a finite 4x4 matrix, got shape {matrix.shape}: {matrix}")
        rotation = matrix[:3, :3]
        if np.abs(rotation @ rotation.T - np.eye(3)).max() > 1e-6:
            raise InvalidArgumentError(
                f"world_to_ecef must rotate and shift only, got the 3x3 part {rotation.tolist()}"
            )
        self._world_to_ecef = matrix
        self._fragment = MapFragment(name=name)
        self._ids: set[str] = set()
        self._num_bytes = self._fragment.ByteSize()

        # Frame below the world's origin. Worlds without a geographic position lie at the earth's centre, without a
        # latitude.
        with np.errstate(all="ignore"):
            latitude_deg, longitude_deg, _ = ecef2geodetic(*matrix[:3, 3])
        degrees = np.nan_to_num(np.array([latitude_deg, longitude_deg], dtype=np.float64).reshape(2))
        self._origin_e7: Int64Array = np.rint(degrees * 1e7).astype(np.int64)
        self._origin_m, self._ecef_from_local = _frame_at(self._origin_e7)

    def __len__(self) -> int:
        """Return the number of elements added so far."""
        return len(self._fragment.elements)

    def add_lane(
        self,
        lane_id: str,
        xyz_left: NumericArray,
        xyz_right: NumericArray,
        *,
        lanes_ahead: Iterable[str] = (),
        change_left: str | None = None,
        change_right: str | None = None,
        traffic_controls: Iterable[str] = (),
        yield_to_lanes: Iterable[str] = (),
        parent: str | None = None,
        turn_type: str = "THROUGH",
        orientation: str = "ONE_WAY_FORWARD",
        can_have_parked_cars: bool = False,
        access: str = "UNKNOWN",
    ) -> None:
        """Add a lane.

        Args:
            lane_id: Id, not yet used in this map.
            xyz_left: Left boundary in driving direction, world coordinates, shape (n, 3), n at least 2.
            xyz_right: Right boundary, shape (m, 3), m at least 2.
            lanes_ahead: Ids of the lanes that follow.
            change_left: Id of the lane that a vehicle may change to on the left, None if that is not allowed.
            change_right: The same to the right.
            traffic_controls: Ids of the lights, faces and signs that control leaving the lane.
            yield_to_lanes: Ids of the lanes that have the right of way.
            parent: Id of the segment or junction that the lane belongs to.
            turn_type: Name of a ``Lane.TurnType``.
            orientation: Name of a ``RoadNetworkSegment.TravelDirection``, relative to the segment.
            can_have_parked_cars: Whether cars may park in the lane.
            access: Name of an ``AccessRestriction.Type``: the traffic that may use the lane.

        Raises:
            InvalidArgumentError: The id is empty or used, a boundary has another shape or is not finite, or a name is
                unknown.
        """
        lane = Lane(
            geo_frame=self._geo_frame(),
            left_boundary=self._deltas("xyz_left", xyz_left, "vertex_deltas_{}_cm"),
            right_boundary=self._deltas("xyz_right", xyz_right, "vertex_deltas_{}_cm"),
            parent_segment_or_junction=_optional_id(parent),
            lanes_ahead=_as_ids(lanes_ahead),
            adjacent_lane_change_left=_optional_id(change_left),
            adjacent_lane_change_right=_optional_id(change_right),
            traffic_controls=_as_ids(traffic_controls),
            yield_to_lanes=_as_ids(yield_to_lanes),
            can_have_parked_cars=can_have_parked_cars,
            turn_type_in_parent_junction=_enum_value(Lane.TurnType, "turn_type", turn_type),
            orientation_in_parent_segment=_enum_value(RoadNetworkSegment.TravelDirection, "orientation", orientation),
        )
        access_type = _enum_value(AccessRestriction.Type, "access", access)
        if access_type:  # unset otherwise: keeps such maps identical to the byte
            lane.access_restriction.type = access_type
        self._add(lane_id, lane=lane)

    def add_crosswalk(self, crosswalk_id: str, xyz: NumericArray, *, traffic_lights: Iterable[str] = ()) -> None:
        """Add a crosswalk.

        Args:
            crosswalk_id: Id, not yet used in this map.
            xyz: Corners of its polygon, world coordinates, shape (n, 3), n at least 3.
            traffic_lights: Ids of its pedestrian lights.

        Raises:
            InvalidArgumentError: The id is empty or used, or ``xyz`` has another shape or is not finite.
        """
        crosswalk = TrafficControlElement.PedestrianCrosswalk(traffic_lights=_as_ids(traffic_lights))
        fields = self._deltas("xyz", xyz, "points_{}_deltas_cm", minimum=3)
        self._add_control(crosswalk_id, fields, geometry_type="POLYGON", pedestrian_crosswalk=crosswalk)

    def add_traffic_light(self, light_id: str, xyz: NumericArray, *, faces: Iterable[str] = ()) -> None:
        """Add a traffic light.

        Args:
            light_id: Id, not yet used in this map.
            xyz: Its world coordinates, shape (3,) or (1, 3).
            faces: Ids of its faces.

        Raises:
            InvalidArgumentError: The id is empty or used, or ``xyz`` has another shape or is not finite.
        """
        light = TrafficControlElement.TrafficLight(face_states=_as_ids(faces))
        fields = self._deltas("xyz", np.atleast_2d(xyz), "points_{}_deltas_cm", minimum=1, maximum=1)
        self._add_control(light_id, fields, geometry_type="POINT", traffic_light=light)

    def add_traffic_light_face(
        self,
        face_id: str,
        kind: str = "signal_red_face",
        *,
        xyz: NumericArray | None = None,
        no_right_turn_on_red: bool = False,
    ) -> None:
        """Add a face (bulb) of a traffic light.

        Args:
            face_id: Id, not yet used in this map.
            kind: Member of ``TrafficControlElement.Type`` that starts with ``signal_`` and is a face.
            xyz: Its world coordinates, shape (3,) or (1, 3); None to store none.
            no_right_turn_on_red: Whether turning right is forbidden while the face is on.

        Raises:
            InvalidArgumentError: The id is empty or used, the kind is unknown, or ``xyz`` has another shape.
        """
        _check_choice("kind", kind, _control_kinds("TrafficLightFaceState"))
        face = TrafficControlElement.TrafficLightFaceState(no_right_turn_on_red=no_right_turn_on_red)
        fields = {}
        if xyz is not None:
            fields = self._deltas("xyz", np.atleast_2d(xyz), "points_{}_deltas_cm", minimum=1, maximum=1)
        self._add_control(face_id, fields, geometry_type="UKNOWN" if xyz is None else "POINT", **{kind: face})

    def add_traffic_control(
        self, control_id: str, kind: str, xyz: NumericArray, *, geometry_type: str | None = None
    ) -> None:
        """Add a traffic control element of any kind: ``stop_line``, ``stop_sign``, ``speed_bump``, ...

        Args:
            control_id: Id, not yet used in this map.
            kind: Member of ``TrafficControlElement.Type``.
            xyz: World coordinates, shape (3,) or (n, 3), n at least 1.
            geometry_type: Name of a ``TrafficControlElement.GeometryType``; by default POINT for one point and
                LINESTRING for several.

        Raises:
            InvalidArgumentError: The id is empty or used, a name is unknown, or ``xyz`` has another shape.
        """
        _check_choice("kind", kind, _control_kinds())
        points = np.atleast_2d(xyz)
        fields = self._deltas("xyz", points, "points_{}_deltas_cm", minimum=1)
        default = "POINT" if len(points) == 1 else "LINESTRING"
        self._add_control(control_id, fields, geometry_type=geometry_type or default, **{kind: {}})

    def add_segment(
        self,
        segment_id: str,
        xyz: NumericArray | GeodeticLine,
        *,
        lanes: Iterable[str] = (),
        speed_limit_mps: float = 0.0,
        backward_speed_limit_mps: float = 0.0,
        start_node: str | None = None,
        end_node: str | None = None,
        road_class: str = "UNKNOWN_ROAD_CLASS",
        travel_direction: str = "UNKNOWN_TRAVEL_DIRECTION",
    ) -> None:
        """Add a road segment, the part of a road between two nodes.

        Args:
            segment_id: Id, not yet used in this map.
            xyz: Its course from start to end, world coordinates, shape (n, 3), n at least 2; or a result of
                :meth:`geodetic_lines`, which is faster for many segments.
            lanes: Ids of its lanes, left to right seen from the start.
            speed_limit_mps: Speed limit in metres per second, 0 for unknown.
            backward_speed_limit_mps: Speed limit from end to start, 0 for the same.
            start_node: Id of the node at its start.
            end_node: Id of the node at its end.
            road_class: Name of a ``RoadNetworkSegment.RoadClass``.
            travel_direction: Name of a ``RoadNetworkSegment.TravelDirection``.

        Raises:
            InvalidArgumentError: The id is empty or used, ``xyz`` has another shape or is not finite, a limit is
                negative, or a name is unknown.
        """
        if not min(speed_limit_mps, backward_speed_limit_mps) >= 0:
            limits = f"{speed_limit_mps} and {backward_speed_limit_mps}"
            raise InvalidArgumentError(f"speed limits must be at least 0 m/s (0 for unknown), got {limits}")
        course = xyz if isinstance(xyz, GeodeticLine) else self._geodetic_lines("xyz", [xyz], minimum=2)[0]
        segment = RoadNetworkSegment(
            vertices=course.as_messages(),
            start_node=_optional_id(start_node),
            end_node=_optional_id(end_node),
            lanes=_as_ids(lanes),
            speed_limit_meters_per_second=speed_limit_mps,
            backward_direction_speed_limit_meters_per_second=backward_speed_limit_mps,
            road_class=_enum_value(RoadNetworkSegment.RoadClass, "road_class", road_class),
            travel_direction=_enum_value(RoadNetworkSegment.TravelDirection, "travel_direction", travel_direction),
            driveable=True,
        )
        self._add(segment_id, segment=segment)

    def add_junction(
        self,
        junction_id: str,
        *,
        lanes: Iterable[str] = (),
        traffic_controls: Iterable[str] = (),
        nodes: Iterable[str] = (),
        is_non_trivial_intersection: bool = True,
    ) -> None:
        """Add a junction, where segments meet.

        Args:
            junction_id: Id, not yet used in this map.
            lanes: Ids of the lanes inside.
            traffic_controls: Ids of its traffic control elements.
            nodes: Ids of its nodes.
            is_non_trivial_intersection: Whether paths cross or merge in it.

        Raises:
            InvalidArgumentError: The id is empty or used.
        """
        junction = {
            "road_network_nodes": _as_ids(nodes),
            "traffic_control_elements": _as_ids(traffic_controls),
            "lanes": _as_ids(lanes),
            "is_non_trivial_intersection": is_non_trivial_intersection,
        }
        self._add(junction_id, junction=junction)

    def add_node(
        self, node_id: str, xyz: NumericArray, *, segments: Iterable[str] = (), junction: str | None = None
    ) -> None:
        """Add a node, an end of segments.

        Args:
            node_id: Id, not yet used in this map.
            xyz: Its world coordinates, shape (3,) or (1, 3).
            segments: Ids of the segments that end there, clockwise.
            junction: Id of its junction.

        Raises:
            InvalidArgumentError: The id is empty or used, or ``xyz`` has another shape or is not finite.
        """
        (line,) = self._geodetic_lines("xyz", [np.atleast_2d(xyz)], minimum=1, maximum=1)
        (location,) = line.as_messages()
        node = {"location": location, "road_segments": _as_ids(segments), "junction": _optional_id(junction)}
        self._add(node_id, node=node)

    def add_drivable_area(self, area_id: str, xyz: NumericArray, *, holes: Sequence[NumericArray] = ()) -> None:
        """Add a drivable area besides lanes, crosswalks and junctions, which are always drivable.

        It is a shape of the kind ``drivable_surface_prior``.

        Args:
            area_id: Id, not yet used in this map.
            xyz: Corners of its polygon, world coordinates, shape (n, 3), n at least 3.
            holes: Corners of areas cut out of it, likewise.

        Raises:
            InvalidArgumentError: The id is empty or used, or a ring has another shape or is not finite.
        """
        outline, *cut_out = self._geodetic_lines("xyz", [xyz, *holes], minimum=3)
        polygon = {
            "shell_vertices": outline.as_messages(),
            "holes": [{"shell_vertices": hole.as_messages()} for hole in cut_out],
        }
        shape = {"multipolygon": {"polygons": [polygon]}, "drivable_surface_prior": {}}
        self._add(area_id, annotated_shape=shape)

    def geodetic_lines(self, lines: Sequence[NumericArray]) -> list[GeodeticLine]:
        """Return the courses of many segments as :meth:`add_segment` stores them, converted all at once.

        Args:
            lines: Courses in world coordinates, each of shape (n, 3), n at least 2.

        Raises:
            InvalidArgumentError: A line has another shape or is not finite.
        """
        return self._geodetic_lines("lines", lines, minimum=2)

    def to_fragment(self) -> MapFragment:
        """Return a copy of the map as a message."""
        fragment = MapFragment()
        fragment.CopyFrom(self._fragment)
        return fragment

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the map to a file that :class:`~l5kit.data.map.api.MapAPI` opens, replacing it if there is one.

        The file is written next to its destination and renamed, so it is never incomplete under its name.

        Raises:
            FileNotFoundError: The folder of ``path`` does not exist.
        """
        with replaced_when_complete(path, argument="path") as temporary:
            temporary.write_bytes(self._fragment.SerializeToString(deterministic=True))

    def _add(self, element_id: str, **content: _FieldValue) -> None:
        """Add an element with a new id."""
        if not isinstance(element_id, str) or not element_id:
            raise InvalidArgumentError(f"the id of an element must be non-empty text, got {element_id!r}")
        if element_id in self._ids:
            raise InvalidArgumentError(f"id {element_id!r} is already used; ids are unique over all kinds of elements")
        element = MapElement(id=_as_id(element_id), element=content)
        num_bytes = self._num_bytes + element.ByteSize() + _MOST_OVERHEAD
        if num_bytes > MOST_MAP_BYTES:
            raise MapTooLargeError(
                f"element {element_id!r} after {len(self)} others makes the map larger than {MOST_MAP_BYTES:,} bytes, "
                "the limit of one semantic map; split it into several maps"
            )
        self._num_bytes = num_bytes
        self._fragment.elements.append(element)
        self._ids.add(element_id)

    def _add_control(
        self, control_id: str, fields: dict[str, _FieldValue], *, geometry_type: str, **kind: _FieldValue
    ) -> None:
        geometry = _enum_value(TrafficControlElement.GeometryType, "geometry_type", geometry_type)
        control = TrafficControlElement(geo_frame=self._geo_frame(), geometry_type=geometry, **fields, **kind)
        self._add(control_id, traffic_control_element=control)

    def _geo_frame(self) -> GeoFrame:
        return GeoFrame(origin=GeoLocation(lat_e7=int(self._origin_e7[0]), lng_e7=int(self._origin_e7[1])))

    def _ecef_m(self, argument: str, xyz: NumericArray, *, minimum: int, maximum: int | None) -> Float64Array:
        """Return checked world coordinates, converted to ECEF."""
        points = np.asarray(xyz, dtype=np.float64)
        most = _LARGEST_INT32 if maximum is None else maximum
        if points.ndim != 2 or points.shape[1] != 3 or not minimum <= len(points) <= most:
            count = f"n = {minimum}" if maximum == minimum else f"n at least {minimum}"
            raise InvalidArgumentError(f"{argument} must have shape (n, 3) with {count}, got {np.shape(xyz)}")
        if not np.isfinite(points).all():
            raise InvalidArgumentError(f"{argument} must be finite world coordinates in metres, got {points.tolist()}")
        ecef_m: Float64Array = points @ self._world_to_ecef[:3, :3].T + self._world_to_ecef[:3, 3]
        return ecef_m

    def _deltas(
        self, argument: str, xyz: NumericArray, field_name: str, *, minimum: int = 2, maximum: int | None = None
    ) -> dict[str, list[int]]:
        """Return the delta fields of a line in centimetres; ``field_name`` has a placeholder for the axis."""
        ecef_m = self._ecef_m(argument, xyz, minimum=minimum, maximum=maximum)
        # round positions and store their differences, so that rounding errors do not add up along a line
        positions_cm = np.rint((ecef_m - self._origin_m) @ self._ecef_from_local * 100.0)
        deltas_cm = positions_cm.copy()
        deltas_cm[1:] -= positions_cm[:-1]
        if np.abs(deltas_cm).max() > _LARGEST_INT32:
            raise InvalidArgumentError(f"{argument} exceeds the range of the format (21,000 km)")
        columns = deltas_cm.T.astype(np.int64).tolist()
        return {field_name.format(axis): column for axis, column in zip("xyz", columns, strict=True)}

    def _geodetic_lines(
        self, argument: str, lines: Sequence[NumericArray], *, minimum: int, maximum: int | None = None
    ) -> list[GeodeticLine]:
        """Return lines in world coordinates converted to latitudes, longitudes and altitudes."""
        if not lines:
            return []
        # One call for a hundred thousand points takes about as long as a few hundred calls for single lines.
        lines_ecef_m = [self._ecef_m(argument, line, minimum=minimum, maximum=maximum) for line in lines]
        latitudes_deg, longitudes_deg, altitudes_m = map(np.atleast_1d, ecef2geodetic(*np.concatenate(lines_ecef_m).T))
        scaled = np.stack([latitudes_deg * 1e7, longitudes_deg * 1e7, altitudes_m * 100.0], axis=-1)
        locations = np.rint(scaled).astype(np.int64)
        ends = np.cumsum([len(line) for line in lines_ecef_m])[:-1]
        return [GeodeticLine(of_line) for of_line in np.split(locations, ends)]


def world_at(latitude_deg: float, longitude_deg: float) -> Float64Array:
    """Return world_to_ecef, (4, 4), of a world with its origin at a place, height 0, x east, y north, z up.

    Args:
        latitude_deg: Geodetic latitude, degrees.
        longitude_deg: Longitude, degrees.
    """
    world_to_ecef = np.eye(4)
    world_to_ecef[:3, 3], world_to_ecef[:3, :3] = _frame_at(np.array([latitude_deg, longitude_deg]) * 1e7)
    return world_to_ecef


def _frame_at(origin_e7: NumericArray) -> tuple[Float64Array, Float64Array]:
    """Return origin (3,) and axes (columns, (3, 3)) of the east-north-up frame at height 0, in ECEF."""
    latitude_deg, longitude_deg = origin_e7 / 1e7
    origin_m = np.array(geodetic2ecef(latitude_deg, longitude_deg, 0.0), dtype=np.float64)
    # the columns of this rotation are east, north and up
    cos_lat, sin_lat = np.cos(np.radians(latitude_deg)), np.sin(np.radians(latitude_deg))
    cos_lng, sin_lng = np.cos(np.radians(longitude_deg)), np.sin(np.radians(longitude_deg))
    ecef_from_local = np.array(
        [
            [-sin_lng, -sin_lat * cos_lng, cos_lat * cos_lng],
            [cos_lng, -sin_lat * sin_lng, cos_lat * sin_lng],
            [0.0, cos_lat, sin_lat],
        ]
    )
    return origin_m, ecef_from_local


def _control_kinds(message_name: str | None = None) -> list[str]:
    """Return the members of ``TrafficControlElement.Type``, optionally only those of one message type."""
    members: Any = TrafficControlElement.DESCRIPTOR.oneofs_by_name["Type"].fields
    return [member.name for member in members if message_name in (None, member.message_type.name)]


def _check_choice(argument: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise InvalidArgumentError(f"{argument} must be one of {', '.join(allowed)}, got {value!r}")


def _enum_value(enum: EnumTypeWrapper, argument: str, name: str) -> _FieldValue:
    try:
        return enum.Value(name)
    except (ValueError, TypeError):
        _check_choice(argument, name, enum.keys())
        raise


def _as_id(element_id: str) -> GlobalId:
    return GlobalId(id=element_id.encode("utf-8"))


def _as_ids(element_ids: Iterable[str]) -> list[GlobalId]:
    if isinstance(element_ids, str):
        raise InvalidArgumentError(f"expected a list of ids, got the single text {element_ids!r}")
    return [_as_id(element_id) for element_id in element_ids]


def _optional_id(element_id: str | None) -> GlobalId | None:
    return None if element_id is None else _as_id(element_id)
