"""Import of Lanelet2 maps: lanelets with neighbours and successors, speed limits, lights, signs and crosswalks."""

import os
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from l5kit.data.interop.exchanged_map import (
    CROSSWALK,
    FACE_COLORS,
    LIGHT,
    ExchangedControl,
    ExchangedLane,
    ExchangedMap,
    counted_kinds,
)
from l5kit.data.interop.lanelet2_file import ACCESS_TAG, ID_TAG, KIND_TAG, POINT_TAG, SIGN_SUBTYPES, TURN_TAG
from l5kit.data.proto.road_network_pb2 import AccessRestriction
from l5kit.readers.lanelet2_osm import OsmFile, Relation, read_osm
from l5kit.readers.reader import naming_source
from l5kit.readers.source_map import MPS_OF_KMH, MPS_OF_MPH

_ACCESS_OF_SUBTYPE: Final = {
    **dict.fromkeys(("", "road", "highway", "play_street", "emergency_lane", "exit"), "UNKNOWN"),
    "bus_lane": "ONLY_BUS",
    "bicycle_lane": "ONLY_BIKE",
}
_BUS_PARTICIPANTS: Final = frozenset(
    f"participant:vehicle:{participant}" for participant in ("bus", "emergency", "taxi")
)
_ACCESS_TYPES: Final = tuple(AccessRestriction.Type.keys())
_TURNS: Final = {"left": "LEFT", "right": "RIGHT", "straight": "THROUGH"}
_STOP_SIGNS: Final = ("de206", SIGN_SUBTYPES["stop_sign"].lower())
_YIELD_SIGNS: Final = ("de205", SIGN_SUBTYPES["yield_sign"].lower())
_MPS_OF_UNIT: Final = {
    **dict.fromkeys(("", "km/h", "kmh", "kph"), MPS_OF_KMH),
    "mph": MPS_OF_MPH,
    **dict.fromkeys(("m/s", "mps"), 1.0),
}
_SPEED: Final = re.compile(r"\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*([a-z/]*)\s*", re.IGNORECASE)
_GERMAN_LIMIT: Final = re.compile(r"de274(?:\.1)?-(\d+)", re.IGNORECASE)
_BACK: Final = "~back"


def read_lanelet2(file: str | os.PathLike[str], *, origin: tuple[float, float] | None = None) -> ExchangedMap:
    """Read a Lanelet2 map (``.osm``).

    Lanelets for vehicles, buses and bicycles become lanes. A lanelet follows another if it begins at both corners at
    which that one ends, and is adjacent to one with which it shares a boundary; the type of the boundary determines
    whether lane changes are allowed. A bidirectional lanelet becomes two lanes. Lanelets with ``turn_direction`` belong
    to junctions.

    Args:
        file: The file.
        origin: Latitude and longitude of x = y = 0 in degrees, for nodes without ``local_x`` and ``local_y``; None for
            the middle of the map.

    Raises:
        SourceDataError: It cannot be read; the message names the element.
    """
    path = Path(file)
    osm = read_osm(path, origin=origin)
    return _Reading(osm, path.name).read()


@dataclass
class _Side:
    """The boundary of a lanelet, in the direction of the lanelet."""

    way: str
    nodes: list[str]
    is_reversed: bool


