"""Format-independent records of a semantic map, shared by all writers and readers of map formats."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.map.api import MapAPI
from l5kit.data.proto.road_network_pb2 import AccessRestriction, GlobalId, Lane, MapElement, TrafficControlElement
from l5kit.errors import InvalidArgumentError

CROSSWALK, LIGHT = "pedestrian_crosswalk", "traffic_light"
FACE_COLORS: Final = ("red", "yellow", "green")
"""Colours of the faces of lights, from top to bottom."""


@dataclass(frozen=True, eq=False)
class ExchangedLane:
    """One lane, in driving direction.

    Attributes:
        lane_id: Its id.
        left_m: Left boundary, world metres, float64, (n, 3), n at least 2.
        right_m: Right boundary, (m, 3).
        ahead: Ids of the lanes that follow.
        change_left: Lane that a vehicle may change to on the left; None if that is not allowed.
        change_right: The same to the right.
        speed_limit_mps: Speed limit, metres per second; None if unknown.
        is_in_junction: Whether it is part of a junction; None if the source does not say.
        parent: Segment or junction that it is part of; empty if unknown.
        turn: Name of a ``Lane.TurnType``; empty if the source does not say.
        access: Name of an ``AccessRestriction.Type``.
        controls: Ids of lights, faces and signs that control leaving it.
        yields_to: Lanes that have the right of way over it.
    """

    lane_id: str
    left_m: Float64Array
    right_m: Float64Array
    ahead: tuple[str, ...] = ()
    change_left: str | None = None
    change_right: str | None = None
    speed_limit_mps: float | None = None
    is_in_junction: bool | None = None
    parent: str = ""
    turn: str = ""
    access: str = "UNKNOWN"
    controls: tuple[str, ...] = ()
    yields_to: tuple[str, ...] = ()

    @property
    def centre_m(self) -> Float64Array:
        """The midline between both boundaries at equal fractions of length, at all vertices of either, (k, 3)."""
        left_parts, right_parts = _parts_of(self.left_m), _parts_of(self.right_m)
        # use the vertices of both sides, so that neither loses a corner
        parts = np.unique(np.concatenate([left_parts, right_parts]))
        left_m, right_m = _at_parts(self.left_m, left_parts, parts), _at_parts(self.right_m, right_parts, parts)
        centre_m: Float64Array = 0.5 * (left_m + right_m)
        return centre_m


@dataclass(frozen=True, eq=False)
class ExchangedControl:
    """A traffic control: a light, a face of one, a crosswalk, a sign, a stop line.

    Attributes:
        control_id: Its id.
        kind: Member of ``TrafficControlElement.Type``.
        points_m: Its points, world metres, float64, (n, 3); (0, 3) if it has none.
        parts: Ids of the faces of a light, or of the lights of a crosswalk.
        is_closed: Whether the points are corners of a polygon.
    """

    control_id: str
    kind: str
    points_m: Float64Array
    parts: tuple[str, ...] = ()
    is_closed: bool = False

    @property
    def is_face(self) -> bool:
        """Whether it is a face of a light; ``signal_ahead_sign`` is a sign."""
        return self.kind.startswith("signal_") and not self.kind.endswith("_sign")


@dataclass(frozen=True, eq=False)
class ExchangedMap:
    """The lanes and traffic controls of a map.

    Attributes:
        name: Its name.
        lanes: Lanes by id.
        controls: Traffic controls by id.
        world_to_ecef: Transform from world to ECEF coordinates, float64 (4, 4); None if the source does not say.
        left_out: What has no counterpart or could not be read, one sentence each.
    """

    name: str
    lanes: dict[str, ExchangedLane]
    controls: dict[str, ExchangedControl]
    world_to_ecef: Float64Array | None = None
    left_out: tuple[str, ...] = ()

    @classmethod
    def of_map(cls, semantic_map: MapAPI) -> "ExchangedMap":
        """Return the records of a semantic map; content that they cannot represent is listed in ``left_out``.

        Raises:
            CorruptedDataError: A lane names an id that is not UTF-8 text.
        """
        elements = {semantic_map.id_as_str(element.id): element for element in semantic_map}  # the last of each id
        lanes = _lanes_of(semantic_map, elements)
        controls = {}
        for element_id, element in elements.items():
            if not element.element.HasField("traffic_control_element"):
                continue
            control = element.element.traffic_control_element
            points_m = semantic_map.unpack_deltas_cm(
                control.points_x_deltas_cm, control.points_y_deltas_cm, control.points_z_deltas_cm, control.geo_frame
            )

            # parts are the faces of a light and the lights of a crosswalk
            kind = control.WhichOneof("Type") or ""
            parts: Iterable[GlobalId] = ()
            if kind == LIGHT:
                parts = control.traffic_light.face_states
            elif kind == CROSSWALK:
                parts = control.pedestrian_crosswalk.traffic_lights
            part_ids = tuple(map(semantic_map.id_as_str, parts))
            is_closed = control.geometry_type == TrafficControlElement.POLYGON or kind == CROSSWALK
            controls[element_id] = ExchangedControl(element_id, kind, points_m, part_ids, is_closed)

        # content that the records cannot represent, one sentence each
        kinds = Counter(element.element.WhichOneof("element") for element in elements.values())
        messages = [element.element.lane for element in elements.values() if element.element.HasField("lane")]
        dividers = sum(bool(lane.left_boundary.divider_type or lane.right_boundary.divider_type) for lane in messages)
        parked = sum(lane.can_have_parked_cars for lane in messages)
        left_out = (
            *counted(len(semantic_map) - len(elements), "element", "with an id that a later one has, left out"),
            *counted(kinds["lane"] - len(lanes), "lane", "without geometry, left out"),
            *counted(kinds["segment"], "segment", "kept as the limits of their lanes only"),
            *counted(kinds["node"], "node", "of roads, left out"),
            *counted(kinds["segment_sequence"], "forbidden or mandatory sequence", "of segments, left out"),
            *counted(kinds["annotated_shape"], "shape", "such as buildings and parks, left out"),
            *counted(dividers, "lane", "with painted types of lines, which are written by where one may change lanes"),
            *counted(parked, "lane", "in which cars may park, of which nothing is written"),
        )
        return cls(
            name="l5kit",
            lanes=lanes,
            controls=controls,
            world_to_ecef=np.asarray(np.linalg.inv(semantic_map.ecef_to_world), np.float64),
            left_out=left_out,
        )

    @property
    def faces_of_lights(self) -> set[str]:
        """Ids of the faces that belong to lights."""
        return {face for control in self.controls.values() if control.kind == LIGHT for face in control.parts}

    @property
    def num_lights(self) -> int:
        """Number of traffic lights, including faces without a light."""
        of_lights, controls = self.faces_of_lights, self.controls.values()
        return sum(each.kind == LIGHT or (each.is_face and each.control_id not in of_lights) for each in controls)

    @property
    def not_written(self) -> list[str]:
        """Content that no format can represent, and dangling ids, one sentence each."""
        nowhere = sum(ahead not in self.lanes for lane in self.lanes.values() for ahead in lane.ahead)
        unknown = sum(name not in self.controls for lane in self.lanes.values() for name in lane.controls)
        return [
            *self.left_out,
            *counted(nowhere, "successor", "with ids that the map does not have, left out"),
            *counted(unknown, "control", "of lanes with ids that the map does not have, left out"),
        ]


@dataclass(frozen=True)
class MapExport:
    """Result of an export of a map.

    Attributes:
        num_lanes: Number of lanes.
        num_lights: Number of traffic lights, including faces without a light.
        num_crosswalks: Number of crosswalks.
        largest_shift_m: Largest displacement of a boundary required by the format, metres.
        left_out: Content that the format cannot represent, one sentence each.
    """

    num_lanes: int
    num_lights: int
    num_crosswalks: int
    largest_shift_m: float
    left_out: tuple[str, ...]


def lane_changes(lanes: Mapping[str, ExchangedLane]) -> list[tuple[str, str]]:
    """Return pairs of lanes, the left one first, once for each direction in which a lane change is allowed."""
    pairs = []
    for name, lane in lanes.items():
        for left, right in ((lane.change_left, name), (name, lane.change_right)):
            if left is not None and right is not None and left in lanes and right in lanes:
                pairs.append((left, right))
    return pairs


def counted(count: int, singular: str, rest: str, *, plural: str = "") -> list[str]:
    """Return a sentence about some elements, in a list that is empty if there are none.

    Args:
        count: Number of elements.
        singular: Name of one of them.
        rest: Rest of the sentence.
        plural: Name of several; empty for the singular with an s.
    """
    name = singular if count == 1 else plural or f"{singular}s"
    return [f"{count:,} {name} {rest}."] if count else []


def counted_kinds(kinds: Counter[str]) -> list[str]:
    """Return a sentence for each kind of element of a file that was left out, as semantic maps do not have it."""
    return [
        sentence
        for kind, count in sorted(kinds.items())
        for sentence in counted(count, kind, "left out, as semantic maps have none")
    ]


def _lanes_of(semantic_map: MapAPI, elements: dict[str, MapElement]) -> dict[str, ExchangedLane]:
    """Return the lanes with geometry."""
    network, arrays = semantic_map.network, semantic_map.arrays
    ids = network.ids.to_list()
    lanes = {}
    for row in range(arrays.num_lanes):
        lane, limit_mps = elements[ids[row]].element.lane, float(network.speed_limits_mps[row])
        left, right = int(network.left_rows[row]), int(network.right_rows[row])
        lanes[ids[row]] = ExchangedLane(
            lane_id=ids[row],
            left_m=arrays.left_line(row),
            right_m=arrays.right_line(row),
            ahead=tuple(ids[ahead] for ahead in network.ahead_of(row).tolist()),
            change_left=ids[left] if left >= 0 else None,
            change_right=ids[right] if right >= 0 else None,
            speed_limit_mps=limit_mps if limit_mps > 0 else None,
            is_in_junction=bool(network.is_in_junction[row]),
            parent=semantic_map.id_as_str(lane.parent_segment_or_junction),
            turn=Lane.TurnType.Name(lane.turn_type_in_parent_junction),
            access=AccessRestriction.Type.Name(lane.access_restriction.type),
            controls=tuple(map(semantic_map.id_as_str, lane.traffic_controls)),
            yields_to=tuple(map(semantic_map.id_as_str, lane.yield_to_lanes)),
        )
    return lanes


def require_lanes(exchanged: ExchangedMap, format_name: str) -> None:
    """Refuse a map with nothing to write.

    Raises:
        InvalidArgumentError: It has no lane with geometry.
    """
    if not exchanged.lanes:
        raise InvalidArgumentError(
            f"semantic_map has no lane with geometry, so there is no {format_name} map to write; "
            "l5kit info shows the content of a dataset"
        )


def _parts_of(line_m: Float64Array) -> Float64Array:
    """Return the positions of the vertices of a line as fractions of its length, from 0 to 1."""
    lengths_m = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line_m, axis=0), axis=1))])
    parts: Float64Array = lengths_m / lengths_m[-1] if lengths_m[-1] > 0 else np.linspace(0.0, 1.0, len(line_m))
    return parts


def _at_parts(line_m: Float64Array, vertex_parts: Float64Array, parts: Float64Array) -> Float64Array:
    return np.stack([np.interp(parts, vertex_parts, line_m[:, axis]) for axis in range(3)], axis=1)
