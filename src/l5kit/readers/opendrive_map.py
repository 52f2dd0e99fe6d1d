"""Import of OpenDRIVE maps: lanes with limits, neighbours, successors over links and junctions, and signals."""

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.interop.exchanged_map import (
    CROSSWALK,
    FACE_COLORS,
    LIGHT,
    ExchangedControl,
    ExchangedLane,
    ExchangedMap,
    counted_kinds,
)
from l5kit.data.interop.opendrive_file import (
    CONTROLS_CODE,
    FACE_CODE,
    ID_CODE,
    KIND_CODE,
    LIGHTS_CODE,
    MADE_UP_CODE,
    POINTS_CODE,
)
from l5kit.data.interop.opendrive_roads import simplified_rows
from l5kit.data.map.builder import world_at
from l5kit.readers.opendrive_curves import Polynomials, ReferenceLine, number_of
from l5kit.readers.reader import naming_source
from l5kit.readers.source_bounds import FURTHEST_M
from l5kit.readers.source_map import MPS_OF_KMH, MPS_OF_MPH
from l5kit.readers.xml_source import XmlTarget, parse_xml, refuse_doctype

_ACCESS_OF_TYPE: Final = {
    **dict.fromkeys(
        ("driving", "entry", "exit", "onRamp", "offRamp", "connectingRamp", "slipLane", "bidirectional", "HOV", "taxi"),
        "UNKNOWN",
    ),
    "bus": "ONLY_BUS",
    "biking": "ONLY_BIKE",
}
_LIGHT_TYPES: Final = re.compile(r"10000(?:01|0[7-9]|1[0-3])")
_SIGN_KINDS: Final = {
    **dict.fromkeys(("206", "R1-1"), "stop_sign"),
    **dict.fromkeys(("205", "R1-2"), "yield_sign"),
    "294": "stop_line",
}
_MPS_OF_UNIT: Final = {"m/s": 1.0, "km/h": MPS_OF_KMH, "mph": MPS_OF_MPH}
_MOST_BYTES: Final = 1 << 28
_MOST_POINTS: Final = 20_000_000
_THINNED_M: Final = 0.003
_ORIGIN: Final = re.compile(r"\+lat_0=(-?[\d.]+).*?\+lon_0=(-?[\d.]+)|\+lon_0=(-?[\d.]+).*?\+lat_0=(-?[\d.]+)")

_Key = tuple[str, int, int]
"""A lane: id of its road, index of its section, and its id."""


def read_opendrive(file: str | os.PathLike[str], *, origin: tuple[float, float] | None = None) -> ExchangedMap:
    """Read an OpenDRIVE map (``.xodr``, versions 1.4 to 1.8).

    Lanes for vehicles, buses and bicycles become lanes, one for each section of a road. Boundaries are sampled so that
    the polylines are within 3 mm of the curves.

    Args:
        file: The file.
        origin: Latitude and longitude of x = y = 0 in degrees, instead of those of the file.

    Raises:
        SourceDataError: It cannot be read, or is larger than 256 MiB; the message names the road.
    """
    path = Path(file)
    with naming_source(path.name):
        tree: XmlTarget[Element] = _Tree()
        root = parse_xml(path, tree, most_bytes=_MOST_BYTES)
        if root.tag != "OpenDRIVE":
            raise ValueError(f"its root is {root.tag!r:.40}; is it an OpenDRIVE map?")
    return _Reading(root, path.name, origin).read()


class _Tree(TreeBuilder):
    """Tree builder that refuses a document type."""

    def doctype(self, *names: str | None) -> NoReturn:
        refuse_doctype(*names)