@dataclass
class _Reading:
    """Converter of a file, one kind of element after the other."""

    osm: OsmFile
    name: str
    sides: dict[str, tuple[_Side, _Side]] = field(default_factory=dict)
    relation_of: dict[str, str] = field(default_factory=dict)
    lanes: dict[str, ExchangedLane] = field(default_factory=dict)
    controls: dict[str, ExchangedControl] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    used: set[str] = field(default_factory=set)

    def read(self) -> ExchangedMap:
        """Return the map."""
        for relation_id, relation in self.osm.relations.items():
            if relation.tags.get("type") == "lanelet":
                with naming_source(self.name, f"relation {relation_id}"):
                    self._take_lanelet(relation_id, relation)
        with naming_source(self.name):
            if not self.lanes:
                raise ValueError("it has no lanelet for vehicles; is it a Lanelet2 map?")
        self._connect()
        for relation_id, relation in self.osm.relations.items():
            if relation.tags.get("type") == "regulatory_element":
                with naming_source(self.name, f"relation {relation_id}"):
                    self._take_rule(relation_id, relation)
        # lights, signs and stop lines that no regulatory element refers to
        for way, (_, tags) in self.osm.ways.items():
            kind = tags.get("type", "")
            if way in self.used:
                continue
            with naming_source(self.name, f"way {way}"):
                if kind == "light_bulbs":
                    self._take_bulbs(way)
                elif kind == "traffic_light":
                    self._take_light(way, [])
                elif kind in ("traffic_sign", "stop_line") or KIND_TAG in tags:
                    self._take_sign(way)

        # Lanes of junctions have a turn direction. If no lane has one, junctions are unknown, unless l5kit wrote the
        # file.
        tags_of = {name: self.osm.relations[self.relation_of[name]].tags for name in self.lanes}
        if any("turn_direction" in tags or ID_TAG in tags for tags in tags_of.values()):
            for name, tags in tags_of.items():
                direction = tags.get("turn_direction")
                turn = tags.get(TURN_TAG) or _TURNS.get(direction or "", "")
                self.lanes[name] = replace(self.lanes[name], is_in_junction=direction is not None, turn=turn)
        left_out = counted_kinds(self.left_out)
        return ExchangedMap(
            Path(self.name).stem, self.lanes, self.controls, self.osm.world_to_ecef, (*self.osm.remarks, *left_out)
        )

    def _take_lanelet(self, relation_id: str, relation: Relation) -> None:
        """Add a lane or a crosswalk."""
        sides = [relation.members_of("way", side) for side in ("left", "right")]
        if any(len(ways) != 1 for ways in sides):
            raise ValueError(
                f"a lanelet must have one left and one right way, got {len(sides[0])} and {len(sides[1])}; join or add "
                "them in the editor of the map"
            )
        (left,), (right,) = sides
        lane_id = relation.tags.get(ID_TAG, relation_id)
        if relation.tags.get("subtype") == "crosswalk":
            # Its corners run along the left side and back along the right one; a shared end node counts once.
            crosswalk_id = relation.tags.get(ID_TAG, f"crosswalk-{relation_id}")
            left_side, right_side = self._aligned(left, right)
            nodes = [*left_side.nodes, *right_side.nodes[::-1]]
            corners_m = self.osm.points_m([node for row, node in enumerate(nodes) if node != nodes[row - 1]])
            self._add_control(ExchangedControl(crosswalk_id, CROSSWALK, corners_m, is_closed=True))
            self.relation_of[crosswalk_id] = relation_id
            return
        # The access, as the name of an AccessRestriction.Type. Participants take precedence over the subtype: a lanelet
        # for buses only is a bus lane, one for bicycles without pedestrians a bicycle lane.
        tags = relation.tags
        named = {key for key, value in tags.items() if key.startswith("participant:") and value in ("yes", "true")}
        vehicles = {participant for participant in named if participant.startswith("participant:vehicle")}
        if tags.get(ACCESS_TAG) in _ACCESS_TYPES:
            access: str | None = tags[ACCESS_TAG]
        elif not named:
            access = _ACCESS_OF_SUBTYPE.get(tags.get("subtype", ""))
        elif vehicles:
            access = "ONLY_BUS" if vehicles <= _BUS_PARTICIPANTS else "UNKNOWN"
        else:
            is_for_bikes = "participant:bicycle" in named and "participant:pedestrian" not in named
            access = "ONLY_BIKE" if is_for_bikes else None
        if access is None:  # not for vehicles
            self.left_out[f"lanelet of subtype {relation.tags.get('subtype', '')!r:.40}"] += 1
            return
        # A bidirectional lanelet also becomes a lane in the opposite direction, with its sides swapped.
        both = self._aligned(left, right)
        self._add_lane(lane_id, relation_id, both, access)
        if relation.tags.get("one_way:vehicle", relation.tags.get("one_way", "yes")) in ("no", "false"):
            back = [_Side(side.way, side.nodes[::-1], not side.is_reversed) for side in both[::-1]]
            self._add_lane(lane_id + _BACK, relation_id, (back[0], back[1]), access)

    def _add_lane(self, lane_id: str, relation_id: str, sides: tuple[_Side, _Side], access: str) -> None:
        if lane_id in self.lanes:
            raise ValueError(f"the id {lane_id!r} is also used by another lanelet; change {ID_TAG} of one of them")
        tags = self.osm.relations[relation_id].tags
        limit = tags.get("speed_limit:vehicle", tags.get("speed_limit"))
        self.sides[lane_id], self.relation_of[lane_id] = sides, relation_id
        self.lanes[lane_id] = ExchangedLane(
            lane_id,
            self.osm.points_m(sides[0].nodes),
            self.osm.points_m(sides[1].nodes),
            speed_limit_mps=None if limit is None else _speed_mps(limit),
            access=access,
        )

    def _aligned(self, left: str, right: str) -> tuple[_Side, _Side]:
        """Return the sides of a lanelet in its direction, defined by the left side being on the left."""
        # The two ways may run in opposite directions, which shows in the distances of their ends.
        sides = [self.osm.nodes_of(left), self.osm.nodes_of(right)]
        left_m, right_m = (self.osm.points_m(nodes)[:, :2] for nodes in sides)
        along_m = np.linalg.norm(left_m[[0, -1]] - right_m[[0, -1]], axis=1).sum()
        against_m = np.linalg.norm(left_m[[0, -1]] - right_m[[-1, 0]], axis=1).sum()
        is_right_reversed = bool(against_m < along_m)

        # Going along the left side and back along the right one is clockwise. If the signed area of the outline
        # (shoelace formula) is positive, the lanelet runs the other way. The area is taken relative to the first
        # corner, as products of world coordinates lose digits.
        outline = np.concatenate([left_m, right_m if is_right_reversed else right_m[::-1]])
        outline = outline - outline[0]
        x, y = outline.T
        is_reversed = float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) > 0
        is_turned = (is_reversed, is_reversed != is_right_reversed)
        return tuple(  # type: ignore[return-value]
            _Side(way, nodes[::-1] if turned else nodes, turned)
            for way, nodes, turned in zip((left, right), sides, is_turned, strict=True)
        )

    def _connect(self) -> None:
        """Set the successors of each lane, and the allowed lane changes."""
        # A lane follows another that ends at the two nodes where it starts. It is adjacent to one that has the same
        # line as its opposite side, in the same direction.
        starting, left_of, right_of = defaultdict(list), {}, {}
        for lane_id, (left, right) in self.sides.items():
            starting[left.nodes[0], right.nodes[0]].append(lane_id)
            left_of[right.way, right.is_reversed] = lane_id  # the lane to the left of a line
            right_of[left.way, left.is_reversed] = lane_id
        for lane_id, (left, right) in self.sides.items():
            to_left, to_right = self._may_change(left)[0], self._may_change(right)[1]
            self.lanes[lane_id] = replace(
                self.lanes[lane_id],
                ahead=tuple(starting.get((left.nodes[-1], right.nodes[-1]), ())),
                change_left=left_of.get((left.way, left.is_reversed)) if to_left else None,
                change_right=right_of.get((right.way, right.is_reversed)) if to_right else None,
            )

    def _may_change(self, side: _Side) -> tuple[bool, bool]:
        """Return whether lane changes across a boundary are allowed to the left and to the right, seen along it."""
        # Tags of lane changes take precedence over the line type. If the side runs against its way, left and right of
        # the way are swapped.
        tags = self.osm.ways[side.way][1]
        if "lane_change" in tags:
            may = tags["lane_change"] in ("yes", "true")
            return may, may
        subtype = tags.get("subtype", "")
        to_left, to_right = subtype in ("dashed", "solid_dashed"), subtype in ("dashed", "dashed_solid")
        if tags.get("type") not in ("line_thin", "line_thick"):
            to_left = to_right = False
        if "lane_change:left" in tags or "lane_change:right" in tags:
            to_left, to_right = (tags.get(f"lane_change:{each}") in ("yes", "true") for each in ("left", "right"))
        return (to_right, to_left) if side.is_reversed else (to_left, to_right)

    @cached_property
    def _lanes_of_rule(self) -> dict[str, list[str]]:
        """Lanes and crosswalks that refer to each regulatory element."""
        of_relation = defaultdict(list)
        for lane_id, relation_id in self.relation_of.items():
            of_relation[relation_id].append(lane_id)
        users: dict[str, list[str]] = defaultdict(list)
        for relation_id, names in of_relation.items():
            for rule in self.osm.relations[relation_id].members_of("relation", "regulatory_element"):
                users[rule] += names
        return users

    def _take_rule(self, rule_id: str, rule: Relation) -> None:
        """Apply a regulatory element to the lanes and crosswalks that refer to it."""
        subtype = rule.tags.get("subtype", "")
        users = self._lanes_of_rule.get(rule_id, [])
        if subtype == "speed_limit":
            # The limit is given by the rule, possibly as a German sign code, or by such a sign. It applies to lanes
            # without a limit of their own.
            signs = [self._tags_of(way).get("subtype", "") for way in rule.members_of("way", "refers")]
            german = next((match for sign in signs if (match := _GERMAN_LIMIT.fullmatch(sign))), None)
            text = rule.tags.get("sign_type", f"{german.group(1)} km/h" if german else "")
            if not text:
                self.left_out["speed limit of an unknown sign"] += 1
                return
            number = _GERMAN_LIMIT.fullmatch(text)
            limit_mps = _speed_mps(number.group(1) if number else text)
            for name in users:
                if name in self.lanes and self.lanes[name].speed_limit_mps is None:
                    self.lanes[name] = replace(self.lanes[name], speed_limit_mps=limit_mps)
        elif subtype == "right_of_way":
            first = tuple(self._lanes_named(rule, "right_of_way"))
            for name in self._lanes_named(rule, "yield"):
                known = self.lanes[name].yields_to
                self.lanes[name] = replace(self.lanes[name], yields_to=tuple(dict.fromkeys((*known, *first))))
        elif subtype in ("traffic_light", "traffic_sign"):
            names: list[str] = []
            bulbs = rule.members_of("way", "light_bulbs")
            for way in rule.members_of("way", "refers"):
                if self._tags_of(way).get("type") == "light_bulbs":
                    names += self._take_bulbs(way)
                elif subtype == "traffic_light":
                    names += self._take_light(way, bulbs)
                else:
                    names += self._take_sign(way)
            for way in rule.members_of("way", "ref_line"):
                names += self._take_sign(way)
            # all of these control the lanes, but only the lights control crosswalks
            for user in users:
                if user in self.lanes:
                    known_names = self.lanes[user].controls
                    self.lanes[user] = replace(self.lanes[user], controls=tuple(dict.fromkeys((*known_names, *names))))
                else:
                    lights = [name for name in names if self.controls[name].kind == LIGHT]
                    parts = tuple(dict.fromkeys((*self.controls[user].parts, *lights)))
                    self.controls[user] = replace(self.controls[user], parts=parts)
        else:
            self.left_out[f"regulatory element of subtype {subtype!r:.40}"] += 1

    def _take_light(self, way: str, bulbs: list[str]) -> list[str]:
        """Add a light with its faces, and return its id and those of the faces that a rule refers to."""
        tags, points_m = self._tags_of(way), self.osm.points_m(self.osm.nodes_of(way))
        light_id = tags.get(ID_TAG, f"light-{way}")
        middle_m = points_m[[0, -1]].mean(axis=0, keepdims=True)
        # Bulbs belong to the light if they refer to it or to no light. A light without bulbs gets faces at its
        # position, in the colours of its subtype, or in all colours.
        own = [each for each in bulbs if self._tags_of(each).get("traffic_light_id", way) == way]
        faces = [face for each in own for face in self._take_bulbs(each)]
        if not faces and ID_TAG not in tags:
            colors = [color for color in FACE_COLORS if color in tags.get("subtype", "").split("_")] or FACE_COLORS
            faces = [f"{light_id}-{color}" for color in colors]
            for face, color in zip(faces, colors, strict=True):
                self._add_control(ExchangedControl(face, f"signal_{color}_face", middle_m))
        known = self.controls.get(light_id)
        parts = (*(known.parts if known else ()), *faces)
        self._add_control(ExchangedControl(light_id, LIGHT, middle_m, tuple(dict.fromkeys(parts))), may_replace=True)
        return [light_id, *faces]

    def _take_bulbs(self, way: str) -> list[str]:
        """Add the faces of a line of bulbs, and return their ids; bulbs without a colour are skipped."""
        self.used.add(way)
        faces = []
        for node in self.osm.way(way)[0]:
            tags = self.osm.node_tags.get(node, {})
            kind, color, arrow = tags.get(KIND_TAG), tags.get("color", ""), tags.get("arrow", "")
            if not kind and color not in FACE_COLORS:
                continue
            if not kind and arrow in ("left", "right", "upper_left", "upper_right", "up_left", "up_right"):
                kind = f"signal_{arrow.replace('up_', 'upper_')}_arrow_{color}_face"
            kind = kind or (f"signal_{color}_u_turn" if arrow == "u_turn" else f"signal_{color}_face")
            face = tags.get(ID_TAG, f"bulb-{node}")
            faces.append(face)
            self._add_control(ExchangedControl(face, kind, self.osm.points_m([node])), may_replace=True)
        return faces

    def _take_sign(self, way: str) -> list[str]:
        """Add a sign or a road line, and return its id; an unknown kind is skipped."""
        tags, points_m = self._tags_of(way), self.osm.points_m(self.osm.nodes_of(way))
        kind, subtype = tags.get(KIND_TAG, ""), tags.get("subtype", "")
        if not kind and tags.get("type") == "stop_line":
            kind = "stop_line"
        elif not kind and subtype.lower() in (*_STOP_SIGNS, *_YIELD_SIGNS):
            kind = "stop_sign" if subtype.lower() in _STOP_SIGNS else "yield_sign"
        if not kind:
            self.left_out[f"sign of subtype {subtype!r:.40}"] += 1
            return []
        # in files of other tools a sign is a line as wide as the sign, reduced to its middle here
        is_closed = tags.get("area") == "yes"
        is_point = POINT_TAG in tags or (kind.endswith("_sign") and KIND_TAG not in tags)
        at_m = points_m[[0, -1]].mean(axis=0, keepdims=True) if is_point else points_m
        name = tags.get(ID_TAG, f"{kind}-{way}")
        self._add_control(ExchangedControl(name, kind, at_m, is_closed=is_closed), may_replace=True)
        return [name]

    def _lanes_named(self, rule: Relation, role: str) -> list[str]:
        """Return the lanes that a rule refers to with a role."""
        relations = set(rule.members_of("relation", role))
        return [name for name, relation in self.relation_of.items() if relation in relations and name in self.lanes]

    def _tags_of(self, way: str) -> dict[str, str]:
        self.used.add(way)
        return self.osm.way(way)[1]

    def _add_control(self, control: ExchangedControl, *, may_replace: bool = False) -> None:
        known = self.controls.get(control.control_id)
        if known is not None and not (may_replace and known.kind == control.kind):
            raise ValueError(f"the id {control.control_id!r} is also used by another element; change one of them")
        self.controls[control.control_id] = control


def _speed_mps(text: str) -> float:
    """Parse a speed with its unit, km/h by default, and return it in metres per second."""
    match = _SPEED.fullmatch(text)
    factor = _MPS_OF_UNIT.get(match.group(2).lower()) if match else None
    if match is None or factor is None or not 0 < float(match.group(1)) * factor < 200:
        raise ValueError(
            f"speed_limit must be above 0 and below 200 m/s, such as '50 km/h' or '30 mph', got {text!r:.40}"
        )
    return float(match.group(1)) * factor
