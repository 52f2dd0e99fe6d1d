"""Export of a semantic map as a Lanelet2 map: an OSM file of points, lines, lanelets and regulatory elements."""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from pymap3d.ecef import ecef2geodetic

from l5kit._files import replaced_when_complete
from l5kit._types import Float64Array, Int64Array
from l5kit.data.interop.exchanged_map import (
    CROSSWALK,
    FACE_COLORS,
    LIGHT,
    ExchangedControl,
    ExchangedLane,
    ExchangedMap,
    MapExport,
    counted,
    lane_changes,
    require_lanes,
)
from l5kit.data.interop.lanelet2_sharing import LEFT, RIGHT, SharedLines
from l5kit.data.interop.xml_text import quoted
from l5kit.data.jobs.owned_outputs import require_absent, require_own_file
from l5kit.data.map.api import MapAPI

ID_TAG: Final = "l5kit:id"
"""Tag with the id in l5kit, which is text, whereas OSM ids are numbers."""

KIND_TAG: Final = "l5kit:kind"
"""Tag with the kind of a traffic control in the semantic map."""

POINT_TAG: Final = "l5kit:point"
"""Tag of lines that represent a point, their midpoint."""

ACCESS_TAG: Final = "l5kit:access"
TURN_TAG: Final = "l5kit:turn"

SIGN_SUBTYPES: Final = {"stop_sign": "usR1-1", "yield_sign": "usR1-2"}
"""Subtypes of traffic signs; other kinds use their own names."""

_PARTICIPANTS: Final = {
    "ONLY_BUS": ("bus_lane", "participant:vehicle:bus"),
    "ONLY_BIKE": ("bicycle_lane", "participant:bicycle"),
}
_VIRTUAL: Final = {"type": "virtual"}
_USUAL: Final = ("road", "participant:vehicle")
_ARROWS: Final = ("upper_left_arrow", "upper_right_arrow", "left_arrow", "right_arrow", "u_turn")
_KMH_OF_MPS: Final = 3.6
_HALF_WIDTH_M: Final = np.array([0.15, 0.0, 0.0])
"""Half of the line by which Lanelet2 represents a light or sign that is a point in the semantic map."""

_Tags: TypeAlias = Mapping[str, str | int]
"""Tags of an element; an integer is the index of a way, replaced by its id when the file is written."""

_Nodes: TypeAlias = Sequence[int] | Int64Array

_Member: TypeAlias = tuple[str, int, str]
"""Type, index and role of a member of a relation."""


def export_lanelet2(
    semantic_map: MapAPI, path: str | os.PathLike[str], *, centre_lines: bool = True, overwrite: bool = False
) -> MapExport:
    """Write a semantic map as a Lanelet2 map (``.osm``).

    Nodes have latitude and longitude, and world coordinates as ``local_x``, ``local_y`` and ``ele``, as in maps of
    Autoware. Consecutive lanes share corners, and lanes connected by lane changes share a boundary.

    Args:
        semantic_map: The map.
        path: The file; it appears when it is complete.
        centre_lines: Also write centre lines, halfway between the boundaries.
        overwrite: Replace a file that l5kit has written.

    Returns:
        Counts of written elements, and a list of what the format cannot represent.

    Raises:
        FileExistsError: The file exists, and ``overwrite`` is False.
        InvalidArgumentError: The map has no lane with geometry, or the file was not written by l5kit.
        UnsupportedValueError: An id has a character that is not allowed in XML.
    """
    target = Path(path)
    require_absent(target, overwrite=overwrite)
    require_own_file(target, argument="path")
    exchanged = ExchangedMap.of_map(semantic_map)
    require_lanes(exchanged, "Lanelet2")
    writer = _Writer(exchanged, SharedLines.of_lanes(exchanged.lanes))
    writer.add_lanes(centre_lines=centre_lines)
    writer.add_controls()
    writer.add_rules()
    with replaced_when_complete(target, argument="path") as temporary:
        temporary.write_text(writer.text(), "utf-8", newline="\n")
    return writer.result()