@dataclass(frozen=True, eq=False)
class _Road:
    """A road with the functions along its reference line."""

    element: Element
    line: ReferenceLine
    heights_m: Polynomials
    tilts_rad: Polynomials
    offsets_m: Polynomials
    section_starts_m: tuple[float, ...]
    is_left_hand: bool

    @property
    def last_section(self) -> int:
        """Index of the last section."""
        return len(self.section_starts_m) - 1

    def points_m(
        self, arcs_m: Float64Array, sideways_m: Float64Array, up_m: Float64Array | float = 0.0
    ) -> Float64Array:
        """Return world coordinates of points at offsets to the left of the reference line, (S, 3)."""
        points_m, headings_rad = self.line.at(arcs_m)
        tilts_rad = self.tilts_rad.at(arcs_m)
        # The superelevation rolls the road about its reference line, which shortens lateral offsets and changes
        # heights.
        level_m = sideways_m * np.cos(tilts_rad)
        x = points_m[:, 0] - level_m * np.sin(headings_rad)
        y = points_m[:, 1] + level_m * np.cos(headings_rad)
        return np.stack([x, y, self.heights_m.at(arcs_m) + sideways_m * np.sin(tilts_rad) + up_m], axis=1)


class _Borders(NamedTuple):
    """The borders of a lane: arc lengths along the road, (n,), and the lateral offset of each border there."""

    arcs_m: Float64Array
    inner_m: Float64Array
    outer_m: Float64Array