@dataclass
class _Writer:
    """Collects the content of the file; nodes, ways and relations are numbered from 0 each, and get ids at the end."""

    exchanged: ExchangedMap
    shared: SharedLines
    nodes_m: list[Float64Array] = field(default_factory=list)
    node_tags: dict[int, _Tags] = field(default_factory=dict)
    ways: list[tuple[_Nodes, _Tags]] = field(default_factory=list)
    relations: list[tuple[list[_Member], _Tags]] = field(default_factory=list)
    lanelets: dict[str, int] = field(default_factory=dict)
    num_nodes: int = 0

    def add_lanes(self, *, centre_lines: bool) -> None:
        """Add the boundaries of all lanes, and a lanelet for each lane."""
        self._add_nodes(self.shared.nodes_m)
        tags_of = _line_tags(self.exchanged.lanes, self.shared)
        for line, nodes in enumerate(self.shared.lines):  # added first: way indices equal line indices
            self._add_way(nodes, tags_of[line])
        for name, lane in self.exchanged.lanes.items():
            members = [("way", self.shared.line_of[name, side][0], role) for side, role in enumerate(("left", "right"))]
            if centre_lines:
                members.append(("way", self._add_way(self._add_nodes(lane.centre_m), _VIRTUAL), "centerline"))

            subtype, participant = _PARTICIPANTS.get(lane.access, _USUAL)
            tags: dict[str, str | int] = {"type": "lanelet", "subtype": subtype, "location": "urban", "one_way": "yes"}
            tags |= {participant: "yes", ID_TAG: lane.lane_id}
            if lane.access not in ("UNKNOWN", *_PARTICIPANTS):
                tags[ACCESS_TAG] = lane.access
            if lane.speed_limit_mps is not None:
                tags["speed_limit"] = _kmh(lane.speed_limit_mps)

            # Lanelet2 has three turn directions, only in junctions; our own tag keeps the turn of the semantic map
            if lane.is_in_junction:
                side = lane.turn.rpartition("_")[2].lower()
                turn = "left" if lane.turn == "U_TURN" else "straight"
                tags["turn_direction"] = side if side in ("left", "right") else turn
            if lane.is_in_junction or lane.turn not in ("", "THROUGH"):
                tags[TURN_TAG] = lane.turn
            self.lanelets[name] = self._add_relation(members, tags)

    def add_controls(self) -> None:
        """Add crosswalks, lights with their bulbs, signs and all other controls, and the rules that refer to them."""
        controls = self.exchanged.controls
        way_of = {
            name: self._add_control(control, self._points_of(name))
            for name, control in controls.items()
            if not control.is_face and control.kind != CROSSWALK and len(self._points_of(name))
        }
        users = [(self.lanelets[name], lane.controls) for name, lane in self.exchanged.lanes.items()]
        for name, control in controls.items():
            if control.kind == CROSSWALK and len(control.points_m) > 2:
                self.lanelets[name] = self._add_crosswalk(control)
                users.append((self.lanelets[name], control.parts))

        # There is a rule for each light together with the faces that a lane lists, shared by all lanes that list the
        # same; likewise for each face without its light, and for each sign or stop line.
        lanelets_of: dict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(list)
        for name, control in controls.items():
            if control.kind == LIGHT:
                lanelets_of[name, tuple(face for face in control.parts if face in controls)] = []
        for lanelet, names in users:
            known = [name for name in dict.fromkeys(names) if name in controls and controls[name].kind != CROSSWALK]
            lights = [name for name in known if controls[name].kind == LIGHT]
            of_lights = {face for light in lights for face in controls[light].parts}
            for name in known:
                if name not in of_lights:
                    faces = tuple(face for face in controls[name].parts if face in known)
                    lanelets_of[name, faces].append(lanelet)
        for (name, faces), lanelets in lanelets_of.items():
            control, way = controls[name], way_of.get(name)
            if control.is_face:
                members = [("way", self._add_bulbs([name], None), "refers")]
            elif way is not None:
                members = [("way", way, "refers")]
            else:  # a control without points cannot be referred to
                continue
            if faces:
                members.append(("way", self._add_bulbs(list(faces), way), "light_bulbs"))
            kind = "traffic_light" if control.kind == LIGHT or control.is_face else "traffic_sign"
            self._use_rule(lanelets, self._add_relation(members, _rule(kind)))
        named = {name for name, _ in lanelets_of} | {face for _, faces in lanelets_of for face in faces}
        for name, control in controls.items():
            if control.is_face and name not in named:
                self._add_bulbs([name], None)

    def add_rules(self) -> None:
        """Add speed limits, one rule per limit, and right-of-way rules."""
        lanelets_of: dict[float, list[int]] = defaultdict(list)
        for name, lane in self.exchanged.lanes.items():
            if lane.speed_limit_mps is not None:
                lanelets_of[lane.speed_limit_mps].append(self.lanelets[name])
        for limit_mps, lanelets in lanelets_of.items():
            sign = f"{_kmh(limit_mps)} km/h"
            self._use_rule(lanelets, self._add_relation([], _rule("speed_limit") | {"sign_type": sign}))
        for name, lane in self.exchanged.lanes.items():
            first = [self.lanelets[other] for other in lane.yields_to if other in self.exchanged.lanes]
            if first:
                members = [("relation", self.lanelets[name], "yield")]
                members += [("relation", other, "right_of_way") for other in first]
                self._use_rule([self.lanelets[name], *first], self._add_relation(members, _rule("right_of_way")))

    def text(self) -> str:
        """Return the content of the file."""
        points_m, world_to_ecef = np.concatenate(self.nodes_m), self.exchanged.world_to_ecef
        geodetic = np.zeros((len(points_m), 2))
        if world_to_ecef is not None:
            ecef_m = points_m @ world_to_ecef[:3, :3].T + world_to_ecef[:3, 3]
            geodetic = np.stack(ecef2geodetic(*ecef_m.T)[:2], axis=1)
        if not np.isfinite(geodetic).all():  # worlds without a geographic position are at the earth's centre
            geodetic = np.zeros_like(geodetic)
        first_way, first_relation = 1 + self.num_nodes, 1 + self.num_nodes + len(self.ways)
        first_of = {"node": 1, "way": first_way, "relation": first_relation}

        def tags(values: _Tags) -> str:
            return "".join(
                [
                    f"<tag k='{key}' v={quoted(str(first_way + value) if isinstance(value, int) else value)}/>"
                    for key, value in values.items()
                ]
            )

        lines = ["<?xml version='1.0' encoding='UTF-8'?>", "<osm version='0.6' generator='l5kit'>"]
        for number, ((latitude, longitude), (x, y, z)) in enumerate(
            zip(geodetic.tolist(), points_m.tolist(), strict=True)
        ):
            lines.append(
                f"<node id='{1 + number}' version='1' lat='{latitude:.11f}' lon='{longitude:.11f}'>"
                f"<tag k='ele' v='{z:.4f}'/><tag k='local_x' v='{x:.4f}'/><tag k='local_y' v='{y:.4f}'/>"
                f"{tags(self.node_tags[number]) if number in self.node_tags else ''}</node>"
            )
        for number, (nodes, values) in enumerate(self.ways):
            refs = "".join([f"<nd ref='{1 + node}'/>" for node in np.asarray(nodes).tolist()])
            lines.append(f"<way id='{first_way + number}' version='1'>{refs}{tags(values)}</way>")
        for number, (members, values) in enumerate(self.relations):
            refs = "".join(
                f"<member type='{kind}' ref='{first_of[kind] + ref}' role='{role}'/>" for kind, ref, role in members
            )
            lines.append(f"<relation id='{first_relation + number}' version='1'>{refs}{tags(values)}</relation>")
        return "\n".join([*lines, "</osm>", ""])

    def result(self) -> MapExport:
        """Return counts of the written elements, and a list of what could not be represented."""
        lanes, controls = self.exchanged.lanes, self.exchanged.controls
        followers = self.shared.followers()
        lost = sum(len(set(lane.ahead) & lanes.keys() - followers[name]) for name, lane in lanes.items())
        made_up = sum(len(followers[name] - set(lane.ahead)) for name, lane in lanes.items())
        not_beside = sum(not self.shared.are_beside(left, right) for left, right in lane_changes(lanes))
        without = sum(not len(self._points_of(name)) and not control.is_face for name, control in controls.items())
        seen = {face for control in controls.values() if len(control.points_m) for face in control.parts}
        unknown_m = sum(not len(control.points_m) for name, control in controls.items() if name not in seen) - without
        left_out = [
            *self.exchanged.not_written,
            *counted(lost, "successor", "lost, as the corners of the lanes are more than 3 cm apart"),
            *counted(made_up, "successor", "that the map does not have, as the lanes share both corners"),
            *counted(not_beside, "lane change", "lost, as the boundaries are more than 3 cm apart"),
            *counted(without, "traffic control", "without points, left out"),
            *counted(
                unknown_m, "light or face", "written where the light or the end of a lane is", plural="lights or faces"
            ),
        ]
        num_crosswalks = len(self.lanelets) - len(lanes)
        num_lights, shift_m = self.exchanged.num_lights, self.shared.largest_shift_m
        return MapExport(len(lanes), num_lights, num_crosswalks, shift_m, tuple(left_out))

    @cached_property
    def _lane_of_control(self) -> dict[str, ExchangedLane]:
        """The first lane that lists each control."""
        lanes: dict[str, ExchangedLane] = {}
        for lane in self.exchanged.lanes.values():
            for name in lane.controls:
                lanes.setdefault(name, lane)
        return lanes

    def _points_of(self, control_id: str) -> Float64Array:
        """Return the points of a control; without any, the end of the first lane that lists it, if there is one."""
        points_m = self.exchanged.controls[control_id].points_m
        lane = self._lane_of_control.get(control_id)
        return points_m if len(points_m) or lane is None else lane.centre_m[-1:]

    def _add_control(self, control: ExchangedControl, points_m: Float64Array) -> int:
        """Add the line of a light, a sign, a stop line or another control, and return its index."""
        is_point = len(points_m) == 1
        ends_m = points_m[0] + np.stack([-_HALF_WIDTH_M, _HALF_WIDTH_M]) if is_point else points_m
        tags: dict[str, str | int] = {"type": control.kind}
        if control.kind == LIGHT:
            tags = {"type": "traffic_light", "subtype": "red_yellow_green"}
        elif control.kind.endswith("_sign"):
            tags = {"type": "traffic_sign", "subtype": SIGN_SUBTYPES.get(control.kind, control.kind)}
        tags |= {ID_TAG: control.control_id, KIND_TAG: control.kind}
        if is_point:
            tags[POINT_TAG] = "yes"
        if control.is_closed:
            tags["area"] = "yes"
        return self._add_way(self._add_nodes(ends_m), tags)

    def _add_crosswalk(self, control: ExchangedControl) -> int:
        """Add a pedestrian lanelet whose boundaries are the longer sides of the crosswalk."""
        corners_m = control.points_m
        sides_m = np.linalg.norm(np.roll(corners_m, -1, axis=0) - corners_m, axis=1)
        # rotate the corners so that the first and third side, which become the boundaries, are the longer ones
        if len(corners_m) == 4 and sides_m[0] + sides_m[2] < sides_m[1] + sides_m[3]:
            corners_m = np.roll(corners_m, -1, axis=0)
        nodes = self._add_nodes(corners_m)
        half = (len(nodes) + 1) // 2
        first, second = nodes[:half], (nodes[half:][::-1] if len(nodes) > 3 else [nodes[0], nodes[2]])
        # twice the signed area: if corners are clockwise, the area is to the right of the first side
        x, y = corners_m[:, 0], corners_m[:, 1]
        is_clockwise = float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) < 0
        sides = (first, second) if is_clockwise else (second, first)
        members = [
            ("way", self._add_way(side, {"type": "pedestrian_marking"}), role)
            for side, role in zip(sides, ("left", "right"), strict=True)
        ]
        tags = {"type": "lanelet", "subtype": "crosswalk", "location": "urban", "participant:pedestrian": "yes"}
        return self._add_relation(members, tags | {"one_way": "no", ID_TAG: control.control_id})

    def _add_bulbs(self, faces: list[str], light: int | None) -> int:
        """Add the bulbs of a light at their positions or at the light, and return the index of their line."""
        controls = self.exchanged.controls
        points_m = [self._points_of(face)[:1] for face in faces]
        # a bulb without a point takes that of another bulb, else the middle of the light's line, else the origin
        known_m = next((point_m for point_m in points_m if len(point_m)), None)
        if known_m is None:
            ends_m = np.zeros((1, 3)) if light is None else np.concatenate(self.nodes_m)[list(self.ways[light][0])]
            known_m = ends_m.mean(axis=0, keepdims=True)
        points_m = [point_m if len(point_m) else known_m for point_m in points_m]

        # the kind encodes colour and arrow of a bulb; arrow names that contain another one are tried first
        bulb_tags = []
        for face in faces:
            kind = controls[face].kind
            of_bulb: dict[str, str | int] = {ID_TAG: controls[face].control_id, KIND_TAG: kind}
            color = next((color for color in FACE_COLORS if color in kind.split("_")), None)
            arrow = next((arrow for arrow in _ARROWS if arrow in kind), None)
            if color:
                of_bulb["color"] = color
            if arrow:
                of_bulb["arrow"] = arrow.removesuffix("_arrow")
            bulb_tags.append(of_bulb)
        nodes = self._add_nodes(np.concatenate(points_m), bulb_tags)
        tags: dict[str, str | int] = {"type": "light_bulbs"}
        return self._add_way(nodes, tags if light is None else tags | {"traffic_light_id": light})

    def _use_rule(self, lanelets: Iterable[int], rule: int) -> None:
        for lanelet in lanelets:
            self.relations[lanelet][0].append(("relation", rule, "regulatory_element"))

    def _add_nodes(self, points_m: Float64Array, tags: Sequence[_Tags] = ()) -> range:
        first = self.num_nodes
        self.nodes_m.append(points_m)
        self.num_nodes += len(points_m)
        self.node_tags.update(enumerate(tags, first))
        return range(first, self.num_nodes)

    def _add_way(self, nodes: _Nodes, tags: _Tags) -> int:
        self.ways.append((nodes, tags))
        return len(self.ways) - 1

    def _add_relation(self, members: list[_Member], tags: _Tags) -> int:
        self.relations.append((members, tags))
        return len(self.relations) - 1