@dataclass
class _Reading:
    """Converter of a file, one kind of element after the other."""

    root: Element
    name: str
    origin: tuple[float, float] | None
    roads: dict[str, _Road] = field(default_factory=dict)
    lanes: dict[_Key, ExchangedLane] = field(default_factory=dict)
    elements: dict[_Key, Element] = field(default_factory=dict)
    lanes_of: dict[str, list[_Key]] = field(default_factory=lambda: defaultdict(list))
    along: dict[_Key, bool] = field(default_factory=dict)
    controls: dict[str, ExchangedControl] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    signal_ids: dict[str, str] = field(default_factory=dict)
    num_points: int = 0

    def read(self) -> ExchangedMap:
        """Return the map."""
        for element in self.root.findall("road"):
            with self._naming(element):
                self._take_road(element)
        with naming_source(self.name):
            if not self.lanes:
                raise ValueError("it has no lane for vehicles; is it an OpenDRIVE map?")
            ids = Counter(lane.lane_id for lane in self.lanes.values())
            twice = next((name for name, count in ids.items() if count > 1), None)
            if twice is not None:
                raise ValueError(f"two lanes have the id {twice!r:.60} as {ID_CODE}; change one of them")
        self._connect()
        for element in self.root.findall("road"):
            with self._naming(element):
                self._take_signals(element)
        # Once all signals are known: references to signals of other roads, and controls that l5kit wrote into lanes.
        for element in self.root.findall("road"):
            with self._naming(element):
                for reference in element.findall("signals/signalReference"):
                    if reference.get("id", "") in self.signal_ids:
                        self._control(element, reference, self.signal_ids[reference.get("id", "")])
                for key in self.lanes_of[element.get("id", "")]:
                    if (text := _user_data(self.elements[key], CONTROLS_CODE)) is not None:
                        self.lanes[key] = replace(self.lanes[key], controls=tuple(map(str, json.loads(text))))
                self._take_objects(element)

        # priorities of roads in junctions
        for priority in self.root.findall("junction/priority"):
            first = [self.lanes[key].lane_id for key in self.lanes_of.get(priority.get("high", ""), ())]
            for key in self.lanes_of.get(priority.get("low", ""), ()):
                yields_to = dict.fromkeys((*self.lanes[key].yields_to, *first))
                self.lanes[key] = replace(self.lanes[key], yields_to=tuple(yields_to))
        with naming_source(self.name, "header"):
            world_to_ecef, remarks = self._georeference()
        left_out = counted_kinds(self.left_out)
        lanes = {lane.lane_id: lane for lane in self.lanes.values()}
        return ExchangedMap(Path(self.name).stem, lanes, self.controls, world_to_ecef, (*remarks, *left_out))

    def _naming(self, road: Element) -> AbstractContextManager[None]:
        return naming_source(self.name, f"road {road.get('id', '')[:40]!r}")

    def _take_road(self, element: Element) -> None:
        """Add a road with its lanes."""
        road_id, plan, lanes = element.get("id", ""), element.find("planView"), element.find("lanes")
        if plan is None or lanes is None:
            raise ValueError("a road must have a planView and lanes")
        if number_of(element, "length", 0.0) < 0:
            raise ValueError(f"the length of a road must be at least 0 m, got {element.get('length')}")
        if road_id in self.roads:
            raise ValueError("there are two roads of this id; change one of them")
        sections = sorted(lanes.findall("laneSection"), key=lambda section: number_of(section, "s"))
        if not sections:
            raise ValueError("a road must have a laneSection")
        road = _Road(
            element,
            ReferenceLine.of(plan),
            Polynomials.of(element.findall("elevationProfile/elevation"), start="s"),
            Polynomials.of(element.findall("lateralProfile/superelevation"), start="s"),
            Polynomials.of(lanes.findall("laneOffset"), start="s"),
            tuple(number_of(section, "s") for section in sections),
            element.get("rule", "RHT") == "LHT",
        )
        self.roads[road_id] = road
        for number, section in enumerate(sections):
            for side in ("left", "right"):
                self._take_side(road, (road_id, number), section, side)

    def _take_side(self, road: _Road, section_key: tuple[str, int], section: Element, side: str) -> None:
        """Add the lanes on one side of the reference line in a section, from the centre outwards."""
        road_id, number = section_key
        elements = {int(number_of(lane, "id")): lane for lane in section.findall(f"{side}/lane")}
        start_m = road.section_starts_m[number]
        end_m = road.section_starts_m[number + 1] if number < road.last_section else road.line.length_m
        if not elements or end_m - start_m < 1e-3:
            return
        widths = {}
        for lane_id, lane in elements.items():
            described = lane.findall("width")
            if not described and lane.findall("border"):
                raise ValueError(
                    f"lane {lane.get('id')} has borders and no widths; l5kit reads widths, export it with them"
                )
            widths[lane_id] = Polynomials.of(described, start="sOffset", offset_m=start_m)

        # all lanes of a side are sampled at the same arc lengths, so that neighbours share their border
        functions = [*widths.values(), road.offsets_m, road.heights_m, road.tilts_rad]
        arcs_m = road.line.sample(
            start_m,
            min(end_m, road.line.length_m),
            [function.starts_m for function in functions],
            is_linear=all(function.is_linear for function in functions),
        )
        self.num_points += 2 * len(arcs_m) * len(elements)
        if self.num_points > _MOST_POINTS:
            raise ValueError(f"the roads up to here have more than {_MOST_POINTS:,} points; cut the map")

        # each lane begins where the next inner one ends
        inner_m, sign = road.offsets_m.at(arcs_m), 1.0 if side == "left" else -1.0
        for lane_id in sorted(elements, key=abs):
            outer_m = inner_m + sign * np.maximum(widths[lane_id].at(arcs_m), 0.0)
            self._take_lane(road, (road_id, number, lane_id), elements[lane_id], _Borders(arcs_m, inner_m, outer_m))
            inner_m = outer_m

    def _take_lane(self, road: _Road, key: _Key, element: Element, borders: _Borders) -> None:
        """Add a lane between its borders."""
        kind = element.get("type", "")
        access = _ACCESS_OF_TYPE.get(kind)
        if access is None:
            self.left_out[f"lane of type {kind!r:.40}"] += 1
            return
        arcs_m, inner_m, outer_m = borders
        lines_m = [road.points_m(arcs_m, sideways_m) for sideways_m in (inner_m, outer_m)]
        if not all(np.isfinite(line).all() and np.abs(line).max() <= FURTHEST_M for line in lines_m):
            raise ValueError(f"lane {key[2]} must be finite and within {FURTHEST_M:g} m of the origin")
        if np.abs(outer_m - inner_m).max() < 0.01:
            self.left_out["lane without a width"] += 1
            return
        # With right-hand traffic, lanes right of the reference line run along it and those on the left against it; with
        # left-hand traffic the reverse. The inner border is then the left or the right one.
        is_along = (key[2] < 0) != road.is_left_hand
        # Drop points within 3 mm of the polyline through the others, as borders are sampled for the most curved
        # function of the road. Arc lengths must ascend, also over coinciding points.
        thinned_m = []
        for line_m in lines_m:
            steps_m = np.linalg.norm(np.diff(line_m[:, :2], axis=0), axis=1)
            along_m = np.concatenate([[0.0], np.cumsum(np.maximum(steps_m, 1e-9))])
            thinned_m.append(line_m[simplified_rows(along_m, line_m, _THINNED_M)])
        left_m, right_m = thinned_m[::-1] if road.is_left_hand else thinned_m
        step = 1 if is_along else -1
        self.along[key], self.elements[key] = is_along, element
        self.lanes_of[key[0]].append(key)
        self.lanes[key] = ExchangedLane(
            _user_data(element, ID_CODE) or f"{key[0]}.{key[1]}.{key[2]}",
            left_m[::step].copy(),
            right_m[::step].copy(),
            speed_limit_mps=_limit_of(road, element, road.section_starts_m[key[1]]),
            is_in_junction=road.element.get("junction", "-1") != "-1"
            and _user_data(road.element, MADE_UP_CODE) is None,
            parent=road.element.get("junction", ""),
            access=access,
        )

    def _connect(self) -> None:
        """Set the successors of each lane, and the allowed lane changes."""
        # Of two touching lanes, one follows the other if traffic leaves one and enters the other there. Contacts are
        # used in both directions, as a file may list them at one lane only.
        ahead: dict[_Key, dict[str, None]] = defaultdict(dict)
        for first, first_at_end, second, second_at_end in self._contacts():
            for (one, at_end), (other, other_at_end) in (
                ((first, first_at_end), (second, second_at_end)),
                ((second, second_at_end), (first, first_at_end)),
            ):
                if one in self.lanes and other in self.lanes:
                    leaves, enters = self.along[one] == at_end, self.along[other] != other_at_end
                    if leaves and enters:
                        ahead[one][self.lanes[other].lane_id] = None
        for key, lane in list(self.lanes.items()):
            road_id, number, lane_id = key
            outwards = 1 if lane_id > 0 else -1
            inner, outer = (road_id, number, lane_id - outwards), (road_id, number, lane_id + outwards)
            # a mark is on the outer border of its lane; ids increase to the left of the reference line
            rises, falls = ("increase", "decrease") if outwards > 0 else ("decrease", "increase")
            to_outer = outer in self.lanes and _may_cross(self.elements[key], rises)
            to_inner = inner in self.lanes and _may_cross(self.elements[inner], falls)
            left = self.lanes[inner].lane_id if to_inner else None
            right = self.lanes[outer].lane_id if to_outer else None
            if self.roads[road_id].is_left_hand:
                left, right = right, left
            self.lanes[key] = replace(lane, ahead=tuple(ahead[key]), change_left=left, change_right=right)

    def _contacts(self) -> Iterator[tuple[_Key, bool, _Key, bool]]:
        """Yield pairs of touching lanes, each with whether the contact is at the end of its section, along the road."""
        # at its ends a lane touches lanes of the adjacent sections, or of the linked roads
        for key, element in self.elements.items():
            road_id, number, _ = key
            road = self.roads[road_id]
            with self._naming(road.element):
                for tag, at_end, step in (("predecessor", False, -1), ("successor", True, 1)):
                    ids = [int(number_of(link, "id")) for link in element.findall(f"link/{tag}")]
                    if 0 <= number + step <= road.last_section:
                        yield from ((key, at_end, (road_id, number + step, lane), not at_end) for lane in ids)
                        continue
                    link = road.element.find(f"link/{tag}")
                    if link is not None and link.get("elementType", "road") == "road":
                        other, other_at_end = link.get("elementId", ""), link.get("contactPoint") == "end"
                        section = self._section_at(other, at_end=other_at_end)
                        yield from ((key, at_end, (other, section, lane), other_at_end) for lane in ids)
        for junction in self.root.findall("junction"):
            with naming_source(self.name, f"junction {junction.get('id', '')[:40]!r}"):
                for connection in junction.findall("connection"):
                    yield from self._contacts_of(junction, connection)

    def _contacts_of(self, junction: Element, connection: Element) -> Iterator[tuple[_Key, bool, _Key, bool]]:
        """Yield the lanes that touch at the start of a connection through a junction."""
        incoming = connection.get("incomingRoad", "")
        connecting = connection.get("connectingRoad", connection.get("linkedRoad", ""))
        for road_id in (incoming, connecting):
            if road_id not in self.roads:
                raise ValueError(f"a connection names the road {road_id!r:.40}, which is not in the file")
        other_at_end = connection.get("contactPoint", "start") == "end"

        # The incoming road meets the junction at the end whose link names it. If both ends do, as for a road from a
        # junction to itself, or none does, as in some files, it is the end nearer to the connecting road.
        ends = []
        for tag, at_end in (("successor", True), ("predecessor", False)):
            link = self.roads[incoming].element.find(f"link/{tag}")
            if (
                link is not None
                and link.get("elementType") == "junction"
                and link.get("elementId") == junction.get("id")
            ):
                ends.append(at_end)
        if len(ends) != 1:
            meets_m = self._end_of(connecting, at_end=other_at_end)
            gaps_m = [np.linalg.norm(self._end_of(incoming, at_end=at_end) - meets_m) for at_end in (False, True)]
            ends = [bool(np.argmin(gaps_m))]
        sections = self._section_at(incoming, at_end=ends[0]), self._section_at(connecting, at_end=other_at_end)
        for link in connection.findall("laneLink"):
            ours, theirs = int(number_of(link, "from")), int(number_of(link, "to"))
            yield (incoming, sections[0], ours), ends[0], (connecting, sections[1], theirs), other_at_end

    def _section_at(self, road_id: str, *, at_end: bool) -> int:
        return self.roads[road_id].last_section if at_end and road_id in self.roads else 0

    def _end_of(self, road_id: str, *, at_end: bool) -> Float64Array:
        line = self.roads[road_id].line
        end_m: Float64Array = line.at(np.array([line.length_m if at_end else 0.0]))[0][0]
        return end_m

    def _take_signals(self, element: Element) -> None:
        """Add lights and signs, and assign them to the lanes of their road that they are valid for."""
        road = self.roads[element.get("id", "")]
        for signal in element.findall("signals/signal"):
            signal_type = signal.get("type", "")
            of_type = LIGHT if _LIGHT_TYPES.fullmatch(signal_type) else _SIGN_KINDS.get(signal_type)
            kind = _user_data(signal, KIND_CODE) or of_type
            if kind is None:
                self.left_out[f"signal of type {signal_type!r:.40}"] += 1
                continue
            # its position is in world coordinates, or relative to the reference line
            own_id = _user_data(signal, ID_CODE)
            control_id = own_id or f"signal-{signal.get('id', '')}"
            inertial = signal.find("positionInertial")
            if inertial is not None:
                points_m = np.array([[number_of(inertial, axis) for axis in "xyz"]])
            else:
                arcs_m = np.array([number_of(signal, "s")])
                sideways_m = np.array([number_of(signal, "t")])
                points_m = road.points_m(arcs_m, sideways_m, number_of(signal, "zOffset", 0.0))
            faces = [self._add_face(json.loads(text)) for text in _all_user_data(signal, FACE_CODE)]
            # lights of other tools have no faces, and get one of each colour at their position
            if kind == LIGHT and own_id is None:
                described = [
                    [f"{control_id}-{color}", f"signal_{color}_face", points_m.tolist()] for color in FACE_COLORS
                ]
                faces = [self._add_face(each) for each in described]
            # a signal written by l5kit may be a line or an area
            is_closed = False
            points = _user_data(signal, POINTS_CODE)
            if points is not None:
                several, is_closed = json.loads(points)
                points_m = np.array(several, np.float64).reshape(-1, 3)
            self._add_control(ExchangedControl(control_id, kind, points_m, tuple(faces), bool(is_closed)))
            self.signal_ids[signal.get("id", "")] = control_id
            self._control(element, signal, control_id)

    def _control(self, element: Element, signal: Element, control_id: str) -> None:
        """Assign a signal to lanes of a section: those in its validity ranges, or else those of its direction."""
        road_id = element.get("id", "")
        road = self.roads[road_id]
        # a signal at the seam of two sections belongs to the one that ends there
        starts_m, arc_m = road.section_starts_m, number_of(signal, "s")
        section = max(int(np.searchsorted(starts_m, arc_m - 1e-6, side="right")) - 1, 0)
        ranges = [
            sorted((number_of(each, "fromLane"), number_of(each, "toLane"))) for each in signal.findall("validity")
        ]
        orientation = signal.get("orientation", "none")
        for key in self.lanes_of[road_id]:
            if key[1] != section:
                continue
            if ranges:
                is_valid = any(low <= key[2] <= high for low, high in ranges)
            else:
                is_valid = orientation not in ("+", "-") or self.along[key] == (orientation == "+")
            if is_valid:
                lane, faces = self.lanes[key], self.controls[control_id].parts
                names = dict.fromkeys((*lane.controls, control_id, *faces))
                self.lanes[key] = replace(lane, controls=tuple(names))

    def _add_face(self, described: list[object]) -> str:
        """Add a face of a light, given by id, kind and points, and return its id."""
        face, kind, points = described
        points_m = np.array(points, np.float64).reshape(-1, 3)
        self._add_control(ExchangedControl(str(face), str(kind), points_m))
        return str(face)

    def _take_objects(self, element: Element) -> None:
        """Add crosswalks."""
        road = self.roads[element.get("id", "")]
        for each in element.findall("objects/object"):
            if each.get("type", "").lower() != "crosswalk":
                self.left_out[f"object of type {each.get('type', '')!r:.40}"] += 1
                continue
            crosswalk_id = _user_data(each, ID_CODE) or f"crosswalk-{element.get('id')}-{each.get('id', '')}"
            lights = tuple(map(str, json.loads(_user_data(each, LIGHTS_CODE) or "[]")))

            # The outline is in road coordinates, or local to the object and rotated with it; without one it is a
            # rectangle of its length and width.
            arc_m, offset_m = np.array([number_of(each, "s")]), np.array([number_of(each, "t")])
            origin_m = road.points_m(arc_m, offset_m, number_of(each, "zOffset", 0.0))[0]
            heading_rad = float(road.line.at(arc_m)[1][0]) + number_of(each, "hdg", 0.0)
            cos, sin = np.cos(heading_rad), np.sin(heading_rad)
            outline = each.find("outlines/outline")
            outline = each.find("outline") if outline is None else outline
            corners = [] if outline is None else outline.findall("cornerRoad")
            if corners:
                table = np.array([[number_of(c, "s"), number_of(c, "t"), number_of(c, "dz", 0.0)] for c in corners])
                corners_m = road.points_m(table[:, 0], table[:, 1], table[:, 2])
            else:
                if outline is None:
                    sizes_m = number_of(each, "length") / 2, number_of(each, "width") / 2, 0
                    local_m = np.array([[1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0]]) * sizes_m
                else:
                    corners = outline.findall("cornerLocal")
                    local_m = np.array([[number_of(c, axis) for axis in "uvz"] for c in corners]).reshape(-1, 3)
                turned_m = local_m[:, :2] @ np.array([[cos, sin], [-sin, cos]])
                corners_m = origin_m + np.column_stack([turned_m, local_m[:, 2]])
            if len(corners_m) > 3 and np.linalg.norm(corners_m[0] - corners_m[-1]) < 1e-3:
                corners_m = corners_m[:-1]  # the first corner is repeated at the end
            if len(corners_m) < 3 or not np.isfinite(corners_m).all():
                raise ValueError(f"a crosswalk must have three corners at least, got {len(corners_m)}")
            self._add_control(ExchangedControl(crosswalk_id, CROSSWALK, corners_m, lights, True))

    def _georeference(self) -> tuple[Float64Array | None, list[str]]:
        """Return the transform from the world to ECEF if known, and remarks."""
        text = " ".join((self.root.findtext("header/geoReference") or "").split())
        match = _ORIGIN.search(text) if "+proj=tmerc" in text else None
        # the origin of the caller takes precedence; of projections only transverse Mercator is supported
        if self.origin is None and match is None:
            known = f"the projection {text!r:.80}, which is not read" if text else "no projection"
            return None, [f"The file has {known}: the world is at latitude 0, longitude 0; --origin says where it is."]
        if self.origin is not None:
            return world_at(*self.origin), []
        values = [float(group) for group in match.groups() if group is not None] if match else [0.0, 0.0]
        latitude_deg, longitude_deg = values if match and match.group(1) is not None else values[::-1]
        if not (abs(latitude_deg) <= 90 and abs(longitude_deg) <= 360):
            raise ValueError(
                f"geoReference must have lat_0 from -90 to 90 and lon_0 from -360 to 360, got {latitude_deg:g} and "
                f"{longitude_deg:g}; correct it, or name the origin (--origin)"
            )
        # the world may be rotated and translated relative to the projection
        offset = self.root.find("header/offset")
        turn = np.eye(4)
        if offset is not None:
            heading_rad = number_of(offset, "hdg", 0.0)
            turn[:2, :2] = [[np.cos(heading_rad), -np.sin(heading_rad)], [np.sin(heading_rad), np.cos(heading_rad)]]
            turn[:3, 3] = [number_of(offset, axis, 0.0) for axis in "xyz"]
        return world_at(latitude_deg, longitude_deg) @ turn, []

    def _add_control(self, control: ExchangedControl) -> None:
        if control.control_id in self.controls:
            raise ValueError(f"two signals or objects have the id {control.control_id!r:.60}; change one of them")
        self.controls[control.control_id] = control


def _limit_of(road: _Road, lane: Element, start_m: float) -> float | None:
    """Return the speed limit of a lane at its start, or that of its road there, or None."""
    speeds = lane.findall("speed")
    if not speeds:
        types = [each for each in road.element.findall("type") if number_of(each, "s", 0.0) <= start_m + 1e-6]
        speeds = [] if not types else types[-1].findall("speed")
    if not speeds or speeds[0].get("max", "") in ("no limit", "undefined"):
        return None
    unit = speeds[0].get("unit", "m/s")
    if unit not in _MPS_OF_UNIT:
        raise ValueError(f"the unit of a speed must be one of {', '.join(_MPS_OF_UNIT)}, got {unit!r:.40}")
    limit_mps = number_of(speeds[0], "max") * _MPS_OF_UNIT[unit]
    return limit_mps if limit_mps > 0 else None


def _may_cross(lane: Element, direction: str) -> bool:
    """Return whether the mark of a lane allows changes towards increasing or decreasing ids; no mark allows both."""
    mark = lane.find("roadMark")
    return mark is None or mark.get("laneChange", "both") in ("both", direction)


def _user_data(element: Element, code: str) -> str | None:
    return next(iter(_all_user_data(element, code)), None)


def _all_user_data(element: Element, code: str) -> list[str]:
    return [each.get("value", "") for each in element.findall("userData") if each.get("code") == code]