def _line_tags(lanes: Mapping[str, ExchangedLane], shared: SharedLines) -> list[dict[str, str | int]]:
    """Return the tags of each boundary, by the lane changes allowed across it and whether it is in a junction."""
    outside = {line for (name, _), (line, _) in shared.line_of.items() if not lanes[name].is_in_junction}
    # a line that runs against its lane swaps the sides: a change to the left for the lane crosses the line to the right
    to_left: set[int] = set()
    to_right: set[int] = set()
    for name, lane in lanes.items():
        for other, side in ((lane.change_left, LEFT), (lane.change_right, RIGHT)):
            line, is_reversed = shared.line_of[name, side]
            pair = (str(other), name) if side == LEFT else (name, str(other))
            if other in lanes and shared.are_beside(*pair):
                (to_left if (side == LEFT) != is_reversed else to_right).add(line)
    tags: list[dict[str, str | int]] = []
    for line in range(len(shared.lines)):
        if line in to_left or line in to_right:
            subtype = "dashed" if line in to_left & to_right else "dashed_solid" if line in to_right else "solid_dashed"
            tags.append({"type": "line_thin", "subtype": subtype})
        else:
            tags.append({"type": "line_thin", "subtype": "solid"} if line in outside else dict(_VIRTUAL))
    return tags


def _rule(subtype: str) -> dict[str, str | int]:
    return {"type": "regulatory_element", "subtype": subtype}


def _kmh(limit_mps: float) -> str:
    return f"{limit_mps * _KMH_OF_MPS:.9g}"
